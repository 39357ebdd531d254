# SPDX-License-Identifier: Apache-2.0
"""The information bottleneck: its code, its losses, and the encoder's own head beside it."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from conftest import ABSOLUTE, RELATIVE
from torch import Tensor
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F

from dualmask.classifier import DefendedClassifier
from dualmask.defences import DEFENCES, build_defence
from dualmask.defences.ib import IB, IBOptions, divergence, drawn
from dualmask.errors import OptionError
from dualmask.models.encoders import hidden_states, load_encoder, logits
from dualmask.models.heads import head_logits
from dualmask.seeds import gaussian
from dualmask.text.encoding import Batch
from dualmask.text.examples import Dataset
from dualmask.training import train

Tiny = Callable[[str], Path]
SHORT = {"epochs": 1, "max_length": 40, "learning_rate": 1e-3, "batch_size": 16, "seed": 3}
TEXTS = ["the movie was good", "a bad plot", "unable movies rarely !", "", "the " * 60]
DEFENCES.setdefault("ib", IB)


def guarded(tiny: Tiny, data: Dataset, family: str = "bert", **options: object) -> DefendedClassifier:
    model, tokenizer = load_encoder(tiny(family), data.labels)
    defence = build_defence("ib", options=options)
    found = DefendedClassifier(model, tokenizer, defence, labels=data.labels, max_length=40)
    found.network.eval()
    return found


def parts(found: DefendedClassifier) -> IB:
    assert isinstance(found.defence, IB)
    return found.defence


def some(found: DefendedClassifier, data: Dataset, rows: int = 6) -> Batch:
    texts, labels = zip(*data.train[:rows], strict=True)
    return found.defence.training_view(texts, labels, found.encode, torch.Generator())


# Equations


def test_the_divergence_is_that_of_gaussians() -> None:
    torch.manual_seed(0)
    mean, usual = torch.randn(5, 7), torch.randn(7)
    deviation, width = torch.rand(5, 7) + 0.1, torch.rand(7) + 0.1
    expected = kl_divergence(Normal(mean, deviation), Normal(usual, width))
    assert torch.allclose(divergence(mean, deviation, usual, width), expected, atol=1e-5)
    assert float(divergence(*(torch.tensor(x) for x in (1.0, 2.0, 0.0, 1.0)))) == pytest.approx(2.0 - math.log(2))


def test_the_loss_by_hand() -> None:
    """One dimension, two classes, a network whose [CLS] state is known."""
    class Model:
        """As much of a model as the defence asks."""
        device = torch.device("cpu")

        class config:  # noqa: N801
            hidden_size, num_labels, model_type = 1, 2, "roberta"

        @staticmethod
        def classifier(states: Tensor) -> Tensor:
            return torch.cat([states[:, 0], -states[:, 0]], dim=1)

    defence = IB(IBOptions(size=1, weight=0.5)).eval()
    defence.adapt(Model())  # type: ignore[arg-type]
    with torch.no_grad():
        for tensor, value in ((defence.code.weight, [[2.0], [0.0]]), (defence.code.bias, [0.5, 1.0]),
                              (defence.head.weight, [[1.0], [-1.0]]), (defence.head.bias, [0.0, 0.25]),
                              (defence.usual_mean, [0.5]), (defence.usual_width, [math.log(2)])):
            tensor.copy_(torch.tensor(value))
    batch = Batch(*(torch.ones(1, 2, dtype=torch.long),) * 7, labels=torch.tensor([1]), seeds=torch.tensor([4]))
    loss, answer = defence.loss(lambda *_, **__: torch.tensor([[[0.75], [9.0]]]), batch)  # type: ignore[misc]
    mu, sigma = 2.0 * 0.75 + 0.5, math.log1p(math.e)
    z = mu + sigma * float(gaussian(torch.tensor([4]), 1))
    assert answer.tolist() == [pytest.approx([z, 0.25 - z])]
    kl = math.log(2 / sigma) + (sigma**2 + 1.5**2) / (2 * 4) - 0.5
    own = math.log1p(math.exp(2 * 0.75))  # of class 1, from 0.75 and -0.75
    assert loss.item() == pytest.approx(math.log1p(math.exp(2 * z - 0.25)) + 0.5 * kl + own, rel=1e-5)


def test_draws_are_as_wide_as_sigma() -> None:
    mean, deviation = torch.tensor([[1.0, -2.0]]), torch.tensor([[0.5, 2.0]])
    many = drawn(mean.expand(20000, 2), deviation.expand(20000, 2), torch.arange(20000))
    assert torch.allclose(many.mean(dim=0), mean[0], atol=0.05)
    assert torch.allclose(many.std(dim=0), deviation[0], rtol=0.03)
    assert torch.equal(many[7:8], drawn(mean, deviation, torch.tensor([7])))
    torch.manual_seed(1)
    fresh = [drawn(mean, deviation, None) for _ in range(2)]
    assert not torch.equal(*fresh)


def test_the_mean_over_dimensions_counts_not_the_sum(tiny: Tiny, data: Dataset) -> None:
    found = guarded(tiny, data)
    losses = []
    for weight in (0.0, 1.0):
        parts(found).options = replace(parts(found).options, weight=weight)
        torch.manual_seed(0)
        losses.append(parts(found).loss(found.network, some(found, data))[0])
    mean, deviation = parts(found).coded(found.network(some(found, data), states=True))
    expected = kl_divergence(Normal(mean, deviation), Normal(0.0, 1.0)).mean()
    assert mean.shape == (6, 500) and torch.allclose(losses[1] - losses[0], expected, atol=1e-5)


# The encoder's own head


@pytest.mark.parametrize("family", [*ABSOLUTE, *RELATIVE])
def test_heads_asked_apart_answer_alike(family: str, tiny: Tiny, data: Dataset) -> None:
    model, tokenizer = load_encoder(tiny(family), data.labels)
    batch = DefendedClassifier(model, tokenizer, build_defence("plain"), labels=data.labels, max_length=40).encode(
        ["the movie was good", "a bad plot", "x"])
    for pooling in ("cls", "mean"):
        model.config.classifier_pooling = pooling  # ModernBERT's, which others don't look at
        found = head_logits(model, hidden_states(model, batch), batch.attention_mask)
        assert torch.allclose(found, logits(model, batch), atol=1e-5)


def test_the_own_head_learns_and_has_no_say_in_the_states(tiny: Tiny, data: Dataset) -> None:
    found = guarded(tiny, data)
    defence, batch, model = parts(found), some(found, data), found.model
    torch.manual_seed(2)
    loss, answer = defence.loss(found.network, batch)
    loss.backward()
    ours = {name: weight.grad.clone() for name, weight in found.network.named_parameters() if weight.grad is not None}
    assert ours.keys() == dict(found.network.named_parameters()).keys()  # nothing goes without a gradient
    found.network.zero_grad()
    torch.manual_seed(2)
    mean, deviation = defence.coded(found.network(batch, states=True))
    again = defence.head(mean + deviation * torch.randn_like(mean))
    kl = kl_divergence(Normal(mean, deviation), Normal(defence.usual_mean, defence.usual_width.exp()))
    assert batch.labels is not None and torch.allclose(again, answer, atol=1e-6)
    (F.cross_entropy(again, batch.labels) + 0.1 * kl.mean()).backward()
    for name, weight in found.network.named_parameters():
        if "classifier" in name or "pooler" in name:
            assert weight.grad is None and ours[name].abs().max() > 0, name
        else:
            assert torch.allclose(ours[name], weight.grad, atol=1e-6), name
    model.zero_grad()
    F.cross_entropy(logits(model, batch), batch.labels).backward()
    head = model.classifier.weight.grad  # type: ignore[union-attr]
    assert torch.allclose(ours["model.classifier.weight"], head, atol=1e-6)  # type: ignore[arg-type]


def test_both_heads_learn_the_task(tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    torch.manual_seed(0)
    found = guarded(tiny, data)
    optimiser = torch.optim.AdamW(found.network.parameters(), lr=3e-3)
    for _ in range(100):
        loss, _ = found.defence.loss(found.network, some(found, data, 32))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert found.accuracy(data.train[:32]) > 0.9 and found.undefended().accuracy(data.train[:32]) > 0.9
    found.save(tmp_path / "model")
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")
    again = DefendedClassifier(plain, found.encode.tokenizer, build_defence("plain"), labels=data.labels, max_length=40)
    assert torch.equal(again.predict(TEXTS).probabilities, found.predict(TEXTS, defended=False).probabilities)


# Inference


def test_the_mean_answers_without_noise(tiny: Tiny, data: Dataset) -> None:
    found = guarded(tiny, data)
    assert found.defence.noise == "none" and found.defence.views == 1
    batch = found.defence.inference_view(TEXTS, [0] * len(TEXTS), found.encode, found.device)
    assert batch.seeds is None
    with torch.no_grad():
        mean, _ = parts(found).coded(found.network(batch, states=True))
        assert torch.allclose(parts(found).head(mean), parts(found).answer(found.network, batch), atol=1e-6)
    assert torch.equal(*(found.predict(TEXTS).probabilities for _ in range(2)))


def test_samples_come_from_the_text(tiny: Tiny, data: Dataset) -> None:
    found = guarded(tiny, data, inference="sampled")
    assert found.defence.noise == "text" and found.defence.views == 1
    whole = found.predict(TEXTS)
    assert whole.passes is not None and whole.passes.tolist() == [1] * len(TEXTS)
    alone = torch.cat([found.predict([text]).probabilities for text in TEXTS])
    backwards = found.predict(TEXTS[::-1], batch_size=2).probabilities.flip(0)
    assert torch.allclose(whole.probabilities, alone, atol=1e-5)
    assert torch.allclose(whole.probabilities, backwards, atol=1e-5)
    found.defence.redraw(1)
    assert not torch.allclose(found.predict(TEXTS).probabilities, alone, atol=1e-4)
    found.defence.redraw(0)
    assert torch.allclose(found.predict(TEXTS).probabilities, alone, atol=1e-5)
    other = guarded(tiny, data, inference="sampled", noise_seed=1)
    other.network.load_state_dict(found.network.state_dict())
    assert not torch.allclose(other.predict(TEXTS).probabilities, alone, atol=1e-4)


def test_many_samples_are_around_the_mean(tiny: Tiny, data: Dataset) -> None:
    """The head is linear: the mean of its answers to draws is its answer to their mean."""
    found, mean = guarded(tiny, data, inference="sampled", votes=800), guarded(tiny, data)
    mean.network.load_state_dict(found.network.state_dict())
    views = found.logits(TEXTS[:2])
    assert views.shape == (800, 2, 2) and views.std(dim=0).min() > 0.1
    assert torch.allclose(views.mean(dim=0), mean.logits(TEXTS[:2])[0], atol=0.05)


def test_fresh_samples_differ_each_time(tiny: Tiny, data: Dataset) -> None:
    found = guarded(tiny, data, inference="sampled", noise="fresh")
    first, second = (found.predict(TEXTS).probabilities for _ in range(2))
    assert found.defence.noise == "fresh" and not torch.equal(first, second)
    assert guarded(tiny, data, noise="fresh").defence.noise == "none"


def test_dropout_is_on_the_code_in_training_alone(tiny: Tiny, data: Dataset) -> None:
    found = guarded(tiny, data, dropout=1.0)
    code = torch.randn(3, 500)
    assert not torch.allclose(parts(found).read(code), parts(found).head.bias.expand(3, 2))
    found.network.train()
    assert torch.allclose(parts(found).read(code), parts(found).head.bias.expand(3, 2))


# With the rest of the library


@pytest.mark.parametrize("preset", ["recommended", "release"])
def test_training_saves_loads_and_repeats(preset: str, tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    found, again = (train(data, encoder=tiny("bert"), defence="ib", preset=preset, training=SHORT, progress=False,
                          out=out) for out in (tmp_path / "model", None))
    loaded = DefendedClassifier.load(tmp_path / "model", device="cpu")
    assert torch.equal(found.predict(TEXTS).probabilities, loaded.predict(TEXTS).probabilities)
    assert parts(loaded).sampled == (preset == "release") and loaded.defence.options == found.defence.options
    first, second = found.network.state_dict(), again.network.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    cost = found.facts["cost"]
    assert isinstance(cost, dict) and cost["forward_passes"] == cost["backward_passes"] == found.facts["steps"]
    assert set(found.defence.state_dict()) == {
        "usual_mean", "usual_width", "code.weight", "code.bias", "head.weight", "head.bias"}
    assert float(parts(found).usual_mean.detach().abs().max()) > 0  # r has learned, too


def test_another_seed_begins_elsewhere(tiny: Tiny, data: Dataset) -> None:
    one, other = (train(data, encoder=tiny("bert"), defence="ib", progress=False,
                        training={**SHORT, "seed": seed, "learning_rate": 0.0}) for seed in (1, 2))
    assert not torch.equal(parts(one).code.weight, parts(other).code.weight)


def test_it_combines_with_freelb(tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    found = train(data, encoder=tiny("bert"), defence="ib+freelb++", options={"steps": 2, "inference": "sampled"},
                  training=SHORT, progress=False, out=tmp_path / "model")
    assert found.defence.noise == "text"
    cost = found.facts["cost"]
    steps = int(str(found.facts["steps"]))
    assert isinstance(cost, dict) and cost["forward_passes"] == cost["backward_passes"] == 2 * steps
    loaded = DefendedClassifier.load(tmp_path / "model", device="cpu")
    assert torch.equal(found.predict(TEXTS).probabilities, loaded.predict(TEXTS).probabilities)
    with pytest.raises(OptionError, match="what is asked at inference"):
        build_defence("ib+ddm")


def test_steps_move_the_words_that_the_code_reads(tiny: Tiny, data: Dataset) -> None:
    found = guarded(tiny, data)
    batch = some(found, data)
    words = found.model.get_input_embeddings()(batch.input_ids).detach()
    asked = []
    for embeddings in (None, words, words.flip(2)):
        torch.manual_seed(0)
        asked.append(found.defence.loss(found.network, batch, embeddings)[1])
    assert torch.allclose(asked[0], asked[1], atol=1e-6) and not torch.allclose(asked[1], asked[2], atol=1e-3)
    both = build_defence("ib+freelb++", options={"steps": 3, "step_size": 0.5})
    whole = DefendedClassifier(found.model, found.encode.tokenizer, both, labels=data.labels, max_length=40)
    losses: list[float] = []

    def backward(loss: Tensor) -> None:
        losses.append(float(loss.detach()))
        loss.backward()

    torch.manual_seed(0)
    both.learn(partial(both.loss, whole.network), batch, backward)
    assert losses[0] < losses[1] < losses[2]


@pytest.mark.parametrize("family", [*ABSOLUTE, *RELATIVE])
def test_other_encoders(family: str, tiny: Tiny, data: Dataset) -> None:
    found = guarded(tiny, data, family, inference="sampled", size=8)
    loss, answer = found.defence.loss(found.network, some(found, data))
    loss.backward()
    assert answer.shape == (6, 2) and all(weight.grad is not None for weight in found.defence.parameters())
    alone = torch.cat([found.predict([text]).probabilities for text in TEXTS])
    assert torch.allclose(found.predict(TEXTS).probabilities, alone, atol=1e-5)


def test_pairs_and_explanations(tiny: Tiny, data: Dataset) -> None:
    found = guarded(tiny, data)
    assert torch.isfinite(found.predict([("good movie", "bad"), ("", "")]).probabilities).all()
    assert found.predict(TEXTS, explain=True).masked == [[]] * len(TEXTS)


def test_impossible_options_are_refused() -> None:
    for options in ({"size": 0}, {"weight": -1.0}, {"dropout": 1.5}, {"votes": 0}):
        with pytest.raises(OptionError, match=next(iter(options))):
            IBOptions(**options)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="mean, sampled"):
        build_defence("ib", options={"inference": "median"})


def test_the_card() -> None:
    assert {"Paper", "Idea", "Acts at", "Deviations", "Relations"} == set(IB.card().sections)
    assert IB.paper is not None and IB.explainable and IB.passes == str(IB().views)
