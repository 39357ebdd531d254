# SPDX-License-Identifier: Apache-2.0
"""Characters that look like plain letters, or like nothing at all, written as plain letters; other scripts stay.

Inside and beside Latin words invisible characters go; full-width, mathematical and other styled letters and ligatures
become plain ones; strange white space becomes a space. Letters of other scripts, digits and signs become the Latin
letters that they look like (Unicode's list of confusable characters, UTS #39, and our own) only in a word that mixes
Latin with another alphabet, or whose Latin reading is known while it is not itself. Accented letters are letters:
"naïve", "Zürich" and "versión" stay, as far as this file goes. Addresses keep their letters, and names of files and
functions their digits and signs.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import product

from dualmask.text.invisible import LETTER_EMOJI, Normal, is_latin_text, is_letter_emoji, unseen
from dualmask.text.look_alikes import (
    LAST_LATIN,
    LOOK_ALIKES,
    confusables,
    is_latin,
    is_of_alphabet,
    may_be_foreign,
    unstyled,
)
from dualmask.text.protection import ADDRESS, Protection

Known = Callable[[str], bool]  # of a word in lower case

SIGNS = {"0": "o", "1": "li", "3": "e", "4": "a", "5": "s", "7": "t", "8": "b", "9": "g", "@": "a", "$": "s", "!": "i",
         "|": "l", "\u20ac": "e", "\u00a3": "l", "\u00d7": "x"}
_MARKS = {"\u02d7": "-", "\u2010": "-", "\u2011": "-", "`": "'", "\u00b4": "'", "\u02bc": "'", "\uff07": "'"}
# Letters that Unicode doesn't take apart, each before the plain one
_STROKED = "\u00f8o\u00d8O\u0142l\u0141L\u0111d\u0110D\u0127h\u0126H\u0167t\u0166T\u0131i"
_STROKES = dict(zip(_STROKED[::2], _STROKED[1::2], strict=True))
_SPACES = re.compile(r"[\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\x0b\x0c\x1c-\x1f\x85]")
_LEET = re.escape("".join(SIGNS))
# A text in plain ASCII has nothing to do unless it holds control characters, or a letter beside a digit or sign
_CONTROL = re.compile(r"[^\t\n\r -~]")
_SIGN = re.compile(rf"[{_LEET}`](?:(?=[A-Za-z])|(?<=[A-Za-z].))")
_CHUNK = re.compile(r"\S+")
_CORE = re.compile(rf"(?:[^\W_]|[{_LEET}{re.escape(''.join(_MARKS))}'\u2019])+")
MOST_SIGNS = 3  # of digits and signs in one word that are read as letters


def normalised(text: str, is_known: Known) -> Normal:
    """The text in plain letters; `places` is None where nothing had to be done."""
    strange = not text.isascii() or _CONTROL.search(text) is not None
    if not strange and not _SIGN.search(text):
        return Normal(text, None)
    latin = is_latin_text(text)
    letters, places = _plain_characters(text, latin=latin) if strange else (list(text), list(range(len(text))))
    joined = "".join(letters)
    addresses, names = Protection(joined, ADDRESS), Protection(joined)
    if strange:
        _undisguise(letters, joined, is_known, addresses)
        joined = "".join(letters)
    for chunk in _CHUNK.finditer(joined):
        if not chunk[0].isascii() or _SIGN.search(chunk[0]):
            for start, end in (core.span() for core in _CORE.finditer(joined, *chunk.span())):
                if not addresses.guards(start, end):
                    code = _is_code(joined, (start, end), names)
                    letters[start:end] = _read(joined[start:end], is_known, latin=latin, code=code)
    new = "".join(letters)
    if strange and not confusables().ambiguous.isdisjoint(new):
        new = "".join(unstyled(letter) if letter in confusables().ambiguous else letter for letter in new)
    return Normal(text, None) if new == text else Normal(new, places)


def _is_code(text: str, span: tuple[int, int], names: Protection) -> bool:
    """Whether letters are a part of a tag, a name of a file or function, or of snake_case; a handle may be a trick."""
    start, end = span
    snake = text[end:end + 1] == "_" and text[end + 1:end + 2].isalnum()
    snake = snake or (text[max(0, start - 1):start] == "_" and text[max(0, start - 2):max(0, start - 1)].isalnum())
    return snake or any(text[guard] != "@" for guard in names.guards(start, end))


def _plain_characters(text: str, *, latin: bool) -> tuple[list[str], list[int]]:
    """Without invisible characters, styled letters as plain ones, one character each; and where each comes from."""
    letters: list[str] = []
    places: list[int] = []
    gone, ambiguous = unseen(text, latin=latin), confusables().ambiguous
    for place, character in enumerate(_composed(text, gone, latin=latin)):
        if not character or place in gone:
            continue
        emoji = character in LETTER_EMOJI and is_letter_emoji(text, place)
        meant = emoji or (character in ambiguous and _is_inside(text, place))
        plain = " " if _SPACES.match(character) else character if meant else unstyled(character)
        letters += plain
        places += [place] * len(plain)
    return letters, places


def _is_inside(text: str, place: int) -> bool:
    """Whether a character stands beside others of a word."""
    return any(map(str.isalnum, text[max(0, place - 1):place] + text[place + 1:place + 2]))


def _composed(text: str, gone: set[int], *, latin: bool) -> list[str]:
    """Characters with the accents behind them, as one where there is such a letter; nothing in the place of these.

    Of Latin letters, styled ones, and in `latin` texts look-alikes; what is `gone` stands between nothing.
    """
    found, base = list(text), 0
    for place in range(1, len(found)):
        if place in gone:
            continue
        if not unicodedata.combining(found[place]):
            base = place
        elif is_latin(unstyled(found[base])[0]) or (latin and found[base] in LOOK_ALIKES):
            found[base], found[place] = unicodedata.normalize("NFC", found[base] + found[place])[0], ""
    return found


def unaccented(word: str) -> str:
    """Latin letters without accents and strokes, of the same length; whatever has none stays."""
    bare = (unicodedata.normalize("NFD", letter)[0] if is_latin(letter) else letter for letter in word)
    return "".join(_STROKES.get(letter, letter) for letter in bare)


def _read(word: str, is_known: Known, *, latin: bool, code: bool) -> str:
    """A word of the same length in Latin letters, or as it was. Digits and signs in `code` are meant."""
    if is_known(word.lower()) or word.isdecimal() or (code and word.isascii()):
        return word
    plain = "".join(_MARKS.get(letter, letter) for letter in word)
    if not plain.isascii():
        reading = _in_latin(plain, confusables().letters, is_known)
        whole = unaccented(reading).isascii()
        if (_is_mixed(plain) and (whole or latin)) or (
                whole and latin and is_known(reading.lower()) and not any(map(may_be_foreign, plain))):
            plain = reading
    return plain if code else _without_signs(plain, is_known)


def _is_mixed(word: str) -> bool:
    """Whether plain letters stand beside look-alikes; the dotless i is one of Turkish beside the others."""
    return any(letter.isascii() and letter.isalpha() for letter in word) and any(
        letter in confusables().letters for letter in word if letter != "\u0131")


def _in_latin(word: str, table: Mapping[str, str], is_known: Known) -> str:
    """With the letters that the table has for its characters: the first ones, or those that make a known word."""
    choices = [table.get(letter, letter) for letter in word]
    first = "".join(letters[0] for letters in choices)
    several = sum(len(letters) > 1 for letters in choices)
    if not 0 < several <= MOST_SIGNS or is_known(first.lower()):
        return first
    readings = map("".join, product(*choices))
    return next((reading for reading in readings if is_known(reading.lower())), first)


def _undisguise(letters: list[str], text: str, is_known: Known, addresses: Protection) -> None:
    """Signs and letters of scripts that may be meant, as Latin ones where that makes a known word of a Latin one."""
    table = confusables()
    if table.others.keys().isdisjoint(text):
        return
    for start, end in (match.span() for match in _wide_core().finditer(text)):
        word = text[start:end]
        strange = sum(letter in table.others for letter in word)
        if not 0 < strange <= MOST_SIGNS or sum(letter.isascii() and letter.isalpha() for letter in word) < 2 * strange:
            continue
        reading = _in_latin(word, {**table.letters, **table.others}, is_known)
        if is_known(reading.lower()) and not is_known(word.lower()) and not addresses.guards(start, end):
            letters[start:end] = reading


@lru_cache(maxsize=1)
def _wide_core() -> re.Pattern[str]:
    """A word with whatever sign in it may be a letter."""
    signs = "".join(letter for letter in confusables().others if not letter.isalnum())
    return re.compile(rf"(?:[^\W_]|['\u2019{re.escape(signs)}])+")


def is_disguised(word: str) -> bool:
    """Whether plain letters stand beside those of another alphabet, or of none that Europe's languages have.

    Two letters are a formula rather than a word.
    """
    if word.isascii() or len(word) < 3 or not any(letter.isascii() and letter.isalpha() for letter in word):
        return False
    return any(letter > LAST_LATIN and is_of_alphabet(letter) for letter in unaccented(word))


def _without_signs(word: str, is_known: Known) -> str:
    """Digits and signs inside a word as the letters that they look like, if that gives a known word ("b4d").

    At either end they may be a number or a currency: there they are read as letters in words of five or more only.
    """
    core = word.rstrip("!'")
    signs = [place for place, letter in enumerate(core) if letter in SIGNS]
    edges = {0, len(core) - 1} & set(signs)
    if core[:1] == "@" and is_known(core[1:].lower()):
        return word  # a handle
    if not 0 < len(signs) <= MOST_SIGNS or 2 * len(signs) > len(core) or (edges and len(core) < 5):
        return word
    for letters in product(*(SIGNS[core[place]] for place in signs)):
        reading = list(core)
        for place, letter in zip(signs, letters, strict=True):
            reading[place] = letter
        if is_known("".join(reading).lower()):
            return "".join(reading) + word[len(core):]
    return word
