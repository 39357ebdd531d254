# SPDX-License-Identifier: Apache-2.0
"""What defences cost, from training to the report."""

from collections.abc import Callable
from pathlib import Path

import pytest
from test_page import built, cell, result

from dualmask.evaluation.records import CellRecords
from dualmask.reporting.page import html
from dualmask.reporting.report_tables import defence_cost_rows, markdown
from dualmask.text.examples import Dataset
from dualmask.training import train

SHORT = {"epochs": 2, "max_length": 40, "learning_rate": 1e-3, "batch_size": 16, "seed": 3}


def facts(forwards: object, backwards: object, steps: object = 10, **more: object) -> dict[str, object]:
    cost = {"forward_passes": forwards, "backward_passes": backwards, "seconds_per_epoch": 4.0, "peak_memory_mb": 100.0}
    return {"training": {"steps": steps, "cost": cost}, "hardware": {"cores": 2, "gpu": "H"}, **more}


def some() -> list[CellRecords]:
    texts = [result(number, "succeeded" if number % 3 else "failed") for number in range(9)]
    return [cell("plain", "textfooler", texts, about=facts(10, 10), passes="1"),
            cell("freelb", "textfooler", texts, about=facts(30, 30), passes="1"),
            cell("ranmask", "textfooler", texts, about=facts(10, 10), passes="100"),
            cell("rsmi", "textfooler", texts, about=facts(20, 10), passes="5 to 55")]


def test_passes_are_counted_for_each_batch() -> None:
    found = {one.defence: one for one in built(some()).costs}
    assert (found["freelb"].forwards, found["freelb"].backwards, found["freelb"].training) == (3, 3, 6)
    assert (found["rsmi"].training, found["rsmi"].inference, found["ranmask"].inference) == (3, 55, 100)
    assert found["plain"].seconds == 4 and found["plain"].hardware == "H"


def test_seeds_are_averaged() -> None:
    texts = [result(0)]
    both = [cell("freelb", "textfooler", texts, seed=seed, about=facts(20 + 20 * seed, 20)) for seed in (0, 1)]
    one, = built(both).costs
    assert one.forwards == 3 and one.backwards == 2


@pytest.mark.parametrize("about", [{}, {"training": 3}, {"training": {"cost": []}}, facts("x", None),
                                   facts(3, 3, 0), facts(float("nan"), -1, "ten"), {"hardware": 7}])
def test_records_that_tell_nothing_make_no_figures(about: dict[str, object]) -> None:
    one, = built([cell("freelb", "textfooler", [result(0)], about=about)]).costs
    assert one.training is None or one.forwards is None
    assert "What defences cost" in markdown(built([cell("freelb", "textfooler", [result(0)], about=about)]))


def test_the_report_shows_both_costs() -> None:
    report = built(some())
    rows = defence_cost_rows(report)
    assert rows[0][3] == "passes for an answer" and ["5 to 55", "2.00", "1.00"] in [row[3:6] for row in rows]
    page = html(report)
    assert "Training cost against accuracy under attack" in page and "Cost of an answer against" in page
    alike = html(built([one for one in some() if one.cell.defence == "plain"]))
    assert "Training cost against" not in alike  # nothing to compare


@pytest.mark.parametrize(("defence", "options", "forwards", "backwards"), [
    ("plain", {}, 1, 1), ("ddm", {}, 1, 1), ("freelb", {"steps": 3}, 3, 3), ("freelb++", {"steps": 4}, 4, 4),
    ("fat", {}, 2, 2)])
def test_training_counts_its_passes(
    defence: str, options: dict[str, object], forwards: int, backwards: int, tiny: Callable[[str], Path], data: Dataset,
) -> None:
    found = train(data, encoder=tiny("bert"), defence=defence, options=options, training=SHORT, progress=False).facts
    cost, steps = found["cost"], found["steps"]
    assert isinstance(cost, dict) and isinstance(steps, int)
    assert (cost["forward_passes"], cost["backward_passes"]) == (forwards * steps, backwards * steps)
    assert cost["seconds_per_epoch"] > 0 and cost["peak_memory_mb"] > 10
