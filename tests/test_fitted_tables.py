# SPDX-License-Identifier: Apache-2.0
"""Tables that drop nothing: every name and figure is there, unbroken, at 80 columns and in pipes."""

import re
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text
from test_report import cell, report, write
from typer.testing import CliRunner

from dualmask.attacks import ATTACKS
from dualmask.bench_display import figure_tables
from dualmask.cli import app
from dualmask.cli_certify import accuracy_table
from dualmask.cli_theory import show_table
from dualmask.defences import DEFENCES
from dualmask.evaluation.certified_records import Summary
from dualmask.fitted_tables import FittedTable
from dualmask.reporting.comparison import compare
from dualmask.reporting.report_tables import headline, probability
from dualmask.reporting.theory_tables import Lines
from dualmask.resources import RESOURCES

LONG = "a-defence-with-a-name-of-its-own-that-is-long"


def printed(*shown: object, width: int = 80) -> str:
    screen = StringIO()
    Console(file=screen, width=width, color_system=None).print(*shown)
    assert max(map(len, screen.getvalue().splitlines()), default=0) <= width
    assert "\u2026" not in screen.getvalue()
    return screen.getvalue()


def pieces(shown: str) -> set[str]:
    """What stands between spaces."""
    return set(shown.split())


@given(rows=st.lists(st.lists(st.text("ab 1", min_size=0, max_size=70), min_size=3, max_size=3), max_size=4),
       figures=st.booleans(), keys=st.integers(1, 2))
def test_no_word_is_lost_or_broken_where_the_screen_can_hold_it(
    rows: list[list[str]], figures: bool, keys: int,
) -> None:
    table = FittedTable(head=("one", "two", "three"), rows=rows, figures=figures, right=figures, keys=keys)
    shown = printed(table, width=90)
    assert {word for row in rows for text in row for word in text.split()} <= pieces(shown)


def test_a_table_that_fits_has_a_line_for_each_row_and_another_is_stacked() -> None:
    rows = [["ddm", "68.0 [58.3, 76.3]", "x" * 40], ["plain", "", "y"]]
    table = FittedTable(head=("row", "figure", "note"), rows=rows, title="t", caption="c")
    wide = printed(table, width=100).splitlines()
    assert len(wide) == 5 and re.match(r"row +figure +note", wide[1]) and wide[2].startswith("ddm    68.0 [58.3, 76.3]")
    narrow = printed(table, width=50).splitlines()
    assert [line.rstrip() for line in narrow] == [
        "t", "ddm", "  figure  68.0 [58.3, 76.3]", f"  note    {'x' * 40}", "plain", "  note    y", "c"]
    figures = FittedTable(head=("row", "some long name"), rows=[["ddm", "68.0 (500 x 1)"]], figures=True)
    assert [line.split() for line in printed(figures, width=15).splitlines()] == [
        ["some", "long"], ["row", "name"], ["ddm", "68.0"], ["(500", "x", "1)"]]
    assert "x" * 10 in printed(table, width=20)  # a word that no line can hold is folded, not cut
    assert printed(table, width=20).count("x") == 40


def test_markup_in_cells_is_text() -> None:
    assert "[bold]a[/bold]" in printed(FittedTable(head=("x",), rows=[["[bold]a[/bold]"], [Text("b", "bold")]]))


@pytest.mark.parametrize("columns", ["80", ""])
def test_compare_shows_every_figure(tmp_path: Path, columns: str) -> None:
    one = write(tmp_path / "one", cell("+" * 70 + "-" * 30, defence=LONG), cell("+-", data="short"))
    other = write(tmp_path / "other", cell("+" * 20 + "-" * 80, defence=LONG),
                  cell("+-", data="short", header={"options": {"queries": 5}}))
    found = compare(one, other)
    result = CliRunner().invoke(app, ["compare", str(one), str(other)], env={"COLUMNS": columns})
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    tested = next(pair for pair in found.pairs if pair.test)
    assert tested.test
    low, high = tested.test.difference.interval
    for part in (tested.one, tested.other, f"{tested.test.texts} x 1", f"+50.0 [{100 * low:+.1f}, {100 * high:+.1f}]",
                 "50, 0", probability(tested.test.p), "corrected", "only A, only B", "A - B in points, 95 %"):
        assert part in words
    if columns:
        assert all(len(line) <= 80 for line in result.stdout.splitlines() if str(tmp_path) not in line)
    else:  # in a pipe a row stays a line
        row = next(line for line in result.stdout.splitlines() if LONG in line)
        assert "50, 0" in row and probability(tested.test.p) in row


def test_why_a_pair_was_not_tested_is_told_in_full(tmp_path: Path) -> None:
    one = write(tmp_path / "one", cell("+-", header={"options": {"queries": 5}}))
    other = write(tmp_path / "other", cell("+-", header={"options": {"queries": 9}}))
    shown = CliRunner().invoke(app, ["compare", str(one), str(other)], env={"COLUMNS": "80"}).stdout
    assert "not tested: the attack had different settings (queries: 5 and 9)" in " ".join(shown.split())


def test_figures_of_many_attacks_are_all_there() -> None:
    attacks = ["deepwordbug", "textbugger", "textfooler", "bertattack", "pwws", "hotflip", "fgpm", "a2t"]
    found = report(*(cell("+" * (5 + place) + "-" * (95 - place), defence=name, attack=attack)
                     for name in ("plain", LONG) for place, attack in enumerate(attacks)))
    head, *rows = headline(found)
    shown = printed(*figure_tables(found))
    assert {*head[1:-1]} <= {name if name in shown else "" for name in head[1:-1]}
    for row in rows:
        block = shown[shown.index(row[1]):]
        assert all(part in block.split() for text in row[2:-1] for part in text.split() if "." in part)


def test_lists_have_every_preset_family_and_certificate_at_80_columns() -> None:
    shown = CliRunner().invoke(app, ["list"], env={"COLUMNS": "80"}).stdout
    assert all(len(line) <= 80 for line in shown.splitlines()) and "\u2026" not in shown
    words = " ".join(shown.split())
    for kind in (*DEFENCES.values(), *ATTACKS.values()):
        assert f"presets {', '.join(kind.presets)}" in words and kind.card().summary in words
        assert getattr(kind, "certificate", "") in words and getattr(kind, "passes", "") in words
    assert all(f"threat {kind.threat.name}" in words for kind in ATTACKS.values() if kind.threat)


@pytest.mark.parametrize("columns", ["80", ""])
def test_resources_have_every_source_and_licence(columns: str) -> None:
    shown = CliRunner().invoke(app, ["resources", "list"], env={"COLUMNS": columns}).stdout
    words = " ".join(shown.split())
    for name, resource in RESOURCES.items():
        assert name in words and resource.purpose in words and f"{resource.source}, {resource.licence}" in words
        assert f"{resource.size / 1e6:.1f} MB" in words
    assert not columns or all(len(line) <= 80 for line in shown.splitlines() if "cache: " not in line)


def test_certified_accuracies_and_theory_are_whole() -> None:
    shown = printed(accuracy_table(Summary(5, 4, 1, 0, (3, 2, 1, 0), (3, 2, 1, 1), 0.5, 80.0)))
    assert "60.0 % (23.1 to 88.2)" in " ".join(shown.split()) and shown.count("%") == 8
    names = [f"a quantity of number {number}" for number in range(12)]
    screen = StringIO()
    show_table(Console(file=screen, width=80, color_system=None),
               Lines("all", ("words of", *names), [("some group", *(f"{10 * number}.5" for number in range(12)))]))
    assert all(f"{10 * number}.5" in screen.getvalue().split() for number in range(12))
    assert all(name in " ".join(screen.getvalue().split()) for name in names)
