# SPDX-License-Identifier: Apache-2.0
"""Near words with their cosines: the table shipped with the package, or one made from a user's own vectors.

A pair of words is held once, in the row of the word with the smaller number, so that cosines are the same in both
directions. Kept are each word's 50 nearest with a cosine of 0.5 or more; `tools/build_synonyms.py` makes the asset.
"""

import io
import zipfile
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from dualmask.errors import DataError, OptionError, ResourceError
from dualmask.system_errors import told_reason

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

MOST, LEAST = 50, 0.5  # neighbours kept for each word, and the cosine that they must reach
ASSET = "synonyms.npz"
_BLOCK = 512  # rows compared with all words at a time: 100 MB at 50,000 words


class Pairs(NamedTuple):
    """Pairs of word numbers, `first` < `second`, ordered by both; each pair once."""

    first: Integers
    second: Integers
    cosines: Floats


class Synonyms:
    """A symmetric table of near words. Words are looked up as they are: lower-casing is the caller's job."""

    def __init__(self, words: Sequence[str], pairs: Pairs) -> None:
        self.words: Sequence[str] = tuple(words)
        self._number = {word: number for number, word in enumerate(self.words)}
        self._first, self._second, self._cosines = pairs
        self._starts = _starts(self._first, len(self.words))
        # The same pairs ordered by their second word; so few kinds of numbers sort fastest in 16 bits.
        narrow = self._second.astype(np.uint16) if len(self.words) <= 1 << 16 else self._second
        self._turned = np.argsort(narrow, kind="stable")
        self._turned_starts = _starts(self._second[self._turned], len(self.words))

    @property
    def pairs(self) -> Pairs:
        """All of them; not to be written to."""
        return Pairs(self._first, self._second, self._cosines)

    def neighbours(self, word: str, most: int = MOST) -> list[tuple[str, float]]:
        """The nearest words with their cosines, nearest first, equally near ones by name; none for an unknown word.

        With more than `MOST`, words also count to which this one is near though they are not to it.
        """
        number = self._number.get(word)
        if number is None:
            return []
        after = slice(self._starts[number], self._starts[number + 1])
        before = self._turned[self._turned_starts[number]:self._turned_starts[number + 1]]
        others = np.concatenate([self._second[after], self._first[before]]).tolist()
        cosines = np.concatenate([self._cosines[after], self._cosines[before]]).tolist()
        near = ((self.words[other], cosine) for other, cosine in zip(others, cosines, strict=True))
        return sorted(near, key=lambda entry: (-entry[1], entry[0]))[:most]

    def cosine(self, one: str, other: str) -> float | None:
        """The cosine of two words; 0.0 where it is below what the table holds, None if a word is unknown."""
        numbers = self._number.get(one), self._number.get(other)
        if numbers[0] is None or numbers[1] is None:
            return None
        if numbers[0] == numbers[1]:
            return 1.0
        low, high = min(numbers[0], numbers[1]), max(numbers[0], numbers[1])
        row = self._second[self._starts[low]:self._starts[low + 1]]
        place = int(np.searchsorted(row, high))
        if place == len(row) or row[place] != high:
            return 0.0
        return float(self._cosines[self._starts[low] + place])

    def __contains__(self, word: object) -> bool:
        return word in self._number

    def __len__(self) -> int:
        """The number of words."""
        return len(self.words)


@lru_cache(maxsize=1)
def shipped_synonyms() -> Synonyms:
    """The table of 50,000 common English words that comes with the package."""
    asset = resources.files("dualmask") / "assets" / ASSET
    try:
        return unpacked(asset.read_bytes())
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ResourceError(
            f"the shipped synonym table {ASSET} can't be read ({told_reason(error)}): install dualmask again, "
            "or build it with tools/build_synonyms.py."
        ) from error


def find_synonyms(name: str) -> Synonyms:
    """The table called `shipped`, or the one made from the vectors in a file."""
    if name == "shipped":
        return shipped_synonyms()
    if not Path(name).is_file():
        raise OptionError(
            f"synonyms '{name}': expected 'shipped' or a file of word vectors, one 'word v1 v2 ...' a line; "
            "no file of that name is here."
        )
    return load_vectors(name)


def load_vectors(path: str | Path, *, most: int = MOST, least: float = LEAST) -> Synonyms:
    """A table from vectors in a text file, `word v1 v2 ...` a line, such as the original counter-fitted ones."""
    if most < 1 or not 0 < least <= 1:
        raise OptionError(f"most={most}, least={least}: expected most >= 1 and a least cosine above 0, at most 1.")
    try:
        with Path(path).open(encoding="utf-8", newline="\n") as stream:
            words, vectors = _read_vectors(stream, str(path))
    except OSError as error:
        raise DataError(f"'{path}' can't be read ({error.strerror}): give a file of word vectors.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"'{path}' is not UTF-8 text ({error.reason}): give vectors as text, not binary.") from error
    return Synonyms(words, nearest_pairs(vectors, most=most, least=least))


def nearest_pairs(vectors: Floats, *, most: int = MOST, least: float = LEAST) -> Pairs:
    """Each row's nearest rows by cosine, as pairs; a pair is kept if either has the other among its nearest."""
    unit = normalised(vectors)
    count = len(unit)
    keys, cosines = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
    for start in range(0, count, _BLOCK):
        row, other, cosine = nearest(unit, np.arange(start, min(start + _BLOCK, count)), most=most, least=least)
        keys.append(np.minimum(row, other) * count + np.maximum(row, other))
        cosines.append(cosine)
    key, place = np.unique(np.concatenate(keys), return_index=True)
    return Pairs(key // max(count, 1), key % max(count, 1), np.concatenate(cosines)[place])


def nearest(
    unit: Floats, rows: Integers, *, most: int = MOST, least: float = LEAST
) -> tuple[Integers, Integers, Floats]:
    """The `most` nearest of each of the given rows among all: row, neighbour and cosine, nearest first."""
    table = unit[rows] @ unit.T  # (rows, words)
    table[np.arange(len(rows)), rows] = -1
    # Few cosines reach the threshold: sorting only those is many times quicker than a partition of every row.
    place, other = np.nonzero(table >= least)
    cosine = np.minimum(table[place, other], 1)
    order = np.lexsort((other, -cosine, place))
    place, other, cosine = place[order], other[order], cosine[order]
    kept = np.arange(len(place)) - _starts(place, len(rows))[place] < most
    return rows[place[kept]], other[kept], cosine[kept]


def normalised(vectors: Floats) -> Floats:
    """Rows of length one; a row of zeros, which has no direction, stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def packed(words: Sequence[str], pairs: Pairs, *, least: float, step: float) -> bytes:
    """The table as a compressed archive of plain arrays: gaps between numbers, and cosines in steps above `least`."""
    starts = _starts(pairs.first, len(words))
    before = np.concatenate([[0], pairs.second[:-1]])
    opens = starts[:-1][np.diff(starts) > 0]
    before[opens] = pairs.first[opens]
    gaps = pairs.second - before
    levels = np.rint((pairs.cosines - least) / step)
    if len(words) > 1 << 16 or levels.min(initial=0) < 0 or levels.max(initial=0) > 255:
        raise ValueError("the format holds at most 65,536 words and cosines of 256 steps above the least")
    archive = io.BytesIO()
    np.savez_compressed(
        archive, words=np.frombuffer("\n".join(words).encode(), np.uint8), scale=np.array([least, step]),
        counts=np.diff(starts).astype(np.uint16), levels=levels.astype(np.uint8),
        low=(gaps & 255).astype(np.uint8), high=(gaps >> 8).astype(np.uint8),  # apart, as only the high one is regular
    )
    return archive.getvalue()


def unpacked(content: bytes) -> Synonyms:
    """The table out of the archive that `packed` makes. Nothing in it can run code."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        words = archive["words"].tobytes().decode().split("\n")
        counts = archive["counts"].astype(np.int64)
        gaps = archive["low"].astype(np.int64) + (archive["high"].astype(np.int64) << 8)
        levels = archive["levels"]
        least, step = archive["scale"].tolist()
    if not len(words) == len(counts) or not counts.sum() == len(gaps) == len(levels):
        raise ValueError("its arrays don't fit together")
    running = np.concatenate([[0], np.cumsum(gaps)])
    first = np.repeat(np.arange(len(words)), counts)
    second = running[1:] - np.repeat(running[np.cumsum(counts) - counts], counts) + first
    cosines = (least + step * np.arange(256)).astype(np.float32)[levels]
    return Synonyms(words, Pairs(first, second, cosines))


def _starts(ordered: Integers, count: int) -> Integers:
    """Where each number's run begins in an ordered array, with the end as the last entry, (count + 1,)."""
    return np.concatenate([[0], np.cumsum(np.bincount(ordered, minlength=count))]).astype(np.int64)


def _read_vectors(stream: TextIO, path: str) -> tuple[list[str], Floats]:
    rows: dict[str, Floats] = {}
    size = 0
    head = list(islice(stream, 1))
    if head and _is_header(head[0]):
        head = ["\n"]
    for number, line in enumerate((line for part in (head, stream) for line in part), start=1):
        if not line.strip():
            continue
        word, *fields = line.rstrip().split(" ")
        if word in rows:
            raise DataError(f"'{path}', line {number}: the word '{word}' was there before; give each word once.")
        rows[word] = _vector(fields, f"'{path}', line {number} ('{word[:40]}')", size)
        size = len(fields)
    if not rows:
        raise DataError(f"'{path}' holds no vectors: expected lines such as 'word 0.1 -0.2 ...'.")
    return list(rows), np.stack(list(rows.values()))


def _is_header(line: str) -> bool:
    """Some writers put the two sizes first."""
    fields = line.split()
    return len(fields) == 2 and all(field.isdecimal() for field in fields)


def _vector(fields: list[str], where: str, size: int) -> Floats:
    if not fields or (size and len(fields) != size):
        expected = f"{size} as in the lines before" if size else "at least one"
        raise DataError(f"{where}: {len(fields)} numbers after the word, expected {expected}.")
    try:
        vector = np.array(fields, dtype=np.float32)
    except ValueError as error:
        raise DataError(f"{where}: expected numbers after the word ({error}).") from None
    if not np.isfinite(vector).all():
        raise DataError(f"{where}: every number must be finite.")
    return vector
