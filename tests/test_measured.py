# SPDX-License-Identifier: Apache-2.0
"""The measured table: out of packed records alone, the same every time, with nothing left unsaid."""

import runpy
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.dom.minidom import parseString

import pytest
from test_packing import FACTS
from test_report import cell, report, write

from dualmask.errors import DataError
from dualmask.evaluation.packing import pack
from dualmask.evaluation.records import CellRecords, Loaded
from dualmask.evaluation.statistics import holm, mcnemar
from dualmask.reporting.entries import WORST
from dualmask.reporting.measured import Reasons, documents, measured, read_reasons, short_table
from dualmask.reporting.page import html
from dualmask.reporting.report import build_report
from dualmask.reporting.report_markdown import markdown
from dualmask.reporting.report_tables import defence_cost_rows
from dualmask.reporting.rivals import rivalries
from dualmask.reporting.side_by_side import beside_rows, missing_lines, rival_rows, short_list, short_rows

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools" / "results_page.py"


def row(defence: str, outcomes: str, **more: object) -> CellRecords:
    seconds = {"plain": 1.0, "freelb++": 10.0}.get(defence, 2.0)
    facts = {"training": {**FACTS["training"], "seconds": 40 * seconds, "test_seconds": 0.2 * seconds}}
    header = {"defence": {"name": defence}, "about": facts, "passes": "50" if defence == "safer" else "1"}
    return cell(outcomes, defence=defence, header=header, **more)  # type: ignore[arg-type]


def table_cells() -> list[CellRecords]:
    """Twelve texts: plain holds 2, ddm 8, freelb++ 5, safer 4 of its first six, mi4d 6."""
    held: Mapping[str, str] = {"plain": "++----------", "ddm": "++++++++----", "freelb++": "+++++-------",
                               "safer": "++++--", "mi4d": "++++++------", "a2t": "+-----------"}
    return [row(name, outcomes, attack=attack, mode=mode) for name, outcomes in held.items()
            for attack in ("textfooler", "deepwordbug") for mode in ("adaptive", "transfer")
            if (name, mode) != ("plain", "transfer")]


def test_our_row_is_tested_against_the_best_other_one() -> None:
    """By its own figure that is safer, with 4 of 6, on whose texts the two are compared."""
    found = rivalries(report(*table_cells()))
    assert [(one.table.mode, one.column, one.line.defence, one.rival.defence) for one in found] == [
        *(("adaptive", column, "ddm", "safer") for column in ("deepwordbug", "textfooler", WORST)),
        *(("transfer", column, "ddm", "safer") for column in ("deepwordbug", "textfooler"))]
    test = found[0].test
    p = mcnemar([True] * 6, [True] * 4 + [False] * 2)
    assert test and (test.texts, test.only_one, test.only_other, test.p) == (6, 2, 0, p)
    assert test.corrected == holm(dict.fromkeys(range(3), p))[0]
    first = rival_rows(report(*table_cells()))[1]
    assert first[3:5] == ["ddm", "deepwordbug"] and first[6] == "safer" and first[8].startswith("+33.3 [")


def test_a_rival_that_is_not_finished_does_not_count_and_one_on_other_texts_is_told() -> None:
    begun = row("safer", "++++++")
    begun = begun._replace(header={**begun.header, "texts": 12})
    fresh = row("mi4d", "+++---", text="another text")
    found = rivalries(report(row("ddm", "+++---"), begun, fresh))
    assert [(one.rival.defence, one.test, one.reason) for one in found] == [
        ("mi4d", None, "6 of 6 texts with the same number are different texts")]
    assert "not tested: 6 of 6 texts" in rival_rows(report(row("ddm", "+++---"), fresh))[1][8]
    assert rivalries(report(row("ddm", "++"), row("plain", "--"))) == []
    assert rivalries(report(row("ddm", "++"), row("ddm+freelb++", "--"))) == [], "ours are no rivals"


def test_adaptive_stands_beside_transfer() -> None:
    made = [*table_cells(), row("ddm", "+-----------", attack="typist", mode="defence-aware")]
    made = [one for one in made if (one.cell.defence, one.cell.mode) != ("a2t", "transfer")]
    head, plain, *others = beside_rows(report(*made))
    assert head[5:] == ["deepwordbug", "textfooler", WORST, "worst case, every attack"]
    rows = {one[2]: one for one in others}
    assert plain[2:4] == ["plain", "12 x 1"] and plain[5] == "16.7" and plain[-1] == "-"
    assert rows["ddm"][5:8] == ["66.7 / 66.7", "66.7 / 66.7", "66.7 (12 x 1)"] and rows["ddm"][-1] == "8.3 (12 x 1)"
    assert rows["a2t"][5] == "8.3" and rows["safer"][3] == "6 x 1"
    fewer = [one for one in made if one.cell.attack != "deepwordbug" or one.cell.defence != "safer"]
    assert {one[2]: one for one in beside_rows(report(*fewer, row("safer", "+-", attack="pwws")))}["safer"][8] == (
        "50.0 of 2 attacks (2 x 1)")


def test_costs_stand_beside_robustness_and_plain() -> None:
    head, *rows = defence_cost_rows(report(*table_cells()))
    names = [f"{name} {place}" for place, name in enumerate(head)]
    found = {one[2]: dict(zip(names, one, strict=True)) for one in rows}
    training, answer = (f"x plain {place}" for place, name in enumerate(head) if name == "x plain")
    assert (found["plain"][training], found["freelb++"][training], found["ddm"][answer]) == ("1.00", "10.00", "2.0")
    assert found["ddm"]["ms an answer 9"] == "10.00" and found["ddm"]["seconds in all 7"] == "80"
    assert found["ddm"]["worst case, adaptive 12"].startswith("66.7 [")
    other = row("ddm", "+-")
    about = other.header["about"]
    assert isinstance(about, dict)
    facts = about["training"]
    moved = {**other.header, "about": {"training": {**facts, "cost": {**facts["cost"], "device": "another"}}}}
    head, *rows = defence_cost_rows(report(row("plain", "+-"), other._replace(header=moved)))
    assert [one[8] for one in rows] == ["-", "1.00"], "seconds of two devices do not compare"


def test_what_is_missing_is_told_in_few_lines_with_its_reason() -> None:
    missing = {**dict.fromkeys([f"mr.bert.ddm.{attack}.adaptive.{seed}.jsonl" for seed in (1, 2) for attack in (
        "pwws", "textbugger")], ""), "mr.bert.ddm.pwws.transfer.0.jsonl": "no memory",
        "mr.bert.ddm.pwws.adaptive.0.calibrated.jsonl": ""}
    begun = row("ddm", "++--")
    begun = begun._replace(header={**begun.header, "texts": 9})
    made = build_report(Loaded([begun], [], missing))
    assert missing_lines(made) == [
        "mr, bert, ddm, adaptive, seed 1, 2: pwws, textbugger; not begun",
        "mr, bert, ddm, transfer, seed 0: pwws; no memory",
        "mr, bert, ddm, adaptive, calibrated scores, seed 0: pwws; not begun"]
    page = markdown(made)
    assert "## What is missing" in page and "* mr, bert, ddm, transfer, seed 0: pwws; no memory.\n" in page
    assert "seed 0: 5 of 9 texts still to be attacked" in page and "pwws; no memory" in html(made)
    assert "## What is missing" not in markdown(report(row("ddm", "++")))


def test_reasons_come_from_people_first_then_from_the_run(tmp_path: Path) -> None:
    path = tmp_path / "missing.toml"
    path.write_text('default = "no time"\n[cells]\n"*.mvp.*" = "its words do not fit"\n"mr.*" = "later"\n')
    found = read_reasons(path)
    assert [found.of(f"{name}.jsonl", known) for name, known in (
        ("mr.bert.mvp.pwws.adaptive.0", "an error"), ("mr.bert.ddm.pwws.adaptive.0", ""),
        ("ag.bert.ddm.pwws.adaptive.0", "an error"), ("ag.bert.ddm.pwws.adaptive.0", ""))] == [
        "its words do not fit", "later", "an error", "no time"]
    for text in ("cells = 3", "default = 'x'\ncells = 3", "default"):
        path.write_text(text)
        with pytest.raises(DataError, match=r"missing\.toml can't be read .* expected TOML"):
            read_reasons(path)
    assert read_reasons(ROOT / "results" / "missing.toml").default


def test_the_short_table_has_plain_ours_and_three_rivals() -> None:
    head, *rows = short_rows(report(*table_cells(), row("ddm-20", "+++---------")), short_list)
    assert [one[2] for one in rows] == ["plain", "ddm", "freelb++", "mi4d", "safer"]  # a2t holds least
    found = dict(zip(head, rows[2], strict=True))
    assert (found["clean"], found["textfooler"], found["texts x seeds"]) == ("100.0", "41.7", "12 x 1")
    assert (found["training time, x plain"], found["answer time, x plain"], found["passes"]) == ("10.00", "10.0", "1")
    assert "| safer " in short_table(report(*table_cells()))


@pytest.mark.parametrize(("preset", "shown"), [("paper", True), ("recommended", False)])
def test_presets_of_ours_are_in_the_short_table_and_rows_that_leave_something_out_are_not(
    preset: str, shown: bool,
) -> None:
    header = {"defence": {"name": "ddm"}, "about": {"training": {**FACTS["training"], "preset": preset}}}
    found = short_rows(report(*table_cells(), cell("+++---------", defence="ddm-other", header=header)), short_list)
    assert (("ddm (paper)" if shown else "ddm [ddm-other]") in [one[2] for one in found]) is shown


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout as small as can be."""
    run = write(tmp_path / "run" / "records", *table_cells()).parent
    (run / "mine.cells").write_text("mr.bert.ddm.pwws.adaptive.0.jsonl\n")
    pack([run], tmp_path / "results" / "paper_table.jsonl.gz")
    (tmp_path / "results" / "missing.toml").write_text('default = "no time"\n')
    (tmp_path / "results" / "changed_since.toml").write_text('default = ""\n[cells]\n"*.safer.*" = "it was changed"\n')
    tool = runpy.run_path(str(TOOL))
    (tmp_path / "docs").mkdir()
    for name in tool["TABLES"]:
        (tmp_path / name).write_text(f"# mine\n\n{tool['BEGIN']}yesterday's\n{tool['END']}the end\n")
    return tmp_path


def test_everything_follows_from_the_packed_file(root: Path) -> None:
    tool = runpy.run_path(str(TOOL))
    found = tool["contents"](root)
    assert found == tool["contents"](root)
    texts = {path.relative_to(root).as_posix(): text for path, text in found.items()}
    assert set(texts) == {"docs/measured.md", "docs/restore.md", "results/README.md", "results/paper_table.tex",
                          "results/plots/mr.bert.svg", "src/dualmask/assets/measured.json"}
    page = texts["results/README.md"]
    for part in ("[paper_table.jsonl.gz](paper_table.jsonl.gz)", "](plots/mr.bert.svg)", "## Adaptive beside transfer",
                 "## Against the best rival", "## What defences cost", "## Reported beside measured",
                 "mr, bert, ddm, adaptive, seed 0: pwws; no time.", "## Why you might not believe this"):
        assert part in page, part
    for name in ("docs/measured.md", "docs/restore.md"):
        assert texts[name].startswith("# mine\n\n") and texts[name].endswith("the end\n")
        assert "yesterday" not in texts[name] and "| ddm " in texts[name]
    assert "| freelb++ " in texts["docs/measured.md"] and "| freelb++ " not in texts["docs/restore.md"]
    picture = parseString(texts["results/plots/mr.bert.svg"])
    assert len(picture.getElementsByTagName("svg")) == 3 and "freelb++" in texts["results/plots/mr.bert.svg"]
    (root / "results" / "paper_table.jsonl.gz").unlink()
    assert tool["contents"](root) == {}


def test_no_model_is_loaded_for_it(root: Path) -> None:
    code = ("import runpy, sys\nfrom pathlib import Path\nrunpy.run_path(sys.argv[1])['contents'](Path(sys.argv[2]))\n"
            "print([name for name in ('torch', 'transformers', 'typer') if name in sys.modules])")
    command = [sys.executable, "-c", code, str(TOOL), str(root)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert found.stdout == "[]\n", found.stderr


def test_two_packed_files_make_one_report(tmp_path: Path) -> None:
    made = table_cells()
    files = [tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl.gz"]
    for file, part in zip(files, (made[:9], made[9:]), strict=True):
        pack([write(tmp_path / file.name[0], *part)], file)
    found = measured(files, Reasons("no time", {}))
    assert markdown(found) == markdown(measured(files[::-1], Reasons("no time", {})))
    assert len(found.entries) == len(made) and set(documents(found, files)) == {
        "README.md", "paper_table.tex", "plots/mr.bert.svg"}
