# SPDX-License-Identifier: Apache-2.0
"""Texts as a rewriting has them, word by word, before they become a batch: there words are hidden and exchanged."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dualmask.masking.budget import mask_budget
from dualmask.masking.insertion import insert_masks
from dualmask.seeds import scrambled, uniform
from dualmask.text.encoding import Batch, Encode, MaskPosition
from dualmask.text.examples import Example, Text
from dualmask.text.mixtures import MixedSpelling
from dualmask.text.rewriting import HIDDEN, Rewriting, parts
from dualmask.text.spelling import Numbers, Read, Spelling
from dualmask.text.tampering import exchanged

STRANGERS = 50  # words of other texts that may stand for one, as many as attacks try
REMEMBERED = 1 << 17  # words, and training texts, about which something is kept


class Words(NamedTuple):
    """A text as it is read, and the words that it is written with; none where they don't correspond."""

    read: Read
    written: Sequence[str]


class Swap(NamedTuple):
    """A word that may be exchanged, and the numbers of what may stand there instead."""

    row: int
    place: int
    numbers: Numbers


@dataclass(frozen=True, kw_only=True)
class Draft:
    """Texts as rows of word numbers, and how they are to be shown."""

    spelling: Spelling
    rows: Sequence[Numbers]
    boundaries: Sequence[int | None]  # where a pair's second text begins
    written: Sequence[Sequence[str]]  # the text's own words, one for each of the row; none where they don't correspond
    inserted: Tensor | None = None  # (rows,): which of them get masks after the first token
    rate: float = 0.0  # so many for each token
    mask_position: MaskPosition = "zero"

    @property
    def longest(self) -> int:
        return max(map(len, self.rows), default=0)

    def exchanged(self, swaps: Sequence[Swap], numbers: Sequence[int]) -> Self:
        """With these words in the places of those."""
        rows = [row.copy() for row in self.rows]
        for swap, number in zip(swaps, numbers, strict=True):
            rows[swap.row][swap.place] = number
        return replace(self, rows=rows)

    def batch(self) -> Batch:
        batch, encode = self.spelling.batch(self.rows, self.boundaries), self.spelling.encode
        batch = replace(batch, mask_position=self.mask_position)
        if self.inserted is None:
            return batch
        counts = mask_budget(batch.lengths, self.rate, rounding="ceil") * self.inserted
        return insert_masks(batch, counts, encode.mask_id, pad_id=encode.pad_id, ordinary="kept")


class Drafts:
    """Makes drafts of texts, and knows what an attacker may put in the place of each word."""

    def __init__(self, rewriting: Rewriting, *, mixed: bool, sources: tuple[str, ...] = ("shipped",)) -> None:
        """`mixed`: words are spelled as mixtures. `sources`: of synonyms."""
        self.rewriting, self.sources = rewriting, sources
        self._kind = MixedSpelling if mixed else Spelling
        self._spelling: Spelling | None = None
        self._hidden = 0  # the number of what the rewriting hides
        self._forget()

    def fit(self, examples: Sequence[Example]) -> None:
        """Learn words from training examples."""
        self.rewriting.fit(examples)
        self._forget()

    def _forget(self) -> None:
        self._texts: dict[Text, Words] = {}
        self._candidates: dict[str, Numbers] = {}
        self._stays: dict[str, bool] = {}  # whether a word by itself is read as it is written

    def __call__(
        self, texts: Sequence[Text], hide: Tensor, seeds: Tensor, encode: Encode, *, keep: bool = False,
    ) -> Draft:
        """The texts as they are read, each word hidden with the chance that its row's number in `hide` says.

        keep: how they are read, since they will be asked for again, as in training.
        """
        current = self._kind.current(self._spelling, encode)
        if current is not self._spelling:
            self._spelling = current
            self._hidden = int(current.read([HIDDEN])[0].words[0])
            self._forget()
        known = self._known(texts, current)
        if keep and len(self._texts) < REMEMBERED:
            self._texts |= known
        found = [known[text] for text in texts]
        chance = uniform(seeds, max((len(one.read.words) for one in found), default=0)).numpy()
        rows = [self._masked(one.read.words, row < rate)
                for one, row, rate in zip(found, chance, hide.tolist(), strict=True)]
        return Draft(spelling=current, rows=rows, boundaries=[one.read.boundary for one in found],
                     written=[one.written for one in found])

    def _known(self, texts: Sequence[Text], spelling: Spelling) -> dict[Text, Words]:
        new = [text for text in dict.fromkeys(texts) if text not in self._texts]
        found = {text: self._texts[text] for text in texts if text in self._texts}
        for text, read in zip(new, spelling.read([self.rewriting(text) for text in new]), strict=True):
            written = [word for part in parts(text) for word in part.split()]
            found[text] = Words(read, written if len(written) == len(read.words) else ())
        return found

    def _masked(self, words: Numbers, chosen: NDArray[np.bool_] | None = None) -> Numbers:
        """Masks where the rewriting hid a word, and at the chosen ones."""
        hidden = words == self._hidden if chosen is None else (words == self._hidden) | chosen[:len(words)]
        return np.where(hidden, Spelling.MASK, words)

    def candidates(self, word: str) -> Numbers:
        """The synonyms of a word as they will be read, each once; a mask among them, if that is how one is read."""
        if word not in self._candidates:
            assert self._spelling is not None
            read = dict.fromkeys(self._read(other, near) for other, near in exchanged(word, self.sources))
            single = self._spelling.read([text for text in read if len(text.split()) == 1])
            if len(self._candidates) >= REMEMBERED:
                self._candidates.clear()
            self._candidates[word] = self._masked(np.array([one.words[0] for one in single], dtype=np.int64))
        return self._candidates[word]

    def _read(self, word: str, core: str) -> str:
        """A word as it is read; as it is written if its letters by themselves are, which is right but for very few."""
        if core not in self._stays:
            self._stays[core] = self.rewriting(core) == core
        return word if self._stays[core] else str(self.rewriting(word)).strip()

    def swaps(self, draft: Draft, rates: Tensor, seeds: Tensor, *, strange: float = 0.0) -> list[Swap]:
        """Words that have synonyms, each with the chance that its row's rate says; no masks.

        strange: the share of the words for which, besides synonyms, words of the other texts may stand.
        """
        chosen = (uniform(seeds, draft.longest) < rates[:, None]).numpy()
        foreign = chosen & (uniform(other := scrambled(seeds), draft.longest) < strange).numpy()
        strangers = self._strangers(draft, other) if foreign.any() else []
        found = []
        for row, (words, read) in enumerate(zip(draft.written, draft.rows, strict=True)):
            wanted = chosen[row][:len(words)] & (read[:len(words)] != Spelling.MASK)
            for place in np.flatnonzero(wanted).tolist():
                numbers = self.candidates(words[place])
                numbers = np.append(numbers, strangers[row]) if foreign[row, place] else numbers
                if len(numbers):
                    found.append(Swap(row, place, numbers))
        return found

    @staticmethod
    def _strangers(draft: Draft, seeds: Tensor) -> list[Numbers]:
        """For each text words of the whole draft, the frequent ones more often; no masks."""
        words = np.concatenate(draft.rows)
        words = words[words != Spelling.MASK]
        places = (uniform(scrambled(seeds), STRANGERS).numpy() * len(words)).astype(np.int64)
        return [np.unique(words[row]) for row in places]

    def shuffled(self, draft: Draft, rates: Tensor, seeds: Tensor) -> Draft:
        """Each word exchanged for one of its synonyms, with the chance that its row's rate says."""
        if not bool(rates.any()):
            return draft
        swaps, which = self.swaps(draft, rates, seeds), uniform(scrambled(seeds), draft.longest).numpy()
        return draft.exchanged(swaps, [int(swap.numbers[int(which[swap.row, swap.place] * len(swap.numbers))])
                                       for swap in swaps])
