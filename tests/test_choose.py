# SPDX-License-Identifier: Apache-2.0
"""Which defence for me? Every answer exists, says what was measured and no more, and nothing measured is better."""

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from itertools import product
from pathlib import Path
from statistics import mean

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from dualmask import recommend
from dualmask.choice_display import measured_tables
from dualmask.choice_tables import answer_price, choice_rows, limits_text
from dualmask.cli import app
from dualmask.defences import DEFENCES
from dualmask.errors import OptionError
from dualmask.measured_figures import MeasuredRow, MeasuredShare, find_row, measured_rows
from dualmask.presets import known_presets, row_name
from dualmask.recommendations import (
    DATA,
    ENCODER,
    RULES,
    THREAT_ATTACKS,
    THREATS,
    WORST,
    Recommendation,
    Threat,
)

ROOT = Path(__file__).parents[1]
WANTED = ({}, {"guarantee": True}, {"detect": True})
CHANCE = 5.0  # points that 500 texts tell a figure to
FLAGS = [(against, train, one_pass, wanted) for against, train, one_pass, wanted in product(
    (None, *THREATS), (None, "--train", "--no-train"), ((), ("--one-pass",)), ((), ("--guarantee",), ("--detect",)))]


def chosen(*flags: str) -> str:
    found = CliRunner().invoke(app, ["choose", *flags], env={"COLUMNS": "80"})
    assert found.exit_code == 0, found.output
    return found.output


def around(name: str, preset: str, **held: float) -> MeasuredRow:
    """A row of an unchanged network, as results/hardened.jsonl would give it."""
    return MeasuredRow(name=row_name(name, preset), defence=name, preset=preset, data=DATA, encoder="minilm",
                       trained=False, clean=MeasuredShare(percent=79.0, texts=400), passes="1", attacks={
                           attack: MeasuredShare(percent=one, texts=40) for attack, one in held.items()})


@pytest.mark.parametrize(("against", "train", "one_pass", "wanted"), FLAGS)
def test_each_combination_of_flags_has_an_answer_of_a_defence_that_there_is(
    against: str | None, train: str | None, one_pass: tuple[str, ...], wanted: tuple[str, ...],
) -> None:
    flags = [*(["--against", against] if against else []), *([train] if train else []), *one_pass, *wanted]
    shown = " ".join(chosen(*flags).split())
    found = recommend(against or "any", train=None if train is None else train == "--train", one_pass=bool(one_pass),
                      guarantee="--guarantee" in wanted, detect="--detect" in wanted)
    assert len(found) == (2 if train is None else 1)
    for one in found if flags else ():
        assert one.preset in DEFENCES.find(one.defence).presets
        assert one.commands and all(" ".join(command.split()) in shown for command in one.commands)
        assert " ".join(one.why.split()) in shown
        figures = [share for kept in one.kept for share in (kept.plain, kept.defended) if share]
        assert all(share.shown() in shown for share in figures)


@pytest.mark.parametrize("wanted", WANTED)
@pytest.mark.parametrize("one_pass", [False, True])
@pytest.mark.parametrize("against", THREATS)
def test_each_figure_is_the_assets(against: str, one_pass: bool, wanted: dict[str, bool]) -> None:
    for found in recommend(against, one_pass=one_pass, **wanted):
        row = found.row
        if row is None:
            assert not (found.kept or found.beaten_by or found.train)
            continue
        assert row in measured_rows() and found.plain in measured_rows()
        for kept in found.kept:
            assert kept.defended == (row.worst if kept.attack == WORST else row.attacks[kept.attack])
            own = found.plain and (found.plain.worst if kept.attack == WORST else found.plain.attacks[kept.attack])
            assert kept.plain and own
            same = kept.defended.plain is not None
            assert kept.plain.percent == (kept.defended.plain if same else own.percent)
            assert kept.plain.basis == (kept.defended if same else own).basis
        assert {kept.attack for kept in found.kept} <= {*THREAT_ATTACKS[found.against], WORST}
        every = {**row.attacks, **row.aware, **row.flagged}
        assert all(share in (*every.values(), row.worst, row.every) for _, share in found.beaten_by)
        assert found.beaten_by


def rows_of(data: str) -> list[MeasuredRow]:
    return [row for row in measured_rows() if (row.data, row.encoder, row.trained) == (data, ENCODER, True)]


def strengths(against: Threat, *, one_pass: bool) -> dict[str, float]:
    """By name what is kept on average over both data sets; in the worst case for any attack.

    Rows that lack an attack are left out: nothing can be said of them.
    """
    found: dict[str, list[float]] = {}
    for row in (row for data in ("mr", "ag_news") for row in rows_of(data) if not one_pass or row.passes == "1"):
        shares = [row.worst] if against == "any" else list(map(row.attacks.get, THREAT_ATTACKS[against]))
        if all(shares):
            found.setdefault(row.name, []).append(mean(share.percent for share in shares if share))
    return {name: mean(kept) for name, kept in found.items() if len(kept) == 2}


@pytest.mark.parametrize("one_pass", [False, True])
@pytest.mark.parametrize("against", THREATS)
def test_nothing_that_was_measured_is_better_beyond_chance(against: Threat, one_pass: bool) -> None:
    found, = recommend(against, train=True, one_pass=one_pass)
    kept = strengths(against, one_pass=one_pass)
    assert found.row is not None and len(kept) > 5
    own = kept[found.row.name]
    assert own > kept["plain"] + CHANCE and own > max(kept.values()) - CHANCE
    if "nothing" in found.why or "keeps the most" in found.why:
        assert own == max(kept.values())


def test_the_recommended_detector_flags_more_with_fewer_false_alarms() -> None:
    found, = recommend(detect=True, train=True)
    other, = recommend(detect=True, train=False)
    assert found.row and other.row and found.row.false_alarms and other.row.false_alarms
    assert found.row.false_alarms.percent < other.row.false_alarms.percent
    assert mean(one.percent for one in found.row.flagged.values()) > mean(
        one.percent for one in other.row.flagged.values())


def test_a_guarantee_is_of_a_defence_that_has_certificates() -> None:
    for found in (*recommend(guarantee=True), *recommend("synonyms", guarantee=True)):
        assert DEFENCES.find(found.defence).certificate
    assert recommend(guarantee=True, train=True)[0].row.certificate  # type: ignore[union-attr]


def test_networks_that_stay_as_they_are_have_figures_of_such_networks_or_none() -> None:
    """Those of trained ones must not stand in their place."""
    trained = [row for row in measured_rows() if row.trained]
    found, = recommend("misspelling", train=False, rows=trained)
    assert found.row is None and not found.kept and "not measured" in choice_rows(trained)[1][2]
    rows = [*trained, around("plain", "recommended", deepwordbug=0.0, textbugger=12.5),
            around("ddm-restore", "restore", deepwordbug=67.5, textbugger=22.5)]
    found, = recommend("misspelling", train=False, rows=rows)
    assert [(one.attack, one.plain.percent, one.defended.percent) for one in found.kept if one.plain] == [
        ("deepwordbug", 0.0, 67.5), ("textbugger", 12.5, 22.5)]
    assert "deepwordbug 0.0 -> 67.5" in choice_rows(rows)[1][3] and choice_rows(rows)[1][4] == "mr, 40 x 1"
    console = Console(file=StringIO(), width=80)
    console.print(measured_tables(list(DEFENCES), rows))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "around an unchanged network: mr, encoder minilm" in shown and re.search(
        r"ddm-restore \(restore\) +79\.0 +67\.5 +22\.5 +- +- +40 x 1 +1", shown)


def test_of_detectors_whose_training_is_plain_the_figures_of_a_trained_one_hold() -> None:
    found, = recommend(detect=True, train=False)
    assert found.defence == "fgws" and found.row is not None and found.row.trained


def test_chance_and_doubts_are_said() -> None:
    shown = " ".join(chosen("--against", "both", "--train", "--one-pass").split())
    assert "bertattack 19.0 -> 21.3 (within chance)" in shown and "(within chance), worst" in shown
    found, = recommend("both", train=True, one_pass=True)
    assert found.row and found.row.doubts and all(doubt in shown for doubt in found.row.doubts)
    assert "measured as ddm-restore (vote, vote_swaps=0.7)" in " ".join(chosen("--against", "any", "--train").split())


def test_what_cannot_be_had_is_told() -> None:
    with pytest.raises(OptionError, match=r"unknown threat 'typos'.*Expected one of misspelling, synonyms, both, any"):
        recommend("typos")
    with pytest.raises(OptionError, match="no defence has both"):
        recommend(guarantee=True, detect=True)


def test_without_flags_and_terminal_the_whole_table_is_printed() -> None:
    shown = " ".join(chosen().split())
    for threat, *cells in choice_rows()[1:]:
        assert threat[1:] in shown and all(" ".join(cell.split()) in shown for cell in cells)


def test_questions_are_asked_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dualmask.cli_choose.can_ask", lambda console: True)
    found = CliRunner().invoke(app, ["choose"], input="synonyms\ny\nanswers\ny\n", env={"COLUMNS": "80"})
    assert found.exit_code == 0 and "Can you train" in found.output
    expected, = recommend("synonyms", train=True, one_pass=True)
    assert expected.commands[0] in found.output and "You can train: ddm-restore" in found.output
    found = CliRunner().invoke(app, ["choose"], input="any\nn\nflags\n", env={"COLUMNS": "80"})
    assert "--defence fgws" in found.output and "one pass only?" not in found.output


def every_recommendation() -> list[Recommendation]:
    return [one for against, one_pass, wanted in product(THREATS, (False, True), WANTED)
            for one in recommend(against, one_pass=one_pass, **wanted)]


def test_commands_parse() -> None:
    group = typer.main.get_command(app)
    for command in dict.fromkeys(command for one in every_recommendation() for command in one.commands):
        program, name, *arguments = shlex.split(command)
        known = group.commands.get(name)  # type: ignore[attr-defined]
        assert program == "dualmask" and (known or name == "harden"), command
        if known:
            known.make_context(name, arguments)


def test_every_rule_is_reached() -> None:
    reached = {(one.wanted, one.train, one.why) for one in every_recommendation()}
    assert reached == {(rule.wanted, rule.train, rule.why) for rule in RULES}


def test_the_list_has_every_measured_preset_and_fits_80_columns() -> None:
    console = Console(file=StringIO(), width=80)
    console.print(measured_tables(list(DEFENCES)))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\u2026" not in shown and max(map(len, shown.splitlines())) <= 80
    first = shown.splitlines()[3]
    assert first.startswith("plain") and first.split()[1:] == [
        *(share.shown() for share in plain_shares()), "500", "x", "3", "1"]
    for row in rows_of(DATA):
        nearest = find_row(measured_rows(), row.defence, row.preset, data=DATA, encoder=ENCODER)
        assert nearest and nearest.name.split(" ")[0] in shown
        assert all(part in shown for part in nearest.name.split(" "))
        assert nearest.clean and nearest.clean.shown() in shown
    unmeasured = Console(file=StringIO(), width=80)
    unmeasured.print(measured_tables(["plain", "nobody's"]))
    assert re.search(r"nobody's +- +- +- +- +- +- +-", unmeasured.file.getvalue())  # type: ignore[attr-defined]


def test_the_list_has_plain_on_the_texts_of_every_row() -> None:
    rows = [row for row in measured_rows() if row.trained and (row.data, row.encoder) == (DATA, ENCODER)]
    shares = [share for row in rows for share in (*row.attacks.values(), row.worst)]
    paired = {share.basis for share in shares if share and share.plain is not None}
    assert paired >= {"500 x 3", "200 x 1", "100 x 3", "100 x 1"}
    console = Console(file=StringIO(), width=80)
    console.print(measured_tables(list(DEFENCES)))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    vote = find_row(rows, "ddm-restore", "vote", data=DATA, encoder=ENCODER)
    assert vote and vote.clean and vote.worst and vote.worst.plain is not None
    attacks = ("deepwordbug", "textbugger", "textfooler")
    figures = [vote.clean.plain, *(vote.attacks[attack].plain for attack in attacks), vote.worst.plain]
    assert re.search(r"plain +" + " +".join(f"{figure:.1f}" for figure in figures) + r" 100 x 3 1", shown)


def plain_shares() -> list[MeasuredShare]:
    row = find_row(measured_rows(), "plain", "recommended", data=DATA, encoder=ENCODER)
    assert row and row.clean and row.worst
    return [row.clean, *(row.attacks[one] for one in ("deepwordbug", "textbugger", "textfooler")), row.worst]


# Networks that stay as they are


def rows_around(rows: Sequence[MeasuredRow]) -> dict[str, MeasuredRow]:
    return {row.name: row for row in rows if not row.trained}


def best_around(rows: Sequence[MeasuredRow], against: Threat, *, one_pass: bool) -> str:
    """Of misspelling what keeps most under DeepWordBug for at most a point of clean texts, of others what keeps most
    under TextFooler and TextBugger."""
    around = rows_around(rows)
    bare = around.pop("plain").clean
    assert bare
    attacks = ("deepwordbug",) if against == "misspelling" else ("textfooler", "textbugger")
    able = {name: mean(row.attacks[attack].percent for attack in attacks) for name, row in around.items()
            if (not one_pass or row.passes == "1") and row.clean
            and (against != "misspelling" or row.clean.percent >= bare.percent - 1)}
    return max(able, key=lambda name: able[name])


@pytest.mark.parametrize("one_pass", [False, True])
@pytest.mark.parametrize("against", THREATS)
def test_of_networks_that_stay_as_they_are_the_recommended_keeps_most(against: Threat, one_pass: bool) -> None:
    assert rows_around(measured_rows()), "no figures: python benchmarks/hardening.py run > results/hardened.jsonl"
    found, = recommend(against, train=False, one_pass=one_pass)
    assert found.name == best_around(measured_rows(), against, one_pass=one_pass)


@pytest.mark.parametrize("row", choice_rows(short=True)[1:], ids=lambda row: row[0])
def test_each_row_of_the_front_page_has_figures(row: list[str]) -> None:
    """None may be without: python benchmarks/hardening.py run > results/hardened.jsonl."""
    assert "not measured" not in (row[2], row[3], row[4], row[6])


def test_what_textfooler_leaves_is_named_for_networks_as_they_are_and_trained_ones() -> None:
    trained = [row for row in measured_rows() if row.trained]
    vote = around("ddm-restore", "vote", textfooler=27.5)
    left = replace(vote.attacks["textfooler"], plain=2.5)
    told = limits_text([*trained, around("plain", "recommended", textfooler=2.5),
                        replace(vote, attacks={"textfooler": left})])
    first, second = told.split(". Of those")
    assert first.endswith(
        "(data mr) `ddm-restore (vote)` keeps 27.5 (40 x 1) percent under TextFooler, where the bare network keeps 2.5")
    assert "57.7 percent under TextFooler" in second and second.count(". ") == 0
    assert "network that stays as it is was not measured. Of those" in limits_text(trained)


# What is said


def test_passes_are_those_of_the_preset_that_is_trained_and_of_the_measured_one() -> None:
    for found in every_recommendation():
        if found.row and "votes" in found.row.changes:
            usual = known_presets(found.defence)[found.preset].options["votes"]
            assert answer_price(found).startswith(f"{usual} passes (measured with {found.row.changes['votes']}")
            assert "fifty" not in found.beware
    assert "100 passes (measured with 50: " in chosen("--against", "synonyms", "--guarantee", "--train")


def test_one_pass_that_cannot_be_had_is_told_once() -> None:
    for against, wanted, one_pass in product(THREATS, WANTED, (False, True)):
        for found in recommend(against, one_pass=one_pass, **wanted):
            assert found.beware.count("One pass was asked for") == (one_pass and bool(wanted))
            assert " in one pass" not in (found.beware if wanted else "")
            if one_pass and not wanted and found.row:
                assert found.row.passes == "1"


def test_figures_of_other_texts_have_their_basis_beside_them() -> None:
    found, = recommend(guarantee=True, train=True)
    assert [one.same_texts for one in found.kept] == [False, False] and found.clean and not found.clean.same_texts
    shown = " ".join(chosen("--guarantee", "--train").split())
    assert "92.9 (7600 x 3) -> 82.0 (100 x 1)" in shown and "deepwordbug 27.5 (500 x 3) -> 51.0 (100 x 1)" in shown
    vote, = recommend("any", train=True)
    assert vote.plain and vote.plain.worst and all(one.same_texts for one in vote.kept)
    assert vote.kept[-1].plain and vote.kept[-1].plain.percent != vote.plain.worst.percent


def test_the_worst_case_in_one_pass_is_within_chance_of_the_next() -> None:
    found, = recommend("any", train=True, one_pass=True)
    assert "within chance" in found.why and found.row and found.row.worst
    worst = [row.worst.percent for row in rows_of("mr") if row.passes == "1" and row.worst]
    assert max(worst) - CHANCE < found.row.worst.percent < max(worst)


def test_certificates_of_ranmask_cost_the_most_clean_texts() -> None:
    rows = [row for row in rows_of("ag_news") if row.clean]
    assert min(rows, key=lambda row: row.clean.percent if row.clean else 0).name.startswith("ranmask (certify")


# The page


def test_the_page_has_the_table_that_the_asset_gives() -> None:
    page = (ROOT / "docs" / "choose.md").read_text(encoding="utf-8")
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines()
             if line.startswith("| ")]
    assert cells == choice_rows() and len(cells[0]) <= 7


def test_what_is_said_of_the_best_in_the_worst_case_is_so() -> None:
    best = max((row for row in rows_of("mr") if row.worst), key=lambda row: row.worst.percent)  # type: ignore[union-attr]
    assert best.worst and best.every and limits_text() in (ROOT / "docs" / "choose.md").read_text(encoding="utf-8")
    assert (f"`{best.name}`, keeps {best.attacks['textfooler'].shown()} percent under TextFooler, "
            f"{best.worst.shown(basis=True)} percent") in limits_text()
    assert f"and {best.every.shown(basis=True)} where attacks count" in limits_text()
    assert limits_text([]) == "Nothing was measured yet."


def test_what_the_page_says_of_answers_on_a_cpu_was_measured() -> None:
    told = [json.loads(line) for line in (ROOT / "results" / "benchmarks.jsonl").read_text().splitlines()]
    times = [100 * (one["clean_over_bare"] - 1) for one in told if one["benchmark"] == "restored_prediction"]
    page = (ROOT / "docs" / "choose.md").read_text(encoding="utf-8")
    assert f"took {min(times):.0f} to {max(times):.0f} % longer" in page


def test_the_short_table_has_fewer_rows_and_attacks() -> None:
    short, whole = choice_rows(short=True), choice_rows()
    assert short[0] == whole[0] and {row[0] for row in short} < {row[0] for row in whole}
    assert "pwws" not in " ".join(map(" ".join, short)) and short[2][3].startswith("deepwordbug 16.5 -> 77.1; ")
    assert max(len(row) for row in whole) <= 7 and max(len(cell) for row in short for cell in row) <= 80
    assert all(row[3].count(" -> ") <= 3 for row in short)


def test_figures_that_are_not_there_are_not_made_up() -> None:
    row = find_row(measured_rows(), "ddm-restore", "recommended", data=DATA, encoder=ENCODER)
    assert row is not None
    bare = replace(row, attacks={}, aware={}, worst=None, every=None, training_times=None, answer_times=None, passes="")
    table = choice_rows([bare])
    assert table[2][3:] == [*["not measured"] * 2, "training not measured; not measured", "not measured"]


def test_clean_figures_of_the_table_have_their_own_numbers_of_texts() -> None:
    """40 attacked texts can't tell 76.2 %: what was not attacked is counted on more of them."""
    head, *rows = choice_rows(short=True)
    clean = [row[head.index("clean texts")] for row in rows]
    assert all(re.search(r"\(\d+ x \d+\)$", cell) for cell in clean)
