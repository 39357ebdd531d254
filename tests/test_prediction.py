# SPDX-License-Identifier: Apache-2.0
"""Prediction of files: formats, order, round trips, resumption after a kill, and how answers are shown."""

import csv
import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from dualmask.answers import Item, Layout, cell, output_format, scored
from dualmask.classifier import DefendedClassifier, Masked, Predictions
from dualmask.cli import app
from dualmask.defences.fgws import FGWS
from dualmask.display import LONGEST, confidence_bar, marked_text, scored_words, show_predictions, show_summary
from dualmask.errors import DataError, ModelFileError, OptionError, ResourceError
from dualmask.evaluation.detection import detection
from dualmask.prediction import Job, Summary, beside, predict_file, read_items
from dualmask.prediction_inputs import ANSWERED
from dualmask.results import read_results
from dualmask.text.columns import Columns
from dualmask.text.examples import Dataset
from dualmask.text.tables import iter_rows
from dualmask.training import train


@pytest.fixture(scope="module")
def model(tiny: Callable[[str], Path], data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "saved"
    settings = {"epochs": 2, "learning_rate": 1e-2, "max_length": 48, "patience": 0}
    train(data, encoder=tiny("bert"), defence="ddm", training=settings, out=folder, progress=False)
    return folder


@pytest.fixture(scope="module")
def classifier(model: Path) -> DefendedClassifier:
    return DefendedClassifier.load(model, device="cpu")


HOSTILE = ["good, \"great\" movie", "two\nlines", "a\rcarriage\r\nreturn", "  spaces  ", "tab\there", "emoji 🎬", "",
           "\u202eturned\u202c \u200bzero", "=1+1", "'", '"', "x" * 5000, ";semicolon;"]


def write_csv(path: Path, rows: list[dict[str, str]], delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter, quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
    return path


def many_rows(path: Path, count: int = 60) -> Path:
    words = ["good", "bad", "movie", "plot", "rare", "dull"]
    rows = [{"id": str(n), "text": " ".join(words[(n * k + k) % 6] for k in range(1, 2 + n % 9))} for n in range(count)]
    return write_csv(path, rows)


def test_csv_keeps_columns_order_and_texts_and_adds_the_answers(classifier: DefendedClassifier, tmp_path: Path) -> None:
    rows = [{"id": str(n), "text": text, "note": text[::-1]} for n, text in enumerate(HOSTILE)]
    source = write_csv(tmp_path / "in.csv", rows)
    for ending in ("csv", "tsv"):
        out = tmp_path / f"out.{ending}"
        summary = predict_file(classifier, source, out, chunk=5, progress=False)
        found = list(iter_rows(out, allow_empty=True))
        assert [{name: row.fields[name] for name in ("id", "text", "note")} for row in found] == rows
        assert list(found[0].fields) == ["id", "text", "note", "predicted", "confidence", "p_bad", "p_good"]
        expected = classifier.predict(HOSTILE)
        assert [row.fields["predicted"] for row in found] == expected.labels
        for row, answer in zip(found, expected.probabilities.tolist(), strict=True):
            given = [float(row.fields[f"p_{label}"]) for label in classifier.labels]
            assert given == pytest.approx(answer, abs=1e-5)
            assert float(row.fields["confidence"]) == max(given)
        assert summary.rows == len(HOSTILE) == sum(summary.counts.values())
        assert not list(tmp_path.glob("*.partial*")) and not list(tmp_path.glob("*.progress*"))


def test_json_lines_keep_the_types_of_values_and_ragged_rows(classifier: DefendedClassifier, tmp_path: Path) -> None:
    rows = [{"id": 1, "text": "good movie", "tags": ["a", None], "x": 0.5}, {"text": "ünï", "new": True},
            {"text": None, "predicted": "mine"}, {"text": "a plot", "odd": "\ud83d"}]
    source = tmp_path / "in.jsonl"
    source.write_text("\n".join(map(json.dumps, rows)))
    predict_file(classifier, source, tmp_path / "out.jsonl", progress=False)
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    for before, after in zip(rows, found, strict=True):
        assert {name: after[name] for name in before} == before
        assert after["dualmask_predicted"] in classifier.labels  # one name for the whole file, since one row has it
        assert set(after) - set(before) == {"dualmask_predicted", "confidence", "p_bad", "p_good"}
    predict_file(classifier, source, tmp_path / "out.csv", progress=False)
    table = list(csv.DictReader((tmp_path / "out.csv").open(encoding="utf-8", newline="")))
    assert list(table[0])[:6] == ["id", "text", "tags", "x", "new", "predicted"]
    assert table[0]["tags"] == '["a", null]' and table[1]["id"] == "" and table[1]["new"] == "true"


def test_a_file_can_be_predicted_again_and_again(classifier: DefendedClassifier, tmp_path: Path) -> None:
    files = [many_rows(tmp_path / "0.csv", 3), *(tmp_path / f"{n}.csv" for n in (1, 2, 3))]
    for source, out in pairwise(files):
        predict_file(classifier, source, out, progress=False)
    header = files[-1].read_text().splitlines()[0].split(",")
    assert len(header) == len(set(header)) == 2 + 3 * 4
    assert header[-4:] == [f"dualmask_dualmask_{name}" for name in ("predicted", "confidence", "p_bad", "p_good")]


def test_explain_adds_what_was_masked(classifier: DefendedClassifier, tmp_path: Path) -> None:
    source = write_csv(tmp_path / "in.csv", [{"text": "the zzz movie was good"}, {"text": ""}])
    predict_file(classifier, source, tmp_path / "out.csv", explain=True, progress=False)
    rows = list(csv.DictReader((tmp_path / "out.csv").open(newline="")))
    [span] = json.loads(rows[0]["masked"])
    assert (span["text"], span["start"], span["end"]) == ("zzz", 4, 7) and isinstance(span["score"], float)
    assert json.loads(rows[1]["masked"]) == []
    predict_file(classifier, source, tmp_path / "off.jsonl", explain=True, defended=False, progress=False)
    found = json.loads((tmp_path / "off.jsonl").read_text().splitlines()[0])
    assert found["masked"] == []
    off = classifier.predict(["the zzz movie was good"], defended=False).probabilities[0].tolist()
    assert [found["p_bad"], found["p_good"]] == pytest.approx(off, abs=1e-5)


@pytest.fixture(scope="module")
def detector(tiny: Callable[[str], Path], data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved detector that flags some of the texts below."""
    folder = tmp_path_factory.mktemp("detector") / "saved"
    settings = {"epochs": 20, "batch_size": 16, "learning_rate": 5e-3, "max_length": 48, "patience": 0}
    found = train(data, encoder=tiny("bert"), defence="fgws", options={"percentile": 90}, training=settings,
                  progress=False)
    assert isinstance(found.defence, FGWS)
    suspicion = found.predict(DOUBTED).suspicion
    assert suspicion is not None and float(suspicion.max()) > 0.1
    found.defence.gamma.fill_(suspicion.mean())
    found.save(folder)
    return folder


DOUBTED = ["the film was a lousy one", "a terrible plot", "dreadful actors and scenes", "a nice plot", "the movie", "",
           "excellent", "a good but boring flick", "the nice awful film"]  # rare words, and their synonyms are not


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_files_of_a_detector_tell_suspicion_and_flags(detector: Path, tmp_path: Path, ending: str) -> None:
    found = DefendedClassifier.load(detector, device="cpu")
    source = write_csv(tmp_path / "in.csv", [{"text": text} for text in DOUBTED])
    predict_file(found, source, tmp_path / f"out.{ending}", chunk=3, progress=False)
    rows = [row.fields for row in iter_rows(tmp_path / f"out.{ending}", allow_empty=True)]
    assert list(rows[0]) == ["text", "predicted", "confidence", "p_bad", "p_good", "suspicion", "flagged"]
    expected, threshold = found.predict(DOUBTED).suspicion, found.defence.threshold
    assert expected is not None and threshold is not None
    assert [float(str(row["suspicion"])) for row in rows] == pytest.approx(expected.tolist(), abs=1e-5)
    flags = [json.loads(str(row["flagged"]).lower()) for row in rows]
    assert flags == (expected > threshold).tolist() and 0 < sum(flags) < len(flags)
    predict_file(found, source, tmp_path / f"off.{ending}", defended=False, progress=False)
    assert list(next(iter_rows(tmp_path / f"off.{ending}")).fields)[-1] == "p_good"


def test_screens_tell_what_a_detector_found(detector: Path) -> None:
    def told(*arguments: str) -> list[str]:
        result = CliRunner().invoke(app, ["predict", str(detector), *DOUBTED[:2], *arguments], env={"COLUMNS": "120"})
        assert result.exit_code == 0, result.output
        return [line.rstrip() for line in result.output.splitlines() if line.strip()]

    answers = DefendedClassifier.load(detector, device="cpu").predict(DOUBTED[:2])
    lines = told()
    assert lines[0].split() == ["label", "confidence", "suspicion", "flagged", "text"]
    for line, pair in zip(lines[1:], scored(answers, 0.0), strict=True):
        assert f"{pair[0]}  " in line and (" true  " in line or " false  " in line)
    assert told("--undefended")[0].split() == ["label", "confidence", "text"]
    assert told("--format", "csv")[0] == "text,predicted,confidence,p_bad,p_good,suspicion,flagged"


def test_an_attack_on_a_detector_tells_what_it_flagged(detector: Path, tmp_path: Path) -> None:
    rows = [{"text": text, "label": "good" if "nice" in text or "excellent" in text else "bad"} for text in DOUBTED]
    source, records = write_csv(tmp_path / "in.csv", [row for row in rows if row["text"]]), tmp_path / "records.jsonl"

    def told(*arguments: str) -> str:
        command = ["attack", str(detector), str(source), "--attack", "deepwordbug", "--no-measure", "--quiet"]
        result = CliRunner().invoke(app, [*command, *arguments], env={"COLUMNS": "150"})
        assert result.exit_code == 0, result.output
        return " ".join(result.output.split())

    shown, (header, results) = told("--out", str(records)), read_results(records)
    found = detection(results, float(str(header["threshold"])))
    assert found.clean == len(DOUBTED) - 1 and found.adversarial and found.false_alarms
    assert f"({found.detected}/{found.adversarial}) of adversarial texts, successful or not; " in shown
    assert f"({found.false_alarms}/{found.clean}) of clean ones" in shown
    assert "flagged" not in told("--undefended") + told("--sequential")


def test_flags_are_set_before_scores_are_rounded() -> None:
    answers = Predictions(["good", "bad"], torch.tensor([[0.25, 0.75]] * 2), suspicion=torch.tensor([1e-8, 0.0]))
    assert scored(answers, 0.0) == [(0.0, True), (0.0, False)]
    assert scored(answers, None) == [(), ()]


def test_without_its_defence_a_classifier_that_rewrites_texts_hid_nothing(detector: Path) -> None:
    found = DefendedClassifier.load(detector, device="cpu")
    assert found.predict(DOUBTED, explain=True, defended=False).masked == [[]] * len(DOUBTED)
    with pytest.raises(OptionError, match="rewrites texts"):
        found.predict(DOUBTED, explain=True)


@pytest.mark.parametrize(("passes", "views", "told"), [
    (20, 2, ""), (10, 1, ""), (510, 100, "51.0 of 100 passes a text (51%)"), (52, 55, "5.2 of 55 passes a text (9%)")])
def test_saved_passes_are_told_where_there_are_any(passes: int, views: int, told: str) -> None:
    screen = io.StringIO()
    show_summary(Console(file=screen, width=100), Summary(Path("x"), 13, 3, {"good": 13}, 1.0, passes, views))
    assert told in screen.getvalue() and ("passes" in screen.getvalue()) == bool(told)


def test_pairs_and_chosen_columns(classifier: DefendedClassifier, tmp_path: Path) -> None:
    source = write_csv(tmp_path / "in.csv", [{"text": "no", "one": "good movie", "two": "zzz plot and scene"}])
    predict_file(classifier, source, tmp_path / "out.jsonl", columns=Columns("one", None, "two"), explain=True,
                 progress=False)
    row = json.loads((tmp_path / "out.jsonl").read_text())
    expected = classifier.predict([("good movie", "zzz plot and scene")], explain=True)
    assert row["p_good"] == pytest.approx(float(expected.probabilities[0, 1]), abs=1e-5)
    assert row["masked"][0]["text"] == "zzz" and row["masked"][0]["part"] == 1


def test_text_files_and_parquet(classifier: DefendedClassifier, tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    (tmp_path / "in.txt").write_text("good movie\n\nbad plot\n")
    predict_file(classifier, tmp_path / "in.txt", tmp_path / "a.csv", progress=False)
    assert [row["text"] for row in csv.DictReader((tmp_path / "a.csv").open())] == ["good movie", "", "bad plot"]
    parquet.write_table(pyarrow.table({"n": [1, 2], "text": ["good movie", "bad plot"]}), tmp_path / "in.parquet")
    predict_file(classifier, tmp_path / "in.parquet", tmp_path / "b.jsonl", progress=False)
    assert [json.loads(line)["n"] for line in (tmp_path / "b.jsonl").read_text().splitlines()] == [1, 2]


def test_a_bad_row_far_down_is_told_before_any_answer(classifier: DefendedClassifier, tmp_path: Path) -> None:
    source = many_rows(tmp_path / "in.csv")
    with source.open("ab") as file:
        file.write(b"1,caf\xe9\n")
    with pytest.raises(DataError, match=r"line 62.*not UTF-8"):
        predict_file(classifier, source, tmp_path / "out.csv", chunk=10, progress=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv"]


def test_nothing_is_overwritten_unasked(classifier: DefendedClassifier, tmp_path: Path) -> None:
    source, out = many_rows(tmp_path / "in.csv", 5), tmp_path / "out.csv"
    out.write_text("precious")
    with pytest.raises(OptionError, match="exists already: choose"):
        predict_file(classifier, source, out, progress=False)
    with pytest.raises(OptionError, match="no unfinished run is there to resume"):
        predict_file(classifier, source, out, resume=True, progress=False)
    assert out.read_text() == "precious"
    predict_file(classifier, source, out, overwrite=True, progress=False)
    assert out.read_text().startswith("id,text,predicted")
    with pytest.raises(OptionError, match="is the input itself"):
        predict_file(classifier, source, source, overwrite=True, progress=False)


@pytest.mark.parametrize(("name", "given", "message"), [
    ("out.xlsx", None, "ending '.xlsx'"), ("out", None, "tells no output format"),
    ("out.csv", "table", "can't be written"),
])
def test_output_formats_that_cannot_be(name: str, given: str | None, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        output_format(Path(name), given)
    assert output_format(Path("x.ndjson"), None) == "jsonl" and output_format(Path("x.dat"), "tsv") == "tsv"


def test_places_that_cannot_be_written(classifier: DefendedClassifier, tmp_path: Path) -> None:
    source = many_rows(tmp_path / "in.csv", 2)
    (tmp_path / "folder.csv").mkdir()
    for out, message in ((tmp_path / "no" / "out.csv", "does not exist"), (tmp_path / "folder.csv", "is a folder")):
        with pytest.raises(OptionError, match=message):
            predict_file(classifier, source, out, progress=False)
    with pytest.raises(DataError, match="no such file"):
        predict_file(classifier, tmp_path / "inn.csv", tmp_path / "out.csv", progress=False)
    with pytest.raises(OptionError, match="chunk is 0"):
        predict_file(classifier, source, tmp_path / "out.csv", chunk=0, progress=False)


SLOW = """
import sys, time
import torch
torch.set_num_threads(1)
from dualmask.classifier import DefendedClassifier
from dualmask.prediction import predict_file

class Slow(DefendedClassifier):
    def predict(self, *texts, **options):
        time.sleep(0.3)
        return super().predict(*texts, **options)

model = DefendedClassifier.load(sys.argv[1], device="cpu")
model.__class__ = Slow
print("ready", flush=True)
predict_file(model, sys.argv[2], sys.argv[3], chunk=7, explain=True, progress=False)
"""


@pytest.mark.slow
def test_resumed_after_kill_9_the_file_is_the_same_to_the_byte(
    classifier: DefendedClassifier, model: Path, tmp_path: Path,
) -> None:
    source, out = many_rows(tmp_path / "in.csv"), tmp_path / "killed.csv"
    predict_file(classifier, source, tmp_path / "whole.csv", chunk=7, explain=True, progress=False)
    process = subprocess.Popen([sys.executable, "-c", SLOW, str(model), str(source), str(out)])
    note = beside(out, "progress.json")
    deadline = time.monotonic() + 60
    while not note.exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = json.loads(note.read_text())["rows"]
    assert 0 < done < 60 and not out.exists()
    with beside(out, "partial").open("ab") as file:  # a chunk that was written but never recorded
        file.write(b"59,rows that do not count\n" * 1000 + b'59,"half a ro')
    asked: list[int] = []
    watched = DefendedClassifier.load(model, device="cpu")
    original = watched.predict
    watched.predict = lambda texts, **options: asked.append(len(texts)) or original(texts, **options)  # type: ignore[method-assign]
    summary = predict_file(watched, source, out, chunk=7, explain=True, resume=True, progress=False)
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert sum(asked) == 60 - done and (summary.resumed, summary.rows) == (done, 60)
    assert sum(summary.counts.values()) == 60
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "killed.csv", "whole.csv"]


def stopped(
    classifier: DefendedClassifier, source: Path, out: Path, rows: int, *, safe_csv: bool = False,
) -> None:
    """A run that fails after `rows` rows, in chunks of 10."""
    real, seen = classifier.predict, 0

    class Failing:
        labels, defence, encode, network = classifier.labels, classifier.defence, classifier.encode, classifier.network
        fingerprint, facts = classifier.fingerprint, classifier.facts

        def predict(self, texts: list[str], **options: bool) -> Predictions:
            nonlocal seen
            seen += len(texts)
            if seen > rows:
                raise KeyboardInterrupt
            return real(texts, **options)  # type: ignore[arg-type]

    with pytest.raises(KeyboardInterrupt):
        predict_file(Failing(), source, out, chunk=10, progress=False, safe_csv=safe_csv)  # type: ignore[arg-type]


FORMULAS = ["=cmd|'/c calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", "\uff1d1", '="a,b"']
HARMLESS = ["a=b", "-5", "+4.2e-3", "'=1", "1-2", "", "*", "good"]


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_formulas_are_told_and_on_request_made_text(
    ending: str, classifier: DefendedClassifier, tmp_path: Path,
) -> None:
    rows = [{"id": str(n), "text": text, "=note": text} for n, text in enumerate([*FORMULAS, *HARMLESS])]
    source, out = write_csv(tmp_path / "in.csv", rows), tmp_path / f"plain.{ending}"
    summary = predict_file(classifier, source, out, chunk=10, progress=False)
    assert summary.formulas == 2 * len(FORMULAS) + 1
    separator = "\t" if ending == "tsv" else ","
    plain = list(csv.reader(io.StringIO(out.read_bytes().decode(), newline=""), delimiter=separator))
    assert [row[1] for row in plain[1:]] == [*FORMULAS, *HARMLESS], "programs get every text as it is"
    safe = tmp_path / f"safe.{ending}"
    assert predict_file(classifier, source, safe, chunk=10, progress=False, safe_csv=True).formulas == 0
    found = list(csv.reader(io.StringIO(safe.read_bytes().decode(), newline=""), delimiter=separator))
    assert found[0][:4] == ["id", "text", "'=note", "predicted"]
    assert [row[1] for row in found[1:]] == [*(f"'{text}" for text in FORMULAS), *HARMLESS]
    assert [row[3:] for row in found] == [row[3:] for row in plain]
    stopped(classifier, source, tmp_path / f"stopped.{ending}", 10)
    with pytest.raises(OptionError, match="safe_csv was None and is True"):
        predict_file(classifier, source, tmp_path / f"stopped.{ending}", resume=True, progress=False, safe_csv=True)
    stopped(classifier, source, tmp_path / f"cut.{ending}", 10, safe_csv=True)
    with pytest.raises(OptionError, match="safe_csv was True and is None"):
        predict_file(classifier, source, tmp_path / f"cut.{ending}", resume=True, progress=False)
    predict_file(classifier, source, tmp_path / f"cut.{ending}", chunk=10, resume=True, progress=False, safe_csv=True)
    assert (tmp_path / f"cut.{ending}").read_bytes() == safe.read_bytes()


def test_labels_may_be_formulas_and_numbers_are_none() -> None:
    layout = Layout.of("csv", ["text"], ["=evil", "good"], explain=False, safe=True)
    answers = Predictions(labels=["=evil"], probabilities=torch.tensor([[0.75, 0.25]]))
    assert layout.header() == b"text,predicted,confidence,p_=evil,p_good\n"
    assert layout.lines([Item({"text": -5}, "x")], answers) == b"-5,'=evil,0.75,0.75,0.25\n"


@pytest.mark.parametrize(("arguments", "told"), [
    (["--format", "jsonl"], "for CSV and TSV"), (["--out", "a.jsonl"], "for CSV and TSV"), ([], "for CSV and TSV"),
    (["--format", "csv"], ""), (["--format", "tsv"], ""), (["--out", "a.csv"], ""),
])
def test_safe_csv_on_the_command_line(
    arguments: list[str], told: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["predict", str(model), "=1+1", "good", *arguments]
    found = CliRunner().invoke(app, [*asked, "--safe-csv"])
    if told:
        assert isinstance(found.exception, OptionError) and told in str(found.exception)
        assert "formulas" not in CliRunner().invoke(app, asked).stderr
        return
    written = Path("a.csv").read_text() if "--out" in arguments else found.stdout
    assert "\n'=1+1" in written and "note" not in found.stderr
    found = CliRunner().invoke(app, [*asked, *(["--overwrite"] if "--out" in arguments else [])])
    written = Path("a.csv").read_text() if "--out" in arguments else found.stdout
    assert "\n=1+1" in written
    assert "note: in 1 place a text, a column's name or a label begins as a formula does" in found.stderr


def test_an_unfinished_run_is_resumed_only_as_the_same_job(classifier: DefendedClassifier, tmp_path: Path) -> None:
    source, out = many_rows(tmp_path / "in.csv"), tmp_path / "out.csv"
    stopped(classifier, source, out, 20)
    with pytest.raises(OptionError, match=r"unfinished run.*--resume.*--overwrite"):
        predict_file(classifier, source, out, progress=False)
    with pytest.raises(OptionError, match="explain was False and is True"):
        predict_file(classifier, source, out, explain=True, resume=True, progress=False)
    os.utime(source, (1, 1))
    with pytest.raises(OptionError, match="modified was"):
        predict_file(classifier, source, out, resume=True, progress=False)
    assert Job(**json.loads(beside(out, "progress.json").read_text())).rows == 20
    assert predict_file(classifier, source, out, overwrite=True, progress=False).resumed == 0
    assert len(out.read_text().splitlines()) == 61


def test_other_weights_are_another_model(classifier: DefendedClassifier, model: Path, tmp_path: Path) -> None:
    source, out = many_rows(tmp_path / "in.csv"), tmp_path / "out.csv"
    stopped(classifier, source, out, 20)
    other = DefendedClassifier.load(model, device="cpu")
    assert other.fingerprint() == classifier.fingerprint()
    with torch.no_grad():
        next(other.model.parameters())[0, 0] += 1
    with pytest.raises(OptionError, match="model was"):
        predict_file(other, source, out, resume=True, progress=False)


def test_damage_to_the_partial_file_is_noticed(classifier: DefendedClassifier, tmp_path: Path) -> None:
    source, out = many_rows(tmp_path / "in.csv"), tmp_path / "out.csv"
    stopped(classifier, source, out, 20)
    partial, note = beside(out, "partial"), beside(out, "progress.json")
    whole = partial.read_bytes()
    partial.write_bytes(whole[:-1])
    with pytest.raises(OptionError, match="shorter than"):
        predict_file(classifier, source, out, resume=True, progress=False)
    partial.write_bytes(whole)
    text = note.read_text()
    note.write_text(text[:-5])
    with pytest.raises(OptionError, match="can't be read"):
        predict_file(classifier, source, out, resume=True, progress=False)
    note.write_text(text)
    out.write_text("somebody else's")
    with pytest.raises(OptionError, match="has appeared"):
        predict_file(classifier, source, out, resume=True, progress=False)
    assert out.read_text() == "somebody else's"


DEEP = "[" * 100_000


@pytest.mark.parametrize(("name", "wrong"), [
    ("identity", []), ("overwrite", 0), ("rows", "10"), ("rows", -10), ("rows", 1000), ("rows", True), ("bytes", "20"),
    ("bytes", -1), ("bytes", 0), ("bytes", 20), ("counts", []), ("counts", {"good": "10"}), ("new", 1), ("", DEEP),
    ("counts", {"good": 1000})])
def test_a_damaged_note_loses_nothing(
    name: str, wrong: object, classifier: DefendedClassifier, unfinished: tuple[Path, Path], tmp_path: Path,
) -> None:
    source, out, note = *unfinished, beside(unfinished[1], "progress.json")
    before, partial = note.read_text(), beside(out, "partial").read_bytes()
    damaged = {**json.loads(before), name: wrong} | ({"rows": 1000} if wrong == {"good": 1000} else {})
    note.write_text(DEEP if wrong is DEEP else json.dumps(damaged))
    with pytest.raises(OptionError, match=r"start over \(--overwrite\)"):
        predict_file(classifier, source, out, resume=True, progress=False)
    assert not out.exists() and beside(out, "partial").read_bytes() == partial
    note.write_text(before)


@pytest.fixture(scope="module")
def unfinished(classifier: DefendedClassifier, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("unfinished")
    stopped(classifier, many_rows(folder / "in.csv", 20), folder / "out.csv", 10)
    return folder / "in.csv", folder / "out.csv"


def test_a_full_disk_is_told_and_nothing_is_lost(classifier: DefendedClassifier, tmp_path: Path) -> None:
    source, out = many_rows(tmp_path / "in.csv"), tmp_path / "out.csv"
    predict_file(classifier, source, tmp_path / "whole.csv", chunk=10, progress=False)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size, told in ((10, "Then run it again"), (1500, "Then go on with --resume: what was answered is kept")):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            with pytest.raises(ResourceError, match=rf"out\.csv can't be written: .*too large.*{told}"):
                predict_file(classifier, source, out, chunk=10, progress=False)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    predict_file(classifier, source, out, chunk=10, resume=True, progress=False)
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_a_pipe_is_refused_as_input(classifier: DefendedClassifier, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in.csv")
    writer = os.open(tmp_path / "in.csv", os.O_RDWR)  # so that opening it waits for nobody
    try:
        os.write(writer, b"text\ngood movie\n")
        with pytest.raises(DataError, match=r"in\.csv is a pipe.*Save"):
            next(read_items(tmp_path / "in.csv", ANSWERED))
    finally:
        os.close(writer)


@pytest.mark.parametrize("format", ["table", "csv", "jsonl"])
def test_answers_that_are_no_numbers_are_never_shown(
    format: str, classifier: DefendedClassifier, monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = Predictions(["bad"], torch.full((1, 2), torch.nan))
    monkeypatch.setattr(DefendedClassifier, "load", lambda *given, **settings: classifier)
    monkeypatch.setattr(classifier, "predict", lambda texts, **options: broken)
    result = CliRunner().invoke(app, ["predict", "model", "good movie", "--format", format])
    assert isinstance(result.exception, ModelFileError) and "lower learning rate" in str(result.exception)
    assert "nan" not in result.output.lower()


def test_killed_between_the_last_two_steps(classifier: DefendedClassifier, tmp_path: Path) -> None:
    source, out = many_rows(tmp_path / "in.csv", 10), tmp_path / "out.csv"
    whole = tmp_path / "whole.csv"
    predict_file(classifier, source, whole, chunk=10, progress=False)
    stopped(classifier, many_rows(tmp_path / "in.csv", 11), out, 10)  # ends with all rows but one recorded
    many_rows(tmp_path / "in.csv", 10)
    note = json.loads(beside(out, "progress.json").read_text())
    stat = source.stat()
    note["identity"] |= {"size": stat.st_size, "modified": stat.st_mtime_ns}
    beside(out, "progress.json").write_text(json.dumps(note))
    beside(out, "partial").rename(out)
    summary = predict_file(classifier, source, out, resume=True, progress=False)
    assert summary.rows == 10 and out.read_bytes() == whole.read_bytes()
    assert not beside(out, "progress.json").exists()


def test_memory_does_not_grow_with_the_file(classifier: DefendedClassifier, tmp_path: Path) -> None:
    import tracemalloc

    source = write_csv(tmp_path / "in.csv", [{"text": f"{n} good movie" + " plot" * 200} for n in range(1500)])
    tracemalloc.start()
    predict_file(classifier, source, tmp_path / "out.csv", chunk=20, progress=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert source.stat().st_size > 1.5e6 and peak < 0.75e6


def test_cells_are_read_back_by_the_csv_module() -> None:
    values = [*HOSTILE, "\r", "\n", ",", '""', "a\tb"]
    for delimiter in (",", "\t"):
        line = delimiter.join(cell(value, delimiter) for value in values) + "\n"
        assert next(csv.reader(io.StringIO(line, newline=""), delimiter=delimiter, strict=True)) == values


@pytest.mark.parametrize(("value", "written"), [
    (datetime(1970, 1, 1), "1970-01-01 00:00:00"), (timedelta(seconds=5), "0:00:05"), (Decimal("1.50"), "1.50"),
    (b"a,b", "b'a,b'"), (float("nan"), None), ([1.0, float("-inf"), {"x": float("nan")}, (b"a",)],
                                                [1.0, None, {"x": None}, ["b'a'"]])])
def test_values_that_json_lacks_are_written_plainly(value: object, written: object) -> None:
    def refuse(constant: str) -> object:
        raise AssertionError(constant)

    answers, item = Predictions(["good"], torch.tensor([[0.25, 0.75]])), Item({"more": value, "text": "a\ud83d"}, "a")
    line = Layout.of("jsonl", ["more", "text"], ["bad", "good"], explain=False).lines([item], answers)
    assert json.loads(line, parse_constant=refuse)["more"] == written
    row = next(csv.reader([cell(value, ",")]))[0]
    assert row == {str: written, list: json.dumps(written)}.get(type(written), "NaN")


def test_half_a_surrogate_pair_is_written_somehow() -> None:
    answers = Predictions(["good"], torch.tensor([[0.25, 0.75]]))
    item = Item({"text": "a\ud83d"}, "a\ud83d")
    line = Layout.of("csv", ["text"], ["bad", "good"], explain=False).lines([item], answers)
    assert line == b"a?,good,0.75,0.25,0.75\n"
    line = Layout.of("jsonl", ["text"], ["bad", "good"], explain=False).lines([item], answers)
    assert json.loads(line)["text"] == "a\ud83d"


def mask(text: str, word: str, score: float = 0.0, part: int = 0) -> Masked:
    return Masked(word, text.index(word), text.index(word) + len(word), score, part)


def test_marks_stand_at_the_right_words() -> None:
    text = "the fnuny plot"
    marked = marked_text(text, [mask(text, "plot"), mask(text, "fn"), mask(text, "uny")])
    assert marked.plain == text
    assert sorted((span.start, span.end) for span in marked.spans) == [(4, 9), (10, 14)]
    assert all("strike" in str(span.style) and "red" in str(span.style) for span in marked.spans)
    assert marked_text(text, [mask(text, "fn"), mask(text, "uny")], brackets=True).plain == "the ⟦fnuny⟧ plot"
    scored = [mask(text, "fn", -2.0), mask(text, "uny", -1.0), mask(text, "plot", -0.0)]
    assert scored_words(scored) == "fnuny -1.00, plot 0.00"


def test_control_characters_never_reach_the_terminal() -> None:
    text = "a\x1b[2Jb\x07c\x08\r\nd\x85e\u202ef\u200bg\ud83dh bad"
    marked = marked_text(text, [mask(text, "bad")])
    assert len(marked.plain) == len(text) and marked.plain[marked.spans[0].start:] == "bad"
    assert marked.plain == "a␛[2Jb␇c␈ ↵d�e�f�g�h bad"
    assert marked_text("a\x1bb", [mask("a\x1bb", "\x1bb")]).plain == "a␛b"
    assert scored_words([mask("a\x1bb", "\x1bb")]) == "␛b 0.00"


def test_long_texts_are_cut_on_the_screen() -> None:
    text = "x" * (LONGEST - 2) + "bad" + "y" * 5000
    shown = marked_text(text, [mask(text, "bad")], brackets=True).plain
    assert shown == "x" * (LONGEST - 2) + "⟦bad⟧ … (5,000 more characters)"
    assert "z" not in marked_text("a" * LONGEST + "z", [mask("a" * LONGEST + "z", "z")]).plain


def test_a_bar_is_as_long_as_it_says() -> None:
    assert confidence_bar(0.7).plain == "███████░░░  70.0%" and confidence_bar(1.0).plain == "██████████ 100.0%"


@pytest.mark.parametrize("colour", [True, False])
def test_the_table_is_readable_with_and_without_colour(colour: bool) -> None:
    text, screen = "a [bold]fnuny[/bold] plot", io.StringIO()
    console = Console(file=screen, width=100, force_terminal=colour, color_system="standard" if colour else None)
    answers = Predictions(["good", "bad"], torch.tensor([[0.1, 0.9], [0.8, 0.2]]),
                          [[mask(text, "fnuny", -1.5)], [mask("plot", "plot", 2.0, part=1)]])
    show_predictions(console, [text, ("movie", "plot")], answers)
    shown = screen.getvalue()
    assert ("\x1b[" in shown) == colour and ("⟦fnuny⟧" in shown) == (not colour)
    assert "[bold]" in shown and "90.0%" in shown and "fnuny -1.50" in shown and "plot 2.00" in shown


@pytest.mark.parametrize("texts", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_pipes_get_rows_of_texts_and_of_files(named: bool, texts: bool, model: Path, tmp_path: Path) -> None:
    """/dev/fd/N, as /dev/stdout, leads to a pipe that has no name in any folder."""
    source = write_csv(tmp_path / "in.csv", [{"text": "good movie"}])
    if named:
        os.mkfifo(tmp_path / "pipe.csv")
        ends = [os.open(tmp_path / "pipe.csv", os.O_RDWR)]
        out = str(tmp_path / "pipe.csv")
    else:
        ends = list(os.pipe())
        out = f"/dev/fd/{ends[1]}"
    try:
        asked = ["predict", str(model), *(["good movie"] if texts else ["--file", str(source)]), "--out", out]
        found = CliRunner().invoke(app, [*asked, "--format", "csv"])
        assert found.exit_code == 0 and not found.output, found.output
        written = os.read(ends[0], 10_000).decode().splitlines()
        assert written[0].startswith("text,predicted,") and written[1].startswith("good movie,") and not written[2:]
        if not texts:
            told = CliRunner().invoke(app, [*asked, "--format", "csv", "--resume"]).exception
            assert isinstance(told, OptionError) and "must not be a pipe" in str(told)
            with pytest.raises(OptionError, match="is a pipe or a device, no ordinary file"):
                predict_file(None, source, out, format="csv")  # type: ignore[arg-type]
    finally:
        for end in ends:
            os.close(end)
    assert {path.name for path in tmp_path.iterdir()} <= {"in.csv", "pipe.csv"}


def test_texts_are_not_written_over_an_unfinished_run(
    classifier: DefendedClassifier, model: Path, tmp_path: Path,
) -> None:
    source, out = many_rows(tmp_path / "in.csv"), tmp_path / "out.csv"
    stopped(classifier, source, out, 20)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    asked = ["predict", str(model), "good movie", "--out", str(out)]
    told = CliRunner().invoke(app, asked).exception
    assert isinstance(told, OptionError) and "an unfinished run is at" in str(told)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert CliRunner().invoke(app, [*asked, "--overwrite"]).exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"in.csv", "out.csv"}


def test_a_link_stays_a_link_and_devices_are_refused(classifier: DefendedClassifier, tmp_path: Path) -> None:
    source = write_csv(tmp_path / "in.csv", [{"text": "good movie"}])
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    predict_file(classifier, source, tmp_path / "link.csv", overwrite=True, progress=False)
    assert (tmp_path / "link.csv").is_symlink()
    assert "good movie" in (tmp_path / "real.csv").read_text()
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(OptionError, match="no ordinary file"):
        predict_file(classifier, source, tmp_path / "pipe.csv", overwrite=True, progress=False)
