# SPDX-License-Identifier: Apache-2.0
"""One step against the loss, begun where the same example's step led an epoch before."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dualmask.cards import Paper, Preset
from dualmask.defences.ascent import Ascent, DropoutMasks
from dualmask.defences.base import Backward, Family, Objective
from dualmask.options import came_later, check_least
from dualmask.text.encoding import Batch

Bits = NDArray[np.uint8]  # (tokens, size / 8): one sign a bit
COPY = 1 << 40  # more than there are examples: between the numbers of an example's first and second row


@dataclass(frozen=True, kw_only=True)
class FATOptions:
    """Of the step."""

    step_size: float = 0.2  # alpha, its length
    start: float = 0.05  # a0, of the perturbation that it begins with
    # of the passes over a batch: one set, as FreeLB's paper has it, or fresh
    dropout_masks: DropoutMasks = came_later("shared", before="shared")

    def __post_init__(self) -> None:
        check_least(step_size=(self.step_size, 0), start=(self.start, 0))


class FAT(Ascent):
    """Fast adversarial training: one step on the word embeddings, from the signs of the example's last one.

    Paper: Yang, Liu, He, Fast Adversarial Training against Textual Adversarial Attacks, Findings of NAACL 2025.
    Idea: a perturbation of the last epoch points much the same way, so that one step from there does what many do.
    Acts at: learn (a pass for the direction, a pass for the parameters).
    Deviations: of an example's last perturbation the signs are kept, which is all that the paper uses of it, a bit each
    (on AG News 1.5 GB where numbers would take 47). What a stopped run had kept is lost: each example begins at random
    when it comes next; so it does where several processes train and another one had it. Signs belong to places in a
    text, so that they are other words' where a defence changes, deletes or adds texts each epoch (safer, certed, a2t).
    Both passes have the same dropout, as FreeLB's. Preset 'paper' has the released 30 epochs, of which the last is
    kept, and dropout drawn anew; texts are cut at 256 tokens as there, on IMDB 512.
    Relations: FreeLB and FreeLB++ take several steps a batch. Combines with what acts on texts, e.g. ranmask+fat. With
    mvp each template's row keeps signs of its own.
    """

    name: ClassVar[str] = "fat"
    family: ClassVar[Family] = "adversarial training"
    paper: ClassVar[Paper | None] = Paper(
        "Fast Adversarial Training against Textual Adversarial Attacks", "Yang, Liu, He", "Findings of NAACL 2025",
        "arXiv:2401.12461")
    Options = FATOptions
    presets: ClassVar = {
        "recommended": Preset({}, {}),
        "paper": Preset({"dropout_masks": "fresh"}, {
            "learning_rate": 2e-5, "epochs": 30, "patience": 0, "keep": "last", "batch_size": 16, "max_length": 256,
            "warmup": 500.0, "weight_decay": 1e-6}),
    }
    options: FATOptions
    steps, bound = 1, 0.0

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        self.step_size, self.start = self.options.step_size, self.options.start
        self.dropout_masks = self.options.dropout_masks
        self._signs: dict[int, Bits] = {}

    def learn(self, objective: Objective, batch: Batch, backward: Backward) -> tuple[Tensor, Tensor]:
        first = self.begin(batch).requires_grad_()
        loss, _ = self.at(objective, batch, first)
        gradient, = torch.autograd.grad(loss, first)  # of the words alone: the parameters learn from what follows
        delta = self.moved(first.detach(), gradient)
        self.keep(batch, delta - first.detach())
        loss, answer = self.at(objective, batch, delta)
        backward(loss)
        return loss, answer

    def first(self, batch: Batch) -> Tensor:
        """U(-1, 1), or U(0, 1) with the signs of the last step, a0 / sqrt(n d) in size."""
        drawn = super().first(batch)
        signs = torch.from_numpy(self.kept(batch, drawn.shape)).to(drawn.device)
        return torch.where(signs == 0, drawn, drawn.abs() * signs)

    def kept(self, batch: Batch, shape: torch.Size) -> NDArray[np.int8]:
        """-1 and 1, and 0 where nothing is known: all rows in one array, so that one copy goes to the device."""
        signs = np.zeros(shape, dtype=np.int8)
        for row, number in enumerate(numbers(batch)):
            if (known := self._signs.get(number)) is not None:
                part = known[:shape[1]]
                signs[row, :len(part)] = 2 * np.unpackbits(part, axis=1, count=shape[2]).astype(np.int8) - 1
        return signs

    def keep(self, batch: Batch, step: Tensor) -> None:
        bits = np.packbits((step > 0).cpu().numpy(), axis=2)
        lengths = batch.attention_mask.sum(dim=1).tolist()
        for row, number in enumerate(numbers(batch)):
            self._signs[number] = bits[row, :lengths[row]].copy()  # a view would keep the whole batch


def numbers(batch: Batch) -> list[int]:
    """Which examples the rows are, none where nobody says; of one shown several times each row has its own number."""
    examples = [] if batch.examples is None else batch.examples.tolist()
    return [examples[row % len(examples)] + row // len(examples) * COPY for row in range(len(batch) if examples else 0)]
