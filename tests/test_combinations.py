# SPDX-License-Identifier: Apache-2.0
"""Defences together."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
import torch

from dualmask.classifier import DefendedClassifier
from dualmask.defences import DEFENCES, build_defence, preset_training
from dualmask.defences.base import Defence
from dualmask.defences.mvp import MVP
from dualmask.errors import OptionError, ResourceError
from dualmask.evaluation.certification import under
from dualmask.integration import defend
from dualmask.models.encoders import load_encoder
from dualmask.text.examples import Dataset
from dualmask.training import train

Tiny = Callable[[str], Path]
SHORT = {"epochs": 1, "max_length": 40, "learning_rate": 1e-3, "batch_size": 16, "seed": 3}
TEXTS = ["the movie was good", "a bad plot", "unable movies rarely !", ""]


@pytest.mark.parametrize("name", ["ddm+freelb++", "freelb+++ddm", "ranmask+fat", "fgws+freelb", "textrs+freelb"])
def test_combinations_train_save_and_load(name: str, tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    options = {"steps": 2} if "freelb" in name else {}
    options |= {"votes": 4} if hasattr(DEFENCES.find(name).Options(), "votes") else {}
    classifier = train(data, encoder=tiny("bert"), defence=name, options=options, training=SHORT, progress=False,
                       out=tmp_path / "model")
    again = DefendedClassifier.load(tmp_path / "model", device="cpu")
    assert again.defence.name == name and again.defence.options_as_dict() == classifier.defence.options_as_dict()
    before, after = (one.predict(TEXTS).probabilities for one in (classifier, again))
    assert torch.equal(before, after)


def test_each_acts_where_it_would_alone(tiny: Tiny, data: Dataset) -> None:
    both = train(data, encoder=tiny("bert"), defence="ddm+freelb++", options={"steps": 2}, training=SHORT,
                 progress=False)
    alone = DefendedClassifier(both.model, both.encode.tokenizer, build_defence("ddm"), labels=both.labels,
                               max_length=40)
    alone.fit_defence(data.train)
    assert both.predict(TEXTS, explain=True).masked == alone.predict(TEXTS, explain=True).masked
    assert torch.equal(both.predict(TEXTS).probabilities, alone.predict(TEXTS).probabilities)
    cost = both.facts["cost"]
    assert isinstance(cost, dict) and cost["forward_passes"] == cost["backward_passes"] == 2 * 6


def test_without_steps_up_a_combination_is_its_other_half(tiny: Tiny, data: Dataset) -> None:
    """One step of no size teaches what DDM alone teaches, but for dropout, which gets another seed."""
    options = {"steps": 1, "start": 0.0}
    both, alone = (train(data, encoder=tiny("bert"), defence=name, options=chosen, training=SHORT, progress=False)
                   for name, chosen in (("ddm+freelb++", options), ("ddm", {})))
    assert both.facts["cost"]["forward_passes"] == alone.facts["cost"]["forward_passes"] == 6  # type: ignore[index]


@pytest.mark.parametrize(("name", "reason"), [
    ("ranmask+safer", "what is shown in training"), ("ddm+mi4d", "what is shown in training"),
    ("rsmi+freelb", "how often a batch is learned from"), ("freelb+fat", "how often a batch is learned from"),
    ("fgws+ddm", "what is asked at inference"), ("ddm+ddm", "stands twice"), ("a2t+a2t", "stands twice"),
    ("a2t+safer", "leads gradients back to words"), ("a2t+adfar", "both add examples"),
])
def test_what_makes_no_sense_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        build_defence(name)


def test_unknown_parts_are_named() -> None:
    with pytest.raises(OptionError, match="unknown defence 'freelbx' in 'ddm\\+freelbx': did you mean 'freelb'"):
        build_defence("ddm+freelbx")
    with pytest.raises(OptionError, match="leave it out"):
        build_defence("plain+ddm")


def test_options_and_presets_of_both() -> None:
    defence = build_defence("ddm+freelb++", options={"test_rate": 0.2, "steps": 4})
    assert defence.options_as_dict() | {"test_rate": 0.2, "steps": 4} == defence.options_as_dict()
    paper = build_defence("ddm+freelb++", preset="paper").options_as_dict()
    assert paper["test_rate"] == 0.3 and paper["steps"] == 10
    assert preset_training("ddm+freelb++", "paper").learning_rate == 2e-5
    with pytest.raises(OptionError, match="between 0 and 1"):
        build_defence("ddm+freelb++", options={"test_rate": 7})
    with pytest.raises(OptionError, match="at least 1"):
        build_defence("ddm+freelb++", options={"steps": 0})


def test_options_that_two_have_carry_the_defences_name() -> None:
    kind = DEFENCES.find("textrs+fat")
    names = set(kind.Options.__dataclass_fields__)
    assert {"textrs_start", "fat_start"} & names == set() and "start" in names  # textrs has none
    card = kind.card()
    assert "textrs" in card.summary and "Acts at" in card.sections


def test_what_one_can_certify_both_can(tiny: Tiny, data: Dataset) -> None:
    from dualmask.evaluation.certification import CertifyingOptions, certify

    few = CertifyingOptions(samples=3, selection=5, draws=20)
    for name, options in (("ranmask+freelb", {"rate": 0.9, "steps": 1, "votes": 4}), ("ddm+freelb", {"steps": 1})):
        classifier = train(data, encoder=tiny("bert"), defence=name, options=options, training=SHORT, progress=False)
        found = certify(classifier, data.train, CertifyingOptions(samples=3) if "ddm" in name else few)
        assert len(found.records) == 3 and all(one.radius >= -1 for one in found.records)


def test_attacks_that_know_a_part_know_the_combination(tiny: Tiny, data: Dataset) -> None:
    from attack_stand_ins import stand_ins

    from dualmask.attacks import aware_of, build_attack
    from dualmask.attacks.running import Assault

    assert aware_of("ddm+freelb++") == aware_of("ddm") and aware_of("ranmask+fat") == ["unseen"]
    classifier = train(data, encoder=tiny("bert"), defence="ddm+freelb", options={"steps": 1}, training=SHORT,
                       progress=False)
    attack = build_attack("frequent", tools=stand_ins())
    found = list(Assault(classifier, attack, measure=None).run(list(enumerate(data.train[:2]))))
    assert len(found) == 2 and not any(one.outcome.endswith("-error") for one in found)


def test_combinations_can_be_copied(tiny: Tiny, data: Dataset) -> None:
    model, tokenizer = load_encoder(tiny("bert"), list(data.labels))
    classifier = defend(model, tokenizer, [example.text for example in data.train], defence="ddm+freelb++",
                        max_length=40)
    before = classifier.predict(TEXTS).probabilities
    for other in (copy.deepcopy(classifier), pickle.loads(pickle.dumps(classifier))):
        assert torch.equal(other.predict(TEXTS).probabilities, before)
        assert other.defence.options_as_dict() == classifier.defence.options_as_dict()


def test_what_learns_in_training_can_not_be_wrapped_around_a_trained_model(tiny: Tiny, data: Dataset) -> None:
    model, tokenizer = load_encoder(tiny("bert"), list(data.labels))
    for name in ("ib", "ib+freelb"):
        with pytest.raises(OptionError, match="train one with"):
            defend(model, tokenizer, [example.text for example in data.train], defence=name, max_length=40)
    with pytest.raises(OptionError, match="'fgws' sets thresholds"):
        defend(model, tokenizer, [example.text for example in data.train], defence="fgws+freelb", max_length=40)


def test_training_alone_is_no_defence_of_a_trained_model(tiny: Tiny, data: Dataset) -> None:
    model, tokenizer = load_encoder(tiny("bert"), list(data.labels))
    for name in ("freelb++", "ttso", "freelb+siwcon"):
        with pytest.raises(OptionError, match=r"acts while a classifier is trained.*train one with"):
            defend(model, tokenizer, [example.text for example in data.train], defence=name, max_length=40)


def test_each_part_looks_at_what_it_was_saved_with(tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    """SAFER refuses other synonyms than those it was trained with, alone and together with others."""
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("good 1 0\ngreat 1 0.1\n")
    model, tokenizer = load_encoder(tiny("bert"), list(data.labels))
    options = {"synonyms": str(vectors), "votes": 3}
    classifier = defend(model, tokenizer, ["a good movie"], defence="safer+ttso", options=options, max_length=40)
    classifier.save(tmp_path / "model")
    assert DefendedClassifier.load(tmp_path / "model").defence.name == "safer+ttso"
    vectors.write_text("good 1 0\nbad 1 0.1\n")
    with pytest.raises(ResourceError, match="not the one that this classifier was trained with"):
        DefendedClassifier.load(tmp_path / "model")


def test_examples_are_added_by_draws_of_each_parts_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that draws less, since its run was resumed, must not move the next one's draws."""
    found = []
    for first in (0, 5):
        both = build_defence("floodingx+a2t")
        flooding, words = both.each  # type: ignore[attr-defined]
        monkeypatch.setattr(type(flooding), "augment", lambda self, examples, epoch, draws, classifier, first=first: (
            torch.rand(first, generator=draws), examples)[1])
        monkeypatch.setattr(type(words), "augment", lambda self, examples, epoch, draws, classifier: [
            *examples, torch.rand(3, generator=draws).tolist()])
        found.append(both.augment([], 0, torch.Generator().manual_seed(0), None))  # type: ignore[arg-type]
    assert found[0] == found[1]


def test_the_model_of_a_combination_keeps_its_options_under_its_own_vote(tiny: Tiny, data: Dataset) -> None:
    model, tokenizer = load_encoder(tiny("bert"), list(data.labels))
    classifier = defend(model, tokenizer, ["a good movie"], defence="ranmask+ttso", max_length=40,
                        options={"rate": 0.9, "votes": 7, "decision": "mean"})
    for name in ("ranmask", "ranmask+ttso"):
        found = under(classifier, name, options={"decision": "vote"}).defence.asker.options_as_dict()
        assert (found["rate"], found["votes"], found["decision"]) == (0.9, 7, "vote")
    monkey = DefendedClassifier(model, tokenizer, Bare(), labels=classifier.labels, max_length=40)
    with pytest.raises(OptionError, match="head of its own"):
        under(monkey, "ranmask")
    assert not MVP.trains_head and not DEFENCES.find("mvp+freelb").trains_head


class Bare(Defence):
    """One whose network has no head that learned anything."""

    trains_head: ClassVar[bool] = False


def test_passes_are_those_of_the_part_that_asks() -> None:
    assert build_defence("rsmi+ttso").pass_count == build_defence("rsmi").pass_count
