# SPDX-License-Identifier: Apache-2.0
"""Defences that draw: what an attack sees when it averages over the noise, and whether a success outlives new noise."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dualmask.classifier import DefendedClassifier
from dualmask.models.victim import ClassifierVictim, checked
from dualmask.results import AttackResult
from dualmask.text.columns import Text

VERIFYING = 1 << 20  # draws of this number on are kept for the last check: no attack has seen them


class Averaged(ClassifierVictim):
    """The mean over several draws of the defence's noise (expectation over transformation); each draw is a query."""

    def __init__(self, classifier: DefendedClassifier, draws: int) -> None:
        super().__init__(classifier)
        self.defended, self.cost = classifier, draws

    def probabilities(self, texts: Sequence[Text]) -> NDArray[np.float64]:
        total = np.zeros((len(texts), len(self.labels)))
        for row in drawn(self.defended, texts, range(self.cost)):
            total += row
        return total / self.cost

    def describe(self) -> str:
        return f"{super().describe()} averaged over {self.cost} draws"


def drawn(classifier: DefendedClassifier, texts: Sequence[Text], numbers: range) -> list[NDArray[np.float64]]:
    """The classifier's answers, once for each number of noise."""
    found = []
    try:
        for number in numbers:
            classifier.defence.redraw(number)
            found.append(checked(classifier.predict(texts).probabilities, len(texts)))
    finally:
        classifier.defence.redraw(0)
    return found


def verified(classifier: DefendedClassifier, result: AttackResult, draws: int) -> AttackResult:
    """The attack's last word asked about again with noise that it has not seen: it counts if most answers are wrong."""
    if classifier.defence.noise == "none" or draws == 0 or result.outcome not in ("succeeded", "unconfirmed"):
        return result
    text = result.text if result.adversarial is None else result.adversarial
    rows = drawn(classifier, [text], range(VERIFYING, VERIFYING + draws))
    wrong = sum(int(row[0].argmax()) != result.label for row in rows)
    outcome = "succeeded" if 2 * wrong > draws else "unconfirmed"
    return replace(result, outcome=outcome, draws=draws, wrong_draws=wrong)  # type: ignore[arg-type]
