# SPDX-License-Identifier: Apache-2.0
"""How long the rest of a grid may take, by what cells and trainings of the same kind really took."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dualmask.defences import build_defence
from dualmask.evaluation.plan import Job, Plan
from dualmask.evaluation.records import TRANSFER, Cell
from dualmask.evaluation.standing import MODELS, Standing
from dualmask.storage import DESCRIPTION


@dataclass(frozen=True)
class TimeLeft:
    """An estimate, and what it does not cover because nothing like it was measured yet."""

    seconds: float
    cells: int = 0
    trainings: int = 0

    @property
    def unknown(self) -> bool:
        return bool(self.cells or self.trainings)


@dataclass(frozen=True)
class CellLeft:
    """A cell that is not finished."""

    cell: Cell
    texts: int | None  # that it lacks; None where it is not known
    done: int = 0  # texts that ended since it was begun in this run
    elapsed: float | None = None  # seconds since then; None: it waits


class Pace:
    """Seconds for a text of a cell, and for a training, as far as comparable ones were measured.

    costs: what an answer of each cell's classifier costs, in passes: a defence of ten views takes ten times as long
    under the same attack as one of one view.
    """

    def __init__(self, costs: Mapping[Cell, float] | None = None) -> None:
        self.costs = dict(costs or {})
        self.cells: dict[Cell, tuple[float, float]] = {}  # texts and seconds
        self.trainings: dict[tuple[str, str, str], list[float]] = {}

    def learn_cell(self, cell: Cell, texts: int, seconds: float) -> None:
        """What was measured last counts: it is of this machine."""
        if texts > 0 and seconds > 0:
            self.cells[cell] = float(texts), seconds

    def learn_training(self, job: Job, seconds: float) -> None:
        self.trainings.setdefault(training_kind(job), []).append(seconds)

    def seconds_a_text(self, cell: Cell) -> float | None:
        """Of cells that differ in the seed alone or, where there are none, of other defences by what answers cost."""
        for same in (same_classifier, same_attack, same_mode):
            measured = [(texts * self.costs.get(one, 1.0) / self.costs.get(cell, 1.0), seconds)
                        for one, (texts, seconds) in self.cells.items() if same(one, cell)]
            if measured:
                return sum(seconds for _, seconds in measured) / sum(texts for texts, _ in measured)
        return None

    def seconds_left(self, one: CellLeft) -> float | None:
        """Of a cell that is under way also by how far it is, once half of it is done: easy texts end first."""
        if one.texts is None:
            return None
        usual = self.seconds_a_text(one.cell)
        if one.elapsed is None:
            return None if usual is None else usual * one.texts
        expected = None if usual is None else usual * (one.texts + one.done) - one.elapsed
        if one.done >= one.texts or (expected is not None and expected < 0 < one.done):
            return one.elapsed * one.texts / max(1, one.done)
        return expected if expected is None else max(0.0, expected)

    def left(self, cells: Iterable[CellLeft], jobs: Sequence[Job], *, at_once: int = 1) -> TimeLeft:
        """For cells that are not finished, and for classifiers that are to be trained; at_once: of how many."""
        told = [self.seconds_left(one) for one in cells]
        trainings = [self.trainings.get(training_kind(job)) for job in jobs]
        seconds = sum(one for one in told if one is not None) + sum(sum(one) / len(one) for one in trainings if one)
        return TimeLeft(seconds / max(1, at_once), told.count(None), trainings.count(None))


def training_kind(job: Job) -> tuple[str, str, str]:
    """Trainings that take about the same time: of the same defence, whose way may cost many times the plain one."""
    return job.data.name, job.encoder.name, (job.base or job.defence).name


def same_classifier(one: Cell, other: Cell) -> bool:
    return (one.data, one.encoder, one.defence, one.attack, one.mode, one.scores) == (
        other.data, other.encoder, other.defence, other.attack, other.mode, other.scores)


def same_attack(one: Cell, other: Cell) -> bool:
    return (one.data, one.encoder, one.attack, one.mode) == (other.data, other.encoder, other.attack, other.mode)


def same_mode(one: Cell, other: Cell) -> bool:
    """Where texts are only shown, it does not matter which attack has made them."""
    return one.mode in TRANSFER and (one.data, one.encoder, one.mode) == (other.data, other.encoder, other.mode)


def answer_costs(plan: Plan) -> dict[Cell, float]:
    """Passes for one answer that the search asks for, of each cell's classifier."""
    found: dict[Cell, float] = {}
    for job in plan.jobs:
        chosen = job.defence
        defence = build_defence(chosen.defence, preset=chosen.preset, options=chosen.options)
        draws = (chosen.eot or job.grid.eot) if defence.noise != "none" else 1
        for task in job.tasks:
            found[task.cell] = float(max(1, defence.views) * (1 if task.cell.mode in TRANSFER else draws))
    return found


def known_pace(plan: Plan, standings: Mapping[Cell, Standing], out: Path) -> Pace:
    """The pace of what a folder holds: of finished cells, since in others the texts that end soonest are there."""
    pace = Pace(answer_costs(plan))
    for cell, found in standings.items():
        if found.finished:
            pace.learn_cell(cell, found.texts, found.seconds)
    for job in plan.jobs:
        if (seconds := training_seconds(out / MODELS / job.name)) is not None:
            pace.learn_training(job, seconds)
    return pace


def training_seconds(folder: Path) -> float | None:
    """What training a saved classifier took; None where there is none, or it does not say."""
    try:
        told = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))["training"]["seconds"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return float(told) if isinstance(told, int | float) else None
