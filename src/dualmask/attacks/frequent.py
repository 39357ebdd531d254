# SPDX-License-Identifier: Apache-2.0
"""Synonyms that a defence by frequency does not find rare enough to mask."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from dualmask.attacks.base import Attack, Family, TextFoolerChecks
from dualmask.attacks.constraints import NearWords, SamePart, unchanged
from dualmask.attacks.hidden import Shown, by_swapping, in_rounds
from dualmask.attacks.moves import Constraint, Editable, Transformation
from dualmask.attacks.problem import Answer, Problem, Steps
from dualmask.attacks.rankings import Ranking, by_chance, by_deletion
from dualmask.attacks.transformations import Neighbours
from dualmask.cards import Source
from dualmask.options import least
from dualmask.threats import SYNONYMS, Threat

RANKINGS: dict[str, Ranking] = {"swap": by_swapping, "deletion": by_deletion, "random": by_chance}


@dataclass(frozen=True, kw_only=True)
class FrequentOptions(TextFoolerChecks):
    neighbours: int = least(1, 50)  # synonyms looked at for each word
    cosine: float = 0.5  # least cosine of word and synonym
    synonyms: str = "shipped"  # or a file of word vectors
    tagger: str = "shipped"  # or nltk, spacy:MODEL
    ranking: Literal["swap", "deletion", "random"] = "swap"  # words by their best synonym, by deletion, by chance
    any_success: bool = True


class Frequent(Attack):
    """Synonyms that are too frequent for the defence to mask.

    Paper: none; the idea is this library's, against DDM (Yang, Yang, Guo, Barthelemy 2026).
    Idea: a synonym that is rare becomes a mask and does nothing but that, so only those are tried that the defence
    leaves in sight, and an edit that would hide an earlier one is not made.
    Acts at: words, outside TextFooler's 266 stop words.
    Deviations: the table of counts is public: what the defence hides is asked of the defence and is no query. Words are
    ranked by their best synonym, since deleting a masked word tells nothing; this costs more queries than TextFooler.
    All words are gone through again while that helps, and one may be replaced again, since masks move with each edit.
    Relations: TextFooler under one more rule, with its thresholds; steering wants the opposite, words that are hidden.
    """

    name: ClassVar[str] = "frequent"
    family: ClassVar[Family] = "words"
    threat: ClassVar[Threat | None] = SYNONYMS
    against: ClassVar[tuple[str, ...]] = ("ddm",)
    synonym_tables: ClassVar[tuple[Source, ...]] = (Source("{synonyms}"),)
    Options = FrequentOptions
    options: FrequentOptions

    def transformations(self) -> Sequence[Transformation]:
        return [Neighbours(self.synonyms(self.options.synonyms), most=self.options.neighbours)]

    def editable(self) -> Sequence[Editable]:
        return [places for places in super().editable() if places is not unchanged]

    def constraints(self) -> Sequence[Constraint]:
        near = NearWords(self.synonyms(self.options.synonyms), self.options.cosine)
        return [near, SamePart(self.tagger(self.options.tagger)), Shown()]

    def search(self, problem: Problem) -> Steps[Answer]:
        return in_rounds(problem, self.moves, RANKINGS[self.options.ranking])
