# SPDX-License-Identifier: Apache-2.0
"""The theorem's success condition, its brackets repaired, and the exact conditions that do without it.

    v_a, v_m, v_r       victim, [MASK] and replacement, rooted at s, the contracted unchanged tokens
    l_am, l_ar, l_mr    cosines between them
    E_m, E_mr, E_r      expected squared distance of the original [CLS] to that with the mask in the replacement's
                        place (DDM), with mask and replacement (MI4D), and with the replacement (undefended)

Claim: E_m <= E_mr <= E_r. Every function takes vectors, (..., d), and works on all leading dimensions at once; those
ending in `_of` take `Products`. Differences within rounding count as equal.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dualmask.theory.distances import Law, segment_distance, triangle_distance
from dualmask.theory.products import ROUNDING, Flags, Floats, Products, products


class Success(NamedTuple):
    """The theorem's condition: ||v_r|| >= the greatest of three thresholds, and l_mr > 0."""

    first: Floats  # 1(Delta_1 >= 0) 9/8 (||v_a|| l_ar + 4 sqrt Delta_1)
    second: Floats  # 1(Delta_2 >= 0) 3/4 (||v_a|| l_ar + 2 sqrt Delta_2)
    third: Floats  # ||v_m|| / l_mr; infinite where the theorem does not apply
    applicable: Flags  # l_mr > 0; of a zero vector it is 0
    holds: Flags
    reach: Floats  # ||v_r|| / (||v_r|| + greatest threshold): at least 1/2 where it holds, 0 where it does not apply


class Margins(NamedTuple):
    """What must not be negative; each is necessary as well as sufficient."""

    p1: Floats  # E_m <= E_mr under the paper's law
    p2: Floats  # E_mr <= E_r under the paper's law
    u1: Floats  # E_m <= E_mr, uniform
    u2: Floats  # E_mr <= E_r, uniform
    r: Floats  # E_m <= E_r, under both
    size: Floats  # ||v_a||^2 + ||v_m||^2 + ||v_r||^2, to compare them with

    def hold(self, name: str) -> Flags:
        """Whether one of the margins is not negative, but for rounding."""
        return np.asarray(getattr(self, name) >= -ROUNDING * self.size)

    def relative(self, name: str) -> Floats:
        """A margin as a share of the squared lengths; 0 where all vectors are."""
        margin = np.asarray(getattr(self, name), dtype=np.float64)
        return np.divide(margin, self.size, out=np.zeros_like(margin), where=self.size > 0)


class Ordering(NamedTuple):
    """The expected squared distances, ||v_a||^2/3 included, and whether they come in the claimed order."""

    e_m: Floats
    e_mr_paper: Floats
    e_mr_uniform: Floats
    e_r: Floats
    paper: Flags  # E_m <= E_mr <= E_r under the paper's law
    uniform: Flags
    masked_closer: Flags  # E_m <= E_r


def delta1(v_a: ArrayLike, v_m: ArrayLike, v_r: ArrayLike) -> Floats:
    """(2/9 ||v_m|| - ||v_a||/4 l_am)^2 - ||v_a||^2/16 (l_am^2 - l_ar^2)."""
    return delta1_of(products(v_a, v_m, v_r))


def delta2(v_a: ArrayLike, v_m: ArrayLike, v_r: ArrayLike) -> Floats:
    """(2/3 ||v_m|| - ||v_a||/2 l_am)^2 - ||v_a||^2/4 (l_am^2 - l_ar^2)."""
    return delta2_of(products(v_a, v_m, v_r))


def delta1_of(p: Products) -> Floats:
    # Multiplied out, so that (||v_a|| l_am)^2 cancels exactly
    return np.asarray(4 / 81 * p.mm - p.am / 9 + np.square(along(p, "ar")) / 16)


def delta2_of(p: Products) -> Floats:
    return np.asarray(4 / 9 * p.mm - 2 / 3 * p.am + np.square(along(p, "ar")) / 4)


def along(p: Products, pair: str) -> Floats:
    """||v_a|| times its cosine with another vector: its length along that one."""
    return np.sqrt(p.aa) * p.cosine(*pair)


def success_condition(v_a: ArrayLike, v_m: ArrayLike, v_r: ArrayLike) -> Success:
    return success_condition_of(products(v_a, v_m, v_r))


def success_condition_of(p: Products) -> Success:
    d1, d2, a_along_r, length = delta1_of(p), delta2_of(p), along(p, "ar"), np.sqrt(p.rr)
    first = np.where(d1 >= 0, 9 / 8 * (a_along_r + 4 * np.sqrt(np.maximum(d1, 0))), 0.0)
    second = np.where(d2 >= 0, 3 / 4 * (a_along_r + 2 * np.sqrt(np.maximum(d2, 0))), 0.0)
    applicable = np.asarray(p.cosine("m", "r") > 0)
    scale = np.sqrt(p.mm) * length  # ||v_m|| / l_mr = ||v_m|| (||v_m|| ||v_r||) / v_m.v_r
    third = np.divide(np.sqrt(p.mm) * scale, p.mr, out=np.full_like(scale, np.inf), where=applicable)
    slack = ROUNDING * np.sqrt(p.size)
    # The third part as v_m.v_r >= ||v_m||^2: the same without a division
    holds = (applicable & (length >= np.maximum(first, second) - slack) & (p.mr >= p.mm - ROUNDING * p.size))
    greatest = np.maximum(np.maximum(first, second), third)
    reach = np.divide(length, length + greatest, out=np.zeros_like(length), where=np.isfinite(greatest) & (length > 0))
    return Success(first, second, third, applicable, np.asarray(holds), np.where(holds, np.maximum(reach, 0.5), reach))


def exact_conditions(v_a: ArrayLike, v_m: ArrayLike, v_r: ArrayLike) -> Margins:
    return exact_conditions_of(products(v_a, v_m, v_r))


def exact_conditions_of(p: Products) -> Margins:
    return Margins(
        p1=np.asarray(4 * p.rr - 8 * p.mm + 9 * p.am - 9 * p.ar + 4 * p.mr),
        p2=np.asarray(8 * p.rr - 4 * p.mm + 9 * p.am - 9 * p.ar - 4 * p.mr),
        u1=np.asarray(p.rr - p.mm + p.am - 2 * p.ar + p.mr),
        u2=np.asarray(p.rr - p.mm + 2 * p.am - p.ar - p.mr),
        r=np.asarray(2 * p.rr - 2 * p.mm + 3 * p.am - 3 * p.ar), size=p.size)


def ordering(v_a: ArrayLike, v_m: ArrayLike, v_r: ArrayLike) -> Ordering:
    return ordering_of(products(v_a, v_m, v_r))


def ordering_of(p: Products) -> Ordering:
    e_m, e_r = segment_distance(p, "m"), segment_distance(p, "r")
    middle: dict[Law, Floats] = {law: triangle_distance(p, law) for law in ("paper", "uniform")}
    slack = ROUNDING * p.size
    paper, uniform = ((e_m <= found + slack) & (found <= e_r + slack) for found in middle.values())
    return Ordering(e_m, middle["paper"], middle["uniform"], e_r, np.asarray(paper), np.asarray(uniform),
                    np.asarray(e_m <= e_r + slack))
