# SPDX-License-Identifier: Apache-2.0
"""A report's panels as pictures by themselves: SVG files with a legend that need nothing else."""

import re
from collections.abc import Mapping, Sequence

from dualmask.reporting.axes import HEIGHT, WIDTH, cut, drawing, place, swatch_at, text
from dualmask.reporting.page_plots import cost_panels, pooled, scatter, sweep_panels
from dualmask.reporting.report import Report, Table

GAP, HEAD, ROW = 24.0, 30.0, 22.0  # between panels, above them for their names, a line of the legend
LONGEST = 56  # letters of a panel's name
PANEL = re.compile(r"<figcaption>(?P<title>.*?)</figcaption>(?P<svg><svg .*</svg>)", re.S)


def pictures(report: Report, tints: Mapping[str, int]) -> dict[str, str]:
    """By name, for each data set and encoder: what adaptive attacks leave, against clean accuracy and against costs."""
    found = {}
    for table in report.tables:
        if (table.mode, table.scores) == ("adaptive", "raw") and (picture := picture_of(report, table, tints)):
            found[f"{table.data}.{table.encoder}"] = picture
    return found


def picture_of(report: Report, table: Table, tints: Mapping[str, int]) -> str:
    pool = pooled(table.lines, table.attacks)
    if not pool:
        return ""
    costs = {one.defence: one for one in report.costs if (one.data, one.encoder) == (table.data, table.encoder)}
    panels = [scatter(pool, tints, "any of the attacks"), *cost_panels(pool, tints, costs), *sweep_panels(table, pool)]
    return sheet(panels, [(name, tints[name]) for name in pool], description=f"{table.data}, {table.encoder}: accuracy "
                 "under any of the attacks, which ask the defended classifier")


def sheet(panels: Sequence[str], legend: Sequence[tuple[str, int]], *, description: str) -> str:
    """Panels of a page side by side, two to a row, and below them what the marks stand for."""
    across = min(2, len(panels))
    width = across * (WIDTH + GAP) + GAP
    parts = []
    for number, panel in enumerate(filter(None, map(PANEL.search, panels))):
        x, y = GAP + (number % across) * (WIDTH + GAP), HEAD + (number // across) * (HEIGHT + HEAD + GAP)
        size = f'<svg x="{place(x)}" y="{place(y)}" width="{place(WIDTH)}" height="{place(HEIGHT)}" '
        heading = f'<text x="{place(x)}" y="{place(y - 10)}" class="group">{cut(panel["title"], LONGEST)}</text>'
        parts.append(heading + panel["svg"].replace("<svg ", size, 1))
    top = HEAD + -(-len(panels) // across) * (HEIGHT + HEAD + GAP) - GAP
    x, y = GAP, top
    for name, tint in legend:
        long = 60 + 6.8 * len(name)
        if x + long > width and x > GAP:
            x, y = GAP, y + ROW
        parts.append(swatch_at(x, y, tint) + text(x + 34, y + 4, name))
        x += long
    return drawing("".join(parts), width=width, height=y + ROW, description=description)
