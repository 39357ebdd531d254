# SPDX-License-Identifier: Apache-2.0
"""Letters that pass for one another: by their looks, or because their keys are neighbours."""

import string
from collections.abc import Iterator, Mapping
from types import MappingProxyType

LETTERS = string.ascii_letters  # 52, lower case first

# The 38 look-alikes of TextAttack's TextBugger, one for each plain character; capitals have none.
HOMOGLYPHS: Mapping[str, str] = MappingProxyType(dict(zip(
    "abcdefghijklmnopqrstuvwxyz0123456789-'",
    "\u0251\u042c\u03f2\u0501\u0435\U0001d68f\u0261\u0570\u0456\u03f3\U0001d48c\u217c\uff4d"  # a to m
    "\u0578\u043e\u0440\u051b\u2c85\u0455\U0001d69d\u057d\u0475\u051d\u00d7\u0443\u1d22"  # n to z
    "\u004f\u006c\u14bf\u01b7\u13ce\u01bc\u0431\U0001d7d5\u0222\u09ed"  # 0 to 9; "1" looks like "l", "0" like "O"
    "\u02d7\u0060",
    strict=True,
)))

# Keys beside each key, in TextAttack's order, which decides what a seeded draw picks. As there, not all are mutual.
NEIGHBOURS: Mapping[str, str] = MappingProxyType({
    "q": "was", "w": "qeasd", "e": "wsdfr", "r": "edfgt", "t": "rfghy",
    "y": "tghju", "u": "yhjki", "i": "ujklo", "o": "iklp", "p": "ol",
    "a": "qwszx", "s": "qweadzx", "d": "werfcxs", "f": "ertgvcd", "g": "rtyhbvd",
    "h": "tyugjbn", "j": "yuikmnh", "k": "uiolmj", "l": "iopk",
    "z": "asx", "x": "sdzc", "c": "xdfv", "v": "cfgb", "b": "vghn", "n": "bhjm", "m": "njk",
})


def keyboard_neighbours(character: str) -> str:
    """The letters around a letter on a QWERTY keyboard, in its own case; empty for anything that is no such key."""
    beside = NEIGHBOURS.get(character.lower(), "")
    return beside.upper() if character.isupper() else beside


def slips(word: str, *, keys: bool = True) -> Iterator[str]:
    """A letter left out, doubled, swapped with the next, a space before it and, if wanted, a key beside it."""
    for place, letter in enumerate(word):
        before, after = word[:place], word[place + 1:]
        yield before + after
        yield before + letter + letter + after
        yield before + after[:1] + letter + after[1:]
        if before:
            yield f"{before} {letter}{after}"
        for beside in keyboard_neighbours(letter) if keys else ():
            yield before + beside + after
            yield before + beside + letter + after
            yield before + letter + beside + after
