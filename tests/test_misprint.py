# SPDX-License-Identifier: Apache-2.0
"""Misprint: which errors there are, which of them are tried, and what the victim is asked."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from attack_stand_ins import assault, run, stand_ins
from conftest import reviews
from rapidfuzz.distance import OSA, Levenshtein
from restoring_stand_ins import restoring

from dualmask.attacks import aware_of, build_attack
from dualmask.attacks.engine import Station
from dualmask.attacks.misprint import Errors, errors
from dualmask.attacks.problem import Problem, Streams
from dualmask.attacks.readings import ReadingOracle
from dualmask.classifier import DefendedClassifier
from dualmask.text.examples import Dataset, Example, Text
from dualmask.text.letters import slips
from dualmask.text.stop_words import stop_words
from dualmask.text.words import Words

TEXTS: list[Text] = [str(example.text) for example in reviews(8, seed=4)]
TEXTS += ["Good movies, with a SUPERB plot and a fine actor; the scene was dull . Very dull !"]


@pytest.fixture(scope="module")
def classifier(tiny: Callable[[str], Path], data: Dataset) -> DefendedClassifier:
    return restoring(tiny("bert"), data)


def finished(charge: Any, problem: Problem, steps: Callable[[], Any]) -> Any:
    """The end of some steps, all questions answered."""
    ending, = charge.engine.run([(problem, steps)])
    assert not ending.stopped, ending.reason
    return ending.result


def read(classifier: DefendedClassifier, texts: Sequence[Text]) -> list[tuple[int, ...]]:
    """What the network gets of each, padding left out."""
    view = classifier.first_view(texts)
    return [tuple(ids[shown.bool()].tolist()) for ids, shown in zip(view.input_ids, view.attention_mask, strict=True)]


def candidates(classifier: DefendedClassifier, text: str, **options: object) -> list[Words]:
    attack = build_attack("misprint", options=options, tools=stand_ins())
    charge = assault(classifier, attack)
    problem = charge.problem(0, Example(text, 1))
    found: list[Words] = finished(charge, problem, lambda: attack.moves.candidates(problem, problem.original))
    return found


# Which errors there are


def test_errors_are_of_one_letter() -> None:
    for word in ("movie", "Plot", "TV", "\u00e9a", "a-b", "it's"):
        every = [*slips(word, keys=False), *errors(word, any_letter=True)]
        assert all(OSA.distance(word, error) <= 1 for error in every)
        assert every_error(word, disguises=False) == list(dict.fromkeys(every))
        assert all(OSA.distance(word, error) <= 2 or error.isupper() for error in every_error(word))
    found = set(every_error("movie", disguises=False))
    assert {"ovie", "movi", "moovie", "omvie", "mo vie", "mlvie", "qovie", "movqie", "movieq", "mov\u0456e", "mo.vie",
            "Movie", "moVie", "mo7vie", "mo'vie"} <= found
    assert not {"movi e ", " movie", "#movie", "movie."} & found
    assert every_error("x") == []


def every_error(word: str, *, any_letter: bool = True, disguises: bool = True) -> list[str]:
    return Errors(any_letter=any_letter, disguises=disguises).replacements(word, Streams(0))


def test_all_letters_or_the_keys_beside() -> None:
    near, every = (set(every_error("dull", any_letter=any_letter)) for any_letter in (False, True))
    assert near < every and "full" in near and "bull" in every - near
    assert "DULL" not in every and "BULL" not in every and "BULL" in every_error("DULL")


def test_slips_may_look_like_names_or_code() -> None:
    more = set(every_error("dull")) - set(every_error("dull", disguises=False))
    assert {"Dlul", "DLUL", "dluL", "#dlul", "dl\u00fal", "Ddull"} <= more and not {"#bull", "# dull", "Bull"} & more


@pytest.mark.parametrize(("text", "place", "expected"), [
    ("a good plot", 0, "agood plot"), ("a good, plot", 1, "a goodplot"), ("a good plot.", 1, "a goodplot."),
    ("good plot", 0, "goodplot"), (("a b", "c d"), 0, ("ab", "c d")), (("a b", "c d"), 2, ("a b", "cd")),
    ("(good plot)", 0, "(goodplot)"), ("a good plot", 1, "a goodplot")])
def test_words_are_joined(text: Text, place: int, expected: Text) -> None:
    words = Words(text).joined(place)
    assert words.value == expected and words.changed == {place} and len(words) == len(Words(text)) - 1
    assert sorted(words.places) == [-1, *range(len(words))]


# Which are tried


@pytest.mark.parametrize("text", [TEXTS[3], TEXTS[-1]])
def test_only_what_is_read_otherwise_is_tried_and_once(classifier: DefendedClassifier, text: str) -> None:
    found, before = candidates(classifier, text), read(classifier, [text])[0]
    readings = read(classifier, [words.text for words in found])
    assert set(readings) == set(read(classifier, [words.text for words in all_errors(text)])) - {before}
    edited = [reading for words, reading in zip(found, readings, strict=True) if len(words) >= len(Words(text))]
    assert len(edited) == len(set(edited)) > 10


def all_errors(text: str) -> list[Words]:
    """Every text one edit away, by brute force."""
    words, free = Words(text), [word not in stop_words("nltk") for word in Words(text).words]
    found = [words.replaced(place, error) for place, word in enumerate(words.words) if free[place]
             for error in every_error(word)]
    return found + [words.joined(place) for place in range(len(words) - 1) if free[place] and free[place + 1]
                    and text[words.spans[place][1]:words.spans[place + 1][0]] == " "]


def test_what_the_defence_puts_right_is_never_asked(classifier: DefendedClassifier) -> None:
    found = {words.text for words in candidates(classifier, "superb movie", joins=False)}
    assert not {"superbb movie", "supreb movie", "superb moive"} & found
    assert any(" superb" not in text and "movie" in text for text in found)


def test_joins_can_be_left_out(classifier: DefendedClassifier) -> None:
    assert "superbmovie" in {words.text for words in candidates(classifier, "superb movie", letters="near")}
    assert "superbmovie" not in {words.text for words in candidates(classifier, "superb movie", joins=False)}


# What the victim is asked


def test_no_more_letters_than_allowed_and_only_the_victim_is_queried(classifier: DefendedClassifier) -> None:
    labels = classifier.predict(TEXTS).probabilities.argmax(dim=1).tolist()
    for most in (0, 1, 30):
        charge = assault(classifier, build_attack("misprint", options={"max_edits": most}, tools=stand_ins()))
        charge.logs = {}
        found = list(charge.run([(place, Example(text, labels[place])) for place, text in enumerate(TEXTS)]))
        assert any(one.outcome == "succeeded" for one in found) or most < 30
        for one in found:
            assert one.queries == len(charge.logs[one.index])
            assert all(Levenshtein.distance(one.text, text) <= most for text in charge.logs[one.index])
        assert (charge.engine.stations["readings"].asked > 0) == (most > 0)


def test_every_text_asked_about_is_read_otherwise_than_the_original(classifier: DefendedClassifier) -> None:
    """An error that is put right would be a wasted query; two errors may lead back."""
    text = str(TEXTS[-1])
    attack = build_attack("misprint", options={"queries": 120}, tools=stand_ins())
    charge = assault(classifier, attack)
    charge.logs = {}
    list(charge.run([(0, Example(text, int(classifier.predict([text]).probabilities.argmax())))]))
    asked = charge.logs[0][1:]
    assert len(asked) > 10 and read(classifier, [text])[0] not in read(classifier, asked)


def test_it_is_the_stronger_for_what_it_knows(classifier: DefendedClassifier) -> None:
    labels = classifier.predict(TEXTS).probabilities.argmax(dim=1).tolist()
    examples = [Example(text, label) for text, label in zip(TEXTS, labels, strict=True)]
    fooled = {name: sum(one.outcome == "succeeded" for one in run(classifier, build_attack(name), examples))
              for name in ("misprint", "deepwordbug")}
    assert fooled["misprint"] > fooled["deepwordbug"]


# The oracle


def test_readings_are_equal_where_the_networks_input_is(classifier: DefendedClassifier) -> None:
    texts: list[Text] = ["a good plot", "a great plot", "a GOOD  plot", "a goood plot", "a good scene", "a bad plot",
                         "", "\ud800", "a good plot " * 60]
    found = Station(ReadingOracle(classifier)).ask(texts)
    first = classifier.first_view(["a good plot"])
    assert len(found[texts[0]]) == 4 * int(first.attention_mask.sum())  # type: ignore[arg-type]
    assert len({found[text] for text in texts[:5]}) == 1 and found["a bad plot"] != found["a good plot"]
    answers = classifier.predict(texts[:6]).probabilities[:, 0].tolist()
    assert answers[:5] == pytest.approx([answers[0]] * 5) and answers[5] != pytest.approx(answers[0])
    alone = [Station(ReadingOracle(classifier)).ask([text])[text] for text in texts]
    assert alone == [found[text] for text in texts]


def test_long_texts_are_read_as_far_as_the_network_reads_them(classifier: DefendedClassifier) -> None:
    oracle = ReadingOracle(classifier)
    long, gaps = "good rare plot, " * 200, "good" + " " * 2000 + "rare plot " + "the movie was dull " * 100
    assert oracle.answers([long, gaps]) == oracle._answers([long, gaps])
    pairs: list[Text] = [(long, "dull"), ("dull", long)]
    assert oracle.answers(pairs) == oracle._answers(pairs) and len(set(oracle.answers(pairs))) == 2


def test_it_is_found_by_its_defence() -> None:
    assert set(aware_of("ddm-restore")) >= {"misprint", "outsider"} and "misprint" not in aware_of("ddm")
