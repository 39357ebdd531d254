# SPDX-License-Identifier: Apache-2.0
"""Uneven classes in training: weights, epochs judged by them, and what is said before and after."""

import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from math import log
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch.nn import functional as F

from dualmask.class_weights import class_weights
from dualmask.defences import build_defence
from dualmask.defences.floodingx import guessing
from dualmask.errors import CleanCostWarning, OptionError
from dualmask.options import TrainingOptions, make_options, whole_training
from dualmask.selection import Judge, Verdict, kept_by
from dualmask.text.columns import FIND
from dualmask.text.examples import Dataset, Example
from dualmask.training import train
from dualmask.training_display import show_start, show_training
from dualmask.training_outcome import clean_cost

Tiny = Callable[[str], Path]
FAST = {"epochs": 1, "max_length": 40, "learning_rate": 1e-3, "batch_size": 16}
LONGER = {**FAST, "epochs": 12, "batch_size": 8, "learning_rate": 5e-3, "keep": "last"}  # enough to learn what decides
LABELS = ("ham", "spam", "other")


@pytest.fixture(scope="module")
def uneven(data: Dataset) -> Dataset:
    """Texts nine of ten of which are bad."""
    bad, good = ([one for one in data.train if one.label == label] for label in (0, 1))
    parts = [bad[start:start + 9] + good[start:start + 1] for start in (0, 9, 18, 27)]
    return replace(data, train=parts[0] + parts[1], validation=parts[2] + parts[2], test=parts[3])


@pytest.fixture(scope="module")
def learner(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder with the small weights that a new one has, so that it can be taught in a second."""
    from transformers import AutoConfig, AutoModel

    folder = tmp_path_factory.mktemp("learner")
    shutil.copytree(tiny("bert"), folder, dirs_exist_ok=True)
    torch.manual_seed(0)
    AutoModel.from_config(AutoConfig.from_pretrained(folder)).save_pretrained(folder)
    return folder


# Weights


def test_weights_are_those_computed_by_hand() -> None:
    examples = [Example("x", 0)] * 3 + [Example("x", 1)]
    assert class_weights("none", examples, LABELS) is None
    balanced = class_weights("balanced", examples, LABELS)
    assert balanced is not None and balanced.tolist() == pytest.approx([4 / (2 * 3), 4 / (2 * 1), 1])
    told = class_weights("spam=5, other=0.5", examples, LABELS)
    assert told is not None and told.tolist() == [1, 5, 0.5]
    odd = class_weights("a=b=2", examples, ("a=b", "c"))
    assert odd is not None and odd.tolist() == [2, 1]
    with pytest.raises(OptionError, match="a class 'spom' that the data do not have: did you mean 'spam'"):
        class_weights("spom=2", examples, LABELS)
    with pytest.raises(OptionError, match="gives the class 'spam' two weights"):
        class_weights("spam=1, other=3,spam=2", examples, LABELS)


@pytest.mark.parametrize("told", ["much", "spam", "spam=", "spam=x", "spam=0", "spam=-1", "spam=inf", "=2", ""])
def test_other_values_are_refused_in_words(told: str) -> None:
    with pytest.raises(OptionError, match="expected none, balanced, or names of classes with numbers above 0"):
        make_options(TrainingOptions, {"class_weights": told})


def test_trainings_of_before_had_none() -> None:
    told = {name: value for name, value in whole_training({}).items() if name != "class_weights"}
    assert whole_training(told)["class_weights"] == "none"


def test_an_unknown_class_is_told_before_anything_is_trained(tiny: Tiny, uneven: Dataset, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"a class 'goood' .*: did you mean 'good'"):
        train(uneven, encoder="no-such-encoder", training={**FAST, "class_weights": "goood=2"}, out=tmp_path / "x")


def test_the_loss_is_the_mean_over_rows_of_weighted_losses() -> None:
    defence, labels = build_defence("plain"), torch.tensor([0, 1, 0, 0])
    answer = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    assert torch.equal(defence.label_loss(answer, labels), F.cross_entropy(answer, labels))
    weights = torch.tensor([0.5, 3.0])
    defence.weigh_classes(weights)
    each = [-float(weights[label]) * float(row.log_softmax(dim=0)[label])
            for row, label in zip(answer, labels, strict=True)]
    assert float(defence.label_loss(answer, labels)) == pytest.approx(sum(each) / 4)
    assert float(defence.label_loss(answer, labels, reduction="sum")) == pytest.approx(sum(each))
    assert "class_weights" not in defence.state_dict() and not defence.state_dict()
    assert float(defence.label_loss(answer[2:], labels[2:])) == pytest.approx(sum(each[2:]) / 2), (
        "a batch of one class counts by its weight")


def test_every_part_of_a_combination_gets_them() -> None:
    combined = build_defence("ddm+freelb+ttso")
    weights = torch.tensor([1.0, 2.0])
    combined.weigh_classes(weights)
    assert all(part.class_weights is weights for part in (combined, *combined.parts, combined.owner("nothing")))
    combined.weigh_classes(None)
    assert all(part.class_weights is None for part in (combined, *combined.parts, combined.owner("nothing")))


def test_a_floor_knows_what_guessing_costs_under_weights() -> None:
    examples = [Example("x", 0)] * 9 + [Example("x", 1)]
    assert guessing(examples) == pytest.approx(-0.9 * log(0.9) - 0.1 * log(0.1))
    assert guessing(examples, class_weights("balanced", examples, ("a", "b"))) == pytest.approx(log(2))
    assert guessing(examples, torch.tensor([2.0, 2.0, 7.0])) == pytest.approx(2 * guessing(examples))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_weights_are_gone_when_training_is_done(
    precision: str, tiny: Tiny, uneven: Dataset, tmp_path: Path,
) -> None:
    found = train(uneven, encoder=tiny("bert"), defence="plain", progress=False, out=tmp_path / "model",
                  training={**FAST, "class_weights": "balanced", "precision": precision})
    assert found.defence.class_weights is None
    assert found.facts["training"]["class_weights"] == "balanced"  # type: ignore[index]


def test_weights_as_large_as_none_change_nothing_but_rounding(tiny: Tiny, data: Dataset) -> None:
    run = {"encoder": tiny("bert"), "defence": "plain", "progress": False}
    same, none = (train(data, training={**FAST, "class_weights": told}, **run)  # type: ignore[arg-type]
                  for told in ("bad=1,good=1", "none"))
    for one, other in zip(same.model.parameters(), none.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)


# Epochs


def test_epochs_are_judged_by_the_weights(tiny: Tiny, uneven: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    found = train(uneven, encoder=tiny("bert"), defence="plain", training=FAST, progress=False)
    held_out = uneven.validation or []
    always_bad = torch.zeros(len(held_out), dtype=torch.long)
    monkeypatch.setattr(found, "chosen", lambda examples, **how: always_bad)
    assert Judge(found, held_out, TrainingOptions()).verdict() == Verdict(pytest.approx(0.9))  # type: ignore[arg-type]
    found.defence.weigh_classes(class_weights("balanced", uneven.train, uneven.labels))
    verdict = Judge(found, held_out, TrainingOptions(class_weights="balanced")).verdict()
    assert verdict.accuracy == pytest.approx(0.9)
    assert verdict.weighed == pytest.approx(verdict.figure) == pytest.approx(0.5)
    assert kept_by(TrainingOptions(class_weights="balanced")) == "validation accuracy by class_weights"
    assert kept_by(TrainingOptions()) == "validation accuracy"


def test_the_epoch_that_forgot_the_rare_class_is_not_kept(
    tiny: Tiny, uneven: Dataset, monkeypatch: pytest.MonkeyPatch,
) -> None:
    verdicts = [Verdict(0.9, weighed=0.5), Verdict(0.8, weighed=0.7), Verdict(0.85, weighed=0.6)]
    given = iter(verdicts)
    monkeypatch.setattr(Judge, "verdict", lambda judge: next(given))
    found = train(uneven, encoder=tiny("bert"), defence="plain", progress=False,
                  training={**FAST, "epochs": 3, "class_weights": "balanced"})
    assert found.facts["best_epoch"] == 2 and found.facts["validation_weighed"] == 0.7
    assert found.facts["validation_accuracy"] == 0.8


# What is said


def printed(show: Callable[[Console], None], width: int = 200) -> str:
    out = StringIO()
    show(Console(file=out, width=width))
    return out.getvalue()


def test_uneven_classes_are_said_before_training(uneven: Dataset, data: Dataset) -> None:
    told = printed(lambda console: show_start(console, uneven, FIND))
    assert ("warning: 18 of 20 training texts are 'bad': a classifier that always says 'bad' is right on 90.0 %; look "
            "at recall per class (dualmask evaluate) and consider --set class_weights=balanced.") in told
    assert "consider" not in printed(lambda console: show_start(console, uneven, FIND, weights="balanced"))
    assert "always says" not in printed(lambda console: show_start(console, data, FIND))


def test_the_largest_class_stands_beside_accuracies_and_recalls_where_uneven(
    tiny: Tiny, uneven: Dataset, data: Dataset, tmp_path: Path,
) -> None:
    found = train(uneven, encoder=tiny("bert"), defence="plain", training=FAST, progress=False)
    examples = uneven.test or []
    chosen = found.chosen(examples).tolist()
    right = [sum(answer == one.label == label for answer, one in zip(chosen, examples, strict=True))
             for label in (0, 1)]
    assert found.facts["test_recall"] == {"bad": round(right[0] / 9, 4), "good": float(right[1])}
    assert found.facts["test_majority"] == {"label": "bad", "share": 0.9}
    told = printed(lambda console: show_training(console, found, uneven, tmp_path))
    assert told.count("(always 'bad': 90.0%)") == 2 and "test recall" in told
    without = train(replace(uneven, test=None), encoder=tiny("bert"), defence="plain", training=FAST, progress=False)
    assert set(without.facts["validation_recall"]) == {"bad", "good"}  # type: ignore[call-overload]
    assert "validation recall" in printed(lambda console: show_training(console, without, uneven, tmp_path))
    even = train(data, encoder=tiny("bert"), defence="plain", training=FAST, progress=False)
    assert not {"test_recall", "validation_recall"} & set(even.facts)
    assert "(always 'bad': 50.0%)" in printed(lambda console: show_training(console, even, data, tmp_path))


# What a defence costs


COSTS = {"validation_accuracy_defended": 0.842, "validation_accuracy_undefended": 1.0, "validation_texts": 500}


def test_a_defence_that_costs_more_than_a_little_is_told() -> None:
    assert clean_cost(COSTS, "ddm") == (
        "the defence 'ddm' costs 15.8 points of clean accuracy: 84.2 % of 500 validation texts are answered rightly "
        "with it, 100.0 % without. Try another preset, a lower rate ('dualmask card ddm') or another defence.")
    assert "few texts, each of them 5.0 points" in str(clean_cost({**COSTS, "validation_texts": 20}, "ddm"))
    assert clean_cost({**COSTS, "validation_accuracy_defended": 0.97}, "ddm") is None, "three points are a little"
    assert clean_cost({**COSTS, "validation_accuracy_defended": 0.969}, "ddm") is not None
    assert clean_cost({}, "ddm") is None


def test_training_warns_of_what_the_defence_costs(learner: Path, data: Dataset, tmp_path: Path) -> None:
    run = {"encoder": learner, "defence": "ddm", "training": LONGER, "progress": False}
    with pytest.warns(CleanCostWarning, match="the defence 'ddm' costs .* of 24 validation texts") as caught:
        found = train(data, options={"test_rate": 0.9}, **run)  # type: ignore[arg-type]
    assert caught[0].filename == __file__
    held_out = data.validation or []
    assert found.facts["validation_accuracy_defended"] == round(found.accuracy(held_out), 4)
    assert found.facts["validation_accuracy_undefended"] == round(found.accuracy(held_out, defended=False), 4)
    told = printed(lambda console: show_training(console, found, data, tmp_path))
    assert "validation accuracy, defence off" in told and "warning: the defence 'ddm' costs" in told
    with warnings.catch_warnings():
        warnings.simplefilter("error", CleanCostWarning)
        cheap = train(data, options={"test_rate": 0.0}, **run)  # type: ignore[arg-type]
    assert "warning" not in printed(lambda console: show_training(console, cheap, data, tmp_path))


@pytest.mark.parametrize(("defence", "measured"), [
    ("plain", False), ("freelb", False), ("mvp", False), ("ranmask", True), ("fgws", True), ("freelb+ddm", True)])
def test_the_cost_is_measured_where_a_defence_acts_and_the_head_is_trained(
    defence: str, measured: bool, tiny: Tiny, data: Dataset,
) -> None:
    options = {"votes": 12} if defence == "ranmask" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CleanCostWarning)
        facts = train(data, encoder=tiny("bert"), defence=defence, options=options, training=FAST,
                      progress=False).facts
    assert ("validation_accuracy_undefended" in facts) == ("validation_accuracy_defended" in facts) == measured
    assert facts["validation_texts"] == 24


def test_the_defended_figure_is_measured_where_epochs_were_judged_without(learner: Path, data: Dataset) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CleanCostWarning)
        found = train(data, encoder=learner, defence="ddm", options={"test_rate": 0.9}, progress=False,
                      training={**LONGER, "validate": "plain"})
    assert found.facts["validation_accuracy"] == found.facts["validation_accuracy_undefended"]
    assert found.facts["validation_accuracy_defended"] == round(found.accuracy(data.validation or []), 4)
    assert found.facts["validation_accuracy_defended"] != found.facts["validation_accuracy"]
