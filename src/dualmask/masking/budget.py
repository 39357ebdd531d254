# SPDX-License-Identifier: Apache-2.0
"""How many masks a text gets: M = ceil(|x| b)."""

from fractions import Fraction
from typing import Literal

from torch import Tensor

from dualmask.errors import OptionError

Rounding = Literal["ceil", "floor"]
Counted = Literal["body", "body+sep", "all"]


def mask_budget(lengths: Tensor, rate: float, *, rounding: Rounding = "ceil") -> Tensor:
    """Masks per text, M = ceil(|x| b), or max(1, floor(|x| b)) in the released code; nothing for an empty text.

    Integers throughout: in floating point ceil(0.3 n) comes out one too large for n = 50, 90, 100, ...
    """
    if not 0 <= rate <= 1:
        raise OptionError(f"a mask rate of {rate} was given; expected a share of the tokens between 0 and 1.")
    # the decimal that was written, not its binary neighbour; a millionth is finer than any text is long
    exact = Fraction(str(rate)).limit_denominator(1_000_000)
    if rounding == "ceil":
        return -(-lengths * exact.numerator // exact.denominator)
    floor = lengths * exact.numerator // exact.denominator
    return floor.clamp(min=1).minimum(lengths) if rate > 0 else floor


def counted_length(lengths: Tensor, counted: Counted, *, specials: int) -> Tensor:
    """What the budget counts: the body alone, the body with the closing token, or all special tokens too."""
    return lengths + {"body": 0, "body+sep": 1, "all": specials}[counted]


def longest_body(
    limit: int, rate: float, *, rounding: Rounding = "ceil", specials: int = 2, counted: Counted = "body",
) -> int:
    """The largest body n with n + M(n) + specials <= limit, so that masks and special tokens all fit."""
    import torch

    bodies = torch.arange(limit - specials + 1)
    masks = mask_budget(counted_length(bodies, counted, specials=specials), rate, rounding=rounding)
    total = bodies + masks + specials
    longest = int(bodies[total <= limit].max()) if bool((total <= limit).any()) else 0
    if longest < 1:
        raise OptionError(f"a limit of {limit} tokens leaves no room for text beside {specials} special tokens and the "
                          "masks; raise max_length.")
    return longest
