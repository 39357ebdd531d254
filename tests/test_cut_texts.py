# SPDX-License-Identifier: Apache-2.0
"""Cut texts are told wherever answers, attacks and reports are; what is only true of a text read at once is refused."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from dualmask import Dataset, DefendedClassifier, Example, attack, train
from dualmask.attacks import build_attack
from dualmask.cli import app
from dualmask.errors import DataError, OptionError
from dualmask.evaluation.calibration import Revealed
from dualmask.evaluation.certification import CertifyingOptions, certify, under
from dualmask.evaluation.noise import Still
from dualmask.evaluation.protocol import Protocol, evaluate
from dualmask.evaluation.records import Cell, read_cells
from dualmask.models.encoders import load_tokenizer
from dualmask.reporting.doubts import find_doubts
from dualmask.reporting.entries import entries
from dualmask.reporting.reported import load_reported
from dualmask.results import AttackResult, read_results
from dualmask.windows import Windows

LONG = "fine " * 60
TEXTS = f"text,label\ngood film,good\n{LONG}awful,bad\n{LONG},good\n"


@pytest.fixture(scope="module")
def model(tiny: Callable[[str], Path], data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "model"
    long = Dataset("toy", data.labels, [*data.train, Example(LONG, 1)], data.validation, data.test)
    train(long, encoder=tiny("bert"), defence="ddm", training={"epochs": 1, "max_length": 16}, out=folder,
          progress=False)
    return folder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "texts.csv"
    path.write_text(TEXTS)
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def told(result: Result) -> str:
    return " ".join(result.output.split())


def test_training_counts_texts_that_it_cuts_and_windows_are_not_used_in_it(
    tiny: Callable[[str], Path], data: Dataset, model: Path, tmp_path: Path,
) -> None:
    plain = DefendedClassifier.load(model, device="cpu")
    assert plain.facts["cut_texts"] == 1 and plain.windows is None
    long = Dataset("toy", data.labels, [*data.train, Example(LONG, 1)], data.validation, data.test)
    read = train(long, encoder=tiny("bert"), defence="ddm", training={"epochs": 1, "max_length": 16}, progress=False,
                 windows="any:bad,most=9", out=tmp_path / "model")
    assert read.facts["cut_texts"] == 1
    assert DefendedClassifier.load(tmp_path / "model", device="cpu").windows == read.windows
    read.windows = None
    assert read.fingerprint() == plain.fingerprint()  # the same weights
    with pytest.raises(OptionError, match="label that the model does not have"):
        train(long, encoder="nowhere", windows="any:nothing", progress=False)  # before anything is loaded


def test_texts_that_masks_leave_no_room_for_count_as_cut_in_training(
    tiny: Callable[[str], Path], data: Dataset,
) -> None:
    rows = Dataset("toy", data.labels, [*data.train, Example("fine " * 10, 1), Example("fine " * 11, 1)],
                   data.validation, None)
    settings = {"epochs": 1, "max_length": 16}  # 14 tokens of text, or 10 and 3 masks
    for name, cut in (("plain", 0), ("ddm", 1), ("mi4d", 1), ("ddm+fat", 1)):
        assert train(rows, encoder=tiny("bert"), defence=name, training=settings, progress=False).facts[
            "cut_texts"] == cut, name


def test_the_train_command_tells_of_cut_texts(tiny: Callable[[str], Path], table: Path, tmp_path: Path) -> None:
    table.write_text(TEXTS + "good plot,good\nbad plot,bad\n" * 10)
    result = run("train", table, "--encoder", tiny("bert"), "--defence", "ddm", "--epochs", 1, "--max-length", 16,
                 "--out", tmp_path / "model", "--windows", "mean", "--quiet")
    assert result.exit_code == 0, result.output
    assert "note: 2 of 23 training texts were cut: 10 of their tokens fit into the 16 of --max-length" in told(result)
    assert json.loads((tmp_path / "model" / "dualmask.json").read_text())["windows"]["rule"] == "mean"


@pytest.mark.parametrize("format", ["table", "csv", "jsonl"])
def test_the_predict_command_tells_of_cut_texts(model: Path, table: Path, tmp_path: Path, format: str) -> None:
    note = "note: 2 of 3 texts are longer than the 16 tokens that the classifier reads"
    assert note in told(run("predict", model, "--file", table, "--format", format))
    assert "not read" not in told(run("predict", model, "good film", "--format", format))
    assert "not read" not in told(run("predict", model, "--file", table, "--format", format, "--windows", "mean"))
    most = told(run("predict", model, "--file", table, "--format", format, "--windows", "mean,most=2"))
    assert "2 of 3 texts are longer than the 2 windows of 16 tokens" in most
    out = ["--out", tmp_path / f"answers.{'csv' if format == 'table' else format}"]
    assert note in told(run("predict", model, "--file", table, *out))


@pytest.mark.parametrize("command", ["predict", "attack"])
def test_wrong_windows_are_told_before_a_model_is_loaded(command: str, table: Path) -> None:
    result = run(command, "nowhere", table if command == "attack" else "text", "--windows", "median")
    assert isinstance(result.exception, OptionError) and "'mean', 'surest' or 'any:LABEL'" in str(result.exception)


@pytest.mark.parametrize("command", ["predict", "attack"])
def test_help_names_the_rule_as_it_is_typed(command: str) -> None:
    """Between two colons a name may become a picture on the screen."""
    assert "any:LABEL" in run(command, "--help").output


def test_windows_are_not_for_other_victims(table: Path) -> None:
    result = run("attack", "http://127.0.0.1:9/", table, "--labels", "bad,good", "--windows", "mean")
    assert isinstance(result.exception, OptionError) and "that dualmask has saved" in str(result.exception)


def test_the_attack_command_tells_of_cut_texts_and_so_do_its_records(model: Path, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "records.jsonl"
    command = ["attack", model, table, "--attack", "deepwordbug", "--option", "queries=3", "--no-measure", "--quiet"]
    shown = told(run(*command, "--out", out))
    assert "cut 66.7% (2/3) of all texts are longer than the 16 tokens that the classifier reads" in shown
    header, results = read_results(out)
    assert [one.cut for one in results] == [False, True, True] and "windows" not in header
    assert all(one.cut_after is None if one.adversarial is None else one.cut_after is not None for one in results)
    read = run(*command, "--windows", "any:bad", "--out", tmp_path / "other.jsonl")
    assert "of all texts are longer" not in told(read)
    header, results = read_results(tmp_path / "other.jsonl")
    assert not any(one.cut for one in results) and header["windows"]["rule"] == "any:bad"  # type: ignore[index]
    again = run(*command, "--windows", "any:bad", "--resume", "--out", out)
    assert isinstance(again.exception, OptionError) and "other settings" in str(again.exception)


def test_what_only_answers_is_not_said_to_cut() -> None:
    found = attack(lambda texts: [[0.1, 0.9]] * len(texts), [(LONG, 1)], "deepwordbug", labels=("bad", "good"),
                   measure=None, options={"queries": 3})
    assert found[0].cut is None and "cut" not in found[0].as_json()


def test_a_sequential_run_and_a_replay_tell_as_well(model: Path, table: Path, tmp_path: Path) -> None:
    classifier = DefendedClassifier.load(model, device="cpu")
    found = attack(classifier, [(LONG, 1), ("good", 1)], "deepwordbug", measure=None, sequential=True,
                   options={"queries": 3})
    assert [one.cut for one in found] == [True, False]
    shown = run("attack", model, table, "--attack", "deepwordbug", "--mode", "transfer", "--no-measure", "--quiet",
                "--option", "queries=3", "--out", tmp_path / "replayed.jsonl")
    assert "cut 66.7% (2/3)" in told(shown)
    assert [one.cut for one in read_results(tmp_path / "replayed.jsonl")[1]] == [False, True, True]


def test_a_flag_of_another_kind_is_no_record() -> None:
    record = {"index": 0, "text": "a", "label": 0, "outcome": "failed", "adversarial": None, "clean": 0,
              "predicted": 0, "probability": 0.5, "probability_after": 0.5, "queries": 1, "rows": 1, "gradients": 0,
              "words": 1, "changed": 0, "similarity": None, "seconds": 0.0}
    assert AttackResult.from_json(record).cut is None  # a record of before
    assert AttackResult.from_json({**record, "cut": True}).cut is True
    with pytest.raises(DataError, match="true or false"):
        AttackResult.from_json({**record, "cut": 1})


def test_reports_tell_of_cut_texts_and_say_nothing_of_records_of_before(model: Path, tmp_path: Path) -> None:
    classifier = DefendedClassifier.load(model, device="cpu")
    examples = [Example("good film", 1), Example(LONG, 1), Example("bad", 0)]
    path = tmp_path / "runs" / (cell := Cell("toy", "tiny", "ddm", "deepwordbug", "adaptive", 0)).file_name
    evaluate(cell, classifier, examples, build_attack("deepwordbug", options={"queries": 3}),
             protocol=Protocol(measure=None), out=path)

    def notes() -> list[str]:
        found = find_doubts(entries(read_cells(path.parent).cells), [], load_reported())
        return [one.text for one in found if one.name == "texts cut"]

    assert notes() == [
        "ddm (toy, tiny): 1 of 3 (33 %) texts is longer than the 16 tokens that the classifier reads; what lies "
        "behind is not read, neither by the classifier nor under attack."]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    in_windows = [{**lines[0], "windows": Windows(most=3, length=8).as_dict()}, *lines[1:]]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in in_windows))
    assert "longer than the 3 windows of 8 tokens" in notes()[0]
    before = [{name: value for name, value in line.items() if name not in ("cut", "cut_after")} for line in lines]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in before))
    assert notes() == []


def test_what_is_true_of_a_text_read_at_once_is_refused(model: Path) -> None:
    classifier = DefendedClassifier.load(model, device="cpu", windows="any:bad")
    for name in ("padding", "hotflip"):
        with pytest.raises(OptionError, match=f"'{name}' does not go with windows"):
            attack(classifier, [("good film", 1)], name, measure=None)
    for victim in (classifier, under(classifier, "ranmask", options={"votes": 5, "rate": 0.9})):
        with pytest.raises(OptionError, match="a certificate does not go with windows"):
            certify(victim, [("good film", 1)], CertifyingOptions())
    with pytest.raises(OptionError, match="draws held still does not go"):
        Still(classifier, 2)
    with pytest.raises(OptionError, match="calibrated votes does not go"):
        Revealed(classifier)
    classifier.windows = None
    assert len(certify(classifier, [("good film", 1)], CertifyingOptions()).records) == 1


def test_the_certify_command_certifies_with_windows_off(
    tiny: Callable[[str], Path], data: Dataset, table: Path, tmp_path: Path,
) -> None:
    train(data, encoder=tiny("bert"), defence="ddm", training={"epochs": 1, "max_length": 16}, windows="mean",
          progress=False, out=tmp_path / "model")
    refused = run("certify", tmp_path / "model", table, "--quiet")
    assert isinstance(refused.exception, OptionError) and "--windows none" in str(refused.exception)
    assert run("certify", tmp_path / "model", table, "--quiet", "--windows", "none").exit_code == 0
    under_votes = run("certify", tmp_path / "model", table, "--quiet", "--under", "ranmask", "--windows", "mean")
    assert isinstance(under_votes.exception, OptionError) and "nothing can be certified" not in told(under_votes)


@pytest.mark.parametrize("out", [True, False])
def test_the_predict_command_tells_what_helps_pairs(model: Path, tmp_path: Path, out: bool) -> None:
    path, where = tmp_path / "pairs.csv", ["--out", tmp_path / "out.csv"] if out else []
    path.write_text(f"one,two\n{LONG},{LONG}\n")
    shown = told(run("predict", model, "--file", path, "--text-column", "one", "--pair-column", "two", "--windows",
                     "mean,most=900", *where))
    assert "where the shorter text of a pair takes more than half of a window, a small length=TOKENS" in shown


def test_transformers_does_not_warn_of_long_texts_beside_us(tiny: Callable[[str], Path]) -> None:
    tokenizer, told = load_tokenizer(tiny("bert")), list[str]()
    tokenizer.model_max_length = 8
    logger = logging.getLogger("transformers.tokenization_utils_base")
    logger.addFilter(watch := lambda record: bool(told.append(record.getMessage())))
    try:
        assert len(tokenizer(LONG)["input_ids"]) > 8
        del tokenizer.deprecation_warnings["sequence-length-is-longer-than-the-specified-maximum"]
        assert not told
        tokenizer(LONG)
        assert "Token indices sequence length" in told[0], "it would have been seen"
    finally:
        logger.removeFilter(watch)
