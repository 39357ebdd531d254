# SPDX-License-Identifier: Apache-2.0
"""Texts as white-space words and words as pieces, so that thousands of views of a text cost no tokenizer."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from dualmask.errors import DataError
from dualmask.text.encoding import Batch, Encode, readable
from dualmask.text.examples import Text
from dualmask.text.invisible import visible

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Numbers: TypeAlias = NDArray[np.int64]
MOST_LETTERS = 1 << 23  # of remembered words, one more for each: about a million words, a few hundred MB


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """A text as the numbers of its words, not to be written to; a pair's second text begins at `boundary`."""

    words: Numbers
    boundary: int | None
    ended: bool = False  # before the text does: its further words were left out


class Spelling:
    """The pieces of words for one tokenizer; a word's pieces never depend on its neighbours.

    Words are what white space parts, whatever white space it is (for Python: BERT drops some, such as form feeds),
    and each is written as inside a text, behind one space: byte-level tokenizers see the first word of a text like the
    others. Words without pieces (a zero-width character) are none. Numbers of words hold for the object that gave them,
    as long as it lives; to bound its memory, take `Spelling.current` before each piece of work.
    """

    MASK: ClassVar[int] = 0  # the word that is one [MASK]
    NOTHING: ClassVar[int] = 1  # the word that is no token at all

    def __init__(self, encode: Encode) -> None:
        # Not a prepared one, whose texts would be held as long as this
        self.encode = Encode(encode.tokenizer, max_length=encode.max_length, literal=encode.literal)
        self._core = deepcopy(encode.tokenizer.backend_tokenizer)  # others cut and pad with the tokenizer's own
        self._core.encode_special_tokens = encode.literal
        self._core.no_padding()
        self._core.no_truncation()
        self._lock = Lock()  # several threads may ask one classifier
        self._numbers = {"": self.NOTHING}
        self._words = [str(encode.tokenizer.mask_token), ""]
        self._letters = 0
        self._pieces, self._ends = Column([encode.mask_id]), Column([0, 1, 1])  # word n is pieces[ends[n]:ends[n + 1]]
        self._frames = {pair: frame(self._core, pair=pair) for pair in (False, True)}

    @classmethod
    def current(cls, known: "Spelling | None", encode: Encode) -> Self:
        """`known` while it is for such an `encode` and not too large, else a new one, whose numbers are others."""
        if type(known) is cls and known._letters < MOST_LETTERS and known.encode.tokenizer is encode.tokenizer and (
                known.encode.literal, known.encode.max_length) == (encode.literal, encode.max_length):
            return known
        return cls(encode)

    def __reduce__(self) -> tuple[type["Spelling"], tuple[Encode]]:
        """A copy begins anew: what is remembered is quickly learned, and a lock can't be copied."""
        return type(self), (self.encode,)

    def word(self, number: int) -> str:
        return self._words[number]

    def read(self, texts: Sequence[Text], *, exact: bool = False) -> list[Read]:
        """Each text's words that have pieces, invisible characters left out; equal texts share one answer.

        exact: all words, as they are, for who has gone through the texts already; one without pieces is a place in
        its row without a token.
        """
        parts: dict[Text, list[list[str]]] = {}
        for text in dict.fromkeys(texts):
            clean = readable(text) if exact else visible(readable(text))
            parts[text] = [part.split() for part in ([clean] if isinstance(clean, str) else clean)]
        with self._lock:
            self._learn(word for both in parts.values() for words in both for word in words)
            found = {text: self._read(both, exact=exact) for text, both in parts.items()}
        return [found[text] for text in texts]

    def _read(self, parts: list[list[str]], *, exact: bool) -> Read:
        rows = [np.array([self._numbers[word] for word in part], dtype=np.int64) for part in parts]
        if not exact:
            ends = self._ends.values
            rows = [row[ends[row + 1] > ends[row]] for row in rows]
        words = np.concatenate(rows)
        words.flags.writeable = False  # several rows may share it
        return Read(words, len(rows[0]) if len(parts) > 1 else None)

    def _learn(self, words: Iterable[str]) -> None:
        """Remember the pieces of those words that are new."""
        new = list(dict.fromkeys(word for word in words if word not in self._numbers))
        if not new:
            return
        rows = self._spelled(new)
        self._numbers |= zip(new, range(len(self._words), len(self._words) + len(new)), strict=True)
        self._words += new
        self._letters += sum(map(len, new)) + len(new)
        self._ends.extend(len(self._pieces) + np.cumsum([len(row) for row in rows]))
        self._pieces.extend(np.fromiter(chain.from_iterable(rows), dtype=np.int64))

    def _spelled(self, words: Sequence[str]) -> list[list[int]]:
        """The pieces of each word."""
        return self._core_ids([f" {word}" for word in words])

    def _core_ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [one.ids for one in self._core.encode_batch_fast(list(texts), add_special_tokens=False)]

    def pieces(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """The pieces of words by their numbers, one after the other, and whose each is."""
        starts = self._ends.values[numbers]
        owners, steps = ragged(self._ends.values[numbers + 1] - starts)
        return self._pieces.values[starts[owners] + steps], owners

    def batch(self, rows: Sequence[Numbers], boundaries: Sequence[int | None]) -> Batch:
        """Rows of word numbers as a padded batch with special tokens, cut as `Encode` cuts.

        `Batch.words` is the place of a token's word in its row.
        """
        pairs = {boundary is not None for boundary in boundaries}
        if len(pairs) > 1:
            raise DataError("single texts and text pairs are mixed in one batch; give all of one kind.")
        made = self._frames[True in pairs]
        counts = words_of_parts(rows, boundaries)  # (rows, 2), as everything about parts
        flat = np.concatenate([*rows, np.zeros(0, dtype=np.int64)])
        starts = self._ends.values[flat]
        sizes = self._ends.values[flat + 1] - starts
        kept, shown = cut(sizes, counts, room=max(0, self.encode.max_length - len(made.ids)))
        places = ragged(counts.sum(axis=1))[1]
        owners, steps = ragged(shown)
        batch = laid_out(made, kept, self.encode.pad_id, Tokens(
            self._pieces.values[starts[owners] + steps], places[owners], flat[owners] == self.MASK))
        rows_of = np.repeat(np.arange(len(rows)), counts.sum(axis=1))
        whole = np.bincount(rows_of, weights=sizes, minlength=len(rows))
        return replace(batch, cut=torch.from_numpy(kept.sum(axis=1) < whole))


class Column:
    """Whole numbers that are only ever added to; the room doubles when it runs out."""

    def __init__(self, first: Sequence[int]) -> None:
        self.values: Numbers = np.array(first, dtype=np.int64)  # more than `len(self)`
        self._size = len(first)

    def __len__(self) -> int:
        return self._size

    def extend(self, more: Numbers) -> None:
        size = self._size + len(more)
        if size > len(self.values):
            grown = np.zeros(max(size, 2 * len(self.values)), dtype=np.int64)
            grown[:self._size] = self.values[:self._size]
            self.values = grown
        self.values[self._size:size] = more
        self._size = size


class Frame(NamedTuple):
    """The special tokens around a text or a pair: `cuts` of them before the first text, before the second."""

    ids: Numbers
    kinds: Numbers  # their token types
    cuts: tuple[int, int]
    text_kinds: tuple[int, int]


def frame(core: "Tokenizer", *, pair: bool) -> Frame:
    """What the tokenizer puts around one-letter texts."""
    found = core.encode("a", "a" if pair else None)
    parts = [-1 if part is None else part for part in found.sequence_ids]  # -1 special, 0 first text, 1 second
    special = np.array(parts) < 0
    first, second = (parts.index(part) if part in parts else len(parts) for part in (0, 1))
    return Frame(
        ids=np.array(found.ids)[special], kinds=np.array(found.type_ids)[special],
        cuts=(int(special[:first].sum()), int(special[:second].sum())),
        text_kinds=(found.type_ids[first], found.type_ids[second] if pair else 0))


def words_of_parts(rows: Sequence[Numbers], boundaries: Sequence[int | None]) -> Numbers:
    """How many words the first and the second text of each row have, (rows, 2)."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    firsts = np.array([length if boundary is None else boundary
                       for length, boundary in zip(lengths.tolist(), boundaries, strict=True)], dtype=np.int64)
    if (firsts < 0).any() or (firsts > lengths).any():
        raise DataError("the second text of a pair begins outside its row; give a boundary from 0 to the row's length.")
    return np.stack([firsts, lengths - firsts], axis=1)


def cut(sizes: Numbers, counts: Numbers, *, room: int) -> tuple[Numbers, Numbers]:
    """Tokens kept of each part, (rows, 2), and of each word, so that at most `room` stand in a row.

    Tails go. Of a pair the longer text loses first; where both are longer than half the room they share it, and the
    longer one (the second, if equal) gets the odd token: the rule of the tokenizers library.
    """
    tokens = np.concatenate([[0], np.cumsum(sizes)])
    edges = np.concatenate([[0], np.cumsum(counts)])  # words before each part
    parts = np.diff(tokens[edges]).reshape(counts.shape)
    shorter = np.minimum(parts.min(axis=1), room // 2)
    longer = np.minimum(parts.max(axis=1), room - shorter)
    swapped = parts[:, 0] > parts[:, 1]
    kept = np.stack([np.where(swapped, longer, shorter), np.where(swapped, shorter, longer)], axis=1)
    before = tokens[:-1] - np.repeat(tokens[edges[:-1]], counts.ravel())  # tokens before a word in its part
    return kept, np.clip(np.repeat(kept.ravel(), counts.ravel()) - before, 0, sizes)


def ragged(sizes: Numbers) -> tuple[Numbers, Numbers]:
    """Ranges of these sizes, one after the other: whose each step is, and its number from 0."""
    owners = np.repeat(np.arange(len(sizes)), sizes)
    return owners, np.arange(len(owners)) - (np.cumsum(sizes) - sizes)[owners]


class Tokens(NamedTuple):
    """All rows' text tokens, one after the other."""

    ids: Numbers
    places: Numbers  # of their words
    masks: NDArray[np.bool_]


def laid_out(made: Frame, kept: Numbers, pad_id: int, tokens: Tokens) -> Batch:
    """The tokens between their special ones, padded; nothing by torch, whose threads get in each other's way."""
    lengths = kept.sum(axis=1) + len(made.ids)
    shape = len(kept), int(lengths.max(initial=0))
    column = np.arange(shape[1])
    second = (kept[:, 0] + made.cuts[1])[:, None]  # where the second text begins
    in_first = (column >= made.cuts[0]) & (column < made.cuts[0] + kept[:, :1])
    in_second = (column >= second) & (column < second + kept[:, 1:])
    attended, body = column < lengths[:, None], in_first | in_second
    ids, kinds, words = np.full(shape, pad_id), np.zeros(shape, dtype=np.int64), np.full(shape, -1)
    masks = np.zeros(shape, dtype=bool)
    ids[body], words[body], masks[body] = tokens
    special = attended & ~body
    ids[special], kinds[special] = np.tile(made.ids, shape[0]), np.tile(made.kinds, shape[0])
    kinds[in_first], kinds[in_second] = made.text_kinds
    return Batch(
        input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(attended.astype(np.int64)),
        token_type_ids=torch.from_numpy(kinds), positions=torch.arange(shape[1]).expand(shape),
        body=torch.from_numpy(body), words=torch.from_numpy(words), masks=torch.from_numpy(masks))
