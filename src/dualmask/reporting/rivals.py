# SPDX-License-Identifier: Apache-2.0
"""Our defences against the strongest other one, attack by attack, on the same texts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dualmask.errors import DataError
from dualmask.reporting.comparison import PairedTest, Place, Sides, corrected, paired, seeds_of, worst_pair
from dualmask.reporting.entries import PLAIN, WORST, Entry, Key
from dualmask.reporting.report import Line, Report, Table

OURS = ("ddm", "ddm-restore")  # alone or with others
MODES = ("adaptive", "transfer")  # of attacks that every defence can be given


@dataclass(frozen=True)
class Rivalry:
    """One of our rows beside the best of the others under an attack: the test, or why there is none."""

    table: Table
    line: Line
    rival: Line
    column: str
    test: PairedTest | None  # p corrected across the comparisons of its table
    reason: str = ""


def rivalries(report: Report) -> list[Rivalry]:
    by_key = {one.key: one for one in report.entries}
    return [found for table in report.tables if table.mode in MODES and table.scores == "raw"
            for found in of_table(table, by_key)]


def is_ours(line: Line) -> bool:
    return any(part in OURS for part in line.method.split("+"))


def of_table(table: Table, by_key: Mapping[Key, Entry]) -> Iterator[Rivalry]:
    others = [line for line in table.lines if not is_ours(line) and line.method != PLAIN]
    pairs: dict[Place, tuple[Line, Line]] = {}
    tests: dict[Place, PairedTest] = {}
    reasons: dict[Place, str] = {}
    for line, column in ((line, column) for line in table.lines if is_ours(line) for column in table.columns):
        rival, place = best(others, column), (line.defence, column)
        if rival is None or line.both(column) is None:
            continue
        pairs[place] = line, rival
        try:
            tests[place] = paired(*sides(line, rival, column, by_key))
        except DataError as error:
            reasons[place] = str(error)
    found = corrected(tests)
    for place, (line, rival) in pairs.items():
        yield Rivalry(table, line, rival, place[1], found.get(place), reasons.get(place, ""))


def best(lines: Sequence[Line], column: str) -> Line | None:
    """By its figure on its own texts; of equal ones the first by name. What is not finished does not count."""
    found = [(both[1].mean, line) for line in lines if (both := line.both(column))]
    return max(found, key=lambda one: one[0])[1] if found else None


def sides(line: Line, rival: Line, column: str, by_key: Mapping[Key, Entry]) -> Sides:
    if column == WORST:
        assert line.worst is not None  # or the line would have no figure there
        return worst_pair(line.worst, rival.worst, by_key)
    return seeds_of(line.entries[column]), seeds_of(rival.entries[column])
