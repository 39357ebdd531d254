# SPDX-License-Identifier: Apache-2.0
"""What a training run came to: accuracies on held-out texts, and what it took."""

from typing import TYPE_CHECKING

import torch
from torch import nn

from dualmask.classifier import DefendedClassifier, tested
from dualmask.errors import DualmaskError
from dualmask.optimisation import device_name
from dualmask.selection import Verdict, kept_by
from dualmask.text.examples import Dataset

if TYPE_CHECKING:
    from dualmask.training import Run


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
    """What the run measured: accuracies on held-out texts, with the defence on and off."""
    state = run.state
    best = Verdict(state.best_accuracy, state.best_under_attack)
    found: dict[str, object] = {
        "best_epoch": state.best_epoch, "epochs_run": state.epoch, "steps": state.step,
        "seconds": round(state.seconds, 1), "validation_accuracy": round(best.accuracy, 4),
        **({"validation_under_attack": round(best.under_attack, 4)} if best.attacked else {}),
        "kept_by": kept_by(run.settings), "ready": state.best_ready, "cost": cost(run),
        "cut_texts": cut_texts(run.classifier, data)}
    return found | (tested(run.classifier, data.test) if data.test else {})
