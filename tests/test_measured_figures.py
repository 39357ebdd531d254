# SPDX-License-Identifier: Apache-2.0
"""The asset of measured figures: it follows from records, counts and certificates, and says what speaks against it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_measured import row, table_cells
from test_report import report

from dualmask.defences import DEFENCES
from dualmask.errors import DataError
from dualmask.measured_figures import (
    MeasuredRow,
    MeasuredShare,
    as_asset,
    find_row,
    measured_rows,
    read_rows,
)
from dualmask.reporting.measured import Reasons
from dualmask.reporting.measured_counts import counted_rows, hardened_rows, with_certificates
from dualmask.reporting.measured_rows import rows_of_report

ROOT = Path(__file__).parents[1]
NEVER = Reasons("", {})


def lines(path: Path, *given: Mapping[str, Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in given), encoding="utf-8")
    return path


def hardened(name: str, preset: str | None, clean: int, held: Mapping[str, int], seconds: float) -> dict[str, Any]:
    return {"name": name, "defence": None if name == "nothing" else name, "preset": preset, "encoder": "minilm",
            "data": "mr", "train_texts": 8530, "clean": {"texts": 400, "right": clean},
            "attacks": {attack: {"texts": 40, "held": one} for attack, one in held.items()},
            "seconds_per_text": seconds}


def test_rows_follow_from_a_report() -> None:
    found = {one.name: one for one in rows_of_report(report(*table_cells()), NEVER, source="here")}
    assert next(iter(found)) == "plain" and set(found) == {"plain", "a2t", "ddm", "freelb++", "mi4d", "safer"}
    ddm = found["ddm"]
    assert (ddm.defence, ddm.data, ddm.encoder, ddm.trained, ddm.source) == ("ddm", "mr", "bert", True, "here")
    assert ddm.attacks["textfooler"] == MeasuredShare(percent=66.7, texts=12, apart=False, plain=16.7)
    assert ddm.worst and ddm.worst.percent == 66.7 and ddm.every is None
    assert found["plain"].attacks["textfooler"].apart is None
    assert (found["freelb++"].training_times, found["freelb++"].answer_times) == (10.0, 10.0)
    assert (ddm.training_times, ddm.passes, found["safer"].passes) == (2.0, "1", "50")


def test_attacks_that_know_or_see_more_stand_apart_and_count_for_every_attack() -> None:
    cells = [*table_cells(), row("ddm", "+-----------", attack="typist", mode="defence-aware"),
             row("ddm", "++----------", scores="calibrated")]
    found = next(one for one in rows_of_report(report(*cells), NEVER, source="") if one.name == "ddm")
    assert {name: one.percent for name, one in found.aware.items()} == {
        "typist, which knows the defence": 8.3, "textfooler, which sees calibrated scores": 16.7}
    assert found.every and found.worst and found.every.percent < found.worst.percent
    assert set(found.attacks) == {"textfooler", "deepwordbug"}


def test_clean_accuracy_is_of_the_whole_test_part_where_records_tell_it() -> None:
    def told(seed: int, **facts: object) -> Any:
        made = row("ddm", "++--", seed=seed)
        about = {"training": {**made.header["about"]["training"], **facts}}  # type: ignore[index]
        return made._replace(header={**made.header, "about": about})

    whole = [told(0, test_accuracy=0.8, rows={"test": 500}), told(1, test_accuracy=0.9, rows={"test": 500})]
    found, = rows_of_report(report(*whole), NEVER, source="")
    assert found.clean == MeasuredShare(percent=85.0, texts=500, seeds=2, deviation=7.1)
    found, = rows_of_report(report(told(0, test_accuracy=None, rows=None)), NEVER, source="")
    assert found.clean == MeasuredShare(percent=100.0, texts=4)


def test_plain_stands_beside_on_the_same_texts_and_seeds_alone() -> None:
    def made(name: str, held: str, seed: int, accuracy: float) -> Any:
        cell = row(name, held, seed=seed)
        facts = {**cell.header["about"]["training"], "test_accuracy": accuracy, "rows": {"test": 500}}  # type: ignore[index]
        return cell._replace(header={**cell.header, "about": {"training": facts}})

    cells = [made("plain", "++++--------", 0, 0.8), made("plain", "++++++++----", 1, 0.9),
             made("ddm", "++++++------", 1, 0.7), made("mi4d", "+++---", 0, 0.6)]
    found = {one.name: one for one in rows_of_report(report(*cells), NEVER, source="")}
    assert found["plain"].attacks["textfooler"].percent == 50.0 and found["plain"].attacks["textfooler"].plain is None
    assert found["ddm"].attacks["textfooler"].plain == 66.7
    assert found["ddm"].clean == MeasuredShare(percent=70.0, texts=500, plain=90.0)
    assert found["mi4d"].attacks["textfooler"].plain == 66.7, "the first six texts"


def test_the_page_of_results_and_the_asset_round_alike() -> None:
    """One figure reads the same in `dualmask list` and in results/README.md."""
    known = {(one.data, one.encoder, one.name): one for one in measured_rows()}
    head: list[str] = []
    compared = 0
    for line in (ROOT / "results" / "README.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if "deepwordbug" in cells and "mode" in cells:
            head = cells
        told = dict(zip(head, cells, strict=True)) if head and len(cells) == len(head) else {}
        one = known.get((told.get("data", ""), told.get("encoder", ""), told.get("defence", "")))
        if one and told["mode"] == "adaptive":
            shares = {**one.attacks, "clean": one.clean, "worst case": one.worst}
            for name, share in ((name, share) for name, share in shares.items() if share):
                assert told[name].split(" ")[0] == share.shown(), (one.name, name)
                compared += 1
    assert compared > 300


def test_what_was_changed_since_and_what_is_uneven_are_doubts() -> None:
    changed = Reasons("", {"*.safer.*": "it was changed"})
    found = {one.name: one.doubts for one in rows_of_report(report(*table_cells()), changed, source="")}
    assert "it was changed" in found["safer"] and "it was changed" not in found["ddm"]
    assert "one synonym table for defence and attack" in found["safer"]


def test_hardened_networks_have_rows_of_their_own(tmp_path: Path) -> None:
    path = lines(tmp_path / "hardened.jsonl",
                 hardened("ddm-restore", "vote", 311, {"deepwordbug": 26, "textfooler": 11}, 0.4),
                 hardened("nothing", None, 319, {"deepwordbug": 0, "textfooler": 0}, 0.1),
                 hardened("ddm", "recommended", 299, {"deepwordbug": 1}, 0.08))
    plain, ddm, vote = hardened_rows(path)
    assert [one.name for one in (plain, ddm, vote)] == ["plain", "ddm", "ddm-restore (vote)"]
    assert not vote.trained and vote.passes == "10" and vote.answer_times == 4.0 and plain.answer_times == 1.0
    assert vote.clean == MeasuredShare(percent=77.8, texts=400, apart=False, plain=79.8)
    assert vote.attacks["deepwordbug"] == MeasuredShare(percent=65.0, texts=40, apart=True, plain=0.0)
    assert ddm.answer_times is None, "what adds work takes no less time; the machine was busy with others"
    assert ddm.attacks["deepwordbug"].apart is False and plain.attacks["deepwordbug"].apart is None
    assert hardened_rows(tmp_path / "not there") == []


@pytest.mark.parametrize(("held", "told"), [(15, True), (13, False)])
def test_counts_are_told_apart_only_if_no_pairing_of_texts_speaks_against_it(
    tmp_path: Path, held: int, told: bool,
) -> None:
    """15 beside 5 of 40 is p = 0.04 at most, 13 beside 5 can be 0.1."""
    path = lines(tmp_path / "hardened.jsonl", hardened("nothing", None, 319, {"textbugger": 5}, 0.1),
                 hardened("ddm-restore", "vote", 311, {"textbugger": held}, 0.4))
    assert hardened_rows(path)[1].attacks["textbugger"].apart is told


def test_a_hardened_row_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    whole = hardened("ddm-restore", "vote", 311, {}, 0.4)
    for wrong, match in (({**whole, "preset": "votes"}, "preset 'votes', which 'dualmask list' does not know"),
                         ({name: one for name, one in whole.items() if name != "clean"}, "row without 'clean'")):
        with pytest.raises(DataError, match=match):
            hardened_rows(lines(tmp_path / "hardened.jsonl", wrong))
    (tmp_path / "hardened.jsonl").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match="expected a JSON object on each line"):
        hardened_rows(tmp_path / "hardened.jsonl")


def test_counts_without_records_are_named_by_their_grid_and_doubted(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(
        'defences = ["plain", {name = "own", defence = "ranmask", preset = "certify", options = {votes = 50}}]\n')
    cell = {"data": "mr", "encoder": "bert", "defence": "own", "attack": "textfooler", "mode": "adaptive", "seed": 0,
            "scores": "raw", "texts": 100, "right": 79, "held": 12, "undone": 48}
    path = lines(tmp_path / "defences.jsonl", {"benchmark": "defences", "grid": "small", "cells": [
        cell, {**cell, "defence": "plain", "held": 9, "right": 84}, {**cell, "mode": "transfer", "held": 54},
        {**cell, "scores": "calibrated", "held": 10, "undone": 0}]})
    found, = counted_rows(path, tmp_path, [])
    assert found.name == "ranmask (certify, votes=50)" and found.passes == "50" and "earlier run" in found.doubts[0]
    assert found.attacks == {"textfooler": MeasuredShare(percent=12.0, texts=100, redrawn=60.0, plain=9.0)}
    assert found.clean == MeasuredShare(percent=79.0, texts=100, plain=84.0)
    assert found.aware == {"textfooler, which sees calibrated scores": MeasuredShare(percent=10.0, texts=100)}
    assert counted_rows(path, tmp_path, [found]) == [], "what records tell is not counted twice"


def test_a_certificate_joins_the_row_of_its_defence_whatever_the_votes(tmp_path: Path) -> None:
    options = {"name": "ranmask", "votes": 100, "rate": 0.9}
    told = {"benchmark": "certified", "defence": options, "data": "9 examples x", "texts": 200, "right": 170,
            "certified": [158, 142]}
    path = lines(tmp_path / "benchmarks.jsonl", told, {**told, "texts": 400, "right": 320, "certified": [300, 200]},
                 {**told, "defence": {**options, "rate": 0.8}, "texts": 900}, {**told, "data": "others", "texts": 800})
    made = MeasuredRow(name="r", defence="ranmask", preset="certify", changes={"votes": 50}, data="mr", encoder="bert")
    one, other = with_certificates([made, replace(made, changes={"rate": 0.7})], path, {"9 examples x": "mr"})
    assert one.certificate and (one.certificate.texts, one.certificate.right) == (400, 80.0)
    assert one.certificate.certified == (75.0, 50.0) and other.certificate is None


def test_the_asset_is_read_as_it_was_written() -> None:
    rows = tuple(rows_of_report(report(*table_cells()), NEVER, source="here"))
    assert read_rows(as_asset(rows)) == rows
    assert read_rows(as_asset(measured_rows())) == measured_rows()
    for text in ("{", '[{"colour": "red"}]', "[3]"):
        with pytest.raises(DataError, match="'make results' in a checkout writes it anew"):
            read_rows(text)


def test_shipped_rows_are_of_defences_and_presets_that_there_are() -> None:
    rows = measured_rows()
    for one in rows:
        assert one.preset in DEFENCES.find(one.defence).presets, one.name
        assert one.attacks and one.clean and one.encoder and one.source
    assert find_row(rows, "ddm-restore", "vote", data="mr", encoder="gte-small-mlm")
    assert find_row(rows, "ddm-restore", "no such preset", data="mr") is None
