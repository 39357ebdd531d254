# SPDX-License-Identifier: Apache-2.0
"""Which columns hold the text, its pair and the label, and whether what stands in them can be used."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple, TypeAlias

from dualmask.errors import DataError, NoLabelColumnError
from dualmask.text.lines import MAX_TEXT

Text: TypeAlias = str | tuple[str, str]
SURROGATES = re.compile("[\ud800-\udfff]")  # halves of characters, which no tokenizer and no file takes

# Tried in this order, without regard to case; a known pair goes before a single text.
PAIR_NAMES = (
    ("text", "text_pair"), ("text1", "text2"), ("text_a", "text_b"), ("sentence1", "sentence2"),
    ("sentence_a", "sentence_b"), ("premise", "hypothesis"), ("question1", "question2"), ("question", "sentence"),
    ("question", "passage"),
)  # fmt: skip
TEXT_NAMES = (
    "text", "sentence", "review", "review_text", "content", "body", "comment", "comment_text", "message", "tweet",
    "document", "utterance", "post", "sms", "snippet", "phrase", "description", "headline", "title", "question",
)  # fmt: skip
LABEL_NAMES = (
    "label", "labels", "target", "class", "category", "sentiment", "gold_label", "gold", "label_text", "polarity",
    "topic", "intent", "emotion", "rating", "stars", "score", "y",
)  # fmt: skip


class Columns(NamedTuple):
    """The columns to read; what is None is found by name. A text given without a pair stands alone."""

    text: str | None = None
    label: str | None = None
    pair: str | None = None


FIND = Columns()


class Found(NamedTuple):
    """The columns of one table, as it spells them."""

    text: str
    label: str | None
    pair: str | None


def find_columns(
    names: Sequence[str], given: Columns, at: str, *, labelled: bool, learned: Columns = FIND,
) -> Found:
    """The columns of a table with these names; ``at`` says for messages where the names stand.

    learned: those of the training data, which go before all others where nobody named any and the table has them.
    """
    given = with_learned(names, given, learned)
    known = {name.strip().casefold(): name for name in reversed(names)}  # of two spellings the first
    text, pair = _text_and_pair(known, given)
    text = _existing(names, known, given.text, at) or text
    pair = _existing(names, known, given.pair, at) or pair
    label = _existing(names, known, given.label, at) if labelled else None
    if labelled and given.label is None:
        label = next((known[name] for name in LABEL_NAMES if name in known and known[name] != text), None)
    if text is None:
        raise DataError(_not_found("text", TEXT_NAMES, names, at))
    if labelled and label is None:
        raise NoLabelColumnError(_not_found("label", LABEL_NAMES, names, at))
    return Found(text, label, pair)


def with_learned(names: Sequence[str], given: Columns, learned: Columns) -> Columns:
    """The given columns, and those of the training data where none of a kind was given and the table has them."""
    known = {name.strip().casefold() for name in names}

    def has(name: str | None) -> bool:
        return name is not None and name.strip().casefold() in known

    if given.text is None and given.pair is None and has(learned.text) and (
            learned.pair is None or has(learned.pair)):
        given = given._replace(text=learned.text, pair=learned.pair)
    if given.label is None and has(learned.label) and learned.label not in (given.text, given.pair):
        given = given._replace(label=learned.label)
    return given


def _text_and_pair(known: Mapping[str, str], given: Columns) -> tuple[str | None, str | None]:
    """What the names alone suggest for the columns that were not given."""
    if given.text is not None:
        return None, None
    wanted = None if given.pair is None else given.pair.strip().casefold()
    for first, second in PAIR_NAMES:
        if first in known and second in known and wanted in (None, second):
            return known[first], known[second]
    return next((known[name] for name in TEXT_NAMES if name in known and name != wanted), None), None


def _existing(names: Sequence[str], known: Mapping[str, str], name: str | None, at: str) -> str | None:
    if name is None or name in names:
        return name
    if (spelled := known.get(name.strip().casefold())) is not None:
        return spelled
    raise DataError(f"{at}: no column '{name}'; the columns are: {', '.join(names)}.{closest(name, names)}")


def _not_found(role: str, expected: Sequence[str], names: Sequence[str], at: str) -> str:
    return (
        f"{at}: no {role} column; the columns are: {', '.join(names)}. Expected one named "
        f"{', '.join(expected[:5])}, ...: rename it, or say which it is with --{role}-column (Columns({role}=...)); "
        "add a header line if there is none."
    )


def closest(given: str, known: Sequence[str]) -> str:
    """`` Did you mean 'text'?``, or nothing where no name is near."""
    plain = {name.strip().casefold(): name for name in reversed(known)}
    close = get_close_matches(given.strip().casefold(), plain, n=1, cutoff=0.6)
    return f" Did you mean '{plain[close[0]]}'?" if close else ""


def text_of(values: Mapping[str, object], found: Found, at: str, *, allow_empty: bool = False) -> Text:
    """The text or the two texts of one row, exactly as written, checked."""
    text = _checked(values, found.text, at, allow_empty=allow_empty)
    if found.pair is None:
        return text
    return text, _checked(values, found.pair, at, allow_empty=allow_empty)


def _checked(values: Mapping[str, object], column: str, at: str, *, allow_empty: bool) -> str:
    if column not in values:
        raise DataError(f"{at}: no '{column}' in this row; it has {', '.join(values) or 'nothing'}. Add it.")
    text = values[column]
    if text is None:
        text = ""
    if not isinstance(text, str):
        raise DataError(
            f"{at}: column '{column}' holds {str(text)[:40]} ({type(text).__name__}), expected text. Store it as a "
            f"string, or choose another column with --text-column (Columns(text=...))."
        )
    if not allow_empty and (not text or text.isspace()):
        raise DataError(f"{at}: empty text in column '{column}'. Fill it in, delete the row, or let such rows be "
                        "skipped with --empty skip (empty='skip').")
    if len(text) > MAX_TEXT:
        raise DataError(f"{at}: a text longer than {MAX_TEXT // 2**20} MiB. Shorten it or cut it into several rows.")
    check_characters(text, column, at)
    return text


def check_characters(text: str, column: str, at: str) -> None:
    """JSON can spell NUL, and half a character (``\\ud83d`` alone), which no tokenizer and no file takes."""
    if "\0" in text:
        raise DataError(f"{at}: NUL character in column '{column}'. Remove it.")
    if not text.isascii() and (half := SURROGATES.search(text)):
        raise DataError(
            f"{at}: half a surrogate pair (U+{ord(half[0]):04X}) in column '{column}'. Write the whole character, as "
            "UTF-8 or as both halves, or remove it."
        )
