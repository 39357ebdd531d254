# SPDX-License-Identifier: Apache-2.0
"""Accuracy before and under attack of every defence of a run: one JSON line from its records, tables from such lines.

    dualmask bench experiments/smoothing.toml
    python benchmarks/defences.py record results/smoothing >> results/defences.jsonl
    python benchmarks/defences.py table results/defences.jsonl smoothing
    dualmask certify MODEL DATA --out certified.jsonl
    python benchmarks/defences.py certified certified.jsonl >> results/benchmarks.jsonl
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from dualmask.evaluation.certified_records import read_certificates, summarise
from dualmask.evaluation.detection import detection
from dualmask.evaluation.metrics import robustness
from dualmask.evaluation.records import CellRecords, read_cells
from dualmask.reporting.entries import entries
from dualmask.reporting.measured_counts import grid_row_names
from dualmask.reporting.reported import load_reported

ENOUGH = 0.9
EXPERIMENTS = Path(__file__).parents[1] / "experiments"


def row(one: CellRecords) -> dict[str, object]:
    counts = robustness(one.results)
    about = one.header.get("about")
    hardware = about.get("hardware", {}) if isinstance(about, dict) else {}
    found: dict[str, object] = {
        **one.cell.as_dict(), "texts": counts.texts, "right": counts.right, "held": counts.right - counts.flipped,
        "gpu": hardware.get("gpu")}
    if (beside := load_reported().attack_of(*entries([one]))) != one.cell.attack:
        found["reported_as"] = beside
    if counts.undone:
        found["undone"] = counts.undone
    if (wanted := one.header.get("samples")) != counts.texts and one.cell.mode == "adaptive":
        found["wanted"] = wanted
    threshold = one.header.get("threshold")
    if isinstance(threshold, float):
        told = detection(one.results, threshold)
        found["detection"] = {name: None if value is None else round(float(value), 4) for name, value in (
            ("f1", told.f1), ("auroc", told.auroc), ("detected", told.true_positive_rate),
            ("false_alarms", told.false_positive_rate))}
    return found


def record(results: Path) -> str:
    cells = read_cells(results)
    for problem in cells.problems:
        sys.stderr.write(f"left out: {problem}\n")
    return json.dumps({"benchmark": "defences", "grid": results.name, "cells": [row(one) for one in cells.cells]})


def certified(file: Path) -> str:
    found = read_certificates(file)
    return json.dumps({"benchmark": "certified", **{name: found.header[name] for name in (
        "defence", "certificate", "selection", "draws", "alpha", "data")}, **asdict(summarise(found.records))})


def percent(cell: Mapping[str, int] | None, what: str = "held") -> str:
    """With the number of texts where some are missing; nothing where many are, since the easy ones end first.

    In brackets, of a defence that draws: what is left if only successes count that most new draws repeat.
    """
    if cell is None or cell["texts"] < ENOUGH * cell.get("wanted", 0):
        return "-"
    short = f" ({cell['texts']} texts)" if "wanted" in cell else ""
    undone = cell.get("undone", 0) if what == "held" else 0
    redrawn = f" ({100 * (cell['held'] + undone) / cell['texts']:.1f})" if undone else ""
    return f"{100 * cell[what] / cell['texts']:.1f}{redrawn}{short}"


def table(file: Path, grid: str) -> Iterator[str]:
    """Markdown: a defence a row, its figures under each attack, and the paper's beside those of adaptive attacks."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    cells = [line for line in lines if line["grid"] == grid][-1]["cells"]
    found = {(one["data"], one["defence"], one["attack"], one["mode"], one["scores"]): one for one in cells}
    attacks, kinds = sorted({key[2] for key in found}), sorted(
        {key[3:] for key in found if "-" not in key[3]}, key=lambda kind: (kind[1] != "raw", kind))
    reported = load_reported()
    made = grid_row_names(EXPERIMENTS / f"{grid}.toml")
    names = {key[2]: one.get("reported_as", key[2]) for key, one in found.items()}
    printed = [attack for attack in attacks if any(cell.attack == names[attack] for cell in reported.cells)]
    for data in sorted({key[0] for key in found}):
        heads = ["defence", "texts", "clean", *(
            f"{mode if scores == 'raw' else scores} `{attack}`" for mode, scores in kinds for attack in attacks)]
        heads += ["reported " + " / ".join(f"`{attack}`" for attack in printed)]
        yield f"\n{data}\n\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}"
        for defence in sorted({key[1] for key in found if key[0] == data}, key=lambda name: (name != "plain", name)):
            first = found[data, defence, attacks[0], "adaptive", "raw"]
            told = [percent(found.get((data, defence, attack, *kind))) for kind in kinds for attack in attacks]
            beside = [(one := reported.find(data, defence, names[attack])) and f"{one.robust:.1f}"
                      for attack in printed]
            yield "| " + " | ".join([f"`{made.get(defence, defence)}`", str(first["texts"]), percent(first, "right"),
                                     *told, " / ".join(one or "-" for one in beside) if any(beside) else "-"]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("record").add_argument("results", type=Path)
    commands.add_parser("certified").add_argument("results", type=Path)
    shown = commands.add_parser("table")
    shown.add_argument("file", type=Path)
    shown.add_argument("grid")
    args = parser.parse_args()
    for line in (table(args.file, args.grid) if args.command == "table" else [
            (record if args.command == "record" else certified)(args.results)]):
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
