# SPDX-License-Identifier: Apache-2.0
"""What an attack may not do: touch some words, change too many, or stray too far in letters, meaning or grammar."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import ceil, floor, inf
from typing import TYPE_CHECKING, Literal

from dualmask.attacks.moves import Editable
from dualmask.attacks.problem import Problem, Question, Steps
from dualmask.models.sentences import angular, cosine
from dualmask.text.words import Words

if TYPE_CHECKING:
    from dualmask.text.synonyms import Synonyms
    from dualmask.text.tagging import Tagger

Metric = Literal["cosine", "angular"]
Reference = Literal["original", "current"]
METRICS = {"cosine": cosine, "angular": angular}
REMEMBERED = 1 << 16  # tagged windows


# Which words may be edited


def unchanged(current: Words) -> set[int]:
    """No word twice."""
    return set(range(len(current))) - current.changed


def except_words(refused: frozenset[str]) -> Editable:
    """Not these; case counts, so "The" is not "the"."""
    return lambda current: {place for place, word in enumerate(current.words) if word not in refused}


def second_text(current: Words) -> range:
    """Of a pair (premise, hypothesis) only the second; of a single text everything."""
    return current.second_text() if current.boundary is not None else range(len(current))


def up_to_rate(rate: float, *, least: int = 1) -> Editable:
    """Nothing more once so large a share of the words, and at least so many, are changed."""
    def allowed(current: Words) -> range:
        most = max(ceil(len(current) * rate), least)
        return range(0) if len(current.changed) >= most else range(len(current))
    return allowed


# Which candidates are kept


class OneByOne(ABC):
    """A constraint that looks at each candidate alone, beside the original."""

    def __call__(self, problem: Problem, candidates: list[Words], current: Words) -> list[Words]:
        return [words for words in candidates if self.allows(words, problem.original)]

    @abstractmethod
    def allows(self, words: Words, original: Words) -> bool: ...


class FewWords(OneByOne):
    """At most so many words, or so large a share of the shorter text, differ in their place from the original's."""

    def __init__(
        self, *, most: int | None = None, share: float | None = None, round_down: bool = False,
    ) -> None:
        self.most, self.share, self.rounding = most, share, floor if round_down else ceil

    def allows(self, words: Words, original: Words) -> bool:
        most: float = inf if self.most is None else self.most
        if self.share is not None:
            most = min(most, self.rounding(min(len(words), len(original)) * self.share))
        return words.differing(original) <= most


class FewLetters(OneByOne):
    """A bounded edit distance of the whole texts."""

    def __init__(self, most: int) -> None:
        from rapidfuzz.distance.Levenshtein import distance

        self.most = most
        self.distance: Callable[..., int] = distance

    def allows(self, words: Words, original: Words) -> bool:
        return self.distance(original.text, words.text, score_cutoff=self.most) <= self.most


class NearWords(OneByOne):
    """New words lie near those they replace in a table of synonyms; words that it does not know pass."""

    def __init__(self, table: "Synonyms", least: float) -> None:
        self.table, self.least = table, least

    def allows(self, words: Words, original: Words) -> bool:
        for place in words.newest:
            if place >= min(len(words), len(original)):
                return False
            cosine = self.table.cosine(original[place].lower(), words[place].lower())
            if cosine is not None and cosine < self.least:
                return False
        return True


class SamePart(OneByOne):
    """New words are tagged like those they replace, both read between the original's 4 words before and 3 after."""

    def __init__(self, tagger: "Tagger", *, verb_is_noun: bool = True) -> None:
        self.tagger, self.verb_is_noun = tagger, verb_is_noun
        self._known: dict[tuple[str, ...], list[str]] = {}

    def allows(self, words: Words, original: Words) -> bool:
        before = original.words
        for place in words.newest:
            if place >= min(len(words), len(before)):
                return False
            around = before[max(place - 4, 0):place], before[place + 1:place + 4]
            tags = {self._tag(before[place], *around), self._tag(words[place], *around)}
            if len(tags) > 1 and not (self.verb_is_noun and tags == {"NOUN", "VERB"}):
                return False
        return True

    def _tag(self, word: str, left: list[str], right: list[str]) -> str:
        window = (*left, word, *right)
        if window not in self._known:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[window] = self.tagger(window)
        return self._known[window][window.index(word)]


class SameMeaning:
    """Sentence vectors, of whole texts or of windows around the edit, are similar enough."""

    def __init__(
        self, least: float, *, metric: Metric = "cosine", window: int | None = None, skip_short: bool = False,
        reference: Reference = "original",
    ) -> None:
        self.least, self.metric, self.window = least, metric, window or inf
        self.skip_short, self.reference = skip_short, reference

    def __call__(self, problem: Problem, candidates: list[Words], current: Words) -> Steps[list[Words]]:
        reference = problem.original if self.reference == "original" else current
        short = [self.skip_short and len(words) < self.window for words in candidates]
        pairs = [(self._window(reference, words), self._window(words, words))
                 for words, skipped in zip(candidates, short, strict=True) if not skipped]
        vectors = iter((yield Question("sentences", [text for pair in pairs for text in pair])) if pairs else ())
        for words, skipped in zip(candidates, short, strict=True):
            words.similarity = 1.0 if skipped else float(METRICS[self.metric](next(vectors), next(vectors)))
        return [words for words in candidates if words.similarity is not None and words.similarity >= self.least]

    def _window(self, words: Words, edited: Words) -> str:
        return words.window(edited.newest.start, self.window)
