# SPDX-License-Identifier: Apache-2.0
"""PWWS: WordNet synonyms, words weighted by their saliency."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from dualmask.attacks.base import TEXTDEFENDER, Attack, AttackOptions, Family
from dualmask.attacks.moves import Transformation
from dualmask.attacks.problem import Answer, Problem, Steps
from dualmask.attacks.rankings import Ranking, by_chance, by_saliency
from dualmask.attacks.searches import greedy, in_turn
from dualmask.attacks.transformations import Neighbours, WordNetSynonyms
from dualmask.cards import Paper, Preset, Source
from dualmask.options import came_later, least
from dualmask.threats import SYNONYMS, Threat


@dataclass(frozen=True, kw_only=True)
class PWWSOptions(AttackOptions):
    source: Literal["wordnet", "vectors"] = "wordnet"
    same_part: bool = False  # only synonyms of the word's own part of speech
    ranking: Literal["saliency", "random"] = came_later("saliency", before="saliency")  # with gain; or by chance
    gain: Literal["score", "drop"] = "score"  # what the saliency is multiplied with
    search: Literal["greedy", "fixed"] = "greedy"  # ask again about every synonym, or put in the one chosen beforehand
    tagger: str = "shipped"  # for same_part
    neighbours: int = least(1, 50)  # for source "vectors"
    synonyms: str = "shipped"


class PWWS(Attack):
    """WordNet synonyms in the order of saliency times gain.

    Paper: Ren, Deng, He, Che, Generating Natural Language Adversarial Examples through Probability Weighted Word
    Saliency, ACL 2019.
    Idea: the best synonym of every word is found first; words are then replaced in the order of softmax(what [UNK]
    costs) times what that synonym brings, until the label changes.
    Acts at: words but stop words; no check of the meaning.
    Deviations: 'textattack-0.3.11' takes synonyms of all parts of speech, multiplies by the best score itself, not by
    the gain, and asks about every synonym again when a word's turn comes; 'paper' is as published, but that names are
    not exchanged for names of the other class (that needs a recogniser of entities). 'textdefender-2021' has no
    WordNet: 50 neighbours in word-vector space. ranking=random, a control of ours, leaves the whole product out of the
    order: neither saliency nor gain is asked for, words come by chance, and each still gets the best of its synonyms.
    Relations: TextFooler ranks by deletion and filters by meaning.
    """

    name: ClassVar[str] = "pwws"
    family: ClassVar[Family] = "words"
    threat: ClassVar[Threat | None] = SYNONYMS
    paper: ClassVar[Paper | None] = Paper(
        "Generating Natural Language Adversarial Examples through Probability Weighted Word Saliency",
        "Ren, Deng, He, Che", "ACL 2019", "ACL P19-1103")
    synonym_tables: ClassVar[tuple[Source, ...]] = (
        Source("wordnet", when={"source": ("wordnet",)}), Source("{synonyms}", when={"source": ("vectors",)}))
    Options = PWWSOptions
    presets: ClassVar = {
        "textattack-0.3.11": Preset({}),
        "textattack-0.3.10": Preset({"split": "left-end"}),
        "paper": Preset({"same_part": True, "gain": "drop", "search": "fixed", "stop_words": "none"}),
        "textdefender-2021": Preset({**TEXTDEFENDER, "source": "vectors", "search": "fixed"}),
    }
    options: PWWSOptions

    def transformations(self) -> Sequence[Transformation]:
        options = self.options
        if options.source == "vectors":
            return [Neighbours(self.synonyms(options.synonyms), most=options.neighbours)]
        from dualmask.text.wordnet import load_wordnet

        tagger = self.tagger(options.tagger) if options.same_part else None
        return [WordNetSynonyms(self.tools.wordnet or load_wordnet(), tagger=tagger)]

    def search(self, problem: Problem) -> Steps[Answer]:
        drop = self.options.gain == "drop"
        if self.options.search == "fixed":
            return in_turn(problem, self.moves, drop=drop, chance=self.options.ranking == "random")
        rankings: dict[str, Ranking] = {"saliency": partial(by_saliency, drop=drop), "random": by_chance}
        return greedy(problem, self.moves, rankings[self.options.ranking])
