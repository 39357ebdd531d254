# SPDX-License-Identifier: Apache-2.0
"""A word as the mean of its synonyms: who swaps a word for a near one, changes a few of many that are averaged.

Related: Zhou et al., "Defense against synonym substitution-based adversarial attacks via Dirichlet neighborhood
ensemble", ACL 2021, which draws from a word's neighbours; here they are averaged, so that one pass is enough.
"""

import re
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dualmask.errors import ModelFileError
from dualmask.options import check_shares
from dualmask.text.clusters import SHARPNESS, Evidence, function_words
from dualmask.text.encoding import Encode
from dualmask.text.examples import Example
from dualmask.text.protection import ADDRESS
from dualmask.text.spelling import Numbers, Spelling, ragged
from dualmask.text.synonyms import shipped_synonyms

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FIRST = 1 << 24  # of the numbers that stand for mixtures, behind every vocabulary
_RUN = re.compile(r"[^\W\d_]+")


class Recipe(NamedTuple):
    """What each mixture is made of: word n is pieces[starts[n]:starts[n + 1]], each with its weight; these add to 1."""

    starts: Tensor
    pieces: Tensor
    weights: Tensor


class Mixtures(nn.Module):
    """Which synonyms share a mixture. What is learned is in buffers, and saved with the defence that owns this."""

    clashes: Tensor  # bits, a pair of the shipped table each: words that the labels tell apart
    centre: Tensor  # (size,) the mean of the encoder's embeddings before training
    length: Tensor  # () their mean distance from it

    def __init__(self, *, apart: float, z: float = 2.0) -> None:
        """`apart`, `z`: as of clusters."""
        super().__init__()
        check_shares(apart=apart)
        self.apart, self.z = apart, z
        self.register_buffer("clashes", torch.zeros(0, dtype=torch.uint8))
        self.register_buffer("centre", torch.zeros(0))
        self.register_buffer("length", torch.zeros(()))

    def fit(self, examples: Sequence[Example], table: Tensor) -> None:
        """Learn from labelled texts which synonyms to keep apart, and from the encoder's table its scale."""
        synonyms, evidence = shipped_synonyms(), Evidence(examples, z=self.z, apart=self.apart)
        one, other, _ = synonyms.pairs
        self.clashes = torch.from_numpy(np.packbits(evidence.conflicts(synonyms.words, one, other)))
        self.centre = table.detach().float().mean(dim=0)
        self.length = (table.detach().float() - self.centre).norm(dim=1).mean()

    def recipe(self, tokenizer: "PreTrainedTokenizerBase") -> Recipe:
        """Each word's synonyms, near ones counting most; those that are one piece alone, where there are such.

        The mean of a rare word's pieces is not what the word means.
        """
        owners, others, weights = self._links()
        ids = tokenizer(list(shipped_synonyms().words), add_special_tokens=False)["input_ids"]
        sizes = np.array([len(row) for row in ids])
        whole = sizes[others] == 1
        has_whole = np.bincount(owners, weights=whole, minlength=len(ids)) > 0
        kept = whole | ~has_whole[owners]
        owners, others, weights = owners[kept], others[kept], weights[kept]
        weights = weights / np.bincount(owners, weights=weights, minlength=len(ids))[owners]
        flat, starts = np.fromiter(chain.from_iterable(ids), dtype=np.int64), np.cumsum(sizes) - sizes
        links, steps = ragged(sizes[others])
        counts = np.bincount(owners[links], minlength=len(ids))
        return Recipe(torch.from_numpy(np.concatenate([[0], np.cumsum(counts)])),
                      torch.from_numpy(flat[starts[others[links]] + steps]),
                      torch.from_numpy((weights / np.maximum(sizes[others], 1))[links].astype(np.float32)))

    def _links(self) -> tuple[Numbers, Numbers, NDArray[np.float64]]:
        """Word, synonym (or itself) and weight, ordered by the first."""
        synonyms = shipped_synonyms()
        one, other, cosines = synonyms.pairs
        if len(self.clashes) != (len(one) + 7) // 8:
            raise ModelFileError(f"the classifier was made with another table of synonyms ({len(self.clashes)} bytes "
                                 f"of pairs, {(len(one) + 7) // 8} expected); train it again with this version.")
        alike = np.unpackbits(self.clashes.cpu().numpy(), count=len(one)) == 0
        one, other, near = one[alike], other[alike], cosines[alike].astype(np.float64) ** SHARPNESS
        own = np.arange(len(synonyms))
        owners = np.concatenate([one, other, own])
        order = np.argsort(owners, kind="stable")
        return (owners[order], np.concatenate([other, one, own])[order],
                np.concatenate([near, near, np.ones(len(own))])[order])


class MixedSpelling(Spelling):
    """Words of the shipped table, but no function words or letters, are one piece each: their mixture's number."""

    _places: ClassVar[dict[str, int]] = {}

    def __init__(self, encode: Encode) -> None:
        super().__init__(encode)
        if not self._places:
            spared = function_words()
            self._places.update((word, place) for place, word in enumerate(shipped_synonyms().words)
                                if word not in spared and len(word) > 1)

    def _spelled(self, words: Sequence[str]) -> list[list[int]]:
        cut = [self._parts(word) for word in words]
        texts = list(dict.fromkeys(part for parts in cut for part in parts if isinstance(part, str)))
        known = dict(zip(texts, self._core_ids(texts), strict=True))
        return [[number for part in parts for number in (known[part] if isinstance(part, str) else [part])]
                for parts in cut]

    def _parts(self, word: str) -> list[str | int]:
        """Mixtures, and what stands between them; behind a space only at the beginning. Addresses stay."""
        found: list[str | int] = []
        end, text = 1, f" {word}"
        if ADDRESS.search(word):
            return [text]
        for run in _RUN.finditer(text):
            place = self._places.get(run[0].lower())
            around = text[run.start() - 1] + text[run.end():run.end() + 1]
            if place is None or any(sign.isdigit() or sign == "_" for sign in around):
                continue  # "b4d" is no mixture of synonyms of b and d
            found += [*([text[end - (end == 1):run.start()]] if run.start() > end else []), FIRST + place]
            end = run.end()
        return [*found, *([text[end - (end == 1):]] if end < len(text) else [])]
