# SPDX-License-Identifier: Apache-2.0
"""What goes into an encoder's layers and what comes out of its last: in a block of code, or in one pass."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from dualmask.models.encoders import all_inputs, quiet_transformers
from dualmask.models.layer_noise import encoder_layers
from dualmask.text.encoding import Batch

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.modeling_outputs import BaseModelOutput


@contextmanager
def watched(model: "PreTrainedModel") -> Iterator[Mapping[str, Tensor]]:
    """Within it the first pass leaves 'words', which the first layer was given, 'states', which the encoder gave, and
    'pooled', which the head's last layer was given, dropout and all.

    Later passes are of other views: every loss asks about the batch as it is first.
    """
    seen: dict[str, Tensor] = {}
    thread = get_ident()  # another one may ask the same network meanwhile

    def note(layer: nn.Module, given: tuple[Tensor, ...], named: dict[str, Tensor]) -> None:
        if get_ident() == thread:
            seen.setdefault("words", given[0] if given else named["hidden_states"])

    def keep(encoder: nn.Module, given: object, output: "BaseModelOutput") -> None:
        assert output.last_hidden_state is not None
        if get_ident() == thread:
            seen.setdefault("states", output.last_hidden_state)

    def pool(layer: nn.Module, given: tuple[Tensor, ...]) -> None:
        if get_ident() == thread:
            seen.setdefault("pooled", given[0])

    head = [part for part in model.modules() if isinstance(part, nn.Linear)][-1:]  # families write it down last
    handles = [encoder_layers(model)[0].register_forward_pre_hook(note, with_kwargs=True),
               model.base_model.register_forward_hook(keep), *(one.register_forward_pre_hook(pool) for one in head)]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


class LayerView(NamedTuple):
    """What a layer is given, and how its first token looks at it."""

    states: Tensor  # (rows, length, size)
    attention: Tensor | None  # of the first token, mean over heads, (rows, length); None: the family doesn't tell


def layer_views(model: "PreTrainedModel", batch: Batch, layers: Sequence[int]) -> dict[int, LayerView]:
    """What these layers, counted from 0, see of a batch. The model must be in evaluation mode, and no other thread ask
    it meanwhile: only the plain form of attention tells its weights, so that form is chosen for this pass."""
    stack, states = encoder_layers(model), dict[int, Tensor]()

    def noting(number: int) -> Any:
        def note(layer: nn.Module, given: tuple[Tensor, ...], named: dict[str, Tensor]) -> None:
            states[number] = given[0] if given else named["hidden_states"]

        return note

    handles = [stack[number].register_forward_pre_hook(noting(number), with_kwargs=True) for number in layers]
    try:
        with torch.no_grad(), telling_attention(model), quiet_transformers():
            found = model.base_model(**all_inputs(model, batch, None), output_attentions=True)
    finally:
        for handle in handles:
            handle.remove()
    weights = cast("tuple[Tensor | None, ...]", getattr(found, "attentions", None) or ())  # (rows, heads, from, to)
    told = {number: weights[number] if len(weights) == len(stack) else None for number in layers}
    return {number: LayerView(states[number], None if one is None else one[:, :, 0].mean(dim=1))
            for number, one in told.items()}


@contextmanager
def telling_attention(model: "PreTrainedModel") -> Iterator[None]:
    """Within it attention is computed step by step, where the model has that form."""
    before = model.config._attn_implementation
    try:
        model.set_attn_implementation("eager")
    except ValueError:  # it has but one form
        yield
        return
    try:
        yield
    finally:
        model.set_attn_implementation(before)
