# SPDX-License-Identifier: Apache-2.0
"""Words put right: every kind of edit, what stays as it is, calibration, and that readings fit the text."""

from math import log
from pathlib import Path
from time import process_time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import OSA
from safetensors.torch import load_file, save_file
from torch import nn

from dualmask.errors import OptionError
from dualmask.text import weighing
from dualmask.text.alternatives import LOWEST
from dualmask.text.edits import ALPHABET, ENDING, KINDS, LETTERS, Edit, undone, undone_twice
from dualmask.text.lexicon import Lexicon, common_words
from dualmask.text.readings import Reading
from dualmask.text.restoration import HIGHEST, Restorer
from dualmask.text.weighing import inflected

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
    ("a good mo.vie", "a good movie", "joined"), ("a mo.vie/story", "a movie/story", "joined"),
    ("a good m o v i e", "a good movie", "joined"),
    ("a good mo0vie", "a good movie", "restored"), ("a good mo_vie", "a good movie", "restored"),
    ("a good mo'vie", "a good movie", "restored"), ("thismovie is good", "this movie is good", "split"),
    ("a good m\u043evie", "a good movie", "normalised"), ("a good m\u200bovie !", "a good movie !", "normalised"),
    ("a good m\u200boive", "a good movie", "restored"), ("the moive's plot", "the movie's plot", "restored"),
    ("a good mov\u0436e", "a good movie", "restored"), ("a good \u0436ovie", "a good movie", "restored"),
    ("an \u0435xcel\u0436ent story", "an excellent story", "restored"),
    ("a good mo\u0253ie", "a good movie", "restored"),
    ("q\u0436xzvbw is a film", "? is a film", "masked"),
    ("a b\u0332\u0331a\u0332\u0331d film", "a bad film", "restored"),
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
    "mail moive@flim.org to @moive", "HTTP://EXAMPLE.COM/MOIVE", "ftp://a.org/moive", "example.com/moive",
    "mailto:moive@flim.org",
    "a #goodmoive and #my_moive here", "call moive() in flim.moive", "mp3 B2B i18n", "my_moive_title",
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


def test_longer_words_in_capitals_are_put_right_but_never_masked(reviews: Restorer) -> None:
    assert read("the FLIM was good", reviews.readings("the FLIM was good")) == "the FILM was good"
    assert reviews.readings("the XQZW was good") == []
    assert [one.action for one in reviews.readings("the XQZWK was good")] == ["masked"]


@pytest.mark.parametrize(("written", "meant"), [
    ("a good m\u00f3v\u00efe", "a good movie"), ("a go\u00f3d m\u00f3\u00edve", "a good movie"),
    ("the m\u00f3ive's plot", "the movie's plot"), ("a fi\u0142m of \u00e1rt", "a film of art"),
    ("a mo\u0301vie", "a movie"), ("a movie\u0301", "a movie"), ("a M\u00d3VIE", "a MOVIE"),
    ("a m\u043evi\u00e9", "a movie"),
    ("a g\u00f3od #m\u00f3ive", "a good #movie"), ("the p\u00f3ts here", "the pots here"),  # short and rare
])
def test_accents_that_a_word_has_not_are_seen_through(reviews: Restorer, written: str, meant: str) -> None:
    found = reviews.readings(written)
    assert read(written, found) == meant and {one.action for one in found} == {"restored"}


def test_every_accent_of_the_last_letter_belongs_to_it(reviews: Restorer) -> None:
    for text in ("excelente\u0301\u0323 film", "a moviee\u0323\u0301\u0302"):
        found = reviews.readings(text)
        assert found and all(one.written and one.becomes for one in found)
        assert not set("\u0301\u0302\u0323") & set(read(text, found))


def test_words_that_have_their_accents_keep_them(reviews: Restorer) -> None:
    for text in ("a na\u00efve story at the caf\u00e9", "Pok\u00e9mon and a fianc\u00e9e", "a Beyonc\u00e9 film"):
        assert reviews.readings(text) == []  # the shipped list has them
    text = "a good m\u00f3vie"
    assert restorer([*REVIEWS, text]).readings(text) == []  # the training texts have it


@pytest.mark.parametrize("text", [
    "this film has a kind of gem\u00fctlichkeit", "it is a film about a sm\u00f8rrebr\u00f8d",
    "the film is from D\u0142ugosz",
])
def test_a_foreign_word_that_is_near_none_stays(reviews: Restorer, text: str) -> None:
    assert reviews.readings(text) == []


@pytest.mark.parametrize("text", [
    "La pel\u00edcula es una obra maestra con actores incre\u00edbles y una m\u00fasica preciosa.",
    "Una versi\u00f3n m\u00e1s de la misma canci\u00f3n que ya hab\u00edamos o\u00eddo.",
    "Le r\u00e9alisateur a choisi de tourner \u00e0 Paris pendant l'\u00e9t\u00e9.",
    "Les acteurs jouent bien mais le sc\u00e9nario est pr\u00e9visible.",
    "Die Geschichte wirkt m\u00fcde und die Schauspieler \u00fcberzeugen nicht.",
    "Sch\u00f6ne Bilder, d\u00fcnne Handlung.",
    "Nie wiem, dlaczego re\u017cyser wybra\u0142 takie zako\u0144czenie.",
    "Film jest bardzo d\u0142ugi, ale \u015bwietnie zagrany.",
])
def test_texts_in_another_language_stay(reviews: Restorer, text: str) -> None:
    assert reviews.readings(text) == []


def test_accents_stay_where_the_language_is_doubtful(monkeypatch: pytest.MonkeyPatch) -> None:
    text, found = "the m\u00f3vie was a good flim", restorer(REVIEWS)
    assert read(text, found.readings(text)) == "the movie was a good film"
    monkeypatch.setattr(weighing, "DOUBTFUL", 0.0)
    assert read(text, found.readings(text)) == "the m\u00f3vie was a good film"


def test_an_attack_does_not_make_a_text_foreign(reviews: Restorer) -> None:
    noise = "qzxvbwkjqzxvbwkjqxzvvbq"
    text = f"the moive was {noise} with a fine polt and {noise}"
    assert read(text, reviews.readings(text)) == "the movie was ? with a fine plot and ?"
    parted = "thi s mov ie i s an excel lent , enter taining an d beau tiful sto ry"
    assert "excellent , entertaining" in read(parted, reviews.readings(parted))


@pytest.mark.parametrize(("written", "meant"), [
    ("a #moive here", "a #movie here"), ("#Moive", "#Movie"), ("a good #mvoie.", "a good #movie."),
    ("a #movie", "a #movie"), ("a #form here", "a #form here"), ("a #qxzvbw", "a #qxzvbw"),
    ("#thismovie", "#thismovie"),
    ("@moive", "@moive"), ("#moive() is", "#moive() is"), ("www.film.org/#moive", "www.film.org/#moive"),
    ("page#moive", "page#moive"), ("#moive.org", "#moive.org"), ("the #moive's plot", "the #movie's plot"),
])
def test_tags_are_put_right_word_by_word(reviews: Restorer, written: str, meant: str) -> None:
    assert read(written, reviews.readings(written)) == meant


def test_a_tag_is_never_masked() -> None:
    unsure = restorer(["fame fate face"] * 20, sure=0.9)
    assert [one.action for one in unsure.readings("faxe")] == ["masked"]
    assert [one.becomes in ("fame", "fate", "face") for one in unsure.readings("#faxe")] == [True]


def test_words_beside_a_tag_are_its_neighbours() -> None:
    pair = restorer(["crude oil", "fertile soil"] * 50)
    for text, meant in (("crude #osil", "crude #oil"), ("fertile #osil", "fertile #soil")):
        assert read(text, pair.readings(text)) == meant
    ahead = restorer(["oil price", "soil depth"] * 50)
    assert read("osil #depth", ahead.readings("osil #depth")) == "soil #depth"
    assert read("osil #price", ahead.readings("osil #price")) == "oil #price"


@pytest.mark.parametrize(("written", "meant"), [
    ("the scuzzyunderbelly of the film", "the scuzzy underbelly of the film"),  # neither is in the training texts
    ("the afilm was good", "the film was good"),  # a letter more is likelier
    ("it comesfrom the heart", "it comes from the heart"),
    ("a movie witha fine plot", "a movie with a fine plot"),
])
def test_words_written_as_one_are_parted(reviews: Restorer, written: str, meant: str) -> None:
    assert read(written, reviews.readings(written)) == meant


def test_capitals_show_where_two_words_were_joined() -> None:
    found = restorer(["a Motor , and a Company", "a motor", "a company"] * 20)
    assert read("the MotorCompany", found.readings("the MotorCompany")) == "the Motor Company"
    assert found.readings("the motorCompany") == []  # as in code


def test_neighbours_of_joined_words_are_the_nearer_ones() -> None:
    found = restorer(["here crude oil", "here fertile soil", "here"] * 50)
    assert read("herefertile osil", found.readings("herefertile osil")) == "here fertile soil"
    assert read("herecrude osil", found.readings("herecrude osil")) == "here crude oil"


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


@pytest.mark.parametrize("text", ["the gene reads " + "acgt" * 5000, "moive\n" * 4000, "moive," * 4000])
def test_time_grows_with_the_text_not_with_its_square(reviews: Restorer, text: str) -> None:
    began = process_time()
    found = reviews.readings(text)
    assert found and process_time() - began < 2  # with squares it is ten and more
    assert all(len(one.why) < 200 for one in found)


def test_long_runs_of_letters_are_not_remembered() -> None:
    found = restorer(REVIEWS)
    run = "acgt" * 100
    assert [one.becomes for one in found.readings(f"the gene {run}")] == [None]
    weighing = found.weighing()
    assert run not in weighing._entries and not any(run in key for key in weighing._outcomes)
    assert restorer([*REVIEWS, run]).readings(f"the movie {run}") == []


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


LETTERS_OF_ANY = "abdefgilmorstvy  .'-_#@4QX\u200b\u043e\ufb01\u00e9\u0301\U0001f44d\n\u0436\u0323\u2800"


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from(LETTERS_OF_ANY), max_size=40))
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
        total += sum((1.0 if at < size else ENDING) * (written[:at] + written[at + 1:] == word)
                     for at in range(len(written))) / (KINDS * size * LETTERS)
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


def test_a_letter_is_seldom_added_at_the_end() -> None:
    inner, ending = (undone(written, frozenset({"film"}))[0].likelihood for written in ("filxm", "filmx"))
    assert ending == pytest.approx(ENDING * inner)


def test_two_edits_are_found() -> None:
    lists = {9: ["excellent", "excelling"], 8: ["excelled"]}
    assert [one.word for one in undone_twice("ecxelletn", lists)] == ["excellent"]
