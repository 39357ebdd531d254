# SPDX-License-Identifier: Apache-2.0
"""FreeLB's steps, with bounds on what words tell and on what the stable ones tell about the text."""

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dualmask.cards import Paper, Preset
from dualmask.defences.ascent import Ascent
from dualmask.defences.base import Backward, Family, Objective
from dualmask.errors import OptionError
from dualmask.models.observation import watched
from dualmask.options import check_least, check_shares
from dualmask.text.encoding import Batch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

UNITS = 300  # of the critic's hidden layer


@dataclass(frozen=True, kw_only=True)
class InfoBERTOptions:
    """Of the steps, and of the two terms that come on top in each."""

    steps: int = 3  # K
    step_size: float = 0.04  # of a step, its length
    start: float = 0.08  # a0, of the first random perturbation
    bottleneck: float = 5e-3  # beta, weight of what words tell
    anchors: float = 5e-3  # alpha, weight of what anchored words tell about the text
    lowest: float = 0.5  # c_l, share of a text's words whose gradients are too short to be anchored ...
    highest: float = 0.9  # c_h, ... and where those begin that are too long

    def __post_init__(self) -> None:
        check_least(steps=(self.steps, 1), step_size=(self.step_size, 0), start=(self.start, 0),
                    bottleneck=(self.bottleneck, 0), anchors=(self.anchors, 0))
        check_shares(lowest=self.lowest, highest=self.highest)
        if self.lowest >= self.highest:
            raise OptionError(f"lowest is {self.lowest} and highest {self.highest}, which leaves no anchored words; "
                              "expected lowest below highest.")


class InfoBERT(Ascent):
    """InfoBERT: adversarial training with two bounds on mutual information.

    Paper: Wang, Wang, Cheng, Gan, Jia, Li, Liu, InfoBERT, ICLR 2021.
    Idea: words that tell less in all carry less that an attacker can use, and those that are neither idle nor easily
    disturbed ought to decide what the text means.
    Acts at: learn (K passes a batch, the same dropout in each; with weights of 0.005, half the mean squared distance of
    random pairs of embeddings is added, and InfoNCE between anchored words and the last [CLS] taken off. A gradient on
    the words alone ranks them first: two ways back for each way forth).
    Deviations: the bottleneck is the last form that was released, embeddings as means of unit Gaussians; the general
    one of the paper has a network for mean and variance (CLUB). Embeddings are those that enter the first layer. Pairs
    for InfoNCE are grouped by batch size as released; what doesn't fill the last group is left out, at random. The
    release fits NLI with RoBERTa-large; preset 'release' has its training (three epochs at 2e-5, of which 1000 steps of
    warm-up are more than a small set has), but judges each epoch, not 500 steps from the first third on, decays no bias
    of the critic, and leaves attention dropout on. The critic's layer over both parts is a layer for each, added. Its
    gradients count in the norm that is clipped. All K steps draw the same random pairs, as they draw the same dropout.
    Relations: FreeLB with both weights 0 (and no bound). IB narrows the text's representation instead of the words'.
    """

    name: ClassVar[str] = "infobert"
    family: ClassVar[Family] = "regularisation"
    paper: ClassVar[Paper | None] = Paper(
        "InfoBERT: Improving Robustness of Language Models from An Information Theoretic Perspective",
        "Wang, Wang, Cheng, Gan, Jia, Li, Liu", "ICLR 2021", "arXiv:2010.02329")
    Options = InfoBERTOptions
    presets: ClassVar = {
        "recommended": Preset({}, {}),
        "release": Preset({}, {"learning_rate": 2e-5, "epochs": 3, "warmup": 1000.0, "weight_decay": 1e-5,
                               "patience": 0}),
    }
    options: InfoBERTOptions
    bound = 0.0

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        self.steps, self.step_size, self.start = self.options.steps, self.options.step_size, self.options.start

    def adapt(self, model: "PreTrainedModel") -> None:
        super().adapt(model)
        self.critic = Critic(model.config.hidden_size).to(model.device)

    def teach(
        self, objective: Objective, batch: Batch, delta: Tensor, backward: Backward,
    ) -> tuple[Tensor, Tensor, Tensor]:
        o, real = self.options, batch.attention_mask.bool()
        with watched(self.model) as seen:
            loss, answer = self.at(objective, batch, delta)
        loss = loss + o.bottleneck * spread(seen["words"][real])
        gradient, = torch.autograd.grad(loss, delta, retain_graph=True)
        stable = anchored(gradient.norm(dim=2), real, o.lowest, o.highest)
        loss = loss - o.anchors * self.told(seen["words"], seen["states"][:, 0], stable)
        backward(loss / self.steps)
        return loss, answer, gradient

    def told(self, words: Tensor, texts: Tensor, chosen: Tensor) -> Tensor:
        """InfoNCE of chosen words (rows, length, size) and their texts (rows, size), in groups of a batch's size."""
        places = chosen.nonzero()  # (pairs, 2)
        if not len(places):
            return words.new_zeros(())
        size = min(len(texts), len(places))
        order = torch.randperm(len(places), device=places.device)[:len(places) // size * size]
        row, column = places[order].view(-1, size, 2).unbind(dim=2)  # (groups, size) both
        return info_nce(self.critic(words[row, column], texts[row]))


class Critic(nn.Module):
    """How well a word and a text go together."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.of_word, self.of_text = nn.Linear(size, UNITS), nn.Linear(size, UNITS, bias=False)
        self.score = nn.Linear(UNITS, 1)

    def forward(self, words: Tensor, texts: Tensor) -> Tensor:
        """Each text with each word of its group, (groups, n, size) both -> (groups, n texts, n words)."""
        both = self.of_text(texts)[:, :, None] + self.of_word(words)[:, None]
        return F.softplus(self.score(both.relu())).squeeze(3)


def info_nce(scores: Tensor) -> Tensor:
    """A lower bound of mutual information from (groups, texts, words), those on the diagonal belonging together."""
    return scores.diagonal(dim1=1, dim2=2).mean() - (scores.logsumexp(dim=2).mean() - log(scores.shape[2]))


def spread(words: Tensor) -> Tensor:
    """E |t_i - t_j|^2 / 2 over random pairs, (words, size) -> (); an upper bound of what they tell."""
    others = words[torch.randint(len(words), (len(words),), device=words.device)]
    return (words - others).square().sum(dim=1).mean() / 2


def anchored(norms: Tensor, real: Tensor, lowest: float, highest: float) -> Tensor:
    """Of a row's n words, shortest gradient first, those from ceil(lowest n) up to ceil(highest n), (rows, length)."""
    count = real.sum(dim=1, keepdim=True).double()
    rank = norms.masked_fill(~real, torch.inf).argsort(dim=1).argsort(dim=1)
    return (rank >= (lowest * count).ceil()) & (rank < (highest * count).ceil())
