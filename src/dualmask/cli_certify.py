# SPDX-License-Identifier: Apache-2.0
"""`dualmask certify`: a model and labelled texts in, certified accuracy and records out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from dualmask.cli_options import (
    Device,
    EmptyRows,
    EmptyTexts,
    Encoding,
    LabelColumn,
    Overwrite,
    PairColumn,
    Quiet,
    Resume,
    TextColumn,
)
from dualmask.errors import DataError, OptionError
from dualmask.output_lock import check_ordinary, output_lock
from dualmask.text.columns import Columns
from dualmask.text.input_choices import Empty, InputChoices, is_empty, learned_columns
from dualmask.text.label_matching import check_label_count, read_label_names

if TYPE_CHECKING:
    from rich.table import Table

    from dualmask.classifier import DefendedClassifier
    from dualmask.evaluation.certification import CertifyingOptions
    from dualmask.evaluation.certified_records import Certificate, Certified, Summary
    from dualmask.fitted_tables import FittedTable
    from dualmask.text.examples import Example

PROOF = "Proof"
Under = Annotated[str | None, typer.Option(
    metavar="DEFENCE", help="Certify the model's network under this defence, e.g. ranmask. The answers are then that "
    "defence's, not the model's own.")]
Options = Annotated[list[str] | None, typer.Option(
    metavar="NAME=VALUE", help="An option of --under, as 'dualmask card' lists them; repeatable.")]
Labels = Annotated[str | None, typer.Option(
    help="What the data call the classes, in the model's order, by commas; the model's own names unless given.")]
Samples = Annotated[int | None, typer.Option(min=1, help="Certify so many of the texts, drawn at random.")]
Selection = Annotated[int, typer.Option(min=1, help="Views that choose the class.", rich_help_panel=PROOF)]
Draws = Annotated[int, typer.Option(
    min=1, help="Other views, which bound the class's share; papers take 5,000.", rich_help_panel=PROOF)]
Alpha = Annotated[float, typer.Option(help="The chance that a bound is too high.", rich_help_panel=PROOF)]
Changes = Annotated[int, typer.Option(
    min=1, help="For ddm: edits of which every choice of places is tried.", rich_help_panel=PROOF)]
Passes = Annotated[int, typer.Option(min=1, help="For ddm: passes for one text, at most.", rich_help_panel=PROOF)]
LongTexts = Annotated[str | None, typer.Option(
    "--windows", metavar="RULE", help="none: certify a model that reads long texts in windows as if it cut them, since "
    "no certificate is about windows.")]


class Labelled(Protocol):
    """A request that names labelled texts."""

    @property
    def data(self) -> str: ...

    @property
    def columns(self) -> Columns: ...

    @property
    def labels(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, kw_only=True)
class Request:
    """What was asked for on the command line."""

    model: str
    data: str
    under: str | None
    preset: str | None
    options: Mapping[str, str]
    labels: tuple[str, ...]
    columns: Columns
    encoding: str
    empty: Empty
    out: Path | None
    html: Path | None
    resume: bool
    overwrite: bool
    progress: bool
    given: frozenset[str] = frozenset()  # names of the parameters that were
    windows: str | None = None  # none: as the model was saved


def certify(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder of a saved model, or a hub id.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Labelled texts: a file, or data with a test part.")],
    *,
    under: Under = None, option: Options = None,
    preset: Annotated[str | None, typer.Option(help="Of --under; the first unless given.")] = None,
    samples: Samples = None,
    seed: Annotated[int, typer.Option(help="Of the sample and of the views.")] = 0,
    selection: Selection = 100, draws: Draws = 1000, alpha: Alpha = 0.05, changes: Changes = 1, passes: Passes = 10_000,
    out: Annotated[Path | None, typer.Option(help="File for one record a text (JSON Lines).")] = None,
    html: Annotated[Path | None, typer.Option(help="File for a page with the curve and the table.")] = None,
    labels: Labels = None, windows: LongTexts = None,
    text_column: TextColumn = None, label_column: LabelColumn = None, pair_column: PairColumn = None,
    encoding: Encoding = "utf-8", empty: EmptyRows = EmptyTexts.refuse, device: Device = None,
    resume: Resume = False, overwrite: Overwrite = False, quiet: Quiet = False,
) -> None:
    """Prove how many changes to each text can't alter the answer, and show the certified accuracy."""
    from dualmask.evaluation.certification import CertifyingOptions
    from dualmask.options import parse_assignments

    if under is None and (option or preset):
        raise OptionError("--option and --preset are those of the defence to certify under; name it with --under.")
    if resume and out is None:
        raise OptionError("--resume goes on with a file of records; name it with --out.")
    check_places(out, data)
    check_places(html, data, out)
    run(Request(model=model, data=data, under=under, preset=preset, options=parse_assignments(option or []),
                labels=read_label_names(labels),
                columns=Columns(text_column, label_column, pair_column), encoding=encoding, empty=empty.value,
                out=out, html=html, resume=resume, overwrite=overwrite, progress=not quiet, given=given_ones(context),
                windows=windows),
        CertifyingOptions(samples=samples, seed=seed, selection=selection, draws=draws, alpha=alpha, changes=changes,
                          passes=passes))


def given_ones(context: typer.Context) -> frozenset[str]:
    """What was written on the command line, be it the default's value."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(name for name, source in sources.items() if source and source.name == "COMMANDLINE")


def run(request: Request, options: "CertifyingOptions") -> None:
    from rich.console import Console
    from rich.text import Text

    from dualmask.evaluation.certified_records import summarise
    from dualmask.evaluation.records import keep
    from dualmask.reporting.certified import CAUTION, one_answer, page

    with output_lock(request.out, request.html):
        found = certified(request, options)
        summary, console = summarise(found.records), Console()
        console.print(fact_table(found, summary))
        console.print(accuracy_table(summary))
        if doubt := one_answer(found.records):
            console.print(Text(doubt, "yellow"))
        console.print(Text(CAUTION, "dim"))
        if request.html:
            keep(page(found, f"Certified accuracy: {Path(request.data).stem}"), request.html)
        for path in (request.out, request.html):
            if path:
                console.print(Text(str(path), "dim"), soft_wrap=True)


def certified(request: Request, options: "CertifyingOptions") -> "Certified":
    from rich.console import Console
    from rich.text import Text

    from dualmask.display import show_note
    from dualmask.evaluation.certification import certify, check_read_at_once, provable

    classifier = find_classifier(request)
    check_read_at_once(classifier)
    names = request.labels or classifier.labels
    check_label_count(names, classifier.labels)
    check_effects(classifier, request.given)
    examples = find_examples(request, names, InputChoices(
        columns=request.columns, learned=learned_columns(classifier.facts), encoding=request.encoding,
        empty=request.empty, tell=show_note))
    if not provable(classifier, (example.text for example in examples), options):
        Console(stderr=True).print(Text(hopeless(classifier, options), "yellow"), soft_wrap=True)
    with progressing(min(options.samples or len(examples), len(examples)), shown=request.progress) as watch:
        return certify(classifier, examples, options, out=request.out, resume=request.resume, watch=watch,
                       overwrite=request.overwrite, about={"victim": request.model, "data": request.data})


def find_examples(
    request: Labelled, labels: Sequence[str], choices: InputChoices | None = None,
) -> "list[Example]":
    """The labelled texts; names of classes that the model does not know may only be other names."""
    from dualmask.display import show_note
    from dualmask.text.examples import read_by_name_or_number

    choices = choices or InputChoices(columns=request.columns)
    try:
        found, note = read_by_name_or_number(request.data, labels, choices)
        if note:
            show_note(note)
        return without_empty(found, request.data, choices)
    except DataError as error:
        if "unknown label" not in str(error):
            raise
        problem = str(error).partition(" Correct the label")[0]
        if request.labels:
            problem = problem.replace("the labels of the training data are", "the names of the classes by --labels are")
            raise DataError(f"{problem} Correct the label, or say in --labels what the data call each class, in the "
                            "model's order.") from None
        problem = problem.replace("of the training data", "of the model")
        raise DataError(f"{problem} If the data name the classes otherwise, say so with --labels, e.g. "
                        f"--labels {','.join(map(str, range(len(labels))))} for {', '.join(labels)}.") from None


def without_empty(examples: "list[Example]", data: str, choices: InputChoices) -> "list[Example]":
    """The texts, less those that are empty if they are to be skipped; how many there are is told."""
    from dualmask.display import show_note

    kept = [example for example in examples if not is_empty(example.text)]
    if len(kept) < len(examples):
        told = "and were skipped" if choices.empty == "skip" else "and are taken like any other"
        show_note(f"{len(examples) - len(kept):,} of {len(examples):,} texts of {data} are empty {told}.")
    if not kept:
        raise DataError(f"{data}: every text is empty. Check the column of the text.")
    return kept if choices.empty == "skip" else examples


def check_places(out: Path | None, *others: str | Path | None) -> None:
    """What is written must not replace what is read, whatever a link calls it, nor a pipe or a device."""
    if out is not None:
        check_ordinary(out)
    for other in (Path(one) for one in others if one is not None):
        if out is not None and (out == other or (out.exists() and other.exists() and out.samefile(other))):
            raise OptionError(f"{out} and {other} are one file, which has another use here; give another file to "
                              "write to.")


def check_effects(classifier: "DefendedClassifier", given: frozenset[str]) -> None:
    """Refuse what would be ignored."""
    from dualmask.evaluation.certification import prover_of

    if idle := [f"--{name}" for name in prover_of(classifier).unused if name in given]:
        raise OptionError(f"{', '.join(idle)} would have no effect: answers of the defence '{classifier.defence.name}' "
                          "are certified otherwise. --selection, --draws and --alpha are for votes, --changes and "
                          "--passes for ddm, whose edits are counted out.")


def hopeless(classifier: "DefendedClassifier", options: "CertifyingOptions") -> str:
    """That nothing will come of it, and what could be done."""
    from dualmask.evaluation.statistics import clopper_pearson

    name, rate = classifier.defence.name, getattr(classifier.defence.options, "rate", None)
    least = 1.5 - clopper_pearson(options.draws, options.draws, options.alpha)
    if rate is not None and rate > least:
        remedy = f" The rate of {rate} would do for longer texts: these are so short that views show too much of them."
    else:
        remedy = "" if rate is None else (f" It takes a rate above {least:.3f}, not {rate}: hide more, as the preset "
                                          "'certify' does, or give more --draws.")
    return (f"nothing can be certified: under '{name}' one changed word outweighs even {options.draws:,} views that "
            f"all agree, in each of these texts.{remedy}")


def find_classifier(request: Request) -> "DefendedClassifier":
    from dualmask.classifier import DefendedClassifier
    from dualmask.defences import build_defence
    from dualmask.evaluation.certification import under

    windows = request.windows or "saved"
    if request.under is None:
        return DefendedClassifier.load(request.model, windows=windows)
    build_defence(request.under, preset=request.preset, options=request.options)  # told before the model is loaded
    classifier = DefendedClassifier.load(request.model, windows=windows)
    return under(classifier, request.under, preset=request.preset, options=request.options)


@contextmanager
def progressing(total: int, *, shown: bool) -> Iterator[Callable[["Certificate"], None]]:
    """A bar, moved by each certificate."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(TextColumn("certify"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"),
                  TimeRemainingColumn(), console=Console(stderr=True), disable=not shown, transient=True) as bar:
        task = bar.add_task("", total=total)
        radii: list[int] = []

        def watch(one: "Certificate") -> None:
            radii.append(one.radius)
            some = sum(radius > 0 for radius in radii)
            bar.update(task, advance=1, description=f"{some} certified, {sum(r < 0 for r in radii)} abstained")

        yield watch


def fact_table(found: "Certified", summary: "Summary") -> "Table":
    from rich.table import Table
    from rich.text import Text

    from dualmask.reporting.certified import facts
    from dualmask.text.differences import SHOWN

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, told in facts(found, summary):
        table.add_row(name, Text(told.translate(SHOWN)))
    return table


def accuracy_table(summary: "Summary") -> "FittedTable":
    """Certified accuracy at each number of changes, with its 95 % interval."""
    from dualmask.fitted_tables import FittedTable
    from dualmask.reporting.certified import GUESSED, rows
    from dualmask.reporting.charts import told

    return FittedTable(
        head=("changes", "certified accuracy", *([GUESSED] if summary.heuristic else [])),
        rows=[[str(row.changes), told(row.proved), *([told(row.guessed)] if row.guessed else [])]
              for row in rows(summary)])
