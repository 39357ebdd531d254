# SPDX-License-Identifier: Apache-2.0
"""The command line as a user meets it: commands, errors without stack traces, quick help, the quickstart."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from io import StringIO
from pathlib import Path

import pytest
from conftest import small_files
from rich.console import Console, ConsoleDimensions
from typer.testing import CliRunner

from dualmask import __version__
from dualmask.attacks import ATTACKS, aware_of
from dualmask.cards import Paper
from dualmask.classifier import DefendedClassifier
from dualmask.cli import app, main, resume_hint
from dualmask.defences import DEFENCES, build_defence
from dualmask.defences.ddm_restore import DDMRestore
from dualmask.display import in_short, method_table
from dualmask.errors import DualmaskError
from dualmask.evaluation.grid import read_grid
from dualmask.evaluation.metrics import robustness
from dualmask.evaluation.records import read_cell, read_cells
from dualmask.measured_figures import measured_rows
from dualmask.models.encoders import load_encoder
from dualmask.options import TrainingOptions
from dualmask.quickstart import purpose, quick_grid, run_quickstart
from dualmask.text.examples import FIND, Dataset, Example
from dualmask.training_display import describe, explains, guessed, rare_classes, training_price

Run = Callable[..., tuple[int, str, str]]
ENTRY = [sys.executable, "-c", "from dualmask.cli import main; main()"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The entry point as the shell calls it: exit code, standard output, standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dualmask", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "120")
        with pytest.raises(SystemExit) as stop:
            main()
        shown = capsys.readouterr()
        return int(stop.value.code or 0), shown.out, shown.err

    return call


def write_rows(path: Path, rows: list[Example], labels: tuple[str, ...]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([("id", "body", "stars"), *((n, row.text, labels[row.label]) for n, row in enumerate(rows))])
    return path


@pytest.fixture(scope="module")
def files(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_rows(folder / "train.csv", data.train, data.labels)
    write_rows(folder / "test.csv", data.test or [], data.labels)
    return folder


@pytest.fixture(scope="module")
def model(tiny: Callable[[str], Path], files: Path) -> Path:
    """A model trained by the command itself."""
    arguments = ["train", files / "train.csv", "--test", files / "test.csv", "--out", files / "model",
                 "--encoder", tiny("bert"), "--text-column", "body", "--label-column", "stars", "--epochs", 2,
                 "--defence", "ddm",
                 "--learning-rate", 0.01, "--max-length", 48, "--seed", 3, "--option", "test-rate=0.2",
                 "--set", "patience=0", "--set", "weight-decay=0", "--quiet"]
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    assert "test accuracy, defence on" in result.stdout and "test accuracy, defence off" in result.stdout
    assert "2 of 2; the weights are those of epoch " in result.stdout
    assert "dualmask predict" in result.stdout and "--explain" in result.stdout
    return files / "model"


def test_train_hands_every_option_on(model: Path) -> None:
    saved = json.loads((model / "dualmask.json").read_text())
    facts = saved["training"]
    assert saved["options"]["test_rate"] == 0.2 and saved["max_length"] == 48
    expected = {"epochs": 2, "learning_rate": 0.01, "seed": 3, "patience": 0, "weight_decay": 0.0}
    assert {name: facts["training"][name] for name in expected} == expected
    assert facts["rows"]["test"] == 24 and 0 <= facts["test_accuracy_undefended"] <= 1


def test_training_tells_which_columns_and_classes_it_took(
    run: Run, tiny: Callable[[str], Path], tmp_path: Path,
) -> None:
    """A column that goes by a usual name need not be the one that was meant."""
    rows = [f"the movie {word},{'yes' if n % 2 else 'no'},{n % 4 if n else 7}" for n, word in enumerate("abcdefgh" * 6)]
    (tmp_path / "d.csv").write_text("opinion text,verdict,stars\n" + "\n".join(rows))
    code, out, err = run("train", tmp_path / "d.csv", "--out", tmp_path / "m", "--encoder", tiny("bert"), "--defence",
                         "plain", "--epochs", 1, "--max-length", 48, "--text-column", "opinion text", "--quiet")
    told = "text column: opinion text; label column: stars; 5 classes: 0, 1, 2, 3, 7"
    assert code == 0, err
    assert told in " ".join(err.split()) and told in " ".join(out.split())
    assert "(found by name; others: --label-column)" in err
    assert "fewer than 5 training texts of 7 (1): too few to learn" in err
    assert "next: dualmask predict" in out and "--explain" not in out  # plain hides nothing


def test_the_price_of_training_is_told_before_it() -> None:
    """Hours go into what trains on attacked texts; whoever has no GPU wants to know before."""
    row = next(row for row in measured_rows() if row.name == "ddm-restore" and row.data == "mr")
    told = training_price("ddm-restore", "recommended") or ""
    assert f"took {row.training_times:.1f} times as long" in told and "--preset restore" in told
    assert training_price("plain", "recommended") is None and training_price("ddm-restore", "restore") is None


def test_what_is_told_of_data_and_defence_before_and_after_training(
    tiny: Callable[[str], Path], data: Dataset,
) -> None:
    many = Dataset("many", tuple(f"c{n}" for n in range(12)), data.train, None, None)
    assert describe(many).startswith("12 classes: c0, c1") and describe(many).endswith("c9 and 2 more")
    assert not list(guessed(many, FIND)) and not list(rare_classes(data))
    assert next(rare_classes(many)).endswith("label column.") and "c2 (0)" in next(rare_classes(many))
    for name, told in {"plain": False, "freelb": False, "ddm": True, "ddm-restore": True}.items():
        model, tokenizer = load_encoder(tiny("bert"), data.labels, seed=0)
        classifier = DefendedClassifier(model, tokenizer, build_defence(name), labels=data.labels, max_length=48)
        classifier.fit_defence(data.train)
        assert explains(classifier, data) is told, name


def test_help_answers_without_the_heavy_libraries() -> None:
    """They are what takes seconds to import."""
    check = ("import sys\nfrom dualmask.cli import main\n"
             "try:\n    main()\nexcept SystemExit:\n    pass\n"
             "heavy = {'torch', 'transformers', 'datasets', 'pyarrow', 'huggingface_hub', 'accelerate', 'numpy'}\n"
             "sys.exit(repr(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)")
    for arguments in (["--help"], ["train", "--help"], ["predict", "--help"], ["--version"]):
        command = [sys.executable, "-c", check, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_version_and_no_arguments(run: Run) -> None:
    assert run("--version") == (0, f"dualmask {__version__}\n", "")
    code, out, _ = run("--help")
    assert code == 0 and all(name in out for name in (
        "train", "predict", "attack", "bench", "report", "compare", "list", "card", "quickstart", "resources"))


def test_list_shows_every_defence(run: Run) -> None:
    code, out, _ = run("list")
    assert code == 0
    figures, methods = out.split("'make results' wrote these figures")
    for name, kind in DEFENCES.items():
        row = next(line for line in methods.splitlines() if re.match(rf"\W*{re.escape(name)} ", line))
        assert kind.family.split()[0] in row
        assert all(preset in methods for preset in kind.presets)
        assert any(line.startswith(name) for line in figures.splitlines())


@pytest.mark.parametrize("columns", [60, 120])
@pytest.mark.parametrize("name", [*DEFENCES, *ATTACKS])
def test_card_shows_every_section_and_option(
    run: Run, name: str, columns: int, monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = {**DEFENCES, **ATTACKS}[name]
    monkeypatch.setattr("rich.console.Console.size", property(lambda console: ConsoleDimensions(columns, 40)))
    code, out, _ = run("card", name)
    assert code == 0 and all(heading in out for heading in kind.card().sections)
    shown = {words[0] for line in out.splitlines() if (words := line.split()) and not line.startswith(" ")}
    training = fields(TrainingOptions) if name in DEFENCES else ()
    assert {option.name for option in (*fields(kind.Options), *training)} <= shown
    assert all(preset in out for preset in kind.presets)


def test_card_of_a_combination(run: Run) -> None:
    code, out, _ = run("card", "ddm+freelb++")
    assert code == 0 and "test_rate" in out and "step_size" in out
    code, _, err = run("card", "ranmask+safer")
    assert code == 2 and "can't be combined" in err


def test_card_shows_defaults_and_what_presets_change(run: Run) -> None:
    _, out, _ = run("card", "ddm")
    lines = out.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("test_rate "))
    assert lines[place].split() == ["test_rate", "0.1", "number"]
    assert "paper: 0.3, release: 0.2" in lines[place + 1]


@pytest.mark.parametrize(("arguments", "message"), [
    (["card", "dmd"], "unknown defence or attack 'dmd': did you mean 'ddm'?"),
    (["train", "{train}", "--out", "x", "--defence", "dmd"], "unknown defence 'dmd'"),
    (["train", "{train}", "--out", "x", "--defence", "ddm", "--preset", "papr"],
     "no preset 'papr': did you mean 'paper'?"),
    (["train", "{train}", "--out", "x", "--defence", "ddm", "--option", "tst_rate=1"], "did you mean 'test_rate'?"),
    (["train", "{train}", "--out", "x", "--option", "unit"], "option 'unit' has no value"),
    (["train", "{train}", "--out", "x", "--set", "epoch=1"], "did you mean 'epochs'?"),
    (["train", "missing.csv", "--out", "x"], "missing.csv: no such file"),
    (["train", "{train}", "--out", "x", "--label-column", "nope"], "no column 'nope'; the columns are: id, body"),
    (["predict", "{train}", "some text"], "no saved dualmask classifier"),
    (["predict", "{model}"], "neither a text nor --file was given"),
    (["predict", "{model}", "text", "--file", "{train}"], "both texts and --file were given"),
    (["predict", "{model}", "text", "--resume"], "it needs --file and --out"),
    (["predict", "{model}", "--file", "{train}", "--out", "x.xlsx"], "ending '.xlsx'"),
    (["predict", "{model}", "--file", "missing.csv"], "missing.csv: no such file"),
    (["resources", "fetch", "minilmm"], "did you mean 'minilm'?"),
    (["card", "textfoolr"], "did you mean 'textfooler'?"),
    (["attack", "{model}", "{train}", "--attack", "pws"], "unknown attack 'pws': did you mean 'pwws'?"),
    (["attack", "{model}", "{train}", "--preset", "papers"], "did you mean 'paper'?"),
    (["attack", "{model}", "{train}", "--option", "neighbours=0"], "expected a number of at least 1"),
    (["attack", "{model}", "{train}", "--resume"], "name it with --out"),
    (["attack", "{model}", "{train}", "--labels", "a,b,c"], "names 3 classes, but the model has 2: bad,good"),
    (["attack", "{model}", "{train}", "--labels", "a,b", "--text-column", "body", "--label-column", "stars"],
     "the names of the classes by --labels are: a, b"),
    *[([command, "{model}", "{train}", "--labels", "bad,bad", *more], "--labels bad,bad has 'bad' more than once")
      for command, more in (("attack", []), ("evaluate", []), ("certify", []), ("harden", ["--out", "hardened"]))],
    (["attack", "{model}", "{train}", "--option", "queries"], "write queries=VALUE"),
    (["attack", "http://localhost:9/x", "{train}"], "--labels bad,good"),
    (["attack", "http://localhost:9/x", "{train}", "--labels", "bad,good", "--undefended"], "a server keeps its own"),
])
def test_errors_are_one_message_and_code_2(
    run: Run, model: Path, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    arguments: list[str], message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", None)  # nothing is piped in
    code, out, err = run(*(part.format(train=files / "train.csv", model=model) for part in arguments))
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and message in " ".join(err.split())
    assert "Traceback" not in err and not list(tmp_path.iterdir())


def test_several_wrong_options_are_told_at_once(run: Run, files: Path) -> None:
    _, _, err = run("train", files / "train.csv", "--out", "x", "--defence", "ddm", "--option", "tst_rate=1",
                    "--option", "unit=line")
    assert "tst_rate" in err and "expected one of token, word, type" in err


def test_a_folder_that_cannot_be_written_is_no_stack_trace(run: Run, files: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = run("predict", model, "text", "--out", tmp_path / "file" / "out.csv")
    assert code == 2 and err.startswith("error: ") and "is a file (Not a directory)" in " ".join(err.split())


def test_a_bug_of_ours_keeps_its_stack_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["dualmask", "card", "ddm"])
    monkeypatch.setattr("dualmask.display.method_card", lambda kind: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        main()


def test_predict_shows_a_table(run: Run, model: Path) -> None:
    code, out, _ = run("predict", model, "the movie was superb", "a dull plot")
    answers = DefendedClassifier.load(model, device="cpu").predict(["the movie was superb", "a dull plot"])
    lines, rows = out.splitlines(), answers.probabilities.tolist()
    assert code == 0 and lines[0].split() == ["label", "confidence", "text"]
    for line, label, row, text in zip(lines[1:], answers.labels, rows, ("superb", "dull plot"), strict=True):
        assert line.startswith(label) and f"{max(row):.1%}" in line and line.rstrip().endswith(text)


def test_explain_marks_words_without_colour_too(run: Run, model: Path) -> None:
    _, out, _ = run("predict", model, "the zzz movie was good", "--explain")
    assert "the ⟦zzz⟧ movie was good" in out and "distrusted: zzz 0.00" in out and "hidden from the network" in out
    _, out, _ = run("predict", model, "the zzz movie was good", "--explain", "--undefended")
    assert "⟦" not in out and "The defence was off" in out


def test_predict_prints_csv_and_json_lines(model: Path) -> None:
    def printed(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["predict", str(model), *arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    answers = DefendedClassifier.load(model, device="cpu").predict(["a, \"b\"", "good"], defended=False)
    rows = list(csv.DictReader(StringIO(printed('a, "b"', "good", "--format", "csv", "--undefended"))))
    assert [row["text"] for row in rows] == ['a, "b"', "good"] and [row["predicted"] for row in rows] == answers.labels
    assert float(rows[0]["p_good"]) == pytest.approx(float(answers.probabilities[0, 1]), abs=1e-5)
    row = json.loads(printed("zzz good movie", "--format", "jsonl", "--explain"))
    assert row["text"] == "zzz good movie" and row["masked"][0]["text"] == "zzz"


def test_predict_a_file_to_a_file_and_to_the_screen(run: Run, model: Path, files: Path, tmp_path: Path) -> None:
    source, out = files / "test.csv", tmp_path / "out.jsonl"
    code, shown, _ = run("predict", model, "--file", source, "--out", out, "--text-column", "body", "--batch-size", 5)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert code == 0 and "24 rows answered" in shown and [row["id"] for row in rows] == [str(n) for n in range(24)]
    assert run("predict", model, "--file", source, "--out", out)[0] == 2
    assert run("predict", model, "--file", source, "--out", out, "--overwrite")[0] == 0
    _, shown, _ = run("predict", model, "--file", source)
    assert len(shown.splitlines()) == 25
    assert [line.split()[0] for line in shown.splitlines()[1:]] == [row["predicted"] for row in rows]


def test_empty_texts_are_answered_and_told(run: Run, model: Path, tmp_path: Path) -> None:
    """Training refuses them; here rows must keep their places."""
    (tmp_path / "in.csv").write_text('text,n\ngood movie,1\n"",2\n"  ",3\n')
    told = "note: 2 of 3 texts are empty; their answers mean nothing."
    code, out, err = run("predict", model, "--file", tmp_path / "in.csv", "--out", tmp_path / "out.csv", "--quiet")
    assert code == 0 and "3 rows answered" in out and told in err
    for chosen in ([], ["--format", "csv"], ["--out", tmp_path / "texts.csv"]):
        code, _, err = run("predict", model, "good movie", "", " ", *chosen)
        assert code == 0 and told in err
    assert "empty" not in run("predict", model, "good movie")[2]
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 4


def test_texts_to_a_file(run: Run, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    assert run("predict", model, "good movie", "--out", out)[0] == 0
    assert out.read_text().splitlines()[0] == "text,predicted,confidence,p_bad,p_good"
    code, _, err = run("predict", model, "good movie", "--out", out)
    assert code == 2 and "or replace it (--overwrite)" in err
    assert run("predict", model, "bad movie", "--out", out, "--overwrite")[0] == 0
    assert "bad movie" in out.read_text()
    with small_files(20):
        code, _, err = run("predict", model, "good movie", "--out", out, "--overwrite")
    assert code == 2 and "out.csv can't be written: the file may not grow that large" in err
    assert "bad movie" in out.read_text() and list(tmp_path.iterdir()) == [out], "what was there stays"


ATTACK = ["--attack", "deepwordbug", "--no-measure", "--text-column", "body", "--label-column", "stars", "--quiet"]


def test_attack_shows_texts_counts_and_setting(run: Run, model: Path, files: Path) -> None:
    code, out, _ = run("attack", model, files / "test.csv", *ATTACK, "--samples", 6, "--option", "queries=40")
    assert code == 0
    assert "deepwordbug, preset textattack-0.3.11, queries=40, seed 0, against" in out
    assert "a model with the defence ddm that it" in " ".join(out.split())
    assert "6 of " in out and "accuracy under attack" in out and "queries" in out
    assert "--out attack.jsonl" in out.replace("\n", " ")
    _, bare, _ = run("attack", model, files / "test.csv", *ATTACK, "--samples", 6, "--undefended")
    assert "a model without a defence" in " ".join(bare.split())


def test_attack_writes_records_and_goes_on_with_them(run: Run, model: Path, files: Path, tmp_path: Path) -> None:
    records = tmp_path / "attack.jsonl"
    command = ["attack", model, files / "test.csv", *ATTACK, "--samples", 5, "--out", records]
    assert run(*command)[0] == 0
    lines = records.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 6 and json.loads(lines[0])["attack"] == "deepwordbug"
    code, _, err = run(*command)
    assert code == 2 and "--resume" in err and "--overwrite" in err
    _, _, err = run(*command, "--resume", "--attack", "pwws")  # its other settings go without saying
    assert "other settings (attack: 'deepwordbug' there, 'pwws' now); give" in err
    records.write_text("\n".join(lines[:3]) + "\n" + lines[3][:20], encoding="utf-8")
    assert run(*command, "--resume")[0] == 0

    def timeless(text: str) -> dict[str, object]:
        return {**json.loads(text), "seconds": 0}

    again = records.read_text(encoding="utf-8").splitlines()
    assert [timeless(line) for line in again] == [timeless(line) for line in lines]


def test_attack_modes(run: Run, model: Path, files: Path, tmp_path: Path) -> None:
    data = ["attack", model, files / "test.csv", *ATTACK, "--samples", 10]
    whole, strict = tmp_path / "transfer.jsonl", tmp_path / "strict.jsonl"
    code, out, _ = run(*data, "--mode", "transfer", "--out", whole)
    assert code == 0 and "made against the network without its defence (transfer)" in " ".join(out.split())
    bare = tmp_path / "bare.jsonl"
    assert run(*data, "--undefended", "--out", bare)[0] == 0
    assert [one.adversarial for one in read_cell(whole).results] == [
        one.adversarial for one in read_cell(bare).results]
    assert read_cell(whole).cell.mode == "transfer" and read_cell(bare).cell.defence == "ddm-off"
    assert read_cell(whole).header["options"] == read_cell(bare).header["options"]
    code, out, _ = run(*data[:-2], "--mode", "transfer-successful", "--source", bare, "--out", strict)
    assert code == 0 and "only those that fooled it (transfer-successful)" in " ".join(out.split())
    fooled = [one.index for one in read_cell(bare).results if one.outcome == "succeeded"]
    assert [one.index for one in read_cell(strict).results] == fooled
    asked = tmp_path / "adaptive.jsonl"
    assert run(*data, "--out", asked)[0] == 0
    code, out, err = run("compare", bare, asked)
    assert code == 0 and "deepwordbug" in out and "10 x 1" in out, err
    code, _, err = run("compare", bare, whole)
    assert code == 2 and "transfer" in err


def test_attack_chooses_one_that_knows_the_defence(run: Run, model: Path, files: Path) -> None:
    columns = ["--text-column", "body", "--label-column", "stars", "--no-measure", "--quiet", "--samples", 2]
    code, out, err = run("attack", model, files / "test.csv", "--mode", "defence-aware", *columns)
    assert code == 0 and "(defence-aware)" in out, err
    assert out.split(", preset")[0].split()[-1] in aware_of("ddm")
    code, _, err = run("attack", model, files / "test.csv", "--mode", "defence-aware", "--undefended", *columns)
    assert code == 2 and "knows the defence 'plain'" in err


@pytest.mark.parametrize(("flags", "told"), [
    (["--mode", "transfer", "--resume", "--out", "x.jsonl"], "--resume does not go with"),
    (["--mode", "transfer", "--undefended"], "leave --undefended out"), (["--source", "x.jsonl"], "texts to replay"),
    (["--mode", "transfer", "--source", "x.jsonl", "--samples", "3"], "leave --samples out"),
    (["--mode", "defence-aware"], "the mode 'defence-aware' is not its own"),
    (["--mode", "transfer", "--sequential"], "no --sequential"),
])
def test_attack_modes_refuse_what_makes_no_sense(
    run: Run, model: Path, files: Path, flags: list[str], told: str,
) -> None:
    code, _, err = run("attack", model, files / "test.csv", *ATTACK, *flags)
    assert code == 2 and told in " ".join(err.split())


@pytest.mark.parametrize("command", [
    ["attack", "{data}", "--out", "{data}"], ["attack", "{data}", "--out", "{link}"],
    ["attack", "{data}", "--mode", "transfer", "--source", "{link}", "--out", "{data}"],
    ["certify", "{data}", "--out", "{link}"], ["certify", "{data}", "--html", "{link}"],
    ["certify", "{data}", "--out", "x.jsonl", "--html", "x.jsonl"]])
def test_what_is_read_is_not_replaced(run: Run, tmp_path: Path, command: list[str]) -> None:
    data, link = tmp_path / "data.csv", tmp_path / "link.jsonl"
    data.write_text("text,label\ngood,1\n")
    os.link(data, link)
    name, *words = (word.format(data=data, link=link) for word in command)
    code, _, err = run(name, "nowhere", *words, "--overwrite")
    assert code == 2 and "are one file" in err and data.read_text() == "text,label\ngood,1\n"


def test_attack_refuses_before_it_overwrites(run: Run, model: Path, files: Path, tmp_path: Path) -> None:
    records = tmp_path / "attack.jsonl"
    records.write_text("precious\n", encoding="utf-8")
    code, _, err = run("attack", model, files / "test.csv", "--attack", "textfooler", "--no-measure", "--out", records,
                       "--overwrite", "--text-column", "body", "--label-column", "stars", "--option",
                       "tagger=nowhere", "--option", "similarity=none")
    assert code == 2 and "nowhere" in err
    assert records.read_text(encoding="utf-8") == "precious\n"


def test_lists_can_be_had_one_by_one(run: Run) -> None:
    both, defences, attacks = (run("list", *part)[1] for part in ([], ["defences"], ["attacks"]))
    assert "textfooler" in attacks and "Defensive Dual Masking" not in attacks and "textfooler" not in defences
    assert attacks.count("knows ddm-restore") == len(aware_of("ddm-restore"))
    assert attacks.count("knows ddm") == len(aware_of("ddm")) + len(aware_of("ddm-restore"))
    assert "textfooler" in both and "ddm" in both
    assert set(ATTACKS) <= set(re.findall(r"\w+", attacks))


@pytest.mark.parametrize("width", [80, 120])
def test_lists_name_papers_on_narrow_screens_too(width: int) -> None:
    for kinds in (ATTACKS.values(), DEFENCES.values()):
        console = Console(file=StringIO(), width=width)
        console.print(method_table(kinds, width=width))
        shown = console.file.getvalue()  # type: ignore[attr-defined]
        text = " ".join(re.sub(r"[\u2500-\u257f]", " ", shown).split())
        assert all(kind.paper.authors.split(", ")[0] in text for kind in kinds if kind.paper)
    assert in_short(Paper("T", "Yoo, Qi", "X 2021")) == "Yoo and Qi, X 2021"
    assert in_short(Paper("T", "Jin, Jin, Zhou", "X 2020")) == "Jin et al., X 2020"


@pytest.mark.slow
def test_stopped_by_the_keyboard_it_says_how_to_go_on(tiny: Callable[[str], Path], files: Path, tmp_path: Path) -> None:
    out = tmp_path / "my model"
    process = subprocess.Popen(
        [*ENTRY, "train", str(files / "train.csv"), "--out", str(out), "--encoder", str(tiny("bert")),
         "--max-length", "48", "--epochs", "100000", "--set", "patience=0"], stderr=subprocess.PIPE, text=True)
    log, deadline = out / "training.jsonl", time.monotonic() + 60
    while not (log.exists() and '"event": "epoch"' in log.read_text()):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in err
    last = err.splitlines()[-1]
    assert last.startswith("stopped; to go on: dualmask train ") and last.endswith("--resume") and f"'{out}'" in last


def test_hints_are_given_only_where_a_run_can_go_on() -> None:
    assert resume_hint(["card", "ddm"]) == "." and resume_hint(["predict", "m", "--file", "a.csv"]) == "."
    assert resume_hint(["predict", "m", "--file=a b.csv", "--out", "o"]).endswith("m '--file=a b.csv' --out o --resume")
    assert resume_hint(["train", "d", "--resume"]) == "; to go on: dualmask train d --resume"


QUICK = """
name = "tiny"
data = [{{name = "reviews", source = "{folder}", text_column = "body", label_column = "stars"}}]
encoders = [{{name = "tiny", source = "{encoder}"}}]
defences = ["plain", "ddm"]
attacks = ["deepwordbug"]
modes = ["adaptive", "transfer"]
samples = 8
measure = "none"
training = {{epochs = 1, max_length = 40}}
"""


def test_the_quickstart_trains_attacks_and_leaves_a_report(
    tiny: Callable[[str], Path], files: Path, tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("train.csv", "test.csv"):
        (folder / name).write_bytes((files / name).read_bytes())
    path = tmp_path / "tiny.toml"
    path.write_text(QUICK.format(folder=folder, encoder=tiny("bert")), encoding="utf-8")
    screen, out = StringIO(), tmp_path / "first run"
    page = run_quickstart(out, grid=read_grid(path), console=Console(file=screen, width=110), quiet=True)
    shown, words = " ".join(screen.getvalue().split()), page.read_text(encoding="utf-8")
    assert page == out / "report.html" and "<table" in words and "Why you might not believe this" in words
    cells = read_cells(out / "records").cells
    assert {(one.cell.defence, one.cell.mode) for one in cells} == {
        (defence, mode) for defence in ("plain", "ddm") for mode in ("adaptive", "transfer")}
    for one in cells:
        found = robustness(one.results)
        held = found.right - found.flipped
        assert f"-> {held} of 8 texts still right" in shown or f": {held} -> " in shown or one.cell.mode == "transfer"
        assert f"{100 * float(found.accuracy_under_attack):.1f}" in shown
    assert "reasons to doubt these numbers" in shown and f"'{page}'" not in shown and str(page) in shown
    assert f"report '{out}'" in shown and "predict" in shown
    before = {file: file.stat().st_mtime_ns for file in out.rglob("*.jsonl")}
    run_quickstart(out, grid=read_grid(path), console=Console(file=StringIO()), quiet=True)  # nothing is done twice
    assert {file: file.stat().st_mtime_ns for file in out.rglob("*.jsonl")} == before


def test_the_quickstart_that_ships_does_what_it_promises() -> None:
    grid = quick_grid()
    assert [entry.name for entry in grid.attacks] == ["deepwordbug", "textbugger", "textfooler"]
    assert [entry.name for entry in grid.defences] == ["plain", "hardened", "ddm"]
    hardened = grid.defences[1]
    assert hardened.network == "plain" and hardened.preset == DDMRestore.preset_around_trained
    assert (grid.samples or 0) >= 40 and {"adaptive", "transfer"} <= set(grid.modes)
    told = ("plain and ddm", "hardened around the network of plain (no training)", "rotten-tomatoes",
            f"{grid.samples} test texts")
    assert all(words in purpose(grid) for words in told)


def test_a_quickstart_that_fails_says_what_to_do(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    path = tmp_path / "tiny.toml"
    (tmp_path / "train.csv").write_text("a,b\n1,2\n")
    path.write_text(QUICK.format(folder=tmp_path / "train.csv", encoder=tiny("bert")), encoding="utf-8")
    with pytest.raises(DualmaskError, match=r"4 cells failed, the first .*'body'.*same command"):
        run_quickstart(tmp_path / "out", grid=read_grid(path), console=Console(file=StringIO()), quiet=True)


def test_commands_to_type_next_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a virtual environment that is not activated, the program's name alone is of no use."""
    from dualmask.display import own_command

    program = tmp_path / "env" / "dualmask"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(program), "list"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert own_command() == str(Path("env", "dualmask"))
    monkeypatch.setenv("PATH", str(program.parent))
    assert own_command() == "dualmask"
