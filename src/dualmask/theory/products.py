# SPDX-License-Identifier: Apache-2.0
"""Three vectors as their six inner products: every distance, cosine and condition of the theory follows from them."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dualmask.errors import DataError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
# Sums of products of like size are known to about 1e-16 of their size; differences below this share of it are ties
ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class Products:
    """Inner products of a = v_a, m = v_m and r = v_r, the origin being s; all of one shape, one item a triple."""

    aa: Floats
    mm: Floats
    rr: Floats
    am: Floats
    ar: Floats
    mr: Floats

    @property
    def size(self) -> Floats:
        """||a||^2 + ||m||^2 + ||r||^2, what differences are compared with: scaling all vectors alters no verdict."""
        return self.aa + self.mm + self.rr

    def cosine(self, one: str, other: str) -> Floats:
        """l between two of a, m, r. A zero vector has no direction: its cosine with anything is 0."""
        between = getattr(self, one + other)
        lengths = np.sqrt(getattr(self, one * 2)) * np.sqrt(getattr(self, other * 2))
        found: Floats = np.divide(between, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        return found.clip(-1.0, 1.0)

    def table(self) -> Floats:
        """(..., 6), in the order of the fields."""
        return np.stack([getattr(self, f.name) for f in fields(self)], axis=-1)

    @classmethod
    def of_table(cls, table: ArrayLike) -> "Products":
        columns = finite(table, "inner products")
        if columns.shape[-1:] != (6,):
            raise DataError(f"inner products of the shape {columns.shape} were given; expected aa, mm, rr, am, ar and "
                            "mr along the last axis.")
        return cls(**{f.name: columns[..., place] for place, f in enumerate(fields(cls))})


def products(v_a: ArrayLike, v_m: ArrayLike, v_r: ArrayLike) -> Products:
    """Of vectors rooted at s, (..., d) each; leading dimensions are broadcast against each other."""
    a, m, r = vectors(v_a, v_m, v_r)
    with np.errstate(over="ignore", invalid="ignore"):
        found = [inner(one, other) for one, other in ((a, a), (m, m), (r, r), (a, m), (a, r), (m, r))]
    if not all(np.isfinite(one).all() for one in found):
        raise DataError("vectors were given whose squared lengths are too great for a number; scale them down: no "
                        "verdict depends on the scale.")
    aa, mm, rr, am, ar, mr = np.broadcast_arrays(*found)
    return Products(aa=aa, mm=mm, rr=rr, am=am, ar=ar, mr=mr)


def inner(one: Floats, other: Floats) -> Floats:
    return np.asarray(np.einsum("...i,...i->...", one, other), dtype=np.float64)


def vectors(*given: ArrayLike) -> list[Floats]:
    """In double precision; DataError where they hold what is no number, or have different dimensions."""
    found = [finite(one, "vectors") for one in given]
    if any(one.ndim == 0 for one in found) or len({one.shape[-1] for one in found}) > 1:
        raise DataError(f"vectors of the shapes {', '.join(str(one.shape) for one in found)} were given; expected the "
                        "same dimension at the end of each.")
    try:
        np.broadcast_shapes(*(one.shape for one in found))
    except ValueError:
        raise DataError(f"vectors of the shapes {', '.join(str(one.shape) for one in found)} can't be brought together;"
                        " give as many of each.") from None
    return found


def finite(given: ArrayLike, what: str) -> Floats:
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{what} that are no array of numbers were given: {given!r:.60}.") from None
    if not np.isfinite(found).all():
        raise DataError(f"{what} with infinite or undefined entries were given; expected finite numbers. Look for the "
                        "text or the model that they come from.")
    return found
