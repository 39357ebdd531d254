# SPDX-License-Identifier: Apache-2.0
"""A masked language model made of hashes, over a real vocabulary: the same candidates for TextAttack and for dualmask.

The logits at a place depend on the token ids there, before and after, never on padding. They are whole numbers below
2 ** 24, exact in float32, and no two of a place are equal, so that the best k have one order on every machine.
"""

import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from stand_ins import hashed

if TYPE_CHECKING:
    import torch

_PRIME = 65_537
# how many tokens of each kind reach the upper level at a place, on average: words, parts of words, punctuation
_WANTED = {"word": 9.0, "part": 4.0, "mark": 1.0}
_KINDS = {"word": re.compile(r"[a-z]{2,}"), "part": re.compile(r"##[a-z]+"), "mark": re.compile(r"[!-/:-@]")}


class StandInMaskedLM:
    """Ids of a text, special tokens included, to logits (places, vocabulary). `vocabulary` lists the tokens by id."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._ids = np.arange(len(vocabulary), dtype=np.int64)
        self._level = np.zeros(len(vocabulary), dtype=np.int64)
        self._chance = np.zeros(len(vocabulary), dtype=np.int64)
        for kind, pattern in _KINDS.items():
            members = [i for i, token in enumerate(vocabulary) if pattern.fullmatch(token)]
            self._level[members] = 1
            self._chance[members] = round(_WANTED[kind] / max(len(members), 1) * _PRIME)
        self._kept: dict[tuple[int, int, int], NDArray[np.float32]] = {}

    def __call__(self, ids: Sequence[int]) -> NDArray[np.float32]:
        around = [0, *ids, 0]
        return np.stack([self._at(*around[place:place + 3]) for place in range(len(ids))])

    def best(self, ids: Sequence[int], place: int, most: int) -> list[int]:
        """The token ids of the largest logits at one place, best first."""
        around = [0, *ids, 0]
        order = np.argsort(-self._at(*around[place:place + 3]))
        return [int(token) for token in order[:most]]

    def _at(self, before: int, here: int, after: int) -> NDArray[np.float32]:
        key = (before, here, after)
        if key not in self._kept:
            if len(self._kept) >= 2_000:
                self._kept.clear()
            self._kept[key] = self._logits(key)
        return self._kept[key]

    def _logits(self, key: tuple[int, int, int]) -> NDArray[np.float32]:
        draw = hashed(" ".join(map(str, key)), 16)
        first, second, third, fourth = ((draw >> shift) % (_PRIME - 1) + 1 for shift in (0, 32, 64, 96))
        value = (first * self._ids + second) % _PRIME  # ids are below the prime: a permutation, hence no ties
        chosen = (third * self._ids + fourth) % _PRIME < self._chance
        return (value + _PRIME * (self._level + chosen)).astype(np.float32)

    def as_module(self) -> "torch.nn.Module":
        """The same as a torch module called like a Hugging Face masked language model."""
        import torch

        answer = self

        class Module(torch.nn.Module):
            config = SimpleNamespace(model_type="bert")

            def forward(
                self, input_ids: torch.Tensor, attention_mask: torch.Tensor, **_: torch.Tensor
            ) -> tuple[torch.Tensor]:
                logits = torch.zeros((*input_ids.shape, len(answer._ids)))  # (texts, places, vocabulary)
                for row, (ids, mask) in enumerate(zip(input_ids.tolist(), attention_mask.tolist(), strict=True)):
                    length = sum(mask)
                    logits[row, :length] = torch.from_numpy(answer(ids[:length]))
                return (logits,)

        return Module()
