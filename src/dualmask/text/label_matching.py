# SPDX-License-Identifier: Apache-2.0
"""Which class of a classifier each label of some data means: by name, by number, or as the caller says."""

from collections.abc import Sequence
from typing import NamedTuple

from dualmask.errors import DataError, OptionError


def read_label_names(told: str | None) -> tuple[str, ...]:
    """What --labels says, names by commas, none of them twice; nothing where it was not given."""
    names = tuple(name.strip() for name in (told or "").split(",") if name.strip())
    check_different(names)
    return names


def check_different(names: Sequence[str]) -> None:
    """Refuse one name for two classes: nobody could tell which of them a text has."""
    if double := next((name for place, name in enumerate(names) if name in names[:place]), None):
        raise OptionError(f"--labels {','.join(names)} has '{double}' more than once; give what the data call each of "
                          "the model's classes, in the model's order, and each name once.")


def check_label_count(names: Sequence[str], model_labels: Sequence[str]) -> None:
    """Refuse names that are not one for each of the classifier's classes."""
    if len(names) != len(model_labels):
        raise OptionError(f"--labels {','.join(names)} names {len(names)} classes, but the model has "
                          f"{len(model_labels)}: {','.join(model_labels)}. Give what the data call each of these, in "
                          "this order.")


class LabelMatch(NamedTuple):
    """The classifier's class for each label of the data, and what had to be assumed for that."""

    classes: tuple[int, ...]
    note: str = ""


def match_labels(data_labels: Sequence[str], model_labels: Sequence[str], given: Sequence[str] = ()) -> LabelMatch:
    """Find the class of each label; `given` has what the data call the classes, in the classifier's order."""
    if given:
        return match_given(data_labels, model_labels, given)
    folded = [label.casefold() for label in model_labels]
    if all(label in model_labels for label in data_labels):
        return LabelMatch(tuple(list(model_labels).index(label) for label in data_labels))
    if len(set(folded)) == len(folded) and all(label.casefold() in folded for label in data_labels):
        return LabelMatch(tuple(folded.index(label.casefold()) for label in data_labels))
    numbers = [str(number) for number in range(len(model_labels))]
    if all(label in numbers for label in data_labels):
        classes = tuple(map(int, data_labels))
        pairs = ", ".join(f"{label} is {model_labels[number]}"
                          for label, number in zip(data_labels, classes, strict=True))
        return LabelMatch(classes, f"The data's labels are taken for numbers of the model's classes: {pairs}.")
    raise DataError(f"the data's labels ({shorten_names(data_labels)}) are not those of the model "
                    f"({shorten_names(model_labels)}). Say what the data call the model's classes, in the model's "
                    f"order, by commas: --labels {','.join(list(data_labels)[:len(model_labels)])} (labels=...).")


def match_given(data_labels: Sequence[str], model_labels: Sequence[str], given: Sequence[str]) -> LabelMatch:
    check_different(given)
    check_label_count(given, model_labels)
    if unknown := [label for label in data_labels if label not in given]:
        raise DataError(f"the data have the label '{unknown[0]}', which is not among --labels {','.join(given)}. "
                        "Name what the data call each class, in the model's order.")
    return LabelMatch(tuple(list(given).index(label) for label in data_labels))


def shorten_names(names: Sequence[str], most: int = 6) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(list(names)[:most]) + rest
