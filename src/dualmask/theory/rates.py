# SPDX-License-Identifier: Apache-2.0
"""How often the success condition holds: for any triples, and for a table of token embeddings."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dualmask.errors import DataError, OptionError
from dualmask.theory.conditions import ordering_of, success_condition_of
from dualmask.theory.products import Floats, Products, products, vectors

Replacement = Literal["random", "nearest"]
AT_ONCE = 500  # victims whose neighbours are looked for together


class Rates(NamedTuple):
    """Shares of triples."""

    triples: int
    condition: float
    paper: float  # E_m <= E_mr <= E_r under the paper's law
    uniform: float
    masked_closer: float  # E_m <= E_r


def rates_of(p: Products) -> Rates:
    if not p.size.size:
        raise DataError("the share of no triples at all was asked for.")
    order = ordering_of(p)
    shares = (success_condition_of(p).holds, order.paper, order.uniform, order.masked_closer)
    return Rates(p.size.size, *(float(np.mean(one)) for one in shares))


def condition_rate(
    embeddings: ArrayLike, mask: ArrayLike, *, replacement: Replacement, draws: int, generator: np.random.Generator,
    context: int = 20,
) -> Rates:
    """For random victims of a table of token embeddings, (tokens, d), and the vector of [MASK].

    s is the mean of `context` random tokens. The replacement is a random token, or the one with the greatest cosine:
    about as near as a synonym.
    """
    table, m = vectors(embeddings, mask)
    if table.ndim != 2 or len(table) < 2:
        raise DataError(f"embeddings of the shape {table.shape} were given; expected one row for each of two or more "
                        "tokens.")
    if replacement not in ("random", "nearest") or draws < 1 or context < 1:
        raise OptionError(f"replacement '{replacement}', {draws} draws and a context of {context} were asked for; "
                          "expected 'random' or 'nearest', and at least 1 of each.")
    victims = generator.integers(len(table), size=draws)
    if replacement == "random":
        others = (victims + generator.integers(1, len(table), size=draws)) % len(table)
    else:
        others = neighbours(table, victims)
    roots = np.stack([table[generator.integers(len(table), size=context)].mean(axis=0) for _ in range(draws)])
    return rates_of(products(table[victims] - roots, m - roots, table[others] - roots))


def neighbours(table: Floats, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each of these rows the other row with the greatest cosine."""
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    unit = np.divide(table, lengths, out=np.zeros_like(table), where=lengths > 0)
    found = np.empty(len(rows), dtype=np.int64)
    for start in range(0, len(rows), AT_ONCE):
        part = rows[start:start + AT_ONCE]
        near = unit[part] @ unit.T
        near[np.arange(len(part)), part] = -np.inf
        found[start:start + AT_ONCE] = near.argmax(axis=1)
    return found
