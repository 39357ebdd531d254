# SPDX-License-Identifier: Apache-2.0
"""What a report's plots show, computed from records; how it is drawn is the business of charts."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil, log2
from typing import NamedTuple

import numpy as np

from dualmask.reporting.entries import Entry, Share, defence_options, share
from dualmask.results import FAULTS

STEPS = 60  # points of a curve, at most


class Fate(NamedTuple):
    """What became of one text under one attack or several."""

    label: int
    right: bool  # before
    words: int | None = None  # fewest that a successful attack changed; None: it held, or was wrong from the start
    queries: int | None = None  # fewest that a successful attack asked


class Point(NamedTuple):
    x: float
    share: Share


class Series(NamedTuple):
    """A line of a plot, or a mark."""

    name: str
    tint: int  # the defence's place in the report: its colour, dashes and mark
    points: Sequence[Point]


class ClassRow(NamedTuple):
    """One class under one defence."""

    label: int
    name: str
    tint: int
    clean: Share
    robust: Share


class Histogram(NamedTuple):
    """How many texts took how many queries: from each edge up to the next."""

    name: str
    tint: int
    edges: Sequence[int]
    counts: Sequence[int]
    median: float


class Sweep(NamedTuple):
    """One defence at several values of one option: what an attack leaves of its accuracy."""

    defence: str
    option: str
    variants: Sequence[tuple[float, str]]  # value, and the row of the table that has it


def fates(attacks: Sequence[Entry]) -> list[list[Fate]]:
    """For each seed that every attack was run on, the texts that could be measured under all of them."""
    tables = [{run.seed: {one.index: one for one in run.records.results if one.outcome not in FAULTS}
               for run in entry.runs} for entry in attacks]
    found = []
    for seed in sorted(set.intersection(*(set(one) for one in tables))):
        shared = set.intersection(*(set(one[seed]) for one in tables))
        rows = ([one[seed][index] for one in tables] for index in sorted(shared))
        texts = []
        for row in rows:
            won = [one for one in row if one.outcome == "succeeded"]
            right = all(one.outcome != "skipped" for one in row)
            texts.append(Fate(row[0].label, right, min((one.changed for one in won), default=None),
                              min((one.queries for one in won), default=None)) if right
                         else Fate(row[0].label, right))
        found.append(texts)
    return [texts for texts in found if texts]


def survival(seeds: Sequence[Sequence[Fate]], cost: Callable[[Fate], int | None], limits: Sequence[int]) -> list[Point]:
    """The share of texts still right when an attack may spend at most so much on each."""
    costs = [np.sort([spent for one in texts if (spent := cost(one)) is not None]) for texts in seeds]
    right = [sum(one.right for one in texts) for texts in seeds]
    points = []
    for limit in limits:
        lost = [int(np.searchsorted(one, limit, side="right")) for one in costs]
        found = share([(before - less, len(texts)) for before, less, texts in zip(right, lost, seeds, strict=True)])
        if found is not None:
            points.append(Point(limit, found))
    return points


def even_limits(most: int) -> list[int]:
    """From 0 to the most that any attack spent, by ones or coarser."""
    step = max(1, ceil(most / STEPS))
    return [*range(0, most, step), most]


def doubling_limits(most: int) -> list[int]:
    """From 1, ever coarser: queries are told apart by their magnitude."""
    finest = max(1.0, log2(max(most, 2))) / STEPS
    return sorted({min(most, round(2 ** (step * finest))) for step in range(STEPS + 1)} | {most})


def class_rows(name: str, tint: int, seeds: Sequence[Sequence[Fate]]) -> list[ClassRow]:
    """Accuracy before and after, class by class."""
    rows = []
    for label in sorted({one.label for texts in seeds for one in texts}):
        of_class = [[one for one in texts if one.label == label] for texts in seeds]
        clean = share([(sum(one.right for one in texts), len(texts)) for texts in of_class])
        robust = share([(sum(one.right and one.words is None for one in texts), len(texts)) for texts in of_class])
        if clean is not None and robust is not None:
            rows.append(ClassRow(label, name, tint, clean, robust))
    return rows


def histograms(attacks: Sequence[tuple[int, Entry]]) -> list[Histogram]:
    """Queries of every attacked text, in classes twice as wide each time and the same for all; with their tints."""
    asked = {entry.key: [one.queries for one in entry.results if one.outcome != "skipped" and one.outcome not in FAULTS]
             for _, entry in attacks}
    most = max((max(queries) for queries in asked.values() if queries), default=0)
    least = min((min(queries) for queries in asked.values() if queries), default=0)
    if most == 0:
        return []
    edges = [2 ** power for power in range(int(log2(max(least, 1))), int(log2(most)) + 2)]
    found = []
    for tint, entry in attacks:
        queries = asked[entry.key]
        if queries:
            counts, _ = np.histogram(np.maximum(queries, 1), bins=edges)
            found.append(Histogram(entry.key.defence, tint, edges, counts.tolist(), float(np.median(queries))))
    return found


def sweeps(entries: Sequence[Entry]) -> list[Sweep]:
    """Rows of one table that are one registered defence and differ in nothing but one number."""
    options = {entry.key.defence: defence_options(entry.runs[0].records.header) for entry in entries if entry.runs}
    found: dict[Sweep, None] = {}
    for name in {str(given.get("name")) for given in options.values()} - {"None"}:
        variants = {row: given for row, given in options.items() if given.get("name") == name}
        for option in sorted({key for given in variants.values() for key in given}):
            for group in same_but(option, variants):
                found[Sweep(name, option, tuple(sorted(group)))] = None
    return list(found)


def same_but(option: str, variants: Mapping[str, Mapping[str, object]]) -> list[list[tuple[float, str]]]:
    groups: dict[str, list[tuple[float, str]]] = {}
    for row, given in variants.items():
        value = given.get(option)
        if isinstance(value, int | float) and not isinstance(value, bool):
            rest = repr(sorted((key, str(one)) for key, one in given.items() if key != option))
            groups.setdefault(rest, []).append((float(value), row))
    return [group for group in groups.values() if len({value for value, _ in group}) > 1]
