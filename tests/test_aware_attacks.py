# SPDX-License-Identifier: Apache-2.0
"""Attacks that know a defence: what they ask of it, what each may write, and whom they refuse."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import pytest
import torch
from attack_stand_ins import assault, run, stand_ins, tiny_classifier
from conftest import reviews

from dualmask.attacks import ATTACKS, aware_of, build_attack
from dualmask.attacks.base import Attack
from dualmask.attacks.engine import Station
from dualmask.attacks.hidden import Hidden, HiddenOracle, beginning, by_swapping, in_rounds
from dualmask.attacks.padding import MARKS, Padding
from dualmask.attacks.problem import Problem, settled
from dualmask.attacks.running import attack as attack_all
from dualmask.classifier import DefendedClassifier, Masked
from dualmask.defences import build_defence
from dualmask.errors import OptionError
from dualmask.text.examples import Dataset, Example, Text
from dualmask.text.letters import slips
from dualmask.text.words import Words

AWARE = aware_of("ddm")
TEXTS: list[Text] = [str(example.text) for example in reviews(12, seed=4)]
TEXTS += ["Good movies, with a SUPERB plot and a fine actor; the scene was dull . Very dull !",
          "the good movie was a great plot and the awful scene with a poor actor was very fine and dull and bad x y z"]
PAIRS: list[Text] = [("the good movie was dull", "a great plot with a fine actor"), ("superb plot.", "Dull scene!")]
SETTINGS: list[dict[str, object]] = [
    {}, {"test_rate": 0.3}, {"test_rate": 0.0}, {"test_rate": 1.0, "keep_one": False}, {"unit": "word"},
    {"unit": "type", "test_rate": 0.3}, {"scorer": "word-frequency", "test_rate": 0.3}, {"order": "literal"},
    {"scorer": "word-frequency", "unit": "word", "pooling": "mean", "unseen": "fragmented"}, {"ties": "random"},
    {"scorer": "random", "ties": "right"}, {"scorer": "gradient", "test_rate": 0.3}, {"attention": False},
    {"protect": ("dull", "plot"), "test_rate": 0.3}, {"skip": "stop-words"}, {"test_count": "all", "rounding": "floor"},
]
SPELT = [Example("movies plots scenes unables goodx finex", 1)] * 40  # pieces that are frequent
Defended = Callable[..., DefendedClassifier]


@pytest.fixture(scope="module")
def defended(tiny: Callable[[str], Path], data: Dataset) -> Defended:
    """The tiny classifier, its DDM with other options; in double precision, since behind a mask many texts tie."""
    base = tiny_classifier(tiny("bert"), "ddm", data)
    base.network.double()

    def make(**options: object) -> DefendedClassifier:
        made = DefendedClassifier(base.model, base.encode.tokenizer, build_defence("ddm", options=options),
                                  labels=base.labels, max_length=base.encode.max_length)
        made.fit_defence([*data.train, *SPELT])
        return made

    return make


def attacked(classifier: DefendedClassifier, attack: Attack) -> list[Any]:
    """Each text under the victim's own label, so that all are attacked."""
    labels = classifier.predict(TEXTS).probabilities.argmax(dim=1).tolist()
    found = run(classifier, attack, [Example(text, label) for text, label in zip(TEXTS, labels, strict=True)])
    assert any(one.adversarial is not None for one in found), "an attack that never does anything tests nothing"
    return [one for one in found if one.adversarial is not None]


def hidden(classifier: DefendedClassifier, texts: Sequence[Text]) -> list[Hidden]:
    found = Station(HiddenOracle(classifier)).ask(texts)
    return [found[text] for text in texts]  # type: ignore[misc]


def masked(classifier: DefendedClassifier, text: Text) -> list[Masked]:
    found = classifier.predict([text], explain=True).masked
    assert found is not None
    return found[0]


def touched(classifier: DefendedClassifier, words: Words) -> set[int]:
    """Words with a mask, from the classifier's own explanation."""
    spans = [(one.start, one.end) for one in masked(classifier, words.value)]
    return {place for place, (start, end) in enumerate(words.spans) if any(s < end and start < e for s, e in spans)}


# Which attack knows which defence


def test_each_defence_finds_the_attacks_made_against_it() -> None:
    assert set(AWARE) == {"frequent", "steering", "typist", "padding", "seethrough"}
    assert aware_of("plain") == [] and aware_of("") == []
    assert set(aware_of("ddm-restore")) == {"misprint", "outsider", "unseen"} and aware_of("ranmask") == ["unseen"]
    assert all((name in AWARE + aware_of("ddm-restore")) is bool(kind.against) for name, kind in ATTACKS.items())


@pytest.mark.parametrize("name", AWARE)
def test_other_victims_are_refused_before_anything_is_written(
    name: str, tiny: Callable[[str], Path], data: Dataset, tmp_path: Path,
) -> None:
    plain = tiny_classifier(tiny("bert"), "plain", data)
    victims: list[tuple[object, str]] = [
        (plain, "'plain'"), (lambda texts: [[0.5, 0.5]] * len(texts), "only answers"), ("http://localhost:9", "only")]
    for victim, reason in victims:
        with pytest.raises(OptionError, match=rf"'{name}' is made against the defence ddm.*{reason}"):
            attack_all(victim, [("a good plot", 1)], name, tools=stand_ins(), out=tmp_path / "r.jsonl", measure=None)
    assert not list(tmp_path.iterdir())


# What the defence hides


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_the_oracle_tells_what_the_classifier_explains(options: dict[str, object], defended: Defended) -> None:
    classifier = defended(**options)
    for texts in (TEXTS, PAIRS, ["", "?!", "x", "\ud800 good", "unables goodx"]):
        for text, found in zip(texts, hidden(classifier, texts), strict=True):
            shift = 0 if isinstance(text, str) else len(text[0]) + 1
            expected = masked(classifier, text)
            assert found.masks == [(one.start + shift * one.part, one.end + shift * one.part) for one in expected]
            scores = [score for score, mask in zip(found.scores, found.masked, strict=True) if mask]
            assert scores == pytest.approx([one.score for one in expected], abs=1e-6)
            words = Words(text)
            if isinstance(text, str):
                assert found.places(words) == touched(classifier, words)


def test_its_answers_do_not_depend_on_the_batch(defended: Defended) -> None:
    classifier = defended(test_rate=0.3)
    assert hidden(classifier, TEXTS) == hidden(classifier, TEXTS[::-1])[::-1]
    assert hidden(classifier, TEXTS) == [hidden(classifier, [text])[0] for text in TEXTS]


def test_a_table_is_asked_without_the_network(defended: Defended, monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = defended()
    classifier.network.train()

    def forward(*given: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(classifier.network, "forward", forward)
    monkeypatch.setattr(classifier.model, "forward", forward)
    assert all(one.masks for one in hidden(classifier, TEXTS))
    assert classifier.network.training
    classifier.network.eval()


def test_long_texts_are_read_as_far_as_the_network_reads_them(defended: Defended) -> None:
    classifier = defended(test_rate=0.3)
    oracle, words = HiddenOracle(classifier), Words("good rare plot, " * 200)
    many = words.text
    gaps = "good" + " " * 2000 + "rare plot " + "the movie was dull " * 100  # a beginning that does not fill the input
    assert beginning(many, 100) == "good rare plot, " * 6 + "good" and beginning((many, many), 9) == (many, many)
    assert beginning(many, 10 ** 6) == many and beginning("x" * 900, 100) == "x" * 900
    assert oracle.answers([many, gaps]) == oracle._answers([many, gaps])
    read = oracle.answers([many])[0].read(words)
    assert read == list(range(len(read))) and 20 < len(read) < 40


@pytest.mark.parametrize("name", AWARE)
def test_only_the_victim_is_queried(name: str, defended: Defended) -> None:
    classifier = defended()
    charge = assault(classifier, build_attack(name, tools=stand_ins()))
    charge.logs = {}
    labels = classifier.predict(TEXTS).probabilities.argmax(dim=1).tolist()
    for one in charge.run([(place, Example(text, labels[place])) for place, text in enumerate(TEXTS)]):
        assert one.queries == len(charge.logs[one.index])
    assert charge.engine.stations["hidden"].asked > 0


# What each may write


@pytest.mark.parametrize("options", [{}, {"test_rate": 0.3}, {"scorer": "word-frequency"}, {"unit": "word"}], ids=str)
@pytest.mark.parametrize("name", ["frequent", "typist", "seethrough"])
def test_no_word_that_they_write_is_masked(name: str, options: dict[str, object], defended: Defended) -> None:
    classifier, wrote = defended(**options), 0
    labels = classifier.predict(TEXTS).probabilities.argmax(dim=1).tolist()
    for one in run(classifier, build_attack(name, tools=stand_ins()), list(map(Example, TEXTS, labels))):
        if one.adversarial is None:
            continue
        old, new = Words(one.text), Words(one.adversarial)
        written = {place for place, word in enumerate(new.words) if word not in old.words}
        wrote += len(written)
        assert not written & touched(classifier, new), one
    assert wrote or (name, options) == ("typist", {"scorer": "word-frequency"})  # a misspelt word is always rare there


def test_without_their_rule_such_words_are_masked(defended: Defended) -> None:
    """The ordinary attack writes some, so the test above can fail."""
    classifier = defended()
    texts = [(Words(one.text), Words(one.adversarial)) for one in attacked(
        classifier, build_attack("textfooler", tools=stand_ins(), options={"similarity": None}))]
    assert any(new[place] != old[place] for old, new in texts for place in touched(classifier, new))


def test_a_typists_errors_are_of_one_letter() -> None:
    from rapidfuzz.distance import OSA

    found = set(slips("movie")) - {"movie"}
    assert {"ovie", "moovie", "omvie", "mo vie", "mlvie", "movike"} <= found
    assert all(OSA.distance("movie", error) == 1 for error in found)
    assert set(slips("\u00e9a")) >= {"a", "\u00e9", "a\u00e9", "\u00e9 a", "\u00e9\u00e9a"}


def test_errors_in_frequent_pieces_stay_in_sight(defended: Defended) -> None:
    """"goods" and "goodx" are cut into two frequent pieces, "goodq" is an unknown word."""
    text = "the movie was good and the plot was fine"
    for options, kept in (({}, ["goods", "goodx"]), ({"scorer": "word-frequency"}, ["goodx"])):
        typist = build_attack("typist", tools=stand_ins())
        charge = assault(defended(**options), typist)
        problem = charge.problem(0, Example(text, 1))
        errors = [problem.original.replaced(3, word) for word in ("goods", "goodx", "goodq")]
        found = finished(charge, problem, lambda: typist.moves.allowed(problem, errors, problem.original))  # noqa: B023
        assert [words[3] for words in found] == kept


def finished(charge: Any, problem: Problem, steps: Callable[[], Any]) -> Any:
    """The end of some steps, all questions answered."""
    ending, = charge.engine.run([(problem, steps)])
    assert not ending.stopped, ending.reason
    return ending.result


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_steering_moves_the_masks_with_every_edit(rate: float, defended: Defended) -> None:
    classifier = defended(test_rate=rate)
    steering = build_attack("steering", tools=stand_ins())
    for one in attacked(classifier, steering):
        old, new = Words(one.text), Words(one.adversarial)
        assert len(old) == len(new)
        assert one.changed > 1 or touched(classifier, old) != touched(classifier, new)  # two may lead there and back
    charge = assault(classifier, steering)
    problem = charge.problem(0, Example(TEXTS[-1], 1))
    kept = finished(charge, problem, lambda: steering.moves.candidates(problem, problem.original))
    every = [problem.original.replaced(place, word) for place, word in
             steering.transformations()[0](problem, problem.original, range(len(problem.original)))]
    moved = {words.text for words in every
             if touched(classifier, words) != touched(classifier, problem.original)}
    assert {words.text for words in kept} == moved and moved


@pytest.mark.parametrize("where", ["start", "end"])
@pytest.mark.parametrize("rate", [0.1, 0.2, 0.3, 0.45])
def test_padding_is_just_enough_for_all_masks(rate: float, where: str, defended: Defended) -> None:
    """k added tokens must be at least ceil((n + k) rate), and k - 1 must not do."""
    classifier = defended(test_rate=rate)
    padding = build_attack("padding", tools=stand_ins(), options={"where": where, "spare": 0})
    assert isinstance(padding, Padding)
    charge = assault(classifier, padding)
    for text in TEXTS if where == "start" else TEXTS[:12]:  # at the end it loses to words that are as rare
        problem = charge.problem(0, Example(text, 1))
        words, = finished(charge, problem, lambda: padding.padded(problem.original))  # noqa: B023
        size, full = int(classifier.encode([text]).lengths), classifier.encode.max_length - 2
        need = next(count for count in range(1, 99) if count >= ceil(round(min(size + count, full) * rate, 6)))
        assert len(words) - len(problem.original) == need
        assert [word for word in words.words if word not in MARKS] == problem.original.words
        assert touched(classifier, words) <= {place for place, word in enumerate(words.words) if word in MARKS}
        assert len(masked(classifier, words.text)) == ceil(round(min(size + need, full) * rate, 6))


def test_padding_that_can_do_nothing_leaves_the_text_alone(defended: Defended) -> None:
    for options in ({"test_rate": 0.0}, {"test_rate": 1.0, "keep_one": False}, {"unit": "type"}, {"scorer": "random"}):
        classifier = defended(**options)
        for text in ("", "?!", "good"):
            label = int(classifier.predict([text]).probabilities.argmax())
            one, = run(classifier, build_attack("padding"), [Example(text, label)])
            assert one.outcome in ("failed", "succeeded")
            assert one.adversarial is None or options.get("test_rate") != 0.0 or len(Words(one.adversarial)) == 1


def test_a_fixed_premise_is_not_padded(defended: Defended) -> None:
    classifier = defended(test_rate=0.3)
    pair = ("the good movie was dull", "a great plot with a fine actor")
    label = int(classifier.predict([pair]).probabilities.argmax())
    for where in ("start", "end"):
        attack = build_attack("padding", options={"fix_premise": True, "where": where})
        for one in run(classifier, attack, [Example(pair, label)]):
            assert isinstance(one.text, tuple) and isinstance(one.adversarial, tuple)
            assert one.adversarial[0] == one.text[0] and any(mark in one.adversarial[1] for mark in MARKS)


def test_gradients_are_asked_anew_after_each_edit(defended: Defended) -> None:
    classifier = defended()
    found = attacked(classifier, build_attack("seethrough", tools=stand_ins(), options={"max_share": None, "beam": 1}))
    assert all(one.gradients >= 1 for one in found)
    assert any(one.gradients > 1 and one.changed > 1 for one in found)


def test_a_success_that_ranking_meets_is_an_answer(defended: Defended) -> None:
    """With no query left to ask for it again, too."""
    classifier = defended(test_rate=0.1)
    frequent = build_attack("frequent", tools=stand_ins(), options={"similarity": None})
    charge = assault(classifier, frequent)
    problem = charge.problem(0, Example(str(TEXTS[-1]), 0))
    finished(charge, problem, problem.begin)
    problem.start = problem.best = problem.start._replace(fooled=False)
    problem.label = 1 - int(classifier.predict([TEXTS[-1]]).probabilities.argmax())  # whatever is asked is a success
    order = finished(charge, problem, lambda: by_swapping(problem, frequent.moves))
    assert len(order) == 1 and problem.best.fooled and problem.best.words.changed
    problem.terms = replace(problem.terms, queries=problem.queries)
    answer = finished(charge, problem, lambda: in_rounds(problem, frequent.moves, lambda *_: settled([])))
    assert answer is problem.best


def test_words_are_ranked_by_their_best_exchange(defended: Defended) -> None:
    classifier = defended(test_rate=0.3)
    frequent = build_attack("frequent", tools=stand_ins(), options={"similarity": None})
    charge = assault(classifier, frequent)
    text = str(TEXTS[-1])
    problem = charge.problem(0, Example(text, int(classifier.predict([text]).probabilities.argmax())))
    finished(charge, problem, problem.begin)
    order = finished(charge, problem, lambda: by_swapping(problem, frequent.moves))
    best = dict.fromkeys(frequent.moves.places(problem.original), problem.start.score)
    for words in finished(charge, problem, lambda: frequent.moves.candidates(problem, problem.original)):
        row = tuple(classifier.predict([words.text]).probabilities[0].tolist())
        place = words.newest.start
        best[place] = max(best[place], problem.score(row)) if place in best else problem.score(row)
    assert set(order) == set(best) and len(set(best.values())) > 3
    falling = [best[place] for place in order]
    assert all(one >= other - 1e-3 for one, other in pairwise(falling))


@pytest.mark.parametrize("name", ["frequent", "steering"])
def test_an_attack_that_failed_could_not_have_gone_on(name: str, defended: Defended) -> None:
    """In rounds until no allowed edit of any word is better: masks that moved allow what was refused before."""
    classifier, ended = defended(), 0
    attack = build_attack(name, tools=stand_ins(), options={"similarity": None})
    charge = assault(classifier, attack)
    labels = classifier.predict(TEXTS).probabilities.argmax(dim=1).tolist()
    for place, text in enumerate(TEXTS):
        problem = charge.problem(place, Example(text, labels[place]))
        finished(charge, problem, problem.begin)
        last = finished(charge, problem, lambda: attack.search(problem))  # noqa: B023
        if not last.fooled:
            more = finished(charge, problem, lambda: attack.moves.candidates(problem, last.words))  # noqa: B023
            answers = finished(charge, problem, lambda: problem.ask(more))  # noqa: B023
            assert not any(answer.fooled or problem.better(answer, last) for answer in answers)
            ended += 1
    assert ended or name != "frequent"


def test_what_it_learns_about_a_defence_leaves_no_trace(defended: Defended) -> None:
    classifier = defended()
    before = classifier.fingerprint()
    with torch.enable_grad():
        hidden(classifier, TEXTS)
    assert classifier.fingerprint() == before
    assert all(weight.grad is None for weight in classifier.network.parameters())
