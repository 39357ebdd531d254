# SPDX-License-Identifier: Apache-2.0
"""Presets that reproduce a release: the figures of its scripts, and what dropout does between the passes of a batch."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from dualmask.classifier import DefendedClassifier
from dualmask.defences import build_defence, preset_training
from dualmask.defences.ascent import Ascent
from dualmask.models.encoders import load_encoder
from dualmask.options import TrainingOptions
from dualmask.text.examples import Dataset

Tiny = Callable[[str], Path]
ADAMW = {"optimiser": "adamw", "final_rate": 0.0, "batch_size": 32, "max_length": 128, "schedule": "linear",
         "warmup": 0.0, "clip": "norm", "clip_at": 1.0, "keep": "best", "validate": "defended"}
TEXTDEFENDER = {**ADAMW, "learning_rate": 2e-5, "weight_decay": 1e-6, "epochs": 10, "schedule": "cosine"}
RELEASED: dict[tuple[str, str], dict[str, object]] = {
    ("ddm", "release"): {**ADAMW, "learning_rate": 5e-5, "weight_decay": 0.0, "epochs": 5, "schedule": "constant",
                         "clip": "none", "validate": "plain"},
    ("fat", "paper"): {**ADAMW, "learning_rate": 2e-5, "weight_decay": 1e-6, "epochs": 30, "batch_size": 16,
                       "max_length": 256, "warmup": 500.0, "keep": "last"},
    ("rsmi", "paper"): {**ADAMW, "learning_rate": 1e-5, "weight_decay": 0.0, "epochs": 10, "batch_size": 16,
                        "max_length": 256},
    ("freelb", "sst-2"): {**ADAMW, "learning_rate": 1e-5, "weight_decay": 0.01, "epochs": 10, "max_length": 512,
                          "warmup": 1256.0},
    ("freelb", "textdefender"): TEXTDEFENDER,
    ("ranmask", "release"): {**TEXTDEFENDER, "learning_rate": 5e-5},
    ("freelb++", "paper"): TEXTDEFENDER,
    ("freelb++", "thirty"): TEXTDEFENDER,
    ("infobert", "release"): {**ADAMW, "learning_rate": 2e-5, "weight_decay": 1e-5, "epochs": 3, "warmup": 1000.0},
    ("adfar", "paper"): {**ADAMW, "learning_rate": 3e-5, "weight_decay": 0.0, "epochs": 5, "batch_size": 16,
                         "keep": "last"},
    ("fgws", "release"): {**ADAMW, "learning_rate": 1e-5, "weight_decay": 0.1, "decay": "all", "epochs": 10,
                          "warmup": 0.06, "clip": "none"},
    ("floodingx", "release"): {**ADAMW, "learning_rate": 2e-5, "weight_decay": 0.01, "epochs": 10, "max_length": 512,
                               "warmup": 0.1, "clip": "none", "keep": "last"},
}


@pytest.mark.parametrize(("name", "preset"), RELEASED)
def test_a_preset_trains_as_its_release_did(name: str, preset: str) -> None:
    settings = preset_training(name, preset)
    assert {one: getattr(settings, one) for one in RELEASED[name, preset]} == RELEASED[name, preset]
    assert settings.patience == 0 or settings.keep == "last", "it never stops early"
    assert settings.decay == RELEASED[name, preset].get("decay", "weights"), "most decay no bias and no normalisation"
    ours = TrainingOptions()
    assert (settings.precision, settings.seed, settings.validation_share) == (
        ours.precision, ours.seed, ours.validation_share)


def test_shield_trains_its_experts_as_its_release_did() -> None:
    """Three epochs of the encoder come first; like the release it waits two epochs for a better one."""
    settings = preset_training("shield", "release")
    assert (settings.optimiser, settings.learning_rate, settings.weight_decay) == ("adam", 3e-5, 0.0)
    assert (settings.batch_size, settings.max_length, settings.epochs, settings.patience) == (32, 128, 3 + 5, 2)
    assert (settings.schedule, settings.warmup, settings.clip, settings.clip_at) == ("constant", 0.0, "norm", 3.0)


SHARED = [("freelb", "recommended"), ("freelb", "sst-2"), ("freelb++", "recommended"), ("fat", "recommended"),
          ("infobert", "recommended"), ("infobert", "release")]
FRESH = [("freelb", "textdefender"), ("freelb++", "paper"), ("freelb++", "thirty"), ("fat", "paper")]


def dropped(tiny: Tiny, data: Dataset, name: str, preset: str) -> list[Tensor]:
    """Which numbers of the embeddings each pass of one batch did without; half of them go."""
    model, tokenizer = load_encoder(tiny("bert"), data.labels)
    steps = {} if name == "fat" else {"steps": 3}
    found = DefendedClassifier(model, tokenizer, build_defence(name, preset=preset, options=steps), labels=data.labels,
                               max_length=40)
    network, defence, seen = found.network.train(), found.defence, list[Tensor]()
    layer = model.base_model.embeddings.dropout
    assert isinstance(layer, nn.Dropout)
    layer.p = 0.5
    layer.register_forward_hook(lambda layer, given, output: seen.append(output == 0))
    texts, labels = zip(*data.train[:4], strict=True)
    batch = defence.training_view(texts, labels, found.encode, torch.Generator())
    torch.manual_seed(11)
    defence.learn(partial(defence.loss, network), batch, lambda loss: loss.backward())
    assert len(seen) == (2 if name == "fat" else 3) and all(0.4 < one.float().mean() < 0.6 for one in seen)
    return seen


@pytest.mark.parametrize(("name", "preset", "shared"), [
    *((*one, True) for one in SHARED), *((*one, False) for one in FRESH)])  # fmt: skip
def test_the_passes_of_a_batch_share_a_dropout_mask_or_do_not(
    name: str, preset: str, shared: bool, tiny: Tiny, data: Dataset,
) -> None:
    passes = dropped(tiny, data, name, preset)
    assert all(torch.equal(passes[0], one) is shared for one in passes[1:])
    again = dropped(tiny, data, name, preset)
    assert all(map(torch.equal, passes, again)), "a run that is resumed draws the same"


def test_the_mask_is_shared_unless_it_is_said_otherwise() -> None:
    for name in ("freelb", "freelb++", "fat", "infobert", "ddm-restore"):
        defence = build_defence(name)
        assert isinstance(defence, Ascent) and defence.dropout_masks == "shared"
