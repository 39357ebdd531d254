# SPDX-License-Identifier: Apache-2.0
"""Encoders with a classification head, and how each family is told where a token stands."""

import inspect
import json
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from torch import Tensor, nn

from dualmask.errors import EncoderError, OptionError
from dualmask.models.first_token import first_token_only, remade, shorten
from dualmask.seeds import seed_layers
from dualmask.system_errors import told_reason
from dualmask.text.encoding import Batch, MaskPosition

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

LOADING_ERRORS = (ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, OSError, RuntimeError,
                  SafetensorError, StrictDataclassError, TypeError, ValueError)  # of folders with whatever is in them
ZERO = -1  # the position id of a token whose position embedding is the zero vector
ABSOLUTE = ("bert", "camembert", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta")
RELATIVE = ("deberta", "deberta-v2", "modernbert")  # no absolute embedding to zero; see docs/ddm.md
OFFSET_BY_PADDING = ("camembert", "mpnet", "roberta", "xlm-roberta")  # their first position is padding_idx + 1


asked = threading.local()  # .positions: the ids that this thread's pass asked for, for layers further up


class ZeroablePositions(nn.Embedding):
    """A position table in which the id `ZERO` gives the zero vector, without gradient; its weights are unchanged."""

    def forward(self, input: Tensor) -> Tensor:
        asked.positions = input
        return super().forward(input.clamp(min=0)).masked_fill((input == ZERO)[..., None], 0.0)


@cache
def _mask_blind(kind: type[nn.Module]) -> type[nn.Module]:
    if hasattr(kind, "mask_blind"):
        return kind

    class MaskBlindMPNetEncoder(kind):  # type: ignore[valid-type,misc]
        """MPNet's relative bias read off the given positions, and none to or from a token at position `ZERO`."""

        mask_blind = True

        def compute_position_bias(self, x: Tensor, position_ids: Tensor | None = None, num_buckets: int = 32) -> Tensor:
            places: Tensor = asked.positions
            relative = places[:, None, :] - places[:, :, None]  # (rows, queries, keys)
            buckets = cast(Any, self).relative_position_bucket(relative, num_buckets=num_buckets)
            bias: Tensor = self.relative_attention_bias(buckets)
            nowhere = places == ZERO
            blind = nowhere[:, None, :] | nowhere[:, :, None]
            return bias.masked_fill(blind[..., None], 0.0).permute(0, 3, 1, 2)  # (rows, heads, queries, keys)

        def __reduce_ex__(self, protocol: Any) -> Any:
            return remade, (kind, self.__dict__.copy(), _mask_blind)

    return MaskBlindMPNetEncoder


def load_encoder(
    name: str | Path, labels: Sequence[str], *, seed: int = 0,
) -> tuple["PreTrainedModel", "PreTrainedTokenizerBase"]:
    """An encoder by resource name, path or hub id, with a head for these labels: new unless it has one of that size."""
    from transformers import AutoModelForSequenceClassification

    from dualmask.resources import resolve

    folder = resolve(str(name), kind="encoder")
    seed_layers(seed, "head")
    try:
        model: PreTrainedModel = read_network(
            AutoModelForSequenceClassification, folder, id2label=dict(enumerate(labels)), num_labels=len(labels),
            label2id={label: i for i, label in enumerate(labels)}, ignore_mismatched_sizes=True)
    except LOADING_ERRORS as error:
        raise EncoderError(f"'{name}' can't be loaded as an encoder: {told_reason(error)}. Give the folder of a whole "
                           "model with config.json, model.safetensors and its tokenizer.") from error
    return model, load_tokenizer(folder)


def read_network(kind: Any, folder: Path, **settings: object) -> Any:
    """A folder's network, out of safetensors and by the library's own code: a model that is given must not run any."""
    check_config(folder)
    check_weights(folder)
    with quiet_transformers():  # a new head is what we ask for; the loader would warn about it
        return kind.from_pretrained(folder, dtype=torch.float32, use_safetensors=True, local_files_only=True,
                                    trust_remote_code=False, **settings)


def check_config(folder: Path) -> None:
    """Refuse attention that would be fetched as code from a repository, which trust_remote_code says nothing about."""
    path = folder / "config.json"
    if not path.is_file():
        return  # the loader says so
    config = json.loads(path.read_text(encoding="utf-8"))
    named = [config.get(name) for name in ("attn_implementation", "_attn_implementation")]
    if kernels := [name for name in named if "/" in str(name)]:
        raise ValueError(f"config.json asks for attention by the code of '{kernels[0]}', which is not run here; "
                         "remove that entry")


def check_weights(folder: Path) -> None:
    """Refuse a folder without safetensors: the loader would open a pickle, or fail in a stack trace."""
    if any(folder.glob("model*.safetensors")):
        return
    pickles = sorted(path.name for ending in ("bin", "pt", "pth", "ckpt") for path in folder.glob(f"*.{ending}"))
    if pickles:
        raise EncoderError(f"{folder} can't be loaded: its weights are in {pickles[0]}, a pickle, which can run code "
                           "when it is opened. Expected model.safetensors; if you trust the pickle, load it with "
                           "transformers and write it anew with save_pretrained().")
    there = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) if folder.is_dir() else ""
    raise EncoderError(f"{folder} can't be loaded: expected its weights in model.safetensors (there: "
                       f"{there or 'nothing'}). Copy the whole model, or write it anew with save_pretrained().")


def load_tokenizer(folder: Path) -> "PreTrainedTokenizerBase":
    """A folder's tokenizer. Where its files are missing transformers would make one up that knows no word."""
    from transformers import AutoTokenizer

    if not any(path.is_file() for name in ("tokenizer.json", "vocab.*", "*.model") for path in folder.glob(name)):
        raise EncoderError(f"{folder} holds no tokenizer (tokenizer.json, vocab.* or *.model); copy it there, or save "
                           "it with tokenizer.save_pretrained().")
    try:
        found = cast("PreTrainedTokenizerBase", AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False))
        # As if that were told already: no text reaches a network uncut, and we tell ourselves which were cut
        found.deprecation_warnings["sequence-length-is-longer-than-the-specified-maximum"] = True
        return found
    except LOADING_ERRORS as error:
        raise EncoderError(f"the tokenizer in {folder} can't be loaded: {told_reason(error)}. Copy or save it "
                           "again.") from error


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars and warnings from the library's loader, whose reports we read ourselves."""
    from transformers.utils import logging

    library = cast(Any, logging)  # its functions are untyped
    verbosity, bars = library.get_verbosity(), library.is_progress_bar_enabled()
    library.set_verbosity_error()
    library.disable_progress_bar()
    try:
        yield
    finally:
        library.set_verbosity(verbosity)
        if bars:
            library.enable_progress_bar()


def prepare(model: "PreTrainedModel") -> None:
    """Teach the model the position `ZERO`, in place; its weights, keys and answers to ordinary input stay the same."""
    family = model.config.model_type
    if family not in ABSOLUTE + RELATIVE:
        raise EncoderError(f"encoders of the family '{family}' are not supported: their positions are unknown here; "
                           f"take one of {', '.join(ABSOLUTE + RELATIVE)}.")
    table = position_table(model)
    if table is not None:
        table.__class__ = ZeroablePositions
    if family == "mpnet" and table is not None:
        encoder = cast(Any, model.base_model).encoder
        encoder.__class__ = _mask_blind(type(encoder))  # type: ignore[arg-type]
    shorten(model)


def position_table(model: "PreTrainedModel") -> nn.Embedding | None:
    """The absolute position embeddings, if the model has any."""
    table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    return table if isinstance(table, nn.Embedding) else None


def longest_input(model: "PreTrainedModel") -> int:
    """Tokens that the model has positions for."""
    return int(model.config.max_position_embeddings) - _first_position(model)


def check_mask_position(model: "PreTrainedModel", mask_position: MaskPosition) -> None:
    """Say so where a way to place masks means nothing in this model."""
    family = model.config.model_type
    if mask_position == "zero" and family in RELATIVE:
        warnings.warn(f"encoders of the family '{family}' have relative positions, which zeroing does not reach: "
                      "tokens keep their distance to [MASK].", stacklevel=3)
    if mask_position == "release" and family not in ("bert", "electra", "roberta"):
        raise OptionError("mask_position='release' reproduces a fault of BERT-like inputs, which the family "
                          f"'{family}' doesn't have. Choose 'zero' or 'normal'.")


def check_vocabulary(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> None:
    known = int(cast(Any, model.get_input_embeddings()).num_embeddings)
    if len(tokenizer) > known:
        raise EncoderError(f"the tokenizer has {len(tokenizer)} tokens and the model knows {known}; after adding "
                           "tokens call model.resize_token_embeddings(len(tokenizer)) and train the model with them.")


def check_length(model: "PreTrainedModel", length: int) -> None:
    if length > (longest := longest_input(model)):
        raise OptionError(f"inputs of up to {length} tokens were asked for, but this encoder has positions for "
                          f"{longest}; lower max_length.")


def logits(model: "PreTrainedModel", batch: Batch, *, embeddings: Tensor | None = None) -> Tensor:
    """The model's answer to a batch, (rows, classes); `embeddings` stand in for the word embeddings."""
    with first_token_only(not model.training):
        return cast(Tensor, model(**all_inputs(model, batch, embeddings)).logits)


def hidden_states(model: "PreTrainedModel", batch: Batch, *, embeddings: Tensor | None = None) -> Tensor:
    """What the encoder without its head makes of a batch, (rows, length, size); at inference perhaps one token."""
    with first_token_only(not model.training):
        return cast(Tensor, model.base_model(**all_inputs(model, batch, embeddings)).last_hidden_state)


def all_inputs(model: "PreTrainedModel", batch: Batch, embeddings: Tensor | None) -> dict[str, Tensor]:
    check_length(model, batch.input_ids.shape[1])
    arguments = model_inputs(model, batch)
    if batch.mask_position == "release":
        embeddings = release_embeddings(model, batch, embeddings)
    if embeddings is not None:
        arguments["inputs_embeds"] = embeddings
        del arguments["input_ids"]
    return arguments


def model_inputs(model: "PreTrainedModel", batch: Batch) -> dict[str, Tensor]:
    """A batch as the arguments that this model's forward takes, positions in its own numbering."""
    arguments = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    accepted = _accepted(cast(Any, type(model)))
    if "position_ids" in accepted:
        places = batch.positions + _first_position(model)
        zero = batch.mask_position == "zero" and position_table(model) is not None
        arguments["position_ids"] = places.masked_fill(batch.masks, ZERO) if zero else places
    if "token_type_ids" in accepted and model.config.type_vocab_size > 0:
        arguments["token_type_ids"] = batch.token_type_ids.clamp(max=model.config.type_vocab_size - 1)
    return arguments


def release_embeddings(model: "PreTrainedModel", batch: Batch, words: Tensor | None) -> Tensor:
    """The released DDM code's input: positions and types added by hand, which the model then adds a second time."""
    parts = cast(Any, model.base_model).embeddings
    zeroed = (batch.positions + _first_position(model)).masked_fill(batch.masks, ZERO)
    words = parts.word_embeddings(batch.input_ids) if words is None else words
    return cast(Tensor, words + parts.position_embeddings(zeroed) + parts.token_type_embeddings(batch.token_type_ids))


def _first_position(model: "PreTrainedModel") -> int:
    offset = model.config.model_type in OFFSET_BY_PADDING
    table = position_table(model)
    return int(table.padding_idx or 0) + 1 if offset and table is not None else 0


@lru_cache(maxsize=32)
def _accepted(kind: type[nn.Module]) -> frozenset[str]:
    return frozenset(inspect.signature(kind.forward).parameters)
