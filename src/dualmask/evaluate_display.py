# SPDX-License-Identifier: Apache-2.0
"""Scores on clean texts in the terminal: a few figures, a row for each class, and which classes were confused."""

from itertools import islice
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dualmask.fitted_tables import FittedTable
from dualmask.text.differences import SHOWN

if TYPE_CHECKING:
    from dualmask.confusion import Confusion
    from dualmask.evaluation.clean_scores import CleanScores

MOST_CLASSES = 12  # of which the whole matrix is shown
MOST_MISTAKES = 12  # pairs of classes, where the matrix is too large
SHORTEST_NAME = 8  # letters of a class's name that a row of the matrix has room for, at least
LONGEST_NAME = 24  # letters of a class's name in a table


def show_clean_scores(console: Console, scores: "CleanScores") -> None:
    console.print(figure_table(scores))
    if scores.imbalance:
        console.print(Text(f"warning: {scores.imbalance}".translate(SHOWN), "yellow"), soft_wrap=True)
    console.print()
    console.print(class_table(scores.confusion))
    console.print()
    show_confusion(console, scores.confusion)
    console.print("Clean accuracy says nothing about robustness.", style="dim")


def figure_table(scores: "CleanScores") -> Table:
    """The figures about all texts together."""
    found, interval = scores.confusion, scores.interval
    largest = found.largest
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_row("texts", f"{scores.texts:,}")
    table.add_row("accuracy" + (", defence on" if scores.acts else ""),
                  f"{scores.accuracy:.1%}  95 % interval {interval.low:.1%} to {interval.high:.1%}")
    if scores.acts:
        table.add_row("accuracy, defence off", "not defined: the network's own head was not trained"
                      if scores.accuracy_undefended is None else f"{scores.accuracy_undefended:.1%}")
    table.add_row("largest class", Text(f"{largest.share:.1%}  what always answering '{largest.label}' would "
                                        "score".translate(SHOWN)))
    table.add_row("balanced accuracy", f"{found.balanced_accuracy:.1%}  mean recall of the classes")
    table.add_row("macro F1", f"{found.macro_f1:.1%}  mean F1 of the classes")
    if scores.flagged is not None:
        table.add_row("flagged", f"{scores.flagged / scores.texts:.1%}  false alarms of the detector")
    return table


def class_table(found: "Confusion") -> FittedTable:
    """Texts, precision, recall and F1 of each class; a dash where a share would be of nothing."""
    rows = []
    for score in found.classes:
        shares = ("-" if share is None else f"{share:.1%}" for share in (score.precision, score.recall, score.f1))
        name = score.label.translate(SHOWN)
        rows.append([shortened(name), f"{score.texts:,}", f"{score.answered:,}", *shares])
    return FittedTable(head=("class", "texts", "answered", "precision", "recall", "F1"), rows=rows, right=True)


def shortened(name: str) -> str:
    return name if cell_len(name) <= LONGEST_NAME else f"{set_cell_size(name, LONGEST_NAME - 1).rstrip()}…"


def show_confusion(console: Console, found: "Confusion") -> None:
    """The whole matrix where the screen has room for it, else the pairs of classes that were confused most."""
    matrix = confusion_table(found, console.width) if len(found.labels) <= MOST_CLASSES else None
    if matrix is not None:
        console.print("confusion: a row for each true class, a column for each answer")
        console.print(matrix)
        return
    mistakes = list(islice(found.mistakes(), MOST_MISTAKES))
    if not mistakes:
        console.print("confusion: no class was taken for another")
        return
    console.print("confusion: the most frequent mistakes")
    table = Table("class", "answered", "texts", "of the class", box=None, padding=(0, 2, 0, 0))
    for column in table.columns[:2]:
        column.no_wrap, column.overflow, column.max_width = True, "ellipsis", LONGEST_NAME
    for mistake in mistakes:
        table.add_row(Text(mistake.label.translate(SHOWN)), Text(mistake.answered.translate(SHOWN)),
                      f"{mistake.texts:,}", f"{mistake.share:.1%}")
    console.print(table)


def confusion_table(found: "Confusion", width: int) -> Table | None:
    """The counts under the classes' names or, where these are too long, their numbers; none where there is no room."""
    names = [label.translate(SHOWN) for label in found.labels]
    cells = [max(len(str(row[place])) for row in found.counts) for place in range(len(names))]
    longest = max(map(len, names))
    heads = names
    if longest + sum(max(len(name), cell) + 2 for name, cell in zip(names, cells, strict=True)) > width:
        heads = [str(place + 1) for place in range(len(names))]
        names = [f"{place + 1} {name}" for place, name in enumerate(names)]
    taken = sum(max(len(head), cell) + 2 for head, cell in zip(heads, cells, strict=True))
    if width - taken < min(SHORTEST_NAME, max(map(len, names))):
        return None
    table = Table(box=None, padding=(0, 0, 0, 2), pad_edge=False)
    table.add_column("", no_wrap=True, overflow="ellipsis", max_width=width - taken)
    for head in heads:
        table.add_column(Text(head), justify="right", no_wrap=True)
    for place, row in enumerate(found.counts):
        table.add_row(Text(names[place]), *(
            Text(str(count), "bold" if place == column else "") for column, count in enumerate(row)))
    return table
