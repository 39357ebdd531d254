# SPDX-License-Identifier: Apache-2.0
"""What does adversarial training cost against plain training, and is it what its number of passes says?

    python benchmarks/training_cost.py [--encoder minilm] [--data rotten-tomatoes] [--batches 12] [--rounds 5]

Prints one JSON line. All defences take turns on the same batches in one process; ratios are medians over the rounds. A
method that sends a text through the network K times should take K times as long, not more. What it keeps of its
examples (FAT) is kept.
"""

import argparse
import json
import statistics
import sys
import time
from dataclasses import replace
from functools import partial

import torch

from dualmask import DefendedClassifier, build_defence, load_dataset
from dualmask.devices import default_device
from dualmask.models.encoders import load_encoder
from dualmask.seeds import seed_layers
from dualmask.text.examples import Dataset

KINDS = {"plain": ("plain", {}), "freelb, 3 steps": ("freelb", {"steps": 3}),
         "freelb++, 10 steps": ("freelb++", {"steps": 10}), "fat": ("fat", {}), "ddm+freelb, 3 steps": (
             "ddm+freelb", {"steps": 3})}


def classifier(kind: str, options: dict[str, object], data: Dataset, encoder: str) -> DefendedClassifier:
    model, tokenizer = load_encoder(encoder, data.labels)
    found = DefendedClassifier(model, tokenizer, build_defence(kind, options=options), labels=data.labels)
    found.fit_defence(data.train[:500])
    return found.to(default_device())


def epoch(found: DefendedClassifier, data: Dataset, batches: int) -> float:
    """Seconds for so many batches of 32, with an optimiser's step each."""
    network, defence = found.network.train(), found.defence
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-5)
    started = time.perf_counter()
    for number in range(batches):
        texts, labels = zip(*data.train[32 * number:32 * number + 32], strict=True)
        seed_layers(0, "layers", number)
        batch = defence.training_view(texts, labels, found.encode, torch.Generator())
        batch = replace(batch, examples=torch.arange(32 * number, 32 * number + len(texts))).to(found.device)
        defence.learn(partial(defence.loss, network), batch, lambda loss: loss.backward())  # type: ignore[no-untyped-call]
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    if found.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--data", default="rotten-tomatoes")
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    data = load_dataset(args.data)
    ready = {name: classifier(kind, dict(options), data, args.encoder) for name, (kind, options) in KINDS.items()}
    for found in ready.values():
        epoch(found, data, 2)  # warm up
        found.network.take_texts()
    rounds = [{name: epoch(found, data, args.batches) for name, found in ready.items()} for _ in range(args.rounds)]
    texts, costs = len(data.train[:32 * args.batches]) * args.rounds, {}
    for name, found in ready.items():
        forwards, backwards = found.network.take_texts()
        passes = (forwards + backwards) / (2 * texts)
        ratio = statistics.median(row[name] / row["plain"] for row in rounds)
        costs[name] = {"passes": passes, "times_plain": round(ratio, 3), "times_plain_over_passes": round(
            ratio / passes, 3)}
    sys.stdout.write(json.dumps({
        "benchmark": "training_cost", "device": str(next(iter(ready.values())).device), "encoder": args.encoder,
        "threads": torch.get_num_threads(), "batches": args.batches, "rounds": args.rounds, "limit": 1.15,
        "defences": costs}) + "\n")


if __name__ == "__main__":
    main()
