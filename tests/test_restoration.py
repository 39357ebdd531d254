# SPDX-License-Identifier: Apache-2.0
"""Words put right: every kind of edit, what stays as it is, calibration, and that readings fit the text."""

from math import log
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import OSA
from safetensors.torch import load_file, save_file
from torch import nn

from dualmask.errors import OptionError
from dualmask.text.edits import ALPHABET, KINDS, LETTERS, Edit, undone, undone_twice
from dualmask.text.lexicon import Lexicon, common_words
from dualmask.text.readings import Reading
from dualmask.text.restoration import HIGHEST, Restorer
from dualmask.text.weighing import LOWEST, inflected

REVIEWS = [
    "the movie was a good movie with a fine plot", "a bad film from start to finish , and a dull one",
    "the food was bad , the film was worse", "this movie is an excellent , entertaining and beautiful story",
    "it was good to see the actors have fun", "only a fool would miss this film", "a form of art from the heart",
    "the cast is great and the story is told with wit", "the movie comes from the heart", "far from the best film",
] * 12
NEWS = [
    "Microsoft sold shares of the company, said Reuters", "NASA and Microsoft said the oil price rose",
    "The planet is seen by NASA from far", "Crude oil rose as IBM sold plants", "IBM said that Microsoft sold oil",
] * 20


def restorer(texts: list[str], **options: float) -> Restorer:
    lexicon = Lexicon()
    lexicon.fit(texts)
    return Restorer(lexicon, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def reviews() -> Restorer:
    return restorer(REVIEWS)


@pytest.fixture(scope="module")
def news() -> Restorer:
    return restorer(NEWS)


def read(text: str, readings: list[Reading]) -> str:
    """The text as it is read, "?" for a mask."""
    parts, end = [], 0
    for one in readings:
        assert one.start >= end and text[one.start:one.end] == one.written and one.why
        assert (one.becomes is None) == (one.action == "masked")
        parts += text[end:one.start], "?" if one.becomes is None else one.becomes
        end = one.end
    return "".join([*parts, text[end:]])


@pytest.mark.parametrize(("written", "meant", "action"), [
    ("a good moive", "a good movie", "restored"), ("a good moviee", "a good movie", "restored"),
    ("a good mvie", "a good movie", "restored"), ("a good mobie", "a good movie", "restored"),
    ("an excelletn story", "an excellent story", "restored"), ("an eQxcellent story", "an excellent story", "restored"),
    ("an ecxelletn story", "an excellent story", "restored"),  # two edits
    ("a good m ovie", "a good movie", "joined"), ("a good mo-vie", "a good movie", "joined"),
    ("a good mo.vie", "a good movie", "joined"), ("a good m o v i e", "a good movie", "joined"),
    ("a good mo0vie", "a good movie", "restored"), ("a good mo_vie", "a good movie", "restored"),
    ("a good mo'vie", "a good movie", "restored"), ("thismovie is good", "this movie is good", "split"),
    ("a good m\u043evie", "a good movie", "normalised"), ("a good m\u200bovie !", "a good movie !", "normalised"),
    ("a good m\u200boive", "a good movie", "restored"), ("the moive's plot", "the movie's plot", "restored"),
    ("a good\u00a0movie", "a good movie", "normalised"), ("qxzvbw is a film", "? is a film", "masked"),
])
def test_edits_are_undone(reviews: Restorer, written: str, meant: str, action: str) -> None:
    found = reviews.readings(written)
    assert read(written, found) == meant
    assert [one.action for one in found] == [action]


def test_case_is_kept(reviews: Restorer, news: Restorer) -> None:
    assert read("A Good Moive", reviews.readings("A Good Moive")) == "A Good Movie"
    assert read("A GOOD EXCELELNT MOVIE", reviews.readings("A GOOD EXCELELNT MOVIE")) == "A GOOD EXCELLENT MOVIE"
    assert read("iMcrosoft sold oil", news.readings("iMcrosoft sold oil")) == "Microsoft sold oil"


@pytest.mark.parametrize("text", [
    "a good movie", "the plot , the story", "rated R in 2004 at 8 pm", "see www.moive.com and http://moive.org/flim",
    "mail moive@flim.org to @moive with #moive", "call moive() in flim.moive", "mp3 B2B i18n", "my_moive_title",
    "versi\u00f3n pel\u00edculas \u0432\u0435\u0440\u0441\u0438\u044f \u6620\u753b",
    "\U0001f44d\U0001f3fd \u2764\ufe0f", "", " \n ", "playStation getElement",
])
def test_what_is_no_word_or_no_error_stays(reviews: Restorer, text: str) -> None:
    assert reviews.readings(text) == []


def test_names_and_acronyms_are_not_turned_into_words(news: Restorer) -> None:
    for text in ("La Planta said", "(SOI) said"):
        assert "planet" not in read(text, news.readings(text)).lower()
        assert "oil" not in read(text, news.readings(text)).lower()
    assert read("Micorsoft and NSAA", news.readings("Micorsoft and NSAA")) == "Microsoft and NASA"


def test_acronyms_stay_where_training_has_no_capitals(reviews: Restorer) -> None:
    assert reviews.readings("the FLM was good") == []
    assert read("the flm was good", reviews.readings("the flm was good")) == "the film was good"


def test_neighbours_decide() -> None:
    texts = ["he ate the food here", "a silly old fool here", "the food was cold"] * 50
    found = restorer(texts)
    assert read("he ate the food here", found.readings("he ate the food here")) == "he ate the food here"
    pair = restorer(["crude oil", "fertile soil"] * 50)
    assert read("crude osil", pair.readings("crude osil")) == "crude oil"
    assert read("fertile osil", pair.readings("fertile osil")) == "fertile soil"


def test_a_known_word_gives_way_to_its_context() -> None:
    found = restorer(["a letter from home", "letters from home came from afar", "form"] * 60)
    assert read("a letter form home", found.readings("a letter form home")) == "a letter from home"


def test_a_word_is_masked_where_two_are_as_likely() -> None:
    texts = ["fame fate face"] * 20
    unsure = restorer(texts, sure=0.9)
    assert [one.action for one in unsure.readings("faxe")] == ["masked"]
    assert "may be" in unsure.readings("faxe")[0].why
    assert [one.action for one in restorer(texts, masking=False).readings("faxe")] == ["restored"]
    assert restorer(texts, masking=False).readings("qxzvbw") == []


def test_forms_of_a_word_do_not_make_it_unsure() -> None:
    assert inflected("movies", "movie") and inflected("charmed", "charm") and not inflected("fun", "funs")
    assert not inflected("plan", "plane")


def test_calibration_keeps_to_its_share() -> None:
    found = restorer(REVIEWS)
    clean = ["the cast was good and the story told a tale of wit"] * 40 + ["a farm of art form the hart"] * 4
    for touched in (0.01, 0.02, 0.5):
        found.touched = touched
        assert found.calibrate(clean) <= touched
        assert LOWEST <= float(found.margin) <= HIGHEST
    words = sum(len(text.split()) for text in clean)
    assert sum(len(found.readings(text)) for text in clean) <= 0.5 * words
    assert found.calibrate([]) == 0.0
    found.touched = 0.0  # but for what is beyond all doubt: one odd text must not switch everything off
    assert found.calibrate(["the moive was good"]) > 0 and float(found.margin) == HIGHEST


def test_calibration_spares_strangers_where_there_are_many() -> None:
    found = restorer(REVIEWS)
    assert bool(found.strangers)
    found.calibrate(["qxzvbw xwqzrk vvxqzw the movie"] * 10)
    assert not bool(found.strangers) and found.readings("qxzvbw") == []
    found.calibrate(["the movie was good"] * 10)
    assert bool(found.strangers) and found.readings("qxzvbw") != []


def test_margin_decides(reviews: Restorer) -> None:
    bold, shy = restorer(REVIEWS), restorer(REVIEWS)
    shy.margin.fill_(50.0)
    assert bold.readings("the flim")[0].becomes == "film"
    assert [one.becomes for one in shy.readings("the flim")] in ([], [None])
    shy.margin.fill_(1.0)
    assert shy.readings("the flim") == bold.readings("the flim")


def test_shares_are_checked() -> None:
    with pytest.raises(OptionError, match="touched is 2"):
        Restorer(Lexicon(), touched=2)


class Owner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lexicon = Lexicon()
        self.restorer = Restorer(self.lexicon)


def test_the_margin_is_saved_and_the_lexicon_once(tmp_path: Path) -> None:
    saved = Owner()
    saved.lexicon.fit(REVIEWS)
    saved.restorer.calibrate(["a farm of art form the hart"])
    assert {name.split(".")[0] for name in saved.state_dict() if "margin" not in name and "stranger" not in name} == {
        "lexicon"}
    save_file(saved.state_dict(), tmp_path / "it.safetensors")
    state = load_file(tmp_path / "it.safetensors")
    loaded = Owner()
    loaded.lexicon.fit(REVIEWS)
    loaded.load_state_dict(state)
    assert torch.equal(loaded.restorer.margin, saved.restorer.margin)
    assert loaded.restorer.readings("a good moive") == saved.restorer.readings("a good moive")


def test_readings_follow_the_lexicon() -> None:
    found = restorer(["a zyxwvu"] * 5)
    assert read("a zyxwuv", found.readings("a zyxwuv")) == "a zyxwvu"
    found._lexicon[0].fit(["a film"] * 5)
    assert read("a zyxwuv", found.readings("a zyxwuv")) == "a ?"


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("abdefgilmorstvy  .'-_#@4QX\u200b\u043e\ufb01\u00e9\u0301\U0001f44d\n"), max_size=40))
def test_readings_fit_any_text(text: str) -> None:
    found = ANY.readings(text)
    read(text, found)
    assert found == ANY.readings(text)
    assert all(one.becomes != one.written for one in found)


ANY = restorer(REVIEWS)


def brute(written: str) -> dict[str, float]:
    """Likelihoods summed over all single edits of each word, one way after the other."""
    found: dict[str, float] = {}
    for word in VOCABULARY:
        size, total = len(word), 0.0
        swaps = [word[:at] + word[at + 1] + word[at] + word[at + 2:] for at in range(size - 1)]
        total += (swaps.count(written) if written != word else 0) / (KINDS * (size - 1))
        total += sum(word[:at] + word[at + 1:] == written for at in range(size)) / (KINDS * size)
        total += sum(written[:at] + written[at + 1:] == word for at in range(len(written))) / (KINDS * size * LETTERS)
        if total:
            found[word] = total
    return found


VOCABULARY = frozenset(word for word in common_words().zipfs
                       if len(word) in (3, 4, 5) and word[0] in "fgo" and word.isascii())


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(VOCABULARY)), st.integers(0, 5), st.sampled_from(ALPHABET), st.integers(0, 3))
def test_edits_are_all_found_with_their_likelihood(word: str, at: int, letter: str, kind: int) -> None:
    at = min(at, len(word) - 1)
    written = (word[:at] + letter + word[at:], word[:at] + letter + word[at + 1:], word[:at] + word[at + 1:],
               word[:at] + word[at + 1:at + 2] + word[at] + word[at + 2:])[kind]
    found = {one.word: one for one in undone(written, VOCABULARY)}
    assert set(found) == {other for other in VOCABULARY if OSA.distance(other, written) == 1}
    for other, likelihood in brute(written).items():
        assert found[other].likelihood >= likelihood - 1e-12
        assert found[other].form == other
        if len(other) != len(written):
            assert found[other].likelihood == pytest.approx(likelihood)


def test_swaps_and_deletions_are_likelier_than_other_edits() -> None:
    vocabulary = frozenset({"film", "flip", "from", "form"})
    swap = undone("flim", vocabulary)
    assert swap[0] == Edit("film", "film", 1 / (KINDS * 3))
    assert {one.word: log(one.likelihood) for one in swap}["flip"] < log(swap[0].likelihood) - 2


def test_two_edits_are_found() -> None:
    lists = {9: ["excellent", "excelling"], 8: ["excelled"]}
    assert [one.word for one in undone_twice("ecxelletn", lists)] == ["excellent"]
