# SPDX-License-Identifier: Apache-2.0
"""Texts as a rewriting has them, word by word, before they become a batch: there words are hidden and exchanged."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dualmask.masking.budget import mask_budget
from dualmask.masking.insertion import insert_masks
from dualmask.seeds import scrambled, uniform
from dualmask.text.encoding import Batch, Encode, MaskPosition, characters
from dualmask.text.examples import Example, Text
from dualmask.text.mixtures import MixedSpelling
from dualmask.text.rewriting import HIDDEN, Rewriting
from dualmask.text.spelling import Numbers, Read, Spelling
from dualmask.text.tampering import exchanged

STRANGERS = 50  # words of other texts that may stand for one, as many as attacks try
REMEMBERED = 1 << 17  # words, and training texts, about which something is kept


class Memory:
    """What is known of texts and words under one numbering of words, which it never outlives."""

    def __init__(self, spelling: Spelling) -> None:
        self.spelling = spelling
        self.hidden = int(spelling.read([HIDDEN], exact=True)[0].words[0])  # the number of what the rewriting hides
        self.texts: dict[Text, Read] = {}  # as they are read
        self.candidates: dict[int, Numbers] = {}
        self.stays: dict[str, bool] = {}  # whether a word by itself is read as it is written

    def masked(self, words: Numbers, chosen: NDArray[np.bool_] | None = None) -> Numbers:
        """Masks where the rewriting hid a word, and at the chosen ones."""
        hidden = words == self.hidden if chosen is None else (words == self.hidden) | chosen[:len(words)]
        return np.where(hidden, Spelling.MASK, words)


class Swap(NamedTuple):
    """A word that may be exchanged, and the numbers of what may stand there instead."""

    row: int
    place: int
    numbers: Numbers


@dataclass(frozen=True, kw_only=True)
class Draft:
    """Texts as rows of word numbers, and how they are to be shown."""

    memory: Memory
    rows: Sequence[Numbers]
    boundaries: Sequence[int | None]  # where a pair's second text begins
    ended: Sequence[bool] = ()  # which rows end before their text does
    inserted: Tensor | None = None  # (rows,): which of them get masks after the first token
    rate: float = 0.0  # so many for each token
    mask_position: MaskPosition = "zero"

    @property
    def spelling(self) -> Spelling:
        return self.memory.spelling

    @property
    def longest(self) -> int:
        return max(map(len, self.rows), default=0)

    def readings(self) -> list[str]:
        """What is read of each text, in the letters that the tokenizer tells apart."""
        keys = [(row.tobytes(), end) for row, end in zip(self.rows, self.boundaries, strict=True)]
        known = {key: self._reading(row, key[1]) for key, row in dict(zip(keys, self.rows, strict=True)).items()}
        return [known[key] for key in keys]

    def _reading(self, row: Numbers, boundary: int | None) -> str:
        words = [self.spelling.word(number) for number in row.tolist()]
        parts = [words] if boundary is None else [words[:boundary], words[boundary:]]
        text = "\n".join(map(" ".join, parts))
        normaliser = self.spelling.encode.tokenizer.backend_tokenizer.normalizer
        return text if normaliser is None else str(normaliser.normalize_str(text))

    def exchanged(self, swaps: Sequence[Swap], numbers: Sequence[int]) -> Self:
        """With these words in the places of those."""
        rows = [row.copy() for row in self.rows]
        for swap, number in zip(swaps, numbers, strict=True):
            rows[swap.row][swap.place] = number
        return replace(self, rows=rows)

    def batch(self) -> Batch:
        batch, encode = self.spelling.batch(self.rows, self.boundaries), self.spelling.encode
        cut = torch.tensor(list(self.ended) or [False] * len(batch), dtype=torch.bool)
        batch = replace(batch, mask_position=self.mask_position, cut=cut if batch.cut is None else batch.cut | cut)
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
        self._memory: Memory | None = None

    def __getstate__(self) -> dict[str, object]:
        """A copy begins anew: a spelling gives its copy no numbers, and what is kept under them would be others'."""
        return {**vars(self), "_memory": None}

    def fit(self, examples: Sequence[Example]) -> None:
        """Learn words from training examples."""
        self.rewriting.fit(examples)
        self._memory = None

    def __call__(
        self, texts: Sequence[Text], hide: Tensor, seeds: Tensor, encode: Encode, *, keep: bool = False,
    ) -> Draft:
        """The texts as they are read, each word hidden with the chance that its row's number in `hide` says.

        keep: how they are read, since they will be asked for again, as in training.
        """
        memory = self._current(encode)
        known = self._known(texts, memory)
        if keep and len(memory.texts) < REMEMBERED:
            memory.texts |= known
        found = [known[text] for text in texts]
        chance = uniform(seeds, max((len(one.words) for one in found), default=0)).numpy()
        rows = [memory.masked(one.words, row < rate)
                for one, row, rate in zip(found, chance, hide.tolist(), strict=True)]
        return Draft(memory=memory, rows=rows, boundaries=[one.boundary for one in found],
                     ended=[one.ended for one in found])

    def _current(self, encode: Encode) -> Memory:
        """Threads may come at once, and each goes on with what it got: numbers hold for the spelling that gave them."""
        memory = self._memory
        spelling = self._kind.current(memory.spelling if memory else None, encode)
        if memory is None or memory.spelling is not spelling:
            self._memory = memory = Memory(spelling)
        return memory

    def _known(self, texts: Sequence[Text], memory: Memory) -> dict[Text, Read]:
        found = {text: read for text in texts if (read := memory.texts.get(text))}
        new = [text for text in dict.fromkeys(texts) if text not in found]
        reached = [memory.spelling.encode.reachable(text) for text in new]
        seen = [self.rewriting(text) for text in reached]
        fresh = [replace(one, ended=characters(short) < characters(text)) for one, short, text
                 in zip(memory.spelling.read(seen, exact=True), reached, new, strict=True)]
        return found | dict(zip(new, fresh, strict=True))

    def candidates(self, number: int, memory: Memory) -> Numbers:
        """The synonyms of a word that is read, each once; a mask among them, if that is how one is read."""
        known = memory.candidates.get(number)
        if known is None:
            word = memory.spelling.word(number)
            read = dict.fromkeys(self._read(other, near, memory) for other, near in exchanged(word, self.sources))
            single = memory.spelling.read([text for text in read if len(text.split()) == 1], exact=True)
            known = memory.masked(np.array([one.words[0] for one in single], dtype=np.int64))
            if len(memory.candidates) >= REMEMBERED:
                memory.candidates.clear()
            memory.candidates[number] = known
        return known

    def _read(self, word: str, core: str, memory: Memory) -> str:
        """A word as it is read; as it is written if its letters by themselves are, which is right but for very few."""
        stays = memory.stays.get(core)
        if stays is None:
            stays = memory.stays[core] = self.rewriting(core) == core
        return word if stays else str(self.rewriting(word)).strip()

    def swaps(self, draft: Draft, rates: Tensor, seeds: Tensor, *, strange: float = 0.0) -> list[Swap]:
        """Words that have synonyms, each with the chance that its row's rate says; no masks.

        strange: the share of the words for which, besides synonyms, words of the other texts may stand.
        """
        chosen = (uniform(seeds, draft.longest) < rates[:, None]).numpy()
        foreign = chosen & (uniform(other := scrambled(seeds), draft.longest) < strange).numpy()
        strangers = self._strangers(draft, other) if foreign.any() else []
        found = []
        for row, read in enumerate(draft.rows):
            for place in np.flatnonzero(chosen[row][:len(read)] & (read != Spelling.MASK)).tolist():
                numbers = self.candidates(int(read[place]), draft.memory)
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

    def shuffled(self, draft: Draft, rates: Tensor, seeded: Callable[[Sequence[str]], Tensor]) -> Draft:
        """Each word exchanged for one of its synonyms, with the chance that its row's rate says.

        seeded: gives seeds to what is read: an error that is put right must not be another throw of the dice.
        """
        if not bool(rates.any()):
            return draft
        seeds = seeded(draft.readings())
        swaps, which = self.swaps(draft, rates, seeds), uniform(scrambled(seeds), draft.longest).numpy()
        return draft.exchanged(swaps, [int(swap.numbers[int(which[swap.row, swap.place] * len(swap.numbers))])
                                       for swap in swaps])
