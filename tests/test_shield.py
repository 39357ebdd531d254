# SPDX-License-Identifier: Apache-2.0
"""SHIELD: experts of several depths, the lot among them, and how depths and experts learn apart."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dualmask.classifier import DefendedClassifier
from dualmask.defences import DEFENCES, build_defence
from dualmask.defences.base import Defence
from dualmask.defences.shield import SHIELD, SHIELDOptions
from dualmask.errors import OptionError
from dualmask.evaluation.standing import differences
from dualmask.models.encoders import hidden_states, load_encoder
from dualmask.models.experts import Experts, cosine_and_distance, gumbel, kept_back, likeness, perceptron, weights
from dualmask.models.heads import head_logits
from dualmask.options import make_options
from dualmask.seeds import uniform
from dualmask.text.encoding import Batch
from dualmask.text.examples import Dataset
from dualmask.training import train

Tiny = Callable[[str], Path]

DEFENCES.setdefault(SHIELD.name, SHIELD)
TEXTS = ["the movie was good", "a bad plot", "x", "", "the plot with the scene was rarely unable !", "the " * 60]
SHORT = {"epochs": 2, "max_length": 40, "learning_rate": 1e-3, "batch_size": 16, "seed": 3}


def guarded(tiny: Tiny, **options: object) -> DefendedClassifier:
    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    defence = SHIELD(make_options(SHIELDOptions, options))
    classifier = DefendedClassifier(model, tokenizer, defence, labels=["bad", "good"], max_length=40)
    classifier.network.eval()
    return classifier


def experts_of(classifier: DefendedClassifier) -> Experts:
    found = classifier.defence.experts
    assert isinstance(found, Experts)
    return found


def views(classifier: DefendedClassifier, texts: list[str] = TEXTS) -> Batch:
    return classifier.defence.inference_view(texts, [0] * len(texts), classifier.encode, torch.device("cpu"))


def taught(classifier: DefendedClassifier, texts: list[str] = TEXTS) -> Batch:
    labels = [number % 2 for number in range(len(texts))]
    batch = classifier.defence.training_view(texts, labels, classifier.encode, torch.Generator())
    return replace(batch, examples=torch.arange(len(texts)))


def begin(classifier: DefendedClassifier, epoch: int) -> None:
    """What the training loop does at the start of an epoch."""
    classifier.defence.augment([], epoch, torch.Generator(), classifier)
    classifier.defence.train()
    experts_of(classifier).eval()  # but without dropout


def gradients(module: nn.Module) -> dict[str, Tensor]:
    return {name: weight.grad.clone() for name, weight in module.named_parameters()
            if weight.grad is not None and weight.grad.any()}


@pytest.mark.parametrize("options", [
    {"experts": 1}, {"temperature": 0}, {"training_temperature": -1}, {"search": 1.5}, {"warm": -1}, {"dropout": 2},
    {"votes": 0}, {"noise": "none"}, {"weights": "mean"}, {"depth_rate": 0},
])  # fmt: skip
def test_impossible_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        make_options(SHIELDOptions, options)


# The lot


def test_weights_are_a_softmax_with_the_lot_and_sum_to_one() -> None:
    liked, lot = torch.tensor([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0]]), torch.tensor([[0.2, 3.0, 0.1], [-1.0, 2.0, 0.0]])
    for temperature in (0.01, 0.5, 1.0, 7.0):
        found = weights(liked, lot, temperature)
        exact = ((liked + lot).double() / temperature)
        expected = (exact - exact.amax(dim=1, keepdim=True)).exp()
        assert torch.allclose(found.double(), expected / expected.sum(dim=1, keepdim=True), atol=1e-6)
        assert torch.allclose(found.sum(dim=1), torch.ones(2))


def test_cold_weights_are_one_expert_and_hot_ones_all_alike() -> None:
    liked, lot = torch.randn(20, 5), gumbel(torch.rand(20, 5))
    cold, hot = weights(liked, lot, 1e-4), weights(liked, lot, 1e6)
    assert torch.allclose(cold, F.one_hot((liked + lot).argmax(dim=1), 5).float(), atol=1e-3)
    assert torch.allclose(hot, torch.full((20, 5), 0.2), atol=1e-4)


def test_released_weights_are_scaled_by_temperature_and_switch() -> None:
    liked, lot = torch.tensor([[1.0, -2.0]]), torch.tensor([[0.5, 1.5]])
    share = 1 / (1 + torch.tensor(-2.0 * 0.01).exp())  # softmax of (1.5, -0.5) times 0.01
    found = weights(liked, lot, 0.01, scaled=True)
    assert torch.allclose(found, torch.tensor([[1.0 * share, -2.0 * (1 - share)]]), atol=1e-6)


def test_the_lot_falls_on_each_expert_as_often_as_the_switch_says() -> None:
    liked = torch.tensor([0.5, -1.0, 1.2, 0.0])
    draws = liked + gumbel(uniform(torch.arange(20_000), 4))
    share = torch.bincount(draws.argmax(dim=1), minlength=4) / 20_000
    assert torch.allclose(share, liked.softmax(dim=0), atol=0.015)
    assert torch.isfinite(gumbel(torch.tensor([0.0, 1.0]))).all()
    assert gumbel(torch.tensor(0.3)).item() == pytest.approx(-torch.log(-torch.log(torch.tensor(0.3))).item())


# Experts


def test_an_expert_is_a_mixture_of_three_depths() -> None:
    torch.manual_seed(0)
    experts, states = Experts(2, 4, 3), torch.randn(5, 4)
    mixture = torch.tensor([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])
    found = experts.answers(states, mixture)
    assert found.shape == (5, 2, 3)
    mlps: Any = experts.heads
    one = sum(part * mlp(states) for part, mlp in zip((0.2, 0.3, 0.5), mlps[0], strict=True))
    assert torch.allclose(found[:, 0], one, atol=1e-6) and torch.allclose(found[:, 1], mlps[1][1](states), atol=1e-6)
    assert [[type(part).__name__ for part in mlp] for mlp in mlps[0]] == [
        ["Linear"], ["Linear", "ReLU", "Linear"], ["Linear", "ReLU", "Linear", "ReLU", "Linear"]]
    layers: Any = perceptron(4, 3, 1)
    by_hand = (states @ layers[0].weight.T + layers[0].bias).clamp(min=0) @ layers[2].weight.T + layers[2].bias
    assert torch.allclose(layers(states), by_hand, atol=1e-6)


@pytest.mark.parametrize(("averaged", "part"), [(True, 3), (False, 1)])
def test_the_decision_is_the_mean_of_the_weighed_experts_or_as_before_their_sum(averaged: bool, part: int) -> None:
    torch.manual_seed(0)
    experts, states, lot = Experts(3, 4, 2, averaged=averaged), torch.randn(5, 4), torch.randn(5, 3)
    answers = experts.answers(states, experts.mixture())
    liked = torch.cat([states, answers[:, 0], answers[:, 1], answers[:, 2]], dim=1) @ experts.switch.weight.T
    share = ((liked + experts.switch.bias + lot) / 0.7).softmax(dim=1)
    expected = sum(share[:, place, None] * answers[:, place] for place in range(3)) / part
    assert torch.allclose(experts.decided(states, answers, lot, 0.7), expected, atol=1e-6)
    assert torch.allclose(experts.mixture(), experts.depths.softmax(dim=1) / part, atol=1e-6)
    assert torch.equal(experts.chosen(), F.one_hot(experts.depths.argmax(dim=1), 3).float()), "at inference whole"


def test_in_training_experts_and_depths_are_averaged_by_hand() -> None:
    """Two experts of depths with constant logits: 1/2 of the sum over experts, 1/3 of that over the depths."""
    experts = Experts(2, 1, 2)
    for one, head in enumerate(experts.heads):
        for depth, mlp in enumerate(head):  # type: ignore[arg-type]
            for weight in mlp.parameters():
                torch.nn.init.zeros_(weight)
            mlp[-1].bias.data = torch.tensor([1.0 + one, 10.0 * depth])
    experts.depths.data = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]))
    for weight in experts.switch.parameters():
        torch.nn.init.zeros_(weight)
    states = torch.ones(1, 1)
    answers = experts.answers(states, experts.mixture())
    assert torch.allclose(answers, torch.tensor([[[1 / 3, 7.5 / 3], [2 / 3, 17.0 / 3]]]), atol=1e-6)
    found = experts.decided(states, answers, torch.zeros(1, 2), 1.0)  # weights of a half each
    assert torch.allclose(found, torch.tensor([[0.25, 24.5 / 12]]), atol=1e-5)


def test_depths_learn_faster_by_their_rate_and_by_nothing_else() -> None:
    torch.manual_seed(0)
    slow, fast = Experts(2, 4, 3), Experts(2, 4, 3, rate=50.0)
    fast.depths.data = slow.depths.data / 50
    assert torch.allclose(slow.mixture(), fast.mixture(), atol=1e-6)
    for experts in (slow, fast):
        experts.mixture()[0, 1].backward()
    assert slow.depths.grad is not None and fast.depths.grad is not None
    assert torch.allclose(slow.depths.grad, fast.depths.grad, atol=1e-6)
    fast.depths.data[0, 0] += 0.02
    slow.depths.data[0, 0] += 1.0
    assert torch.allclose(slow.mixture(), fast.mixture(), atol=1e-5)
    assert fast.chosen().tolist() == F.one_hot(slow.depths.argmax(dim=1), 3).float().tolist()


# Diversity


def test_diversity_is_over_all_pairs_of_gradients() -> None:
    given = torch.randn(4, 11)
    pairs = list(combinations(given, 2))
    cosine, distance = cosine_and_distance(given)
    assert cosine.item() == pytest.approx(
        sum(float(a @ b / (a.norm() * b.norm())) for a, b in pairs) / len(pairs), abs=1e-6)
    assert distance.item() == pytest.approx(
        sum(float(((a - b) ** 2).sum().sqrt()) for a, b in pairs) / len(pairs), rel=1e-5)


def test_the_likeness_of_linear_experts_has_a_closed_form() -> None:
    """For logits W x the gradient of the mean cross entropy is W^T (p - y) / rows."""
    torch.manual_seed(0)
    words, heads = torch.randn(3, 1, 4, requires_grad=True), torch.randn(2, 5, 4, requires_grad=True)
    labels = torch.tensor([0, 3, 4])
    answers = torch.einsum("rld,hcd->rhc", words, heads)
    found = likeness(answers, labels, words)
    error = (answers.softmax(dim=2) - F.one_hot(labels, 5)[:, None]) / 3  # (rows, heads, classes)
    one, other = torch.einsum("rhc,hcd->hrd", error, heads).flatten(1)
    expected = one @ other / (one.norm() * other.norm()) - (one - other).norm()
    assert found.item() == pytest.approx(expected.item(), abs=1e-5)
    slope, = torch.autograd.grad(found, heads, retain_graph=True)
    assert torch.allclose(slope, torch.autograd.grad(expected, heads)[0], atol=1e-5)


def test_a_search_moves_the_depths_alone() -> None:
    torch.manual_seed(0)
    experts, states = Experts(2, 4, 3), torch.randn(5, 4, requires_grad=True)
    cost = (experts.answers(states, experts.mixture()) ** 2).sum()
    expected, = torch.autograd.grad(cost, experts.depths, retain_graph=True)
    step = experts.search(cost)
    step.backward()
    assert step.item() == 0 and gradients(experts).keys() == {"depths"} and states.grad is None
    assert experts.depths.grad is not None and torch.allclose(experts.depths.grad, expected)


# Learning


def test_at_first_encoder_and_experts_learn_beside_each_other(tiny: Tiny) -> None:
    classifier = guarded(tiny)
    begin(classifier, 0)
    batch = taught(classifier)
    torch.manual_seed(5)
    loss, answer = classifier.defence.loss(classifier.network, batch)
    loss.backward()
    found = gradients(classifier.model)
    classifier.network.zero_grad()
    own = head_logits(classifier.model, hidden_states(classifier.model, batch), batch.attention_mask)
    assert batch.labels is not None
    alone = F.cross_entropy(own, batch.labels)
    alone.backward()
    expected = gradients(classifier.model)
    assert found.keys() == expected.keys() and all(torch.allclose(found[name], expected[name], atol=1e-5)
                                                   for name in found)
    assert loss.item() == pytest.approx(alone.item() + F.cross_entropy(answer, batch.labels).item(), rel=1e-5)


@pytest.mark.parametrize(("search", "learning"), [(1.0, {"depths"}), (0.0, {"heads", "switch"})])
def test_once_the_encoder_is_frozen_examples_teach_depths_or_experts(
    search: float, learning: set[str], tiny: Tiny,
) -> None:
    classifier = guarded(tiny, warm=1, search=search)
    begin(classifier, 1)
    loss, answer = classifier.defence.loss(classifier.network, taught(classifier))
    loss.backward()
    assert not gradients(classifier.model) and answer.shape == (len(TEXTS), 2)
    assert {name.partition(".")[0] for name in gradients(experts_of(classifier))} == learning
    assert (loss.item() == 0) == (search == 1.0)


def test_the_loss_of_a_frozen_network_is_that_of_the_examples_not_kept_back(tiny: Tiny) -> None:
    classifier = guarded(tiny, warm=0, search=0.5, diversity=0.0)
    begin(classifier, 0)
    batch = taught(classifier)
    loss, answer = classifier.defence.loss(classifier.network, batch)
    assert batch.examples is not None and batch.labels is not None
    held = kept_back(batch.examples, 0.5)
    assert kept_back(torch.arange(10_000), 0.1).float().mean().item() == pytest.approx(0.1, abs=0.01)
    assert 0 < int(held.sum()) < len(TEXTS)
    assert loss.item() == pytest.approx(F.cross_entropy(answer[~held], batch.labels[~held]).item(), rel=1e-5)


def test_diversity_reaches_the_depths_through_the_encoder(tiny: Tiny) -> None:
    """The gradient is that of finite differences of cosine less distance, gradients taken at the words."""
    classifier = guarded(tiny, warm=0, search=1.0, diversity=2.0, experts=2, dropout=0.0)
    begin(classifier, 0)
    experts, batch = experts_of(classifier), taught(classifier)
    experts.rate = 1.0
    experts.depths.data = torch.tensor([[0.3, -0.2, 0.1], [0.0, 0.4, -0.5]])
    words = classifier.model.get_input_embeddings()(batch.input_ids).detach().requires_grad_()

    def cost() -> float:
        assert batch.labels is not None
        torch.manual_seed(7)
        answer, answers = experts(hidden_states(classifier.model, batch, embeddings=words)[:, 0], experts.mixture())
        slopes = [torch.autograd.grad(F.cross_entropy(one, batch.labels), words, retain_graph=True)[0].flatten()
                  for one in answers.unbind(dim=1)]
        cosine, distance = cosine_and_distance(torch.stack(slopes))
        return (F.cross_entropy(answer, batch.labels) + 2.0 * (cosine - distance)).item()

    held = torch.ones(len(batch), dtype=torch.bool)
    torch.manual_seed(7)
    classifier.defence.searched(classifier.network, batch, None, held).backward()  # type: ignore[operator]
    found, step = experts.depths.grad, 1e-2
    assert found is not None
    for place in ((0, 0), (0, 2), (1, 1)):
        there = []
        for sign in (1, -1):
            experts.depths.data[place] += sign * step
            there.append(cost())
            experts.depths.data[place] -= sign * step
        assert found[place].item() == pytest.approx((there[0] - there[1]) / (2 * step), abs=2e-3, rel=0.05)


def test_a_patched_encoder_stays_as_it_was(tiny: Tiny, data: Dataset) -> None:
    before = dict(load_encoder(tiny("bert"), data.labels, seed=3)[0].named_parameters())
    classifier = train(data, encoder=tiny("bert"), defence="shield", preset="patch", training=SHORT, progress=False)
    assert all(torch.equal(before[name], weight) for name, weight in classifier.model.named_parameters())
    assert all(weight.requires_grad for weight in classifier.network.parameters())
    fresh = guarded(tiny)
    torch.manual_seed(0)
    assert not torch.equal(experts_of(fresh).switch.weight, experts_of(classifier).switch.weight)


def test_the_encoder_is_frozen_only_while_it_is_trained(tiny: Tiny) -> None:
    classifier = guarded(tiny, warm=1)
    seen = []
    for epoch in (0, 1, 2):
        classifier.defence.augment([], epoch, torch.Generator(), classifier)
        for mode in (True, False):
            classifier.network.train(mode)
            seen.append({weight.requires_grad for weight in classifier.model.parameters()})
    assert seen == [{True}, {True}, {False}, {True}, {False}, {True}]
    assert all(weight.requires_grad for weight in experts_of(classifier).parameters())
    assert SHIELD.tune is Defence.tune, "it sets no thresholds"


def test_several_processes_are_refused(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    from accelerate import PartialState

    classifier = guarded(tiny)
    begin(classifier, 0)
    monkeypatch.setitem(PartialState._shared_state, "num_processes", 2)
    with pytest.raises(OptionError, match="2 processes"):
        begin(classifier, 0)


def test_a_warm_encoder_learns_until_it_is_frozen(tiny: Tiny, data: Dataset) -> None:
    def trained(epochs: int) -> DefendedClassifier:
        return train(data, encoder=tiny("bert"), defence="shield", options={"warm": 1}, progress=False,
                     training={**SHORT, "epochs": epochs, "schedule": "constant", "warmup": 0.0})

    start = dict(load_encoder(tiny("bert"), data.labels, seed=3)[0].named_parameters())
    one, two = (dict(trained(epochs).model.named_parameters()) for epochs in (1, 2))
    assert not any(torch.equal(start[name], one[name]) for name in ("classifier.weight", "bert.pooler.dense.weight"))
    assert all(torch.equal(one[name], two[name]) for name in one)


# Answers


def test_an_answer_is_the_experts_at_their_depth_under_the_row_s_lot(tiny: Tiny) -> None:
    classifier = guarded(tiny)
    experts, batch = experts_of(classifier), views(classifier)
    assert batch.seeds is not None
    with torch.no_grad():
        found = classifier.defence.answer(classifier.network, batch)
        first = hidden_states(classifier.model, batch)[:, 0]
        mlps: Any = experts.heads
        answers = [mlps[place][depth](first) for place, depth in enumerate(experts.depths.argmax(dim=1).tolist())]
        liked = experts.switch(torch.cat([first, *answers], dim=1))
    lot = -torch.log(-torch.log(uniform(batch.seeds, 5)))
    best = (liked + lot).argmax(dim=1)
    expected = torch.stack([answers[place][row] / 5 for row, place in enumerate(best.tolist())])
    clear = (liked + lot).topk(2, dim=1).values.diff(dim=1)[:, 0].abs() > 0.2  # where 0.01 leaves one expert alone
    assert int(clear.sum()) >= 4 and torch.allclose(found[clear], expected[clear], atol=1e-5)
    assert len(set(best.tolist())) > 1


def test_noise_comes_from_the_text_from_nowhere_or_not_at_all(tiny: Tiny) -> None:
    still, moving, none = guarded(tiny), guarded(tiny, noise="fresh"), guarded(tiny, gumbel=False, votes=9)
    assert (still.defence.noise, moving.defence.noise, none.defence.noise) == ("text", "fresh", "none")
    texts = [f"{word} {other}" for word in ("the", "a", "x", "y") for other in ("plot", "movie", "scene", "good")]
    first = still.predict(texts).probabilities
    assert torch.equal(first, still.predict(texts).probabilities)
    still.defence.redraw(1)
    assert not torch.allclose(first, still.predict(texts).probabilities, atol=1e-3)
    still.defence.redraw(0)
    assert torch.equal(first, still.predict(texts).probabilities)
    assert not torch.equal(moving.predict(texts).probabilities, moving.predict(texts).probabilities)
    assert torch.equal(none.predict(texts).probabilities, none.predict(texts).probabilities)
    assert none.defence.views == 1 and views(none).seeds is None


def test_many_votes_average_the_lot_away(tiny: Tiny) -> None:
    classifier = guarded(tiny, votes=400)
    experts = experts_of(classifier)
    with torch.no_grad():
        first = hidden_states(classifier.model, views(classifier, TEXTS[:2]))[:, 0]
        answers = experts.answers(first, experts.chosen())
        liked = experts.switch(torch.cat([first, answers.flatten(1)], dim=1)).softmax(dim=1)
    expected = (liked[:, :, None] * answers).mean(dim=1)  # at a temperature near zero the lot is a draw by softmax(a)
    assert torch.allclose(classifier.logits(TEXTS[:2]).mean(dim=0), expected, atol=0.1)


def test_other_embeddings_stand_in_for_the_words(tiny: Tiny) -> None:
    classifier = guarded(tiny)
    batch = views(classifier)
    words = classifier.model.get_input_embeddings()(batch.input_ids)
    plain, same, other = (classifier.defence.answer(classifier.network, batch, given)
                          for given in (None, words, -words))
    assert torch.allclose(plain, same, atol=2e-5) and not torch.allclose(plain, other, atol=2e-4)


@pytest.mark.parametrize("preset", ["recommended", "release"])
def test_it_trains_is_saved_and_does_not_depend_on_the_batch(
    preset: str, tiny: Tiny, data: Dataset, tmp_path: Path,
) -> None:
    classifier, again = (train(data, encoder=tiny("bert"), defence="shield", preset=preset, options={"warm": 1},
                               training=SHORT, out=tmp_path / name, progress=False) for name in ("one", "two"))
    first, second = (one.network.state_dict() for one in (classifier, again))
    assert all(torch.equal(first[name], second[name]) for name in first)
    whole = classifier.predict(TEXTS).probabilities
    assert torch.equal(DefendedClassifier.load(tmp_path / "one", device="cpu").predict(TEXTS).probabilities, whole)
    for size in (1, 2):
        assert torch.allclose(classifier.predict(TEXTS, batch_size=size).probabilities, whole, atol=1e-5)
    assert classifier.facts["steps"] == 12


@pytest.mark.parametrize("name", ["shield", "shield+freelb"])
def test_a_model_of_before_goes_on_to_sum(name: str, tiny: Tiny, tmp_path: Path) -> None:
    """Its description lacks the option, and its weights were trained under sums."""
    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    former, now = (DefendedClassifier(model, tokenizer, build_defence(name, options={"averaged": averaged}),
                                      labels=["bad", "good"], max_length=40) for averaged in (False, True))
    now.defence.load_state_dict(former.defence.state_dict())
    path = former.save(tmp_path / "model") / "dualmask.json"
    description = json.loads(path.read_text())
    assert description["options"].pop("averaged") is False
    del description["checksum"]
    description["format"] = 1
    path.write_text(json.dumps(description))
    again = DefendedClassifier.load(path.parent, device="cpu")
    assert again.defence.options.averaged is False  # type: ignore[attr-defined]
    summed, mean = former.logits(TEXTS), now.logits(TEXTS)
    assert torch.equal(again.logits(TEXTS), summed) and torch.allclose(summed, 5 * mean, atol=1e-5)


def test_records_of_before_are_of_a_defence_that_sums() -> None:
    current, former = ({"name": "shield", **build_defence("shield", options={"averaged": averaged}).options_as_dict()}
                       for averaged in (True, False))
    record = {"defence": {name: value for name, value in former.items() if name != "averaged"}}
    assert differences(record, {"defence": former}) == "" and "averaged" in differences(record, {"defence": current})
    unknown = {"defence": {"name": "unheard-of", "rate": 1}}
    assert differences(unknown, unknown) == ""


def test_it_can_be_trained_on_moved_words_frozen_or_not(tiny: Tiny, data: Dataset) -> None:
    classifier = train(data, encoder=tiny("bert"), defence="shield+freelb", options={"warm": 1}, training=SHORT,
                       progress=False)
    assert torch.isfinite(classifier.predict(TEXTS).probabilities).all()
