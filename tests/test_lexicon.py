# SPDX-License-Identifier: Apache-2.0
"""The lexicon: what is counted, what neighbours and capitals say, the shipped list, and that it survives saving."""

import gzip
import hashlib
import json
from math import log
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import dualmask
from dualmask.defences.base import Defence
from dualmask.errors import ResourceError
from dualmask.text import lexicon as module
from dualmask.text.lexicon import (
    ASSET,
    CAPITALISED,
    LOWER,
    ODD,
    PAIR,
    TOKEN,
    UPPER,
    Lexicon,
    case_of,
    common_words,
    plain,
)

ASSETS = Path(dualmask.__file__).parent / "assets"
TEXTS = ["The movie was good. The movie, the plot!", "crude oil and crude oil", "a café\u2019s 映画 in 2004"]


def fitted(texts: list[str | tuple[str, str]]) -> Lexicon:
    lexicon = Lexicon()
    lexicon.fit(texts)
    return lexicon


def test_tokens_are_words_numbers_and_marks() -> None:
    assert TOKEN.findall("It's 3 mp3s, film_noir (naïve) o\u2019neill's 映画\ud800!") == [
        "It's", "3", "mp3s", ",", "film_noir", "(", "naïve", ")", "o\u2019neill's", "映画", "!"]
    assert [plain(token) for token in ("It\u2019s", "2004", "MP3", ",")] == ["it's", "0", "mp3", ","]


def test_words_count_in_any_case() -> None:
    lexicon = fitted([*TEXTS])
    assert [lexicon.count(word) for word in ("the", "movie", "oil", "café's", "映画", "0", ",", "good", "film")] == [
        3, 2, 2, 1, 1, 1, 1, 1, 0]
    assert fitted(TEXTS[::-1]).table() == lexicon.table()
    assert fitted([("good plot", "plot")]).count("plot") == 2


def test_pairs_seen_once_count_unless_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str | tuple[str, str]] = ["crude oil", "crude oil", "fertile soil"]
    lexicon = fitted(texts)
    assert sorted(lexicon.pair_counts.tolist()) == [1, 1, 1, 2, 2, 2]  # with the edges of texts
    assert lexicon.figures().pair("fertile", "soil") > 0
    monkeypatch.setattr(module, "PAIRS", 5)
    assert fitted(texts).pair_counts.tolist() == [2, 2, 2] and fitted(texts).figures().pair("fertile", "soil") < 0


def test_pairs_do_not_count_over_the_edge_of_texts() -> None:
    figures = fitted(["crude oil", "crude oil", "oil price"]).figures()
    assert figures.pair("crude", "oil") == pytest.approx(log((2 + PAIR) / (2 * 3 / 10 + PAIR)))
    assert figures.pair("oil", "crude") < 0 and figures.pair("oil", "price") < figures.pair("crude", "oil")
    assert figures.pair("", "crude") > 0  # begins texts
    assert figures.pair("crude", "unheard") == 0.0
    assert figures.context("crude", "oil", "price") == pytest.approx(
        figures.pair("crude", "oil") + figures.pair("oil", "price"))


def test_words_are_known_from_training_or_if_common() -> None:
    lexicon = fitted(["zyxwv"])
    assert lexicon.is_known("zyxwv") and lexicon.is_known("house")
    assert lexicon.zipf("house") > 5 and lexicon.zipf("zyxwv") == 0.0
    assert not lexicon.is_known("stultifying") and lexicon.figures().is_word("stultifying")
    assert not lexicon.figures().is_word("moive")
    assert not Lexicon(common=9.0).is_known("house")


def test_derived_words_are_words() -> None:
    figures = fitted(["hapless courageous"]).figures()
    assert figures.is_word("haplessness") and figures.is_word("courageousnesses") is False
    assert figures.log_probability("haplessness") > figures.log_probability("haplexxness")


def test_probabilities_fall_from_seen_to_common_to_rare_to_letters() -> None:
    lexicon = fitted(["film film film review"] * 50)
    ranked = ["film", "review", "house", "stultifying", "moive", "xqzvw"]
    values = [lexicon.log_probability(word) for word in ranked]
    assert values == sorted(values, reverse=True) and len(set(values)) == len(values)
    owner = fitted(["zyxwv"])
    assert owner.log_probability("zyxwv's") == pytest.approx(owner.log_probability("zyxwv") + log(0.03))


@pytest.mark.parametrize(("word", "case"), [
    ("film", LOWER), ("Film", CAPITALISED), ("A", CAPITALISED), ("FILM", UPPER), ("fiLm", ODD), ("FILM's", UPPER),
    ("Film's", CAPITALISED), ("iPhone", ODD), ("映画", LOWER)])
def test_cases(word: str, case: int) -> None:
    assert case_of(word) == case


def test_capitals_tell_names_from_words() -> None:
    figures = fitted(["Microsoft said that Microsoft sold oil to NASA", "oil is oil and NASA is NASA"] * 20).figures()
    assert figures.log_case("microsoft", CAPITALISED) > figures.log_case("microsoft", LOWER)
    assert figures.log_case("oil", LOWER) > figures.log_case("oil", UPPER)
    assert figures.log_case("nasa", UPPER) > figures.log_case("nasa", LOWER)


def test_without_capitals_in_training_they_speak_for_unlisted_names() -> None:
    figures = fitted(["a film and a plot"] * 20).figures()
    assert figures.log_case("film", CAPITALISED) < figures.log_case("arcelorx", CAPITALISED) == 0.0
    assert figures.log_case("film", CAPITALISED) == figures.log_case("plot", CAPITALISED)


def test_the_shipped_list_is_that_of_the_manifest() -> None:
    packed = (ASSETS / ASSET).read_bytes()
    manifest = json.loads((ASSETS / "common_words.manifest.json").read_text(encoding="utf-8"))
    assert (len(packed), hashlib.sha256(packed).hexdigest()) == (manifest["bytes"], manifest["sha256"])
    zipfs = common_words().zipfs
    assert len(zipfs) == manifest["words"]
    assert sum(zipf >= 3 for zipf in zipfs.values()) == manifest["words of zipf 3 and more"]
    assert "CC BY-SA" in manifest["licence"] and "CC BY-SA" in gzip.decompress(packed).decode().splitlines()[1]
    assert zipfs["the"] > 7.5 and min(zipfs.values()) >= 1.5 and "naïve" in zipfs


def test_the_list_agrees_with_its_source() -> None:
    wordfreq = pytest.importorskip("wordfreq")
    for word in ("the", "movie", "stultifying", "don't"):
        assert common_words().zipfs[word] == pytest.approx(wordfreq.zipf_frequency(word, "en", "large"), abs=0.011)


def test_a_damaged_list_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / ASSET).write_bytes(gzip.compress(b"many words\n"))
    monkeypatch.setattr(module.resources, "files", lambda package: tmp_path)
    common_words.cache_clear()
    try:
        with pytest.raises(ResourceError, match="build_common_words"):
            common_words()
    finally:
        common_words.cache_clear()


def test_letters_of_english_are_likelier_than_noise() -> None:
    likely = common_words().log_letters
    assert likely("tion") > likely("tixn") and likely("movie") > likely("mvxie") and likely("映画") < -5


class Owner(Defence):
    name = "owner"

    def __init__(self) -> None:
        super().__init__()
        self.words = Lexicon()


@pytest.mark.parametrize("texts", [TEXTS, []])
def test_it_is_saved_and_loaded(texts: list[str | tuple[str, str]], tmp_path: Path) -> None:
    saved, loaded = Owner(), Owner()
    saved.words.fit(texts)
    loaded.words.fit(["something else", "something else"])
    assert loaded.words.figures().pair("something", "else") > 0
    save_file(saved.state_dict(), tmp_path / "defence.safetensors")
    loaded.restore(load_file(tmp_path / "defence.safetensors"))
    assert loaded.words.table() == saved.words.table()
    for word in ("the", "oil", "else", "moive"):
        assert loaded.words.log_probability(word) == saved.words.log_probability(word)
        assert loaded.words.context("crude", word, "else") == saved.words.context("crude", word, "else")


def test_figures_follow_the_buffers() -> None:
    lexicon = fitted(["ab ab cd"])
    before = lexicon.figures()
    assert lexicon.figures() is before
    lexicon.counts[0] += 5
    assert lexicon.figures() is not before
    with torch.inference_mode():
        lexicon.fit(["xy xy"])
    assert lexicon.count("xy") == 2 and lexicon.figures().is_known("xy")


def test_no_texts_leave_general_english() -> None:
    for lexicon in (Lexicon(), fitted([]), fitted([""])):
        assert lexicon.is_known("house") and not lexicon.is_known("moive")
        assert lexicon.log_probability("house") > lexicon.log_probability("moive")
        assert lexicon.context("the", "house", "is") == 0.0
