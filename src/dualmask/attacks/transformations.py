# SPDX-License-Identifier: Apache-2.0
"""What attacks write in a word's place: typing errors, look-alikes, synonyms, a language model's guesses."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal

from dualmask.attacks.moves import Proposals
from dualmask.attacks.oracles import Filled
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
        return [in_case_of(near, word) for near, _ in self.table.neighbours(word.lower(), self.most)]


class WordNetSynonyms(WordByWord):
    """Single words that share a sense with the word: as any part of speech or, given a tagger, as its own."""

    def __init__(self, wordnet: "WordNet", *, tagger: "Tagger | None" = None) -> None:
        self.wordnet, self.tagger = wordnet, tagger

    def __call__(self, problem: Problem, current: Words, places: Sequence[int]) -> Proposals:
        if self.tagger is None:
            return super().__call__(problem, current, places)
        tags = self.tagger(current.words)
        return [(place, name) for place in places if (part := PARTS.get(tags[place])) is not None
                for name in self._single(current[place], self.wordnet.synonyms_of(current[place], part))]

    def replacements(self, word: str, streams: Streams) -> list[str]:
        return self._single(word, self.wordnet.synonyms(word))

    def _single(self, word: str, names: Iterable[str]) -> list[str]:
        return [name for name in names if name != word and "_" not in name and word_count(name) == 1]


Pieces = Literal["first", "best"]


class LanguageModelWords:
    """What a masked language model, reading the unmasked text, would write instead.

    For a word of several pieces `most` combinations: with "first" those met first when the last piece varies fastest,
    with "best" those that the model finds likeliest.
    """

    def __init__(
        self, tokenizer: "PreTrainedTokenizerBase", *, most: int, pieces: Pieces = "first",
        refused: frozenset[str] = frozenset(), keep_case: bool = False,
    ) -> None:
        self.tokens = [str(token) for token in tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))]
        self.begins, self.continues = piece_marks(self.tokens)
        self.most, self.pieces, self.refused, self.keep_case = most, pieces, refused, keep_case

    def __call__(self, problem: Problem, current: Words, places: Sequence[int]) -> Steps[Proposals]:
        filled: Filled = (yield Question("language model", [current.text]))[0]
        found: Proposals = []
        for place in places:
            for new in self.replacements(filled, *current.spans[place], first=place == 0):
                if new.lower() not in self.refused:
                    found.append((place, in_case_of(new, current[place]) if self.keep_case else new))
        return found

    def replacements(self, filled: Filled, start: int, end: int, *, first: bool) -> list[str]:
        rows = [row for row, begin in enumerate(filled.starts) if start <= begin < end]
        if not rows:  # cut off
            return []
        if len(rows) == 1:
            tokens = [self.tokens[token] for token in filled.ids[rows[0], :self.most].tolist()]
            return [self.plain(token) for token in tokens if self.whole(token, first) and word_count(token) == 1]
        ids = [filled.ids[row, :self.most].tolist() for row in rows]
        if self.pieces == "first":
            return list(islice(self._in_order(ids, ""), self.most))
        losses = [filled.losses[row, :self.most].tolist() for row in rows]
        words = (self._joined(ids, ranks) for ranks in likeliest(losses))
        return list(islice((word for word in words if word_count(word) == 1), self.most))

    def whole(self, token: str, first: bool) -> bool:
        """Whether a token stands for itself and does not continue a word."""
        if self.continues:
            return not token.startswith(self.continues)
        return first or not self.begins or token.startswith(self.begins)

    def plain(self, token: str) -> str:
        return token.replace(self.continues, "") if self.continues else token.strip(self.begins or None)

    def _joined(self, ids: Sequence[Sequence[int]], ranks: Sequence[int]) -> str:
        return self.plain("".join(self.tokens[row[rank]] for row, rank in zip(ids, ranks, strict=True)))

    def _in_order(self, ids: Sequence[Sequence[int]], before: str) -> Iterator[str]:
        """One word out of each row's tokens, the last row's varying fastest; a second word ends a branch early."""
        if not ids:
            if word_count(before) == 1:
                yield before
            return
        for token in ids[0]:
            joined = self.plain(before + self.tokens[token])
            if word_count(joined) <= 1:
                yield from self._in_order(ids[1:], joined)


def piece_marks(tokens: Sequence[str]) -> tuple[str, str]:
    """How a vocabulary marks a word's beginning, or a word's continuation."""
    for mark in ("\u0120", "\u2581"):
        if any(token.startswith(mark) and len(token) > 1 for token in tokens):
            return mark, ""
    return "", "##"


def likeliest(losses: Sequence[Sequence[float]]) -> Iterator[tuple[int, ...]]:
    """Combinations of one rank from each row, smallest sum of losses first, without listing them all.

    Each row rises, so the combinations after (r1, r2, ...) are found by raising one rank by one.
    """
    from heapq import heappop, heappush

    first = (0,) * len(losses)
    heap, seen = [(sum(row[0] for row in losses), first)], {first}
    while heap:
        total, ranks = heappop(heap)
        yield ranks
        for place, rank in enumerate(ranks):
            after = (*ranks[:place], rank + 1, *ranks[place + 1:])
            if rank + 1 < len(losses[place]) and after not in seen:
                seen.add(after)
                heappush(heap, (total - losses[place][rank] + losses[place][rank + 1], after))
