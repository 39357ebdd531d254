# SPDX-License-Identifier: Apache-2.0
"""Sub-word pieces: which belong to a word, and which strings of pieces make one."""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice

from dualmask.text.words import word_count

BYTE_LEVEL = "\u0120"
PIECE_MARKS = BYTE_LEVEL + "\u2581"  # what byte-level and sentence-piece vocabularies put in front of a word
TRIED = 1 << 16  # combinations looked at for one word: many pieces with few sensible ones would take for ever


def piece_marks(tokens: Sequence[str]) -> tuple[str, str]:
    """How a vocabulary marks a word's beginning, or else a word's continuation."""
    for mark in PIECE_MARKS:
        if any(token.startswith(mark) and len(token) > 1 for token in tokens):
            return mark, ""
    return "", "##"


def tokens_of(starts: Sequence[int], ends: Sequence[int], start: int, end: int) -> list[int]:
    """The tokens that share characters with a span; some tokenizers count the space before a word to its token."""
    return [row for row, (first, last) in enumerate(zip(starts, ends, strict=True)) if last > start and first < end]


class Pieces:
    """A vocabulary's tokens, and the words that rows of likely tokens can make."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = list(tokens)
        self.begins, self.continues = piece_marks(self.tokens)

    def whole_words(self, ids: Sequence[int], *, first: bool) -> list[str]:
        """Those tokens that are a word by themselves; at the very beginning of a text words may lack their mark."""
        tokens = [self.tokens[token] for token in ids]
        if self.begins:
            found = [token.strip(self.begins) for token in tokens if first or token.startswith(self.begins)]
        else:
            found = [token for token in tokens if self.continues not in token]
        return [word for word in found if word_count(word) == 1]

    def in_order(self, rows: Sequence[Sequence[int]], most: int) -> list[str]:
        """The first words met when the last row's tokens vary fastest."""
        return self._chosen(self._joined(self.parts(rows), ""), most)

    def likeliest(self, rows: Sequence[Sequence[int]], losses: Sequence[Sequence[float]], most: int) -> list[str]:
        """The words with the smallest sums of losses."""
        parts = self.parts(rows)
        chosen = ([row[rank] for row, rank in zip(parts, ranks, strict=True)] for ranks in likeliest(losses))
        return self._chosen(map(self._single, chosen), most)

    def parts(self, rows: Sequence[Sequence[int]]) -> list[list[str | None]]:
        """What each token adds to a word; None for one that begins a word where none may begin."""
        if not self.begins:
            return [[self.tokens[token].replace(self.continues, "") for token in row] for row in rows]
        return [[token.strip(self.begins) if not place or not token.startswith(self.begins) else None
                 for token in (self.tokens[number] for number in row)] for place, row in enumerate(rows)]

    def _single(self, parts: Sequence[str | None]) -> str | None:
        word = "".join(part for part in parts if part is not None)
        return word if None not in parts and word_count(word) == 1 else None

    def _chosen(self, words: Iterator[str | None], most: int) -> list[str]:
        return list(islice((word for word in islice(words, TRIED) if word is not None), most))

    def _joined(self, parts: Sequence[Sequence[str | None]], before: str) -> Iterator[str | None]:
        """One string for each combination, None where it is no single word; a second word ends a branch early."""
        if not parts:
            yield before if word_count(before) == 1 else None
            return
        for part in parts[0]:
            if part is None or word_count(before + part) > 1:
                yield None
            else:
                yield from self._joined(parts[1:], before + part)


def likeliest(losses: Sequence[Sequence[float]]) -> Iterator[tuple[int, ...]]:
    """Combinations of one rank from each row, smallest sum of losses first, without listing them all.

    Each row rises, so the combinations after (r1, r2, ...) are found by raising one rank by one.
    """
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
