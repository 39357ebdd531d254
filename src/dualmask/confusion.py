# SPDX-License-Identifier: Apache-2.0
"""How often texts of each class were answered with each class, and the scores that follow from these counts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from dualmask.errors import DataError
from dualmask.text.class_balance import LargestClass


class ClassScore(NamedTuple):
    """One class; a share of nothing is None."""

    label: str
    texts: int  # that are of this class
    answered: int  # texts that were said to be of it
    precision: float | None  # of those answered so, the share that is
    recall: float | None  # of those that are, the share answered so
    f1: float | None  # 2 TP / (2 TP + FP + FN)


class Mistake(NamedTuple):
    """Texts of one class that were answered with another."""

    label: str
    answered: str
    texts: int
    share: float  # of the texts of that class


@dataclass(frozen=True)
class Confusion:
    """Counts by class, counts[true][answered]."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, classes: Iterable[int], answers: Iterable[int], labels: Sequence[str]) -> Self:
        """Of texts: what they are and what was answered, both by number."""
        counts = [[0] * len(labels) for _ in labels]
        for true, answered in zip(classes, answers, strict=True):
            if not 0 <= true < len(labels):
                raise DataError(f"a text has the class number {true}; expected one from 0 to {len(labels) - 1}, for "
                                f"the classes {', '.join(labels)}.")
            counts[true][answered] += 1
        return cls(tuple(labels), tuple(map(tuple, counts)))

    @property
    def texts(self) -> int:
        return sum(map(sum, self.counts))

    @property
    def right(self) -> int:
        return sum(self.counts[place][place] for place in range(len(self.labels)))

    @property
    def accuracy(self) -> float:
        return self.right / self._some()

    @property
    def largest(self) -> LargestClass:
        sizes = [sum(row) for row in self.counts]
        place = sizes.index(max(sizes))
        return LargestClass(self.labels[place], sizes[place], sum(sizes))

    @property
    def classes(self) -> list[ClassScore]:
        found = []
        for place, label in enumerate(self.labels):
            right, texts = self.counts[place][place], sum(self.counts[place])
            answered = sum(row[place] for row in self.counts)
            found.append(ClassScore(label, texts, answered, ratio(right, answered), ratio(right, texts),
                                    ratio(2 * right, texts + answered)))
        return found

    @property
    def recalls(self) -> dict[str, float]:
        """Of the classes that have texts."""
        return {one.label: one.recall for one in self.classes if one.recall is not None}

    @property
    def balanced_accuracy(self) -> float:
        """The mean recall of the classes that have texts."""
        self._some()
        return sum(self.recalls.values()) / len(self.recalls)

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the classes that have texts or were answered."""
        self._some()
        found = [one.f1 for one in self.classes if one.f1 is not None]
        return sum(found) / len(found)

    def mistakes(self) -> Iterator[Mistake]:
        """Pairs of classes that were confused, the most frequent first; of equals by their order."""
        found = [Mistake(self.labels[true], self.labels[answered], count, count / sum(row))
                 for true, row in enumerate(self.counts) for answered, count in enumerate(row)
                 if count and true != answered]
        yield from sorted(found, key=lambda mistake: -mistake.texts)

    def _some(self) -> int:
        if not self.texts:
            raise DataError("scores of no texts at all were asked for; give labelled texts.")
        return self.texts


def ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
