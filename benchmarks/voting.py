# SPDX-License-Identifier: Apache-2.0
"""How many passes does a vote save that ends when its winner is certain, and are the labels the same?

    python benchmarks/voting.py MODEL DATA [--texts 500] [--rounds 3] [--votes 100]

Prints one JSON line. MODEL is a saved classifier whose defence votes. Whole and early votes take turns on the same
clean texts; times are ratios within a round, their median over the rounds.
"""

import argparse
import json
import statistics
import sys
import time

from dualmask import DefendedClassifier, load_dataset
from dualmask.classifier import Predictions
from dualmask.evaluation.certification import under


def timed(classifier: DefendedClassifier, texts: list[str], *, early: bool) -> tuple[Predictions, float]:
    started = time.perf_counter()
    found = classifier.predict(texts, early=early)
    return found, time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--votes", type=int, help="the model's own number unless given")
    args = parser.parse_args()
    classifier, data = DefendedClassifier.load(args.model), load_dataset(args.data)
    if args.votes:
        classifier = under(classifier, classifier.defence.name, options={"votes": args.votes})
    texts = [str(example.text) for example in (data.test or data.train)[:args.texts]]
    ratios, same, passes = [], True, 0
    for _ in range(args.rounds):
        (whole, slow), (early, quick) = (timed(classifier, texts, early=early) for early in (False, True))
        same &= whole.labels == early.labels
        passes = int(early.passes.sum()) if early.passes is not None else 0
        ratios.append(slow / quick)
    defence = classifier.defence
    sys.stdout.write(json.dumps({
        "benchmark": "voting", "defence": defence.name, "options": defence.options_as_dict(), "data": data.name,
        "device": str(classifier.device), "encoder": classifier.facts.get("encoder"), "texts": len(texts),
        "views": defence.views, "passes_a_text": round(passes / len(texts), 2),
        "share_of_passes": round(passes / len(texts) / defence.views, 4), "limit": 0.6, "same_labels": same,
        "whole_over_early_seconds": round(statistics.median(ratios), 3)}) + "\n")


if __name__ == "__main__":
    main()
