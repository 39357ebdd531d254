# SPDX-License-Identifier: Apache-2.0
"""Derived random generators. Nothing else in the project seeds or draws from a global generator."""

import hashlib

import torch
from torch import Tensor


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
