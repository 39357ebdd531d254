# SPDX-License-Identifier: Apache-2.0
"""Characters that look like plain letters, or like nothing at all, written as plain letters; other scripts stay.

Inside and beside Latin words invisible characters go; full-width, mathematical and other styled letters and ligatures
become plain ones; strange white space becomes a space. Letters of other scripts, digits and signs become the Latin
letters that they look like only in a word that mixes Latin with another script, or whose Latin reading is known while
it is not itself. Accented letters are letters: "naïve", "Zürich" and "versión" stay, as far as this file goes.
Addresses keep their letters, and names of files and functions their digits and signs.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from dualmask.text.letters import HOMOGLYPHS
from dualmask.text.protection import ADDRESS, Protection

Known = Callable[[str], bool]  # of a word in lower case


class Normal(NamedTuple):
    """A text and, where it is not as it was written, the place that each of its characters comes from."""

    text: str
    places: list[int] | None


# Letters that look like Latin ones, each before its double; below come those that TextBugger writes.
_PAIRS = (
    # Cyrillic
    "\u0430a\u0435e\u043eo\u0440p\u0441c\u0443y\u0445x\u0456i\u0458j\u0455s\u04bbh\u0501d\u051bq\u051dw\u0475v"
    "\u04cfl\u0433r\u043ak\u043cm\u0442t\u043fn\u044cb\u0410A\u0412B\u0415E\u041aK\u041cM\u041dH\u041eO\u0420P"
    "\u0421C\u0422T\u0423Y\u0425X\u0406I\u0408J\u0405S\u050cG\u051cW\u04aeY"
    # Greek
    "\u03b1a\u03bfo\u03c1p\u03bdv\u03c4t\u03c5u\u03bak\u03b9i\u03c9w\u03b7n\u03b3y\u03c7x\u03b2b\u0391A\u0392B"
    "\u0395E\u0396Z\u0397H\u0399I\u039aK\u039cM\u039dN\u039fO\u03a1P\u03a4T\u03a5Y\u03a7X"
    # Armenian
    "\u0585o\u057du\u0578n\u0581g\u0570h\u0566q\u054fS\u0555O\u053cL"
    # Cherokee
    "\u13aaA\u13f4B\u13dfC\u13a0D\u13acE\u13c0G\u13bbH\u13abJ\u13e6K\u13deL\u13b7M\u13e2P\u13d2R\u13daS\u13a2T"
    "\u13e4V\u13d4W\u13c3Z"
    # Phonetic letters and small capitals
    "\u0251a\u0261g\u0269i\u0131i\u029fl\u0274n\u0280r\ua731s\u1d1bt\u1d20v\u1d21w\u1d22z\u0299b\u1d04c\u1d05d"
    "\u1d07e\u029ch\u1d0aj\u1d0bk\u1d0dm\u1d0fo\u1d18p\u1d1cu\u028fy\u026ai\u1d00a\ua730f\u0262g"
)
LOOK_ALIKES = {
    **dict(zip(_PAIRS[::2], _PAIRS[1::2], strict=True)),
    **{strange: letter for letter, strange in HOMOGLYPHS.items() if letter.isalpha()},
}
SIGNS = {"0": "o", "1": "li", "3": "e", "4": "a", "5": "s", "7": "t", "8": "b", "9": "g", "@": "a", "$": "s", "!": "i",
         "|": "l", "\u20ac": "e", "\u00a3": "l", "\u00d7": "x"}
_MARKS = {"\u02d7": "-", "\u2010": "-", "\u2011": "-", "`": "'", "\u00b4": "'", "\u02bc": "'", "\uff07": "'"}
# Letters that Unicode doesn't take apart, each before the plain one
_STROKED = "\u00f8o\u00d8O\u0142l\u0141L\u0111d\u0110D\u0127h\u0126H\u0167t\u0166T\u0131i"
_STROKES = dict(zip(_STROKED[::2], _STROKED[1::2], strict=True))
_STYLES = ("<wide>", "<narrow>", "<font>", "<circle>", "<square>", "<super>", "<sub>", "<compat>")
_SPACES = re.compile(r"[\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\x0b\x0c\x1c-\x1f\x85]")
# And letters and patterns of dots without any ink
_SELECTOR = re.compile(r"[\u034f\u115f\u1160\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_ALPHABETS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "GEORGIAN")  # that need no joiners
_LETTER_EMOJI = "\u2139\u24c2"  # i and M, if a selector follows
_TAGS = ("\U000e0020", "\U000e007f")  # the letters of a flag of a region, from and to
_LEET = re.escape("".join(SIGNS))
# A text in plain ASCII has nothing to do unless it holds control characters, or a letter beside a digit or sign
_CONTROL = re.compile(r"[^\t\n\r -~]")
_SIGN = re.compile(rf"[{_LEET}`](?:(?=[A-Za-z])|(?<=[A-Za-z].))")
_CHUNK = re.compile(r"\S+")
_CORE = re.compile(rf"(?:[^\W_]|[{_LEET}{re.escape(''.join(_MARKS))}'\u2019])+")
LAST_LATIN = "\u017f"  # of the letters that European languages add to the plain ones
MOST_SIGNS = 3  # of digits and signs in one word that are read as letters


def normalised(text: str, is_known: Known) -> Normal:
    """The text in plain letters; `places` is None where nothing had to be done."""
    strange = not text.isascii() or _CONTROL.search(text) is not None
    if not strange and not _SIGN.search(text):
        return Normal(text, None)
    latin = _is_mostly_latin(text)
    letters, places = _plain_characters(text, latin=latin) if strange else (list(text), list(range(len(text))))
    joined = "".join(letters)
    addresses, names = Protection(joined, ADDRESS), Protection(joined)
    for chunk in _CHUNK.finditer(joined):
        if not chunk[0].isascii() or _SIGN.search(chunk[0]):
            for start, end in (core.span() for core in _CORE.finditer(joined, *chunk.span())):
                if not addresses.guards(start, end):
                    code = _is_code(joined, (start, end), names)
                    letters[start:end] = _read(joined[start:end], is_known, latin=latin, code=code)
    new = "".join(letters)
    return Normal(text, None) if new == text else Normal(new, places)


def _is_mostly_latin(text: str) -> bool:
    plain = text if text.isascii() else "".join(map(_unstyled, text))
    return 2 * sum(map(_is_latin, plain)) > sum(map(str.isalpha, plain))


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
    for place, character in enumerate(_composed(text, latin=latin)):
        if not character or (is_invisible(character) and not _belongs(text, place, latin=latin)
                             and not (places[-1:] == [place - 1] and _is_of_flag(text, place))):
            continue
        emoji = character in _LETTER_EMOJI and _is_emoji(text, place)
        plain = " " if _SPACES.match(character) else character if emoji else _unstyled(character)
        letters += plain
        places += [place] * len(plain)
    return letters, places


def _composed(text: str, *, latin: bool) -> list[str]:
    """Characters with the accents behind them, as one where there is such a letter; nothing in the place of these.

    Of Latin letters, styled ones, and in `latin` texts look-alikes.
    """
    found, base = list(text), 0
    for place in range(1, len(found)):
        if not unicodedata.combining(found[place]):
            base = place
        elif _is_latin(_unstyled(found[base])[0]) or (latin and found[base] in LOOK_ALIKES):
            found[base], found[place] = unicodedata.normalize("NFC", found[base] + found[place])[0], ""
    return found


@lru_cache(maxsize=1 << 12)
def is_invisible(character: str) -> bool:
    """Zero-width, formatting and control characters, and selectors of a glyph's variant; no white space."""
    if character.isspace():
        return False
    return unicodedata.category(character) in ("Cc", "Cf") or _SELECTOR.match(character) is not None


def _belongs(text: str, place: int, *, latin: bool) -> bool:
    """Whether an invisible character does something here: in emoji and in scripts that need joiners.

    Alphabets don't, but their own texts stay as they are: these are not `latin`.
    """
    before = text[place - 1:place] if place else ""
    sides = before, text[place + 1:place + 2]
    latin = latin or any(side.isascii() and side.isalpha() for side in sides)
    if text[place] == "\ufe0f" and before and before in _LETTER_EMOJI:
        return _is_emoji(text, place - 1)
    return any(side and not side.isascii() and not is_invisible(side) and not _is_latin(side)
               and not (latin and is_of_alphabet(side)) and _unstyled(side) == side for side in sides)


def _is_emoji(text: str, place: int) -> bool:
    """Whether a letter in a frame is a picture: by its selector, and since it stands in no word."""
    around = text[max(0, place - 1):place] + text[place + 2:place + 3]
    return text[place + 1:place + 2] == "\ufe0f" and not any(map(str.isalnum, around))


def _is_of_flag(text: str, place: int) -> bool:
    """Whether a character spells the region of a flag, given that the one before it stays."""
    before = text[place - 1]
    return _TAGS[0] <= text[place] <= _TAGS[1] and (
        _TAGS[0] <= before <= _TAGS[1] or unicodedata.category(before) == "So")


@lru_cache(maxsize=1 << 12)
def _unstyled(character: str) -> str:
    """A full-width, mathematical or otherwise styled Latin letter, or a ligature, as plain letters."""
    style = unicodedata.decomposition(character).partition(" ")[0]
    if style not in _STYLES:
        return character
    plain = unicodedata.normalize("NFKC", character)
    single = len(plain) == 1 and (plain.isalpha() or style == "<wide>")
    ligature = "\ufb00" <= character <= "\ufb06"
    return plain if plain.isascii() and (single or ligature) else character


def unaccented(word: str) -> str:
    """Latin letters without accents and strokes, of the same length; whatever has none stays."""
    bare = (unicodedata.normalize("NFD", letter)[0] if _is_latin(letter) else letter for letter in word)
    return "".join(_STROKES.get(letter, letter) for letter in bare)


def _read(word: str, is_known: Known, *, latin: bool, code: bool) -> str:
    """A word of the same length in Latin letters, or as it was. Digits and signs in `code` are meant."""
    if is_known(word.lower()) or word.isdecimal() or (code and word.isascii()):
        return word
    plain = "".join(_MARKS.get(letter, letter) for letter in word)
    if not plain.isascii():
        reading = "".join(LOOK_ALIKES.get(letter, letter) for letter in plain)
        whole = unaccented(reading).isascii()
        if (_is_mixed(plain) and (whole or latin)) or (whole and latin and is_known(reading.lower())):
            plain = reading
    return plain if code else _without_signs(plain, is_known)


def _is_mixed(word: str) -> bool:
    """Whether plain letters stand beside look-alikes; the dotless i is one of Turkish beside the others."""
    return any(letter.isascii() and letter.isalpha() for letter in word) and any(
        letter in LOOK_ALIKES for letter in word if letter != "\u0131")


@lru_cache(maxsize=1 << 12)
def _is_latin(character: str) -> bool:
    return character.isalpha() and unicodedata.name(character, "").startswith("LATIN")


@lru_cache(maxsize=1 << 12)
def is_of_alphabet(character: str) -> bool:
    return character in LOOK_ALIKES or (
        character.isalpha() and unicodedata.name(character, "").startswith(_ALPHABETS))


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
