# SPDX-License-Identifier: Apache-2.0
"""The texts by which a classifier is hardened: what its defence learns from, and what is measured, from any source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from dualmask.attacks.running import sampled
from dualmask.classifier import DefendedClassifier
from dualmask.defences.base import Defence
from dualmask.defences.combination import threshold_setters
from dualmask.errors import DataError, NoLabelColumnError
from dualmask.text.examples import Dataset, Example, Text, load_dataset, split_stratified
from dualmask.text.input_choices import InputChoices, is_empty
from dualmask.text.label_matching import match_labels
from dualmask.text.tables import iter_rows
from dualmask.training import columns_of
from dualmask.wrapping import check_wrapping

CLEAN_TEXTS = 400  # on which the price on clean texts is measured
FEWEST_TEXTS = 20  # from which a defence can learn anything, and some can be left to measure by
HELD_OUT = 0.3  # at most this share of texts is kept from the defence, where the data have no test part
VALIDATION = 0.2  # of labelled texts without a validation part, for defences that set thresholds


@dataclass(frozen=True)
class HardeningTexts:
    """Texts that the defence learns words from, and others to measure by."""

    name: str
    learned: Sequence[Example]
    measured: Sequence[Example]
    validation: Sequence[Example] = ()
    labelled: bool = True  # else the classifier's own answers, the defence off, stand in for labels
    notes: tuple[str, ...] = ()
    columns: Mapping[str, object] = field(default_factory=dict)  # that were read, for files which the model is given


def hardening_texts(
    data: "str | Path | Dataset | Sequence[Text] | Sequence[tuple[Text, int]]", bare: DefendedClassifier, *,
    labels: Sequence[str], choices: InputChoices, guard: Defence, seed: int,
) -> HardeningTexts:
    """What the defence learns from and what is measured, from a source with labels or without."""
    source = read_source(data, choices) if isinstance(data, str | Path) else given_texts(data, bare.labels)
    if isinstance(source, Dataset):
        texts = labelled_texts(source, bare, labels=labels, guard=guard, seed=seed)
    else:
        name = Path(data).name.partition(".")[0] if isinstance(data, str | Path) else "texts"
        texts = unlabelled_texts(name, source, bare, seed=seed)
    check_wrapping(guard, held_out=bool(texts.validation))
    if len(texts.learned) + len(texts.measured) < FEWEST_TEXTS:
        raise DataError(f"{texts.name} has {len(texts.learned) + len(texts.measured)} texts; give at least "
                        f"{FEWEST_TEXTS}, better thousands, such as the classifier answers: the defence learns words "
                        "from them, and some are needed to measure by.")
    return texts


def read_source(source: str | Path, choices: InputChoices) -> Dataset | list[Text]:
    """A data set or, where a file has no labels, its texts."""
    path = Path(source)
    if path.is_file() and path.name.partition(".")[2].startswith("txt"):
        return read_texts(path, choices)
    try:
        return load_dataset(source, columns=choices.columns, encoding=choices.encoding, empty=choices.empty)
    except NoLabelColumnError:
        if choices.columns.label is not None or not path.is_file():
            raise
        return read_texts(path, choices)


def read_texts(path: Path, choices: InputChoices) -> list[Text]:
    """The texts of a file without labels; empty ones are taken, skipped or refused as the caller says."""
    rows = iter_rows(path, columns=choices.columns, encoding=choices.encoding, allow_empty=choices.empty != "refuse")
    return [row.text for row in rows if choices.empty == "answer" or not is_empty(row.text)]


def given_texts(
    data: "Dataset | Sequence[Text] | Sequence[tuple[Text, int]]", labels: Sequence[str],
) -> Dataset | list[Text]:
    """Texts that are there already; a text with a number is a labelled one."""
    if isinstance(data, Dataset):
        return data
    rows = list(data)
    if rows and all(isinstance(row, tuple) and len(row) == 2 and isinstance(row[1], int) for row in rows):
        return Dataset("texts", tuple(labels), [Example(*row) for row in cast(list[tuple[Text, int]], rows)],
                       None, None)
    return cast(list[Text], rows)


def labelled_texts(
    data: Dataset, bare: DefendedClassifier, *, labels: Sequence[str], guard: Defence, seed: int,
) -> HardeningTexts:
    match = match_labels(data.labels, bare.labels, labels)

    def with_classes(examples: Sequence[Example]) -> list[Example]:
        return [Example(text, match.classes[label]) for text, label in examples]

    learned, measured = with_classes(data.train), with_classes(data.test or [])
    if not measured:
        learned, measured = split_stratified(learned, held_out_share(len(learned)), seed)
    validation: list[Example] = with_classes(data.validation or [])
    if threshold_setters(guard) and not validation:
        learned, validation = split_stratified(learned, VALIDATION, seed)
    return HardeningTexts(data.name, learned, measured, validation, notes=(match.note,) if match.note else (),
                          columns=columns_of(data))


def unlabelled_texts(name: str, texts: Sequence[Text], bare: DefendedClassifier, *, seed: int) -> HardeningTexts:
    """Some texts, drawn at random, are measured by; what the bare classifier says of them is taken for right."""
    count = max(1, round(held_out_share(len(texts)) * len(texts)))
    held_out = set(sampled([Example(text, 0) for text in texts], count, seed))
    kept = [texts[place] for place in sorted(held_out)]
    answers = bare.predict(kept).probabilities.argmax(dim=1).tolist() if kept else []
    return HardeningTexts(
        name, [Example(text, 0) for place, text in enumerate(texts) if place not in held_out],
        [Example(text, answer) for text, answer in zip(kept, answers, strict=True)], labelled=False)


def held_out_share(texts: int) -> float:
    """As many texts as are measured on, but most of a small file stay for the defence to learn from."""
    return min(HELD_OUT, CLEAN_TEXTS / max(texts, 1))
