# SPDX-License-Identifier: Apache-2.0
"""Gradients through the masked input, and only words that stay in sight."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dualmask.attacks.base import Attack, AttackOptions, Family
from dualmask.attacks.constraints import NearWords, SamePart
from dualmask.attacks.engine import Oracle
from dualmask.attacks.gradients import EmbeddingOracle, GradientOracle, HarmfulSynonyms, white_box
from dualmask.attacks.hidden import Shown
from dualmask.attacks.moves import Constraint, Transformation
from dualmask.attacks.problem import Answer, Problem, Steps
from dualmask.attacks.searches import beam
from dualmask.cards import Source
from dualmask.models.victim import Victim
from dualmask.options import least
from dualmask.threats import GRADIENTS, Threat


@dataclass(frozen=True, kw_only=True)
class SeeThroughOptions(AttackOptions):
    flips: int = least(1, 10)  # most promising exchanges tried for each text of the beam
    beam: int = least(1, 4)
    cosine: float = 0.5  # least cosine of word and synonym
    synonyms: str = "shipped"
    tagger: str = "shipped"
    max_share: float | None = 0.25
    any_success: bool = True


class SeeThrough(Attack):
    """Exchanges whose effect the gradient foretells behind the masks, by words that are not masked.

    Paper: none; the idea is this library's, against DDM (Yang, Yang, Guo, Barthelemy 2026).
    Idea: one backward pass through the input as the defence leaves it, masks and all, estimates every exchange of a
    word for a synonym. Which tokens are masked is held for the step and worked out anew after each edit; synonyms that
    would be masked are passed over, so that the estimate is about what the network will see.
    Acts at: words but stop words, at most a quarter of them; cosine of at least 0.5 and the same part of speech.
    Deviations: what the defence hides is no query, gradients are counted apart. Words that are masked have no gradient:
    they are exchanged when nothing in sight helps.
    Relations: HotFlip's estimate and beam with FGPM's share of words; both ask the same gradients but also write words
    that the defence masks.
    """

    name: ClassVar[str] = "seethrough"
    family: ClassVar[Family] = "gradients"
    threat: ClassVar[Threat | None] = GRADIENTS
    against: ClassVar[tuple[str, ...]] = ("ddm",)
    synonym_tables: ClassVar[tuple[Source, ...]] = (Source("{synonyms}"),)
    Options = SeeThroughOptions
    options: SeeThroughOptions

    def oracles(self, victim: Victim, device: str) -> dict[str, Oracle]:
        found = super().oracles(victim, device)
        classifier = white_box(victim, self.name)
        return {**found, "gradients": GradientOracle(classifier), "embeddings": EmbeddingOracle(classifier)}

    def transformations(self) -> Sequence[Transformation]:
        table = self.synonyms(self.options.synonyms)
        rules: list[Constraint] = [
            NearWords(table, self.options.cosine), SamePart(self.tagger(self.options.tagger)), Shown()]
        return [HarmfulSynonyms(table, rules, most=self.options.flips)]

    def search(self, problem: Problem) -> Steps[Answer]:
        return beam(problem, self.moves, width=self.options.beam)
