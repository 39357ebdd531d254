# SPDX-License-Identifier: Apache-2.0
"""What goes into an encoder's first layer and what comes out of its last, while a block of code runs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING

from torch import Tensor, nn

from dualmask.models.layer_noise import encoder_layers

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.modeling_outputs import BaseModelOutput


@contextmanager
def watched(model: "PreTrainedModel") -> Iterator[Mapping[str, Tensor]]:
    """Within it the first pass leaves 'words', which the first layer was given, and 'states', which the encoder gave.

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

    handles = [encoder_layers(model)[0].register_forward_pre_hook(note, with_kwargs=True),
               model.base_model.register_forward_hook(keep)]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
