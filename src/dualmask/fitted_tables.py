# SPDX-License-Identifier: Apache-2.0
"""Tables that drop nothing however narrow the screen is: they wrap at spaces or, where that is not enough, stand row
below row, each cell on a line of its own."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

Cell = str | Text
GAP = 2  # between columns
ROOMY = 18  # letters that a column of longer texts has at least, before rows are stacked
ENDLESS = 10_000  # letters in a line of a file or a pipe


@dataclass(frozen=True, kw_only=True)
class FittedTable:
    """Rows of texts below their names; as a table where the screen is wide enough for it."""

    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str | Text = ""
    caption: str = ""
    keys: int = 1  # cells that stand in the first line of a row that is stacked
    figures: bool = False  # columns hold figures, which are broken before brackets at most
    right: bool = False  # these end at one place
    spaced: bool = False  # an empty line follows each row

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.title:
            yield Text(self.title, "italic") if isinstance(self.title, str) else self.title
        widths = self.widths(options.max_width)
        if widths:
            yield self.table(widths)
        else:
            yield from self.stacked()
        if self.caption:
            yield Text(self.caption, "dim")

    def table(self, widths: Sequence[int]) -> Table:
        table = Table(box=None, padding=(0, self.gap, int(self.spaced), 0), header_style="bold underline",
                      pad_edge=False)
        for number, (name, width) in enumerate(zip(self.head, widths, strict=True)):
            table.add_column(Text(name), width=width, overflow="fold",
                             justify="right" if self.right and number else "left", vertical="top")
        for row in self.rows:
            table.add_row(*(broken(as_text(cell), width) if self.figures else as_text(cell)
                            for cell, width in zip(row, widths, strict=False)))
        return table

    def stacked(self) -> RenderResult:
        """Each row with its names; an empty cell is left out."""
        names = max((len(name) for name in self.head[self.keys:]), default=0)
        for row in self.rows:
            first = Text("  ".join(as_text(cell).plain.replace("\n", ", ") for cell in row[:self.keys]), "bold")
            yield first
            lines = Table(box=None, show_header=False, padding=(0, GAP, 0, 0), pad_edge=False)
            lines.add_column(no_wrap=True, width=names, style="dim")
            lines.add_column(overflow="fold")
            for name, cell in zip(self.head[self.keys:], row[self.keys:], strict=False):
                if as_text(cell):
                    lines.add_row(name, as_text(cell))
            yield Padding(lines, (0, 0, 0, 2))

    @property
    def gap(self) -> int:
        return 1 if self.right else GAP

    def widths(self, most: int) -> list[int]:
        """Of the columns, so that no word is broken; empty where rows are to be stacked."""
        columns = [(Text(name), [as_text(row[place]) for row in self.rows if place < len(row)])
                   for place, name in enumerate(self.head)]
        wanted = [longest_line(name, *cells) for name, cells in columns]
        room = most - self.gap * (len(columns) - 1)
        least = next((one for one in self.least_widths(columns, wanted) if sum(one) <= room), [])
        while least and (spare := room - sum(least)) > 0 and least != wanted:
            short = max(range(len(least)), key=lambda place: wanted[place] - least[place])
            least[short] += min(spare, max(1, (wanted[short] - least[short]) // 2))
        return least

    def least_widths(self, columns: Sequence[tuple[Text, list[Text]]], wanted: Sequence[int]) -> Iterator[list[int]]:
        """The ways to write the columns, the most readable first."""
        if self.figures:
            yield [max(longest_word(name), longest_line(*cells)) for name, cells in columns]
            yield [max(longest_word(name), longest_line(*(broken(one, 0) for one in cells))) for name, cells in columns]
        else:
            yield [max(longest_word(name, *cells), min(want, ROOMY))
                   for (name, cells), want in zip(columns, wanted, strict=True)]


def broken(figure: Text, width: int) -> Text:
    """What stands in brackets behind a figure goes below it, where there is no room beside it."""
    return figure if figure.cell_len <= width else Text(figure.plain.replace(" (", "\n("), figure.style)


def longest_line(*texts: Text) -> int:
    return max((line.cell_len for text in texts for line in text.split("\n", allow_blank=True)), default=1)


def longest_word(*texts: Text) -> int:
    return max((cell_len(word) for text in texts for word in text.plain.split()), default=1)


def as_text(cell: Cell) -> Text:
    """Names of folders and the like are no markup."""
    return cell.copy() if isinstance(cell, Text) else Text(cell)


def unbroken_console() -> Console:
    """For tables whose rows stay on one line in a file or a pipe, unless its width is told (COLUMNS)."""
    console = Console()
    return console if console.is_terminal or os.environ.get("COLUMNS") else Console(width=ENDLESS)
