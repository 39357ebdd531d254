# SPDX-License-Identifier: Apache-2.0
"""How a table of texts is to be read: its columns, its encoding, its kind, and what becomes of empty texts."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, get_args

from dualmask.errors import DataError, OptionError
from dualmask.text.character_sets import UTF8, check_encoding
from dualmask.text.columns import FIND, Columns, Found, Text, find_columns

Empty = Literal["answer", "skip", "refuse"]
TableKind = Literal["csv", "tsv", "jsonl", "text"]


@dataclass(frozen=True, kw_only=True)
class InputChoices:
    """How one source is read."""

    columns: Columns = FIND
    learned: Columns = FIND  # of the training data: they go before what names suggest
    encoding: str = UTF8
    kind: TableKind | None = None  # where no ending of a file's name tells it
    empty: Empty = "refuse"
    tell: Callable[[str], None] | None = None  # is told in a sentence where a learned name decided

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        for name, value, known in (("empty", self.empty, get_args(Empty)),
                                   ("input format", self.kind, (None, *get_args(TableKind)))):
            if value not in known:
                raise OptionError(f"{name} '{value}' is unknown; choose one of {', '.join(filter(None, known))}.")

    def found(self, names: Sequence[str], at: str, *, labelled: bool) -> Found:
        """The columns of a table with these names."""
        chosen = find_columns(names, self.columns, at, labelled=labelled, learned=self.learned)
        if self.tell is None:
            return chosen
        guessed: Found | None = None
        with suppress(DataError):  # without what was learned nothing would do
            guessed = find_columns(names, self.columns, at, labelled=labelled)
        if chosen != guessed:
            self.tell(told_columns(chosen))
        return chosen


def told_columns(found: Found) -> str:
    """Which columns a model's memory chose, and how to choose others."""
    roles = {"text": found.text, "second text": found.pair, "label": found.label}
    named = ", ".join(f"{role} '{name}'" for role, name in roles.items() if name is not None)
    options = "--text-column" + (", --pair-column" if found.pair else "") + (", --label-column" if found.label else "")
    return f"columns as the model was trained: {named} (others: {options})."


def learned_columns(facts: Mapping[str, object]) -> Columns:
    """The columns that a saved model was trained on, as far as it tells."""
    told = facts.get("columns")
    if not isinstance(told, Mapping):
        return FIND  # a model of before, or one whose data had no columns
    names = {name: told.get(name) for name in Columns._fields}
    return Columns(**{name: value if isinstance(value, str) else None for name, value in names.items()})


def is_empty(text: Text) -> bool:
    """Whether a text, or one of a pair, has nothing in it to read."""
    return not all(part.strip() for part in ((text,) if isinstance(text, str) else text))
