# SPDX-License-Identifier: Apache-2.0
"""DeepWordBug: a few typing errors in the words that matter most."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from dualmask.attacks.base import TEXTDEFENDER, Attack, AttackOptions, Family
from dualmask.attacks.constraints import FewLetters
from dualmask.attacks.moves import Constraint, Transformation
from dualmask.attacks.problem import Answer, Problem, Steps
from dualmask.attacks.rankings import Ranking, by_chance, by_prefixes, by_unknown
from dualmask.attacks.searches import greedy
from dualmask.attacks.transformations import LetterEdit, deleted, inserted, substituted, swapped
from dualmask.cards import Paper, Preset
from dualmask.options import least
from dualmask.threats import MISSPELLING, Threat

EDITS = {"swap": swapped, "substitute": substituted, "delete": deleted, "insert": inserted}


@dataclass(frozen=True, kw_only=True)
class DeepWordBugOptions(AttackOptions):
    edits: Literal["all", "swap", "substitute", "delete", "insert"] = "all"
    draws: int = least(1, 1)  # random places tried for each kind of edit
    max_edits: int = least(0, 30)  # letters, over the whole text
    ranking: Literal["unk", "prefixes", "random"] = "unk"
    tail_weight: float = 1.0  # lambda of the combined score, for ranking "prefixes"


class DeepWordBug(Attack):
    """Typing errors in the most important words.

    Paper: Gao, Lanchantin, Soffa, Qi, Black-box Generation of Adversarial Text Sequences to Evade Deep Learning
    Classifiers, IEEE S&P Workshops 2018.
    Idea: rank words by what the victim loses without them, then swap, replace, delete or insert one letter in each.
    Acts at: characters; every word but stop words, at most 30 letters in all.
    Deviations: preset 'textattack-0.3.11' ranks by [UNK] and tries the four edits at one random place each, as
    TextAttack does; 'paper' has the combined score (what a word adds from the head and from the tail) with
    substitutions only (pairs of texts are ranked by [UNK]). 'textdefender-2021' tries 12 places for each edit, our
    reading of its up to 50 per word.
    Relations: TextBugger adds look-alikes, spaces and synonyms, and checks the meaning.
    """

    name: ClassVar[str] = "deepwordbug"
    family: ClassVar[Family] = "characters"
    threat: ClassVar[Threat | None] = MISSPELLING
    paper: ClassVar[Paper | None] = Paper(
        "Black-box Generation of Adversarial Text Sequences to Evade Deep Learning Classifiers",
        "Gao, Lanchantin, Soffa, Qi", "IEEE S&P Workshops 2018", "arXiv:1801.04354")
    Options = DeepWordBugOptions
    presets: ClassVar = {
        "textattack-0.3.11": Preset({}),
        "textattack-0.3.10": Preset({"split": "left-end"}),
        "paper": Preset({"edits": "substitute", "ranking": "prefixes", "stop_words": "none", "any_success": True}),
        "textdefender-2021": Preset({**TEXTDEFENDER, "draws": 12}),
    }
    options: DeepWordBugOptions

    def transformations(self) -> Sequence[Transformation]:
        edits = EDITS.values() if self.options.edits == "all" else [EDITS[self.options.edits]]
        return [LetterEdit(edit, draws=self.options.draws) for edit in edits]

    def constraints(self) -> Sequence[Constraint]:
        return [FewLetters(self.options.max_edits)]

    def search(self, problem: Problem) -> Steps[Answer]:
        rankings: dict[str, Ranking] = {
            "unk": by_unknown, "random": by_chance,
            "prefixes": partial(by_prefixes, tail_weight=self.options.tail_weight)}
        return greedy(problem, self.moves, rankings[self.options.ranking])
