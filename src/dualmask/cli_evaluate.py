# SPDX-License-Identifier: Apache-2.0
"""`dualmask evaluate`: a classifier and labelled texts in, accuracy and its relatives out."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dualmask.cli_options import (
    RUNS,
    Device,
    EmptyRows,
    EmptyTexts,
    Encoding,
    LabelColumn,
    LongTexts,
    Overwrite,
    PairColumn,
    Quiet,
    TextColumn,
)
from dualmask.errors import OptionError
from dualmask.output_lock import output_lock
from dualmask.text.columns import FIND, Columns
from dualmask.text.input_choices import Empty, InputChoices, learned_columns
from dualmask.text.label_matching import check_label_count, read_label_names

if TYPE_CHECKING:
    from dualmask.classifier import DefendedClassifier
    from dualmask.evaluation.clean_scores import CleanScores
    from dualmask.text.examples import Example

Samples = Annotated[int | None, typer.Option(min=1, help="Take so many of the texts, drawn at random.")]
Labels = Annotated[str | None, typer.Option(
    help="What the data call the classes, in the model's order, by commas; the model's own names unless given.")]
MaxLength = Annotated[int | None, typer.Option(
    min=4, help="Tokens that a plain classifier reads of a text, 512 unless given; a dualmask model has its own.")]
BatchSize = Annotated[int | None, typer.Option(min=1, help="Texts in a forward pass.", rich_help_panel=RUNS)]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What was asked for on the command line."""

    model: str
    data: str
    columns: Columns = FIND
    encoding: str = "utf-8"
    empty: Empty = "refuse"
    windows: str | None = None  # none: as the model was saved
    labels: tuple[str, ...] = ()
    samples: int | None = None
    seed: int = 0
    max_length: int | None = None
    batch_size: int | None = None
    out: Path | None = None
    as_json: bool = False
    overwrite: bool = False
    progress: bool = True


def evaluate(
    model: Annotated[str, typer.Argument(
        metavar="MODEL", help="Folder of a saved model or of a plain Hugging Face classifier, or a hub id.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Labelled texts: a file, or data with a test part.")],
    *,
    samples: Samples = None,
    seed: Annotated[int, typer.Option(help="Of the sample.")] = 0,
    labels: Labels = None, max_length: MaxLength = None, batch_size: BatchSize = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    out: Annotated[Path | None, typer.Option(help="File for the same JSON object.")] = None,
    text_column: TextColumn = None, label_column: LabelColumn = None, pair_column: PairColumn = None,
    encoding: Encoding = "utf-8", empty: EmptyRows = EmptyTexts.refuse, windows: LongTexts = None,
    device: Device = None, overwrite: Overwrite = False, quiet: Quiet = False,
) -> None:
    """Measure a classifier on labelled texts: accuracy, each class by itself, and which ones it confuses."""
    run(Request(
        model=model, data=data, columns=Columns(text_column, label_column, pair_column),
        labels=read_label_names(labels), samples=samples, seed=seed,
        max_length=max_length, batch_size=batch_size, out=out, as_json=as_json, overwrite=overwrite,
        encoding=encoding, empty=empty.value, windows=windows, progress=not quiet))


def run(request: Request) -> None:
    """Evaluate and show; what can't be written is told before a model is loaded."""
    from dualmask.cli_certify import check_places

    check_places(request.out, request.data)
    with output_lock(request.out):
        if request.out is not None and request.out.exists() and not request.overwrite:
            raise OptionError(f"{request.out} exists already: choose another file, or replace it (--overwrite).")
        evaluate_and_show(request)


def evaluate_and_show(request: Request) -> None:
    from rich.console import Console
    from rich.text import Text

    from dualmask.attacks.running import sampled
    from dualmask.cli_certify import find_examples
    from dualmask.display import show_note
    from dualmask.evaluate_display import show_clean_scores
    from dualmask.evaluation.records import keep
    from dualmask.models.classifiers import load_classifier
    from dualmask.windows import read_windows, told_of_cut

    classifier = load_classifier(request.model, max_length=request.max_length)
    if request.windows is not None:
        classifier.windows = read_windows(request.windows)
    names = request.labels or classifier.labels
    check_label_count(names, classifier.labels)
    examples = find_examples(request, names, InputChoices(
        columns=request.columns, learned=learned_columns(classifier.facts), encoding=request.encoding,
        empty=request.empty, tell=show_note))
    chosen = [examples[place] for place in sampled(examples, request.samples, request.seed)]
    scores = scores_of(request, classifier, chosen)
    told = json.dumps(described(request, classifier, scores), indent=2, ensure_ascii=False)
    if request.out is not None:
        keep(f"{told}\n", request.out)
    if request.as_json:
        typer.echo(told)
        return
    console = Console()
    console.print(Text(setting(request, classifier, len(examples), scores)))
    show_clean_scores(console, scores)
    if scores.cut:
        show_note(told_of_cut(scores.cut, scores.texts, classifier.encode.max_length, classifier.windows,
                              pairs=not isinstance(chosen[0].text, str)))
    if request.out is not None:
        console.print(Text(f"written to {request.out}", "dim"), soft_wrap=True)


def scores_of(request: Request, classifier: "DefendedClassifier", examples: "list[Example]") -> "CleanScores":
    """Measured, with a bar that moves as texts are answered."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from dualmask.evaluation.clean_scores import evaluate_clean

    with Progress(TextColumn("evaluate"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                  console=Console(stderr=True), disable=not request.progress, transient=True) as bar:
        task = bar.add_task("", total=len(examples))
        return evaluate_clean(classifier, examples, batch_size=request.batch_size,
                              watch=lambda count: bar.update(task, advance=count))


def described(request: Request, classifier: "DefendedClassifier", scores: "CleanScores") -> dict[str, object]:
    """The scores and what they are about; without it they can't be quoted."""
    from dualmask import __version__

    return {"model": request.model, "data": request.data, "labels": list(request.labels or classifier.labels),
            "samples": request.samples, "seed": request.seed, "max_length": classifier.encode.max_length,
            "windows": None if classifier.windows is None else classifier.windows.as_dict(),
            "dualmask": __version__, **scores.as_dict()}


def setting(request: Request, classifier: "DefendedClassifier", every: int, scores: "CleanScores") -> str:
    who = "no defence" if scores.defence == "plain" else f"the defence {scores.defence}"
    length, windows = classifier.encode.max_length, classifier.windows
    read = f"each cut at {length} tokens" if windows is None else (
        f"read in windows of {windows.length or length} tokens ({windows.rule})")
    return f"{request.model}, {who}, on {scores.texts:,} of {every:,} texts of {request.data}, {read}"
