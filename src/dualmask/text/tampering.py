# SPDX-License-Identifier: Apache-2.0
"""Texts as an attack might leave them, at random: words exchanged for near ones, or misspelt. For training."""

from collections.abc import Callable
from functools import lru_cache
from random import Random
from string import ascii_lowercase

from dualmask.text.examples import Text
from dualmask.text.stop_words import stop_words
from dualmask.text.substitutes import rewritten
from dualmask.text.synonyms import shipped_synonyms

Change = Callable[[str, Random], str]


def tampered(text: Text, rate: float, seed: int, change: Change) -> Text:
    """With this chance for each word to be changed."""
    if not rate:
        return text
    draw = Random(seed)
    return rewritten(text, lambda word: change(word, draw) if draw.random() < rate else word)


def swapped(word: str, draw: Random) -> str:
    """Any of its neighbours in the shipped table."""
    near = neighbours(word)
    return draw.choice(near) if near else word


@lru_cache(maxsize=1 << 17)
def neighbours(word: str) -> tuple[str, ...]:
    """None for stop words, which attacks leave alone."""
    if word in stop_words("textfooler"):
        return ()
    return tuple(near for near, _ in shipped_synonyms().neighbours(word))


def misspelt(word: str, draw: Random) -> str:
    """One letter left out, added, exchanged for another or swapped with the next; words of three letters or more."""
    if len(word) < 3:
        return word
    place, letter = draw.randrange(len(word)), draw.choice(ascii_lowercase)
    before, here, after = word[:place], word[place], word[place + 1:]
    return draw.choice((before + after, before + letter + here + after, before + letter + after,
                        before + after[:1] + here + after[1:]))
