# SPDX-License-Identifier: Apache-2.0
"""One changed word of an attacked text and its geometry, as a line of JSON: all tables and plots follow from these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dualmask.errors import DataError
from dualmask.evaluation.records import THEORY
from dualmask.record_rules import COUNT, STRING, Rule, check, is_number
from dualmask.results import as_line, check_whole, read_records
from dualmask.theory.products import Products

WORDS = "words"  # what the header says that its lines are
DIGITS = 7  # that are kept of an inner product, as many as a network computes with; what is read is what was measured


@dataclass(frozen=True, kw_only=True)
class ChangedWord:
    """A word that an attack replaced by one word."""

    index: int  # of the text in the data
    source: str  # a digest of the text before the attack: attacks on one text have it in common
    attack: str
    mode: str
    place: int  # among the words of the attacked text
    before: str
    after: str
    masked: bool | None  # whether the defence hides a piece of the replacement; None: it rewrites texts
    fooled: bool  # whether the network without its defence is wrong about the attacked text
    recovered: bool  # whether the defended classifier is right about it
    layers: Mapping[int, Sequence[float]]  # aa, mm, rr, am, ar, mr by layer

    @property
    def settled(self) -> bool:
        return True

    @property
    def text(self) -> tuple[str, str, str, int]:
        """Which attacked text this is a word of."""
        return self.attack, self.mode, self.source, self.index

    def as_json(self) -> str:
        return as_line({f.name: getattr(self, f.name) for f in fields(self)})

    @classmethod
    def from_json(cls, record: Mapping[str, object]) -> "ChangedWord":
        check_whole(record, NAMES)
        check(record, FITS, "record")
        values = {name: record[name] for name in NAMES}
        layers = values["layers"]
        assert isinstance(layers, dict)
        values["layers"] = {int(number): tuple(products) for number, products in layers.items()}
        return cls(**values)  # type: ignore[arg-type]


def is_geometry(value: object) -> bool:
    """Six finite numbers by layer, squared lengths not negative."""
    return type(value) is dict and bool(value) and all(
        number.isdecimal() and type(six) is list and len(six) == 6 and all(is_number(one, -1e300, 1e300) for one in six)
        and min(six[:3]) >= 0 for number, six in value.items())


NAMES = frozenset(f.name for f in fields(ChangedWord))
FLAG = Rule(lambda value: type(value) is bool, "true or false")
FITS: Mapping[str, Rule] = {
    **dict.fromkeys(("index", "place"), COUNT), **dict.fromkeys(("fooled", "recovered"), FLAG),
    **dict.fromkeys(("source", "attack", "mode", "before", "after"), STRING), "masked": FLAG.or_none(),
    "layers": Rule(is_geometry, "six numbers for each layer, the first three not negative"),
}


class Quantities(NamedTuple):
    """A file of changed words, read."""

    header: Mapping[str, object]
    words: list[ChangedWord]


def read_quantities(path: Path) -> Quantities:
    """DataError names the file and what is wrong with it."""
    header, words = read_records(path, ChangedWord)
    if header.get("kind") != THEORY or header.get("holds") != WORDS:
        raise DataError(f"{path} holds no geometric quantities; make some with 'dualmask theory MODEL RECORDS --out "
                        "FOLDER'.")
    if len({tuple(word.layers) for word in words}) > 1:
        raise DataError(f"{path} has words of different layers; measure them in one run.")
    return Quantities(header, words)


def lines_of(found: Quantities) -> str:
    return "".join(f"{line}\n" for line in (as_line(found.header), *(word.as_json() for word in found.words)))


def rounded(p: Products) -> tuple[float, ...]:
    """The six inner products of one triple, as they are written."""
    return tuple(float(f"{one:.{DIGITS}g}") for one in p.table().tolist())


def geometry(words: Sequence[ChangedWord], layer: int) -> Products:
    """Of all words at one layer, (words,)."""
    return Products.of_table(np.array([word.layers[layer] for word in words]).reshape(-1, 6))
