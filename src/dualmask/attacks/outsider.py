# SPDX-License-Identifier: Apache-2.0
"""Substitutes from outside a word's own synonym cluster, so that the defence reads another word."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from dualmask.attacks.base import Attack, Family, TextFoolerChecks
from dualmask.attacks.constraints import SamePart
from dualmask.attacks.engine import Oracle
from dualmask.attacks.hidden import by_swapping, in_rounds, opened
from dualmask.attacks.moves import Constraint, Moves, Proposals, Transformation
from dualmask.attacks.oracles import LanguageModelOracle
from dualmask.attacks.problem import Answer, Problem, Steps, Streams
from dualmask.attacks.rankings import Ranking, by_chance, by_deletion
from dualmask.attacks.readings import Otherwise, ReadingOracle
from dualmask.attacks.transformations import LanguageModelWords, WordByWord, WordNetSynonyms, near_words
from dualmask.cards import Source
from dualmask.models.victim import Victim
from dualmask.options import least
from dualmask.text.stop_words import stop_words
from dualmask.text.words import Words
from dualmask.threats import SYNONYMS, Threat

if TYPE_CHECKING:
    from dualmask.text.synonyms import Synonyms

RANKINGS: dict[str, Ranking] = {"swap": by_swapping, "deletion": by_deletion, "random": by_chance}


@dataclass(frozen=True, kw_only=True)
class OutsiderOptions(TextFoolerChecks):
    neighbours: int = least(0, 50)  # from the table of synonyms, for each word; 0: none
    cosine: float = 0.5  # least cosine of word and neighbour
    wordnet: bool = True  # its synonyms, of the word's part of speech
    candidates: int = least(0, 48)  # a masked language model's, for each word; 0: none
    model_cosine: float | None = None  # least cosine of word and candidate, where the table knows both; none: any
    synonyms: str = "shipped"  # or a file of word vectors
    language_model: str = "shipped"  # or a folder, a resource or a hub id
    tagger: str = "shipped"  # or nltk, spacy:MODEL
    ranking: Literal["swap", "deletion", "random"] = "swap"  # words by their best substitute, by deletion, by chance
    max_share: float | None = 0.4
    any_success: bool = True


class Outsider(Attack):
    """Substitutes that the defence does not lead back to the word they replace.

    Paper: none; the idea is this library's, against its own ddm-restore.
    Idea: a substitute out of a word's own cluster is read as the same head and does nothing. Those of other clusters,
    of none, and those that the defence takes for misspelt are left: most from sources that it did not cluster by.
    Acts at: words, outside TextFooler's 266 stop words, at most 40 % of them, none twice.
    Deviations: three sources together: TextFooler's 50 neighbours at a cosine of 0.5, PWWS's WordNet, BERT-Attack's 48
    candidates of a masked language model. All must pass TextFooler's checks of the part of speech and the meaning; the
    share of words is BERT-Attack's, so that it may do what those may. What the defence reads is no query, and one
    substitute is asked for each reading. Words are ranked by their best one and gone through again while that helps.
    As in BERT-Attack the model's words may be antonyms, which no classifier should withstand; model_cosine=0.5 leaves
    those that the shipped table holds near or does not know, candidates=0 none.
    Relations: frequent's search; TextFooler, PWWS and BERT-Attack try the same words blindly.
    """

    name: ClassVar[str] = "outsider"
    family: ClassVar[Family] = "words"
    threat: ClassVar[Threat | None] = SYNONYMS
    against: ClassVar[tuple[str, ...]] = ("ddm-restore",)
    synonym_tables: ClassVar[tuple[Source, ...]] = (
        Source("{synonyms}", unless={"neighbours": (0,)}), Source("wordnet", when={"wordnet": (True,)}))
    Options = OutsiderOptions
    options: OutsiderOptions

    def oracles(self, victim: Victim, device: str) -> dict[str, Oracle]:
        found = super().oracles(victim, device)
        found["readings"] = ReadingOracle(opened(victim, self.name, self.against))
        if self.options.candidates:
            model = self.language_model(self.options.language_model)
            found["language model"] = LanguageModelOracle(model, most=self.options.candidates, device=device)
        return found

    def transformations(self) -> Sequence[Transformation]:
        options, found = self.options, list[Transformation]()
        if options.neighbours:
            found.append(NearNeighbours(self.synonyms(options.synonyms), options.cosine, most=options.neighbours))
        if options.wordnet:
            from dualmask.text.wordnet import load_wordnet

            found.append(WordNetSynonyms(self.tools.wordnet or load_wordnet(), tagger=self.tagger(options.tagger)))
        if options.candidates:
            found.append(self._likely_words())
        return found

    def _likely_words(self) -> Transformation:
        options, tokenizer = self.options, self.language_model(self.options.language_model).tokenizer
        refused = stop_words("nltk") | {str(token).lower() for token in tokenizer.all_special_tokens}
        words = LanguageModelWords(tokenizer, most=options.candidates, best=True, refused=refused, keep_case=True)
        return words if options.model_cosine is None else NearWordsOf(
            words, self.synonyms(options.synonyms), options.model_cosine)

    def constraints(self) -> Sequence[Constraint]:
        return [Otherwise(once=False), SamePart(self.tagger(self.options.tagger))]

    def _new_moves(self) -> Moves:
        """Of those that are read alike the first that passes everything else."""
        moves = super()._new_moves()
        return replace(moves, constraints=[*moves.constraints, Otherwise()])

    def search(self, problem: Problem) -> Steps[Answer]:
        return in_rounds(problem, self.moves, RANKINGS[self.options.ranking])


class NearNeighbours(WordByWord):
    """Neighbours in a table of synonyms that are near enough."""

    def __init__(self, table: "Synonyms", least: float, *, most: int) -> None:
        self.table, self.least, self.most = table, least, most

    def replacements(self, word: str, streams: Streams) -> list[str]:
        return [near for near, cosine in near_words(self.table, word, most=self.most) if cosine >= self.least]


class NearWordsOf:
    """Another transformation's words that are near enough by a table, or unknown to it."""

    def __init__(self, words: LanguageModelWords, table: "Synonyms", least: float) -> None:
        self.words, self.table, self.least = words, table, least

    def __call__(self, problem: Problem, current: Words, places: Sequence[int]) -> Steps[Proposals]:
        found = yield from self.words(problem, current, places)
        return [(place, new) for place, new in found
                if (cosine := self.table.cosine(current[place].lower(), new.lower())) is None or cosine >= self.least]
