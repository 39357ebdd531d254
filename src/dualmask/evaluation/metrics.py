# SPDX-License-Identifier: Apache-2.0
"""What the literature reports, as pure functions of results."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dualmask.errors import DataError
from dualmask.results import FAULTS, AttackResult


@dataclass(frozen=True)
class Robustness:
    """Counts over one set of texts. Texts on which victim or attack broke down are left out, and counted."""

    texts: int  # N: what could be measured
    right: int  # C: right before the attack, the defence as it was attacked
    flipped: int  # S: of those, wrong after it
    faults: int = 0
    undone: int = 0  # of the flipped: most new draws of the defence's noise are right again

    @property
    def clean_accuracy(self) -> Fraction:
        """CLA = C / N."""
        return Fraction(self.right, self._some())

    @property
    def accuracy_under_attack(self) -> Fraction:
        """CAA = (C - S) / N; a text that was wrong from the start stays wrong."""
        return Fraction(self.right - self.flipped, self._some())

    @property
    def success(self) -> Fraction | None:
        """SUCC = S / C, so that CAA = CLA (1 - SUCC) exactly; None where nothing was right."""
        return Fraction(self.flipped, self.right) if self.right else None

    def _some(self) -> int:
        if not self.texts:
            raise DataError(f"no text could be measured ({self.faults} faults); look at the reasons in the records.")
        return self.texts


def robustness(results: Iterable[AttackResult]) -> Robustness:
    """Of one attack on one victim."""
    counted = list(results)
    measured = [one for one in counted if one.outcome not in FAULTS]
    right = [one for one in measured if one.outcome != "skipped"]
    return Robustness(len(measured), len(right), sum(one.outcome == "succeeded" for one in right),
                      len(counted) - len(measured), sum(map(is_undone, right)))


def is_undone(result: AttackResult) -> bool:
    """Whether a defence that draws was fooled by the draw that the attack met, and not by most others."""
    return result.outcome == "succeeded" and result.draws > 0 and 2 * result.wrong_draws <= result.draws


def held(results: Iterable[AttackResult]) -> dict[int, bool]:
    """For each text that could be measured whether it was right before and after."""
    return {one.index: one.outcome not in ("skipped", "succeeded") for one in results if one.outcome not in FAULTS}


def worst_case(attacks: Sequence[Iterable[AttackResult]], *, noisy: bool = False) -> Robustness:
    """Several attacks on the same texts: one holds only if every attack failed on it.

    noisy: answers vary, so that a text may be right before one attack and wrong before another; it counts as wrong.
    """
    tables = [list(results) for results in attacks]
    every = [held(results) for results in tables]
    if not every:
        raise DataError("the worst case of no attacks was asked for.")
    shared = set.intersection(*(set(one) for one in every))
    wrong = [{one.index for one in results if one.outcome == "skipped"} & shared for results in tables]
    ever: set[int] = set().union(*wrong)
    disputed = ever - wrong[0].intersection(*wrong)
    if disputed and not noisy:
        raise DataError(f"text {min(disputed)} was right before one attack and wrong before another; the records "
                        "come from different victims.")
    right = shared - ever
    faults = len(set.union(*({one.index for one in results} for results in tables)) - shared)
    flipped = {index for index in right if not all(one[index] for one in every)}
    lasting = {one.index for results in tables for one in results if one.outcome == "succeeded" and not is_undone(one)}
    return Robustness(len(shared), len(right), len(flipped), faults, len(flipped - lasting))
