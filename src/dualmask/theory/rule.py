# SPDX-License-Identifier: Apache-2.0
"""Our own diagnostic beside the theorem: a small logistic rule on the same lengths and angles. It is no theorem.

Its six inputs are the three lengths and the three cosines that the theorem's condition is made of.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dualmask.errors import DataError
from dualmask.theory.products import Flags, Floats, Products, finite

FEATURES = ("log |v_a|", "log |v_m|", "log |v_r|", "l_am", "l_ar", "l_mr")
FLOOR = 1e-6  # lengths below this share of all three together count as that: the logarithm of 0 has no value
PENALTY = 1.0  # on squared weights of standardised inputs: few texts, and inputs that vary together
FOLDS, REPEATS, STEPS = 5, 10, 100
LEAST = 50  # texts of either kind without which nothing is fitted: some ten for each weight


@dataclass(frozen=True)
class Rule:
    """Chance of recovery = 1 / (1 + exp(-(bias + weights . (input - centre) / spread)))."""

    bias: float
    weights: tuple[float, ...]
    centre: tuple[float, ...]
    spread: tuple[float, ...]

    def __call__(self, inputs: ArrayLike) -> Floats:
        """For rows of inputs, e.g. means of FEATURES over a text's changed words, (texts, inputs)."""
        scaled = (finite(inputs, "inputs") - np.array(self.centre)) / np.array(self.spread)
        return logistic(self.bias + scaled @ np.array(self.weights))

    def as_dict(self, names: Sequence[str]) -> Mapping[str, object]:
        return {"bias": self.bias, "inputs": {
            name: {"weight": weight, "centre": centre, "spread": spread} for name, weight, centre, spread
            in zip(names, self.weights, self.centre, self.spread, strict=True)}}


def features(p: Products) -> Floats:
    """(..., 6), in the order of FEATURES; finite whatever the vectors are."""
    least = FLOOR ** 2 * np.where(p.size > 0, p.size, 1.0)
    lengths = [np.log(np.maximum(square, least)) / 2 for square in (p.aa, p.mm, p.rr)]
    return np.stack([*lengths, *(p.cosine(*pair) for pair in ("am", "ar", "mr"))], axis=-1)


def logistic(values: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(values, -500, 500))))


def fit(inputs: ArrayLike, recovered: ArrayLike) -> Rule:
    """Ridge-penalised maximum likelihood, by Newton's method."""
    x, y = finite(inputs, "inputs"), np.asarray(recovered, dtype=bool)
    if x.ndim != 2 or y.shape != x.shape[:1] or not len(y):
        raise DataError(f"inputs {x.shape} and outcomes {y.shape} were given; expected one outcome for each row.")
    centre, spread = x.mean(axis=0), x.std(axis=0)
    spread = np.where(spread > 1e-12, spread, 1.0)
    design = np.column_stack([np.ones(len(x)), (x - centre) / spread])
    penalty = np.diag([1e-6, *[PENALTY] * x.shape[1]])  # nearly none on the bias, enough for one outcome alone
    weights = np.zeros(design.shape[1])
    for _ in range(STEPS):
        chance = logistic(design @ weights)
        slope = design.T @ (y - chance) - penalty @ weights
        step = np.linalg.solve((design.T * (chance * (1 - chance))) @ design + penalty, slope)
        weights = weights + step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-12))
        if np.abs(step).max() < 1e-9:
            break
    bias, *rest = (float(one) for one in weights)
    return Rule(bias, tuple(rest), tuple(map(float, centre)), tuple(map(float, spread)))


class HeldOut(NamedTuple):
    """One round of cross-validation."""

    scores: Floats  # of each row, by the rule that saw no row of its text
    folds: NDArray[np.int64]  # scores of one fold come from one rule, and only these can be compared


def held_out(inputs: Floats, recovered: Flags, texts: NDArray[np.int64], *, seed: int = 0) -> list[HeldOut]:
    """Rounds of cross-validation with different folds; none where there are too few rows.

    texts: of each row the number of its text; attacks on the same text stay in one fold.
    """
    if min(recovered.sum(), (~recovered).sum()) < LEAST or len(set(texts.tolist())) < FOLDS:
        return []
    rounds = []
    for repeat in range(REPEATS):
        order = np.random.default_rng([seed, repeat]).permutation(int(texts.max()) + 1)
        folds = np.argsort(order)[texts] % FOLDS
        scores = np.zeros(len(recovered))
        for fold in range(FOLDS):
            out = folds == fold
            scores[out] = fit(inputs[~out], recovered[~out])(inputs[out]) if out.any() else 0.0
        rounds.append(HeldOut(scores, folds))
    return rounds
