# SPDX-License-Identifier: Apache-2.0
"""Metrics and statistics against their definitions, brute force and known tables."""

import math
import random
import subprocess
import sys
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmask.errors import DataError
from dualmask.evaluation.metrics import Robustness, held, robustness, worst_case
from dualmask.evaluation.statistics import Z, bootstrap, holm, mcnemar, spread, wilson
from dualmask.results import HELD, AttackResult, Outcome

OUTCOMES: list[Outcome] = ["succeeded", "failed", "skipped", "out-of-queries", "out-of-time", "unconfirmed",
                           "victim-error", "attack-error"]


def result(index: int, outcome: Outcome) -> AttackResult:
    return AttackResult(
        index=index, text="x", label=0, outcome=outcome, adversarial=None, clean=0, predicted=0, probability=0.5,
        probability_after=0.5, queries=1, rows=1, gradients=0, words=1, changed=0, similarity=None, seconds=0.0)


def results(outcomes: list[Outcome]) -> list[AttackResult]:
    return [result(index, outcome) for index, outcome in enumerate(outcomes)]


@given(st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=40))
@settings(max_examples=100, deadline=None)
def test_the_identity_holds_exactly(outcomes: list[Outcome]) -> None:
    found = robustness(results(outcomes))
    assert found.texts + found.faults == len(outcomes)
    assert found.right == sum(outcome == "succeeded" or outcome in HELD for outcome in outcomes)
    if not found.texts:
        with pytest.raises(DataError, match="no text could be measured"):
            _ = found.clean_accuracy
    elif found.success is None:
        assert found.clean_accuracy == found.accuracy_under_attack == 0
    else:
        assert found.accuracy_under_attack == found.clean_accuracy * (1 - found.success)
    assert sum(held(results(outcomes)).values()) == found.right - found.flipped


def test_the_worst_case_is_pointwise() -> None:
    first = results(["succeeded", "failed", "skipped", "failed", "failed"])
    second = results(["failed", "succeeded", "skipped", "failed", "victim-error"])
    assert worst_case([first, second]) == Robustness(texts=4, right=3, flipped=2, faults=1)
    assert worst_case([first]) == robustness(first)
    with pytest.raises(DataError, match="different victims"):
        worst_case([first, results(["skipped", "failed", "skipped", "failed", "failed"])])
    with pytest.raises(DataError):
        worst_case([])


@pytest.mark.parametrize(("part", "low", "high"), [(100, 8.3, 12.0), (500, 46.9, 53.1), (800, 77.4, 82.4),
                                                   (900, 88.0, 91.7)])
def test_wilson_against_known_figures(part: int, low: float, high: float) -> None:
    found = wilson(part, 1000)
    assert (round(100 * found.low, 1), round(100 * found.high, 1)) == (low, high)


@pytest.mark.parametrize(("part", "whole"), [(3, 10), (0, 7), (7, 7), (50, 100), (1, 1)])
def test_wilson_against_its_equation(part: int, whole: int) -> None:
    for bound in wilson(part, whole):
        if 1e-12 < bound < 1 - 1e-12:
            assert abs(part / whole - bound) == pytest.approx(Z * math.sqrt(bound * (1 - bound) / whole))


@pytest.mark.parametrize(("part", "whole"), [(1, 0), (-1, 4), (5, 4), (0, 0)])
def test_shares_that_are_none(part: int, whole: int) -> None:
    with pytest.raises(DataError, match="is no share"):
        wilson(part, whole)


def test_the_deviation_is_the_samples() -> None:
    assert spread([1.0, 2.0, 4.0]) == (pytest.approx(7 / 3), pytest.approx(math.sqrt(7 / 3)), 3)
    assert spread([5.0]) == (5.0, None, 1)
    with pytest.raises(DataError):
        spread([])


@pytest.mark.parametrize(("only_one", "only_other"), [(0, 0), (1, 0), (3, 1), (5, 5), (0, 9), (2, 8)])
def test_mcnemar_against_counting_all_coin_flips(only_one: int, only_other: int) -> None:
    texts = only_one + only_other
    one = [True] * only_one + [False] * only_other + [True, False]
    other = [False] * only_one + [True] * only_other + [True, False]
    gap = abs(only_one - only_other)
    as_far = sum(abs(2 * sum(flips) - texts) >= gap for flips in product((0, 1), repeat=texts))
    assert mcnemar(one, other) == mcnemar(other, one) == pytest.approx(as_far / 2 ** texts)


def test_pairs_must_be_pairs() -> None:
    with pytest.raises(DataError, match="can't be paired"):
        mcnemar([True], [True, False])
    for one, other in (([[True]], [[True, False]]), ([], []), ([[]], [[]]), ([[True], [True, False]],) * 2):
        with pytest.raises(DataError, match="the same seeds"):
            bootstrap(one, other)


def test_the_bootstrap_covers_the_truth_about_as_often_as_it_says() -> None:
    """A known difference of 0.2, one hundred experiments of 150 texts: about 95 intervals hold it."""
    draw = random.Random(0)
    covered = 0
    for experiment in range(100):
        one = [[draw.random() < 0.7 for _ in range(150)]]
        other = [[draw.random() < 0.5 for _ in range(150)]]
        found = bootstrap(one, other, seed=experiment, draws=300)
        covered += found.interval.low <= 0.2 <= found.interval.high
    assert 88 <= covered <= 100


def test_the_bootstrap_is_seeded_and_signed() -> None:
    one, other = [[True] * 30 + [False] * 10] * 3, [[True] * 20 + [False] * 20] * 3
    found = bootstrap(one, other, seed=1, draws=500)
    assert found == bootstrap(one, other, seed=1, draws=500) and found.value == pytest.approx(0.25)
    assert 0 < found.interval.low < 0.25 < found.interval.high
    assert bootstrap(other, one, seed=1, draws=500).value == pytest.approx(-0.25)


def test_holm_by_hand() -> None:
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})
    assert holm({"a": 0.6, "b": 0.9}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}
    with pytest.raises(DataError, match="is no p-value"):
        holm({"a": 1.5})


def test_reports_need_no_torch() -> None:
    code = ("import sys, dualmask.evaluation.metrics, dualmask.evaluation.statistics, dualmask.results; "
            "sys.exit('torch' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
