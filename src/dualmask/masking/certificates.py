# SPDX-License-Identifier: Apache-2.0
"""How many changes a vote withstands for certain. Whole numbers and fractions throughout: nothing is ever rounded up.

L: words of the text (length). k: words that a view keeps. d: words changed, or edits. p: a share that the vote for the
answer is known to reach. A change can only move the views that see it; the answer stands while p less their share is
more than 1/2.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import comb, prod

from dualmask.errors import OptionError

Exact = Fraction | float  # a float is taken as the binary fraction that it is
HALF = Fraction(1, 2)


def delta(length: int, kept: int, changed: int) -> Fraction:
    """Delta(d) = 1 - C(L - d, k) / C(L, k): the share of all sets of k words in which one of d changed ones is."""
    if not min(1, length) <= kept <= length:
        raise OptionError(f"{kept} of {length} words kept; expected at least one word and no more than there are.")
    if not 0 <= changed <= length:
        raise OptionError(f"{changed} of {length} words changed; expected from 0 to {length}.")
    return 1 - Fraction(comb(length - changed, kept), comb(length, kept))


def certified_words(length: int, kept: int, share: Exact, beta: Exact = 1) -> int:
    """The largest d with p - beta Delta(d) > 1/2: words that may be replaced by any others. -1: not even none.

    beta = 1 proves it. A smaller one, such as the vote share itself, guesses how many of the views that see a changed
    word vote otherwise; the attacker decides that, so it proves nothing.
    """
    check_share(share)
    weight = Fraction(beta)
    if not 0 <= weight <= 1:
        raise OptionError(f"beta is {beta}; expected a number from 0 to 1.")
    return largest(length, lambda changed: Fraction(share) - weight * delta(length, kept, changed) > HALF)


def certified_edits(deletion_rate: Exact, share: Exact, most: int) -> int:
    """The largest d with p - (1 - rate ** d) > 1/2: words inserted, deleted or replaced. Counts up to `most`.

    Every word is deleted with the same chance, by itself: of two texts at edit distance d, views that are free of the
    difference come up with the chance rate ** d at least, and equally often.
    """
    check_share(share)
    rate = Fraction(deletion_rate)
    if not 0 <= rate <= 1:
        raise OptionError(f"the deletion rate is {deletion_rate}; expected a number from 0 to 1.")
    return largest(most, lambda edits: Fraction(share) - (1 - rate**edits) > HALF)


def certified_synonyms(overlaps: Sequence[Fraction], share: Exact) -> int:
    """The largest d with p - (1 - product of the d smallest overlaps) > 1/2; as many as there are words: against any.

    An overlap belongs to a word: the least share, over all its synonyms, that the draws for the word and for the
    synonym have in common (for uniform draws |P and P'| / max(|P|, |P'|)); 1 for a word without synonyms.
    """
    check_share(share)
    weakest = sorted(overlaps)
    if weakest and not 0 <= weakest[0] <= weakest[-1] <= 1:
        raise OptionError(f"overlaps from {weakest[0]} to {weakest[-1]}; expected shares from 0 to 1.")
    return largest(len(weakest), lambda words: Fraction(share) - (1 - prod(weakest[:words], start=Fraction(1))) > HALF)


def largest(most: int, holds: Callable[[int], bool]) -> int:
    """The last number from 0 to `most` for which something holds that, once it fails, fails for all greater ones."""
    found = -1
    while found < most and holds(found + 1):
        found += 1
    return found


def check_share(share: Exact) -> None:
    if not 0 <= share <= 1:
        raise OptionError(f"a vote share of {share} was given; expected a number from 0 to 1.")
