# SPDX-License-Identifier: Apache-2.0
"""Fill the cells of a plan: what is missing is trained and attacked; what fails is listed, and the rest goes on."""

import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

from dualmask.attacks import build_attack
from dualmask.attacks.base import Tools
from dualmask.classifier import DefendedClassifier
from dualmask.deadline import TimeUp
from dualmask.errors import BusyOutputError, DataError, DualmaskError, OptionError
from dualmask.evaluation.material import Data, Material, trained
from dualmask.evaluation.plan import Job, Plan, Task
from dualmask.evaluation.protocol import Protocol, evaluate
from dualmask.evaluation.records import FAILURES, Cell, CellRecords, clear_failure, read_cell
from dualmask.evaluation.standing import MODELS, Standing, beside_source, record_path, settings_of, standing
from dualmask.results import AttackResult, as_line
from dualmask.system_errors import explain_os_error
from dualmask.text.examples import Dataset


class Watch:
    """Whoever wants to follow a run overrides what it needs."""

    def start(self, plan: Plan, standings: dict[Cell, Standing], out: Path) -> None: ...

    def training(self, job: Job) -> None: ...

    def trained(self, job: Job, seconds: float) -> None: ...

    def begin(self, task: Task, texts: int) -> None: ...

    def text(self, task: Task, result: AttackResult) -> None: ...

    def done(self, task: Task, found: Standing) -> None: ...

    def failed(self, task: Task, reason: str) -> None: ...


class Failure(NamedTuple):
    """A cell that could not be filled."""

    cell: Cell
    reason: str
    trace: str = ""  # of errors that nobody foresaw


@dataclass
class Outcome:
    """What came of a run."""

    out: Path
    found: int = 0  # cells that were there
    done: list[Cell] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    left: list[Cell] = field(default_factory=list)  # not begun or not finished, because time was up


@contextmanager
def tensor_cores() -> Iterator[None]:
    """Products of 32-bit matrices in TF32 where a GPU has it: several times the answers, equal to three digits."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class Run:
    """A run through a plan."""

    def __init__(self, plan: Plan, out: Path, *, watch: Watch, end: float | None = None) -> None:
        """`end`: begin nothing new from then on."""
        self.plan, self.out, self.watch, self.end = plan, out, watch, end
        self.material = Material()
        self.standings: dict[Cell, Standing] = {}
        self.outcome = Outcome(out)
        self.loaded: tuple[str, DefendedClassifier] | None = None  # the last job's, and its name
        self.tools: dict[str, Tools] = {}  # by attack: language models and the like are loaded once

    def through(self, standings: Mapping[Cell, Standing]) -> Outcome:
        """Fill all cells, from how they stand."""
        self.standings = dict(standings)
        self.watch.start(self.plan, self.standings, self.out)
        for task in self.plan.tasks:
            if problem := self.standings[task.cell].problem:
                self.failed(task, DataError(problem))
        try:
            self.fill_all()
        except TimeUp:
            ended = {*self.outcome.done, *(failure.cell for failure in self.outcome.failures)}
            self.outcome.left = [task.cell for task in self.plan.tasks
                                 if task.cell not in ended and not self.standings[task.cell].finished]
        self.outcome.found = sum(one.finished for cell, one in self.standings.items() if cell not in self.outcome.done)
        return self.outcome

    def fill_all(self) -> None:
        for job in self.plan.jobs:
            self.work(job)

    def work(self, job: Job) -> None:
        """Train a classifier, or take the one that is there, and fill its cells."""
        tasks = [task for task in job.tasks if self.is_open(task)]
        if not tasks or self.is_late(tasks):
            return
        try:
            data = self.material.data(job.data)
            classifier = self.classifier(job, data)
        except Exception as error:
            for task in tasks:
                self.failed(task, error)
            return
        for task in job.tasks:
            if self.is_open(task) and not self.is_late([task]):
                self.fill(job, task, classifier, data.parts)

    def classifier(self, job: Job, data: Data) -> DefendedClassifier:
        if self.loaded is None or self.loaded[0] != job.name:
            self.loaded = None  # before another one needs its place
            self.watch.training(job)
            made = trained(job, data, self.material.encoder(job.encoder), self.out / MODELS)
            self.loaded = job.name, made
            self.watch.trained(job, float(str(made.facts.get("seconds", 0))))
        return self.loaded[1]

    def is_open(self, task: Task) -> bool:
        """Whether there is something to do; it is asked anew, since a cell may have got other texts to show."""
        found = self.standings[task.cell] = beside_source(task, self.standings)
        return not found.finished and not found.problem

    def is_late(self, tasks: Sequence[Task]) -> bool:
        late = self.end is not None and time.monotonic() >= self.end
        if late:
            self.outcome.left += [task.cell for task in tasks]
        return late

    def fill(self, job: Job, task: Task, classifier: DefendedClassifier, data: Dataset) -> None:
        """One cell, from where it stands to its end."""
        grid, entry, path = job.grid, task.attack, record_path(self.out, task.cell)
        protocol = Protocol(
            samples=max(task.texts, self.standings[task.cell].samples),
            sample_seed=grid.sample_seed, attack_seed=grid.attack_seed,
            eot=job.defence.eot or grid.eot, draws=grid.draws, measure=None if grid.measure == "none" else grid.measure)
        tests, tools = data.test or [], self.tools.setdefault(entry.name, Tools())
        try:
            source = self.source(task)
            self.watch.begin(task, min(protocol.samples or len(tests), len(tests)))
            evaluate(
                task.cell, classifier, tests,
                build_attack(entry.attack, preset=entry.preset, options=entry.options, tools=tools),
                protocol=protocol, out=path, validation=data.validation or (), source=source,
                about={"grid": grid.name, "encoder": self.material.encoder(job.encoder)},
                overwrite=self.standings[task.cell].outdated, watch=partial(self.watch.text, task))
            found = standing(path, settings_of(job, task, self.material))
            if not found.whole:
                raise DataError(found.problem or f"{path} has {found.texts} records where {found.wanted} texts were "
                                "attacked; delete it, and the same command makes it anew.")
        except Exception as error:
            if not isinstance(error, BusyOutputError):  # then it is another's
                with suppress(OSError):
                    path.with_name(f"{path.name}.part").unlink(missing_ok=True)
            self.failed(task, error)
            return
        self.standings[task.cell] = found
        self.outcome.done.append(task.cell)
        self.clear(task.cell)
        self.watch.done(task, found)

    def source(self, task: Task) -> CellRecords | None:
        """The cell whose adversarial texts are shown to the classifier."""
        if task.source is None:
            return None
        found = self.standings[task.source]
        if not found.whole:
            raise DataError(f"it needs the texts of {task.source.file_name}, which is not finished.")
        return read_cell(record_path(self.out, task.source))

    def failed(self, task: Task, error: Exception) -> None:
        """Note it; a full disk must not keep the note from being shown at the end."""
        expected = isinstance(error, DualmaskError | OSError)
        told = explain_os_error(error) if isinstance(error, OSError) else str(error)
        reason = told if expected and told else f"{type(error).__name__}: {error}"
        failure = Failure(task.cell, reason, "" if expected else "".join(traceback.format_exception(error)))
        self.outcome.failures.append(failure)
        self.note(failure)
        self.watch.failed(task, reason)

    def note(self, failure: Failure) -> None:
        """Add it to the list on disk."""
        record = {"cell": failure.cell.as_dict(), "reason": failure.reason,
                  **({"trace": failure.trace} if failure.trace else {})}
        with suppress(OSError), (self.out / FAILURES).open("a", encoding="utf-8") as stream:
            stream.write(as_line(record) + "\n")

    def clear(self, cell: Cell) -> None:
        """Take a cell that is filled off that list."""
        with suppress(OSError, OptionError):
            clear_failure(self.out / FAILURES, cell)
