# SPDX-License-Identifier: Apache-2.0
"""Long texts as overlapping stretches, each short enough to be read whole: cut between words, by counts of tokens."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from dualmask.text.encoding import WORD, Encode
from dualmask.text.examples import Text
from dualmask.text.invisible import Normal, seen, visible
from dualmask.text.rewriting import parts as as_parts


class Stretch(NamedTuple):
    """A part of a text, which is an ordinary text itself, and where it begins there; of a pair the part of both."""

    text: Text
    shifts: tuple[int, int] = (0, 0)  # characters before it, in the first and in the second text


class Stretched(NamedTuple):
    """A text as its stretches."""

    parts: list[Stretch]
    whole: bool  # whether they reach the text's end; if not, there were more than were allowed


class Unit(NamedTuple):
    """What is not cut: a word or, of a word that is too long for a stretch, a piece."""

    start: int
    end: int
    tokens: int  # of the text up to here
    is_piece: bool = False


Count = Callable[[str], int]  # tokens of a text by itself


@dataclass(frozen=True)
class Limits:
    """How long stretches may be, and how many."""

    room: int  # tokens of the text in each, special ones not counted
    overlap: float  # share of a stretch that the next one repeats
    most: int  # stretches of a text
    visible: bool = False  # invisible characters take no room: they are left out before anything is read


def stretched(texts: Sequence[Text], encode: Encode, limits: Limits) -> list[Stretched]:
    """Each text's stretches; a text that fits is one, namely itself. Of a pair the longer text is cut.

    The shorter one stands in each stretch, whole if it leaves the longer one half of the room.
    """
    read = [visible(text) for text in texts] if limits.visible else texts
    return [_cut(text, encode, limits) if is_long else Stretched([Stretch(text)], whole=True)
            for text, is_long in zip(texts, encode.longer(read, limits.room), strict=True)]


def _cut(text: Text, encode: Encode, limits: Limits) -> Stretched:
    parts = [seen(part) if limits.visible else Normal(part, None) for part in as_parts(text)]
    starts = [encode.token_starts(part.text) for part in parts]

    def count(part: str) -> int:
        return len(encode.token_starts(part))

    if isinstance(text, str):
        spans, whole = _spans(parts[0], starts[0], limits, count)
        return Stretched([Stretch(text[start:end], (start, 0)) for start, end in spans] or [Stretch(text)], whole)
    longer = int(len(starts[1]) >= len(starts[0]))
    kept = min(len(starts[1 - longer]), limits.room // 2)
    spans, whole = _spans(parts[longer], starts[longer], replace(limits, room=limits.room - kept), count)
    found = [Stretch((text[0], text[1][start:end]), (0, start)) if longer else
             Stretch((text[0][start:end], text[1]), (start, 0)) for start, end in spans]
    return Stretched(found or [Stretch(text)], whole)


def _spans(
    read: Normal, starts: Sequence[int], limits: Limits, count: Count,
) -> tuple[list[tuple[int, int]], bool]:
    """Where stretches begin and end in the text as it is written, and whether the last one ends it.

    That one is as long as the others.
    """
    found, whole = _read_spans(read.text, starts, limits, count)
    if read.places is None:
        return found, whole
    return [(read.places[start], read.places[end - 1] + 1) for start, end in found], whole


def _read_spans(
    text: str, starts: Sequence[int], limits: Limits, count: Count,
) -> tuple[list[tuple[int, int]], bool]:
    units = list(_units(text, starts, limits.room))
    ends, befores = [unit.tokens for unit in units], [0, *(unit.tokens for unit in units)]
    found: list[tuple[int, int]] = []
    first = 0
    while units:
        begin = units[first].start
        # The white space before a word is a part of its token where bytes are read
        begin -= first > 0 and text[begin - 1].isspace()
        wanted = max(first, bisect_right(ends, befores[first] + limits.room) - 1)
        last = _last_that_fits(text, begin, units[first:wanted + 1], room=limits.room, count=count) + first
        found.append((begin, units[last].end))
        if last == len(units) - 1 or len(found) == limits.most:
            return found, last == len(units) - 1
        repeated = ends[last] - int(limits.overlap * limits.room)
        if last == wanted:
            repeated = min(repeated, ends[-1] - limits.room)
        first = min(last + 1, max(first + 1, bisect_left(befores, repeated)))
    return found, True


def _last_that_fits(text: str, begin: int, units: Sequence[Unit], *, room: int, count: Count) -> int:
    """The number of the last unit that a stretch from here has room for.

    Words have as many tokens by themselves; pieces of a word may have more than inside of it.
    """
    last = len(units) - 1
    if not (units[0].is_piece or units[-1].is_piece):
        return last
    while last and (over := count(text[begin:units[last].end]) - room) > 0:
        last = max(0, last - over)
    return last


def _units(text: str, starts: Sequence[int], room: int) -> Iterator[Unit]:
    """Words in order; one that has more tokens than there is room is parted between its tokens."""
    done = 0
    for word in WORD.finditer(text):
        tokens = bisect_left(starts, word.end())
        if tokens - done <= room:
            yield Unit(*word.span(), tokens)
        else:
            inside = (start for start in starts[done:tokens] if start > word.start())
            for start, end in pairwise(sorted({*word.span(), *inside})):
                yield Unit(start, end, bisect_left(starts, end), is_piece=True)
        done = tokens
