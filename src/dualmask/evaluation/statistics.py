# SPDX-License-Identifier: Apache-2.0
"""How sure a measured share is, and whether two methods differ on the same texts."""

from collections.abc import Mapping, Sequence
from functools import cache
from math import comb, lgamma, log, log1p, sqrt
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dualmask.errors import DataError

Z = 1.959963984540054  # the normal distribution's 97.5 % point
SAFE = 1e-6  # share of alpha that a bound leaves to rounding errors
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


def wilson(part: float, whole: int) -> Interval:
    """Wilson's 95 % interval for a share: all p from which the observed one is at most 1.96 deviations away.

    The part may be a mean over seeds and so no whole number.
    """
    if not 0 <= part <= whole * (1 + 1e-12) or whole == 0:
        raise DataError(f"{part} of {whole} is no share; expected a part of at least one text.")
    share, extra = min(1.0, part / whole), Z * Z / whole
    centre, half = share + extra / 2, Z * sqrt(share * (1 - share) / whole + extra / (4 * whole))
    return Interval(max(0.0, (centre - half) / (1 + extra)), min(1.0, (centre + half) / (1 + extra)))


@cache
def clopper_pearson(successes: int, draws: int, alpha: float = 0.05) -> float:
    """Clopper and Pearson's lower bound: the true chance lies below it with a probability of at most alpha.

    It is the largest p at which so many successes or more still have a chance of no more than alpha. That chance is
    known to some 1e-11 of itself for thousands of draws; it is held below alpha by far more, so that rounding can't
    lift the bound.
    """
    if not 0 <= successes <= draws or draws < 1 or not 0 < alpha < 1:
        raise DataError(f"{successes} of {draws} draws at alpha {alpha}: expected a part of at least one draw, and a "
                        "number between 0 and 1.")
    counts = np.arange(successes, draws + 1)
    ways = np.array([lgamma(draws + 1) - lgamma(count + 1) - lgamma(draws - count + 1) for count in counts.tolist()])
    low, high = 0.0, 1.0
    while successes and low < (middle := (low + high) / 2) < high:
        tail = np.exp(ways + counts * log(middle) + (draws - counts) * log1p(-middle)).sum()  # P(X >= successes)
        low, high = (middle, high) if tail <= alpha * (1 - SAFE) else (low, middle)
    return low


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
    check_tables(one, other)
    gaps = np.asarray(one, dtype=int) - np.asarray(other, dtype=int)  # (seeds, texts)
    seeds, texts = gaps.shape
    generator = np.random.default_rng(seed)
    rows = generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=draws)  # how often each seed is drawn
    totals = np.arange(-seeds, seeds + 1)
    found = []
    for weights, times in zip(*np.unique(rows, axis=0, return_counts=True), strict=True):
        # Texts with the same total over the drawn seeds are interchangeable: how often each total is drawn is enough
        counts = np.bincount(weights @ gaps + seeds, minlength=len(totals))
        found.append(generator.multinomial(texts, counts / texts, size=times) @ totals)
    low, high = np.quantile(np.concatenate(found) / (seeds * texts), [0.025, 0.975])
    return Difference(float(gaps.mean()), Interval(float(low), float(high)))


def sign_flips(one: Sequence[Sequence[bool]], other: Sequence[Sequence[bool]]) -> float:
    """McNemar's test for several seeds, (seeds, texts) each: an exact two-sided p over texts.

    If both methods were the same, each text's outcomes, those of all seeds together, might as well be exchanged between
    them, which flips the sign of its difference. p is the share of all ways to do so that lead as far from zero as what
    was seen. With one seed this is McNemar's test. It speaks of the classifiers that were trained, not of new seeds.
    """
    check_tables(one, other)
    gaps = np.abs(np.asarray(one, dtype=int).sum(axis=0) - np.asarray(other, dtype=int).sum(axis=0))
    observed = abs(int(np.sum(one)) - int(np.sum(other)))
    ways = np.ones(1)  # the distribution of the flipped total, from -reach to reach
    for size in range(1, len(one) + 1):
        ways = np.convolve(ways, flipped_total(size, int((gaps == size).sum())))
    reach = (len(ways) - 1) // 2
    far = np.abs(np.arange(-reach, reach + 1)) >= observed
    return min(1.0, float(ways[far].sum()))


def flipped_total(size: int, times: int) -> NDArray[np.float64]:
    """The distribution of a sum of so many numbers of one size with random signs, from the least to the greatest."""
    heads = np.arange(times + 1)
    logs = np.array([lgamma(times + 1) - lgamma(count + 1) - lgamma(times - count + 1) for count in heads])
    spaced = np.zeros(2 * size * times + 1)
    spaced[2 * size * heads] = np.exp(logs - times * log(2))
    return spaced


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


def check_tables(one: Sequence[Sequence[bool]], other: Sequence[Sequence[bool]]) -> None:
    shapes = [[*sorted({len(row) for row in table}), len(table)] for table in (one, other)]
    if shapes[0] != shapes[1] or len(shapes[0]) != 2 or 0 in shapes[0]:
        raise DataError("the two tables do not have the same seeds and texts, one row a seed and one column a text; "
                        "measure both methods on the same ones.")
