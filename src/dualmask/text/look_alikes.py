# SPDX-License-Identifier: Apache-2.0
"""Which characters pass for plain letters, which alphabet a letter is of, and what is behind a styled one."""

import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import NamedTuple

from dualmask.errors import ResourceError
from dualmask.system_errors import told_reason
from dualmask.text.letters import HOMOGLYPHS

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
ASSET = "confusables.txt"
_STYLES = ("<wide>", "<narrow>", "<font>", "<circle>", "<square>", "<super>", "<sub>", "<compat>")
# That need no joiners; of the first four whole words stand in texts, of the others hardly ever
_LIVING = ("CYRILLIC", "GREEK", "ARMENIAN", "GEORGIAN")
_ALPHABETS = (
    "LATIN", *_LIVING, "CHEROKEE", "COPTIC", "LISU", "WARANG CITI", "CARIAN", "LYCIAN", "OLD ITALIC", "ELBASAN",
    "DESERET", "OSAGE", "TIFINAGH", "CANADIAN SYLLABICS", "MIAO", "RUNIC")
LAST_LATIN = "\u017f"  # of the letters that European languages add to the plain ones


class Confusables(NamedTuple):
    """Characters that Unicode calls confusable with Latin letters, each with those that it may be, likeliest first."""

    letters: Mapping[str, str]  # of alphabets: beside a plain letter they are in disguise
    others: Mapping[str, str]  # signs, digits, letters of Europe's languages and of other scripts: they may be meant
    ambiguous: frozenset[str]  # styled letters that may be another inside a word: I is like l, a long s like f


def listed_confusables() -> dict[str, str]:
    """UTS #39's, character by character: the ASCII letter that each looks like."""
    try:
        lines = (resources.files("dualmask") / "assets" / ASSET).read_text(encoding="utf-8").splitlines()
        return {chr(int(code, 16)): letter for letter, *codes in map(str.split, lines) if letter != "#"
                for code in codes}
    except (OSError, ValueError) as error:
        raise ResourceError(f"the shipped list of look-alikes {ASSET} can't be read ({told_reason(error)}): install "
                            "dualmask again, or build it with tools/build_confusables.py.") from error


@lru_cache(maxsize=1)
def confusables() -> Confusables:
    """Those of the list that comes with the package; what our own table has, or Unicode takes apart, goes first."""
    letters = dict(LOOK_ALIKES)
    others: dict[str, str] = {}
    for character, letter in listed_confusables().items():
        styled = unstyled(character)
        own = LOOK_ALIKES.get(character) or (styled if styled.isascii() and styled.isalpha() else "")
        may_be = own or letter
        if letter.lower() != may_be.lower():
            may_be += letter
        elif own == styled:
            continue  # plain as soon as its style is gone
        elif not own and letter == "l":
            may_be += "i"  # l stands for all that is one stroke
        disguise = character.isalpha() and character > LAST_LATIN and (
            is_of_alphabet(character) or unicodedata.name(character, "").startswith("MATHEMATICAL"))
        (letters if own or disguise else others)[character] = may_be
    ambiguous = frozenset(one for one, may_be in letters.items() if len(may_be) > 1 and unstyled(one) != one)
    return Confusables(letters, others, ambiguous)


@lru_cache(maxsize=1 << 12)
def may_be_foreign(character: str) -> bool:
    """Whether a look-alike is rather of a language with another alphabet, if no plain letter stands beside it."""
    return character not in LOOK_ALIKES and unicodedata.name(character, "").startswith(_LIVING)


def is_mostly_latin(text: str) -> bool:
    plain = text if text.isascii() else "".join(map(unstyled, text))
    return 2 * sum(map(is_latin, plain)) > sum(map(str.isalpha, plain))


@lru_cache(maxsize=1 << 12)
def unstyled(character: str) -> str:
    """A full-width, mathematical or otherwise styled Latin letter, or a ligature, as plain letters."""
    style = unicodedata.decomposition(character).partition(" ")[0]
    if style not in _STYLES:
        return character
    plain = unicodedata.normalize("NFKC", character)
    single = len(plain) == 1 and (plain.isalpha() or style == "<wide>")
    ligature = "\ufb00" <= character <= "\ufb06"
    return plain if plain.isascii() and (single or ligature) else character


@lru_cache(maxsize=1 << 12)
def is_latin(character: str) -> bool:
    return character.isalpha() and unicodedata.name(character, "").startswith("LATIN")


@lru_cache(maxsize=1 << 12)
def is_of_alphabet(character: str) -> bool:
    return character in LOOK_ALIKES or (
        character.isalpha() and unicodedata.name(character, "").startswith(_ALPHABETS))
