# SPDX-License-Identifier: Apache-2.0
"""Accuracy before and under attack of every defence of a run, as one JSON line, from its records alone.

    dualmask bench experiments/smoothing.toml
    python benchmarks/defences.py results/smoothing
"""

import argparse
import json
import sys
from pathlib import Path

from dualmask.evaluation.detection import detection
from dualmask.evaluation.metrics import robustness
from dualmask.evaluation.records import CellRecords, read_cells


def row(one: CellRecords) -> dict[str, object]:
    counts = robustness(one.results)
    about = one.header.get("about")
    hardware = about.get("hardware", {}) if isinstance(about, dict) else {}
    found: dict[str, object] = {
        **one.cell.as_dict(), "texts": counts.texts, "right": counts.right, "held": counts.right - counts.flipped,
        "gpu": hardware.get("gpu")}
    threshold = one.header.get("threshold")
    if isinstance(threshold, float):
        told = detection(one.results, threshold)
        found["detection"] = {name: None if value is None else round(float(value), 4) for name, value in (
            ("f1", told.f1), ("auroc", told.auroc), ("detected", told.true_positive_rate),
            ("false_alarms", told.false_positive_rate))}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    cells = read_cells(parser.parse_args().results)
    for problem in cells.problems:
        sys.stderr.write(f"left out: {problem}\n")
    sys.stdout.write(json.dumps({"benchmark": "defences", "cells": [row(one) for one in cells.cells]}) + "\n")


if __name__ == "__main__":
    main()
