# SPDX-License-Identifier: Apache-2.0
"""DDM's inference half: the M most suspicious tokens become [MASK], length and places stay."""

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from dualmask.seeds import scrambled
from dualmask.text.encoding import Batch

Unit = Literal["token", "word", "type"]
Ties = Literal["left", "right", "random"]
Pooling = Literal["max", "mean"]  # over a word's pieces: its rarest piece, or their mean


def units(batch: Batch, unit: Unit) -> Tensor:
    """What is masked together, (rows, length): the column of a unit's first token, -1 outside the body.

    A token stands alone, the pieces of a word go together, and so do all occurrences of one token type.
    """
    columns = torch.arange(batch.input_ids.shape[1], device=batch.device).expand_as(batch.input_ids)
    if unit == "token":
        return columns.masked_fill(~batch.body, -1)
    key = batch.words if unit == "word" else batch.input_ids
    same = (key[:, :, None] == key[:, None, :]) & batch.body[:, None, :]  # (rows, length, length)
    return same.int().argmax(dim=2).masked_fill(~batch.body, -1)


def replace_highest(
    batch: Batch, scores: Tensor, counts: Tensor, mask_id: int, *,
    unit: Unit = "token", ties: Ties = "left", pooling: Pooling = "max",
    candidates: Tensor | None = None, attended: bool = True,
) -> Batch:
    """Replace the `counts` units with the highest scores by [MASK]; units without a candidate token are spared."""
    groups = units(batch, unit)
    if unit != "token":
        scores = pooled(scores, groups, pooling)
    columns = torch.arange(groups.shape[1], device=batch.device).expand_as(groups)
    heads = groups == columns
    if candidates is not None:  # a unit may be masked where any of its tokens may, and only those tokens are
        heads = heads & torch.zeros_like(groups).scatter_reduce(
            1, groups.clamp(min=0), (candidates & (groups >= 0)).long(), "amax").bool()
    rank = ranks(scores.masked_fill(~heads, -torch.inf), ties)
    chosen = heads & (rank < counts[:, None])  # (rows, length), at the heads
    masks = chosen.gather(1, groups.clamp(min=0)) & (groups >= 0)
    if candidates is not None:
        masks = masks & candidates
    masked = batch.input_ids.masked_fill(masks, mask_id)
    attention = batch.attention_mask if attended else batch.attention_mask.masked_fill(masks, 0)
    return replace(batch, input_ids=masked, attention_mask=attention, masks=batch.masks | masks, scores=scores)


def pooled(scores: Tensor, groups: Tensor, pooling: Pooling) -> Tensor:
    """Give every token the pooled score of its unit."""
    target = torch.where(groups >= 0, groups, torch.arange(groups.shape[1], device=groups.device))
    reduce = "amax" if pooling == "max" else "mean"
    return torch.zeros_like(scores).scatter_reduce(1, target, scores, reduce, include_self=False).gather(1, target)


def unit_count(batch: Batch, unit: Unit) -> Tensor:
    """|x| counted in units, (rows,)."""
    groups = units(batch, unit)
    return (groups == torch.arange(groups.shape[1], device=batch.device)).sum(dim=1)


def ranks(scores: Tensor, ties: Ties) -> Tensor:
    """Place of each column when its row is sorted by falling score; equal scores go by column, or by lot."""
    if ties == "right":
        return ranks(scores.flip(1), "left").flip(1)
    if ties == "random":  # a shuffle of the columns that stays when rows get longer: no answer depends on the batch
        lot = scrambled(torch.arange(scores.shape[1], device=scores.device)).argsort()
        return torch.empty_like(rank := ranks(scores[:, lot], "left")).scatter_(1, lot.expand_as(rank), rank)
    order = scores.argsort(dim=1, descending=True, stable=True)
    return order.argsort(dim=1)
