# SPDX-License-Identifier: Apache-2.0
"""A grid in the terminal: its plan, how far it is and how long it may still take, and what failed."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dualmask.evaluation.filling import Outcome, Watch
from dualmask.evaluation.pace import CellLeft, Pace, TimeLeft, known_pace
from dualmask.evaluation.plan import Job, Plan, Task
from dualmask.evaluation.records import FAILURES, Cell
from dualmask.evaluation.standing import MODELS, Standing, untrained
from dualmask.fitted_tables import FittedTable
from dualmask.reporting.findings import counted
from dualmask.reporting.report import Report
from dualmask.reporting.report_tables import NOTHING, headline
from dualmask.results import AttackResult
from dualmask.text.differences import SHOWN

SIGNS = {"done": ("\u2713", "green"), "running": ("\u25b6", "bold yellow"), "failed": ("\u2717", "bold red"),
         "begun": ("\u25d0", ""), "missing": ("\u00b7", "dim")}


UNITS = ((7200, 3600, ".1f", "h"), (120, 60, ".0f", "min"), (0, 1, ".0f", "s"))  # from so many seconds on


class Board(Watch):
    """Follows a run: a table that is drawn again and again or, where nobody looks at a screen, a line for each cell."""

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.console, self.clock = console, clock
        self.plan, self.pace = Plan(()), Pace()
        self.standings: dict[Cell, Standing] = {}
        self.wanted: dict[Cell, int | None] = {}
        self.states: dict[Cell, str] = {}
        self.untrained: list[Job] = []
        self.to_train = 0  # when the run began
        self.begun: dict[str | Cell, tuple[float, int]] = {}  # when a cell or training was, and the texts it had then
        self.now = Text()
        self.out, self.began = Path(), 0.0
        self.log: Path | None = None  # of the training that is under way
        self.live = Live(console=console, get_renderable=self.table, refresh_per_second=2, transient=True)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self.live.stop()

    # What the run tells

    def start(self, plan: Plan, standings: dict[Cell, Standing], out: Path) -> None:
        self.plan, self.standings, self.out = plan, dict(standings), out
        self.states = {cell: state_of(one) for cell, one in standings.items()}
        self.wanted = expected_texts(plan, standings)
        self.untrained, self.pace = untrained(plan, standings, out), known_pace(plan, standings, out)
        self.to_train = len(self.untrained)
        self.say(Text(f"{plan.name}: {counts(self.states)} in {out}; {told(self.left())}"))

    def training(self, job: Job) -> None:
        self.now, self.began = Text(f"loading {job.name}"), self.clock()
        if job in self.untrained:
            self.begun[job.name] = self.began, 0
            number = self.to_train - len(self.untrained) + sum(one.name in self.begun for one in self.untrained)
            self.now = Text(f"training {number} of {self.to_train}: {job.name}")
            self.log = self.out / MODELS / job.name / "training.jsonl"
            self.say(self.now)

    def trained(self, job: Job, seconds: float) -> None:
        self.log = None
        if job in self.untrained:
            self.untrained.remove(job)
            self.pace.learn_training(job, self.clock() - self.begun.pop(job.name, (self.clock() - seconds, 0))[0])

    def begin(self, task: Task, texts: int) -> None:
        self.states[task.cell] = "running"
        found = self.standings[task.cell]
        self.standings[task.cell] = found._replace(texts=found.texts - found.faults, faults=0)  # those are done again
        short = texts < task.texts  # the data have no more; a cell's own smaller sample says nothing of others
        for cell, wanted in self.wanted.items():
            if not self.standings[cell].begun and (cell == task.cell or (short and cell.data == task.cell.data)):
                self.wanted[cell] = min(texts, wanted or texts)
        self.begun[task.cell] = self.clock(), self.standings[task.cell].texts
        self.now = Text(f"{self.step()}: {task.cell.file_name.removesuffix('.jsonl')}")
        self.say(self.now)

    def step(self) -> str:
        """Which cell is under way, of how many; those that were there or failed are counted."""
        started = sum(state in ("done", "failed", "running") for state in self.states.values())
        return f"cell {started:,} of {len(self.states):,}"

    def text(self, task: Task, result: AttackResult) -> None:
        self.standings[task.cell] = self.standings[task.cell].plus(result)
        self.now = Text(f"{self.step()}: {progress(task.cell, self.standings[task.cell], self.wanted[task.cell])}")

    def done(self, task: Task, found: Standing) -> None:
        self.states[task.cell], self.standings[task.cell] = "done", found
        began, before = self.begun.pop(task.cell, (self.clock(), found.texts))
        self.pace.learn_cell(task.cell, found.texts - before, self.clock() - began)
        self.say(Text(f"done: {progress(task.cell, found, found.wanted)}; {told(self.left())}"))

    def failed(self, task: Task, reason: str) -> None:
        self.states[task.cell] = "failed"
        self.begun.pop(task.cell, None)
        # All reasons are told together at the end; until then the file has them
        self.say(Text(f"failed: {task.cell.file_name.removesuffix('.jsonl')}; why: {self.out / FAILURES}"))

    # What is shown

    def say(self, line: Text) -> None:
        if not self.console.is_terminal:
            self.console.print(line, soft_wrap=True)

    def left(self) -> TimeLeft:
        open_ones = [cell for cell, state in self.states.items() if state not in ("done", "failed")]
        return self.pace.left(map(self.cell_left, open_ones), self.untrained,
                              at_once=sum(state == "running" for state in self.states.values()))

    def cell_left(self, cell: Cell) -> CellLeft:
        if cell not in self.begun:
            return CellLeft(cell, self.lacking(cell))
        began, before = self.begun[cell]
        return CellLeft(cell, self.lacking(cell), self.standings[cell].texts - before, self.clock() - began)

    def lacking(self, cell: Cell) -> int | None:
        wanted = self.wanted[cell]
        return None if wanted is None else max(0, wanted - self.standings[cell].texts)

    def table(self) -> Group:
        """Classifiers with a sign for each of their cells; as many as the screen has room for, around the running."""
        room = max(3, self.console.height - 7)
        rows = list(self.plan.jobs)
        busy = next((place for place, job in enumerate(rows) if self.open(job)), 0)
        first = max(0, min(busy - room // 2, len(rows) - room))
        table = Table(box=None, padding=(0, 2, 0, 0))
        for heading in ("classifier", "cells", "lowest accuracy under attack"):
            table.add_column(heading, no_wrap=True)
        for job in rows[first:first + room]:
            signs = Text.assemble(*(SIGNS[self.states[task.cell]] for task in job.tasks))
            table.add_row(job.name, signs, lowest(job, self.standings))
        legend = Text.assemble(*(part for name, sign in SIGNS.items() for part in (sign, f" {name}  ")), style="dim")
        now = self.now if self.log is None else Text.assemble(
            self.now, f": {self.clock() - self.began:.0f} s{last_step(self.log)}")
        return Group(table, legend, now, Text(f"{counts(self.states)}; {told(self.left())}"))

    def open(self, job: Job) -> bool:
        return any(self.states[task.cell] not in ("done", "failed") for task in job.tasks)


def last_step(log: Path) -> str:
    """How far a training is, by what it last wrote down."""
    try:
        found = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])
        return f", step {found['step']:,}, loss {found['loss']:.2f}" if found["event"] == "step" else ""
    except (OSError, ValueError, KeyError, IndexError):
        return ""


def state_of(found: Standing) -> str:
    if found.problem:
        return "failed"
    return "done" if found.finished else "begun" if found.begun else "missing"


def counts(states: dict[Cell, str]) -> str:
    """``12 of 48 cells done, 1 failed``."""
    found = Counter(states.values())
    parts = [f"{found['done']:,} of {len(states):,} cells done"]
    return ", ".join(parts + [f"{found[name]:,} {name}" for name in ("begun", "failed") if found[name]])


def expected_texts(plan: Plan, standings: dict[Cell, Standing]) -> dict[Cell, int | None]:
    """As many as were asked for; how many there are is known when a cell is begun."""
    return {task.cell: standings[task.cell].wanted or task.texts for task in plan.tasks}


def progress(cell: Cell, found: Standing, wanted: int | None) -> str:
    measured_texts = found.texts - found.faults
    name = cell.file_name.removesuffix(".jsonl")
    line = f"{name}: {found.texts:,}" + (f" of {wanted:,}" if wanted and wanted != found.texts else "") + " texts"
    if wanted and found.texts < wanted:  # texts that were wrong from the start end first: shares would mislead
        return f"{line}, {found.flipped:,} fooled, {found.right - found.flipped:,} held"
    if measured_texts:
        line += (f", {found.right / measured_texts:.1%} right before and "
                 f"{(found.right - found.flipped) / measured_texts:.1%} under attack")
    return line + (f", {found.faults} faults" if found.faults else "")


def lowest(job: Job, standings: dict[Cell, Standing]) -> str:
    """Of the finished cells whose attacks asked the classifier itself."""
    found = [((one.right - one.flipped) / one.texts, task.cell) for task in job.tasks
             if (one := standings[task.cell]).finished and one.texts and task.source is None]
    if not found:
        return ""
    share, cell = min(found)
    return f"{share:.1%} ({cell.attack}, {cell.mode}{f', {cell.scores}' if cell.scores != 'raw' else ''})"


def told(left: TimeLeft) -> str:
    """``about 12 min left`` or, where nothing like some of the rest was measured yet, that it is at least so much."""
    if not left.seconds:
        return "no estimate yet" if left.unknown else "nothing left"
    about = next(f"{left.seconds / size:{form}} {unit}" for least, size, form, unit in UNITS if left.seconds >= least)
    if not left.unknown:
        return f"about {about} left"
    lacking = [counted(number, noun) for number, noun in ((left.cells, "cell"), (left.trainings, "training")) if number]
    return f"at least {about} left, with no estimate yet for {' and '.join(lacking)}"


def show_plan(console: Console, plan: Plan, standings: dict[Cell, Standing], *, out: Path) -> None:
    """What a run would do."""
    missing = untrained(plan, standings, out)
    for note in plan.notes:
        console.print(Text(f"note: {note}"))
    for job in plan.jobs:
        of = f"  the network of {job.base.name}" if job.base else ""
        console.print(Text.assemble((job.name, "bold"), of, "  train" if job in missing else ""))
        for task in job.tasks:
            found = standings[task.cell]
            state = "to do" if (state := state_of(found)) == "missing" else state
            cell = task.cell
            name = f"{cell.attack} {cell.mode}{f' {cell.scores}' if cell.scores != 'raw' else ''}"
            detail = f" ({found.texts:,} of {found.wanted:,} texts)" if state == "begun" else ""
            detail += f": {found.problem}" if found.problem else ""
            console.print(Text(f"  {state:6} {name}{detail}"), soft_wrap=True)
    texts = expected_texts(plan, standings)
    lacking = [CellLeft(cell, (texts[cell] or 0) - one.texts) for cell, one in standings.items()
               if not one.finished and not one.problem]
    states = {cell: state_of(one) for cell, one in standings.items()}
    left = known_pace(plan, standings, out).left(lacking, missing)
    console.print(Text(f"{plan.name}: {counts(states)}, {len(missing):,} classifiers to train; {told(left)}"))


def figure_tables(report: Report) -> Iterator[FittedTable]:
    """For each mode the accuracies before and under each attack."""
    head, *rows = headline(report)
    before = head.index("defence")
    for about, group in groupby(rows, key=lambda row: row[:before]):
        lines = [[cell.removesuffix(f" ({row[-1]})") for cell in row] for row in group]  # what is like the row's own
        used = [place for place in range(before, len(head)) if any(row[place] != NOTHING for row in lines)]
        own = any(" x " in row[place] for row in lines for place in used[:-1])
        basis = ""
        if len({row[-1] for row in lines}) == 1:  # told once, above
            basis = f"; texts x seeds: {lines[0][used.pop()]}"
        yield FittedTable(head=[head[place] for place in used], rows=[[row[place] for place in used] for row in lines],
                          title=f"accuracy in %, {' '.join(about)}{basis}",
                          figures=True, caption="(texts x seeds) of a figure that has its own" if own else "")


def show_failures(console: Console, outcome: Outcome) -> None:
    """Each reason once, with the cells that it stopped."""
    reasons: dict[str, list[str]] = {}
    for failure in outcome.failures:
        reasons.setdefault(failure.reason, []).append(failure.cell.file_name.removesuffix(".jsonl"))
    for reason, cells in reasons.items():
        console.print(Text.assemble(("failed: ", "bold red"), listing(cells), ": ",
                                    reason.translate({**SHOWN, 0x0A: "\n"})), soft_wrap=True)


def listing(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")
