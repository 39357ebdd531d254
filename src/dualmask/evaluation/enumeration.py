# SPDX-License-Identifier: Apache-2.0
"""A proof without votes, for DDM: every answer that edits into unseen tokens can lead to, asked one by one.

A token that the training texts never had is as rare as can be. If DDM hides all d tokens that became such, what they
became makes no difference, and what else it hides is known: one input for each set of places, C(n, d) in all. It says
nothing about edits into tokens that were seen, nor about those that change the number of tokens.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations, islice
from math import comb
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from dualmask.classifier import DefendedClassifier
from dualmask.defences.ddm import DDM
from dualmask.errors import OptionError
from dualmask.evaluation.certified_records import End
from dualmask.models.modes import evaluating
from dualmask.text.encoding import Batch
from dualmask.text.examples import Text
from dualmask.views import LIMITS

T = TypeVar("T")
ABOUT = "tokens replaced by ones that the training texts do not have, their number unchanged"
UNSEEN = -0.0  # -ln(1 + 0): the score of such a token; no other is higher


class Withstood(NamedTuple):
    """What became of one text."""

    predicted: int
    radius: int  # edits of which no choice of places changes the answer
    tokens: int
    passes: int
    ended: End


def checked(classifier: DefendedClassifier) -> DDM:
    """The classifier's defence, if the argument above is about it."""
    defence = classifier.defence.asker
    if not isinstance(defence, DDM):
        raise OptionError(f"rare edits are counted out for the defence 'ddm', not for '{defence.name}'.")
    o = defence.options
    needed = {"unit": (o.unit, "token"), "scorer": (o.scorer, "frequency"), "unseen": (o.unseen, "first"),
              "order": (o.order, "rarest"), "second_pass": (o.second_pass, False), "skip": (o.skip, "nothing"),
              "protect": (o.protect, ())}
    wrong = [f"{name} is {given!r}; expected {expected!r}." for name, (given, expected) in needed.items()
             if given != expected]
    if not o.test_rate:
        wrong.append("test_rate is 0; expected more, since only what is hidden is certified.")
    if wrong:
        raise OptionError("\n".join(["rare edits can't be counted out for this model:", *wrong,
                                     "Certify its network under a defence that votes, e.g. --under ranmask."]))
    return defence


@torch.no_grad()
def withstood(classifier: DefendedClassifier, text: Text, *, changes: int, passes: int) -> Withstood:
    """How many edits the answer is sure to outlast: up to `changes`, with no more than so many passes."""
    defence, encode = checked(classifier), classifier.encode
    row = replace(encode([text]).to(classifier.device), mask_position=defence.options.mask_position)
    scores, places = defence.scorer(row), row.body[0].nonzero().flatten().tolist()
    specials, asked, predicted = encode.special_tokens([text]), 1, answer(classifier, text)
    rows, cells = LIMITS["cuda" if classifier.device.type == "cuda" else "cpu"]
    rows = max(1, min(rows, cells // row.input_ids.shape[1]))
    with evaluating(classifier.network):
        for size in range(1, min(changes, len(places)) + 1):
            if asked + comb(len(places), size) > passes:
                return Withstood(predicted, size - 1, len(places), asked, "passes")
            for sets in batched(combinations(places, size), rows):
                edited = torch.tensor(sets, device=row.device)  # (rows, size)
                rare = scores.expand(len(sets), -1).scatter(1, edited, UNSEEN)
                shown = defence.masked(repeated(row, len(sets)), rare, specials=specials, mask_id=encode.mask_id)
                if not shown.masks.gather(1, edited).all():
                    return Withstood(predicted, size - 1, len(places), asked, "in sight")
                asked += len(sets)
                if (classifier.defence.answer(classifier.network, shown).argmax(dim=1) != predicted).any():
                    return Withstood(predicted, size - 1, len(places), asked, "flipped")
    return Withstood(predicted, min(changes, len(places)), len(places), asked, "all tried")


def answer(classifier: DefendedClassifier, text: Text) -> int:
    return int(classifier.predict([text]).probabilities[0].argmax())


def repeated(row: Batch, times: int) -> Batch:
    """One row as several."""
    tensors: dict[str, Tensor] = {name: value.expand(times, -1) for name, value in row.per_token().items()}
    return row.with_tensors(tensors)


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    waiting = iter(items)
    while batch := list(islice(waiting, size)):
        yield batch
