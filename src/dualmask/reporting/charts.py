# SPDX-License-Identifier: Apache-2.0
"""Plots as SVG inside a page: no library, no script, letters that can be selected, every mark with its figures."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import hypot

from dualmask.reporting import axes
from dualmask.reporting.axes import (
    Scale,
    cut,
    figure,
    grid,
    label,
    mark,
    path,
    percent,
    place,
    shown,
    swatch,
    text,
    tinted,
)
from dualmask.reporting.curves import ClassRow, Histogram, Point, Series
from dualmask.reporting.entries import Share

RIBBONS = 3  # curves that get their intervals drawn; more would hide each other
ROW = 21.0  # height of a row in plots of rows
NAMES = 122.0  # width of their names
COVERED = 4.0  # marks that are nearer to each other look like one
Box = tuple[float, float, float, float]  # left, right, top, bottom
VALUES = 76.0  # and of the values at their ends
ACROSS = Scale(0.0, 1.0, NAMES, axes.WIDTH - VALUES)
BARS, COUNTS = 50.0, 16.0  # height of a row of bars, and of the numbers above them


def told(share: Share) -> str:
    """A share with its interval."""
    low, high = share.interval
    return f"{100 * share.mean:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def legend(names: Iterable[tuple[str, int]]) -> str:
    items = "".join(f"<li>{swatch(tint)} {shown(name)}</li>" for name, tint in names)
    return f'<ul class="legend">{items}</ul>\n'


def survival_chart(title: str, series: Sequence[Series], *, x_title: str, log: bool = False) -> str:
    """The share of texts still right, falling as an attack may spend more."""
    most = max((one.points[-1].x for one in series), default=1.0)
    x = Scale(1.0 if log else 0.0, max(most, 2.0 if log else 1.0), axes.LEFT, axes.WIDTH - axes.RIGHT, log, whole=True)
    y = upright(1.0)
    body = [grid(x, y, x_title=x_title, x_text=whole, y_text=percent, y_title="texts still right")]
    if len(series) <= RIBBONS:
        body += [ribbon(one, x, y) for one in series]
    body += [staircase(one, x, y) for one in series]
    words = "; ".join(f"{one.name} from {percent(one.points[0].share.mean)} to {percent(one.points[-1].share.mean)}"
                      for one in series)
    return figure("".join(body), title=title, description=words)


def upright(high: float) -> Scale:
    return Scale(0.0, high, axes.HEIGHT - axes.BOTTOM, axes.TOP)


def whole(value: float) -> str:
    return f"{value:,.0f}"


def steps(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Each value holds until the next."""
    result = list(points[:1])
    for (_, before), (x, after) in pairwise(points):
        result += [(x, before), (x, after)] if after != before else [(x, after)]
    return result


def staircase(series: Series, x: Scale, y: Scale) -> str:
    line = path(steps([(x(one.x), y(one.share.mean)) for one in series.points]))
    every = max(1, len(series.points) // 5)
    marks = "".join(mark(series.tint, x(one.x), y(one.share.mean), size=3, title=f"{series.name}, {whole(one.x)}: "
                         f"{told(one.share)}") for one in series.points[::every])
    tip = f"{series.name}: {told(series.points[0].share)} before, {told(series.points[-1].share)} at the end"
    return (f'<g><title>{shown(tip)}</title><path class="line {tinted(series.tint)}" d="{line}"/></g>{marks}')


def ribbon(series: Series, x: Scale, y: Scale) -> str:
    upper = steps([(x(one.x), y(one.share.interval.high)) for one in series.points])
    lower = steps([(x(one.x), y(one.share.interval.low)) for one in series.points])
    return f'<path class="ribbon {tinted(series.tint)}" d="{path([*upper, *reversed(lower)])}Z"/>'


def sweep_chart(title: str, series: Sequence[Series], *, x_title: str) -> str:
    """Accuracy over the values of one option."""
    values = [point.x for one in series for point in one.points]
    low, high = min(values), max(values)
    x = Scale(low - 0.05 * (high - low), high + 0.05 * (high - low), axes.LEFT, axes.WIDTH - axes.RIGHT)
    y = upright(1.0)
    body = [grid(x, y, x_title=x_title, x_text=lambda value: f"{value:g}", y_text=percent, y_title="accuracy")]
    for one in series:
        body.append(f'<path class="line {tinted(one.tint)}" '
                    f'd="{path([(x(point.x), y(point.share.mean)) for point in one.points])}"/>')
        body += [whisker(point, x, y, tint=one.tint)
                 + mark(one.tint, x(point.x), y(point.share.mean), title=f"{one.name} at {point.x:g}: "
                        f"{told(point.share)}") for point in one.points]
    words = "; ".join(f"{one.name} " + ", ".join(f"{percent(point.share.mean)} at {point.x:g}" for point in one.points)
                      for one in series)
    return figure("".join(body), title=title, description=words)


def whisker(point: Point, x: Scale, y: Scale, *, tint: int) -> str:
    low, high = point.share.interval
    return f'<path class="whisker {tinted(tint)}" d="M{place(x(point.x))} {place(y(low))}V{place(y(high))}"/>'


def scatter_chart(title: str, defences: Sequence[tuple[str, int, Share, Share]]) -> str:
    """Accuracy without an attack against accuracy under the worst, with both intervals; names beside the marks."""
    edges = [edge for _, _, clean, _ in defences for edge in clean.interval]
    low = max(0.0, min(edges) - 0.05)
    x = Scale(low, min(1.0, max(edges) + 0.05), axes.LEFT, axes.WIDTH - axes.RIGHT)
    y = upright(min(1.0, 0.08 + max(robust.interval.high for _, _, _, robust in defences)))
    body = [grid(x, y, x_title="clean accuracy (CLA)", x_text=percent, y_text=percent,
                 y_title="accuracy under attack (CAA)")]
    if y.high > low:  # beyond this line nothing can lie
        top = min(x.high, y.high)
        body.append(f'<path class="limit" d="M{place(x(low))} {place(y(low))}L{place(x(top))} {place(y(top))}">'
                    "<title>no accuracy lost</title></path>")
    for name, tint, clean, robust in sorted(defences, key=lambda one: one[3].mean):  # the best lies on top
        across, up = place(x(clean.mean)), place(y(robust.mean))
        body.append(f'<path class="whisker {tinted(tint)}" d="M{place(x(clean.interval.low))} {up}'
                    f'H{place(x(clean.interval.high))}M{across} {place(y(robust.interval.low))}'
                    f'V{place(y(robust.interval.high))}"/>'
                    + mark(tint, x(clean.mean), y(robust.mean), size=5,
                           title=f"{name}: CLA {told(clean)}, CAA {told(robust)}"))
    body.append(names_beside([(x(clean.mean), y(robust.mean), name, tint) for name, tint, clean, robust in defences]))
    words = "; ".join(f"{name} {percent(clean.mean)} clean, {percent(robust.mean)} under attack"
                      for name, _, clean, robust in defences)
    return figure("".join(body), title=title, description=words)


def cost_chart(title: str, defences: Sequence[tuple[str, int, float, Share]], *, x_title: str) -> str:
    """Accuracy under attack against a cost, with its interval; names beside the marks."""
    values = [value for _, _, value, _ in defences]
    x = Scale(max(min(values), 0.1) / 1.3, 1.3 * max(values), axes.LEFT, axes.WIDTH - axes.RIGHT, log=True)
    y = upright(min(1.0, 0.08 + max(share.interval.high for _, _, _, share in defences)))
    body = [grid(x, y, x_title=x_title, x_text=lambda value: f"{value:g}", y_text=percent,
                 y_title="accuracy under attack (CAA)")]
    for name, tint, value, share in sorted(defences, key=lambda one: one[3].mean):  # the best lies on top
        body.append(whisker(Point(value, share), x, y, tint=tint) + mark(
            tint, x(value), y(share.mean), size=5, title=f"{name} at {value:g}: CAA {told(share)}"))
    body.append(names_beside([(x(value), y(share.mean), name, tint) for name, tint, value, share in defences]))
    words = "; ".join(f"{name} {percent(share.mean)} at {value:g}" for name, _, value, share in defences)
    return figure("".join(body), title=title, description=words)


def names_beside(marks: Sequence[tuple[float, float, str, int]]) -> str:
    """Names next to their marks, the highest first, which lie on top. One whose mark is covered, or that finds no free
    place, is left to the legend."""
    parts = []
    taken = [(x - 7, x + 7, y - 7, y + 7) for x, y, _, _ in marks]
    highest = sorted(marks, key=lambda one: one[1])
    for number, (x, y, name, tint) in enumerate(highest):
        if any(hypot(x - other[0], y - other[1]) < COVERED for other in highest[:number]):
            continue
        short = cut(name, 22)
        width = 6.8 * len(short)
        for left, base in ((x + 9, y + 4), (x - 9 - width, y + 4), (x + 9, y - 5), (x + 9, y + 14),
                           (x - width / 2, y - 10), (x - width / 2, y + 19)):
            box = (left, left + width, base - 10, base + 3)
            inside = left > axes.LEFT and left + width < axes.WIDTH and 10 < base < axes.HEIGHT - axes.BOTTOM - 4
            if inside and not any(overlap(box, other) for other in taken):
                taken.append(box)
                parts.append(label(left, base, short, tint=tint))
                break
    return "".join(parts)


def overlap(one: Box, other: Box) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def class_chart(title: str, rows: Sequence[ClassRow]) -> str:
    """A line for each defence, from accuracy under attack (filled) to clean accuracy (hollow)."""
    height = 4 + ROW * len(rows)
    body = [scale_of_shares(height), *(class_line(row, 4 + ROW * (place + 0.5)) for place, row in enumerate(rows))]
    words = "; ".join(f"{row.name} from {percent(row.clean.mean)} to {percent(row.robust.mean)}" for row in rows)
    return figure("".join(body), title=title, description=words, height=height + 22)


def class_line(row: ClassRow, y: float) -> str:
    tip = f"{row.name}: CLA {told(row.clean)}, CAA {told(row.robust)}"
    return (text(NAMES - 12, y + 4, cut(row.name, 17), anchor="end")
            + f'<path class="line thin {tinted(row.tint)}" d="M{place(ACROSS(row.robust.mean))} {place(y)}'
            f'H{place(ACROSS(row.clean.mean))}"/>'
            + mark(row.tint, ACROSS(row.clean.mean), y, title=tip, hollow=True)
            + mark(row.tint, ACROSS(row.robust.mean), y, title=tip)
            + text(axes.WIDTH - 2, y + 4, f"{100 * row.clean.mean:.0f} → {percent(row.robust.mean)}", anchor="end"))


def scale_of_shares(height: float) -> str:
    return "".join(f'<path class="grid" d="M{place(ACROSS(value))} 4V{place(height + 4)}"/>'
                   + text(ACROSS(value), height + 18, percent(value), anchor="middle")
                   for value in (0.0, 0.25, 0.5, 0.75, 1.0))


def query_chart(title: str, rows: Sequence[Histogram]) -> str:
    """A small histogram for each defence, one below the other, on one scale."""
    edges = rows[0].edges
    x = Scale(edges[0], edges[-1], NAMES, axes.WIDTH - axes.RIGHT - 6, log=True)
    body, y = [], 2.0
    for row in rows:
        y += BARS
        highest = max(row.counts)
        body.append(text(NAMES - 12, y - 14, cut(row.name, 17), anchor="end")
                    + text(NAMES - 12, y - 1, f"median {row.median:,.0f}", anchor="end", classes="title"))
        for (start, end), count in zip(pairwise(edges), row.counts, strict=True):
            if count:
                high = max(1.0, (BARS - COUNTS) * count / highest)
                body.append(f'<rect class="bar {tinted(row.tint)}" x="{place(x(start))}" y="{place(y - high)}" '
                            f'width="{place(max(1.0, x(end) - x(start) - 1))}" height="{place(high)}"><title>'
                            f'{count:,} texts took {start:,} to {end - 1:,} queries</title></rect>'
                            + text((x(start) + x(end)) / 2, y - high - 3, f"{count:,}", anchor="middle",
                                   classes="count"))
        body.append(f'<path class="grid" d="M{NAMES:g} {place(y)}H{place(x.end)}"/>')
    body += [text(x(value), y + 16, whole(value), anchor="middle") for value in x.ticks()]
    body.append(text((x.start + x.end) / 2, y + 33, "queries for a text", anchor="middle", classes="title"))
    words = "; ".join(f"{row.name}: median {row.median:,.0f}" for row in rows)
    return figure("".join(body), title=title, description=words, height=y + 40)
