# SPDX-License-Identifier: Apache-2.0
"""The loop: schedules, batches, repeatability, early stopping, and going on after a kill."""

import errno
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from conftest import small_files
from hypothesis import given
from hypothesis import strategies as st

from dualmask import checkpoints, training
from dualmask.classifier import DefendedClassifier
from dualmask.deadline import TimeUp
from dualmask.defences import preset_training
from dualmask.errors import DataError, DualmaskError, ModelFileError, OptionError, ResourceError
from dualmask.options import TrainingOptions
from dualmask.text.examples import Dataset, Example
from dualmask.training import bucketed, learning_rate
from dualmask.training import train as train_any
from dualmask.training_log import Reporter

train = partial(train_any, defence="ddm")  # one pass and no words of its own: the loop is what is tested here

FAST: dict[str, object] = {"epochs": 2, "learning_rate": 1e-3, "max_length": 40, "batch_size": 8, "patience": 0}
Tiny = Callable[[str], Path]


def weights(classifier: object) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in classifier.network.state_dict().items()}  # type: ignore[attr-defined]


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def log_of(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "training.jsonl").read_text().split("\n") if line]


# Schedules and batches


def test_linear_schedule_rises_and_falls() -> None:
    settings = TrainingOptions(learning_rate=1.0, warmup=0.1)
    rates = [learning_rate(step, 100, settings) for step in range(100)]
    assert rates[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert rates[10] == 1.0
    assert rates[55] == pytest.approx(0.5)
    assert rates[-1] == pytest.approx(1 / 90)


def test_cosine_schedule_ends_at_the_final_rate() -> None:
    settings = TrainingOptions(learning_rate=1.0, final_rate=0.1, warmup=0.0, schedule="cosine")
    assert learning_rate(0, 100, settings) == 1.0
    assert learning_rate(50, 100, settings) == pytest.approx(0.55)
    assert learning_rate(100, 100, settings) == pytest.approx(0.1)


@pytest.mark.parametrize(("warmup", "pace"), [(2, 0.25), (0.2, 0.25), (3, 0.4), (0.25, 1)])
def test_warm_up_never_overshoots(warmup: float, pace: float) -> None:
    """Where a defence adds examples, an epoch has more steps, and each is a fraction of one."""
    settings = TrainingOptions(learning_rate=1.0, warmup=warmup)
    rates = [learning_rate(step * pace, 10, settings) for step in range(int(10 / pace))]
    peak = rates.index(max(rates))
    assert max(rates) == 1.0 and rates[:peak + 1] == sorted(rates[:peak + 1])


def test_constant_schedule_stays() -> None:
    settings = TrainingOptions(learning_rate=3.0, warmup=0.0, schedule="constant")
    assert {learning_rate(step, 10, settings) for step in range(10)} == {3.0}


@pytest.mark.parametrize(("epochs", "expected"), [(1, 4.8e-7), (3, 1.44e-6), (10, 4.8e-6)])
def test_the_papers_warm_up_outlasts_training_on_mr(epochs: int, expected: float) -> None:
    """10,000 steps of warm-up against 240 steps an epoch: the rate that the text prescribes, literally."""
    rate = learning_rate(240 * epochs - 1, 2400, preset_training("ddm", "paper"))
    assert rate == pytest.approx(expected, rel=1e-6)


@given(st.lists(st.integers(1, 128), min_size=1, max_size=300), st.integers(1, 16), st.integers(0, 5))
def test_batches_hold_every_row_once(lengths: list[int], size: int, seed: int) -> None:
    batches = bucketed(lengths, size, torch.Generator().manual_seed(seed))
    assert Counter(row for batch in batches for row in batch) == Counter(range(len(lengths)))
    assert all(len(batch) <= size for batch in batches)
    assert batches == bucketed(lengths, size, torch.Generator().manual_seed(seed))


def test_batches_hold_texts_of_like_length_in_changing_order() -> None:
    lengths = torch.randint(5, 100, (640,), generator=torch.Generator().manual_seed(0)).tolist()
    batches = bucketed(lengths, 16, torch.Generator().manual_seed(1))
    padded = sum(max(lengths[row] for row in batch) * len(batch) for batch in batches)
    assert padded < 1.1 * sum(lengths)
    assert batches != bucketed(lengths, 16, torch.Generator().manual_seed(2))
    assert [max(lengths[row] for row in batch) for batch in batches] != sorted(max(lengths[row] for row in batch)
                                                                              for batch in batches)


# Repeatability and options


def test_same_seed_same_weights(tiny: Tiny, data: Dataset) -> None:
    first, again, other = (weights(train(data, encoder=tiny("bert"), training={**FAST, "seed": seed}, progress=False))
                           for seed in (3, 3, 4))
    assert equal(first, again)
    assert not equal(first, other)


def newly_made(folder: Path, out: Path) -> Path:
    """The same tiny encoder with the weights that its family begins with, from which it learns better."""
    from transformers import AutoConfig, AutoModel

    shutil.copytree(folder, out)
    torch.manual_seed(0)
    AutoModel.from_config(AutoConfig.from_pretrained(folder)).save_pretrained(out)
    return out


def test_training_learns_and_records_what_it_did(tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    encoder = newly_made(tiny("bert"), tmp_path / "encoder")
    classifier = train(data, encoder=encoder, defence="plain", out=tmp_path / "m", progress=False,
                       training={**FAST, "epochs": 12, "learning_rate": 5e-3})
    assert classifier.accuracy(data.train, defended=False) > 0.8
    epochs = [record for record in log_of(tmp_path / "m") if record["event"] == "epoch"]
    assert len(epochs) == 12
    best = max(float(str(record["validation_accuracy"])) for record in epochs)
    assert classifier.facts["validation_accuracy"] == pytest.approx(best, abs=1e-4)
    assert classifier.accuracy(data.validation or []) == pytest.approx(best, abs=1e-6), "the best weights are restored"
    assert classifier.facts["test_accuracy"] == pytest.approx(classifier.accuracy(data.test or []), abs=1e-4)
    assert not checkpoints.found(tmp_path / "m")


def test_the_last_epoch_can_be_kept(tiny: Tiny, data: Dataset) -> None:
    """Though none is better than the first, and whatever patience says."""
    classifier = train(data, encoder=tiny("bert"), progress=False, training={
        **FAST, "epochs": 4, "patience": 2, "learning_rate": 0.0, "keep": "last"})
    assert (classifier.facts["best_epoch"], classifier.facts["epochs_run"]) == (4, 4)


def test_training_stops_when_patience_ends(tiny: Tiny, data: Dataset) -> None:
    classifier = train(data, encoder=tiny("bert"), progress=False,
                       training={**FAST, "epochs": 30, "patience": 2, "learning_rate": 0.0})
    assert (classifier.facts["best_epoch"], classifier.facts["epochs_run"]) == (1, 3)


@pytest.mark.parametrize("epochs", [4, 3])
def test_stopping_early_is_told(
    epochs: int, tiny: Tiny, data: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:
    train(data, encoder=tiny("bert"), out=tmp_path / "m",
          training={**FAST, "epochs": epochs, "patience": 2, "learning_rate": 0.0})
    shown, last = " ".join(capsys.readouterr().err.split()), log_of(tmp_path / "m")[-1]
    told = "stopped after epoch 3 of 4: no gain since epoch 1, whose weights are kept"
    assert (told in shown) is ("stopped" in shown) is (epochs == 4), "patience that ends with the last epoch is no news"
    stop = {"event": "stop", "epoch": 3, "epochs": 4, "best_epoch": 1}
    assert last == stop if epochs == 4 else last["event"] == "epoch"


@pytest.mark.parametrize("resumed", [False, True])
def test_a_defence_that_never_began_is_told(resumed: bool, tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    given = {"encoder": tiny("bert"), "defence": "shield", "progress": False, "out": tmp_path}
    with pytest.warns(UserWarning, match=r"'shield' had not begun.*epoch 2.*raise epochs \(now 2\)"):
        if resumed:
            unfinished(tiny, data, tmp_path, defence="shield")
        found = train(data, training=FAST, resume=resumed, **given)  # type: ignore[arg-type]
    assert found.facts["ready"] is False and found.facts["best_epoch"] == 2


def test_a_defence_that_began_is_not_warned_of(tiny: Tiny, data: Dataset) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = train(data, encoder=tiny("bert"), defence="shield", options={"warm": 1}, training=FAST, progress=False)
    assert found.facts["ready"] is True and found.facts["best_epoch"] == 2


def test_validation_sees_the_defence_unless_told_otherwise(
    tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bool] = []
    real = training.DefendedClassifier.chosen

    def spy(self: training.DefendedClassifier, examples: list[Example], **how: bool) -> torch.Tensor:
        asked.append(how["defended"])
        return real(self, examples, **how)

    monkeypatch.setattr(training.DefendedClassifier, "chosen", spy)
    plain = replace(data, test=None)
    train(plain, encoder=tiny("bert"), training={**FAST, "epochs": 1}, progress=False)
    assert asked == [True, False], "the epoch, then the same without the defence"
    train(plain, encoder=tiny("bert"), training={**FAST, "epochs": 1, "validate": "plain"}, progress=False)
    assert asked[2:] == [False, True, False], "the epoch without the defence, then what it costs"


@pytest.mark.parametrize("clip", ["norm", "value"])
def test_clipping_bounds_the_gradient(clip: str, tiny: Tiny, data: Dataset) -> None:
    """A bound far under Adam's epsilon leaves no step worth the name."""
    options = {**FAST, "epochs": 1, "weight_decay": 0.0}
    still = train(data, encoder=tiny("bert"), training={**options, "clip": clip, "clip_at": 1e-20}, progress=False)
    moved = train(data, encoder=tiny("bert"), training={**options, "clip": "none"}, progress=False)
    start = train(data, encoder=tiny("bert"), training={**options, "learning_rate": 0.0}, progress=False)

    def change(run: object) -> float:
        return max(float((weights(run)[key].float() - tensor.float()).abs().max())
                   for key, tensor in weights(start).items() if tensor.numel())

    assert change(still) < 1e-6 < change(moved)


def test_optimisers_differ(tiny: Tiny, data: Dataset) -> None:
    adam, adamw = (weights(train(data, encoder=tiny("bert"), progress=False,
                                 training={**FAST, "epochs": 1, "optimiser": name, "weight_decay": 0.5}))
                   for name in ("adam", "adamw"))
    assert not equal(adam, adamw)


@pytest.mark.parametrize("defence", ["plain", "infobert", "ib"])
@pytest.mark.parametrize("decay", ["weights", "all"])
def test_biases_and_normalisation_decay_only_where_all_does(
    defence: str, decay: str, tiny: Tiny, data: Dataset,
) -> None:
    """A bound on the gradient that is far under Adam's epsilon leaves nothing but decay."""
    given = {**FAST, "epochs": 1, "clip_at": 1e-20, **({} if decay == "weights" else {"decay": decay})}
    still, moved = (weights(train(data, encoder=tiny("bert"), defence=defence, progress=False,
                                  training={**given, "weight_decay": rate})) for rate in (0.0, 10.0))
    spared = {name for name in still if "bias" in name or "LayerNorm" in name}
    ends = {name: float((moved[name].float() - still[name].float()).abs().sum()) for name in still
            if still[name].is_floating_point() and float(still[name].abs().sum()) > 1e-2}
    assert spared & set(ends) and any(name.endswith("weight") and change > 1e-3 for name, change in ends.items())
    changed = {name for name in spared & set(ends) if ends[name] > 1e-4}
    assert changed == (set() if decay == "weights" else spared & set(ends))


def test_a_short_run_that_explodes_is_named_too(tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    """By its loss or, where one step is all there is, by what that step has left of the weights."""
    for rows in (None, 2):
        with pytest.raises(DualmaskError, match=r"(nan|weights).*learning rate"):
            train(replace(data, train=data.train[:rows]), encoder=tiny("bert"), progress=False, out=tmp_path / "m",
                  training={**FAST, "epochs": 1, "learning_rate": 1e38, "warmup": 0.0, "clip": "none"}, overwrite=True)
        assert not (tmp_path / "m" / "dualmask.json").exists()


def test_held_out_rows_are_new_to_the_defence(tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds are set by them: words that were counted there would never look rare."""
    seen: list[Example] = []

    def spy(self: DefendedClassifier, examples: Sequence[Example]) -> None:
        seen.extend(examples)
        raise KeyboardInterrupt

    monkeypatch.setattr(DefendedClassifier, "fit_defence", spy)
    with pytest.raises(KeyboardInterrupt):
        train(replace(data, validation=None), encoder=tiny("bert"), progress=False,
              training={**FAST, "validation_share": 0.25})
    assert len(seen) == 0.75 * len(data.train)


def test_time_that_ends_while_an_epoch_is_judged_loses_nothing(
    tiny: Tiny, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = train(data, encoder=tiny("bert"), training=FAST, progress=False)
    with monkeypatch.context() as patch:
        patch.setattr(DefendedClassifier, "accuracy", late)
        with pytest.raises(TimeUp):
            train(data, encoder=tiny("bert"), training=FAST, progress=False, out=tmp_path / "m")
    assert checkpoints.found(tmp_path / "m")
    resumed = train(data, encoder=tiny("bert"), training=FAST, progress=False, out=tmp_path / "m", resume=True)
    assert equal(weights(resumed), weights(whole)) and resumed.facts["steps"] == whole.facts["steps"]


@pytest.mark.parametrize("world", [1, 2, 3])
def test_every_row_counts_alike_however_processes_share_a_batch(world: int) -> None:
    for count in range(world, 8):
        weights = Counter[int]()
        for process in range(world):
            run: Any = SimpleNamespace(accelerator=SimpleNamespace(num_processes=world, process_index=process))
            mine, portion = training.Run.share(run, list(range(count)))
            weights.update({row: portion / len(mine) / world for row in mine})  # type: ignore[dict-item]
        assert list(weights.values()) == pytest.approx([1 / count] * count)


def test_published_trainings_run_all_their_epochs() -> None:
    assert [preset_training(name, "paper", None).patience for name in ("freelb++", "rsmi", "fat", "a2t")] == [0] * 4


def late(*given: object, **more: object) -> float:
    raise TimeUp


def test_the_environment_changes_no_result(tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    before = weights(train(data, encoder=tiny("bert"), training=FAST, progress=False))
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "64")
    classifier = train(data, encoder=tiny("bert"), training=FAST, progress=False)
    assert equal(weights(classifier), before)
    assert not classifier.model.training, "ready to answer"


def test_files_of_others_are_not_overwritten(tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("mine")
    with pytest.raises(OptionError, match=r"other files \(config.json\)"):
        train(data, encoder=tiny("bert"), training=FAST, out=tmp_path, progress=False)
    assert (tmp_path / "config.json").read_text() == "mine"


def test_an_earlier_model_stays_until_the_new_one_is_saved(tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    from dualmask import DefendedClassifier

    short = {**FAST, "epochs": 1}
    train(data, encoder=tiny("bert"), training={**short, "seed": 5}, out=tmp_path, progress=False)
    unfinished(tiny, data, tmp_path, overwrite=True)
    assert DefendedClassifier.load(tmp_path, device="cpu").facts["training"]["seed"] == 5  # type: ignore[index]
    train(data, encoder=tiny("bert"), training=FAST, out=tmp_path, resume=True, progress=False)
    assert DefendedClassifier.load(tmp_path, device="cpu").facts["training"]["seed"] == 0  # type: ignore[index]


def test_a_full_disk_is_told_and_an_earlier_model_stays(tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    short = {**FAST, "epochs": 1}
    saved = train(data, encoder=tiny("bert"), training=short, out=tmp_path / "model", progress=False)
    with small_files(10_000), pytest.raises(ResourceError, match=r"model can't be written: .* for twice the model"):
        saved.save(tmp_path / "model")
    assert equal(weights(DefendedClassifier.load(tmp_path / "model", device="cpu")), weights(saved))
    for room, told in ((100, r"training\.jsonl can't be written: .* with --resume"), (10_000, "no checkpoint can")):
        with small_files(room), pytest.raises(ResourceError, match=told):
            train(data, encoder=tiny("bert"), training=short, out=tmp_path / "new", progress=False)
    assert equal(weights(train(data, encoder=tiny("bert"), training=short, out=tmp_path / "new", progress=False)),
                 weights(saved))


@pytest.mark.parametrize("part", ["sealed", "model_card", "file_hash"])
def test_an_earlier_model_stays_whichever_part_of_the_new_one_has_no_room(
    part: str, tiny: Tiny, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    saved = train(data, encoder=tiny("bert"), training={**FAST, "epochs": 1}, out=tmp_path / "model", progress=False)
    before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    (tmp_path / "model" / ".saving-killed").mkdir()

    def full(*given: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(f"dualmask.storage.{part}", full)
        with pytest.raises(ResourceError, match="No space left"):
            saved.save(tmp_path / "model")
    assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == before, "also no leftovers"
    saved.save(tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} == before.keys()


def test_a_checkpoint_is_not_taken_away_for_another_of_its_step(tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    """As where time is up in the middle of judging an epoch, and then again."""
    unfinished(tiny, data, tmp_path)
    folder, linear = checkpoints.found(tmp_path)[-1], torch.nn.Linear(1, 1)
    progress = checkpoints.as_progress(checkpoints.read_saved(folder)["progress"])  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch, suppress(KilledError):
        patch.setattr(Path, "rename", ended)
        checkpoints.write(tmp_path, progress, {}, network=linear, optimiser=torch.optim.SGD(linear.parameters()),
                          best={})
    assert checkpoints.found(tmp_path) == [folder]


def ended(*given: object, **options: object) -> None:
    raise KilledError


def test_what_a_kill_leaves_of_a_checkpoint_is_none(
    tiny: Tiny, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or else a folder whose model is saved would be taken for a damaged run, to be started again."""
    unfinished(tiny, data, tmp_path)
    monkeypatch.setattr("dualmask.checkpoints.shutil.rmtree", ended)
    with suppress(KilledError):
        checkpoints.remove(tmp_path)
    assert list(tmp_path.glob("checkpoint-*")) and not checkpoints.found(tmp_path)


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"warmup": "inf"}, {"batch_size": 0}, {"learning_rate": -1},
                                   {"validation_share": 2}, {"learning_rate": "nan"}, {"clip": "hard"}, {"epoch": 3}])
def test_impossible_training_options_are_refused(wrong: dict[str, object], data: Dataset) -> None:
    with pytest.raises(OptionError, match=str(next(iter(wrong)))):
        train(data, training=wrong)


def test_a_loss_that_explodes_is_named(tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "LOG_STEPS", 1)
    with pytest.raises(DualmaskError, match=r"nan.*learning rate"):
        train(data, encoder=tiny("bert"), progress=False,
              training={**FAST, "epochs": 20, "learning_rate": 1e30, "warmup": 0.0, "clip": "none"})


def test_too_few_rows_to_hold_out(tiny: Tiny) -> None:
    few = Dataset("few", ("a", "b"), [Example("the", 0), Example("movie", 1)], None, None)
    with pytest.raises(DataError, match="hold out"):
        train(few, encoder=tiny("bert"), training=FAST, progress=False)


def test_no_tensor_is_left_behind_by_a_step(tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    live: list[int] = []
    real = Reporter.step

    def counted(self: Reporter, *args: object, **options: object) -> None:
        real(self, *args, **options)  # type: ignore[arg-type]
        live.append(sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects()) if self.count > 9 else 0)

    monkeypatch.setattr(Reporter, "step", counted)
    train(replace(data, test=None), encoder=tiny("bert"), training={**FAST, "epochs": 3}, progress=False)
    assert len(live) == 36
    assert max(live[24:]) <= max(live[12:24]), "as many tensors in the third epoch as in the second"


# Folders, checkpoints, resuming


class KilledError(Exception):
    """Stands for a process that ends in the middle of an epoch."""


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [
    {}, {"defence": "ddm-restore", "options": {"worst_known": 0.05, "steps": 0}}])  # which counts its right answers
def test_a_killed_run_goes_on_to_the_same_weights(
    chosen: dict[str, Any], tiny: Tiny, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = {**FAST, "epochs": 3}
    whole = weights(train(data, encoder=tiny("bert"), training=options, progress=False, **chosen))
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    real = Reporter.step

    def killing(self: Reporter, state: checkpoints.Progress, *args: object, **rest: object) -> None:
        real(self, state, *args, **rest)  # type: ignore[arg-type]
        if state.step == 17:
            raise KilledError

    monkeypatch.setattr(Reporter, "step", killing)
    run: dict[str, Any] = {"encoder": tiny("bert"), "training": options, "out": tmp_path / "m", "progress": False}
    with pytest.raises(KilledError):
        train(data, **run, **chosen)
    monkeypatch.setattr(Reporter, "step", real)
    assert [folder.name for folder in checkpoints.found(tmp_path / "m")] == ["checkpoint-000000016-0001"]
    with pytest.raises(OptionError, match=r"unfinished run.*resume"):
        train(data, **run, **chosen)
    resumed = train(data, **run, **chosen, resume=True)
    assert equal(weights(resumed), whole)
    assert resumed.facts["steps"] == 36


@pytest.mark.slow
def test_a_process_killed_for_good_goes_on(tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    out = tmp_path / "m"
    (tmp_path / "job.py").write_text(f"""
import json, sys, time
from dualmask import training
from dualmask.text.examples import Dataset, Example
from dualmask.training_log import Reporter
import torch
torch.set_num_threads(1)  # as in the test's own process: sums depend on it
training.CHECKPOINT_SECONDS = 0.0
real = Reporter.step
def slow(self, *args, **rest):
    real(self, *args, **rest)
    time.sleep(0.05)
Reporter.step = slow
rows = [[Example(*row) for row in part] for part in json.load(open({str(tmp_path / 'data.json')!r}))]
training.train(Dataset("toy", ("bad", "good"), *rows), defence="ddm", encoder={str(tiny('bert'))!r}, training={FAST!r},
               out={str(out)!r}, progress=False)
""")
    (tmp_path / "data.json").write_text(json.dumps([data.train, data.validation, data.test]))
    process = subprocess.Popen([sys.executable, tmp_path / "job.py"])
    deadline = time.monotonic() + 60
    while not checkpoints.found(out) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert checkpoints.found(out)
    assert not (out / "dualmask.json").exists()
    resumed = train(data, encoder=tiny("bert"), training=FAST, out=out, resume=True, progress=False)
    assert equal(weights(resumed), weights(train(data, encoder=tiny("bert"), training=FAST, progress=False)))


def unfinished(tiny: Tiny, data: Dataset, out: Path, *, overwrite: bool = False, defence: str = "ddm") -> None:
    """Leave a folder as a run does that ended after its first epoch."""
    real = training.Run.end_of_epoch

    def ending(self: training.Run) -> None:
        real(self)
        raise KilledError

    training.Run.end_of_epoch = ending  # type: ignore[method-assign]
    try:
        with pytest.raises(KilledError):
            train(data, encoder=tiny("bert"), defence=defence, training=FAST, out=out, overwrite=overwrite,
                  progress=False)
    finally:
        training.Run.end_of_epoch = real  # type: ignore[method-assign]


def test_resuming_with_other_settings_or_data_is_refused(tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    unfinished(tiny, data, tmp_path)
    with pytest.raises(OptionError, match=r"other settings \(training: learning_rate: 0\.001 there, 0\.002 now"):
        train(data, encoder=tiny("bert"), training={**FAST, "learning_rate": 2e-3}, out=tmp_path, resume=True,
              progress=False)
    with pytest.raises(OptionError, match=r"other settings.*rows"):
        train(replace(data, train=data.train[::-1]), encoder=tiny("bert"), training=FAST, out=tmp_path, resume=True,
              progress=False)
    assert checkpoints.found(tmp_path), "nothing was lost"
    train(data, encoder=tiny("bert"), training=FAST, out=tmp_path, resume=True, progress=False)


@pytest.mark.parametrize("decay", ["weights", "all"])
def test_a_checkpoint_of_before_some_options_goes_on_as_it_began(
    decay: str, tiny: Tiny, data: Dataset, tmp_path: Path,
) -> None:
    """Then everything decayed: its optimiser holds one group of parameters, in another order than two."""
    options = {**FAST, "decay": "all"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FAST, "decay", "all")
        unfinished(tiny, data, tmp_path)
    note = checkpoints.found(tmp_path)[-1] / "progress.json"
    written = json.loads(note.read_text())
    for name in ("decay", "robust_texts"):
        del written["settings"]["training"][name]
    del written["progress"]["best_under_attack"], written["checksum"], written["sha256"]
    note.write_text(json.dumps(written))
    run: dict[str, Any] = {"encoder": tiny("bert"), "progress": False}
    if decay == "weights":
        with pytest.raises(OptionError, match=r"other settings \(training: decay: 'all' there, 'weights' now\)"):
            train(data, training=FAST, out=tmp_path, resume=True, **run)
        return
    resumed = train(data, training=options, out=tmp_path, resume=True, **run)
    assert equal(weights(resumed), weights(train(data, training=options, **run)))


def test_a_checkpoint_of_before_some_options_of_its_defence_goes_on(
    tiny: Tiny, data: Dataset, tmp_path: Path,
) -> None:
    """With the same way of dropout, which it doesn't name; with another it is refused, in words that help."""
    unfinished(tiny, data, tmp_path, defence="freelb")
    note = checkpoints.found(tmp_path)[-1] / "progress.json"
    written = json.loads(note.read_text())
    assert written["settings"]["options"].pop("dropout_masks") == "shared"
    del written["checksum"], written["sha256"]
    note.write_text(json.dumps(written))
    run: dict[str, Any] = {"encoder": tiny("bert"), "defence": "freelb", "training": FAST, "progress": False}
    with pytest.raises(OptionError, match=r"\(options: dropout_masks: 'shared' there, 'fresh' now\)"):
        train(data, options={"dropout_masks": "fresh"}, out=tmp_path, resume=True, **run)
    assert equal(weights(train(data, out=tmp_path, resume=True, **run)), weights(train(data, **run)))


def test_a_damaged_checkpoint_is_named(tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    unfinished(tiny, data, tmp_path)
    folder, linear = checkpoints.found(tmp_path)[-1], torch.nn.Linear(1, 1)
    for name in ("network.safetensors", "optimiser.safetensors", "best.safetensors", "progress.json"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
        with pytest.raises(ModelFileError, match=rf"checkpoint.*\({name} is not as it was written.*start again"):
            checkpoints.read(tmp_path, {}, network=linear, optimiser=torch.optim.SGD(linear.parameters()))
        (folder / name).write_bytes(whole)
    path = folder / "network.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ModelFileError, match=r"checkpoint.*start again \(--overwrite"):
        train(data, encoder=tiny("bert"), training=FAST, out=tmp_path, resume=True, progress=False)
    note = json.loads((folder / "progress.json").read_text())
    del note["checksum"]
    (folder / "progress.json").write_text(json.dumps(note))
    with pytest.raises(ModelFileError, match=r"progress\.json is not as it was written"):
        checkpoints.read(tmp_path, {}, network=linear, optimiser=torch.optim.SGD(linear.parameters()))


@pytest.mark.parametrize(("changed", "told"), [
    ({"progress": {"epoch": 1, "batch": 0, "step": 2, "new": 1}}, "new, which this version does not know"),
    ({"progress": []}, "progress: a JSON list"), ({"progress": {}}, "lacks epoch, batch, step"),
    ({"settings": []}, "settings: a JSON list"),
    *(({"progress": {"epoch": wrong, "batch": 0, "step": 2}}, "epoch is .*whole number") for wrong in ("x", -1, True)),
    (None, "a JSON list"), ("deep", "recursion"),
])
def test_a_checkpoint_of_another_version_is_told(changed: object, told: str, tmp_path: Path) -> None:
    note = tmp_path / "checkpoint-000000002-0001" / "progress.json"
    note.parent.mkdir()
    whole = {"progress": {"epoch": 1, "batch": 0, "step": 2}, "settings": {}}
    text = json.dumps({**whole, **changed} if isinstance(changed, dict) else [])
    note.write_text("[" * 100_000 if changed == "deep" else text)
    network = torch.nn.Linear(1, 1)
    with pytest.raises(ModelFileError, match=rf"checkpoint-000000002-0001 can't be read \(.*{told}.*another version"):
        checkpoints.read(tmp_path, {}, network=network, optimiser=torch.optim.SGD(network.parameters()))


def test_nothing_is_overwritten_unasked(tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    short = {**FAST, "epochs": 1}
    train(data, encoder=tiny("bert"), training=short, out=tmp_path / "m", progress=False)
    before = (tmp_path / "m" / "dualmask.json").read_bytes()
    for resume in (False, True):
        with pytest.raises(OptionError, match=r"already holds a saved model.*--overwrite"):
            train(data, encoder=tiny("bert"), training=short, out=tmp_path / "m", resume=resume, progress=False)
    assert (tmp_path / "m" / "dualmask.json").read_bytes() == before
    with pytest.raises(DualmaskError):
        train(data, encoder=tmp_path / "no such encoder", training=short, out=tmp_path / "m", overwrite=True)
    assert (tmp_path / "m" / "dualmask.json").read_bytes() == before, "a run that can't begin takes nothing away"
    train(data, encoder=tiny("bert"), training=short, out=tmp_path / "m", overwrite=True, progress=False)
    assert [record["event"] for record in log_of(tmp_path / "m")] == ["start", "epoch"], "the log is the new run's"
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="is a file"):
        train(data, encoder=tiny("bert"), out=tmp_path / "file")


def test_no_checkpoint_uses_pickle(tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    unfinished(tiny, data, tmp_path)
    names = {path.suffix for path in checkpoints.found(tmp_path)[-1].iterdir()}
    assert names == {".safetensors", ".json"}


@pytest.mark.slow
def test_two_processes_train_together(tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    """Each takes half of every batch; both end with the same weights, and one of them saves."""
    (tmp_path / "data.json").write_text(json.dumps([data.train, data.validation, data.test]))
    (tmp_path / "job.py").write_text(f"""
import json, os
from accelerate import PartialState
PartialState(cpu=True)
from dualmask.text.examples import Dataset, Example
from dualmask.training import train
rows = [[Example(*row) for row in part] for part in json.load(open({str(tmp_path / 'data.json')!r}))]
found = train(Dataset("toy", ("bad", "good"), *rows), defence="ddm", encoder={str(tiny('bert'))!r}, training={FAST!r},
              out={str(tmp_path / 'm')!r}, progress=False)
total = sum(float(weight.detach().double().abs().sum()) for weight in found.model.parameters())
with open(os.path.join({str(tmp_path)!r}, "rank" + os.environ["RANK"]), "w") as file:
    file.write(repr(total) + " " + str(found.facts["steps"]))
""")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    subprocess.run([*command, tmp_path / "job.py"], check=True, capture_output=True, timeout=120,
                   env={**os.environ, "OMP_NUM_THREADS": "1"})
    first, second = (tmp_path / "rank0").read_text(), (tmp_path / "rank1").read_text()
    assert first == second
    assert first.endswith(" 24")
    assert (tmp_path / "m" / "dualmask.json").is_file()
