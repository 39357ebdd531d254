# SPDX-License-Identifier: Apache-2.0
"""Certificates against brute force, and against every attack on classifiers small enough to try them all."""

import random
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmask.errors import DataError, OptionError
from dualmask.evaluation.statistics import clopper_pearson
from dualmask.masking.certificates import certified_edits, certified_synonyms, certified_words, delta

View = tuple[str | None, ...]
Base = Callable[[View], int]  # a network: of what it is shown, 0 or 1
HALF = Fraction(1, 2)


# The formulas


@pytest.mark.parametrize(("length", "kept"), [(6, 2), (8, 3), (10, 2), (5, 5), (1, 1), (7, 1)])
def test_delta_is_the_share_of_keep_sets_that_are_hit(length: int, kept: int) -> None:
    for changed in range(length + 1):
        sets = list(combinations(range(length), kept))
        hit = sum(any(place < changed for place in one) for one in sets)
        assert delta(length, kept, changed) == Fraction(hit, len(sets))


ROWS = [  # L, k, and strict / heuristic for a share of 0.6, 0.8, 0.9, 0.95, 0.99
    (10, 3, "0/0 0/1 1/1 1/1 1/1"), (10, 2, "0/0 1/1 2/2 2/2 2/2"), (20, 6, "0/0 0/1 1/1 1/1 1/1"),
    (20, 4, "0/0 1/2 2/2 2/2 2/2"), (20, 2, "0/1 3/4 4/4 5/5 5/5"), (40, 28, "0/0 0/0 0/0 0/0 0/0"),
    (40, 20, "0/0 0/0 0/0 0/0 0/0"), (40, 8, "0/0 1/2 2/2 2/2 2/2"), (40, 4, "0/1 3/4 4/5 5/5 5/6"),
    (40, 2, "2/3 6/8 8/10 10/10 11/11"), (100, 10, "0/1 3/4 4/5 5/5 6/6"), (100, 5, "2/3 6/8 9/10 11/11 12/12"),
]


@pytest.mark.parametrize(("length", "kept", "wanted"), ROWS)
def test_worked_values(length: int, kept: int, wanted: str) -> None:
    shares = [Fraction(text) for text in ("0.6", "0.8", "0.9", "0.95", "0.99")]
    found = [f"{certified_words(length, kept, p)}/{certified_words(length, kept, p, beta=p)}" for p in shares]
    assert " ".join(found) == wanted


@given(st.integers(1, 60), st.data())
@settings(max_examples=200, deadline=None)
def test_the_radius_is_the_last_that_holds(length: int, data: st.DataObject) -> None:
    kept, share = data.draw(st.integers(1, length)), data.draw(st.floats(0, 1))
    beta = data.draw(st.sampled_from([Fraction(1), Fraction(share), Fraction(9, 10)]))
    radius = certified_words(length, kept, share, beta=beta)
    assert (radius == -1) == (Fraction(share) <= HALF)
    for changed in range(length + 1):
        holds = Fraction(share) - beta * (1 - Fraction(comb(length - changed, kept), comb(length, kept))) > HALF
        assert holds == (changed <= radius)


def test_a_share_on_the_border_proves_nothing() -> None:
    """L = 10, k = 2: Delta(1) = 1/5, so that one word takes more than 0.7; 0.7 as a float lies just below."""
    assert certified_words(10, 2, Fraction(7, 10)) == 0 and certified_words(10, 2, 0.7) == 0
    assert certified_words(10, 2, Fraction(7, 10) + Fraction(1, 10**30)) == 1
    assert certified_words(10, 2, 0.5) == certified_edits(0.9, 0.5, 9) == certified_synonyms([], 0.5) == -1
    assert certified_edits(HALF, 1.0, 9) == 0 and certified_edits(Fraction(51, 100), 1.0, 9) == 1


def test_no_masking_below_a_half_certifies_a_word() -> None:
    assert all(certified_words(length, kept, 1.0) == 0 for length in range(1, 30)
               for kept in range((length + 1) // 2, length + 1))


def test_edits_and_synonyms_by_their_formulas() -> None:
    assert [certified_edits(rate, 1.0, 100) for rate in (0.0, 0.5, 0.8, 0.9, 0.99)] == [0, 0, 3, 6, 68]
    assert certified_edits(0.9, 0.8, 100) == 3 and certified_edits(1.0, 0.6, 100) == 100
    third, two_thirds = Fraction(1, 3), Fraction(2, 3)
    assert certified_synonyms([Fraction(1), two_thirds, Fraction(1)], 1.0) == 3
    assert certified_synonyms([Fraction(1), two_thirds, two_thirds], 1.0) == 1  # any one word, not any two
    assert certified_synonyms([third, Fraction(1)], 1.0) == 0 and certified_synonyms([], 0.9) == 0


def test_an_empty_text_has_no_word_to_change() -> None:
    assert certified_words(0, 0, 0.9) == 0 and certified_words(0, 0, 0.4) == -1


@pytest.mark.parametrize("wrong", [
    lambda: certified_words(10, 0, 0.9), lambda: certified_words(10, 11, 0.9), lambda: certified_words(10, 2, 1.1),
    lambda: certified_words(10, 2, float("nan")), lambda: certified_words(10, 2, 0.9, beta=2), lambda: delta(5, 2, 6),
    lambda: delta(5, 2, -1), lambda: certified_edits(1.5, 0.9, 3), lambda: certified_edits(0.5, -0.1, 3),
    lambda: certified_synonyms([Fraction(3, 2)], 0.9),
])
def test_impossible_values_are_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(OptionError, match="expected"):
        wrong()


# The bound on the share


TABLE = {50: (1, 45, 40), 100: (1, 99, 95, 90, 80), 1000: (1, 990, 950, 900, 800), 5000: (1, 4950, 4750, 4500, 4000)}
BOUNDS = {50: (0.9418, 0.8012, 0.6844), 100: (0.9705, 0.9534, 0.8978, 0.8363, 0.7228),
          1000: (0.9970, 0.9831, 0.9371, 0.8830, 0.7781), 5000: (0.9994, 0.9874, 0.9446, 0.8928, 0.7905)}


@pytest.mark.parametrize("draws", TABLE)
def test_the_bound_against_a_table(draws: int) -> None:
    found = [clopper_pearson(draws if part == 1 else part, draws) for part in TABLE[draws]]
    assert found == pytest.approx(BOUNDS[draws], abs=1e-4)
    everything = 0.05 ** (1 / draws)
    assert everything - 1e-7 < found[0] <= everything


def tail(successes: int, draws: int, chance: Fraction) -> Fraction:
    return sum((comb(draws, count) * chance**count * (1 - chance) ** (draws - count)
                for count in range(successes, draws + 1)), Fraction(0))


@pytest.mark.parametrize("alpha", [0.05, 0.001, 0.5])
def test_the_bound_lies_on_the_safe_side_and_close(alpha: float) -> None:
    for draws in (1, 2, 7, 40):
        for successes in range(1, draws + 1):
            low = Fraction(clopper_pearson(successes, draws, alpha))
            assert tail(successes, draws, low) <= Fraction(alpha) < tail(successes, draws, low + Fraction(1, 10**6))
    assert clopper_pearson(0, 7, alpha) == 0.0


def test_the_bound_holds_where_logarithms_are_large() -> None:
    """Where floats of the size of log(1500!) are added: against whole numbers."""
    steps = int(Fraction(clopper_pearson(1450, 1500)) * 2**24)  # short enough to be raised to 1,500
    assert tail(1450, 1500, Fraction(steps, 2**24)) <= Fraction(0.05) < tail(1450, 1500, Fraction(steps + 2, 2**24))


@pytest.mark.parametrize("given", [(5, 4, 0.05), (-1, 4, 0.05), (0, 0, 0.05), (1, 2, 0.0), (1, 2, 1.0)])
def test_no_bound_of_nonsense(given: tuple[int, int, float]) -> None:
    with pytest.raises(DataError, match="expected a part"):
        clopper_pearson(*given)


# Soundness: every attack inside the radius, on classifiers that are small enough to try them all


def share(views: Iterable[tuple[View, Fraction]], base: Base) -> Fraction:
    """How much of the votes class 1 gets, exactly."""
    return sum((weight for view, weight in views if base(view)), Fraction(0))


def bases(near: Callable[[View], bool]) -> list[Base]:
    """Networks to vote: one that knows only the views of one text, and some that are random with a lean."""
    found: list[Base] = [lambda view: int(near(view))]
    for seed in range(6):
        found.append(cache(lambda view, seed=seed: int(random.Random(f"{seed} {view}").random() < 0.7 + seed / 20)))
    return found


def check(
    texts: list[tuple[str, ...]], views: Callable[[tuple[str, ...]], list[tuple[View, Fraction]]], base: Base, *,
    radius: Callable[[tuple[str, ...], Fraction], int],
    distance: Callable[[tuple[str, ...], tuple[str, ...]], int],
) -> int:
    """No text within the radius of another gets another answer. Gives the largest radius that came up."""
    votes = {text: share(views(text), base) for text in texts}
    highest = -1
    for text in texts:
        mine = votes[text]
        reach = radius(text, max(mine, 1 - mine))
        highest = max(highest, reach)
        for other in texts:
            if distance(text, other) <= reach:
                assert (votes[other] > HALF) == (mine > HALF) and votes[other] != HALF, (text, other, reach)
    return highest


def hamming(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(("length", "kept"), [(5, 1), (6, 1), (5, 2), (4, 2)])
def test_no_substitution_inside_the_radius_flips(length: int, kept: int) -> None:
    texts = list(product("ab", repeat=length))
    sets = list(combinations(range(length), kept))

    @cache
    def views(text: tuple[str, ...]) -> list[tuple[View, Fraction]]:
        return [(tuple(word if place in one else None for place, word in enumerate(text)), Fraction(1, len(sets)))
                for one in sets]

    own = {view for view, _ in views(texts[0])}
    found = [check(texts, views, base, radius=lambda text, p: certified_words(length, kept, p), distance=hamming)
             for base in bases(own.__contains__)]
    assert max(found) == certified_words(length, kept, 1.0)
    # The network that votes for one text's own views alone loses as soon as the certificate ends
    beyond = certified_words(length, kept, 1.0) + 1
    changed = ("b",) * beyond + texts[0][beyond:]
    assert share(views(changed), lambda view: int(view in own)) <= HALF


def test_the_heuristic_is_no_guarantee() -> None:
    """A network on which the published beta promises a word too many: its errors sit where the attacker looks."""
    kept, length = 1, 10
    base: Base = lambda view: int(view[0] is None and "x" not in view)  # noqa: E731
    text = ("a",) * length

    def votes(given: tuple[str, ...]) -> Fraction:
        return share([(tuple(word if place == one else None for place, word in enumerate(given)), Fraction(1, length))
                      for one in range(length)], base)

    p = votes(text)
    promised = certified_words(length, kept, p, beta=p)
    assert promised > certified_words(length, kept, p)
    assert votes(("a", *("x",) * promised, *text[promised + 1:])) <= HALF


@cache
def edit_distance(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    if not one or not other:
        return len(one) + len(other)
    return min(edit_distance(one[1:], other) + 1, edit_distance(one, other[1:]) + 1,
               edit_distance(one[1:], other[1:]) + (one[0] != other[0]))


@pytest.mark.parametrize("rate", [Fraction(3, 4), Fraction(9, 10)])
def test_no_edit_inside_the_radius_flips(rate: Fraction) -> None:
    texts = [text for length in range(5) for text in product("ab", repeat=length)]

    @cache
    def views(text: tuple[str, ...]) -> list[tuple[View, Fraction]]:
        found = []
        for kept in product((False, True), repeat=len(text)):
            left = tuple(word for word, stays in zip(text, kept, strict=True) if stays)
            found.append((left, (1 - rate) ** len(left) * rate ** (len(text) - len(left))))
        return found

    own = {view for view, _ in views(("a", "a", "b", "a"))}
    found = [check(texts, views, base, radius=lambda text, p: certified_edits(rate, p, 10), distance=edit_distance)
             for base in bases(own.__contains__)]
    assert max(found) == certified_edits(rate, 1.0, 10) > 1


DRAWN = {"a": "ab", "b": "abc", "c": "bc", "n": "n"}  # what each word may become; its synonyms are the same words


def draws(text: tuple[str, ...]) -> list[tuple[View, Fraction]]:
    found = list(product(*(DRAWN[word] for word in text)))
    return [(view, Fraction(1, len(found))) for view in found]


def apart(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Words that differ; a word that is no synonym of what stood there is out of reach."""
    return 99 if any(b not in DRAWN[a] for a, b in zip(one, other, strict=True)) else hamming(one, other)


def test_no_synonym_inside_the_radius_flips() -> None:
    texts = list(product("abcn", repeat=4))
    overlap = {word: min(Fraction(len(set(DRAWN[word]) & set(DRAWN[other])),
                                  max(len(DRAWN[word]), len(DRAWN[other]))) for other in DRAWN[word])
               for word in DRAWN}
    assert overlap == {"a": Fraction(2, 3), "b": Fraction(2, 3), "c": Fraction(2, 3), "n": 1}

    def radius(text: tuple[str, ...], p: Fraction) -> int:
        return certified_synonyms([overlap[word] for word in text], p)

    views = cache(draws)
    found = [check(texts, views, base, radius=radius, distance=apart) for base in bases(lambda view: "c" not in view)]
    assert max(found) == 4


def test_an_overlap_must_count_the_larger_set() -> None:
    """The draws of a are all draws of b too; but b has others, and whoever swaps a for b wins."""
    base: Base = lambda view: int("c" not in view)  # noqa: E731
    assert certified_synonyms([Fraction(2, 2)] * 2, share(draws(("a", "a")), base)) == 2  # |P and P'| / |P|
    assert share(draws(("b", "b")), base) < HALF
