# SPDX-License-Identifier: Apache-2.0
"""Files of records: their names, what is checked when they are read, and what of a folder counts."""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import dualmask
from dualmask.cli import app
from dualmask.errors import DataError, OptionError
from dualmask.evaluation.records import MODES, Cell, clear_failure, keep, provenance, read_cell, read_cells
from dualmask.reporting.report import build_report
from dualmask.reporting.report_markdown import markdown
from dualmask.results import FORMAT, AttackResult, ResultFile, as_line, read_results

CELL = Cell("mr", "minilm", "ddm", "textfooler", "adaptive", 0)
RESULT = AttackResult(
    index=3, text=("a pair", "of texts"), label=1, outcome="succeeded", adversarial=("a pair", "of tests"), clean=1,
    predicted=0, probability=0.9, probability_after=0.2, queries=7, rows=6, gradients=0, words=4, changed=1,
    similarity=0.8, seconds=0.1, undefended=1, hidden=((0, 1, 0), (3, 8, 1)), hidden_after=(), draws=10, wrong_draws=6)


def write(path: Path, *results: AttackResult, **header: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    first = {"format": FORMAT, "cell": CELL.as_dict(), "labels": ["bad", "good"], **header}
    path.write_text("\n".join([json.dumps(first), *(one.as_json() for one in results)]) + "\n", encoding="utf-8")
    return path


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    bare = replace(RESULT, index=4, text="x", adversarial=None, hidden=None, hidden_after=None, undefended=None,
                   draws=0, wrong_draws=0, similarity=None)
    found = read_cell(write(tmp_path / "a.jsonl", RESULT, bare, texts=5))
    assert found.results == [RESULT, bare] and found.cell == CELL and found.wanted == 5
    assert "hidden" not in bare.as_json() and '"reason"' not in bare.as_json()  # what is as usual takes no room
    assert read_cell(write(tmp_path / "b.jsonl", RESULT)).wanted == 1


@given(st.sampled_from(MODES), st.integers(0, 99), st.sampled_from(["raw", "calibrated"]),
       st.from_regex(r"[A-Za-z0-9_+-]+", fullmatch=True))
@settings(max_examples=50, deadline=None)
def test_no_two_cells_share_a_file(mode: str, seed: int, scores: str, name: str) -> None:
    cell = Cell(name, "e", "d", "a", mode, seed, scores)  # type: ignore[arg-type]
    assert Cell.from_dict(json.loads(json.dumps(cell.as_dict()))) == cell
    data, encoder, defence, attack, found_mode, found_seed, *rest = cell.file_name.split(".")
    assert (data, encoder, defence, attack, found_mode, int(found_seed)) == (name, "e", "d", "a", mode, seed)
    assert rest == (["calibrated", "jsonl"] if scores == "calibrated" else ["jsonl"])


@pytest.mark.parametrize("name", ["", "a.b", "../x", "a/b", "a b", "new\nline", "a\x00b", "[a]", "*b", "a|b", "<b>"])
def test_names_that_are_no_part_of_a_files_name_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match="part of a file's name"):
        replace(CELL, defence=name)


def test_unknown_modes_are_refused() -> None:
    with pytest.raises(OptionError, match="adaptive, transfer"):
        Cell("mr", "e", "d", "a", "static", 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(("line", "told"), [
    ("nonsense", "line 3: not a record"), ("[]", "no JSON object"), ("{}", "lacks adversarial"),
    (replace(RESULT, label="1").as_json(), "label is '1'; expected a whole number"),  # type: ignore[arg-type]
    (replace(RESULT, queries=1.5).as_json(), "queries is 1.5"),  # type: ignore[arg-type]
    (replace(RESULT, index=True).as_json(), "index is True"),
    (replace(RESULT, outcome="won").as_json(), "outcome is 'won'; known: succeeded"),  # type: ignore[arg-type]
    *((json.dumps({**json.loads(RESULT.as_json()), name: value}), f"{name} is ") for name, value in [
        ("hidden", "x"), ("hidden", [[0, 1]]), ("hidden", [[0, 1, "0"]]), ("hidden", [[2, 1, 0]]),
        ("hidden_after", [[0, 1, 7]]), ("hidden_after", [4]), ("reason", 5), ("reason", None), ("text", ["a", 1]),
        ("text", ["a"]), ("text", None), ("adversarial", 1), ("probability", float("nan")), ("probability", 7),
        ("probability_after", -1), ("probability_after", True), ("label", -5), ("clean", "x"), ("predicted", 1.0),
        ("undefended", "x"), ("draws", "x"), ("wrong_draws", -1), ("similarity", 1.5), ("similarity", float("inf")),
        ("seconds", float("nan")), ("seconds", -1), ("seconds", float("inf")), ("queries", -1), ("index", None)]),
    (replace(RESULT, draws=2, wrong_draws=3).as_json(), "3 wrong draws of 2"),
    (replace(RESULT, index=4, label=2).as_json(), "not among the 2"),
    (replace(RESULT, index=4, predicted=9).as_json(), "not among the 2"),
    ("[" * 100_000, "not a record"),
])
def test_a_wrong_line_is_named(tmp_path: Path, line: str, told: str) -> None:
    path = write(tmp_path / "a.jsonl", RESULT)
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.jsonl, line 3") as error:
        read_cell(path)
    assert told in str(error.value)


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", RESULT, replace(RESULT, index=4))
    whole = path.read_bytes()
    for cut in range(1, len(RESULT.as_json()) + 1, 17):
        path.write_bytes(whole[:-cut])
        assert read_results(path)[1] == [RESULT]
    path.write_bytes(b'{"form')
    with pytest.raises(DataError, match="first line is cut off"):
        read_cell(path)


@pytest.mark.parametrize(("header", "told"), [
    ({"format": FORMAT + 1}, f"reads up to {FORMAT}; install a newer one"), ({"format": "x"}, "no header"),
    ({"cell": None}, "does not say which cell"), ({"cell": {"data": "x"}}, "does not say which cell"),
    ({"cell": {**CELL.as_dict(), "mode": "static"}}, "expected one of adaptive"),
    ({"cell": {**CELL.as_dict(), "mode": ["adaptive"]}}, "expected one of adaptive"),
    *(({"cell": {**CELL.as_dict(), "data": name}}, "part of a file's name") for name in (["a"], 1, None)),
    *(({"cell": {**CELL.as_dict(), "seed": seed}}, "no whole number") for seed in ("0", None, True, 1.0)),
    *(({"texts": texts}, "texts is ") for texts in ("abc", -1, 2.0, None)),
    ({"labels": "xy"}, "labels is 'xy'"), ({"labels": [0, 1]}, "a list of names"), ({"about": []}, "about is []"),
    ({"temperature": "hot"}, "temperature is 'hot'"),
])
def test_a_wrong_header_is_named(tmp_path: Path, header: dict[str, object], told: str) -> None:
    path = write(tmp_path / "a.jsonl", RESULT, **header)
    with pytest.raises(DataError, match=r"a\.jsonl, line 1") as error:
        read_cell(path)
    assert told in str(error.value)


def test_a_text_that_is_there_twice_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="1 texts are there twice"):
        read_cell(write(tmp_path / "a.jsonl", RESULT, RESULT))


def test_values_at_the_edge_are_taken(tmp_path: Path) -> None:
    """What victims and vectors of few digits give, and a file without names of labels."""
    edge = replace(RESULT, probability=1.005, probability_after=0, similarity=1.0001, seconds=0, hidden=((0, 0, 0),))
    assert read_cell(write(tmp_path / "a.jsonl", edge)).results == [edge]
    assert read_cell(write(tmp_path / "b.jsonl", replace(edge, label=5), labels=[])).results[0].label == 5


def test_reading_is_quick(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", *(replace(RESULT, index=number) for number in range(20_000)))
    began = time.process_time()
    assert len(read_cell(path).results) == 20_000
    assert time.process_time() - began < 3  # measured 0.5 s


def test_a_half_of_a_character_does_not_stop_a_report(tmp_path: Path) -> None:
    write(tmp_path / "records" / CELL.file_name, replace(RESULT, text="a \ud800 b", adversarial="a \ud800 c",
                                                         outcome="attack-error", reason="what \udfff is this"))
    failure = {"cell": CELL.as_dict(), "reason": "a \ud800"}
    (tmp_path / "failures.jsonl").write_text(json.dumps(failure) + "\n")
    result = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "a \ufffd" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_damaged_files_and_failed_cells_are_told_and_the_rest_counts(tmp_path: Path) -> None:
    other = replace(CELL, seed=1)
    for run, cell in (("one", CELL), ("two", other)):
        write(tmp_path / run / "records" / cell.file_name, RESULT, cell=cell.as_dict())
    (tmp_path / "two" / "records" / "bad.jsonl").write_text("?\n")
    (tmp_path / "two" / "models" / "m").mkdir(parents=True)
    (tmp_path / "two" / "models" / "m" / "training.jsonl").write_text("{}\n")  # a log, no record
    (tmp_path / "one" / "failures.jsonl").write_text(json.dumps({"cell": other.as_dict(), "reason": "no room"}) + "\n")
    found = read_cells(tmp_path)
    assert [one.cell for one in found.cells] == [CELL, other]
    assert len(found.problems) == 2 and "bad.jsonl, line 1" in found.problems[0]
    assert f"failed: {other.file_name} (of 1 of them what was there before" in found.problems[1]
    assert found.problems[1].endswith("in this report): no room")
    with (tmp_path / "one" / "failures.jsonl").open("a") as stream:
        stream.write(f"half a li\n{json.dumps({'cell': {**CELL.as_dict(), 'data': ['x']}, 'reason': ''})}")
    problems = read_cells(tmp_path / "one").problems
    assert len(problems) == 3 and "no room" in problems[2]
    assert all(f"failures.jsonl, line {line}, can't be read" in problems[line - 2] for line in (2, 3))


def test_what_orphans_of_a_killed_run_noted_is_no_failure(tmp_path: Path) -> None:
    other = replace(CELL, seed=1)
    write(tmp_path / "records" / CELL.file_name, RESULT)
    (tmp_path / "mine.cells").write_text(f"{CELL.file_name}\n{other.file_name}\n")
    (tmp_path / "failures.jsonl").write_text("".join(
        as_line({"cell": one.as_dict(), "reason": "[Errno 32] Broken pipe"}) + "\n" for one in (CELL, other)))
    found = read_cells(tmp_path)
    assert found.problems == [] and found.missing == {other.file_name: ""}


def test_a_success_takes_its_failure_off_the_list(tmp_path: Path) -> None:
    path, other = tmp_path / "failures.jsonl", replace(CELL, seed=1)
    told = [as_line({"cell": one.as_dict(), "reason": "no room"}) for one in (CELL, other, CELL)]
    path.write_text("\n".join([*told, "half a li"]))
    clear_failure(path, CELL)
    assert path.read_text() == f"{told[1]}\nhalf a li"
    path.write_text(told[1] + "\n")
    clear_failure(path, other)
    clear_failure(path, other)
    assert not path.exists()


def test_what_can_not_be_opened_is_told_and_the_rest_counts(tmp_path: Path) -> None:
    write(tmp_path / "records" / CELL.file_name, RESULT)
    (tmp_path / "records" / "folder.jsonl").mkdir()
    (tmp_path / "records" / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    found = read_cells(tmp_path)
    assert [one.cell for one in found.cells] == [CELL]
    assert len(found.problems) == 2 and "folder.jsonl" in found.problems[0] and "gone.jsonl" in found.problems[1]


def test_records_beside_those_of_a_run_count_as_well(tmp_path: Path) -> None:
    other = replace(CELL, seed=1)
    write(tmp_path / "records" / CELL.file_name, RESULT)
    write(tmp_path / "attack.jsonl", RESULT, cell=other.as_dict())
    write(tmp_path / "bare.jsonl", RESULT, cell=None)
    found = read_cells(tmp_path)
    assert [one.cell for one in found.cells] == [CELL, other]
    assert len(found.problems) == 1 and "bare.jsonl, line 1" in found.problems[0]


# Going on


def header(**changes: object) -> dict[str, object]:
    about = {"versions": {"dualmask": "1"}, "revision": "abc", "hardware": {"cores": 2}, "grid": "g"}
    return {"format": FORMAT, "cell": CELL.as_dict(), "labels": ["bad", "good"], "dualmask": "1", "about": about,
            **changes}


def go_on(path: Path, given: dict[str, object]) -> dict[str, object]:
    ResultFile(path, given, resume=True, overwrite=False).close()
    return read_results(path)[0]


def test_a_run_that_goes_on_elsewhere_keeps_where_it_began(tmp_path: Path) -> None:
    path, first = tmp_path / "a.jsonl", header()
    assert go_on(path, first) == first and go_on(path, header()) == first
    new = {"versions": {"dualmask": "2"}, "revision": "abc", "hardware": {"cores": 2}}
    later = header(dualmask="2", about={**new, "grid": "g"})
    expected = {**first, "about": {**first["about"], "resumed": [new]}}  # type: ignore[dict-item]
    assert go_on(path, later) == expected and go_on(path, later) == expected
    assert go_on(path, header())["about"]["resumed"] == [  # type: ignore[index]
        new, {name: value for name, value in first["about"].items() if name != "grid"}]  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match="labels: "):
        go_on(path, header(labels=["good", "bad"]))


def test_a_text_that_is_there_twice_is_done_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", RESULT, replace(RESULT, index=4), RESULT)
    file = ResultFile(path, read_results(path)[0], resume=True, overwrite=False)
    assert [one.index for one in file.done] == [4]
    file.add(RESULT)
    file.close()
    assert read_cell(path).results == [RESULT, replace(RESULT, index=4)]


def test_cells_that_were_not_begun_are_told(tmp_path: Path) -> None:
    write(tmp_path / "records" / CELL.file_name, RESULT)
    other = replace(CELL, seed=1).file_name
    (tmp_path / "mine.cells").write_text(f"{CELL.file_name}\n{other}\n")
    found = read_cells(tmp_path)
    assert len(found.cells) == 1 and found.problems == [] and found.missing == {other: ""}
    write(tmp_path / "records" / other, RESULT, cell=replace(CELL, seed=1).as_dict())
    assert read_cells(tmp_path).missing == {}


def test_what_is_wrong_beside_records_is_told_and_the_rest_counts(tmp_path: Path) -> None:
    write(tmp_path / "records" / CELL.file_name, RESULT)
    other = replace(CELL, seed=-1, scores="still").file_name
    long = replace(CELL, data="x" * 300).file_name
    (tmp_path / "mine.cells").write_text("\n".join([other, other[:20], "<b>foreign</b>", long, f"../{other}"]))
    (tmp_path / "x.cells").mkdir()
    (tmp_path / "other" / "failures.jsonl").mkdir(parents=True)
    (tmp_path / "failures.jsonl").write_text("[" * 200_000 + "\n")
    found = read_cells(tmp_path)
    assert len(found.cells) == 1 and found.missing == {other: ""} and len(found.problems) == 4
    for told in ("files, found '../mr.", "(4 such)", "x.cells can't be read: it is a folder",
                 "failures.jsonl, line 1, can", "failures.jsonl can't be read: it is a folder"):
        assert sum(told in problem for problem in found.problems) == 1, told
    assert "not begun" in markdown(build_report(found))


def test_only_records_are_replaced(tmp_path: Path) -> None:
    """A data file that is named as the place of the records is still there, also under another name."""
    data, link = tmp_path / "data.csv", tmp_path / "link.jsonl"
    data.write_text("text,label\ngood movie,1\n")
    os.link(data, link)
    for path in (data, link):
        with pytest.raises(OptionError, match="holds no records and is not replaced"):
            ResultFile(path, header(), resume=False, overwrite=True)
    assert data.read_text() == "text,label\ngood movie,1\n"
    (tmp_path / "empty.jsonl").touch()
    for path in (tmp_path / "empty.jsonl", write(tmp_path / "a.jsonl", RESULT)):
        ResultFile(path, header(), resume=False, overwrite=True).close()
        assert read_results(path)[1] == []


def test_a_folder_without_records_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="dualmask bench GRID"):
        read_cells(tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        read_cells(tmp_path / "nowhere")
    (tmp_path / "bad.jsonl").write_text("?\n")
    with pytest.raises(DataError, match=r"no records that can be read .*bad\.jsonl, line 1"):
        read_cells(tmp_path)


def test_a_file_that_can_not_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "report.md"
    keep("good \ud800", path)
    assert path.read_text(encoding="utf-8") == "good \\ud800"

    def full(*given: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(OptionError, match=r"report\.md can't be written: the disk is full \(No space left"):
            keep("bad", path)
    assert path.read_text(encoding="utf-8") == "good \\ud800" and list(path.parent.iterdir()) == [path]


def test_what_made_a_record_is_told_without_loading_torch() -> None:
    code = ("import sys, json; from dualmask.evaluation.records import provenance; p = provenance();"
            "print(json.dumps([p, 'torch' in sys.modules]))")
    found, loaded = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    assert not loaded and found["versions"] == provenance()["versions"] and "torch" in found["versions"]
    assert found["hardware"]["cores"] >= 1 and (found["revision"] is None or len(found["revision"]) >= 12)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_checkout_of_something_else_is_not_this_code(tmp_path: Path) -> None:
    place = tmp_path / "project" / "env" / "dualmask"
    shutil.copytree(Path(dualmask.__file__).parent, place, ignore=shutil.ignore_patterns("__pycache__"))
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "init", "-q"], cwd=tmp_path / "project", check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], cwd=tmp_path / "project", check=True)

    def told() -> str:
        code = "from dualmask.evaluation.records import revision; print(revision())"
        return subprocess.run([sys.executable, "-B", "-c", code], cwd=tmp_path, check=True, capture_output=True,
                              text=True, env={**os.environ, "PYTHONPATH": str(place.parent)}).stdout

    assert told() == "None\n"
    subprocess.run([*git, "add", "."], cwd=tmp_path / "project", check=True)
    subprocess.run([*git, "commit", "-q", "-m", "y"], cwd=tmp_path / "project", check=True)
    assert len(told()) == 13
    (place / "cli.py").write_text("")
    assert told().endswith(" with changes\n")
