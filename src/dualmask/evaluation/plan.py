# SPDX-License-Identifier: Apache-2.0
"""From a grid to an order of work: every classifier is trained once and attacked many times."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dualmask.attacks import ATTACKS, aware_of
from dualmask.defences import build_defence, preset_training
from dualmask.errors import OptionError
from dualmask.evaluation.grid import AttackEntry, DataEntry, DefenceEntry, EncoderEntry, Grid
from dualmask.evaluation.records import MODES, TRANSFER, Cell, Mode, Scores
from dualmask.options import TrainingOptions


@dataclass(frozen=True)
class Task:
    """A cell to be filled."""

    cell: Cell
    attack: AttackEntry
    texts: int  # that it is to have, if the data have so many
    source: Cell | None = None  # whose adversarial texts are shown to the classifier


@dataclass(frozen=True, kw_only=True)
class Job:
    """A classifier to be trained, and the cells that it is for."""

    grid: Grid
    data: DataEntry
    encoder: EncoderEntry
    defence: DefenceEntry
    seed: int
    tasks: tuple[Task, ...]
    base: DefenceEntry | None = None  # whose network it takes

    @property
    def name(self) -> str:
        return self.named(self.defence)

    @property
    def models(self) -> tuple[str, ...]:
        """The names of all classifiers that it needs, its own last."""
        return *([self.named(self.base)] if self.base else []), self.name

    def named(self, defence: DefenceEntry) -> str:
        return f"{self.data.name}.{self.encoder.name}.{defence.name}.{self.seed}"

    @property
    def training(self) -> TrainingOptions:
        """By the preset of what is trained, changed by its entry, then by that of the data."""
        of = self.base or self.defence
        return preset_training(of.defence, of.preset, {**of.training, **self.data.training, "seed": self.seed})


@dataclass(frozen=True)
class Plan:
    jobs: tuple[Job, ...]
    notes: tuple[str, ...] = ()  # what a reader of the grid might not expect

    @property
    def tasks(self) -> list[Task]:
        return [task for job in self.jobs for task in job.tasks]

    @property
    def name(self) -> str:
        return ", ".join(dict.fromkeys(job.grid.name for job in self.jobs)) or "nothing to do"


def make_plan(grid: Grid, *, only: str = "") -> Plan:
    """The first seed of everything comes before the second; of what is compared, the plain classifier comes first.

    only: leave out the cells whose names don't contain it, or any of several parts between commas; but for those
    whose texts are needed. The grid's own is heeded as well.
    """
    plain = grid.plain or DefenceEntry(name="plain", defence="plain", preset="recommended", training=grid.training)
    source = plain if set(grid.modes) & set(TRANSFER) else None
    order = [*([plain] if source or grid.plain else []), *(one for one in grid.defences if one != plain)]
    jobs = [Job(grid=grid, data=data, encoder=encoder, defence=defence, seed=seed, tasks=tuple(
                tasks(grid, defence, Cell(data.name, encoder.name, defence.name, "-", "adaptive", seed), source)),
                base=next((one for one in grid.defences if one.name == defence.network), None))
            for seed in grid.seeds for data in grid.data for encoder in grid.encoders for defence in order
            if not defence.data or data.name in defence.data]
    found = tuple(chosen(jobs, [only, grid.only]))
    if (only or grid.only) and not found:
        names = [task.cell.file_name.removesuffix(".jsonl") for job in jobs for task in job.tasks]
        wanted = "' and '".join(part for part in (only, grid.only) if part)
        raise OptionError(f"no cell's name contains '{wanted}'; they are called {', '.join(names[:3])} and so on.")
    return Plan(found, tuple(notes(grid, source)))


def joined(plans: Sequence[Plan]) -> Plan:
    """The work of several plans, one after the other. A cell that several have comes once, with most texts."""
    jobs = [job for plan in plans for job in plan.jobs]
    texts: dict[Cell, int] = {}
    for task in (task for job in jobs for task in job.tasks):
        texts[task.cell] = max(task.texts, texts.get(task.cell, 0))
    once = [replace(job, tasks=tuple(replace(task, texts=texts.pop(task.cell)) for task in job.tasks
                                     if task.cell in texts)) for job in jobs]
    return Plan(tuple(job for job in once if job.tasks), tuple(dict.fromkeys(
        note for plan in plans for note in plan.notes)))


def tasks(grid: Grid, defence: DefenceEntry, cell: Cell, source: DefenceEntry | None) -> Iterator[Task]:
    """The cells of one classifier, those first whose texts are shown to others."""
    blind = [one for one in grid.attacks if not ATTACKS[one.attack].against]
    for mode, scores in settings(grid, defence, source):
        for attack in aware_attacks(grid, defence) if mode == "defence-aware" else blind:
            own = replace(cell, attack=attack.name, mode=mode, scores=scores)
            crafted = replace(own, defence=source.name, mode="adaptive") if source and mode in TRANSFER else None
            yield Task(own, attack, grid.samples_of(defence, attack), crafted)


def settings(grid: Grid, defence: DefenceEntry, source: DefenceEntry | None) -> list[tuple[Mode, Scores]]:
    """Modes with the scores that are seen in them (in transfer, none are)."""
    found: list[tuple[Mode, Scores]] = [
        (mode, scores) for mode in MODES if mode in grid.modes and defence in grid.defences
        for scores in (("raw",) if mode in TRANSFER else grid.scores) if scores != "still" or draws(defence)]
    needed: tuple[Mode, Scores] = ("adaptive", "raw")
    return [needed, *found] if defence == source and needed not in found else found


def draws(entry: DefenceEntry) -> bool:
    return build_defence(entry.defence, preset=entry.preset, options=entry.options).noise != "none"


def aware_attacks(grid: Grid, defence: DefenceEntry) -> Sequence[AttackEntry]:
    """Those of the grid that know the defence or, if there are none, all."""
    names = aware_of(defence.defence)
    return [one for one in grid.attacks if one.attack in names] or [
        AttackEntry(name=name, attack=name, preset=next(iter(ATTACKS[name].presets))) for name in names]


def chosen(jobs: Sequence[Job], every: Sequence[str]) -> Iterator[Job]:
    """What the names of cells must contain: of each of these one of the parts between commas."""
    wanted = {task.cell for job in jobs for task in job.tasks if all(
        any(part in task.cell.file_name for part in only.split(",")) for only in every)}
    wanted |= {task.source for job in jobs for task in job.tasks if task.cell in wanted and task.source}
    for job in jobs:
        if kept := tuple(task for task in job.tasks if task.cell in wanted):
            yield replace(job, tasks=kept)


def notes(grid: Grid, source: DefenceEntry | None) -> Iterator[str]:
    if source and grid.plain is None:
        yield ("The grid has no plain classifier, whose adversarial texts the transfer modes need: one is trained and "
               "attacked as well.")
    elif source and ("adaptive" not in grid.modes or "raw" not in grid.scores):
        yield f"For the transfer modes '{source.name}' is attacked by itself (adaptive, raw scores) as well."
    if "defence-aware" in grid.modes:
        unknown = [one.name for one in grid.defences if not aware_of(one.defence)]
        if unknown:
            yield f"No attack knows the mechanism of {', '.join(unknown)}: no defence-aware cells."
    if "still" in grid.scores and (quiet := [one.name for one in grid.defences if not draws(one)]):
        yield f"Nothing is drawn by {', '.join(quiet)}: no cells with draws held still."
    idle = [one.name for one in grid.attacks if (against := ATTACKS[one.attack].against) and (
        "defence-aware" not in grid.modes or not set(against) & {each.defence for each in grid.defences})]
    if idle:
        yield (f"Not run: {', '.join(idle)}. Attacks that know a defence are for the mode defence-aware and for that "
               "defence.")
