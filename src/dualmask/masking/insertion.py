# SPDX-License-Identifier: Apache-2.0
"""[MASK] tokens beside the text: [CLS] [MASK]_1 ... [MASK]_M x_1 ... x_n [SEP]."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from dualmask.masking.budget import Counted, Rounding, counted_length, longest_body, mask_budget
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Text

Place = Literal["start", "random", "before-sep", "end"]
Ordinary = Literal["shifted", "kept"]
Length = Literal["fit", "extend", "drop-tail"]  # when text and masks exceed max_length


def encoded_with_masks(
    texts: Sequence[Text], encode: Encode, rate: float, *, rounding: Rounding, counted: Counted, length: Length,
    clean_share: float = 0.0, place: Place = "start", ordinary: Ordinary = "shifted", segments: bool = False,
    attended: bool = True, generator: torch.Generator | None = None,
) -> Batch:
    """Texts with M = ceil(|x| b) masks each; a share of them, drawn by lot, with none."""
    specials, limit = encode.special_tokens(texts), encode.max_length
    if length == "fit":
        limit = specials + longest_body(limit, rate, rounding=rounding, counted=counted, specials=specials)
    batch = encode(texts, max_length=limit)
    counts = mask_budget(counted_length(batch.lengths, counted, specials=specials), rate, rounding=rounding)
    counts = counts * (batch.lengths > 0)
    if clean_share:
        counts = counts.masked_fill(torch.rand(len(texts), generator=generator) < clean_share, 0)
    batch = insert_masks(batch, counts, encode.mask_id, pad_id=encode.pad_id, place=place, ordinary=ordinary,
                         segments=segments, attended=attended, generator=generator)
    return cut(batch, encode.max_length) if length == "drop-tail" else batch


def insert_masks(
    batch: Batch, counts: Tensor, mask_id: int, *,
    place: Place = "start", ordinary: Ordinary = "shifted", segments: bool = False, pad_id: int = 0,
    attended: bool = True, generator: torch.Generator | None = None,
) -> Batch:
    """Insert `counts` masks into each row; nothing is removed.

    A mask wants to stand right after the token at its anchor, so sorting tokens and masks by (anchor, kind) gives the
    new row for every placement at once. `ordinary` says whether tokens behind the masks move to a later position or
    keep the one they had. `segments` shares the masks of a pair between its two texts.
    """
    rows, length = batch.input_ids.shape
    extra = int(counts.max()) if rows else 0
    anchors = _anchors(batch, counts, extra, place=place, segments=segments, generator=generator)
    keys = torch.cat([torch.arange(length, device=batch.device).expand(rows, -1) * 2, anchors * 2 + 1], dim=1)
    order = keys.argsort(dim=1, stable=True)  # (rows, length + extra)
    last = batch.attention_mask.sum(dim=1, keepdim=True) - 1
    kinds = batch.token_type_ids.gather(1, (anchors + 1).minimum(last))  # a mask joins the text it precedes
    new = {"token_type_ids": kinds, "input_ids": torch.full_like(kinds, pad_id)}
    tensors = {name: torch.cat([tensor, new.get(name, _blank(tensor, extra))], dim=1).gather(1, order)
               for name, tensor in batch.per_token().items()}
    masks = (order >= length) & (keys.gather(1, order) < 2 * length)
    widest = int((tensors["attention_mask"].sum(dim=1) + counts).max()) if rows else 0
    moved = batch.with_tensors(tensors)
    places = torch.arange(length + extra, device=batch.device).expand(rows, -1)
    positions = places if ordinary == "shifted" else torch.where(masks, places, moved.positions)
    inserted = replace(
        moved, input_ids=moved.input_ids.masked_fill(masks, mask_id), positions=positions,
        attention_mask=moved.attention_mask.masked_fill(masks, int(attended)), words=moved.words.masked_fill(masks, -1),
        masks=moved.masks | masks)
    return cut(inserted, widest)


def cut(batch: Batch, length: int) -> Batch:
    """Drop every column from `length` on; rows of which a token goes are told as cut."""
    lost = batch.attention_mask[:, length:].any(dim=1)
    kept = batch.with_tensors({name: tensor[:, :length] for name, tensor in batch.per_token().items()})
    return replace(kept, cut=lost if batch.cut is None else batch.cut | lost)


def _anchors(
    batch: Batch, counts: Tensor, extra: int, *, place: Place, segments: bool, generator: torch.Generator | None,
) -> Tensor:
    """The column that each mask follows, (rows, extra); unused masks follow the last column and are cut off."""
    rows, length = batch.input_ids.shape
    real = batch.attention_mask.sum(dim=1, keepdim=True)  # (rows, 1), special tokens included
    number = torch.arange(extra, device=batch.device).expand(rows, -1)
    if place == "start":
        anchors = torch.zeros_like(number)
        if segments:  # the later half opens the second text, which starts behind a special token inside
            second = (batch.body & ((~batch.body).cumsum(dim=1) > 1)).int()
            opening = torch.where(second.any(dim=1), second.argmax(dim=1) - 1, 0)
            anchors = torch.where(number < (counts[:, None] + 1) // 2, anchors, opening[:, None])
    elif place == "random":  # any gap from behind [CLS] to in front of the last [SEP]
        draw = torch.rand((rows, extra), generator=generator).to(batch.device)
        anchors = (draw * (real - 1)).long()
    else:
        anchors = (real - (2 if place == "before-sep" else 1)).expand(rows, extra)
    return anchors.masked_fill(number >= counts[:, None], length)


def _blank(tensor: Tensor, extra: int) -> Tensor:
    """Columns for the new masks: not body, and attended only once they are in use."""
    return tensor.new_zeros((len(tensor), extra))
