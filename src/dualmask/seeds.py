# SPDX-License-Identifier: Apache-2.0
"""Derived random generators. Nothing else in the project seeds or draws from a global generator."""

import hashlib
from math import pi, prod
from typing import Literal

import torch
from torch import Tensor

Noise = Literal[  # of what answers
    "none",  # equal texts get equal answers, always
    "text",  # drawn from the text and a number: the same until `redraw`
    "fresh",  # drawn anew for each answer
]


def derived_seed(seed: int, *parts: int | str) -> int:
    """A 63-bit seed that depends on every part, the same on every platform and Python version."""
    digest = hashlib.blake2b(repr((seed, *parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generator(seed: int, *parts: int | str) -> torch.Generator:
    """A CPU generator of its own for one purpose, e.g. ``generator(seed, "order", epoch)``."""
    return torch.Generator().manual_seed(derived_seed(seed, *parts))


def seed_layers(seed: int, *parts: int | str) -> None:
    """Seed what PyTorch layers draw from by themselves (dropout, new weights), on every device."""
    torch.manual_seed(derived_seed(seed, *parts))


def scrambled(values: Tensor) -> Tensor:
    """Mix every 64-bit integer by itself (splitmix64): noise that depends on the value alone, not on order or batch."""
    z = values + -0x61C8864680B583EB
    z = (z ^ (z >> 30 & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    z = (z ^ (z >> 27 & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return z ^ (z >> 31 & 0x1FFFFFFFF)


def lots(seeds: Tensor, count: int) -> Tensor:
    """For each seed a row of so many 64-bit integers, (rows, count); a longer row begins like a shorter one."""
    places = scrambled(torch.arange(1, count + 1, device=seeds.device))
    return scrambled(scrambled(seeds)[:, None] ^ places)


def uniform(seeds: Tensor, count: int) -> Tensor:
    """The same as numbers from 0 up to 1."""
    return (lots(seeds, count) >> 11 & (1 << 53) - 1).double() / 2.0**53


def gaussian(seeds: Tensor, *shape: int) -> Tensor:
    """For each seed standard normal numbers, (rows, *shape), by Box and Muller from the two halves of each lot."""
    drawn = lots(seeds, prod(shape))
    radius = (-2 * (((drawn >> 32 & 0xFFFFFFFF) + 1).double() / 2.0**32).log()).sqrt()
    return (radius * (2 * pi / 2.0**32 * (drawn & 0xFFFFFFFF).double()).cos()).float().view(len(seeds), *shape)
