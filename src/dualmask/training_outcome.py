# SPDX-License-Identifier: Apache-2.0
"""What a training run came to: accuracies on held-out texts, and what it took."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

from dualmask.classifier import DefendedClassifier, rounded, tested
from dualmask.confusion import Confusion
from dualmask.defences.combination import acts_at_inference, threshold_setters
from dualmask.errors import DualmaskError
from dualmask.optimisation import device_name
from dualmask.selection import VALIDATION_VIEWS, Verdict, kept_by
from dualmask.text.class_balance import largest_class
from dualmask.text.examples import Dataset, Example

if TYPE_CHECKING:
    from dualmask.training import Run

COSTLY = 0.03  # of clean accuracy, with the defence on: more is said in a warning
FEW = 30  # validation texts: of fewer one or two decide


def check_finite(network: nn.Module, step: int) -> None:
    """Refuse weights that the last step, after whose loss nobody asks, has thrown out of all bounds."""
    if not all(bool(weight.isfinite().all()) for weight in network.parameters()):
        raise DualmaskError(f"weights were no numbers any more by step {step}; lower the learning rate, or train with "
                            "precision=fp32.")


def cost(run: "Run") -> dict[str, object]:
    """What training took, over all processes where texts are counted; plain is a text forward and back an epoch."""
    state, accelerator = run.state, run.accelerator
    texts = torch.tensor([state.forward_texts, state.backward_texts], device=accelerator.device)
    if accelerator.num_processes > 1:
        texts = accelerator.reduce(texts, "sum")
    forwards, backwards = texts.tolist()
    return {"examples": len(run.examples), "epochs": state.epoch, "forward_texts": forwards,
            "backward_texts": backwards, "forward_passes": state.forwards, "backward_passes": state.backwards,
            "seconds_per_epoch": round(state.seconds / max(1, state.epoch), 2),
            "peak_memory_mb": state.megabytes or None, "device": device_name(accelerator.device)}


def cut_texts(classifier: DefendedClassifier, data: Dataset) -> int:
    """How many training texts, as they are written, are longer than what training has room for."""
    texts = [example.text for example in data.train]
    room = classifier.defence.training_room(classifier.encode, classifier.encode.special_tokens(texts))
    return sum(classifier.encode.longer(texts, room))


def outcome(run: "Run", data: Dataset) -> dict[str, object]:
    """What the run measured: accuracies on held-out texts, with the defence on and off; recalls where they differ."""
    state = run.state
    best = Verdict(state.best_accuracy, state.best_under_attack, state.best_weighed)
    found: dict[str, object] = {
        "best_epoch": state.best_epoch, "epochs_run": state.epoch, "steps": state.step,
        "seconds": round(state.seconds, 1), "validation_accuracy": round(best.accuracy, 4),
        **({"validation_under_attack": round(best.under_attack, 4)} if best.attacked else {}),
        **({"validation_weighed": round(best.weighed, 4)} if run.weights is not None else {}),
        "kept_by": kept_by(run.settings), "ready": state.best_ready, "cost": cost(run),
        "cut_texts": cut_texts(run.classifier, data)}
    uneven = largest_class((example.label for example in run.examples), data.labels).dominates
    judged = best.accuracy if run.settings.validate == "defended" else None
    found |= validated(run.classifier, run.held_out, judged=judged, recalls=uneven and not data.test)
    return found | (tested(run.classifier, data.test, recalls=uneven) if data.test else {})


def validated(
    classifier: DefendedClassifier, held_out: Sequence[Example], *, judged: float | None, recalls: bool,
) -> dict[str, object]:
    """What held-out texts say of the classifier that is kept: what its defence costs, asked as epochs are judged.

    judged: the accuracy of its epoch with the defence on, if it was. Thresholds that were set since may have changed
    it. Nothing is said of a defence that does not act at inference, or that leaves the network's own head untrained.
    """
    largest = largest_class((example.label for example in held_out), classifier.labels)
    found: dict[str, object] = {"validation_texts": len(held_out), "validation_majority": largest.as_fact()}
    defence = classifier.defence
    if acts_at_inference(defence) and defence.trains_head:
        if judged is None or threshold_setters(defence):
            judged = classifier.accuracy(held_out, most=VALIDATION_VIEWS)
        found |= {"validation_accuracy_defended": round(judged, 4),
                  "validation_accuracy_undefended": round(classifier.accuracy(held_out, defended=False), 4)}
    if recalls:
        chosen = classifier.chosen(held_out, most=VALIDATION_VIEWS).tolist()
        counts = Confusion.of((example.label for example in held_out), chosen, classifier.labels)
        found["validation_recall"] = rounded(counts.recalls)
    return found


def clean_cost(facts: Mapping[str, object], defence: str) -> str | None:
    """What the defence costs on clean texts, in a sentence, where that is more than a little."""
    on, off, texts = (facts.get(name) for name in (
        "validation_accuracy_defended", "validation_accuracy_undefended", "validation_texts"))
    if not isinstance(on, float) or not isinstance(off, float) or not isinstance(texts, int):
        return None
    if round(off - on, 6) <= COSTLY:
        return None
    few = (f" These are few texts, each of them {100 / texts:.1f} points: measure on more with 'dualmask evaluate'."
           if texts < FEW else "")
    return (f"the defence '{defence}' costs {100 * (off - on):.1f} points of clean accuracy: {100 * on:.1f} % of "
            f"{texts:,} validation texts are answered rightly with it, {100 * off:.1f} % without.{few} Try another "
            f"preset, a lower rate ('dualmask card {defence}') or another defence.")
