# SPDX-License-Identifier: Apache-2.0
"""Records without their texts: one small file of many cells, from which every figure of a report follows as before.

The first line says what the file is, which cells its runs lack and which have fewer texts than was asked for; then a
line for each cell's header; then a line for each cell's records, field by field. A field that another cell has just so
is given as that cell's number.
"""

import gzip
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from math import inf
from pathlib import Path
from typing import NamedTuple, cast

from dualmask.errors import DataError, OptionError
from dualmask.evaluation.records import (
    PACKED,
    Cell,
    CellRecords,
    Loaded,
    cell_names,
    cell_of,
    check_classes,
    keep,
    read_cells,
)
from dualmask.output_lock import locks_output
from dualmask.results import FIELDS, FORMAT, AttackResult, Spans, checked_header, whole_lines
from dualmask.text.columns import Text
from dualmask.text.differences import word_changes
from dualmask.text.words import Words

TEXTS = ("text", "adversarial")  # what is left out: of the one a hash stands for it, of the other what it changed
SPANS = ("hidden", "hidden_after")  # of these their number is kept
DEFAULTS = {f.name: f.default for f in FIELDS}
MOST_SPANS = 1 << 14  # of a text; encoders read fewer tokens, and a forged number must not fill the memory
BETWEEN = -1  # the place of a change that no word shows, such as of a comma
Column = list[object]


class Packed(NamedTuple):
    """What was packed."""

    cells: int
    records: int
    size: int  # of the file, in bytes
    problems: list[str]  # what could not be read


@locks_output("out")
def pack(
    runs: Sequence[Path], out: Path, *, words: bool = False, asked: Mapping[Cell, int] | None = None,
) -> Packed:
    """Put the records of runs into one file. Of a cell that several have, the one with most texts counts.

    words: keep the changed words as well as their places. Put together, they give much of the texts away.
    asked: cells that there should be, and with how many texts, beside those that the runs themselves were asked for;
    what packed files among these lack counts only if it is still asked for.
    """
    if out.name.partition(".")[2] != "jsonl.gz":
        raise OptionError(f"{out} has another ending; packed records are called NAME.jsonl.gz.")
    names = {cell.file_name for cell in asked or {}}
    loaded = [still_asked(read_cells(run), names) if run.is_file() and asked else read_cells(run) for run in runs]
    most: dict[Cell, CellRecords] = {}
    for records in (records for one in loaded for records in one.cells):
        if records.cell not in most or len(records.results) > len(most[records.cell].results):
            most[records.cell] = records
    cells = [most[cell] for cell in sorted(most)]
    here = {records.cell.file_name for records in cells}
    wanted = {cell.file_name: texts for cell, texts in (asked or {}).items()}
    reasons = {**dict.fromkeys(wanted, ""), **{name: why for one in loaded for name, why in one.missing.items()}}
    short = {**{name: texts for one in loaded for name, texts in one.short.items()}, **wanted}
    lines = packed_lines(cells, words=words, missing={name: reasons[name] for name in sorted(reasons.keys() - here)},
                         short={name: short[name] for one in cells
                                if short.get(name := one.cell.file_name, 0) > most_texts(one)})
    content = gzip.compress("".join(f"{line}\n" for line in lines).encode("utf-8"), mtime=0)
    keep(content, out)
    return Packed(len(cells), sum(len(one.results) for one in cells), len(content),
                  [problem for one in loaded for problem in one.problems])


def still_asked(loaded: Loaded, names: Collection[str]) -> Loaded:
    """Of what a packed file lacks, that which grids of today ask for: those of its time may have had other cells."""
    return loaded._replace(missing={name: why for name, why in loaded.missing.items() if name in names},
                           short={name: texts for name, texts in loaded.short.items() if name in names})


def most_texts(records: CellRecords) -> float:
    """How many the cell has had a chance to have; where the data have no more, as many as anyone may ask for."""
    samples = records.header.get("samples")
    return samples if isinstance(samples, int) and records.wanted >= samples else inf


def packed_lines(
    cells: Sequence[CellRecords], *, words: bool, missing: Mapping[str, str], short: Mapping[str, int],
) -> Iterator[str]:
    yield json.dumps({"format": FORMAT, "kind": PACKED, "cells": len(cells), "missing": missing, "short": short})
    yield from (json.dumps(records.header) for records in cells)
    first: dict[tuple[str, str], int] = {}
    for number, records in enumerate(cells):
        written = {name: json.dumps(column, separators=(",", ":"))
                   for name, column in columns(records, words=words).items()}
        parts = [f'"{name}":{first.get((name, text), text)}' for name, text in written.items()]
        for place in written.items():
            first.setdefault(place, number)
        yield "{" + ",".join(parts) + "}"


def columns(records: CellRecords, *, words: bool) -> dict[str, Column]:
    """The records field by field, without fields that are as they are unless told."""
    results = records.results
    found: dict[str, Column] = {name: [getattr(one, name) for one in results] for name in DEFAULTS
                                if name not in (*TEXTS, *SPANS)}
    for name in SPANS:
        found[name] = [None if getattr(one, name) is None else len(getattr(one, name)) for one in results]
    told = {name: column for name, column in found.items() if any(value != DEFAULTS[name] for value in column)}
    return {**told, "text": [records.mark_of(one) for one in results], "edits": [
        edits_told(one) if records.packed else edits(one.text, one.adversarial, words=words) for one in results]}


def edits(before: Text, after: Text | None, *, words: bool) -> Column | None:
    """The places of changed words, with the words before and after if asked for; none without an attacked text."""
    if after is None or after == before:
        return None if after is None else []
    old, new = Words(before).words, Words(after).words
    found: Column = [
        [gone.start, " ".join(old[gone.start:gone.stop]), " ".join(new[come.start:come.stop])] if words else gone.start
        for gone, come in word_changes(old, new)]
    return found or [BETWEEN]


def edits_told(result: AttackResult) -> Column | None:
    """Of a record that was packed: what stands behind its hash in the place of the attacked text."""
    if result.adversarial is None:
        return None
    return cast(Column, json.loads(str(result.adversarial).removeprefix(str(result.text)) or "[]"))


def read_packed(path: Path) -> Loaded:
    """All cells of a packed file. A text is its hash; an attacked text the same with the places of its changes."""
    lines = whole_lines(path, cut=False)
    try:
        told = json.loads(next(lines))
        count, missing, short = int(told["cells"]), told["missing"], told.get("short", {})
        names, problems = cell_names(path, {**missing, **short})
        headers = [checked_header(json.loads(line)) for line in islice(lines, count)]
        tables = [json.loads(line) for line in islice(lines, count)]
        if len(tables) < count:
            raise DataError(f"it ends after {len(tables)} of {count} cells.")
        if next(lines, None) is not None:  # at the end, and only there, its checksum is looked at
            raise DataError(f"it goes on after its {count} cells.")
        cells = [unpacked_cell(path, header, full(table, tables))
                 for header, table in zip(headers, tables, strict=True)]
        gaps = {name: str(missing[name]) for name in names if name in missing}
        fewer = {name: int(short[name]) for name in names if name in short}
    except (StopIteration, ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError,
            RecursionError, DataError) as error:
        raise DataError(f"{path} can't be read as packed records ({error}); restore it, or pack the runs "
                        "again.") from None
    return Loaded(cells, problems, gaps, fewer)


def full(table: Mapping[str, object], tables: Sequence[Mapping[str, object]]) -> dict[str, Column]:
    """A cell's fields, those that it has from another cell too."""
    return {name: cast(Column, tables[column][name] if isinstance(column, int) else column)
            for name, column in table.items()}


def unpacked_cell(path: Path, header: Mapping[str, object], table: Mapping[str, Column]) -> CellRecords:
    cell, names = cell_of(path, header), list(table)
    results = [unpacked_result(dict(zip(names, row, strict=True))) for row in zip(*table.values(), strict=True)]
    check_classes(path, len(cast(list[str], header.get("labels", []))), results)
    return CellRecords(cell, header, results, path, packed=True)


def unpacked_result(record: dict[str, object]) -> AttackResult:
    found = record.pop("edits")
    told = "" if found == [] else json.dumps(found)
    record["adversarial"] = None if found is None else f"{record['text']}{told}"
    counts = {name: record.pop(name, None) for name in SPANS}
    hidden = {name: nowhere(count) for name, count in counts.items() if count is not None}
    result = AttackResult.from_json(record)
    return replace(result, **hidden) if hidden else result  # type: ignore[arg-type]


@cache
def nowhere(count: object) -> Spans:
    """So many spans whose places are not known. Thousands of records share the few that there are."""
    if type(count) is not int or not 0 <= count <= MOST_SPANS:
        raise DataError(f"a record tells of {count!r:.40} hidden places; expected a number up to {MOST_SPANS:,}.")
    return ((0, 0, 0),) * count

