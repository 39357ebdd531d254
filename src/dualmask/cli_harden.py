# SPDX-License-Identifier: Apache-2.0
"""`dualmask harden`: a defence around a classifier that is there already, and a table of what it brings."""

from pathlib import Path
from typing import Annotated

import typer

COLUMNS, RUNS, MEASURING = "Columns (found by name unless given)", "Runs", "Measuring what it brings"


def harden(
    model: Annotated[str, typer.Argument(
        metavar="MODEL", help="The classifier: a folder or a hub id of any Hugging Face text classifier, or one of "
        "ours.")],
    data: Annotated[str, typer.Argument(
        metavar="DATA", help="Texts such as it answers, with labels or without: a file, a folder, a hub data set or a "
        "resource. The defence learns their words; some are kept to measure by.")],
    *,
    out: Annotated[Path, typer.Option(help="Folder to save the hardened classifier in.")],
    defence: Annotated[str, typer.Option(help="See 'dualmask choose' and 'dualmask list'.")] = "ddm-restore",
    preset: Annotated[str | None, typer.Option(
        help="See 'dualmask card DEFENCE'; the one for networks that are trained already unless given.")] = None,
    option: Annotated[list[str] | None, typer.Option(
        metavar="NAME=VALUE", help="An option of the defence, as 'dualmask card' lists them; repeatable.")] = None,
    max_length: Annotated[int | None, typer.Option(
        min=4, help="Tokens that the classifier reads of a text; its own limit unless given.")] = None,
    attack: Annotated[list[str] | None, typer.Option(
        help="An attack to measure with; repeatable. Unless given: deepwordbug (misspelling), textbugger (both) and "
        "textfooler (synonyms).", rich_help_panel=MEASURING)] = None,
    samples: Annotated[int, typer.Option(
        min=1, help="Texts that each attack tries, with the defence off and on.", rich_help_panel=MEASURING)] = 40,
    minutes: Annotated[float, typer.Option(
        min=0, help="End the attacks after so many minutes and tell what they found by then; 0 runs none.",
        rich_help_panel=MEASURING)] = 5.0,
    seed: Annotated[int, typer.Option(
        help="Decides which texts are kept to measure by and which are attacked.", rich_help_panel=MEASURING)] = 0,
    labels: Annotated[str | None, typer.Option(
        help="What the data call the classes, in the model's order, by commas; needed where neither names nor numbers "
        "agree.", rich_help_panel=COLUMNS)] = None,
    text_column: Annotated[str | None, typer.Option(help="Column of the text.", rich_help_panel=COLUMNS)] = None,
    label_column: Annotated[str | None, typer.Option(help="Column of the label.", rich_help_panel=COLUMNS)] = None,
    pair_column: Annotated[str | None, typer.Option(
        help="Column of a second text.", rich_help_panel=COLUMNS)] = None,
    resume: Annotated[bool, typer.Option(
        "--resume", help="Go on with the attacks of a stopped run.", rich_help_panel=RUNS)] = False,
    overwrite: Annotated[bool, typer.Option(
        "--overwrite", help="Replace the classifier in the folder.", rich_help_panel=RUNS)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.", rich_help_panel=RUNS)] = False,
) -> None:
    """Put a defence around a trained classifier in seconds, without training, and attack it before and after."""
    from rich.console import Console

    from dualmask.hardening import ATTACKS_RUN
    from dualmask.hardening import harden as harden_classifier
    from dualmask.hardening_display import HardeningProgress, show_hardened
    from dualmask.options import parse_assignments
    from dualmask.text.columns import Columns

    names = tuple(name.strip() for name in (labels or "").split(",") if name.strip())
    with HardeningProgress(Console(stderr=True), shown=not quiet) as progress:
        done = harden_classifier(
            model, data, defence=defence, preset=preset, options=parse_assignments(option or []), labels=names,
            columns=Columns(text_column, label_column, pair_column), attacks=tuple(attack or ATTACKS_RUN),
            samples=samples, minutes=minutes, seed=seed, max_length=max_length, out=out, resume=resume,
            overwrite=overwrite, watch=progress)
    show_hardened(Console(), done)
