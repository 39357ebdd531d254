# SPDX-License-Identifier: Apache-2.0
"""A text as the words an attack may change, with everything around them kept."""

import re
from math import ceil, floor, inf
from typing import Literal

from dualmask.text.examples import Text

Rule = Literal["both-ends", "left-end"]  # where ' - _ * @ are cut off a word
# Letters and digits, and three look-alikes that attacks write; the underscore counts with the marks below.
_CORE = r"(?:[^\W_]|[`\u02d7\u00d7])"
_MARKS = r"'\-_*@"
_WORDS = {
    "both-ends": re.compile(rf"{_CORE}+(?:[{_MARKS}]+{_CORE}+)*"),
    "left-end": re.compile(rf"{_CORE}(?:{_CORE}|[{_MARKS}])*"),
}


class Words:
    """A text, its words, and which of them were changed since the original. Immutable; edits give new objects."""

    __slots__ = ("_changed", "_origin", "_places", "_spans", "_words", "boundary", "editable", "newest", "rule",
                 "similarity", "text")

    def __init__(self, text: Text, *, rule: Rule = "both-ends") -> None:
        self.text = text if isinstance(text, str) else "\n".join(text)
        self.boundary = None if isinstance(text, str) else len(text[0])  # where the second text of a pair begins
        self.rule: Rule = rule
        self.newest: range = range(0)  # words that the last edit wrote
        self.similarity: float | None = None  # to the text it was compared with, where a constraint measured it
        self._origin: tuple[Words, int, int, bool] | None = None  # text before the edit, word, words written, in front
        self.editable: tuple[object, list[int]] | None = None  # places, and who worked them out; asked for often
        self._spans: list[tuple[int, int]] | None = None
        self._words: list[str] | None = None
        self._changed: frozenset[int] | None = None
        self._places: tuple[int, ...] | None = None

    @property
    def value(self) -> Text:
        """The text, or the pair, as a victim gets it."""
        return self.text if self.boundary is None else (self.text[:self.boundary], self.text[self.boundary + 1:])

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Where each word starts and ends."""
        if self._spans is None:
            self._spans = [match.span() for match in _WORDS[self.rule].finditer(self.text)]
        return self._spans

    def __len__(self) -> int:
        return len(self.spans)

    def __getitem__(self, place: int) -> str:
        return self.words[place]

    def __repr__(self) -> str:
        return f"Words({self.value!r})"

    @property
    def words(self) -> list[str]:
        if self._words is None:
            self._words = [self.text[start:end] for start, end in self.spans]
        return self._words

    def second_text(self) -> range:
        """The words of a pair's second text."""
        first = sum(start < (self.boundary or 0) for start, _ in self.spans)
        return range(first, len(self))

    def replaced(self, place: int, word: str) -> "Words":
        """With no, one or several words in the place of one. With none, a space beside it goes too."""
        start, end = self.spans[place]
        count, in_front = 1, False
        if not (word.isalnum() and word.isascii()):
            found = _WORDS[self.rule].findall(word)
            count, in_front = len(found), len(found) > 1 and found[0] != self[place]
        head, tail = self.text[:start], self.text[end:]
        if count == 0 and tail:
            if place == 0:
                tail = tail.removeprefix(" ")
            else:
                head = head.removesuffix(" ")
        new = Words.__new__(Words)
        new.text = head + word + tail
        new.boundary = self.boundary
        if self.boundary is not None and start < self.boundary:
            new.boundary = self.boundary + len(new.text) - len(self.text)
        new.rule, new.newest, new.similarity = self.rule, range(place, place + count), None
        new._origin = (self, place, count, in_front)
        new._spans = new._words = new._changed = new._places = new.editable = None
        return new

    def deleted(self, place: int) -> "Words":
        return self.replaced(place, "")

    def joined(self, place: int) -> "Words":
        """With a word and the next written as one, and nothing between them."""
        end, start = self.spans[place][1], self.spans[place + 1][0]
        new = self.deleted(place + 1).replaced(place, self[place] + self[place + 1])
        new.text, new.boundary = self.text[:end] + self.text[start:], self.boundary
        if self.boundary is not None and end <= self.boundary:
            new.boundary = self.boundary - (start - end)
        return new

    @property
    def changed(self) -> frozenset[int]:
        """The words that differ in place or content from the original's, by their numbers here."""
        if self._changed is None:
            if self._origin is None:
                self._changed = frozenset()
            else:
                before, place, count, _ = self._origin
                kept = before.changed
                if count != 1:
                    kept = frozenset(old if old < place else old + count - 1 for old in kept if old != place)
                self._changed = kept | frozenset(self.newest)
        return self._changed

    @property
    def places(self) -> tuple[int, ...]:
        """For each word of the original its number here, -1 where it was deleted."""
        if self._places is None:
            if self._origin is None:
                self._places = tuple(range(len(self)))
            else:
                before, place, count, in_front = self._origin
                self._places = before.places
                if count != 1:
                    here = -1 if count == 0 else place + (count - 1 if in_front else 0)
                    self._places = tuple(here if old == place else old + count - 1 if old > place else old
                                         for old in self._places)
        return self._places

    def window(self, place: int, size: float = inf) -> str:
        """The text from the first to the last of `size` words around a place, whole words; shifted at the borders."""
        last, half = len(self) - 1, (size - 1) / 2
        if last < 0:
            return ""
        if place - half < 0:
            first, end = 0, int(min(size - 1, last))
        elif place + half > last:
            first, end = int(max(0, last + 1 - size)), last
        else:
            first, end = place - ceil(half), place + floor(half)
        return self.text[self.spans[first][0]:self.spans[end][1]]

    def differing(self, other: "Words") -> int:
        """How many words differ, compared one to one up to the shorter text's end."""
        return sum(one != two for one, two in zip(self.words, other.words, strict=False))


def word_count(text: str, rule: Rule = "both-ends") -> int:
    return 1 if text.isalnum() and text.isascii() else len(_WORDS[rule].findall(text))


def in_case_of(word: str, model: str) -> str:
    """`word` in the case of another: lower, UPPER (of more than one letter) or Capitalised; else as it is."""
    if model.islower():
        return word.lower()
    if model.isupper() and len(model) > 1:
        return word.upper()
    if model[:1].isupper() and model[1:].islower():
        return word.capitalize()
    return word
