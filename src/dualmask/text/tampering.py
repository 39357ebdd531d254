# SPDX-License-Identifier: Apache-2.0
"""What attackers put in the place of a word: its near ones."""

import re
from collections.abc import Iterator
from functools import lru_cache

from dualmask.text.stop_words import stop_words
from dualmask.text.synonyms import shipped_synonyms
from dualmask.text.wordnet import load_wordnet
from dualmask.text.words import in_case_of

_RUN = re.compile(r"[^\W\d_]+")


def exchanged(word: str, sources: tuple[str, ...] = ("shipped",)) -> Iterator[tuple[str, str]]:
    """A white-space word with each neighbour of its longest run of letters in that one's place; and that neighbour."""
    run = max(_RUN.finditer(word), key=lambda run: len(run[0]), default=None)
    if run is not None:
        before, after = word[:run.start()], word[run.end():]
        for near in neighbours(run[0].lower(), sources):
            yield before + (written := in_case_of(near, run[0])) + after, written


@lru_cache(maxsize=1 << 17)
def neighbours(word: str, sources: tuple[str, ...]) -> tuple[str, ...]:
    """In the shipped table, and in WordNet if it is a source; none for stop words, which attacks leave alone."""
    if word in stop_words("textfooler"):
        return ()
    found = [near for near, _ in shipped_synonyms().neighbours(word)] if "shipped" in sources else []
    if "wordnet" in sources:
        found += [name for name in map(str.lower, load_wordnet().synonyms(word)) if name.isalpha() and name != word]
    return tuple(dict.fromkeys(found))
