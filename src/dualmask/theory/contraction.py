# SPDX-License-Identifier: Apache-2.0
"""Attention contracts unchanged tokens into one point s: what it gives lies between s and the tokens that are left."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dualmask.errors import DataError
from dualmask.theory.products import Floats, finite


class Contraction(NamedTuple):
    """attention output = share * point + what the other tokens add, each with its own weight."""

    point: Floats  # s, (d,)
    share: float  # of the attention that goes to unchanged tokens


def attention_weights(query: ArrayLike, keys: ArrayLike) -> Floats:
    """Softmax of inner products, (tokens,), as the paper writes it: without a scale."""
    logits = finite(keys, "keys") @ finite(query, "a query")
    raised = np.exp(logits - logits.max())
    return np.asarray(raised / raised.sum())


def contract(weights: ArrayLike, values: ArrayLike, unchanged: ArrayLike) -> Contraction:
    """s: the mean of the unchanged tokens' values, (tokens, d), weighted by the attention that they get, (tokens,)."""
    shares, points, kept = finite(weights, "weights"), finite(values, "values"), np.asarray(unchanged, dtype=bool)
    if points.ndim != 2 or not shares.shape == kept.shape == points.shape[:1]:
        raise DataError(f"weights {shares.shape}, values {points.shape} and flags {kept.shape} were given; expected "
                        "one weight and one flag for each row of values.")
    if (shares < 0).any() or not shares.sum() > 0:
        raise DataError("weights that are negative, or all zero, were given; expected what a softmax gives.")
    if not kept.any():
        raise DataError("no token is unchanged, so that there is nothing to contract; leave the text out.")
    of_kept = shares[kept]
    if not of_kept.sum() > 0:  # all attention is on changed tokens: any convex weights are a limit of softmaxes
        of_kept = np.ones_like(of_kept)
    return Contraction(of_kept @ points[kept] / of_kept.sum(), float(shares[kept].sum() / shares.sum()))
