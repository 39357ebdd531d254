# SPDX-License-Identifier: Apache-2.0
"""Scores that an attack sees: a classifier that is far too sure, or shows votes alone, hides its slope, no faults."""

from collections.abc import Sequence
from math import log, log1p

import numpy as np
import torch
from numpy.typing import ArrayLike

from dualmask.classifier import DefendedClassifier
from dualmask.errors import DataError
from dualmask.evaluation.records import TEMPERATURES
from dualmask.models.victim import ClassifierVictim, Rows, Victim, finite
from dualmask.text.columns import Text
from dualmask.windows import VIEWS_ALONE, refuse_windows


def tempered(logarithms: ArrayLike, temperature: float) -> Rows:
    """Each row of log-probabilities divided by the temperature, as the same; no row's largest class changes."""
    logits = np.asarray(logarithms, dtype=np.float64) / temperature
    found: Rows = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    return found


def fit_temperature(logarithms: ArrayLike, labels: Sequence[int]) -> float:
    """The temperature under which the labels are likeliest; there is one such, found by golden section."""
    given = np.asarray(logarithms, dtype=np.float64)
    if not len(labels) or given.ndim != 2 or len(given) != len(labels):
        raise DataError(f"a temperature needs one row of log-probabilities for each label; got the shape {given.shape} "
                        f"and {len(labels)} labels.")
    places = np.arange(len(labels)), np.asarray(labels)

    def loss(exponent: float) -> float:
        return -float(tempered(given, float(np.exp(exponent)))[places].mean())

    low, high = np.log(TEMPERATURES)
    golden = (np.sqrt(5) - 1) / 2
    for _ in range(60):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if loss(left) <= loss(right) else (left, high)
    return float(f"{np.exp((low + high) / 2):.3g}")  # the last digits depend on the machine


class Tempered(Victim):
    """A victim whose scores were cooled or warmed; its decisions are its own.

    It tells logarithms, so that an attack sees every difference, however sure the victim is.
    """

    logged = True

    def __init__(self, victim: Victim, temperature: float) -> None:
        self.victim, self.temperature = victim, temperature
        self.labels, self.classifier, self.device = victim.labels, victim.classifier, victim.device
        self.rows, self.unknown, self.fresh, self.cost = victim.rows, victim.unknown, victim.fresh, victim.cost
        self.judge = victim.judge

    def probabilities(self, texts: Sequence[Text]) -> Rows:
        found: Rows = np.exp(self.log_probabilities(texts))
        return found

    def log_probabilities(self, texts: Sequence[Text]) -> Rows:
        return tempered(self.victim.log_probabilities(texts), self.temperature)

    def describe(self) -> str:
        return f"{self.victim.describe()} at temperature {self.temperature}"


class Revealed(ClassifierVictim):
    """Shares of votes, with the mean probability of all views as their further digits: whoever has the model sees it.

    Shares are flat almost everywhere. The digits never change who wins: where they would, as between tied shares, the
    answer is shown as it is.
    """

    def __init__(self, classifier: DefendedClassifier) -> None:
        super().__init__(classifier)
        refuse_windows(classifier.windows, "an attack on calibrated votes", VIEWS_ALONE)
        self.defended = classifier

    def probabilities(self, texts: Sequence[Text]) -> Rows:
        found: Rows = np.exp(self.log_probabilities(texts))
        return found

    def log_probabilities(self, texts: Sequence[Text]) -> Rows:
        table = self.defended.logits(texts)  # (views, texts, classes)
        shares = self.defended.defence.combine(table).double().log_softmax(dim=1)
        views = table.double().log_softmax(dim=2)
        asked = (~views[..., :1].isnan()).sum(dim=0)
        behind = views.nan_to_num(nan=-torch.inf).logsumexp(dim=0) - asked.double().log()
        part = 0.5 / self.defended.defence.views  # half of what one vote counts
        found = torch.logaddexp(log1p(-part) + shares, log(part) + behind)
        same = found.argmax(dim=1, keepdim=True) == shares.argmax(dim=1, keepdim=True)
        return finite(found.where(same, shares).numpy())

    def describe(self) -> str:
        return f"{super().describe()} with its views' probabilities"
