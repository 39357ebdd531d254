# SPDX-License-Identifier: Apache-2.0
"""What defences cost, from training to the report."""

import runpy
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from attack_stand_ins import NEAR, Synonyms, Tagger, tiny_classifier
from test_page import built, cell, result
from transformers.modeling_outputs import BaseModelOutput

from dualmask import training
from dualmask.classifier import DefendedClassifier
from dualmask.defences import build_defence
from dualmask.defences.a2t import A2T
from dualmask.defences.fat import FAT
from dualmask.evaluation.records import CellRecords
from dualmask.models.encoders import load_encoder
from dualmask.optimisation import device_name, peak_memory
from dualmask.reporting.page import html
from dualmask.reporting.report_markdown import markdown
from dualmask.reporting.report_tables import defence_cost_rows
from dualmask.text.examples import Dataset, Example
from dualmask.training import train

SHORT = {"epochs": 2, "max_length": 40, "learning_rate": 1e-3, "batch_size": 16, "seed": 3}
Tiny = Callable[[str], Path]


def facts(forwards: object, backwards: object, examples: object = 5, **more: object) -> dict[str, object]:
    """Of a run of two epochs on the GPU "H"; attacked elsewhere."""
    cost = {"forward_texts": forwards, "backward_texts": backwards, "examples": examples, "epochs": 2,
            "seconds_per_epoch": 4.0, "peak_memory_mb": 100.0, "device": "H", **more}
    return {"training": {"cost": cost}, "hardware": {"cores": 2, "gpu": "the attack's"}}


def some() -> list[CellRecords]:
    texts = [result(number, "succeeded" if number % 3 else "failed") for number in range(9)]
    return [cell("plain", "textfooler", texts, about=facts(10, 10), passes="1"),
            cell("freelb", "textfooler", texts, about=facts(30, 30), passes="1"),
            cell("ranmask", "textfooler", texts, about=facts(10, 10), passes="100"),
            cell("rsmi", "textfooler", texts, about=facts(20, 10), passes="5 to 55")]


def test_one_thread_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert device_name(torch.device("cpu")) == "CPU, 1 thread"
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert device_name(torch.device("cpu")) == "CPU, 2 threads"


def test_texts_are_counted_for_each_training_text_and_epoch() -> None:
    found = {one.defence: one for one in built(some()).costs}
    assert (found["freelb"].forwards, found["freelb"].backwards, found["freelb"].training) == (3, 3, 6)
    assert (found["rsmi"].training, found["rsmi"].inference, found["ranmask"].inference) == (3, 55, 100)
    assert (found["plain"].forwards, found["plain"].backwards) == (1, 1)
    assert found["plain"].seconds == 4 and found["plain"].hardware == "H", "of training, not of the attack"


def test_seeds_are_averaged() -> None:
    texts = [result(0)]
    both = [cell("freelb", "textfooler", texts, seed=seed, about=facts(20 + 20 * seed, 20, device=f"H{seed}"))
            for seed in (0, 1)]
    one, = built(both).costs
    assert one.forwards == 3 and one.backwards == 2 and one.hardware == "H0; H1"


@pytest.mark.parametrize("about", [{}, {"training": 3}, {"training": {"cost": []}}, facts("x", None),
                                   facts(3, 3, 0), facts(float("nan"), -1, "ten"), {"hardware": 7},
                                   {"training": {"steps": 9, "cost": {"forward_passes": 9, "backward_passes": 9}}}])
def test_records_that_tell_nothing_make_no_figures(about: dict[str, object]) -> None:
    one, = built([cell("freelb", "textfooler", [result(0)], about=about)]).costs
    assert one.training is None or one.forwards is None
    assert "What defences cost" in markdown(built([cell("freelb", "textfooler", [result(0)], about=about)]))


def test_the_report_shows_both_costs() -> None:
    report = built(some())
    rows = defence_cost_rows(report)
    assert rows[0][3:5] == ["passes for an answer", "texts forward"] and rows[0][-1] == "trained on"
    assert ["5 to 55", "2.00", "1.00"] in [row[3:6] for row in rows]
    page = html(report)
    assert "Training cost against accuracy under attack" in page and "Cost of an answer against" in page
    alike = html(built([one for one in some() if one.cell.defence == "plain"]))
    assert "Training cost against" not in alike  # nothing to compare


@pytest.mark.parametrize(("defence", "options", "forwards", "backwards"), [
    ("plain", {}, 1, 1), ("ddm", {}, 1, 1), ("freelb", {"steps": 3}, 3, 3), ("freelb++", {"steps": 4}, 4, 4),
    ("fat", {}, 2, 2)])
def test_training_counts_its_passes(
    defence: str, options: dict[str, object], forwards: int, backwards: int, tiny: Tiny, data: Dataset,
) -> None:
    """Batches of 20 texts do not fill the last one, which costs less then."""
    found = train(data, encoder=tiny("bert"), defence=defence, options=options, training={**SHORT, "batch_size": 20},
                  progress=False).facts
    cost, steps = found["cost"], found["steps"]
    assert isinstance(cost, dict) and isinstance(steps, int)
    assert (cost["forward_passes"], cost["backward_passes"]) == (forwards * steps, backwards * steps)
    assert (cost["examples"], cost["epochs"]) == (len(data.train), 2)
    assert cost["forward_texts"] == forwards * 2 * len(data.train)
    assert cost["backward_texts"] == backwards * 2 * len(data.train)
    assert cost["seconds_per_epoch"] > 0 and cost["peak_memory_mb"] > 10
    count = torch.get_num_threads()
    assert cost["device"] == f"CPU, {count} thread{'s' * (count > 1)}" or torch.cuda.is_available()


def test_views_of_a_text_count_each(tiny: Tiny, data: Dataset) -> None:
    """A pass over twice the rows is one pass and costs two."""
    classifier = tiny_classifier(tiny("bert"), "plain", data)
    classifier.network.take()
    classifier.network.take_texts()
    batch = classifier.encode(["a good movie"] * 6).with_labels([0, 1] * 3)
    loss, _ = classifier.defence.loss(classifier.network.train(), batch)
    loss.backward()  # type: ignore[no-untyped-call]
    assert (classifier.network.take(), classifier.network.take_texts()) == ((1, 1), (6, 6))
    assert (classifier.network.take(), classifier.network.take_texts()) == ((0, 0), (0, 0))


def test_attacks_before_an_epoch_count(tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dualmask.text.synonyms.find_synonyms", lambda _: Synonyms(NEAR))
    monkeypatch.setattr("dualmask.text.tagging.find_tagger", lambda _: Tagger({}))
    learned, asked, real = [], [], A2T.augment

    def augment(self: A2T, examples: list[Example], epoch: int, draws: object, victim: DefendedClassifier) -> object:
        def note(module: object, given: object, output: BaseModelOutput) -> None:
            assert output.last_hidden_state is not None
            asked.append(len(output.last_hidden_state))

        hook = victim.model.base_model.register_forward_hook(note)
        found = real(self, examples, epoch, draws, victim)  # type: ignore[arg-type]
        hook.remove()
        learned.append(len(found))
        return found

    monkeypatch.setattr(A2T, "augment", augment)
    cost = train(data, encoder=tiny("bert"), defence="a2t", options={"similarity": None}, training=SHORT,
                 progress=False).facts["cost"]
    assert isinstance(cost, dict) and sum(asked) > 20
    assert cost["forward_texts"] == sum(learned) + sum(asked)
    assert sum(learned) < cost["backward_texts"] < cost["forward_texts"], "words are ranked by a gradient"


def test_memory_is_that_of_training(tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """The highest of the epochs, each measured from its begin to before its validation."""
    peaks, events, real = iter([30.0, 50.0, 40.0]), [], DefendedClassifier.chosen
    monkeypatch.setattr(training, "forget_peak", lambda device: events.append("begin"))

    def peak(device: object) -> float:
        events.append("measured")
        return next(peaks)

    def chosen(*given: object, **how: object) -> torch.Tensor:
        events.append("validation")
        return real(*given, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(training, "peak_memory", peak)
    monkeypatch.setattr(DefendedClassifier, "chosen", chosen)
    found = train(replace(data, test=None), encoder=tiny("bert"), defence="plain", progress=False,
                  training={**SHORT, "epochs": 3, "patience": 0})
    assert found.facts["cost"]["peak_memory_mb"] == 50  # type: ignore[index]
    assert events == ["begin", "measured", "validation"] * 3


def test_memory_is_counted_where_the_system_does_not_tell_python(
    tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Windows has no module `resource`; what has neither that nor a peak of its own says nothing."""
    here = peak_memory(torch.device("cpu"))
    monkeypatch.setitem(sys.modules, "resource", None)  # as Python marks a module that can't be imported
    assert here and peak_memory(torch.device("cpu")) is None
    found = train(data, encoder=tiny("bert"), defence="plain", training={**SHORT, "epochs": 1}, progress=False).facts
    cost = found["cost"]
    assert isinstance(cost, dict) and ("cuda" in str(cost["device"]) or cost["peak_memory_mb"] is None)
    counted = SimpleNamespace(memory_info=lambda: SimpleNamespace(peak_wset=3 * 2**20))
    monkeypatch.setattr("psutil.Process", lambda: counted)
    assert peak_memory(torch.device("cpu")) == 3


def test_the_benchmark_measures_what_is_kept_of_examples(tiny: Tiny, data: Dataset) -> None:
    path = Path(__file__).parent.parent / "benchmarks" / "training_cost.py"
    benchmark = runpy.run_path(str(path))
    model, tokenizer = load_encoder(tiny("bert"), data.labels)
    found = DefendedClassifier(model, tokenizer, build_defence("fat"), labels=data.labels, max_length=40)
    benchmark["epoch"](found, data, 2)
    assert isinstance(found.defence, FAT) and len(found.defence._signs) == 64
    assert found.network.take_texts() == (128, 128)
