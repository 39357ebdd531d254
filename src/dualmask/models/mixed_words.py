# SPDX-License-Identifier: Apache-2.0
"""An encoder's table of pieces that also knows mixtures of them."""

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dualmask.errors import EncoderError
from dualmask.text.mixtures import FIRST, Mixtures, Recipe

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TINY = 1e-6  # shorter than this a mixture has no direction


class MixedWords(nn.Embedding):
    """Numbers from `FIRST` on are mixtures: the mean of their pieces, moved as far from the centre as pieces lie.

    A mean lies nearer to the centre than what it is a mean of, and the encoder has never seen anything there.
    """

    mixtures: Mixtures
    _recipe: Recipe
    _made_for: tuple[Tensor, "PreTrainedTokenizerBase"] | None

    def prepare(self, mixtures: Mixtures, tokenizer: "PreTrainedTokenizerBase") -> None:
        """Take the recipe of these mixtures; made again only if they or the tokenizer are others than last time."""
        if not len(mixtures.clashes):
            mixtures.fit([], self.weight)  # of a defence that saw no texts: nothing is told apart
        made = self.__dict__.get("_made_for")
        if made is None or made[0] is not mixtures.clashes or made[1] is not tokenizer:
            recipe = mixtures.recipe(tokenizer)
            self._recipe = Recipe(*(part.to(self.weight.device) for part in recipe))
            self.__dict__["mixtures"] = mixtures  # past nn.Module: it is no part of the encoder
            self._made_for = mixtures.clashes, tokenizer

    def forward(self, numbers: Tensor) -> Tensor:
        mixed = numbers >= FIRST
        found = super().forward(numbers.masked_fill(mixed, 0))
        if not bool(mixed.any()):
            return found
        words, places = torch.unique(numbers[mixed] - FIRST, return_inverse=True)
        return found.masked_scatter(mixed[..., None], self.means(words)[places].to(found.dtype))

    def means(self, words: Tensor) -> Tensor:
        """The embeddings of mixtures by number, (words, size)."""
        recipe, centre = Recipe(*(part.to(words.device) for part in self._recipe)), self.mixtures.centre
        starts = recipe.starts[words]
        sizes = recipe.starts[words + 1] - starts
        firsts = sizes.cumsum(0) - sizes
        places = torch.arange(int(sizes.sum()), device=words.device) + (starts - firsts).repeat_interleave(sizes)
        with torch.autocast(words.device.type, enabled=False):
            mean = F.embedding_bag(recipe.pieces[places], self.weight.float(), firsts, mode="sum",
                                   per_sample_weights=recipe.weights[places])
        away = mean - centre
        scale: Tensor = self.mixtures.length / away.detach().norm(dim=1, keepdim=True).clamp(min=TINY)
        return centre + away * scale


def teach_mixtures(model: "PreTrainedModel") -> MixedWords:
    """Let the encoder's table of pieces take mixtures; what it knew, it does as before."""
    table = model.get_input_embeddings()
    if type(table) not in (nn.Embedding, MixedWords):
        raise EncoderError(f"the encoder's word embeddings are a {type(table).__name__}, and mixtures of words need a "
                           "plain table; choose another encoder, or synonyms='head'.")
    table.__class__ = MixedWords
    return cast(MixedWords, table)
