# SPDX-License-Identifier: Apache-2.0
"""What papers report, from a file that ships with the package. It stands beside what was measured, never instead."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import cast

from dualmask.errors import DataError
from dualmask.reporting.entries import Entry, options_of
from dualmask.system_errors import told_reason

ASSET = "reported.toml"
CAUTION = ("Reported figures come from another protocol and another encoder: the paper attacks BERT-base in a way that "
           "it does not fully state, and most other methods' rows are taken from their own papers. They are context, "
           "not a target.")
TEXTS = {"data": str, "defence": str, "name": str, "kind": str, "masks": bool, "clean": float}  # of each row


@dataclass(frozen=True)
class Reported:
    """One cell of a published table, in points (0 to 100)."""

    data: str
    defence: str
    attack: str
    name: str  # as the paper prints the method
    clean: float  # CLA
    robust: float  # CAA
    success: float  # SUCC

    @property
    def implied_success(self) -> float:
        """SUCC = 1 - CAA / CLA, which holds where all three were counted on the same texts."""
        return 100 * (1 - self.robust / self.clean)

    @property
    def consistent(self) -> bool:
        """Whether the printed SUCC is within a point of it."""
        return abs(self.success - self.implied_success) <= 1


@dataclass(frozen=True)
class Profile:
    """How attacks were set when the figures were made, as far as other settings change what they find."""

    preset: str  # of ours that does the same
    options: Mapping[str, Mapping[str, object]]  # by attack

    def apart(self, attack: str, options: Mapping[str, object]) -> str:
        """What of an attack is set otherwise; empty where nothing is, or where it is not told."""
        return ", ".join(f"{name} {options[name]} in place of {value}"
                         for name, value in self.options.get(attack, {}).items()
                         if name in options and options[name] != value)


@dataclass(frozen=True)
class ReportedTable:
    """All cells of a published table, and what the data are called elsewhere."""

    source: str
    cells: tuple[Reported, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)  # other names of the same data
    similar: Mapping[str, str] = field(default_factory=dict)  # the same kind of data, other texts
    profile: Profile | None = None

    def find(self, data: str, defence: str, attack: str) -> Reported | None:
        place = (self.name_of(data), defence, attack)
        return next((one for one in self.cells if (one.data, one.defence, one.attack) == place), None)

    def beside(self, one: Entry) -> Reported | None:
        """The cell that a measured figure stands beside."""
        return self.find(one.key.data, one.method, self.attack_of(one))

    def attack_of(self, one: Entry) -> str:
        """Whatever its column is called, an attack that is set as at that time is the reported one."""
        same = self.profile is not None and one.attack_preset == self.profile.preset
        return one.recipe if same else one.key.attack

    def apart(self, one: Entry) -> str:
        """How an attack whose figure stands beside a reported one is set otherwise."""
        if self.profile is None or self.beside(one) is None:
            return ""
        told = (self.profile.apart(one.recipe, options_of(run.records.header)) for run in one.runs)
        return next(filter(None, told), "")

    def same_profile(self, one: Entry) -> bool:
        """Whether an attack was set as when the figure was reported that it stands beside, as far as records tell."""
        return not self.apart(one) and not any(run.records.header.get("changed") for run in one.runs)

    def clean(self, data: str, defence: str) -> float | None:
        """A method's clean accuracy, which it has whatever the attack."""
        place = (self.name_of(data), defence)
        return next((one.clean for one in self.cells if (one.data, one.defence) == place), None)

    def name_of(self, data: str) -> str:
        return self.aliases.get(data) or self.similar.get(data) or data


def load_reported(path: Path | None = None) -> ReportedTable:
    """The shipped figures, or those of another file of the same form."""
    try:
        text = (path or files("dualmask") / "assets" / ASSET).read_text(encoding="utf-8")
        return table(tomllib.loads(text))
    except (OSError, ValueError) as error:  # TOML and UTF-8 errors are ValueErrors
        raise DataError(f"{path or ASSET} can't be read as TOML ({told_reason(error)}); restore it, or give "
                        "another file.") from None
    except DataError as error:
        raise DataError(f"{path or ASSET}: {error}") from None


def table(content: Mapping[str, object]) -> ReportedTable:
    source = section(content, "source")
    rows = content.get("row")
    if not isinstance(rows, list) or not rows:
        raise DataError("there are no rows; expected [[row]] tables with data, defence, name, clean and attacks.")
    cells = tuple(cell for number, row in enumerate(rows, start=1) for cell in row_cells(number, row))
    places = [(one.data, one.defence, one.attack) for one in cells]
    twice = {place for place in places if places.count(place) > 1}
    if twice:
        raise DataError(f"{' '.join(min(twice))} is there twice; keep one.")
    return ReportedTable(", ".join(str(source[key]) for key in ("table", "title") if key in source)
                         + (f" (arXiv {source['arxiv']})" if "arxiv" in source else ""),
                         cells, texts(content, "aliases"), texts(content, "similar"), profile(content))


def row_cells(number: int, row: object) -> Iterator[Reported]:
    if not isinstance(row, dict):
        raise DataError(f"row {number} is {row!r:.40}; expected a table.")
    for key, kind in TEXTS.items():
        if type(row.get(key)) is not kind:
            raise DataError(f"row {number}: {key} is {row.get(key)!r}; expected a {kind.__name__}.")
    clean = percentage(f"row {number}: clean", row["clean"])
    if not clean:
        raise DataError(f"row {number}: clean is 0; expected an accuracy.")
    for attack in (key for key in row if key not in TEXTS):
        figures = row[attack]
        if not isinstance(figures, dict) or set(figures) != {"robust", "success"}:
            raise DataError(f"row {number}: {attack} is {figures!r:.60}; expected {{ robust = ..., success = ... }}.")
        robust, success = (percentage(f"row {number}: {attack}", figures[key]) for key in ("robust", "success"))
        if robust > clean:
            raise DataError(f"row {number}: {attack} has {robust} under attack and {clean} without; expected less.")
        yield Reported(row["data"], row["defence"], attack, row["name"], clean, robust, success)


def profile(content: Mapping[str, object]) -> Profile | None:
    told = dict(section(content, "profile"))
    if not told:
        return None
    preset = told.pop("preset", None)
    wrong = next((name for name, value in told.items() if not isinstance(value, dict)), None)
    if type(preset) is not str or wrong:
        raise DataError(f"[profile]: {f'{wrong} is {told[wrong]!r:.40}' if wrong else f'preset is {preset!r:.40}'}; "
                        "expected the name of a preset and, by attack, a table of options.")
    return Profile(preset, cast(dict[str, dict[str, object]], told))


def percentage(what: str, value: object) -> float:
    if type(value) not in (int, float) or not 0 <= value <= 100:  # type: ignore[operator]
        raise DataError(f"{what}: {value!r} is no percentage; expected a number from 0 to 100.")
    return float(value)  # type: ignore[arg-type]


def section(content: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = content.get(name, {})
    if not isinstance(found, dict):
        raise DataError(f"[{name}] is {found!r:.40}; expected a table.")
    return found


def texts(content: Mapping[str, object], name: str) -> dict[str, str]:
    return {key: str(value) for key, value in section(content, name).items()}
