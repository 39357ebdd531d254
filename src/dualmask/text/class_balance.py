# SPDX-License-Identifier: Apache-2.0
"""How unevenly labelled texts are shared out among their classes, and what that makes of an accuracy."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

DOMINANT = 0.8  # a class with a larger share of the texts makes accuracy say little


class LargestClass(NamedTuple):
    """The most frequent class of some texts."""

    label: str
    size: int  # texts of it
    texts: int  # of all classes

    @property
    def share(self) -> float:
        """What a classifier scores that always answers with this class."""
        return self.size / self.texts if self.texts else 0.0

    @property
    def dominates(self) -> bool:
        return self.share > DOMINANT

    def as_fact(self) -> dict[str, object]:
        return {"label": self.label, "share": round(self.share, 4)}


def largest_class(classes: Iterable[int], labels: Sequence[str]) -> LargestClass:
    """Of texts with classes by number; of equally frequent ones the first."""
    counts = Counter(classes)
    place = max(range(len(labels)), key=lambda number: counts[number])
    return LargestClass(labels[place], counts[place], counts.total())


def imbalance_told(largest: LargestClass, kind: str) -> str:
    """``295 of 300 training texts are 'ham': a classifier that always says 'ham' is right on 98.3 %``."""
    return (f"{largest.size:,} of {largest.texts:,} {kind} are '{largest.label}': a classifier that always says "
            f"'{largest.label}' is right on {100 * largest.share:.1f} %")
