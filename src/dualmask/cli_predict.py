# SPDX-License-Identifier: Apache-2.0
"""`dualmask predict`: texts or a file in, a table, CSV or JSON Lines out, on the screen or in a file."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rich.console import Console

from dualmask.answers import Item, Layout, is_formula, output_format
from dualmask.display import show_note
from dualmask.errors import OptionError
from dualmask.output_lock import is_lockable, output_lock
from dualmask.prediction import (
    begin,
    beside,
    check_out,
    check_parent,
    cut_count,
    predict_file,
    predict_items,
    real_place,
    threshold_of,
    writing,
)
from dualmask.prediction_inputs import ANSWERED, Input, file_input, stream_input, text_input
from dualmask.text.input_choices import InputChoices, is_empty, learned_columns
from dualmask.text.streams import STANDARD_INPUT, is_stream
from dualmask.text.tables import stream_kind

if TYPE_CHECKING:
    from dualmask.classifier import DefendedClassifier, Predictions


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
    choices: InputChoices = ANSWERED
    resume: bool = False
    overwrite: bool = False
    progress: bool = True
    safe_csv: bool = False
    windows: str | None = None  # none: as the model was saved

    @property
    def kind(self) -> str | None:
        """The format of the answers, None for a table on the screen."""
        return output_format(self.out, self.format) if self.out else None if self.format == "table" else self.format


def answer(request: Request) -> None:
    """Load the model and answer; what another process is writing is refused before that."""
    request = with_standard_input(request)
    check(request)
    with output_lock(request.out):
        answer_all(request)


def with_standard_input(request: Request) -> Request:
    """A lone `-`, or nothing at all where something is piped in, stands for standard input."""
    piped = not request.texts and request.file is None and sys.stdin is not None and not sys.stdin.isatty()
    if request.file is None and (piped or request.texts == ["-"]):
        return replace(request, texts=[], file=Path("-"), choices=replace(
            request.choices, kind=request.choices.kind or "text"))
    return request


def answer_all(request: Request) -> None:
    from dualmask.classifier import DefendedClassifier

    classifier = DefendedClassifier.load(request.model, windows=request.windows or "saved")
    if not request.defended:
        classifier.check_head()
    streamed = request.file is not None and is_stream(request.file)
    if request.file and request.out and is_lockable(request.out) and not streamed:
        from dualmask.display import show_summary

        choices = request.choices
        summary = predict_file(
            classifier, request.file, request.out, format=output_format(request.out, request.format),
            columns=choices.columns, explain=request.explain, defended=request.defended, batch_size=request.batch_size,
            resume=request.resume, overwrite=request.overwrite, progress=request.progress, safe_csv=request.safe_csv,
            encoding=choices.encoding, empty=choices.empty, input_format=choices.kind, tell=show_note)
        show_summary(Console(), summary)
        note_empty(summary.empty, summary.rows, skipped=summary.skipped > 0)
        note_formulas(summary.formulas)
        note_cut(classifier, summary.cut, summary.rows - summary.resumed,
                 pairs=bool(choices.columns.pair or learned_columns(classifier.facts).pair))
        return
    request = replace(request, choices=replace(
        request.choices, learned=learned_columns(classifier.facts), tell=show_note))
    given = find_input(request)
    if request.out:
        with new_file(request.out, overwrite=request.overwrite) as file:
            write(classifier, request, given, file)
        if streamed and is_lockable(request.out):
            show_note(f"written to {request.out}")
    elif request.kind is None:
        show(classifier, request, given)
    else:
        write(classifier, request, given, sys.stdout.buffer)


def find_input(request: Request) -> Input:
    if request.file is None:
        return text_input(request.texts, request.choices)
    if not is_stream(request.file):
        return file_input(request.file, request.choices)
    if str(request.file) in STANDARD_INPUT and sys.stdin.isatty():
        show_note("reading texts from the keyboard, one a line; Ctrl-D on a line of its own ends them.")
    elif request.choices.kind is None and stream_kind(request.file) is None:
        show_note(f"{request.file} is read as one text a line; of a table say --input-format csv, tsv or jsonl.")
    return stream_input(request.file, request.choices, ragged=request.kind in (None, "jsonl"))


def check(request: Request) -> None:
    """Refuse what can't be meant, before a model is loaded."""
    check_source(request)
    streamed = request.file is not None and is_stream(request.file)
    if request.resume and streamed:
        name = "standard input" if str(request.file) in STANDARD_INPUT else request.file
        raise OptionError(f"--resume reads the input once more, and {name} can be read only once: save what comes from "
                          "it in a file, and give that with --file; or leave --resume out.")
    if request.windows is not None:
        from dualmask.windows import read_windows

        read_windows(request.windows)
    if request.resume and not (request.file and request.out and is_lockable(request.out)):
        raise OptionError("--resume goes on with a file that is being written; it needs --file and --out, and the "
                          "latter must not be a pipe.")
    kind = request.kind
    if request.out:
        check_parent(request.out)
    if request.safe_csv and kind not in ("csv", "tsv"):
        raise OptionError("--safe-csv is for CSV and TSV, which spreadsheets open; give --format csv, or --out with "
                          "such an ending, or leave it out.")


def check_source(request: Request) -> None:
    if request.texts and request.file:
        raise OptionError("both texts and --file were given; give texts in quotes, or one file with --file.")
    if not request.texts and not request.file:
        raise OptionError("neither a text nor --file was given, and nothing is piped in; give texts in quotes, a file "
                          "with --file, or texts through a pipe, one a line.")
    if "-" in request.texts:
        raise OptionError("- stands for standard input and can't stand among texts; give it alone, or texts alone.")
    if request.texts and request.choices.kind:
        raise OptionError("--input-format is of a file or of standard input; leave it out where texts are given.")


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


@dataclass
class Counts:
    """What is told at the end."""

    rows: int = 0
    empty: int = 0
    formulas: int = 0
    cut: int = 0
    pairs: bool = False

    def add(self, items: list[Item], answers: "Predictions") -> None:
        self.cut += cut_count(answers)
        self.rows += len(items)
        self.pairs = self.pairs or any(not isinstance(item.text, str) for item in items)
        self.empty += sum(is_empty(item.text) for item in items)
        self.formulas += sum(is_formula(value) for item in items for value in item.values.values())


def answers_of(
    classifier: "DefendedClassifier", request: Request, given: Input,
) -> "Iterator[tuple[list[Item], Predictions]]":
    return predict_items(
        classifier, given.items, explain=request.explain, defended=request.defended, batch_size=request.batch_size,
        skip_empty=request.choices.empty == "skip", at_hand=given.at_hand)


def write(classifier: "DefendedClassifier", request: Request, given: Input, stream: BinaryIO) -> None:
    """Rows of CSV, TSV or JSON Lines, each chunk as soon as it is answered."""
    layout = Layout.of(output_format(Path(), request.kind), given.names(), classifier.labels, explain=request.explain,
                       threshold=threshold_of(classifier, request.defended), safe=request.safe_csv)
    stream.write(layout.header())
    skip = request.choices.empty == "skip"
    counts = Counts(formulas=sum(map(is_formula, [*layout.names, *classifier.labels])))
    for items, answers in answers_of(classifier, request, given):
        stream.write(layout.lines(items, answers, skip_empty=skip))
        stream.flush()
        counts.add(items, answers)
    note_empty(counts.empty, counts.rows, skipped=skip)
    note_cut(classifier, counts.cut, counts.rows, pairs=counts.pairs)
    note_formulas(0 if request.safe_csv or layout.format == "jsonl" else counts.formulas)


def show(classifier: "DefendedClassifier", request: Request, given: Input) -> None:
    """A table, printed chunk by chunk, so that a long file needs no more memory than a short one."""
    from dualmask.display import legend, show_predictions

    console, threshold = Console(), threshold_of(classifier, request.defended)
    counts, skip, header = Counts(), request.choices.empty == "skip", True
    for items, answers in answers_of(classifier, request, given):
        counts.add(items, answers)
        if texts := [item.text for item in items if not (skip and is_empty(item.text))]:
            show_predictions(console, texts, answers, header=header, width=max(map(len, classifier.labels)),
                             threshold=threshold)
            header = False
    if request.explain:
        legend(console, classifier, defended=request.defended)
    note_empty(counts.empty, counts.rows, skipped=skip)
    note_cut(classifier, counts.cut, counts.rows, pairs=counts.pairs)


def note_formulas(count: int) -> None:
    """What was written is what was given: a program needs it so, a spreadsheet may run it."""
    if count:
        places = "1 place" if count == 1 else f"{count:,} places"
        show_note(f"in {places} a text, a column's name or a label begins as a formula does, which spreadsheets run on "
             "opening; --safe-csv puts ' before it.")


def note_cut(classifier: "DefendedClassifier", cut: int, rows: int, *, pairs: bool = False) -> None:
    """What stands behind the cut may be what the text is about, or what somebody wants to hide."""
    if cut:
        from dualmask.windows import told_of_cut

        told = told_of_cut(cut, rows, classifier.encode.max_length, classifier.windows, pairs=pairs)
        Console(stderr=True).print(f"note: {told}", style="yellow", highlight=False, soft_wrap=True, markup=False)


def note_empty(empty: int, rows: int, *, skipped: bool = False) -> None:
    """Where there is nothing to read, the network answers all the same, and often surely."""
    if empty:
        what = "and were skipped" if skipped else "their answers mean nothing"
        show_note(f"{empty:,} of {rows:,} texts are empty{' ' if skipped else '; '}{what}.")
