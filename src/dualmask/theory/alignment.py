# SPDX-License-Identifier: Apache-2.0
"""Which word of a text became which word of the attacked text."""

from dataclasses import dataclass

from dualmask.text.differences import word_changes
from dualmask.text.words import Words


@dataclass(frozen=True)
class Alignment:
    """Words by their numbers in the two texts."""

    pairs: tuple[tuple[int, int], ...]  # one word for one word: what the theory speaks of
    lost: frozenset[int]  # all words of the first text that are no more there
    new: frozenset[int]  # all words of the second that were not there
    others: int  # words that were inserted, deleted, joined or split


def align(before: Words, after: Words) -> Alignment:
    found = word_changes(before.words, after.words)
    pairs = tuple(pair for old, new in found if len(old) == len(new) for pair in zip(old, new, strict=True))
    return Alignment(pairs, frozenset(place for old, _ in found for place in old),
                     frozenset(place for _, new in found for place in new),
                     sum(max(len(old), len(new)) for old, new in found if len(old) != len(new)))
