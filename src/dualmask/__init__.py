# SPDX-License-Identifier: Apache-2.0
"""dualmask: harden text classifiers against adversarial text, and measure what that is worth.

Names are loaded when first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dualmask.attacks import ATTACKS as ATTACKS
    from dualmask.attacks.running import attack as attack
    from dualmask.classifier import DefendedClassifier as DefendedClassifier
    from dualmask.classifier import Masked as Masked
    from dualmask.classifier import Predictions as Predictions
    from dualmask.defences import DEFENCES as DEFENCES
    from dualmask.defences import build_defence as build_defence
    from dualmask.defences.base import Defence as Defence
    from dualmask.errors import DualmaskError as DualmaskError
    from dualmask.evaluation.clean_scores import CleanScores as CleanScores
    from dualmask.evaluation.clean_scores import evaluate_clean as evaluate_clean
    from dualmask.hardening import Hardened as Hardened
    from dualmask.hardening import harden as harden
    from dualmask.integration import MaskInsertionCollator as MaskInsertionCollator
    from dualmask.integration import defend as defend
    from dualmask.models.classifiers import load_classifier as load_classifier
    from dualmask.options import TrainingOptions as TrainingOptions
    from dualmask.prediction import predict_file as predict_file
    from dualmask.recommendations import recommend as recommend
    from dualmask.resources import resolve as resolve
    from dualmask.results import AttackResult as AttackResult
    from dualmask.text.examples import Dataset as Dataset
    from dualmask.text.examples import Example as Example
    from dualmask.text.examples import load_dataset as load_dataset
    from dualmask.training import train as train

__version__ = "0.1.0"

_HOMES = {
    "ATTACKS": "attacks", "AttackResult": "results", "attack": "attacks.running",
    "DefendedClassifier": "classifier", "Masked": "classifier", "Predictions": "classifier",
    "DEFENCES": "defences", "build_defence": "defences", "Defence": "defences.base",
    "CleanScores": "evaluation.clean_scores", "evaluate_clean": "evaluation.clean_scores",
    "load_classifier": "models.classifiers",
    "TrainingOptions": "options", "DualmaskError": "errors",
    "Hardened": "hardening", "harden": "hardening",
    "MaskInsertionCollator": "integration", "defend": "integration", "predict_file": "prediction",
    "recommend": "recommendations", "resolve": "resources",
    "Dataset": "text.examples", "Example": "text.examples", "load_dataset": "text.examples", "train": "training",
}
__all__ = ["__version__", *_HOMES]  # noqa: PLE0604 (they are strings)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'dualmask' has no attribute '{name}'")
    value = getattr(import_module(f"dualmask.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
