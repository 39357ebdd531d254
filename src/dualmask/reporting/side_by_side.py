# SPDX-License-Identifier: Apache-2.0
"""Figures that belong beside each other: adaptive and transfer, our defence and its rivals, a table and its gaps."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from dualmask.evaluation.records import SCORE_WORDS
from dualmask.reporting.attack_doubts import OLDER
from dualmask.reporting.entries import PLAIN, WORST, Share
from dualmask.reporting.report import Line, Report, Table
from dualmask.reporting.report_tables import (
    NOTHING,
    behind,
    clean_cell,
    defence_cost_rows,
    figure,
    mode_name,
    own_basis,
    test_cells,
    uneven_lines,
)
from dualmask.reporting.rivals import Rivalry, is_ours, rivalries
from dualmask.reporting.row_names import Place, place_of

NOT_RUN = "not begun"
RIVALS = 3  # that a short table names
BESIDE = ("Each cell: CAA when the attack asks the defended classifier / on texts made against the plain one. The "
          "second flatters whatever changes its input; the first is the headline. The last column also counts attacks "
          "that know the defence, or see calibrated scores or draws held still.")
EVERY = "worst case, every attack"
RIVAL = ("Each of our defences against the best of the others under the same attack, on the texts and seeds that both "
         "have. The best is chosen by its figure on its own texts, which favours it. Exact paired test over texts "
         "(McNemar's for one seed), Holm's correction over the comparisons of a data set, an encoder and a mode.")


def beside_rows(report: Report) -> list[list[str]]:
    """A row for each classifier that was asked, over all data and encoders; names in the first row."""
    tables = {(table.data, table.encoder, table.mode): table for table in report.tables if table.scores == "raw"}
    attacks = sorted({attack for table in tables.values() if table.mode == "adaptive" for attack in table.attacks})
    every = worst_of_all(report)
    rows = [["data", "encoder", "defence", "texts x seeds", "CLA", *attacks, WORST, EVERY]]
    for table in (table for place, table in tables.items() if place[2] == "adaptive"):
        shown = tables.get((table.data, table.encoder, "transfer"))
        replayed = {line.defence: line for line in shown.lines} if shown else {}
        for line in table.lines:
            cells = [both(line, None if line.defence == table.plain else replayed.get(line.defence), attack)
                     for attack in attacks]
            rows.append([table.data, table.encoder, line.defence, behind(line.clean), clean_cell(line),
                         *cells, worst_cell(table, line),
                         every.get((table.data, table.encoder, line.defence), NOTHING)])
    return rows


def worst_of_all(report: Report) -> dict[tuple[str, str, str], str]:
    """By data, encoder and defence: what attacks leave when those count that know the defence or see more of it."""
    return {(one.data, one.encoder, one.defence): f"{pointed(one.robust)} ({behind(one.robust)})"
            for one in report.worst if one.scope == "every"}


def both(asked: Line, shown: Line | None, attack: str) -> str:
    """Of plain only the first: texts made against it are its adaptive ones."""
    found = [pointed(asked.robust(attack)), *([pointed(shown.robust(attack))] if shown else [])]
    return NOTHING if set(found) == {NOTHING} else " / ".join(found) + own_basis(asked, attack)


def worst_cell(table: Table, line: Line) -> str:
    """With the number of attacks where they are not all of the table's: fewer leave more."""
    attacks = len(line.worst.keys) if line.worst else 0
    fewer = f" of {attacks} attacks" if 0 < attacks < len(table.attacks) else ""
    return pointed(line.robust(WORST)) + fewer + own_basis(line, WORST)


def pointed(share: Share | None) -> str:
    return figure(share, interval=False)


def rival_rows(report: Report) -> list[list[str]]:
    rows = [["data", "encoder", "mode", "defence", "attack", "CAA", "best rival", "its CAA", "difference", "p (Holm)"]]
    return rows + [rival_row(found) for found in rivalries(report)]


def rival_row(found: Rivalry) -> list[str]:
    table, cells = found.table, test_cells(found.test)
    if found.test and found.test.significant:
        cells[1] += " †"
    return [table.data, table.encoder, mode_name(table), found.line.defence, found.column,
            figure(found.line.robust(found.column)), found.rival.defence, figure(found.rival.robust(found.column)),
            *(cells if found.test else [f"not tested: {found.reason}", NOTHING])]


def missing_lines(report: Report) -> list[str]:
    """What grids ask for and is not there: whole cells, each with a reason, and texts of others."""
    there = {run.records.cell.file_name: len(run.records.results) for one in report.entries for run in one.runs}
    fewer = {name: f"{there[name]:,} of {asked:,} texts are there" for name, asked in report.short.items()
             if name in there}
    names = {place_of(run.records): one.key.defence for one in report.entries for run in one.runs}
    return [*by_classifier({name: reason or NOT_RUN for name, reason in report.missing.items()}, names),
            *by_classifier(fewer, names)]


def by_classifier(told: Mapping[str, str], names: Mapping[Place, str]) -> list[str]:
    """A line for each remark, classifier, mode and set of seeds, with the attacks that it is about.

    names: of rows that have records; what was never begun has none but its grid's.
    """
    groups: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for name, remark in told.items():
        data, encoder, defence, attack, mode, seed, *scores = name.removesuffix(".jsonl").split(".")
        kind = ", ".join([mode, *(SCORE_WORDS.get(one, one) for one in scores)])
        shown = names.get((data, encoder, defence), defence)
        groups.setdefault((data, encoder, shown, kind, remark), {}).setdefault(attack, []).append(seed)
    found: dict[tuple[str, ...], list[str]] = {}
    for (*place, remark), attacks in groups.items():
        for attack, seeds in attacks.items():
            found.setdefault((*place, f"seed {', '.join(seeds)}", remark), []).append(attack)
    return [f"{', '.join(place)}: {', '.join(attacks)}; {remark}" for (*place, remark), attacks in found.items()]


def unfinished_lines(report: Report) -> Iterator[str]:
    for one in report.entries:
        for run in one.runs:
            if run.missing:
                yield (f"{', '.join([*one.key[:4], mode_name(one.key)])}, seed {run.seed}: {run.missing:,} of "
                       f"{run.records.wanted:,} texts still to be attacked; its figure stands on those that are there")


def short_rows(report: Report, chosen: Callable[[Table], Sequence[Line]]) -> list[list[str]]:
    """The chosen rows of each table of adaptive attacks: what is left, and what it costs."""
    tables = [table for table in report.tables if table.mode == "adaptive" and table.scores == "raw"]
    attacks = sorted({attack for table in tables for attack in table.attacks})
    head, *costs = defence_cost_rows(report)
    spent = {tuple(row[:3]): row for row in costs}
    training, answer = (place for place, name in enumerate(head) if name == "x plain")
    passes = head.index("passes for an answer")
    every = worst_of_all(report)
    rows = [["data", "encoder", "defence", "clean", *attacks, WORST, EVERY, "texts x seeds", "training time, x plain",
             "passes", "answer time, x plain"]]
    for table in tables:
        for line in chosen(table):
            row = spent[table.data, table.encoder, line.defence]
            rows.append([table.data, table.encoder, line.defence, clean_cell(line, interval=False),
                         *(pointed(line.robust(attack)) + own_basis(line, attack) for attack in attacks),
                         worst_cell(table, line), every.get((table.data, table.encoder, line.defence), NOTHING),
                         behind(line.clean), row[training], row[passes], row[answer]])
    return rows


def short_cautions(report: Report, chosen: Callable[[Table], Sequence[Line]]) -> list[str]:
    """What is to be read beside such rows; results tell it at length."""
    found: dict[str, dict[str, dict[str, None]]] = {}  # by data and by the doubt's name
    for table in (table for table in report.tables if table.mode == "adaptive" and table.scores == "raw"):
        for name, rows in report.uneven(chosen(table)).items():
            found.setdefault(table.data, {}).setdefault(name, {}).update(dict.fromkeys(rows))
    lines = [line for data, doubts in found.items()
             for line in uneven_lines({name: list(rows) for name, rows in doubts.items()}, of=data)]
    return [*lines, *(one.text for one in report.doubts if one.name == OLDER)]


def short_list(table: Table) -> Sequence[Line]:
    """The few rows that a reader looks for: plain, ours and the best rivals, by what adaptive attacks leave."""
    others = [line for line in table.lines if not is_ours(line) and line.method != PLAIN and line.robust(table.leading)]
    others.sort(key=lambda line: -(line.robust(table.leading) or line.clean).mean)  # type: ignore[union-attr]
    named = {line.defence for line in others[:RIVALS]}
    return [line for line in table.lines if line.method == PLAIN or line.defence in named
            or (is_ours(line) and is_whole(line))]


def is_whole(line: Line) -> bool:
    """Whether a row is a defence as one of its presets has it; other rows leave something out."""
    return line.defence == line.method or line.preset not in ("", "recommended")


def restoring(table: Table) -> Sequence[Line]:
    """All of ddm-restore, and what it is to be compared with."""
    return [line for line in table.lines if line.defence in (PLAIN, "ddm") or line.method == "ddm-restore"]
