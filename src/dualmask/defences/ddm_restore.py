# SPDX-License-Identifier: Apache-2.0
"""Words restored, read together with their synonyms, or masked, before one pass; trained on the same."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor

from dualmask.cards import Preset, Source
from dualmask.defences.ascent import Ascent
from dualmask.defences.base import Family, Noise, Objective
from dualmask.defences.voting import Voting, VotingOptions
from dualmask.masking.drafts import Draft, Drafts, Swap
from dualmask.masking.swaps import Sparing, worst
from dualmask.models.encoders import check_mask_position
from dualmask.models.mixed_words import teach_mixtures
from dualmask.options import came_later, check_shares, least
from dualmask.text.clusters import Clusters
from dualmask.text.encoding import Batch, Encode, MaskPosition
from dualmask.text.examples import Example, Text
from dualmask.text.mixtures import Mixtures
from dualmask.text.readings import Reading
from dualmask.text.rewriting import rewriting

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class DDMRestoreOptions(VotingOptions):
    """What is done to words at inference, and what else in training."""

    restore: bool = True  # look-alikes, misspelt, split and joined words become the likeliest known one
    obfuscation: bool = came_later(True, before=False)  # i.d.i.o.t, 1d10t, sooooo and i*iot are read; needs restore
    synonyms: Literal["mixture", "head", "none"] = "mixture"  # a word is read as their mean, or the head of its cluster
    masking: bool = True  # unknown words that can't be restored become one [MASK] each; needs restore;
    budget: float = 0.3  # at most this share of words
    touched: float = 0.01  # share of clean words that restoring may change: sets how bold it is
    threshold: float = 0.7  # least cosine of words in a cluster; the table has none below 0.5
    apart: float = 0.1  # words whose classes surely differ by more, as a probability, are never read as one
    sources: tuple[str, ...] = ("shipped",)  # of synonyms in clusters and to exchange words for; 'wordnet' too
    insert_share: float = 0.5  # of training texts that get masks after the first token, as DDM's
    insert_rate: float = 0.3  # so many of them for each token
    hide_share: float = 1 / 3  # of training texts some of whose words are masked
    hide_rate: float = 0.4  # the greatest share of words; drawn evenly from 0 to it
    worst_share: float = 0.75  # of training texts some of whose words are exchanged for their worst synonyms, likewise
    worst_rate: float = 1.0
    worst_sure: float = 0.7  # where the network gives the right label at least this probability; others stay,
    worst_known: float = 0.8  # as long as it answers fewer training texts than this share rightly
    strange_rate: float = 0.3  # of these words so many may become words of other texts as well
    steps: int = least(0, 2)  # FreeLB's, against moved embeddings; 0: none
    mask_position: MaskPosition = "zero"
    votes: int = 1  # views; in all but the first random words are exchanged for any of their synonyms
    vote_swaps: float = 0.7  # so many of them; the preset takes 0.3, chosen on validation texts
    decision: Literal["vote", "mean"] = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        ends = "budget", "touched", "_share", "_rate", "_sure", "_known", "_swaps"
        check_shares(**{name: value for name, value in vars(self).items() if name.endswith(ends)})


class DDMRestore(Voting, Ascent):
    """Restore, then mask: misspelt words are put right, synonyms read as one, and only what stays unknown is masked.

    Idea: our own, after DDM, whose rarity of pieces misses typing errors and masks evidence. An unknown word is the
    better sign. Others are read as the mean of their synonyms, and the network is trained against the worst swaps.
    Acts at: training_view and inference_view (the text, word by word; then masks, their position zero), harden (most
    training texts get those synonyms, or others' words, that hurt most by the gradient), learn (FreeLB's steps).
    Deviations: DDM masks a share of tokens by rarity, this what is unknown; half of the training texts get DDM's masks.
    Relations: FGWS replaces rare words without a notion of spelling; SAFER votes over synonyms, as preset 'vote' does.
    """

    name: ClassVar[str] = "ddm-restore"
    family: ClassVar[Family] = "masking"
    passes: ClassVar[str] = "1"
    reads_words: ClassVar[bool] = True
    synonym_tables: ClassVar[tuple[Source, ...]] = (
        Source("shipped", when={"synonyms": ("mixture",)}), Source("{sources}", when={"synonyms": ("head",)}),
        Source("{sources}", unless={"worst_share": (0.0,)}), Source("{sources}", unless={"votes": (1,)}))
    preset_around_trained: ClassVar[str] = "restore"  # a network that never saw means of synonyms loses by them
    Options = DDMRestoreOptions
    presets: ClassVar = {
        "recommended": Preset({}, {"epochs": 10, "keep": "last"}),  # what is so hard is learned late
        "vote": Preset({"votes": 10, "vote_swaps": 0.3, "decision": "vote"}, {"epochs": 10, "keep": "last"}),
        "restore": Preset({"synonyms": "none", "worst_share": 0.0, "steps": 0}, {})}
    step_size, start, bound = 0.1, 0.05, 0.0  # of the steps, of FreeLB's first one; no bound
    options: DDMRestoreOptions

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        self.steps = (o := self.options).steps
        clusters = Clusters(threshold=o.threshold, sources=o.sources, apart=o.apart)
        self.rewriting = rewriting(clusters if o.synonyms == "head" else None, restore=o.restore, touched=o.touched,
                                   masking=o.masking, budget=o.budget, obfuscation=o.obfuscation)
        self.mixtures = Mixtures(apart=o.apart) if o.synonyms == "mixture" else None
        self.drafts = Drafts(self.rewriting, mixed=self.mixtures is not None, sources=clusters.sources)
        self.sparing = Sparing(o.worst_sure, o.worst_known)
        self._training: tuple[Draft | None, list[Swap]] = None, []  # behind the last training view

    @property
    def noise(self) -> Noise:
        return super().noise if self.views > 1 else "none"

    def adapt(self, model: "PreTrainedModel") -> None:
        check_mask_position(model, self.options.mask_position)
        super().adapt(model)

    def fit(self, examples: Sequence[Example], encode: Encode) -> None:
        self.drafts.fit(examples)
        if self.mixtures is not None:
            self.mixtures.fit(examples, teach_mixtures(self.model).weight)

    def training_view(
        self, texts: Sequence[Text], labels: Sequence[int], encode: Encode, generator: torch.Generator,
    ) -> Batch:
        """The texts as they are read, some with other words, some with words hidden, some with masks before them."""
        o = self.options
        shares, rates = torch.tensor([[o.hide_share, o.worst_share], [o.hide_rate, o.worst_rate]])[..., None]
        chosen, drawn = torch.rand(2, 2, len(texts), generator=generator)
        hide, worse = torch.where(chosen < shares, rates * drawn, 0.0)
        seeds = torch.randint(2**63 - 1, (2, len(texts)), generator=generator)
        draft = self.draft(texts, hide, seeds[0], encode, keep=True)
        draft = replace(draft, inserted=torch.rand(len(texts), generator=generator) < o.insert_share)
        self._training = draft, self.drafts.swaps(draft, worse, seeds[1], strange=o.strange_rate)
        return draft.batch().with_labels(labels)

    def harden(self, objective: Objective, batch: Batch) -> Batch:
        """The batch with words exchanged for the worst of their synonyms, to first order and all at once."""
        (draft, swaps), self._training = self._training, (None, [])
        if draft is None or not swaps:
            return batch
        found = worst(draft, swaps, batch, objective, embed=self.table, spare=self.sparing)
        hard = draft.exchanged(swaps, found).batch().to(batch.device)
        return replace(hard, labels=batch.labels, examples=batch.examples)

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        draft = self.draft(texts, torch.zeros(len(texts)), torch.zeros(len(texts), dtype=torch.long), encode)
        rates = self.options.vote_swaps * (torch.tensor(numbers) > 0)
        return self.drafts.shuffled(draft, rates, lambda read: self.seeds(read, numbers)).batch().to(device)

    def draft(self, texts: Sequence[Text], hide: Tensor, seeds: Tensor, encode: Encode, *, keep: bool = False) -> Draft:
        if self.mixtures is not None:
            teach_mixtures(self.model).prepare(self.mixtures, encode.tokenizer)
        draft = self.drafts(texts, hide, seeds, encode, keep=keep)
        return replace(draft, rate=self.options.insert_rate, mask_position=self.options.mask_position)

    def account(self, text: Text) -> list[Reading]:
        return self.rewriting.account(text)

    def origins(self, text: Text) -> list[tuple[int, int]]:
        return self.rewriting.origins(text)
