# SPDX-License-Identifier: Apache-2.0
"""What became of a word on its way to the network."""

from typing import Literal, NamedTuple

Action = Literal["normalised", "restored", "joined", "split", "canonical", "masked"]


class Reading(NamedTuple):
    """A span of a text as it is written, and what is read instead."""

    start: int
    end: int
    written: str
    becomes: str | None  # None: a mask
    action: Action
    why: str
    part: int = 0  # 1 for the second text of a pair
