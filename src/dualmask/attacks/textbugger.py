# SPDX-License-Identifier: Apache-2.0
"""TextBugger: five kinds of bugs, from a stray space to a synonym."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from dualmask.attacks.base import TEXTDEFENDER, Attack, AttackOptions, Family
from dualmask.attacks.constraints import Metric
from dualmask.attacks.engine import Oracle
from dualmask.attacks.gradients import GradientOracle, white_box
from dualmask.attacks.moves import Transformation
from dualmask.attacks.problem import Answer, Problem, Steps
from dualmask.attacks.rankings import Ranking, by_chance, by_deletion, by_gradient, by_sentences, by_unknown
from dualmask.attacks.searches import greedy
from dualmask.attacks.transformations import LetterEdit, LookAlikes, Neighbours, deleted, mistyped, spaced, swapped
from dualmask.cards import Paper, Preset, Source
from dualmask.models.victim import Victim
from dualmask.options import least
from dualmask.threats import MISSPELLING_AND_SYNONYMS, Threat


@dataclass(frozen=True, kw_only=True)
class TextBuggerOptions(AttackOptions):
    letters: bool = True  # bugs in letters, besides synonyms
    keyboard: bool = False  # also letters beside each other on a keyboard
    neighbours: int = least(1, 5)
    synonyms: str = "shipped"  # or a file of word vectors
    ranking: Literal["delete", "unk", "sentences", "gradient", "random"] = "delete"
    similarity: float | None = 0.8
    metric: Metric = "angular"


class TextBugger(Attack):
    """Bugs that people read over: spaces, missing or swapped letters, look-alikes, near synonyms.

    Paper: Li, Ji, Du, Li, Wang, TextBugger: Generating Adversarial Text Against Real-world Applications, NDSS 2019.
    Idea: for each important word all five kinds of bugs are made and the most harmful one is kept.
    Acts at: characters and words but stop words; the sentence vector must stay near the original's.
    Deviations: 'textattack-0.3.11' ranks words by deletion over the whole text, measures the angle, and after an
    inserted space goes on with places that are off by one, all as TextAttack does; 'paper' ranks sentences first, then
    their words, tries keyboard neighbours too, measures the cosine and follows its words, but keeps sentences that
    alone get another label, and ranks pairs of texts by deletion. Its white-box ranking is ranking=gradient: the paper
    sorts words by dF_y / dx_i, the entry of the Jacobian for the label's probability p and the i-th word. Here a word
    is a vector, the mean over its pieces, and its entry the sum of absolute values, as in TextAttack's gradient
    ranking; the derivative is that of the log-odds, 1 / (p (1 - p)) times p's for all words of a text, which leaves
    their order. Words whose sums differ by less than 0.01 % of the largest keep the text's order. The 5 nearest words
    are of counter-fitted vectors, the paper's of GloVe alone; synonyms and sentence vectors are this library's (see
    TextFooler's card). 'textdefender-2021' has no bugs in letters at all, but 50 synonyms, and ranks by [UNK].
    Relations: DeepWordBug with more kinds of edits and a check of the meaning.
    """

    name: ClassVar[str] = "textbugger"
    family: ClassVar[Family] = "characters"
    threat: ClassVar[Threat | None] = MISSPELLING_AND_SYNONYMS
    paper: ClassVar[Paper | None] = Paper(
        "TextBugger: Generating Adversarial Text Against Real-world Applications", "Li, Ji, Du, Li, Wang",
        "NDSS 2019", "arXiv:1812.05271")
    synonym_tables: ClassVar[tuple[Source, ...]] = (Source("{synonyms}"),)
    Options = TextBuggerOptions
    presets: ClassVar = {
        "textattack-0.3.11": Preset({}),
        "textattack-0.3.10": Preset({"split": "left-end"}),
        "paper": Preset({"ranking": "sentences", "keyboard": True, "metric": "cosine", "follow_words": True,
                         "any_success": True, "stop_words": "none"}),
        "textdefender-2021": Preset({**TEXTDEFENDER, "letters": False, "neighbours": 50, "ranking": "unk"}),
    }
    options: TextBuggerOptions

    def oracles(self, victim: Victim, device: str) -> dict[str, Oracle]:
        found = super().oracles(victim, device)
        if self.options.ranking == "gradient":
            found["gradients"] = GradientOracle(white_box(victim, self.name))
        return found

    def transformations(self) -> Sequence[Transformation]:
        found: list[Transformation] = []
        if self.options.letters:
            found = [LetterEdit(edit, inner=True) for edit in (spaced, deleted, swapped)]
            found.append(LookAlikes())
        if self.options.keyboard:
            found.append(LetterEdit(mistyped, inner=True))
        return [*found, Neighbours(self.synonyms(self.options.synonyms), most=self.options.neighbours)]

    def search(self, problem: Problem) -> Steps[Answer]:
        rankings: dict[str, Ranking] = {
            "delete": by_deletion, "unk": by_unknown, "sentences": by_sentences, "gradient": by_gradient,
            "random": by_chance}
        return greedy(problem, self.moves, rankings[self.options.ranking])
