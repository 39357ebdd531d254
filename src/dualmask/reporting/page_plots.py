# SPDX-License-Identifier: Apache-2.0
"""The plots of a report's page, table by table."""

from collections.abc import Callable, Mapping, Sequence

from dualmask.reporting.axes import shown
from dualmask.reporting.charts import (
    class_chart,
    cost_chart,
    legend,
    query_chart,
    scatter_chart,
    survival_chart,
    sweep_chart,
)
from dualmask.reporting.costs import Cost
from dualmask.reporting.curves import (
    ClassRow,
    Fate,
    Point,
    Series,
    class_rows,
    doubling_limits,
    even_limits,
    fates,
    histograms,
    survival,
    sweeps,
)
from dualmask.reporting.entries import Share, label_names, share
from dualmask.reporting.findings import counted
from dualmask.reporting.report import Line, Table
from dualmask.reporting.specimens import named

Pool = Mapping[str, Sequence[Sequence[Fate]]]  # by defence: for each seed, what became of the texts
MOST_CLASSES = 12  # that are plotted
CLEAN, ROBUST = ("clean accuracy (CLA)", 0), ("under attack (CAA)", 1)


def plots(table: Table, tints: Mapping[str, int], costs: Mapping[str, Cost]) -> str:
    """All plots of a table: first over all its attacks together, then attack by attack."""
    names = [(line.defence, tints[line.defence]) for line in table.lines]
    pool = pooled(table.lines, table.attacks)
    if not pool:
        return ('<p class="notes">No text was measured under every attack, so there is no plot of all together.</p>'
                + legend(names) + queries(table, tints) + each_attack(table, tints))
    whole = "any of the attacks" if len(table.attacks) > 1 else table.attacks[0]
    panels = [*spending(pool, tints, whole), scatter(pool, tints, whole), *cost_panels(pool, tints, costs),
              *sweep_panels(table, pool)]
    return (legend(names) + grid(panels) + uneven(table, pool) + classes(table, pool, tints) + queries(table, tints)
            + each_attack(table, tints))


def grid(panels: Sequence[str]) -> str:
    return f'<div class="panels">{"".join(panels)}</div>\n'


def pooled(lines: Sequence[Line], attacks: Sequence[str]) -> Pool:
    """Fates under those of the attacks that a row has."""
    found = {line.defence: fates([line.entries[name] for name in attacks if name in line.entries])
             for line in lines if any(name in line.entries for name in attacks)}
    return {name: seeds for name, seeds in found.items() if seeds}


def spending(pool: Pool, tints: Mapping[str, int], whole: str) -> list[str]:
    """Accuracy against words changed and against queries, where attacks made any."""
    words = series(pool, tints, lambda one: one.words, even_limits)
    panels = [survival_chart(f"Words changed, {whole}", words, x_title="words that may be changed")]
    if any(one.queries for seeds in pool.values() for texts in seeds for one in texts):
        asked = series(pool, tints, lambda one: one.queries, doubling_limits)
        panels.append(survival_chart(f"Queries, {whole}", asked, x_title="queries allowed for a text", log=True))
    return panels


def series(
    pool: Pool, tints: Mapping[str, int], cost: Callable[[Fate], int | None], limits: Callable[[int], list[int]],
) -> list[Series]:
    most = max((spent for seeds in pool.values() for texts in seeds for one in texts
                if (spent := cost(one)) is not None), default=1)
    return [Series(name, tints[name], survival(seeds, cost, limits(max(most, 1)))) for name, seeds in pool.items()]


def scatter(pool: Pool, tints: Mapping[str, int], whole: str) -> str:
    shares = [(name, tints[name], *before_and_after(seeds)) for name, seeds in pool.items()]
    return scatter_chart(f"Clean accuracy against accuracy under {whole}", shares)


def cost_panels(pool: Pool, tints: Mapping[str, int], costs: Mapping[str, Cost]) -> list[str]:
    """Accuracy under attack against what training and an answer cost, where rows differ in it."""
    kinds: list[tuple[str, str, Callable[[Cost], float | None]]] = [
        ("Training cost", "texts forward and back per training text and epoch", lambda one: one.training),
        ("Cost of an answer", "passes for an answer, at most", lambda one: one.inference)]
    panels = []
    for title, x_title, spent in kinds:
        points = [(name, tints[name], value, before_and_after(seeds)[1]) for name, seeds in pool.items()
                  if name in costs and (value := spent(costs[name])) is not None]
        if len({value for _, _, value, _ in points}) > 1:
            panels.append(cost_chart(f"{title} against accuracy under attack", points, x_title=x_title))
    return panels


def before_and_after(seeds: Sequence[Sequence[Fate]]) -> tuple[Share, Share]:
    clean = share([(sum(one.right for one in texts), len(texts)) for texts in seeds])
    robust = share([(sum(one.right and one.words is None for one in texts), len(texts)) for texts in seeds])
    assert clean is not None and robust is not None  # a pool has no empty seeds
    return clean, robust


def sweep_panels(table: Table, pool: Pool) -> list[str]:
    """Where rows are one defence at several values of one option."""
    entries = [entry for line in table.lines if line.defence in pool for entry in line.entries.values()]
    panels = []
    for sweep in sweeps(entries):
        both = [(value, *before_and_after(pool[row])) for value, row in sweep.variants]
        lines = [Series(*CLEAN, [Point(value, clean) for value, clean, _ in both]),
                 Series(*ROBUST, [Point(value, robust) for value, _, robust in both])]
        panels.append(sweep_chart(f"{sweep.defence} by {sweep.option}: clean (grey), under attack", lines,
                                  x_title=sweep.option))
    return panels


def uneven(table: Table, pool: Pool) -> str:
    """Rows that met fewer attacks than others look better than they are, and so may those of few texts."""
    fewer = [f"{line.defence} on {counted(min(map(len, seeds)), 'text')}" for line in table.lines
             if (seeds := pool.get(line.defence)) and line.clean and min(map(len, seeds)) < line.clean.texts]
    lacking = [f"{line.defence} without {', '.join(sorted(set(table.attacks) - set(line.entries)))}"
               for line in table.lines if set(table.attacks) - set(line.entries)]
    notes = [*([f"Not attacked by all: {'; '.join(lacking)}."] if lacking else []),
             *([f"Texts that all attacks share: {'; '.join(fewer)}."] if fewer else [])]
    return f'<p class="notes">{shown(" ".join(notes))}</p>' if notes else ""


def classes(table: Table, pool: Pool, tints: Mapping[str, int]) -> str:
    """A panel for each class, where there are several."""
    rows: dict[int, list[ClassRow]] = {}
    for name, seeds in pool.items():
        for row in class_rows(name, tints[name], seeds):
            rows.setdefault(row.label, []).append(row)
    if len(rows) < 2:
        return ""
    labels = label_names(next(iter(table.lines[0].entries.values())).runs[0].records.header)
    shown_ones = sorted(rows)[:MOST_CLASSES]
    panels = [class_chart(f"{named(label, labels)} ({counted(rows[label][0].clean.texts, 'text')})", rows[label])
              for label in shown_ones]
    more = f" The first {MOST_CLASSES} of {len(rows)} classes." if len(rows) > MOST_CLASSES else ""
    note = f"Hollow: clean accuracy; filled: under all attacks together; both at the end.{more}"
    return f'<h4>Class by class</h4><p class="notes">{note}</p>{grid(panels)}'


def queries(table: Table, tints: Mapping[str, int]) -> str:
    panels = []
    for attack in table.attacks:
        here = [(tints[line.defence], line.entries[attack]) for line in table.lines if attack in line.entries]
        if rows := histograms(here):
            panels.append(query_chart(attack, rows))
    return f"<h4>How many queries the attacks made for a text</h4>{grid(panels)}" if panels else ""


def each_attack(table: Table, tints: Mapping[str, int]) -> str:
    """The curves once more, for each attack alone."""
    pools = {attack: pooled(table.lines, [attack]) for attack in table.attacks if len(table.attacks) > 1}
    panels = [panel for attack, pool in pools.items() if pool for panel in spending(pool, tints, attack)]
    if not panels:
        return ""
    return f"<details><summary>The curves for each attack ({len(panels)} plots)</summary>{grid(panels)}</details>\n"
