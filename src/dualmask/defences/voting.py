# SPDX-License-Identifier: Apache-2.0
"""What defences have in common that ask about many random views of a text and count or average the answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from dualmask.defences.random_views import RandomViews
from dualmask.options import check_fields, check_least
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Text

MOST_WORDS = 1 << 21  # of rows that are drawn at once, padding counted: each takes about a hundred bytes


@dataclass(frozen=True, kw_only=True)
class VotingOptions:
    """How many views are asked, what is made of their answers, and where their noise comes from."""

    votes: int = 100
    decision: Literal["vote", "mean"] = "vote"  # the label that most views give, or the mean of their logits
    noise: Literal["text", "fresh"] = "text"  # the same draws each time a text comes, or new ones
    noise_seed: int = 0

    def __post_init__(self) -> None:
        check_least(votes=(self.votes, 1))
        check_fields(self)  # of defences that add some


class Voting(RandomViews):
    """Random views and a vote."""

    passes: ClassVar[str] = "100"
    explainable: ClassVar[bool] = False
    Options = VotingOptions
    options: VotingOptions

    @property
    def views(self) -> int:
        return self.options.votes

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


class RandomTexts(Voting):
    """A vote over texts that chance has written anew, in training as at inference."""

    reads_words: ClassVar[bool] = True

    def rewritten(self, texts: Sequence[Text], seeds: Tensor, encode: Encode) -> Batch:
        """Row i is texts[i] as seeds[i] has it."""
        raise NotImplementedError

    def training_view(
        self, texts: Sequence[Text], labels: Sequence[int], encode: Encode, generator: torch.Generator,
    ) -> Batch:
        seeds = torch.randint(2**63 - 1, (len(texts),), generator=generator)
        return self.rewritten(texts, seeds, encode).with_labels(labels)

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        return self.rewritten(texts, self.seeds(texts, numbers), encode).to(device)


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


def in_slices(view: Callable[[slice], Batch], rows: int, longest: int, *, pad_id: int) -> Batch:
    """Rows of up to `longest` words as one batch, made some at a time: however long texts are, few tokens are seen."""
    step = max(1, MOST_WORDS // max(1, longest))
    parts = [view(slice(start, start + step)) for start in range(0, max(1, rows), step)]
    return parts[0] if len(parts) == 1 else joined(parts, pad_id=pad_id)


def joined(parts: Sequence[Batch], *, pad_id: int) -> Batch:
    """Batches one below the other, padded to the widest."""
    width = max(part.input_ids.shape[1] for part in parts)
    padding = {"input_ids": pad_id, "words": -1}
    return parts[0].with_tensors({**{
        name: torch.cat([F.pad(part.per_token()[name], (0, width - part.input_ids.shape[1]), value=padding.get(name, 0))
                         for part in parts]) for name in parts[0].per_token()
    }, "positions": torch.arange(width).expand(sum(map(len, parts)), width), "cut": cut_of(parts)})


def cut_of(parts: Sequence[Batch]) -> Tensor:
    """Which rows of all of them were cut; those of which it is not known were not."""
    return torch.cat([torch.zeros(len(part), dtype=torch.bool) if part.cut is None else part.cut for part in parts])
