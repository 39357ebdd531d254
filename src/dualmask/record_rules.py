# SPDX-License-Identifier: Apache-2.0
"""What the values of a record, and of the header above the records, must be; files may come from anywhere."""

from collections.abc import Callable, Mapping
from sys import float_info
from typing import NamedTuple

from dualmask.errors import DataError

MOST = 1 << 63  # a count beyond it was forged, and no mean could be taken of it


def is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < MOST


def is_number(value: object, low: float, high: float) -> bool:
    return (type(value) is float or type(value) is int) and low <= value <= high  # of NaN neither is true


def is_text(value: object) -> bool:
    return type(value) is str or (type(value) is list and len(value) == 2 and all(type(one) is str for one in value))


def are_spans(value: object) -> bool:
    if type(value) is not list:
        return False
    for one in value:
        if type(one) is not list or len(one) not in (3, 4):
            return False
        start, end, part, *read = one
        if not (type(start) is type(end) is type(part) is int and 0 <= start <= end and 0 <= part <= 1
                and all(type(word) is str for word in read)):
            return False
    return True


def are_names(value: object) -> bool:
    return type(value) is list and all(type(one) is str for one in value)


def are_counts(value: object) -> bool:
    return type(value) is list and all(map(is_count, value))


def is_table(value: object) -> bool:
    return type(value) is dict


class Rule(NamedTuple):
    """What a value out of a file must be, and how that is said."""

    fits: Callable[[object], bool]
    expected: str

    def or_none(self) -> "Rule":
        return Rule(lambda value: value is None or self.fits(value), f"{self.expected}, or null")


COUNT, TEXT = Rule(is_count, "a whole number from 0 on"), Rule(is_text, "a text or a list of two")
STRING, TABLE = Rule(lambda value: type(value) is str, "a text"), Rule(is_table, "an object")
SHARE = Rule(lambda value: is_number(value, -0.01, 1.01), "a number from 0 to 1")  # of victims that round, about that
COSINE = Rule(lambda value: is_number(value, -1.0001, 1.0001), "a number from -1 to 1")
DURATION = Rule(lambda value: is_number(value, 0, float_info.max), "a number from 0 on")
NUMBER = Rule(lambda value: is_number(value, -float_info.max, float_info.max), "a finite number")
FLAG = Rule(lambda value: type(value) is bool, "true or false")
SPANS = Rule(are_spans, "lists of start, end, 0 or 1 and, if any, what was read instead")
FITS: Mapping[str, Rule] = {  # as JSON has them
    **dict.fromkeys(("index", "label", "queries", "rows", "gradients", "words", "changed", "draws", "wrong_draws"),
                    COUNT),
    **dict.fromkeys(("clean", "predicted", "undefended"), COUNT.or_none()), "text": TEXT, "adversarial": TEXT.or_none(),
    **dict.fromkeys(("probability", "probability_after"), SHARE.or_none()), "similarity": COSINE.or_none(),
    **dict.fromkeys(("hidden", "hidden_after"), SPANS.or_none()), "outcome": STRING, "reason": STRING,
    **dict.fromkeys(("cut", "cut_after"), FLAG.or_none()), "seconds": DURATION,
    **dict.fromkeys(("suspicion", "suspicion_after"), NUMBER.or_none()),
}
HEADER_FITS: Mapping[str, Rule] = {
    "texts": COUNT, "labels": Rule(are_names, "a list of names"), **dict.fromkeys(("options", "about"), TABLE),
    "defence": TABLE.or_none(), "attack": STRING, "data": STRING, "noise": STRING,
    **dict.fromkeys(("eot", "draws"), COUNT), "samples": COUNT.or_none(), "temperature": DURATION,
    "temperature_fitted_on": STRING,
    "threshold": NUMBER.or_none(), "windows": TABLE, "finished": Rule(are_counts, "a list of whole numbers"),
}


def check(values: Mapping[str, object], rules: Mapping[str, Rule], what: str) -> None:
    """DataError about the first value that is not what it should be."""
    for name, rule in rules.items():
        if name in values and not rule.fits(values[name]):
            raise DataError(f"the {what}'s {name} is {values[name]!r:.40}; expected {rule.expected}.")


def growing(there: Mapping[str, object], now: Mapping[str, object]) -> tuple[str, ...]:
    """What a header may say otherwise where more texts are asked for: a smaller sample is part of a larger one, and
    none means all."""
    before, after = there.get("samples"), now.get("samples")
    more = isinstance(before, int) and (after is None or (isinstance(after, int) and after > before))
    return ("samples", "texts") if more else ()
