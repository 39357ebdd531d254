# SPDX-License-Identifier: Apache-2.0
"""Lemmas 1 and 2: expected squared distances of random points of segments and triangles that share a corner.

The corner is s, the origin. A point of the segment to b is beta b. A point of the triangle with b and c is
mu b + nu c, under one of two laws:

    "paper"    mu = z y, nu = z (1 - y): what the proof of Lemma 2 draws. It crowds at s and is not uniform.
    "uniform"  the same with sqrt(z): what the lemma and Assumption 1 speak of.
"""

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from dualmask.errors import OptionError, did_you_mean
from dualmask.theory.products import Floats, Products, products, vectors

Law = Literal["paper", "uniform"]
LAWS: tuple[Law, ...] = get_args(Law)
AT_ONCE = 1 << 16  # draws in memory at a time


class Moments(NamedTuple):
    """Of the coefficients mu and nu, which are alike."""

    mean: float  # E mu = E nu
    square: float  # E mu^2 = E nu^2
    mixed: float  # E mu nu


MOMENTS: dict[Law, Moments] = {"paper": Moments(1 / 4, 1 / 9, 1 / 18), "uniform": Moments(1 / 3, 1 / 6, 1 / 12)}


class Estimate(NamedTuple):
    """A mean over draws and its standard error."""

    value: float
    error: float


def moments(law: str) -> Moments:
    if law not in LAWS:
        raise OptionError(f"unknown law '{law}'{did_you_mean(law, LAWS)}")
    return MOMENTS[law]


def expected_sq_distance_segment(a: ArrayLike, b: ArrayLike) -> Floats:
    """Lemma 1: E||alpha a - beta b||^2 = ||a||^2/3 + ||b||^2/3 - a.b/2, for independent uniform alpha and beta."""
    return segment_distance(products(a, b, b))


def expected_sq_distance_triangle(a: ArrayLike, b: ArrayLike, c: ArrayLike, law: Law = "uniform") -> Floats:
    """Lemma 2: E||alpha a - mu b - nu c||^2. As printed it is the law "paper"; as stated it is "uniform"."""
    return triangle_distance(products(a, b, c), law)


def segment_distance(p: Products, to: Literal["m", "r"] = "m") -> Floats:
    square, mixed = (p.mm, p.am) if to == "m" else (p.rr, p.ar)
    return np.asarray(p.aa / 3 + square / 3 - mixed / 2)


def triangle_distance(p: Products, law: Law) -> Floats:
    mean, square, mixed = moments(law)
    return np.asarray(p.aa / 3 + square * (p.mm + p.rr) - mean * (p.am + p.ar) + 2 * mixed * p.mr)


def segment_coefficients(count: int, generator: np.random.Generator) -> Floats:
    """beta, (count,)."""
    return generator.random(count)


def triangle_coefficients(count: int, law: Law, generator: np.random.Generator) -> Floats:
    """mu and nu, (count, 2)."""
    moments(law)  # refuses other names
    y, z = generator.random((2, count))
    scale = z if law == "paper" else np.sqrt(z)
    return np.stack([scale * y, scale * (1 - y)], axis=1)


def sample_segment(b: ArrayLike, count: int, generator: np.random.Generator) -> Floats:
    """Points uniform between s and b, (count, d)."""
    end, = vectors(b)
    return np.asarray(segment_coefficients(count, generator)[:, None] * end)


def sample_triangle(b: ArrayLike, c: ArrayLike, law: Law, *, count: int, generator: np.random.Generator) -> Floats:
    """Points of the triangle with corners s, b and c, (count, d)."""
    corners = np.stack(np.broadcast_arrays(*vectors(b, c)))
    return np.asarray(triangle_coefficients(count, law, generator) @ corners)


def monte_carlo(
    a: ArrayLike, b: ArrayLike, c: ArrayLike | None = None, *, law: Law = "uniform", count: int,
    generator: np.random.Generator,
) -> Estimate:
    """The expected squared distance from draws, of Lemma 1 or, with c, of Lemma 2, for one pair or triple.

    A squared distance is a quadratic form in the coefficients, so only these are drawn, whatever the dimension.
    """
    if count < 2:
        raise OptionError(f"{count} draws were asked for; an error takes at least 2.")
    ends = np.stack(vectors(a, b) if c is None else vectors(a, b, c))  # (2 or 3, d)
    gram = ends @ ends.T
    total = squares = 0.0
    for start in range(0, count, AT_ONCE):
        part = min(AT_ONCE, count - start)
        towards = (segment_coefficients(part, generator)[:, None] if c is None
                   else triangle_coefficients(part, law, generator))
        signed = np.concatenate([segment_coefficients(part, generator)[:, None], -towards], axis=1)
        found = np.einsum("ni,ij,nj->n", signed, gram, signed, optimize=True)
        total += found.sum()
        squares += np.square(found).sum()
    mean = total / count
    variance = max(0.0, squares - count * mean * mean) / (count - 1)
    return Estimate(float(mean), float(np.sqrt(variance / count)))
