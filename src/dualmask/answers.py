# SPDX-License-Identifier: Apache-2.0
"""Answers as rows of CSV, TSV or JSON Lines: the input's own columns, then ours."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, cast, get_args

from dualmask.errors import OptionError
from dualmask.text.columns import Text
from dualmask.text.input_choices import is_empty

if TYPE_CHECKING:
    from dualmask.classifier import Masked, Predictions

Format = Literal["csv", "tsv", "jsonl"]
ENDINGS: Mapping[str, Format] = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
DIGITS = 6  # of probabilities; what lies beyond differs between machines
SCORED = ("suspicion", "flagged")  # columns of detectors
# What spreadsheets run, or what may bring them to it: also behind spaces, and in letters of East Asian width
FORMULA = re.compile("[\t\r\n]|\\s*[=+\\-@\uff1d\uff0b\uff0d\uff20]")
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


class Item(NamedTuple):
    """One text to answer, with the columns it came in."""

    values: Mapping[str, object]
    text: Text


def output_format(out: Path, given: str | None) -> Format:
    """The format asked for, else that of the file's ending."""
    if given in get_args(Format):
        return cast(Format, given)
    if given is not None:
        raise OptionError(f"format '{given}' can't be written to a file; choose one of {', '.join(get_args(Format))}.")
    if (ending := out.suffix.lower()) in ENDINGS:
        return ENDINGS[ending]
    raise OptionError(f"{out}: the ending '{ending}' tells no output format; use one of {' '.join(ENDINGS)}, or say "
                      f"which format to write ({', '.join(get_args(Format))}).")


@dataclass(frozen=True)
class Layout:
    """Rows of output in one format, as bytes."""

    format: Format
    names: Sequence[str]  # the input's columns
    ours: Sequence[str]  # the columns that are added
    threshold: float | None = None  # of a detector: texts more suspicious than this are flagged
    safe: bool = False  # for spreadsheets: no cell is a formula

    @classmethod
    def of(
        cls, format: Format, names: Sequence[str], labels: Sequence[str], *, explain: bool,
        threshold: float | None = None, safe: bool = False,
    ) -> "Layout":
        if safe and format == "jsonl":
            raise OptionError("--safe-csv (safe_csv) is for CSV and TSV, which spreadsheets open; leave it out for "
                              "JSON Lines.")
        added = ["predicted", "confidence", *(f"p_{label}" for label in labels),
                 *(() if threshold is None else SCORED), *(["masked"] if explain else [])]
        ours: list[str] = []
        for name in added:
            while name in names or name in ours:  # a file may be predicted twice
                name = f"dualmask_{name}"
            ours.append(name)
        return cls(format, names, ours, threshold, safe)

    def header(self) -> bytes:
        return b"" if self.format == "jsonl" else self.joined([*self.names, *self.ours])

    def lines(self, items: Sequence[Item], answers: "Predictions", *, skip_empty: bool = False) -> bytes:
        """A row for each item; those without a text have no answer where such are skipped, and empty columns."""
        found = iter(self.cells(answers))
        nothing = [None for _ in self.ours]
        return b"".join(self.line(item, nothing if skip_empty and is_empty(item.text) else next(found))
                        for item in items)

    def cells(self, answers: "Predictions") -> Iterator[list[object]]:
        """The columns that are added, text by text."""
        masked, doubts = answers.masked or [[] for _ in answers.labels], scored(answers, self.threshold)
        for label, row, doubt, spans in zip(answers.labels, rounded(answers), doubts, masked, strict=True):
            yield [label, max(row), *row, *doubt, *([spans_of(spans)] if answers.masked is not None else [])]

    def line(self, item: Item, answer: Sequence[object]) -> bytes:
        if self.format == "jsonl":
            return as_json({**item.values, **dict(zip(self.ours, answer, strict=True))}) + b"\n"
        return self.joined([*(item.values.get(name) for name in self.names), *answer])

    def joined(self, values: Sequence[object]) -> bytes:
        delimiter = "\t" if self.format == "tsv" else ","
        told = [f"'{value}" if self.safe and is_formula(value) else value for value in values]
        return (delimiter.join(cell(value, delimiter) for value in told) + "\n").encode(errors="replace")


def rounded(answers: "Predictions") -> list[list[float]]:
    return [[round(value, DIGITS) for value in row] for row in answers.probabilities.tolist()]


def scored(answers: "Predictions", threshold: float | None) -> list[tuple[float, bool]] | list[tuple[()]]:
    """Each text's suspicion and whether it is flagged; nothing of texts that no detector saw."""
    if threshold is None or answers.suspicion is None:
        return [() for _ in answers.labels]
    flags = (answers.suspicion > threshold).tolist()  # before rounding, as the defence itself does
    return [(round(value, DIGITS), flag) for value, flag in zip(answers.suspicion.tolist(), flags, strict=True)]


def spans_of(spans: Sequence["Masked"]) -> list[dict[str, object]]:
    """What was masked, for a file; `part` says that a span is of the second text of a pair."""
    return [{"text": span.text, "start": span.start, "end": span.end, "score": round(span.score, 4) + 0.0,
             **({"part": span.part} if span.part else {}),
             **({"becomes": span.becomes, "why": span.why} if span.why else {})} for span in spans]


def as_json(value: object) -> bytes:
    text = json_text(value)
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can only spell out
        return json_text(value, ensure_ascii=True).encode()


def json_text(value: object, *, ensure_ascii: bool = False) -> str:
    """JSON as its standard has it: NaN and the infinities, which it lacks, are null; dates and bytes as by str()."""
    try:
        return json.dumps(value, ensure_ascii=ensure_ascii, default=str, allow_nan=False)
    except ValueError:
        return json.dumps(without_nan(value), ensure_ascii=ensure_ascii, default=str, allow_nan=False)


def without_nan(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: without_nan(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def is_formula(value: object) -> bool:
    """Whether a spreadsheet may take a text for a formula; a number, such as -5, is none."""
    return isinstance(value, str) and bool(FORMULA.match(value)) and not NUMBER.fullmatch(value)


def cell(value: object, delimiter: str) -> str:
    """A value in CSV. The csv module leaves a lone carriage return unquoted, and then can't read it back.

    Lists and objects are JSON; what JSON lacks (dates, decimals, bytes as b'...') is written as str() has it.
    """
    if value is None:
        return ""
    if isinstance(value, dict | list | tuple):
        text = json_text(value)
    else:
        text = json.dumps(value) if isinstance(value, int | float) else str(value)
    if any(mark in text for mark in (delimiter, '"', "\n", "\r")):
        doubled = text.replace('"', '""')
        return f'"{doubled}"'
    return text
