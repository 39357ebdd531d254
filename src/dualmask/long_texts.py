# SPDX-License-Identifier: Apache-2.0
"""Answers to texts, long ones read in windows: what is asked, and how the windows' answers become the text's."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from dualmask.defences.base import Defence
from dualmask.text.encoding import Encode
from dualmask.text.examples import Text
from dualmask.text.stretches import Limits, Stretched, stretched
from dualmask.windows import Windows

TOGETHER = 1024  # windows that are asked about at once: files of long texts must not fill the memory
T = TypeVar("T")


class Asked(NamedTuple):
    """What the classifier says about texts."""

    logits: Tensor  # (texts, classes)
    seen: Tensor  # views that each took, (texts,)
    cut: Tensor  # bool: whether something of it was not read, (texts,)
    suspicion: Tensor | None  # of detectors, (texts,)


Ask = Callable[[Sequence[Text]], Asked]


def in_windows(texts: Sequence[Text], encode: Encode, defence: Defence, windows: Windows) -> list[Stretched]:
    """Each text as windows, as long as they are to be and as the defence's views have room for.

    A text that fits is its only window.
    """
    specials = encode.special_tokens(texts)
    room = max(1, min(defence.room(encode, specials), (windows.length or encode.max_length) - specials))
    return stretched(texts, encode, Limits(room, windows.overlap, windows.most, defence.reads_words))


def answered(ask: Ask, texts: Sequence[Text], found: Sequence[Stretched], judge: Callable[[Tensor], Tensor]) -> Asked:
    """Texts that fit are asked about by themselves, as if nothing were long; then the windows of the others.

    judge: makes one row of logits, (classes,), out of those of a text's windows, (windows, classes).
    """
    short = [row for row, one in enumerate(found) if len(one.parts) == 1 and one.whole]
    long = [row for row in range(len(found)) if len(found[row].parts) > 1 or not found[row].whole]
    if not long:
        return ask(texts)
    order, parts = list(short), [ask([texts[row] for row in short])] if short else []
    for rows in groups([len(found[row].parts) for row in long]):
        order += [long[row] for row in rows]
        parts.append(merged(ask, [found[long[row]] for row in rows], judge))
    back = torch.tensor(order).argsort()
    doubts = [part.suspicion for part in parts if part.suspicion is not None]
    return Asked(torch.cat([part.logits for part in parts])[back.to(parts[0].logits.device)],
                 torch.cat([part.seen for part in parts])[back], torch.cat([part.cut for part in parts])[back],
                 torch.cat(doubts)[back.to(doubts[0].device)] if doubts else None)


def merged(ask: Ask, found: Sequence[Stretched], judge: Callable[[Tensor], Tensor]) -> Asked:
    """One answer for each text; suspicious is a text that has a suspicious window, and cut one that has a cut one."""
    asked = ask([part.text for one in found for part in one.parts])
    sizes = [len(one.parts) for one in found]
    doubts = None if asked.suspicion is None else torch.stack([
        part.amax() for part in torch.split(asked.suspicion, sizes)])
    cut = torch.stack([part.any() for part in torch.split(asked.cut, sizes)])
    return Asked(torch.stack([judge(rows) for rows in torch.split(asked.logits, sizes)]),
                 torch.stack([part.sum() for part in torch.split(asked.seen, sizes)]),
                 cut | torch.tensor([not one.whole for one in found]), doubts)


def groups(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Texts one after the other, with no more windows together than may be asked about at once, or one text alone."""
    group, total = list[int](), 0
    for row, size in enumerate(sizes):
        if group and total + size > TOGETHER:
            yield group
            group, total = [], 0
        group.append(row)
        total += size
    if group:
        yield group
