# SPDX-License-Identifier: Apache-2.0
"""`dualmask theory`: a model and records of attacks in, how the paper's success condition fares on them out."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dualmask.cli_options import Device, Overwrite, Quiet
from dualmask.errors import OptionError
from dualmask.output_lock import output_lock

if TYPE_CHECKING:
    from rich.console import Console

    from dualmask.reporting.theory_tables import Lines
    from dualmask.theory.quantities import Quantities
    from dualmask.theory.summary import Summary

ACROSS = 3  # layers beside each other, with intervals, in 80 columns
NAMES = ("words.jsonl", "table.jsonl", "table.md", "geometry.svg", "recovery.svg")


class RecordMode(StrEnum):
    adaptive, transfer = "adaptive", "transfer"
    successful, aware = "transfer-successful", "defence-aware"


Layers = Annotated[list[int] | None, typer.Option(
    min=0, help="Measure what this layer is given, counted from 0, the embeddings; repeatable. The embeddings, the "
    "middle and the last unless given.")]
Mode = Annotated[RecordMode | None, typer.Option(
    metavar="MODE", help="Of a folder's records: transfer unless given, since what an adaptive attack found is what "
    "the defence does not recover. Also adaptive, transfer-successful, defence-aware.")]
Samples = Annotated[int | None, typer.Option(min=1, help="Measure so many attacked texts, drawn at random.")]
Out = Annotated[Path | None, typer.Option(
    help=f"Folder for {', '.join(NAMES)}: all quantities, the table in two forms, and the plots.")]


def theory(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder of a saved model, or a hub id.")],
    records: Annotated[Path, typer.Argument(
        metavar="RECORDS", help="Records of an attack (.jsonl, .jsonl.gz), or the folder of a run, of which those of "
        "the model's defence are taken.")],
    *,
    layer: Layers = None, mode: Mode = None, samples: Samples = None,
    seed: Annotated[int, typer.Option(help="Of the sample.")] = 0,
    out: Out = None, device: Device = None, overwrite: Overwrite = False, quiet: Quiet = False,
) -> None:
    """Show how often the paper's success condition holds on attacked texts, and whether it tells recovery."""
    from rich.console import Console

    from dualmask.classifier import DefendedClassifier
    from dualmask.theory.measurement import find_records, measure
    from dualmask.theory.summary import summarise

    with output_lock(*([] if out is None else [out / name for name in NAMES])):
        check_out(out, overwrite=overwrite)
        classifier = DefendedClassifier.load(model)
        found = find_records(records, classifier.defence.name, mode.value if mode else None,
                             fingerprint=classifier.fingerprint())
        for note in found.notes:
            typer.echo(note, err=True)
        with progressing(shown=not quiet) as watch:
            quantities = measure(classifier, found, layers=layer or (), samples=samples, seed=seed, watch=watch)
        summary = summarise(quantities)
        show(Console(), summary)
        if out:
            write(quantities, summary, out)
            for name in NAMES:
                typer.echo(out / name)


def check_out(out: Path | None, *, overwrite: bool) -> None:
    """Told before the model is loaded."""
    if out is not None and out.exists() and not out.is_dir():
        raise OptionError(f"{out} is a file; give a folder for {', '.join(NAMES)}.")
    there = [name for name in NAMES if out is not None and (out / name).exists()]
    if there and not overwrite:
        raise OptionError(f"{out} has {', '.join(there)} already; replace what is there (--overwrite) or choose "
                          "another folder.")


@contextmanager
def progressing(*, shown: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar, moved by each batch of texts."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(TextColumn("texts"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                  console=Console(stderr=True), disable=not shown, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def show(console: "Console", summary: "Summary") -> None:
    """In 80 columns; intervals of all rows are in what --out writes."""
    from rich.text import Text

    from dualmask.reporting.theory_tables import (
        CAUTION,
        Lines,
        chance_table,
        facts,
        findings,
        layer_name,
        layers,
        overviews,
        rate_table,
    )

    for name, told in facts(summary):
        console.print(Text.assemble((f"{name}: ", "bold"), told))
    for lines in overviews(summary):
        for start in range(1, len(lines.head), ACROSS):
            chosen = slice(start, start + ACROSS)
            show_table(console, Lines(lines.title, (lines.head[0], *lines.head[chosen]),
                                      [(row[0], *row[chosen]) for row in lines.rows]))
    for layer, rows in layers(summary).items():
        for lines in (rate_table(rows), chance_table(rows)):
            bare = [tuple(cell.partition(" (")[0] for cell in row) for row in lines.rows]
            show_table(console, Lines(f"layer {layer_name(layer, summary.header)}: {lines.title}", lines.head, bare))
    console.print()
    for sentence in findings(summary):
        console.print(Text(sentence))
    console.print(Text(CAUTION, "dim"))


def show_table(console: "Console", lines: "Lines") -> None:
    from rich.text import Text

    from dualmask.fitted_tables import FittedTable

    console.print()
    console.print(FittedTable(head=lines.head, rows=lines.rows, title=Text(lines.title, "bold"), figures=True,
                              right=True))


def write(quantities: "Quantities", summary: "Summary", out: Path) -> None:
    from dualmask.evaluation.records import keep
    from dualmask.reporting.theory_plots import geometry_plot, recovery_plot
    from dualmask.reporting.theory_tables import markdown
    from dualmask.theory.quantities import lines_of as word_lines
    from dualmask.theory.summary import lines_of as table_lines

    contents = (word_lines(quantities), table_lines(summary), markdown(summary), geometry_plot(quantities),
                recovery_plot(quantities))
    for name, content in zip(NAMES, contents, strict=True):
        keep(content, out / name)
