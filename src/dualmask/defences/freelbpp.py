# SPDX-License-Identifier: Apache-2.0
"""FreeLB without its bound and with more steps."""

from dataclasses import dataclass
from typing import ClassVar

from dualmask.cards import Paper, Preset
from dualmask.defences.ascent import Ascent, DropoutMasks
from dualmask.options import came_later, check_least


@dataclass(frozen=True, kw_only=True)
class FreeLBppOptions:
    """Of the steps."""

    steps: int = 10  # K
    step_size: float = 0.03  # alpha, the length of a step
    start: float = 0.05  # a0, of the first random perturbation
    # of the passes over a batch: one set, as FreeLB's paper has it, or fresh
    dropout_masks: DropoutMasks = came_later("shared", before="shared")

    def __post_init__(self) -> None:
        check_least(steps=(self.steps, 1), step_size=(self.step_size, 0), start=(self.start, 0))


# Of the authors' benchmark, TextDefender
RELEASED = {"learning_rate": 2e-5, "epochs": 10, "weight_decay": 1e-6, "schedule": "cosine", "warmup": 0.0,
            "patience": 0}


class FreeLBpp(Ascent):
    """FreeLB++: many steps against the loss on the word embeddings, as far as they lead.

    Paper: Li, Xu, Zeng, Li, Zheng, Zhang, Chang, Hsieh, Searching for an Effective Defender, EMNLP 2021.
    Idea: substitutes of a word lie farther away than FreeLB's ball reaches, so that the bound must go.
    Acts at: learn (K passes a batch, with the same dropout in each).
    Deviations: 10 steps, the lowest of those published (10 to 30; 'thirty' has the most), the same dropout in each as
    FreeLB's paper asks, and training as long as that of the others here. 'paper' and 'thirty' train as the authors'
    benchmark does: ten epochs at 2e-5, falling by a cosine without warm-up, dropout drawn anew in each step. What it
    skips, batches that its memory can't hold, is learned from here.
    Relations: FreeLB with a bound; FAT takes one step instead. Combines with what acts on texts, e.g. ddm+freelb++.
    """

    name: ClassVar[str] = "freelb++"
    family = "adversarial training"
    paper: ClassVar[Paper | None] = Paper(
        "Searching for an Effective Defender: Benchmarking Defense against Adversarial Word Substitution",
        "Li, Xu, Zeng, Li, Zheng, Zhang, Chang, Hsieh", "EMNLP 2021", "arXiv:2108.12777")
    Options = FreeLBppOptions
    presets: ClassVar = {
        "recommended": Preset({}, {}),
        "paper": Preset({"dropout_masks": "fresh"}, RELEASED),
        "thirty": Preset({"steps": 30, "dropout_masks": "fresh"}, RELEASED),
    }
    options: FreeLBppOptions
    bound = 0.0

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        self.steps, self.step_size, self.start = self.options.steps, self.options.step_size, self.options.start
        self.dropout_masks = self.options.dropout_masks
