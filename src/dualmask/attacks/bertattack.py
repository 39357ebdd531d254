# SPDX-License-Identifier: Apache-2.0
"""BERT-Attack: what a masked language model would have written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from dualmask.attacks.base import TEXTDEFENDER, Attack, AttackOptions, Family
from dualmask.attacks.constraints import Metric, NearWords
from dualmask.attacks.engine import Oracle
from dualmask.attacks.moves import Constraint, Transformation
from dualmask.attacks.oracles import LanguageModelOracle
from dualmask.attacks.problem import Answer, Problem, Steps
from dualmask.attacks.rankings import Ranking, by_chance, by_unknown
from dualmask.attacks.searches import greedy
from dualmask.attacks.transformations import LanguageModelWords
from dualmask.cards import Paper, Preset
from dualmask.models.victim import Victim
from dualmask.options import came_later, least
from dualmask.text.stop_words import stop_words
from dualmask.threats import LIKELY_WORDS, Threat


@dataclass(frozen=True, kw_only=True)
class BertAttackOptions(AttackOptions):
    ranking: Literal["unk", "random"] = came_later("unk", before="unk")  # of words; random: by chance
    candidates: int = least(1, 8)  # K: likeliest tokens for each piece, and replacements for each word
    pieces: Literal["first", "best"] = "first"  # which combinations for words of several pieces
    language_model: str = "shipped"  # or a folder, a resource or a hub id
    filtered: bool = False  # no stop words or special tokens as replacements, and the word's case is kept
    cosine: float | None = None  # least cosine in the table of synonyms; words unknown to it pass
    synonyms: str = "shipped"
    max_share: float | None = 0.4
    similarity: float | None = 0.2
    metric: Metric = "cosine"


class BertAttack(Attack):
    """Replacements that a masked language model finds likely in the unmasked text.

    Paper: Li, Ma, Guo, Xue, Qiu, BERT-ATTACK: Adversarial Attack Against BERT Using BERT, EMNLP 2020.
    Idea: one pass of a masked language model over the text gives K candidates for each piece; the victim chooses.
    Acts at: words but stop words, at most 40 % of them.
    Deviations: the language model is minilm with an adapter that this library ships, not bert-base-uncased. The
    TextAttack presets take the first K combinations of pieces, which is what its code does in effect, with K = 8
    (0.3.11) or 48 (0.3.10); 'paper' takes K = 48 and the likeliest combinations, refuses stop words and keeps the case.
    Words are ranked by [UNK] where the paper writes [MASK]. Similarity is checked while searching, not afterwards. The
    original's threshold on the model's scores is missing; for its filter of antonyms set cosine=0.4. ranking=random, a
    control of ours, takes words by chance.
    Relations: BAE masks the word first; TextFooler's candidates know no context.
    """

    name: ClassVar[str] = "bertattack"
    family: ClassVar[Family] = "words"
    threat: ClassVar[Threat | None] = LIKELY_WORDS
    paper: ClassVar[Paper | None] = Paper(
        "BERT-ATTACK: Adversarial Attack Against BERT Using BERT", "Li, Ma, Guo, Xue, Qiu", "EMNLP 2020",
        "arXiv:2004.09984")
    Options = BertAttackOptions
    presets: ClassVar = {
        "textattack-0.3.11": Preset({}),
        "textattack-0.3.10": Preset({"split": "left-end", "candidates": 48}),
        "paper": Preset({"candidates": 48, "pieces": "best", "filtered": True, "any_success": True}),
        "textdefender-2021": Preset({**TEXTDEFENDER, "candidates": 50}),
    }
    options: BertAttackOptions

    def oracles(self, victim: Victim, device: str) -> dict[str, Oracle]:
        model, most = self.language_model(self.options.language_model), self.options.candidates
        asked = LanguageModelOracle(model, most=most, device=device)
        return {**super().oracles(victim, device), "language model": asked}

    def transformations(self) -> Sequence[Transformation]:
        tokenizer, refused = self.language_model(self.options.language_model).tokenizer, frozenset[str]()
        if self.options.filtered:
            refused = stop_words("nltk") | {str(token).lower() for token in tokenizer.all_special_tokens}
        return [LanguageModelWords(
            tokenizer, most=self.options.candidates, best=self.options.pieces == "best", refused=refused,
            keep_case=self.options.filtered)]

    def constraints(self) -> Sequence[Constraint]:
        if self.options.cosine is None:
            return []
        return [NearWords(self.synonyms(self.options.synonyms), self.options.cosine)]

    def search(self, problem: Problem) -> Steps[Answer]:
        rankings: dict[str, Ranking] = {"unk": by_unknown, "random": by_chance}
        return greedy(problem, self.moves, rankings[self.options.ranking])
