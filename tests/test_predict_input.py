# SPDX-License-Identifier: Apache-2.0
"""Input on the command line: standard input and pipes, remembered columns, encodings and empty texts."""

import csv
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from dualmask.attacks.running import attack
from dualmask.classifier import DefendedClassifier
from dualmask.cli import main
from dualmask.errors import OptionError
from dualmask.evaluation.certification import CertifyingOptions, certify, under
from dualmask.prediction import predict_file
from dualmask.text.columns import Columns
from dualmask.text.examples import Dataset, load_dataset
from dualmask.training import train

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def model(tiny: Callable[[str], Path], data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained on columns with names that come late among the usual ones."""
    folder = tmp_path_factory.mktemp("remembering")
    rows = [(f"{row.text}", data.labels[row.label]) for row in data.train]
    with (folder / "train.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("title", "stars"), *rows])
    settings = {"epochs": 1, "learning_rate": 1e-2, "max_length": 48}
    train(load_dataset(folder / "train.csv"), encoder=tiny("bert"), training=settings, out=folder / "model",
          progress=False)
    return folder / "model"


class Given:
    """Standard input with something in it."""

    def __init__(self, content: bytes, terminal: bool = False) -> None:
        self.buffer, self.terminal = BytesIO(content), terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """The entry point with something piped in: exit code, standard output, standard error in one line."""
    def call(*arguments: object, given: bytes = b"", terminal: bool = False) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dualmask", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", Given(given, terminal))
        monkeypatch.setenv("COLUMNS", "150")
        with pytest.raises(SystemExit) as stop:
            main()
        shown = capsysbinary.readouterr()
        return int(stop.value.code or 0), shown.out.decode(), " ".join(shown.err.decode().split())

    return call


@pytest.mark.parametrize("how", [[], ["-"], ["--file", "-"], ["--file", "/dev/stdin"]])
def test_standard_input_is_one_text_a_line(run: Run, model: Path, how: list[str]) -> None:
    code, out, err = run("predict", model, *how, "--format", "csv", given="good movie\nünï\n\n".encode())
    rows = list(csv.DictReader(out.splitlines()))
    assert code == 0 and [row["text"] for row in rows] == ["good movie", "ünï", ""]
    assert all(row["predicted"] in ("good", "bad") for row in rows)
    assert "note: 1 of 3 texts are empty; their answers mean nothing." in err


def test_a_table_through_a_pipe_says_what_it_is(run: Run, model: Path) -> None:
    rows = b'{"id": 7, "title": "good"}\n{"title": "bad movie", "id": 8, "new": [1]}\n'
    code, out, err = run("predict", model, "--file", "-", "--input-format", "jsonl", "--format", "jsonl", given=rows)
    found = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [row["id"] for row in found] == [7, 8] and found[1]["new"] == [1], err
    code, out, err = run("predict", model, "-", "--input-format", "csv", "--format", "tsv",
                         given="stars;title\n1;bon café\n".encode("cp1252"))
    assert code == 2 and "standard input, line 2: byte 0xe9" in err
    code, out, err = run("predict", model, "-", "--input-format", "csv", "--format", "tsv", "--encoding", "cp1252",
                         given="stars;title\n1;bon café\n".encode("cp1252"))
    assert code == 0 and out.splitlines()[1].startswith("1\tbon café\t")


def test_a_stream_to_a_file_is_there_whole_or_not_at_all(run: Run, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    code, _, err = run("predict", model, "-", "--out", out, given=b"good movie\nbad\n")
    assert code == 0 and len(out.read_text().splitlines()) == 3 and f"written to {out}" in err
    code, _, err = run("predict", model, "--file", "-", "--input-format", "jsonl", "--out", tmp_path / "new.csv",
                       given=b'{"text": "a"}\n{"text": \n')
    assert code == 2 and "line 2: invalid JSON" in err and list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(("arguments", "terminal", "told"), [
    (["predict", "{model}"], True, "nothing is piped in; give texts in quotes"),
    (["predict", "{model}"], False, "standard input is empty, expected texts; pipe some in"),
    (["predict", "{model}", "-", "good"], False, "- stands for standard input and can't stand among texts"),
    (["predict", "{model}", "-", "--resume", "--out", "x.csv"], False, "standard input can be read only once"),
    (["predict", "{model}", "good", "--input-format", "csv"], False, "--input-format is of a file"),
    (["predict", "{model}", "good", "--encoding", "cp125"], False, "did you mean 'cp1252'"),
    (["predict", "{model}", "good", "", "--empty", "refuse"], False, "text 2 of 2 is empty"),
    (["predict", "{model}", "--file", "{folder}/f", "--out", "/dev/full", "--format", "csv", "--input-format", "text"],
     False, "/dev/full can't be written: the disk is full (No space left on device). Make room there"),
])
def test_what_can_not_be_meant_is_refused_with_a_reason(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], terminal: bool,
    told: str,
) -> None:
    if "/dev/full" in arguments and not os.path.exists("/dev/full"):
        pytest.skip("a device that is always full is Linux's")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").write_text("good\n")
    code, out, err = run(*(part.format(model=model, folder=tmp_path) for part in arguments), terminal=terminal)
    assert (code, out) == (2, "") and err.startswith("error: ") and told in err


def test_a_terminal_that_was_asked_for_is_read(run: Run, model: Path) -> None:
    code, out, err = run("predict", model, "-", given=b"good movie\n", terminal=True)
    assert code == 0 and "good movie" in out and "one a line; Ctrl-D" in err


@pytest.mark.slow
def test_named_pipes_and_a_shells_substitutes_are_read_once(model: Path, tmp_path: Path) -> None:
    """As a shell gives them; a name that tells nothing is one text a line, and that is said."""
    entry = [sys.executable, "-c", "from dualmask.cli import main; main()", "predict", str(model), "--format", "csv"]
    os.mkfifo(tmp_path / "in.csv")
    shell = f"printf 'title\\ngood movie\\n' > {tmp_path}/in.csv & exec \"$@\" --file {tmp_path}/in.csv"
    made = subprocess.run(["bash", "-c", shell, "x", *entry], capture_output=True, text=True, timeout=120)
    assert made.returncode == 0 and made.stdout.splitlines()[1].startswith("good movie,"), made.stderr
    shell = "exec \"$@\" --file <(printf 'good movie\\nbad\\n')"
    made = subprocess.run(["bash", "-c", shell, "x", *entry], capture_output=True, text=True, timeout=120)
    assert made.returncode == 0 and len(made.stdout.splitlines()) == 3
    assert "is read as one text a line; of a table say --input-format" in made.stderr


@pytest.mark.slow
def test_a_line_is_answered_before_the_next_one_comes(model: Path) -> None:
    """Whoever waits for an answer before he writes on would wait for ever if answers waited for the end."""
    entry = [sys.executable, "-c", "from dualmask.cli import main; main()", "predict", str(model), "--format", "csv"]
    with subprocess.Popen(entry, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as asked:
        assert asked.stdin is not None and asked.stdout is not None
        timer = threading.Timer(240, asked.kill)  # for a fault alone: nothing is measured by it
        timer.start()
        for text in ("good movie", "bad plot", "dull"):
            asked.stdin.write(f"{text}\n")
            answers = [asked.stdout.readline() for _ in range(2 if text == "good movie" else 1)]
            assert answers[-1].startswith(f"{text},")
        asked.stdin.close()
        assert asked.stdout.read() == "" and asked.wait() == 0
        timer.cancel()


def test_a_saved_model_remembers_its_columns(run: Run, model: Path, tmp_path: Path) -> None:
    facts = DefendedClassifier.load(model, device="cpu").facts
    assert facts["columns"] == {"text": "title", "label": "stars", "pair": None}
    (tmp_path / "t.csv").write_text("text,label,stars,title\nx,7,good,great movie\ny,8,bad,dull plot\n")
    code, out, err = run("predict", model, "--file", tmp_path / "t.csv", "--format", "jsonl")
    whole = "note: columns as the model was trained: text 'title'"
    assert code == 0 and err.count(whole) == 1 and "(others: --text-column)." in err
    right = DefendedClassifier.load(model, device="cpu").predict(["great movie", "dull plot"]).probabilities[:, 0]
    assert [json.loads(line)["p_bad"] for line in out.splitlines()] == pytest.approx(right.tolist(), abs=1e-5)
    for out_file in (tmp_path / "o.csv", tmp_path / "o.jsonl"):
        assert run("predict", model, "--file", tmp_path / "t.csv", "--out", out_file)[2].count(whole) == 1
    assert "columns as" not in run("predict", model, "--file", tmp_path / "t.csv", "--text-column", "text")[2]
    for command in (["attack", model, tmp_path / "t.csv", "--attack", "deepwordbug", "--no-measure"],
                    ["certify", model, tmp_path / "t.csv", "--under", "ranmask", "--draws", "10", "--selection", "2"]):
        code, _, err = run(*command, "--quiet")
        assert code == 0 and f"{whole}, label 'stars' (others: --text-column, --label-column)." in err
        code, _, err = run(*command, "--quiet", "--label-column", "label")
        assert code == 2 and "unknown label '7'" in err


def test_python_is_told_of_columns_as_well(model: Path, tmp_path: Path) -> None:
    classifier, told = DefendedClassifier.load(model, device="cpu"), list[str]()
    (tmp_path / "t.csv").write_text("text,title\nx,great movie\n")
    predict_file(classifier, tmp_path / "t.csv", tmp_path / "a.csv", progress=False, tell=told.append)
    assert len(told) == 1 and "text 'title'" in told[0]
    predict_file(classifier, tmp_path / "t.csv", tmp_path / "b.csv", progress=False, columns=Columns("title"))
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_attacks_and_certificates_in_python_remember_as_well(model: Path, tmp_path: Path) -> None:
    classifier = DefendedClassifier.load(model, device="cpu")
    (tmp_path / "t.csv").write_text("text,label,stars,title\nx,7,good,great movie\ny,8,bad,dull plot\n")
    found = attack(classifier, str(tmp_path / "t.csv"), "deepwordbug", measure=None)
    assert [(one.text, one.label) for one in found] == [("great movie", 1), ("dull plot", 0)]
    proved = certify(under(classifier, "ranmask"), tmp_path / "t.csv", CertifyingOptions(draws=10, selection=2))
    assert [one.text for one in proved.records] == ["great movie", "dull plot"]


def test_empty_texts_of_a_file(run: Run, model: Path, tmp_path: Path) -> None:
    source = tmp_path / "t.csv"
    source.write_text("id,title,stars\n1,good movie,good\n2,,bad\n3, ,good\n4,dull,bad\n")
    code, out, err = run("predict", model, "--file", source, "--out", tmp_path / "s.csv", "--empty", "skip")
    rows = list(csv.DictReader((tmp_path / "s.csv").open()))
    assert code == 0 and "2 rows answered" in out and "note: 2 of 4 texts are empty and were skipped." in err
    assert [row["id"] for row in rows] == ["1", "2", "3", "4"] and "passes a text" not in out
    assert [bool(row["predicted"]) for row in rows] == [True, False, False, True] and rows[1]["p_good"] == ""
    code, out, err = run("predict", model, "--file", source, "--format", "jsonl", "--empty", "skip")
    assert [json.loads(line)["predicted"] is None for line in out.splitlines()] == [False, True, True, False]
    code, out, err = run("predict", model, "--file", source, "--empty", "skip")
    assert "good movie" in out and len([line for line in out.splitlines() if "%" in line]) == 2
    for more in (["--out", tmp_path / "r.csv"], ["--format", "csv"], []):
        code, out, err = run("predict", model, "--file", source, "--empty", "refuse", *more)
        assert (code, out) == (2, "") and "line 3: empty text in column 'title'" in err
    assert not (tmp_path / "r.csv").exists()
    code, out, err = run("predict", model, "--file", source, "--format", "csv")
    assert code == 0 and "2 of 4 texts are empty; their answers mean nothing" in err
    assert all(row["predicted"] for row in csv.DictReader(out.splitlines()))


def test_skipped_rows_are_resumed_with_the_others(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    classifier, source = DefendedClassifier.load(model, device="cpu"), tmp_path / "t.csv"
    source.write_text("title\n" + "\n".join(f'"{"" if n % 3 else f"good {n}"}"' for n in range(30)) + "\n")
    whole = predict_file(classifier, source, tmp_path / "whole.csv", empty="skip", chunk=2, progress=False)
    assert whole.skipped == whole.skipped_now == whole.empty == 20 and sum(whole.counts.values()) == 10
    real, asked = classifier.predict, list[int]()

    def failing(texts: list[str], **options: bool) -> object:
        asked.append(len(texts))
        if len(asked) > 7:
            raise KeyboardInterrupt
        return real(texts, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(classifier, "predict", failing)
    with pytest.raises(KeyboardInterrupt):
        predict_file(classifier, source, tmp_path / "part.csv", empty="skip", chunk=2, progress=False)
    monkeypatch.setattr(classifier, "predict", real)
    with pytest.raises(OptionError, match="empty was 'skip' and is None"):
        predict_file(classifier, source, tmp_path / "part.csv", chunk=2, resume=True, progress=False)
    again = predict_file(classifier, source, tmp_path / "part.csv", empty="skip", chunk=2, resume=True, progress=False)
    assert (tmp_path / "part.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert (again.resumed, again.skipped, again.rows) == (14, 20, 30) and 0 < again.skipped_now < 20


def test_attacks_and_training_count_what_is_empty(
    run: Run, model: Path, tiny: Callable[[str], Path], tmp_path: Path,
) -> None:
    (tmp_path / "t.csv").write_bytes("title,stars\ngood café,good\n,bad\ndull,bad\n".encode("cp1252"))
    command = ["attack", model, tmp_path / "t.csv", "--attack", "deepwordbug", "--no-measure", "--quiet", "--encoding",
               "latin-1"]
    assert "line 3: empty text in column 'title'" in run(*command)[2]
    code, out, err = run(*command, "--empty", "skip")
    assert code == 0 and "1 of 3 texts of" in err and "and were skipped" in err and "2 of 2 texts" in out
    code, out, err = run(*command, "--empty", "answer")
    assert code == 0 and "taken like any other" in err and "3 of 3 texts" in out
    rows = "".join(f"{'' if n == 5 else f'good {n}'},{'ab'[n % 2]}\n" for n in range(40))
    (tmp_path / "d.csv").write_text(f"text,label\n{rows}")
    command = ["train", tmp_path / "d.csv", "--encoder", tiny("bert"), "--epochs", "1", "--max-length", "48", "--quiet",
               "--defence", "plain", "--out"]
    code, _, err = run(*command, tmp_path / "m")
    assert code == 2 and "line 7: empty text" in err and not (tmp_path / "m").exists()
    code, _, err = run(*command, tmp_path / "m", "--empty", "skip")
    assert code == 0 and "note: rows without a text: 1; none of them is trained on." in err
    facts = json.loads((tmp_path / "m" / "dualmask.json").read_text())["training"]
    assert facts["rows"]["train"] == 39
