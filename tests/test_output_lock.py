# SPDX-License-Identifier: Apache-2.0
"""Whatever is written has one owner at a time: other processes and threads are refused at once and change nothing."""

import errno
import json
import os
import platform
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock
import pytest
from typer.testing import CliRunner

from dualmask import attack, train
from dualmask.checkpoints import holding
from dualmask.classifier import DefendedClassifier
from dualmask.cli import app, main
from dualmask.errors import BusyOutputError, OptionError
from dualmask.evaluation.bench import run_grid
from dualmask.evaluation.certification import certify
from dualmask.evaluation.packing import pack
from dualmask.evaluation.protocol import evaluate
from dualmask.evaluation.records import keep
from dualmask.output_lock import locked_outputs, output_lock, remove_stale_locks
from dualmask.prediction import predict_file
from dualmask.quickstart import run_quickstart
from dualmask.results import ResultFile
from dualmask.storage import save
from dualmask.text.examples import Dataset

HOLD = ("import sys\nfrom dualmask.output_lock import output_lock\n"
        "with output_lock(*sys.argv[1:]): print('held', flush=True); sys.stdin.read()")
SHORT = {"epochs": 1, "batch_size": 16, "max_length": 40}


@contextmanager
def started(code: str, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    """A Python process that has come as far as to print a line; it is killed at the end."""
    process = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def commanded(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)


# Each with a path to write to; the lock is asked for before anything is read
WRITERS: dict[str, Callable[[Path, Dataset], object]] = {
    "predict_file": lambda out, data: predict_file(None, out.with_name("in.csv"), out),  # type: ignore[arg-type]
    "predict": lambda out, data: commanded("predict", "nowhere", "a text", "--out", out, "--overwrite"),
    "predict --file": lambda out, data: commanded("predict", "nowhere", "--file", "in.csv", "--out", out),
    "train": lambda out, data: train(data, encoder="./nowhere", training=SHORT, out=out),
    "save": lambda out, data: save(None, out),  # type: ignore[arg-type]
    "attack": lambda out, data: attack(None, [], out=out),
    "attack command": lambda out, data: commanded("attack", "nowhere", "in.csv", "--out", out),
    "evaluate": lambda out, data: evaluate(
        None, None, [], None, protocol=None, out=out),  # type: ignore[arg-type]
    "certify": lambda out, data: certify(None, [], out=out),  # type: ignore[arg-type]
    "certify command": lambda out, data: commanded("certify", "nowhere", "in.csv", "--out", out),
    "certify --html": lambda out, data: commanded("certify", "nowhere", "in.csv", "--html", out),
    "pack": lambda out, data: pack([], out),
    "keep": lambda out, data: keep("new", out),
    "bench": lambda out, data: run_grid([], out),
    "quickstart": lambda out, data: run_quickstart(out),
    "report": lambda out, data: commanded("report", "nowhere", "--html", "--out", out.parent),
    "theory": lambda out, data: commanded("theory", "nowhere", "nowhere", "--out", out.parent),
}
NAMES = {"report": "report.html", "theory": "table.md", "pack": "a.jsonl.gz", "train": "folder", "bench": "folder"}


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Path], int]]:
    """Files and folders that another process is writing to, by their writer."""
    folder = tmp_path_factory.mktemp("held")
    places = {name: folder / name.replace(" ", "-") / NAMES.get(name, "out.jsonl") for name in WRITERS}
    with started(HOLD, *places.values()) as process:
        yield places, process.pid


@pytest.mark.parametrize("name", WRITERS)
def test_every_writer_is_refused_what_another_process_writes(
    name: str, held: tuple[dict[str, Path], int], data: Dataset,
) -> None:
    places, process = held
    out = places[name]
    (out.parent / "in.csv").write_text("text\na\n")
    with pytest.raises(BusyOutputError) as told:
        WRITERS[name](out, data)
    assert str(told.value).startswith(f"{out} is being written by process {process} on {platform.node()}, since 20")
    assert "Wait for its end" in str(told.value) and "--out" in str(told.value)
    assert {path.name for path in out.parent.iterdir()} == {"in.csv", f".{out.name}.lock"}


def test_a_killed_owner_leaves_a_lock_that_holds_nobody(tmp_path: Path) -> None:
    out, lock = tmp_path / "out.csv", tmp_path / ".out.csv.lock"
    with started(HOLD, out) as process:
        process.kill()
        process.wait()
        assert lock.exists() and locked_outputs(tmp_path) == [out]
        with output_lock(out):
            assert json.loads(lock.read_text())["process"] == os.getpid()
    assert list(tmp_path.iterdir()) == []
    lock.write_text("")
    (tmp_path / ".held.lock").write_text("")
    with output_lock(tmp_path / "held"):
        remove_stale_locks(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == [".held.lock"]


def test_one_output_by_any_name_has_one_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").symlink_to(tmp_path / "real" / "out.csv")
    monkeypatch.chdir(tmp_path / "real")
    with started(HOLD, tmp_path / "real" / "out.csv", tmp_path / "link"):
        for name in ("out.csv", "../link/out.csv", "../file", "../real/../link/out.csv", ".", "../link", ""):
            with pytest.raises(BusyOutputError), output_lock(name):
                pass
        with pytest.raises(BusyOutputError), output_lock(None, "free", "out.csv"):
            pass
        with output_lock("free", "../other"):
            pass


def test_records_and_pages_are_written_through_links(tmp_path: Path) -> None:
    """Or else what a link leads to would have one lock before and another one after."""
    (tmp_path / "link").symlink_to(tmp_path / "real.md")
    keep("page", tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real.md").read_text() == "page"


def test_a_thread_may_own_again_what_it_owns_and_others_may_not(tmp_path: Path) -> None:
    out, told = tmp_path / "model", list[str]()

    def other() -> None:
        try:
            with output_lock(out):
                told.append("owned")
        except BusyOutputError as error:
            told.append(str(error))

    def run(work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    with output_lock(out):
        with output_lock(out), output_lock(tmp_path / "other"):
            run(other)
        run(other)
    run(other)
    assert [one == "owned" for one in told] == [False, False, True] and "another thread of this process" in told[0]


def test_pipes_and_devices_have_no_lock(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with output_lock(tmp_path / "pipe", "/dev/null", "/dev/stdout"):
        assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
    code = "from dualmask.output_lock import output_lock\nwith output_lock('/dev/stdout'): print('written')"
    found = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (found.stdout, found.stderr) == ("written\n", "")


@pytest.mark.parametrize("name", ["predict_file", "records", "attack command", "certify --html", "keep"])
def test_a_pipe_is_not_replaced_by_a_file(name: str, data: Dataset, tmp_path: Path) -> None:
    """Nor /dev/null, which whoever may write anywhere would take from all programs."""
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(OptionError, match=r"pipe\.csv is a pipe or a device"):
        if name == "records":
            ResultFile(tmp_path / "pipe.csv", {}, resume=False, overwrite=True)
        else:
            WRITERS[name](tmp_path / "pipe.csv", data)
    assert (tmp_path / "pipe.csv").is_fifo()


def test_folders_made_for_a_lock_are_taken_away_unless_used(tmp_path: Path) -> None:
    with output_lock(tmp_path / "a" / "b" / "out"):
        assert (tmp_path / "a" / "b").is_dir()
    assert list(tmp_path.iterdir()) == []
    with output_lock(tmp_path / "a" / "b" / "out"):
        (tmp_path / "a" / "b" / "out").write_text("")
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["out"]


def test_a_folder_that_another_owner_takes_away_meanwhile_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    acquire, calls = filelock.FileLock.acquire, list[Path]()

    def late(lock: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(Path(lock.lock_file))
        if len(calls) == 1:
            calls[0].parent.rmdir()
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return acquire(lock, *args, **kwargs)

    monkeypatch.setattr(filelock.FileLock, "acquire", late)
    with output_lock(tmp_path / "new" / "out"):
        assert len(calls) == 2 and calls[1].exists(), "it is locked"
    assert list(tmp_path.iterdir()) == []


def failing(monkeypatch: pytest.MonkeyPatch, number: int, *, beside: bool = False) -> None:
    """File systems that refuse a lock: everywhere, or only beside an output."""
    acquire = filelock.FileLock.acquire

    def refused(lock: Any, *args: Any, **kwargs: Any) -> Any:
        if beside and Path(lock.lock_file).name == ".lock":
            return acquire(lock, *args, **kwargs)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(filelock.FileLock, "acquire", refused)


def test_where_nothing_can_be_locked_this_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, errno.ENOLCK)
    with pytest.warns(UserWarning, match=r"out\.csv can't be locked .*No locks available.* take care yourself"):
        keep("text", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "text"


def test_a_place_that_is_read_only_tells_so_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")
        failing(patch, errno.EROFS)
        with output_lock(tmp_path / "folder", tmp_path / "out.csv"):
            pass
    failing(monkeypatch, errno.EACCES, beside=True)
    with output_lock(tmp_path / "folder"):
        assert [path.name for path in (tmp_path / "folder").iterdir()] == [".lock"]
        assert holding(tmp_path / "folder") == "", "nothing that training would replace"
    assert list((tmp_path / "folder").iterdir()) == []


def test_the_lock_of_another_user_is_none_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".out.csv.lock").write_text("")
    failing(monkeypatch, errno.EACCES)
    with pytest.raises(BusyOutputError, match=r"another user: its lock .*\.out\.csv\.lock can't be opened"):
        keep("text", tmp_path / "out.csv")


def test_a_busy_output_is_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["dualmask", "report", "nowhere", "--out", str(tmp_path)])
    with started(HOLD, tmp_path / "report.md"), pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, tiny: Callable[[str], Path], data: Dataset) -> Path:
    folder = tmp_path_factory.mktemp("model") / "model"
    train(data, encoder=tiny("bert"), defence="ddm", training=SHORT, out=folder, progress=False)
    return folder


PREDICT = """
import sys
from dualmask.classifier import DefendedClassifier
from dualmask.prediction import predict_file
predict, calls = DefendedClassifier.predict, []
def slow(self, texts, **options):
    calls.append(texts)
    if len(calls) == 3:
        print("held", flush=True)
        sys.stdin.read()
    return predict(self, texts, **options)
DefendedClassifier.predict = slow
predict_file(DefendedClassifier.load(sys.argv[1], device="cpu"), sys.argv[2], sys.argv[3], chunk=10, progress=False)
"""


@pytest.mark.slow
def test_of_two_predictions_into_one_file_the_second_is_refused(
    model: Path, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until the first ends, be it killed: then its work is gone on with."""
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("text\n" + "".join(f"{one.text}\n" for one in data.train))
    predict_file(DefendedClassifier.load(model, device="cpu"), source, tmp_path / "whole.csv", progress=False)
    command = ["dualmask", "predict", str(model), "--file", str(source), "--out", str(out), "--quiet"]
    with started(PREDICT, model, source, out) as process:
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        for flag in ("--overwrite", "--resume"):
            monkeypatch.setattr(sys, "argv", [*command, flag])
            with pytest.raises(SystemExit) as stop:
                main()
            assert stop.value.code == 1
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before and not out.exists()
        process.kill()
        process.wait()
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 0
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"in.csv", "out.csv", "whole.csv"}


TRAIN = """
import sys
from pathlib import Path
from conftest import reviews
from dualmask import training
from dualmask.text.examples import Dataset
update, calls = training.Run.update, []
def slow(self, *given):
    calls.append(given)
    if len(calls) == 3:
        print("held", flush=True)
        sys.stdin.read()
    return update(self, *given)
training.Run.update = slow
training.train(Dataset("toy", ("bad", "good"), reviews(96), reviews(24), None), encoder=sys.argv[1], out=sys.argv[2],
               defence="ddm", training={"epochs": 1, "batch_size": 16, "max_length": 40}, progress=False)
"""


@pytest.mark.slow
def test_of_two_trainings_into_one_folder_the_second_is_refused(
    tiny: Callable[[str], Path], data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
    out = tmp_path / "model"
    again = {"encoder": tiny("bert"), "defence": "ddm", "training": SHORT, "out": out, "progress": False}
    with started(TRAIN, tiny("bert"), out) as process:
        before = {path.name: path.read_bytes() for path in out.iterdir()}
        for flags in ({"overwrite": True}, {"resume": True}):
            with pytest.raises(BusyOutputError, match=f"process {process.pid} "):
                train(data, **again, **flags)  # type: ignore[arg-type]
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before
        process.kill()
        process.wait()
        train(data, **again)  # type: ignore[arg-type]
    DefendedClassifier.load(out, device="cpu")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert not [path for path in out.iterdir() if "lock" in path.name]
