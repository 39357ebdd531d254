# SPDX-License-Identifier: Apache-2.0
"""Gradients through a defence that rewrites texts: from which characters each token of its view comes."""

import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from attack_stand_ins import run, stand_ins
from conftest import reviews
from hypothesis import given, settings
from hypothesis import strategies as st
from restoring_stand_ins import HEADS, Nearest, restoring

from dualmask.attacks import build_attack
from dualmask.attacks.gradients import EmbeddingOracle, FlipOracle, GradientOracle, word_table
from dualmask.attacks.hidden import HiddenOracle
from dualmask.classifier import DefendedClassifier
from dualmask.defences.base import Defence
from dualmask.text.examples import Dataset, Example, Text
from dualmask.text.rewriting import HIDDEN
from dualmask.text.words import Words

REWRITING = Nearest()
TEXTS: list[Text] = [str(example.text) for example in reviews(8, seed=4)]


@pytest.fixture(scope="module")
def classifier(tiny: Callable[[str], Path], data: Dataset) -> DefendedClassifier:
    return restoring(tiny("bert"), data)


# Where words come from


@pytest.mark.parametrize(("text", "spans"), [
    ("a good plot", [(0, 1), (2, 6), (7, 11)]), ("", []), ("  ", []),
    ("a great plott, dull", [(0, 1), (2, 7), (8, 14), (15, 19)]),  # a good plot, dull
    ("a qqqq, plot", [(0, 1), (2, 6), (6, 7), (8, 12)]),  # a [MASK] , plot
    (f"great{HIDDEN}scene", [(0, 5), (6, 11)]), ("poor-fine (awful)", [(0, 9), (10, 17)])])
def test_each_word_that_is_read_has_its_place_in_the_text(text: str, spans: list[tuple[int, int]]) -> None:
    assert REWRITING.origins(text) == spans


PIECES = [*HEADS, "good", "plot", "plott", "qqqq", "moviex", ",", ".", "-", "7", " ", "  ", "\t", "\x1c", "\u2003",
          HIDDEN]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_there_is_a_place_for_every_word(text: str) -> None:
    read, spans = str(REWRITING(text)).split(), REWRITING.origins(text)
    assert len(spans) == len(read)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(one[0] <= other[0] and one[1] <= other[1] for one, other in pairwise(spans))
    for word, (start, end) in zip(read, spans, strict=True):
        written = text[start:end]
        assert word in (written, HIDDEN) or str(REWRITING(written)).split() == [word] or HIDDEN in text


def test_without_rewriting_nothing_can_be_told() -> None:
    assert Defence().origins("a good plot") is None


# What the oracles make of it


def test_the_defences_masks_and_words_are_found_in_the_text(classifier: DefendedClassifier) -> None:
    long = "a great qqqq, dull plott scene " * 9
    one, two = HiddenOracle(classifier).answers([long, "x"])
    assert one.masks[:2] == [(8, 12), (39, 43)] and not two.masks
    read = one.read(Words(long))
    assert read == list(range(len(read))) and len(read) == 33  # 38 tokens, seven of them commas, one of them cut off
    pair = ("a great qqqq,", "dull plott scene")
    found = HiddenOracle(classifier).answers([pair])[0]
    assert found.places(Words(pair)) == {2} and found.read(Words(pair)) == list(range(6))


def test_a_words_gradient_is_that_of_what_is_read(classifier: DefendedClassifier) -> None:
    """Finite differences on the network's own input."""
    classifier.network.eval()
    text, label = "the great scene, was qqqq and moviex dull .", 1
    gradient = GradientOracle(classifier).answers([(text, label), ("a plot", 0)])[0]
    vectors = gradient.word_vectors(Words(text))
    view = classifier.first_view([text])
    tokens = classifier.encode.tokenizer.convert_ids_to_tokens(view.input_ids[0].tolist())
    assert " ".join(tokens) == "[CLS] the good plot , was [MASK] and movie dull . [SEP]"
    start = classifier.model.get_input_embeddings().weight[view.input_ids].detach()
    columns = {0: 1, 1: 2, 2: 3, 3: 5, 5: 7, 6: 8, 7: 9}  # of each word of the text; punctuation is nobody's

    def odds(embeddings: torch.Tensor) -> float:
        with torch.no_grad():
            logits = classifier.network(view, embeddings)[0]
        return float(logits[0] - logits[1])

    draw = random.Random(0)
    for place, column in columns.items():
        for size in draw.sample(range(start.shape[2]), 3):
            up, down = start.clone(), start.clone()
            up[0, column, size] += 1e-5
            down[0, column, size] -= 1e-5
            assert vectors[place][size] == pytest.approx((odds(up) - odds(down)) / 2e-5, rel=1e-3, abs=1e-6)
    assert not vectors[4].any(), "what is masked can change nothing"


def test_words_are_as_far_apart_as_what_is_read_instead(classifier: DefendedClassifier) -> None:
    names = ["good", "great", "goood", "bad", "qqqq", "plot"]
    good, great, goood, bad, masked, plot = EmbeddingOracle(classifier).answers(names)
    table, ids = word_table(classifier).cpu().numpy(), classifier.encode.tokenizer.convert_tokens_to_ids
    assert (good == great).all() and (good == goood).all() and (bad == table[ids("bad")]).all()
    assert (masked == table[ids("[MASK]")]).all() and (plot != good).any()


def test_flips_are_estimated_by_what_is_read(classifier: DefendedClassifier) -> None:
    oracle = FlipOracle(classifier, most=40)
    flips = oracle.answers([("a great plot", 1)])[0]
    row = flips.words[1]
    gains = dict(zip(row, flips.gains[1].tolist(), strict=True))
    assert gains["good"] == pytest.approx(0, abs=1e-5) and gains["fine"] == pytest.approx(0, abs=1e-5)
    assert gains["awful"] == pytest.approx(gains["bad"]) and abs(gains["bad"]) > 1e-4
    vector = flips.gradient.vectors[1]
    table, ids = word_table(classifier).cpu().numpy(), classifier.encode.tokenizer.convert_tokens_to_ids
    expected = float((table[ids("bad")] - table[ids("good")]) @ vector)
    assert gains["bad"] == pytest.approx(expected, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("votes", [1, 4])
@pytest.mark.parametrize(("name", "options"), [
    ("hotflip", {"cosine": 0.5, "max_words": None}), ("fgpm", {"distance": 2.0, "max_share": None}),
    ("hotflip", {"pool": "vocabulary", "cosine": 0.0, "max_words": None}), ("a2t", {}),
    ("textbugger", {"ranking": "gradient"})], ids=str)
def test_white_box_attacks_run_through_it(
    name: str, options: dict[str, object], votes: int, tiny: Callable[[str], Path], data: Dataset,
) -> None:
    classifier = restoring(tiny("bert"), data, votes=votes)
    labels = classifier.predict(TEXTS, early=False).probabilities.argmax(dim=1).tolist()
    attack = build_attack(name, options=options, tools=stand_ins())
    found: list[Any] = run(classifier, attack, [Example(*pair) for pair in zip(TEXTS, labels, strict=True)])
    outcomes = {"succeeded", "failed"} | ({"unconfirmed"} if votes > 1 else set())  # other draws may undo a success
    assert {one.outcome for one in found} <= outcomes and all(one.gradients for one in found)
    assert any(one.adversarial is not None for one in found)


def test_hotflip_asks_about_words_that_are_read_otherwise_first(classifier: DefendedClassifier) -> None:
    """The best of ten estimates are never those of a word's own cluster, which are 0."""
    labels = classifier.predict(TEXTS).probabilities.argmax(dim=1).tolist()
    attack = build_attack("hotflip", options={"cosine": 0.5, "flips": 1, "beam": 1, "max_words": 1}, tools=stand_ins())
    useful = 0
    for one in run(classifier, attack, [Example(*pair) for pair in zip(TEXTS, labels, strict=True)]):
        if one.adversarial is not None:
            before, after = classifier.predict([one.text, one.adversarial]).probabilities
            useful += bool((before - after).abs().max() > 1e-6)
    assert useful
