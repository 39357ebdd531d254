# SPDX-License-Identifier: Apache-2.0
"""Labelled texts out of files, folders, data sets of the Hugging Face library, and named resources.

Labels become ids 0..k-1 with a name each. Whole numbers (also written ``1.0``) are ordered by value, other labels by
the alphabet (code points, so capitals first); a data set that brings class names of its own keeps their order. The
training part decides: a label that only another part has is an error.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os.path import exists, isdir, isfile
from pathlib import Path
from typing import Literal, NamedTuple

from dualmask.errors import DataError, OptionError
from dualmask.text.character_sets import UTF8
from dualmask.text.columns import FIND, Columns, Found, Text, check_characters, closest, text_of
from dualmask.text.input_choices import Empty, InputChoices, is_empty
from dualmask.text.splits import hub_tables, is_saved, may_be_on_hub, saved_tables
from dualmask.text.tables import (
    PARTS,
    TABLE_ENDINGS,
    Row,
    Table,
    iter_rows,
    listing,
    open_table,
    refuse_unreadable,
    table_ending,
)

__all__ = ["FIND", "Columns", "Dataset", "Example", "Row", "Text", "iter_rows", "load_dataset", "load_examples",
           "split_stratified"]  # fmt: skip

NAMED = ("rotten-tomatoes", "mr", "ag-news")
SPLIT_SEED = 2002  # of the named data, whose parts must never move
MANY = 100  # labels; with more, and fewer than two rows to each, the column is hardly one of labels
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(\.0*)?")


class Example(NamedTuple):
    """A text (or a pair of texts) and the id of its label."""

    text: Text
    label: int


@dataclass(frozen=True)
class Dataset:
    """What one source holds; ``labels[id]`` is a label's name. A part that the source lacks is None."""

    name: str
    labels: tuple[str, ...]
    train: list[Example]
    validation: list[Example] | None
    test: list[Example] | None
    columns: Found | None = field(default=None, compare=False)  # of the training part, where it has columns
    empty: int = field(default=0, compare=False)  # texts of all parts with nothing to read, if they were not refused

    def __repr__(self) -> str:
        """Counts, not texts: there may be a hundred thousand of them."""
        parts = {name: rows for name in ("train", "validation", "test") if (rows := getattr(self, name)) is not None}
        counts = ", ".join(f"{name}: {len(rows):,} rows" for name, rows in parts.items())
        return f"Dataset({self.name!r}, labels {', '.join(self.labels[:20])}; {counts})"


def load_dataset(
    source: str | Path,
    *,
    columns: Columns = FIND,
    test: str | Path | None = None,
    validation: str | Path | None = None,
    encoding: str = UTF8,
    empty: Empty = "refuse",
) -> Dataset:
    """Load a file, a folder with train/validation/test files, a saved or hub data set, or a named resource.

    ``test`` and ``validation`` name files that take the place of the source's own parts. A hub data set may carry its
    configuration, as in ``glue:mrpc``. A name in ``NAMED`` given as a string goes before a file of that name.
    ``encoding`` is that of text files; rows without a text are refused, or skipped, or taken like any other (answer).
    """
    choices = InputChoices(columns=columns, encoding=encoding, empty=empty)
    dataset = _load(source, choices, {"test": test, "validation": validation})
    if validation is not None:
        examples = read_examples(validation, dataset.labels, choices, part="validation")
        dataset = replace(dataset, validation=examples)
    if test is not None:
        dataset = replace(dataset, test=read_examples(test, dataset.labels, choices))
    return without_empty(dataset) if empty == "skip" else replace(dataset, empty=count_empty(dataset))


def _load(source: str | Path, choices: InputChoices, given: Mapping[str, str | Path | None]) -> Dataset:
    """The source itself, with all its rows; parts in the place of which others are given are not read."""
    if isinstance(source, str) and source in NAMED:
        from dualmask.resources import resolve

        path = resolve(source, kind="data")
        if source == "rotten-tomatoes":
            return rotten_tomatoes(path)
        return _assemble(source, _folder_tables(path, InputChoices()), choices)
    name, tables = _find_tables(source, choices)
    return _assemble(name, {part: table for part, table in tables.items() if given.get(part) is None}, choices)


def without_empty(dataset: Dataset) -> Dataset:
    """The same data less the rows without a text, which are counted."""
    parts = {name: rows if rows is None else [row for row in rows if not is_empty(row.text)]
             for name, rows in (("train", dataset.train), ("validation", dataset.validation), ("test", dataset.test))}
    bare = [name for name, rows in parts.items() if rows is not None and not rows]
    if bare:
        raise DataError(f"{dataset.name}: every text of the {bare[0]} part is empty, and none is left when these are "
                        "skipped. Check the column of the text.")
    return replace(dataset, **parts, empty=count_empty(dataset))  # type: ignore[arg-type]


def count_empty(dataset: Dataset) -> int:
    parts = (dataset.train, dataset.validation or [], dataset.test or [])
    return sum(is_empty(row.text) for rows in parts for row in rows)


def load_examples(
    source: str | Path, *, labels: Sequence[str], columns: Columns = FIND, part: Literal["validation", "test"] = "test",
    encoding: str = UTF8, empty: Empty = "refuse",
) -> list[Example]:
    """Load one file under known label names, or one part of anything else that ``load_dataset`` takes."""
    choices = InputChoices(columns=columns, encoding=encoding, empty=empty)
    found = read_examples(source, labels, choices, part=part)
    return [one for one in found if not is_empty(one.text)] if empty == "skip" else found


def read_examples(
    source: str | Path, labels: Sequence[str], choices: InputChoices, *,
    part: Literal["validation", "test"] = "test",
) -> list[Example]:
    """The same by choices; also rows without a text, unless these are refused."""
    if isfile(source):
        return _examples(_read(open_table(Path(source), choices), choices), labels)
    dataset = _load(source, choices, {})
    examples = dataset.test if part == "test" else dataset.validation
    if examples is None:
        raise DataError(f"{source} has no {part} part. Name one labelled file instead.")
    ids = [_known_id(name, labels, f"{source}, {part} part") for name in dataset.labels]
    return [Example(text, ids[label]) for text, label in examples]


def read_by_name_or_number(
    source: str | Path, labels: Sequence[str], choices: InputChoices, *,
    part: Literal["validation", "test"] = "test",
) -> tuple[list[Example], str]:
    """Examples with a classifier's classes, which data may also call by their numbers; a note says so where they do."""
    try:
        return read_examples(source, labels, choices, part=part), ""
    except DataError as error:
        numbers = [str(number) for number in range(len(labels))]
        if "unknown label" not in str(error) or set(numbers) & set(labels):
            raise
        try:
            found = read_examples(source, numbers, choices, part=part)
        except DataError:
            raise error from None
    pairs = ", ".join(f"{number} is {label}" for number, label in zip(numbers, labels, strict=True))
    return found, f"the data's labels are taken for numbers of the model's classes: {pairs}."


def split_stratified(examples: Sequence[Example], share: float, seed: int) -> tuple[list[Example], list[Example]]:
    """Split into (kept, held out), each in the given order, with ``share`` of every class held out.

    A class of two or more examples has at least one on either side; a class of one stays in training.
    """
    import torch

    from dualmask.seeds import generator

    if not 0 < share < 1:
        raise OptionError(f"share {share} to hold out: expected a number between 0 and 1, such as 0.1.")
    rows: dict[int, list[int]] = {}
    for index, example in enumerate(examples):
        rows.setdefault(example.label, []).append(index)
    held: set[int] = set()
    for label, members in rows.items():
        count = min(max(round(share * len(members)), 1), len(members) - 1)
        order = torch.randperm(len(members), generator=generator(seed, "split", label)).tolist()
        held.update(members[position] for position in order[:count])
    if not held:
        raise DataError(f"can't hold out {share:.0%} of {len(examples)} rows: no class has two. Add rows.")
    kept = [example for index, example in enumerate(examples) if index not in held]
    return kept, [examples[index] for index in sorted(held)]


def rotten_tomatoes(path: Path) -> Dataset:
    """The labelled reviews of the packaged corpus, 80/10/10, always the same split.

    Its plots are left out. A review that occurs again, but for case and punctuation, is kept once, so that no text is
    in two parts: 12,749 of the 12,808 reviews remain.
    """
    labels = ("rotten", "fresh")
    reviews: dict[str, Example] = {}
    for number, values in open_table(path).records:
        text, category = str(values["text"]), values["category"]
        if category in labels:
            bare = " ".join(re.findall(r"[^\W_]+", text.casefold()))
            reviews.setdefault(bare or str(number), Example(text, labels.index(str(category))))
    train, rest = split_stratified(list(reviews.values()), 0.2, SPLIT_SEED)
    validation, test = split_stratified(rest, 0.5, SPLIT_SEED)
    return Dataset("rotten-tomatoes", labels, train, validation, test)


class _Labelled(NamedTuple):
    number: int
    text: Text
    label: str


class _Part(NamedTuple):
    table: Table
    column: str  # that of the label
    rows: list[_Labelled]
    found: Found


def _read(table: Table, choices: InputChoices) -> _Part:
    """All rows of a table; it has at least one, or its reader complains."""
    found, rows = None, []
    for number, values in table.records:
        at = table.at(number)
        found = found or choices.found(tuple(values), table.names_at(number), labelled=True)
        column = str(found.label)
        refuse_unreadable(values.get(name) for name in found if name is not None)  # others do no harm
        label = _label_name(values.get(column), table.class_names.get(column, ()), at, column)
        text = text_of(values, found, at, allow_empty=choices.empty != "refuse")
        rows.append(_Labelled(number, text, label))
    assert found is not None
    return _Part(table, column, rows, found)


def _label_name(value: object, names: Sequence[str], at: str, column: str) -> str:
    """A label in its one spelling: 1, "1" and 1.0 are the same; a class id is its class's name."""
    if isinstance(value, str):
        value = value.strip()
        if WHOLE_NUMBER.fullmatch(value):
            value = int(value.partition(".")[0])
    elif isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, float):
        value = int(value) if value.is_integer() else str(value).replace("nan", "")
    if isinstance(value, int):
        return names[value] if 0 <= value < len(names) else str(value)
    if isinstance(value, str) and value:
        check_characters(value, column, at)
        return value
    if value is None or value == "":
        raise DataError(f"{at}: no label in column '{column}'. Fill it in or delete the row.")
    raise DataError(f"{at}: column '{column}' holds a {type(value).__name__}, expected one label. Keep one a row.")


def _label_names(part: _Part) -> tuple[str, ...]:
    """The names in order of id, out of the training part."""
    table, column, rows = part[:3]
    used = {row.label for row in rows}
    if len(used) < 2:
        raise DataError(
            f"{table.name}: one class only, every label in column '{column}' is '{rows[0].label}' (from {table.unit} "
            f"{rows[0].number} to {rows[-1].number}). Add rows of another class, or choose another label column."
        )
    if len(used) > max(MANY, len(rows) // 2):
        raise DataError(
            f"{table.name}: {len(used)} different labels in {len(rows)} rows of column '{column}', such as "
            f"'{rows[0].label[:40]}' ({table.unit} {rows[0].number}). Choose another label column, or merge classes."
        )
    if column in table.class_names:
        return table.class_names[column]
    return tuple(sorted(used, key=int) if all(map(WHOLE_NUMBER.fullmatch, used)) else sorted(used))


def _known_id(name: str, labels: Sequence[str], at: str) -> int:
    if name in labels:
        return labels.index(name)
    shown = ", ".join(labels[:20]) + (f" and {len(labels) - 20} more" if len(labels) > 20 else "")
    raise DataError(
        f"{at}: unknown label '{name}'; the labels of the training data are: {shown}.{closest(name, labels)} "
        "Correct the label, or add training rows that have it."
    )


def _examples(part: _Part, labels: Sequence[str]) -> list[Example]:
    ids = {name: index for index, name in enumerate(labels)}
    return [
        Example(text, ids[label] if label in ids else _known_id(label, labels, part.table.at(number)))
        for number, text, label in part.rows
    ]


def _assemble(name: str, tables: Mapping[str, Table], choices: InputChoices) -> Dataset:
    train = _read(tables["train"], choices)
    labels = _label_names(train)
    others: dict[str, list[Example]] = {}
    for part in ("validation", "test"):
        read = _read(tables[part], choices) if part in tables else None
        # By the hub's custom a part whose labels are withheld has -1 in every row: it can't serve here.
        if read and ("-1" in labels or any(row.label != "-1" for row in read.rows)):
            others[part] = _examples(read, labels)
    return Dataset(name, labels, _examples(train, labels), others.get("validation"), others.get("test"), train.found)


def _find_tables(source: str | Path, choices: InputChoices) -> tuple[str, dict[str, Table]]:
    path = Path(source)
    if isdir(path):
        return path.resolve().name, saved_tables(path) if is_saved(path) else _folder_tables(path, choices)
    if isinstance(source, str) and not exists(path) and may_be_on_hub(source):
        return source, hub_tables(source, at_hand=NAMED)
    return path.name.partition(".")[0], {"train": open_table(path, choices)}


def _folder_tables(folder: Path, choices: InputChoices) -> dict[str, Table]:
    tables: dict[str, Table] = {}
    files = sorted(path for path in folder.iterdir() if path.is_file() and table_ending(path) in TABLE_ENDINGS)
    for part, stems in PARTS.items():
        found = [path for path in files if path.name.partition(".")[0].lower() in stems]
        if len(found) > 1:
            names = " and ".join(path.name for path in found)
            raise DataError(f"{folder}: {names} both look like the {part} part. Remove one, or name the files.")
        if found:
            tables[part] = open_table(found[0], choices)
    if "train" not in tables:
        raise DataError(
            f"{folder}: no training file; the folder holds: {listing(folder)}. Expected train with one of the endings "
            f"{' '.join(TABLE_ENDINGS)} (and, if you have them, validation and test): rename it, or name the file."
        )
    return tables
