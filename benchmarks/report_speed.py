# SPDX-License-Identifier: Apache-2.0
"""How long a report takes: records made up in a temporary folder are read, analysed and written out.

    python benchmarks/report_speed.py --cells 100 --texts 1000

One line of JSON: seconds for each step, and whether torch was loaded (a report must not need it).
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import islice, product
from pathlib import Path
from typing import TypeVar

from dualmask.evaluation.records import Cell, Mode, read_cells
from dualmask.reporting.report import Report, build_report
from dualmask.reporting.report_latex import latex
from dualmask.reporting.report_markdown import markdown
from dualmask.results import AttackResult, as_line

T = TypeVar("T")
ATTACKS = ("textfooler", "bertattack", "deepwordbug", "textbugger", "pwws")
MODES: tuple[Mode, ...] = ("adaptive", "transfer")
DEFENCES = {"plain": 0.2, "ddm": 0.5, "mi4d": 0.4, "ranmask": 0.3, "rsmi": 0.45}  # shares of texts that hold
WORDS = ("a", "film", "of", "rare", "wit", "and", "warmth", "whose", "plot", "never", "quite", "finds", "the", "end")


def made_up(number: int, words: list[str], hold: float, draw: random.Random) -> AttackResult:
    """A record of the usual size."""
    place, right, holds = draw.randrange(len(words)), draw.random() < 0.9, draw.random() < hold
    changed = [*words[:place], "wiit", *words[place + 1:]]
    outcome = "skipped" if not right else "failed" if holds else "succeeded"
    return AttackResult(
        index=number, text=" ".join(words), label=number % 2, outcome=outcome,  # type: ignore[arg-type]
        adversarial=" ".join(changed) if right else None, clean=number % 2 if right else 1 - number % 2,
        predicted=number % 2 if right and holds else 1 - number % 2, probability=round(draw.uniform(0.5, 1), 4),
        probability_after=round(draw.random(), 4), queries=draw.randint(20, 400), rows=draw.randint(20, 300),
        gradients=0, words=len(words), changed=1, similarity=round(draw.uniform(0.8, 1), 4),
        seconds=round(draw.random(), 4), undefended=number % 2, hidden=((0, 4, 0),), hidden_after=((0, 4, 0),))


def write(folder: Path, cells: int, texts: int) -> int:
    """Make the files; how many bytes they have."""
    total = 0
    for data, seed, mode, attack, defence in islice(product(("mr", "ag_news"), range(5), MODES, ATTACKS, DEFENCES),
                                                    cells):
        cell = Cell(data, "bert-base-uncased", defence, attack, mode, seed)
        common, draw = random.Random(data), random.Random(cell.file_name)  # every cell is about the same texts
        header = {"format": 1, "cell": cell.as_dict(), "texts": texts, "labels": ["a", "b"], "attack": attack,
                  "preset": "textattack-0.3.11", "options": {}, "noise": "none"}
        results = [made_up(number, common.choices(WORDS, k=common.randint(8, 40)), DEFENCES[defence], draw)
                   for number in range(texts)]
        lines = [as_line(header), *(one.as_json() for one in results)]
        path = folder / cell.file_name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
        total += path.stat().st_size
    return total


def timed(seconds: dict[str, float], name: str, work: Callable[[], T]) -> T:
    start = time.perf_counter()
    found = work()
    seconds[name] = round(time.perf_counter() - start, 2)
    return found


def page(report: Report) -> str:
    from dualmask.reporting.page import html

    return html(report)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cells", type=int, default=100)
    parser.add_argument("--texts", type=int, default=1000)
    given = parser.parse_args()
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        size = write(Path(folder), given.cells, given.texts)
        loaded = timed(seconds, "reading", lambda: read_cells(Path(folder)))
    report = timed(seconds, "analysis", lambda: build_report(loaded))
    for name, form in {"markdown": markdown, "latex": latex,
                       **({"html": page} if find_spec("dualmask.reporting.page") else {})}.items():
        timed(seconds, name, lambda form=form: form(report))  # type: ignore[misc]
    sys.stdout.write(json.dumps({
        "benchmark": "report_speed", "records": report.records, "cells": given.cells, "megabytes": round(size / 1e6, 1),
        "seconds": seconds, "total": round(sum(seconds.values()), 2), "torch_loaded": "torch" in sys.modules}) + "\n")


if __name__ == "__main__":
    main()
