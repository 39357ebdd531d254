# SPDX-License-Identifier: Apache-2.0
"""How sure a measured share is, and whether two methods differ on the same texts."""

from collections.abc import Mapping, Sequence
from math import comb, sqrt
from typing import NamedTuple, TypeVar

import numpy as np

from dualmask.errors import DataError

Z = 1.959963984540054  # the normal distribution's 97.5 % point
K = TypeVar("K")


class Interval(NamedTuple):
    low: float
    high: float


class Spread(NamedTuple):
    """Mean and standard deviation over training seeds; with one seed there is no deviation."""

    mean: float
    deviation: float | None
    values: int


class Difference(NamedTuple):
    """How much higher the first method's share is, with its 95 % interval."""

    value: float
    interval: Interval


def wilson(part: int, whole: int) -> Interval:
    """Wilson's 95 % interval for a share: all p from which the observed one is at most 1.96 deviations away."""
    if not 0 <= part <= whole or whole == 0:
        raise DataError(f"{part} of {whole} is no share; expected a part of at least one text.")
    share, extra = part / whole, Z * Z / whole
    centre, half = share + extra / 2, Z * sqrt(share * (1 - share) / whole + extra / (4 * whole))
    return Interval(max(0.0, (centre - half) / (1 + extra)), min(1.0, (centre + half) / (1 + extra)))


def spread(values: Sequence[float]) -> Spread:
    """Over seeds; the deviation is the sample's."""
    if not values:
        raise DataError("a mean of no values was asked for.")
    mean = sum(values) / len(values)
    if len(values) == 1:
        return Spread(mean, None, 1)
    return Spread(mean, sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1)), len(values))


def mcnemar(one: Sequence[bool], other: Sequence[bool]) -> float:
    """McNemar's exact two-sided p: could the texts that only one method got right be split so by a fair coin?"""
    check_pairs(one, other)
    only_one = sum(a and not b for a, b in zip(one, other, strict=True))
    only_other = sum(b and not a for a, b in zip(one, other, strict=True))
    texts = only_one + only_other
    tail = sum(comb(texts, count) for count in range(min(only_one, only_other) + 1))
    return min(1.0, float(2 * tail / 2 ** texts))


def bootstrap(
    one: Sequence[Sequence[bool]], other: Sequence[Sequence[bool]], *, seed: int = 0, draws: int = 10_000,
) -> Difference:
    """The difference of two shares measured on the same texts, (seeds, texts) each; texts and seeds are drawn anew."""
    shapes = [[*sorted({len(row) for row in table}), len(table)] for table in (one, other)]
    if shapes[0] != shapes[1] or len(shapes[0]) != 2 or 0 in shapes[0]:
        raise DataError("the two tables do not have the same seeds and texts, one row a seed and one column a text; "
                        "measure both methods on the same ones.")
    gaps = np.asarray(one, dtype=float) - np.asarray(other, dtype=float)  # (seeds, texts)
    generator = np.random.default_rng(seed)
    seeds, texts = gaps.shape
    found = np.empty(draws)
    for draw in range(draws):
        rows = generator.integers(seeds, size=seeds)
        columns = generator.integers(texts, size=texts)
        found[draw] = gaps[rows][:, columns].mean()
    low, high = np.quantile(found, [0.025, 0.975])
    return Difference(float(gaps.mean()), Interval(float(low), float(high)))


def holm(values: Mapping[K, float]) -> dict[K, float]:
    """Holm's correction: p-values of one table, raised so that all claims hold together at the usual level."""
    wrong = [name for name, value in values.items() if not 0 <= value <= 1]
    if wrong:
        raise DataError(f"{wrong[0]}: {values[wrong[0]]} is no p-value; expected a number between 0 and 1.")
    corrected: dict[K, float] = {}
    highest = 0.0
    for rank, name in enumerate(sorted(values, key=lambda name: values[name])):
        highest = max(highest, min(1.0, (len(values) - rank) * values[name]))
        corrected[name] = highest
    return {name: corrected[name] for name in values}


def check_pairs(one: Sequence[bool], other: Sequence[bool]) -> None:
    if len(one) != len(other) or not one:
        raise DataError(f"{len(one)} and {len(other)} texts can't be paired; give both methods the same ones.")
