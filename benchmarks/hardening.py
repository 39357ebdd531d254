# SPDX-License-Identifier: Apache-2.0
"""What does a defence bring around a network that was trained without it? Rows of one table, one JSON line each.

    python benchmarks/hardening.py run [--model FOLDER] [--texts 40] [--clean 400] [--only NAME ...] [--attacks A ...]
    python benchmarks/hardening.py table RECORDS

`run` trains the plain classifier of the demo (its data, encoder and settings; --model: takes that one instead), puts
each of the defences below around it, whose weights stay as they are, counts right answers on test texts that nobody
changed, and attacks the first of them, drawn by seed 0, with the defence on: the attacks ask it. `table` prints the
lines of a file as a table.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from dualmask import DefendedClassifier, attack, train
from dualmask.attacks.running import sampled
from dualmask.defences import build_defence
from dualmask.evaluation.material import load_data
from dualmask.integration import wrap_network
from dualmask.quickstart import quick_grid
from dualmask.results import HELD
from dualmask.text.examples import Dataset

ATTACKS = ("deepwordbug", "textbugger", "textfooler")
ROWS = {  # by name: defence and preset
    "nothing": ("plain", "recommended"), "ddm": ("ddm", "recommended"),
    "ddm-restore (restore)": ("ddm-restore", "restore"), "ddm-restore": ("ddm-restore", "recommended"),
    "ddm-restore (vote)": ("ddm-restore", "vote"),
}


def trained(folder: Path | None, data: Dataset) -> DefendedClassifier:
    """The plain classifier of the demo."""
    if folder is not None:
        return DefendedClassifier.load(folder)
    grid = quick_grid()
    with TemporaryDirectory() as out:
        return train(data, encoder=grid.encoders[0].source, defence="plain", training={**grid.training, "seed": 0},
                     out=Path(out, "plain"), progress=False)


def measured(name: str, plain: DefendedClassifier, data: Dataset, given: argparse.Namespace) -> dict[str, object]:
    defence, preset = ROWS[name]
    began = time.perf_counter()
    classifier = plain if defence == "plain" else wrap_network(
        plain.model, plain.encode.tokenizer, build_defence(defence, preset=preset), labels=plain.labels,
        max_length=plain.encode.max_length, facts={}, texts=data.train, validation=data.validation or [])
    classifier.to(plain.device)
    set_up = time.perf_counter() - began
    test = data.test or []
    chosen = [test[place] for place in sampled(test, given.clean, 0)]
    began = time.perf_counter()
    answers = classifier.predict([example.text for example in chosen]).probabilities.argmax(dim=1)
    seconds = time.perf_counter() - began
    right = int((answers == torch.tensor([example.label for example in chosen])).sum())
    row: dict[str, Any] = {
        "name": name, "defence": defence, "preset": preset, "encoder": quick_grid().encoders[0].name,
        "data": data.name, "train_texts": len(data.train), "set_up_seconds": round(set_up, 1),
        "clean": {"texts": len(chosen), "right": right}, "seconds_per_text": round(seconds / len(chosen), 5),
        "attacks": {}}
    for attack_name in given.attacks:
        results = attack(classifier, [tuple(example) for example in test], attack_name, samples=given.texts, seed=0,
                         measure=None)
        row["attacks"][attack_name] = {"texts": len(results), "held": sum(one.outcome in HELD for one in results)}
        sys.stderr.write(json.dumps(row) + "\n")
    return row


def run(given: argparse.Namespace) -> None:
    data = load_data(quick_grid().data[0])
    plain = trained(given.model, data)
    for name in given.only or ROWS:
        sys.stdout.write(json.dumps(measured(name, plain, data, given)) + "\n")
        sys.stdout.flush()


def table(records: Path) -> str:
    """The rows as Markdown, in percent."""
    rows = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()]
    attacks = list(dict.fromkeys(name for row in rows for name in row["attacks"]))
    texts = rows[0]["clean"]["texts"]
    lines = [f"| around it | clean ({texts}) | {' | '.join(attacks)} |", "|" + "---|" * (len(attacks) + 2)]
    for row in rows:
        clean = f"{100 * row['clean']['right'] / row['clean']['texts']:.1f}"
        lines.append(f"| {row['name']} | {clean} | {' | '.join(share(row['attacks'].get(name)) for name in attacks)} |")
    return "\n".join(lines)


def share(found: Mapping[str, int] | None) -> str:
    return "-" if found is None else f"{100 * found['held'] / found['texts']:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    runner.add_argument("--model", type=Path)
    runner.add_argument("--texts", type=int, default=40)
    runner.add_argument("--clean", type=int, default=400)
    runner.add_argument("--only", nargs="+", choices=ROWS)
    runner.add_argument("--attacks", nargs="+", default=list(ATTACKS))
    runner.set_defaults(work=run)
    writer = commands.add_parser("table")
    writer.add_argument("records", type=Path)
    writer.set_defaults(work=lambda given: sys.stdout.write(table(given.records) + "\n"))
    given = parser.parse_args()
    given.work(given)


if __name__ == "__main__":
    main()
