# SPDX-License-Identifier: Apache-2.0
"""Characters made plain: what changes, what stays, and that every character knows where it comes from."""

from string import ascii_lowercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmask.text.letters import HOMOGLYPHS
from dualmask.text.lexicon import common_words
from dualmask.text.look_alikes import confusables, listed_confusables, unstyled
from dualmask.text.normalisation import is_disguised, normalised, unaccented


def is_known(word: str) -> bool:
    return common_words().zipfs.get(word, 0.0) >= 3.0


@pytest.mark.parametrize(("written", "read"), [
    ("m\u200bo\u200dv\u2060ie", "movie"), ("wo\u00adrd", "word"), ("ok\x00ay\x07", "okay"), ("fi\ufe0flm", "film"),
    ("\uff4d\uff4f\uff56\uff49\uff45", "movie"), ("\U0001d426\U0001d428vie", "movie"), ("\ufb01lm", "film"),
    ("a\u00a0b\u3000c\u2009d", "a b c d"), ("m\u043evie", "movie"), ("\u0455\u0441\u0435ne was fine", "scene was fine"),
    ("\u0441\u043e\u0440 shows up here", "cop shows up here"), ("\u029f\u1d0f\u1d20\u1d07", "love"),
    ("b4d m0vie gre4t", "bad movie great"), ("@wful $tupid", "awful stupid"), ("terribl3", "terrible"),
    ("terr\u0456\u200bble", "terrible"), ("m\u200d\u043evie is good", "movie is good"),  # invisible beside Cyrillic
    ("\u043f\u0440\u0438\u0432\u0435\u0442 film\u0435\u200br", "\u043f\u0440\u0438\u0432\u0435\u0442 filmer"),
    ("t\u0435rr\u0436ble", "terr\u0436ble"),
    ("\u0299\u1d00\u1d05 \u1d00\u1d21\ua730\u1d1c\u029f \u0262\u1d0f\u1d0f\u1d05", "bad awful good"),
    ("b\u0332\u0331a\u0332\u0331d\u0332\u0331", "\u1e07a\u1e0f"),
    ("b\u0430\u0332d", "bad"), ("\U0001d41b\u0332\U0001d41a\u0332\U0001d41d\u0332", "bad"),
    ("bori\u2800ng", "boring"), ("\u24c2\ufe0fovie", "Movie"), ("gre@t _b4d_", "great _bad_"),
    ("don`t", "don't"), ("z\u0335algo", "zalgo"), ("e\u00d7citing", "exciting"), ("cafe\u0301", "caf\u00e9"),
])
def test_tricks_are_seen_through(written: str, read: str) -> None:
    assert normalised(written, is_known).text == read


@pytest.mark.parametrize("text", [
    "plain text, with 3,000 words", "1st 2nd 90s mp3 B2B i18n p2p 4x4 $5 win2k x=3y",
    "\u0432\u0435\u0440\u0441\u0438\u044f", "\u0442\u043e\u0442 \u0441\u043e\u0440",
    "versi\u00f3n na\u00efve Z\u00fcrich E=mc\u00b2", "\u00bd \u2122 \u2163",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 and \u2764\ufe0f", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\u0928\u092e\u0938\u094d\u0924\u0947", "@live #l0ve a@b.com", "wow!! ok!", "tabs\tand\nlines\r\n", "", "k\u0131ta",
    "\u6620\u753b\u3068\u8a9e", "\u043f\u0440\u0438\u200b\u0432\u0435\u0442", "\u0437\u0430\u0301\u043c\u043e\u043a",
    "http://bit.ly/b4d f1lm.txt b4d() my_b4d_movie", "http://ex.com/m\u043evie", "b4d.example.com/gre4t",
    "\u2139\ufe0f \u24c2\ufe0f", "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f a flag",
    "\u2801\u2800\u2803 in dots",
])
def test_what_is_no_trick_stays(text: str) -> None:
    assert normalised(text, is_known) == (text, None)


@pytest.mark.parametrize("letter", [letter for letter in HOMOGLYPHS if letter.isalpha()])
def test_all_look_alikes_of_textbugger_are_undone(letter: str) -> None:
    word = next(word for word in common_words().zipfs if letter in word[1:-1] and len(word) > 4)
    assert normalised(word.replace(letter, HOMOGLYPHS[letter], 1), is_known).text == word


def test_every_character_that_unicode_calls_confusable_with_a_letter_is_undone() -> None:
    """All 1,225 of UTS #39, in the middle of words of letters that are otherwise plain."""
    table = confusables()
    pairs = [(letter, character) for character, letter in listed_confusables().items()]
    assert len(pairs) == 1225
    assert all(character in table.letters or character in table.others or unstyled(character).isascii()
               for _, character in pairs)
    common = [word for word in common_words().zipfs if is_known(word) and word.isalpha() and len(word) > 4]
    words = {letter: [word for word in common if letter in word[1:-1]][::300][:8] for letter in ascii_lowercase}
    left = {(character, word) for letter, character in pairs for word in words[letter.lower()]
            if normalised(disguised(word, letter.lower(), character), is_known).text.lower() != word}
    assert not left and all(words.values())


def disguised(word: str, letter: str, character: str) -> str:
    """The letter's first place inside the word taken by a character that looks like it."""
    place = word.index(letter, 1)
    return word[:place] + character + word[place + 1:]


@pytest.mark.parametrize("text", [
    "iPhone\u0647\u0627 are here", "n\u0966 such", "the Icelandic \u00fea\u00f0 and \u00feetta stay",
    "f(x\u2223y) = p(a\u2223b) here",
    "read \u05e1\u05d5\u05e1 and \u0627\u0647\u0648 aloud", "\u0966\u0967 or \u0e50 in the text",
    "the film \u3007 and C\u2228D",
    "\u03c3\u03bf\u03bd \u03c3\u03b1\u03c2 is Greek here", "\u0442\u044b \u0433\u0434\u0435 said the man",
    "\u0e14\u0e39film\u0e14\u0e35 a film",
    "Stra\u00dfe and \u017ei\u017eek", "\u4e8c\u5341 years and n\u3007",
])
def test_what_is_of_another_script_and_may_be_meant_stays(text: str) -> None:
    assert normalised(text, is_known) == (text, None)


@pytest.mark.parametrize(("written", "read"), [
    ("the fi\U0001d408m", "the film"), ("\U0001d408t is", "It is"), ("\U0001d408 am", "I am"),
    ("ca\u017fe \u017fafe", "case safe"), ("a \ua4d0\ua4ee\ua4d3 mo\ua4e6ie", "a BAD moVie"),
    ("the wo\u0966d", "the wood"),
    ("te\u0433r\U000118c3ble", "terrible"), ("terri\U000118c3ble", "terriible"),
    ("http://fi\U0001d408m.com/x", "http://fiIm.com/x"),
    ("mo\u2228ie \u2223ove", "movie love"),
])
def test_other_scripts_letters_in_a_word_are_read_as_latin(written: str, read: str) -> None:
    assert normalised(written, is_known).text == read


def test_a_word_that_is_known_stays_whatever_it_looks_like() -> None:
    assert normalised("b4d", lambda word: word in ("b4d", "bad")).text == "b4d"
    assert normalised("b4d", lambda word: False).text == "b4d"


@pytest.mark.parametrize(("word", "bare"), [
    ("na\u00efve", "naive"), ("\u0141\u00d3D\u0179", "LODZ"), ("sm\u00f8rrebr\u00f8d", "smorrebrod"),
    ("k\u0131\u015f", "kis"),
    ("stra\u00dfe", "stra\u00dfe"), ("\u0439\u043e\u0433", "\u0439\u043e\u0433"),
    ("\u6620\u753b", "\u6620\u753b"), ("film", "film"),
])
def test_accents_and_strokes_go(word: str, bare: str) -> None:
    assert unaccented(word) == bare


@pytest.mark.parametrize(("word", "disguised"), [
    ("terr\u0436ble", True), ("\u0432ad", True), ("terri\u0253le", True), ("film", False), ("caf\u00e9", False),
    ("M\u00fcller", False), ("stra\u00dfe", False), ("c\u0153ur", False), ("\u0432\u0435\u0440", False),
    ("iPhone\u304c", False), ("\u03c0r", False), ("\u021bar\u0103", False),
])
def test_letters_of_other_alphabets_are_a_disguise_beside_plain_ones(word: str, disguised: bool) -> None:
    assert is_disguised(word) is disguised


def test_look_alikes_go_beside_accents_too() -> None:
    assert normalised("m\u043evi\u00e9", is_known).text == "movi\u00e9"


def test_places_lead_back() -> None:
    found = normalised("a m\u200bovie \ufb01lm", is_known)
    assert found == ("a movie film", [0, 1, 2, 4, 5, 6, 7, 8, 9, 9, 10, 11])


ODD = "ab movie43@$!`\u200b\u00ad\u043e\u0441\uff4d\ufb01\u0301\u0335\u00e9\u0131\U0001f469\u200d\x00\n\ud800"


@given(st.text(st.sampled_from(ODD)))
def test_any_text_keeps_its_places_and_is_read_once(text: str) -> None:
    found = normalised(text, is_known)
    places = found.places if found.places is not None else list(range(len(text)))
    assert len(places) == len(found.text) and places == sorted(places)
    assert all(0 <= place < len(text) for place in places)
    if found.places is None:
        assert found.text == text
    assert all(found.text[at] == text[place] for at, place in enumerate(places) if text[place] in " \n")
