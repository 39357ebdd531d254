# SPDX-License-Identifier: Apache-2.0
"""Words whose letters stand apart, with signs or spaces between all of them ("i.d.i.o.t", "a n  i d i o t").

Abbreviations are written so as well: three and four letters must be a common word, and in capitals, or with a full
stop behind them, they are initials. Where words run together the likeliest row of words is read.
"""

import re
from collections.abc import Callable, Iterator
from itertools import groupby, islice, pairwise
from math import inf
from typing import NamedTuple

from dualmask.text.disguises import COMMON, FREQUENT, is_clear
from dualmask.text.lexicon import UPPER, Figures, case_of, plain
from dualmask.text.protection import ADDRESS, Protection

BETWEEN = "-._*/|+~,^:;=#'\u2019\\\u00b7\u2022"  # signs, up to three of which may stand between two letters
LONGEST_WORD = 24  # letters of a word in a row of words
BY_SIGNS, BY_SPACES = "letters parted by signs", "letters parted by spaces"
_SIGN = rf"[{re.escape(BETWEEN)}]"
_GAP = rf" {{0,2}}+{_SIGN}{{0,3}}+ {{0,2}}+"
_LETTER = r"[^\W_](?![^\W_])"
# Possessive: whatever matched is never looked at again, so that time stays linear in the length
ROW = re.compile(rf"(?<![^\W_]){_LETTER}(?:{_GAP}{_LETTER}){{2,}}+")
# What letters with spaces between them leave, with signs behind each, or with signs by themselves: most texts have none
_END, _MARKS = rf"{_SIGN}{{0,3}}+", rf"{_SIGN}{{1,3}}+"
TRACE = re.compile(rf" (?:[^\W_]{_END} {{1,4}}[^\W_]{_END}|{_MARKS} {{1,2}}[^\W_] {{1,2}}{_MARKS}) ")

Readable = Callable[[str], bool]  # of letters in one piece


class Parted(NamedTuple):
    """Letters in one piece, or several with spaces between them, and the place that each character comes from."""

    form: str
    places: tuple[int, ...]
    why: str


def parted_letters(text: str, figures: Figures, is_readable: Readable) -> Iterator[Parted]:
    """Rows of letters of a text that make words; those of addresses stay."""
    addresses: Protection | None = None
    for match in ROW.finditer(text):
        addresses = addresses or Protection(text, ADDRESS)
        if addresses.guards(*match.span()):
            continue
        rows = list(_pieces(text, [place for place in range(*match.span()) if text[place].isalnum()]))
        words = len(rows) > 1 and match[0].replace(" ", "").isalnum() and all(
            _may_stand(plain(_letters(text, row)), figures) for row in rows)
        for row in rows:
            if words and len(row) > 1:  # with more space between words than in them
                yield Parted(_letters(text, row), tuple(row), BY_SPACES)
            elif (found := _read(text, row, figures, is_readable)) is not None:
                yield found


def _letters(text: str, row: list[int]) -> str:
    return "".join(text[place] for place in row)


def _is_glued(text: str, row: list[int]) -> bool:
    """Whether signs part it from other letters as well: then it may be a piece of a name."""
    before, behind = text[max(0, row[0] - 2):row[0]], text[row[-1] + 1:row[-1] + 3][::-1]
    return any(len(beside) == 2 and beside[1] in BETWEEN and beside[0].isalnum() for beside in (before, behind))


def _pieces(text: str, places: list[int]) -> Iterator[list[int]]:
    """The row cut where what stands between letters changes: a letter between two pieces is the longer one's."""
    gaps = [text[one + 1:other] for one, other in pairwise(places)]
    pieces: list[tuple[int, int, int]] = []  # gaps, negative; how wide; the first letter
    start = 0
    for (_, width), alike in groupby(gaps, key=_kind):
        number = len(list(alike))
        pieces.append((-number, width, start))
        start += number
    taken: set[int] = set()
    rows = []
    for number, _, start in sorted(pieces):
        row = [place for place in places[start:start - number + 1] if place not in taken]
        taken.update(row)
        rows += [row] if row else []
    yield from sorted(rows)


def _kind(gap: str) -> tuple[str, int]:
    """Spaces, so many of them, or signs with spaces beside them or without."""
    return ("spaces", len(gap)) if gap.isspace() else ("apart" if " " in gap else "signs", 0)


def _read(text: str, row: list[int], figures: Figures, is_readable: Readable) -> Parted | None:
    form = _letters(text, row)
    if len(form) < (4 if _is_glued(text, row) else 3):
        return None
    between = text[row[0] + 1:row[1]]
    signs = not between.isspace()
    behind = text[row[-1] + 1:row[-1] + 2]
    if form.isalpha() and is_clear(plain(form), figures):
        ordinary = _is_ordinary(form, figures, stopped="." in between and behind == ".") if signs else len(form) > 3
        words = [form] if ordinary else []
    elif is_readable(form):
        words = [form]
    else:
        words = _row_of_words(form, figures) if form.isascii() and len(form) > (4 if signs else 3) else []
    if not words:
        return None
    places: list[int] = []
    rest = iter(row)
    for word in words:
        if places:
            places.append(places[-1] + 1)  # of the space that is read before it
        places += islice(rest, len(word))
    return Parted(" ".join(words), tuple(places), BY_SIGNS if signs else BY_SPACES)


def _is_ordinary(form: str, figures: Figures, *, stopped: bool) -> bool:
    """Whether letters with signs between them are rather a word than an abbreviation or a list."""
    loud, zipf = case_of(form) == UPPER, figures.zipf(plain(form))
    if len(form) > 4:
        return True
    if len(form) == 4:
        return not stopped and (zipf >= COMMON or (zipf >= FREQUENT - 1 and not loud))
    return zipf >= COMMON and not loud and not stopped


def _row_of_words(form: str, figures: Figures) -> list[str]:
    """The likeliest words that make these letters: one of three letters at least among them, short ones common."""
    lower = plain(form)
    best: list[tuple[float, int]] = [(0.0, 0)]  # of so many letters: ln P, and where the last word begins
    for end in range(1, len(lower) + 1):
        found = (-inf, 0)
        for start in range(max(0, end - LONGEST_WORD), end):
            word = lower[start:end]
            if best[start][0] > found[0] and _may_stand(word, figures):
                found = max(found, (best[start][0] + figures.log_probability(word), start))
        best.append(found)
    if best[-1][0] == -inf:
        return []
    cuts = [len(lower)]
    while cuts[-1]:
        cuts.append(best[cuts[-1]][1])
    cuts.reverse()
    words = [form[start:end] for start, end in pairwise(cuts)]
    return words if max(map(len, words)) > 2 else []


def _may_stand(word: str, figures: Figures) -> bool:
    if len(word) == 1:
        return word in "ai"
    return figures.zipf(word) >= COMMON if len(word) < 4 else word in figures.vocabulary and is_clear(word, figures)
