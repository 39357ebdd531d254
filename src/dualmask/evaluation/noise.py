# SPDX-License-Identifier: Apache-2.0
"""Defences that draw: what an attack sees when it averages over the noise, and whether a success outlives new noise."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dualmask.classifier import DefendedClassifier
from dualmask.models.victim import ClassifierVictim, checked
from dualmask.results import AttackResult, Outcome
from dualmask.text.columns import Text

VERIFYING = 1 << 20  # draws of this number on are kept for the last check: no attack has seen them


class Averaged(ClassifierVictim):
    """The mean over several draws of the defence's noise (expectation over transformation); each draw is a query.

    It guides the search. What is right before and after is the defence's own decision, not that of an ensemble.
    """

    def __init__(self, classifier: DefendedClassifier, draws: int) -> None:
        super().__init__(classifier)
        self.defended, self.cost, self.judge = classifier, draws, ClassifierVictim(classifier)

    def probabilities(self, texts: Sequence[Text]) -> NDArray[np.float64]:
        total = np.zeros((len(texts), len(self.labels)))
        for row in drawn(self.defended, texts, range(self.cost)):
            total += row
        return total / self.cost

    def describe(self) -> str:
        return f"{super().describe()} averaged over {self.cost} draws"


def drawn(
    classifier: DefendedClassifier, texts: Sequence[Text], numbers: range, *, early: bool = False,
) -> list[NDArray[np.float64]]:
    """The classifier's answers, once for each number of noise; early: votes may end when their winner is certain."""
    found = []
    try:
        for number in numbers:
            classifier.defence.redraw(number)
            found.append(checked(classifier.predict(texts, early=early).probabilities, len(texts)))
    finally:
        classifier.defence.redraw(0)
    return found


def verified(
    classifier: DefendedClassifier, result: AttackResult, draws: int, *, otherwise: Outcome = "unconfirmed",
) -> AttackResult:
    """The attack's last word asked about again with noise that it has not seen.

    It counts if most answers are wrong; where noise is drawn from the text it counts in any case, since a classifier
    that always gives that text that answer was fooled, and the new answers tell of others.
    otherwise: what it is if it does not count, and the other outcome that one draw must not have decided.
    """
    settled = classifier.defence.noise == "none" or draws == 0 or result.outcome not in ("succeeded", otherwise)
    if settled or result.adversarial is None:
        return result
    rows = drawn(classifier, [result.adversarial], range(VERIFYING, VERIFYING + draws), early=True)
    wrong = sum(int(row[0].argmax()) != result.label for row in rows)
    fixed = classifier.defence.noise == "text" and (result.outcome, otherwise) == ("succeeded", "unconfirmed")
    return replace(result, outcome="succeeded" if fixed or 2 * wrong > draws else otherwise, draws=draws,
                   wrong_draws=wrong)
