# SPDX-License-Identifier: Apache-2.0
"""A newcomer's first run: a plain and a defended classifier, the paper's four attacks on both, and a report."""

import shlex
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from dualmask.errors import DualmaskError
from dualmask.output_lock import locks_output

if TYPE_CHECKING:
    from dualmask.evaluation.filling import Outcome
    from dualmask.evaluation.grid import Grid
    from dualmask.reporting.report import Report

REPORT = "report.html"
EXAMPLE = "The wrost film of the year, lifelss."


@locks_output("out")
def run_quickstart(
    out: Path, *, grid: "Grid | None" = None, console: Console | None = None, quiet: bool = False,
) -> Path:
    """Train, attack, report; what `out` holds already is not done again. Gives the page's place."""
    from dualmask.bench_display import Board
    from dualmask.evaluation.bench import run_grid

    console, grid = console or Console(), grid or quick_grid()
    console.print(Text(purpose(grid)))
    with Board(Console(stderr=True, quiet=quiet)) as board:
        outcome = run_grid(grid, out, watch=board)
    if outcome.failures:
        first = outcome.failures[0]
        raise DualmaskError(f"{len(outcome.failures):,} cells failed, the first ({first.cell.file_name}): "
                            f"{first.reason} The same command tries again and keeps what is done.")
    report, page = write_report(outcome)
    show(console, report, page, outcome.out)
    return page


def quick_grid() -> "Grid":
    from dualmask.evaluation.grid import read_grid

    with as_file(files("dualmask") / "assets" / "quick.toml") as path:
        return read_grid(path)


def purpose(grid: "Grid") -> str:
    """What is about to happen."""
    rows = ", ".join(f"{f'{entry.train:,}' if entry.train else 'all'} training texts of {entry.name}"
                     for entry in grid.data)
    attacks = ", ".join(entry.name for entry in grid.attacks)
    trained = " and ".join(entry.name for entry in grid.defences if not entry.network)
    around = "".join(f", putting {entry.name} around the network of {entry.network} (no training)"
                     for entry in grid.defences if entry.network)
    return (f"Training {trained} on {rows}{around}, then attacking each on {grid.samples or 'all'} test texts with "
            f"{attacks}. Without a GPU this takes some minutes; stopped, the same command goes on where it was.")


def write_report(outcome: "Outcome") -> "tuple[Report, Path]":
    from dualmask.evaluation.records import keep, read_cells
    from dualmask.reporting.page import html
    from dualmask.reporting.report import build_report

    report = build_report(read_cells(outcome.out), title="A plain and a defended classifier under attack")
    page = outcome.out / REPORT
    keep(html(report), page)
    return report, page


def show(console: Console, report: "Report", page: Path, out: Path) -> None:
    """A table for each mode, how far to trust it, what to do next and, at the end, what helps against what."""
    from dualmask.bench_display import figure_tables
    from dualmask.reporting.findings import OF_SIZE
    from dualmask.reporting.headline import headline_sentences

    for table in figure_tables(report):
        console.print(table)
    if report.doubts:
        first = next((one for one in report.doubts if one.name not in OF_SIZE), report.doubts[0])
        console.print(Text(f"The report lists {len(report.doubts)} reasons to doubt these numbers; the first: "
                           f"{first.text}"))
    console.print("", Text.assemble("The report: ", (str(page), "bold")), "Try next:",
                  *(Text(f"  {command}", "bold") for command in commands(report, out)), "", sep="\n", soft_wrap=True)
    console.print(*map(Text, headline_sentences(report)), sep="\n")


def commands(report: "Report", out: Path) -> list[str]:
    """What to type next: ask and attack the classifier that held best, then harden one's own."""
    from dualmask.display import own_command
    from dualmask.evaluation.standing import MODELS

    folders = [out / MODELS / name for name in best_classifiers(report)]
    model = next((shlex.quote(str(folder)) for folder in folders if folder.is_dir()), None)
    shown = [f"predict {model} {shlex.quote(EXAMPLE)} --explain",
             f"attack {model} {report.entries[0].key.data} --attack pwws --samples 20"] if model else []
    return [f"{shlex.quote(own_command())} {rest}" for rest in (
        *shown, f"report {shlex.quote(str(out))}", "harden MODEL TEXTS.csv --out hardened/    # your own classifier")]


def best_classifiers(report: "Report") -> list[str]:
    """Folders of the classifiers behind the rows that the headlines name."""
    from dualmask.reporting.headline import headlines

    cells = [run.records.cell for found in headlines(report) for entry in found.line.entries.values()
             for run in entry.runs]
    return [f"{cell.data}.{cell.encoder}.{cell.defence}.{cell.seed}" for cell in cells]
