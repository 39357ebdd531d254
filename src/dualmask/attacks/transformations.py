# SPDX-License-Identifier: Apache-2.0
"""What attacks write in a word's place: typing errors, look-alikes, synonyms, a language model's guesses."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from dualmask.attacks.moves import Proposals
from dualmask.attacks.oracles import Filled
from dualmask.attacks.pieces import Pieces, tokens_of
from dualmask.attacks.problem import Problem, Question, Steps, Streams
from dualmask.text.letters import HOMOGLYPHS, LETTERS, keyboard_neighbours
from dualmask.text.words import Words, in_case_of, word_count

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from dualmask.text.synonyms import Synonyms
    from dualmask.text.tagging import Tagger
    from dualmask.text.wordnet import Part, WordNet

PARTS: "dict[str, Part]" = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}


class WordByWord(ABC):
    """A transformation that looks at nothing but the word."""

    def __call__(self, problem: Problem, current: Words, places: Sequence[int]) -> Proposals:
        return [(place, new) for place in places for new in self.replacements(current[place], problem.streams)]

    @abstractmethod
    def replacements(self, word: str, streams: Streams) -> Iterable[str]: ...


class LetterEdit(WordByWord):
    """One letter changed at `draws` random places, or at every place (0); `inner` spares the first and last letter."""

    Edit = Callable[[str, int, Streams], str]

    def __init__(self, edit: Edit, *, draws: int = 1, inner: bool = False) -> None:
        self.edit, self.draws, self.inner = edit, draws, inner

    def replacements(self, word: str, streams: Streams) -> Iterator[str]:
        start, end = int(self.inner), len(word) - self.inner - (self.edit is swapped)
        if len(word) <= 1 or start >= end:
            return
        places = (streams.place(start, end) for _ in range(self.draws)) if self.draws else iter(range(start, end))
        for place in places:
            yield self.edit(word, place, streams)


def swapped(word: str, place: int, streams: Streams) -> str:
    """A letter and the next exchanged."""
    return word[:place] + word[place + 1] + word[place] + word[place + 2:]


def substituted(word: str, place: int, streams: Streams) -> str:
    return word[:place] + streams.letter(LETTERS) + word[place + 1:]


def deleted(word: str, place: int, streams: Streams) -> str:
    return word[:place] + word[place + 1:]


def inserted(word: str, place: int, streams: Streams) -> str:
    return word[:place] + streams.letter(LETTERS) + word[place:]


def spaced(word: str, place: int, streams: Streams) -> str:
    """A space inside the word, which makes two of it."""
    return word[:place] + streams.letter(" ") + word[place:]


def mistyped(word: str, place: int, streams: Streams) -> str:
    """A letter replaced by one beside it on the keyboard; the word itself where there is none."""
    beside = keyboard_neighbours(word[place])
    return word[:place] + streams.letter(beside) + word[place + 1:] if beside else word


class LookAlikes(WordByWord):
    """Each letter in turn replaced by one that looks the same."""

    def replacements(self, word: str, streams: Streams) -> Iterator[str]:
        for place, letter in enumerate(word):
            if letter in HOMOGLYPHS:
                yield word[:place] + HOMOGLYPHS[letter] + word[place + 1:]


class Neighbours(WordByWord):
    """The nearest words in a table of synonyms, in the case of the replaced word."""

    def __init__(self, table: "Synonyms", *, most: int) -> None:
        self.table, self.most = table, most

    def replacements(self, word: str, streams: Streams) -> list[str]:
        return [near for near, _ in near_words(self.table, word, most=self.most)]


def near_words(table: "Synonyms", word: str, *, most: int = 50) -> list[tuple[str, float]]:
    """Neighbours in the case of the word, with their cosines; entries of a user's table that are no single word go."""
    return [(in_case_of(near, word), cosine) for near, cosine in table.neighbours(word.lower(), most)
            if word_count(near) == 1]


class WordNetSynonyms(WordByWord):
    """Single words that share a sense with the word: as any part of speech or, given a tagger, as its own."""

    def __init__(self, wordnet: "WordNet", *, tagger: "Tagger | None" = None) -> None:
        self.wordnet, self.tagger = wordnet, tagger
        self._tagged: dict[str, list[str]] = {}  # texts whose words are being asked for

    def __call__(self, problem: Problem, current: Words, places: Sequence[int]) -> Proposals:
        if self.tagger is None:
            return super().__call__(problem, current, places)
        if current.text not in self._tagged:
            if len(self._tagged) >= 4096:
                self._tagged.clear()
            self._tagged[current.text] = self.tagger(current.words)
        tags = self._tagged[current.text]
        return [(place, name) for place in places if (part := PARTS.get(tags[place])) is not None
                for name in self._single(current[place], self.wordnet.synonyms_of(current[place], part))]

    def replacements(self, word: str, streams: Streams) -> list[str]:
        return self._single(word, self.wordnet.synonyms(word))

    def _single(self, word: str, names: Iterable[str]) -> list[str]:
        return [name for name in names if name != word and "_" not in name and word_count(name) == 1]


class LanguageModelWords:
    """What a masked language model, reading the unmasked text, would write instead.

    For a word of several pieces `most` combinations: those that come first when the last piece varies fastest or, with
    `best`, those that the model finds likeliest.
    """

    def __init__(
        self, tokenizer: "PreTrainedTokenizerBase", *, most: int, best: bool = False,
        refused: frozenset[str] = frozenset(), keep_case: bool = False,
    ) -> None:
        tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        self.pieces = Pieces([str(token) for token in tokens])
        self.most, self.best, self.refused, self.keep_case = most, best, refused, keep_case

    def __call__(self, problem: Problem, current: Words, places: Sequence[int]) -> Steps[Proposals]:
        filled: Filled = (yield Question("language model", [current.text]))[0]
        found: Proposals = []
        for place in places:
            for new in self.replacements(filled, *current.spans[place], first=place == 0):
                if new.lower() not in self.refused:
                    found.append((place, in_case_of(new, current[place]) if self.keep_case else new))
        return found

    def replacements(self, filled: Filled, start: int, end: int, *, first: bool) -> list[str]:
        rows = tokens_of(filled.starts, filled.ends, start, end)
        if not rows:  # cut off
            return []
        ids = [filled.ids[row, :self.most].tolist() for row in rows]
        if len(rows) == 1:
            return self.pieces.whole_words(ids[0], first=first)
        if self.best:
            losses = [filled.losses[row, :self.most].tolist() for row in rows]
            return self.pieces.likeliest(ids, losses, self.most)
        return self.pieces.in_order(ids, self.most)
