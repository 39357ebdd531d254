# SPDX-License-Identifier: Apache-2.0
"""Words restored, exchanged for a common one, or masked, before one pass; trained on the same."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from dualmask.cards import Preset
from dualmask.defences.base import Family, Noise
from dualmask.defences.voting import Voting, VotingOptions
from dualmask.masking.budget import mask_budget
from dualmask.masking.insertion import insert_masks
from dualmask.models.encoders import check_mask_position
from dualmask.options import check_shares
from dualmask.seeds import uniform
from dualmask.text.clusters import Clusters
from dualmask.text.encoding import Batch, Encode, MaskPosition
from dualmask.text.examples import Example, Text
from dualmask.text.lexicon import Lexicon
from dualmask.text.readings import Reading
from dualmask.text.restoration import Restorer
from dualmask.text.rewriting import HIDDEN, Rewriting, parts
from dualmask.text.spelling import Spelling
from dualmask.text.tampering import misspelt, swapped, tampered

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class DDMRestoreOptions(VotingOptions):
    """What is done to words at inference, and what else in training."""

    restore: bool = True  # look-alikes, misspelt, split and joined words become the likeliest known one
    canonical: bool = True  # words become the head of their synonym cluster
    masking: bool = True  # unknown words that can't be restored become one [MASK] each
    budget: float = 0.3  # share of words masked, at most
    touched: float = 0.01  # share of clean words that restoring may change: sets how bold it is
    threshold: float = 0.7  # least cosine of words in a cluster
    apart: float = 0.2  # words whose classes surely differ by more, as a probability, never share a cluster
    sources: tuple[str, ...] = ("shipped",)  # of synonyms; 'wordnet' too
    insert_share: float = 0.5  # of training texts that get masks after the first token, as DDM's
    insert_rate: float = 0.3  # so many of them for each token
    hide_share: float = 1 / 3  # of training texts some of whose words are masked
    hide_rate: float = 0.4  # the greatest share of words; drawn evenly from 0 to it
    swap_share: float = 0.0  # of training texts some of whose words are exchanged for near ones, likewise
    swap_rate: float = 0.4
    slip_share: float = 0.0  # of training texts some of whose words are misspelt before they are read, likewise
    slip_rate: float = 0.4
    mask_position: MaskPosition = "zero"
    votes: int = 1  # views; all but the first hide random words as well
    vote_rate: float = 0.3  # so many of them
    decision: Literal["vote", "mean"] = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        names = [name for name in vars(self) if name.endswith(("_share", "_rate"))]
        check_shares(budget=self.budget, touched=self.touched, **{name: getattr(self, name) for name in names})


class DDMRestore(Voting):
    """Restore, then mask: misspelt words are put right, synonyms made one, and only what stays unknown is masked.

    Idea: this library's own, after DDM, whose rarity of word pieces misses typing errors and masks evidence instead.
    An unknown word is the better sign, and mostly the right one can be told; the masks that are left cost little.
    Acts at: training_view and inference_view (the text itself, word by word; then masks, their position zero).
    Deviations: DDM masks a fixed share of tokens by rarity; this one restores, exchanges, and masks what is unknown. In
    training half of the texts get DDM's inserted masks, and a third have random words masked.
    Relations: DDM's masks in training; FGWS replaces rare words without a notion of spelling; SAFER draws from sets of
    synonyms. `ddm-restore+freelb++` adds embedding-space training.
    """

    name: ClassVar[str] = "ddm-restore"
    family: ClassVar[Family] = "masking"
    passes: ClassVar[str] = "1"
    Options = DDMRestoreOptions
    presets: ClassVar = {"recommended": Preset({}, {}), "restore": Preset({"canonical": False}, {}),
                         "vote": Preset({"votes": 10}, {})}
    options: DDMRestoreOptions

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        o = self.options
        lexicon = Lexicon()
        restorer = Restorer(lexicon, touched=o.touched, masking=o.masking) if o.restore else None
        clusters = Clusters(threshold=o.threshold, sources=o.sources, apart=o.apart) if o.canonical else None
        self.rewriting = Rewriting(lexicon=lexicon, restorer=restorer, clusters=clusters, budget=o.budget)
        self._spelling: Spelling | None = None

    @property
    def noise(self) -> Noise:
        return super().noise if self.views > 1 else "none"

    def adapt(self, model: "PreTrainedModel") -> None:
        check_mask_position(model, self.options.mask_position)

    def fit(self, examples: Sequence[Example], encode: Encode) -> None:
        self.rewriting.fit(examples)

    def training_view(
        self, texts: Sequence[Text], labels: Sequence[int], encode: Encode, generator: torch.Generator,
    ) -> Batch:
        """The texts as they are read, some with other words, some with words hidden, some with masks before them."""
        o = self.options
        shares, rates = (torch.tensor(row)[:, None] for row in (
            (o.swap_share, o.slip_share, o.hide_share), (o.swap_rate, o.slip_rate, o.hide_rate)))
        chosen, drawn = torch.rand(2, 3, len(texts), generator=generator)
        swap, slip, hide = torch.where(chosen < shares, rates * drawn, 0.0)
        seeds = torch.randint(2**63 - 1, (3, len(texts)), generator=generator)
        for change, often, lots in ((swapped, swap, seeds[0]), (misspelt, slip, seeds[1])):
            texts = [tampered(text, rate, seed, change)
                     for text, rate, seed in zip(texts, often.tolist(), lots.tolist(), strict=True)]
        batch = self.view(texts, hide, seeds[2], encode)
        inserted = torch.rand(len(texts), generator=generator) < o.insert_share
        counts = mask_budget(batch.lengths, o.insert_rate, rounding="ceil") * inserted
        batch = insert_masks(batch, counts, encode.mask_id, pad_id=encode.pad_id, ordinary="kept", generator=generator)
        return batch.with_labels(labels)

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        rates = torch.where(torch.tensor(numbers) > 0, self.options.vote_rate, 0.0)
        return self.view(texts, rates, self.seeds(texts, numbers), encode).to(device)

    def view(self, texts: Sequence[Text], rates: Tensor, seeds: Tensor, encode: Encode) -> Batch:
        """The texts as they are read, with this share of their words hidden by chance."""
        self._spelling = spelling = Spelling.current(self._spelling, encode)
        known = {text: self.rewriting(text) for text in dict.fromkeys(texts)}
        read = spelling.read([known[text] for text in texts])
        hidden = int(spelling.read([HIDDEN])[0].words[0])
        longest = max((len(one.words) for one in read), default=0)
        chance = uniform(seeds, longest).numpy() < rates.numpy()[:, None]
        rows = [np.where((one.words == hidden) | row[:len(one.words)], Spelling.MASK, one.words)
                for one, row in zip(read, chance, strict=True)]
        return replace(spelling.batch(rows, [one.boundary for one in read]), mask_position=self.options.mask_position)

    def account(self, text: Text) -> list[Reading]:
        return [one._replace(part=number) for number, part in enumerate(parts(text))
                for one in self.rewriting.readings(part)]

    def origins(self, text: Text) -> list[tuple[int, int]]:
        found, shift = list[tuple[int, int]](), 0
        for part in parts(text):
            found += [(start + shift, end + shift) for start, end in self.rewriting.origins(part)]
            shift += len(part) + 1
        return found
