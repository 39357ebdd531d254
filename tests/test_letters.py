# SPDX-License-Identifier: Apache-2.0
"""Look-alikes, keyboard neighbours and stop words."""

import string
import unicodedata
from importlib.resources import files
from pathlib import Path
from typing import get_args

import pytest

from dualmask.errors import OptionError
from dualmask.text.letters import HOMOGLYPHS, LETTERS, NEIGHBOURS, keyboard_neighbours
from dualmask.text.stop_words import StopWords, stop_words


def test_letters_are_the_52_of_ascii() -> None:
    assert len(LETTERS) == 52 and set(LETTERS) == set(string.ascii_lowercase) | set(string.ascii_uppercase)


def test_every_small_letter_digit_hyphen_and_apostrophe_has_one_look_alike() -> None:
    assert set(HOMOGLYPHS) == set(string.ascii_lowercase + string.digits + "-'") and len(HOMOGLYPHS) == 38
    assert len(set(HOMOGLYPHS.values())) == 38
    assert all(len(glyph) == 1 and glyph != letter for letter, glyph in HOMOGLYPHS.items())
    assert {letter for letter, glyph in HOMOGLYPHS.items() if glyph.isascii()} == {"0", "1", "'"}


@pytest.mark.parametrize(("letter", "name"), [
    ("a", "LATIN SMALL LETTER ALPHA"), ("b", "CYRILLIC CAPITAL LETTER SOFT SIGN"), ("e", "CYRILLIC SMALL LETTER IE"),
    ("f", "MATHEMATICAL MONOSPACE SMALL F"), ("k", "MATHEMATICAL BOLD ITALIC SMALL K"),
    ("m", "FULLWIDTH LATIN SMALL LETTER M"), ("n", "ARMENIAN SMALL LETTER VO"), ("x", "MULTIPLICATION SIGN"),
    ("z", "LATIN LETTER SMALL CAPITAL Z"), ("0", "LATIN CAPITAL LETTER O"), ("1", "LATIN SMALL LETTER L"),
    ("9", "BENGALI DIGIT SEVEN"), ("-", "MODIFIER LETTER MINUS SIGN"), ("'", "GRAVE ACCENT")])
def test_look_alikes_by_their_unicode_names(letter: str, name: str) -> None:
    assert unicodedata.name(HOMOGLYPHS[letter]) == name


def test_tables_can_not_be_changed() -> None:
    for table in (HOMOGLYPHS, NEIGHBOURS):
        with pytest.raises(TypeError):
            table["a"] = "b"  # type: ignore[index]


def test_neighbouring_keys_are_near() -> None:
    """At most one row and two columns away on the staggered keyboard, whose keys are 26."""
    rows = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
    place = {key: (number, column) for number, row in enumerate(rows) for column, key in enumerate(row)}
    assert set(NEIGHBOURS) == set(place)
    for key, beside in NEIGHBOURS.items():
        assert key not in beside and len(set(beside)) == len(beside) >= 2
        for other in beside:
            assert abs(place[key][0] - place[other][0]) <= 1 and abs(place[key][1] - place[other][1]) <= 2


def test_neighbours_keep_the_case() -> None:
    assert [keyboard_neighbours(key) for key in "qQg"] == ["was", "WAS", "rtyhbvd"]
    assert keyboard_neighbours("1") == keyboard_neighbours("é") == keyboard_neighbours("") == ""


def test_stop_word_lists() -> None:
    assert {name: len(stop_words(name)) for name in get_args(StopWords)} == {
        "nltk": 179, "textfooler": 266, "fgpm": 21, "none": 0}
    assert {"the", "don't", "weren't", "i", "ma"} <= stop_words("nltk") and "The" not in stop_words("nltk")
    assert {"whereafter", "the"} <= stop_words("textfooler")
    assert sorted(stop_words("nltk") - stop_words("textfooler")) == [
        "be", "because", "did", "do", "does", "doing", "each", "few", "further", "had", "has", "have", "having", "m",
        "ma", "own", "re", "should", "so", "some", "very", "will"]
    assert stop_words("fgpm") - stop_words("nltk") == set()
    everything = [word for name in get_args(StopWords) for word in stop_words(name)]
    assert all(word == word.strip().lower() and "#" not in word for word in everything)


@pytest.mark.parametrize("name", [name for name in get_args(StopWords) if name != "none"])
def test_every_shipped_list_names_its_source(name: str) -> None:
    text = files("dualmask").joinpath(f"assets/stop_words_{name}.txt").read_text(encoding="utf-8")
    first, *rest = text.splitlines()
    assert first.startswith("#") and "licence" in first.lower() and str(len(stop_words(name))) in first  # type: ignore[arg-type]
    words = [line for line in rest if not line.startswith("#")]
    assert len(words) == len(set(words)) and all(words)


@pytest.mark.parametrize(("name", "hint"), [
    ("textfoler", "did you mean 'textfooler'"), ("nltkk", "did you mean 'nltk'"), ("x", "known: fgpm, nltk, none")])
def test_an_unknown_list_is_named(name: str, hint: str) -> None:
    with pytest.raises(OptionError, match=f"unknown stop words '{name}'.*{hint}"):
        stop_words(name)  # type: ignore[arg-type]


@pytest.mark.shared
@pytest.mark.parametrize(("name", "file"), [
    ("nltk", "nltk_english_stopwords.txt"), ("textfooler", "textfooler_stopwords.txt")])
def test_lists_equal_their_sources(shared: Path, name: StopWords, file: str) -> None:
    assert stop_words(name) == set((shared / "lexical" / file).read_text(encoding="utf-8").split())
