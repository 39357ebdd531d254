# SPDX-License-Identifier: Apache-2.0
"""What defences have in common that ask about many random views of a text and count or average the answers."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from dualmask.defences.base import Defence, Noise
from dualmask.options import check_least
from dualmask.seeds import derived_seed, scrambled
from dualmask.text.examples import Text


@dataclass(frozen=True, kw_only=True)
class VotingOptions:
    """How many views are asked, what is made of their answers, and where their noise comes from."""

    votes: int = 100
    decision: Literal["vote", "mean"] = "vote"  # the label that most views give, or the mean of their logits
    noise: Literal["text", "fresh"] = "text"  # the same draws each time a text comes, or new ones
    noise_seed: int = 0

    def __post_init__(self) -> None:
        check_least(votes=(self.votes, 1))


class Voting(Defence):
    """Random views and a vote; each view's noise comes from a seed of its own."""

    passes: ClassVar[str] = "100"
    explainable: ClassVar[bool] = False
    Options = VotingOptions
    options: VotingOptions

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        self._redraw = 0

    @property
    def noise(self) -> Noise:
        return self.options.noise

    @property
    def views(self) -> int:
        return self.options.votes

    def redraw(self, number: int) -> None:
        self._redraw = number

    def seeds(self, texts: Sequence[Text], numbers: Sequence[int]) -> Tensor:
        """A seed for each view, (rows,): from the text and the view's number or, for fresh noise, from nowhere."""
        if self.options.noise == "fresh":  # the system's own chance: an attacker who knows every seed can't tell it
            return torch.frombuffer(bytearray(os.urandom(8 * len(texts))), dtype=torch.long)
        known = {text: derived_seed(self.options.noise_seed, "noise", repr(text)) for text in set(texts)}
        views = scrambled(torch.tensor(numbers, dtype=torch.long) + (self._redraw << 32))
        return scrambled(torch.tensor([known[text] for text in texts], dtype=torch.long) ^ views)

    def wanted(self, logits: Tensor, seen: Tensor, *, early: bool) -> Tensor:
        """All that are left; early: only as many as could decide the vote if all of them agreed, none if it is."""
        left = self.views - seen
        if not early or self.options.decision != "vote":
            return left
        if not len(logits):
            return (left + 1) // 2
        return least_to_decide(counted(logits).cpu(), left)

    def combine(self, logits: Tensor) -> Tensor:
        """The logarithm of each class's share of the votes, or the mean of the logits."""
        if self.options.decision == "mean":
            return logits.nanmean(dim=0)
        counts = counted(logits).float()
        return (counts / counts.sum(dim=1, keepdim=True)).log()


def counted(logits: Tensor) -> Tensor:
    """Votes for each class, (views, texts, classes) -> (texts, classes)."""
    asked = ~logits[..., :1].isnan()
    return (F.one_hot(logits.argmax(dim=2), logits.shape[2]) * asked).sum(dim=0)


def least_to_decide(counts: Tensor, left: Tensor) -> Tensor:
    """Votes without which no majority can be certain, (texts,); equal counts go to the class that comes first.

    The leader t is safe from class c if t still leads when c gets all votes that are left; with m more votes, all for
    t, that is counts_t + m >= counts_c + left - m, by one more where c comes first.
    """
    leader = counts.argmax(dim=1, keepdim=True)
    ahead = torch.arange(counts.shape[1]) < leader  # (texts, classes): wins a tie against the leader
    lacking = counts + left[:, None] + ahead.long() - counts.gather(1, leader)
    lacking = lacking.scatter(1, leader, 0).amax(dim=1)
    return ((lacking + 1) // 2).clamp(min=0).minimum(left)
