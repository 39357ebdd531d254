# SPDX-License-Identifier: Apache-2.0
"""A defence around a network that was trained without it: what can be put there, and putting it there."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dualmask.classifier import DefendedClassifier
from dualmask.defences.base import Defence
from dualmask.defences.combination import acts_at_inference, threshold_setters
from dualmask.errors import OptionError
from dualmask.text.examples import Example

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def wrap_network(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", guard: Defence, *, labels: Sequence[str],
    max_length: int, facts: Mapping[str, object], texts: Sequence[Example], validation: Sequence[Example],
) -> DefendedClassifier:
    """Put a defence around a network whose weights stay as they are; the defence learns from `texts`."""
    check_wrapping(guard, held_out=bool(validation))
    classifier = DefendedClassifier(model, tokenizer, guard, labels=labels, max_length=max_length, facts=facts)
    if any(True for _ in guard.parameters()):
        raise OptionError(f"the defence '{guard.name}' has parts that learn while the classifier does, so that it "
                          "can't be wrapped around one that is trained; train one with dualmask.train(defence=...).")
    classifier.fit_defence(texts)
    classifier.network.eval()
    if validation:
        classifier.tune_defence(validation)
    return classifier


def check_wrapping(guard: Defence, *, held_out: bool) -> None:
    """Refuse what a trained classifier can't be given afterwards."""
    if not acts_at_inference(guard) and guard.name != Defence.name:
        raise OptionError(f"the defence '{guard.name}' acts while a classifier is trained and does nothing for one "
                          "that is; train one with dualmask.train(defence=...).")
    tuned = threshold_setters(guard)
    if tuned and not held_out:
        raise OptionError(f"the defence '{tuned[0]}' sets thresholds on held-out texts; give some with their classes: "
                          "validation=[(text, class number), ...].")
