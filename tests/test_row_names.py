# SPDX-License-Identifier: Apache-2.0
"""What rows are called: a defence, its preset and what differs from that, whatever their grid calls them."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from test_report import cell, report

from dualmask.defences import DEFENCES, build_defence
from dualmask.evaluation.records import CellRecords, Loaded
from dualmask.presets import ASSET, as_asset, known_presets, option_changes, option_text, row_name
from dualmask.reporting.report import build_report
from dualmask.reporting.report_markdown import markdown
from dualmask.reporting.row_names import row_names
from dualmask.reporting.side_by_side import missing_lines

PLACE = Path(__file__).parents[1] / "src" / "dualmask" / "assets" / ASSET


def made(row: str, defence: str, preset: str | None = None, **options: object) -> CellRecords:
    """A row as a grid names it, with the header that a run of it would have."""
    built = build_defence(defence, preset=preset, options=options)
    return told(row, {"name": built.name, **built.options_as_dict()}, preset)


def told(row: str, defence: Mapping[str, object], preset: str | None = None) -> CellRecords:
    about = {"about": {"training": {"preset": preset}}} if preset else {}
    return cell("++-", defence=row, header={"defence": defence, **about})


def name_of(records: CellRecords) -> str:
    return next(iter(row_names([records]).values()))


def test_the_asset_is_what_classes_declare() -> None:
    assert PLACE.read_text(encoding="utf-8") == as_asset(DEFENCES.values()), "run python tools/build_presets.py"


@pytest.mark.parametrize("defence", [*DEFENCES, "ddm+freelb++", "ranmask+fat"])
def test_every_preset_has_its_own_name(defence: str) -> None:
    kind = DEFENCES.find(defence)
    assert list(known_presets(defence)) == list(kind.presets)
    for preset in kind.presets:
        expected = defence if preset == "recommended" else f"{defence} ({preset})"
        assert name_of(made("as-the-grid-says", defence, preset)) == expected


def test_what_differs_from_the_preset_is_told() -> None:
    assert name_of(made("restore-vote", "ddm-restore", "vote", vote_swaps=0.7)) == "ddm-restore (vote, vote_swaps=0.7)"
    assert name_of(made("ddm-20", "ddm", "recommended", test_rate=0.2)) == "ddm (test_rate=0.2)"
    found = name_of(made("both", "ddm+freelb++", "recommended", steps=3))
    assert found == "ddm+freelb++ (steps=3)"


def test_an_option_that_came_later_is_no_part_of_a_name() -> None:
    """SHIELD's records of before lack `averaged`; what it changed is told beside the figures."""
    options = {name: value for name, value in known_presets("shield")["recommended"].options.items()
               if name != "averaged"}
    assert name_of(told("shield", {"name": "shield", **options}, "recommended")) == "shield"


def test_without_a_preset_the_nearest_counts_and_without_anything_the_name_of_the_grid() -> None:
    assert name_of(made("mine", "ddm", "paper", test_rate=0.4)._replace(header={
        "defence": {"name": "ddm", **option_values("ddm", "paper"), "test_rate": 0.4}})) == "ddm (paper, test_rate=0.4)"
    assert name_of(told("mine", {"name": "ddm"})) == "mine"
    assert name_of(told("mine", {"name": "plain"})) == "plain"
    assert name_of(told("mine", {"name": "another's own", "size": 3}, "recommended")) == "mine"
    assert name_of(told("ddm", {"name": "ddm"}, "a preset of before")) == "ddm"


def option_values(defence: str, preset: str) -> Mapping[str, object]:
    return known_presets(defence)[preset].options


def test_rows_that_are_alike_keep_the_grids_names_beside() -> None:
    cells = [made("ddm", "ddm", "recommended"), made("ddm-longer", "ddm", "recommended"), made("x", "ddm", "paper")]
    assert list(row_names(cells).values()) == ["ddm", "ddm [ddm-longer]", "ddm (paper)"]
    assert [line.defence for line in report(*cells).tables[0].lines] == ["ddm", "ddm (paper)", "ddm [ddm-longer]"]


def test_reports_and_what_is_missing_have_the_names_and_records_keep_theirs() -> None:
    records = made("restore-vote", "ddm-restore", "vote")
    missing = {"mr.bert.restore-vote.pwws.adaptive.0.jsonl": "", "mr.bert.others.pwws.adaptive.0.jsonl": ""}
    found = build_report(Loaded([records], [], missing))
    assert found.entries[0].key.defence == "ddm-restore (vote)"
    assert found.entries[0].runs[0].records.cell.defence == "restore-vote"
    assert "restore-vote" not in markdown(found)
    assert missing_lines(found) == ["mr, bert, ddm-restore (vote), adaptive, seed 0: pwws; not begun",
                                    "mr, bert, others, adaptive, seed 0: pwws; not begun"]


def test_a_defence_around_anothers_network_says_so() -> None:
    def taken(records: CellRecords, network: str) -> CellRecords:
        about = {"about": {"training": {"preset": "restore", "network": network}}}
        return records._replace(header={**records.header, **about})

    plain, own = made("plain", "plain", "recommended"), made("hardened", "ddm-restore", "restore")
    trained = made("ddm-restore", "ddm-restore", "recommended")
    assert list(row_names([plain, taken(own, "plain")]).values()) == ["plain", "ddm-restore (restore, around plain)"]
    assert list(row_names([trained, taken(own, "ddm-restore")]).values()) == ["ddm-restore", "ddm-restore (restore)"]
    assert name_of(taken(own, "nobody's")) == "ddm-restore (restore)"


def test_values_are_written_as_options_take_them() -> None:
    assert [option_text(value) for value in (True, None, 1 / 3, 50, ("a", "b"), "mixture")] == [
        "true", "none", "0.333333", "50", "a,b", "mixture"]
    assert row_name("ddm") == "ddm" and row_name("ddm", "paper", {"keep_one": True}) == "ddm (paper, keep_one=true)"
    assert option_changes("ddm", "nobody's", {"test_rate": 0.2}) == {}
