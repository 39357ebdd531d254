# SPDX-License-Identifier: Apache-2.0
"""The published figures that ship with the package."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dualmask.errors import DataError
from dualmask.reporting.reported import ReportedTable, load_reported

ROOT = Path(__file__).parents[1]
ROW = '[[row]]\ndata = "d"\ndefence = "x"\nname = "X"\nkind = "k"\nmasks = false\nclean = 90.0\n'


@pytest.fixture(scope="module")
def table() -> ReportedTable:
    return load_reported()


def test_the_whole_table_is_there(table: ReportedTable) -> None:
    methods = {data: {one.defence for one in table.cells if one.data == data} for data in ("ag_news", "mr")}
    assert (len(methods["ag_news"]), len(methods["mr"]), len(table.cells)) == (17, 9, 92)
    assert {one.attack for one in table.cells} == {"textfooler", "bertattack", "deepwordbug", "textbugger"}
    assert methods["mr"] < methods["ag_news"] and {"plain", "ddm", "freelb++", "floodingx"} <= methods["mr"]
    assert "2412.07078" in table.source and "Table 3" in table.source


def test_figures_by_hand(table: ReportedTable) -> None:
    found = table.find("ag_news", "ddm", "bertattack")
    assert found is not None and (found.clean, found.robust, found.success, found.name) == (92.8, 84.2, 8.8, "DDM")
    found = table.find("mr", "siwcon", "deepwordbug")
    assert found is not None and (found.robust, found.success) == (60.3, 36.1)
    assert found.implied_success == pytest.approx(29.39, abs=0.01) and not found.consistent
    assert table.find("ag_news", "llmpm", "bertattack") is None  # a dash in the paper
    assert table.clean("mr", "plain") == 85.7 and table.clean("mr", "mvp") is None
    assert {(one.data, one.clean) for one in table.cells if one.defence == "plain"} == {("ag_news", 92.8), ("mr", 85.7)}


def test_a_quarter_of_the_cells_disagree_with_themselves(table: ReportedTable) -> None:
    """25 of 92 break SUCC = 1 - CAA/CLA by more than a point."""
    broken = [one for one in table.cells if not one.consistent]
    assert len(broken) == 25
    assert {one.attack for one in broken if (one.data, one.defence) == ("mr", "ddm")} == {"textfooler", "bertattack"}
    assert all(0 <= one.robust <= one.clean <= 100 and 0 <= one.success <= 100 for one in table.cells)


def test_data_have_other_names(table: ReportedTable) -> None:
    assert table.find("rotten_tomatoes", "ddm", "textfooler") == table.find("mr", "ddm", "textfooler") is not None
    assert table.find("rotten-tomatoes", "ddm", "textfooler") is not None and "rotten-tomatoes" in table.similar
    assert table.name_of("ag-news") == "ag_news" and table.name_of("imdb") == "imdb"


def test_the_link_in_the_repository_is_the_shipped_file(table: ReportedTable) -> None:
    link = ROOT / "results" / "reported.toml"
    assert link.is_symlink() and not link.readlink().is_absolute()
    assert load_reported(link) == table


@pytest.mark.parametrize(("text", "told"), [
    ("", "no rows"),
    ("[[row", "can't be read as TOML"),
    ("[[row]]\ndata = 1\n", "row 1: data is 1; expected a str"),
    ("row = [1]\n", "row 1 is 1"),
    (ROW.replace("90.0", "0.0"), "clean is 0"),
    (ROW.replace("90.0", "120.0"), "no percentage"),
    (ROW + "textfooler = 3.0\n", "expected { robust"),
    (ROW + "textfooler = { robust = 95.0, success = 1.0 }\n", "expected less"),
    (ROW + "textfooler = { robust = 5.0, success = -1.0 }\n", "no percentage"),
    (2 * (ROW + "textfooler = { robust = 5.0, success = 1.0 }\n"), "d x textfooler is there twice"),
    ("source = 3\n", r"\[source\] is 3"),
])
def test_a_file_of_ones_own_is_checked(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=told) as caught:
        load_reported(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.toml"):
        load_reported(tmp_path / "nowhere.toml")


def test_the_figures_travel_with_the_package(tmp_path: Path) -> None:
    """Nothing but the installed package is there: neither the checkout nor the link in it."""
    shutil.copytree(ROOT / "src" / "dualmask", tmp_path / "dualmask", ignore=shutil.ignore_patterns("__pycache__"))
    code = ("import sys; sys.path.insert(0, sys.argv[1])\n"
            "import dualmask; from dualmask.reporting.reported import load_reported\n"
            "print(len(load_reported().cells), dualmask.__file__)")
    found = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True,
                           check=True).stdout.split()
    assert found == ["92", str(tmp_path / "dualmask" / "__init__.py")]
