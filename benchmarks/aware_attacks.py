# SPDX-License-Identifier: Apache-2.0
"""What does knowing the defence bring? Attacks that know it beside their ordinary counterparts, on one defended model.

    python benchmarks/aware_attacks.py MODEL DATA --texts 60

MODEL is a classifier saved with the defence ddm, DATA labelled texts. Every attack asks the defended model about the
same texts: once as it is, once with at most a tenth of the words to change. Prints one JSON line.
"""

import argparse
import json
import sys

from dualmask.attacks.running import attack
from dualmask.classifier import DefendedClassifier
from dualmask.evaluation.metrics import robustness
from dualmask.results import tally
from dualmask.text.examples import Text, load_examples

# seethrough's limits, so that HotFlip differs from it by what it knows only
LIKE_SEETHROUGH = {"max_words": None, "max_share": 0.25, "cosine": 0.5, "beam": 4}
ATTACKS: dict[str, dict[str, object]] = {
    "textfooler": {}, "frequent": {}, "deepwordbug": {}, "typist": {}, "steering": {},
    "padding": {}, "hotflip": LIKE_SEETHROUGH, "seethrough": {},
}
FEW: dict[str, object] = {"max_share": 0.1}


def measured(classifier: DefendedClassifier, examples: list[tuple[Text, int]], name: str, **options: object) -> object:
    results = attack(classifier, examples, name, options=options)
    found, counts = robustness(results), tally(results)
    return {"clean": found.right, "held": found.right - found.flipped, "texts": found.texts,
            "queries": round(counts.queries, 1), "changed": counts.changed and round(counts.changed, 3),
            "similarity": counts.similarity and round(counts.similarity, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--texts", type=int, default=60)
    given = parser.parse_args()
    classifier = DefendedClassifier.load(given.model)
    every = load_examples(given.data, labels=classifier.labels, part="test")
    step = max(1, len(every) // given.texts)
    examples = [(example.text, example.label) for example in every[::step][:given.texts]]
    found = {name: {"usual": measured(classifier, examples, name, **options)} for name, options in ATTACKS.items()}
    for name in ("textfooler", "frequent", "deepwordbug", "typist", "steering"):
        found[name]["few_words"] = measured(classifier, examples, name, **{**ATTACKS[name], **FEW})
    sys.stdout.write(json.dumps({
        "benchmark": "aware_attacks", "defence": classifier.defence.name, "device": str(classifier.device),
        "test_rate": classifier.defence.options_as_dict()["test_rate"],
        "encoder": str(classifier.facts.get("encoder")).rpartition("/")[2], "attacks": found}) + "\n")


if __name__ == "__main__":
    main()
