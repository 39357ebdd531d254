# SPDX-License-Identifier: Apache-2.0
"""Training on moved word embeddings: FreeLB, FreeLB++, FAT, and what they share."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from dualmask.classifier import DefendedClassifier
from dualmask.defences import build_defence
from dualmask.defences.ascent import Ascent, norms
from dualmask.defences.fat import FAT
from dualmask.defences.freelb import FreeLB, FreeLBOptions
from dualmask.models.encoders import load_encoder
from dualmask.text.encoding import Batch
from dualmask.text.examples import Dataset

Tiny = Callable[[str], Path]


def classifier(tiny: Tiny, data: Dataset, name: str, **options: object) -> DefendedClassifier:
    model, tokenizer = load_encoder(tiny("bert"), data.labels)
    return DefendedClassifier(model, tokenizer, build_defence(name, options=options), labels=data.labels, max_length=40)


def some(found: DefendedClassifier, data: Dataset, rows: int = 4) -> Batch:
    texts, labels = zip(*data.train[:rows], strict=True)
    batch = found.defence.training_view(texts, labels, found.encode, torch.Generator())
    return replace(batch, examples=torch.arange(rows))


class Counting:
    """An objective that notes where it was asked; it falls with the sum of the embeddings."""

    def __init__(self) -> None:
        self.asked: list[Tensor] = []

    def __call__(self, batch: Batch, embeddings: Tensor | None = None) -> tuple[Tensor, Tensor]:
        assert embeddings is not None
        self.asked.append(embeddings.detach())
        answer = torch.stack([-embeddings.sum(dim=(1, 2)), embeddings.sum(dim=(1, 2))], dim=1)
        return answer[:, 0].mean(), answer


def test_the_first_perturbation_has_the_published_size(tiny: Tiny, data: Dataset) -> None:
    found = classifier(tiny, data, "freelb", start=0.5)
    defence, batch = found.defence, some(found, data)
    assert isinstance(defence, Ascent)
    torch.manual_seed(1)
    delta = defence.first(batch)
    size = delta.shape[2]
    for row, length in enumerate(batch.attention_mask.sum(dim=1).tolist()):
        most = 0.5 / sqrt(length * size)
        assert (delta[row, length:] == 0).all()
        assert 0.9 * most < delta[row, :length].abs().max() <= most
        assert float(delta[row].norm()) == pytest.approx(0.5 / sqrt(3), rel=0.1)


def test_a_step_goes_along_the_gradient_and_back_into_the_ball() -> None:
    defence = FreeLB(FreeLBOptions(step_size=0.1, bound=0.15))
    gradient = torch.tensor([[[3.0, 4.0]], [[0.0, 0.0]]])
    once = defence.moved(torch.zeros(2, 1, 2), gradient)
    assert torch.allclose(once, torch.tensor([[[0.06, 0.08]], [[0.0, 0.0]]]))
    twice = defence.moved(once, gradient)
    assert torch.allclose(twice[0], torch.tensor([[0.09, 0.12]]))
    assert torch.allclose(norms(twice)[0], torch.tensor(0.15))
    free = build_defence("freelb++", options={"step_size": 0.1})
    assert isinstance(free, Ascent) and torch.allclose(free.moved(once, gradient)[0], torch.tensor([[0.12, 0.16]]))


@pytest.mark.parametrize(("name", "steps"), [("freelb", 3), ("freelb++", 4)])
def test_every_step_teaches_and_raises_the_loss(name: str, steps: int, tiny: Tiny, data: Dataset) -> None:
    found = classifier(tiny, data, name, steps=steps)
    batch, objective, losses = some(found, data), Counting(), list[float]()

    def backward(loss: Tensor) -> None:
        losses.append(float(loss.detach()))
        loss.backward()

    total, _ = found.defence.learn(objective, batch, backward)
    assert len(objective.asked) == len(losses) == steps
    assert all(after > before for before, after in pairwise(losses))
    assert float(total) == pytest.approx(sum(losses))


def test_the_gradient_is_the_mean_over_the_steps(tiny: Tiny, data: Dataset) -> None:
    """Against K whole graphs, kept and summed."""
    found = classifier(tiny, data, "freelb", steps=3, step_size=0.3)
    defence, batch, network = found.defence, some(found, data), found.network.train()
    assert isinstance(defence, FreeLB)
    torch.manual_seed(7)
    defence.learn(partial(defence.loss, network), batch, lambda loss: loss.backward())
    ours = {name: weight.grad.clone() for name, weight in network.named_parameters() if weight.grad is not None}
    network.zero_grad()
    torch.manual_seed(7)
    delta, losses = defence.begin(batch), []
    for _ in range(3):
        delta = delta.detach().requires_grad_()
        loss, _ = defence.at(partial(defence.loss, network), batch, delta)
        losses.append(loss)
        delta = defence.moved(delta, torch.autograd.grad(loss, delta, retain_graph=True)[0])
    (sum(losses) / 3).backward()  # type: ignore[union-attr]
    for name, weight in network.named_parameters():
        if weight.grad is not None:
            assert torch.allclose(ours[name], weight.grad, atol=1e-6), name


def test_dropout_is_the_same_in_every_step(tiny: Tiny, data: Dataset) -> None:
    found = classifier(tiny, data, "freelb")
    defence, batch, network = found.defence, some(found, data), found.network.train()
    assert isinstance(defence, FreeLB)
    torch.manual_seed(3)
    delta = defence.begin(batch)
    answers = [defence.at(partial(defence.loss, network), batch, delta)[1] for _ in range(2)]
    assert torch.equal(*answers)
    torch.manual_seed(4)
    defence.begin(batch)
    assert not torch.equal(defence.at(partial(defence.loss, network), batch, delta)[1], answers[0])


def test_fat_takes_two_passes_and_remembers_signs(tiny: Tiny, data: Dataset) -> None:
    found = classifier(tiny, data, "fat", step_size=0.2, start=0.5)
    defence, batch, objective = found.defence, some(found, data), Counting()
    assert isinstance(defence, FAT)
    learned: list[Tensor] = []
    defence.learn(objective, batch, learned.append)
    assert len(objective.asked) == 2 and len(learned) == 1
    moved = objective.asked[1] - objective.asked[0]  # along the gradient, which is -1 everywhere here
    lengths = batch.attention_mask.sum(dim=1).tolist()
    assert torch.allclose(norms(moved).flatten(), torch.full((4,), 0.2), atol=1e-5)
    for row, length in enumerate(lengths):
        assert defence._signs[row].shape[0] == length and not defence._signs[row].any()
    again = defence.first(batch)
    for row, length in enumerate(lengths):
        assert (again[row, :length] <= 0).all() and again[row, :length].abs().max() > 0


def test_the_cache_of_signs_is_small(tiny: Tiny, data: Dataset) -> None:
    found = classifier(tiny, data, "fat")
    defence, batch = found.defence, some(found, data)
    assert isinstance(defence, FAT)
    step = torch.randn(4, batch.input_ids.shape[1], 32)
    defence.keep(batch, step)
    for row, length in enumerate(batch.attention_mask.sum(dim=1).tolist()):
        bits = defence._signs[row]
        assert bits.nbytes == length * 32 // 8 and bits.base is None
        assert np.array_equal(np.unpackbits(bits, axis=1).astype(bool), (step[row, :length] > 0).numpy())


def test_an_example_that_changed_its_length_is_no_trouble(tiny: Tiny, data: Dataset) -> None:
    found = classifier(tiny, data, "fat")
    defence = found.defence
    assert isinstance(defence, FAT)
    for text in ("good", "the movie was good and the plot", "a"):
        batch = replace(found.encode([text]).with_labels([1]), examples=torch.tensor([5]))
        defence.learn(partial(defence.loss, found.network), batch, lambda loss: loss.backward())
