# SPDX-License-Identifier: Apache-2.0
"""Counter-fitting: unit vectors moved until synonyms lie together and antonyms apart.

Paper: Mrksic et al., Counter-fitting word vectors to linguistic constraints, NAACL 2016.
Idea: antonyms part (distance at least 1), synonyms meet, old neighbours stay near; distance is 1 - cosine, each of the
    three losses a hinge, 20 rounds at a rate of 0.1.
Deviations: (1) a word moves by the mean over its active pairs, all words at once, where a stochastic step moves by one
    pair; (2) weights 3 : 1 : 0.3 instead of 1 : 1 : 1; (3) synonyms of either side of an antonym pair count as antonyms
    as well; (4) a word keeps at most its 20 nearest old neighbours.
"""

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from dualmask.text.synonyms import Floats, Integers, nearest_pairs, normalised

SLACK = 1e-6  # distances that differ by rounding alone are equal: such a pair would only thin the mean


@dataclass(frozen=True)
class Settings:
    """The weights are k1, k2, k3 of the paper, the margins its delta and gamma, the radius its rho."""

    antonym_weight: float = 3.0
    synonym_weight: float = 1.0
    preserve_weight: float = 0.3
    antonym_margin: float = 1.0
    synonym_margin: float = 0.0
    radius: float = 0.2
    old_neighbours: int = 20
    rate: float = 0.1
    rounds: int = 20


class Constraints(NamedTuple):
    """Pairs of word numbers, (pairs, 2), each once."""

    synonyms: Integers
    antonyms: Integers
    listed_antonyms: Integers  # without those derived from synonyms


def cosines(vectors: Floats, pairs: Integers) -> Floats:
    """Of unit vectors, (pairs,)."""
    return np.asarray(np.einsum("ij,ij->i", vectors[pairs[:, 0]], vectors[pairs[:, 1]]), dtype=np.float32)


def add_pull(total: Floats, vectors: Floats, pairs: Integers, *, weight: float) -> None:
    """Add for both words of each pair the gradient of their cosine, w - cos(u, w) u for unit u: a pull together."""
    cosine = cosines(vectors, pairs)[:, None]
    for one, other in (pairs.T, pairs.T[::-1]):
        np.add.at(total, one, weight * (vectors[other] - cosine * vectors[one]))


def mean_pull(vectors: Floats, constraints: Constraints, kept: tuple[Integers, Floats], settings: Settings) -> Floats:
    """The mean over each word's active pairs of minus the gradient of the paper's loss, (words, size)."""
    old_pairs, old_cosines = kept
    distance = 1 - cosines(vectors, constraints.antonyms)
    apart = constraints.antonyms[distance < settings.antonym_margin - SLACK]  # antonym repel
    distance = 1 - cosines(vectors, constraints.synonyms)
    near = constraints.synonyms[distance > settings.synonym_margin + SLACK]  # synonym attract
    strayed = old_pairs[cosines(vectors, old_pairs) < old_cosines - SLACK]  # vector-space preservation
    total, active = np.zeros_like(vectors), np.zeros(len(vectors), dtype=np.float32)
    weights = -settings.antonym_weight, settings.synonym_weight, settings.preserve_weight
    for pairs, weight in zip((apart, near, strayed), weights, strict=True):
        add_pull(total, vectors, pairs, weight=weight)
        active += np.bincount(pairs.ravel(), minlength=len(vectors))
    return np.asarray(total / np.maximum(active, 1)[:, None], dtype=np.float32)


def old_neighbours(start: Floats, settings: Settings) -> tuple[Integers, Floats]:
    """The pairs whose distance at the start is within the radius, with their cosines."""
    found = nearest_pairs(start, most=settings.old_neighbours, least=1 - settings.radius)
    return np.stack([found.first, found.second], axis=1), found.cosines


def counter_fit(start: Floats, constraints: Constraints, settings: Settings) -> Floats:
    """Unit vectors after all rounds."""
    start = normalised(start)
    kept = old_neighbours(start, settings)
    vectors = start
    for _ in range(settings.rounds):
        vectors = normalised(vectors + settings.rate * mean_pull(vectors, constraints, kept, settings))
    return vectors


def derived_antonyms(synonyms: set[tuple[int, int]], antonyms: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Also the synonyms of one side against the other side and its synonyms, unless listed as synonyms."""
    near: dict[int, set[int]] = {}
    for one, other in synonyms:
        near.setdefault(one, {one}).add(other)
        near.setdefault(other, {other}).add(one)
    found = set()
    for one, other in antonyms:
        left, right = near.get(one, {one}), near.get(other, {other})
        if not left & right:  # a common synonym shows that one of the lists means another sense
            found |= {(min(pair), max(pair)) for pair in product(left, right)}
    return (found | antonyms) - synonyms
