# SPDX-License-Identifier: Apache-2.0
"""Where two texts differ, and how to show letters that nobody could tell or see otherwise."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import chain

from dualmask.text.words import Words

Span = tuple[int, int]  # start and end, in characters
Change = tuple[range, range]  # words of the text before, and what stands there afterwards
MOST_WORDS = 3000  # that are compared one by one; beyond, whatever lies between the texts' common ends has changed
# A text may hold what moves the cursor, rings the bell or turns the writing round. Each is shown as one other
# character, so that the places of marks stay right.
INVISIBLE = (0x200B, 0x200E, 0x200F, 0x2028, 0x2029, 0x2060, 0xFEFF, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
SHOWN: Mapping[int, str] = {
    **{code: chr(0x2400 + code) for code in range(32)}, 0x7F: "\u2421", 0x09: " ", 0x0A: "\u21b5", 0x0D: " ",
    **dict.fromkeys(chain(range(0x80, 0xA0), range(0xD800, 0xE000), INVISIBLE), "\ufffd"),
}


def differences(before: str, after: str) -> tuple[list[Span], list[Span]]:
    """The runs of words that differ, in the one text and in the other; where only marks between words do, those."""
    old, new = Words(before), Words(after)
    head = same_start(old.words, new.words)
    tail = same_start(old.words[head:][::-1], new.words[head:][::-1])
    middle, other = old.words[head:len(old) - tail], new.words[head:len(new) - tail]
    if not middle and not other:
        return _between_words(before, after)
    changes = [("replace", 0, len(middle), 0, len(other))]
    if max(len(middle), len(other)) <= MOST_WORDS:
        changes = [change for change in SequenceMatcher(None, middle, other, autojunk=False).get_opcodes()
                   if change[0] != "equal"]
    return ([_place(old, head + start, head + end) for _, start, end, _, _ in changes if start < end],
            [_place(new, head + start, head + end) for _, _, _, start, end in changes if start < end])


def word_changes(before: list[str], after: list[str]) -> list[Change]:
    """Of texts of equal length place by place, unless matching words beyond their places leaves fewer changes."""
    head = same_start(before, after)
    tail = same_start(before[head:][::-1], after[head:][::-1])
    old, new = before[head:len(before) - tail], after[head:len(after) - tail]
    by_place = [(range(place, place + 1),) * 2 for place, pair in enumerate(zip(old, new, strict=False), start=head)
                if pair[0] != pair[1]] if len(old) == len(new) else None
    if max(len(old), len(new)) > MOST_WORDS:
        return by_place or [(range(head, head + len(old)), range(head, head + len(new)))]
    matched = [(range(head + i, head + j), range(head + k, head + n)) for kind, i, j, k, n
               in SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if kind != "equal"]
    fewer = by_place is not None and len(by_place) <= sum(max(map(len, change)) for change in matched)
    return by_place if fewer and by_place is not None else matched


def _place(words: Words, first: int, end: int) -> Span:
    return words.spans[first][0], words.spans[end - 1][1]


def _between_words(before: str, after: str) -> tuple[list[Span], list[Span]]:
    head = same_start(before, after)
    tail = same_start(before[head:][::-1], after[head:][::-1])
    old, new = ([(head, end)] if head < end else [] for end in (len(before) - tail, len(after) - tail))
    return old, new


def same_start(one: Sequence[str], other: Sequence[str]) -> int:
    """How many of the first items are the same."""
    return next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
                min(len(one), len(other)))


def joined(spans: Iterable[Span]) -> list[Span]:
    """Places in order; those that touch each other, such as the pieces of one word, are one."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = result[-1][0], max(end, result[-1][1])
        else:
            result.append((start, end))
    return result


def foreign(letter: str, known: str) -> bool:
    """A look-alike, or anything else outside ASCII that the other text does not have."""
    return not letter.isascii() and letter not in known
