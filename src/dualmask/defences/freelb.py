# SPDX-License-Identifier: Apache-2.0
"""Adversarial training in embedding space, its steps used for the parameters as well."""

from dataclasses import dataclass
from typing import ClassVar

from dualmask.cards import Paper, Preset
from dualmask.defences.ascent import Ascent, DropoutMasks
from dualmask.defences.base import Family
from dualmask.options import came_later, check_least


@dataclass(frozen=True, kw_only=True)
class FreeLBOptions:
    """Of the steps."""

    steps: int = 3  # K
    step_size: float = 0.1  # alpha, the length of a step
    start: float = 0.05  # a0, of the first random perturbation
    bound: float = 0.15  # epsilon, the greatest length of a perturbation; 0: none
    # of the passes over a batch: one set, as FreeLB's paper has it, or fresh
    dropout_masks: DropoutMasks = came_later("shared", before="shared")

    def __post_init__(self) -> None:
        check_least(steps=(self.steps, 1), step_size=(self.step_size, 0), start=(self.start, 0), bound=(self.bound, 0))


class FreeLB(Ascent):
    """FreeLB: several small steps against the loss on the word embeddings, and the mean gradient over all of them.

    Paper: Zhu, Cheng, Gan, Sun, Goldstein, Liu, FreeLB, ICLR 2020.
    Idea: a classifier that is trained where its inputs are worst, within a small ball, is smooth around them.
    Acts at: learn (K passes a batch, with the same dropout in each).
    Deviations: the paper tunes steps, their size and the bound for each task; 3 steps of 0.1 within 0.15 are ours, and
    the third is taken where the bound holds it back. A bound above start + (steps - 1) step_size is never reached.
    Preset 'sst-2' has the released settings for that task (ALBERT, 20,935 steps: ten epochs; there without attention
    dropout and judged every 100 steps, here each epoch), 'textdefender' those of the later benchmark, which draws
    dropout anew in each pass.
    Relations: FreeLB++ takes the bound away and more steps; FAT takes one step, along last epoch's signs.
    """

    name: ClassVar[str] = "freelb"
    family: ClassVar[Family] = "adversarial training"
    paper: ClassVar[Paper | None] = Paper(
        "FreeLB: Enhanced Adversarial Training for Natural Language Understanding",
        "Zhu, Cheng, Gan, Sun, Goldstein, Liu", "ICLR 2020", "arXiv:1909.11764")
    Options = FreeLBOptions
    presets: ClassVar = {
        "recommended": Preset({}, {}),
        "sst-2": Preset({"steps": 2, "step_size": 0.1, "start": 0.6, "bound": 0.0}, {
            "learning_rate": 1e-5, "epochs": 10, "warmup": 1256.0, "max_length": 512, "patience": 0}),
        "textdefender": Preset(
            {"steps": 5, "step_size": 0.03, "start": 0.05, "bound": 0.0, "dropout_masks": "fresh"},
            {"learning_rate": 2e-5, "epochs": 10, "weight_decay": 1e-6, "schedule": "cosine", "warmup": 0.0,
             "patience": 0}),
    }
    options: FreeLBOptions

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        o = self.options
        self.steps, self.step_size, self.start, self.bound = o.steps, o.step_size, o.start, o.bound
        self.dropout_masks = o.dropout_masks
