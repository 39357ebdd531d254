# SPDX-License-Identifier: Apache-2.0
"""What FAT keeps of texts that are shown several times, and FreeLB's bound, that it is met and can be left out."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from dualmask.classifier import DefendedClassifier
from dualmask.defences import build_defence
from dualmask.defences.ascent import Ascent, norms
from dualmask.defences.fat import FAT, numbers
from dualmask.models.encoders import load_encoder
from dualmask.text.encoding import Batch
from dualmask.text.examples import Dataset

Tiny = Callable[[str], Path]


def classifier(tiny: Tiny, data: Dataset, name: str, **options: object) -> DefendedClassifier:
    model, tokenizer = load_encoder(tiny("bert"), data.labels)
    return DefendedClassifier(model, tokenizer, build_defence(name, options=options), labels=data.labels, max_length=40)


def shown(found: DefendedClassifier, data: Dataset, *, times: int) -> Batch:
    """Four examples, numbers 7 to 4, all of them and then all again."""
    batch = found.encode([one.text for one in data.train[:4]] * times)
    return replace(batch.with_labels([one.label for one in data.train[:4]]), examples=torch.tensor([7, 6, 5, 4]))


def test_each_row_of_an_example_has_its_own_number(tiny: Tiny, data: Dataset) -> None:
    found = classifier(tiny, data, "fat")
    assert numbers(shown(found, data, times=1)) == [7, 6, 5, 4], "as the examples are called"
    thrice = numbers(shown(found, data, times=3))
    assert thrice[:4] == [7, 6, 5, 4] and len(set(thrice)) == 12
    assert numbers(replace(shown(found, data, times=3), examples=None)) == []


def test_signs_are_kept_and_used_row_by_row(tiny: Tiny, data: Dataset) -> None:
    found = classifier(tiny, data, "fat")
    defence, batch = found.defence, shown(found, data, times=2)
    assert isinstance(defence, FAT)
    plain = defence.first(batch)
    assert (plain < 0).any() and (plain > 0).any()
    step = torch.ones(*batch.input_ids.shape, plain.shape[2])
    step[4:] = -1.0  # the second time that an example is shown
    defence.keep(batch, step)
    again = defence.first(batch)
    real = batch.attention_mask.bool()
    assert (again[:4][real[:4]] >= 0).all() and (again[4:][real[4:]] <= 0).all()
    assert (again[~real] == 0).all() and again[real].abs().max() > 0


def test_one_array_holds_what_is_known_of_all_rows(tiny: Tiny, data: Dataset) -> None:
    found = classifier(tiny, data, "fat")
    defence, batch = found.defence, shown(found, data, times=1)
    assert isinstance(defence, FAT)
    step = torch.randn(*batch.input_ids.shape, 11)
    defence.keep(replace(batch, examples=torch.tensor([7, 6, 1, 0])), step)
    length = batch.input_ids.shape[1]
    signs = defence.kept(batch, torch.Size((4, length, 11)))
    assert signs.dtype == np.int8 and signs.shape == (4, length, 11)
    expected = torch.where(step > 0, 1, -1) * batch.attention_mask[..., None]
    assert np.array_equal(signs[:2], expected[:2].numpy()) and not signs[2:].any()
    shorter = defence.kept(batch, torch.Size((4, 2, 11)))
    assert np.array_equal(shorter[:2], expected[:2, :2].numpy())


@pytest.mark.parametrize(("name", "most"), [("freelb", 0.15), ("freelb++", None)])
def test_the_recommended_bound_is_met(name: str, most: float | None, tiny: Tiny, data: Dataset) -> None:
    found = classifier(tiny, data, name)
    defence = found.defence
    assert isinstance(defence, Ascent) and defence.bound == (most or 0)
    lengths: list[Tensor] = []

    def objective(batch: Batch, embeddings: Tensor | None = None) -> tuple[Tensor, Tensor]:
        assert embeddings is not None
        lengths.append(norms(embeddings.detach() - found.model.get_input_embeddings()(batch.input_ids)).flatten())
        return defence.loss(found.network, batch, embeddings)

    defence.learn(objective, shown(found, data, times=1), lambda loss: loss.backward())
    assert len(lengths) == defence.steps == (3 if most else 10)
    farthest = lengths[-1]
    if most:
        assert torch.allclose(farthest, torch.full_like(farthest, most), atol=1e-5)
    else:
        assert (farthest > 0.15).all()
