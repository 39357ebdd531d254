# SPDX-License-Identifier: Apache-2.0
"""The paper's lemmas and condition: closed forms against integrals and draws, its slips as counterexamples."""

import subprocess
import sys
from itertools import product

import numpy as np
import pytest
import sympy
from numpy.typing import NDArray

from dualmask import theory
from dualmask.errors import DataError, OptionError
from dualmask.evaluation.detection import auroc as exact_auroc
from dualmask.text.words import Words
from dualmask.theory.alignment import Alignment, align
from dualmask.theory.conditions import exact_conditions_of, ordering_of, success_condition_of
from dualmask.theory.distances import LAWS, segment_distance, triangle_coefficients, triangle_distance
from dualmask.theory.products import Products, products
from dualmask.theory.rates import neighbours, rates_of
from dualmask.theory.recovery import auroc
from dualmask.theory.rule import FEATURES, HeldOut, features, fit, held_out, logistic

Array = NDArray[np.float64]
ALPHA, X, Y, Z = sympy.symbols("alpha x y z", nonnegative=True)
GRAM = sympy.Matrix(3, 3, lambda i, j: sympy.Symbol("".join(sorted(("amr"[i], "amr"[j])))))
ORDER = [GRAM[0, 0], GRAM[1, 1], GRAM[2, 2], GRAM[0, 1], GRAM[0, 2], GRAM[1, 2]]
UNITS = Products.of_table(np.eye(6))  # what is linear in the products is known by its values here


def draw(count: int, dimension: int, *, seed: int = 0, shared: bool = False, lengths: bool = True) -> Products:
    """Random directions, with one in common if wanted, and log-normal lengths."""
    generator = np.random.default_rng(seed)
    found = generator.normal(size=(3, count, dimension)) + shared * generator.normal(size=dimension)
    if lengths:
        found *= generator.lognormal(size=(3, count, 1)) / np.linalg.norm(found, axis=-1, keepdims=True)
    return products(*found)


MANY = [draw(100_000, dimension, seed=dimension, shared=shared)
        for dimension, shared in product((2, 3, 5, 16, 64), (False, True))]


def squared(*coefficients: sympy.Expr) -> sympy.Expr:
    """||alpha a - mu m - nu r||^2 in inner products."""
    row = sympy.Matrix([coefficients])
    return sympy.expand((row * GRAM * row.T)[0])


def coefficients(expression: sympy.Expr) -> list[float]:
    return [float(sympy.diff(expression, one)) for one in ORDER]


# Lemmas


def test_lemma_1_by_integration() -> None:
    found = sympy.integrate(squared(ALPHA, -X, sympy.Integer(0)), (ALPHA, 0, 1), (X, 0, 1))
    assert coefficients(found) == pytest.approx(segment_distance(UNITS).tolist(), abs=1e-15)
    other = sympy.integrate(squared(ALPHA, sympy.Integer(0), -X), (ALPHA, 0, 1), (X, 0, 1))
    assert coefficients(other) == pytest.approx(segment_distance(UNITS, "r").tolist(), abs=1e-15)


def test_lemma_2_as_printed_by_integration() -> None:
    found = sympy.integrate(squared(ALPHA, -Z * Y, -Z * (1 - Y)), (ALPHA, 0, 1), (Y, 0, 1), (Z, 0, 1))
    assert coefficients(found) == pytest.approx(triangle_distance(UNITS, "paper").tolist(), abs=1e-15)


def test_lemma_2_as_stated_by_integration() -> None:
    """Over the triangle itself, where a uniform point has the density 2."""
    found = sympy.integrate(2 * squared(ALPHA, -X, -Y), (ALPHA, 0, 1), (Y, 0, 1 - X), (X, 0, 1))
    assert coefficients(found) == pytest.approx(triangle_distance(UNITS, "uniform").tolist(), abs=1e-15)
    drawn = squared(ALPHA, -Z * Y, -Z * (1 - Y))  # z is the root of a uniform number: its density is 2 z
    assert sympy.simplify(found - sympy.integrate(drawn * 2 * Z, (ALPHA, 0, 1), (Y, 0, 1), (Z, 0, 1))) == 0


@pytest.mark.parametrize("dimension", [2, 8, 64, 768])
def test_closed_forms_agree_with_a_million_draws(dimension: int) -> None:
    generator = np.random.default_rng(dimension)
    a, b, c = generator.normal(size=(3, dimension))
    found = theory.monte_carlo(a, b, count=10**6, generator=generator)
    assert abs(found.value - theory.expected_sq_distance_segment(a, b)) < 4 * found.error < 0.01 * found.value
    closed = {law: float(theory.expected_sq_distance_triangle(a, b, c, law)) for law in LAWS}
    for law in LAWS:
        found = theory.monte_carlo(a, b, c, law=law, count=10**6, generator=generator)
        assert abs(found.value - closed[law]) < 4 * found.error < 0.01 * found.value
        assert all(abs(found.value - closed[other]) > 20 * found.error for other in LAWS if other != law)


def test_points_themselves_have_the_expected_distances() -> None:
    generator = np.random.default_rng(0)
    a, b, c = generator.normal(size=(3, 5))
    starts = theory.sample_segment(a, 200_000, generator)
    for law in LAWS:
        ends = theory.sample_triangle(b, c, law, count=200_000, generator=generator)
        gaps = np.square(starts - ends).sum(axis=1)
        assert abs(gaps.mean() - theory.expected_sq_distance_triangle(a, b, c, law)) < 4 * gaps.std() / 200_000**0.5


def test_the_proofs_points_crowd_at_s() -> None:
    for law, near, mean in (("paper", 0.5, 1 / 4), ("uniform", 0.25, 1 / 3)):
        shares = triangle_coefficients(400_000, law, np.random.default_rng(1))  # type: ignore[arg-type]
        assert (shares >= 0).all() and (shares.sum(axis=1) <= 1).all()
        assert (shares.sum(axis=1) < 0.5).mean() == pytest.approx(near, abs=0.004)
        assert shares.mean(axis=0) == pytest.approx([mean, mean], abs=0.002)


def test_a_segment_is_not_at_distance_0_from_itself() -> None:
    assert theory.expected_sq_distance_segment([3, 4], [3, 4]) == pytest.approx(25 / 6)


# Conditions


@pytest.mark.parametrize(("a", "m", "r", "energies", "fails"), [
    ([3, 0], [2, -0.5], [2, -1], (17 / 12, 31 / 24, 5 / 3), "u1"),
    ([4, 0], [-4, -2], [-4, -3], (20, 163 / 6, 65 / 3), "u2"),
])  # fmt: skip
def test_published_counterexamples(
    a: list[float], m: list[float], r: list[float], energies: tuple[float, ...], fails: str,
) -> None:
    order, exact = theory.ordering(a, m, r), theory.exact_conditions(a, m, r)
    assert theory.success_condition(a, m, r).holds
    assert (order.e_m, order.e_mr_uniform, order.e_r) == pytest.approx(energies)
    assert order.paper and not order.uniform
    assert [name for name in ("p1", "p2", "u1", "u2", "r") if not exact.hold(name)] == [fails]


def test_the_condition_is_sufficient_for_the_papers_law_only() -> None:
    met = first = second = unmet = ordered = 0
    for p in MANY:
        holds, order, slack = success_condition_of(p).holds, ordering_of(p), 1e-9 * p.size
        assert not (holds & (order.e_m > order.e_mr_paper + slack)).any()
        assert not (holds & (order.e_mr_paper > order.e_r + slack)).any()
        met += holds.sum()
        first += (holds & (order.e_m > order.e_mr_uniform + slack)).sum()
        second += (holds & (order.e_mr_uniform > order.e_r + slack)).sum()
        ordered += order.paper.sum()
        unmet += (order.paper & ~holds).sum()
    assert 0.1 < met / 1e6 < 0.3
    assert 0.001 < first / met < 0.01 and 0.015 < second / met < 0.15  # measured elsewhere: 0.35 % and 4.5 %
    assert 0.4 < unmet / ordered < 0.8  # far from necessary


def test_exact_conditions_are_the_ordering() -> None:
    for p in MANY:
        exact, order = exact_conditions_of(p), ordering_of(p)
        far = 1e-9 * p.size
        for name, left, right in (("p1", order.e_m, order.e_mr_paper), ("p2", order.e_mr_paper, order.e_r),
                                  ("u1", order.e_m, order.e_mr_uniform), ("u2", order.e_mr_uniform, order.e_r),
                                  ("r", order.e_m, order.e_r)):
            clear = abs(left - right) > far
            assert (exact.hold(name) == (left <= right))[clear].all()
        assert (order.paper == exact.hold("p1")).all()  # P1 implies P2
        assert (order.uniform == exact.hold("u1") & exact.hold("u2")).all()
        assert np.allclose(exact.p2 - exact.p1, 4 * (p.mm + p.rr - 2 * p.mr)) and np.allclose(exact.u1 + exact.u2,
                                                                                                exact.r)
    failing = sum((exact_conditions_of(p).hold("u1") & ~exact_conditions_of(p).hold("u2")).sum() for p in MANY)
    assert failing / sum(exact_conditions_of(p).hold("u1").sum() for p in MANY) == pytest.approx(0.11, abs=0.05)


def test_deltas_are_the_papers() -> None:
    a, m, r = np.random.default_rng(5).normal(size=(3, 1000, 4))
    length = {name: np.linalg.norm(one, axis=1) for name, one in (("a", a), ("m", m), ("r", r))}
    l_am, l_ar = ((a * one).sum(axis=1) / length["a"] / length[name] for name, one in (("m", m), ("r", r)))
    first = (2 / 9 * length["m"] - length["a"] / 4 * l_am) ** 2 - length["a"] ** 2 / 16 * (l_am**2 - l_ar**2)
    second = (2 / 3 * length["m"] - length["a"] / 2 * l_am) ** 2 - length["a"] ** 2 / 4 * (l_am**2 - l_ar**2)
    assert np.allclose(theory.delta1(a, m, r), first) and np.allclose(theory.delta2(a, m, r), second)
    found = theory.success_condition(a, m, r)
    roots = [np.where(one >= 0, np.sqrt(np.abs(one)), np.nan) for one in (first, second)]
    assert np.allclose(found.first, np.nan_to_num(9 / 8 * (length["a"] * l_ar + 4 * roots[0])))
    assert np.allclose(found.second, np.nan_to_num(3 / 4 * (length["a"] * l_ar + 2 * roots[1])))
    l_mr = (m * r).sum(axis=1) / length["m"] / length["r"]
    assert (found.applicable == (l_mr > 0)).all() and np.isinf(found.third[l_mr <= 0]).all()
    assert np.allclose(found.third[l_mr > 0], (length["m"] / l_mr)[l_mr > 0])
    greatest = np.maximum(np.maximum(found.first, found.second), found.third)
    assert (found.holds == (length["r"] >= greatest)).all() and (found.holds == (found.reach >= 0.5)).all()
    assert np.allclose(found.reach[l_mr > 0], (length["r"] / (length["r"] + greatest))[l_mr > 0])


def test_why_the_condition_suffices_and_its_second_term_is_redundant() -> None:
    """The identities that docs/theory.md argues with; X is ||v_r|| and Y is ||v_a|| l_ar."""
    _, mm, rr, am, ar, mr = ORDER
    first = X**2 - sympy.Rational(9, 4) * Y * X - mm + sympy.Rational(9, 4) * am
    second = X**2 - sympy.Rational(3, 2) * Y * X - mm + sympy.Rational(3, 2) * am
    exact = exact_conditions_of(UNITS)
    p1, r = (sum(sympy.Rational(value) * one for value, one in zip(margin.tolist(), ORDER, strict=True)).subs(
        {rr: X**2, ar: X * Y}) for margin in (exact.p1, exact.r))
    assert sympy.expand(4 * first + 4 * (mr - mm) - p1) == 0 and sympy.expand(2 * second - r) == 0
    assert sympy.expand(second - (2 * first + X**2 - mm) / 3) == 0
    for quadratic, factor, inner, delta in (
        (first, sympy.Rational(9, 8), 4, sympy.Rational(4, 81) * mm - am / 9 + Y**2 / 16),
        (second, sympy.Rational(3, 4), 2, sympy.Rational(4, 9) * mm - sympy.Rational(2, 3) * am + Y**2 / 4),
    ):
        assert sympy.expand(quadratic.subs(X, factor * (Y + inner * sympy.sqrt(delta)))) == 0  # a root
        assert sympy.simplify(quadratic.coeff(X, 1) / 2 + factor * Y) == 0  # and the larger one: it adds a square root


def test_masking_is_nearer_if_the_mask_is_nearer_to_three_quarters_of_the_victim() -> None:
    a, m, r = np.random.default_rng(6).normal(size=(3, 5000, 4))
    nearer = np.linalg.norm(m - 0.75 * a, axis=1) <= np.linalg.norm(r - 0.75 * a, axis=1)
    assert (theory.exact_conditions(a, m, r).hold("r") == nearer).all() and 0.4 < nearer.mean() < 0.6


def test_the_second_term_is_redundant_and_the_printed_brackets_are_wrong() -> None:
    wrong = 0
    for p in MANY:
        found, length, order = success_condition_of(p), np.sqrt(p.rr), ordering_of(p)
        without = found.applicable & (length >= found.first - 1e-9 * length) & (p.mr >= p.mm)
        assert (without == found.holds).mean() > 0.99999
        victim, l_ar = np.sqrt(p.aa), p.cosine("a", "r")
        d1, d2 = (np.maximum(one, 0) for one in (
            4 / 81 * p.mm - p.am / 9 + p.aa * l_ar**2 / 16, 4 / 9 * p.mm - 2 / 3 * p.am + p.aa * l_ar**2 / 4))
        literal = np.maximum(9 / 8 * victim * (l_ar + 4 * np.sqrt(d1)), 3 / 4 * victim * (l_ar + 2 * np.sqrt(d2)))
        wrong += (found.applicable & (length >= literal) & (p.mr >= p.mm) & ~order.paper).sum()
    assert wrong > 100


@pytest.mark.parametrize(("dimension", "condition", "paper", "uniform"), [
    (2, 0.114, 0.39, 0.37), (8, 0.010, 0.27, 0.37), (64, 0.0, 0.036, 0.37), (768, 0.0, 0.0, 0.38),
])  # fmt: skip
def test_how_often_the_condition_holds_for_isotropic_vectors(
    dimension: int, condition: float, paper: float, uniform: float,
) -> None:
    parts = [rates_of(draw(5_000, dimension, seed=seed, lengths=False)) for seed in range(8)]
    found = np.mean([part[1:] for part in parts], axis=0)
    assert found == pytest.approx([condition, paper, uniform, 0.5], abs=0.012)
    assert found[0] == pytest.approx(condition, abs=0.1 * condition + 1e-4)


def test_masking_costs_on_clean_text() -> None:
    a, m = np.random.default_rng(0).normal(size=(2, 20_000, 64))
    assert not theory.ordering(a, m, a).masked_closer.any()
    assert theory.ordering(a, 0.75 * a, a).masked_closer.all()  # an artefact of independent coefficients


def test_verdicts_depend_neither_on_scale_nor_on_rotation() -> None:
    generator = np.random.default_rng(3)
    vectors = generator.normal(size=(3, 4000, 3)) * generator.lognormal(size=(3, 4000, 1))
    rotation, _ = np.linalg.qr(generator.normal(size=(3, 3)))
    plain = theory.success_condition(*vectors)
    for other in (1e-3 * vectors, 1e60 * vectors, 1e-60 * vectors, vectors @ rotation):
        found = theory.success_condition(*other)
        assert (found.holds == plain.holds).all() and np.allclose(found.reach, plain.reach)
        assert (theory.ordering(*other).uniform == theory.ordering(*vectors).uniform).all()


def test_all_leading_dimensions_work_at_once() -> None:
    vectors = np.random.default_rng(4).normal(size=(3, 6, 7, 5))
    whole = theory.success_condition(*vectors)
    assert whole.holds.shape == (6, 7) and theory.ordering(*vectors).e_m.shape == (6, 7)
    assert whole.first[2, 3] == theory.success_condition(*vectors[:, 2, 3]).first
    mask = vectors[1, 0, 0]
    spread = theory.exact_conditions(vectors[0], mask, vectors[2])
    assert np.allclose(spread.u1, theory.exact_conditions(vectors[0], np.broadcast_to(mask, (6, 7, 5)), vectors[2]).u1)


# Degenerate geometry


EDGES = [np.zeros(3), np.array([1.0, 2.0, 2.0]), np.array([-1.0, -2.0, -2.0]), np.array([0.0, 1e-170, 0.0]),
         np.array([2.0, -1.0, 0.0])]


@pytest.mark.parametrize(("a", "m", "r"), list(product(EDGES, repeat=3)))
def test_degenerate_geometry_has_defined_values(a: Array, m: Array, r: Array) -> None:
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        success, order, exact = (one(a, m, r) for one in (
            theory.success_condition, theory.ordering, theory.exact_conditions))
        inputs = features(products(a, m, r))
    values = [*success[:2], success.reach, *order[:4], *exact, *(exact.relative(name) for name in ("p1", "u2", "r"))]
    assert all(np.isfinite(one) for one in values) and np.isfinite(inputs).all() and success.third >= 0
    assert success.holds <= success.applicable and 0 <= success.reach <= 1
    if not m.any() or not r.any():
        assert not success.applicable
    if (m == r).all():
        assert order.paper and order.masked_closer


def test_a_mask_like_the_replacement_is_a_tie() -> None:
    m = np.random.default_rng(7).normal(size=(2000, 16))
    a = np.random.default_rng(8).normal(size=(2000, 16))
    order = theory.ordering(a, m, m)
    assert order.paper.all() and order.masked_closer.all()
    steep = 8 * (m * m).sum(axis=1) >= 9 * (a * m).sum(axis=1)  # else the threshold is that of the other root
    assert (theory.success_condition(a, m, m).holds == steep).all() and 0.9 < steep.mean() < 1


@pytest.mark.parametrize("vectors", [
    ([np.nan, 1], [1, 1], [1, 1]), ([1, 1], [np.inf, 1], [1, 1]), ([1, 1], [1, 1, 1], [1, 1]), (1, 1, 1),
    (np.ones((2, 3)), np.ones((4, 3)), np.ones(3)), (["x"], ["y"], ["z"]), ([1e200, 0], [1, 1], [1, 1]),
])  # fmt: skip
def test_what_is_no_geometry_is_refused(vectors: tuple[object, object, object]) -> None:
    for function in (theory.success_condition, theory.ordering, theory.exact_conditions, theory.delta1):
        with pytest.raises(DataError, match=r"were given|can't be brought together"):
            function(*vectors)  # type: ignore[operator]


def test_wrong_options_are_refused() -> None:
    generator = np.random.default_rng(0)
    with pytest.raises(OptionError, match="did you mean 'uniform'"):
        theory.expected_sq_distance_triangle([1], [1], [1], "unifrom")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="at least 2"):
        theory.monte_carlo([1], [1], count=1, generator=generator)
    with pytest.raises(OptionError, match="'random' or 'nearest'"):
        theory.condition_rate(np.eye(3), np.ones(3), replacement="far", draws=1,  # type: ignore[arg-type]
                              generator=generator)
    with pytest.raises(DataError, match="two or more"):
        theory.condition_rate(np.eye(3)[:1], np.ones(3), replacement="random", draws=1, generator=generator)
    with pytest.raises(DataError, match="no triples"):
        rates_of(Products.of_table(np.zeros((0, 6))))
    with pytest.raises(DataError, match="along the last axis"):
        Products.of_table(np.zeros((2, 5)))


# Contraction and tables of embeddings


def test_attention_lies_between_the_contraction_and_what_is_left() -> None:
    generator = np.random.default_rng(2)
    query, keys, values = generator.normal(size=6), generator.normal(size=(9, 6)), generator.normal(size=(9, 4))
    weights = theory.attention_weights(query, keys)
    assert weights.sum() == pytest.approx(1) and np.allclose(np.log(weights / weights[0]), (keys - keys[0]) @ query)
    unchanged = np.arange(9) != 5
    found = theory.contract(weights, values, unchanged)
    assert np.allclose(found.share * found.point + weights[5] * values[5], weights @ values)
    other = values.copy()
    other[5] = 99.0  # s knows nothing of the changed token
    assert np.allclose(theory.contract(weights, other, unchanged).point, found.point)


def test_contractions_that_make_no_sense_are_refused() -> None:
    with pytest.raises(DataError, match="nothing to contract"):
        theory.contract([0.5, 0.5], np.eye(2), [False, False])
    with pytest.raises(DataError, match="one weight and one flag"):
        theory.contract([0.5, 0.5], np.eye(3), [True, True, True])
    with pytest.raises(DataError, match="what a softmax gives"):
        theory.contract([-0.5, 1.5], np.eye(2), [True, True])
    found = theory.contract([0.0, 0.0, 1.0], np.eye(3), [True, True, False])  # all attention on the changed one
    assert np.allclose(found.point, [0.5, 0.5, 0]) and found.share == 0


def test_rates_of_embeddings() -> None:
    generator = np.random.default_rng(0)
    table = generator.normal(size=(400, 32))
    table[200:] = table[:200] + 0.05 * generator.normal(size=(200, 32))  # everyone has a synonym
    assert (neighbours(table, np.arange(400)) == (np.arange(400) + 200) % 400).all()
    ask = {"draws": 500, "generator": np.random.default_rng(1)}
    near = theory.condition_rate(table, 0.2 * table[0], replacement="nearest", **ask)  # type: ignore[arg-type]
    far = theory.condition_rate(table, 0.2 * table[0], replacement="random", **ask)  # type: ignore[arg-type]
    assert near.triples == 500 and near.masked_closer < 0.1 < 0.9 < far.masked_closer


# Which word became which


@pytest.mark.parametrize(("before", "after", "pairs", "others"), [
    ("a good film", "a fine film", [(1, 1)], 0), ("a good film", "a good film!", [], 0),
    ("a good dull film", "a fine drab film", [(1, 1), (2, 2)], 0), ("film a", "a a", [(0, 0)], 0),
    ("a good film", "a go od film", [], 2), ("a good film", "good film", [], 1), ("a film", "a fine film", [], 1),
    ("one two three four", "two three four one", [], 2), ("", "new", [], 1),
    ("a b c d e", "x b y d", [(0, 0), (2, 2)], 1),
])  # fmt: skip
def test_words_are_aligned(before: str, after: str, pairs: list[tuple[int, int]], others: int) -> None:
    found = align(Words(before), Words(after))
    assert (list(found.pairs), found.others) == (pairs, others)
    kept = [word for place, word in enumerate(Words(before).words) if place not in found.lost]
    assert kept == [word for place, word in enumerate(Words(after).words) if place not in found.new]


def test_long_texts_are_aligned_by_place() -> None:
    words = [f"w{number}" for number in range(9000)]
    changed = ["x", *words[1:-1], "y"]
    assert align(Words(" ".join(words)), Words(" ".join(changed))).pairs == ((0, 0), (8999, 8999))
    shifted = align(Words(" ".join(words)), Words(" ".join(["x", *words[:-1], "y", "z"])))
    assert shifted == Alignment((), frozenset(range(9000)), frozenset(range(9002)), 9002)


# The rule


def test_the_rule_is_the_penalised_maximum() -> None:
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(600, 3)) * [1, 10, 0] + [0, 5, 7]  # the last tells nothing at all
    outcome = generator.random(600) < logistic(1 + 2 * inputs[:, 0] - 0.1 * (inputs[:, 1] - 5))
    rule = fit(inputs, outcome)
    assert rule.weights[0] > 1.2 > 0 > rule.weights[1] and rule.weights[2] == pytest.approx(0, abs=1e-9)
    scaled = (inputs - np.array(rule.centre)) / np.array(rule.spread)
    assert scaled.T @ (outcome - rule(inputs)) == pytest.approx(rule.weights, abs=1e-6)  # gradient of the penalty
    assert (outcome - rule(inputs)).sum() == pytest.approx(0, abs=1e-4)
    assert fit(inputs[:20], np.ones(20, dtype=bool))(inputs[:20]).min() > 0.9


def test_the_rule_refuses_what_does_not_fit() -> None:
    with pytest.raises(DataError, match="one outcome for each row"):
        fit(np.ones((3, 2)), [True, False])
    with pytest.raises(DataError, match="finite"):
        fit([[np.nan]], [True])


def test_held_out_scores_come_from_other_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = np.repeat(np.arange(60), 2)
    inputs = texts[:, None].astype(float)
    recovered = np.arange(120) % 2 == 0
    seen: list[set[float]] = []

    def watched(given: Array, outcome: NDArray[np.bool_]) -> object:
        seen.append(set(given[:, 0].tolist()))
        return lambda rows: rows[:, 0]

    monkeypatch.setattr("dualmask.theory.rule.fit", watched)
    rounds = held_out(inputs, recovered, texts)
    assert len(rounds) == 10 and len(seen) == 50
    for number, one in enumerate(rounds):
        assert (one.scores == inputs[:, 0]).all() and set(one.folds.tolist()) == set(range(5))
        for fold in range(5):
            assert not seen[5 * number + fold] & set(texts[one.folds == fold].tolist())
    assert held_out(inputs[:90], recovered[:90], texts[:90]) == []  # 45 of either kind


def test_a_rule_without_signal_is_near_chance_and_one_with_signal_is_not() -> None:
    generator = np.random.default_rng(1)
    inputs, texts = generator.normal(size=(800, 6)), np.arange(800) // 2
    noise = generator.random(800) < 0.5
    signal = generator.random(800) < logistic(1.5 * inputs[:, 0])
    for outcome, low, high in ((noise, 0.42, 0.56), (signal, 0.7, 0.9)):
        found = auroc(held_out(inputs, outcome, texts), outcome, texts)
        assert found is not None and low < found.value < high and found.low < found.value < found.high


def test_auroc_is_the_exact_one_and_its_interval_is_by_text() -> None:
    generator = np.random.default_rng(0)
    scores, outcome = generator.integers(5, size=200).astype(float), generator.random(200) < 0.4
    one_fold, alone = [HeldOut(scores, np.zeros(200, dtype=np.int64))], np.arange(200)
    found = auroc(one_fold, outcome, alone)
    exact = exact_auroc(scores[outcome].tolist(), scores[~outcome].tolist())
    assert found is not None and exact is not None and found.value == pytest.approx(float(exact), abs=1e-6)
    same = auroc([HeldOut(np.repeat(scores, 4), np.zeros(800, dtype=np.int64))], np.repeat(outcome, 4),
                 np.repeat(alone, 4))
    assert same is not None and same.high - same.low == pytest.approx(found.high - found.low, rel=0.15)
    assert auroc(one_fold, np.ones(200, dtype=bool), alone) is None and auroc([], outcome, alone) is None


def test_features_are_lengths_and_cosines() -> None:
    found = features(products([3, 0], [0, 2], [5, 5]))
    assert dict(zip(FEATURES, found.tolist(), strict=True)) == pytest.approx({
        "log |v_a|": np.log(3), "log |v_m|": np.log(2), "log |v_r|": np.log(50) / 2, "l_am": 0, "l_ar": 0.5**0.5,
        "l_mr": 0.5**0.5})


def test_the_mathematics_needs_no_torch() -> None:
    code = ("import sys; from dualmask import theory; import dualmask.reporting.theory_plots, dualmask.theory.summary\n"
            "print(sorted({'torch', 'transformers', 'scipy', 'sympy'} & set(sys.modules)))")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
