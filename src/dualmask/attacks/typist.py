# SPDX-License-Identifier: Apache-2.0
"""Typing errors whose word pieces are all too frequent to be masked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from dualmask.attacks.base import Attack, AttackOptions, Family
from dualmask.attacks.constraints import FewLetters, unchanged
from dualmask.attacks.hidden import Shown, by_swapping, in_rounds
from dualmask.attacks.moves import Constraint, Editable, Transformation
from dualmask.attacks.problem import Answer, Problem, Steps, Streams
from dualmask.attacks.rankings import Ranking, by_chance, by_unknown
from dualmask.attacks.transformations import WordByWord
from dualmask.options import least
from dualmask.text.letters import slips
from dualmask.threats import MISSPELLING, Threat

RANKINGS: dict[str, Ranking] = {"swap": by_swapping, "unk": by_unknown, "random": by_chance}


@dataclass(frozen=True, kw_only=True)
class TypistOptions(AttackOptions):
    max_edits: int = least(0, 30)  # letters, over the whole text
    ranking: Literal["swap", "unk", "random"] = "swap"  # words by their best error, by an unknown word, by chance
    any_success: bool = True
    follow_words: bool = True  # a space makes two words of one


class Typist(Attack):
    """Typing errors that fall into frequent word pieces.

    Paper: none; the idea is this library's, against DDM (Yang, Yang, Guo, Barthelemy 2026).
    Idea: a sub-word tokenizer cuts a misspelt word into pieces, and often each of them is frequent: the word is gone,
    yet nothing looks rare. Of all errors of one letter those are tried of which no piece is masked.
    Acts at: characters; every word but stop words, at most 30 letters in all.
    Deviations: the defence is asked what it hides; that is no query, so every letter is tried: left out, doubled,
    swapped with the next, a key beside it, a space before it. Words are ranked by their best error and gone through
    again while that helps, where a word may get a second error; this costs more queries than DeepWordBug.
    Relations: DeepWordBug's edits, chosen by the tokenizer; a defence that counts whole words sees through it.
    """

    name: ClassVar[str] = "typist"
    family: ClassVar[Family] = "characters"
    threat: ClassVar[Threat | None] = MISSPELLING
    against: ClassVar[tuple[str, ...]] = ("ddm",)
    Options = TypistOptions
    options: TypistOptions

    def transformations(self) -> Sequence[Transformation]:
        return [Slips()]

    def editable(self) -> Sequence[Editable]:
        return [places for places in super().editable() if places is not unchanged]

    def constraints(self) -> Sequence[Constraint]:
        return [FewLetters(self.options.max_edits), Shown()]

    def search(self, problem: Problem) -> Steps[Answer]:
        return in_rounds(problem, self.moves, RANKINGS[self.options.ranking])


class Slips(WordByWord):
    """Every error of one letter that a typist may make: left out, doubled, exchanged with the next, the key beside."""

    def replacements(self, word: str, streams: Streams) -> list[str]:
        return list(dict.fromkeys(slips(word))) if len(word) > 1 else []
