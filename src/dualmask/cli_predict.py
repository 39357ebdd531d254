# SPDX-License-Identifier: Apache-2.0
"""`dualmask predict`: texts or a file in, a table, CSV or JSON Lines out, on the screen or in a file."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rich.console import Console

from dualmask.answers import Item, Layout, is_formula, output_format
from dualmask.errors import OptionError
from dualmask.output_lock import is_lockable, output_lock
from dualmask.prediction import (
    begin,
    beside,
    check_out,
    check_parent,
    cut_count,
    is_empty,
    predict_file,
    predict_items,
    read_items,
    real_place,
    survey,
    threshold_of,
    writing,
)
from dualmask.text.columns import FIND, Columns

if TYPE_CHECKING:
    from dualmask.classifier import DefendedClassifier


@dataclass(frozen=True, kw_only=True)
class Request:
    """What was asked for on the command line."""

    model: str
    texts: list[str] = field(default_factory=list)
    file: Path | None = None
    out: Path | None = None
    format: str | None = None
    explain: bool = False
    defended: bool = True
    batch_size: int | None = None
    columns: Columns = FIND
    resume: bool = False
    overwrite: bool = False
    progress: bool = True
    safe_csv: bool = False
    windows: str | None = None  # none: as the model was saved

    def items(self) -> Iterator[Item]:
        if self.file:
            return read_items(self.file, self.columns)
        return iter([Item({"text": text}, text) for text in self.texts])

    def names(self) -> list[str]:
        return survey(self.file, self.columns)[1] if self.file else ["text"]


def answer(request: Request) -> None:
    """Load the model and answer; what another process is writing is refused before that."""
    check(request)
    with output_lock(request.out):
        answer_all(request)


def answer_all(request: Request) -> None:
    from dualmask.classifier import DefendedClassifier

    classifier = DefendedClassifier.load(request.model, windows=request.windows or "saved")
    if not request.defended:
        classifier.check_head()
    if request.file and request.out and is_lockable(request.out):
        from dualmask.display import show_summary

        summary = predict_file(
            classifier, request.file, request.out, format=output_format(request.out, request.format),
            columns=request.columns, explain=request.explain, defended=request.defended, batch_size=request.batch_size,
            resume=request.resume, overwrite=request.overwrite, progress=request.progress, safe_csv=request.safe_csv)
        show_summary(Console(), summary)
        note_empty(summary.empty, summary.rows)
        note_formulas(summary.formulas)
        note_cut(classifier, summary.cut, summary.rows - summary.resumed)
    elif request.out:
        with new_file(request.out, overwrite=request.overwrite) as file:
            write(classifier, request, file, output_format(request.out, request.format))
    elif request.format in (None, "table"):
        show(classifier, request)
    else:
        write(classifier, request, sys.stdout.buffer, request.format)


def check(request: Request) -> None:
    """Refuse what can't be meant, before a model is loaded."""
    if bool(request.texts) == bool(request.file):
        given = "both texts and --file were" if request.texts else "neither a text nor --file was"
        raise OptionError(f"{given} given; give texts in quotes, or one file with --file.")
    if request.windows is not None:
        from dualmask.windows import read_windows

        read_windows(request.windows)
    if request.resume and not (request.file and request.out and is_lockable(request.out)):
        raise OptionError("--resume goes on with a file that is being written; it needs --file and --out, and the "
                          "latter must not be a pipe.")
    kind = output_format(request.out, request.format) if request.out else request.format
    if request.out:
        check_parent(request.out)
    if request.safe_csv and kind not in ("csv", "tsv"):
        raise OptionError("--safe-csv is for CSV and TSV, which spreadsheets open; give --format csv, or --out with "
                          "such an ending, or leave it out.")


@contextmanager
def new_file(out: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """Written beside its place, which it takes when it is whole: what was there stays until then.

    A pipe or a device holds nothing that could be lost, and gets each row at once.
    """
    out = real_place(out)
    if not is_lockable(out):
        with writing(out), out.open("wb") as file:
            yield file
        return
    check_out(out)
    begin(out, {}, resume=False, overwrite=overwrite)  # an unfinished run has its part where ours is going to be
    partial = beside(out, "partial")
    with writing(out):
        try:
            with partial.open("wb") as file:
                yield file
            os.replace(partial, out)
        finally:
            partial.unlink(missing_ok=True)


def write(classifier: "DefendedClassifier", request: Request, stream: BinaryIO, format: str) -> None:
    """Rows of CSV, TSV or JSON Lines, each chunk as soon as it is answered."""
    layout = Layout.of(output_format(Path(), format), request.names(), classifier.labels, explain=request.explain,
                       threshold=threshold_of(classifier, request.defended), safe=request.safe_csv)
    stream.write(layout.header())
    empty = rows = cut = 0
    formulas = sum(map(is_formula, [*layout.names, *classifier.labels]))
    for items, answers in predict_items(classifier, request.items(), explain=request.explain,
                                        defended=request.defended, batch_size=request.batch_size):
        stream.write(layout.lines(items, answers))
        stream.flush()
        empty, rows = empty + sum(is_empty(item.text) for item in items), rows + len(items)
        formulas += sum(is_formula(value) for item in items for value in item.values.values())
        cut += cut_count(answers)
    note_empty(empty, rows)
    note_cut(classifier, cut, rows)
    note_formulas(0 if request.safe_csv or format == "jsonl" else formulas)


def show(classifier: "DefendedClassifier", request: Request) -> None:
    """A table, printed chunk by chunk, so that a long file needs no more memory than a short one."""
    from dualmask.display import legend, show_predictions

    console, threshold = Console(), threshold_of(classifier, request.defended)
    empty = rows = cut = 0
    for items, answers in predict_items(classifier, request.items(), explain=request.explain,
                                        defended=request.defended, batch_size=request.batch_size):
        show_predictions(console, [item.text for item in items], answers, header=not rows,
                         width=max(map(len, classifier.labels)), threshold=threshold)
        empty, rows = empty + sum(is_empty(item.text) for item in items), rows + len(items)
        cut += cut_count(answers)
    if request.explain:
        legend(console, classifier, defended=request.defended)
    note_empty(empty, rows)
    note_cut(classifier, cut, rows)


def note_formulas(count: int) -> None:
    """What was written is what was given: a program needs it so, a spreadsheet may run it."""
    if count:
        places = "1 place" if count == 1 else f"{count:,} places"
        Console(stderr=True).print(
            f"note: in {places} a text, a column's name or a label begins as a formula does, which spreadsheets run on "
            "opening; --safe-csv puts ' before it.", style="yellow", highlight=False, soft_wrap=True)


def note_cut(classifier: "DefendedClassifier", cut: int, rows: int) -> None:
    """What stands behind the cut may be what the text is about, or what somebody wants to hide."""
    if cut:
        from dualmask.windows import told_of_cut

        told = told_of_cut(cut, rows, classifier.encode.max_length, classifier.windows)
        Console(stderr=True).print(f"note: {told}", style="yellow", highlight=False, soft_wrap=True, markup=False)


def note_empty(empty: int, rows: int) -> None:
    """Where there is nothing to read, the network answers all the same, and often surely."""
    if empty:
        Console(stderr=True).print(f"note: {empty:,} of {rows:,} texts are empty; their answers mean nothing.",
                                   style="yellow", highlight=False, soft_wrap=True)
