# SPDX-License-Identifier: Apache-2.0
"""Errors of one letter after which a defence that restores words reads something else."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase
from typing import ClassVar, Literal

from dualmask.attacks.base import Attack, AttackOptions, Family
from dualmask.attacks.constraints import FewLetters, unchanged
from dualmask.attacks.engine import Oracle
from dualmask.attacks.hidden import by_swapping, in_rounds, opened
from dualmask.attacks.moves import Constraint, Editable, Moves, Transformation
from dualmask.attacks.problem import Answer, Problem, Steps, Streams
from dualmask.attacks.rankings import Ranking, by_chance, by_unknown
from dualmask.attacks.readings import Otherwise, ReadingOracle
from dualmask.attacks.transformations import WordByWord
from dualmask.models.victim import Victim
from dualmask.options import least
from dualmask.text.letters import HOMOGLYPHS, keyboard_neighbours, slips
from dualmask.text.words import Words
from dualmask.threats import MISSPELLING, Threat

RANKINGS: dict[str, Ranking] = {"swap": by_swapping, "unk": by_unknown, "random": by_chance}
SIGNS = "'-._#7"  # inside a word they make code, an address or a number of it, or two words
ACCENTS = dict(zip("aeiou", "\u00e1\u00e9\u00ed\u00f3\u00fa", strict=True))


@dataclass(frozen=True, kw_only=True)
class MisprintOptions(AttackOptions):
    max_edits: int = least(0, 30)  # letters, over the whole text
    letters: Literal["any", "near"] = "any"  # that are written for another or added: all, or keys beside it
    joins: bool = True  # the space between two words may be left out
    disguises: bool = True  # a slip may come with capitals, a sign or an accent that make a name, a tag or code of it
    ranking: Literal["swap", "unk", "random"] = "swap"  # words by their best error, by an unknown word, by chance
    any_success: bool = True
    follow_words: bool = True  # a space makes two words of one


class Misprint(Attack):
    """Errors of one letter that the defence does not put right.

    Paper: none; the idea is this library's, against its own ddm-restore.
    Idea: most errors are restored and do nothing. What is left are those that make another word ("fool" for "food"),
    that may come from several words, that part or join words, and those after which a word becomes a mask or is left
    alone because it looks like a name or code. All errors of one letter are tried on the defence, and the victim is
    asked about one of each kind of reading.
    Acts at: characters; every word but stop words, at most 30 letters in all.
    Deviations: what the defence reads is no query. Tried are a letter left out, doubled, swapped with the next, another
    in its place or beside it, in the other case, a look-alike, a sign or a space before it, two words written as one;
    the first three also with capitals, a # or an accent, which may pass for a name, a tag or a foreign word. Words are
    ranked by their best error and gone through again while that helps, where a word may get a second error.
    Relations: typist's search with all of DeepWordBug's and TextBugger's edits; those draw a few of them at random.
    """

    name: ClassVar[str] = "misprint"
    family: ClassVar[Family] = "characters"
    threat: ClassVar[Threat | None] = MISSPELLING
    against: ClassVar[tuple[str, ...]] = ("ddm-restore",)
    Options = MisprintOptions
    options: MisprintOptions

    def oracles(self, victim: Victim, device: str) -> dict[str, Oracle]:
        found = super().oracles(victim, device)
        return {**found, "readings": ReadingOracle(opened(victim, self.name, self.against))}

    def transformations(self) -> Sequence[Transformation]:
        return [Errors(any_letter=self.options.letters == "any", disguises=self.options.disguises)]

    def editable(self) -> Sequence[Editable]:
        return [places for places in super().editable() if places is not unchanged]

    def constraints(self) -> Sequence[Constraint]:
        return [FewLetters(self.options.max_edits), Otherwise()]

    def _new_moves(self) -> Moves:
        moves = super()._new_moves()
        return WithJoins(**vars(moves)) if self.options.joins else moves

    def search(self, problem: Problem) -> Steps[Answer]:
        return in_rounds(problem, self.moves, RANKINGS[self.options.ranking])


class Errors(WordByWord):
    """Every error of one letter, what happens to typists first, and slips in words that look like names or code."""

    def __init__(self, *, any_letter: bool, disguises: bool) -> None:
        self.any_letter, self.disguises = any_letter, disguises

    def replacements(self, word: str, streams: Streams) -> list[str]:
        if len(word) < 2:
            return []
        found = [*slips(word, keys=False), *errors(word, any_letter=self.any_letter)]
        if self.disguises:
            bare = (slip for slip in slips(word, keys=False) if slip != word and len(slip) > 1 and " " not in slip)
            found += [new for slip in bare for new in disguised(slip)]
        return list(dict.fromkeys(found))


def errors(word: str, *, any_letter: bool) -> Iterator[str]:
    """Another letter in the place of one, or beside it; a sign inside the word, a look-alike, another case."""
    for place, letter in enumerate(word):
        before, after = word[:place], word[place + 1:]
        beside = keyboard_neighbours(letter)
        others = (ascii_uppercase if letter.isupper() else ascii_lowercase) if any_letter else ""
        for new in dict.fromkeys(beside + others):
            yield before + new + after
            yield before + new + letter + after
            yield before + letter + new + after
        yield from (before + sign + letter + after for sign in SIGNS if before)
        yield before + letter.swapcase() + after
        if letter in HOMOGLYPHS:
            yield before + HOMOGLYPHS[letter] + after


def disguised(word: str) -> Iterator[str]:
    """As a name, an acronym, a name in code, a tag, with an accent: what a defence may leave alone for its looks."""
    yield word[0].upper() + word[1:]
    yield word.upper()
    yield word[:-1] + word[-1].upper()
    yield f"#{word}"
    vowel = next((place for place, letter in enumerate(word) if letter in ACCENTS), None)
    if vowel is not None:
        yield word[:vowel] + ACCENTS[word[vowel]] + word[vowel + 1:]


class WithJoins(Moves):
    """Two words written as one, besides what the transformations propose."""

    def candidates(self, problem: Problem, current: Words, among: Iterable[int] | None = None) -> Steps[list[Words]]:
        found = yield from super().candidates(problem, current, among)
        free = set(self.places(current))
        pairs = [current.joined(place) for place in self.places(current, among) if place + 1 in free
                 and current.text[current.spans[place][1]:current.spans[place + 1][0]] == " "]
        return found + (yield from self.allowed(problem, pairs, current))
