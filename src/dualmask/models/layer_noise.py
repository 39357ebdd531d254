# SPDX-License-Identifier: Apache-2.0
"""Gaussian noise on what chosen layers give, while a block of code runs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from dualmask.seeds import gaussian, scrambled

if TYPE_CHECKING:
    from transformers import PreTrainedModel


Output = Tensor | tuple[Tensor, ...]  # what a layer gives, by family: the hidden states alone or with more behind them


def encoder_layers(model: "PreTrainedModel") -> tuple[nn.Module, ...]:
    """The layers of an encoder, the first to work first; families differ in what their list is called."""
    count = model.config.num_hidden_layers
    return next(tuple(part) for part in model.base_model.modules()
                if isinstance(part, nn.ModuleList) and len(part) == count)


@contextmanager
def noisy(layers: Sequence[nn.Module], deviation: float, seeds: Tensor | None) -> Iterator[None]:
    """Within it N(0, deviation^2) comes on top of these layers' outputs; nothing stays on the model afterwards.

    seeds: (rows,), the noise of each row, which padding doesn't change; without them PyTorch's own generator draws.
    """
    thread = get_ident()  # another one may ask the same network for a plain answer meanwhile

    def hook(stream: int) -> Callable[[nn.Module, object, Output], Output]:
        def disturb(layer: nn.Module, inputs: object, output: Output) -> Output:
            if get_ident() != thread:
                return output
            hidden = output if isinstance(output, Tensor) else output[0]  # (rows, length, size)
            if seeds is None:
                noise = torch.randn_like(hidden)
            else:  # its first token's numbers are the same where a layer gives that token alone
                noise = gaussian(scrambled(seeds + stream), *hidden.shape[1:]).to(hidden.dtype)
            disturbed = hidden + deviation * noise
            return disturbed if isinstance(output, Tensor) else (disturbed, *output[1:])

        return disturb

    handles = [layer.register_forward_hook(hook(number + 1)) for number, layer in enumerate(layers)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
