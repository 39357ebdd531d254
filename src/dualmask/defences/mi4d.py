# SPDX-License-Identifier: Apache-2.0
"""Mask insertion, in training and at inference."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import torch

from dualmask.cards import Paper, Preset
from dualmask.defences.base import Defence, Family
from dualmask.masking.budget import Counted, Rounding, longest_body
from dualmask.masking.insertion import Length, Ordinary, encoded_with_masks
from dualmask.models.encoders import check_mask_position
from dualmask.options import check_shares
from dualmask.text.encoding import Batch, Encode, MaskPosition
from dualmask.text.examples import Text

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class MI4DOptions:
    """Of the insertion, the same in training and at inference."""

    rate: float = 0.3  # masks for each token of the text
    rounding: Rounding = "ceil"
    count: Counted = "body"  # what |x| counts
    mask_position: MaskPosition = "zero"
    ordinary: Ordinary = "kept"  # positions of the tokens behind the masks
    place: Literal["start", "before-sep", "end"] = "start"
    segments: bool = False  # share a pair's masks between its texts
    length: Length = "fit"  # when text and masks exceed max_length

    def __post_init__(self) -> None:
        check_shares(rate=self.rate)


class MI4D(Defence):
    """Mask insertion: the same number of [MASK] tokens after [CLS] in training and at inference.

    Paper: Hu, Xu, Ma, Huang, Yang, Guo, Barthelemy, [MASK] Insertion, Findings of EACL 2023.
    Idea: masks pull every text's representation towards a common point, so that a changed word moves it less far.
    Acts at: training_view and inference_view (M masks after [CLS]), the masks' position embeddings.
    Deviations: no code was published; the rate (0.3) and the rest are those of DDM, of which it is the first half, with
    tokens keeping their positions. The paper compares other numbers of masks. 'shifted' moves tokens behind the masks.
    Relations: DDM trains alike and replaces tokens at inference instead; here nothing of a text is ever hidden, so an
    attack that asks meets all its words again.
    """

    name: ClassVar[str] = "mi4d"
    family: ClassVar[Family] = "masking"
    paper: ClassVar[Paper | None] = Paper(
        "[MASK] Insertion: a robust method for anti-adversarial attacks",
        "Hu, Xu, Ma, Huang, Yang, Guo, Barthelemy", "Findings of EACL 2023", "aclanthology.org/2023.findings-eacl.78")
    Options = MI4DOptions
    presets: ClassVar = {"recommended": Preset({}, {}), "shifted": Preset({"ordinary": "shifted"}, {})}
    options: MI4DOptions

    def adapt(self, model: "PreTrainedModel") -> None:
        super().adapt(model)
        check_mask_position(model, self.options.mask_position)

    def training_view(
        self, texts: Sequence[Text], labels: Sequence[int], encode: Encode, generator: torch.Generator,
    ) -> Batch:
        return self.inserted(texts, encode).with_labels(labels)

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        return self.inserted(texts, encode).to(device)

    def room(self, encode: Encode, specials: int) -> int:
        o = self.options
        if o.length == "extend":
            return super().room(encode, specials)
        return longest_body(encode.max_length, o.rate, rounding=o.rounding, counted=o.count, specials=specials)

    def inserted(self, texts: Sequence[Text], encode: Encode) -> Batch:
        """[CLS] [MASK]_1 ... [MASK]_M x_1 ... x_n [SEP]."""
        o = self.options
        batch = encoded_with_masks(
            texts, encode, o.rate, rounding=o.rounding, counted=o.count, length=o.length, place=o.place,
            ordinary=o.ordinary, segments=o.segments)
        return replace(batch, mask_position=o.mask_position)
