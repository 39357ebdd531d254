# SPDX-License-Identifier: Apache-2.0
"""How much slower is a DDM prediction than the bare network, and how much faster than transformers' own pipeline?

    python benchmarks/prediction.py [--encoder minilm] [--data rotten-tomatoes] [--rows 1000]

Prints one JSON line. All ways of predicting take turns in one process, several rounds; the ratios are medians over the
rounds, so a machine that is busy now and then disturbs them little.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable

from dualmask import defend, load_dataset
from dualmask.classifier import default_device
from dualmask.models.encoders import load_encoder


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--data", default="rotten-tomatoes")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    import torch
    from transformers import pipeline
    from transformers.utils import logging

    logging.set_verbosity_error()
    data = load_dataset(args.data)
    texts = [str(example.text) for example in [*(data.test or []), *data.train][:args.rows]]
    model, tokenizer = load_encoder(args.encoder, data.labels)
    classifier = defend(model, tokenizer, [example.text for example in data.train], defence="ddm").to(default_device())
    pipe = pipeline("text-classification", model=classifier.model, tokenizer=tokenizer, device=classifier.device)
    limits = {"truncation": True, "max_length": classifier.encode.max_length}
    ways: dict[str, Callable[[], object]] = {
        "undefended": lambda: classifier.predict(texts, defended=False),
        "defended": lambda: classifier.predict(texts),
        "pipeline": lambda: pipe(texts, **limits),
        "pipeline_batch_32": lambda: pipe(texts, batch_size=32, **limits),
    }
    for work in ways.values():
        work()  # warm up
    rounds = [{name: seconds(work) for name, work in ways.items()} for _ in range(args.rounds)]

    def ratio(over: str, under: str) -> float:
        return round(statistics.median(row[over] / row[under] for row in rounds), 3)

    result = {
        "benchmark": "prediction", "device": str(classifier.device), "threads": torch.get_num_threads(),
        "encoder": args.encoder, "texts": len(texts),
        "defended_over_undefended": ratio("defended", "undefended"), "limit": 1.05,
        "pipeline_over_defended": ratio("pipeline", "defended"),
        "pipeline_batch_32_over_defended": ratio("pipeline_batch_32", "defended"),
        "texts_per_second": round(len(texts) / statistics.median(row["defended"] for row in rounds), 1)}
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
