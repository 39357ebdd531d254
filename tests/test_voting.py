# SPDX-License-Identifier: Apache-2.0
"""Views, votes and where they may stop."""

import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from attack_stand_ins import tiny_classifier
from torch import Tensor

from dualmask.classifier import DefendedClassifier
from dualmask.defences import build_defence, voting
from dualmask.defences.base import Defence
from dualmask.defences.voting import Voting, VotingOptions, counted, least_to_decide
from dualmask.errors import OptionError
from dualmask.models.encoders import load_tokenizer
from dualmask.seeds import gaussian, lots, uniform
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Dataset, Text

TEXTS = ["the movie was good", "a bad plot", "x", "", "the plot of the movie was rarely unable !"]


class Dropping(Voting):
    """Each view shows a random part of the text."""

    name: ClassVar[str] = "dropping"
    asked: ClassVar[list[tuple[Text, int]]] = []

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        self.asked += zip(texts, numbers, strict=True)
        shown = [" ".join(word for word, toss in zip(str(text).split(), row, strict=False) if toss < 0.5)
                 for text, row in zip(texts, uniform(self.seeds(texts, numbers), 20).tolist(), strict=True)]
        return encode(shown).to(device)


def dropping(tiny: Callable[[str], Path], data: Dataset, **options: object) -> DefendedClassifier:
    plain = tiny_classifier(tiny("bert"), "plain", data)
    defence = Dropping(VotingOptions(**options))  # type: ignore[arg-type]
    return DefendedClassifier(plain.model, plain.encode.tokenizer, defence, labels=data.labels, max_length=40)


def winner(votes: Sequence[int], classes: int) -> int:
    counts = [votes.count(one) for one in range(classes)]
    return counts.index(max(counts))


@pytest.mark.parametrize(("classes", "votes"), [(2, 6), (2, 7), (3, 5), (4, 4)])
def test_votes_stop_exactly_when_nothing_can_change(classes: int, votes: int) -> None:
    """Against all ways in which a vote may go on."""
    for seen in range(votes + 1):
        rest = list(product(range(classes), repeat=votes - seen))
        for cast in product(range(classes), repeat=seen):
            counts = torch.tensor([[cast.count(one) for one in range(classes)]])
            found = int(least_to_decide(counts, torch.tensor([votes - seen])))
            decided = len({winner([*cast, *others], classes) for others in rest}) == 1
            assert (found == 0) == decided
            # Fewer could not have decided it, whichever way they went
            for fewer in range(found):
                ways = product(range(classes), repeat=fewer)
                assert all(len({winner([*cast, *way, *others], classes) for others in
                                product(range(classes), repeat=votes - seen - fewer)}) > 1 for way in ways)


def test_counted_leaves_out_views_that_were_not_asked() -> None:
    logits = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [torch.nan, torch.nan]]])
    assert counted(logits).tolist() == [[2, 0], [0, 1]]
    assert Voting().combine(logits).softmax(dim=1).tolist() == [[1, 0], [0, 1]]
    assert Voting(VotingOptions(decision="mean")).combine(logits).tolist() == [[1.5, 0], [0, 1]]


@pytest.mark.parametrize("votes", [1, 2, 9, 30])
def test_an_early_end_gives_the_same_labels_for_fewer_passes(
    votes: int, tiny: Callable[[str], Path], data: Dataset,
) -> None:
    classifier = dropping(tiny, data, votes=votes)
    texts = [example.text for example in data.train[:30]] + TEXTS
    whole, early = classifier.predict(texts, early=False), classifier.predict(texts)
    assert whole.labels == early.labels
    assert whole.passes is not None and early.passes is not None
    assert whole.passes.tolist() == [votes] * len(texts)
    assert (early.passes <= votes).all() and (early.passes >= (votes + 1) // 2).all()
    if votes == 30:
        assert early.passes.float().mean() < 28
        assert torch.equal((whole.probabilities * 30).round(), whole.probabilities * 30) or torch.allclose(
            (whole.probabilities * 30).round(), whole.probabilities * 30, atol=1e-4)


def test_every_view_is_asked_once(tiny: Callable[[str], Path], data: Dataset) -> None:
    classifier = dropping(tiny, data, votes=12)
    Dropping.asked.clear()
    found = classifier.predict(TEXTS)
    assert found.passes is not None
    expected = [(text, number) for text, passes in zip(TEXTS, found.passes.tolist(), strict=True)
                for number in range(passes)]
    assert sorted(Dropping.asked, key=str) == sorted(expected, key=str)


def test_means_are_never_cut_short(tiny: Callable[[str], Path], data: Dataset) -> None:
    found = dropping(tiny, data, votes=9, decision="mean").predict(TEXTS)
    assert found.passes is not None and found.passes.tolist() == [9] * len(TEXTS)


def test_at_most_so_many_views(tiny: Callable[[str], Path], data: Dataset) -> None:
    found = dropping(tiny, data, votes=40).predict(TEXTS, most=3)
    assert found.passes is not None and found.passes.tolist() == [3] * len(TEXTS)


def test_votes_of_given_views_are_counted(tiny: Callable[[str], Path], data: Dataset) -> None:
    classifier = dropping(tiny, data, votes=10)
    parts = classifier.votes(TEXTS, range(4)) + classifier.votes(TEXTS, range(4, 10))
    assert torch.equal(parts, classifier.votes(TEXTS, range(10))) and (parts.sum(dim=1) == 10).all()
    shares = classifier.predict(TEXTS, early=False).probabilities
    assert torch.allclose(parts / 10, shares, atol=1e-5)
    assert classifier.votes([], range(3)).shape == (0, 2) and classifier.votes(TEXTS, []).sum() == 0


def test_noise_from_the_text_depends_on_nothing_else(tiny: Callable[[str], Path], data: Dataset) -> None:
    classifier = dropping(tiny, data, votes=20)
    alone = torch.cat([classifier.predict([text], early=False).probabilities for text in TEXTS])
    together = classifier.predict(TEXTS[::-1], early=False, batch_size=3).probabilities.flip(0)
    assert torch.allclose(alone, together, atol=1e-6)
    classifier.defence.redraw(1)
    assert not torch.allclose(classifier.predict(TEXTS, early=False).probabilities, alone)
    classifier.defence.redraw(0)
    assert torch.allclose(classifier.predict(TEXTS, early=False).probabilities, alone, atol=1e-6)
    assert classifier.defence.noise == "text"


@pytest.mark.parametrize("name", ["ranmask", "safer", "certed"])
@pytest.mark.parametrize("pairs", [False, True])
def test_rows_that_are_drawn_in_slices_are_the_same(
    name: str, pairs: bool, tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch,
) -> None:
    defence, encode = build_defence(name), Encode(load_tokenizer(tiny("bert")), max_length=40)
    texts: list[Text] = [(text, "a good plot") if pairs else text for text in [*TEXTS, "very " * 60]] * 5
    numbers = [number for number in range(5) for _ in range(6)]

    def view() -> Batch:
        return defence.inference_view(texts, numbers, encode, torch.device("cpu"))

    whole = view()
    for most in (1, 70, 500):
        monkeypatch.setattr(voting, "MOST_WORDS", most)
        sliced = view()
        for field in fields(Batch):
            ours, theirs = getattr(sliced, field.name), getattr(whole, field.name)
            assert torch.equal(ours, theirs) if isinstance(theirs, Tensor) else ours == theirs, field.name
    assert defence.inference_view([], [], encode, torch.device("cpu")).input_ids.shape[0] == 0


@pytest.mark.parametrize("name", ["ranmask", "safer", "certed"])
def test_long_texts_take_no_more_memory_in_many_views(
    name: str, tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(voting, "MOST_WORDS", 1 << 17)
    defence, encode = build_defence(name), Encode(load_tokenizer(tiny("bert")), max_length=40)
    text = "the movie was very good " * 1000

    def peak(count: int) -> int:
        tracemalloc.start()
        defence.inference_view([text] * count, range(count), encode, torch.device("cpu"))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(1)  # words are spelled
    assert peak(130) < 1.3 * peak(26)  # a slice


def test_fresh_noise_comes_from_nowhere() -> None:
    fresh = Voting(VotingOptions(noise="fresh"))
    assert fresh.noise == "fresh"
    first, second = fresh.seeds(TEXTS, [0] * 5), fresh.seeds(TEXTS, [0] * 5)
    assert len({*first.tolist(), *second.tolist()}) == 10


def test_draws_can_be_the_same_for_all_texts() -> None:
    for noise in ("text", "fresh"):
        voting = Voting(VotingOptions(noise=noise))  # type: ignore[arg-type]
        voting.redraw(1, same=True)
        found = voting.seeds(TEXTS * 2, [0] * 5 + [1] * 5)
        assert len(set(found[:5].tolist())) == 1 == len(set(found[5:].tolist())) and found[0] != found[5]
        assert torch.equal(found, voting.seeds(TEXTS * 2, [0] * 5 + [1] * 5))
        voting.redraw(2, same=True)
        assert voting.seeds(TEXTS[:1], [0]) != found[:1]
        voting.redraw(1)
        assert len(set(voting.seeds(TEXTS, [0] * 5).tolist())) == 5


def test_seeds_differ_by_text_number_draw_and_seed() -> None:
    one, other = Voting(), Voting(VotingOptions(noise_seed=1))
    redrawn = Voting()
    redrawn.redraw(1)
    found: list[Tensor] = [kind.seeds(TEXTS * 2, [0] * 5 + [1] * 5) for kind in (one, other, redrawn)]
    assert len(set(torch.cat(found).tolist())) == 30


def test_drawn_numbers_are_uniform_and_normal() -> None:
    seeds = torch.arange(400)
    even, normal = uniform(seeds, 500), gaussian(seeds, 50, 10)
    assert even.min() >= 0 and even.max() < 1 and normal.shape == (400, 50, 10)
    assert abs(even.mean() - 0.5) < 0.003 and abs(even.var() - 1 / 12) < 0.002
    assert abs(normal.mean()) < 0.01 and abs(normal.std() - 1) < 0.01 and (normal.abs() > 3).float().mean() < 0.005
    between = torch.corrcoef(torch.stack([even[:, 0], even[:, 1], even.roll(1, 0)[:, 0]]))
    assert (between - torch.eye(3)).abs().max() < 0.2
    assert torch.equal(lots(seeds, 7), lots(seeds, 20)[:, :7])


def test_impossible_options_are_refused() -> None:
    with pytest.raises(OptionError, match="votes"):
        VotingOptions(votes=0)
    with pytest.raises(OptionError, match="no certificate"):
        Defence().radius("a text", 0.9, None)  # type: ignore[arg-type]
