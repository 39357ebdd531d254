# SPDX-License-Identifier: Apache-2.0
"""How much slower is a prediction with ddm-restore than with the bare network, in batches of 32?

    python benchmarks/restored_prediction.py [--encoder minilm] [--data rotten-tomatoes] [--rows 100] [--rounds 10]

Prints one JSON line. Each round has texts that were not seen before, so that nothing about them is remembered: as they
are, and with three in ten words misspelt, whose sources must be looked for. Both ways take turns; ratios are medians.
OMP_NUM_THREADS sets the network's threads; reading has one.
"""

import argparse
import json
import random
import statistics
import sys
import time

import torch

from dualmask import DefendedClassifier, build_defence, load_dataset
from dualmask.models.encoders import load_encoder
from dualmask.text.substitutes import rewritten

LIMIT = 1.3


def seconds(classifier: DefendedClassifier, texts: list[str], *, defended: bool) -> float:
    started = time.perf_counter()
    classifier.predict(texts, defended=defended, batch_size=32)
    return time.perf_counter() - started


def misspelt(text: str, draw: random.Random) -> str:
    """With two letters swapped in three of ten words."""
    def word(written: str) -> str:
        if len(written) < 3 or draw.random() > 0.3:
            return written
        place = draw.randrange(len(written) - 1)
        return written[:place] + written[place + 1] + written[place] + written[place + 2:]

    return str(rewritten(text, word))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--data", default="rotten-tomatoes")
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    data = load_dataset(args.data)
    model, tokenizer = load_encoder(args.encoder, data.labels)
    classifier = DefendedClassifier(model, tokenizer, build_defence("ddm-restore"), labels=data.labels)
    started = time.perf_counter()
    classifier.fit_defence(data.train)
    fitted = time.perf_counter() - started
    texts = [str(example.text) for example in data.test or data.train]
    seconds(classifier, texts[:32], defended=True)
    ratios: dict[str, list[float]] = {"clean": [], "misspelt": []}
    for number in range(args.rounds):
        part = texts[32 + number * args.rows:32 + (number + 1) * args.rows]
        tried = {"clean": part, "misspelt": [misspelt(text, random.Random(number)) for text in part]}
        for name, those in tried.items():
            bare = seconds(classifier, those, defended=False)
            ratios[name].append(seconds(classifier, those, defended=True) / bare)
    sys.stdout.write(json.dumps({
        "benchmark": "restored_prediction", "device": str(classifier.device), "threads": torch.get_num_threads(),
        "encoder": args.encoder, "data": data.name, "texts": args.rows * args.rounds, "limit": LIMIT,
        "fit_seconds": round(fitted, 2), "training_texts": len(data.train),
        **{f"{name}_over_bare": round(statistics.median(rows), 3) for name, rows in ratios.items()}}) + "\n")


if __name__ == "__main__":
    main()
