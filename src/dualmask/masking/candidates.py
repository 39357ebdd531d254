# SPDX-License-Identifier: Apache-2.0
"""Which words may be masked at all."""

from importlib.resources import files
from string import punctuation
from typing import Literal

from dualmask.errors import OptionError
from dualmask.masking.words import keys_of_words
from dualmask.text.encoding import Encode

Skip = Literal["nothing", "punctuation", "stop-words"]
MARKS = [*punctuation, "\u2026", "\u2013", "\u2014", "\u2018", "\u2019", "\u201c", "\u201d"]


def spared_words(skip: Skip, protect: tuple[str, ...], encode: Encode) -> list[str]:
    """Words that are never masked: those to protect and, as asked, punctuation or function words with it."""
    for word in protect:
        if not len(keys_of_words([word], encode)):
            raise OptionError(f"protect={word}: expected single words that the tokenizer can spell; "
                              f"it reads this as {encode.tokenizer.tokenize(word)}. Give its parts one by one.")
    words = list(protect)
    if skip != "nothing":
        words += MARKS
    if skip == "stop-words":
        words += function_words()
    return words


def function_words() -> list[str]:
    text = files("dualmask").joinpath("assets/function_words.txt").read_text(encoding="utf-8")
    return [word for line in text.splitlines() if not line.startswith("#") for word in line.split()]
