# SPDX-License-Identifier: Apache-2.0
"""How often does padding around an insult evade windows under any:LABEL, and what do short windows cost?

    python benchmarks/padding.py MODEL TEST --label rotten [--labels 0,1] [--lengths 64 32 16 8] [--texts 200]

Prints one JSON line a length, the longest first. Each insult, which the model answers with LABEL when it stands alone,
is written between so many words of two kinds of padding on either side; evaded: another label is answered. Accuracy is
that on texts of TEST drawn at random, in percent, and of each class by itself. All windows are read, however many.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from dualmask import DefendedClassifier
from dualmask.attacks.running import sampled
from dualmask.evaluation.clean_scores import evaluate_clean
from dualmask.text.examples import read_examples
from dualmask.text.input_choices import InputChoices
from dualmask.windows import Windows

INSULTS = ("a dull, awful film", "an unfunny, boring mess .", "terrible", "bad, lifeless and dull")
PADDINGS = ("fine ", "wonderful moving ")
COUNTS = (10, 20, 30, 58, 100, 400)  # how often the padding stands before the insult, and behind it
MOST = 10_000  # windows: none of these texts has as many


def padded_texts(insults: Sequence[str]) -> list[str]:
    return [padding * count + insult + " " + padding * count
            for insult in insults for padding in PADDINGS for count in COUNTS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("test")
    parser.add_argument("--label", required=True)
    parser.add_argument("--labels", help="what TEST calls the classes, by commas")
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 32, 16, 8])
    parser.add_argument("--texts", type=int, default=200)
    args = parser.parse_args()
    classifier = DefendedClassifier.load(args.model)
    examples = read_examples(args.test, args.labels.split(",") if args.labels else classifier.labels,
                             InputChoices())
    chosen = [examples[place] for place in sampled(examples, args.texts, 0)]
    trials = padded_texts([insult for insult in INSULTS if classifier.predict([insult]).labels == [args.label]])
    for length in sorted(args.lengths, reverse=True):
        classifier.windows = Windows(f"any:{args.label}", most=MOST, length=length)
        found = classifier.predict(trials)
        scores = evaluate_clean(classifier, chosen)
        sys.stdout.write(json.dumps({
            "benchmark": "padding", "encoder": classifier.facts.get("encoder"), "defence": classifier.defence.name,
            "max_length": classifier.encode.max_length, "rule": classifier.windows.rule, "length": length,
            "trials": len(trials), "evaded": sum(label != args.label for label in found.labels),
            "cut": int(found.cut.sum()) if found.cut is not None else 0, "texts": scores.texts,
            "clean": round(100 * scores.accuracy, 1),
            "recalls": {label: round(100 * share, 1) for label, share in scores.confusion.recalls.items()},
        }) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
