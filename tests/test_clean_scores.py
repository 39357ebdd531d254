# SPDX-License-Identifier: Apache-2.0
"""Scores on clean texts: figures computed by hand, what the command prints, and that unevenness is said."""

import json
import math
import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from test_classifiers import saved_plain
from typer.testing import CliRunner

from dualmask.cli import app
from dualmask.confusion import Confusion
from dualmask.errors import DataError, OptionError
from dualmask.evaluate_display import class_table, confusion_table, show_clean_scores
from dualmask.evaluation.clean_scores import CleanScores, evaluate_clean
from dualmask.models.classifiers import load_classifier
from dualmask.text.class_balance import imbalance_told, largest_class
from dualmask.text.examples import Dataset, Example
from dualmask.training import train

Tiny = Callable[[str], Path]
FAST = {"epochs": 1, "max_length": 40, "learning_rate": 1e-3}


def confusion(*rows: tuple[int, ...], labels: str = "") -> Confusion:
    return Confusion(tuple(labels or "abcdefghijklmnopqrstuvwxyz"[:len(rows)]), rows)


def shown(scores: CleanScores, width: int = 80) -> str:
    out = StringIO()
    show_clean_scores(Console(file=out, width=width), scores)
    assert all(len(line) <= width for line in out.getvalue().splitlines() if not line.startswith("warning"))
    return out.getvalue()


# Figures


def test_counts_are_by_true_class_and_answer() -> None:
    found = Confusion.of([0, 0, 1, 1, 1], [0, 1, 1, 1, 0], ("bad", "good"))
    assert found.counts == ((1, 1), (1, 2)) and (found.texts, found.right) == (5, 3)
    with pytest.raises(DataError, match="class number 2; expected one from 0 to 1, for the classes bad, good"):
        Confusion.of([2], [0], ("bad", "good"))
    with pytest.raises(DataError, match="no texts at all"):
        _ = Confusion.of([], [], ("bad", "good")).accuracy


def test_figures_are_those_computed_by_hand() -> None:
    scores = CleanScores(confusion((5, 1, 0), (2, 3, 0), (0, 0, 0)), "plain")
    found = scores.confusion
    a, b, c = found.classes
    assert a[1:] == (6, 7, pytest.approx(5 / 7), pytest.approx(5 / 6), pytest.approx(10 / 13))
    assert b[1:] == (5, 4, pytest.approx(3 / 4), pytest.approx(3 / 5), pytest.approx(6 / 9))
    assert c[1:] == (0, 0, None, None, None), "a share of nothing is no number"
    assert scores.accuracy == pytest.approx(8 / 11)
    assert found.balanced_accuracy == pytest.approx((5 / 6 + 3 / 5) / 2)
    assert found.macro_f1 == pytest.approx((10 / 13 + 6 / 9) / 2)
    assert scores.interval == pytest.approx((0.4344, 0.9025), abs=1e-4)  # Wilson's, by the formula on paper
    assert (found.largest.label, found.largest.size, found.largest.texts) == ("a", 6, 11)


def test_a_class_that_was_only_answered_counts_in_f1_and_not_in_recall() -> None:
    found = confusion((4, 0, 1), (0, 5, 0), (0, 0, 0))
    assert found.macro_f1 == pytest.approx((8 / 9 + 1 + 0) / 3)
    assert found.balanced_accuracy == pytest.approx((4 / 5 + 1) / 2)
    assert found.classes[2].precision == 0 and found.classes[2].recall is None


def test_mistakes_come_by_how_frequent_they_are() -> None:
    found = list(confusion((5, 1, 4), (2, 3, 0), (4, 0, 0)).mistakes())
    assert [(one.label, one.answered, one.texts) for one in found] == [
        ("a", "c", 4), ("c", "a", 4), ("b", "a", 2), ("a", "b", 1)]
    assert found[0].share == pytest.approx(4 / 10)


def test_one_class_that_dominates_is_said() -> None:
    largest = largest_class([0] * 295 + [1] * 5, ("ham", "spam"))
    assert largest.dominates and largest.share == pytest.approx(0.98333, abs=1e-5)
    assert imbalance_told(largest, "training texts") == (
        "295 of 300 training texts are 'ham': a classifier that always says 'ham' is right on 98.3 %")
    assert not largest_class([0] * 8 + [1] * 2, ("ham", "spam")).dominates, "80 % is not more than 80 %"
    assert CleanScores(confusion((80, 2), (18, 0)), "plain").imbalance is not None
    assert CleanScores(confusion((40, 10), (10, 40)), "plain").imbalance is None


def test_of_one_class_alone_balanced_accuracy_is_not_recommended() -> None:
    told = CleanScores(confusion((5, 2), (0, 0), labels=("no", "yes")), "plain").imbalance  # type: ignore[arg-type]
    assert told is not None and told.startswith("all 7 texts are 'no': accuracy is then the recall of this class")
    assert "look at" not in told and "give texts of each class" in told


# A classifier


@pytest.fixture(scope="module")
def model(tiny: Tiny, data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    train(data, encoder=tiny("bert"), defence="ddm", training={**FAST, "epochs": 2}, out=folder, progress=False)
    return folder


def test_scores_are_the_classifiers_own_accuracies(model: Path, data: Dataset) -> None:
    classifier, examples = load_classifier(model, device="cpu"), data.test or []
    told: list[int] = []
    found = evaluate_clean(classifier, examples, watch=told.append)
    assert found.accuracy == pytest.approx(classifier.accuracy(examples))
    assert found.accuracy_undefended == pytest.approx(classifier.accuracy(examples, defended=False))
    assert found.acts and found.defence == "ddm" and sum(told) == len(examples) and found.flagged is None
    with pytest.raises(DataError, match="no texts at all"):
        evaluate_clean(classifier, [])
    with pytest.raises(DataError, match="class number 7"):
        evaluate_clean(classifier, [Example("a plot", 7)])


def test_many_texts_are_answered_in_portions(
    model: Path, data: Dataset, monkeypatch: pytest.MonkeyPatch,
) -> None:
    classifier = load_classifier(model, device="cpu")
    whole, told = evaluate_clean(classifier, data.train), list[int]()
    monkeypatch.setattr("dualmask.evaluation.clean_scores.PORTION", 10)
    assert evaluate_clean(classifier, data.train, watch=told.append) == whole
    assert told == [10] * 9 + [6]


def test_without_a_defence_at_inference_nothing_is_asked_twice(tiny: Tiny, data: Dataset) -> None:
    for name, acts, defined in (("plain", False, True), ("freelb", False, True), ("mvp", True, False)):
        classifier = train(data, encoder=tiny("bert"), defence=name, training=FAST, progress=False)
        found = evaluate_clean(classifier, data.test or [])
        assert found.acts == acts and (found.accuracy_undefended is not None) == defined
        if name != "mvp":
            assert found.accuracy_undefended == found.accuracy
        told = shown(found)
        assert ("not defined" in told) == (name == "mvp") and ("defence off" in told) == acts


def test_a_detectors_false_alarms_are_counted(tiny: Tiny, data: Dataset) -> None:
    classifier = train(data, encoder=tiny("bert"), defence="fgws", training=FAST, progress=False)
    found = evaluate_clean(classifier, data.train)
    suspicion = classifier.predict([example.text for example in data.train]).suspicion
    assert suspicion is not None and classifier.defence.threshold is not None
    assert found.flagged == int((suspicion > classifier.defence.threshold).sum())
    assert "false alarms" in shown(found)


# On the screen


def test_two_classes_have_their_names_over_the_matrix() -> None:
    told = shown(CleanScores(confusion((290, 5), (3, 2), labels=""), "ddm", right_undefended=299, acts=True))
    assert re.search(r"^ +a +b\s*$", told, re.M) and re.search(r"^a +290 +5\s*$", told, re.M)
    assert "accuracy, defence on   97.3%  95 % interval" in told and "accuracy, defence off  99.7%" in told
    assert "warning: 295 of 300 texts are 'a'" in told and "98.3%  what always answering 'a' would score" in told
    assert re.search(r"^b +5 +7 +28.6% +40.0% +33.3%\s*$", told, re.M)


@pytest.mark.parametrize("count", [12, 13])
def test_a_dozen_classes_fit_80_columns_and_more_are_told_by_their_mistakes(count: int) -> None:
    rows = tuple(tuple(9000 if column == row else 10 * row + column for column in range(count))
                 for row in range(count))
    labels = tuple(f"a class with the long name {place}" for place in range(count))
    told = shown(CleanScores(Confusion(labels, rows), "plain"))
    if count == 12:
        assert "a row for each true class" in told and re.search(r"^12 a .*9000\s*$", told, re.M)
        assert confusion_table(Confusion(labels, rows), 40) is None, "there the mistakes are told"
    else:
        assert "the most frequent mistakes" in told and "a row for each true class" not in told
    assert "no class was taken for another" in shown(CleanScores(
        Confusion(labels * 2, tuple(tuple(int(a == b) for b in range(2 * count)) for a in range(2 * count))), "plain"))


def test_no_figure_of_a_class_is_cut_on_a_narrow_screen() -> None:
    labels = ("a class", "a name of more letters than are shown")
    found = Confusion(labels, ((1290, 5), (3, 1002)))
    for width in (30, 40, 80):
        out = StringIO()
        Console(file=out, width=width).print(class_table(found))
        told = out.getvalue()
        assert all(figure in told for figure in ("1,295", "1,293", "99.8%", "99.6%", "99.7%", "1,005", "1,007")), width
        assert told.count("\u2026") == 1 and "a name of more letters" in told


# The command


@pytest.fixture
def table(data: Dataset, tmp_path: Path) -> Path:
    path = tmp_path / "test.csv"
    path.write_text("body,stars\n" + "".join(f"{one.text},{data.labels[one.label]}\n" for one in data.test or []))
    return path


def run(*arguments: object) -> tuple[str, BaseException | None]:
    done = CliRunner().invoke(app, ["evaluate", *map(str, arguments), "--quiet"], env={"COLUMNS": "80"})
    return done.stdout, done.exception


def test_the_command_prints_tables_or_json_and_writes_a_file(
    model: Path, table: Path, data: Dataset, tmp_path: Path,
) -> None:
    columns, out = ["--text-column", "body", "--label-column", "stars"], tmp_path / "scores.json"
    expected = evaluate_clean(load_classifier(model, device="cpu"), data.test or [])
    told, error = run(model, table, *columns, "--out", out)
    words = " ".join(told.split())  # where a line ends depends on how long the folder's name is
    assert error is None and "the defence ddm, on 24 of 24 texts" in words and "macro F1" in words
    written = json.loads(out.read_text())
    assert {key: written[key] for key in expected.as_dict()} == json.loads(json.dumps(expected.as_dict()))
    assert written["data"] == str(table) and written["max_length"] == 40
    printed, _ = run(model, table, *columns, "--json")
    assert json.loads(printed) == written
    assert isinstance(run(model, table, *columns, "--out", out)[1], OptionError)
    assert run(model, table, *columns, "--out", out, "--overwrite", "--samples", 10)[1] is None
    assert json.loads(out.read_text())["texts"] == 10
    assert "another use here" in str(run(model, table, *columns, "--out", table)[1])


def test_a_plain_hugging_face_classifier_is_evaluated(tiny: Tiny, table: Path, tmp_path: Path) -> None:
    plain = saved_plain("distilbert", tiny, tmp_path / "plain")
    columns = ["--text-column", "body", "--label-column", "stars"]
    told, error = run(plain, table, *columns, "--json")
    assert error is None
    found = json.loads(told)
    assert found["defence"] == "plain" and [one["label"] for one in found["classes"]] == ["bad", "good", "mixed"]
    assert found["classes"][2]["texts"] == 0 and found["classes"][2]["recall"] is None and found["max_length"] == 64
    assert json.loads(run(plain, table, *columns, "--json", "--max-length", 20)[0])["max_length"] == 20


def test_names_of_classes_may_be_others(model: Path, data: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "test.csv"
    path.write_text("text,label\n" + "".join(f"{one.text},{'ny'[one.label]}\n" for one in data.test or []))
    assert "say so with --labels" in str(run(model, path)[1])
    told, error = run(model, path, "--labels", "n,y", "--json")
    assert error is None and math.isclose(
        json.loads(told)["accuracy"], evaluate_clean(load_classifier(model, device="cpu"), data.test or []).accuracy)
    assert json.loads(told)["labels"] == ["n", "y"]
    assert "names 3 classes" in str(run(model, path, "--labels", "n,y,z")[1])
    assert "has 'n' more than once" in str(run(model, path, "--labels", "n,n")[1])
    unknown = str(run(model, path, "--labels", "no,yes")[1])
    assert "names of the classes by --labels are: no, yes" in unknown and "of the model are" not in unknown


def test_windows_are_written_down_with_the_scores(model: Path, table: Path) -> None:
    columns = ["--text-column", "body", "--label-column", "stars"]
    plain, read = (json.loads(run(model, table, *columns, "--json", *windows)[0])
                   for windows in ((), ("--windows", "any:bad,length=8")))
    assert plain["windows"] is None and plain["labels"] == ["bad", "good"]
    assert read["windows"] == {"rule": "any:bad", "overlap": 0.25, "most": 64, "length": 8}
    assert "in windows of 8 tokens (any:bad)" in " ".join(run(
        model, table, *columns, "--windows", "any:bad,length=8")[0].split())


def test_classes_are_matched_by_name_or_number_whatever_their_order(
    model: Path, data: Dataset, tmp_path: Path,
) -> None:
    classifier = load_classifier(model, device="cpu")
    rows = data.test or []
    expected = evaluate_clean(classifier, rows).confusion
    turned = Dataset("turned", tuple(reversed(data.labels)), [Example(row.text, 1 - row.label) for row in rows], None,
                     None)
    assert evaluate_clean(classifier, turned).confusion == expected
    for name, labels in (("named.csv", data.labels), ("numbers.csv", ("0", "1"))):
        lines = [f"{row.text},{labels[row.label]}" for row in rows]
        (tmp_path / name).write_text("\n".join(["text,label", *lines]))
    assert evaluate_clean(classifier, tmp_path / "named.csv").confusion == expected
    with pytest.warns(UserWarning, match="taken for numbers of the model's classes: 0 is bad, 1 is good"):
        assert evaluate_clean(classifier, tmp_path / "numbers.csv").confusion == expected
    done = CliRunner().invoke(app, ["evaluate", str(model), str(tmp_path / "numbers.csv"), "--json", "--quiet"])
    assert done.exit_code == 0 and json.loads(done.stdout)["right"] == expected.right
    with pytest.raises(DataError, match="expected a file, a data set or a list of Examples"):
        evaluate_clean(classifier, ["a text"])  # type: ignore[list-item]
