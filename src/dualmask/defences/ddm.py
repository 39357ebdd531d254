# SPDX-License-Identifier: Apache-2.0
"""Defensive Dual Masking, both halves in one file."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor

from dualmask.cards import Paper, Preset
from dualmask.defences.base import Defence, Family, Noise
from dualmask.masking.budget import Counted, Rounding, counted_length, longest_body, mask_budget
from dualmask.masking.candidates import Skip, spared_words
from dualmask.masking.insertion import Length, Ordinary, Place, encoded_with_masks
from dualmask.masking.replacement import Pooling, Ties, Unit, replace_highest, unit_count
from dualmask.masking.scorers import ScorerName, Unseen, build_scorer
from dualmask.masking.words import contains, keys_of_words, word_keys
from dualmask.models.encoders import check_mask_position
from dualmask.options import check_shares
from dualmask.text.encoding import Batch, Encode, MaskPosition
from dualmask.text.examples import Example, Text

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class DDMOptions:
    """Each answers a question that the paper leaves open; docs/ddm.md has the whole list."""

    train_rate: float = 0.3  # b_M in training
    test_rate: float = 0.1  # b_M at inference; the paper's is 0.3
    rounding: Rounding = "ceil"
    train_count: Counted = "body"  # what |x| counts
    test_count: Counted = "body"
    mask_position: MaskPosition = "zero"
    ordinary: Ordinary = "kept"  # positions of the tokens behind inserted masks
    place: Place = "start"
    segments: bool = False  # share a pair's inserted masks between its texts
    length: Length = "fit"  # when text and masks exceed max_length
    clean_share: float = 0.0  # training texts left without masks
    attention: bool = True  # may tokens attend to masks; without it a replaced token is as good as deleted
    scorer: ScorerName = "frequency"
    order: Literal["rarest", "literal"] = "rarest"  # the paper's sentence, read literally, masks the most frequent
    unseen: Unseen = "first"
    corpus: Literal["whole", "truncated"] = "whole"  # training texts counted whole or cut to max_length
    unit: Unit = "token"
    pooling: Pooling = "max"
    skip: Skip = "nothing"
    protect: tuple[str, ...] = ()  # words never masked
    ties: Ties = "left"
    keep_one: bool = True  # never mask a text whole
    second_pass: bool = False  # the released code's second masking, by frequencies inside the batch
    language_model: str | None = None  # for the scorer 'surprisal'
    stride: int = 8
    score_seed: int = 0  # for the scorer 'random'

    def __post_init__(self) -> None:
        check_shares(train_rate=self.train_rate, test_rate=self.test_rate, clean_share=self.clean_share)


class DDM(Defence):
    """Defensive Dual Masking: masks inserted in training, suspicious tokens masked at inference.

    Paper: Yang, Yang, Guo, Barthelemy, Defensive Dual Masking, Computational Linguistics 52(1), 2026.
    Idea: a classifier used to meaningless [MASK] tokens loses little when rare, probably adversarial ones become such.
    Acts at: training_view (M masks after [CLS]), inference_view (the M rarest tokens), the masks' position embeddings.
    Deviations: 10 % of the tokens are masked at inference, not 30 %, which costs less clean accuracy; tokens keep their
    positions when masks are inserted; AdamW at 5e-5, warm-up for 10 %, not 10,000 steps; at least one token stays.
    Preset 'paper' takes the text literally, 'release' the authors' code with its faults (but AdamW's epsilon is 1e-8,
    there 1e-6).
    Relations: MI4D inserts at inference too; RanMASK replaces at random and votes; FGWS gave the frequency score.
    """

    name: ClassVar[str] = "ddm"
    family: ClassVar[Family] = "masking"
    certificate: ClassVar[str] = "tokens replaced by unseen ones"
    paper: ClassVar[Paper | None] = Paper(
        "Defensive Dual Masking for Robust Adversarial Defense", "Yang, Yang, Guo, Barthelemy",
        "Computational Linguistics 52(1), 2026", "arXiv:2412.07078")
    Options = DDMOptions
    presets: ClassVar = {
        "recommended": Preset({}, {}),
        "paper": Preset({"test_rate": 0.3, "ordinary": "shifted", "keep_one": False}, {
            "optimiser": "adam", "weight_decay": 0.0, "learning_rate": 2e-5, "warmup": 10_000, "schedule": "cosine",
            "final_rate": 1e-6, "clip": "value", "clip_at": 1.0, "epochs": 10, "patience": 1}),
        "release": Preset({
            "train_rate": 0.15, "test_rate": 0.2, "rounding": "floor", "train_count": "body+sep", "ordinary": "shifted",
            "mask_position": "release", "length": "drop-tail", "corpus": "truncated", "keep_one": False,
            "second_pass": True}, {"learning_rate": 5e-5, "schedule": "constant", "warmup": 0.0, "clip": "none",
                                   "weight_decay": 0.0, "epochs": 5, "patience": 0, "validate": "plain"}),
    }
    options: DDMOptions
    spared: Tensor  # keys of words that are never masked

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        o = self.options
        self.scorer = build_scorer(o.scorer, unseen=o.unseen, truncated=o.corpus == "truncated", seed=o.score_seed,
                                   reverse=o.order == "literal", language_model=o.language_model, stride=o.stride)
        self.register_buffer("spared", torch.zeros(0, dtype=torch.long))
        self.by_word = o.unit == "word" or self.scorer.by_word or o.skip != "nothing" or bool(o.protect)

    @property
    def noise(self) -> Noise:
        return self.scorer.noise

    def redraw(self, number: int, *, same: bool = False) -> None:
        self.scorer.redraw(number, same=same)

    def adapt(self, model: "PreTrainedModel") -> None:
        super().adapt(model)
        self.scorer.adapt(model)
        check_mask_position(model, self.options.mask_position)

    def fit(self, examples: Sequence[Example], encode: Encode) -> None:
        self.scorer.fit([example.text for example in examples], encode)
        if words := spared_words(self.options.skip, self.options.protect, encode):
            self.spared = torch.unique(keys_of_words(words, encode))

    def training_view(
        self, texts: Sequence[Text], labels: Sequence[int], encode: Encode, generator: torch.Generator,
    ) -> Batch:
        """x' = [CLS] [MASK]_1 ... [MASK]_M x_1 ... x_n [SEP]; the unmodified text is never seen."""
        o = self.options
        batch = encoded_with_masks(texts, encode, o.train_rate, rounding=o.rounding, counted=o.train_count,
                                   length=o.length, clean_share=o.clean_share, place=o.place, ordinary=o.ordinary,
                                   segments=o.segments, attended=o.attention, generator=generator)
        return replace(batch, mask_position=o.mask_position).with_labels(labels)

    def training_room(self, encode: Encode, specials: int) -> int:
        o = self.options
        if o.length == "extend":
            return self.room(encode, specials)
        return longest_body(encode.max_length, o.train_rate, rounding=o.rounding, counted=o.train_count,
                            specials=specials)

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        """The M most suspicious tokens become [MASK]; nothing moves, one pass."""
        o, specials = self.options, encode.special_tokens(texts)
        batch = replace(encode(texts, words=self.by_word).to(device), mask_position=o.mask_position)
        batch = self.masked(batch, self.scorer(batch), specials=specials, mask_id=encode.mask_id)
        if o.second_pass:
            often = torch.bincount(batch.input_ids.flatten())[batch.input_ids].float()
            batch = self.masked(batch, -often, specials=specials, mask_id=encode.mask_id)
        return batch

    def masked(self, batch: Batch, scores: Tensor, *, specials: int, mask_id: int) -> Batch:
        """A batch with the M tokens of the highest scores hidden."""
        o, size = self.options, unit_count(batch, self.options.unit)
        counts = mask_budget(counted_length(size, o.test_count, specials=specials), o.test_rate, rounding=o.rounding)
        counts = counts.minimum((size - 1 if o.keep_one else size).clamp(min=0))
        spared = contains(self.spared, word_keys(batch)) if len(self.spared) else torch.zeros_like(batch.body)
        return replace_highest(batch, scores, counts, mask_id, unit=o.unit, pooling=o.pooling, ties=o.ties,
                               candidates=batch.body & ~spared, attended=o.attention)
