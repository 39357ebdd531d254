# SPDX-License-Identifier: Apache-2.0
"""Several heads on one encoder, each of a depth that is searched for, and a switch that weighs them."""

from itertools import combinations
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dualmask.seeds import uniform

HIDDEN = (0, 1, 2)  # layers of the MLPs that a head is a mixture of
TINY = 1e-12


class Experts(nn.Module):
    """N heads, each beta_0 f_0 + beta_1 f_1 + beta_2 f_2 over MLPs of growing depth (DARTS: Liu et al., ICLR 2019).

    rate: how many times as fast as other weights the depths learn. temperature: in training. scaled: see `weights`.
    averaged: means over the heads and over mixed depths, as published, and not sums.
    """

    def __init__(
        self, count: int, size: int, classes: int, *, rate: float = 1.0, dropout: float = 0.0, temperature: float = 1.0,
        scaled: bool = False, averaged: bool = True,
    ) -> None:
        super().__init__()
        self.heads = nn.ModuleList(nn.ModuleList(perceptron(size, classes, hidden) for hidden in HIDDEN)
                                   for _ in range(count))
        self.switch = nn.Linear(size + count * classes, count)
        self.dropout = nn.Dropout(dropout)
        self.rate, self.temperature, self.scaled, self.averaged = rate, temperature, scaled, averaged
        self.depths = nn.Parameter(torch.randn(count, len(HIDDEN)) / rate)

    def mixture(self) -> Tensor:
        """beta, (heads, depths). A step on the parameter counts `rate` times, whatever its gradient's size."""
        shares = F.softmax(self.depths + ((self.rate - 1) * self.depths).detach(), dim=1)
        return shares / len(HIDDEN) if self.averaged else shares

    def chosen(self) -> Tensor:
        """Each head's likeliest depth alone and whole, (heads, depths)."""
        return F.one_hot(self.depths.argmax(dim=1), len(HIDDEN)).to(self.depths.dtype)

    def answers(self, states: Tensor, mixture: Tensor) -> Tensor:
        """Logits of each head, (rows, size) -> (rows, heads, classes)."""
        every = [torch.stack([mlp(states) for mlp in cast(nn.ModuleList, head)], dim=1) for head in self.heads]
        return (torch.stack(every, dim=1) * mixture[:, :, None]).sum(dim=2)

    def decided(self, states: Tensor, answers: Tensor, lot: Tensor, temperature: float) -> Tensor:
        """The mean of w_i times the i-th head's logits, (rows, classes); the switch sees the text and all answers."""
        liked = self.switch(torch.cat([states, answers.flatten(1)], dim=1))
        weighed = weights(liked, lot, temperature, scaled=self.scaled)[:, :, None] * answers
        return weighed.mean(dim=1) if self.averaged else weighed.sum(dim=1)

    def forward(self, states: Tensor, mixture: Tensor) -> tuple[Tensor, Tensor]:
        """In training, with a lot from PyTorch's own generator: the decision and the answers that it came from."""
        states = self.dropout(states)
        answers = self.answers(states, mixture)
        lot = gumbel(torch.rand(answers.shape[:2], device=states.device))
        return self.decided(states, answers, lot, self.temperature), answers

    def search(self, cost: Tensor) -> Tensor:
        """Zero, whose gradient is that of a cost with regard to the depths, and to nothing else."""
        pull, = torch.autograd.grad(cost, self.depths)
        return (pull * (self.depths - self.depths.detach())).sum()


def weights(liked: Tensor, lot: Tensor, temperature: float, *, scaled: bool = False) -> Tensor:
    """w = softmax((a + g) / tau), (rows, heads); scaled, as in SHIELD's released code: a softmax((a + g) tau)."""
    if scaled:
        return liked * F.softmax((liked + lot) * temperature, dim=1)
    return F.softmax((liked + lot) / temperature, dim=1)


def perceptron(size: int, classes: int, hidden: int) -> nn.Sequential:
    layers = [part for _ in range(hidden) for part in (nn.Linear(size, size), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(size, classes))


def gumbel(drawn: Tensor) -> Tensor:
    """Standard Gumbel numbers from uniform ones: the greatest of a + g falls on i with probability softmax(a)_i."""
    return -(-drawn.clamp(min=TINY).log()).clamp(min=TINY).log()


def seeded_gumbel(seeds: Tensor, count: int) -> Tensor:
    """So many for each seed, (rows, count)."""
    return gumbel(uniform(seeds, count)).float()


def kept_back(examples: Tensor, share: float) -> Tensor:
    """Bool: which examples, by number, belong to a share of all; the same ones each time."""
    return uniform(examples, 1)[:, 0] < share


def likeness(answers: Tensor, labels: Tensor, words: Tensor) -> Tensor:
    """How alike the heads' gradients at the words are: their mean cosine less their mean distance.

    answers: (rows, heads, classes), from words (rows, length, size) that need gradients; it can be differentiated.
    """
    gradients = [torch.autograd.grad(F.cross_entropy(one, labels), words, create_graph=True)[0]
                 for one in answers.unbind(dim=1)]
    cosine, distance = cosine_and_distance(torch.stack(gradients).flatten(1))
    return cosine - distance


def cosine_and_distance(gradients: Tensor) -> tuple[Tensor, Tensor]:
    """The mean cosine and the mean l2 distance over all pairs of (heads, cells)."""
    one, other = (gradients[list(places)] for places in zip(*combinations(range(len(gradients)), 2), strict=True))
    return F.cosine_similarity(one, other, dim=1).mean(), (one - other).norm(dim=1).mean()
