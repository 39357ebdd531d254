# SPDX-License-Identifier: Apache-2.0
"""What an attack is: moves and a search, under limits that all attacks share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, ClassVar, Literal

from dualmask.attacks.constraints import (
    FewWords,
    Metric,
    Reference,
    SameMeaning,
    except_words,
    second_text,
    unchanged,
    up_to_rate,
)
from dualmask.attacks.engine import Oracle
from dualmask.attacks.hidden import HiddenOracle, opened
from dualmask.attacks.moves import Constraint, Editable, Moves, Transformation
from dualmask.attacks.oracles import SentenceOracle
from dualmask.attacks.problem import Answer, Problem, Steps, Terms
from dualmask.cards import Method
from dualmask.models.victim import Victim
from dualmask.options import check_fields, check_least, check_shares, least
from dualmask.text.stop_words import StopWords, stop_words
from dualmask.text.words import Rule, Words
from dualmask.threats import Threat

if TYPE_CHECKING:
    from dualmask.models.language_models import MaskedLanguageModel
    from dualmask.models.sentences import SentenceEncoder
    from dualmask.text.synonyms import Synonyms
    from dualmask.text.tagging import Tagger
    from dualmask.text.wordnet import WordNet

Family = Literal["characters", "words", "gradients"]

# What TextDefender lays over every attack (Li et al. 2021), besides the attack's own rules
TEXTDEFENDER: Mapping[str, object] = {
    "queries_per_word": 50.0, "max_share": 0.3, "overlaid": True, "fix_premise": True, "split": "left-end",
}
OVERLAID = SameMeaning(0.840845057, metric="angular", window=15, skip_short=True, reference="current")


@dataclass(frozen=True, kw_only=True)
class AttackOptions:
    """Settings that every attack has."""

    queries: int | None = None  # at most so many for one text, the first look included
    queries_per_word: float | None = None  # or so many for each word of it
    seconds: float | None = None  # of work on one text
    stop_words: StopWords = "nltk"  # words that are never changed
    split: Rule = "both-ends"  # how words are told from punctuation
    follow_words: bool = False  # places move along when words are inserted; TextAttack's do not
    any_success: bool = False  # any text that fools the victim ends the search, not only the one that scores best
    fix_premise: bool = False  # of a pair only the second text is changed
    max_words: int | None = None  # words that may be changed
    max_share: float | None = None  # of the words
    max_rate: float | None = None  # nothing more is edited once so large a share of the words is
    least_words: int = least(1, 1)  # but so many words may be, for max_rate
    similarity: float | None = None  # least similarity of sentence vectors; none: not checked
    metric: Metric = "cosine"  # of sentence vectors; angular: 1 minus the angle as a share of the half circle
    window: int | None = None  # words around the edit that are compared; none: the whole text
    skip_short: bool = False  # texts shorter than the window are not compared
    reference: Reference = "original"  # what changed texts are compared with
    overlaid: bool = False  # TextDefender's check of the meaning besides: angular 0.8408 in windows of 15 words
    sentence_encoder: str = "minilm"  # or use, a folder, a hub id

    def __post_init__(self) -> None:
        check_least(queries=(self.queries, 1), queries_per_word=(self.queries_per_word, 1), window=(self.window, 1),
                    max_words=(self.max_words, 1), seconds=(self.seconds, 0))
        check_shares(max_share=self.max_share or 0.0, max_rate=self.max_rate or 0.0)
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class TextFoolerChecks(AttackOptions):
    """Settings of attacks that check the meaning as TextFooler does, and spare its stop words."""

    stop_words: StopWords = "textfooler"
    similarity: float | None = 0.840845057
    metric: Metric = "angular"
    window: int | None = 15
    skip_short: bool = True
    reference: Reference = "current"


@dataclass
class Tools:
    """What an attack uses besides its victim; loaded when first needed, and replaceable."""

    synonyms: "Synonyms | None" = None
    tagger: "Tagger | None" = None
    wordnet: "WordNet | None" = None
    language_model: "MaskedLanguageModel | None" = None
    sentences: "SentenceEncoder | None" = None


class Attack(Method):
    """The base of all attacks."""

    noun: ClassVar[str] = "attack"
    family: ClassVar[Family]
    threat: ClassVar[Threat | None] = None  # what it does to a text, in plain words; reports group attacks by it
    against: ClassVar[tuple[str, ...]] = ()  # the defences whose mechanism it knows; none: it is for any victim
    round_down: ClassVar[bool] = False  # the number of words that a share stands for
    Options: ClassVar[type] = AttackOptions
    options: AttackOptions

    def __init__(self, options: AttackOptions | None = None, tools: Tools | None = None) -> None:
        self.options = options if options is not None else self.Options()
        self.tools = tools or Tools()
        self.preset: str | None = None  # whose options these are, where a preset was named
        self.sequential = False  # TextAttack's order of questions, down to its accidents
        self.victim: Victim | None = None  # whom it is made for, where the attack must know
        self._moves: tuple[bool, Moves] | None = None

    # What a recipe says

    def transformations(self) -> Sequence[Transformation]:
        raise NotImplementedError

    def editable(self) -> Sequence[Editable]:
        """Which words may be edited: no stop words, none twice, and no premise where it is fixed."""
        editable: list[Editable] = [unchanged, except_words(stop_words(self.options.stop_words))]
        if self.options.fix_premise:
            editable.append(second_text)
        if self.options.max_rate is not None:
            editable.append(up_to_rate(self.options.max_rate, least=self.options.least_words))
        return editable

    def constraints(self) -> Sequence[Constraint]:
        """The attack's own; limits on words come before them, sentence similarity after."""
        return ()

    def search(self, problem: Problem) -> Steps[Answer]:
        raise NotImplementedError

    def oracles(self, victim: Victim, device: str) -> dict[str, Oracle]:
        """The models it asks besides the victim, by the names that its questions use."""
        found: dict[str, Oracle] = {}
        if self.against:
            found["hidden"] = HiddenOracle(opened(victim, self.name, self.against))
        if self.options.similarity is None and not self.options.overlaid:
            return found
        if self.tools.sentences is None:
            from dualmask.models.sentences import find_sentence_encoder

            self.tools.sentences = find_sentence_encoder(self.options.sentence_encoder, device=device)
        return {**found, "sentences": SentenceOracle(self.tools.sentences)}

    # What follows from it

    @property
    def moves(self) -> Moves:
        if self._moves is None or self._moves[0] != self.sequential:
            self._moves = self.sequential, self._new_moves()
        return self._moves[1]

    def _new_moves(self) -> Moves:
        options = self.options
        constraints: list[Constraint] = []
        if options.max_words is not None or options.max_share is not None:
            constraints.append(FewWords(most=options.max_words, share=options.max_share, round_down=self.round_down))
        constraints += self.constraints()
        if options.similarity is not None:
            constraints.append(SameMeaning(
                options.similarity, metric=options.metric, window=options.window, skip_short=options.skip_short,
                reference=options.reference))
        if options.overlaid:
            constraints.append(OVERLAID)
        return Moves(self.transformations(), constraints, self.editable(), list if self.sequential else sorted)

    def terms(self, words: Words, *, tolerance: float) -> Terms:
        options = self.options
        per_word = inf if options.queries_per_word is None else options.queries_per_word * max(len(words), 1)
        return Terms(
            queries=min(inf if options.queries is None else options.queries, int(per_word) if per_word < inf else inf),
            seconds=inf if options.seconds is None else options.seconds, tolerance=tolerance,
            follow_words=options.follow_words, any_success=options.any_success)

    def synonyms(self, name: str) -> "Synonyms":
        """The table of synonyms, the shipped one or the user's."""
        if self.tools.synonyms is None:
            from dualmask.text.synonyms import find_synonyms

            self.tools.synonyms = find_synonyms(name)
        return self.tools.synonyms

    def language_model(self, name: str) -> "MaskedLanguageModel":
        if self.tools.language_model is None:
            from dualmask.models.language_models import load_masked_language_model

            self.tools.language_model = load_masked_language_model(name)
        return self.tools.language_model

    def tagger(self, name: str) -> "Tagger":
        if self.tools.tagger is None:
            from dualmask.text.tagging import find_tagger

            self.tools.tagger = find_tagger(name)
        return self.tools.tagger

