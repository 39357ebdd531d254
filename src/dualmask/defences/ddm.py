# SPDX-License-Identifier: Apache-2.0
"""Defensive Dual Masking, both halves in one file."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor

from dualmask.defences.base import Defence, Family, Paper, Preset
from dualmask.masking.budget import Counted, Rounding, counted_length, longest_body, mask_budget
from dualmask.masking.candidates import Skip, spared_words
from dualmask.masking.insertion import Ordinary, Place, cut, insert_masks
from dualmask.masking.replacement import Pooling, Ties, Unit, replace_highest, unit_count
from dualmask.masking.scorers import ScorerName, Unseen, build_scorer, contains, keys_of_words, word_keys
from dualmask.models.encoders import check_release, has_absolute_positions, prepare
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
    length: Literal["fit", "extend", "drop-tail"] = "fit"  # when text and masks exceed max_length
    clean_share: float = 0.0  # training texts left without masks
    attention: bool = True  # may tokens attend to inserted masks
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


PAPER_TRAINING = {"optimiser": "adam", "weight_decay": 0.0, "learning_rate": 2e-5, "warmup": 10_000, "schedule": "cosine",
                  "final_rate": 1e-6, "clip": "value", "clip_at": 1.0, "epochs": 10, "patience": 1}
RELEASE_TRAINING = {"learning_rate": 5e-5, "schedule": "constant", "warmup": 0.0, "clip": "none", "epochs": 5, "patience": 0,
                    "validate": "plain"}


class DDM(Defence):
    """Defensive Dual Masking: masks inserted in training, suspicious tokens masked at inference.

    Paper: Yang, Yang, Guo, Barthelemy, Defensive Dual Masking for Robust Adversarial Defense, Computational Linguistics 52(1), 2026.
    Idea: a classifier used to meaningless [MASK] tokens loses little when rare, probably adversarial tokens become [MASK].
    Acts at: training_view (M masks after [CLS]), inference_views (the M rarest tokens replaced), position embeddings of masks (zero).
    Deviations: the default masks 10 % at inference, not 30 %, which costs far less clean accuracy; AdamW at 2e-5 with 10 % warm-up
    instead of a 10,000-step one; at least one token stays. Preset 'paper' takes the text literally, 'release' the authors' code.
    Relations: MI4D inserts at inference too; RanMASK replaces at random and votes; FGWS gave the frequency score.
    """

    name: ClassVar[str] = "ddm"
    family: ClassVar[Family] = "masking"
    paper: ClassVar[Paper | None] = Paper(
        "Defensive Dual Masking for Robust Adversarial Defense", "Yang, Yang, Guo, Barthelemy",
        "Computational Linguistics 52(1), 2026", "https://arxiv.org/abs/2412.07078")
    Options = DDMOptions
    presets: ClassVar = {
        "recommended": Preset({}, {}),
        "paper": Preset({"test_rate": 0.3, "ordinary": "shifted", "keep_one": False}, PAPER_TRAINING),
        "release": Preset({"train_rate": 0.15, "test_rate": 0.2, "rounding": "floor", "train_count": "body+sep", "ordinary": "shifted",
                           "mask_position": "release", "length": "drop-tail", "corpus": "truncated", "keep_one": False,
                           "second_pass": True}, RELEASE_TRAINING),
    }
    options: DDMOptions
    spared: Tensor

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        o = self.options
        self.scorer = build_scorer(o.scorer, unseen=o.unseen, truncated=o.corpus == "truncated", reverse=o.order == "literal",
                                   language_model=o.language_model, stride=o.stride, seed=o.score_seed)
        self.register_buffer("spared", torch.zeros(0, dtype=torch.long))  # words that are never masked
        self.by_word = o.unit == "word" or self.scorer.by_word or o.skip != "nothing" or bool(o.protect)

    def adapt(self, model: "PreTrainedModel") -> None:
        prepare(model)
        self.scorer.adapt(model)
        if self.options.mask_position == "release":
            check_release(model)
        if self.options.mask_position == "zero" and not has_absolute_positions(model):
            warnings.warn(f"encoders of the family '{model.config.model_type}' have relative positions: there is no position "
                          "embedding to zero for [MASK], and tokens keep their distance to it.", stacklevel=2)

    def fit(self, examples: Sequence[Example], encode: Encode) -> None:
        self.scorer.fit([example.text for example in examples], encode)
        words = spared_words(self.options.skip, self.options.protect)
        self.spared = keys_of_words(words, encode).unique() if words else self.spared

    def training_view(
        self, texts: Sequence[Text], labels: Sequence[int], encode: Encode, generator: torch.Generator,
    ) -> Batch:
        """x' = [CLS] [MASK]_1 ... [MASK]_M x_1 ... x_n [SEP]; the unmodified text is never seen."""
        o, specials = self.options, encode.special_tokens(pair=not isinstance(texts[0], str))
        limit = encode.max_length
        if o.length == "fit":
            limit = specials + longest_body(limit, o.train_rate, rounding=o.rounding, specials=specials)
        batch = encode(texts, max_length=limit)
        counted = counted_length(batch.lengths, o.train_count, specials=specials)
        counts = mask_budget(counted, o.train_rate, rounding=o.rounding)  # M = ceil(|x| b_M)
        if o.clean_share:
            counts = counts.masked_fill(torch.rand(len(texts), generator=generator) < o.clean_share, 0)
        batch = insert_masks(batch, counts, encode.mask_id, place=o.place, ordinary=o.ordinary, segments=o.segments,
                             generator=generator)
        if o.length == "drop-tail":
            batch = cut(batch, encode.max_length)
        if not o.attention:
            batch = replace(batch, attention_mask=batch.attention_mask.masked_fill(batch.masks, 0))
        return replace(batch, mask_position=o.mask_position).with_labels(labels)

    def inference_views(self, texts: Sequence[Text], encode: Encode, device: torch.device) -> Iterator[Batch]:
        """The M most suspicious tokens become [MASK]; nothing moves, one pass."""
        o, specials = self.options, encode.special_tokens(pair=not isinstance(texts[0], str))
        batch = replace(encode(texts, words=self.by_word).to(device), mask_position=o.mask_position)
        allowed = ~contains(self.spared, word_keys(batch)) & batch.body if len(self.spared) else batch.body
        masked = self._replaced(batch, self.scorer(batch), specials, encode.mask_id, allowed)
        if o.second_pass:
            within = torch.bincount(masked.input_ids.flatten())[masked.input_ids]
            masked = self._replaced(masked, -within.float(), specials, encode.mask_id, allowed)
        yield masked

    def _replaced(self, batch: Batch, scores: Tensor, specials: int, mask_id: int, allowed: Tensor) -> Batch:
        o = self.options
        size = unit_count(batch, o.unit)
        counts = mask_budget(counted_length(size, o.test_count, specials=specials), o.test_rate, rounding=o.rounding)
        counts = counts.minimum((size - 1 if o.keep_one else size).clamp(min=0))
        return replace_highest(batch, scores, counts, mask_id, unit=o.unit, pooling=o.pooling, ties=o.ties,
                               candidates=allowed)
