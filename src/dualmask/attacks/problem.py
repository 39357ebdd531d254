# SPDX-License-Identifier: Apache-2.0
"""One text under attack: what was asked about it, what that cost, and the two ways of asking."""

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from math import exp, inf, log
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from dualmask.models.victim import VictimError
from dualmask.text.columns import Text
from dualmask.text.words import Words

T = TypeVar("T")
FAR = 1 << 62  # queries: no limit
NOTHING = 1e-38  # a probability of 0, as servers that round it off give it; less than a network gives
Row: TypeAlias = tuple[float, ...]  # the victim's probabilities for one text


class LoggedRow(tuple[float, ...]):
    """Such probabilities with their natural logarithms, which differ where these are all 0 or all 1."""

    logs: Row

    @classmethod
    def of(cls, logs: Sequence[float]) -> "LoggedRow":
        found = cls(map(exp, logs))
        found.logs = tuple(logs)
        return found

    def others(self, label: int) -> float:
        """The logarithm of what the classes but this one have together."""
        beside = self.logs[:label] + self.logs[label + 1:]
        if not beside:
            return log(NOTHING)
        most = max(beside)
        return most + log(sum(exp(one - most) for one in beside))


class Question(NamedTuple):
    """What a computation wants to know from a model; the engine answers with one value for each item."""

    oracle: str
    items: Sequence[Any]


Steps: TypeAlias = Generator[Question, list[Any], T]  # a computation that asks on its way and ends with a T


def settled(value: T | Steps[T]) -> Steps[T]:
    """A value that is there already, or the end of the steps that lead to it."""
    return (yield from value) if isinstance(value, Generator) else value


class Anew:
    """A text for a victim with fresh noise. No two of these are equal, so that none gets another one's answer."""

    __slots__ = ("text",)

    def __init__(self, text: Text) -> None:
        self.text = text


class Answer(NamedTuple):
    """A text that the victim was asked about: the higher its score, the less the victim believes in the true label."""

    words: Words
    score: float
    fooled: bool


class Streams:
    """Where an example's chance comes from."""

    def __init__(self, seed: int) -> None:
        self.choices = random.Random(seed)

    def place(self, start: int, end: int) -> int:
        return start + int(self.choices.random() * (end - start))

    def letter(self, letters: str) -> str:
        return letters[self.place(0, len(letters))]

    def shuffled(self, places: Sequence[int]) -> list[int]:
        return self.choices.sample(places, len(places))

    def drawn(self, weights: Sequence[float]) -> int:
        """An index, each with a chance in proportion to its weight."""
        return self.choices.choices(range(len(weights)), weights)[0]


class SharedStreams(Streams):
    """Places from numpy's older generator, letters from Python's, each call as TextAttack makes it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.numbers = np.random.RandomState(seed & 0xFFFFFFFF)

    def place(self, start: int, end: int) -> int:
        return int(self.numbers.randint(start, end))

    def letter(self, letters: str) -> str:
        return self.choices.choice(letters)

    def shuffled(self, places: Sequence[int]) -> list[int]:
        order = np.array(places, dtype=int)
        self.numbers.shuffle(order)
        return [int(place) for place in order]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What holds for all searches of one attack."""

    queries: float = inf  # logical queries for one text, the first look included
    seconds: float = inf  # of work on one text, wherever it is done
    tolerance: float = 1e-4  # relative: scores this near are equal, since padding and batch size change last digits
    follow_words: bool = False  # places move with their words when words are inserted or deleted
    any_success: bool = False  # every text asked about may end the search, not only the one that scores best
    fresh: bool = False  # the victim draws new noise for each answer: none is remembered or shared
    cost: int = 1  # queries that an answer takes: more where the victim is asked several times and averaged
    judge: str = "victim"  # whose word counts before the attack and after it


class Problem:
    """An example, its random streams, and everything asked so far."""

    def __init__(
        self, words: Words, label: int, *, streams: Streams, terms: Terms, number: int = 0, unknown: str = "[UNK]",
    ) -> None:
        self.number = number  # of the example in the data
        self.unknown = unknown  # what the victim reads as an unknown word
        self.original, self.label, self.streams, self.terms = words, label, streams, terms
        self.queries = 0  # every text asked about, counted each time: what papers report
        self.rows = 0  # texts that the victim really had to read for this example
        self.gradients = 0  # backward passes
        self.seconds = 0.0
        self.start = Answer(words, inf, True)
        self.best = self.start
        self.first: Row | None = None  # the word on the original that counts
        self.log: list[str] | None = None  # the texts asked about in order, where somebody wants them
        self._known: dict[str, Row] = {}

    @property
    def spent(self) -> bool:
        return self.queries + self.terms.cost > self.terms.queries

    def begin(self) -> Steps[Answer]:
        """The first look at the original, which counts as a query and is had in any case."""
        row = self.first = (yield from self._rows([self.original], any_budget=True))[0]
        if self.terms.judge != "victim":
            self.first = yield from self.confirm(self.original)
        if self.label >= len(row):
            raise VictimError(f"the label is {self.label}, but the victim gives {len(row)} probabilities.")
        self.start = Answer(self.original, self.score(row), self.first.index(max(self.first)) != self.label)
        self.best = self.start
        return self.start

    def ask(self, candidates: Sequence[Words]) -> Steps[list[Answer]]:
        """What the victim says to texts that may be the attack's answer; fewer come back when the budget ends."""
        rows = yield from self._rows(candidates)
        answers = [Answer(words, self.score(row), row.index(max(row)) != self.label)
                   for words, row in zip(candidates, rows, strict=False)]
        if self.terms.judge != "victim" and not self.terms.fresh:
            answers = yield from self._judged(answers)
        for answer in answers:
            if (answer.fooled, answer.score) > (self.best.fooled, self.best.score):
                self.best = answer
        return answers

    def _judged(self, answers: Sequence[Answer]) -> Steps[list[Answer]]:
        """What looks like a success to a mean of draws is one if the judge says so; else the search has to go on."""
        room = max(0, min(len(answers), int(min(self.terms.queries, FAR)) - self.queries))
        doubtful = [answer.words for answer in answers if answer.fooled][:room]
        rows: list[Row] = []
        if doubtful:
            self.queries += len(doubtful)
            self.rows += len(doubtful)
            rows = yield Question(self.terms.judge, self._items([words.value for words in doubtful]))
        wrong = iter([row.index(max(row)) != self.label for row in rows])
        return [answer._replace(fooled=answer.fooled and next(wrong, False)) for answer in answers]

    def probe(self, texts: Sequence[Words]) -> Steps[list[Row]]:
        """Probabilities for texts that only tell something, e.g. how much a word matters; counted, never an answer."""
        return (yield from self._rows(texts))

    def confirm(self, words: Words) -> Steps[Row]:
        """The victim's word on a text once more, whatever it said before; not counted as a query of the attack."""
        self.rows += 1
        rows: list[Row] = yield Question(self.terms.judge, self._items([words.value]))
        return rows[0]

    def slope(self, oracle: str, words: Words) -> Steps[Any]:
        """A white-box answer about a text; counted apart."""
        self.gradients += 1
        return (yield Question(oracle, [(words.value, self.label)]))[0]

    def _rows(self, texts: Sequence[Words], *, any_budget: bool = False) -> Steps[list[Row]]:
        if self.queries + len(texts) * self.terms.cost > self.terms.queries and not any_budget:
            texts = texts[:max(0, (int(self.terms.queries) - self.queries) // self.terms.cost)]
        self.queries += len(texts) * self.terms.cost
        if self.log is not None:
            self.log += [words.text for words in texts]
        if self.terms.fresh:
            answers = (yield from self._asked([words.value for words in texts])) if texts else []
            self._known.update((words.text, row) for words, row in zip(texts, answers, strict=True))
            return answers
        new = {words.text: words.value for words in texts if words.text not in self._known}
        if new:
            answers = yield from self._asked(list(new.values()))
            self._known.update(zip(new, answers, strict=True))
        return [self._known[words.text] for words in texts]

    def _asked(self, texts: Sequence[Text]) -> Steps[list[Row]]:
        self.rows += len(texts) * self.terms.cost
        rows: list[Row] = yield Question("victim", self._items(texts))
        first = self._known.get(self.original.text, rows[0])
        if any(len(row) != len(first) for row in rows):
            raise VictimError("the victim gave rows of different lengths; expected one number for each class.")
        return rows

    def _items(self, texts: Sequence[Text]) -> Sequence[Text | Anew]:
        return list(map(Anew, texts)) if self.terms.fresh else texts

    def known(self, words: Words) -> Row | None:
        """What the victim said about a text, if it was asked."""
        return self._known.get(words.text)

    def loss(self, row: Row) -> float:
        """What is missing from the true label's probability: what the others have, whose last digits 1 - p loses."""
        if isinstance(row, LoggedRow):
            return exp(row.others(self.label))
        return 1 - row[self.label]

    def belief(self, row: Row) -> float:
        """The true label's probability, to compare and subtract; less 1 where its last digits are known."""
        return -self.loss(row) if isinstance(row, LoggedRow) else row[self.label]

    def score(self, row: Row) -> float:
        """The odds against the true label, as a logarithm: in the order of the loss, but a network's noise is the same
        everywhere on this scale, so a victim that is very sure of itself does not drown in it."""
        if self.terms.tolerance == 0:
            return self.loss(row)
        if isinstance(row, LoggedRow):
            return row.others(self.label) - row.logs[self.label]
        others = sum(row[:self.label]) + sum(row[self.label + 1:])  # 1 - p would be 0 long before this is
        return log(max(others, NOTHING)) - log(max(row[self.label], NOTHING))

    def better(self, one: Answer, other: Answer) -> bool:
        return one.score - other.score > self.terms.tolerance * max(1.0, abs(other.score))

    def ranked(self, answers: Sequence[Answer]) -> list[Answer]:
        """Highest score first; equal ones stay in their order, which is the alphabet's."""
        return [answers[place] for place in self._falling([answer.score for answer in answers])]

    def order(self, scores: Sequence[float]) -> list[int]:
        """Places by falling score. Where every digit counts, ties fall as numpy's sort lets them, as in TextAttack."""
        if self.terms.tolerance == 0:
            return [int(place) for place in (-np.asarray(scores, dtype=float)).argsort()]
        return self._falling(scores)

    def _falling(self, scores: Sequence[float]) -> list[int]:
        """Places by falling score; what is within the tolerance of a group's highest score is equal to it."""
        order = sorted(range(len(scores)), key=lambda place: -scores[place])
        if self.terms.tolerance == 0:
            return order
        near = self.terms.tolerance * max(map(abs, scores), default=0.0)
        groups: list[list[int]] = []
        for place in order:
            if groups and scores[groups[-1][0]] - scores[place] <= near:
                groups[-1].append(place)
            else:
                groups.append([place])
        return [place for group in groups for place in sorted(group)]
