# SPDX-License-Identifier: Apache-2.0
"""Which epoch's weights are kept: each is judged on held-out texts and, for keep=robust, on some of them attacked."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from dualmask.attacks import build_attack
from dualmask.attacks.running import Assault, sampled
from dualmask.classifier import DefendedClassifier, share_right
from dualmask.errors import DualmaskError
from dualmask.models.victim import ClassifierVictim
from dualmask.options import JUDGING_ATTACK, TrainingOptions
from dualmask.results import FAULTS, HELD
from dualmask.text.examples import Example, Text

VALIDATION_VIEWS = 5  # of a defence that votes: epochs are judged by few, the final accuracies by all
ATTACK_SEED = 0  # of the texts and of the attack's draws: the same in each epoch and for every seed of training


class Verdict(NamedTuple):
    """What an epoch came to on held-out texts."""

    accuracy: float
    under_attack: float = -1.0  # accuracy; -1: nothing was attacked
    weighed: float = -1.0  # accuracy, each text at the weight of its class in training; -1: all weigh the same

    @property
    def figure(self) -> float:
        """What epochs are compared by; without the last digits, which depend on how a mean was taken."""
        accuracy = self.accuracy if self.weighed < 0 else self.weighed
        return round((accuracy + self.under_attack) / 2 if self.attacked else accuracy, 6)

    @property
    def attacked(self) -> bool:
        return self.under_attack >= 0


class Judge:
    """Asks the classifier of a training run after each epoch."""

    def __init__(self, classifier: DefendedClassifier, held_out: Sequence[Example], settings: TrainingOptions) -> None:
        self.classifier, self.held_out = classifier, held_out
        self.weights = classifier.defence.class_weights
        self.defended, self.robust = settings.validate == "defended", settings.keep == "robust"
        places = sampled(held_out, settings.robust_texts, ATTACK_SEED) if self.robust else []
        self.attacked = [(place, held_out[place]) for place in places]

    def verdict(self) -> Verdict:
        chosen = self.classifier.chosen(self.held_out, defended=self.defended, most=VALIDATION_VIEWS)
        weighed = self.weighed(chosen)
        return Verdict(share_right(self.held_out, chosen), self.under_attack() if self.robust else -1.0, weighed)

    def weighed(self, chosen: Tensor) -> float:
        """Where classes have weights in training, an epoch must not look best because it forgot the rare ones."""
        if self.weights is None:
            return -1.0
        classes = torch.tensor([example.label for example in self.held_out])
        weights = self.weights.cpu()[classes].double()
        return float(weights[chosen == classes].sum() / weights.sum())

    def under_attack(self) -> float:
        """The share of the texts that are answered rightly, and still are when the attack has done."""
        victim = JudgedVictim(self.classifier, defended=self.defended)
        found = list(Assault(victim, build_attack(JUDGING_ATTACK), seed=ATTACK_SEED, measure=None).run(self.attacked))
        whole = [one for one in found if one.outcome not in FAULTS]
        if not whole:
            raise DualmaskError(f"an epoch can't be judged by keep=robust: {JUDGING_ATTACK} broke down on each of "
                                f"{len(found)} validation texts ({found[0].reason}); train with keep=best.")
        return sum(one.outcome in HELD for one in whole) / len(whole)


class JudgedVictim(ClassifierVictim):
    """A classifier as its epochs are judged: by few of its views, its defence on or off."""

    def __init__(self, classifier: DefendedClassifier, *, defended: bool) -> None:
        super().__init__(classifier)
        self.judged, self.defended = classifier, defended
        self.fresh = self.fresh and defended

    def probabilities(self, texts: Sequence[Text]) -> Tensor:
        found = self.judged.predict(texts, early=False, most=VALIDATION_VIEWS, defended=self.defended)
        return found.probabilities


def kept_by(settings: TrainingOptions) -> str:
    """How the epoch was chosen, in words."""
    if settings.keep == "last":
        return "the last epoch"
    weighed = "" if settings.class_weights == "none" else " by class_weights"
    if settings.keep == "best":
        return f"validation accuracy{weighed}"
    return (f"mean of validation accuracy{weighed} and accuracy under {JUDGING_ATTACK} on {settings.robust_texts} "
            "validation texts")
