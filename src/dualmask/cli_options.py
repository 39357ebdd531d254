# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have: each is written down, and explained, once."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import typer

from dualmask.devices import device_chosen

HELP_NAMES: Mapping[str, object] = {"help_option_names": ["-h", "--help"]}
COLUMNS, INPUT, RUNS = "Columns (found by name unless given)", "Input", "Runs"


class EmptyTexts(StrEnum):
    answer, skip, refuse = "answer", "skip", "refuse"


class InputFormat(StrEnum):
    csv, tsv, jsonl, text = "csv", "tsv", "jsonl", "text"


def choose_device(context: typer.Context, name: str | None) -> str | None:
    """For all that the command loads; refused while the command line is read."""
    if not context.resilient_parsing:
        context.with_resource(device_chosen(name))
    return name


TextColumn = Annotated[str | None, typer.Option(help="Column of the text.", rich_help_panel=COLUMNS)]
LabelColumn = Annotated[str | None, typer.Option(help="Column of the label.", rich_help_panel=COLUMNS)]
PairColumn = Annotated[str | None, typer.Option(help="Column of a second text.", rich_help_panel=COLUMNS)]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where a stopped run was.", rich_help_panel=RUNS)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.", rich_help_panel=RUNS)]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bars.", rich_help_panel=RUNS)]
Device = Annotated[str | None, typer.Option(
    metavar="DEVICE", callback=choose_device, rich_help_panel=RUNS,
    help="Where networks run: cpu, cuda (a GPU), cuda:1 (the second one) or auto, a GPU where there is one.")]
Encoding = Annotated[str, typer.Option(
    metavar="NAME", rich_help_panel=INPUT,
    help="Character encoding of CSV, TSV, JSON Lines and text files, such as cp1252, latin-1 or utf-16.")]
EmptyRows = Annotated[EmptyTexts, typer.Option(
    "--empty", rich_help_panel=INPUT,
    help="Rows without a text: refuse them with the first one's number, skip them, or answer them like any other. They "
    "are counted.")]
EmptyAnswers = Annotated[EmptyTexts, typer.Option(
    "--empty", rich_help_panel=INPUT,
    help="Empty texts: answer them like any other, skip them (in files their rows stay, without an answer), or refuse "
    "them with the first one's number. They are counted.")]
InputKind = Annotated[InputFormat | None, typer.Option(
    "--input-format", rich_help_panel=INPUT,
    help="Of a file whose name does not tell it and of standard input; that is one text a line unless given.")]
SavedWindows = Annotated[str | None, typer.Option(
    "--windows", metavar="RULE", rich_help_panel=INPUT,
    help="How the saved model reads texts that are longer, as 'dualmask predict --help' has it; in training they are "
    "cut all the same.")]
LongTexts = Annotated[str | None, typer.Option(
    "--windows", metavar="RULE", rich_help_panel=INPUT,
    help="Read texts that are longer than the model reads in overlapping windows. mean: the mean of their "
    "probabilities (padding dilutes it). surest: the surest window decides. With any:LABEL the window most like LABEL "
    "decides, for filters: nothing hides behind the cut, but padding dilutes inside windows, the less the shorter they "
    "are. none: cut long texts. Behind it, by commas: overlap=SHARE (0.25), most=NUMBER of windows (64), "
    "length=TOKENS of a window (as many as the model reads). As the model was saved unless given.")]
