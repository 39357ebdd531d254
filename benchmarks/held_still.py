# SPDX-License-Identifier: Apache-2.0
"""What does a vote hold by itself, and what does its noise hide? Attacks on validation texts; no test part is read.

    python benchmarks/held_still.py MODEL DATA [--defence ddm-restore] [--texts 40] [--attacks bertattack textfooler]
        [--option vote_swaps=0.5 ...] [--rows 4000] [--epochs 4]

MODEL is the folder of a classifier whose defence can vote; it is trained first, with `minilm`, on so many training
texts, if there is none. Prints one JSON line for each attack: percent of texts that are answered rightly, before the
attack and after it, by one view and by the vote of ten; of the vote also where the attack sees its draws held still.
Options are of the vote at inference; the classifier stays as it is.
"""

import argparse
import json
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dualmask import DefendedClassifier, load_dataset, train
from dualmask.attacks import build_attack
from dualmask.evaluation.grid import DefenceEntry
from dualmask.evaluation.material import asked_otherwise
from dualmask.evaluation.protocol import Protocol, evaluate
from dualmask.evaluation.records import Cell, Scores
from dualmask.options import parse_assignments
from dualmask.text.examples import Dataset, Example

CHECKED = 300  # validation texts that training looks at
ROWS: dict[str, tuple[bool, Scores]] = {  # whether it votes, and what the attack sees
    "one view": (False, "raw"), "vote": (True, "raw"), "vote, draws held still": (True, "still")}


def trained(folder: Path, data: Dataset, defence: str, *, rows: int, epochs: int) -> DefendedClassifier:
    if not folder.exists():
        draw = random.Random(0)
        part = replace(data, train=draw.sample(list(data.train), min(rows, len(data.train))), test=None,
                       validation=draw.sample(list(data.validation or []), CHECKED))
        train(part, encoder="minilm", defence=defence, training={"epochs": epochs}, out=folder, progress=False)
    return DefendedClassifier.load(folder)


def voting(made: DefendedClassifier, votes: int, data: Dataset, options: Mapping[str, object]) -> DefendedClassifier:
    """One view shows its probabilities, as a vote of one would not."""
    entry = DefenceEntry(name="vote", defence=made.defence.name, preset="recommended",
                         options={"votes": votes, "decision": "vote" if votes > 1 else "mean", **options})
    few = list(data.validation or [])[:1]
    return asked_otherwise(made, entry, replace(data, validation=few, test=few), named=made.defence.name)


def left(
    classifier: DefendedClassifier, texts: Sequence[Example], method: str, scores: Scores, preset: str | None = None,
) -> tuple[float, float]:
    """Percent right before and after."""
    found = evaluate(Cell("data", "encoder", "defence", method, "adaptive", 0, scores), classifier, texts,
                     build_attack(method, preset=preset), out=None,
                     protocol=Protocol(samples=None, eot=1, draws=0, measure=None))
    held = sum(str(one.outcome) in ("failed", "unconfirmed") for one in found)
    right = sum(one.clean == one.label for one in found)
    return round(100 * right / len(texts), 1), round(100 * held / len(texts), 1)


def arguments(about: str | None, *, texts: int) -> argparse.ArgumentParser:
    """Of a classifier, trained first if it is not there, and the number of texts to attack."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data")
    parser.add_argument("--defence", default="ddm-restore")
    parser.add_argument("--texts", type=int, default=texts)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=4)
    return parser


def main() -> None:
    parser = arguments(__doc__, texts=40)
    parser.add_argument("--attacks", nargs="+", default=["bertattack", "textfooler"])
    parser.add_argument("--option", nargs="+", default=[])
    args = parser.parse_args()
    data = load_dataset(args.data)
    made = trained(args.model, data, args.defence, rows=args.rows, epochs=args.epochs)
    options = parse_assignments(args.option)
    single, ten = (voting(made, count, data, options) for count in (1, 10))
    texts = random.Random(1).sample(list(data.validation or []), args.texts)
    for method in args.attacks:
        found = {name: left(ten if votes else single, texts, method, scores) for name, (votes, scores) in ROWS.items()}
        sys.stdout.write(json.dumps({
            "benchmark": "held_still", "defence": made.defence.name, "data": data.name, "attack": method,
            "encoder": made.facts["encoder"], "options": options, "texts": len(texts),
            "training_texts": made.facts["rows"]["train"],  # type: ignore[index]
            "right": {name: before for name, (before, _) in found.items()},
            "left": {name: after for name, (_, after) in found.items()}}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
