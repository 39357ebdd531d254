# SPDX-License-Identifier: Apache-2.0
"""Masked language models: for scorers that ask how likely a token is, for attacks that ask what else could stand there.

One is shipped: a small adapter (`assets/masked_lm.safetensors`, made by tools/build_masked_lm.py) that turns the
encoder `minilm` into a masked language model. In the adapter a tensor that carries the name of a weight replaces it;
a pair `NAME.up`, `NAME.down` is added to it as a product, W + up @ down (LoRA: Hu et al., ICLR 2022). The factors are
8-bit integers with one scale for each row.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dualmask.errors import EncoderError, ModelFileError, ResourceError
from dualmask.models.encoders import LOADING_ERRORS, load_tokenizer, read_network
from dualmask.system_errors import told_reason

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

SHIPPED = "shipped"
ADAPTER = Path(__file__).parents[1] / "assets" / "masked_lm.safetensors"
ENCODER = "minilm"  # what the shipped adapter was trained on

_UP, _DOWN, _SCALE = ".up", ".down", ".scale"


@dataclass(frozen=True)
class MaskedLanguageModel:
    """A network with an MLM head, in evaluation mode and without gradients, and its tokenizer."""

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"

    @property
    def mask_id(self) -> int:
        return int(self.tokenizer.mask_token_id)


def load_masked_language_model(name: str = SHIPPED) -> MaskedLanguageModel:
    """The shipped masked language model, or one by folder, hub id or resource name that has an MLM head."""
    from dualmask.resources import resolve

    folder = _shipped_encoder() if name == SHIPPED else resolve(name, kind="encoder")
    model, missing = _load(folder, name)
    if name == SHIPPED:
        given = merge_adapter(model, read_adapter(ADAPTER))
        missing = [key for key in missing if model.get_parameter(key) not in given]
    if missing:
        raise EncoderError(f"'{name}' has no masked-language-model head: its weights lack {missing[0]}. "
                           f"Give a masked language model, or '{SHIPPED}' for the one that comes with dualmask.")
    tokenizer = load_tokenizer(folder)
    if tokenizer.mask_token_id is None or not tokenizer.is_fast:
        raise EncoderError(f"'{name}' needs a fast tokenizer (tokenizer.json) that has a mask token.")
    return MaskedLanguageModel(model, tokenizer)


def load_language_model(name: str, *, vocabulary: int) -> tuple["PreTrainedModel", int]:
    """A masked language model and its mask id; refused if its head or its vocabulary doesn't fit."""
    loaded = load_masked_language_model(name)
    if (known := loaded.model.config.vocab_size) != vocabulary:
        raise EncoderError(f"'{name}' has {known} tokens and the encoder {vocabulary}; "
                           "the language model must share the encoder's tokenizer.")
    return loaded.model, loaded.mask_id


def read_adapter(path: Path) -> dict[str, Tensor]:
    """The adapter's tensors; refused unless the file has the hash and the encoder that its manifest names."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    from dualmask.resources import RESOURCES

    manifest = path.with_name(f"{path.stem}.manifest.json")
    try:
        facts = json.loads(manifest.read_text(encoding="utf-8"))
        expected, encoder = facts["sha256"], facts["encoder"]["sha256"]
        content = path.read_bytes()
        if (found := hashlib.sha256(content).hexdigest()) != expected:
            raise ModelFileError(f"{path} is damaged: its sha256 is {found}, {manifest.name} says {expected}. "
                                 "Install dualmask again.")
        tensors = load(content)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise ModelFileError(f"the adapter {path} with its {manifest.name} can't be read ({error!r}). "
                             "Install dualmask again.") from error
    if encoder != RESOURCES[ENCODER].sha256:
        raise ModelFileError(f"{path} was trained on another '{ENCODER}' (weights {encoder}) than this version "
                             f"fetches ({RESOURCES[ENCODER].sha256}). Build it again: tools/build_masked_lm.py.")
    return tensors


@torch.no_grad()
def merge_adapter(model: "PreTrainedModel", adapter: Mapping[str, Tensor]) -> set[Tensor]:
    """Add the low-rank products to the model's weights, put the whole tensors in place; returns those replaced."""
    replaced = set()
    for name in sorted({_weight_name(key) for key in adapter}):
        if name in adapter:
            weight = _weight(model, name, adapter[name].shape)
            replaced.add(weight.copy_(adapter[name]))
        else:
            update = _factor(adapter, name + _UP) @ _factor(adapter, name + _DOWN)
            _weight(model, name, update.shape).add_(update)
    return replaced


def _weight_name(key: str) -> str:
    return key.removesuffix(_SCALE).removesuffix(_UP).removesuffix(_DOWN)


def _factor(adapter: Mapping[str, Tensor], key: str) -> Tensor:
    if key not in adapter:
        raise ModelFileError(f"the adapter has no tensor '{key}'. Build it again or install dualmask again.")
    factor = adapter[key].float()
    scale = adapter.get(key + _SCALE)
    return factor if scale is None else factor * scale.float()


def _weight(model: "PreTrainedModel", name: str, shape: torch.Size) -> Tensor:
    """The model's weight of this name and shape."""
    try:
        weight = model.get_parameter(name)
    except AttributeError:
        raise ModelFileError(f"the adapter changes '{name}', which {type(model).__name__} doesn't have: "
                             "it was made for another encoder.") from None
    if weight.shape != shape:
        raise ModelFileError(f"the adapter's '{name}' has the shape {tuple(shape)}, the encoder's "
                             f"{tuple(weight.shape)}: it was made for another encoder.")
    return weight


def _load(folder: Path, name: str) -> tuple["PreTrainedModel", list[str]]:
    """The network, and which of its weights the folder lacks."""
    from transformers import AutoModelForMaskedLM

    try:
        # A missing head is drawn from the global generator, whose state belongs to others.
        with torch.random.fork_rng(devices=[]):
            model, report = read_network(AutoModelForMaskedLM, folder, output_loading_info=True)
    except LOADING_ERRORS as error:
        raise EncoderError(f"'{name}' can't be loaded as a masked language model: {told_reason(error)}") from error
    return model.eval().requires_grad_(False), sorted(report["missing_keys"])


def _shipped_encoder() -> Path:
    from dualmask.resources import resolve

    try:
        return resolve(ENCODER, kind="encoder")
    except ResourceError as error:
        raise ResourceError(f"the shipped masked language model is an adapter for the encoder '{ENCODER}', which is "
                            f"not on this machine: {error}") from None
