# SPDX-License-Identifier: Apache-2.0
"""How far a grid is: what its folder holds already, and how long the rest may take by what was measured there."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from dualmask.attacks import build_attack
from dualmask.defences import build_defence, preset_training
from dualmask.errors import DualmaskError
from dualmask.evaluation.grid import Grid
from dualmask.evaluation.material import unfinished
from dualmask.evaluation.plan import Job, Plan, Task
from dualmask.evaluation.records import RECORDS, Cell
from dualmask.results import FAULTS, AttackResult, difference, read_results
from dualmask.storage import DESCRIPTION

MODELS = "models"


class Standing(NamedTuple):
    """Of one cell."""

    texts: int = 0  # that are done
    wanted: int | None = None  # as far as it is known before the cell was begun
    right: int = 0
    flipped: int = 0
    faults: int = 0
    seconds: float = 0.0
    ordered: bool = True
    problem: str = ""  # why the cell can't be gone on with

    @property
    def finished(self) -> bool:
        """All texts are there, none of them with a fault, in the data's order."""
        return self.texts == self.wanted and not self.faults and self.ordered and not self.problem

    @property
    def begun(self) -> bool:
        return self.texts > 0 or self.wanted is not None

    def plus(self, result: AttackResult) -> "Standing":
        if result.outcome in FAULTS:
            return self._replace(texts=self.texts + 1, faults=self.faults + 1)
        return self._replace(
            texts=self.texts + 1, right=self.right + (result.outcome != "skipped"),
            flipped=self.flipped + (result.outcome == "succeeded"), seconds=self.seconds + result.seconds)


def survey(grid: Grid, plan: Plan, out: Path) -> dict[Cell, Standing]:
    """The standing of every cell, out of the records."""
    return {task.cell: standing(record_path(out, task.cell), settings_of(grid, job, task))
            for job in plan.jobs for task in job.tasks}


def record_path(out: Path, cell: Cell) -> Path:
    return out / RECORDS / cell.file_name


def settings_of(grid: Grid, job: Job, task: Task) -> dict[str, object]:
    """What a cell's header must say, as far as the grid alone tells it; the rest is checked with the classifier."""
    entry, chosen = task.attack, job.defence
    attack = build_attack(entry.attack, preset=entry.preset, options=entry.options)
    defence = build_defence(chosen.defence, preset=chosen.preset, options=chosen.options)
    training = preset_training(chosen.defence, chosen.preset, {**chosen.training, "seed": job.seed})
    found = {"cell": task.cell.as_dict(), "attack": attack.name, "preset": entry.preset,
             "options": attack.options_as_dict(), "seed": grid.attack_seed, "samples": entry.samples or grid.samples,
             "sample_seed": grid.sample_seed, "measure": None if grid.measure == "none" else grid.measure,
             "defence": {"name": defence.name, **defence.options_as_dict()}, "training": asdict(training)}
    return dict(json.loads(json.dumps(found)))


def stated(header: Mapping[str, object]) -> dict[str, object]:
    """A header with the settings of training, which it has among the facts about the classifier, beside the others."""
    about = header.get("about")
    facts = about.get("training") if isinstance(about, Mapping) else None
    training = facts.get("training") if isinstance(facts, Mapping) else None
    return {**header, **({"training": training} if training else {})}


def standing(path: Path, settings: Mapping[str, object]) -> Standing:
    """Of the cell that a file holds, with what keeps it from being one of this grid's."""
    try:
        header, results = read_results(path)
    except FileNotFoundError:
        return Standing()
    except (DualmaskError, OSError) as error:
        return Standing(problem=str(error))
    if not header:  # cut off before there was anything in it
        return Standing()
    found = Standing(wanted=int(str(header.get("texts", -1))))
    for result in results:
        found = found.plus(result)
    places = [one.index for one in results]
    said = stated(header)
    changes = [difference(name, said[name], settings[name]) for name in settings
               if name in said and said[name] != settings[name]]
    told = (f"{path} comes from a run with other settings ({'; '.join(changes)}); restore them in the grid, choose "
            "another folder with --out, or delete the file.") if changes else ""
    return found._replace(ordered=places == sorted(places), problem=told)


@dataclass(frozen=True)
class TimeLeft:
    """An estimate from what was measured in the same folder, and how much it does not cover."""

    seconds: float
    unknown: int = 0  # cells and trainings whose like was not measured yet


class Pace:
    """Seconds for a text of a cell, and for a training, as far as they were measured."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.trainings: dict[tuple[str, str], list[float]] = defaultdict(list)

    @staticmethod
    def kind(cell: Cell) -> tuple[str, ...]:
        """Cells that take about the same time."""
        return cell.data, cell.encoder, cell.attack, cell.mode

    def learn(self, cell: Cell, texts: float, seconds: float) -> None:
        total = self.texts[self.kind(cell)]
        total[0], total[1] = total[0] + texts, total[1] + seconds

    def learn_training(self, job: Job, seconds: float) -> None:
        self.trainings[job.data.name, job.encoder.name].append(seconds)

    def left(self, cells: Iterable[tuple[Cell, int | None]], jobs: Sequence[Job]) -> TimeLeft:
        """For cells with the texts that they lack, and for classifiers that are to be trained."""
        seconds, unknown = 0.0, 0
        for cell, texts in cells:
            done, taken = self.texts.get(self.kind(cell), (0.0, 0.0))
            if done and texts is not None:
                seconds += texts * taken / done
            else:
                unknown += 1
        for job in jobs:
            known = self.trainings.get((job.data.name, job.encoder.name))
            seconds, unknown = (seconds + sum(known) / len(known), unknown) if known else (seconds, unknown + 1)
        return TimeLeft(seconds, unknown)


def measured(plan: Plan, standings: Mapping[Cell, Standing], out: Path) -> Pace:
    """The pace of what a folder holds."""
    pace = Pace()
    for cell, found in standings.items():
        pace.learn(cell, found.texts - found.faults, found.seconds)
    for job in plan.jobs:
        if (seconds := training_seconds(out / MODELS / job.name)) is not None:
            pace.learn_training(job, seconds)
    return pace


def untrained(plan: Plan, standings: Mapping[Cell, Standing], out: Path) -> list[Job]:
    """Jobs with something left to do whose classifier is not there."""
    return [job for job in plan.jobs if unfinished(out / MODELS / job.name)
            and not all(standings[task.cell].finished or standings[task.cell].problem for task in job.tasks)]


def training_seconds(folder: Path) -> float | None:
    """What training a saved classifier took; None where there is none, or it does not say."""
    try:
        told = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))["training"]["seconds"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return float(told) if isinstance(told, int | float) else None
