# SPDX-License-Identifier: Apache-2.0
"""Training-time temperature scaling, with and without the entropy."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dualmask import training
from dualmask.classifier import DefendedClassifier
from dualmask.defences import DEFENCES, build_defence, preset_training
from dualmask.defences.ttso import TTSO, TTSOOptions
from dualmask.errors import OptionError
from dualmask.models.encoders import load_encoder
from dualmask.optimisation import limit_gradients
from dualmask.options import TrainingOptions
from dualmask.text.encoding import Batch
from dualmask.text.examples import Dataset
from dualmask.training import train

Tiny = Callable[[str], Path]
SHORT = {"epochs": 1, "max_length": 40, "learning_rate": 1e-3, "batch_size": 16, "seed": 3}
LOGITS = [[2.0, 0.0, -1.0], [0.5, 1.0, 0.0]]
LABELS = [0, 2]
TEXTS = ["the movie was good", "a bad plot", "unable movies rarely !", ""]
DEFENCES.setdefault(TTSO.name, TTSO)


def asked(options: TTSOOptions, logits: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of a network that always gives these logits."""
    ids = torch.zeros(len(logits), 1, dtype=torch.long)
    batch = Batch(ids, ids, ids, ids, ids > 0, ids, ids > 0).with_labels(LABELS)

    def network(batch: Batch, embeddings: Tensor | None = None, *, states: bool = False) -> Tensor:
        return logits

    return TTSO(options).loss(network, batch)


def by_hand(temperature: float, weight: float) -> float:
    total = 0.0
    for row, label in zip(LOGITS, LABELS, strict=True):
        shares = [math.exp(one) / sum(map(math.exp, row)) for one in row]
        divisor = temperature - weight * sum(share * math.log(share) for share in shares)
        scaled = [one / divisor for one in row]
        total += math.log(sum(map(math.exp, scaled))) - scaled[label]
    return total / len(LOGITS)


@pytest.mark.parametrize(("temperature", "weight"), [(1.0, 0.0), (10.0, 0.0), (20.0, 0.5), (0.5, 0.0), (2.0, 3.0)])
def test_the_loss_against_the_formula(temperature: float, weight: float) -> None:
    logits = torch.tensor(LOGITS)
    loss, answer = asked(TTSOOptions(temperature=temperature, entropy_weight=weight), logits)
    assert float(loss) == pytest.approx(by_hand(temperature, weight), abs=1e-6)
    assert answer is logits, "what is reported and validated has no temperature"


def test_a_temperature_of_one_is_ordinary_training() -> None:
    logits = torch.tensor(LOGITS)
    assert torch.equal(asked(TTSOOptions(temperature=1.0), logits)[0], F.cross_entropy(logits, torch.tensor(LABELS)))


def test_the_gradient_goes_through_the_entropy() -> None:
    options = TTSOOptions(temperature=2.0, entropy_weight=3.0)
    logits = torch.tensor(LOGITS, dtype=torch.double, requires_grad=True)
    found, = torch.autograd.grad(asked(options, logits)[0], logits)
    small = 1e-6
    for row in range(2):
        for column in range(3):
            moved = torch.tensor(LOGITS, dtype=torch.double)
            moved[row, column] += small
            slope = float(asked(options, moved)[0] - asked(options, logits)[0].detach()) / small
            assert slope == pytest.approx(float(found[row, column]), abs=1e-5)


def test_the_less_certain_the_hotter() -> None:
    defence = TTSO(TTSOOptions(temperature=20.0, entropy_weight=0.5))
    found = defence.temperatures(torch.tensor([[0.0, 0.0], [100.0, -100.0], [1.0, 0.0]]))
    assert found[0] == pytest.approx(20 + 0.5 * math.log(2)) and found[1] == pytest.approx(20.0)
    assert found[1] < found[2] < found[0]


def test_presets_have_the_published_numbers() -> None:
    assert TTSO().options == TTSOOptions(temperature=10.0, entropy_weight=0.0)
    for name in ("plus", "release-plus"):
        assert build_defence("ttso", preset=name).options == TTSOOptions(temperature=20.0, entropy_weight=0.5)
    assert build_defence("ttso", preset="paper").options == TTSOOptions(temperature=200.0, entropy_weight=0.0)
    paper = preset_training("ttso", "paper")
    assert (paper.clip, paper.clip_at, paper.learning_rate, paper.batch_size) == ("unit", 1.0, 1e-5, 8)
    assert (paper.epochs, paper.warmup, paper.weight_decay, paper.optimiser) == (5, 0.0, 0.01, "adamw")
    assert preset_training("freelb+ttso", "paper").clip == "unit"
    assert preset_training("ttso", "release").epochs == preset_training("ttso", "release-plus").epochs == 4


def test_a_normalised_gradient_keeps_its_direction_whatever_the_temperature() -> None:
    """Of logits W x + b the gradient is (p - y) (x, 1) with p = softmax(logits / T), over T; by hand, as one vector."""
    weight = torch.tensor([[1.0, -2.0], [0.5, 3.0], [0.0, 0.0]], requires_grad=True)
    bias, idle = torch.zeros(3, requires_grad=True), torch.ones(2, requires_grad=True)
    text = torch.tensor([2.0, -1.0])
    logits = weight @ text + bias
    loss, _ = asked(TTSOOptions(temperature=200.0), logits.expand(2, 3))
    loss.backward()
    shares = [math.exp(one / 200) for one in (4.0, -2.0, 0.0)]
    error = [share / sum(shares) - (0.5 if label in LABELS else 0.0) for label, share in enumerate(shares)]
    slopes = [one * part for one in error for part in (2.0, -1.0, 1.0)]
    length = math.sqrt(sum(slope**2 for slope in slopes))
    assert weight.grad is not None and bias.grad is not None
    whole = torch.cat([weight.grad, bias.grad[:, None]], dim=1)
    assert whole.flatten().tolist() == pytest.approx([slope / 200 for slope in slopes], rel=1e-4)
    assert float(whole.norm()) < 0.01
    limit_gradients([weight, bias, idle], TrainingOptions(clip="unit"))
    whole = torch.cat([weight.grad, bias.grad[:, None]], dim=1)
    assert whole.flatten().tolist() == pytest.approx([slope / length for slope in slopes], rel=1e-4)
    assert idle.grad is None
    limit_gradients([weight, bias], TrainingOptions(clip="unit", clip_at=0.5))
    assert float(torch.cat([weight.grad, bias.grad[:, None]], dim=1).norm()) == pytest.approx(0.5, rel=1e-5)
    weight.grad.zero_()
    limit_gradients([weight], TrainingOptions(clip="unit"))
    assert not weight.grad.any(), "a gradient of zero has no direction"


def test_as_published_each_step_has_a_gradient_of_length_one(
    tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:
    """Under T = 200 gradients are short: cut at 1, as by default, they stay so."""
    lengths: list[float] = []
    real = training.limit_gradients

    def spy(parameters: Iterable[torch.nn.Parameter], settings: TrainingOptions) -> None:
        chosen = list(parameters)
        real(chosen, settings)
        lengths.append(math.sqrt(sum(float(one.grad.norm()) ** 2 for one in chosen if one.grad is not None)))

    monkeypatch.setattr(training, "limit_gradients", spy)
    found = train(data, encoder=tiny("bert"), defence="ttso", preset="paper", progress=False, out=tmp_path / "model",
                  training={"epochs": 1, "max_length": 40, "batch_size": 16})
    assert len(lengths) == 6 and lengths == pytest.approx([1.0] * 6, rel=1e-4)
    assert found.facts["training"]["clip"] == "unit"  # type: ignore[index]
    assert torch.equal(found.predict(TEXTS).probabilities, found.predict(TEXTS, defended=False).probabilities)
    lengths.clear()
    train(data, encoder=tiny("bert"), defence="ttso", preset="paper", progress=False,
          training={"epochs": 1, "max_length": 40, "batch_size": 16, "clip": "norm"})
    assert max(lengths) < 0.5


@pytest.mark.parametrize("options", [{"temperature": 0}, {"temperature": -1}, {"entropy_weight": -0.1},
                                     {"temperature": "hot"}])
def test_impossible_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        build_defence("ttso", options=options)


def test_there_is_no_temperature_at_inference_and_embeddings_stand_in(tiny: Tiny, data: Dataset) -> None:
    model, tokenizer = load_encoder(tiny("bert"), data.labels)
    found = DefendedClassifier(model, tokenizer, build_defence("ttso"), labels=data.labels, max_length=40)
    assert torch.equal(found.predict(TEXTS).probabilities, found.predict(TEXTS, defended=False).probabilities)
    batch = found.encode(TEXTS[:2]).with_labels([1, 0])
    moved = -model.get_input_embeddings()(batch.input_ids)
    loss, answer = found.defence.loss(found.network.eval(), batch, moved)
    assert torch.equal(answer, found.network(batch, moved)) and not torch.allclose(answer, found.network(batch))
    assert torch.allclose(loss, F.cross_entropy(answer / 10, torch.tensor([1, 0])))


@pytest.mark.parametrize(("name", "preset"), [("ttso", "plus"), ("freelb+++ttso", "recommended"), ("ddm+ttso", "plus")])
def test_it_trains_alone_and_combined(name: str, preset: str, tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    found = train(data, encoder=tiny("bert"), defence=name, preset=preset, training=SHORT, progress=False,
                  options={"steps": 2} if "freelb" in name else None, out=tmp_path / "model")
    again = DefendedClassifier.load(tmp_path / "model", device="cpu")
    assert again.defence.options == found.defence.options
    assert torch.equal(found.predict(TEXTS).probabilities, again.predict(TEXTS).probabilities)
    cost = found.facts["cost"]
    assert cost["forward_passes"] == (12 if "freelb" in name else 6)  # type: ignore[index]
