# SPDX-License-Identifier: Apache-2.0
"""Characters that nobody sees, and texts without those of them that do nothing.

They do something in emoji, in flags and in scripts that need joiners: there they stay. Words that are made of nothing
else go with the white space behind them, wherever they stand: two texts that look alike are one text.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from dualmask.text.examples import Text
from dualmask.text.look_alikes import is_latin, is_mostly_latin, is_of_alphabet, unstyled

# Unicode's property Default_Ignorable_Code_Point: joiners, fillers, selectors, tags and what is reserved for more
_IGNORABLE = ("\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
              "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff")
# Control characters but white space, the other characters for formatting, and a pattern of dots without any
_CONTROL = ("\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\ufff9-\ufffb\U000110bd"
            "\U000110cd\U00013430-\U0001343f\u2800")
_RUN = re.compile(f"[{_IGNORABLE}{_CONTROL}]+")
_WORD = re.compile(rf"(?<!\S){_RUN.pattern}(?!\S)")  # of nothing that could be seen
HIDDEN = "\ue000"  # what a rewriting writes for a word that is to be a mask; of no use in texts, which lose it
_BLANK = re.compile(f"[{_IGNORABLE}{_CONTROL}{HIDDEN}]+")
_TAGS = ("\U000e0020", "\U000e007f")  # the letters of a flag of a region, from and to
_ACCENTS = ("\u0300", "\u036f")  # of alphabets, written behind their letters
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")  # of a glyph's variant, behind it
_PUNCTUATION_EMOJI = "\u203c\u2049\u3030\u303d"  # punctuation that is a picture, if a selector follows
_UNJOINED = ("CJK ", "HIRAGANA ", "KATAKANA ", "HANGUL SYLLABLE ")  # letters that nothing joins or parts
_NOTATION = re.compile("[\u2800-\u28ff\U0001d100-\U0001d1ff]")  # Braille and music: signs with blanks of their own
LETTER_EMOJI = "\u2139\u24c2"  # i and M, if a selector follows


class Normal(NamedTuple):
    """A text and, where it is not as it was written, the place that each of its characters comes from."""

    text: str
    places: list[int] | None


def visible(text: Text) -> Text:
    """The text without invisible characters that do nothing; the very text where there are none."""
    if isinstance(text, str):
        return seen(text).text
    return seen(text[0]).text, seen(text[1]).text


def seen(text: str) -> Normal:
    """The same, with the places that its characters come from."""
    if not _RUN.search(text) or not (gone := unseen(text, latin=is_latin_text(text))):
        return Normal(text, None)
    places = [place for place in range(len(text)) if place not in gone]
    return Normal("".join(text[place] for place in places), places)


def unseen(text: str, *, latin: bool) -> set[int]:
    """The places of invisible characters that do nothing, and of the white space that words of them leave over."""
    gone: set[int] = set()
    for word in _WORD.finditer(text):
        gone.update(range(*word.span()))
        gone.add(_space_beside(text, word.span(), gone))
    for run in _RUN.finditer(text):
        start, end = run.span()
        if start in gone:
            continue
        places: Iterable[int] = range(start, end)
        beside = text[max(0, start - 1):start] + text[end:end + 1]
        near_latin = latin or any(side.isascii() and side.isalpha() for side in beside)
        if end - start > 2 and not any(_TAGS[0] <= letter <= _TAGS[1] for letter in run[0]):
            gone.update(range(start + 1, end - 1))  # invisible on both sides
            places = (start, end - 1)
        for place in places:
            flag = place > 0 and place - 1 not in gone and _is_of_flag(text, place)
            if not flag and not _belongs(text, place, latin=near_latin):
                gone.add(place)
    return gone


def _space_beside(text: str, span: tuple[int, int], gone: set[int]) -> int:
    """The white space behind a word or, at the end of a text, the last before it that is not gone yet."""
    start, end = span
    if end < len(text):
        return end
    return next((place for place in range(start - 1, -1, -1) if place not in gone), start)


def is_latin_text(text: str) -> bool:
    """Whether most of the letters that can be seen are Latin ones."""
    return is_mostly_latin(_RUN.sub("", text))


def is_invisible(character: str) -> bool:
    """Zero-width, formatting and control characters, selectors of a glyph's variant, fillers; no white space."""
    return _RUN.fullmatch(character) is not None


def is_blank(word: str) -> bool:
    """Whether nothing of a word can be seen, or is read in any case."""
    return _BLANK.fullmatch(word) is not None


def _belongs(text: str, place: int, *, latin: bool) -> bool:
    """Whether an invisible character does something here: in emoji and in scripts that need joiners.

    Alphabets don't, but their own texts stay as they are: these are not `latin`. Beside a sign or an ideograph only a
    selector does something, and what joins two pictures.
    """
    before = text[place - 1:place] if place else ""
    sides = before, text[place + 1:place + 2]
    if before.isascii() and sides[1].isascii():
        return False
    if text[place] == "\ufe0f" and before and before in LETTER_EMOJI:
        return is_letter_emoji(text, place - 1)
    return any(side and not side.isascii() and not side.isspace() and not is_invisible(side) and not is_latin(side)
               and not _ACCENTS[0] <= side <= _ACCENTS[1] and not (latin and is_of_alphabet(side))
               and unstyled(side) == side and (not _is_sign(side) or _is_of_sign(text, place)) for side in sides)


def _is_sign(character: str) -> bool:
    """Punctuation, pictures, symbols, numbers such as a half, ideographs: nothing that joiners or blanks change."""
    kind = unicodedata.category(character)
    return not _NOTATION.match(character) and (
        kind[0] in "PS" or kind == "No" or unicodedata.name(character, "").startswith(_UNJOINED))


def _is_of_sign(text: str, place: int) -> bool:
    """Whether an invisible character selects how the sign before it looks, or joins two pictures."""
    before, behind = text[max(0, place - 1):place], text[place + 1:place + 2]
    if _SELECTORS.match(text[place]):
        return before != "" and _is_sign(before) and (
            before in _PUNCTUATION_EMOJI or unicodedata.category(before)[0] != "P")
    if before == "\ufe0f":
        before = text[max(0, place - 2):place - 1]
    return text[place] == "\u200d" and _is_picture(before) and _is_picture(behind)


def _is_picture(character: str) -> bool:
    return character != "" and unicodedata.category(character)[0] == "S" and not is_invisible(character)


def is_letter_emoji(text: str, place: int) -> bool:
    """Whether a letter in a frame is a picture: by its selector, and since it stands in no word."""
    around = text[max(0, place - 1):place] + text[place + 2:place + 3]
    return text[place + 1:place + 2] == "\ufe0f" and not any(map(str.isalnum, around))


def _is_of_flag(text: str, place: int) -> bool:
    """Whether a character spells the region of a flag, given that the one before it stays."""
    before = text[place - 1]
    return _TAGS[0] <= text[place] <= _TAGS[1] and (
        _TAGS[0] <= before <= _TAGS[1] or unicodedata.category(before) == "So")
