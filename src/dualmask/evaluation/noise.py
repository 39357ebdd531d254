# SPDX-License-Identifier: Apache-2.0
"""Defences that draw: what an attack sees that averages over noise or holds it still; whether successes outlive it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import log

import numpy as np
from numpy.typing import NDArray

from dualmask.classifier import DefendedClassifier
from dualmask.models.victim import ClassifierVictim, Rows, Victim, checked
from dualmask.results import AttackResult, Outcome
from dualmask.text.columns import Text
from dualmask.windows import VIEWS_ALONE, refuse_windows

VERIFYING = 1 << 20  # draws of this number on are kept for the last check: no attack has seen them
OWN = 0.51  # of what an attack sees is the classifier's own decision, the rest where that may go


class Averaged(ClassifierVictim):
    """The mean over several draws of the defence's noise (expectation over transformation); each draw is a query.

    It guides the search. What is right before and after is the defence's own decision, not that of an ensemble.
    asked: what is seen of each draw, if it is not the defence's own answer.
    """

    def __init__(self, classifier: DefendedClassifier, draws: int, asked: Victim | None = None) -> None:
        super().__init__(classifier)
        self.defended, self.cost, self.judge = classifier, draws, ClassifierVictim(classifier)
        self.asked = asked or self.judge

    def probabilities(self, texts: Sequence[Text]) -> NDArray[np.float64]:
        total = np.zeros((len(texts), len(self.labels)))
        for number in range(self.cost):
            with drawing(self.defended, number):
                total += checked(self.asked.probabilities(texts), len(texts))
        return total / self.cost

    def log_probabilities(self, texts: Sequence[Text]) -> Rows:
        found = []
        for number in range(self.cost):
            with drawing(self.defended, number):
                found.append(self.asked.log_probabilities(texts))
        rows: Rows = np.logaddexp.reduce(found, axis=0) - log(self.cost)
        return rows

    def describe(self) -> str:
        return f"{self.asked.describe()} averaged over {self.cost} draws"


class Still(ClassifierVictim):
    """The classifier's own decisions, and beside them the mean over draws that are the same for all texts.

    Noise from the text changes with each word: of two texts one scores higher by luck, and a search climbs luck.
    Whoever has the model can hold the draws still and see the slope. Both are counted as queries.
    """

    def __init__(self, classifier: DefendedClassifier, draws: int) -> None:
        super().__init__(classifier)
        refuse_windows(classifier.windows, "an attack on scores with draws held still", VIEWS_ALONE)
        self.defended, self.draws, self.cost = classifier, draws, 1 + draws

    def probabilities(self, texts: Sequence[Text]) -> NDArray[np.float64]:
        own = checked(self.defended.predict(texts, early=True).probabilities, len(texts))
        total = np.zeros_like(own)
        for number in range(self.draws):
            with drawing(self.defended, number, same=True):
                total += self.defended.logits(texts).softmax(dim=2).nanmean(dim=0).double().numpy()
        decided = np.eye(own.shape[1])[own.argmax(axis=1)]
        rows: NDArray[np.float64] = OWN * decided + (1 - OWN) * total / self.draws
        return rows

    def describe(self) -> str:
        return f"{super().describe()} beside {self.draws} draws held still"


@contextmanager
def drawing(classifier: DefendedClassifier, number: int, *, same: bool = False) -> Iterator[None]:
    classifier.defence.redraw(number, same=same)
    try:
        yield
    finally:
        classifier.defence.redraw(0)


def drawn(
    classifier: DefendedClassifier, texts: Sequence[Text], numbers: range, *, early: bool = False,
) -> list[NDArray[np.float64]]:
    """The classifier's answers, once for each number of noise; early: votes may end when their winner is certain."""
    found = []
    for number in numbers:
        with drawing(classifier, number):
            found.append(checked(classifier.predict(texts, early=early).probabilities, len(texts)))
    return found


def verified(
    classifier: DefendedClassifier, result: AttackResult, draws: int, *, otherwise: Outcome = "unconfirmed",
) -> AttackResult:
    """The attack's last word asked about again with noise that it has not seen.

    It counts if most answers are wrong. Where noise is drawn from the text the classifier's own answer counts, since
    it always gives that text that answer, and the new ones tell of others.
    otherwise: what it is if it does not count, and the other outcome that one draw must not have decided.
    """
    settled = classifier.defence.noise == "none" or draws == 0 or result.outcome not in ("succeeded", otherwise)
    if settled or result.adversarial is None:
        return result
    rows = drawn(classifier, [result.adversarial], range(VERIFYING, VERIFYING + draws), early=True)
    wrong = sum(int(row[0].argmax()) != result.label for row in rows)
    redrawn: Outcome = "succeeded" if 2 * wrong > draws else otherwise
    outcome = result.outcome if classifier.defence.noise == "text" else redrawn
    return replace(result, outcome=outcome, draws=draws, wrong_draws=wrong)
