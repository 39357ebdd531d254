# SPDX-License-Identifier: Apache-2.0
"""From records to a report: figures, tables, tests, what papers report, and reasons for doubt. No model is needed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dualmask.evaluation.records import MODES, CellRecords, Loaded, Mode, Scores
from dualmask.reporting.comparison import PairedTest, paired_tests
from dualmask.reporting.doubts import find_doubts
from dualmask.reporting.entries import PLAIN, WORST, Entry, Key, Run, Scope, Share, Worst, entries, unique, worst_cases
from dualmask.reporting.findings import Finding
from dualmask.reporting.reported import Reported, ReportedTable, load_reported

CLEAN = "clean"  # the column of accuracies without an attack
__all__ = ["CLEAN", "PLAIN", "WORST", "Entry", "Finding", "Gap", "Key", "Line", "PairedTest", "Report", "Reported",
           "Run", "Scope", "Share", "Table", "Worst", "build_report"]


@dataclass(frozen=True)
class Gap:
    """A measured share beside a reported one, in points (0 to 100)."""

    measured: float
    reported: float
    far: bool  # more than two deviations apart or, with one seed, outside the interval

    @property
    def difference(self) -> float:
        return self.measured - self.reported


@dataclass(frozen=True, kw_only=True)
class Line:
    """A defence's row of a table."""

    defence: str
    entries: Mapping[str, Entry]  # by attack
    worst: Worst | None  # in tables of adaptive and defence-aware attacks
    clean: Share | None  # CLA with the defence on, of the entry with most texts
    undefended: Share | None  # with the defence off
    reported: Mapping[str, Reported]  # by attack
    gaps: Mapping[str, Gap]  # of CAA, by attack
    clean_gap: Gap | None

    def robust(self, column: str) -> Share | None:
        """Accuracy under an attack, in the worst case, or (CLEAN) without one."""
        if column == CLEAN:
            return self.clean
        if column == WORST:
            return self.worst.robust if self.worst else None
        return self.entries[column].robust if column in self.entries else None


@dataclass(frozen=True, kw_only=True)
class Table:
    """Defences in rows, attacks in columns; one for each data set, encoder, mode and kind of scores."""

    data: str
    encoder: str
    mode: Mode
    scores: Scores
    attacks: tuple[str, ...]
    lines: tuple[Line, ...]
    tests: Mapping[tuple[str, str], PairedTest]  # by defence and column: against plain; p corrected across this table
    untested: Mapping[tuple[str, str], str]  # and why there is none
    similar_data: str = ""  # the reported figures' data, where it is of the same kind only

    @property
    def columns(self) -> tuple[str, ...]:
        """The attacks and, where a line has it, the worst case."""
        return (*self.attacks, *([WORST] if any(line.worst for line in self.lines) else []))

    @property
    def zero_by_construction(self) -> bool:
        """Whether the texts are those that fooled the plain classifier: its accuracy on them is 0, and is shown so."""
        return self.mode == "transfer-successful"

    def place(self, defence: str, column: str) -> int | None:
        """1 for the highest figure of a column (CLEAN, an attack or WORST) of several rows, 2 for the second."""
        return rank({line.defence: share.mean for line in self.lines if (share := line.robust(column))}, defence)


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that a page or a table shows."""

    title: str
    tables: tuple[Table, ...]  # headline first: adaptive, then the other modes
    entries: tuple[Entry, ...]
    worst: tuple[Worst, ...]
    doubts: tuple[Finding, ...]  # gravest first
    problems: tuple[str, ...]  # files that could not be read
    reported: ReportedTable
    records: int
    about: Mapping[str, tuple[str, ...]]  # versions, revisions and machines found in the headers

    def entry(self, key: Key) -> Entry | None:
        return next((one for one in self.entries if one.key == key), None)


def build_report(
    loaded: Loaded, *, title: str = "Robustness report", reported: ReportedTable | None = None,
) -> Report:
    """The whole analysis, a function of the records alone; reported: the shipped figures where none are given."""
    beside = reported or load_reported()
    loaded = unique(loaded)
    found = entries(loaded.cells)
    worst = worst_cases(found)
    tables = make_tables(found, worst, beside)
    return Report(title=title, tables=tables, entries=tuple(found), worst=tuple(worst),
                  doubts=tuple(find_doubts(found, worst, beside)), problems=tuple(loaded.problems), reported=beside,
                  records=sum(len(one.results) for one in loaded.cells), about=about(loaded.cells))


def make_tables(found: Sequence[Entry], worst: Sequence[Worst], reported: ReportedTable) -> tuple[Table, ...]:
    groups: dict[tuple[str, str, Mode, Scores], list[Entry]] = {}
    for one in found:
        groups.setdefault((one.key.data, one.key.encoder, one.key.mode, one.key.scores), []).append(one)
    order = sorted(groups, key=lambda place: (place[:2], MODES.index(place[2]), place[3] != "raw"))
    return tuple(make_table(with_plain(groups[place], found), found, worst, reported) for place in order)


def with_plain(group: Sequence[Entry], found: Sequence[Entry]) -> Sequence[Entry]:
    """A table of transferred texts gets the row of the plain classifier, for which they are its adaptive ones."""
    if group[0].key.mode != "transfer" or any(one.key.defence == PLAIN for one in group):
        return group
    wanted = {one.key._replace(defence=PLAIN, mode="adaptive") for one in group}
    return [*group, *(one for one in found if one.key in wanted)]


def make_table(
    group: Sequence[Entry], found: Sequence[Entry], worst: Sequence[Worst], reported: ReportedTable,
) -> Table:
    key = group[0].key
    scope = {("adaptive", "raw"): "adaptive", ("defence-aware", "raw"): "every"}.get((key.mode, key.scores))
    cases = {one.defence: one for one in worst
             if (one.data, one.encoder, one.scope) == (key.data, key.encoder, scope)}
    names = sorted({one.key.defence for one in group}, key=lambda name: (name != PLAIN, name))
    lines = tuple(make_line(name, [one for one in group if one.key.defence == name], cases.get(name), reported)
                  for name in names)
    tests, untested = paired_tests(group, found, list(cases.values()))
    known = {one.data for one in reported.cells}
    return Table(
        data=key.data, encoder=key.encoder, mode=key.mode, scores=key.scores,
        attacks=tuple(sorted({one.key.attack for one in group})), lines=lines, tests=tests, untested=untested,
        similar_data=reported.similar.get(key.data, "") if reported.name_of(key.data) in known else "")


def make_line(defence: str, group: Sequence[Entry], worst: Worst | None, reported: ReportedTable) -> Line:
    by_attack = {one.key.attack: one for one in group}
    largest = max(group, key=lambda one: one.clean.texts if one.clean else 0)
    data = group[0].key.data
    beside = {name: cell for name in by_attack if (cell := reported.find(data, defence, name))}
    clean = reported.clean(data, defence)
    return Line(
        defence=defence, entries=by_attack, worst=worst, clean=largest.clean, undefended=largest.undefended,
        reported=beside, clean_gap=gap(largest.clean, clean) if clean is not None else None,
        gaps={name: found for name, cell in beside.items() if (found := gap(by_attack[name].robust, cell.robust))})


def gap(measured: Share | None, reported: float) -> Gap | None:
    if measured is None:
        return None
    points = 100 * measured.mean
    if measured.deviation is not None:
        far = abs(points - reported) > 200 * measured.deviation
    else:
        far = not 100 * measured.interval.low <= reported <= 100 * measured.interval.high
    return Gap(points, reported, far)


def rank(values: Mapping[str, float], name: str) -> int | None:
    """1 for the highest of several values, 2 for the second; equal ones share their place."""
    if name not in values or len(values) < 2:
        return None
    found = 1 + sum(other > values[name] + 1e-12 for other in values.values())
    return found if found <= 2 else None


def about(cells: Iterable[CellRecords]) -> dict[str, tuple[str, ...]]:
    """Each fact that the headers tell of how the records came about, with all its values."""
    found: dict[str, dict[str, None]] = {}
    for records in cells:
        told = records.header.get("about")
        for name, value in (told.items() if isinstance(told, dict) else ()):
            text = ", ".join(f"{key} {item}" for key, item in value.items()) if isinstance(value, dict) else str(value)
            found.setdefault(name, {})[text] = None
    return {name: tuple(values) for name, values in found.items()}
