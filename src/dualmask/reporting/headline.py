# SPDX-License-Identifier: Apache-2.0
"""What helps against what, in sentences: the best row of a table beside the plain classifier, threat by threat."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dualmask.errors import DataError
from dualmask.reporting.comparison import PairedTest, paired, seeds_of
from dualmask.reporting.entries import WORST, Entry, Share
from dualmask.reporting.findings import counted, points
from dualmask.reporting.report import Line, Report, Table
from dualmask.threats import THREATS, threat_of

CHANCE = "may be chance"


class Gain(NamedTuple):
    """Texts still right under one attack, with the plain classifier and with the best row; means over seeds."""

    attack: str  # the column; WORST: whichever of them works
    threat: str  # in plain words; empty for an attack that is not of this library, and for WORST
    plain: float | None  # None where plain was not attacked so, or on other texts
    best: float
    texts: int
    seeds: int
    by_chance: bool  # a difference that no paired test tells from chance

    @property
    def named(self) -> str:
        return f"{self.threat} ({self.attack})" if self.threat else self.attack

    @property
    def differs(self) -> bool:
        return self.plain is not None and self.plain != self.best

    @property
    def more(self) -> bool:
        return self.plain is not None and self.best > self.plain

    @property
    def less(self) -> bool:
        """Beyond chance."""
        return self.plain is not None and self.best < self.plain and not self.by_chance


@dataclass(frozen=True)
class Headline:
    """One table of adaptive attacks in short."""

    table: Table
    line: Line  # the row that keeps most under the attacks that it shares with others, without serious doubts about it
    beside: Line | None  # the plain row
    gains: tuple[Gain, ...]  # by threat
    worst: Gain | None
    better: Mapping[str, tuple[Gain, ...]]  # other rows that keep more beyond chance, and against what
    left_out: Mapping[str, str]  # rows that serious doubts are about, with these
    helps: bool | None  # whether any row keeps more than plain; None: only within chance
    lacking: Mapping[str, tuple[str, ...]]  # attacks of the table that this row or plain has not met, by row
    uneven: tuple[str, ...]  # doubts that keep the named row from being compared with others as it stands


def headlines(report: Report) -> list[Headline]:
    """For each table of adaptive attacks, or for the first there is; none where no row may be named."""
    chosen = [table for table in report.tables if table.mode == "adaptive" and table.scores == "raw"]
    found = (headline_of(report, table) for table in chosen or report.tables[:1])
    return [one for one in found if one]


def headline_of(report: Report, table: Table) -> Headline | None:
    doubted = report.doubted(table)
    rows = [line for line in table.lines if line.defence not in doubted and finished(line)]
    beside = next((line for line in table.lines if line.defence == table.plain and finished(line)), None)
    others = [line for line in rows if line is not beside]
    if not others and beside is None:
        return None
    line = best_row(others) if others else beside
    assert line is not None
    gains = gains_of(table, line)
    beside = beside if beside is not line else None
    worst = gain_of(table, line, WORST) if line.worst and line.worst.robust else None
    better = {other.defence: found for other in others if other is not line and (found := better_than(line, other))}
    lacking = {row.defence: names for row in (line, beside) if row and (names := attacks_lacking(table, row))}
    return Headline(table, line, beside, gains, worst, better, doubted, anything_helps(table), lacking,
                    uneven_reasons(report, line, beside))


def uneven_reasons(report: Report, line: Line, beside: Line | None) -> tuple[str, ...]:
    """Doubts about the named row that the row beside it does not share; those of both change nothing between them."""
    shared = report.uneven([beside]) if beside else {}
    return tuple(reason for reason in report.uneven([line]) if reason not in shared)


def finished(line: Line) -> list[str]:
    """The attacks whose figures will not move any more."""
    return [attack for attack, one in line.entries.items() if one.robust and not one.missing]


def best_row(lines: Sequence[Line]) -> Line:
    """The row that keeps more than most others, each two of them compared under the attacks that both have met; of
    equal ones that which has met more attacks, then the one that keeps more under its own."""
    return max(lines, key=lambda line: (sum(ahead(line, other) for other in lines), len(finished(line)),
                                        kept_on_average(line, finished(line))))


def ahead(line: Line, other: Line) -> int:
    """1, 0 or -1: whether a row keeps more under shared attacks; 0 where there are none."""
    met = set(finished(other))
    shared = [attack for attack in finished(line) if attack in met]
    one, two = (kept_on_average(row, shared) for row in (line, other))
    return (one > two) - (one < two)


def kept_on_average(line: Line, attacks: Sequence[str]) -> float:
    shares = [share.mean for attack in attacks if (share := line.robust(attack))]
    return sum(shares) / len(shares) if shares else 0.0


def gains_of(table: Table, line: Line) -> tuple[Gain, ...]:
    return tuple(sorted((gain_of(table, line, attack) for attack in finished(line)), key=by_threat))


def anything_helps(table: Table) -> bool | None:
    """Whether any row keeps more than plain under any attack; None where only within chance."""
    more = [gain for line in table.lines if line.defence != table.plain for gain in gains_of(table, line) if gain.more]
    return any(not gain.by_chance for gain in more) or (None if more else False)


def attacks_lacking(table: Table, line: Line) -> tuple[str, ...]:
    """Attacks that other rows have met and this one has not, or not to the end, by their threats."""
    done, there = set(finished(line)), line.entries
    others = {attack: one for row in table.lines for attack, one in row.entries.items() if attack not in done}
    named = sorted((threat_place(threat), attack, f"{threat} ({attack})" if threat else attack)
                   for attack, one in others.items() for threat in (threat_name(one),))
    return tuple(name + (", not finished" if attack in there else "") for _, attack, name in named)


def by_threat(gain: Gain) -> tuple[int, str]:
    return threat_place(gain.threat), gain.attack


def threat_place(threat: str) -> int:
    """In which order reports tell them."""
    return [*THREATS, ""].index(threat)


def threat_name(entry: Entry | None) -> str:
    """In plain words; empty for an attack that is not of this library."""
    threat = threat_of(entry.recipe) if entry else None
    return threat.name if threat else ""


def gain_of(table: Table, line: Line, column: str) -> Gain:
    """From the paired test where there is one, so that both figures stand on the same texts."""
    threat = threat_name(line.entries.get(column))
    share, test = line.robust(column), table.tests.get((line.defence, column))
    assert share is not None
    if test is None:
        return Gain(column, threat, None, share.mean * share.texts, share.texts, share.seeds,
                    by_chance=False)
    return Gain(column, threat, (test.both + test.only_other) / test.seeds,
                (test.both + test.only_one) / test.seeds, test.texts, test.seeds, by_chance=not test.significant)


def better_than(line: Line, other: Line) -> tuple[Gain, ...]:
    """Attacks against which the other row keeps more than the best one, beyond chance."""
    found = []
    for attack in finished(other):
        test = test_of(line, other, attack)
        if test and test.significant and test.difference.value > 0:
            found.append(Gain(attack, threat_name(other.entries[attack]), (test.both + test.only_other) / test.seeds,
                              (test.both + test.only_one) / test.seeds, test.texts, test.seeds, by_chance=False))
    return tuple(sorted(found, key=by_threat))


def test_of(line: Line, other: Line, attack: str) -> PairedTest | None:
    if attack not in line.entries or line.entries[attack].missing:
        return None
    try:
        return paired(seeds_of(other.entries[attack]), seeds_of(line.entries[attack]))
    except DataError:  # not on the same texts
        return None


def headline_sentences(report: Report) -> list[str]:
    """What a run found, in plain words; every figure comes from its records. The worst case comes last."""
    found = headlines(report)
    several = len(found) > 1
    told = []
    for one in found:
        where = f"{one.table.data}, {one.table.encoder}: " if several else ""
        first, *rest = [*gain_sentences(one), *clean_sentence(one), *worst_sentence(one), *doubt_sentences(one)]
        told += [where + first, *rest]
    return told


def gain_sentences(found: Headline) -> Iterator[str]:
    """The best row against plain, threat by threat; then other rows that do better against some."""
    beside = f" against {found.beside.defence}" if found.beside else ""
    mode = "" if found.table.mode == "adaptive" else f", {found.table.mode}"
    gains = gain_list(found.gains, mark_chance=not all_by_chance(found))
    yield f"{found.line.defence}{beside}{mode}. {gains[0].upper()}{gains[1:]}."
    if all_by_chance(found):
        texts = max(gain.texts for gain in found.gains)
        yield f"On {counted(texts, 'text')} all of these differences may be chance."
    yield from loss_sentences(found)
    for row, lacking in found.lacking.items():
        yield f"Not tried with {row}: {'; '.join(lacking)}."
    for row, better in found.better.items():
        yield f"{row} keeps more against {gain_list(better, whole=False)} (from {found.line.defence} to {row})."


def loss_sentences(found: Headline) -> Iterator[str]:
    """What a reader of arrows may overlook: that less is kept than without a defence, or that nothing helps."""
    if found.beside is None or not any(gain.plain is not None for gain in found.gains):
        return
    plain = found.beside.defence
    if less := [gain.named for gain in found.gains if gain.less]:
        yield f"{found.line.defence} keeps less than {plain} against {' and '.join(less)}."
    if found.helps is False:
        yield f"Nothing here keeps more than {plain}."
    elif found.helps is None and not all_by_chance(found):
        yield f"Nothing here keeps more than {plain} beyond chance."


def all_by_chance(found: Headline) -> bool:
    differing = [gain for gain in found.gains if gain.differs]
    return bool(differing) and all(gain.by_chance for gain in differing)


def gain_list(gains: Sequence[Gain], *, whole: bool = True, mark_chance: bool = True) -> str:
    """``misspelling (deepwordbug): 10 -> 68 of 100 texts still right; synonyms (textfooler): 3 -> 15``."""
    words: list[str] = []
    basis = (0, 0)
    for gain in gains:
        told = f"{gain.named}: {span(gain)}"
        if (gain.texts, gain.seeds) != basis:
            told += f" of {counted(gain.texts, 'text')}" + (" still right" if whole and not words else "")
            told += f" (mean of {gain.seeds} seeds)" if gain.seeds > 1 else ""
            basis = gain.texts, gain.seeds
        words.append(told + (f" ({CHANCE})" if mark_chance and gain.differs and gain.by_chance else ""))
    return "; ".join(words)


def span(gain: Gain) -> str:
    """Of one seed texts, which can be counted; of several per cent."""
    before = "" if gain.plain is None else f"{amount(gain, gain.plain)} -> "
    return f"{before}{amount(gain, gain.best)}" + (" %" if gain.seeds > 1 else "")


def amount(gain: Gain, held: float) -> str:
    return f"{held:.0f}" if gain.seeds == 1 else points(held / gain.texts)


def clean_sentence(found: Headline) -> Iterator[str]:
    """The price in clean accuracy; of the same kind of texts for both, or each with its own."""
    rows = [(line.defence, share) for line in (found.line, found.beside) if line and (share := line.clean_figure)]
    if rows:
        same = len({(share.texts, share.seeds) for _, share in rows}) == 1
        told = [f"{name} {points(share.mean)} %" + ("" if same and place else f" of {behind(share)}")
                for place, (name, share) in enumerate(rows)]
        yield f"Right on clean texts: {', '.join(told)}."


def behind(share: Share) -> str:
    return counted(share.texts, "text") + (f" (mean of {share.seeds} seeds)" if share.seeds > 1 else "")


def worst_sentence(found: Headline) -> Iterator[str]:
    if found.worst is not None and found.line.worst is not None:
        chance = f"; {CHANCE}" if found.worst.differs and found.worst.by_chance else ""
        yield (f"Worst case, if the attacker may take whichever of these {len(found.line.worst.keys)} attacks works: "
               f"{span(found.worst)} of {counted(found.worst.texts, 'text')} still right{chance}.")


def doubt_sentences(found: Headline) -> Iterator[str]:
    if found.uneven:
        yield f"What {found.line.defence} keeps does not compare as it stands: {', '.join(found.uneven)}."
    if found.left_out:
        told = ", ".join(f"{row} ({why})" for row, why in found.left_out.items())
        yield f"Not named above, because of serious doubts: {told}."
