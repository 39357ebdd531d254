# SPDX-License-Identifier: Apache-2.0
"""Rows out of files, one at a time: CSV, TSV, JSON Lines, Parquet and plain text.

Memory stays constant whatever the size of the file. Every complaint names the file, the line (the row where there are
no lines) and the remedy.
"""

import csv
import json
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from os.path import isdir
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dualmask.errors import DataError, OptionError
from dualmask.system_errors import explain_os_error, system_number
from dualmask.text.character_sets import UTF8, check_encoding
from dualmask.text.columns import FIND, SURROGATES, Columns, Text, closest, text_of
from dualmask.text.input_choices import InputChoices, TableKind
from dualmask.text.lines import MAX_TEXT, PACKED_ENDINGS, read_lines
from dualmask.text.streams import LineStream, is_stream, open_stream

if TYPE_CHECKING:
    import datasets
    import pyarrow

BATCH = 1024  # rows decoded together where the format is columnar
CELL_ERRORS = (ValueError, ArithmeticError, LookupError)  # no UTF-8, a date out of range, an unknown time zone
KINDS: Mapping[str, TableKind] = {
    ".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".txt": "text"}
TABLE_ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
PARTS = {"train": ("train", "training"), "validation": ("validation", "valid", "val", "dev"), "test": ("test",)}


class Record(NamedTuple):
    """One row as the file has it; ``number`` counts from 1 (CSV: the line where the row begins, header counted)."""

    number: int
    values: Mapping[str, object]


class Row(NamedTuple):
    """One row to predict: its columns with the values as they are typed there, and the text among them."""

    number: int
    fields: Mapping[str, object]
    text: Text


@dataclass(frozen=True)
class Table:
    """Rows that can be read once, with what is needed to say where a row stands."""

    name: str
    unit: str  # "line" or "row"
    records: Iterator[Record]
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of columns that hold class ids
    has_header: bool = False

    def at(self, number: int) -> str:
        return f"{self.name}, {self.unit} {number}"

    def names_at(self, number: int) -> str:
        """Where the names of the columns stand, if the first row is at ``number``."""
        return self.at(1 if self.has_header else number) if self.unit == "line" else self.name


def iter_rows(
    source: str | Path, *, columns: Columns = FIND, allow_empty: bool = False, encoding: str = UTF8,
) -> Iterator[Row]:
    """Stream the rows of one file of any size; labels are not needed. A .txt file holds one text a line."""
    choices = InputChoices(columns=columns, encoding=encoding, empty="answer" if allow_empty else "refuse")
    return table_rows(open_table(Path(source), choices), choices)


def table_rows(table: Table, choices: InputChoices) -> Iterator[Row]:
    """The rows of a table to predict."""
    found = None
    for record in table.records:
        at = table.at(record.number)
        refuse_unreadable(record.values.values())  # all of them go into the answers
        found = found or choices.found(tuple(record.values), table.names_at(record.number), labelled=False)
        text = text_of(record.values, found, at, allow_empty=choices.empty != "refuse")
        yield Row(record.number, record.values, text)


def open_table(path: Path, choices: InputChoices = InputChoices()) -> Table:  # noqa: B008 (it can't be changed)
    """The table in one file, by its ending unless its kind was told."""
    check_readable(path)
    ending = table_ending(path)
    if ending == ".parquet" and choices.kind is None:
        if check_encoding(choices.encoding) != UTF8:
            raise OptionError(f"{path}: a Parquet file knows its own encoding; leave --encoding (encoding) out.")
        return _parquet_table(path)
    kind = choices.kind or KINDS.get(ending)
    if kind is not None:
        return text_table(path, kind, choices.encoding)
    raise DataError(
        f"{path}: unsupported ending '{''.join(path.suffixes[-2:])}'; supported are {' '.join(TABLE_ENDINGS)} and "
        f".txt, all but Parquet also with {' '.join(PACKED_ENDINGS)}. Save the data in one of these formats."
    )


def check_readable(path: Path) -> None:
    """Refuse what is no file, or none that may be looked at, with what is there instead."""
    if isdir(path):  # unlike Path.is_dir, False for a name too long to be one
        raise DataError(f"{path} is a folder, expected one file: name a file in it ({listing(path)}).")
    try:
        os.stat(path)
    except PermissionError as error:
        raise DataError(explain_os_error(error, "read", path)) from error
    except (OSError, ValueError):
        raise DataError(f"{path}: no such file.{_neighbours(path)} Check the path.") from None
    if is_stream(path):
        raise DataError(f"{path} is a pipe or a device, expected an ordinary file, since it is read more than once. "
                        "Save what comes from it in a file, and give that.")


def text_table(source: Path | LineStream, kind: TableKind, encoding: str) -> Table:
    """A table that is written as text."""
    encoding = check_encoding(encoding)
    if kind in ("csv", "tsv"):
        return Table(str(source), "line", _csv_records(source, kind, encoding), has_header=True)
    records = _text_records if kind == "text" else _json_records
    return Table(str(source), "line", records(source, encoding))


def stream_kind(path: Path) -> TableKind | None:
    """What the name of a pipe tells of what comes from it, if anything."""
    ending = table_ending(path)
    if ending == ".parquet" or path.suffix.lower() in PACKED_ENDINGS:
        raise DataError(f"{path} is a pipe, from which Parquet and packed files can't be read; save what comes from "
                        "it in a file, or unpack it on the way, e.g. with zcat.")
    return KINDS.get(ending)


def stream_table(path: Path, choices: InputChoices) -> tuple[Table, LineStream]:
    """The table that comes from a pipe or from standard input, one text a line unless its kind is told."""
    kind = choices.kind or stream_kind(path) or "text"
    try:
        stream = open_stream(path)
    except OSError as error:
        raise DataError(explain_os_error(error, "read", path)) from error
    return text_table(stream, kind, choices.encoding), stream


def table_ending(path: Path) -> str:
    """The format's ending without that of the compression, ``""`` where it is not one we read."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] in PACKED_ENDINGS
    ending = suffixes[-1 - packed] if len(suffixes) > packed else ""
    return ending if ending in (*TABLE_ENDINGS, ".txt") and not (packed and ending == ".parquet") else ""


def listing(folder: Path, most: int = 10) -> str:
    """What a folder holds, for messages."""
    names = sorted(entry.name for entry in folder.iterdir())
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "") or "it is empty"


def _neighbours(path: Path) -> str:
    folder = path.parent
    while not isdir(folder):
        folder = folder.parent
    if folder != path.parent:
        return f" The folder {path.parent} does not exist either."
    near = closest(path.name, [entry.name for entry in folder.iterdir() if table_ending(entry)])
    return near or f" {folder} holds: {listing(folder)}."


_FIELD_LIMIT = threading.Lock()


def _next_fields(reader: Iterator[list[str]]) -> list[str] | None:
    """One row; the csv module's limit of 128 KiB a field holds for the whole process: raised here, then put back."""
    with _FIELD_LIMIT:
        before = csv.field_size_limit(MAX_TEXT)
        try:
            return next(reader, None)
        finally:
            csv.field_size_limit(before)


def _csv_rows(path: Path | LineStream, kind: TableKind, encoding: str) -> Iterator[tuple[int, list[str]]]:
    lines = read_lines(path, encoding)
    first = next(lines)
    delimiter = "\t" if kind == "tsv" else max(",;\t", key=first.count)  # spreadsheets of some countries write ;
    # strict: a quote that is never closed would otherwise swallow the rest of the file without a word
    reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    while True:
        number = reader.line_num + 1  # where the row begins: a quoted text may run over several lines
        try:
            fields = _next_fields(reader)
        except csv.Error as error:
            raise DataError(f"{path}, line {number}: {_csv_remedy(str(error))}") from error
        if fields is None:
            return
        if fields:
            yield number, fields


def _csv_remedy(error: str) -> str:
    if "field limit" in error:
        return f"a quoted field is longer than {MAX_TEXT // 2**20} MiB. Close its quote, or shorten the text."
    if "end of data" in error:
        return "a quoted field of this row is never closed. Add the closing quote, or double the quotes in it."
    if "new-line" in error:
        return "a carriage return inside a field without quotes. Quote the field, or save with line feeds as line ends."
    return f"{error}. Put the whole field in quotes and double the quotes within it."


def _csv_records(path: Path | LineStream, kind: TableKind, encoding: str) -> Iterator[Record]:
    rows = _csv_rows(path, kind, encoding)
    number, header = next(rows, (0, []))
    if not header:
        raise DataError(f"{path} is empty, expected a header line such as text,label and rows.")
    _check_names(header, f"{path}, line {number}")
    record = None
    for number, fields in rows:
        if len(fields) != len(header):
            raise DataError(
                f"{path}, line {number}: {len(fields)} fields, the header has {len(header)} ({', '.join(header)}). "
                "Quote fields that hold a delimiter, or add what is missing."
            )
        record = Record(number, dict(zip(header, fields, strict=True)))
        yield record
    if record is None:
        raise DataError(f"{path} has a header ({', '.join(header)}) but no rows. Add rows below it.")


def _check_names(names: Sequence[str], at: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"{at}: column name '{twice[0]}' occurs more than once. Rename or remove one of the columns.")


def _text_records(path: Path | LineStream, encoding: str) -> Iterator[Record]:
    for number, line in enumerate(read_lines(path, encoding), start=1):
        yield Record(number, {"text": line.rstrip("\r\n")})


def _json_records(path: Path | LineStream, encoding: str) -> Iterator[Record]:
    number, rows = 0, 0
    for number, line in enumerate(read_lines(path, encoding), start=1):
        if line.strip():
            rows += 1
            yield Record(number, _json_object(line, f"{path}, line {number}"))
    if not rows:
        raise DataError(f"{path} is empty: {number} blank lines. Expected one JSON object a line.")


def _json_object(line: str, at: str) -> dict[str, object]:
    remedy = 'Write one object a line, such as {"text": "...", "label": 1}.'
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{at}: invalid JSON ({error}). {remedy}") from error
    if not isinstance(value, dict):
        raise DataError(f"{at}: a JSON {type(value).__name__}, expected an object. {remedy}")
    return value


def _parquet_table(path: Path) -> Table:
    from pyarrow import ArrowException, parquet

    try:
        file = parquet.ParquetFile(path)
    except (ArrowException, OSError) as error:
        refuse_what_the_system_refused(error, path)
        raise DataError(f"{path}: not a complete Parquet file ({error}). Write or copy it again.") from error
    schema = file.schema_arrow
    _check_names(schema.names, str(path))
    if file.metadata.num_rows == 0:
        raise DataError(f"{path} has columns ({', '.join(schema.names)}) but no rows. Add rows.")
    return Table(str(path), "row", _parquet_records(path, file), _schema_classes(schema))


def refuse_what_the_system_refused(error: Exception, path: Path) -> None:
    """A file that may not be read is not a damaged one."""
    if system_number(error) is not None:
        raise DataError(explain_os_error(error, "read", path)) from error


def _parquet_records(path: Path, file: "pyarrow.parquet.ParquetFile") -> Iterator[Record]:
    from pyarrow import ArrowException

    number = 0
    try:
        for batch in file.iter_batches(batch_size=BATCH):
            names = batch.schema.names
            columns = [_cells(path, name, column, number) for name, column in zip(names, batch, strict=True)]
            for values in zip(*columns, strict=True):
                number += 1
                yield Record(number, dict(zip(names, values, strict=True)))
    except (ArrowException, OSError) as error:
        refuse_what_the_system_refused(error, path)
        raise DataError(f"{path}: can't be read beyond row {number} ({error}). Write or copy it again.") from error


def _cells(path: Path, name: str, column: "pyarrow.Array", before: int) -> list[object]:
    """A column's values; in the place of one that Python can't hold, the complaint for whoever needs it."""
    try:
        return list(column.to_pylist())
    except CELL_ERRORS:
        return [_cell(f"{path}, row {number}", name, value) for number, value in enumerate(column, start=before + 1)]


def _cell(at: str, name: str, value: "pyarrow.Scalar") -> object:
    try:
        return value.as_py()
    except CELL_ERRORS as error:
        reason = "text that is not UTF-8" if isinstance(error, UnicodeDecodeError) else f"a bad {value.type}: {error}"
        return DataError(f"{at}: unreadable value in column '{name}' ({reason}). Correct it or leave the column out.")


def refuse_unreadable(values: Iterable[object]) -> None:
    """Raise the complaint about the first value that could not be read."""
    for value in values:
        if isinstance(value, DataError):
            raise value


def class_names(features: "datasets.Features") -> dict[str, tuple[str, ...]]:
    """The names behind the ids, for each column that holds class ids."""
    from datasets import ClassLabel

    return {name: tuple(kind.names) for name, kind in features.items() if isinstance(kind, ClassLabel)}


def _schema_classes(schema: "pyarrow.Schema") -> dict[str, tuple[str, ...]]:
    """Class names that the datasets library wrote into the file, if it did and they can be understood.

    The library itself refuses them all where one column is of a type that it does not know.
    """
    from pyarrow.types import is_integer

    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        found = {name: _names(features[name]) for name in schema.names if name in features}
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}
    return {name: names for name, names in found.items() if names and is_integer(schema.field(name).type)}


def _names(feature: object) -> tuple[str, ...]:
    """The names in one column's description; none where it is not of class ids, or not in order."""
    names = feature.get("names") if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" else None
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        return ()
    return tuple(names) if len(set(names)) == len(names) and not SURROGATES.search("".join(names)) else ()
