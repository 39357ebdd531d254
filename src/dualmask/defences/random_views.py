# SPDX-License-Identifier: Apache-2.0
"""What defences have in common whose views of a text are drawn at random: where the draws come from."""

import os
from collections.abc import Sequence
from typing import Literal, Protocol

import torch
from torch import Tensor

from dualmask.defences.base import Defence, Noise
from dualmask.seeds import derived_seed, scrambled
from dualmask.text.examples import Text
from dualmask.text.invisible import visible


class DrawOptions(Protocol):
    """Options that every such defence has."""

    @property
    def noise(self) -> Literal["text", "fresh"]:
        """The same draws each time a text comes, or new ones."""

    @property
    def noise_seed(self) -> int: ...


class RandomViews(Defence):
    """Views that are drawn; each one's noise comes from a seed of its own."""

    options: DrawOptions

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        self._redraw, self._same = 0, False

    @property
    def noise(self) -> Noise:
        return self.options.noise

    def redraw(self, number: int, *, same: bool = False) -> None:
        self._redraw, self._same = number, same

    def seeds(self, texts: Sequence[Text], numbers: Sequence[int]) -> Tensor:
        """A seed for each view, (rows,): from its number and what is seen of the text; for fresh noise, from nowhere.

        Where draws are the same for all texts, from its number alone: equal words in equal places meet equal draws.
        """
        if self.options.noise == "fresh" and not self._same:  # the system's chance: who knows every seed can't tell it
            return torch.frombuffer(bytearray(os.urandom(8 * len(texts))), dtype=torch.long)
        known = {text: derived_seed(self.options.noise_seed, "noise", "" if self._same else repr(visible(text)))
                 for text in set(texts)}
        views = scrambled(torch.tensor(numbers, dtype=torch.long) + (self._redraw << 32))
        return scrambled(torch.tensor([known[text] for text in texts], dtype=torch.long) ^ views)
