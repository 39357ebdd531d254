# SPDX-License-Identifier: Apache-2.0
"""Scales, grids and marks of plots as SVG, in colours that the style sheet knows."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from math import ceil, floor, log10

from dualmask.text.differences import SHOWN

WIDTH, HEIGHT = 380.0, 250.0  # of a panel; it is shown at about this size on every screen, so letters stay legible
LEFT, RIGHT, TOP, BOTTOM = 42.0, 20.0, 24.0, 42.0
TINTS, DASHES = 8, 3  # colours, and patterns of lines for when they are used up


@dataclass(frozen=True)
class Scale:
    """From values to places."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    whole: bool = False  # numbers between whole ones mean nothing

    def __call__(self, value: float) -> float:
        low, high, value = (log10(max(one, 1e-9)) if self.log else one for one in (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def ticks(self) -> list[float]:
        if self.log:
            return powers(self.low, self.high)
        return round_numbers(self.low, self.high, least=1.0 if self.whole else 0.0)


def round_numbers(low: float, high: float, most: int = 6, *, least: float = 0.0) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, at least so far apart."""
    if high <= low:
        return [low]
    rough = max((high - low) / most, least)
    power = 10.0 ** floor(log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first = ceil(low / step - 1e-9)
    return [round(place * step, 10) for place in range(first, floor(high / step + 1e-9) + 1)]


def powers(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, ... or, over a wide range, powers of ten alone."""
    wide = high / max(low, 1e-9) > 500
    values = [factor * 10.0 ** power for power in range(floor(log10(low)), ceil(log10(high)) + 1)
              for factor in ((1,) if wide else (1, 2, 5))]
    return [value for value in values if low <= value <= high]


def figure(body: str, *, title: str, description: str, height: float = HEIGHT) -> str:
    """A panel with its caption; what it shows is also told in words."""
    label = shown(f"{title}. {description}")
    return (f'<figure class="panel"><figcaption>{shown(title)}</figcaption>'
            f'<svg viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{label}">{body}</svg></figure>\n')


def grid(
    x: Scale, y: Scale, *, x_title: str, x_text: Callable[[float], str], y_text: Callable[[float], str],
    y_title: str = "",
) -> str:
    parts = []
    for value in y.ticks():
        parts.append(f'<path class="grid" d="M{place(x.start)} {place(y(value))}H{place(x.end)}"/>'
                     + text(x.start - 6, y(value) + 4, y_text(value), anchor="end"))
    for value in x.ticks():
        parts.append(f'<path class="tick" d="M{place(x(value))} {place(y.start)}v4"/>'
                     + text(x(value), y.start + 17, x_text(value), anchor="middle"))
    parts.append(f'<path class="axis" d="M{place(x.start)} {place(y.start)}H{place(x.end)}"/>')
    parts.append(text((x.start + x.end) / 2, y.start + 35, x_title, anchor="middle", classes="title"))
    if y_title:
        parts.append(text(x.start + 4, y.end - 8, y_title, classes="title"))
    return "".join(parts)


def text(x: float, y: float, content: str, *, anchor: str = "start", classes: str = "") -> str:
    kind = f' class="{classes}"' if classes else ""
    where = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{place(x)}" y="{place(y)}"{kind}{where}>{shown(content)}</text>'


def label(x: float, y: float, content: str, *, tint: int, anchor: str = "start") -> str:
    """A name in its mark's colour. Lines behind it are kept off by a copy: not every program knows paint-order."""
    halo, name = (text(x, y, content, anchor=anchor, classes=kind) for kind in ("halo", f"name {tinted(tint)}"))
    return halo + name


def mark(tint: int, x: float, y: float, *, size: float = 4.0, title: str = "", hollow: bool = False) -> str:
    """A small shape, another one for each neighbouring tint: nobody has to tell colours apart."""
    s = size
    outlines = [f"M{-s} 0a{s} {s} 0 1 0 {2 * s} 0a{s} {s} 0 1 0 {-2 * s} 0z", f"M{-s} {-s}h{2 * s}v{2 * s}h{-2 * s}z",
                f"M0 {-1.3 * s:g}l{1.3 * s:g} {2.2 * s:g}h{-2.6 * s:g}z",
                f"M0 {-1.4 * s:g}l{1.4 * s:g} {1.4 * s:g}l{-1.4 * s:g} {1.4 * s:g}l{-1.4 * s:g} {-1.4 * s:g}z",
                f"M0 {1.3 * s:g}l{1.3 * s:g} {-2.2 * s:g}h{-2.6 * s:g}z"]
    tip = f"<title>{shown(title)}</title>" if title else ""
    return (f'<path class="mark {tinted(tint)}{" hollow" if hollow else ""}" '
            f'transform="translate({place(x)} {place(y)})" d="{outlines[tint % len(outlines)]}">{tip}</path>')


def tinted(tint: int) -> str:
    """The first row, which others are compared with, is grey; then colours, then the same with dashes."""
    round_, colour = (0, 0) if tint == 0 else divmod(tint - 1, TINTS - 1)
    return f"t{0 if tint == 0 else colour + 1} d{round_ % DASHES}"


def swatch(tint: int) -> str:
    """What a legend has before each name."""
    return f'<svg class="swatch" viewBox="0 0 26 12" aria-hidden="true">{swatch_at(1, 6, tint)}</svg>'


def swatch_at(x: float, y: float, tint: int) -> str:
    """The same inside a plot."""
    return (f'<path class="line {tinted(tint)}" d="M{place(x)} {place(y)}H{place(x + 24)}"/>'
            f"{mark(tint, x + 12, y)}")


def drawing(body: str, *, width: float, height: float, description: str) -> str:
    """A picture that needs nothing else.

    Many programs that draw SVG know neither variables nor a dark theme: the colours of the light one are written out.
    """
    light = dict(re.findall(r"(--[\w-]+): ([^;]+);", stylesheet("theme").partition("@media")[0]))
    style = re.sub(r"var\((--[\w-]+)\)", lambda found: light[found[1]], stylesheet("plots"))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {place(width)} {place(height)}" role="img" '
            f'aria-label="{shown(description)}" font-family="system-ui, sans-serif"><style>{style}</style>'
            f'<rect width="100%" height="100%" fill="{light["--page"]}"/>{body}</svg>\n')


def stylesheet(*names: str) -> str:
    """Style sheets of the package, one after the other: colours, what plots need, and what pages need beside them."""
    return "".join((files("dualmask") / "assets" / f"{name}.css").read_text(encoding="utf-8") for name in names)


def place(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def percent(value: float) -> str:
    return f"{100 * value:.0f}\u00a0%"


def shown(content: str) -> str:
    """Safe inside a page and its attributes: nothing that is markup, steers the writing or can't be written."""
    return escape(content.translate(SHOWN))


def cut(content: str, most: int) -> str:
    return content if len(content) <= most else content[:most - 1] + "…"


def path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{place(x)} {place(y)}" for x, y in points)
