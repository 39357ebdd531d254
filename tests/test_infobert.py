# SPDX-License-Identifier: Apache-2.0
"""InfoBERT: the two bounds, anchored words, and the steps that they come on top of."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from conftest import ABSOLUTE, RELATIVE
from torch import Tensor, nn
from torch.nn import functional as F

from dualmask.classifier import DefendedClassifier
from dualmask.defences import DEFENCES, build_defence
from dualmask.defences.freelbpp import FreeLBpp
from dualmask.defences.infobert import Critic, InfoBERT, InfoBERTOptions, anchored, info_nce, spread
from dualmask.errors import OptionError
from dualmask.models.encoders import load_encoder
from dualmask.models.observation import watched
from dualmask.text.encoding import Batch
from dualmask.text.examples import Dataset
from dualmask.training import train

Tiny = Callable[[str], Path]
SHORT = {"epochs": 1, "max_length": 40, "learning_rate": 1e-3, "batch_size": 16, "seed": 3}
TEXTS = ["the movie was good", "a bad plot", "unable movies rarely !", "", "the " * 60]
DEFENCES.setdefault("infobert", InfoBERT)


def guarded(tiny: Tiny, data: Dataset, family: str = "bert", **options: object) -> DefendedClassifier:
    model, tokenizer = load_encoder(tiny(family), data.labels)
    return DefendedClassifier(model, tokenizer, build_defence("infobert", options=options), labels=data.labels,
                              max_length=40)


def parts(found: DefendedClassifier) -> InfoBERT:
    assert isinstance(found.defence, InfoBERT)
    return found.defence


def some(found: DefendedClassifier, data: Dataset, rows: int = 6) -> Batch:
    texts, labels = zip(*data.train[:rows], strict=True)
    return found.defence.training_view(texts, labels, found.encode, torch.Generator())


def gradients(found: DefendedClassifier) -> dict[str, Tensor]:
    return {name: weight.grad.clone() for name, weight in found.network.named_parameters() if weight.grad is not None}


# Equations


def test_spread_is_half_the_mean_squared_distance_of_pairs() -> None:
    two = torch.tensor([[0.0, 0.0], [3.0, 4.0]])  # half of 25 for pairs of different words, 0 for a word with itself
    torch.manual_seed(0)
    found = torch.stack([spread(two) for _ in range(2000)])
    assert set(found.tolist()) == {0.0, 6.25, 12.5} and float(found.mean()) == pytest.approx(6.25, rel=0.05)
    words = torch.randn(4000, 3)
    assert float(spread(words)) == pytest.approx(float(words.var(dim=0).sum()), rel=0.05)


def test_info_nce_by_the_formula() -> None:
    scores = torch.tensor([[[2.0, 0.5], [1.0, 3.0]]])  # texts in rows, words in columns
    right = (2.0 + 3.0) / 2
    all_of_them = [math.log((math.exp(2.0) + math.exp(0.5)) / 2), math.log((math.exp(1.0) + math.exp(3.0)) / 2)]
    assert float(info_nce(scores)) == pytest.approx(right - sum(all_of_them) / 2)
    groups = torch.randn(3, 5, 5)
    assert torch.allclose(info_nce(groups), torch.stack([info_nce(one[None]) for one in groups]).mean(), atol=1e-6)
    assert float(info_nce(100.0 * torch.eye(7)[None])) == pytest.approx(math.log(7), rel=1e-4)  # never more than this
    assert float(info_nce(torch.ones(1, 4, 4))) == pytest.approx(0.0, abs=1e-6)


def test_the_critic_is_one_layer_over_both_parts() -> None:
    torch.manual_seed(0)
    critic, words, texts = Critic(4), torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    whole = nn.Linear(8, 300)
    with torch.no_grad():
        whole.weight.copy_(torch.cat([critic.of_word.weight, critic.of_text.weight], dim=1))
        whole.bias.copy_(critic.of_word.bias)
        found = critic(words, texts)
        assert found.shape == (2, 3, 3)
        for group, text, word in ((0, 0, 0), (0, 2, 1), (1, 1, 2)):
            hidden = whole(torch.cat([words[group, word], texts[group, text]])).relu()
            assert torch.allclose(found[group, text, word], F.softplus(critic.score(hidden))[0], atol=1e-5)


@pytest.mark.parametrize("length", range(1, 12))
def test_anchored_words_are_those_in_the_upper_middle(length: int) -> None:
    torch.manual_seed(length)
    norms, real = torch.rand(3, 14), torch.zeros(3, 14, dtype=torch.bool)
    real[:, :length] = True
    found = anchored(norms, real, 0.5, 0.9)
    for row in range(3):
        by_length = sorted(range(length), key=lambda word: float(norms[row, word]))
        expected = by_length[math.ceil(0.5 * length):math.ceil(0.9 * length)]
        assert found[row].nonzero().flatten().tolist() == sorted(expected)
    assert bool(found.any()) == (length > 1)


def test_groups_pair_words_with_their_own_texts(tiny: Tiny, data: Dataset) -> None:
    defence = parts(guarded(tiny, data))
    asked: list[tuple[Tensor, Tensor]] = []

    class Listening(nn.Module):
        def forward(self, words: Tensor, texts: Tensor) -> Tensor:
            asked.append((words, texts))
            return torch.zeros(words.shape[0], words.shape[1], words.shape[1])

    defence.critic = Listening()  # type: ignore[assignment]
    words = torch.arange(4)[:, None, None] * 10.0 + torch.arange(5)[None, :, None]  # row * 10 + column
    chosen = torch.rand(4, 5, generator=torch.Generator().manual_seed(1)) < 0.6
    defence.told(words, torch.arange(4.0)[:, None], chosen)
    (found, texts), pairs = asked[0], int(chosen.sum())
    assert found.shape == (pairs // 4, 4, 1) and torch.equal(found // 10, texts)
    assert len(found.unique()) == found.numel()
    assert set(found.flatten().tolist()) <= set(words[chosen].flatten().tolist())
    assert float(defence.told(words, torch.zeros(4, 1), torch.zeros_like(chosen))) == 0.0


@pytest.mark.parametrize("family", [*ABSOLUTE, *RELATIVE])
def test_a_watched_pass_leaves_what_went_in_and_what_came_out(family: str, tiny: Tiny, data: Dataset) -> None:
    found = guarded(tiny, data, family)
    batch = some(found, data)
    with watched(found.model) as seen:
        states = found.network(batch, states=True)
    whole = found.model.base_model(**{"input_ids": batch.input_ids, "attention_mask": batch.attention_mask},
                                   output_hidden_states=True)
    assert seen["states"] is states and seen["words"].shape == (*batch.input_ids.shape, 16)
    real = batch.attention_mask.bool()
    assert torch.allclose(seen["words"][real], whole.hidden_states[0][real], atol=1e-5)
    with watched(found.model) as nothing:
        pass
    found.network(batch)
    assert not nothing  # it is watched within the block alone


# Steps


def test_one_step_by_hand(tiny: Tiny, data: Dataset) -> None:
    found = guarded(tiny, data, bottleneck=0.3, anchors=0.7, steps=2)
    defence, batch = parts(found), some(found, data)
    torch.manual_seed(5)
    delta = defence.begin(batch).requires_grad_()
    objective = partial(defence.loss, found.network)
    loss, answer, gradient = defence.teach(objective, batch, delta, lambda one: one.backward())
    ours = gradients(found)
    found.network.zero_grad()
    delta = delta.detach().requires_grad_()
    with watched(found.model) as seen:
        task, again = defence.at(objective, batch, delta)
    words, real = seen["words"], batch.attention_mask.bool()
    flat = words[real]
    others = flat[torch.randint(len(flat), (len(flat),))]
    first = task + 0.3 * 0.5 * ((flat - others) ** 2).sum(dim=1).mean()
    direction, = torch.autograd.grad(first, delta, retain_graph=True)
    assert torch.allclose(gradient, direction, atol=1e-6) and torch.allclose(answer, again, atol=1e-6)
    places = anchored(direction.norm(dim=2), real, 0.5, 0.9).nonzero()
    order = torch.randperm(len(places))
    bounds = []
    for start in range(0, len(places) // 6 * 6, 6):
        row, column = places[order[start:start + 6]].T
        bounds.append(info_nce(defence.critic(words[row, column][None], seen["states"][row, 0][None])))
    whole = first - 0.7 * torch.stack(bounds).mean()
    assert len(bounds) > 1 and torch.allclose(loss, whole, atol=1e-5)
    (whole / 2).backward()
    expected = gradients(found)
    assert ours.keys() == expected.keys() == dict(found.network.named_parameters()).keys()
    assert all(torch.allclose(ours[name], expected[name], atol=1e-5) for name in ours)


def test_without_its_terms_it_is_freelb(tiny: Tiny, data: Dataset) -> None:
    found = guarded(tiny, data, bottleneck=0.0, anchors=0.0)
    batch, plain = some(found, data), FreeLBpp(FreeLBpp.Options(steps=3, step_size=0.04, start=0.08))
    plain.adapt(found.model)
    learned = []
    for defence in (found.defence, plain):
        torch.manual_seed(1)
        loss, _ = defence.learn(partial(defence.loss, found.network), batch, lambda one: one.backward())
        learned.append((loss, {name: grad for name, grad in gradients(found).items() if "critic" not in name}))
        found.network.zero_grad()
    (one, ours), (other, theirs) = learned
    assert torch.allclose(one, other, atol=1e-6)
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-6) for name in theirs)


def test_each_term_goes_where_it_should(tiny: Tiny, data: Dataset) -> None:
    """Words move together, and the critic's bound grows, when only one of the terms counts."""
    torch.manual_seed(0)
    for name in ("bottleneck", "anchors"):
        found = guarded(tiny, data, **{"bottleneck": 0.0, "anchors": 0.0, name: 50.0, "steps": 2})
        defence, batch = parts(found), some(found, data, 16)
        real = batch.attention_mask.bool()
        optimiser = torch.optim.AdamW(found.network.parameters(), lr=3e-3)
        terms = []
        for _ in range(30):
            torch.manual_seed(0)
            with watched(found.model) as seen:
                found.network(batch)
            terms.append(float((spread(seen["words"][real]) if name == "bottleneck" else
                                defence.told(seen["words"], seen["states"][:, 0], real)).detach()))
            defence.learn(partial(defence.loss, found.network), batch, lambda one: one.backward())
            optimiser.step()
            optimiser.zero_grad()
        assert terms[-1] < 0.8 * terms[0] if name == "bottleneck" else terms[-1] > terms[0] + 0.02


# With the rest of the library


def test_training_saves_loads_and_repeats(tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    found, again = (train(data, encoder=tiny("bert"), defence="infobert", training=SHORT, progress=False, out=out)
                    for out in (tmp_path / "model", None))
    loaded = DefendedClassifier.load(tmp_path / "model", device="cpu")
    assert torch.equal(found.predict(TEXTS).probabilities, loaded.predict(TEXTS).probabilities)
    assert torch.equal(found.predict(TEXTS).probabilities, found.predict(TEXTS, defended=False).probabilities)
    first, second = found.network.state_dict(), again.network.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert {name.partition(".")[0] for name in found.defence.state_dict()} == {"critic"}
    fresh = guarded(tiny, data).defence.state_dict()
    assert all(not torch.equal(tensor, fresh[name]) for name, tensor in found.defence.state_dict().items())
    cost = found.facts["cost"]
    steps = int(str(found.facts["steps"]))
    assert isinstance(cost, dict) and cost["forward_passes"] == 3 * steps
    assert cost["backward_passes"] == 6 * steps  # once to rank the words, once for the parameters


def test_answers_do_not_depend_on_the_batch(tiny: Tiny, data: Dataset) -> None:
    found = guarded(tiny, data)
    alone = torch.cat([found.predict([text]).probabilities for text in TEXTS])
    assert torch.allclose(found.predict(TEXTS[::-1], batch_size=2).probabilities.flip(0), alone, atol=1e-5)
    assert found.defence.noise == "none" and found.defence.views == 1


@pytest.mark.parametrize("name", ["ddm+infobert", "ib+infobert"])
def test_it_combines(name: str, tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    from dualmask.defences.ib import IB

    DEFENCES.setdefault("ib", IB)
    found = train(data, encoder=tiny("bert"), defence=name, options={"steps": 2}, training=SHORT, progress=False,
                  out=tmp_path / "model")
    loaded = DefendedClassifier.load(tmp_path / "model", device="cpu")
    assert torch.equal(found.predict(TEXTS).probabilities, loaded.predict(TEXTS).probabilities)
    with pytest.raises(OptionError, match="how often a batch is learned from"):
        build_defence("infobert+freelb")


@pytest.mark.parametrize("family", ["roberta", "distilbert", "deberta-v2", "modernbert"])
def test_other_encoders_pairs_and_empty_texts(family: str, tiny: Tiny, data: Dataset) -> None:
    found = guarded(tiny, data, family)
    for texts in (["", ""], [("good movie", "bad"), ("", "")]):
        batch = found.defence.training_view(texts, [0, 1], found.encode, torch.Generator())  # type: ignore[arg-type]
        loss, _ = found.defence.learn(partial(found.defence.loss, found.network), batch, lambda one: one.backward())
        assert bool(torch.isfinite(loss))
        assert all(bool(torch.isfinite(gradient).all()) for gradient in gradients(found).values())


def test_impossible_options_are_refused() -> None:
    for options in ({"steps": 0}, {"bottleneck": -1.0}, {"anchors": math.nan}, {"highest": 1.1}, {"lowest": 0.9}):
        with pytest.raises(OptionError, match=next(iter(options))):
            InfoBERTOptions(**options)  # type: ignore[arg-type]


def test_the_card() -> None:
    assert {"Paper", "Idea", "Acts at", "Deviations", "Relations"} == set(InfoBERT.card().sections)
    assert InfoBERT.paper is not None and InfoBERT.passes == "1"
