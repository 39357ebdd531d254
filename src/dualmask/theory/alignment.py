# SPDX-License-Identifier: Apache-2.0
"""Which word of a text became which word of the attacked text."""

from dataclasses import dataclass
from difflib import SequenceMatcher

from dualmask.text.differences import MOST_WORDS, same_start
from dualmask.text.words import Words

Change = tuple[range, range]  # words of the text before, and what stands there afterwards


@dataclass(frozen=True)
class Alignment:
    """Words by their numbers in the two texts."""

    pairs: tuple[tuple[int, int], ...]  # one word for one word: what the theory speaks of
    lost: frozenset[int]  # all words of the first text that are no more there
    new: frozenset[int]  # all words of the second that were not there
    others: int  # words that were inserted, deleted, joined or split


def align(before: Words, after: Words) -> Alignment:
    found = changes(before.words, after.words)
    pairs = tuple(pair for old, new in found if len(old) == len(new) for pair in zip(old, new, strict=True))
    return Alignment(pairs, frozenset(place for old, _ in found for place in old),
                     frozenset(place for _, new in found for place in new),
                     sum(max(len(old), len(new)) for old, new in found if len(old) != len(new)))


def changes(before: list[str], after: list[str]) -> list[Change]:
    """Of texts of equal length place by place, unless matching words beyond their places leaves fewer changes."""
    head = same_start(before, after)
    tail = same_start(before[head:][::-1], after[head:][::-1])
    old, new = before[head:len(before) - tail], after[head:len(after) - tail]
    by_place = [(range(place, place + 1),) * 2 for place, pair in enumerate(zip(old, new, strict=False), start=head)
                if pair[0] != pair[1]] if len(old) == len(new) else None
    if max(len(old), len(new)) > MOST_WORDS:
        return by_place or [(range(head, head + len(old)), range(head, head + len(new)))]
    matched = [(range(head + i, head + j), range(head + k, head + n)) for kind, i, j, k, n
               in SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if kind != "equal"]
    fewer = by_place is not None and len(by_place) <= sum(max(map(len, change)) for change in matched)
    return by_place if fewer and by_place is not None else matched
