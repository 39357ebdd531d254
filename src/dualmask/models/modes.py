# SPDX-License-Identifier: Apache-2.0
"""A network in evaluation mode while a block of code runs."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Without dropout; every part is left in the mode that it was found in, also where the block ends in an error."""
    training: list[nn.Module] = []
    if network.training:  # walking through all modules takes longer than a small batch
        training = [part for part in network.modules() if part.training]
        network.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True
