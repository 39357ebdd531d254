# SPDX-License-Identifier: Apache-2.0
"""Words in disguise: each kind is read, what only looks like one stays, hostile texts cost what long ones do."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_restoration import NEWS, REVIEWS, read, restorer

from dualmask.checksums import sealed
from dualmask.classifier import DefendedClassifier
from dualmask.defences.ddm_restore import DDMRestore, DDMRestoreOptions
from dualmask.options import former_options
from dualmask.storage import load
from dualmask.text import obfuscation
from dualmask.text.disguises import shortened, stars, unsigned, unstarred
from dualmask.text.examples import Dataset, Example
from dualmask.text.lexicon import EDGE, Figures, Lexicon
from dualmask.text.obfuscation import Undisguising
from dualmask.text.restoration import Restorer
from dualmask.training import train

PARTED, SPACED = "letters parted by signs", "letters parted by spaces"
REPEATED, DIGITS, STARRED = "repeated letters", "digits and signs for letters", "letters starred out"
ON, OFF = restorer(REVIEWS), restorer(REVIEWS, obfuscation=False)
FIGURES: Figures = ON._lexicon[0].figures()


def reasons(text: str, found: Restorer = ON) -> tuple[str, set[str]]:
    """A text as it is read, and why."""
    readings = found.readings(text)
    return read(text, readings), {one.why for one in readings}


@pytest.mark.parametrize(("written", "meant", "why"), [
    ("you i.d.i.o.t", "you idiot", PARTED), ("you i-d-i-o-t!", "you idiot!", PARTED),
    ("you i_d_i_o_t", "you idiot", PARTED), ("you (I/D/I/O/T)", "you (IDIOT)", PARTED),
    ("an i*d*i*o*t", "an idiot", PARTED), ("an i . d . i . o . t", "an idiot", PARTED),
    ("an i. d. i. o. t", "an idiot", PARTED), ("an i..d..i..o..t here", "an idiot here", PARTED),
    ("**i.d.i.o.t**", "**idiot**", PARTED), ("a b-a-d film", "a bad film", PARTED),
    ("c.l.i.c.k here", "click here", PARTED), ("F.R.E.E food", "FREE food", PARTED),
    ("a half-d.o.n.e film", "a half-done film", PARTED), ("it wasn't g-o-o-d", "it wasn't good", PARTED),
    ("a s t u p i d film", "a stupid film", SPACED), ("an i d i o t", "an idiot", SPACED),
    ("f r e e food", "free food", SPACED), ("a n i d i o t", "an idiot", SPACED),
    ("y o u   a r e   a   f o o l", "you   are   a   fool", SPACED), ("a b i g film", "a big film", SPACED),
    ("a s t u p i d, a fool", "a stupid, a fool", SPACED), ("i   a m   b a d", "i   am   bad", SPACED),
    ("a s t u p i d. U.S.A. a", "a stupid. U.S.A. a", SPACED),
    ("a f-o-o-l - a good film", "a fool - a good film", PARTED),
    ("an idiooooot", "an idiot", REPEATED), ("sooooo good", "so good", REPEATED),
    ("a gooood film", "a good film", REPEATED), ("the LOOOONG film", "the LONG film", REPEATED),
    ("a STUUUUUPID film", "a STUPID film", REPEATED), ("a ggggood film", "a good film", REPEATED),
    ("an iiddiioott", "an idiot", REPEATED), ("coooool", "cool", REPEATED), ("a filmmmmm", "a film", REPEATED),
    ("an 1d10t", "an idiot", DIGITS), ("fr33 food", "free food", DIGITS), ("$h0w 1t", "show it", DIGITS),
    ("a pr0m0t10n", "a promotion", DIGITS), ("AN 1D10T", "AN IDIOT", DIGITS), ("idi00000t", "idiot", DIGITS),
    ("an i*iot", "an idiot", STARRED), ("a st*pid film", "a stupid film", STARRED), ("f##k", "fuck", STARRED),
    ("a st#pid film", "a stupid film", STARRED), ("a st_pid film", "a stupid film", STARRED),
    ("a st@pid film", "a stupid film", STARRED), ("a b*d film", "a bad film", STARRED),
    ("a g**d film", "a good film", STARRED), ("A ST*PID FILM", "A STUPID FILM", STARRED),
])
def test_disguises_are_taken_off(written: str, meant: str, why: str) -> None:
    assert reasons(written) == (meant, {why})
    assert read(written, OFF.readings(written)) != meant or why == SPACED, "models of before read no disguises"


@pytest.mark.parametrize(("written", "meant"), [
    ("an id!ot", "an idiot"), ("a $tupid film", "a stupid film"), ("an a$$hole", "an asshole"),
    ("a b4d film", "a bad film"), ("a goood film", "a good film"),
])
def test_a_few_signs_in_a_word_are_read_as_before(written: str, meant: str) -> None:
    assert read(written, ON.readings(written)) == meant == read(written, OFF.readings(written))


def test_disguises_add_up() -> None:
    assert reasons("an 1.d.1.0.t")[0] == "an idiot"
    (one,) = ON.readings("an 1.d.1.0.t")
    assert one[:6] == (3, 12, "1.d.1.0.t", "idiot", "joined", f"{PARTED}, {DIGITS}")
    assert reasons("an i\u200b.d.\u0456.o.t")[0] == "an idiot"  # invisible and Cyrillic letters go first
    assert reasons("y.o.u.a.r.e.s.t.u.p.i.d")[0] == "you are stupid"


def test_what_a_disguise_hides_is_context() -> None:
    pair = restorer(["crude oil", "fertile soil"] * 50)
    for text, meant in (("c.r.u.d.e osil", "crude oil"), ("f.e.r.t.i.l.e osil", "fertile soil")):
        assert read(text, pair.readings(text)) == meant
    assert read("cr*de osil", pair.readings("cr*de osil")) == "crude oil"


def test_whole_texts_in_digits_are_read_and_single_short_words_are_not() -> None:
    assert reasons("Y0u 4r3 an 1d10t")[0] == "You are an idiot"
    assert reasons("Y0u 4r3 7h3 f00l")[0] == "You are the fool"
    assert reasons("4r3")[0] == "4r3" and unsigned("4r3", FIGURES) is not None


def test_readings_fit_their_places() -> None:
    text = "You i.d.i.o.t, sooooo st*pid!"
    assert [(one.start, one.end, one.becomes, one.action) for one in ON.readings(text)] == [
        (4, 13, "idiot", "joined"), (15, 21, "so", "restored"), (22, 28, "stupid", "restored")]
    defence = DDMRestore(DDMRestoreOptions(synonyms="none"))
    defence.rewriting.fit([Example(one, 0) for one in REVIEWS])
    assert defence.rewriting(text) == "You idiot, so stupid!"
    assert [text[slice(*span)] for span in defence.origins(text)] == ["You", "i.d.i.o.t,", "sooooo", "st*pid!"]
    assert [one.why for one in defence.account(text)] == [PARTED, REPEATED, STARRED]
    pair = "a n i d i o t", "fr33"
    assert [one.becomes for one in defence.account(pair)] == ["an", " ", "idiot", "free"] or (
        defence.rewriting(pair) == ("an idiot", "free"))


@pytest.mark.parametrize("text", [
    "see https://a.b.c.d/i.d.i.o.t and www.i-d-i-o-t.org/f.r.e.e", "mail b.a.d@film.org", "the file a.b.c and x.y.z",
    "version 1.2.3 or v1.2.3.4 of 10.0.0.1", "in the U.S.A. and the U.S.A again", "the U.S. and the U.K.",
    "e.g. this, i.e. that, a.k.a. the film", "J.R.R. Tolkien and J. R. R. Tolkien", "at 5 a.m. or 10 p.m.",
    "N.A.S.A. and N.A.T.O. and S.W.A.T", "the N.F.L. and F.B.I.", "M*A*S*H",
    "*good* and **good** and _good_ and ~~good~~", "a b* and *c", "$100 and $5 and 100$",
    "#sooooo", "@sooooo", "x*y*z = a*b + n*m", "f(a, b, c, d)", "x/y/z and a-b-c and a,b,c,d",
    "B2B 4K 1080p mp3 3D 2nd 4th 80th 5am 10pm 401k 90s 5s", "4/5 and 3/4", "*** and **** and * * * *", "100 1000 2006",
    "Aaaargh", "III and XXX and www", "the AAA rating", "rock 'n' roll", "R&B and Q&A and C# and F#m",
    "a.d.i.d and U-S-A-I", "a to_x and n_max", "really?Yes", "4men", "so a e i o u", "A B C D E",
])
def test_what_only_looks_like_a_disguise_stays(text: str) -> None:
    words = {PARTED, SPACED, REPEATED, DIGITS, STARRED}
    assert not [one for one in ON.readings(text) if one.why in words]
    assert ON.readings(text) == OFF.readings(text)


def test_acronyms_of_texts_with_capitals_stay() -> None:
    found = restorer(NEWS)
    for text in ("the AAAS said", "IEEE and WWII said", "I.B.M. said", "N.A.S.A. said"):
        assert found.readings(text) == restorer(NEWS, obfuscation=False).readings(text)


def test_what_training_texts_have_is_no_disguise() -> None:
    known = restorer([*REVIEWS, "sooooo 1d10t fr33"] * 3)
    for text in ("sooooo", "1d10t", "fr33"):
        assert known.readings(text) == []


def test_starred_letters_of_doubtful_words_stay() -> None:
    assert unstarred("st*pid", FIGURES, EDGE, EDGE) is not None
    for word in ("s**t", "w*b", "b*ll"):  # several words are as likely
        assert unstarred(word, FIGURES, EDGE, EDGE) is None
    assert stars("s***t") == stars("*fool") == stars("fool*") == stars("x" * 63 + "*x") == []
    assert reasons("a mo*vie") == read_before("a mo*vie"), "a star between the letters of a known word goes"
    assert reasons("him?Not")[0] == "him?Not"


def read_before(text: str) -> tuple[str, set[str]]:
    return reasons(text, OFF)


def test_neighbours_decide_what_was_starred_out_or_repeated() -> None:
    found = restorer(["crude oil", "crude tool"] * 60 + ["hot stove", "old stone"] * 60)
    assert read("hot sto*e", found.readings("hot sto*e")) == "hot stove"
    assert read("old sto*e", found.readings("old sto*e")) == "old stone"
    near = restorer(["too late", "go to bed"] * 60)
    assert read("tooo late", near.readings("tooo late")) == "too late"
    assert read("go tooo bed", near.readings("go tooo bed")) == "go to bed"


@pytest.mark.parametrize("text", [
    "\u0130\u0130ooood", "\u0130.\u0130.\u0130.\u0130.o", "\u0130000001d", "\u0130*iot"])
def test_letters_that_are_two_in_lower_case_are_no_trouble(text: str) -> None:
    assert read(text, ON.readings(text))


def test_short_readings_must_be_common() -> None:
    assert shortened("soooo", FIGURES, EDGE, EDGE) and not shortened("aaaa", FIGURES, EDGE, EDGE)
    assert not shortened("Ooooh", FIGURES, EDGE, EDGE) and not shortened("AAAS", FIGURES, EDGE, EDGE)
    assert unsigned("fr33", FIGURES) and not unsigned("4men", FIGURES).sure  # type: ignore[union-attr]
    assert not unsigned("5am", FIGURES) and not unsigned("100", FIGURES) and not unsigned("film", FIGURES)


# Models of before


def test_models_of_before_lack_the_option() -> None:
    assert former_options(DDMRestoreOptions) == {"obfuscation": False} and DDMRestoreOptions().obfuscation


@pytest.mark.slow
def test_models_of_before_read_as_they_did(tiny: Callable[[str], Path], data: Dataset, tmp_path: Path) -> None:
    options = {"synonyms": "none", "worst_share": 0.0, "steps": 0}
    train(data, defence="ddm-restore", encoder=str(tiny("bert")), out=str(tmp_path / "model"), progress=False,
          training={"epochs": 1, "batch_size": 8, "max_length": 64}, options=options)
    assert "idiot" in becomes(load(tmp_path / "model"), "an i.d.i.o.t")
    told = tmp_path / "model" / "dualmask.json"
    description = json.loads(told.read_text())
    assert description["options"].pop("obfuscation") is True
    told.write_text(sealed(description))
    assert "idiot" not in becomes(load(tmp_path / "model"), "an i.d.i.o.t")


def becomes(model: DefendedClassifier, text: str) -> list[str | None]:
    return [one.becomes for one in model.defence.account(text)]


def test_it_needs_restoring() -> None:
    defence = DDMRestore(DDMRestoreOptions(restore=False, synonyms="none"))
    defence.rewriting.fit([Example(one, 0) for one in REVIEWS])
    assert defence.rewriting("an i.d.i.o.t") == "an i.d.i.o.t"


# Hostile texts


HOSTILE: list[Callable[[int], str]] = [
    lambda size: "a." * size, lambda size: ".".join("idiot" * size), lambda size: "." * size, lambda size: "a " * size,
    lambda size: "i-" * size + "dd", lambda size: "o" * size, lambda size: "id" + "o" * size + "t",
    lambda size: "ood" * size,
    lambda size: "*" * size, lambda size: "a*" * size, lambda size: "st*pid " * size, lambda size: "b*d" * size,
    lambda size: "1" * size, lambda size: "a1" * size, lambda size: "1d10t " * size, lambda size: "$" * size + "a",
    lambda size: "ab.c-d e" * size, lambda size: "a  b. c" * size, lambda size: "a.b.c.d.ee" * size,
    lambda size: "a b.c  d, " * size,
]


@pytest.mark.parametrize("made", HOSTILE)
def test_work_grows_no_faster_than_hostile_texts(made: Callable[[int], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted: how often words are looked up and guessed, and how long these are."""
    few, many = (work(made(size), monkeypatch) for size in (250, 2500))
    assert many <= 12 * few + 2000


def work(text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    figures, count = FIGURES, [0]
    undisguising = Undisguising(figures, obfuscation=True)
    with monkeypatch.context() as patch:
        for name in ("is_known", "log_probability", "zipf"):
            patch.setattr(figures, name, counting(getattr(figures, name), count))
        patch.setattr(obfuscation, "guessed", counting(obfuscation.guessed, count))
        undisguising(text)
    return count[0]


def counting(function: Callable[..., object], count: list[int]) -> Callable[..., object]:
    def counted(*values: object, **named: object) -> object:
        count[0] += 1 + len(values[0]) // 100 if values and isinstance(values[0], str) else 1
        return function(*values, **named)

    return counted


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obfuscation, "REMEMBERED", 10)
    undisguising = Undisguising(FIGURES, obfuscation=True)
    for number in range(50):
        undisguising(f"word{number} {'x' * 1000}{number}")
    assert 0 < len(undisguising._doubts._harmless) <= 10
    assert max(map(len, undisguising._doubts._harmless)) < 1000


LETTERS_OF_ANY = "abdefgiloorst  ..--_*#@4130$!X'\u0130\u200b\u043e\ufb01\u0301\n"


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(st.sampled_from(LETTERS_OF_ANY), max_size=40))
def test_readings_fit_any_text(text: str) -> None:
    found = ON.readings(text)
    read(text, found)
    assert all(one.becomes != one.written and one.start < one.end for one in found)
    assert found == restorer_again.readings(text), "what was read before leaves no trace"


@pytest.mark.parametrize("found", [ON, OFF])
def test_a_mark_on_a_letter_that_is_read_otherwise_leaves_nothing(found: Restorer) -> None:
    word, = found.readings("e\u043e\u0301")
    assert (word.start, word.end, word.written) == (0, 3, "e\u043e\u0301")


restorer_again = Restorer(ON._lexicon[0])


def test_a_lexicon_without_words_reads_on() -> None:
    assert read("an i.d.i.o.t", Restorer(Lexicon()).readings("an i.d.i.o.t")) == "an idiot"
