# SPDX-License-Identifier: Apache-2.0
"""From records to a report: figures, tables, tests, what papers report, and reasons for doubt. No model is needed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dualmask.evaluation.records import MODES, CellRecords, Loaded, Mode, Scores
from dualmask.reporting.attack_doubts import OLDER
from dualmask.reporting.comparison import PairedTest, paired_tests
from dualmask.reporting.costs import Cost, costs
from dualmask.reporting.detections import Detected, detections
from dualmask.reporting.doubts import UNEVEN, UNRANKED, find_doubts
from dualmask.reporting.entries import (
    PLAIN,
    WORST,
    Entry,
    Key,
    Scope,
    Share,
    Worst,
    entries,
    plain_rows,
    unique,
    worst_cases,
)
from dualmask.reporting.findings import Finding
from dualmask.reporting.reported import CAUTION, ReportedTable, load_reported

CLEAN = "clean"  # the column of accuracies without an attack


@dataclass(frozen=True)
class Gap:
    """A measured share beside a reported one, in points (0 to 100)."""

    measured: float
    reported: float
    far: bool  # more than two deviations apart or, with one seed, outside the interval; by the same profile only
    older: str = ""  # how the attack was set otherwise when the other was reported

    @property
    def difference(self) -> float:
        return self.measured - self.reported


@dataclass(frozen=True, kw_only=True)
class Line:
    """A defence's row of a table."""

    defence: str  # what the row is called
    method: str  # the defence that it is made of
    preset: str  # that its options come from, where it is known
    entries: Mapping[str, Entry]  # by attack
    worst: Worst | None  # in tables of adaptive and defence-aware attacks
    clean: Share | None  # CLA with the defence on of the attacked texts, of the entry with most of them
    undefended: Share | None  # with the defence off
    tested: Share | None  # CLA on the whole test part, where it is known
    tested_undefended: Share | None  # with the defence off
    gaps: Mapping[str, Gap]  # of CAA, by attack
    clean_gap: Gap | None

    @property
    def keys(self) -> set[Key]:
        return {one.key for one in self.entries.values()}

    @property
    def origin(self) -> str:
        """Which defence this is, where records tell too little for the row's name to say so."""
        return "" if self.defence.split(" ")[0] == self.method else self.method

    @property
    def clean_figure(self) -> Share | None:
        """What is shown as clean accuracy: the whole test part's where it is known, else the attacked texts'."""
        return self.tested or self.clean

    @property
    def undefended_figure(self) -> Share | None:
        """The same with the defence off, on the same texts."""
        return self.tested_undefended if self.tested else self.undefended

    def robust(self, column: str) -> Share | None:
        """Accuracy under an attack, in the worst case, or (CLEAN) without one."""
        if column == CLEAN:
            return self.clean_figure
        if column == WORST:
            return self.worst.robust if self.worst else None
        return self.entries[column].robust if column in self.entries else None

    def redrawn(self, column: str) -> Share | None:
        """The same over successes that most new draws of noise repeat, where they undo some."""
        found = self.worst if column == WORST else self.entries.get(column)
        return found.redrawn if found else None

    def both(self, column: str) -> tuple[Share, Share] | None:
        """Accuracy before and under an attack, or the worst, on the same texts."""
        found = self.worst if column == WORST else self.entries.get(column)
        if isinstance(found, Entry) and found.missing:
            return None
        return (found.clean, found.robust) if found and found.clean and found.robust else None

    def basis(self, column: str) -> Share | None:
        """A figure that stands on other texts or seeds than its row's clean accuracy; the worst case tells always."""
        found = self.robust(column)
        if found is None or column == WORST:
            return found
        same = self.clean is not None and (self.clean.texts, self.clean.seeds) == (found.texts, found.seeds)
        return None if same else found


@dataclass(frozen=True, kw_only=True)
class Table:
    """Defences in rows, attacks in columns; one for each data set, encoder, mode and kind of scores."""

    data: str
    encoder: str
    mode: Mode
    scores: Scores
    plain: str | None  # the row that the others are tested against
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
    def leading(self) -> str:
        """The column that a summary is about: the worst case, or the first attack that is finished in all rows."""
        finished = [attack for attack in self.attacks if not any(
            line.entries[attack].missing for line in self.lines if attack in line.entries)]
        return WORST if WORST in self.columns else (finished or self.attacks)[0]

    @property
    def zero_by_construction(self) -> bool:
        """Whether the texts are those that fooled the plain classifier, which has no row: its accuracy on them is 0."""
        return self.mode == "transfer-successful" and all(line.method != PLAIN for line in self.lines)

    @property
    def reasons(self) -> dict[str, list[tuple[str, str]]]:
        """Why comparisons with plain were not made, each once, with the places that lack them."""
        found: dict[str, list[tuple[str, str]]] = {}
        for place, reason in self.untested.items():
            found.setdefault(reason, []).append(place)
        return found

    def place(self, defence: str, column: str) -> int | None:
        """1 for the highest figure of a column (CLEAN, an attack or WORST) of several rows, 2 for the second.

        None where some rows' clean accuracy is of the whole test part and others' of the attacked texts alone.
        """
        if column == CLEAN and len({line.tested is None for line in self.lines}) > 1:
            return None
        return rank({line.defence: share.mean for line in self.lines if (share := line.robust(column))}, defence)


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that a page or a table shows."""

    title: str
    tables: tuple[Table, ...]  # headline first: adaptive, then the other modes
    entries: tuple[Entry, ...]
    worst: tuple[Worst, ...]
    detections: tuple[Detected, ...]  # of defences that are detectors
    costs: tuple[Cost, ...]  # of every classifier
    doubts: tuple[Finding, ...]  # gravest first
    problems: tuple[str, ...]  # files that could not be read
    missing: Mapping[str, str]  # files of cells that grids ask for and that are not there, with why, if it is known
    short: Mapping[str, int]  # files of cells with fewer texts than grids ask for, and how many these ask for
    reported: ReportedTable
    records: int
    about: Mapping[str, tuple[str, ...]]  # versions, revisions and machines found in the headers

    def doubted(self, table: Table, *, plain: bool = False) -> dict[str, str]:
        """Rows that no summary may praise: those with serious doubts that bear on a ranking, with their names.

        plain: also the row that others are compared with, which tables rank in any case.
        """
        grave = [one for one in self.doubts if one.severity == "serious" and one.name in UNRANKED]
        found: dict[str, str] = {}
        for line in (line for line in table.lines if plain or line.defence != table.plain):
            if names := dict.fromkeys(one.name for one in grave if line.keys.intersection(one.keys)):
                found[line.defence] = ", ".join(names)
        return found

    def uneven(self, lines: Iterable[Line]) -> dict[str, list[str]]:
        """What keeps rows from being compared as they stand, by the doubt's name, and with which rows it is so."""
        found: dict[str, dict[str, None]] = {}
        for one in (one for one in self.doubts if one.name in UNEVEN):
            for line in (line for line in lines if line.keys.intersection(one.keys)):
                found.setdefault(one.name, {})[line.defence] = None
        return {name: list(rows) for name, rows in found.items()}

    @property
    def caution(self) -> str:
        """What is to be read beside reported figures."""
        return " ".join([CAUTION, *(one.text for one in self.doubts if one.name == OLDER)])


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
                  detections=detections(found), costs=costs(found), doubts=tuple(find_doubts(found, worst, beside)),
                  problems=tuple(loaded.problems), missing=loaded.missing, short=loaded.short, reported=beside,
                  records=sum(len(one.results) for one in loaded.cells), about=about(loaded.cells))


def make_tables(found: Sequence[Entry], worst: Sequence[Worst], reported: ReportedTable) -> tuple[Table, ...]:
    groups: dict[tuple[str, str, Mode, Scores], list[Entry]] = {}
    for one in found:
        groups.setdefault((one.key.data, one.key.encoder, one.key.mode, one.key.scores), []).append(one)
    order = sorted(groups, key=lambda place: (place[:2], MODES.index(place[2]), place[3] != "raw"))
    plain = plain_rows(found)
    return tuple(make_table(with_plain(groups[place], found, plain.get(place[:2])), found, worst, reported=reported,
                            plain=plain.get(place[:2])) for place in order)


def with_plain(group: Sequence[Entry], found: Sequence[Entry], plain: str | None) -> Sequence[Entry]:
    """A table of transferred texts gets the row of the plain classifier, for which they are its adaptive ones."""
    if group[0].key.mode != "transfer" or plain is None or any(one.key.defence == plain for one in group):
        return group
    wanted = {one.key._replace(defence=plain, mode="adaptive") for one in group}
    return [*group, *(one for one in found if one.key in wanted)]


def make_table(
    group: Sequence[Entry], found: Sequence[Entry], worst: Sequence[Worst], *, reported: ReportedTable,
    plain: str | None,
) -> Table:
    key = group[0].key
    scope = scope_of(key.mode, key.scores)
    cases = {one.defence: one for one in worst
             if (one.data, one.encoder, one.scope) == (key.data, key.encoder, scope)}
    names = sorted({one.key.defence for one in group}, key=lambda name: (name != plain, name))
    lines = tuple(make_line([one for one in group if one.key.defence == name], cases.get(name), reported)
                  for name in names)
    tests, untested = paired_tests(group, found, cases, plain=plain)
    known = {one.data for one in reported.cells}
    return Table(
        data=key.data, encoder=key.encoder, mode=key.mode, scores=key.scores, plain=plain,
        attacks=tuple(sorted({one.key.attack for one in group})), lines=lines, tests=tests, untested=untested,
        similar_data=reported.similar.get(key.data, "") if reported.name_of(key.data) in known else "")


def scope_of(mode: Mode, scores: Scores) -> Scope | None:
    """The worst case that a table shows: over its own attacks or, of those that know the defence, over all."""
    scopes: dict[tuple[Mode, Scores], Scope] = {("adaptive", "raw"): "adaptive", ("defence-aware", "raw"): "every"}
    return scopes.get((mode, scores))


def make_line(group: Sequence[Entry], worst: Worst | None, reported: ReportedTable) -> Line:
    by_attack = {one.key.attack: one for one in group}
    largest = max(group, key=lambda one: one.clean.texts if one.clean else 0)
    key, method = largest.key, largest.method
    beside = {name: cell for name, one in by_attack.items() if (cell := reported.beside(one))}
    chosen = key.mode == "transfer-successful"  # texts that plain had right, so that theirs is no clean accuracy
    clean = None if chosen else reported.clean(key.data, method)
    tested = None if chosen else largest.tested
    return Line(
        defence=key.defence, method=method, preset=largest.preset, entries=by_attack, worst=worst, clean=largest.clean,
        undefended=largest.undefended, tested=tested, tested_undefended=None if chosen else largest.tested_undefended,
        clean_gap=gap(tested or largest.clean, clean) if clean is not None else None,
        gaps={name: attack_gap(found, by_attack[name], reported) for name, cell in beside.items()
              if (found := gap(by_attack[name].robust, cell.robust))})


def attack_gap(found: Gap, entry: Entry, reported: ReportedTable) -> Gap:
    """Far off may only be what the same profile left: another one finds more or less by itself."""
    return replace(found, older=reported.apart(entry), far=found.far and reported.same_profile(entry))


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
