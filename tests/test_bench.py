# SPDX-License-Identifier: Apache-2.0
"""Runs of grids: what is missing is done, what fails is listed, and nothing that was done is lost."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from grid_stand_ins import change, write_toy
from rich.console import Console
from typer.testing import CliRunner

import dualmask
from dualmask import training
from dualmask.bench_display import Board, told
from dualmask.classifier import DefendedClassifier
from dualmask.cli import app, main
from dualmask.errors import BusyOutputError, OptionError
from dualmask.evaluation.bench import plan_of, run_grid
from dualmask.evaluation.filling import Outcome, Watch
from dualmask.evaluation.grid import DataEntry, read_grid
from dualmask.evaluation.known import without_known
from dualmask.evaluation.material import Material, load_data
from dualmask.evaluation.pace import CellLeft, Pace, TimeLeft, answer_costs
from dualmask.evaluation.packing import pack
from dualmask.evaluation.plan import Job, Task, make_plan
from dualmask.evaluation.records import Cell, read_cells
from dualmask.evaluation.standing import Standing, settings_of, survey
from dualmask.output_lock import output_lock
from dualmask.results import AttackResult

ROOT = Path(__file__).parents[1]
KILL = ROOT / "tools" / "kill_grid.py"
KILLS = int(os.environ.get("DUALMASK_KILLS", "4"))
PLAIN, DDM = "toy.tiny.plain.deepwordbug.adaptive.0", "toy.tiny.ddm.deepwordbug.adaptive.0"
BROKEN = ('["deepwordbug", {name = "broken", attack = "deepwordbug", options = {similarity = 0.5, '
          'sentence_encoder = "./nowhere"}}]')
CELLS = {PLAIN, DDM, PLAIN.replace("adaptive", "transfer"), DDM.replace("adaptive", "transfer")}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy and a finished run of it, which tests copy."""
    folder = tmp_path_factory.mktemp("toy")
    outcome = run_grid(read_grid(write_toy(folder)), folder / "out")
    assert named(outcome.done) == CELLS and (outcome.found, outcome.failures, outcome.left) == (0, [], [])
    return folder


@pytest.fixture
def toy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "toy"))


def named(cells: Sequence[Cell]) -> set[str]:
    return {cell.file_name.removesuffix(".jsonl") for cell in cells}


def run(toy: Path, **settings: str) -> Outcome:
    return run_grid(read_grid(change(toy / "grid.toml", **settings)), toy / "out")


def record(toy: Path, name: str) -> Path:
    return toy / "out" / "records" / f"{name}.jsonl"


def lines(toy: Path, name: str) -> list[dict[str, object]]:
    """A cell's records without what may differ between runs."""
    header, *results = map(json.loads, record(toy, name).read_text(encoding="utf-8").splitlines())
    header.pop("about")
    return [header, *({**one, "seconds": 0} for one in results)]


def test_a_run_leaves_records_models_and_the_grid(made: Path) -> None:
    out = made / "out"
    loaded = read_cells(out / "records")
    assert loaded.problems == [] and len(loaded.cells) == 4
    assert all(len(one.results) == one.wanted == 12 for one in loaded.cells)
    assert any(result.outcome == "succeeded" for one in loaded.cells for result in one.results)
    assert loaded.cells[0].header["about"]["grid"] == "toy"  # type: ignore[index]
    assert {path.name for path in (out / "models").iterdir()} == {"toy.tiny.plain.0", "toy.tiny.ddm.0"}
    assert (out / "toy.toml").read_text() == (made / "grid.toml").read_text()
    assert set((out / "toy.cells").read_text().split()) == {f"{name}.jsonl" for name in CELLS}
    assert {path.name for path in out.iterdir()} == {"toy.cells", "toy.toml", "models", "records"}


def test_what_is_there_is_not_done_again(toy: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (toy / "out" / "records").iterdir()}
    outcome = run(toy)
    assert (outcome.found, outcome.done) == (4, [])
    assert before == {path: path.stat().st_mtime_ns for path in (toy / "out" / "records").iterdir()}


def test_only_what_is_missing_is_done(toy: Path) -> None:
    kept = {name: lines(toy, name) for name in CELLS}
    gone, cut = record(toy, DDM), record(toy, PLAIN.replace("adaptive", "transfer"))
    gone.unlink()
    cut.write_bytes(cut.read_bytes()[:-40])  # in the middle of its last line
    outcome = run(toy)
    assert (named(outcome.done), outcome.found) == ({gone.stem, cut.stem}, 2)
    assert {name: lines(toy, name) for name in CELLS} == kept
    new = {name.replace(".0", ".1") for name in CELLS}
    assert named(run(toy, seeds="[0, 1]").done) == new


LOW = '["plain", "ddm", {name = "low", defence = "ddm", options = {test_rate = 0.02}, network = "ddm"}]'


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_network_may_be_asked_otherwise_without_training_it_again(toy: Path, workers: int) -> None:
    shutil.rmtree(toy / "out")
    outcome = run_grid(read_grid(change(toy / "grid.toml", defences=LOW)), toy / "out", only="low", workers=workers)
    cell = DDM.replace("ddm", "low")
    assert not outcome.failures and cell in named(outcome.done)
    own, low = (DefendedClassifier.load(toy / "out" / "models" / f"toy.tiny.{name}.0") for name in ("ddm", "low"))
    assert (toy / "out" / "models" / "toy.tiny.ddm.0" / "training.jsonl").exists()
    assert not (toy / "out" / "models" / "toy.tiny.low.0" / "training.jsonl").exists()
    assert all(torch.equal(one, two) for one, two in zip(
        own.network.state_dict().values(), low.network.state_dict().values(), strict=True))
    assert low.defence.options_as_dict()["test_rate"] == 0.02 and low.facts["network"] == "ddm"
    assert low.facts["seconds"] == own.facts["seconds"] and "network" not in own.facts
    assert low.facts["test_accuracy"] == round(low.accuracy(load_data(DataEntry(
        name="toy", source=str(toy / "data"))).test or []), 4)
    done = run(toy, defences=LOW)
    assert not done.failures and DDM in named(done.done) and cell not in named(done.done)
    shown = CliRunner().invoke(app, ["bench", str(toy / "grid.toml"), "--out", str(toy / "new"), "--dry-run"]).output
    assert "toy.tiny.low.0  the network of ddm\n" in shown and "2 classifiers to train" in shown
    apart = run(toy, defences=LOW.replace(', network = "ddm"', ""))
    assert {failure.cell.defence for failure in apart.failures} == {"low"} and "network" in apart.failures[0].reason


AROUND = '["plain", {name = "hard", defence = "ddm-restore", preset = "restore", network = "plain"}]'


@pytest.mark.slow
def test_a_defence_is_put_around_the_plain_entrys_network(toy: Path) -> None:
    """The plain classifier that is there is taken as it is; nothing is trained."""
    before = DefendedClassifier.load(toy / "out" / "models" / "toy.tiny.plain.0")
    outcome = run(toy, defences=AROUND)
    assert not outcome.failures and PLAIN.replace("plain", "hard") in named(outcome.done)
    hard = DefendedClassifier.load(toy / "out" / "models" / "toy.tiny.hard.0")
    assert not (toy / "out" / "models" / "toy.tiny.hard.0" / "training.jsonl").exists()
    assert hard.defence.name == "ddm-restore" and hard.facts["preset"] == "restore"
    assert hard.facts["network"] == "plain" and hard.facts["training"] == before.facts["training"]
    weights = before.model.state_dict()
    assert all(torch.equal(weight, weights[name]) for name, weight in hard.model.state_dict().items())
    answer = hard.predict(["the movei was good"], explain=True)
    assert answer.masked is not None and answer.masked[0][0].becomes == "movie"
    assert hard.facts["test_accuracy_undefended"] == before.facts["test_accuracy"]
    assert run(toy, defences=AROUND).done == [], "what is there is not done again"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_several_grids_are_done_as_one(toy: Path, tmp_path: Path, workers: int) -> None:
    first = read_grid(change(toy / "grid.toml", samples="5"))
    second = read_grid(change(toy / "grid.toml", name='"deep"', seeds="[0, 1]", samples="7", modes='["adaptive"]'))
    plan = plan_of([first, second])
    assert plan.name == "toy, deep" and [(job.name, job.grid.name, len(job.tasks)) for job in plan.jobs] == [
        ("toy.tiny.plain.0", "toy", 2), ("toy.tiny.ddm.0", "toy", 2), ("toy.tiny.plain.1", "deep", 1),
        ("toy.tiny.ddm.1", "deep", 1)]
    outcome = run_grid([first, second], tmp_path / "both", workers=workers)
    assert not outcome.failures and len(outcome.done) == 6
    texts = {cell.cell.file_name: len(cell.results) for cell in read_cells(tmp_path / "both").cells}
    assert {name: count for name, count in texts.items() if "transfer" in name} == {
        f"toy.tiny.{name}.deepwordbug.transfer.0.jsonl": 5 for name in ("plain", "ddm")}
    assert sorted(texts.values()) == [5, 5, 7, 7, 7, 7], "of a cell that both have, the larger sample"
    assert {path.name for path in (tmp_path / "both").glob("*.cells")} == {"toy.cells", "deep.cells"}
    assert run_grid(first, tmp_path / "both").done == []
    assert [job.seed for job in plan_of([first, second], "ddm.deepwordbug.adaptive.1").jobs] == [1]
    with pytest.raises(OptionError, match="no cell's name contains 'nothing'"):
        plan_of([first, second], "nothing")
    with pytest.raises(OptionError, match="two different grids are called 'toy'"):
        plan_of([first, replace(second, name="toy")])
    order = plan_of([replace(first, only=".ddm."), second, first]).tasks
    assert [task.cell.defence for task in order[:3]] == ["plain", "ddm", "ddm"] and len(order) == 6
    change(toy / "grid.toml")
    told = CliRunner().invoke(app, ["bench", f"{toy / 'grid.toml'}::ddm,nothing", "--only", "adaptive", "--dry-run"])
    assert "toy: 0 of 1 cells done" in told.output
    with pytest.raises(OptionError, match="no cell's name contains 'ddm' and 'nothing'"):
        plan_of([replace(first, only="nothing")], "ddm")


def test_what_others_have_published_is_left_out(toy: Path, tmp_path: Path) -> None:
    packed = tmp_path / "published.jsonl.gz"
    pack([toy / "out"], packed)
    grid = read_grid(toy / "grid.toml")
    assert run_grid(grid, tmp_path / "none", known=packed).done == []
    assert plan_of([grid], known=packed).name == "nothing to do"
    more = read_grid(change(toy / "grid.toml", defences='["plain", "ddm", {name = "low", defence = "ddm", '
                            'options = {test_rate = 0.02}}]'))
    found = without_known(make_plan(more), packed, Material())
    assert [(job.defence.name, len(job.tasks)) for job in found.jobs] == [("plain", 1), ("low", 2)], "texts to show"
    changed = read_grid(change(toy / "grid.toml", samples="20"))
    assert len(without_known(make_plan(changed), packed, Material()).tasks) == 4, "larger samples"
    changed = read_grid(change(toy / "grid.toml", attack_seed="1"))
    assert len(without_known(make_plan(changed), packed, Material()).tasks) == 4, "other settings"
    record(toy, DDM).unlink()
    pack([toy / "out"], packed)
    rest = without_known(make_plan(grid), packed, Material())
    assert [(job.defence.name, len(job.tasks)) for job in rest.jobs] == [("plain", 1), ("ddm", 2)], "one network a row"
    change(toy / "grid.toml")
    told = CliRunner().invoke(app, ["bench", str(toy / "grid.toml"), "--known", str(packed), "--dry-run"])
    assert told.exit_code == 0 and "3 cells" in told.output


def test_records_out_of_order_are_put_into_it(toy: Path) -> None:
    """As a run leaves them that was killed after the last text."""
    whole = record(toy, DDM).read_text().splitlines()
    record(toy, DDM).write_text("\n".join([whole[0], *whole[:0:-1]]) + "\n")
    assert named(run(toy).done) == {DDM}
    assert record(toy, DDM).read_text().splitlines()[1:] == whole[1:]


def test_a_failing_cell_does_not_stop_the_others(toy: Path) -> None:
    outcome = run(toy, attacks=BROKEN, seeds="[0, 1]")
    assert named(outcome.done) == {name.replace(".0", ".1") for name in CELLS}
    assert len(outcome.failures) == 8
    reasons = {failure.cell.mode: failure.reason for failure in outcome.failures}
    assert "nowhere" in reasons["adaptive"]
    assert reasons["transfer"] == "it needs the texts of toy.tiny.plain.broken.adaptive.1.jsonl, which is not finished."
    written = [json.loads(line) for line in (toy / "out" / "failures.jsonl").read_text().splitlines()]
    assert [one["cell"]["attack"] for one in written] == ["broken"] * 8 and "nowhere" in written[0]["reason"]
    assert run(toy).failures == [] and not (toy / "out" / "failures.jsonl").exists()


def test_an_error_that_nobody_foresaw_leaves_its_trace(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a slip")

    monkeypatch.setattr("dualmask.evaluation.filling.trained", faulty)
    record(toy, DDM).unlink()
    failure, = run(toy).failures
    assert failure.reason == "ZeroDivisionError: a slip" and "in faulty" in failure.trace


def test_settings_that_clash_are_named(toy: Path) -> None:
    failures = run(toy, draws="6", attack_seed="3").failures
    assert len(failures) == 4 and all("(seed: 0 there, 3 now)" in one.reason for one in failures)
    failures = run(toy, seeds="[0]", modes='["transfer", "adaptive", "transfer-successful"]',
                   data='[{name = "toy", source = "data", train = 90}]').failures
    assert len(failures) == 6 and all("(train: 96 there, 90 now; hash: " in one.reason for one in failures)
    change(toy / "grid.toml", defences='["plain", {name = "ddm", preset = "paper"}]')
    (toy / "grid.toml").write_text((toy / "grid.toml").read_text().replace("epochs = 6", "epochs = 5"))
    record(toy, DDM).unlink()
    reasons = {one.cell.file_name: one.reason for one in run_grid(read_grid(toy / "grid.toml"), toy / "out").failures}
    assert len(reasons) == 4 and all("epochs: 6 there, 5 now" in one and "--out" in one for one in reasons.values())
    assert "test_rate: 0.3 there" not in reasons[f"{DDM}.jsonl"] and "'paper' now" in reasons[f"{DDM}.jsonl"]
    record(toy, PLAIN).write_text('{"format": 1}\nno record\n')
    reasons = {one.cell.file_name: one.reason for one in run(toy).failures}
    assert set(reasons) == {f"{PLAIN}.jsonl"} and f"{PLAIN}.jsonl, line 2: not a record" in reasons[f"{PLAIN}.jsonl"]


def test_records_from_before_a_setting_came_up_have_its_default(toy: Path) -> None:
    first, *rest = record(toy, PLAIN).read_text().splitlines()
    header = json.loads(first)
    assert header["about"]["training"]["training"].pop("keep") == "best"
    record(toy, PLAIN).write_text("\n".join([json.dumps(header), *rest]) + "\n")
    assert not run(toy).failures
    header["about"]["training"]["training"]["keep"] = "last"
    record(toy, PLAIN).write_text("\n".join([json.dumps(header), *rest]) + "\n")
    reason, = {one.reason for one in run(toy).failures}
    assert "keep: 'last' there, 'best' now" in reason


def test_other_data_are_never_mixed_in(toy: Path) -> None:
    """Neither by cells that are finished or begun, nor by new ones of the same name beside them."""
    path, begun = toy / "data" / "test.csv", record(toy, DDM)
    kept, (first, *rows) = path.read_text(), path.read_text().splitlines()
    before = {one: one.read_bytes() for one in (toy / "out" / "records").iterdir()}
    begun.write_text("\n".join(begun.read_text().splitlines()[:6]) + "\n")
    path.write_text("\n".join([first, *rows[::-1]]) + "\n")
    outcome = run(toy, seeds="[0, 1]")
    assert (outcome.found, outcome.done, len(outcome.failures)) == (0, [], 8)
    assert all("(data: '24 examples " in one.reason and "--out" in one.reason for one in outcome.failures)
    own, other = (next(one.reason for one in outcome.failures if one.cell.seed == seed) for seed in (0, 1))
    assert "comes from a run with other settings" in own and "give the new one another name" in other
    assert not (toy / "out" / "models" / "toy.tiny.ddm.1").exists()
    path.write_text(kept)
    assert named(run(toy).done) == {DDM} and before.keys() == set((toy / "out" / "records").iterdir())
    path.unlink()  # the training part gives up a tenth then: other rows
    assert len(run(toy).failures) == 4
    (toy / "data" / "train.csv").unlink()
    outcome = run(toy, seeds="[0, 1]")  # nothing can be added, so nothing is wrong with what is there
    assert outcome.found == 4 and {one.cell.seed for one in outcome.failures} == {1}


def test_encoders_are_known_by_their_contents(toy: Path) -> None:
    (toy / "encoder").rename(toy / "moved")
    assert run(toy, encoders='[{name = "tiny", source = "moved"}]').found == 4
    config = json.loads((toy / "moved" / "config.json").read_text())
    (toy / "moved" / "config.json").write_text(json.dumps({**config, "hidden_dropout_prob": 0.3}))
    (toy / "moved").rename(toy / "encoder")
    failures = run(toy, seeds="[0, 1]").failures
    assert len(failures) == 8 and all("(encoder: 'folder " in one.reason for one in failures)
    shutil.rmtree(toy / "out" / "records")  # the classifiers, too, are of the other one
    failures = run(toy).failures
    assert len(failures) == 4 and all("trained with other settings (encoder: 'fo" in one.reason for one in failures)


@pytest.mark.parametrize(("setting", "told"), [({"draws": "3"}, ""), ({"sample_seed": "1"}, "sample_seed: 0 there, 1")])
def test_finished_cells_have_the_settings_of_the_grid(toy: Path, setting: dict[str, str], told: str) -> None:
    """Draws are for defences with noise, which neither of these has."""
    assert [told in one.reason for one in run(toy, **setting).failures] == ([True] * 4 if told else [])


def test_noise_is_among_the_settings(toy: Path) -> None:
    class Noisy:
        name, noise = "ddm", "fresh"

        def options_as_dict(self) -> dict[str, object]:
            return {}

    job = make_plan(read_grid(change(toy / "grid.toml", eot="5", draws="3"))).jobs[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dualmask.evaluation.standing.build_defence", lambda *_, **__: Noisy())
        found = settings_of(job, job.tasks[0], Material())
    assert (found["eot"], found["draws"]) == (5, 3)
    found = settings_of(job, job.tasks[0], Material())
    assert (found["eot"], found["draws"]) == (1, 0)


def test_transfer_follows_its_source(toy: Path) -> None:
    """A fault of the source is repaired, or the source was made anew: what was shown is shown again."""
    kept = {name: lines(toy, name) for name in CELLS}
    first, *rest = record(toy, PLAIN).read_text().splitlines()
    fault = {**json.loads(rest[3]), "outcome": "attack-error", "reason": "a slip", "adversarial": None}
    record(toy, PLAIN).write_text("\n".join([first, *rest[:3], json.dumps(fault), *rest[4:]]) + "\n")
    plan = make_plan(read_grid(toy / "grid.toml"))
    assert [one.outdated for one in survey(plan, toy / "out").values()] == [False, True, False, True]
    outcome = run(toy)
    assert named(outcome.done) == CELLS - {DDM} and outcome.found == 1
    assert {name: lines(toy, name) for name in CELLS} == kept
    path = record(toy, DDM.replace("adaptive", "transfer"))
    path.write_text(path.read_text().replace('"digest": "', '"digest": "0'))
    assert named(run(toy).done) == {path.stem} and lines(toy, path.stem) == kept[path.stem]


def test_a_text_that_is_there_twice_is_done_again(toy: Path) -> None:
    kept, path = lines(toy, DDM), record(toy, DDM)
    first, *rest = path.read_text().splitlines()
    for texts in ([*rest, rest[2]], [*rest[:11], rest[2]]):  # one too many, and as many as there should be
        path.write_text("\n".join([first, *texts]) + "\n")
        assert named(run(toy).done) == {DDM} and lines(toy, DDM) == kept
    foreign = json.dumps({**json.loads(rest[2]), "index": 999})
    path.write_text("\n".join([first, *rest, foreign]) + "\n")
    failure, = run(toy).failures
    assert "has 13 records where 12 texts were attacked; delete it" in failure.reason


def test_another_version_goes_on(toy: Path) -> None:
    path, kept = record(toy, DDM), lines(toy, DDM)
    first, *rest = path.read_text().splitlines()
    told = json.loads(first)
    told["dualmask"] = told["about"]["versions"]["dualmask"] = "0.0.1"
    path.write_text("\n".join([json.dumps(told), *rest[:5]]) + "\n")
    assert run(toy).failures == [] and lines(toy, DDM)[1:] == kept[1:]
    about = json.loads(path.read_text().splitlines()[0])["about"]
    assert about["versions"]["dualmask"] == "0.0.1" and len(about["resumed"]) == 1
    assert about["resumed"][0]["versions"]["dualmask"] == dualmask.__version__


@pytest.mark.parametrize("texts", ['"abc"', "-1", "null"])
def test_a_header_that_can_not_be_is_a_failure(toy: Path, texts: str) -> None:
    path = record(toy, DDM)
    path.write_text(path.read_text().replace('"texts": 12', f'"texts": {texts}', 1))
    failure, = run(toy).failures
    assert "line 1: not a record (the header's texts is" in failure.reason


def test_a_model_of_a_newer_version_says_so(toy: Path) -> None:
    path = toy / "out" / "models" / "toy.tiny.ddm.0" / "dualmask.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    record(toy, DDM).unlink()
    failure, = run(toy).failures
    assert "format 99" in failure.reason and "update dualmask" in failure.reason


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_is_survived(toy: Path) -> None:
    """The device that is always full takes the place of a record file and of the list of failures."""
    kept = lines(toy, PLAIN)
    for name in (PLAIN, DDM):
        record(toy, name).unlink()
    record(toy, DDM).with_name(f"{DDM}.jsonl.part").symlink_to("/dev/full")

    class Full(Board):
        def training(self, job: Job) -> None:  # after the run has taken the old list away
            (toy / "out" / "failures.jsonl").unlink(missing_ok=True)
            (toy / "out" / "failures.jsonl").symlink_to("/dev/full")

    outcome = run_grid(read_grid(toy / "grid.toml"), toy / "out", watch=Full(Console(file=StringIO())))
    assert named(outcome.done) == {PLAIN} and lines(toy, PLAIN) == kept
    failure, = outcome.failures
    assert "No space left on device" in failure.reason and failure.cell.defence == "ddm"
    (toy / "out" / "failures.jsonl").unlink()
    assert named(run(toy).done) == {DDM}  # what was in the way is gone


def test_nothing_new_is_begun_when_time_is_up(toy: Path) -> None:
    outcome = run_grid(read_grid(toy / "grid.toml"), toy / "new", minutes=0)
    assert named(outcome.left) == CELLS and outcome.done == outcome.failures == []
    assert not (toy / "new" / "models").exists()
    outcome = run_grid(read_grid(toy / "grid.toml"), toy / "new", only="plain", minutes=60)
    assert named(outcome.done) == {name for name in CELLS if "plain" in name} and outcome.left == []


def test_a_larger_sample_goes_on_and_a_smaller_one_changes_nothing(toy: Path, tmp_path: Path) -> None:
    """Texts that are there are not attacked again; transferred ones are shown anew, since their source has grown."""
    kept, seen = lines(toy, DDM), list[Cell]()

    class Counting(Watch):
        def text(self, task: Task, result: AttackResult) -> None:
            seen.append(task.cell)

    grid = read_grid(change(toy / "grid.toml", samples="20", modes='["adaptive", "transfer", "transfer-successful"]'))
    outcome = run_grid(grid, toy / "out", watch=Counting())
    assert outcome.failures == [] and len(outcome.done) == 6
    asked = {name: sum(cell.file_name == f"{name}.jsonl" for cell in seen) for name in CELLS}
    assert asked == {name: 8 if "adaptive" in name else 20 for name in CELLS}
    header, *rows = lines(toy, DDM)
    assert (header["samples"], header["texts"], len(rows)) == (20, 20, 20)
    assert {**header, "samples": 12, "texts": 12} == kept[0] and all(row in rows for row in kept[1:])
    whole = run_grid(grid, tmp_path / "whole")
    assert whole.failures == [] and all(
        lines(toy, name)[1:] == [{**json.loads(line), "seconds": 0} for line in (
            tmp_path / "whole" / "records" / f"{name}.jsonl").read_text().splitlines()[1:]] for name in CELLS)
    for samples in ("12", "24"):  # a sample that is smaller is there; one that is larger than the data is all of them
        outcome = run(toy, samples=samples)
        assert outcome.failures == [] and len(outcome.done) == (0 if samples == "12" else 4)
    assert run(toy, samples="1000").done == [] and len(lines(toy, DDM)) == 25


def test_a_cell_that_grows_counts_as_it_was_until_it_is_whole(toy: Path) -> None:
    before = read_cells(toy / "out" / "records").cells

    class Stopping(Watch):
        seen = 0

        def text(self, task: Task, result: AttackResult) -> None:
            self.seen += 1
            if self.seen == 3:
                raise KeyboardInterrupt

    grid = read_grid(change(toy / "grid.toml", samples="20"))
    with pytest.raises(KeyboardInterrupt):
        run_grid(grid, toy / "out", watch=Stopping())
    assert len(lines(toy, PLAIN)) == 1 + 12 + 3
    assert [one.results for one in read_cells(toy / "out" / "records").cells] == [one.results for one in before]
    assert run_grid(grid, toy / "out").failures == []
    assert {len(one.results) for one in read_cells(toy / "out" / "records").cells} == {20}
    assert "finished" not in lines(toy, PLAIN)[0]


def test_a_larger_sample_that_was_begun_is_gone_on_with_by_a_smaller_grid(toy: Path) -> None:
    run(toy, samples="20")
    kept, path = lines(toy, DDM), record(toy, DDM)
    path.write_text("\n".join(path.read_text().splitlines()[:9]) + "\n")
    outcome = run(toy, samples="12")
    assert named(outcome.done) == {DDM} and lines(toy, DDM) == kept


def test_a_run_stops_at_its_deadline_and_goes_on_later(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a training, which leaves a checkpoint, and of a cell, whose records stay."""
    kept, grid = {name: lines(toy, name) for name in CELLS}, read_grid(toy / "grid.toml")
    passed = [0.0]
    monkeypatch.setattr("dualmask.deadline.time", SimpleNamespace(monotonic=lambda: passed[0]))
    update, out = training.Run.update, toy / "new"

    def later(self: training.Run, *given: Any) -> Any:
        passed[0] += 1
        return update(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(training.Run, "update", later)
        outcome = run_grid(grid, out, deadline=8.0)
    assert named(outcome.left) == CELLS and outcome.done == outcome.failures == []
    assert [path.name for path in (out / "models" / "toy.tiny.plain.0").glob("checkpoint-*")] == [
        "checkpoint-000000008-0001"]  # eight steps, two of the second epoch

    class Slow(Watch):
        def text(self, task: Task, result: AttackResult) -> None:
            passed[0] += 1

    passed[0] = 0.0
    outcome = run_grid(grid, out, watch=Slow(), deadline=30.0)
    ended, begun = named(outcome.done), list((out / "records").iterdir())
    assert outcome.failures == [] and ended | named(outcome.left) == CELLS and len(ended) in (1, 2, 3)
    assert not (toy / ".new.lock").exists() and len(begun) > len(ended)
    assert run_grid(grid, out).failures == []
    shutil.rmtree(toy / "out")
    out.rename(toy / "out")
    assert {name: lines(toy, name) for name in CELLS} == kept


@pytest.mark.slow
def test_grids_run_without_what_only_the_command_line_needs(toy: Path) -> None:
    shutil.rmtree(toy / "out")
    code = ("import sys; sys.modules['typer'] = sys.modules['rich'] = None\nfrom pathlib import Path\n"
            "from dualmask.evaluation.bench import run_grid\nfrom dualmask.evaluation.grid import read_grid\n"
            "print(len(run_grid(read_grid(Path('grid.toml')), Path('out'), deadline=600).done))")
    found = subprocess.run([sys.executable, "-c", code], cwd=toy, capture_output=True, text=True, timeout=120)
    assert found.stdout == "4\n", found.stderr


def test_two_runs_never_work_in_one_folder(toy: Path) -> None:
    out = toy / "out"
    (out / "lock").write_text("1\n")  # an earlier version left it
    with output_lock(out), ThreadPoolExecutor(1) as others, pytest.raises(BusyOutputError, match=f"{out} is being"):
        others.submit(run, toy).result()
    assert run(toy).found == 4 and not (toy / ".out.lock").exists()


def test_a_training_that_was_cut_short_goes_on(toy: Path, made: Path) -> None:
    """The description is written last: without it, and the checkpoint there, the training is resumed."""
    folder, kept = toy / "out" / "models" / "toy.tiny.ddm.0", lines(toy, DDM)
    weights = (folder / "model.safetensors").read_bytes()
    shutil.rmtree(folder)
    record(toy, DDM).unlink()
    assert run(toy).failures == [] and (folder / "model.safetensors").read_bytes() == weights
    assert lines(toy, DDM) == kept and not list(folder.glob("checkpoint*"))
    record(toy, DDM).unlink()
    (folder / "checkpoint-000000006-0001").mkdir()  # a kill between saving and taking this away
    (folder / "checkpoint-000000006-0001" / "progress.json").write_text("{}")
    assert run(toy).failures == [] and not list(folder.glob("checkpoint*"))
    (folder / "dualmask.json").write_text("{")
    record(toy, DDM).unlink()
    assert "not valid JSON" in run(toy).failures[0].reason


def test_data_have_three_parts(made: Path) -> None:
    data = load_data(DataEntry(name="x", source=str(made / "data" / "train.csv"), train=40, test=6))
    assert data.name == "x" and data.validation and data.test
    texts = [{id(one) for one in part} for part in (data.train, data.validation, data.test)]
    assert abs(len(data.train) - 40) <= 1 and len(data.validation) == 8 and len(data.test) == 6
    assert not texts[0] & texts[1] and not texts[0] & texts[2] and not texts[1] & texts[2]
    again = load_data(DataEntry(name="x", source=str(made / "data" / "train.csv"), train=40, test=6))
    assert again == data


def test_validation_texts_may_stand_in_for_test_texts(made: Path) -> None:
    """So that settings are chosen without a look at what is reported; what is trained on stays the same."""
    entry = DataEntry(name="x", source=str(made / "data" / "train.csv"), train=40)
    usual, chosen = load_data(entry), load_data(replace(entry, part="validation"))
    assert chosen.test == chosen.validation == usual.validation and chosen.train == usual.train
    assert not {one.text for one in chosen.test or []} & {one.text for one in usual.test or []}
    few = load_data(replace(entry, part="validation", test=4)).test or []
    assert len(few) == 4 and all(one in (usual.validation or []) for one in few)


# Kill -9


@pytest.mark.slow
def test_a_killed_grid_equals_one_that_was_let_alone(tmp_path: Path) -> None:
    """Every mode, killed at random moments; DUALMASK_KILLS=20 for more of them. The tool by itself has five seeds."""
    modes = ["adaptive", "transfer", "transfer-successful", "defence-aware"]
    grid = change(write_toy(tmp_path / "toy", tests=24), seeds="[0, 1]", samples="24", modes=json.dumps(modes),
                  attacks='["deepwordbug", "typist"]')
    process = subprocess.run(
        [sys.executable, str(KILL), str(grid), "--kills", str(KILLS), "--seed", str(int(time.time())), "--work",
         str(tmp_path)], capture_output=True, text=True, timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""})
    assert process.returncode == 0, process.stdout + process.stderr
    found = json.loads(process.stdout)
    assert found["kills"] == KILLS and found["differing"] == [] and found["records"] > 2 * 24 * 5
    assert {name.split(".")[4] for name in os.listdir(tmp_path / "whole" / "records")} == set(modes)


# What is shown


def test_the_board_shows_how_far_it_is(toy: Path) -> None:
    record(toy, DDM).unlink()
    record(toy, PLAIN.replace("adaptive", "transfer")).unlink()
    shown = StringIO()
    board = Board(Console(file=shown, force_terminal=True, width=100, height=30))
    frames = []

    class Looking(Board):
        def text(self, task: Task, result: AttackResult) -> None:
            super().text(task, result)
            frames.append(self.drawn())

        def drawn(self) -> str:
            console = Console(file=StringIO(), width=100, height=30)
            console.print(self.table())
            return str(console.file.getvalue())  # type: ignore[attr-defined]

    with Looking(board.console) as watched:
        run_grid(read_grid(toy / "grid.toml"), toy / "out", watch=watched)
    first = frames[0]
    assert re.search(r"toy\.tiny\.plain\.0 +\u2713\u25b6 +\d+\.\d% \(deepwordbug, adaptive\)", first)
    assert re.search(r"toy\.tiny\.ddm\.0 +\u00b7\u2713", first) and "2 of 4 cells done" in first
    assert "1 of 12 texts" in first
    assert "6 of 12 texts" in frames[-7] and "3 of 4 cells done" in frames[-7]
    assert "4 of 4 cells done; nothing left" in watched.drawn()


def test_an_attack_with_fewer_texts_leaves_other_cells_theirs(toy: Path) -> None:
    attacks = '[{ name = "few", attack = "deepwordbug", samples = 4 }, "deepwordbug"]'
    plan = make_plan(read_grid(change(toy / "grid.toml", attacks=attacks, seeds="[1]", modes='["adaptive"]')))
    board = Board(Console(file=StringIO()))
    board.start(plan, survey(plan, toy / "out"), toy / "out")
    few, usual = (next(task for task in plan.tasks if task.cell.attack == name) for name in ("few", "deepwordbug"))
    board.begin(few, 4)
    assert (board.wanted[few.cell], board.wanted[usual.cell], board.lacking(usual.cell)) == (4, 12, 12)
    board.begin(usual, 10)  # there are no more
    assert all(board.wanted[task.cell] == (4 if task.cell.attack == "few" else 10) for task in plan.tasks)


def test_a_pipe_gets_a_line_for_each_cell(toy: Path) -> None:
    record(toy, DDM).unlink()
    shown = StringIO()
    with Board(Console(file=shown, width=40)) as board:
        run_grid(read_grid(change(toy / "grid.toml", attacks=BROKEN)), toy / "out", watch=board)
    told_lines = shown.getvalue().splitlines()
    assert told_lines[0].startswith("toy: 3 of 8 cells done in ")
    done, = (line for line in told_lines if line.startswith("done: "))
    assert re.match(rf"done: {re.escape(DDM)}: 12 texts, \d+\.\d% right before and \d+\.\d% under attack; ", done)
    failed = [line for line in told_lines if line.startswith("failed: toy.tiny.")]
    assert len(failed) == 4 and all(line.endswith(f"; why: {toy / 'out' / 'failures.jsonl'}") for line in failed)
    assert not any("training" in line.split(";")[0] for line in told_lines)  # both classifiers were there


def test_time_left_is_what_was_measured_and_no_more(toy: Path) -> None:
    grid = read_grid(change(toy / "grid.toml", seeds="[0, 1]"))
    plan = make_plan(grid)
    pace, (plain, ddm) = Pace(), plan.jobs[2:]
    cells = [CellLeft(task.cell, 10) for task in plain.tasks]
    assert pace.left(cells, [plain, ddm]) == TimeLeft(0.0, cells=2, trainings=2)
    pace.learn_cell(plan.jobs[0].tasks[0].cell, 5, 2.5)  # the same attack and mode, another seed
    pace.learn_training(plan.jobs[1], 30.0)
    assert pace.left(cells, [plain, ddm]) == TimeLeft(35.0, cells=1, trainings=1)  # plain is trained otherwise than ddm
    assert pace.left(cells, [plain, ddm], at_once=2).seconds == 17.5
    assert told(TimeLeft(65.0, 1, 2)) == "at least 65 s left, with no estimate yet for 1 cell and 2 trainings"
    assert told(TimeLeft(600.0)) == "about 10 min left" and told(TimeLeft(9000.0)) == "about 2.5 h left"
    assert told(TimeLeft(0.0, 3)) == "no estimate yet" and told(TimeLeft(0.0)) == "nothing left"
    found = survey(plan, toy / "out")
    assert [one.finished for one in found.values()] == [True] * 4 + [False] * 4
    assert found[plan.tasks[4].cell] == Standing()


def test_time_left_goes_by_what_an_answer_costs() -> None:
    plain, votes = (Cell("toy", "tiny", name, "pwws", "adaptive", 0) for name in ("plain", "ranmask"))
    pace = Pace({plain: 1.0, votes: 10.0, replace(votes, seed=3): 10.0})
    pace.learn_cell(plain, 10, 5.0)
    assert pace.seconds_a_text(votes) == 5.0 and pace.seconds_a_text(plain) == 0.5
    pace.learn_cell(votes, 10, 30.0)  # most of its votes were decided early
    assert pace.seconds_a_text(replace(votes, seed=3)) == 3.0 and pace.seconds_a_text(plain) == 0.5
    assert pace.seconds_a_text(replace(votes, attack="textfooler")) is None
    shown = [Cell("toy", "tiny", "plain", attack, "transfer", 0) for attack in ("pwws", "textfooler")]
    pace.learn_cell(shown[0], 100, 1.0)
    assert pace.seconds_a_text(shown[1]) == 0.01  # showing costs the same, whoever has made the texts


def test_a_cell_that_is_under_way_is_judged_by_itself_once_half_of_it_is_done() -> None:
    cell = Cell("toy", "tiny", "plain", "pwws", "adaptive", 0)
    pace = Pace()
    assert pace.seconds_left(CellLeft(cell, 9, done=1, elapsed=1.0)) is None  # easy texts end first
    assert pace.seconds_left(CellLeft(cell, 5, done=5, elapsed=20.0)) == 20.0
    pace.learn_cell(replace(cell, seed=1), 10, 100.0)
    assert pace.seconds_left(CellLeft(cell, 9, done=1, elapsed=1.0)) == 99.0
    assert pace.seconds_left(CellLeft(cell, 8, done=2, elapsed=150.0)) == 600.0  # it takes longer than that one
    assert pace.seconds_left(CellLeft(cell, None)) is None and pace.seconds_left(CellLeft(cell, 3)) == 30.0


def test_what_an_answer_costs_is_views_and_the_draws_that_a_search_averages_over(toy: Path) -> None:
    defences = '["plain", {name = "votes", defence = "ranmask", options = {votes = 7}, eot = 3}]'
    plan = make_plan(read_grid(change(toy / "grid.toml", defences=defences)))
    found = {(cell.defence, cell.mode): cost for cell, cost in answer_costs(plan).items()}
    assert found["plain", "adaptive"] == found["plain", "transfer"] == 1.0
    assert (found["votes", "adaptive"], found["votes", "transfer"]) == (21.0, 7.0)


def test_the_board_estimates_by_its_clock_and_counts_its_steps(toy: Path) -> None:
    now, shown = [0.0], StringIO()
    plan = make_plan(read_grid(change(toy / "grid.toml", seeds="[1, 2]", modes='["adaptive"]')))
    board = Board(Console(file=shown), clock=lambda: now[0])
    board.start(plan, survey(plan, toy / "new"), toy / "new")
    assert "no estimate yet" in shown.getvalue()
    one, two = plan.jobs[:2]
    for job, learning, attacking in ((one, 20.0, 12.0), (two, 40.0, 24.0)):
        board.training(job)
        now[0] += learning
        board.trained(job, 999.0)  # what the folder says; the clock knows better
        task, = job.tasks
        board.begin(task, 12)
        now[0] += attacking
        board.done(task, Standing(texts=12, wanted=12, right=12, seconds=0.1))
    lines_shown = shown.getvalue().splitlines()
    assert [line for line in lines_shown if line.startswith(("training", "cell"))] == [
        f"training 1 of 4: {one.name}", "cell 1 of 4: toy.tiny.plain.deepwordbug.adaptive.1",
        f"training 2 of 4: {two.name}", "cell 2 of 4: toy.tiny.ddm.deepwordbug.adaptive.1"]
    firsts = [line for line in lines_shown if line.startswith("done")]
    assert firsts[0].endswith("; at least 56 s left, with no estimate yet for 2 trainings")
    assert board.left() == TimeLeft(96.0)  # each defence once more, as long as it took


# Commands


def test_dry_run_tells_the_plan_and_does_nothing(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toy)
    change(toy / "grid.toml", seeds="[0, 1]", modes='["adaptive", "defence-aware"]')
    path = record(toy, PLAIN)
    path.write_text("\n".join(path.read_text().splitlines()[:6]) + "\n")
    before = sorted(toy.rglob("*"))
    result = CliRunner().invoke(app, ["bench", "grid.toml", "--out", "out", "--dry-run", "--only", "deepwordbug"])
    assert result.exit_code == 0, result.output
    shown = [line.split() for line in result.stdout.splitlines()]
    assert ["toy.tiny.plain.0"] in shown and ["toy.tiny.plain.1", "train"] in shown
    assert ["begun", "deepwordbug", "adaptive", "(5", "of", "12", "texts)"] in shown
    assert ["done", "deepwordbug", "adaptive"] in shown and ["to", "do", "deepwordbug", "adaptive"] in shown
    assert "No attack knows the mechanism of plain" in " ".join(result.stdout.split())
    assert "toy: 1 of 4 cells done, 1 begun, 2 classifiers to train; about" in " ".join(result.stdout.split())
    assert sorted(toy.rglob("*")) == before
    monkeypatch.chdir(toy / "data")
    result = CliRunner().invoke(app, ["bench", "../grid.toml", "--dry-run"])
    assert "toy: 0 of 14 cells done, 4 classifiers to train; no estimate yet" in " ".join(result.stdout.split())
    assert sorted(toy.rglob("*")) == before


def test_a_run_that_is_interrupted_says_how_to_go_on(
    toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    kept = lines(toy, PLAIN)
    record(toy, PLAIN).unlink()

    def interrupt(self: Board, task: Task, result: AttackResult) -> None:
        raise KeyboardInterrupt

    command = ["dualmask", "bench", str(toy / "grid.toml"), "--out", str(toy / "out")]
    with monkeypatch.context() as patch:
        patch.setattr(Board, "text", interrupt)
        patch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as stop:
            main()
    assert stop.value.code == 130
    assert f"stopped; to go on: {' '.join(command)}\n" in capsys.readouterr().err
    assert 1 <= len(lines(toy, PLAIN)) - 1 < 12
    assert named(run(toy).done) == {PLAIN} and lines(toy, PLAIN) == kept


@pytest.fixture
def shell(toy: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command line in a process of its own, from the toy's folder."""
    def call(*words: str, end: str = "") -> subprocess.CompletedProcess[str]:
        code = f"import sys, atexit; from dualmask.cli import main; {end}\nmain()"
        return subprocess.run(
            [sys.executable, "-c", code, *words], cwd=toy, capture_output=True, text=True, timeout=120,
            env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "160"})

    return call


@pytest.mark.slow
def test_bench_on_the_command_line(toy: Path, shell: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    (toy / "results").mkdir()
    (toy / "out").rename(toy / "results" / "toy")
    change(toy / "grid.toml", attacks=BROKEN)
    found = shell("bench", "grid.toml")
    assert found.returncode == 1, found.stderr
    assert "accuracy in %, adaptive" in found.stdout and re.search(
        r"ddm +\d+\.\d \(24 x 1\) +\d+\.\d +\d+\.\d", found.stdout)
    assert "failed: toy.tiny.plain.broken.adaptive.0" in found.stdout and "4 cells failed" in found.stdout
    assert "once what is told above is mended" in found.stdout
    assert found.stdout.splitlines()[-1] == "next: dualmask report results/toy"
    assert "Traceback" not in found.stderr and "toy: 4 of 8 cells done" in found.stderr
    change(toy / "grid.toml", attacks='["deepwordbg"]', seeds='["one"]')
    found = shell("bench", "grid.toml", "--quiet")
    assert found.returncode == 2 and found.stdout == ""
    assert all(told in found.stderr for told in ("2 mistakes", "did you mean 'deepwordbug'?", "seeds[0]: "))


def test_reports_and_comparisons_load_no_torch(
    toy: Path, shell: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    light = "atexit.register(lambda: print('heavy:', [m for m in ('torch', 'transformers') if m in sys.modules]))"
    found = shell("report", "out", "--html", "--markdown", "--out", "pages", end=light)
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == ["pages/report.html", "pages/report.md", "heavy: []"]
    assert {path.name for path in (toy / "pages").iterdir()} == {"report.html", "report.md"}
    assert "deepwordbug" in (toy / "pages" / "report.html").read_text()
    record(toy, PLAIN).write_text("{}\n")
    found = shell("report", "out", end=light)
    assert {path.name for path in (toy / "out").glob("report.*")} == {"report.html", "report.tex", "report.md"}
    assert f"left out: out/records/{PLAIN}.jsonl, line 1" in found.stderr
    found = shell("compare", f"out/records/{DDM}.jsonl", "out", end=light)
    assert found.returncode == 0 and "heavy: []" in found.stdout and "12 x 1" in found.stdout, found.stderr
