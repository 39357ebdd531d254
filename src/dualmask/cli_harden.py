# SPDX-License-Identifier: Apache-2.0
"""`dualmask harden`: a defence around a classifier that is there already, and a table of what it brings."""

from pathlib import Path
from typing import Annotated

import typer

from dualmask.cli_options import (
    COLUMNS,
    INPUT,
    RUNS,
    Device,
    EmptyRows,
    EmptyTexts,
    Encoding,
    LabelColumn,
    PairColumn,
    Quiet,
    TextColumn,
)

MEASURING = "Measuring what it brings"


Model = Annotated[str, typer.Argument(
    metavar="MODEL", help="The classifier: a folder or a hub id of any Hugging Face text classifier, or one of ours.")]
Data = Annotated[str, typer.Argument(
    metavar="DATA", help="Texts such as it answers, with labels or without: a file, a folder, a hub data set or a "
    "resource. The defence learns their words; some are kept to measure by.")]
PresetName = Annotated[str | None, typer.Option(
    help="See 'dualmask card DEFENCE'; the one for networks that are trained already unless given.")]
DefenceOptions = Annotated[list[str] | None, typer.Option(
    metavar="NAME=VALUE", help="An option of the defence, as 'dualmask card' lists them; repeatable.")]
MaxLength = Annotated[int | None, typer.Option(
    min=4, help="Tokens that the classifier reads of a text; its own limit, at most 512, unless given.")]
Attacks = Annotated[list[str] | None, typer.Option(
    help="An attack to measure with; repeatable. Unless given: deepwordbug (misspelling), textbugger (both) and "
    "textfooler (synonyms).", rich_help_panel=MEASURING)]
Samples = Annotated[int, typer.Option(
    min=1, help="Texts that each attack tries, with the defence off and on.", rich_help_panel=MEASURING)]
Minutes = Annotated[float, typer.Option(
    min=0, help="End the attacks after so many minutes and tell what they found by then; 0 runs none.",
    rich_help_panel=MEASURING)]
Seed = Annotated[int, typer.Option(
    help="Decides which texts are kept to measure by and which are attacked.", rich_help_panel=MEASURING)]
Labels = Annotated[str | None, typer.Option(
    help="What the data call the classes, in the model's order, by commas; needed where neither names nor numbers "
    "agree.", rich_help_panel=COLUMNS)]
LongTexts = Annotated[str | None, typer.Option(
    "--windows", metavar="RULE", help="How the hardened classifier reads texts that are longer than --max-length, as "
    "'dualmask predict --help' has it; they are cut unless given.", rich_help_panel=INPUT)]
Resume = Annotated[bool, typer.Option(
    "--resume", help="Go on with the attacks of a stopped run.", rich_help_panel=RUNS)]
Overwrite = Annotated[bool, typer.Option(
    "--overwrite", help="Replace the classifier in the folder.", rich_help_panel=RUNS)]


def harden(
    model: Model, data: Data, *,
    out: Annotated[Path, typer.Option(help="Folder to save the hardened classifier in.")],
    defence: Annotated[str, typer.Option(help="See 'dualmask choose' and 'dualmask list'.")] = "ddm-restore",
    preset: PresetName = None, option: DefenceOptions = None, max_length: MaxLength = None, attack: Attacks = None,
    samples: Samples = 40, minutes: Minutes = 5.0, seed: Seed = 0, labels: Labels = None,
    text_column: TextColumn = None, label_column: LabelColumn = None, pair_column: PairColumn = None,
    encoding: Encoding = "utf-8", empty: EmptyRows = EmptyTexts.refuse, windows: LongTexts = None,
    device: Device = None, resume: Resume = False, overwrite: Overwrite = False, quiet: Quiet = False,
) -> None:
    """Put a defence around a trained classifier in seconds, without training, and attack it before and after."""
    from rich.console import Console

    from dualmask.hardening import ATTACKS_RUN
    from dualmask.hardening import harden as harden_classifier
    from dualmask.hardening_display import HardeningProgress, show_hardened
    from dualmask.options import parse_assignments
    from dualmask.text.columns import Columns
    from dualmask.text.label_matching import read_label_names

    names = read_label_names(labels)
    with HardeningProgress(Console(stderr=True), shown=not quiet) as progress:
        done = harden_classifier(
            model, data, defence=defence, preset=preset, options=parse_assignments(option or []), labels=names,
            columns=Columns(text_column, label_column, pair_column), encoding=encoding, empty=empty.value,
            attacks=tuple(attack or ATTACKS_RUN), samples=samples, minutes=minutes, seed=seed, max_length=max_length,
            windows=windows, out=out, resume=resume, overwrite=overwrite, watch=progress)
    show_hardened(Console(), done)
