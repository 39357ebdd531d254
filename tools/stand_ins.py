# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for what golden traces can't use: victim, sentence encoder, synonyms, WordNet and tagger made of hashes.

TextAttack and dualmask are given the same ones, so their traces must agree. Every answer is worked out in integers and
ends in one division or square root, which IEEE 754 rounds the same way everywhere: no answer depends on the machine,
on the batch or on the order of summation. Nothing here means anything; it only has to bite.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_RUN = re.compile(r"[^\W_]+")
_GAIN = 6
_SHORT, _WEIGHT_OF_SHORT, _WEIGHT_OF_LONG, _WEIGHT_OF_PLACE = 3, 2, 8, 1
_MARKS = frozenset(',.;:!?()"#&$/')
_SIZE = 64
TAGS = ("NOUN", "VERB", "ADJ", "ADV")


def hashed(key: str, size: int = 4) -> int:
    """A whole number below 256 ** size that depends on the key alone."""
    return int.from_bytes(blake2b(key.encode(), digest_size=size).digest(), "little")


def runs(text: str) -> list[str]:
    """The lower-cased runs of letters and digits of a text."""
    return _RUN.findall(text.lower())


@lru_cache(maxsize=1 << 18)
def _weight(key: str) -> int:
    return hashed(key) % 2001 - 1000


class StandInVictim:
    """Texts to probabilities (texts, classes): a hashed weight for each word, a small one for its place.

    The places tell two uses of one word apart: importance scores would tie otherwise, and the order of ties in
    numpy's sort depends on the processor. The punctuation weighs too: no attack may change it, so that some fail.
    """

    def __init__(self, classes: int) -> None:
        self.classes = classes

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float64]:
        return np.array([self._probabilities(text) for text in texts], dtype=np.float64).reshape(-1, self.classes)

    def _probabilities(self, text: str) -> list[float]:
        words = runs(text)
        sums = [0] * self.classes
        for place, word in enumerate(words):
            weight = _WEIGHT_OF_SHORT if len(word) <= _SHORT else _WEIGHT_OF_LONG
            for label in range(self.classes):
                sums[label] += weight * _weight(f"{label} {word}")
                sums[label] += _WEIGHT_OF_PLACE * _weight(f"{label} {place} {word}")
        marks = "".join(letter for letter in text if letter in _MARKS)
        size = _WEIGHT_OF_LONG * (len(words) + 4)
        for label in range(self.classes):
            sums[label] = _GAIN * sums[label] + self.classes * size * _weight(f"{label} marks {marks}")
        odds = [_odds(total / (1000 * size)) for total in sums]
        whole = math.fsum(odds)  # sum() adds in another way from Python 3.12 on
        return [odd / whole for odd in odds]


def _odds(score: float) -> float:
    """Positive and rising like an exponential, but of exact operations only."""
    return 1 + score if score >= 0 else 1 / (1 - score)


class StandInSentenceEncoder:
    """Texts to unit vectors (texts, 64): a bag of hashed words, of unequal weight, and of their three-letter parts."""

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float64]:
        return np.array([self._vector(text) for text in texts], dtype=np.float64).reshape(-1, _SIZE)

    def _vector(self, text: str) -> NDArray[np.float64]:
        total = np.zeros(_SIZE, dtype=np.int64)
        for word in runs(text):
            total += _word_vector(word)
        length = int(np.dot(total, total))
        if not length:
            return np.eye(1, _SIZE, dtype=np.float64)[0]
        unit: NDArray[np.float64] = total / math.sqrt(length)
        return unit


@lru_cache(maxsize=1 << 16)
def _word_vector(word: str) -> NDArray[np.int64]:
    # one word in 32 outweighs a whole sentence, so that loose thresholds bite too
    draw = hashed(f"importance {word}", 2)
    weight = 150 if draw % 32 == 0 else 3 + draw % 9
    total = weight * _dense(f"word {word}")
    padded = f"^{word}$"
    for start in range(len(padded) - 2):
        total = total + _dense(f"part {padded[start:start + 3]}")
    return total


def _dense(key: str) -> NDArray[np.int64]:
    digest = blake2b(key.encode(), digest_size=_SIZE).digest()
    return np.frombuffer(digest, dtype=np.uint8).astype(np.int64) * 2 - 255


class StandInSynonyms:
    """Word -> nearest words with made-up cosines: falling with the rank, from a height of its own, some under 0.5."""

    def __init__(self, table: Mapping[str, Sequence[str]]) -> None:
        self._table = {word: tuple(nearest) for word, nearest in table.items()}
        self._known = frozenset(self._table).union(*self._table.values())

    @classmethod
    def load(cls, path: Path) -> "StandInSynonyms":
        """From a JSON object of word -> list of words."""
        return cls(json.loads(path.read_text(encoding="utf-8")))

    def __contains__(self, word: str) -> bool:
        return word in self._known

    def neighbours(self, word: str, most: int) -> list[tuple[str, float]]:
        """At most so many of the nearest words, best first; none for an unknown word."""
        return [(other, self._listed(word, other)) for other in self._table.get(word, ())[:most]]

    def cosine(self, first: str, second: str) -> float | None:
        """Of two known words; None if either is unknown."""
        if first not in self or second not in self:
            return None
        if first == second:
            return 1.0
        for word, other in ((first, second), (second, first)):
            if other in self._table.get(word, ()):
                return self._listed(word, other)
        low, high = sorted((first, second))
        return hashed(f"apart {low} {high}") % 500 / 1000

    def _listed(self, word: str, other: str) -> float:
        rank = self._table[word].index(other)
        height = hashed(f"height {word}") % 200
        return (950 - height - 55 * rank - hashed(f"jitter {word} {other}") % 55) / 1000


class StandInWordNet:
    """Word -> lemma names as WordNet would list them, phrases with "_" among them, from a table in lower case."""

    def __init__(self, table: Mapping[str, Sequence[str]]) -> None:
        self._table = {word: tuple(names) for word, names in table.items()}

    def lemma_names(self, word: str) -> list[str]:
        return list(self._table.get(word.lower(), ()))


class StandInTagger:
    """Words to universal tags, from the ends of a word and now and then of its neighbours, so that the window shows."""

    def __call__(self, words: Sequence[str]) -> list[str]:
        ends = ["", *(word[-2:].lower() for word in words), ""]
        return [self._tag(*ends[place - 1:place + 2]) for place in range(1, len(words) + 1)]

    @staticmethod
    def _tag(before: str, end: str, after: str) -> str:
        draw = hashed(f"tag {end}", 1)
        if hashed(f"turned {before} {end} {after}", 1) % 8 == 0:
            draw += 1
        return TAGS[draw % len(TAGS)]


def digest(texts: Iterable[str]) -> str:
    """16 hexadecimal digits over texts in order, each preceded by its length."""
    total = blake2b(digest_size=8)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        total.update(len(data).to_bytes(4, "little"))
        total.update(data)
    return total.hexdigest()
