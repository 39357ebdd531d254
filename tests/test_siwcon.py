# SPDX-License-Identifier: Apache-2.0
"""SIWCon: two views of each text by what its tokens weigh, and their comparison."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dualmask.classifier import DefendedClassifier
from dualmask.defences import DEFENCES, build_defence
from dualmask.defences.siwcon import SIWCon, info_nce
from dualmask.errors import OptionError
from dualmask.masking.gradients import embedding_gradient
from dualmask.models.encoders import load_encoder
from dualmask.text.encoding import Batch
from dualmask.text.examples import Dataset
from dualmask.training import train

Tiny = Callable[[str], Path]
SHORT = {"epochs": 1, "max_length": 40, "learning_rate": 1e-3, "batch_size": 16, "seed": 3}
TEXTS = ["the movie was good and the plot", "a bad plot", "x", ""]
DEFENCES.setdefault(SIWCon.name, SIWCon)


def classifier(tiny: Tiny, data: Dataset, **options: object) -> DefendedClassifier:
    model, tokenizer = load_encoder(tiny("bert"), data.labels)
    found = DefendedClassifier(model, tokenizer, build_defence("siwcon", options=options), labels=data.labels,
                               max_length=40)
    found.fit_defence(data.train)
    found.network.eval()
    return found


def siwcon(found: DefendedClassifier) -> SIWCon:
    assert isinstance(found.defence, SIWCon)
    return found.defence


class Listening:
    """A network that notes what it was asked."""

    def __init__(self, network: Callable[..., Tensor]) -> None:
        self.network = network
        self.asked: list[tuple[Batch, Tensor | None, bool]] = []

    def __call__(self, batch: Batch, embeddings: Tensor | None = None, *, states: bool = False) -> Tensor:
        self.asked.append((batch, embeddings, states))
        return self.network(batch, embeddings, states=states)


# InfoNCE


def direct(one: list[list[float]], other: list[list[float]], temperature: float) -> float:
    def likeness(a: list[float], b: list[float]) -> float:
        dot = sum(x * y for x, y in zip(a, b, strict=True))
        return math.exp(dot / math.hypot(*a) / math.hypot(*b) / temperature)

    terms = []
    for first, second in ((one, other), (other, one)):
        for place, row in enumerate(first):
            terms.append(-math.log(likeness(row, second[place]) / sum(likeness(row, against) for against in second)))
    return sum(terms) / len(terms)


@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
def test_info_nce_against_the_formula(temperature: float) -> None:
    one, other = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(1))
    found = info_nce(one, other, temperature)
    assert float(found) == pytest.approx(direct(one.tolist(), other.tolist(), temperature), rel=1e-5)
    assert float(info_nce(3 * one, other / 7, temperature)) == pytest.approx(float(found), rel=1e-5)


def test_info_nce_is_small_where_views_of_a_text_meet_and_texts_do_not() -> None:
    rows = torch.eye(3)
    assert info_nce(rows, rows, 0.1) < 1e-3
    assert float(info_nce(rows, rows.roll(1, 0), 0.1)) == pytest.approx(10.0, abs=1e-3)
    assert float(info_nce(torch.ones(5, 2), torch.ones(5, 2), 0.1)) == pytest.approx(math.log(5))
    assert info_nce(rows[:1], -rows[:1], 0.1) == 0, "one text alone has nothing to be told from"


# The two views


def test_one_view_hides_the_highest_scores_and_the_other_the_lowest(tiny: Tiny, data: Dataset) -> None:
    found = classifier(tiny, data, rate=0.3)
    batch = found.encode(TEXTS)
    scores = torch.rand(batch.input_ids.shape, generator=torch.Generator().manual_seed(4)) + 0.1
    views = [siwcon(found).hidden(batch, sign * scores) for sign in (1, -1)]
    for row, length in enumerate(batch.lengths.tolist()):
        body = batch.body[row].nonzero().flatten().tolist()
        order = sorted(body, key=lambda place: float(scores[row, place]), reverse=True)
        count = min(math.ceil(0.3 * length), length // 2)
        for view, expected in zip(views, (order[:count], order[len(order) - count:]), strict=True):
            changed = (view.input_ids[row] != batch.input_ids[row]).nonzero().flatten().tolist()
            assert changed == sorted(expected)
            assert (view.input_ids[row, changed] == found.encode.mask_id).all()
    assert batch.lengths.tolist() == [7, 3, 1, 0], "texts of every kind: of one token nothing is hidden"
    assert all(torch.equal(view.masks, batch.masks) and torch.equal(view.positions, batch.positions) for view in views)


def test_views_never_hide_the_same_token(tiny: Tiny, data: Dataset) -> None:
    found = classifier(tiny, data, rate=1.0)
    batch = found.encode([str(one.text) for one in data.train[:8]])
    scores = torch.rand(batch.input_ids.shape)
    most, least = (siwcon(found).hidden(batch, sign * scores).input_ids != batch.input_ids for sign in (1, -1))
    assert not (most & least).any() and torch.equal(most.sum(dim=1), batch.lengths // 2)


def test_what_another_defence_hid_stays_and_is_not_counted(tiny: Tiny, data: Dataset) -> None:
    found = classifier(tiny, data, rate=0.5)
    batch = found.encode(TEXTS[:1])
    masks = torch.zeros_like(batch.masks)
    masks[0, 1:4] = True  # three of seven tokens
    batch = replace(batch, input_ids=batch.input_ids.masked_fill(masks, found.encode.mask_id), masks=masks)
    view = siwcon(found).hidden(batch, torch.ones_like(batch.input_ids, dtype=torch.float))
    assert int((view.input_ids != batch.input_ids).sum()) == 2
    assert torch.equal(view.masks, masks)


# The loss


def test_the_loss_is_cross_entropy_and_the_weighted_comparison(tiny: Tiny, data: Dataset) -> None:
    found = classifier(tiny, data, rate=0.4, weight=0.7, temperature=0.2)
    batch = found.encode(TEXTS).with_labels([1, 0, 1, 0])
    network = Listening(found.network)
    loss, answer = found.defence.loss(network, batch)
    influence = embedding_gradient(found.model, batch, batch.labels).norm(dim=2)
    views = [siwcon(found).hidden(batch, scores) for scores in (influence, -influence)]
    assert [states for _, _, states in network.asked] == [False, True, True]
    for view, (shown, _, _) in zip(views, network.asked[1:], strict=True):
        assert torch.equal(view.input_ids, shown.input_ids)
    first, second = (found.network(view, states=True)[:, 0] for view in views)
    expected = F.cross_entropy(answer, torch.tensor([1, 0, 1, 0])) + 0.7 * info_nce(first, second, 0.2)
    assert torch.allclose(loss, expected, atol=1e-6)
    assert torch.equal(answer, found.network(batch))
    without, _ = classifier(tiny, data, weight=0).defence.loss(found.network, batch)
    assert torch.allclose(without, F.cross_entropy(answer, torch.tensor([1, 0, 1, 0])))


def test_the_comparison_teaches_and_the_influence_leaves_no_gradient(tiny: Tiny, data: Dataset) -> None:
    found = classifier(tiny, data)
    batch = found.encode(TEXTS[:2]).with_labels([1, 0])
    siwcon(found).hidden(batch, embedding_gradient(found.model, batch, batch.labels).norm(dim=2))
    assert all(weight.grad is None for weight in found.network.parameters())
    grads = []
    for weight in (0.0, 5.0):
        other = classifier(tiny, data, weight=weight)
        other.defence.loss(other.network, batch)[0].backward()
        gradient = other.model.get_input_embeddings().weight.grad
        assert isinstance(gradient, Tensor)
        grads.append(gradient)
    assert not torch.allclose(*grads)


def test_a_batch_takes_three_passes_and_its_first_goes_back_twice(tiny: Tiny, data: Dataset) -> None:
    found = classifier(tiny, data)
    batch = found.encode(TEXTS[:2]).with_labels([1, 0])
    network = Listening(found.network)
    found.network.zero_grad()
    loss, _ = found.defence.loss(network, batch)
    assert len(network.asked) == 3 and all(weight.grad is None for weight in found.network.parameters())
    loss.backward()  # type: ignore[no-untyped-call]
    assert all(weight.grad is not None for weight in found.network.parameters())


def test_influence_is_that_on_the_answer_which_was_given(tiny: Tiny, data: Dataset) -> None:
    """With words moved, and a network that answers for others: tokens without influence there are hidden last."""
    found = classifier(tiny, data, rate=0.3)
    batch = found.encode(TEXTS[:1]).with_labels([1])
    assert batch.lengths.tolist() == [7]
    asked: list[Batch] = []

    def third_and_fifth(view: Batch, embeddings: Tensor | None = None, *, states: bool = False) -> Tensor:
        asked.append(view)
        if states:
            return found.network(view, embeddings, states=True)
        assert embeddings is not None
        return torch.stack([2 * embeddings[:, 3].sum(dim=1) + embeddings[:, 5].sum(dim=1), torch.ones(1)], dim=1)

    words = torch.zeros_like(found.model.get_input_embeddings()(batch.input_ids)).detach()
    found.defence.loss(third_and_fifth, batch, words)
    hidden = asked[1].input_ids[0] != batch.input_ids[0]
    assert hidden[3] and hidden[5]


def test_several_rows_of_a_text_are_refused(tiny: Tiny, data: Dataset) -> None:
    options: dict[str, object] = {"templates": ["a [MASK] plot . {}", "{} [MASK]"]}
    with pytest.raises(OptionError, match="training=one"):
        train(data, encoder=tiny("bert"), defence="siwcon+mvp", options=options, training=SHORT, progress=False)
    found = train(data, encoder=tiny("bert"), defence="siwcon+mvp", options={**options, "training": "one"},
                  training=SHORT, progress=False)
    assert torch.isfinite(found.predict(TEXTS).probabilities).all()


def test_words_that_were_moved_stay_moved_where_they_are_not_hidden(tiny: Tiny, data: Dataset) -> None:
    found = classifier(tiny, data)
    batch = found.encode(TEXTS[:2]).with_labels([1, 0])
    table = found.model.get_input_embeddings()
    moved = -table(batch.input_ids)
    network = Listening(found.network)
    _, answer = found.defence.loss(network, batch, moved)
    assert torch.equal(answer, found.network(batch, moved))
    for view, given, _ in network.asked[1:]:
        hidden = view.input_ids != batch.input_ids
        assert given is not None and hidden.any()
        assert torch.equal(given[~hidden], moved[~hidden])
        assert torch.equal(given[hidden], table(view.input_ids)[hidden])


@pytest.mark.parametrize("options", [{"rate": 1.5}, {"weight": -1}, {"temperature": 0}, {"temperature": -0.1}])
def test_impossible_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        build_defence("siwcon", options=options)


# Whole runs


@pytest.mark.parametrize("name", ["siwcon", "freelb+++siwcon", "ddm+siwcon", "ranmask+siwcon"])
def test_it_trains_alone_and_combined(name: str, tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    options: dict[str, object] = {"freelb+++siwcon": {"steps": 2}, "ranmask+siwcon": {"votes": 4}}.get(name, {})
    found = train(data, encoder=tiny("bert"), defence=name, options=options, training=SHORT, progress=False,
                  out=tmp_path / "model")
    again = DefendedClassifier.load(tmp_path / "model", device="cpu")
    assert again.defence.options == found.defence.options
    assert torch.equal(found.predict(TEXTS).probabilities, again.predict(TEXTS).probabilities)
    cost = found.facts["cost"]
    assert cost["forward_passes"] >= 18 * (2 if "freelb" in name else 1)  # type: ignore[index]


def test_at_inference_it_is_a_plain_classifier(tiny: Tiny, data: Dataset) -> None:
    found = classifier(tiny, data)
    assert torch.equal(found.predict(TEXTS).probabilities, found.predict(TEXTS, defended=False).probabilities)
