# SPDX-License-Identifier: Apache-2.0
"""What the operating system refuses is told in sentences: what was tried, where, why, and what to do."""

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dualmask.checkpoints import clear_folder
from dualmask.cli import main
from dualmask.errors import DataError, OptionError, ResourceError
from dualmask.evaluation.grid import read_grid
from dualmask.evaluation.records import keep, read_cells
from dualmask.results import ResultFile
from dualmask.system_errors import explain_os_error, plain_reason, told_reason
from dualmask.text.tables import iter_rows


def system_error(number: int, path: str | None = "a/b.csv") -> OSError:
    return OSError(number, os.strerror(number), path)


@pytest.mark.parametrize(("number", "told"), [
    (errno.EACCES, "there is no permission for it"), (errno.EROFS, "the file system is read-only"),
    (errno.ENOSPC, "the disk is full"), (errno.EISDIR, "it is a folder"), (errno.ENOENT, "no such file or folder"),
    (errno.ENOTDIR, "a part of the path is a file"), (errno.ENAMETOOLONG, "the name is too long"),
])
def test_usual_troubles_are_sentences_with_a_remedy(number: int, told: str) -> None:
    found = explain_os_error(system_error(number), "written")
    assert found.startswith("a/b.csv can't be written: ") and told in found
    assert f"({os.strerror(number)}). " in found and found.endswith(".") and "Errno" not in found


def test_what_was_worked_on_may_be_named_and_rare_troubles_keep_the_systems_words() -> None:
    assert explain_os_error(system_error(errno.EIO, None), "read", "x.csv").startswith("x.csv can't be read: the disk")
    assert explain_os_error(system_error(errno.EACCES, None)).startswith("a file or folder can't be read or written")
    rare = explain_os_error(system_error(errno.EDOM), "read")
    assert rare == f"a/b.csv can't be read: {os.strerror(errno.EDOM)}. Put right what the system says, or choose " \
                   "another place."
    assert explain_os_error(OSError("no answer from the hub")) == "no answer from the hub"


def test_the_number_is_found_in_what_other_libraries_say() -> None:
    """Rust's and Arrow's errors tell it in their words alone."""
    rust = ValueError("Error while serializing: I/O error: No space left on device (os error 28)")
    assert told_reason(rust) == "the disk is full"
    arrow = OSError("[Errno 13] Failed to open local file 'x'. Detail: [errno 13] Permission denied")
    assert plain_reason(arrow).startswith("there is no permission for it (")
    assert told_reason(ValueError("bad header")) == "bad header"


@pytest.fixture
def forbidden(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Every opening of a file by a path fails, which chmod can't do to root."""
    def forbid(number: int) -> None:
        def refuse(self: Path, *given: object, **options: object) -> None:
            raise OSError(number, os.strerror(number), str(self))

        for name in ("open", "mkdir", "write_bytes", "write_text", "read_bytes", "read_text"):
            monkeypatch.setattr(Path, name, refuse)

    return forbid


def test_an_unreadable_table_is_no_damaged_one(tmp_path: Path, forbidden: Callable[[int], None]) -> None:
    (tmp_path / "in.csv").write_text("text\na\n")
    forbidden(errno.EACCES)
    with pytest.raises(DataError, match=r"in\.csv can't be read: there is no permission for it \(Perm.*\. Allow it"):
        next(iter_rows(tmp_path / "in.csv"))


def test_each_place_that_writes_tells_it_alike(tmp_path: Path, forbidden: Callable[[int], None]) -> None:
    forbidden(errno.EROFS)
    told = r"can't be written: the file system is read-only \(.*\)\. Choose a place that can be written to\."
    with pytest.raises(OptionError, match=rf"page\.html {told}"):
        keep("page", tmp_path / "page.html")
    with pytest.raises(OptionError, match=rf"a\.jsonl {told}"):
        ResultFile(tmp_path / "a.jsonl", {}, resume=False, overwrite=False)
    with pytest.raises(ResourceError, match=rf"model {told}"):
        clear_folder(tmp_path / "model", resume=False)


def test_each_place_that_reads_tells_it_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *given: object, **options: object) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"gone\.jsonl can't be read: no such file or folder is there"):
        read_cells(tmp_path)
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(OptionError, match=r"my\.toml can't be read: there is no permission"):
        read_grid(tmp_path / "my.toml")


@pytest.mark.parametrize(("arguments", "told"), [
    (["report", "{folder}/file/below"], "does not exist"),
    (["predict", "{folder}/file", "x"], "holds no dualmask.json"),
    (["attack", "{folder}", "{folder}/in.csv", "--out", "{folder}/file/x.jsonl"], "no dualmask.json"),
])
def test_a_file_in_the_place_of_a_folder_needs_no_stack_trace(
    arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "in.csv").write_text("text,label\na,b\nc,d\n")
    monkeypatch.setattr(sys, "argv", ["dualmask", *(part.format(folder=tmp_path) for part in arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    shown = capsys.readouterr().err
    assert stop.value.code == 2 and told in " ".join(shown.split()) and "Errno" not in shown


def test_what_nobody_expected_is_told_by_the_command_line_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "a/secret")

    monkeypatch.setattr("dualmask.cli.app", fail)
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith(
        "error: a/secret can't be read or written: there is no permission for it (Permission denied). Allow it")


def test_a_hub_that_can_not_be_reached_is_told_without_numbers() -> None:
    from dualmask.hub import _first_line

    assert _first_line(OSError("[Errno -2] Name or service not known\nmore")) == "Name or service not known"
    assert _first_line(ValueError("as it is")) == "as it is" and _first_line(KeyError()) == "KeyError"
