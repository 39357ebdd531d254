# SPDX-License-Identifier: Apache-2.0
"""What is to be answered: texts, a file that can be read again, or what comes once through a pipe."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from dualmask.answers import Item
from dualmask.errors import DataError
from dualmask.prediction import read_items, survey
from dualmask.text.input_choices import InputChoices, is_empty
from dualmask.text.tables import Table, stream_table, table_rows

ANSWERED = InputChoices(empty="answer")


@dataclass(frozen=True)
class Input:
    """Items, each given once."""

    items: Iterator[Item]
    names: Callable[[], list[str]]  # of all columns; of a file this reads all of it
    at_hand: Callable[[], bool] | None = None  # whether the next item need not be waited for, where that may be


def text_input(texts: Sequence[str], choices: InputChoices) -> Input:
    for number, text in enumerate(texts, start=1):
        if choices.empty == "refuse" and is_empty(text):
            raise DataError(f"text {number} of {len(texts):,} is empty. Leave it out, or let it be skipped with "
                            "--empty skip.")
    return Input(iter([Item({"text": text}, text) for text in texts]), lambda: ["text"])


def file_input(source: Path, choices: InputChoices) -> Input:
    """A file; where empty texts are to be refused, it is looked through before the first answer."""
    if choices.empty == "refuse":
        survey(source, replace(choices, tell=None))
    return Input(read_items(source, choices), lambda: survey(source, replace(choices, tell=None)).names)


def stream_input(source: Path, choices: InputChoices, *, ragged: bool) -> Input:
    """A pipe. To refuse empty texts before the first answer, it has to be read to its end.

    ragged: rows may have columns that those before them lack; in CSV there is no room for them.
    """
    table, stream = stream_table(source, choices)
    items = stream_items(table, choices, ragged=ragged)
    if choices.empty == "refuse":
        items = iter(list(items))
    first = next(items)  # there is one, or the reader has complained
    return Input(chain([first], items), lambda: list(first.values), stream.at_hand)


def stream_items(table: Table, choices: InputChoices, *, ragged: bool) -> Iterator[Item]:
    names: set[str] | None = None
    for row in table_rows(table, choices):
        names = set(row.fields) if names is None else names
        if not ragged and (new := [name for name in row.fields if name not in names]):
            raise DataError(f"{table.at(row.number)}: the first row of what comes through the pipe has no column "
                            f"'{new[0]}', so that CSV has no place for it. Write JSON Lines (--format jsonl), or save "
                            "the input in a file and give that.")
        yield Item(row.fields, row.text)
