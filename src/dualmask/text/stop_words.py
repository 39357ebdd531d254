# SPDX-License-Identifier: Apache-2.0
"""Words that attacks leave alone. The lists of the papers differ, and with them the results, so each has its name."""

from functools import lru_cache
from importlib.resources import files
from typing import Literal, get_args

from dualmask.errors import OptionError, did_you_mean

StopWords = Literal["nltk", "textfooler", "fgpm", "none"]


@lru_cache(maxsize=8)
def stop_words(name: StopWords) -> frozenset[str]:
    """A named list: NLTK's 179 words, TextFooler's 266, FGPM's 21, or no word at all. All are in lower case."""
    if name not in get_args(StopWords):
        raise OptionError(f"unknown stop words '{name}'{did_you_mean(str(name), get_args(StopWords))}")
    if name == "none":
        return frozenset()
    lines = files("dualmask").joinpath(f"assets/stop_words_{name}.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))
