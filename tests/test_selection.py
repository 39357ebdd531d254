# SPDX-License-Identifier: Apache-2.0
"""Which epoch is kept: by held-out texts as they are and under a cheap attack, and nothing else changes for it."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from dualmask import checkpoints, training
from dualmask.attacks import build_attack
from dualmask.attacks.running import attack, sampled
from dualmask.classifier import DefendedClassifier
from dualmask.deadline import TimeUp
from dualmask.errors import DualmaskError, OptionError
from dualmask.options import TrainingOptions
from dualmask.results import HELD
from dualmask.selection import VALIDATION_VIEWS, Judge, Verdict
from dualmask.text.examples import Dataset, Example
from dualmask.training import train
from dualmask.training_log import Reporter

Tiny = Callable[[str], Path]
ROBUST: dict[str, object] = {"epochs": 3, "learning_rate": 1e-3, "max_length": 40, "batch_size": 16, "patience": 0,
                             "keep": "robust", "robust_texts": 6}


def weights(classifier: DefendedClassifier) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in classifier.network.state_dict().items()}


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def epochs_of(folder: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (folder / "training.jsonl").read_text().splitlines()]
    return [record for record in records if record["event"] == "epoch"]


def given_verdicts(monkeypatch: pytest.MonkeyPatch, verdicts: Sequence[Verdict]) -> None:
    following: Iterator[Verdict] = iter(verdicts)
    monkeypatch.setattr(Judge, "verdict", lambda self: next(following))


@pytest.mark.parametrize(("verdicts", "kept"), [
    ([Verdict(0.9, 0.1), Verdict(0.8, 0.5), Verdict(0.95, 0.2)], 2),
    ([Verdict(0.9, 0.5), Verdict(0.8, 0.6), Verdict(0.7, 0.7)], 1),  # of equal ones the earlier
    ([Verdict(0.1, 0.1), Verdict(0.2, 0.2), Verdict(0.3, 0.3)], 3)])
def test_the_best_mean_of_clean_and_attacked_accuracy_is_kept(
    verdicts: list[Verdict], kept: int, tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch,
) -> None:
    given_verdicts(monkeypatch, verdicts)
    facts = train(data, encoder=tiny("bert"), training=ROBUST, progress=False).facts
    assert facts["best_epoch"] == kept and facts["epochs_run"] == 3
    best = verdicts[kept - 1]
    assert (facts["validation_accuracy"], facts["validation_under_attack"]) == best[:2]
    assert facts["kept_by"] == "mean of validation accuracy and accuracy under deepwordbug on 6 validation texts"


def test_patience_waits_for_the_same_figure(tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    given_verdicts(monkeypatch, [Verdict(0.5, 0.5), Verdict(0.8, 0.1), Verdict(0.9, 0.1)])
    facts = train(data, encoder=tiny("bert"), training={**ROBUST, "patience": 1}, progress=False).facts
    assert (facts["best_epoch"], facts["epochs_run"]) == (1, 2)


@pytest.mark.parametrize(("keep", "told"), [("best", "validation accuracy"), ("last", "the last epoch")])
def test_otherwise_nothing_is_attacked(
    keep: str, told: str, tiny: Tiny, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(Judge, "under_attack")
    found = train(data, encoder=tiny("bert"), training={**ROBUST, "keep": keep}, progress=False, out=tmp_path)
    assert found.facts["kept_by"] == told and "validation_under_attack" not in found.facts
    assert all("validation_under_attack" not in epoch for epoch in epochs_of(tmp_path))


@pytest.mark.parametrize("defence", ["plain", "ddm", "ranmask", "rsmi"])
def test_judging_changes_nothing_but_the_choice(
    defence: str, tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After each epoch the weights are those of a run that attacks nothing."""
    seen: list[dict[str, torch.Tensor]] = []
    real = Reporter.end

    def noting(self: Reporter, state: checkpoints.Progress, verdict: Verdict, *, epochs: int) -> None:
        seen.append({name: tensor.clone() for name, tensor in runs[-1].classifier.network.state_dict().items()})
        real(self, state, verdict, epochs=epochs)

    runs: list[training.Run] = []
    monkeypatch.setattr(training.Run, "loop", counting(training.Run.loop, runs))
    monkeypatch.setattr(Reporter, "end", noting)
    for keep in ("best", "robust"):
        train(data, encoder=tiny("bert"), defence=defence, training={**ROBUST, "epochs": 2, "keep": keep},
              options={"votes": 7} if defence == "ranmask" else None, progress=False)
    assert all(equal(first, second) for first, second in zip(seen[:2], seen[2:], strict=True))
    assert runs[0].state.forwards == runs[1].state.forwards, "judging is no cost of training"


def counting(real: Callable[..., None], runs: list[training.Run]) -> Callable[..., None]:
    def loop(self: training.Run, *, resume: bool) -> None:
        runs.append(self)
        real(self, resume=resume)

    return loop


@pytest.mark.parametrize("validate", ["defended", "plain"])
def test_the_figures_are_those_of_the_attack(validate: str, tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    """Done by hand on the same texts with the classifier that was kept; the log has both figures of each epoch."""
    found = train(data, encoder=tiny("bert"), training={**ROBUST, "robust_texts": 12, "validate": validate},
                  progress=False, out=tmp_path)
    held_out = data.validation or []
    places = sampled(held_out, 12, 0)
    asked = found if validate == "defended" else found.undefended()
    results = attack(asked, [tuple(held_out[place]) for place in places], build_attack("deepwordbug"), measure=None)
    left = sum(one.outcome in HELD for one in results) / 12
    assert found.facts["validation_under_attack"] == pytest.approx(left, abs=1e-4)
    epochs = epochs_of(tmp_path)
    best = epochs[int(str(found.facts["best_epoch"])) - 1]
    assert best["validation_under_attack"] == pytest.approx(left, abs=1e-4)
    assert best["validation_accuracy"] == pytest.approx(asked.accuracy(held_out), abs=1e-4)
    means = [epoch["validation_accuracy"] + epoch["validation_under_attack"] for epoch in epochs]
    assert means.index(max(means)) + 1 == found.facts["best_epoch"]


def test_a_vote_is_judged_by_few_views_and_on_the_same_texts(
    tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[object, ...]] = []
    real = DefendedClassifier.predict

    def spy(self: DefendedClassifier, texts: Sequence[Any], **how: Any) -> Any:
        asked.append((tuple(texts), how.get("most"), how.get("early")))
        return real(self, texts, **how)

    judged = train(data, encoder=tiny("bert"), defence="ranmask", options={"votes": 7}, progress=False,
                   training={**ROBUST, "epochs": 1})
    monkeypatch.setattr(DefendedClassifier, "predict", spy)
    judge = Judge(judged, data.validation or [], TrainingOptions(keep="robust", robust_texts=6))
    first, = {judge.verdict() for _ in range(2)}
    assert 0 <= first.under_attack <= 1 and {most for _, most, _ in asked} == {VALIDATION_VIEWS}
    begun = [texts for texts, _, early in asked if early is False and len(texts) == 6]  # type: ignore[arg-type]
    assert begun and begun.count(begun[0]) == 2, "the same texts, attacked in the same way"


def test_the_same_seed_and_a_resumed_run_give_the_same_weights(
    tiny: Tiny, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Time that ends in the middle of the attack loses nothing: the epoch is judged first."""
    whole = train(data, encoder=tiny("bert"), training=ROBUST, progress=False)
    real, calls = Judge.under_attack, list[int]()

    def late(self: Judge) -> float:
        calls.append(1)
        if len(calls) == 2:
            raise TimeUp
        return real(self)

    with monkeypatch.context() as patch:
        patch.setattr(Judge, "under_attack", late)
        with pytest.raises(TimeUp):
            train(data, encoder=tiny("bert"), training=ROBUST, progress=False, out=tmp_path)
    assert len(checkpoints.found(tmp_path)) == 1
    resumed = train(data, encoder=tiny("bert"), training=ROBUST, progress=False, out=tmp_path, resume=True)
    assert equal(weights(resumed), weights(whole))
    for name in ("best_epoch", "steps", "validation_accuracy", "validation_under_attack"):
        assert resumed.facts[name] == whole.facts[name]


def test_the_line_of_an_epoch_has_both_figures(
    tiny: Tiny, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    given_verdicts(monkeypatch, [Verdict(0.75, 0.25)])
    train(data, encoder=tiny("bert"), training={**ROBUST, "epochs": 1}, out=tmp_path)
    assert "validation accuracy 75.0%, 25.0% under attack (kept so far)" in " ".join(capsys.readouterr().err.split())


def test_an_attack_that_breaks_down_on_every_text_is_told(
    tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*given: object) -> None:
        raise RuntimeError("no letters")

    monkeypatch.setattr("dualmask.attacks.deepwordbug.greedy", broken)
    easy = [example for example in data.train if "good" in str(example.text) or "bad" in str(example.text)]
    found = train(data, encoder=tiny("bert"), training={**ROBUST, "keep": "best", "epochs": 1}, progress=False)
    right = [Example(example.text, int(label)) for example, label in zip(easy, found.predict(
        [example.text for example in easy]).probabilities.argmax(dim=1).tolist(), strict=True)]
    with pytest.raises(DualmaskError, match=r"keep=robust.*each of 6 validation texts.*no letters.*keep=best"):
        Judge(found, right, TrainingOptions(keep="robust", robust_texts=6)).verdict()


def test_no_text_to_attack_is_refused(data: Dataset) -> None:
    with pytest.raises(OptionError, match="robust_texts is 0"):
        train(data, training={**ROBUST, "robust_texts": 0})
