# SPDX-License-Identifier: Apache-2.0
"""`dualmask bench`, `dualmask report`, `dualmask pack` and `dualmask compare`: from a grid to evidence."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dualmask.cli_options import Device, Quiet
from dualmask.text.differences import SHOWN

if TYPE_CHECKING:
    from rich.console import Console

    from dualmask.evaluation.filling import Outcome
    from dualmask.evaluation.grid import Grid
    from dualmask.evaluation.records import Cell
    from dualmask.fitted_tables import FittedTable
    from dualmask.reporting.comparison import Comparison

Results = Annotated[Path, typer.Argument(
    metavar="RESULTS", help="Folder that 'dualmask bench' has written, or what 'dualmask pack' made of it.")]
Grids = Annotated[list[str], typer.Argument(
    metavar="GRID", help="What to measure (TOML), e.g. experiments/quick.toml; several are done as one. GRID::TEXT "
                         "takes, as --only does, some of its cells.")]
Known = Annotated[Path | None, typer.Option(
    metavar="RESULTS", help="Records of others, packed or a folder; classifiers all of whose cells are there are left "
                            "out.")]


def bench(
    grids: Grids,
    *,
    out: Annotated[Path | None, typer.Option(
        help="Folder of the results; what is there already is kept. results/NAME of the first grid unless given.")
    ] = None,
    only: Annotated[str, typer.Option(
        metavar="TEXT", help="Just the cells whose names have it in them, e.g. ddm.textfooler; several between "
                             "commas.")] = "",
    minutes: Annotated[float | None, typer.Option(min=0, help="Begin nothing new after so many.")] = None,
    deadline: Annotated[float | None, typer.Option(
        min=0, metavar="SECONDS", help="Stop after so many, whatever is under way; the same command goes on.")] = None,
    workers: Annotated[int, typer.Option(
        min=1, help="Processes that share the cells, for a GPU that one can't keep busy; 16 are not too many.")] = 1,
    known: Known = None,
    source: Annotated[list[str] | None, typer.Option(
        metavar="NAME=WHERE", help="A file, a folder, a resource or a hub id instead of the source that the grids give "
                                   "for these data or this encoder. Can be given several times.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")] = False,
    device: Device = None, quiet: Quiet = False,
) -> None:
    """Train and attack what grids list, as far as it is missing; the same command goes on after a stop."""
    from rich.console import Console

    from dualmask.bench_display import Board, show_plan
    from dualmask.evaluation.bench import plan_of, run_grid
    from dualmask.evaluation.standing import survey

    asked, console = read_grids(grids, source or []), Console()
    folder = out or Path("results", asked[0].name)
    if dry_run:
        plan = plan_of(asked, only, known)
        show_plan(console, plan, survey(plan, folder), out=folder)
        return
    with Board(Console(stderr=True, quiet=quiet)) as board:
        outcome = run_grid(asked, folder, watch=board, only=only, minutes=minutes, deadline=deadline,
                           workers=workers, known=known)
    show_outcome(console, outcome, figures=deadline is None)  # these take a while, and the time is up
    if outcome.failures:
        raise typer.Exit(1)


def read_grids(given: list[str], sources: list[str]) -> "list[Grid]":
    """Grids, each perhaps with the part of its cells that is asked for, and with other sources."""
    from dualmask.errors import OptionError, did_you_mean
    from dualmask.evaluation.grid import read_grid

    for source in sources:
        name, sign, where = source.partition("=")
        if not (name and sign and where):
            raise OptionError(f"--source {source}: expected NAME=WHERE, such as --source mr=../data/mr.")
    instead = dict(source.split("=", 1) for source in sources)
    grids = [replace(read_grid(Path(path), sources=instead), only=some)
             for path, _, some in (one.partition("::") for one in given)]
    known = [name for grid in grids for name in source_names(grid)]
    for name in instead:
        if name not in known:
            raise OptionError(f"--source {name}=...: no grid has data or an encoder of that name"
                              f"{did_you_mean(name, set(known))}")
    return grids


def source_names(grid: "Grid") -> list[str]:
    return [*(one.name for one in grid.data), *(one.name for one in grid.encoders)]


def show_outcome(console: "Console", outcome: "Outcome", *, figures: bool) -> None:
    """The figures in short, what failed, and what to type next."""
    from rich.text import Text

    from dualmask.bench_display import show_failures
    from dualmask.display import own_command
    from dualmask.evaluation.records import RECORDS

    some = any((outcome.out / RECORDS).glob("*.jsonl"))
    if some and figures:
        show_figures(console, outcome.out)
    show_failures(console, outcome)
    if outcome.left:
        console.print(f"time is up: {len(outcome.left):,} cells are left; the same command goes on.")
    if outcome.failures:
        console.print(f"{len(outcome.failures):,} cells failed; the same command tries them again, once what is told "
                      "above is mended.", soft_wrap=True)
    if some:
        console.print(Text.assemble("next: ", (shlex.join([own_command(), "report", str(outcome.out)]), "bold")),
                      soft_wrap=True)


def show_figures(console: "Console", results: Path) -> None:
    """A table for each mode: accuracy before and under each attack."""
    from dualmask.bench_display import figure_tables
    from dualmask.evaluation.records import read_cells
    from dualmask.reporting.report import build_report

    for table in figure_tables(build_report(read_cells(results))):
        console.print(table)


def report(
    results: Results,
    *,
    html: Annotated[bool, typer.Option("--html", help="Write report.html, one page that needs nothing else.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Write report.tex, tables for a paper.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Write report.md.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder to write to; that of the results unless given.")] = None,
    title: Annotated[str | None, typer.Option(help="Of the report; the folder's name unless given.")] = None,
) -> None:
    """Make a report out of records: all three forms unless one is asked for. No model is needed."""
    from dualmask.evaluation.records import keep, read_cells
    from dualmask.output_lock import output_lock
    from dualmask.reporting import page, report_latex, report_markdown
    from dualmask.reporting.report import build_report

    folder = out or (results if results.is_dir() else results.parent)
    forms = {"report.html": (html, page.html), "report.tex": (latex, report_latex.latex),
             "report.md": (markdown, report_markdown.markdown)}
    every = not (html or latex or markdown)
    asked = {folder / name: rendered for name, (wanted, rendered) in forms.items() if wanted or every}
    with output_lock(*asked):
        made = build_report(read_cells(results), title=title or f"Robustness: {title_of(results)}")
        for path, rendered in asked.items():
            keep(rendered(made), path)
            typer.echo(path)
    if made.missing:
        typer.echo(f"{len(made.missing):,} cells that the grids ask for are not there; the report names them", err=True)
    for problem in made.problems:
        typer.echo(f"left out: {problem.translate(SHOWN)}", err=True)


def title_of(results: Path) -> str:
    return results.resolve().name.removesuffix(".gz").removesuffix(".jsonl")


def pack(
    runs: Annotated[list[Path], typer.Argument(
        metavar="RUN", help="Folders that 'dualmask bench' has written, or packed files.")],
    *,
    out: Annotated[Path, typer.Option(help="File to write, NAME.jsonl.gz; one that is there is replaced.")],
    grids: Annotated[list[str] | None, typer.Option(
        "--grid", metavar="GRID", help="A grid whose cells should be there: those that are missing, or have fewer "
                                       "texts than it asks for, are noted. What packed files among the runs lacked is "
                                       "then noted only if a grid still asks for it. Can be given several times.")
    ] = None,
    words: Annotated[bool, typer.Option(
        "--words", help="Keep changed words too; of many attacks together they give much of the texts away.")] = False,
) -> None:
    """Put records into one small file without their texts; reports and tests come out of it the same."""
    from dualmask.evaluation.packing import pack as packed

    found = packed(runs, out, words=words, asked=asked_for(grids or []))
    typer.echo(f"{out}: {found.cells:,} cells, {found.records:,} records, {found.size / 1e6:.2f} MB")
    for problem in found.problems:
        typer.echo(f"left out: {problem.translate(SHOWN)}", err=True)


def asked_for(grids: list[str]) -> dict["Cell", int]:
    """The cells of grids, and how many texts they are to have."""
    if not grids:
        return {}
    from dualmask.evaluation.bench import plan_of
    from dualmask.evaluation.grid import read_grid

    return {task.cell: task.texts for task in plan_of([read_grid(Path(path)) for path in grids]).tasks}


def compare(
    one: Annotated[Path, typer.Argument(metavar="A", help="Records of a run: a folder or one file.")],
    other: Annotated[Path, typer.Argument(metavar="B", help="Records of another.")],
) -> None:
    """Test on the same texts whether one run holds better than another."""
    from dualmask.fitted_tables import unbroken_console
    from dualmask.reporting.comparison import compare as compared

    found, console = compared(one, other), unbroken_console()
    console.print(comparison_table(found))
    console.print("p: exact paired test over texts (McNemar's for one seed); corrected by Holm over this table.")
    for note in found.notes:
        typer.echo(f"note: {note.translate(SHOWN)}", err=True)
    for problem in found.problems:
        typer.echo(f"left out: {problem.translate(SHOWN)}", err=True)


def comparison_table(found: "Comparison") -> "FittedTable":
    """A row for each pair of runs: its test, or why there is none."""
    from rich.text import Text

    from dualmask.fitted_tables import FittedTable
    from dualmask.reporting.report_tables import probability

    rows = []
    for pair in found.pairs:
        attack = f"{pair.attack} {pair.mode}{f' {pair.scores}' if pair.scores != 'raw' else ''}"
        cells = [pair.data, attack, pair.one, pair.other]
        if test := pair.test:
            low, high = test.difference.interval
            cells += [f"{test.texts:,} x {test.seeds}", f"{100 * test.difference.value:+.1f} [{100 * low:+.1f}, "
                      f"{100 * high:+.1f}]", f"{test.only_one:,}, {test.only_other:,}", probability(test.p),
                      probability(test.corrected) + ("" if test.significant else " not significant")]
        else:
            cells += ["", f"not tested: {pair.reason.translate(SHOWN)}", "", "", ""]
        rows.append(cells)
    title = f"accuracy under attack on the same texts, A: {found.one}, B: {found.other}".translate(SHOWN)
    return FittedTable(
        head=("data", "attack", "A", "B", "texts x seeds", "A - B in points, 95 %", "only A, only B", "p", "corrected"),
        rows=rows, title=Text(title, "italic"), keys=2)
