# SPDX-License-Identifier: Apache-2.0
"""What defences have in common that train on word embeddings moved to where the loss is higher."""

from typing import Literal

import torch
from torch import Tensor

from dualmask.defences.base import Backward, Defence, Objective
from dualmask.text.encoding import Batch

TINY = 1e-8  # a gradient shorter than this has no direction
DropoutMasks = Literal["shared", "fresh"]  # over the passes that a batch takes: the same in all, or new in each


class Ascent(Defence):
    """Adversarial training in embedding space: K steps up, a gradient for the parameters from each of them."""

    steps: int  # K
    step_size: float  # alpha
    start: float  # a0
    bound: float  # epsilon; 0: none
    dropout_masks: DropoutMasks = "shared"

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        self._layers = 0  # seed of dropout

    def learn(self, objective: Objective, batch: Batch, backward: Backward) -> tuple[Tensor, Tensor]:
        """The mean over the steps: each backward pass serves the parameters and the next step alike. 0: none."""
        if not self.steps:
            return super().learn(objective, batch, backward)
        delta = self.begin(batch)
        total: Tensor | float = 0.0
        for step in range(self.steps):
            loss, answer, gradient = self.teach(objective, batch, delta.requires_grad_(), backward)
            total = total + loss.detach() / self.steps
            if step < self.steps - 1:
                delta = self.moved(delta.detach(), gradient)
        return torch.as_tensor(total), answer

    def teach(
        self, objective: Objective, batch: Batch, delta: Tensor, backward: Backward,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One step, the place for further terms: loss, logits, and the gradient along which delta goes on."""
        loss, answer = self.at(objective, batch, delta)
        backward(loss / self.steps)
        assert delta.grad is not None
        return loss, answer, delta.grad

    def at(self, objective: Objective, batch: Batch, delta: Tensor) -> tuple[Tensor, Tensor]:
        """The loss with the words moved; layers that draw by themselves draw the same at every step, or go on."""
        if self.dropout_masks == "shared":
            torch.manual_seed(self._layers)
        words: Tensor = self.table(batch.input_ids)
        return objective(batch, words + delta)

    def begin(self, batch: Batch) -> Tensor:
        """The first perturbation of a batch; dropout gets a seed that all its steps can share, not this one itself."""
        self._layers = torch.initial_seed() + 1
        return self.first(batch)

    def first(self, batch: Batch) -> Tensor:
        """delta_0 = U(-1, 1) a0 / sqrt(n d) at the n real tokens of a row, (rows, length, size)."""
        size = self.table.embedding_dim
        drawn = torch.rand(*batch.input_ids.shape, size, device=batch.device) * 2 - 1
        return self.scaled(drawn, batch.attention_mask.float())

    def scaled(self, drawn: Tensor, real: Tensor) -> Tensor:
        """Numbers between -1 and 1 as a first step: none at padding, and the shorter the longer a row is."""
        lengths = real.sum(dim=1).clamp(min=1) * drawn.shape[2]
        return drawn * real[..., None] * (self.start / lengths.sqrt())[:, None, None]

    def moved(self, delta: Tensor, gradient: Tensor) -> Tensor:
        """delta + alpha g / |g|, each row's norm by itself; back to |delta| <= epsilon where there is a bound."""
        delta = delta + self.step_size * gradient / norms(gradient)
        return delta * (self.bound / norms(delta)).clamp(max=1.0) if self.bound else delta


def norms(tensor: Tensor) -> Tensor:
    """Of each row's matrix, (rows, 1, 1)."""
    return tensor.square().sum(dim=(1, 2), keepdim=True).sqrt().clamp(min=TINY)
