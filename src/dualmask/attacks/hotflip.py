# SPDX-License-Identifier: Apache-2.0
"""HotFlip for sub-word models: the gradient says which words to exchange."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from dualmask.attacks.base import Attack, AttackOptions, Family
from dualmask.attacks.constraints import NearWords, SamePart
from dualmask.attacks.engine import Oracle
from dualmask.attacks.gradients import (
    EmbeddingOracle,
    FlipOracle,
    Flips,
    GradientOracle,
    HarmfulSynonyms,
    white_box,
)
from dualmask.attacks.moves import Constraint, Proposals, Transformation
from dualmask.attacks.pieces import tokens_of
from dualmask.attacks.problem import Answer, Problem, Steps
from dualmask.attacks.searches import beam
from dualmask.cards import Paper, Preset, Source
from dualmask.models.victim import Victim
from dualmask.options import least
from dualmask.text.words import Words
from dualmask.threats import GRADIENTS, Threat


@dataclass(frozen=True, kw_only=True)
class HotFlipOptions(AttackOptions):
    pool: Literal["neighbours", "vocabulary"] = "neighbours"  # where new words come from
    flips: int = least(1, 10)  # most promising exchanges tried for each text of the beam
    beam: int = least(1, 10)
    cosine: float = 0.8
    synonyms: str = "shipped"
    tagger: str = "shipped"
    max_words: int | None = 2


class HotFlip(Attack):
    """Exchanges of words whose first-order effect on the loss is largest.

    Paper: Ebrahimi, Rao, Lowd, Dou, HotFlip: White-Box Adversarial Examples for Text Classification, ACL 2018.
    Idea: one backward pass estimates for every word and replacement how much the loss would rise:
    (new embedding - old embedding) times the gradient. A beam search makes the best of these exchanges.
    Acts at: words but stop words, at most two; cosine of at least 0.8 and the same part of speech.
    Deviations: the paper flips characters of a character model; a flipped character changes a sub-word model's tokens,
    so only its word form exists here, on token embeddings, and a word's embedding is the mean of its pieces. 'paper'
    estimates all neighbours with a cosine of 0.8 and asks about the 10 best; 'textattack-0.3.11' takes the one best
    word of the whole vocabulary and mostly finds it forbidden, as TextAttack's recipe does (which does not run on
    Hugging Face models); 'free', which is ours, exchanges as many words as it takes, for words as far as TextFooler's.
    The gradient, of the log-odds (it points where the cross-entropy's does), goes through the defended input; which
    tokens are masked is held for a step.
    Relations: FGPM projects onto synonyms too, one greedy step at a time.
    """

    name: ClassVar[str] = "hotflip"
    family: ClassVar[Family] = "gradients"
    threat: ClassVar[Threat | None] = GRADIENTS
    paper: ClassVar[Paper | None] = Paper(
        "HotFlip: White-Box Adversarial Examples for Text Classification", "Ebrahimi, Rao, Lowd, Dou", "ACL 2018",
        "arXiv:1712.06751")
    synonym_tables: ClassVar[tuple[Source, ...]] = (Source("{synonyms}", when={"pool": ("neighbours",)}),)
    Options = HotFlipOptions
    presets: ClassVar = {
        "paper": Preset({"any_success": True}),
        "textattack-0.3.11": Preset({"pool": "vocabulary", "flips": 1}),
        "free": Preset({"any_success": True, "cosine": 0.5, "max_words": None, "stop_words": "textfooler"}),
    }
    options: HotFlipOptions

    def oracles(self, victim: Victim, device: str) -> dict[str, Oracle]:
        classifier = white_box(victim, self.name)
        return {**super().oracles(victim, device), "gradients": GradientOracle(classifier),
                "embeddings": EmbeddingOracle(classifier), "flips": FlipOracle(classifier, most=self.options.flips)}

    def transformations(self) -> Sequence[Transformation]:
        if self.options.pool == "vocabulary":
            return [VocabularyFlips(self.options.flips)]
        return [HarmfulSynonyms(self.synonyms(self.options.synonyms), self._rules(), most=self.options.flips)]

    def constraints(self) -> Sequence[Constraint]:
        return self._rules() if self.options.pool == "vocabulary" else ()  # synonyms were chosen by them

    def _rules(self) -> Sequence[Constraint]:
        table = self.synonyms(self.options.synonyms)
        return [NearWords(table, self.options.cosine), SamePart(self.tagger(self.options.tagger))]

    def search(self, problem: Problem) -> Steps[Answer]:
        return beam(problem, self.moves, width=self.options.beam)


class VocabularyFlips:
    """The most harmful exchanges of a one-token word for any word of the vocabulary."""

    def __init__(self, most: int) -> None:
        self.most = most

    def __call__(self, problem: Problem, current: Words, places: Sequence[int]) -> Steps[Proposals]:
        flips: Flips = yield from problem.slope("flips", current)
        found = []
        for place in places:
            rows = tokens_of(flips.gradient.starts, flips.gradient.ends, *current.spans[place])
            if len(rows) == 1:
                pairs = zip(flips.gains[rows[0]], flips.words[rows[0]], strict=True)
                found += [(gain, place, word) for gain, word in pairs]
        found.sort(key=lambda flip: (-flip[0], *flip[1:]))
        return [(place, word) for _, place, word in found[:self.most]]
