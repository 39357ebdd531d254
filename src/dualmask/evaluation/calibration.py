# SPDX-License-Identifier: Apache-2.0
"""Scores that an attack sees: a classifier that is far too sure, or shows votes alone, hides its slope, no faults."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dualmask.classifier import DefendedClassifier
from dualmask.errors import DataError
from dualmask.models.victim import ClassifierVictim, Rows, Victim, checked
from dualmask.text.columns import Text

SMALLEST = 1e-30  # a probability of 0, as its logarithm needs it
RANGE = (0.05, 20.0)  # temperatures looked at; a fit at an end says that the classifier is no good on these data


def tempered(rows: ArrayLike, temperature: float) -> Rows:
    """Each row's logits divided by the temperature; no row's largest class changes."""
    logits = np.log(np.maximum(np.asarray(rows, dtype=np.float64), SMALLEST)) / temperature
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    found: Rows = powers / powers.sum(axis=1, keepdims=True)
    return found


def fit_temperature(rows: ArrayLike, labels: Sequence[int]) -> float:
    """The temperature under which the labels are likeliest; there is one such, found by golden section."""
    given = np.asarray(rows, dtype=np.float64)
    if not len(labels) or given.ndim != 2 or len(given) != len(labels):
        raise DataError(f"a temperature needs one row of probabilities for each label; got the shape {given.shape} and "
                        f"{len(labels)} labels.")
    places = np.arange(len(labels)), np.asarray(labels)

    def loss(exponent: float) -> float:
        return -float(np.log(np.maximum(tempered(given, float(np.exp(exponent)))[places], SMALLEST)).mean())

    low, high = np.log(RANGE)
    golden = (np.sqrt(5) - 1) / 2
    for _ in range(60):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if loss(left) <= loss(right) else (left, high)
    return float(f"{np.exp((low + high) / 2):.3g}")  # the last digits depend on the machine


class Tempered(Victim):
    """A victim whose scores were cooled or warmed; its decisions are its own."""

    def __init__(self, victim: Victim, temperature: float) -> None:
        self.victim, self.temperature = victim, temperature
        self.labels, self.classifier, self.device = victim.labels, victim.classifier, victim.device
        self.rows, self.unknown, self.fresh, self.cost = victim.rows, victim.unknown, victim.fresh, victim.cost
        self.judge = victim.judge

    def probabilities(self, texts: Sequence[Text]) -> NDArray[np.float64]:
        return tempered(checked(self.victim.probabilities(texts), len(texts)), self.temperature)

    def describe(self) -> str:
        return f"{self.victim.describe()} at temperature {self.temperature}"


class Revealed(ClassifierVictim):
    """Shares of votes, with the mean probability of all views as their further digits: whoever has the model sees it.

    Shares are flat almost everywhere. The digits never change who wins: where they would, as between tied shares, the
    answer is shown as it is.
    """

    def __init__(self, classifier: DefendedClassifier) -> None:
        super().__init__(classifier)
        self.defended = classifier

    def probabilities(self, texts: Sequence[Text]) -> Rows:
        table = self.defended.logits(texts)  # (views, texts, classes)
        shares = self.defended.defence.combine(table).softmax(dim=1)
        part = 0.5 / self.defended.defence.views  # half of what one vote counts
        found = (1 - part) * shares + part * table.softmax(dim=2).nanmean(dim=0)
        same = found.argmax(dim=1, keepdim=True) == shares.argmax(dim=1, keepdim=True)
        rows: Rows = found.where(same, shares).double().numpy()
        return rows

    def describe(self) -> str:
        return f"{super().describe()} with its views' probabilities"
