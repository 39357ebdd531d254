# SPDX-License-Identifier: Apache-2.0
"""TextFooler: synonyms that keep the grammar and the sentence's meaning."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from dualmask.attacks.base import TEXTDEFENDER, Attack, Family, TextFoolerChecks
from dualmask.attacks.constraints import NearWords, SamePart
from dualmask.attacks.moves import Constraint, Transformation
from dualmask.attacks.problem import Answer, Problem, Steps
from dualmask.attacks.rankings import Ranking, by_chance, by_deletion
from dualmask.attacks.searches import greedy
from dualmask.attacks.transformations import Neighbours
from dualmask.cards import Paper, Preset, Source
from dualmask.options import came_later, least
from dualmask.threats import SYNONYMS, Threat


@dataclass(frozen=True, kw_only=True)
class TextFoolerOptions(TextFoolerChecks):
    neighbours: int = least(1, 50)
    cosine: float | None = 0.5  # least cosine of word and synonym; none: not checked
    synonyms: str = "shipped"  # or a file of word vectors
    tagger: str = "shipped"  # or nltk, spacy:MODEL
    ranking: Literal["deletion", "random"] = came_later("deletion", before="deletion")  # of words; random: by chance
    new_label: bool = False  # a deletion that changes the label counts for more in the ranking
    fix_premise: bool = True


class TextFooler(Attack):
    """Synonyms of the same part of speech that leave the sentence vector almost where it was.

    Paper: Jin, Jin, Zhou, Szolovits, Is BERT Really Robust?, AAAI 2020.
    Idea: rank words by what the victim loses when they are deleted; replace each by the best of 50 synonyms.
    Acts at: words, outside a list of 266 stop words; of a pair only the second text.
    Deviations: synonyms come from GloVe and minilm vectors, counter-fitted, that this library ships as a table, tags
    from its own tagger, sentence vectors from minilm instead of the Universal Sentence Encoder (see docs/attacks.md);
    the threshold 0.840845057 (1 - 0.5/pi, from an angle that the authors did not divide by pi) is kept, though it bites
    differently. 'textattack-0.3.11' asks for a cosine of 0.5, 'paper' for 0.7; 'paper' also counts a changed label in
    its ranking and takes any success. Texts under 15 words are not compared at all, as in the original.
    'textdefender-2021' drops the cosine. ranking=random is a control of ours: words by chance, without a question.
    Relations: PWWS takes WordNet, BERT-Attack a language model; A2T is a cheaper one for training.
    """

    name: ClassVar[str] = "textfooler"
    family: ClassVar[Family] = "words"
    threat: ClassVar[Threat | None] = SYNONYMS
    paper: ClassVar[Paper | None] = Paper(
        "Is BERT Really Robust? A Strong Baseline for Natural Language Attack on Text Classification and Entailment",
        "Jin, Jin, Zhou, Szolovits", "AAAI 2020", "arXiv:1907.11932")
    synonym_tables: ClassVar[tuple[Source, ...]] = (Source("{synonyms}"),)
    Options = TextFoolerOptions
    presets: ClassVar = {
        "textattack-0.3.11": Preset({}),
        "textattack-0.3.10": Preset({"split": "left-end"}),
        "paper": Preset({"cosine": 0.7, "new_label": True, "any_success": True}),
        "textdefender-2021": Preset({**TEXTDEFENDER, "cosine": None, "overlaid": False}),  # the check is its own
    }
    options: TextFoolerOptions

    def transformations(self) -> Sequence[Transformation]:
        return [Neighbours(self.synonyms(self.options.synonyms), most=self.options.neighbours)]

    def constraints(self) -> Sequence[Constraint]:
        found: list[Constraint] = []
        if self.options.cosine is not None:
            found.append(NearWords(self.synonyms(self.options.synonyms), self.options.cosine))
        return [*found, SamePart(self.tagger(self.options.tagger))]

    def search(self, problem: Problem) -> Steps[Answer]:
        rankings: dict[str, Ranking] = {
            "deletion": partial(by_deletion, new_label=self.options.new_label), "random": by_chance}
        return greedy(problem, self.moves, rankings[self.options.ranking])
