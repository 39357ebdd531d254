# SPDX-License-Identifier: Apache-2.0
"""Characters that nobody sees: which they are, where they stay, and that places in a text stay true beside them."""

import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
import regex
from attack_stand_ins import tiny_classifier
from hypothesis import example, given
from hypothesis import strategies as st
from test_ddm_restore import made

from dualmask.attacks.hidden import origins
from dualmask.classifier import DefendedClassifier
from dualmask.display import distrusted
from dualmask.text.encoding import LONGEST, Encode
from dualmask.text.examples import Dataset
from dualmask.text.invisible import HIDDEN, is_invisible, seen, visible
from dualmask.text.substitutes import rewritten

NAMED = ["\u200b", "\u200d", "\u2060", "\u00ad"]
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
FLAG = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
TEXT = "the story was terri ble and the actress was stupid ."


def test_they_are_unicodes_default_ignorables_and_what_formats_or_controls() -> None:
    every = "".join(map(chr, range(0x110000)))
    ignorable = set(regex.findall(r"\p{Default_Ignorable_Code_Point}", every))
    formats = {letter for letter in every if unicodedata.category(letter) in ("Cc", "Cf") and not letter.isspace()}
    later = set(regex.findall(r"\p{Block=Egyptian_Hieroglyph_Format_Controls}", every))  # than Python's Unicode
    found = {letter for letter in every if is_invisible(letter)}
    assert ignorable | formats <= found <= ignorable | formats | later | {"\u2800"}  # Braille without dots


@pytest.mark.parametrize(("written", "text"), [
    ("\u200b \u200b the movie", "the movie"), ("the \u2060 movie", "the movie"),
    ("the movie \u200d \u200d", "the movie"),
    ("the mo\u200bvie\u00ad was", "the movie was"), ("\u200b", ""), ("\u3164\u2003\u3164\u2003dull", "dull"),
    ("the\n\u200b\nmovie", "the\nmovie"), ("a  \u200b b", "a  b"), ("dull\x01 \x02 plot", "dull plot"),
    ("\ufe0f \u180b \U000e0041 bad", "bad"), ("cafe\u200b\u0301", "cafe\u0301"),
    (f"fun {FAMILY} {FLAG} \u2764\ufe0f \u200d", f"fun {FAMILY} {FLAG} \u2764\ufe0f"),
    ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u200c", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"),
    ("\u0915\u094d\u200d\u0937 film", "\u0915\u094d\u200d\u0937 film"),
])
def test_what_nobody_sees_goes_and_what_does_something_stays(written: str, text: str) -> None:
    found = seen(written)
    assert (found.text == visible(written) == text and found.places is not None) or written == text
    assert found.places is None or "".join(written[place] for place in found.places) == text
    assert visible((written, written)) == (text, text)


STAY = {  # where they do something
    "a family": FAMILY, "a rainbow": "\U0001f3f3\ufe0f\u200d\U0001f308", "a nod": "\U0001f642\u200d\u2195\ufe0f",
    "a coder": "\U0001f9d1\U0001f3fd\u200d\U0001f4bb", "a key": "1\ufe0f\u20e3 #\ufe0f\u20e3",
    "shouting": "\u203c\ufe0f", "a glyph": "\u845b\U000e0100\u57ce", "a plural": "iPhone\u200c\u0647\u0627",
    "Hindi": "\u0930\u094d\u200d\u092f", "Khmer": "\u1797\u17b6\u179f\u17b6\u200b\u1781\u17d2\u1798\u17c2\u179a",
    "Braille": "\u2801\u2800\u2803", "music": "\U0001d173\U0001d15f"}


@pytest.mark.parametrize("written", STAY.values(), ids=STAY)
def test_what_does_something_stays(written: str) -> None:
    assert visible(f"fun {written} film") == f"fun {written} film"


@pytest.mark.parametrize("nothing", ["\u200b", "\u200d", "\u2060", "\u00ad", "\u3164", "\x01", "\u200b\u2060"])
def test_beside_signs_and_ideographs_they_do_nothing(nothing: str) -> None:
    for sign in ("\u201cfun\u201d", "plot\u2014", "dull\u2026", "\u20ac5", "\U0001f602", "\u6620\u753b", "\u2669"):
        assert {visible(sign[:place] + nothing + sign[place:]) for place in range(len(sign) + 1)} == {sign}
    assert visible("\u201c\ufe0ffun \u201d\ufe0f") == "\u201cfun \u201d"


@given(st.text(st.sampled_from("ab 1\n\u200b\u200d\ufe0f\u3164\u2800\x01\u0645\u0301\u043e\u20e3\U0001f602\U000e0067")))
@example("a\u200b\u200b\u043e")
def test_what_is_left_is_left_as_it_is(text: str) -> None:
    assert visible(visible(text)) == visible(text)


def test_words_are_looked_up_as_they_are_seen() -> None:
    assert rewritten("a mo\u200bvie \u200b was", lambda word: {"movie": "film"}.get(word, word)) == "a film was"


def test_a_text_without_any_is_the_very_same() -> None:
    for text in ("plain  text\n", "caf\u00e9 \u6620\u753b", FAMILY, FLAG):
        assert visible(text) is text


def test_many_fillers_make_no_text_foreign() -> None:
    """They count as letters for Unicode, and none of Latin."""
    assert visible(f"{chr(0x3164) * 40} m\u043e\u200bvie") == "m\u043evie"


# How far a text is read


@pytest.fixture(scope="module")
def encode(tiny: Callable[[str], Path]) -> Encode:
    from transformers import AutoTokenizer

    return Encode(AutoTokenizer.from_pretrained(tiny("bert")), max_length=12)


def test_words_that_have_pieces_are_counted(encode: Encode) -> None:
    """Also those that can be seen and are not read: what BERT takes for control characters, accents by themselves."""
    text = "the movie was good " * 9
    assert encode.reachable(text) == "the movie was good " * 3
    for nothing in [*NAMED, "\u3164", "\ufe0f\u200b", HIDDEN]:
        assert encode.reachable(f"{nothing} " * 400 + text) == f"{nothing} " * 400 + "the movie was good " * 3
    for nothing in ("\ufffd", "\u0301", "\uf8ff", "\ud800"):
        assert encode.reachable(f"{nothing} " * 400 + text) == "  " * 400 + "the movie was good " * 3
    assert encode.reachable(("\u200b " * 400 + text, text))[0].endswith("the movie was good " * 3)
    assert encode.reachable("\u200b a") == "\u200b a" and encode.reachable("") == ""


def test_long_words_are_not_remembered(encode: Encode) -> None:
    """There is no end to them, and an attack may write a million."""
    for number in range(4):
        assert str(encode.reachable(f"\u00e9{number}" * 99 + " good" * 12)).split()[1:] == ["good"] * 11
    assert max(map(len, encode._pieced)) <= LONGEST and "good" in encode._pieced


def test_byte_level_words_of_accents_are_words(tiny: Callable[[str], Path]) -> None:
    from transformers import AutoTokenizer

    bytes_level = Encode(AutoTokenizer.from_pretrained(tiny("roberta")), max_length=12)
    assert bytes_level.reachable("\u0301 " * 20) == "\u0301 " * 12
    assert bytes_level.reachable("\u200b " * 20 + "good") == "\u200b " * 20 + "good"


def test_the_tiny_tokenizer_drops_what_the_real_one_does(encode: Encode, shared: Path) -> None:
    from transformers import AutoTokenizer

    real = Encode(AutoTokenizer.from_pretrained(shared / "models" / "gte-small-mlm"), max_length=12)
    codes = [code for code in range(0x110000) if is_invisible(chr(code))]
    for codes_of in (codes, [0xfffd, 0x301, 0xf8ff]):
        ours, theirs = ([not row.ids for row in one.tokenizer.backend_tokenizer.encode_batch(
            [chr(code) for code in codes_of], add_special_tokens=False)] for one in (encode, real))
        assert ours == theirs
    assert all(not real.tokenizer.tokenize(character) for character in NAMED)


# What is said of a text


@pytest.fixture(scope="module")
def classifier(tiny: Callable[[str], Path], data: Dataset) -> DefendedClassifier:
    base = tiny_classifier(tiny("bert"), "plain", data, max_length=40)
    defence = made(base.encode, synonyms="none")
    return DefendedClassifier(base.model, base.encode.tokenizer, defence, labels=base.labels, max_length=40)


def laid_over(text: str, nothing: str) -> list[tuple[str, Callable[[int], int]]]:
    """The text with invisible words before it and in it, and where each of its places has gone."""
    words, middle = f"{nothing} " * 200, text.index("story")
    return [(words + text, lambda place: place + len(words)),
            (text[:middle] + words + text[middle:], lambda place: place + (len(words) if place >= middle else 0)),
            (f"{text} {words}", lambda place: place)]


@pytest.mark.parametrize("nothing", NAMED)
def test_what_was_read_otherwise_is_found_where_it_is_written(nothing: str, classifier: DefendedClassifier) -> None:
    spans, marked = origins(classifier, TEXT), classifier.hidden([TEXT])[0]
    assert marked and [one.becomes for one in marked] == ["terrible"] and len(spans) == 10
    for text, moved in laid_over(TEXT, nothing):
        assert origins(classifier, text) == [(moved(start), moved(end - 1) + 1) for start, end in spans]
        found = classifier.hidden([text])[0] or []
        assert [(one.start, one.end, one.text, one.becomes) for one in found if one.becomes] == [
            (moved(one.start), moved(one.end - 1) + 1, one.text, one.becomes) for one in marked]
        assert all(one.text == text[one.start:one.end] for one in found)
        gone = [one for one in found if one.becomes == ""]
        assert len(gone) == 1 and not visible(gone[0].text).strip()
        assert "(nothing)" in distrusted(found) and nothing not in distrusted(found)


def test_a_word_is_joined_across_words_that_nobody_sees(classifier: DefendedClassifier) -> None:
    read = [one for one in classifier.hidden([TEXT.replace("terri ble", "terri \u200b ble")])[0] or [] if one.becomes]
    assert [(one.text, one.becomes) for one in read] == [("terri \u200b ble", "terrible")]


@pytest.mark.parametrize("options", [{"restore": False}, {"restore": False, "synonyms": "head"}], ids=str)
def test_without_restoring_they_go_too(options: dict[str, object], encode: Encode) -> None:
    rewriting = made(encode, **{"synonyms": "none", **options}).rewriting
    assert rewriting("a \u200b g\u00adood mov\u200bie") == rewriting("a good movie")
    assert [word for word, *_ in rewriting.pieces("m\u200bad") if word] == ["mad"]
