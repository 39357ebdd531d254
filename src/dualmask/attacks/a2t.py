# SPDX-License-Identifier: Apache-2.0
"""A2T: a cheap attack for adversarial training, whose word order costs one backward pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualmask.attacks.base import Attack, AttackOptions, Family
from dualmask.attacks.constraints import NearWords, SamePart
from dualmask.attacks.engine import Oracle
from dualmask.attacks.gradients import GradientOracle, white_box
from dualmask.attacks.moves import Constraint, Moves, Transformation
from dualmask.attacks.problem import Answer, Problem, Steps
from dualmask.attacks.searches import greedy
from dualmask.attacks.transformations import Neighbours
from dualmask.cards import Paper, Preset, Source
from dualmask.models.victim import Victim
from dualmask.options import least
from dualmask.threats import SYNONYMS, Threat


@dataclass(frozen=True, kw_only=True)
class A2TOptions(AttackOptions):
    neighbours: int = least(1, 20)
    cosine: float = 0.8  # least cosine of word and synonym
    synonyms: str = "shipped"  # or a file of word vectors
    tagger: str = "shipped"  # or nltk, spacy:MODEL
    fix_premise: bool = True
    max_rate: float | None = 0.1
    least_words: int = least(1, 4)
    similarity: float | None = 0.9


class A2T(Attack):
    """Near synonyms, tried word by word in the order of the gradient.

    Paper: Yoo, Qi, Towards Improving Adversarial Training of NLP Models, Findings of EMNLP 2021.
    Idea: ranking words by asking about each is what other attacks spend most on; the gradient with respect to the word
    embeddings ranks all of them at once. Then each word is replaced by the best of 20 synonyms until the label falls.
    Acts at: words but stop words, a tenth of them or four; of a pair only the second text.
    Deviations: synonyms come from the table that this library ships, tags from its own tagger, sentence vectors from
    minilm instead of a DistilBERT trained on STS (see docs/attacks.md); the cosine of 0.9 of whole texts is kept. The
    gradient is that of the log-odds, which ranks as the loss's does, and goes through the defended input. Words that
    are cut off, or hidden, have none and are left alone; the original counts how many words it may look at. There is
    no variant with a masked language model.
    Relations: TextFooler with another order of words, fewer and nearer synonyms, and a tenth of the words; HotFlip and
    FGPM let the gradient choose the new word too. The defence of the same name trains with it.
    """

    name: ClassVar[str] = "a2t"
    family: ClassVar[Family] = "gradients"
    threat: ClassVar[Threat | None] = SYNONYMS
    paper: ClassVar[Paper | None] = Paper(
        "Towards Improving Adversarial Training of NLP Models", "Yoo, Qi", "Findings of EMNLP 2021",
        "arXiv:2109.00544")
    synonym_tables: ClassVar[tuple[Source, ...]] = (Source("{synonyms}"),)
    Options = A2TOptions
    presets: ClassVar = {"paper": Preset({})}
    options: A2TOptions

    def oracles(self, victim: Victim, device: str) -> dict[str, Oracle]:
        return {**super().oracles(victim, device), "gradients": GradientOracle(white_box(victim, self.name))}

    def transformations(self) -> Sequence[Transformation]:
        return [Neighbours(self.synonyms(self.options.synonyms), most=self.options.neighbours)]

    def constraints(self) -> Sequence[Constraint]:
        return [NearWords(self.synonyms(self.options.synonyms), self.options.cosine),
                SamePart(self.tagger(self.options.tagger), verb_is_noun=False)]

    def search(self, problem: Problem) -> Steps[Answer]:
        return greedy(problem, self.moves, by_felt_gradient)


def by_felt_gradient(problem: Problem, moves: Moves) -> Steps[list[int]]:
    """The L1 norm of the gradient with respect to a word's embedding; of words without any the victim sees nothing."""
    vectors = (yield from problem.slope("gradients", problem.original)).word_vectors(problem.original)
    places = [place for place in moves.places(problem.original) if vectors[place].any()]
    return [places[rank] for rank in problem.order([float(np.abs(vectors[place]).sum()) for place in places])]
