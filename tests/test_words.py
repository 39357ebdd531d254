# SPDX-License-Identifier: Apache-2.0
"""Words of a text: how they are told apart, and what edits keep."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmask.text.letters import HOMOGLYPHS
from dualmask.text.words import Rule, Words, in_case_of, word_count

MARKS = "'-_*@"
RULES: tuple[Rule, ...] = ("both-ends", "left-end")
LETTERS = "abcXYZ019é-'_*@ .,!/`\u02d7\u00d7\u0435\u200b\t😀\x00\ud800"


def split_again(text: str, rule: Rule) -> list[str]:
    """The rule as TextAttack states it: pieces between spaces, stripped, cut into runs, each stripped again."""
    found = []
    for piece in text.split():
        run = ""
        for letter in [*(piece.strip(MARKS) if rule == "both-ends" else piece.lstrip(MARKS)), " "]:
            if letter.isalnum() or letter in MARKS or letter in HOMOGLYPHS.values():
                run += letter
            else:
                found.append(run.strip(MARKS) if rule == "both-ends" else run.lstrip(MARKS))
                run = ""
    return [run for run in found if run]


# Splitting


@pytest.mark.parametrize(("text", "both", "left"), [
    ("", [], []),
    ("?!... --", [], []),
    ("Hello, world", ["Hello", "world"], None),
    ("it's state-owned", ["it's", "state-owned"], None),
    ("'quoted' words' end-", ["quoted", "words", "end"], ["quoted'", "words'", "end-"]),
    ("a_b _c_ d*e @home x@y", ["a_b", "c", "d*e", "home", "x@y"], ["a_b", "c_", "d*e", "home", "x@y"]),
    ("4.5 and/or", ["4", "5", "and", "or"], None),
    ("one\ttwo\nthree", ["one", "two", "three"], None),
    ("na\u00efve \u4f60\u597d", ["na\u00efve", "\u4f60\u597d"], None),
    ("d\u02d7x \u00d7y c`est", ["d\u02d7x", "\u00d7y", "c`est"], None),
    ("a--b a-'-b", ["a--b", "a-'-b"], None),
])
def test_words_are_told_from_what_surrounds_them(text: str, both: list[str], left: list[str] | None) -> None:
    assert Words(text).words == both
    assert Words(text, rule="left-end").words == (both if left is None else left)


@pytest.mark.parametrize("rule", RULES)
@given(text=st.text(LETTERS, max_size=30))
@settings(max_examples=300, deadline=None)
def test_splitting_is_the_rule_in_other_words(text: str, rule: Rule) -> None:
    words = Words(text, rule=rule)
    assert words.words == split_again(text, rule)
    assert [words[place] for place in range(len(words))] == words.words
    assert word_count(text, rule) == len(words)


# Single edits


@pytest.mark.parametrize(("text", "place", "new", "after", "words"), [
    ("the plot is thin, but", 3, "fat", "the plot is fat, but", ["the", "plot", "is", "fat", "but"]),
    ("the plot is thin", 1, "p lot", "the p lot is thin", ["the", "p", "lot", "is", "thin"]),
    ("the plot is", 0, "", "plot is", ["plot", "is"]),
    ("the plot is", 1, "", "the is", ["the", "is"]),
    ("the plot is.", 2, "", "the plot.", ["the", "plot"]),
    ("the plot is", 2, "", "the plot ", ["the", "plot"]),  # nothing behind it: TextAttack leaves the space
    ("'the' plot", 0, "", "'' plot", ["plot"]),
    ("one", 0, "", "", []),
    ("a (b) c", 1, "", "a () c", ["a", "c"]),
    ("x  y z", 1, "", "x  z", ["x", "z"]),
    ("a b", 1, "[UNK]", "a [UNK]", ["a", "UNK"]),
])
def test_a_word_gives_way_to_none_one_or_several(
    text: str, place: int, new: str, after: str, words: list[str],
) -> None:
    old = Words(text)
    found = old.replaced(place, new)
    assert (found.text, found.words) == (after, words)
    assert old.text == text and old.changed == frozenset()
    assert list(found.newest) == list(range(place, place + word_count(new)))
    if not new:
        assert old.deleted(place).text == after


def test_changed_words_keep_their_numbers_up_to_date() -> None:
    words = Words("a b c d").replaced(3, "z")
    assert words.changed == {3}
    more = words.replaced(1, "x y")
    assert more.text == "a x y c z" and more.changed == {1, 2, 4}
    assert more.places == (0, 2, 3, 4)  # b is behind what stands in front of it
    less = more.deleted(0)
    assert less.changed == {0, 1, 3} and less.places == (-1, 1, 2, 3)
    assert less.replaced(3, "d").changed == {0, 1, 3}  # written again, even if it is what once stood there


def test_a_word_that_stays_in_front_keeps_its_place() -> None:
    assert Words("a b c").replaced(1, "b more").places == (0, 1, 3)
    assert Words("a b c").replaced(1, "more b").places == (0, 2, 3)


# Pairs


def test_edits_of_a_pair_stay_on_their_side() -> None:
    pair = Words(("the premise.", "its  answer"))
    assert pair.words == ["the", "premise", "its", "answer"] and list(pair.second_text()) == [2, 3]
    assert pair.replaced(0, "some very").value == ("some very premise.", "its  answer")
    assert list(pair.replaced(0, "some very").second_text()) == [3, 4]
    assert pair.deleted(1).value == ("the.", "its  answer")
    assert pair.deleted(2).value == ("the premise.", "  answer")  # the line between them is no space
    assert pair.deleted(3).value == ("the premise.", "its  ")
    assert pair.replaced(3, "x y").replaced(0, "").value == ("premise.", "its  x y")


@pytest.mark.parametrize("pair", [("", ""), ("", "b c"), ("a", ""), ("a\nb", "c\nd"), ("  ", " b"), ("...", "!")])
def test_odd_pairs_come_back_as_they_were(pair: tuple[str, str]) -> None:
    words = Words(pair)
    assert words.value == pair
    assert len(words.second_text()) == len(Words(pair[1]))
    for place in words.second_text():
        assert words.deleted(place).value[0] == pair[0]


def test_a_single_text_has_no_second() -> None:
    assert Words("a\nb").value == "a\nb" and Words("a\nb").boundary is None


# Windows and comparisons


@pytest.mark.parametrize(("place", "size", "expected"), [
    (0, 3, "a b, c"), (1, 3, "a b, c"), (2, 3, "b, c d"), (4, 3, "c d e"), (3, 3, "c d e"),
    (2, 4, "a b, c d"), (3, 4, "b, c d e"), (0, 1, "a"), (4, 1, "e"), (2, 99, "a b, c d e"), (5, 3, "c d e"),
    (2, 2, "b, c"), (0, 2, "a b"), (4, 2, "d e"),
])
def test_windows_keep_their_length_at_the_borders(place: int, size: int, expected: str) -> None:
    assert Words("(a b, c d e)").window(place, size) == expected


def test_the_window_without_a_size_is_everything_between_the_first_and_last_word() -> None:
    assert Words("(a b, c d e)").window(3) == "a b, c d e"
    assert Words("?!").window(0) == "" and Words("").window(0, 5) == ""


@given(st.integers(1, 12), st.integers(0, 11), st.integers(1, 14))
@settings(max_examples=100, deadline=None)
def test_every_window_has_its_size_and_holds_its_place(count: int, place: int, size: int) -> None:
    words = Words(" ".join(f"w{number}" for number in range(count)))
    window = words.window(min(place, count - 1), size).split()
    assert len(window) == min(size, count)
    assert f"w{min(place, count - 1)}" in window


def test_differing_compares_one_to_one_up_to_the_shorter() -> None:
    words = Words("a b c d")
    assert words.differing(words) == 0
    assert words.differing(words.replaced(1, "x")) == 1
    assert words.differing(words.replaced(1, "b x")) == 2  # everything behind an inserted word has moved
    assert words.differing(words.deleted(0)) == 3
    assert words.differing(Words("A b c d")) == 1 and words.differing(Words("")) == 0


@pytest.mark.parametrize(("word", "model", "expected"), [
    ("Great", "good", "great"), ("great", "GOOD", "GREAT"), ("great", "Good", "Great"),
    ("great", "A", "great"),  # one capital letter tells nothing
    ("eBay", "iPod", "eBay"), ("great", "123", "great"), ("great", "", "great"),
])
def test_case_follows_the_replaced_word(word: str, model: str, expected: str) -> None:
    assert in_case_of(word, model) == expected


# Any edits

NEW = st.one_of(st.just(""), st.sampled_from(["x", "x y", "x-y", "[UNK]", "'tis", "é.b", "q w e", "\u0435\u00d7"]),
                st.text(LETTERS.replace("\ud800", ""), min_size=1, max_size=6))
TEXTS = st.text(LETTERS + "   ", max_size=25)


@pytest.mark.parametrize("rule", RULES)
@given(text=st.one_of(TEXTS, st.tuples(TEXTS, TEXTS)), edits=st.lists(st.tuples(st.floats(0, 0.999), NEW), max_size=6))
@settings(max_examples=250, deadline=None)
def test_any_sequence_of_edits_keeps_its_accounts(
    text: str | tuple[str, str], edits: list[tuple[float, str]], rule: Rule,
) -> None:
    original = words = Words(text, rule=rule)
    expected: list[tuple[str, int]] = [(word, place) for place, word in enumerate(words.words)]  # -1: written by us
    for share, new in edits:
        if not len(words) or (new and not word_count(new, rule)):  # bare punctuation is no replacement
            continue
        place = int(share * len(words))
        written = [(word, -1) for word in split_again(new, rule)]
        after = words.replaced(place, new)
        check_outside(words, after, place, new)
        words = after
        expected[place:place + 1] = written
        assert words.words == [word for word, _ in expected]
        assert Words(words.value, rule=rule).words == words.words
        assert words.changed == {number for number, (_, came_from) in enumerate(expected) if came_from < 0}
        check_places(original, words, expected)


def check_outside(before: Words, after: Words, place: int, new: str) -> None:
    """Nothing but the word, and with a deletion one space beside it, has changed."""
    start, end = before.spans[place]
    head, tail = before.text[:start], before.text[end:]
    if new:
        assert after.text == head + new + tail
    else:
        assert after.text in (head + tail, head.removesuffix(" ") + tail, head + tail.removeprefix(" "))
    if before.boundary is None:
        assert after.boundary is None
    else:
        side = int(start > before.boundary)
        assert after.value[1 - side] == before.value[1 - side]
        assert Words(after.value).text == after.text


def check_places(original: Words, words: Words, expected: list[tuple[str, int]]) -> None:
    places = words.places
    assert len(places) == len(original)
    kept = [place for place in places if place >= 0]
    assert len(set(kept)) == len(kept) and kept == sorted(kept) and all(place < len(words) for place in kept)
    for number, (word, came_from) in enumerate(expected):
        if came_from >= 0:
            assert places[came_from] == number and words[number] == word == original[came_from]


def test_nothing_that_an_attack_writes_joins_its_neighbours() -> None:
    for word in ("x-", "'x", "x'", "-x-", "`x", "x\u02d7"):
        found = Words("left (mid), right").replaced(1, word)
        assert re.fullmatch(r"left \(.*\), right", found.text)
        assert len(found) == 3 and found[0] == "left" and found[2] == "right"
