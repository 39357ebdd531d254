# SPDX-License-Identifier: Apache-2.0
"""Look-alike letters that decide which words a defence masks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dualmask.attacks.base import Attack, AttackOptions, Family
from dualmask.attacks.hidden import asked, by_swapping, in_rounds
from dualmask.attacks.moves import Constraint, Transformation
from dualmask.attacks.problem import Answer, Problem, Steps
from dualmask.attacks.transformations import LookAlikes
from dualmask.text.stop_words import StopWords
from dualmask.text.words import Words
from dualmask.threats import MISSPELLING, Threat


@dataclass(frozen=True, kw_only=True)
class SteeringOptions(AttackOptions):
    stop_words: StopWords = "none"  # a harmless word is the best place to waste a mask on
    any_success: bool = True


class Steering(Attack):
    """Masks led onto the evidence, or away from what should be hidden.

    Paper: none; the idea is this library's, against DDM (Yang, Yang, Guo, Barthelemy 2026).
    Idea: the defence has a fixed number of masks for the rarest tokens, and a look-alike letter makes a word rare. In
    the words that bear the class it has the evidence masked; in harmless ones it uses up masks, and words that were
    masked come into sight. Only edits that move the masks are tried.
    Acts at: characters; all words, stop words too.
    Deviations: the defence is asked what it hides; that is no query. Words are ranked by the best such edit and gone
    through again while that helps.
    Relations: TextBugger has the same letters; padding wastes masks on added words, frequent avoids them.
    """

    name: ClassVar[str] = "steering"
    family: ClassVar[Family] = "characters"
    threat: ClassVar[Threat | None] = MISSPELLING
    against: ClassVar[tuple[str, ...]] = ("ddm",)
    Options = SteeringOptions
    options: SteeringOptions

    def transformations(self) -> Sequence[Transformation]:
        return [LookAlikes()]

    def constraints(self) -> Sequence[Constraint]:
        return [Moved()]

    def search(self, problem: Problem) -> Steps[Answer]:
        return in_rounds(problem, self.moves, by_swapping)


class Moved:
    """Keeps the candidates in which other words are masked than before."""

    def __call__(self, problem: Problem, candidates: list[Words], current: Words) -> Steps[list[Words]]:
        before, *found = yield from asked([current, *candidates])
        return [words for words, hidden in zip(candidates, found, strict=True)
                if hidden.places(words) != before.places(current)]
