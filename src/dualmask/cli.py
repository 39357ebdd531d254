# SPDX-License-Identifier: Apache-2.0
"""The command line. Each command calls one library function; heavy imports wait until a command runs."""

import shlex
import sys
from contextlib import suppress
from enum import StrEnum
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from dualmask import __version__
from dualmask.cli_bench import bench, compare, pack, report
from dualmask.cli_certify import certify
from dualmask.cli_choose import choose
from dualmask.cli_evaluate import evaluate
from dualmask.cli_harden import harden
from dualmask.cli_options import (
    HELP_NAMES,
    Device,
    EmptyAnswers,
    EmptyRows,
    EmptyTexts,
    Encoding,
    InputKind,
    LabelColumn,
    LongTexts,
    Overwrite,
    PairColumn,
    Quiet,
    Resume,
    SavedWindows,
    TextColumn,
)
from dualmask.cli_resources import app as resources_app
from dualmask.cli_theory import theory
from dualmask.errors import BusyOutputError, DualmaskError, OptionError, did_you_mean
from dualmask.system_errors import explain_os_error

app = typer.Typer(
    help="Harden text classifiers against adversarial text, and measure what that is worth.", no_args_is_help=True,
    rich_markup_mode="rich", context_settings=dict(HELP_NAMES),
    pretty_exceptions_show_locals=False, pretty_exceptions_enable=False, add_completion=False)
app.add_typer(resources_app, name="resources")


class Format(StrEnum):
    table, csv, tsv, jsonl = "table", "csv", "tsv", "jsonl"


class ModeName(StrEnum):
    adaptive, transfer = "adaptive", "transfer"
    successful, aware = "transfer-successful", "defence-aware"


TRAINING = "Training options"
TrainingData = Annotated[str, typer.Argument(
    metavar="DATA", help="A file (CSV, TSV, JSON Lines, Parquet), a folder of them, a hub data set, or a resource such "
    "as rotten-tomatoes.")]
Epochs = Annotated[int | None, typer.Option(min=1, help="At most so many.", rich_help_panel=TRAINING)]
LearningRate = Annotated[float | None, typer.Option(help="Highest rate.", rich_help_panel=TRAINING)]
BatchSize = Annotated[int | None, typer.Option(min=1, help="Texts in a step.", rich_help_panel=TRAINING)]
MaxLength = Annotated[int | None, typer.Option(min=4, help="Tokens; longer texts are cut.", rich_help_panel=TRAINING)]
Seed = Annotated[int | None, typer.Option(help="Of all random draws.", rich_help_panel=TRAINING)]
Settings = Annotated[list[str] | None, typer.Option(
    "--set", metavar="NAME=VALUE", help="Any other, e.g. patience=2; repeatable.", rich_help_panel=TRAINING)]
Options = Annotated[list[str] | None, typer.Option(
    metavar="NAME=VALUE", help="An option of the defence, as 'dualmask card' lists them; repeatable.")]
AttackMode = Annotated[ModeName | None, typer.Option(
    metavar="MODE", help="adaptive: the attack asks the model as it is. transfer: texts made against the network "
    "without its defence; transfer-successful: those of them that fooled it. defence-aware: by an attack that knows "
    "the defence. Adaptive, or the attack's own, unless given.")]
Source = Annotated[Path | None, typer.Option(help="Records whose texts a transfer mode takes; made anew unless given.")]


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dualmask {__version__}")
        raise typer.Exit


@app.callback()
def dualmask(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Harden text classifiers against adversarial text, and measure what that is worth."""


for first in (harden, choose):  # what a newcomer looks for stands on top of the help
    app.command()(first)


def given_flags(**flags: float | None) -> dict[str, object]:
    """Those that were given a value."""
    return {name: value for name, value in flags.items() if value is not None}


@app.command()
def train(
    data: TrainingData, *,
    out: Annotated[Path, typer.Option(help="Folder to save the model in.")],
    defence: Annotated[str, typer.Option(help="See 'dualmask choose'; 'ddm': the paper's.")] = "ddm-restore",
    preset: Annotated[str, typer.Option(help="See 'dualmask card DEFENCE'.")] = "recommended",
    encoder: Annotated[str, typer.Option(help="A resource's name, a folder or a hub id.")] = "minilm",
    test: Annotated[str | None, typer.Option(help="Labelled file to measure accuracy on.")] = None,
    validation: Annotated[str | None, typer.Option(help="Labelled file to choose the best epoch by.")] = None,
    epochs: Epochs = None, learning_rate: LearningRate = None, batch_size: BatchSize = None,
    max_length: MaxLength = None, windows: SavedWindows = None, seed: Seed = None, settings: Settings = None,
    text_column: TextColumn = None, label_column: LabelColumn = None, pair_column: PairColumn = None,
    encoding: Encoding = "utf-8", empty: EmptyRows = EmptyTexts.refuse, device: Device = None, option: Options = None,
    resume: Resume = False, overwrite: Overwrite = False, quiet: Quiet = False,
) -> None:
    """Train a classifier with a defence and save it."""
    from rich.console import Console

    from dualmask.defences import build_defence, preset_training
    from dualmask.options import parse_assignments
    from dualmask.text.examples import Columns, load_dataset
    from dualmask.training import is_main_process
    from dualmask.training import train as train_classifier
    from dualmask.training_display import cost_told_later, show_start, show_training, training_price

    training = parse_assignments(settings or []) | given_flags(
        epochs=epochs, learning_rate=learning_rate, batch_size=batch_size, max_length=max_length, seed=seed)
    options, columns = parse_assignments(option or []), Columns(text_column, label_column, pair_column)
    build_defence(defence, preset=preset, options=options)  # a wrong option is told before the data are read
    chosen = preset_training(defence, preset, training)
    rows = load_dataset(data, columns=columns, test=test, validation=validation, encoding=encoding, empty=empty.value)
    show_start(Console(stderr=True, quiet=not is_main_process()), rows, columns, weights=chosen.class_weights,
               price=training_price(defence, preset))
    with cost_told_later():
        classifier = train_classifier(
            rows, encoder=encoder, defence=defence, preset=preset, options=options, training=training, out=out,
            resume=resume, overwrite=overwrite, progress=not quiet, windows=windows)
    if is_main_process():
        show_training(Console(), classifier, rows, out)


@app.command()
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder of a saved model, or a hub id.")],
    texts: Annotated[list[str] | None, typer.Argument(
        metavar="TEXT...", help="Texts, each in quotes; - reads standard input, one text a line.")] = None,
    *,
    file: Annotated[Path | None, typer.Option(
        readable=False, help="Answer the rows of a file instead, of any size; - is standard input.")] = None,
    out: Annotated[Path | None, typer.Option(help="File or pipe to write to; its ending tells the format.")] = None,
    format: Annotated[Format | None, typer.Option(help="Of the answers; on the screen a table unless given.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Mark the words that the defence distrusted.")] = False,
    undefended: Annotated[bool, typer.Option("--undefended", help="Ask the network without its defence.")] = False,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Texts in a forward pass.")] = None,
    safe_csv: Annotated[bool, typer.Option(
        "--safe-csv", help="For spreadsheets: a ' before each text that begins as a formula does (= + - @, tab, line "
        "break). Without it CSV and TSV hold texts as they are, for programs.")] = False,
    windows: LongTexts = None,
    text_column: TextColumn = None, pair_column: PairColumn = None,
    input_format: InputKind = None, encoding: Encoding = "utf-8", empty: EmptyAnswers = EmptyTexts.answer,
    device: Device = None, resume: Resume = False, overwrite: Overwrite = False, quiet: Quiet = False,
) -> None:
    """Label texts, or a whole file, with a saved model."""
    from dualmask.cli_predict import Request, answer
    from dualmask.text.columns import Columns
    from dualmask.text.input_choices import InputChoices

    choices = InputChoices(columns=Columns(text=text_column, pair=pair_column), encoding=encoding, empty=empty.value,
                           kind=input_format.value if input_format else None)
    answer(Request(
        model=model, texts=texts or [], file=file, out=out, format=format.value if format else None, explain=explain,
        defended=not undefended, batch_size=batch_size, choices=choices, resume=resume,
        overwrite=overwrite, progress=not quiet, safe_csv=safe_csv, windows=windows))


@app.command()
def attack(
    model: Annotated[str, typer.Argument(
        metavar="MODEL", help="Folder of a saved model or of a plain Hugging Face classifier, a hub id, or the address "
        "of a server (http...).")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Labelled texts: a file, or data with a test part.")],
    *,
    attack: Annotated[str | None, typer.Option(
        help="See 'dualmask list attacks'; textfooler or, in the mode defence-aware, the first that fits.")] = None,
    mode: AttackMode = None, source: Source = None,
    preset: Annotated[str | None, typer.Option(help="See 'dualmask card ATTACK'; the first unless given.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Attack so many of the texts, drawn at random.")] = None,
    option: Annotated[list[str] | None, typer.Option(
        metavar="NAME=VALUE", help="An option of the attack, as 'dualmask card' lists them; repeatable.")] = None,
    seed: Annotated[int, typer.Option(help="Of the sample and of the attack's random draws.")] = 0,
    out: Annotated[Path | None, typer.Option(help="File for one record a text (JSON Lines).")] = None,
    show: Annotated[int, typer.Option(min=0, help="Print so many changed texts.")] = 5,
    measure: Annotated[bool, typer.Option(help="Measure how similar the changed texts are.")] = True,
    sequential: Annotated[bool, typer.Option(
        "--sequential", help="One text after the other with one random stream, as TextAttack (seed 765).")] = False,
    undefended: Annotated[bool, typer.Option("--undefended", help="Attack the network without its defence.")] = False,
    labels: Annotated[str | None, typer.Option(
        help="What the data call the classes, in the model's order, by commas; a server needs it.")] = None,
    windows: LongTexts = None,
    text_column: TextColumn = None, label_column: LabelColumn = None, pair_column: PairColumn = None,
    encoding: Encoding = "utf-8", empty: EmptyRows = EmptyTexts.refuse, device: Device = None,
    resume: Resume = False, overwrite: Overwrite = False, quiet: Quiet = False,
) -> None:
    """Attack a model on labelled texts and show what it takes to fool it."""
    from dualmask.cli_attack import Request, run
    from dualmask.options import parse_assignments
    from dualmask.text.columns import Columns
    from dualmask.text.label_matching import read_label_names

    run(Request(
        victim=model, data=data, attack=attack, mode=mode.value if mode else None, source=source, preset=preset,
        options=parse_assignments(option or []), samples=samples, seed=seed, labels=read_label_names(labels),
        measure="minilm" if measure else None, columns=Columns(text_column, label_column, pair_column), out=out,
        encoding=encoding, empty=empty.value, show=show, sequential=sequential, defended=not undefended,
        resume=resume, overwrite=overwrite, progress=not quiet, windows=windows))


for command in (evaluate, certify, bench, report, pack, compare, theory):
    app.command()(command)


class Kind(StrEnum):
    defences, attacks = "defences", "attacks"


@app.command("list")
def list_methods(
    kind: Annotated[Kind | None, typer.Argument(metavar="[defences|attacks]", help="Both unless given.")] = None,
) -> None:
    """Show every defence and attack: what was measured to hold, family, presets, paper."""
    from rich.console import Console

    from dualmask.attacks import ATTACKS
    from dualmask.choice_display import measured_tables
    from dualmask.defences import DEFENCES
    from dualmask.display import method_table

    console = Console()
    if kind != Kind.attacks:
        console.print(measured_tables(list(DEFENCES)))
        console.print(method_table(DEFENCES.values(), width=console.width))
    if kind != Kind.defences:
        console.print(method_table(ATTACKS.values(), width=console.width))


@app.command()
def card(name: Annotated[str, typer.Argument(metavar="NAME", help="A name of 'dualmask list'.")]) -> None:
    """Show what a defence or an attack does, every option, its default and the presets."""
    from rich.console import Console

    from dualmask.attacks import ATTACKS
    from dualmask.cards import Method
    from dualmask.defences import DEFENCES
    from dualmask.display import method_card

    # A defence and its attack may have one name; a combination that makes no sense says so itself
    found: list[type[Method]] = [DEFENCES.find(name)] if DEFENCES.parts(name) else []
    for known in (DEFENCES, ATTACKS) if not found else ():
        with suppress(OptionError):
            found.append(known.find(name))
    if not found:
        hint = did_you_mean(name, dict.fromkeys([*DEFENCES, *ATTACKS]))
        raise OptionError(f"unknown defence or attack '{name}'{hint} See 'dualmask list'.")
    for kind in found:
        Console().print(method_card(kind))


@app.command()
def quickstart(
    *,
    out: Annotated[Path, typer.Option(help="Folder for models, records and the report.")] = Path("quickstart"),
    show: Annotated[bool, typer.Option("--open", help="Open the report in the browser.")] = False,
    device: Device = None, quiet: Quiet = False,
) -> None:
    """Train a classifier on film reviews, harden it, attack both, and write a report; no GPU needed."""
    from dualmask.quickstart import run_quickstart

    page = run_quickstart(out, quiet=quiet)
    if show:
        typer.launch(str(page))


def main() -> None:
    """The entry point: what went wrong is said in one line, without a stack trace."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character must not stop a run
    try:
        app()
    except (DualmaskError, OSError) as error:
        from dualmask.display import show_error

        show_error(str(error) if isinstance(error, DualmaskError) else explain_os_error(error))
        sys.exit(1 if isinstance(error, BusyOutputError) else 2)  # nothing is wrong with the command
    except SystemExit as stop:
        if stop.code == 130:  # interrupted from the keyboard
            typer.echo(f"stopped{resume_hint(sys.argv[1:])}", err=True)
        raise


def resume_hint(arguments: list[str]) -> str:
    """How to go on with the command that was stopped, if it can."""
    given = {argument.partition("=")[0] for argument in arguments}
    command = arguments[0] if arguments else ""
    needed = {"train": set[str](), "predict": {"--file", "--out"}, "attack": {"--out"}, "certify": {"--out"},
              "bench": set[str](), "quickstart": set[str]()}
    if command not in needed or not needed[command] <= given:
        return "."
    flag = [] if "--resume" in arguments or command in ("bench", "quickstart") else ["--resume"]
    from dualmask.display import own_command

    return f"; to go on: {shlex.join([own_command(), *arguments, *flag])}"
