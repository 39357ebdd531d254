# SPDX-License-Identifier: Apache-2.0
"""harden: a defence around a classifier that is there, what it learns from, what is measured, what is refused."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from attack_stand_ins import tiny_classifier
from conftest import reviews
from rich.console import Console
from typer.testing import CliRunner

from dualmask import hardening
from dualmask.classifier import DefendedClassifier
from dualmask.cli import app
from dualmask.deadline import TimeUp
from dualmask.errors import BusyOutputError, DataError, OptionError
from dualmask.evaluation.records import read_cells
from dualmask.hardening import AttackEffect, CleanEffect, Hardened, HardeningWatch, harden
from dualmask.hardening_display import effect_table, limit_lines, show_hardened
from dualmask.output_lock import output_lock
from dualmask.text.examples import Dataset, Example
from dualmask.text.label_matching import match_labels

Tiny = Callable[[str], Path]
QUICK = {"attacks": ("deepwordbug",), "samples": 6, "minutes": 10.0}


@pytest.fixture(scope="module")
def plain(tiny: Tiny, data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier as another program leaves it: no trace of dualmask in the folder."""
    classifier = tiny_classifier(tiny("bert"), "plain", data)
    folder = tmp_path_factory.mktemp("plain")
    classifier.model.save_pretrained(folder)
    classifier.encode.tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def table(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "reviews.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = [(row.text, data.labels[row.label]) for row in [*data.train, *reviews(40, seed=5)]]
        csv.writer(file).writerows([("text", "label"), *rows])
    return path


@pytest.fixture(scope="module")
def hardened(plain: Path, table: Path, tmp_path_factory: pytest.TempPathFactory) -> Hardened:
    return harden(plain, table, out=tmp_path_factory.mktemp("made") / "hardened", **QUICK)  # type: ignore[arg-type]


def test_the_network_stays_as_it_is_and_both_libraries_open_the_folder(hardened: Hardened, plain: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    assert hardened.out is not None
    before = AutoModelForSequenceClassification.from_pretrained(plain).state_dict()
    after = AutoModelForSequenceClassification.from_pretrained(hardened.out).state_dict()
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    again = DefendedClassifier.load(hardened.out)
    assert again.defence.name == "ddm-restore" and again.labels == ("bad", "good")
    assert again.fingerprint() == hardened.classifier.fingerprint()
    answer = again.predict(["the movei was good"], explain=True)
    assert answer.masked is not None and [word.becomes for word in answer.masked[0]] == ["movie"]


def test_the_folders_page_says_what_was_done(hardened: Hardened) -> None:
    assert hardened.out is not None
    page = (hardened.out / "README.md").read_text(encoding="utf-8")
    effect, = hardened.attacks
    assert "its weights are unchanged" in page and "synonyms=none" in page
    assert f"| attacked by deepwordbug | {effect.before} of 6 | {effect.after} of 6 |" in page
    assert f"| left alone | {hardened.clean.before} of {hardened.clean.texts} |" in page
    assert "/" not in str(hardened.classifier.facts["encoder"]), "where a model lay is nobody's business"


def test_figures_are_those_of_the_records(hardened: Hardened) -> None:
    assert hardened.out is not None
    cells = {(cell.cell.defence, cell.cell.attack): cell for cell in read_cells(hardened.out / "attacks").cells}
    assert set(cells) == {("plain", "deepwordbug"), ("ddm-restore", "deepwordbug")}
    effect, = hardened.attacks
    assert effect.texts == 6 == len(cells["plain", "deepwordbug"].results)
    for defence, count in (("plain", effect.before), ("ddm-restore", effect.after)):
        outcomes = [result.outcome for result in cells[defence, "deepwordbug"].results]
        assert count == sum(outcome in ("failed", "out-of-queries", "out-of-time", "unconfirmed")
                            for outcome in outcomes)
    told = json.loads((hardened.out / "dualmask.json").read_text())["training"]["hardened"]
    assert told["attacks"][0]["before"] == effect.before and told["clean"]["texts"] == hardened.clean.texts


def test_texts_that_are_measured_are_new_to_the_defence(plain: Path, table: Path) -> None:
    bare, _ = hardening.bare_classifier(plain, None, None)
    guard = hardening.build_defence("ddm-restore", preset="restore")
    found = hardening.hardening_texts(str(table), bare, labels=(), choices=hardening.InputChoices(), guard=guard,
                                      seed=0)
    assert len(found.learned) + len(found.measured) == 136 and found.labelled
    assert 0.25 < len(found.measured) / 136 < 0.35
    whole = Dataset("d", ("bad", "good"), reviews(30), None, reviews(10, seed=9))
    parts = hardening.hardening_texts(whole, bare, labels=(), choices=hardening.InputChoices(), guard=guard, seed=0)
    assert parts.learned == whole.train and parts.measured == whole.test


def test_without_labels_the_classifiers_own_answers_stand_in(plain: Path, tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(row.text for row in reviews(60)), encoding="utf-8")
    done = harden(plain, path, attacks=(), minutes=0)
    assert not done.labelled and done.clean.before == done.clean.texts and done.learned + done.clean.texts == 60
    given = harden(plain, [row.text for row in reviews(60)], attacks=(), minutes=0)
    assert not given.labelled and given.clean == CleanEffect(**{**vars(done.clean), "slowdown": given.clean.slowdown})
    numbered = harden(plain, [(row.text, row.label) for row in reviews(60)], attacks=(), minutes=0)
    assert numbered.labelled


def test_a_column_of_texts_alone_will_do(plain: Path, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,body\n" + "\n".join(f"{n},{row.text}" for n, row in enumerate(reviews(40))))
    assert not harden(plain, tmp_path / "t.csv", attacks=(), minutes=0).labelled
    with pytest.raises(DataError, match="no column 'verdict'"):
        harden(plain, tmp_path / "t.csv", columns=hardening.Columns(label="verdict"), minutes=0)


def test_time_that_ends_leaves_what_was_finished(
    plain: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A quarter of the texts comes first; both halves of a comparison stand on the same texts, or it is left out."""
    asked, original = [], hardening.evaluate

    def ends_early(cell: object, *rest: object, **named: object) -> object:
        asked.append(cell)
        if len(asked) > 3:
            raise TimeUp
        return original(cell, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(hardening, "evaluate", ends_early)
    done = harden(plain, table, out=tmp_path / "h", attacks=("deepwordbug", "textbugger"), samples=8)
    assert [(effect.attack, effect.texts) for effect in done.attacks] == [("deepwordbug", 2)]
    assert done.unfinished == ("textbugger",) and DefendedClassifier.load(tmp_path / "h")
    early = made_up(AttackEffect("deepwordbug", 10, 0, 8, 0.01, 9), asked=40)
    assert "Time ended when every attack had tried 10 of 40 texts" in " ".join(limit_lines(early))
    assert "Time ended before textbugger" in " ".join(limit_lines(done))


def test_a_stopped_run_goes_on_and_ends_as_one_that_was_not(
    hardened: Hardened, plain: Path, table: Path, tmp_path: Path,
) -> None:
    class Stopping(HardeningWatch):
        def attacking(self, attack: str, defended: bool, texts: int) -> None:
            if defended and texts > 2:
                raise KeyboardInterrupt

    given = {**QUICK, "out": tmp_path / "h"}
    with pytest.raises(KeyboardInterrupt):
        harden(plain, table, watch=Stopping(), **given)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"not empty.*--resume"):
        harden(plain, table, **given)  # type: ignore[arg-type]
    assert harden(plain, table, resume=True, **given).attacks == hardened.attacks  # type: ignore[arg-type]
    assert harden(plain, table, overwrite=True, **given).attacks == hardened.attacks  # type: ignore[arg-type]


def test_to_go_on_takes_the_very_same_classifier(
    hardened: Hardened, plain: Path, table: Path, tmp_path: Path,
) -> None:
    """Else its records would be another's, and the classifier in use would be replaced without a word."""
    given = {"out": tmp_path / "h", "attacks": (), "minutes": 0}
    made = harden(plain, table, **given)  # type: ignore[arg-type]
    for changes in ({"preset": "vote"}, {"options": {"masking": False}}, {"max_length": 40}, {"seed": 5}):
        with pytest.raises(OptionError, match=r"holds another classifier .* replace it \(--overwrite\)"):
            harden(plain, table, resume=True, **given, **changes)  # type: ignore[arg-type]
    assert DefendedClassifier.load(tmp_path / "h").fingerprint() == made.classifier.fingerprint()


def test_a_new_classifier_takes_no_figures_over_from_the_old_one(plain: Path, table: Path, tmp_path: Path) -> None:
    given = {"out": tmp_path / "h", "samples": 2}
    harden(plain, table, attacks=("deepwordbug", "textbugger"), **given)  # type: ignore[arg-type]
    (tmp_path / "h" / "attacks" / "report.md").write_text("of the old one")
    harden(plain, table, attacks=("deepwordbug",), preset="recommended", overwrite=True, **given)  # type: ignore[arg-type]
    cells = read_cells(tmp_path / "h" / "attacks").cells
    assert {cell.cell.attack for cell in cells} == {"deepwordbug"} and len(cells) == 2
    assert not (tmp_path / "h" / "attacks" / "report.md").exists()


def test_accuracies_of_training_are_not_those_of_the_hardened_classifier(
    tiny: Tiny, data: Dataset, table: Path,
) -> None:
    classifier = tiny_classifier(tiny("bert"), "ddm", data)
    classifier.facts = {"test_accuracy": 0.91, "validation_accuracy": 0.95, "training": {"seed": 3}}
    done = harden(classifier, table, attacks=(), minutes=0)
    assert done.classifier.facts["training"] == {"seed": 3}
    assert not [name for name in done.classifier.facts if name.startswith(("test_", "validation_"))]
    assert any("came with the defence ddm" in note for note in done.notes)
    assert classifier.defence.name == "ddm", "the caller's own is left as it was"


def test_labels_in_another_order_are_suspected() -> None:
    told, = hardening.setup_notes(CleanEffect(90, 10, 10, 1.0), 2, "")
    assert "only 10 of 90" in told and "are the labels in another order (--labels)?" in told
    assert not list(hardening.setup_notes(CleanEffect(90, 45, 45, 1.0), 2, ""))
    assert not list(hardening.setup_notes(CleanEffect(90, 25, 25, 1.0), 4, ""))


def test_given_labels_are_checked_and_may_be_names(plain: Path) -> None:
    import numpy as np

    rows = reviews(60)
    named = harden(plain, [(row.text, ("bad", "good")[row.label]) for row in rows], attacks=(), minutes=0)
    numbered = harden(plain, [(row.text, np.int64(row.label)) for row in rows], attacks=(), minutes=0)  # type: ignore[misc]
    assert named.labelled and numbered.labelled and named.clean.before == numbered.clean.before
    for wrong in (2, -1):
        with pytest.raises(DataError, match=f"class number {wrong} was given"):
            harden(plain, [*((row.text, row.label) for row in rows), ("more", wrong)], minutes=0)
    with pytest.raises(DataError, match="an empty text was given"):
        harden(plain, [*(row.text for row in rows), " "], minutes=0)
    with pytest.raises(DataError, match="expected a text"):
        harden(plain, [*(row.text for row in rows), 7], minutes=0)  # type: ignore[list-item]


def test_a_given_classifier_keeps_its_length_and_its_windows(tiny: Tiny, data: Dataset, table: Path) -> None:
    classifier = tiny_classifier(tiny("bert"), "plain", data)
    with pytest.raises(OptionError, match="leave max_length out"):
        harden(classifier, table, max_length=16, minutes=0)
    assert harden(classifier, table, windows="mean", attacks=(), minutes=0).classifier.windows is not None
    assert classifier.windows is None


@pytest.mark.parametrize(("changes", "words"), [
    ({"attacks": ("misprint",)}, "knows one defence"),
    ({"defence": "freelb"}, "acts while a classifier is trained"),
    ({"defence": "shield"}, "train one with"),
    ({"samples": 0}, "samples is 0"),
    ({"minutes": -1.0}, "minutes is -1"),
    ({"resume": True}, "name it with out"),
    ({"labels": ("a", "b", "c")}, "names 3 classes, but the model has 2"),
])
def test_what_can_not_be_meant_is_refused(changes: dict[str, object], words: str, plain: Path, table: Path) -> None:
    with pytest.raises(OptionError, match=words):
        harden(plain, table, **{"minutes": 0.0, **changes})  # type: ignore[arg-type]


def test_nothing_is_written_over_unasked(plain: Path, table: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="save the new one in another folder"):
        harden(plain, table, out=plain, overwrite=True)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("keep")
    with pytest.raises(OptionError, match="no classifier of dualmask, and nothing in it is replaced"):
        harden(plain, table, out=tmp_path / "notes", overwrite=True)
    with output_lock(tmp_path / "busy"), pytest.raises(BusyOutputError):
        in_another_thread(lambda: harden(plain, table, out=tmp_path / "busy"))
    assert (tmp_path / "notes" / "mine.txt").read_text() == "keep"


def in_another_thread(work: Callable[[], object]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def test_few_texts_are_refused(plain: Path) -> None:
    with pytest.raises(DataError, match="has 5 texts; give at least 20"):
        harden(plain, [row.text for row in reviews(5)], minutes=0)


def test_a_defence_that_sets_thresholds_gets_held_out_texts(plain: Path, table: Path) -> None:
    done = harden(plain, table, defence="fgws", attacks=(), minutes=0)
    assert done.classifier.defence.threshold is not None and done.name == "fgws (recommended)"
    with pytest.raises(OptionError, match="sets thresholds on held-out texts"):
        harden(plain, [row.text for row in reviews(60)], defence="fgws", minutes=0)


def test_a_loaded_model_needs_its_tokenizer(plain: Path, table: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(plain), AutoTokenizer.from_pretrained(plain)
    with pytest.raises(OptionError, match="without its tokenizer"):
        harden(model, table, minutes=0)
    done = harden(model, table, tokenizer=tokenizer, max_length=48, attacks=(), minutes=0)
    assert done.classifier.encode.max_length == 48


def test_labels_are_matched_by_name_by_number_or_as_told() -> None:
    assert match_labels(["good", "bad"], ["bad", "good"]) == ((1, 0), "")
    assert match_labels(["Positive", "negative"], ["NEGATIVE", "POSITIVE"]).classes == (1, 0)
    numbered = match_labels(["0", "1"], ["NEGATIVE", "POSITIVE"])
    assert numbered.classes == (0, 1) and "0 is NEGATIVE, 1 is POSITIVE" in numbered.note
    assert match_labels(["ham", "spam"], ["LABEL_0", "LABEL_1"], ["ham", "spam"]).classes == (0, 1)
    with pytest.raises(OptionError, match="has 'ham' more than once"):
        match_labels(["ham"], ["LABEL_0", "LABEL_1"], ["ham", "ham"])
    with pytest.raises(DataError, match=r"ham, spam\) are not those of the model \(LABEL_0, LABEL_1\).*--labels ham"):
        match_labels(["ham", "spam"], ["LABEL_0", "LABEL_1"])
    with pytest.raises(DataError, match="label 'egg', which is not among --labels ham,spam"):
        match_labels(["ham", "egg"], ["LABEL_0", "LABEL_1"], ["ham", "spam"])


def made_up(*attacks: AttackEffect, **changes: object) -> Hardened:
    values = {"classifier": None, "name": "ddm-restore (restore)", "seconds": 2.0, "learned": 900, "labelled": True,
              "clean": CleanEffect(400, 320, 318, 1.12), "attacks": attacks, **changes}
    return Hardened(**values)  # type: ignore[arg-type]


def shown(done: Hardened, width: int = 80) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    show_hardened(console, done)
    return console.export_text()


def test_the_table_says_what_it_brings_and_what_it_does_not_stop() -> None:
    done = made_up(AttackEffect("deepwordbug", 40, 1, 27, 1e-6, 31), AttackEffect("textfooler", 40, 0, 2, 0.5, 31))
    text = " ".join(shown(done).split())
    assert "320 of 400" in text and "318 of 400" in text and "-0.5 points on clean texts" in text
    assert "1 of 40" in text and "27 of 40 (52-80 %)" in text and "an answer takes 1.1 times as long" in text
    assert "does not stop synonyms (textfooler leaves 2 of 31 right answers)" in text
    assert "deepwordbug leaves" not in text
    assert done.attacks[0].helps and not done.attacks[1].helps
    assert "Nothing was attacked" in shown(made_up())
    assert "an answer counts as right if it is what the classifier said" in shown(made_up(labelled=False))
    assert all(len(line) <= 80 for line in Console(width=80).render_str(str(effect_table(done))).split())


def test_the_command_hardens_measures_and_says_what_to_type_next(plain: Path, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "h"
    found = CliRunner().invoke(app, ["harden", str(plain), str(table), "--out", str(out), "--attack", "deepwordbug",
                                     "--samples", "4", "--quiet"])
    assert found.exit_code == 0, found.output
    words = " ".join(found.output.split())
    assert "holds the same network with ddm-restore (restore) around it" in words and "of 4 (" in words
    assert f"predict {out}" in words and "--explain" in words and (out / "dualmask.json").exists()


def test_pairs_are_hardened_too(plain: Path) -> None:
    rows = [(row.text, "the plot") for row in reviews(40)]
    done = harden(plain, rows, attacks=(), minutes=0)
    assert done.classifier.predict([("a gooood movie", "the plto")]).labels


def test_long_texts_are_counted_or_read_in_windows(plain: Path, table: Path, tmp_path: Path) -> None:
    rows = [(" ".join([row.text] * 20), row.label) for row in reviews(40)]
    cut = harden(plain, rows, attacks=(), minutes=0, max_length=24)
    assert cut.clean.cut == cut.clean.texts == 12 and "12 of 12 texts are longer than the 24 tokens" in shown(cut)
    read = harden(plain, rows, attacks=(), minutes=0, max_length=24, windows="any:bad", out=tmp_path / "h")
    assert read.clean.cut == 0 and "longer than" not in shown(read)
    windows = DefendedClassifier.load(tmp_path / "h").windows
    assert windows is not None and windows.rule == "any:bad"


def test_the_folder_remembers_the_columns(plain: Path, tmp_path: Path) -> None:
    rows = "\n".join(f"{row.text},{'good' if row.label else 'bad'},x" for row in reviews(40))
    (tmp_path / "t.csv").write_text(f"opinion,verdict,text\n{rows}")
    done = harden(plain, tmp_path / "t.csv", columns=hardening.Columns("opinion", "verdict"), attacks=(), minutes=0)
    assert done.classifier.facts["columns"] == {"text": "opinion", "label": "verdict", "pair": None}


@pytest.mark.parametrize(("empty", "count"), [("skip", 40), ("answer", 43)])
def test_empty_texts_are_skipped_or_taken(empty: str, count: int, plain: Path, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,text\n" + "\n".join(
        f"{n},{row.text if row else ''}" for n, row in enumerate([*reviews(40), None, None, None])))
    with pytest.raises(DataError, match="empty text"):
        harden(plain, tmp_path / "t.csv", attacks=(), minutes=0)
    done = harden(plain, tmp_path / "t.csv", attacks=(), minutes=0, empty=empty)  # type: ignore[arg-type]
    assert done.learned + done.clean.texts == count


def test_examples_may_be_given(plain: Path) -> None:
    done = harden(plain, [Example(row.text, row.label) for row in reviews(40)], attacks=(), minutes=0)
    assert done.labelled and done.clean.texts == 12
