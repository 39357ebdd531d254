# SPDX-License-Identifier: Apache-2.0
"""Edits undone: which words lie one or two edits from what is written, and how likely the edit was made.

Likelihoods are those of DeepWordBug's draws (one of four kinds, any place, any of 52 letters), mixed with keys that
lie side by side. A word of n letters becomes one given string by a swap with 1 / 4 (n - 1), by a deletion with 1 / 4 n,
but by a substitution or an insertion with 1 / 4 n 52 only: what can be a swap or a deletion most likely is one.
Every string one edit away is looked up, about 54 n of them; that takes no index beside the vocabulary.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from dualmask.text.letters import NEIGHBOURS

ALPHABET = "abcdefghijklmnopqrstuvwxyz'"
KINDS = 4
LETTERS = 52
ENDING = 0.1  # how likely, against elsewhere, a letter is added at the end, where DeepWordBug adds none
KEYBOARD = 0.2  # of the substitutions, how many hit a key beside the right one


class Edit(NamedTuple):
    """A word that may have been written, before an edit."""

    word: str  # in lower case
    form: str  # in the case that the edited word leaves it
    likelihood: float  # of the edit, given the word


def undone(written: str, vocabulary: frozenset[str]) -> list[Edit]:
    """The words that one edit turns into what is written; a word from which several edits lead there, once."""
    found: dict[str, Edit] = {}
    lower = written.lower()
    for find in (_swapped, _inserted, _deleted, _substituted):
        for one in find(written, lower, vocabulary):
            before = found.get(one.word)
            found[one.word] = one if before is None else before._replace(likelihood=before.likelihood + one.likelihood)
    return list(found.values())


def _swapped(written: str, lower: str, vocabulary: AbstractSet[str]) -> Iterator[Edit]:
    for at in range(len(lower) - 1):
        word = lower[:at] + lower[at + 1] + lower[at] + lower[at + 2:]
        if word in vocabulary and word != lower:
            form = written[:at] + written[at + 1] + written[at] + written[at + 2:]
            yield Edit(word, form, 1 / (KINDS * (len(lower) - 1)))


def _inserted(written: str, lower: str, vocabulary: AbstractSet[str]) -> Iterator[Edit]:
    for at in range(len(lower)):
        word = lower[:at] + lower[at + 1:]
        if word in vocabulary:
            last = ENDING if at == len(word) else 1.0
            yield Edit(word, written[:at] + written[at + 1:], last / (KINDS * len(word) * LETTERS))


def _deleted(written: str, lower: str, vocabulary: frozenset[str]) -> Iterator[Edit]:
    loud = len(written) > 1 and written.isupper()
    cuts = [(lower[:at], lower[at:]) for at in range(len(lower) + 1)]
    for word in sorted(vocabulary.intersection([head + letter + tail for head, tail in cuts for letter in ALPHABET])):
        for at, (head, tail) in enumerate(cuts):
            letter = word[at]
            if word == head + letter + tail:
                form = written[:at] + (letter.upper() if loud else letter) + written[at:]
                yield Edit(word, form, 1 / (KINDS * len(word)))


def _substituted(written: str, lower: str, vocabulary: frozenset[str]) -> Iterator[Edit]:
    cuts = [(lower[:at], lower[at + 1:]) for at in range(len(lower))]
    near = vocabulary.intersection([head + letter + tail for head, tail in cuts for letter in ALPHABET])
    for word in sorted(near - {lower}):
        at = next(at for at, (one, other) in enumerate(zip(word, lower, strict=True)) if one != other)
        letter, old, rest = word[at], lower[at], written[:at] + written[at + 1:]
        loud = (len(rest) > 1 and rest.isupper()) or (at == 0 and written[0].isupper())
        beside = NEIGHBOURS.get(letter, "")
        chance = (1 - KEYBOARD) / LETTERS + (KEYBOARD / len(beside) if old in beside else 0.0)
        form = written[:at] + (letter.upper() if loud else letter) + written[at + 1:]
        yield Edit(word, form, chance / (KINDS * len(lower)))


def undone_twice(lower: str, by_length: Mapping[int, Sequence[str]]) -> list[Edit]:
    """The words that two edits turn into what is written in lower case, from lists of words by their length."""
    from rapidfuzz.distance import OSA
    from rapidfuzz.process import extract

    size = len(lower)
    near = [word for length in range(size - 2, size + 3) for word, distance, _ in extract(
        lower, by_length.get(length, ()), scorer=OSA.distance, limit=None, score_cutoff=2) if distance == 2]
    return [Edit(word, word, 1 / (KINDS * size * LETTERS) ** 2) for word in near]


def parted(lower: str) -> Iterator[tuple[str, str]]:
    """Two words that may have been written without the space between them."""
    for at in range(1, len(lower)):
        head, tail = lower[:at], lower[at:]
        if (at > 1 or head in "ai") and (len(tail) > 1 or tail in "ai"):
            yield head, tail
