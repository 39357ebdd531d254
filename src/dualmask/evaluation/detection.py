# SPDX-License-Identifier: Apache-2.0
"""How well a detector tells adversarial texts from clean ones, as pure functions of results."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dualmask.evaluation.metrics import Robustness, robustness
from dualmask.results import FAULTS, AttackResult


@dataclass(frozen=True, kw_only=True)
class Detection:
    """Counts over one set of texts; a text is flagged where its suspicion is above the threshold.

    Figures are None where no text stands behind them and, all but AUROC and restored accuracy, without a threshold.
    """

    threshold: float | None
    clean: int  # negatives: the texts before the attack
    adversarial: int  # positives: what the attack made of those that it changed, whether that succeeded or not
    false_alarms: int  # clean texts that were flagged
    detected: int  # adversarial ones that were
    caught: int  # of these the ones that succeeded: the answer is wrong, and it was given with a warning
    auroc: Fraction | None
    counts: Robustness

    @property
    def true_positive_rate(self) -> Fraction | None:
        return self._rate(self.detected, self.adversarial)

    @property
    def false_positive_rate(self) -> Fraction | None:
        return self._rate(self.false_alarms, self.clean)

    @property
    def precision(self) -> Fraction | None:
        """Of flagged texts the adversarial share, were there as many adversarial as clean ones; records may differ."""
        found, wrong = self.true_positive_rate, self.false_positive_rate
        return None if found is None or wrong is None or not found + wrong else found / (found + wrong)

    @property
    def f1(self) -> Fraction | None:
        """Harmonic mean of that precision and the true positive rate."""
        found, wrong = self.true_positive_rate, self.false_positive_rate
        return None if found is None or wrong is None else 2 * found / (1 + found + wrong)

    @property
    def restored_accuracy(self) -> Fraction | None:
        """CAA: the share of texts whose answer under attack, after detection and restoring, is right."""
        return self.counts.accuracy_under_attack if self.counts.texts else None

    @property
    def accuracy_or_flagged(self) -> Fraction | None:
        """The same with successes that were flagged counted as defended; what false alarms cost is not in it."""
        return self._rate(self.counts.right - self.counts.flipped + self.caught, self.counts.texts)

    def _rate(self, part: int, whole: int) -> Fraction | None:
        return Fraction(part, whole) if whole and self.threshold is not None else None


def detection(results: Iterable[AttackResult], threshold: float | None) -> Detection:
    """Of one attack on one detector. Texts on which victim or attack broke down are left out, as everywhere."""
    every = list(results)
    measured = [one for one in every if one.outcome not in FAULTS]
    clean = [one.suspicion for one in measured if one.suspicion is not None]
    changed = [(one.suspicion_after, one.outcome == "succeeded") for one in measured
               if one.suspicion_after is not None and one.adversarial not in (None, one.text)]
    limit = float("inf") if threshold is None else threshold
    flagged = [succeeded for score, succeeded in changed if score > limit]
    return Detection(
        threshold=threshold, clean=len(clean), adversarial=len(changed),
        false_alarms=sum(score > limit for score in clean), detected=len(flagged), caught=sum(flagged),
        auroc=auroc([score for score, _ in changed], clean), counts=robustness(every))


def auroc(positives: Sequence[float], negatives: Sequence[float]) -> Fraction | None:
    """The chance that an adversarial text is more suspicious than a clean one, equal scores counted half; exact."""
    if not positives or not negatives:
        return None
    order = sorted(negatives)
    twice = sum(bisect_left(order, one) + bisect_right(order, one) for one in positives)
    return Fraction(twice, 2 * len(positives) * len(negatives))
