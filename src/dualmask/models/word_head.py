# SPDX-License-Identifier: Apache-2.0
"""A masked language model's head apart from its encoder: how well each word would fit at a place."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class WordHead(nn.Module):
    """norm(gelu(W h + c)) . e_w + b_w; the word embeddings e are the encoder's own and no part of this module."""

    def __init__(self, size: int, table: nn.Embedding, *, epsilon: float) -> None:
        super().__init__()
        self.dense = nn.Linear(size, table.embedding_dim)
        self.norm = nn.LayerNorm(table.embedding_dim, eps=epsilon)
        self.bias = nn.Parameter(torch.zeros(table.num_embeddings))
        nn.init.orthogonal_(self.dense.weight)
        nn.init.zeros_(self.dense.bias)

    def forward(self, states: Tensor, tokens: Tensor, table: nn.Embedding) -> Tensor:
        """Scores of some tokens, (words,), at places (rows, size): (rows, words)."""
        return F.linear(self.norm(F.gelu(self.dense(states))), table(tokens), self.bias[tokens])

    @torch.no_grad()
    def take(self, model: "PreTrainedModel") -> None:
        """The weights of a masked language model's head: whatever of it is not its encoder."""
        inside = set(model.base_model.modules())
        decoder: nn.Linear = cast(Any, model).get_output_embeddings()
        own = [part for part in model.modules() if part not in inside and part is not decoder]
        dense = next(part for part in own if isinstance(part, nn.Linear))
        norm = next(part for part in own if isinstance(part, nn.LayerNorm))
        pairs = [(self.dense.weight, dense.weight), (self.dense.bias, dense.bias), (self.norm.weight, norm.weight),
                 (self.norm.bias, norm.bias), (self.bias, decoder.bias)]
        for mine, given in pairs:
            if given is not None:  # some families have no biases
                mine.copy_(given)


def word_head(model: "PreTrainedModel") -> WordHead:
    """A head for a classifier's encoder: its own where it comes from the folder of a masked language model, else new.

    A new one begins as a rotation of the states, which keeps how they lie to each other.
    """
    from dualmask.models.language_models import load_masked_language_model

    table = cast(nn.Embedding, model.get_input_embeddings())
    head = WordHead(model.config.hidden_size, table, epsilon=getattr(model.config, "layer_norm_eps", 1e-12))
    complete = any(kind.endswith("ForMaskedLM") for kind in model.config.architectures or ())
    folder = str(model.name_or_path)
    if complete and Path(folder).is_dir():
        head.take(load_masked_language_model(folder).model)
    return head.to(model.device)
