# SPDX-License-Identifier: Apache-2.0
"""Flooding-X: the floor under the loss, and how agreement between gradients finds it."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import pytest
import torch
from conftest import reviews
from torch import Tensor
from torch.nn import functional as F

from dualmask.classifier import DefendedClassifier
from dualmask.defences import DEFENCES, build_defence
from dualmask.defences.floodingx import FloodingX, FloodingXOptions, accordance, guessing
from dualmask.defences.ttso import TTSO
from dualmask.errors import OptionError
from dualmask.models.encoders import load_encoder
from dualmask.text.encoding import Batch
from dualmask.text.examples import Dataset, Example
from dualmask.training import train

Tiny = Callable[[str], Path]
SHORT = {"epochs": 2, "max_length": 40, "learning_rate": 1e-3, "batch_size": 16, "seed": 3}
DEFENCES.setdefault(FloodingX.name, FloodingX)


def classifier(tiny: Tiny, data: Dataset, **options: object) -> DefendedClassifier:
    model, tokenizer = load_encoder(tiny("bert"), data.labels)
    return DefendedClassifier(model, tokenizer, build_defence("floodingx", options=options), labels=data.labels,
                              max_length=40)


def flooding(found: DefendedClassifier) -> FloodingX:
    assert isinstance(found.defence, FloodingX)
    return found.defence


class Fixed:
    """A network that always gives these logits."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    def __call__(self, batch: Batch, embeddings: Tensor | None = None, *, states: bool = False) -> Tensor:
        return self.logits


def two_rows() -> Batch:
    ids = torch.zeros(2, 1, dtype=torch.long)
    return Batch(ids, ids, ids, ids, ids > 0, ids, ids > 0).with_labels([0, 1])


# The loss


def test_the_loss_is_reflected_at_the_level() -> None:
    network = Fixed(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))
    plain = (math.log(1 + math.exp(-2)) + math.log(1 + math.exp(-1))) / 2  # 0.2201
    for level, expected in ((0.1, plain), (0.3, 0.6 - plain), (0.0, plain), (None, plain)):
        loss, answer = FloodingX(FloodingXOptions(level=level)).loss(network, two_rows())
        assert float(loss) == pytest.approx(expected, abs=1e-6)
        assert answer is network.logits


def test_the_gradient_turns_round_below_the_level() -> None:
    gradients = []
    for level in (0.0, 0.1, 0.3):
        logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]], requires_grad=True)
        FloodingX(FloodingXOptions(level=level)).loss(Fixed(logits), two_rows())[0].backward()
        assert logits.grad is not None
        gradients.append(logits.grad)
    assert torch.equal(gradients[0], gradients[1]) and gradients[0].abs().min() > 0
    assert torch.equal(gradients[2], -gradients[0])


def test_embeddings_that_stand_in_are_asked_about(tiny: Tiny, data: Dataset) -> None:
    found = classifier(tiny, data, level=0.5)
    batch = found.encode(["the movie was good"]).with_labels([1])
    moved = -found.model.get_input_embeddings()(batch.input_ids)
    loss, answer = found.defence.loss(found.network.eval(), batch, moved)
    assert torch.equal(answer, found.network(batch, moved)) and not torch.allclose(answer, found.network(batch))
    assert torch.allclose(loss, (F.cross_entropy(answer, torch.tensor([1])) - 0.5).abs() + 0.5)


# The accordance


def pieces(*rows: Sequence[float]) -> list[list[Tensor]]:
    """Gradients, each in two parts."""
    return [[torch.tensor(row[:1]), torch.tensor(row[1:])[None]] for row in rows]


@pytest.mark.parametrize(("rows", "expected"), [
    (([3.0, 4.0], [0.6, 0.8]), 1.0),  # agreeing, whatever their lengths
    (([3.0, 4.0], [-30.0, -40.0]), -1.0),  # opposing
    (([1.0, 0.0], [0.0, 1.0]), 0.0),
    (([1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]), -1 / 3),  # cosines 1, -1, -1
    (([0.0, 0.0], [0.0, 0.0]), 0.0),  # what has no direction agrees with nothing
    (([0.0, 0.0], [1.0, 0.0], [1.0, 0.0]), 1 / 3),
])
def test_accordance_of_made_up_gradients(rows: tuple[list[float], ...], expected: float) -> None:
    assert accordance(pieces(*rows)) == pytest.approx(expected, abs=1e-6)


def test_accordance_is_the_mean_cosine_over_all_pairs() -> None:
    rows = torch.randn(6, 5, generator=torch.Generator().manual_seed(1)) + 0.3
    cosines = [float(F.cosine_similarity(rows[i], rows[j], dim=0)) for i, j in combinations(range(6), 2)]
    assert accordance(pieces(*rows.tolist())) == pytest.approx(sum(cosines) / 15, abs=1e-6)
    assert math.isnan(accordance(pieces([1.0, 2.0])))


def test_a_step_on_one_sub_batch_changes_the_loss_of_another_as_the_cosine_says(tiny: Tiny, data: Dataset) -> None:
    """What the cosine stands for, by taking the step."""
    found = classifier(tiny, data)
    network, weights = found.network.eval(), list(found.network.parameters())
    one, other = (found.encode([str(row.text) for row in part]).with_labels([row.label for row in part])
                  for part in (data.train[:8], data.train[8:16]))
    gradients = [torch.autograd.grad(found.defence.loss(network, part)[0], weights, materialize_grads=True)
                 for part in (one, other)]
    norms = [math.sqrt(sum(float(part.square().sum()) for part in gradient)) for gradient in gradients]
    with torch.no_grad():
        before = float(found.defence.loss(network, other)[0])
        step = 1e-3 / norms[0]
        for weight, part in zip(weights, gradients[0], strict=True):
            weight -= step * part
        change = float(found.defence.loss(network, other)[0]) - before
    assert change == pytest.approx(-1e-3 * norms[1] * accordance(gradients), rel=0.05)


def test_sub_batches_are_disjoint_and_alike_in_labels() -> None:
    rows = [Example(str(number), int(number % 4 == 0)) for number in range(100)]
    dealt = FloodingX(FloodingXOptions(sub_batches=4, sub_batch_size=20)).dealt(rows, torch.Generator().manual_seed(0))
    assert [len(part) for part in dealt] == [20] * 4
    assert len({one.text for part in dealt for one in part}) == 80
    counts = [Counter(one.label for one in part)[1] for part in dealt]
    assert max(counts) - min(counts) <= 1 and min(counts) >= 3
    few = FloodingX(FloodingXOptions(sub_batches=4)).dealt(rows[:3], torch.Generator())
    assert [len(part) for part in few] == [1, 1, 1]


def test_guessing_costs_the_entropy_of_the_labels() -> None:
    assert guessing(reviews(10)) == pytest.approx(math.log(2))
    assert guessing([Example("a", 2)] * 9 + [Example("b", 0)]) == pytest.approx(0.3251, abs=1e-4)


# When it is measured


def told(monkeypatch: pytest.MonkeyPatch, *answers: tuple[float, float]) -> list[int]:
    """Let measuring give these answers; the list tells how often it was asked."""
    asked: list[int] = []

    def measured(*_: object) -> tuple[float, float]:
        asked.append(len(asked))
        return answers[len(asked) - 1]

    monkeypatch.setattr(FloodingX, "measured", measured)
    return asked


def levels(found: DefendedClassifier, epochs: Sequence[int]) -> list[float]:
    seen = []
    for epoch in epochs:
        assert found.defence.augment(rows := reviews(8), epoch, torch.Generator(), found) is rows
        seen.append(float(flooding(found).level))
    return seen


def test_the_level_is_the_loss_at_the_first_epoch_without_accordance(
    tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = told(monkeypatch, (0.3, 0.4), (0.1, 0.2), (-0.1, 0.125), (-0.2, 0.1))
    assert levels(classifier(tiny, data), [0, 1, 2, 2, 3, 4]) == [0, 0, 0, 0, 0.125, 0.125]
    assert {"level", "asked"} <= set(classifier(tiny, data).defence.state_dict()), "a checkpoint keeps both"
    assert len(asked) == 3, "not before the first epoch, once an epoch, and never after it was found"


def test_a_classifier_that_only_guesses_is_not_flooded(
    tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch,
) -> None:
    told(monkeypatch, (-0.1, math.log(2)), (math.nan, 0.1), (0.0, 0.5))
    assert levels(classifier(tiny, data), [1, 2, 3]) == [0, 0, 0.5]


def test_a_level_that_is_given_is_kept(tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = told(monkeypatch, (-0.1, 0.01), (-0.1, 0.01))
    assert levels(classifier(tiny, data, level=0.25), [1, 2]) == [0.25, 0.25]
    assert levels(classifier(tiny, data, level=0), [1, 2]) == [0, 0]
    assert not asked


def test_measuring_is_repeatable_and_leaves_the_network_alone(tiny: Tiny, data: Dataset) -> None:
    found = classifier(tiny, data, sub_batches=3, sub_batch_size=8)
    found.network.eval()
    before = {name: tensor.clone() for name, tensor in found.network.state_dict().items()}
    first, again = (flooding(found).measured(data.train, torch.Generator().manual_seed(2), found) for _ in range(2))
    other = flooding(found).measured(data.train, torch.Generator().manual_seed(3), found)
    assert first == again != other
    assert -1 <= first[0] <= 1 and 0 < first[1] < 2
    assert found.network.take() == (9, 9), "a pass for each sub-batch"
    assert not found.network.training and all(weight.grad is None for weight in found.network.parameters())
    found.network.train()
    assert flooding(found).measured(data.train, torch.Generator().manual_seed(2), found) == first, "with dropout"
    assert all(torch.equal(tensor, before[name]) for name, tensor in found.network.state_dict().items())


@pytest.mark.parametrize("options", [{"level": -0.1}, {"sub_batches": 1}, {"sub_batch_size": 0}, {"level": "high"}])
def test_impossible_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        build_defence("floodingx", options=options)


# Whole runs


def test_training_asks_after_each_epoch_and_keeps_what_it_found(
    tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:
    asked = told(monkeypatch, (0.2, 0.3), (-0.2, 0.25))
    found = train(data, encoder=tiny("bert"), defence="floodingx", training={**SHORT, "epochs": 3, "patience": 0},
                  progress=False, out=tmp_path / "model")
    assert len(asked) == 2
    again = DefendedClassifier.load(tmp_path / "model", device="cpu")
    assert float(flooding(again).level) == float(flooding(found).level)
    assert found.facts["best_epoch"] == 3, "weights from before the flood are not kept, however good"
    assert float(flooding(found).level) == 0.25


def test_only_flooded_weights_are_ready(tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, (0.3, 0.4), (-0.1, 0.125))
    found = classifier(tiny, data)
    ready = []
    for epoch in range(4):
        levels(found, [epoch])
        ready.append(found.defence.is_ready(epoch))
    assert ready == [False, False, True, True]
    for level in (0.0, 0.25):
        assert classifier(tiny, data, level=level).defence.is_ready(0), "a level that is given floods from the start"


def test_a_level_that_was_never_found_shows(tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, (0.3, 0.4))
    found = train(data, encoder=tiny("bert"), defence="floodingx", training=SHORT, progress=False)
    assert found.facts["best_epoch"] == 2 and float(flooding(found).level) == 0


@pytest.mark.parametrize("name", ["freelb+++floodingx", "ddm+floodingx"])
def test_it_combines(name: str, tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    options: dict[str, object] = {"sub_batches": 3} | ({"steps": 2} if "freelb" in name else {})
    found = train(data, encoder=tiny("bert"), defence=name, options=options, training=SHORT, progress=False,
                  out=tmp_path / "model")
    again = DefendedClassifier.load(tmp_path / "model", device="cpu")
    texts = ["the movie was good", "a bad plot"]
    assert torch.equal(found.predict(texts).probabilities, again.predict(texts).probabilities)
    cost = found.facts["cost"]
    assert cost["forward_passes"] >= 12 * (2 if "freelb" in name else 1)  # type: ignore[index]


def test_two_losses_are_one_too_many() -> None:
    DEFENCES.setdefault("ttso", TTSO)
    with pytest.raises(OptionError, match="the loss"):
        build_defence("floodingx+ttso")
