# SPDX-License-Identifier: Apache-2.0
"""Detectors: their figures by hand and by brute force, their scores in records, their section in reports."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from attack_stand_ins import stand_ins, tiny_classifier
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from torch import Tensor

from dualmask.attack_display import tally_table
from dualmask.attacks import build_attack
from dualmask.classifier import DefendedClassifier
from dualmask.defences.base import Defence
from dualmask.errors import DataError
from dualmask.evaluation.detection import auroc, detection
from dualmask.evaluation.metrics import robustness
from dualmask.evaluation.protocol import Protocol, evaluate, suspicions
from dualmask.evaluation.records import Cell, CellRecords, Loaded, Mode, read_cell
from dualmask.reporting.page import html
from dualmask.reporting.report import Report, build_report
from dualmask.reporting.report_latex import latex
from dualmask.reporting.report_markdown import markdown
from dualmask.reporting.report_tables import detection_rows
from dualmask.results import AttackResult, Outcome, as_line, read_results, tally
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Dataset, Text

CELL = Cell("reviews", "tiny", "doubting", "deepwordbug", "adaptive", 0)


def result(index: int, outcome: Outcome, before: float | None, after: float | None, **changes: object) -> AttackResult:
    wrong = outcome in ("skipped", "succeeded")
    made = AttackResult(
        index=index, text=f"text {index}", label=0, outcome=outcome,
        adversarial=None if after is None else f"test {index}", clean=int(outcome == "skipped"), predicted=int(wrong),
        probability=0.9, probability_after=0.6, queries=9, rows=8, gradients=0, words=2, changed=1, similarity=0.9,
        seconds=0.1, suspicion=before, suspicion_after=after)
    return replace(made, **changes)  # type: ignore[arg-type]


BY_HAND = [
    result(0, "succeeded", 0.1, 0.9),  # flagged, and wrong nevertheless
    result(1, "succeeded", 0.3, 0.2),
    result(2, "failed", 0.0, 0.5),
    result(3, "unconfirmed", 0.2, 0.2),  # not above the threshold of 0.2
    result(4, "out-of-queries", 0.0, None),  # not changed: no adversarial text
    result(5, "skipped", 0.8, None),
    result(6, "failed", 0.0, 0.7, adversarial="text 6"),  # the same text again is none either
    result(7, "victim-error", 0.9, 0.9),
]


# Figures


def test_every_figure_by_hand() -> None:
    found = detection(BY_HAND, 0.2)
    assert (found.clean, found.adversarial) == (7, 4)
    assert (found.false_alarms, found.detected, found.caught) == (2, 2, 1)
    assert (found.true_positive_rate, found.false_positive_rate) == (Fraction(2, 4), Fraction(2, 7))
    assert found.precision == Fraction(1, 2) / (Fraction(1, 2) + Fraction(2, 7)) == Fraction(7, 11)
    assert found.f1 == 2 / (1 / Fraction(7, 11) + 1 / Fraction(1, 2)) == Fraction(14, 25)
    # clean 0, 0, 0, .1, .2, .3, .8: .9 beats 7, .5 beats 6, .2 beats 4 and equals 1, twice
    assert found.auroc == Fraction(2 * 7 + 2 * 6 + 2 * (2 * 4 + 1), 2 * 4 * 7)
    assert found.restored_accuracy == robustness(BY_HAND).accuracy_under_attack == Fraction(4, 7)
    assert found.accuracy_or_flagged == Fraction(5, 7)


def test_with_as_many_clean_as_adversarial_texts_the_figures_are_those_of_the_counts() -> None:
    found = detection(BY_HAND[:4], 0.25)
    true, false, missed = 2, 1, 2
    assert (found.clean, found.adversarial) == (4, 4)
    assert found.precision == Fraction(true, true + false)
    assert found.f1 == Fraction(2 * true, 2 * true + false + missed)


def test_without_texts_or_a_threshold_there_is_no_figure() -> None:
    bare = detection(BY_HAND, None)
    assert bare.auroc == detection(BY_HAND, 0.2).auroc and bare.restored_accuracy == Fraction(4, 7)
    rates = ("true_positive_rate", "false_positive_rate", "precision", "f1", "accuracy_or_flagged")
    assert [getattr(bare, name) for name in rates] == [None] * 5
    nobody = detection([result(0, "skipped", 0.3, None)], 0.2)
    assert nobody.auroc is nobody.true_positive_rate is nobody.f1 is None and nobody.false_positive_rate == 1
    nothing = detection(BY_HAND[-1:], 0.2)
    assert (nothing.restored_accuracy, nothing.accuracy_or_flagged, nothing.clean) == (None, None, 0)
    silent = detection(BY_HAND, 1.0)
    assert silent.precision is None and silent.f1 == silent.true_positive_rate == 0


scores = st.lists(st.sampled_from([-1.5, 0.0, 0.1, 0.2, 0.9, 7.0]) | st.floats(-2, 2), min_size=1, max_size=12)


@given(scores, scores)
@settings(max_examples=200, deadline=None)
def test_auroc_is_the_share_of_pairs_in_order(positives: list[float], negatives: list[float]) -> None:
    pairs = [(one, other) for one in positives for other in negatives]
    half = Fraction(1, 2)
    expected = sum((Fraction(one > other) + half * (one == other) for one, other in pairs), Fraction(0)) / len(pairs)
    assert auroc(positives, negatives) == expected
    assert auroc(negatives, positives) == 1 - expected


def test_the_terminal_tells_how_many_texts_were_flagged() -> None:
    def shown(results: Sequence[AttackResult], threshold: float | None) -> str:
        screen = StringIO()
        Console(file=screen, width=150).print(tally_table(results, tally(results), 1.0, threshold=threshold))
        return " ".join(screen.getvalue().split())

    assert "flagged 50.0% (2/4) of adversarial texts, successful or not; 28.6% (2/7) of clean ones" in shown(
        BY_HAND, 0.2)
    assert "flagged - of adversarial texts, successful or not; 100.0% (1/1) of clean ones" in shown(BY_HAND[5:6], 0.2)
    assert "flagged" not in shown(BY_HAND, None), "no detector"
    assert "flagged" not in shown([result(0, "failed", None, None)], 0.2), "nobody asked for the scores"


# Records


def written(path: Path, *results: AttackResult, **header: object) -> Path:
    first = {"format": 1, "cell": CELL.as_dict(), "labels": ["bad", "good"], **header}
    path.write_text("\n".join([as_line(first), *(one.as_json() for one in results)]) + "\n", encoding="utf-8")
    return path


def test_scores_come_back_as_they_were_and_take_no_room_where_there_are_none(tmp_path: Path) -> None:
    found = read_cell(written(tmp_path / "a.jsonl", *BY_HAND, threshold=0.2))
    assert found.results == BY_HAND and found.header["threshold"] == 0.2
    bare = result(0, "failed", None, None)
    assert "suspicion" not in bare.as_json() and read_results(written(tmp_path / "b.jsonl", bare))[1] == [bare]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "0.5", True, [0.5]])
@pytest.mark.parametrize("name", ["suspicion", "suspicion_after"])
def test_scores_that_are_no_numbers_are_refused(tmp_path: Path, name: str, value: object) -> None:
    path = written(tmp_path / "a.jsonl", BY_HAND[0])
    line = json.dumps({**json.loads(BY_HAND[1].as_json()), name: value})
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=rf"line 3.*{name} is .*; expected a finite number, or null"):
        read_cell(path)


@pytest.mark.parametrize("value", [float("nan"), "high", False])
def test_a_threshold_that_is_no_number_is_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(DataError, match="header's threshold"):
        read_cell(written(tmp_path / "a.jsonl", threshold=value))
    read_cell(written(tmp_path / "b.jsonl", threshold=None))


# Evaluation


class Doubting(Defence):
    """Looks at each text a second time with unknown words masked; a fall of the label's probability is suspicious."""

    name: ClassVar[str] = "doubting"

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Text] = []

    @property
    def views(self) -> int:
        return 2

    @property
    def threshold(self) -> float | None:
        return 0.05

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        self.asked += [text for text, number in zip(texts, numbers, strict=True) if number == 1]
        batch = encode(texts).to(device)
        unknown = batch.input_ids == encode.tokenizer.unk_token_id
        masks = unknown & torch.tensor(numbers, device=device).bool()[:, None]
        return replace(batch, masks=masks, input_ids=batch.input_ids.masked_fill(masks, encode.mask_id))

    def suspicion(self, logits: Tensor) -> Tensor:
        shares = logits.softmax(dim=2)
        fall = shares[0] - shares[1]
        return fall.gather(1, shares[0].argmax(dim=1, keepdim=True)).clamp(min=0).squeeze(1)

    def combine(self, logits: Tensor) -> Tensor:
        return torch.where((self.suspicion(logits) > 0.05)[:, None], logits[1], logits[0])


@pytest.fixture(scope="module")
def plain(tiny: Callable[[str], Path], data: Dataset) -> DefendedClassifier:
    return tiny_classifier(tiny("bert"), "plain", data)


def doubting(plain: DefendedClassifier, kind: type[Doubting] = Doubting) -> tuple[DefendedClassifier, Doubting]:
    defence = kind()
    return DefendedClassifier(plain.model, plain.encode.tokenizer, defence, labels=plain.labels,
                              max_length=plain.encode.max_length), defence


def measured(
    classifier: DefendedClassifier, data: Dataset, folder: Path, *, mode: Mode = "adaptive",
    source: CellRecords | None = None,
) -> CellRecords:
    cell = replace(CELL, defence=classifier.defence.name, mode=mode)
    attack = build_attack("deepwordbug", tools=stand_ins())
    evaluate(cell, classifier, data.test or [], attack, protocol=Protocol(samples=12, measure=None),
             out=folder / cell.file_name, source=source)
    return read_cell(folder / cell.file_name)


def check_scores(found: CellRecords, classifier: DefendedClassifier) -> None:
    for one in found.results:
        for text, score in ((one.text, one.suspicion), (one.adversarial, one.suspicion_after)):
            asked = None if text is None else classifier.predict([text]).suspicion
            assert score == (None if asked is None else pytest.approx(float(asked[0]), abs=1e-4))
    assert len({one.suspicion_after for one in found.results}) > 3


def test_an_adaptive_cell_of_a_detector_holds_its_scores(
    plain: DefendedClassifier, data: Dataset, tmp_path: Path,
) -> None:
    classifier, defence = doubting(plain)
    found = measured(classifier, data, tmp_path)
    assert found.header["threshold"] == 0.05
    changed = sum(one.adversarial is not None for one in found.results)
    # beside the attack, which remembers what it asked, each text once before and once after
    assert len(defence.asked) <= sum(one.rows for one in found.results) + len(found.results) + changed
    check_scores(found, classifier)
    again = measured(classifier, data, tmp_path)  # goes on with the file, the threshold being the same
    assert again.results == found.results


@pytest.mark.parametrize("mode", ["transfer", "transfer-successful"])
def test_shown_texts_are_scored_in_the_passes_that_answer(
    plain: DefendedClassifier, data: Dataset, tmp_path: Path, mode: Mode,
) -> None:
    source = measured(plain, data, tmp_path)
    assert "threshold" not in source.header and all(one.suspicion is None for one in source.results)
    classifier, defence = doubting(plain)
    found = measured(classifier, data, tmp_path, mode=mode, source=source)
    assert found.header["threshold"] == 0.05 and len(defence.asked) == 2 * len(found.results)
    check_scores(found, classifier)
    shown_back = measured(plain, data, tmp_path, mode=mode, source=read_cell(found.path)._replace(
        results=source.results))  # a source's threshold is not the shown classifier's
    assert "threshold" not in shown_back.header


def test_a_defence_that_is_no_detector_is_asked_no_more(
    plain: DefendedClassifier, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bool] = []
    predict = DefendedClassifier.predict

    def counting(self: DefendedClassifier, texts: Sequence[Text], **options: bool) -> object:
        asked.append(options.get("defended", True))
        return predict(self, texts, **options)

    source = measured(plain, data, tmp_path)
    monkeypatch.setattr(DefendedClassifier, "predict", counting)
    measured(plain, data, tmp_path, mode="transfer", source=source)
    assert asked == [False, True, True]
    assert suspicions(plain, ["a good movie", "a dull plot"]) == [None, None] and len(asked) == 3


def test_a_score_that_is_no_number_is_none(plain: DefendedClassifier, data: Dataset, tmp_path: Path) -> None:
    class Broken(Doubting):
        def suspicion(self, logits: Tensor) -> Tensor:
            return super().suspicion(logits) * torch.nan

    found = measured(doubting(plain, Broken)[0], data, tmp_path)
    assert found.results and all(one.suspicion is one.suspicion_after is None for one in found.results)


# Reports


def cell(results: Sequence[AttackResult], *, seed: int = 0, header: Mapping[str, object] | None = None) -> CellRecords:
    this = Cell("mr", "bert", "fg_ws", "textfooler", "adaptive", seed)
    head = {"format": 1, "cell": this.as_dict(), "labels": ["a", "b"], "texts": len(results), **(header or {})}
    return CellRecords(this, head, list(results), Path(this.file_name))


def report(*cells: CellRecords) -> Report:
    return build_report(Loaded(list(cells), []))


def test_a_report_has_a_section_about_detectors() -> None:
    found = report(cell(BY_HAND, header={"threshold": 0.2}))
    names, row = detection_rows(found)
    told = dict(zip(names, row, strict=True))
    assert (told["defence"], told["attack"], told["mode"], told["data"]) == ("fg_ws", "textfooler", "adaptive", "mr")
    assert (told["F1"], told["AUROC"], told["adversarial"], told["clean"]) == ("56.0", "78.6", "4", "7")
    for name, value in {"adversarial flagged": "50.0", "clean flagged": "28.6", "restored accuracy": "57.1",
                        "CAA, flagged as defended": "71.4"}.items():
        assert told[name].startswith(f"{value} [")
    assert "## Detection" in markdown(found) and "| 56.0 | 78.6  |" in markdown(found)
    page = html(found)
    assert '<section id="detection"><h2>Detection</h2>' in page and "<td>78.6</td>" in page and "threshold 0.2" in page
    text = latex(found)
    line = next(line for line in text.splitlines() if line.startswith(r"fg\_ws & textfooler & adaptive"))
    columns = re.search(r"\\begin\{tabular\}\{(\w+)\}", text[text.index("tab:detection"):])
    assert columns and len(columns[1]) == len(names) == len(re.findall(r"(?<!\\)&", line)) + 1


def test_over_seeds_figures_are_means_with_deviations() -> None:
    other = [replace(one, suspicion_after=0.9) if one.suspicion_after else one for one in BY_HAND]
    found = report(cell(BY_HAND, header={"threshold": 0.2}), cell(other, seed=1, header={"threshold": 0.7}))
    one = found.detections[0]
    parts = [detection(BY_HAND, 0.2), detection(other, 0.7)]
    assert one.f1 and one.auroc and one.detected and one.f1.values == 2
    assert one.f1.mean == pytest.approx(sum(float(part.f1 or 0) for part in parts) / 2)
    assert one.auroc.deviation == pytest.approx(abs(float((parts[0].auroc or 0) - (parts[1].auroc or 0))) / 2 ** 0.5)
    assert (one.detected.mean, one.detected.texts, one.detected.seeds) == (0.75, 4, 2)
    assert one.restored == found.entries[0].robust


def test_scores_without_a_threshold_give_auroc_alone() -> None:
    names, row = detection_rows(report(cell(BY_HAND)))
    told = dict(zip(names, row, strict=True))
    assert (told["AUROC"], told["F1"], told["adversarial flagged"]) == ("78.6", "-", "-")
    assert told["CAA, flagged as defended"] == "-" and told["restored accuracy"].startswith("57.1")


def test_without_detectors_a_report_has_no_such_section() -> None:
    bare = [replace(one, suspicion=None, suspicion_after=None) for one in BY_HAND]
    found = report(cell(bare))
    assert found.detections == () and len(detection_rows(found)) == 1
    assert "Detection" not in markdown(found) + latex(found) and 'id="detection"' not in html(found)
