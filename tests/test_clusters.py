# SPDX-License-Identifier: Apache-2.0
"""Synonym clusters: what the labels keep apart, where words without evidence go, and that clusters survive saving."""

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from itertools import combinations
from math import exp, log, sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from dualmask.defences.base import Defence
from dualmask.errors import OptionError
from dualmask.text import clusters as module
from dualmask.text.clusters import Clusters, Evidence, Links, function_words, grown
from dualmask.text.examples import Example
from dualmask.text.synonyms import Pairs, Synonyms

BAD, GOOD = 0, 1
Put = Callable[..., None]


def examples(**counts: tuple[int, ...]) -> list[Example]:
    """So many one-word texts of each class, e.g. good=(1, 30)."""
    return [Example(word, label) for word, each in counts.items() for label, count in enumerate(each)
            for _ in range(count)]


def table(*links: tuple[str, str, float]) -> Synonyms:
    words = sorted({word for link in links for word in link[:2]})
    rows = sorted((*sorted((words.index(one), words.index(other))), cosine) for one, other, cosine in links)
    first, second, cosines = zip(*rows, strict=True)
    return Synonyms(words, Pairs(np.array(first), np.array(second), np.array(cosines, dtype=np.float32)))


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> Put:
    """Puts a small table in the shipped one's place."""
    def put(*links: tuple[str, str, float]) -> None:
        small = table(*links)
        monkeypatch.setattr(module, "shipped_synonyms", lambda: small)
    return put


def fitted(data: list[Example], **options: object) -> Clusters:
    clusters = Clusters(**options)  # type: ignore[arg-type]
    clusters.fit(data)
    return clusters


# Evidence


def test_intervals_are_those_of_the_smoothed_log_odds() -> None:
    data = examples(good=(2, 6), plot=(8, 4))  # 10 texts of each class, and one more of each by smoothing
    low, high = Evidence(data, z=1.5, apart=0.1).intervals(["good"])
    odds = log((6 + 1) / 11) - log((2 + 1) / 11)
    doubt = 1.5 * sqrt(1 / 7 + 1 / 3)
    assert low[0, GOOD] == pytest.approx(1 / (1 + exp(doubt - odds)))
    assert high[0, GOOD] == pytest.approx(1 / (1 + exp(-doubt - odds)))
    assert low[0, BAD] == pytest.approx(1 - high[0, GOOD])  # two classes mirror each other


def test_texts_count_not_occurrences_and_case_does_not() -> None:
    evidence = Evidence([Example("Good good GOOD plot", GOOD), Example(("good", "well-made"), BAD)], z=2, apart=0.1)
    assert evidence.texts(["good", "plot", "made", "unheard"]).tolist() == [[1, 1], [0, 1], [1, 0], [0, 0]]


def test_uneven_classes_bring_no_evidence_by_themselves() -> None:
    low, high = Evidence(examples(plot=(90, 10), other=(810, 90)), z=2, apart=0.0).intervals(["plot", "unheard"])
    assert (low < 0.5).all() and (high > 0.5).all()
    assert ((low + high) / 2)[1] == pytest.approx([0.5, 0.5])


def test_information_is_half_the_statistic_of_the_g_test() -> None:
    evidence = Evidence(examples(good=(1, 7), plot=(7, 1)), z=2, apart=0.1)
    assert evidence.information(["good", "unheard"]) == pytest.approx([log(1 / 4) + 7 * log(7 / 4), 0])


def test_conflict_needs_both_size_and_certainty() -> None:
    sure = Evidence(examples(good=(5, 60), bad=(60, 5), plot=(30, 36), superb=(0, 1)), z=2, apart=0.2)
    assert sure.conflict("good", "bad") and sure.conflict("bad", "good")
    assert not sure.conflict("superb", "bad") and not sure.conflict("unheard", "bad")
    assert not sure.conflict("good", "good")
    small = examples(good=(3000, 3600), bad=(3600, 3000))
    assert not Evidence(small, z=2, apart=0.2).conflict("good", "bad")
    assert Evidence(small, z=2, apart=0.0).conflict("good", "bad")
    assert not Evidence(small, z=9, apart=0.0).conflict("good", "bad")


def test_any_number_of_classes() -> None:
    data = examples(goal=(40, 0, 0, 0), share=(0, 40, 0, 0), troops=(0, 0, 40, 0), chip=(0, 0, 0, 40))
    evidence = Evidence(data, z=2, apart=0.2)
    assert all(evidence.conflict(*pair) for pair in combinations(["goal", "share", "troops", "chip"], 2))
    for none in ([], [Example("good", 0)], [Example("good", 3)]):
        assert not Evidence(none, z=2, apart=0.2).conflict("good", "bad")


# Clusters


def test_words_of_conflicting_evidence_are_never_merged(near: Put) -> None:
    near(("good", "bad", 0.95), ("good", "fine", 0.8), ("bad", "poor", 0.8), ("fine", "poor", 0.99))
    clusters = fitted(examples(good=(5, 60), bad=(60, 5), fine=(2, 20), poor=(20, 2)))
    assert clusters.table() == {"bad": "bad", "fine": "good", "good": "good", "poor": "bad"}
    assert len(set(fitted(examples(good=(1, 2), bad=(2, 1))).table().values())) == 1  # nothing is known against it


def test_conflict_with_any_member_counts(near: Put) -> None:
    """The rare word that joined first does not hide the others behind it."""
    near(("good", "middling", 0.9), ("middling", "bad", 0.95), ("good", "bad", 0.7))
    clusters = fitted(examples(good=(5, 60), bad=(58, 5)))
    assert clusters.head("good") != clusters.head("bad")
    assert clusters.head("middling") == "bad"


def test_a_word_without_evidence_joins_the_nearest_that_has_some(near: Put) -> None:
    near(("superb", "great", 0.9), ("superb", "film", 0.7), ("film", "great", 0.55))
    clusters = fitted(examples(great=(2, 40), film=(400, 400)))
    assert clusters.table() == {"great": "great", "superb": "great"}


def test_telling_words_come_before_frequent_ones(near: Put) -> None:
    """So the word between takes the nearer side, and not the side that happens to ask it first."""
    near(("odd", "bad", 0.9), ("odd", "good", 0.75))
    clusters = fitted(examples(odd=(20, 20), good=(1, 16), bad=(15, 1)))
    assert clusters.table() == {"bad": "odd", "odd": "odd"}


def test_several_near_words_outvote_a_single_one(near: Put) -> None:
    near(("new", "poor", 0.85), ("new", "good", 0.8), ("new", "fine", 0.8), ("good", "fine", 0.9))
    clusters = fitted(examples(good=(2, 40), fine=(2, 40), poor=(40, 2)))
    assert clusters.head("new") == clusters.head("good") != clusters.head("poor")


def test_large_clusters_count_for_less(near: Put) -> None:
    large = [("good", other, 0.9) for other in ("fine", "nice", "decent")]
    near(*large, ("new", "good", 0.75), ("new", "fine", 0.75), ("new", "poor", 0.8))
    clusters = fitted(examples(good=(2, 40), fine=(2, 30), nice=(2, 30), decent=(2, 30), poor=(40, 2)))
    assert clusters.head("nice") == "good" and clusters.head("new") == "poor"


def test_the_head_is_the_most_frequent_word(near: Put) -> None:
    near(("movie", "film", 0.9), ("movie", "flick", 0.9), ("flick", "film", 0.9))
    clusters = fitted(examples(film=(20, 21), movie=(3, 9), flick=(1, 1)))
    assert clusters.table() == dict.fromkeys(["film", "flick", "movie"], "film")
    again = fitted(examples(film=(1, 1), movie=(3, 9), flick=(20, 21)))
    assert set(again.table().values()) == {"flick"}


def test_function_words_stay_themselves(near: Put) -> None:
    near(("not", "never", 0.9), ("not", "hardly", 0.9), ("hardly", "barely", 0.9))
    clusters = fitted(examples(hardly=(3, 3)))
    assert clusters.table() == {"barely": "hardly", "hardly": "hardly"}
    assert {"not", "never", "the", "nothing"} <= function_words()


def test_options_have_their_effect(near: Put) -> None:
    near(("aa", "ab", 0.75), ("ba", "bb", 0.95), ("ba", "bc", 0.9), ("ba", "bd", 0.9), ("ca", "cb", 0.7))
    data = examples(ba=(3, 3), ab=(1, 2))
    assert fitted(data).head("aa") == "ab" and fitted(data, threshold=0.8).head("aa") == "aa"
    assert fitted(data, threshold=0.7).head("cb") == "ca"  # 0.7 itself, which has no exact float, is in
    assert max(Counter(fitted(data, most=3).table().values()).values()) == 3
    assert fitted(data, most=1).table() == {}
    assert Counter(fitted(data, most=2).table().values())["ba"] == 2
    apart = examples(ba=(5, 60), bb=(60, 5))
    assert fitted(apart).head("bb") == "bb"
    assert fitted(apart, apart=1).head("bb") == fitted(apart, z=50).head("bb") == "ba"


def test_impossible_options_are_refused() -> None:
    for options in ({"threshold": 1.5}, {"apart": -1}, {"z": -1}, {"most": 0}, {"z": float("nan")}):
        with pytest.raises(OptionError, match=next(iter(options))):
            Clusters(**options)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="did you mean 'wordnet'"):
        Clusters(sources=("wordnett",))
    with pytest.raises(OptionError, match="one or more of: shipped, wordnet"):
        Clusters(sources=())


def test_wordnet_adds_its_single_words(near: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stand:
        def synonyms(self, word: str) -> list[str]:
            return {"film": ["film", "Movie", "motion_picture", "flick", "more"], "not": ["non"]}.get(word, [])

    near(("film", "cinema", 0.8), ("plot", "story", 0.8))
    monkeypatch.setattr("dualmask.text.wordnet.load_wordnet", Stand)
    data = [*examples(film=(4, 4), plot=(4, 4), story=(1, 1)), Example("not", GOOD)]
    assert fitted(data).table() == {"cinema": "film", "film": "film", "plot": "plot", "story": "plot"}
    both = fitted(data, sources=("shipped", "wordnet"))
    assert [both.head(word) for word in ("movie", "flick", "cinema", "story")] == ["film", "film", "film", "plot"]
    assert fitted(data, sources=("wordnet",)).table() == dict.fromkeys(["film", "flick", "movie"], "film")
    assert both.reason("flick") == "synonym of 'film', by way of others, most frequent of 4"


def test_a_pair_of_both_sources_counts_once_at_its_higher_cosine(near: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stand:
        def synonyms(self, word: str) -> list[str]:
            return ["new"] if word == "poor" else []

    near(("new", "poor", 0.9), ("new", "good", 0.85))
    monkeypatch.setattr("dualmask.text.wordnet.load_wordnet", Stand)
    assert fitted(examples(good=(2, 40), poor=(40, 2)), sources=("shipped", "wordnet")).head("new") == "poor"
    near(("new", "poor", 0.75), ("new", "good", 0.85))  # once: 0.75 and WordNet's do not add up
    assert fitted(examples(good=(2, 40), poor=(40, 2)), sources=("shipped", "wordnet")).head("new") == "good"


def test_reasons(near: Put) -> None:
    near(("movie", "film", 0.9), ("flick", "movie", 0.9))
    clusters = fitted(examples(film=(20, 21), movie=(3, 9)))
    assert clusters.reason("film") == "most frequent of 3 synonyms"
    assert clusters.reason("movie") == "synonym of 'film', cosine 0.90, most frequent of 3"
    assert clusters.reason("flick") == "synonym of 'film', by way of others, most frequent of 3"
    assert clusters.reason("the") == "function word"
    assert clusters.reason("zzz") == "no synonym that may stand for it"


def test_the_shipped_table_and_real_words() -> None:
    data = examples(awful=(30, 2), terrible=(30, 2), great=(2, 30), wonderful=(2, 40), film=(30, 30))
    clusters = fitted(data)
    assert clusters.head("terrible") == clusters.head("dreadful") == clusters.head("awful")
    assert clusters.head("great") == clusters.head("marvellous") == "wonderful"
    assert clusters.head("awful") != "wonderful"
    assert clusters.head("the") == "the" and clusters.head("qwzx") == "qwzx"
    assert all(clusters.head(head) == head for head in set(clusters.table().values()))


def test_order_of_the_examples_leaves_no_trace(near: Put) -> None:
    near(("movie", "film", 0.9), ("flick", "movie", 0.9), ("good", "fine", 0.8), ("fine", "movie", 0.6))
    data = examples(film=(2, 2), movie=(2, 2), good=(1, 3), fine=(1, 3))
    one, other = fitted(data), fitted(data[::-1])
    assert torch.equal(one.letters, other.letters) and torch.equal(one.heads, other.heads)


# State


class Owner(Defence):
    def __init__(self) -> None:
        super().__init__()
        self.clusters = Clusters()


def test_saved_and_restored_clusters_are_the_same(near: Put, tmp_path: Path) -> None:
    near(("café", "bistro", 0.9), ("movie", "film", 0.9))
    owner, again = Owner(), Owner()
    owner.clusters.fit(examples(bistro=(4, 4), film=(2, 2)))
    assert again.clusters.table() == {}  # looked at before, so that a stale table would show
    save_file(owner.state_dict(), tmp_path / "state.safetensors")
    again.restore(load_file(tmp_path / "state.safetensors"))
    expected = {"bistro": "bistro", "café": "bistro", "film": "film", "movie": "film"}
    assert again.clusters.table() == owner.clusters.table() == expected
    assert again.clusters.reason("film") == "most frequent of 2 synonyms"
    assert deepcopy(again).clusters.table() == expected


def test_written_buffers_and_new_fits_show(near: Put) -> None:
    near(("movie", "film", 0.9), ("good", "fine", 0.9))
    clusters, other = fitted(examples(film=(2, 2), fine=(2, 2))), fitted(examples(movie=(2, 2), good=(2, 2)))
    assert clusters.head("movie") == "film"
    clusters.load_state_dict(other.state_dict())
    assert clusters.head("film") == "movie" and clusters.head("fine") == "good"
    for word, other in (("film", "movie"), ("movie", "film")):
        clusters.fit(examples(**{word: (2, 2)}))
        assert clusters.head(other) == word


def test_nothing_learned_changes_nothing(tmp_path: Path) -> None:
    owner, again = Owner(), Owner()
    save_file(owner.state_dict(), tmp_path / "state.safetensors")
    again.restore(load_file(tmp_path / "state.safetensors"))
    assert again.clusters.table() == {} and again.clusters.head("good") == "good"


# Growing


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Links, np.ndarray, np.ndarray]:
    count = draw(st.integers(1, 9))
    pairs = draw(st.lists(st.sampled_from([*combinations(range(count), 2)]), unique=True)) if count > 1 else []
    share = st.floats(0, 1)
    cosines = draw(st.lists(st.floats(0.5, 1), min_size=len(pairs), max_size=len(pairs)))
    ends = np.sort(np.array(draw(st.lists(st.tuples(share, share), min_size=3 * count, max_size=3 * count))), axis=1)
    low, high = ends.reshape(count, 3, 2).transpose(2, 0, 1)
    one, other = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Links(other, one, np.array(cosines)), low, high


@settings(max_examples=300, deadline=None)
@given(graphs(), st.floats(0, 0.5), st.integers(1, 5))
def test_grown_clusters_keep_every_promise(
    graph: tuple[Links, np.ndarray, np.ndarray], apart: float, most: int,
) -> None:
    links, low, high = graph
    roots = grown(links, low, high, apart=apart, most=most)
    members = {root: [word for word, its in enumerate(roots) if its == root] for root in roots}
    linked = {frozenset(pair) for pair in zip(links.one.tolist(), links.other.tolist(), strict=True)}
    for root, words in members.items():
        assert root == words[0] and len(words) <= most
        for one, other in combinations(words, 2):  # pair by pair, which the two ends stand for
            assert max((low[one] - high[other]).max(), (low[other] - high[one]).max()) <= apart
        assert all(any(frozenset((word, before)) in linked for before in words if before < word) for word in words[1:])
    for one, other in combinations(members, 2):  # nothing was left apart that one link alone could have joined
        if len(members[one]) == len(members[other]) == 1 and frozenset((one, other)) in linked and most > 1:
            assert max((low[one] - high[other]).max(), (low[other] - high[one]).max()) > apart
