# SPDX-License-Identifier: Apache-2.0
"""What each defence and preset was measured to keep and to cost, as `make results` wrote it from records.

One asset for all who show such figures: `dualmask list`, `dualmask choose` and the tables in the documents.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from typing import Any, Self

from dualmask.errors import DataError

ASSET = "measured.json"
PLAIN = "plain"  # the row of no defence


@dataclass(frozen=True, kw_only=True)
class MeasuredShare:
    """A share of texts in percent."""

    percent: float
    texts: int  # of one seed
    seeds: int = 1
    deviation: float | None = None  # over training seeds
    redrawn: float | None = None  # of answers by noise: what is left if new draws must repeat a success
    apart: bool | None = None  # whether it differs from plain's beyond chance; None: that was not tested
    plain: float | None = None  # what the plain classifier keeps of the very same texts and seeds; None: not known

    def of_plain(self, own: "MeasuredShare | None") -> "MeasuredShare | None":
        """What plain keeps of the same texts, else what it keeps of its own."""
        return own if self.plain is None else MeasuredShare(percent=self.plain, texts=self.texts, seeds=self.seeds)

    def shown(self, *, basis: bool = False) -> str:
        """``77.1`` or ``77.1 (500 x 3)``."""
        return f"{self.percent:.1f}" + (f" ({self.basis})" if basis else "")

    @property
    def basis(self) -> str:
        """Texts x seeds."""
        return f"{self.texts} x {self.seeds}"


@dataclass(frozen=True, kw_only=True)
class Certified:
    """What a certificate proves, in percent of all texts."""

    texts: int
    right: float
    certified: tuple[float, ...]  # right, and no change of 0, 1, 2, ... words alters the answer


@dataclass(frozen=True, kw_only=True)
class MeasuredRow:
    """A defence by a preset on one data set, trained, or put around a network that stays as it is."""

    name: str  # as tables show it
    defence: str
    preset: str
    changes: Mapping[str, object] = field(default_factory=dict)  # options that are not the preset's
    data: str
    encoder: str
    trained: bool = True  # false: put around an unchanged network
    clean: MeasuredShare | None = None
    attacks: Mapping[str, MeasuredShare] = field(default_factory=dict)  # that ask the defended classifier
    aware: Mapping[str, MeasuredShare] = field(default_factory=dict)  # that know the defence, or see more of it
    worst: MeasuredShare | None = None  # a text holds only if all of `attacks` failed on it
    every: MeasuredShare | None = None  # and all of `aware`
    flagged: Mapping[str, MeasuredShare] = field(default_factory=dict)  # adversarial texts that a detector flags
    false_alarms: MeasuredShare | None = None  # clean ones
    certificate: Certified | None = None
    training_times: float | None = None  # seconds of training, in those of plain
    answer_times: float | None = None  # seconds of answering, in those of plain
    passes: str = ""  # for an answer
    doubts: tuple[str, ...] = ()  # reasons not to compare this row with others as it stands
    source: str = ""  # the file of records

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """What the asset holds; DataError where a name is not known."""
        shares = {name: MeasuredShare(**given[name]) for name in SHARES if name in given}
        several = {name: {attack: MeasuredShare(**share) for attack, share in given[name].items()}
                   for name in SEVERAL if name in given}
        told = given.get("certificate")
        certificate = Certified(**{**told, "certified": tuple(told["certified"])}) if told else None
        return cls(**{**given, **shares, **several, "certificate": certificate,
                      "doubts": tuple(given.get("doubts", ()))})


SHARES = ("clean", "worst", "every", "false_alarms")
SEVERAL = ("attacks", "aware", "flagged")


def as_json(value: object) -> object:
    """A dataclass as a mapping without what is as it is anyway."""
    if hasattr(value, "__dataclass_fields__"):
        return {one.name: as_json(found) for one in fields(value)  # type: ignore[arg-type]
                if (found := getattr(value, one.name)) not in (None, "", (), {}) and found != one.default}
    if isinstance(value, Mapping):
        return {name: as_json(one) for name, one in value.items()}
    return list(value) if isinstance(value, tuple) else value


def as_asset(rows: Iterable[MeasuredRow]) -> str:
    """The asset's text: JSON with a row on each line."""
    return "[\n" + ",\n".join(json.dumps(as_json(row)) for row in rows) + "\n]\n"


def read_rows(text: str) -> tuple[MeasuredRow, ...]:
    try:
        return tuple(map(MeasuredRow.from_json, json.loads(text)))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{ASSET} can't be read ({error}); 'make results' in a checkout writes it anew.") from None


@cache
def measured_rows() -> tuple[MeasuredRow, ...]:
    """All that was measured, plain first in each data set."""
    return read_rows((files("dualmask") / "assets" / ASSET).read_text(encoding="utf-8"))


def find_row(
    rows: Sequence[MeasuredRow], defence: str, preset: str, *, data: str, encoder: str | None = None,
    trained: bool = True,
) -> MeasuredRow | None:
    """Of a defence by a preset the row with the fewest other options."""
    found = [row for row in rows if (row.defence, row.preset, row.data, row.trained) == (defence, preset, data, trained)
             and encoder in (None, row.encoder)]
    return min(found, key=lambda row: len(row.changes), default=None)
