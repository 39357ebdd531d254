# SPDX-License-Identifier: Apache-2.0
"""The engine: questions merged and packed, faults contained, budgets kept, results that depend on nothing else."""

import gc
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from attack_stand_ins import HashVictim, assault, records, run, stand_ins, tiny_classifier
from conftest import reviews

from dualmask.attacks import build_attack
from dualmask.attacks.engine import Engine, Failure, Station, out_of_memory
from dualmask.attacks.oracles import VictimOracle
from dualmask.attacks.problem import Problem, Question, Steps, Streams, Terms
from dualmask.attacks.running import Assault
from dualmask.attacks.running import attack as attack_all
from dualmask.errors import DataError, OptionError
from dualmask.models.victim import VictimError, as_victim
from dualmask.text.encoding import packed
from dualmask.text.examples import Dataset, Example, Text
from dualmask.text.words import Words

FOLLOWING = "the movie was very good and the plot was a great scene with a fine actor"
TEXTS = [str(example.text) for example in reviews(24, seed=4)] + [FOLLOWING, "x", "good movie !", "dull, dull, dull"]


class Echo:
    """Answers with the item's length; refuses more than `most` at once with an error of the caller's choice."""

    memory = 0

    def __init__(self, *, rows: int = 8, cells: int = 1 << 20, memory: int = 0) -> None:
        self.rows, self.cells, self.memory = rows, cells, memory
        self.batches: list[list[str]] = []
        self.most, self.error = 1 << 30, Exception("never raised")

    @property
    def seen(self) -> list[str]:
        return [item for batch in self.batches for item in batch]

    def lengths(self, items: Sequence[str]) -> list[int]:
        return [len(item) for item in items]

    def answers(self, items: Sequence[str]) -> list[int]:
        self.batches.append(list(items))
        if len(items) > self.most:
            raise self.error
        return [len(item) for item in items]


def problem(text: str = "a b c", label: int = 0, **terms: float) -> Problem:
    return Problem(Words(text), label, streams=Streams(0), terms=Terms(**terms))  # type: ignore[arg-type]


# A station


def test_equal_questions_are_asked_once() -> None:
    echo = Echo()
    station = Station(echo)
    assert station.ask(["aa", "b", "aa", "b", "aa"]) == {"aa": 2, "b": 1}
    assert sorted(echo.seen) == ["aa", "b"] and station.run == 2
    station.ask(["aa"])
    assert len(echo.seen) == 3  # nothing is remembered where nothing may be


def test_batches_keep_to_rows_and_cells() -> None:
    items = [letter * size for size in range(1, 20) for letter in "abc"]
    echo = Echo(rows=7, cells=40)
    assert Station(echo).ask(items) == {item: len(item) for item in items}
    assert Counter(echo.seen) == Counter(items)
    for batch in echo.batches:
        assert len(batch) <= 7 and (len(batch) * max(map(len, batch)) <= 40 or len(batch) == 1)
    for one, other in zip(echo.batches, echo.batches[1:], strict=False):
        assert len(one) == 7 or (len(one) + 1) * len(one[0]) > 40, "a batch that had room for more"
        assert min(map(len, one)) >= max(map(len, other)), "like lengths belong together, the longest first"


def test_a_text_longer_than_all_cells_goes_alone() -> None:
    assert list(packed([3, 100, 2], rows=8, cells=10)) == [[1], [0, 2]]
    assert list(packed([], rows=8, cells=10)) == []


@pytest.mark.parametrize("error", [
    torch.cuda.OutOfMemoryError("CUDA out of memory."), MemoryError(),
    RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 4 bytes"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes"),
], ids=["cuda", "python", "windows", "linux"])
@pytest.mark.parametrize("tolerant", [True, False])
def test_too_little_memory_halves_and_goes_on(error: Exception, tolerant: bool) -> None:
    echo = Echo(rows=16)
    echo.most, echo.error = 3, error
    station = Station(echo, tolerant=tolerant)
    items = [chr(97 + number) * 3 for number in range(16)]
    assert station.ask(items) == dict.fromkeys(items, 3)
    assert max(map(len, echo.batches)) == 16
    failures = len([batch for batch in echo.batches if len(batch) > 3])
    station.ask([item * 2 for item in items])
    assert len([batch for batch in echo.batches if len(batch) > 3]) == failures, "what did not fit was tried again"


def test_what_this_machine_says_when_memory_is_short_is_understood() -> None:
    with pytest.raises(RuntimeError) as found:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert out_of_memory(found.value)
    assert not out_of_memory(RuntimeError("shapes do not fit"))


def test_other_errors_of_an_oracle_are_not_hidden() -> None:
    echo = Echo()
    echo.most, echo.error = 0, RuntimeError("a bug")
    with pytest.raises(RuntimeError, match="a bug"):
        Station(echo).ask(["a"])


def test_one_bad_item_fails_alone() -> None:
    class Picky(Echo):
        def answers(self, items: Sequence[str]) -> list[int]:
            if "bad" in items:
                raise ValueError("no such text")
            return super().answers(items)

    found = Station(Picky(rows=64), tolerant=True).ask([*(str(number) for number in range(40)), "bad"])
    failures = {item: answer for item, answer in found.items() if isinstance(answer, Failure)}
    assert list(failures) == ["bad"] and "ValueError" in failures["bad"].reason and "no such text" in str(failures)
    assert found["7"] == 1 and len(found) == 41


def test_memory_is_bounded_and_keeps_what_is_used() -> None:
    echo = Echo(memory=10)
    station = Station(echo)
    for number in range(100):
        assert station.ask([f"item {number}", "always"])["always"] == 6
    asked = Counter(echo.seen)
    assert asked["always"] == 1 and max(asked.values()) == 1
    assert station.ask(["item 99"]) and station.run == 101
    station.ask(["item 3"])
    assert station.run == 102, "more was remembered than there is room for"
    many = [f"new {number}" for number in range(50)]
    assert station.ask(many) == {item: len(item) for item in many}, "more at once than memory holds"


# The engine alone


def asking(questions: Sequence[Question], heard: list[object]) -> Steps[object]:
    for question in questions:
        heard.append((yield question))
    return heard


def test_attacks_that_ask_different_oracles_advance_together() -> None:
    echo, other = Echo(), Echo()
    engine = Engine({"one": Station(echo), "two": Station(other)}, width=10)
    work = []
    for number in range(5):
        questions = [Question("one", [f"{number}", "same"]), Question("two", ["same"]), Question("one", [])]
        work.append((problem(), lambda questions=questions: asking(questions, [])))
    endings = list(engine.run(work))  # type: ignore[arg-type]
    assert [ending.result for ending in endings] == [[[1, 4], [4], []]] * 5
    assert engine.rounds == 3
    assert Counter(echo.seen) == {**{str(number): 1 for number in range(5)}, "same": 1}
    assert other.batches == [["same"]]
    assert engine.stations["one"].asked == 10 and engine.stations["one"].run == 6


def test_no_more_than_width_run_at_once_and_endings_come_early() -> None:
    echo = Echo(rows=100)
    engine = Engine({"one": Station(echo)}, width=3)
    started: list[int] = []

    def begin(number: int) -> Steps[object]:
        started.append(number)
        for step in range(1 if number % 2 else 4):
            yield Question("one", [f"{number} {step}"])
        return number

    seen = []
    for ending in engine.run([(problem(), lambda number=number: begin(number)) for number in range(9)]):  # type: ignore[misc]
        seen.append(ending.result)
        assert len(started) <= len(seen) + 3
    assert sorted(map(str, seen)) == list("012345678") and max(map(len, echo.batches)) <= 3


def test_an_attack_that_asks_nothing_still_ends() -> None:
    def nothing() -> Steps[object]:
        return "done"
        yield

    engine = Engine({}, width=2)
    assert [one.result for one in engine.run((problem(), nothing) for _ in range(5))] == ["done"] * 5
    assert list(engine.run([])) == []


def test_a_bug_in_an_attack_or_in_an_oracle_is_no_victim_error() -> None:
    def wrong() -> Steps[object]:
        yield Question("one", ["a"])
        raise ZeroDivisionError("of all things")

    def right() -> Steps[object]:
        yield Question("one", ["a"])
        return "fine"

    found = list(Engine({"one": Station(Echo())}).run([(problem(), wrong), (problem(), right)]))
    assert [(one.stopped, one.result) for one in found] == [("attack-error", None), ("", "fine")]
    assert found[0].reason == "ZeroDivisionError: of all things"

    def set_up_wrongly() -> Steps[object]:
        yield Question("one", ["a"])
        raise OptionError("no such table")

    with pytest.raises(OptionError, match="no such table"):
        list(Engine({"one": Station(Echo())}).run([(problem(), set_up_wrongly)]))
    broken = Echo()
    broken.most, broken.error = 0, ArithmeticError("inside")
    with pytest.raises(ArithmeticError, match="inside"):
        list(Engine({"one": Station(broken)}).run([(problem(), wrong)] * 3))


def test_whoever_stops_early_is_let_go() -> None:
    victim = HashVictim()
    results = assault(victim, build_attack("deepwordbug"), width=2).run(list(enumerate(victim.examples(TEXTS))))
    next(results)
    read = len(victim.read)
    results.close()  # type: ignore[attr-defined]
    assert len(victim.read) == read


def test_time_spent_in_the_model_is_shared_by_those_who_asked() -> None:
    class Slow(Echo):
        def answers(self, items: Sequence[str]) -> list[int]:
            time.sleep(0.02)
            return super().answers(items)

    busy, idle = problem(), problem()
    work = [(busy, lambda: asking([Question("one", list("abcdefghi"))], [])),
            (idle, lambda: asking([Question("one", ["z"])], []))]
    list(Engine({"one": Station(Slow(rows=100))}, width=2).run(work))
    assert 0.015 < busy.seconds < 0.2 and busy.seconds > 4 * idle.seconds


# A problem's two ways of asking


def answered(steps: Steps[object], victim: HashVictim) -> object:
    """Run steps that ask nobody but the victim."""
    reply = None
    while True:
        try:
            question = steps.send(reply) if reply is not None else next(steps)  # type: ignore[arg-type]
        except StopIteration as stop:
            return stop.value
        assert question.oracle == "victim"
        reply = [tuple(row) for row in victim.probabilities(question.items)]


def test_logical_queries_count_repetitions_and_rows_do_not() -> None:
    victim, one = HashVictim(), problem("good movie")
    answered(one.begin(), victim)
    texts = [one.original.replaced(0, "fine"), one.original.replaced(0, "fine"), one.original]
    answers = answered(one.ask(texts), victim)
    assert [answer.words.text for answer in answers] == ["fine movie", "fine movie", "good movie"]  # type: ignore[attr-defined]
    assert (one.queries, one.rows, victim.read) == (4, 2, ["good movie", "fine movie"])
    answered(one.probe(texts), victim)
    assert (one.queries, one.rows) == (7, 2)
    answered(one.confirm(texts[0]), victim)
    assert (one.queries, one.rows) == (7, 3) and victim.read[-1] == "fine movie"


def test_a_probe_is_never_the_best_answer() -> None:
    victim = HashVictim()
    label = victim.label("good movie")
    flips = next(word for word in (f"w{number}" for number in range(100)) if victim.label(f"{word} movie") != label)
    one = problem("good movie", label)
    answered(one.begin(), victim)
    answered(one.probe([one.original.replaced(0, flips)]), victim)
    assert one.best.words is one.original and not one.best.fooled
    answered(one.ask([one.original.replaced(0, flips)]), victim)
    assert one.best.fooled and one.best.words[0] == flips


def test_the_budget_cuts_a_question_short() -> None:
    victim, one = HashVictim(), problem("good movie", queries=4)
    answered(one.begin(), victim)
    texts = [one.original.replaced(0, f"w{number}") for number in range(10)]
    assert len(answered(one.ask(texts), victim)) == 3  # type: ignore[arg-type]
    assert one.spent and one.queries == 4
    assert answered(one.ask(texts), victim) == [] and answered(one.probe(texts), victim) == []
    assert len(victim.read) == 4


@pytest.mark.parametrize("tolerance", [0.0, 1e-5])
def test_order_is_by_falling_score(tolerance: float) -> None:
    one = problem(tolerance=tolerance)
    assert one.order([0.1, 0.9, 0.5]) == [1, 2, 0] and one.order([]) == []
    answers = [one.start._replace(score=score) for score in (0.3, 0.5, 0.3 + 1e-7, 0.5 - 1e-7)]
    expected = [1, 3, 2, 0] if tolerance == 0 else [1, 3, 0, 2]  # equal ones stay in their order
    assert [answers.index(answer) for answer in one.ranked(answers)] == expected
    assert not one.better(answers[1], answers[1]) and one.better(answers[1], answers[0])
    assert one.better(answers[2], answers[0]) is (tolerance == 0)


def test_random_streams_depend_on_the_seed_alone() -> None:
    first, second, third = Streams(3), Streams(3), Streams(4)
    draws = [[(stream.place(0, 1000), stream.letter("abcdefghijklmnopqrstuvwxyz")) for _ in range(20)]
             for stream in (first, second, third)]
    assert draws[0] == draws[1] != draws[2]
    assert Streams(1 << 62).place(0, 10) in range(10)


# Victims that misbehave


def raises(texts: Sequence[Text]) -> object:
    raise RuntimeError("model on fire")


BAD_ANSWERS: dict[str, Callable[[Sequence[Text]], object]] = {
    "raises": raises,
    "nan": lambda texts: [[0.5, float("nan")]] * len(texts),
    "infinite": lambda texts: [[float("inf"), 0.0]] * len(texts),
    "too few rows": lambda texts: [[0.5, 0.5]] * (len(texts) - 1),
    "too many rows": lambda texts: [[0.5, 0.5]] * (len(texts) + 1),
    "too many classes": lambda texts: [[0.2, 0.3, 0.5]] * len(texts),
    "no classes": lambda texts: [[]] * len(texts),
    "one number": lambda texts: 0.5,
    "one dimension": lambda texts: [0.5] * len(texts),
    "three dimensions": lambda texts: np.ones((len(texts), 1, 1)),
    "negative": lambda texts: [[1.5, -0.5]] * len(texts),
    "logits": lambda texts: [[3.0, -2.0]] * len(texts),
    "no sum of 1": lambda texts: [[0.5, 0.4]] * len(texts),
    "a string": lambda texts: "positive",
    "strings": lambda texts: ["positive"] * len(texts),
    "nothing": lambda texts: None,
    "ragged": lambda texts: [[0.5, 0.5], [1.0]],
    "dictionaries": lambda texts: [{"label": "good"}] * len(texts),
    "out of memory": lambda texts: (_ for _ in ()).throw(torch.cuda.OutOfMemoryError("CUDA out of memory")),
    "python's memory": lambda texts: (_ for _ in ()).throw(MemoryError()),
}


@pytest.mark.parametrize("kind", BAD_ANSWERS)
def test_a_bad_answer_fails_its_own_example_only(kind: str) -> None:
    good = HashVictim()
    examples = good.examples([*TEXTS[:6], "a poisoned movie", *TEXTS[6:9]])
    healthy = [example for example in examples if "poisoned" not in example.text]

    def victim(texts: Sequence[Text]) -> object:
        if any("poisoned" in text for text in texts):
            return BAD_ANSWERS[kind](texts)
        return good.probabilities(texts)

    attack = build_attack("deepwordbug")
    expected = records(run(good, attack, healthy))
    # Without names of the labels, a whole batch of rows that are too wide is as good as any other answer.
    for labels in (("bad", "good"), ()) if kind != "too many classes" else (("bad", "good"),):
        found = list(Assault(victim, attack, measure=None, labels=labels).run(list(enumerate(examples))))
        bad = [one for one in found if one.outcome == "victim-error"]
        assert [one.index for one in bad] == [6], f"with labels {labels}"
        assert bad[0].reason and bad[0].adversarial is None and bad[0].predicted is None and bad[0].queries == 1
        others = records([one for one in found if one.index != 6])
        for one in others:
            one["index"] = int(str(one["index"])) - (int(str(one["index"])) > 6)
        assert others == expected


def test_one_row_that_is_too_wide_does_not_tell_how_many_classes_there_are() -> None:
    good = HashVictim()

    def victim(texts: Sequence[Text]) -> object:
        return [[0.2, 0.3, 0.5] if "poisoned" in text else good.one(text) for text in texts]

    examples = [Example("a poisoned movie, longer than all of the others and hence first in every batch", 0),
                *good.examples(TEXTS[:6])]
    found = run(victim, build_attack("deepwordbug"), examples)
    assert "victim-error" not in {one.outcome for one in found[1:]}
    assert [one.outcome for one in found[1:]] == [one.outcome for one in
                                                  run(good, build_attack("deepwordbug"), examples[1:])]


def test_a_fault_in_the_middle_of_an_attack_ends_it_with_what_is_known() -> None:
    good = HashVictim()

    def victim(texts: Sequence[Text]) -> object:
        if any("[UNK]" in text and text.startswith("the") for text in texts):
            raise RuntimeError("no brackets, please")
        return good.probabilities(texts)

    examples = good.examples(["the good movie", "good movie was dull"])
    found = run(victim, build_attack("deepwordbug"), examples)
    assert found[0].outcome == "victim-error" and "no brackets, please" in found[0].reason
    assert found[0].probability is not None and found[0].predicted == examples[0].label
    assert found[1].outcome in ("succeeded", "failed") and not found[1].reason


def test_a_victim_that_never_answers_stops_the_run() -> None:
    examples = [Example(text, 0) for text in TEXTS]
    with pytest.raises(VictimError, match="model on fire"):
        run(raises, build_attack("deepwordbug"), examples)
    alone = run(raises, build_attack("deepwordbug"), examples[:1])[0]  # one text alone may be to blame itself
    assert alone.outcome == "victim-error" and "model on fire" in alone.reason
    good = HashVictim()
    later = run(lambda texts: raises(texts) if good.read and any("[UNK]" in text for text in texts)
                else good.probabilities(texts), build_attack("deepwordbug"), good.examples(TEXTS))
    assert {one.outcome for one in later} == {"victim-error"}, "one that has answered before is believed in"


def test_settings_of_the_victim_are_no_texts_fault() -> None:
    def victim(texts: Sequence[Text]) -> object:
        raise OptionError("give the labels")

    with pytest.raises(OptionError, match="give the labels"):
        run(victim, build_attack("deepwordbug"), [Example("good movie", 0)])


def test_a_victim_whose_rows_have_fewer_classes_than_the_labels_say() -> None:
    found = run(lambda texts: [[0.5, 0.5]] * len(texts), build_attack("deepwordbug"), [Example("good movie", 5)])
    assert found[0].outcome == "victim-error" and "5" in found[0].reason


@pytest.mark.parametrize("label", [-1, 2])
def test_labels_that_the_victim_can_not_have_are_refused(label: int) -> None:
    with pytest.raises(DataError, match=str(label)):
        attack_all(HashVictim(), [Example("good movie", label)], "deepwordbug", measure=None)


def test_a_keyboard_interrupt_is_no_victim_error() -> None:
    def victim(texts: Sequence[Text]) -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(victim, build_attack("deepwordbug"), [Example("good movie", 0)])


def test_a_success_that_the_victim_takes_back_is_unconfirmed() -> None:
    good, seen = HashVictim(), Counter[Text]()

    def fickle(texts: Sequence[Text]) -> list[list[float]]:
        seen.update(texts)
        return [good.one(text) if seen[text] == 1 else good.one(text)[::-1] for text in texts]

    examples = good.examples(TEXTS[:12])
    honest = run(good, build_attack("deepwordbug"), examples, width=1)
    found = run(fickle, build_attack("deepwordbug"), examples, width=1)
    assert {one.outcome for one in honest} >= {"succeeded"}
    for one, other in zip(honest, found, strict=True):
        if one.outcome == "succeeded":
            assert (other.outcome, other.adversarial) == ("unconfirmed", one.adversarial)
            assert other.predicted == other.label and other.queries == one.queries


def test_every_success_is_asked_about_once_more() -> None:
    victim = HashVictim()
    for one in run(victim, build_attack("deepwordbug"), victim.examples(TEXTS), width=1):
        times = victim.read.count(one.adversarial or one.text)
        if one.outcome == "succeeded":
            assert times == 2 and victim.label(one.adversarial or "") == one.predicted != one.label


# Limits


def test_the_time_limit_is_an_outcome_of_its_own() -> None:
    def slow(texts: Sequence[Text]) -> object:
        time.sleep(0.01 * any("good" in text for text in texts))
        return [[0.9, 0.1]] * len(texts)

    examples = [Example("a good movie with a very good plot and a good actor", 0), Example("x", 0)]
    found = run(slow, build_attack("deepwordbug", options={"seconds": 0.035}), examples, width=1)
    assert [one.outcome for one in found] == ["out-of-time", "failed"]
    assert 0.035 <= found[0].seconds < 0.5 and found[0].predicted == 0 and found[0].probability == 0.9


def test_time_that_ends_with_a_success_at_hand_does_not_take_it_away() -> None:
    def slow(texts: Sequence[Text]) -> object:
        time.sleep(0.03)
        return [[0.9, 0.1] if "good" in text else [0.1, 0.9] for text in texts]

    found = run(slow, build_attack("deepwordbug", options={"seconds": 0.08, "ranking": "random"}),
                [Example("good", 0)], width=1)
    assert found[0].outcome == "succeeded" and found[0].predicted == 1


def test_no_time_at_all_is_out_of_time_before_the_first_look() -> None:
    found = run(HashVictim(), build_attack("deepwordbug", options={"seconds": 0}), [Example("good movie", 0)])
    assert found[0].outcome == "out-of-time" and found[0].predicted is None


@pytest.mark.parametrize("budget", [*range(1, 13), 17, 23, 30])
def test_no_budget_is_ever_exceeded(budget: int) -> None:
    victim = HashVictim(gain=0.5)
    examples = victim.examples([TEXTS[0], TEXTS[3], FOLLOWING])
    victim.read.clear()
    found = run(victim, build_attack("deepwordbug", options={"queries": budget, "max_edits": 4}), examples, width=1)
    for one in found:
        assert one.queries <= budget
        assert one.rows <= one.queries + (one.outcome == "succeeded")
        if one.outcome == "out-of-queries":
            assert one.queries == budget
        else:
            assert one.queries < budget or one.outcome in ("succeeded", "skipped")
    assert sum(one.rows for one in found) == len(victim.read)


def test_budgets_by_words() -> None:
    victim = HashVictim(gain=0.2)
    examples = victim.examples(["plot", "very good plot", FOLLOWING])
    for one in run(victim, build_attack("deepwordbug", options={"queries_per_word": 2.0, "max_edits": 4}), examples):
        assert one.queries <= 2 * one.words
    both = build_attack("deepwordbug", options={"queries_per_word": 2.0, "queries": 5})
    assert all(one.queries <= 5 for one in run(victim, both, examples))


def test_logical_and_physical_queries_agree_with_the_victims_count() -> None:
    victim = HashVictim()
    found = run(victim, build_attack("pwws", tools=stand_ins()), victim.examples(TEXTS), width=1)
    assert sum(one.rows for one in found) == len(victim.read)
    assert sum(one.queries for one in found) > len(victim.read), "PWWS asks twice about some, which counts twice"
    together = HashVictim()
    again = run(together, build_attack("pwws", tools=stand_ins()), victim.examples([*TEXTS, *TEXTS]), width=64)
    assert len(together.read) < sum(one.rows for one in again), "equal texts of two attacks are read once"
    assert [one.queries for one in again] == [one.queries for one in found] * 2


# Nothing else matters


@pytest.mark.parametrize("name", ["deepwordbug", "textbugger", "pwws", "textfooler"])
def test_results_do_not_depend_on_order_width_or_batch(name: str) -> None:
    victim = HashVictim()
    examples = list(enumerate(victim.examples(TEXTS)))
    attack = build_attack(name, tools=stand_ins())
    expected = records(list(assault(victim, attack, width=1).run(examples)))
    assert {one["outcome"] for one in expected} >= {"succeeded"}
    for width, rows in ((3, 1), (64, 7), (1000, 32), (2, 500)):
        mixed = random.Random(width).sample(examples, len(examples))
        one = assault(victim, build_attack(name, tools=stand_ins()), width=width)
        one.engine.stations["victim"] = Station(VictimOracle(as_victim(victim), rows=rows), tolerant=True)
        assert records(list(one.run(mixed))) == expected
    other = records(list(assault(victim, attack, seed=1).run(examples)))
    if name == "deepwordbug":
        assert other != expected, "another seed, other letters"


def test_the_same_text_twice_is_attacked_alike() -> None:
    victim = HashVictim()
    found = run(victim, build_attack("deepwordbug"), victim.examples([FOLLOWING] * 3), width=2)
    assert len({one.adversarial for one in found}) == 1 and len({one.queries for one in found}) == 1


def test_a_finished_attack_is_forgotten() -> None:
    victim = HashVictim()
    examples = list(enumerate(victim.examples([f"{text} {number}" for number in range(4) for text in TEXTS])))
    ours = {one.text for _, one in examples}  # other tests' problems may not be collected yet
    remembering = []
    for place, _ in enumerate(assault(victim, build_attack("deepwordbug"), width=4).run(examples)):
        if place % 20 == 19:
            remembering.append(sum(type(one) is Problem and one.known(one.original) is not None
                                   and one.original.text in ours for one in gc.get_objects()))
    assert max(remembering) <= 5, "answers of finished attacks are still in memory"


@pytest.mark.parametrize("name", ["deepwordbug", "hotflip", "fgpm"])
@pytest.mark.parametrize("training", [True, False])
def test_the_victim_is_left_as_it_was(
    name: str, training: bool, tiny: Callable[[str], object], data: Dataset,
) -> None:
    classifier = tiny_classifier(tiny("bert"), "ddm", data)  # type: ignore[arg-type]
    classifier.network.train(training)
    before = {key: tensor.clone() for key, tensor in classifier.network.state_dict().items()}
    mark = classifier.fingerprint()
    texts = TEXTS[:6]
    labels = classifier.predict(texts).probabilities.argmax(dim=1).tolist()
    run(classifier, build_attack(name, tools=stand_ins()), [Example(*pair) for pair in zip(texts, labels, strict=True)])
    assert classifier.network.training is training and classifier.model.training is training
    assert classifier.fingerprint() == mark
    after = classifier.network.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert all(weight.grad is None and weight.requires_grad for weight in classifier.model.parameters())


def test_errors_of_the_victim_carry_their_own_words() -> None:
    def victim(texts: Sequence[Text]) -> object:
        raise VictimError("come back tomorrow")

    assert run(victim, build_attack("deepwordbug"), [Example("good", 0)])[0].reason == "come back tomorrow"
