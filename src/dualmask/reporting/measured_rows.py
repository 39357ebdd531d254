# SPDX-License-Identifier: Apache-2.0
"""From a report to the asset of measured figures: a row for each defence, preset and data set, with what speaks
against it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from dualmask.evaluation.records import SCORE_WORDS, Mode, Scores
from dualmask.measured_figures import MeasuredRow, MeasuredShare
from dualmask.reporting.comparison import PairedTest
from dualmask.reporting.costs import Cost
from dualmask.reporting.doubts import UNEVEN, UNRANKED
from dualmask.reporting.entries import WORST, Entry, Share, Worst, on_test_part
from dualmask.reporting.findings import points as shown_points
from dualmask.reporting.measured import Reasons
from dualmask.reporting.report import Line, Report, Table
from dualmask.reporting.row_names import made_of, place_of, taken_from

OF_TRAINING = "trained before corrections"  # a doubt about a row, whatever attacks it


def rows_of_report(report: Report, changed: Reasons, *, source: str) -> list[MeasuredRow]:
    """Of every classifier that was asked by attacks, plain first in each data set."""
    return [measured_row(report, table, line, changed=changed, source=source)
            for table in report.tables if (table.mode, table.scores) == ("adaptive", "raw") for line in table.lines]


def measured_row(report: Report, table: Table, line: Line, *, changed: Reasons, source: str) -> MeasuredRow:
    place = table.data, table.encoder, line.defence
    own = [one for one in report.entries if one.key[:3] == place]
    defence, preset, changes = made_of(own[0].runs[0].records)
    bare = taken_from(own[0].runs[0].records, {place_of(run.records): run.records
                                               for one in report.entries for run in one.runs})
    every = next((one for one in report.worst if one.scope == "every"
                  and (one.data, one.encoder, one.defence) == place), None)
    alarms = [one for one in report.detections if one.key[:3] == place and one.key.mode == "adaptive"]
    beside = next((one for one in table.lines if one.defence == table.plain), None)
    spent = {one.defence: one for one in report.costs if (one.data, one.encoder) == place[:2]}
    return MeasuredRow(
        name=line.defence, defence=defence or line.method, preset=preset or line.preset, changes=changes,
        data=table.data, encoder=table.encoder, trained=not bare, clean=clean_share(line, beside),
        attacks={attack: found for attack, one in line.entries.items() if not one.missing
                 and (found := measured_share(one.robust, one.redrawn, tests_of(table, line, attack)))},
        aware=aware_shares(own), worst=worst_share(line.worst, tests_of(table, line, WORST)),
        every=worst_share(every),
        flagged={one.key.attack: found for one in alarms if (found := measured_share(one.detected))},
        false_alarms=next((found for one in alarms if (found := measured_share(one.false_alarms))), None),
        **price_of(spent, line.defence, table.plain)._asdict(), doubts=doubts_of(report, own, changed), source=source)


def clean_share(line: Line, beside: Line | None) -> MeasuredShare | None:
    """As reports show it, and what plain has on the same texts by the same seeds."""
    found = measured_share(line.clean_figure)
    same = None
    if found and beside and beside is not line:
        seeds = {run.seed for one in line.entries.values() for run in one.runs}
        same = clean_of_seeds(beside, seeds, whole=line.tested is not None)
    return replace(found, plain=points(same.mean)) if found and same and basis(same) == basis(found) else found


def clean_of_seeds(line: Line, seeds: set[int], *, whole: bool) -> Share | None:
    """A row's accuracy on the whole test part by these seeds alone, where that is what a row beside it tells."""
    runs = {run.seed: run.records for one in line.entries.values() for run in one.runs}
    if not whole or not seeds <= runs.keys():
        return None
    return on_test_part([runs[seed] for seed in sorted(seeds)], "test_accuracy")


def basis(share: Share | MeasuredShare) -> tuple[int, int]:
    return share.texts, share.seeds


def tests_of(table: Table, line: Line, column: str) -> PairedTest | None:
    return table.tests.get((line.defence, column))


def measured_share(
    share: Share | None, redrawn: Share | None = None, test: PairedTest | None = None,
) -> MeasuredShare | None:
    if share is None:
        return None
    return MeasuredShare(
        percent=points(share.mean), texts=share.texts, seeds=share.seeds,
        deviation=None if share.deviation is None else points(share.deviation),
        redrawn=None if redrawn is None else points(redrawn.mean), apart=None if test is None else test.significant,
        plain=plain_percent(share, test))


def plain_percent(share: Share, test: PairedTest | None) -> float | None:
    """What plain keeps of the same texts; None where the test was on fewer of them."""
    if test is None or basis(share) != (test.texts, test.seeds):
        return None
    return points((test.both + test.only_other) / (test.texts * test.seeds))


def worst_share(worst: Worst | None, test: PairedTest | None = None) -> MeasuredShare | None:
    return measured_share(worst.robust, worst.redrawn, test) if worst else None


def points(share: float) -> float:
    """As reports round it, so that one figure reads the same everywhere."""
    return float(shown_points(share))


def aware_shares(own: Sequence[Entry]) -> dict[str, MeasuredShare]:
    """Under attacks that know the defence, or see more than its scores, by their names and what they see."""
    found = {}
    for one in own:
        if one.key.mode not in ("adaptive", "defence-aware") or (one.key.mode, one.key.scores) == ("adaptive", "raw"):
            continue
        if not one.missing and (share := measured_share(one.robust, one.redrawn)):
            found[attack_words(one.key.attack, one.key.mode, one.key.scores)] = share
    return found


def attack_words(attack: str, mode: Mode, scores: Scores) -> str:
    """An attack by its name, and what it has that an ordinary one lacks."""
    return ", ".join([attack, *(["which knows the defence"] if mode == "defence-aware" else []),
                      *([f"which sees {words}"] if (words := SCORE_WORDS[scores]) else [])])


class Price(NamedTuple):
    """Seconds in those of the plain classifier, on the same device, and passes for an answer."""

    training_times: float | None
    answer_times: float | None
    passes: str


def price_of(spent: Mapping[str, Cost], defence: str, plain: str | None) -> Price:
    one, beside = spent[defence], spent.get(plain or "")
    same = beside if beside and beside.hardware == one.hardware else None
    return Price(times(one.whole, same.whole if same else None, 2), times(one.answer, same.answer if same else None, 1),
                 one.passes)


def times(value: float | None, base: float | None, digits: int) -> float | None:
    return None if value is None or not base else round(value / base, digits)


def doubts_of(report: Report, own: Sequence[Entry], changed: Reasons) -> tuple[str, ...]:
    """What keeps a row from being compared as it stands, and what was changed since it was measured."""
    keys = {one.key for one in own}
    names = [one.name for one in report.doubts if keys.intersection(one.keys) and (
        one.name in (*UNEVEN, OF_TRAINING) or (one.severity == "serious" and one.name in UNRANKED))]
    return tuple(dict.fromkeys([*names, *changes_since(own, changed)]))


def changes_since(own: Sequence[Entry], changed: Reasons) -> Iterator[str]:
    for run in (run for one in own for run in one.runs):
        name = re.sub(r"\.jsonl$", "", run.records.cell.file_name)
        if reason := changed.of(name, ""):
            yield reason
