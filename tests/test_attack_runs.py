# SPDX-License-Identifier: Apache-2.0
"""Attacking from Python and from the terminal: what examples may be, how labels are matched, what is shown."""

import json
import pickle
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
import torch
from conftest import small_files
from rich.console import Console
from safetensors.torch import load_file
from typer.testing import CliRunner

from dualmask import Dataset, DefendedClassifier, Example, attack, train
from dualmask.attack_display import difference, share
from dualmask.cli import app
from dualmask.cli_attack import plain_classifier
from dualmask.errors import DataError, EncoderError, ModelFileError, OptionError, ResourceError
from dualmask.results import read_results, tally
from dualmask.text.examples import load_dataset

LABELS = ("bad", "good")
ROWS = [("a good film", "good"), ("a dull plot", "bad"), ("good good good", "good"), ("the plot was poor", "bad")]


def honest(texts: Sequence[object]) -> list[list[float]]:
    """Finds "good" good."""
    return [[0.1, 0.9] if "good" in str(text) else [0.8, 0.2] for text in texts]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "reviews.csv"
    lines = [f"{text},{label}" for text, label in reversed(ROWS)]
    path.write_text("\n".join(["text,label", *lines]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("labels", [("bad", "good"), ("good", "bad")])
def test_classes_are_matched_by_name(labels: tuple[str, str], table: Path) -> None:
    """Whatever the victim's order of classes, a right answer is right."""
    turned = labels != LABELS

    def victim(texts: Sequence[object]) -> list[list[float]]:
        return [row[::-1] if turned else row for row in honest(texts)]

    numbered = [Example(text, labels.index(name)) for text, name in ROWS]
    for given in (table, str(table), load_dataset(table), ROWS, numbered):
        found = attack(victim, given, "deepwordbug", labels=labels, measure=None, options={"queries": 3})
        assert len(found) == 4 and all(one.outcome != "skipped" for one in found), given
        assert [labels[one.label] for one in found if "good" in str(one.text)] == ["good", "good"]


def test_a_data_set_gives_its_test_part() -> None:
    data = Dataset("x", LABELS, [Example("a", 0)], None, [Example("good b", 1), Example("c", 0)])
    assert [one.text for one in attack(honest, data, "deepwordbug", labels=LABELS, measure=None)] == ["good b", "c"]


@pytest.mark.parametrize(("given", "message"), [
    ([], "nothing to attack"), (["text"], "pairs of a text and a label"), ([("a", 1.5)], "pairs of a text and a label"),
    ([("a", "fine")], "the victim's names are bad, good"), ([("a", 2)], "the victim knows 2 classes"),
    ([("a", -1)], "numbered from 0"),
])
def test_examples_that_are_none(given: list[tuple[str, int]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        attack(honest, given, "deepwordbug", labels=LABELS, measure=None)


def test_names_need_a_victim_that_has_some() -> None:
    with pytest.raises(DataError, match="give them with labels="):
        attack(honest, ROWS, "deepwordbug", measure=None)


def test_a_victim_that_is_worse_than_chance_is_told() -> None:
    turned = [Example("a good film", 0), Example("a dull plot", 1)] * 6
    with pytest.warns(UserWarning, match="fewer than by chance"):
        attack(honest, turned, "deepwordbug", labels=LABELS, measure=None)


def test_what_was_attacked_stands_in_the_header(
    tiny: Callable[[str], Path], data: Dataset, tmp_path: Path,
) -> None:
    classifier = train(data, encoder=tiny("bert"), defence="ddm", training={"epochs": 1, "max_length": 40},
                       progress=False)
    out = tmp_path / "deep" / "r.jsonl"
    attack(classifier, data, "DeepWordBug", samples=3, measure=None, out=out, about={"data": "somewhere"})
    header, results = read_results(out)
    assert header["attack"] == "deepwordbug" and header["defence"]["name"] == "ddm"  # type: ignore[index]
    assert header["about"] == {"data": "somewhere"} and header["format"] == 1 and len(results) == 3
    attack(classifier, data, "deepwordbug", samples=3, measure=None, out=out, resume=True, about={"data": "elsewhere"})
    with pytest.raises(OptionError, match="is a folder"):
        attack(classifier, data, "deepwordbug", measure=None, out=tmp_path)


def test_a_plain_folder_is_attacked_as_a_pipeline(tiny: Callable[[str], Path], data: Dataset, tmp_path: Path) -> None:
    classifier = train(data, encoder=tiny("bert"), defence="ddm", training={"epochs": 1, "max_length": 40},
                       progress=False)
    classifier.model.save_pretrained(tmp_path / "plain")
    classifier.encode.tokenizer.save_pretrained(tmp_path / "plain")
    victim, labels = plain_classifier(tmp_path / "plain")
    assert labels == data.labels
    found = attack(victim, data, "deepwordbug", samples=4, measure=None, options={"queries": 30})
    bare = classifier.undefended().predict([str(one.text) for one in found]).probabilities.argmax(dim=1).tolist()
    assert [one.clean for one in found] == bare
    with pytest.raises(EncoderError, match="without a classifier's head"):
        plain_classifier(tiny("bert"))


@pytest.mark.parametrize("room", [1500, 2600])
def test_a_full_disk_is_told_with_what_is_kept(room: int, tmp_path: Path) -> None:
    examples = [Example(f"a good film {number}", 1) for number in range(12)]
    attack(honest, examples, "deepwordbug", measure=None, labels=LABELS, out=tmp_path / "whole.jsonl")
    path = tmp_path / "a.jsonl"
    with small_files(room), pytest.raises(ResourceError) as found:
        attack(honest, examples, "deepwordbug", measure=None, labels=LABELS, out=path)
    kept = len(read_results(path)[1])
    assert 0 < kept < 12 and [one.name for one in tmp_path.iterdir() if one.suffix == ".part"] == []
    told = f"another place. {kept} of 12 records are kept in it. Then go on with the same command and --resume"
    assert told in str(found.value)
    with small_files(room // 2), pytest.raises(OptionError, match=f"{kept} of 12 records are kept in it"):
        attack(honest, examples, "deepwordbug", measure=None, labels=LABELS, out=path, resume=True)
    assert len(read_results(path)[1]) == kept
    attack(honest, examples, "deepwordbug", measure=None, labels=LABELS, out=path, resume=True)
    assert [replace(one, seconds=0.0) for one in read_results(path)[1]] == [
        replace(one, seconds=0.0) for one in read_results(tmp_path / "whole.jsonl")[1]]


class Danger:
    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (Path("opened"),)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "tf_model.h5", ""])
@pytest.mark.parametrize("content", ["weights", "danger", "nothing"])
def test_weights_that_are_no_safetensors_are_named_and_never_opened(
    name: str, content: str, tiny: Callable[[str], Path], table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "model"
    shutil.copytree(tiny("bert"), folder)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    config = json.loads((folder / "config.json").read_text())
    config |= {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "bad", "1": "good"}}
    (folder / "config.json").write_text(json.dumps(config))
    if name:
        (folder / name).write_bytes({"danger": pickle.dumps(Danger()), "nothing": b""}.get(content, b""))
        if content == "weights":
            torch.save(weights, folder / name)
    told = f"its weights are in {name}, a pickle" if name.endswith("bin") else "can't be loaded: expected its weights"
    for words in (["attack", "model", str(table)], ["train", str(table), "--encoder", "model", "--out", "new"]):
        found = CliRunner().invoke(app, [*words, "--quiet"], env={"COLUMNS": "200"})
        assert isinstance(found.exception, EncoderError) and told in str(found.exception)
        assert "model.safetensors" in str(found.exception) and "save_pretrained()" in str(found.exception)
    for words in (["predict", "model", "hello"], ["certify", "model", str(table)], ["theory", "model", str(table)]):
        found = CliRunner().invoke(app, words)
        assert isinstance(found.exception, ModelFileError) and "holds no dualmask.json" in str(found.exception)
    assert not Path("opened").exists()


def test_a_resource_is_no_classifier() -> None:
    with pytest.raises(ModelFileError, match="not a trained classifier"):
        DefendedClassifier.load("minilm")


def test_look_alikes_are_shown_with_their_numbers() -> None:
    before, after = difference("a caf\u00e9 film", "a caf\u00e9 f\u0456lm", brackets=True)
    assert str(before) == "a caf\u00e9 \u27e6film\u27e7"
    assert str(after) == "a caf\u00e9 \u27e6f\u0456\u2039U+0456\u203alm\u27e7"


def test_words_that_were_split_or_left_out_are_marked() -> None:
    before, after = (str(part) for part in difference("one two three", "one t wo three", brackets=True))
    assert before == "one \u27e6two\u27e7 three" and after == "one \u27e6t wo\u27e7 three"
    assert str(difference("one two", "one", brackets=True)[1]) == "one"


def test_shares_are_shown_with_their_interval() -> None:
    assert share(0, 0, "of all") == ("-", "of all")
    assert share(1, 4, "of all") == ("25.0% (1/4)", "of all; 95 % interval 5% to 70%")


def test_counts_of_a_run() -> None:
    found = attack(honest, ROWS, "deepwordbug", labels=LABELS, measure=None)
    counts = tally(found)
    assert sum(counts.outcomes.values()) == 4 and counts.attacked == 4
    assert counts.succeeded == sum(one.outcome == "succeeded" for one in found)
    assert counts.queries == pytest.approx(sum(one.queries for one in found) / 4)
    assert json.loads(found[0].as_json())["gradients"] == 0 == counts.gradients


def test_texts_stand_below_each_other_on_narrow_screens() -> None:
    from dualmask.attack_display import attacked_text

    result = attack(honest, [("a good film about nothing much at all", "good")], "deepwordbug", labels=LABELS,
                    measure=None)[0]
    console = Console(width=30, record=True, file=StringIO())
    console.print(attacked_text(result, LABELS, brackets=True))
    lines = console.export_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("  before"))
    assert lines[start + 1].startswith("         "), lines


def test_no_more_edits_once_the_rate_is_reached() -> None:
    text = "alpha beta gamma delta epsilon zeta eta theta iota kappa"

    def sinking(texts: Sequence[object]) -> list[list[float]]:
        """Each changed word takes a little away, never enough."""
        lost = [sum(word not in text.split() for word in str(one).split()) / 100 for one in texts]
        return [[0.9 - share, 0.1 + share] for share in lost]

    for options, expected in (({"max_rate": 0.2}, 2), ({"max_rate": 0.2, "least_words": 4}, 4), ({}, 10)):
        found = attack(sinking, [(text, 0)], "deepwordbug", options=options, measure=None)[0]
        assert (found.outcome, found.changed) == ("failed", expected)
