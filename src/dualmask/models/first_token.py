# SPDX-License-Identifier: Apache-2.0
"""Classifiers read the first token only, so at inference the last layer need not compute the others."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Their layers are built alike, and their heads read the first token; a class of the user's own may read others
CLASSES = tuple(f"{family}ForSequenceClassification" for family in ("Bert", "Camembert", "Electra", "Roberta",
                                                                    "XLMRoberta"))
wanted = threading.local()  # .alone: this thread's pass needs the first token only; .every: none may be left out


@contextmanager
def first_token_only(possible: bool) -> Iterator[None]:
    """Within it the last layer of a model that `shorten` was told about gives one token a row."""
    wanted.alone = possible and not torch.is_grad_enabled() and not getattr(wanted, "every", False)
    try:
        yield
    finally:
        wanted.alone = False


@contextmanager
def every_token() -> Iterator[None]:
    """Within it hidden states are those of all tokens, at inference too."""
    wanted.every = True
    try:
        yield
    finally:
        wanted.every = False


def shorten(model: "PreTrainedModel") -> None:
    """Let the last layer skip work, in place; weights, keys and answers stay the same."""
    known = type(model).__name__ in CLASSES and type(model).__module__.startswith("transformers.")
    if known and not getattr(model.config, "is_decoder", False):
        last = cast(Any, model.base_model).encoder.layer[-1]
        last.__class__ = _short_layer(type(last))  # type: ignore[arg-type]


@cache
def _short_layer(kind: type[nn.Module]) -> type[nn.Module]:
    if hasattr(kind, "shortened"):
        return kind

    class ShortLayer(kind):  # type: ignore[valid-type,misc]
        """The layer, which knows how to answer for the first token alone: one query to all keys, one feed-forward."""

        shortened = True

        def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None, *rest: Any, **more: Any) -> Any:
            other_mask = attention_mask is not None and attention_mask.dim() != 4
            if not getattr(wanted, "alone", False) or self.training or other_mask:
                return super().forward(hidden_states, attention_mask, *rest, **more)
            attention = self.attention.self
            first = hidden_states[:, :1]  # (rows, 1, size)
            queries, keys, values = (
                part.unflatten(-1, (attention.num_attention_heads, -1)).transpose(1, 2)  # (rows, heads, tokens, size)
                for part in (attention.query(first), attention.key(hidden_states), attention.value(hidden_states)))
            mask = attention_mask[:, :, :1] if attention_mask is not None else None
            found = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=attention.scaling)
            return self.feed_forward_chunk(self.attention.output(found.transpose(1, 2).flatten(2), first))

        def __reduce_ex__(self, protocol: Any) -> Any:
            return remade, (kind, self.__dict__.copy(), _short_layer)

    ShortLayer.__name__ = kind.__name__  # reports about the model show its own layers
    return ShortLayer


def remade(
    kind: type[nn.Module], state: dict[str, Any], change: Callable[[type[nn.Module]], type[nn.Module]],
) -> nn.Module:
    """A pickled or copied module whose class was made from a library's, and has no place to be imported from."""
    layer = kind.__new__(kind)
    layer.__setstate__(state)  # type: ignore[no-untyped-call]
    layer.__class__ = change(kind)
    return layer
