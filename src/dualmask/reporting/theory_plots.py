# SPDX-License-Identifier: Apache-2.0
"""Plots of the theory on real texts, as SVG files by themselves: where the points lie, and what tells recovery."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dualmask.evaluation.statistics import wilson
from dualmask.reporting.axes import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Scale,
    drawing,
    grid,
    label,
    mark,
    path,
    percent,
    place,
    swatch_at,
    text,
    tinted,
)
from dualmask.reporting.theory_tables import CHANCES, layer_name
from dualmask.theory.products import Floats, Products
from dualmask.theory.quantities import Quantities, geometry
from dualmask.theory.recovery import INPUTS, RULE, texts_at
from dualmask.theory.rule import held_out

GAP, HEAD, FOOT = 24.0, 30.0, 34.0  # between panels, above them for their names, below for the legend
MOST = 250  # words that get a mark each
INSIDE = 0.98  # of words lie below the end of a plot, in either direction
NEAREST = 0.75  # of v_a: where the expected distance is least
GROUPS = 5  # of texts, by score
VICTIM, MASK, REPLACEMENT = 3, 1, 2  # tints
SHOWN = {"condition": 2, "uniform": 4, RULE: 1}  # predictors and their tints


class Panel(NamedTuple):
    title: str
    body: str


def sheet(panels: Sequence[Panel], legend: Sequence[tuple[str, int]], *, dashed: str, description: str) -> str:
    """Panels beside each other with one legend, as a file that needs nothing else. dashed: what such lines are."""
    width = len(panels) * (WIDTH + GAP) + GAP
    parts = []
    for number, panel in enumerate(panels):
        heading = text(LEFT, -10, panel.title, classes="group")
        parts.append(f'<g transform="translate({place(GAP + number * (WIDTH + GAP))} {place(HEAD)})">{heading}'
                     f"{panel.body}</g>")
    across = GAP + LEFT
    for name, tint in legend:
        parts.append(swatch_at(across, HEAD + HEIGHT + 14, tint) + text(across + 34, HEAD + HEIGHT + 18, name))
        across += 60 + 6.6 * len(name)
    parts.append(f'<path class="limit" d="M{place(across)} {place(HEAD + HEIGHT + 14)}h24"/>'
                 + text(across + 34, HEAD + HEIGHT + 18, dashed))
    across += 60 + 6.6 * len(dashed)
    return drawing("".join(parts), width=max(width, across), height=HEAD + HEIGHT + FOOT, description=description)


def geometry_plot(found: Quantities) -> str:
    """Seen along v_a: how far m and r lie in its direction and how far off it, in lengths of v_a.

    Lengths and angles to v_a are true; the angle between v_m and v_r is lost, which no plane can keep as well. What is
    expected of a point depends on its distance to 3/4 v_a alone, so that E_m <= E_r can be seen here.
    """
    panels = [Panel(f"layer {layer_name(layer, found.header)}", geometry_panel(geometry(found.words, layer)))
              for layer in found.words[0].layers]
    return sheet(panels, [("a, the victim", VICTIM), ("m, the mask", MASK), ("r, the replacement", REPLACEMENT)],
                 dashed="as far from 3/4 a as the median m: for r outside, E_m <= E_r",
                 description="Where mask and replacement lie, seen from the contracted context s along the victim")


def geometry_panel(p: Products) -> str:
    sides = {tint: seen_along(p, name) for name, tint in (("m", MASK), ("r", REPLACEMENT))}  # (words, 2)
    every = np.concatenate([*sides.values(), [[0.0, 0.0], [1.0, 0.0]]])
    (low, _), (high, top) = np.quantile(every, [1 - INSIDE, INSIDE], axis=0)
    low, high, top = min(low, 0.0) - 0.1, max(high, 1.0) + 0.1, max(top, 0.2) * 1.2  # room for the axis's name
    scale = min((WIDTH - LEFT - RIGHT) / (high - low), (HEIGHT - TOP - BOTTOM) / top)  # the same in both directions
    half, middle = (WIDTH - LEFT - RIGHT) / scale / 2, (low + high) / 2
    x = Scale(middle - half, middle + half, LEFT, WIDTH - RIGHT)
    y = Scale(0.0, (HEIGHT - TOP - BOTTOM) / scale, HEIGHT - BOTTOM, TOP)
    body = [grid(x, y, x_title="along v_a, in lengths of v_a", x_text=lambda value: f"{value:g}",
                 y_text=lambda value: f"{value:g}", y_title="off the direction of v_a")]
    for tint, points in sides.items():
        chosen = points[np.linspace(0, len(points) - 1, min(MOST, len(points))).astype(int)] if len(points) else points
        dots = "".join(f"M{place(x(one))} {place(y(two))}h0" for one, two in chosen
                       if low <= one <= high and two <= top)
        body.append(f'<path class="dots {tinted(tint)}" d="{dots}"/>')
    body.append(f'<path class="line {tinted(VICTIM)}" d="{path([(x(0), y(0)), (x(1), y(0))])}"/>'
                + mark(VICTIM, x(1), y(0), size=5, title="a") + mark(0, x(0), y(0), size=5, title="s"))
    body += [label(x(0) - 10, y(0) - 8, "s", tint=0), label(x(1) + 6, y(0) - 8, "a", tint=VICTIM)]
    for name, (tint, points) in zip("mr", sides.items(), strict=True):
        if len(points):
            one, two = np.median(points, axis=0)
            body.append(like_the_mask(one, two, x, y) if name == "m" else "")
            left = name == "m"  # names on either side: the medians are often near each other
            body.append(mark(tint, x(one), y(two), size=6, title=f"median of {name}: {one:.2f} along, {two:.2f} off")
                        + label(x(one) + (-10 if left else 10), y(two) + 4, name, tint=tint,
                                anchor="end" if left else "start"))
    return "".join(body)


def like_the_mask(along: float, off: float, x: Scale, y: Scale) -> str:
    """The points as far from 3/4 v_a as a mask: those with its expected distance."""
    far = float(np.hypot(along - NEAREST, off))
    arc = [(NEAREST + far * np.cos(angle), far * np.sin(angle)) for angle in np.linspace(0, np.pi, 61)]
    seen = [(x(one), y(two)) for one, two in arc if x.low <= one <= x.high and two <= y.high]
    return f'<path class="limit" d="{path(seen)}"/>'


def seen_along(p: Products, name: str) -> Floats:
    """Of m or r the part along v_a and the length of the rest; where v_a is zero there is no direction."""
    some = p.aa > 0
    square, mixed, unit = (getattr(p, one)[some] for one in (name * 2, f"a{name}", "aa"))
    along = mixed / unit
    return np.stack([along, np.sqrt(np.maximum(square / unit - np.square(along), 0.0))], axis=1)


def recovery_plot(found: Quantities) -> str:
    """Texts in groups by their score: if the score tells recovery, its line rises."""
    panels = [Panel(f"layer {layer_name(layer, found.header)}", recovery_panel(found, layer))
              for layer in found.words[0].layers]
    return sheet(panels, [(CHANCES[name], tint) for name, tint in SHOWN.items()], dashed="all texts",
                 description="Share of texts whose label is recovered, by how the condition and our rule score them")


def recovery_panel(found: Quantities, layer: int) -> str:
    texts = texts_at(found.words, layer)
    x, y = Scale(0.0, 1.0, LEFT, WIDTH - RIGHT), Scale(0.0, 1.0, HEIGHT - BOTTOM, TOP)
    body = [grid(x, y, x_title="texts by score, from the lowest to the highest", x_text=percent, y_text=percent,
                 y_title="label recovered"),
            f'<path class="limit" d="M{place(x.start)} {place(y(float(texts.recovered.mean())))}H{place(x.end)}"/>']
    scores = {**texts.scores}
    if rounds := held_out(texts.inputs[:, INPUTS[RULE]], texts.recovered, texts.sources):
        scores[RULE] = np.mean([one.scores for one in rounds], axis=0)
    for number, (name, tint) in enumerate(SHOWN.items()):
        if name in scores:
            body.append(line(grouped(scores[name], texts.recovered.astype(float)), x, y, tint=tint,
                             shift=3.0 * (number - 1), name=CHANCES[name]))
    return "".join(body)


def grouped(scores: Floats, recovered: Floats) -> list[tuple[float, int, int]]:
    """(middle rank, recovered, texts) of groups of about equal size; equal scores stay together."""
    edges = np.unique(np.quantile(scores, np.linspace(0, 1, GROUPS + 1)[1:-1]))
    groups = np.searchsorted(edges, scores, side="right")
    ranks = np.argsort(np.argsort(scores, kind="stable"), kind="stable") / max(len(scores) - 1, 1)
    return [(float(ranks[chosen].mean()), int(recovered[chosen].sum()), int(chosen.sum()))
            for group in range(len(edges) + 1) if (chosen := groups == group).any()]


def line(
    points: Sequence[tuple[float, int, int]], x: Scale, y: Scale, *, tint: int, shift: float, name: str,
) -> str:
    """Shares with their intervals; lines are moved apart a little, so that intervals stay visible."""
    places = [(x(rank) + shift, y(part / whole)) for rank, part, whole in points]
    parts = [f'<path class="line {tinted(tint)}" d="{path(places)}"/>']
    for (across, up), (_, part, whole) in zip(places, points, strict=True):
        low, high = wilson(part, whole)
        parts.append(f'<path class="whisker {tinted(tint)}" d="M{place(across)} {place(y(low))}V{place(y(high))}"/>'
                     + mark(tint, across, up, title=f"{name}: {part} of {whole} recovered"))
    return "".join(parts)
