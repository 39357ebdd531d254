# SPDX-License-Identifier: Apache-2.0
"""Reports from records: every figure by hand, every doubt seen to come and to stay away, tables, comparisons."""

import math
import random
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from dualmask.attack_display import tally_table
from dualmask.attacks import build_attack
from dualmask.bench_display import figure_tables
from dualmask.cli import app
from dualmask.defences import DEFENCES
from dualmask.errors import DataError
from dualmask.evaluation.metrics import Robustness, worst_case
from dualmask.evaluation.records import FITTED, Cell, CellRecords, Loaded, Mode, Scores, read_cells
from dualmask.evaluation.statistics import bootstrap, mcnemar, sign_flips, wilson
from dualmask.reporting.attack_doubts import OLDER
from dualmask.reporting.comparison import compare
from dualmask.reporting.doubts import UNEVEN, UNRANKED
from dualmask.reporting.entries import HEADLESS, WORST, Entry, entries
from dualmask.reporting.headline import headline_sentences
from dualmask.reporting.measured import restoring_table, short_table
from dualmask.reporting.page import html
from dualmask.reporting.report import CLEAN, Report, Table, build_report
from dualmask.reporting.report_latex import escaped, latex
from dualmask.reporting.report_markdown import markdown
from dualmask.reporting.report_tables import headline, rendered
from dualmask.reporting.reported import load_reported
from dualmask.results import FAULTS, AttackResult, Outcome, Spans, as_line, tally

OUTCOMES: Mapping[str, Outcome] = {"+": "failed", "-": "succeeded", "s": "skipped", "q": "out-of-queries",
                                   "u": "unconfirmed", "e": "victim-error", "a": "attack-error"}


def result(index: int, outcome: Outcome, **changes: object) -> AttackResult:
    label, wrong = index % 2, outcome in ("skipped", "succeeded")
    values: dict[str, object] = {
        "index": index, "text": f"text {index}", "label": label, "outcome": outcome, "adversarial": f"test {index}",
        "clean": 1 - label if outcome == "skipped" else None if outcome in FAULTS else label,
        "predicted": 1 - label if wrong else label, "probability": 0.9, "probability_after": 0.6, "queries": 30,
        "rows": 20, "gradients": 0, "words": 20, "changed": 2, "similarity": 0.9, "seconds": 0.5}
    return AttackResult(**{**values, **changes})  # type: ignore[arg-type]


def cell(
    outcomes: str, *, defence: str = "plain", attack: str = "textfooler", mode: Mode = "adaptive", seed: int = 0,
    scores: Scores = "raw", data: str = "mr", header: Mapping[str, object] | None = None, **changes: object,
) -> CellRecords:
    """One letter a text: + held, - flipped, s wrong from the start, q out of queries, u unconfirmed, e and a faults."""
    this = Cell(data, "bert", defence, attack, mode, seed, scores)
    results = [result(index, OUTCOMES[letter], **changes) for index, letter in enumerate(outcomes)]
    head = {"format": 1, "cell": this.as_dict(), "labels": ["a", "b"], "texts": len(results), **(header or {})}
    return CellRecords(this, head, results, Path(this.file_name))


def altered(records: CellRecords, change: Callable[[AttackResult], AttackResult]) -> CellRecords:
    return records._replace(results=[change(one) for one in records.results])


def report(*cells: CellRecords) -> Report:
    return build_report(Loaded(list(cells), []))


def only(*cells: CellRecords) -> Entry:
    found = entries(cells)
    assert len(found) == 1
    return found[0]


def table(found: Report, mode: Mode = "adaptive", scores: Scores = "raw") -> Table:
    return next(one for one in found.tables if (one.mode, one.scores) == (mode, scores))


def write(folder: Path, *cells: CellRecords) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for one in cells:
        lines = [as_line(one.header), *(record.as_json() for record in one.results)]
        (folder / one.cell.file_name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


# Figures


def test_accuracy_with_the_defence_off_is_not_defined_where_no_head_was_trained() -> None:
    """Records of before hold labels of an untrained head."""
    assert set(HEADLESS) == {name for name, kind in DEFENCES.items() if not kind.trains_head}
    header = {"defence": {"name": "mvp+freelb"}}
    old = cell("++-s", defence="mvp-ag-news", header=header, undefended=0)
    found = report(old, cell("++-s", undefended=0))
    rows = {line.defence: line for line in table(found).lines}
    assert rows["mvp-ag-news"].undefended is None and rows["plain"].undefended is not None
    written = markdown(found)
    row = next(line for line in written.splitlines() if line.startswith("| mvp-ag-news"))
    assert [part.strip() for part in row.split("|")[3:4]] == ["not defined"]
    assert html(found).count('<span class="none">not defined</span>') == 1
    assert not [one for one in found.doubts if one.name == "clean accuracy unchanged"]


def test_every_figure_of_one_seed_by_hand() -> None:
    """Ten texts: 2 faults; of 8 measured 1 was wrong, 4 held, 3 were flipped."""
    records = altered(cell("+++q---sea"), lambda one: replace(
        one, queries=10 * one.index, rows=one.index, changed=one.index, seconds=one.index / 10,
        similarity=0.5 + one.index / 20, undefended=one.label if one.index < 6 else 1 - one.label))
    found = only(records)
    assert found.runs[0].counts == Robustness(texts=8, right=7, flipped=3, faults=2)
    assert found.clean and found.robust and found.success and found.undefended
    assert (found.clean.mean, found.robust.mean, found.success.mean) == (7 / 8, 4 / 8, pytest.approx(3 / 7))
    assert (found.undefended.mean, found.undefended.texts) == (0.6, 10)
    assert found.robust.interval == wilson(4, 8) and found.success.interval == wilson(3, 7)
    assert (found.robust.deviation, found.robust.texts, found.robust.seeds, found.success.texts) == (None, 8, 1, 7)
    assert (found.attacked, found.succeeded, found.faults, found.missing) == (7, 3, 2, 0)
    assert found.queries == pytest.approx(10 * 21 / 7) and found.rows == pytest.approx(21 / 7)
    assert found.seconds == pytest.approx(2.1 / 7)
    assert found.changed == pytest.approx((4 + 5 + 6) / 3 / 20) and found.similarity == pytest.approx(0.75)


def test_where_no_attack_knows_the_defence_is_told() -> None:
    """By its name, or by its data and encoder where on others there is one."""
    known = cell("+-", defence="ddm", attack="steering", mode="defence-aware")
    found = report(cell("+-", defence="mi4d"), cell("+-", defence="ddm"), known, cell("+-", defence="ddm", data="sst2"))
    told = next(one.text for one in found.doubts if one.name == "no attack that knows the defence")
    assert told.startswith("ddm (sst2, bert), mi4d: no attack was run")


def test_of_a_defence_that_draws_both_counts_are_told() -> None:
    """By the answers that the attack was given, and by those to new draws."""
    def noisy_cell(outcomes: str, attack: str) -> CellRecords:
        """Of the second text and all after it new draws are mostly right."""
        return altered(cell(outcomes, defence="ranmask", attack=attack), lambda one: replace(
            one, draws=10, wrong_draws=9 if one.index < 2 else 5) if one.outcome == "succeeded" else one)

    found = report(cell("++---s"), cell("++---s", attack="pwws"), noisy_cell("-+--+s", "textfooler"),
                   noisy_cell("+++--s", "pwws"))
    line = next(one for one in table(found).lines if one.defence == "ranmask")
    told = {name: (line.robust(name).mean, share.mean)  # type: ignore[union-attr]
            for name in ("textfooler", "pwws", WORST) if (share := line.redrawn(name))}
    assert told == {"textfooler": (2 / 6, 4 / 6), "pwws": (3 / 6, 5 / 6), WORST: (1 / 6, 4 / 6)}
    assert only(cell("++---s")).redrawn is None
    for text in (markdown(found), rendered(headline(found))):
        assert "(66.7 redrawn)" in text and "(83.3 redrawn)" in text
    assert r"{\scriptsize[83.3]}" in latex(found) and 'redrawn <data value="0.8' in html(found)


def test_over_seeds_the_mean_and_deviation_and_the_texts_of_one() -> None:
    found = only(cell("+++-", seed=3), cell("++--", seed=1), cell("+---", seed=2))
    assert [run.seed for run in found.runs] == [1, 2, 3]
    assert found.robust and (found.robust.mean, found.robust.deviation) == (0.5, 0.25)
    assert found.robust.texts == 4 and found.robust.interval == wilson(2, 4)  # three seeds do not make 12 texts


def test_a_cell_without_a_measured_text_has_no_figures() -> None:
    found = report(cell("ee", defence="ddm"), cell("++"))
    line = table(found).lines[1]
    assert (line.defence, line.clean, line.robust("textfooler")) == ("ddm", None, None)
    assert table(found).untested["ddm", "textfooler"] == "they have no text in common"
    assert markdown(found) and latex(found) and headline(found)
    empty = only(cell("", header={"texts": 7}))
    assert (empty.robust, empty.queries, empty.missing) == (None, None, 7)


@given(st.lists(st.sampled_from(sorted(OUTCOMES)), min_size=1, max_size=15))
@settings(max_examples=60, deadline=None)
def test_what_is_shown_of_a_file_obeys_the_identity(outcomes: list[str]) -> None:
    """CAA = CLA (1 - SUCC): exactly for the page's figures, and to their last decimal for those that tables print."""
    found = report(cell("".join(outcomes)))
    figures = [float(value) for value in re.findall(r'<data value="([^"]+)"', html(found))]
    if len(figures) == 3:  # something could be measured, and something was right
        clean, robust, success = figures
        assert robust == pytest.approx(clean * (1 - success), abs=1e-12)
        row = next(line for line in latex(found).splitlines() if line.startswith("plain &"))
        rounded = [float(value) for value in re.findall(r"\d+\.\d", row)]
        details = next(line for line in markdown(found).splitlines() if re.match(r"\| plain +\| textfooler", line))
        printed = [float(value.split()[0]) for value in details.split("|")[3:5]]
        assert (rounded[0], rounded[2]) == tuple(printed)
        assert rounded[1] == pytest.approx(rounded[0] * (1 - rounded[2] / 100), abs=0.151)
    else:
        assert not set(outcomes) & set("+-q")


def test_means_over_seeds_need_not_obey_the_identity_and_no_text_says_so() -> None:
    found = report(cell("++++"), cell("+-ss", seed=1))
    line = table(found).lines[0]
    clean, robust, success = line.clean, line.robust("textfooler"), line.entries["textfooler"].success
    assert clean and robust and success and (clean.mean, robust.mean, success.mean) == (0.75, 0.625, 0.25)
    assert robust.mean != clean.mean * (1 - success.mean)
    for text in (markdown(found), html(found)):
        assert "In every file of records CAA = CLA (1 - SUCC) exactly; means over seeds" in text


@given(st.lists(st.lists(st.sampled_from(sorted(OUTCOMES)), max_size=15), min_size=1, max_size=3))
@settings(max_examples=100, deadline=None)
def test_accuracy_never_rises_under_attack(seeds: list[list[str]]) -> None:
    found = only(*(cell("".join(outcomes), seed=seed) for seed, outcomes in enumerate(seeds)))
    if found.robust and found.clean:
        assert found.robust.mean <= found.clean.mean
        assert found.robust.interval.low - 1e-9 <= found.robust.mean <= found.robust.interval.high + 1e-9


def test_the_worst_case_is_pointwise_and_over_shared_seeds_and_texts() -> None:
    found = report(cell("+-+s+"), cell("++-se", attack="pwws"), cell("+++++", seed=1))
    assert len(found.worst) == 1
    worst = found.worst[0]
    assert worst.counts == (Robustness(texts=4, right=3, flipped=2, faults=1),)
    assert (worst.seeds, worst.left_out) == ((0,), (1,))
    assert [key.attack for key in worst.keys] == ["pwws", "textfooler"]
    assert worst.robust and worst.robust.mean == 0.25
    assert table(found).columns == ("pwws", "textfooler", WORST)


def test_the_worst_case_tells_what_it_stands_on() -> None:
    """A hundred texts under one attack, ten under the other: the worst case is of ten, and above the first attack."""
    found = report(cell("+" * 10 + "+" * 50 + "-" * 40), cell("+" * 10, attack="pwws"), cell("+" * 100, seed=1))
    worst = table(found).lines[0].robust(WORST)
    assert worst and (worst.mean, worst.texts, worst.seeds) == (1.0, 10, 1)
    assert headline(found)[1][2:] == ["100.0 ± 0.0", "100.0 (10 x 1)", "80.0 ± 28.3", "100.0 (10 x 1)", "100 x 2"]
    text = markdown(found)
    assert re.search(r"\| 100\.0 \[72\.2, 100\.0\] \(10 x 1\) \|$", text, re.M)
    assert re.search(r"\| worst case +\| 100\.0 .*\| 10 x 1, without seeds 1 ", text)
    assert r"100.0 {\scriptsize(10 $\times$ 1)} \\" in latex(found)
    assert headline_sentences(found)[-1] == ("Worst case, if the attacker may take whichever of these 2 attacks works: "
                                             "10 of 10 texts still right.")
    terminal = StringIO()
    Console(file=terminal, width=150).print(*figure_tables(found))
    assert "100.0 (10 x 1)" in terminal.getvalue() and "(texts x seeds) of a figure" in terminal.getvalue()
    doubt = next(one for one in found.doubts if one.name == "worst case on fewer texts")
    assert doubt.severity == "serious" and "10 texts and 1 seed that" in doubt.text and "left out (1)" in doubt.text
    usual = report(cell("+-"), cell("--", attack="pwws"))
    assert headline(usual)[1][2:] == ["100.0", "0.0", "50.0", "0.0 (2 x 1)", "2 x 1"]


def test_one_answer_to_all_is_told_by_what_attacks_did() -> None:
    def told(outcomes: str) -> str:
        return next(one.text for one in report(cell(outcomes)).doubts if one.name == "always the same answer")

    assert told("+s+s+s+s+s+s").endswith("that attacks fail on it is no robustness.")
    assert "attacks fail" not in told("-s+s-s+s+s+s") and "says nothing of its defence" in told("-s+s-s+s+s+s")


def test_an_unfinished_attack_leads_no_summary() -> None:
    """Texts that were wrong from the start end first: figures of an attack that is under way mislead."""
    begun = cell("ss", attack="pwws", header={"texts": 10})
    found = report(cell("++++++-s-s"), cell("+++++--s-s", attack="deepwordbug"), begun)
    first = table(found)
    assert first.lines[0].worst and [key.attack for key in first.lines[0].worst.keys] == ["deepwordbug", "textfooler"]
    assert first.leading == WORST and "unfinished" in {one.name for one in found.doubts}
    assert re.search(r"</b>: 80.{0,6}% right before the attack", html(found))
    alone = table(report(begun, cell("++++++-s-s")))
    assert alone.leading == "textfooler" and table(report(begun)).lines[0].both("pwws") is None


def test_failures_are_told_by_reason(tmp_path: Path) -> None:
    folder = write(tmp_path / "out" / "records", cell("+-")).parent
    lost = [Cell("mr", "bert", "ddm", "pwws", "adaptive", seed) for seed in range(5)]
    lines = [as_line({"cell": one.as_dict(), "reason": "no data"}) for one in (*lost, cell("+").cell)]
    (folder / "failures.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (problem,) = read_cells(folder).problems
    assert problem.endswith(" and 3 more (of 1 of them what was there before stands in this report): no data")


def test_messages_stay_on_their_line_and_bring_no_marks() -> None:
    hostile = "no <script>\n## room\u202e\x1b[31m"
    found = build_report(Loaded([cell("+-", header={"preset": "a\n# b"})], [hostile]), title="x\n# y")
    text = markdown(found)
    assert "<script>" not in text and "\u202e" not in text and "\x1b" not in text
    assert [line for line in text.splitlines() if line.startswith(("# y", "## room", "# b"))] == []


def test_nothing_in_a_record_brings_html_links_or_lines() -> None:
    """Whatever a header, a message of a server or a file's name may hold, in all three forms of a report."""
    evil = ('<script>alert(1)</script><!-- <b>x</b> [x](javascript:1) ![y](http://z/p.png) a|b \\| [q]: http://w '
            '[z\\](http://v) '
            '\n# head\x0c\n\n[r]: http://v')
    head = {"preset": evil, "attack": evil, "changed": {evil: evil}, "options": {evil: evil}, "labels": [evil, "b"],
            "about": {evil: evil, "versions": {evil: evil}, "hardware": {"gpu": evil}, "resumed": [{evil: evil}],
                      "training": {"preset": evil, "training": {"epochs": evil}, "hardware": {"gpu": evil}}},
            "defence": {"name": evil, evil: evil}, "noise": evil, "passes": evil, "data": evil, "threshold": 0.5}
    other = {**head, "preset": "x"}
    cells = [cell("+-s+e", header=head, reason=evil, suspicion=0.4, suspicion_after=0.6),
             cell("++s-", defence="ddm", header=head, mode="transfer"),
             cell("++s-", defence="ddm", header=other, seed=1),
             cell("++s-", defence="ddm", header=other, mode="defence-aware", attack="steering")]
    names = [f"mr.bert.ddm.{attack}.adaptive.0.jsonl" for attack in ("pwws", "hotflip")]
    found = build_report(Loaded(cells, [evil], {names[0]: evil}, {names[1]: 3}), title=evil)
    text, tables, page = markdown(found), latex(found), html(found)
    assert "&lt;script>" in text and "script" in tables and "&lt;script&gt;" in page
    assert not re.search(r"<[A-Za-z/!?]|\][(\[:]|\x0c|\n# head|\n\[r\]", text)
    assert "<script" not in page and not re.search(r"[\x00-\x09\x0b-\x1f]|\n# head", tables)
    made = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    for block in made:
        assert len({len(re.split(r"(?<!\\)(?:\\\\)*\|", row)) for row in block}) == 1, "every row has all columns"


def test_labels_of_tables_are_unique_in_latex() -> None:
    text = latex(report(cell("+-", data="\u30c7"), cell("+-", data="\u8cc7")))
    labels = re.findall(r"\\label\{(.*?)\}", text)
    assert len(labels) == len(set(labels)) == 2 and escaped("a--b") == "a-{}-b"


def test_an_attack_that_was_set_otherwise_is_told_so() -> None:
    header = {"attack": "deepwordbug", "preset": "paper", "changed": {"queries": 20}}
    found = report(cell("+q-q", attack="dwb-20", header=header), cell("+-", attack="pwws", header={"attack": "pwws"}))
    told = "dwb-20 is deepwordbug with queries 20, preset paper"
    assert told in markdown(found) and told in latex(found) and told in html(found) and "pwws is" not in markdown(found)


@pytest.mark.parametrize(("outcomes", "severity"), [("qq+", "serious"), ("q++++", "caution"), ("q+++++++++", None)])
def test_a_budget_that_ends_attacks_is_a_reason_for_doubt(outcomes: str, severity: str | None) -> None:
    doubts = [one for one in report(cell(outcomes)).doubts if one.name == "stopped by the budget"]
    assert [one.severity for one in doubts] == ([severity] if severity else [])


def test_a_worst_case_stands_beside_the_attacks_it_is_over() -> None:
    """Over the usual attacks in their table, over all in that of those which know the defence; elsewhere none."""
    cells = [cell("++-+", defence="ddm"), cell("+-++", defence="ddm", scores="calibrated"),
             cell("-+++", defence="ddm", mode="defence-aware", attack="steering")]
    found = report(*cells)
    assert WORST not in table(found, scores="calibrated").columns and WORST not in table(found).columns
    assert "over these and the ordinary attacks" in markdown(found)
    worst = table(found, mode="defence-aware").lines[0].robust(WORST)
    assert worst and worst.mean == 0.25
    assert [(one.scope, one.robust.mean) for one in report(*cells[:2]).worst if one.robust] == [("every", 0.5)]
    assert report(cells[0]).worst == ()


def test_rows_that_a_table_does_not_have_are_not_tested_in_it() -> None:
    """Else their tests would raise the corrected p of those that are there."""
    cells = [one for name in ("plain", "ddm", "other") for one in (
        cell("+" * 9 + "-", defence=name), cell("+" * 10, defence=name, attack="pwws"),
        cell("+" * 10, defence=name, scores="calibrated"))]
    found = table(report(*cells, cell("+" * 10, defence="ddm", attack="steering", mode="defence-aware")),
                  "defence-aware")
    assert {name for name, _ in (*found.tests, *found.untested)} == {"ddm"}


def test_the_second_worst_case_takes_every_attack_that_asks() -> None:
    found = report(cell("++++", defence="ddm"), cell("+++-", defence="ddm", scores="calibrated"),
                   cell("-+++", defence="ddm", attack="steering", mode="defence-aware"),
                   cell("--++", defence="ddm", mode="transfer"), cell("+-++"))
    scopes = {(one.defence, one.scope): one.robust.mean for one in found.worst if one.robust}
    assert scopes == {("ddm", "every"): 0.5}  # of a single attack there is no worst
    aware = table(found, "defence-aware").lines[0].robust(WORST)
    assert aware and aware.mean == 0.5 and WORST not in table(found, "transfer").columns


def test_noise_may_make_a_text_wrong_before_one_attack_only() -> None:
    one, other = cell("+s").results, cell("++").results
    assert worst_case([one, other], noisy=True) == Robustness(texts=2, right=1, flipped=0)
    with pytest.raises(DataError, match="text 1 was right before one attack"):
        worst_case([one, other])


# Statistics


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_sign_flips_against_all_flips(seeds: int) -> None:
    draw = random.Random(seeds)
    one, other = ([[draw.random() < share for _ in range(9)] for _ in range(seeds)] for share in (0.8, 0.4))
    gaps = [sum(row[text] for row in one) - sum(row[text] for row in other) for text in range(9)]
    totals = [abs(sum(sign * gap for sign, gap in zip(signs, gaps, strict=True)))
              for signs in product((1, -1), repeat=9)]
    assert sign_flips(one, other) == pytest.approx(sum(total >= abs(sum(gaps)) for total in totals) / 2 ** 9)
    if seeds == 1:
        assert sign_flips(one, other) == pytest.approx(mcnemar(one[0], other[0]))


def test_sign_flips_of_equals_and_of_many_texts() -> None:
    assert sign_flips([[True, False]], [[True, False]]) == 1.0
    one, other = [[True] * 600] * 5, [[True] * 300 + [False] * 300] * 5
    assert 0 <= sign_flips(one, other) < 1e-50
    with pytest.raises(DataError, match="the same seeds"):
        sign_flips([[True]], [[True], [False]])


def test_the_bootstrap_agrees_with_drawing_one_by_one() -> None:
    generator = np.random.default_rng(0)
    one, other = generator.random((3, 40)) < 0.7, generator.random((3, 40)) < 0.5
    gaps = one.astype(float) - other
    slow = [gaps[generator.integers(3, size=3)][:, generator.integers(40, size=40)].mean() for _ in range(4000)]
    found = bootstrap(one.tolist(), other.tolist())
    assert found.value == pytest.approx(gaps.mean())
    assert found.interval == pytest.approx(np.quantile(slow, [0.025, 0.975]), abs=0.012)


# Tests against plain


def test_paired_tests_by_hand() -> None:
    """Ten texts that only ddm holds, none the other way: p = 2 / 2^10; Holm over two tests doubles it."""
    found = table(report(cell("-" * 10 + "++"), cell("+" * 12, defence="ddm"), cell("-" * 9 + "+++", defence="mi4d")))
    test = found.tests["ddm", "textfooler"]
    assert (test.p, test.texts, test.seeds, test.difference.value) == (2 / 2 ** 10, 12, 1, pytest.approx(10 / 12))
    assert (test.both, test.only_one, test.only_other, test.neither) == (2, 10, 0, 0)
    assert found.tests["mi4d", "textfooler"].p == found.tests["mi4d", "textfooler"].corrected == 1.0
    assert test.corrected == 2 * 2 / 2 ** 10
    assert test.significant and not found.tests["mi4d", "textfooler"].significant
    assert not any(defence == "plain" for defence, _ in found.tests)


def test_a_difference_that_seeds_do_not_share_is_not_marked() -> None:
    """Over texts it is sure, and over seeds it is not: one of two goes the other way."""
    cells = [cell("-" * 60, seed=0), cell("+" * 30 + "-" * 30, seed=1), cell("+" * 60, defence="ddm", seed=0),
             cell("-" * 60, defence="ddm", seed=1)]
    test = table(report(*cells)).tests["ddm", "textfooler"]
    assert (test.seeds, test.texts) == (2, 60) and test.difference.value == pytest.approx(0.25)
    assert test.corrected < 0.05 and test.difference.interval.low < 0 and not test.significant


def test_no_test_without_pairs_and_the_reason_is_told() -> None:
    plain = cell("+-+-")
    other = altered(cell("++++", defence="ddm"), lambda one: replace(one, text="another"))
    untested = table(report(plain, other)).untested
    assert untested["ddm", "textfooler"] == "4 of 4 texts with the same number are different texts"
    found = report(cell("++", defence="ddm"))
    assert not table(found).tests
    assert table(found).untested == {("ddm", "textfooler"): "the plain classifier was not attacked so"}
    assert "Not tested against plain: ddm textfooler; the plain classifier was not attacked so." in markdown(found)
    untested = table(report(plain, cell("++++", defence="ddm", seed=4))).untested
    assert untested["ddm", "textfooler"] == "they have no seed in common (4 and 0)"
    several = [plain, cell("++++", attack="pwws"), cell("++++", defence="ddm"), cell("++++", defence="ddm", attack="x")]
    untested = table(report(*several)).untested
    assert untested["ddm", WORST] == "the worst cases are over different attacks"
    untested = table(report(plain, *several[2:])).untested
    assert untested["ddm", WORST] == "the plain classifier was not attacked so"


def test_the_worst_case_is_tested_too() -> None:
    cells = [cell("-" * 10 + "++++"), cell("+" * 8 + "-" * 6, attack="pwws"), cell("+" * 14, defence="ddm"),
             cell("+" * 12 + "--", defence="ddm", attack="pwws")]
    test = table(report(*cells)).tests["ddm", WORST]
    assert (test.only_one, test.only_other, test.neither, test.texts) == (12, 0, 2, 14) and test.p == 2 / 2 ** 12


def test_transferred_texts_are_compared_with_plains_own() -> None:
    found = report(cell("--++"), cell("++++", defence="ddm", mode="transfer", queries=0),
                   cell("+-", defence="ddm", mode="transfer-successful", queries=0))
    transfer = table(found, "transfer")
    assert [line.defence for line in transfer.lines] == ["plain", "ddm"]
    assert transfer.tests["ddm", "textfooler"].difference.value == 0.5
    successful = table(found, "transfer-successful")
    assert not successful.tests and "0 by construction" in successful.untested["ddm", "textfooler"]
    assert re.search(r"plain \(by construction\) *\| - *\| - *\| 0\.0", markdown(found))
    assert "plain (by construction) &  & 0.0 & 100.0" in latex(found)


def test_the_plain_row_is_known_by_its_defence() -> None:
    plain, other = {"defence": {"name": "plain"}}, {"defence": {"name": "ddm"}}
    cells = [cell("-" * 10 + "++", defence="baseline", header=plain), cell("+" * 12, defence="mine", header=other),
             cell("+" * 12, defence="mine", mode="transfer", header=other, queries=0)]
    found = report(*cells)
    assert table(found).plain == "plain" and [line.defence for line in table(found).lines] == ["plain", "mine"]
    assert table(found).tests["mine", "textfooler"].p == 2 / 2 ** 10
    assert [line.defence for line in table(found, "transfer").lines] == ["plain", "mine"]
    assert "points above plain" in html(found)
    several = report(*cells, cell("+" * 12, defence="plain", header=plain))
    assert table(several).plain == "plain" and ("plain [baseline]", "textfooler") in table(several).tests
    assert table(report(*cells, cell("+" * 12, defence="another", header=plain))).plain is None


def test_seeds_with_other_texts_are_not_pooled() -> None:
    """Each seed can be paired, but number 0 is not the same text in both."""
    first = [cell("++", defence=name) for name in ("plain", "ddm")]
    second = [altered(cell("++", defence=name, seed=1), lambda one: replace(one, text=f"new {one.index}"))
              for name in ("plain", "ddm")]
    assert table(report(*first, *second)).untested["ddm", "textfooler"] \
        == "2 of 2 texts with the same number differ from seed to seed"


def test_places_are_shared_by_equals() -> None:
    found = table(report(cell("++--"), cell("+++-", defence="a"), cell("+++-", defence="b"), cell("+---", defence="c")))
    assert [found.place(name, "textfooler") for name in ("a", "b", "plain", "c")] == [1, 1, None, None]
    found = table(report(cell("++--"), cell("+++-", defence="a"), cell("ssss", defence="c")))
    assert [found.place(name, "textfooler") for name in ("a", "plain", "c")] == [1, 2, None]
    assert found.place("c", CLEAN) is None and found.place("a", CLEAN) == 1
    assert table(report(cell("++"))).place("plain", "textfooler") is None  # alone


# Reported figures


def test_reported_beside_measured_and_what_is_far() -> None:
    """MR, DDM, TextFooler is reported as 55.2."""
    near, off = "+" * 55 + "-" * 45, "+" * 30 + "-" * 70
    line = table(report(cell(near, defence="ddm"))).lines[0]
    assert line.gaps["textfooler"].difference == pytest.approx(-0.2) and not line.gaps["textfooler"].far
    assert line.clean_gap and line.clean_gap.far and line.clean_gap.reported == 85.7
    assert table(report(cell(off, defence="ddm"))).lines[0].gaps["textfooler"].far  # outside the interval
    spread = [cell("+" * count + "-" * (100 - count), defence="ddm", seed=count) for count in (40, 50)]
    assert not table(report(*spread)).lines[0].gaps["textfooler"].far  # 45.0 ± 7.1: between one deviation and two
    close = [cell("+" * count + "-" * (100 - count), defence="ddm", seed=count) for count in (49, 50)]
    assert table(report(*close)).lines[0].gaps["textfooler"].far
    text = markdown(report(cell(off, defence="ddm")))
    assert "another protocol and another encoder" in text and re.search(r"55\.2 +\| 30\.0 \[.*-25\.2 +\| far", text)
    assert not table(report(cell(off, defence="own"))).lines[0].gaps


def test_reported_figures_go_by_the_defence_and_name_the_preset() -> None:
    def row(name: str, preset: str, **given: object) -> CellRecords:
        header = {"defence": {"name": "ddm"}, "about": {"training": {"preset": preset}}}
        return many(50, 50, defence=name, header=header, **given)

    found = report(row("ddm", "recommended"), row("ddm-paper", "paper"))
    assert [line.gaps["textfooler"].reported for line in table(found).lines] == [55.2, 55.2]
    for text in (markdown(found), latex(found), html(found)):
        assert "ddm (paper)" in text and "ddm-paper" not in text
    chosen = table(report(row("ddm", "paper", mode="transfer-successful")), "transfer-successful").lines[0]
    assert chosen.clean_gap is None and chosen.gaps  # these texts were chosen by plain's answers


def test_similar_data_are_told_as_such() -> None:
    found = report(cell("+-", defence="ddm", data="rotten-tomatoes"))
    assert found.tables[0].similar_data == "mr"
    assert "rotten-tomatoes (reported: mr, other texts)" in markdown(found)
    assert report(cell("+-", defence="ddm")).tables[0].similar_data == ""


# Doubts: for each one, records that show the sign and records that do not


def many(held: int, flipped: int, **given: object) -> CellRecords:
    return cell("+" * held + "-" * flipped, **given)  # type: ignore[arg-type]


def ddm(held: int, flipped: int, **given: object) -> CellRecords:
    return many(held, flipped, defence="ddm", **given)


def trained(
    defence: str, *, best_epoch: int = 3, seed: int = 0, data: str = "mr", **options: object,
) -> CellRecords:
    """With the facts of a training of five epochs, but for what is said otherwise."""
    facts = {"training": {"epochs": 5, "patience": 2, "keep": "best", "seed": seed, **options},
             "best_epoch": best_epoch, "epochs_run": 5}
    return many(5, 5, defence=defence, seed=seed, data=data, header={"about": {"training": facts}})


def noisy(**given: object) -> dict[str, object]:
    return {"header": {"noise": "fresh", **given}}


def of_encoder(mark: str) -> dict[str, object]:
    """Whatever its name, an encoder is known by another one or by the digest of its files."""
    return {"header": {"about": {"encoder": mark}}}


def named_plain(name: str) -> CellRecords:
    return many(5, 5, defence=name, header={"defence": {"name": "plain"}})


def set_so(recipe: str, options: Mapping[str, object], held: int = 5, *, column: str = "") -> CellRecords:
    """An attack on a hundred texts with these options, in a column by its own name unless another is given."""
    head = {"attack": recipe, "preset": "textattack-0.3.11", "options": options}
    return many(held, 100 - held, attack=column or recipe, header=head)


def learned(defence: str, **options: object) -> dict[str, object]:
    return {"defence": defence, "header": {"defence": {"name": defence, **options}}}


def unmoved(hidden: Spans, after: Spans, **given: object) -> CellRecords:
    """A defence that leaves the label of every clean text as it was, with what it hid and read before and after."""
    return altered(ddm(5, 5, hidden=hidden, hidden_after=after, **given),
                   lambda one: replace(one, undefended=one.label))


SIMILAR = {"options": {"similarity": 0.84, "window": 15, "skip_short": True, "sentence_encoder": "minilm"}}
VOTED = {"passes": "10", "noise": "text", "eot": 1, "temperature": 18.5}
Cells = Sequence[CellRecords]
DOUBTS: Mapping[str, tuple[Cells, Cells]] = {
    "SUCC is not 1 - CAA/CLA": ([many(5, 5, clean=0)], [many(5, 5)]),
    "hardly any query": ([many(9, 1, queries=1)], [many(9, 1, queries=3)]),
    "always the same answer": ([cell("+s+s+s+s+s+s")], [cell("+s+s+s+s+s++")]),
    "stopped by the budget": ([cell("qq+")], [cell("q+++++++++")]),
    "given up": ([cell("u++-")], [cell("u" + "+" * 99), cell("u++-", defence="ddm", **noisy(eot=10))]),
    "scores do not move": ([many(30, 5, probability_after=0.9)], [many(30, 5, probability_after=0.8)]),
    "not asked again": ([ddm(5, 5, **noisy(eot=10))], [ddm(5, 5, draws=10, wrong_draws=9, **noisy(eot=10))]),
    "one draw": ([ddm(5, 5, **noisy(eot=1))],
                 [ddm(5, 5, header={"noise": "none", "eot": 1}), ddm(5, 5, scores="still", **noisy(eot=1))]),
    "luck": ([ddm(5, 5, draws=10, wrong_draws=3, **noisy(eot=10))],
             [ddm(5, 5, draws=10, wrong_draws=9, **noisy(eot=10))]),
    "unchanged texts": ([many(5, 5, adversarial=None)], [many(5, 5)]),
    "meaning lost": ([many(5, 5, similarity=0.3)], [many(5, 5, similarity=0.7)]),
    "most words changed": ([many(5, 5, changed=12)], [many(5, 5, changed=4)]),
    "constraint off": ([many(5, 5, words=14, header=SIMILAR)], [many(5, 5, words=15, header=SIMILAR)]),
    "stand-ins": ([many(5, 5, header=SIMILAR)], [many(5, 5, header={"options": {"sentence_encoder": "use"}})]),
    "faults": ([cell("+-e", reason="broke")], [cell("+-")]),
    "transfer beats adaptive": ([ddm(80, 20), ddm(60, 40, mode="transfer")],
                                [ddm(60, 40), ddm(80, 20, mode="transfer")]),
    "other texts shown": ([ddm(5, 5, mode="transfer"), many(5, 5, defence="fat", mode="transfer", adversarial="other")],
                          [ddm(5, 5, mode="transfer"), many(8, 2, defence="fat", mode="transfer")]),
    "knowing does not help": ([ddm(5, 5), ddm(8, 2, attack="steering", mode="defence-aware")],
                              [ddm(5, 5), ddm(4, 6, attack="steering", mode="defence-aware")]),
    "white box weaker": ([many(5, 5), many(8, 2, attack="hotflip", gradients=4)],
                         [many(5, 5), many(5, 5, attack="hotflip", gradients=4)]),
    "an illusion of scores": ([many(80, 20), many(75, 25, scores="calibrated")],
                              [many(39, 61), many(36, 64, scores="calibrated"),  # three points, not more
                               many(99, 1, seed=1), many(99, 1, seed=2)]),
    "an illusion of noise": ([many(80, 20), many(75, 25, scores="still")],
                             [many(80, 20), many(78, 22, scores="still"), many(70, 30, scores="calibrated")]),
    "temperature at the end of its range": ([ddm(5, 5, scores="calibrated", header={"temperature": 20.0})],
                                            [ddm(5, 5, scores="calibrated", header={"temperature": 18.5})]),
    "temperature of other scores": (
        [ddm(5, 5, scores="calibrated", header=VOTED)],
        [ddm(5, 5, scores="calibrated", header={**VOTED, "temperature_fitted_on": FITTED}), many(5, 5, header=VOTED),
         many(5, 5, scores="calibrated", header={**VOTED, "passes": "1", "noise": "none"})]),
    "no adaptive attack": ([many(5, 5), ddm(8, 2, mode="transfer")], [many(5, 5), ddm(8, 2)]),
    "no attack that knows the defence": ([ddm(5, 5)], [ddm(5, 5), ddm(4, 6, attack="steering", mode="defence-aware")]),
    "answers like plain": ([many(10, 10), ddm(15, 5)], [many(10, 10), cell("s" + "+" * 19, defence="ddm")]),
    "few texts": ([many(50, 50)], [many(500, 500)]),
    "one training seed": ([many(5, 5)], [many(5, 5), many(5, 5, seed=1)]),
    "unfinished": ([many(5, 5, header={"texts": 11})], [many(5, 5)]),
    "seeds differ": ([ddm(5, 5, header={"defence": {"name": "ddm", "test_rate": 0.1}}),
                      ddm(5, 5, seed=1, header={"defence": {"name": "ddm", "test_rate": 0.3}})],
                     [ddm(5, 5, header={"defence": {"name": "ddm", "test_rate": 0.1}}), ddm(5, 5, seed=1)]),
    "texts differ": ([many(5, 5), many(5, 6, attack="pwws")], [many(5, 5), many(6, 4, attack="pwws")]),
    "worst case on fewer texts": ([many(5, 5), many(5, 5, seed=1), many(5, 5, attack="pwws")],
                                  [many(5, 5), many(5, 5, attack="pwws")]),
    "never begun": ([ddm(5, 5, header={"about": {"training": {"ready": False}}})],
                    [ddm(5, 5, header={"about": {"training": {"ready": True}}})]),
    "trained before corrections": ([trained("rsmi", weight_decay=0.0)], [trained("rsmi", decay="weights")]),
    "trained or selected differently": ([trained("plain"), trained("ddm", epochs=10, keep="last")],
                                        [trained("plain"), trained("ddm")]),
    "best at the last epoch": ([trained("plain", best_epoch=5)],
                               [trained("plain", best_epoch=4), trained("ddm", best_epoch=5, keep="last")]),
    "profile newer than the reported figure": ([set_so("bertattack", {"candidates": 8})],
                                               [set_so("bertattack", {"candidates": 48}),
                                                set_so("pwws", {"split": "both-ends"})]),
    "trained on an attack of the table": ([many(5, 5, **learned("adfar"))],
                                          [many(5, 5, **learned("adfar"), attack="pwws"),
                                           many(5, 5, **learned("adfar", records="old.jsonl"), seed=1)]),
    "epochs chosen under an attack of the table": (
        [many(5, 5, attack="deepwordbug", header=trained("plain", keep="robust").header)],
        [trained("plain", keep="robust"), many(5, 5, attack="deepwordbug", header=trained("plain").header)]),
    "one synonym table for defence and attack": (
        [many(5, 5, **learned("safer", synonyms="shipped"))],
        [many(5, 5, **learned("safer", synonyms="mine.txt")), many(5, 5, **learned("safer"), attack="bertattack"),
         many(5, 5, **learned("ranmask"))]),
    "rankings no better than random": (
        [set_so("pwws", {}, 40), set_so("pwws", {"ranking": "random"}, 42, column="by-chance")],
        [set_so("pwws", {}, 40), set_so("pwws", {"ranking": "random"}, 60, column="by-chance"),
         set_so("pwws", {"ranking": "random", "split": "left-end"}, 40, column="other")]),
    "several plain rows": ([named_plain("one"), named_plain("two")], [named_plain("one"), named_plain("plain")]),
    "presets mixed": ([many(5, 5, header={"preset": "paper"}), many(5, 5, attack="pwws", header={"preset": "release"})],
                      [many(5, 5, header={"preset": "paper"}), many(5, 5, attack="pwws", header={"preset": "paper"})]),
    "encoders differ": (
        [many(5, 5, **of_encoder("folder 0123")), ddm(5, 5, **of_encoder("gte-small"))],
        [many(5, 5, **of_encoder("folder 0123")), ddm(5, 5, **of_encoder("folder 0123")),
         ddm(5, 5, data="sms", **of_encoder("gte-small")), many(5, 5, attack="pwws")]),
    "settings differ": ([many(5, 5), ddm(5, 5, header={"options": {"neighbours": 8}})], [many(5, 5), ddm(5, 5)]),
    "different classifiers": ([cell("s+"), cell("++", attack="pwws")], [cell("s+"), cell("s-", attack="pwws")]),
    "clean accuracy under the reported": ([cell("s" * 30 + "+" * 70)], [cell("s" * 15 + "+" * 85)]),
    "reported figures disagree": ([ddm(5, 5)], [many(5, 5)]),
    "clean accuracy unchanged": (
        [unmoved(((0, 2, 0),), ((0, 2, 0),))],
        [altered(ddm(5, 5, hidden=((0, 2, 0),)), lambda one: replace(one, undefended=0)),
         unmoved(((0, 2, 0),), ((0, 2, 0), (2, 3, 0), (3, 4, 0, "word")), seed=1)]),
}


@pytest.mark.parametrize("name", DOUBTS)
def test_a_doubt_comes_and_stays_away(name: str) -> None:
    doubtful, fine = (report(*cells) for cells in DOUBTS[name])
    found = [one for one in doubtful.doubts if one.name == name]
    assert found and all(one.text.endswith((".", "?")) or one.text.endswith(").") for one in found)
    assert name not in {one.name for one in fine.doubts}
    assert f", {name}: " in markdown(doubtful)


def test_every_doubt_has_its_example() -> None:
    names = ("doubts.py", "findings.py", "conditions.py", "training_doubts.py", "attack_doubts.py", "unchanged.py")
    folder = Path(__file__).parents[1] / "src" / "dualmask" / "reporting"
    source = "".join((folder / name).read_text(encoding="utf-8") for name in names)
    told = re.findall(r'Finding\(\s*"([^"]+)"', source) + re.findall(r'^\s+\("([^"]+)", "attacks', source, re.M)
    told += re.findall(r'^    "\w+": \("(an [^"]+)", "', source, re.M)
    assert set(told) == set(DOUBTS)


def test_doubts_tell_their_figures_and_the_gravest_come_first() -> None:
    found = report(*DOUBTS["transfer beats adaptive"][0], cell("+-e", attack="pwws", reason="broke")).doubts
    order = [("serious", "caution", "note").index(one.severity) for one in found]
    assert order == sorted(order) and order[0] == 0
    text = next(one for one in found if one.name == "transfer beats adaptive")
    assert "80.0" in text.text and "60.0" in text.text and {key.mode for key in text.keys} == {"adaptive", "transfer"}
    assert "1 of 3 (33 %)" in next(one for one in found if one.name == "faults").text


@pytest.mark.parametrize(("header", "told"), [
    ({"data": "9 examples x"}, "data: 10 examples a and 9 examples x"),
    ({"defence": {"name": "ddm", "test_rate": 0.2}}, "test_rate: 0.1 and 0.2"),
    ({"about": {"versions": {"dualmask": "0.2"}}}, "dualmask: 0.1 and 0.2"),
    ({"about": {"training": {"training": {"epochs": 9, "seed": 1}}}}, "epochs: 3 and 9"),
])
def test_seeds_that_differ_in_more_than_the_seed(header: Mapping[str, object], told: str) -> None:
    usual = {"data": "10 examples a", "defence": {"name": "ddm", "test_rate": 0.1},
             "source": {"cell": {}, "digest": "x"},
             "about": {"versions": {"dualmask": "0.1"}, "training": {"training": {"epochs": 3, "seed": 0}}}}
    found = report(ddm(5, 5, header=usual), ddm(5, 5, seed=1, header={**usual, **header})).doubts
    assert f"({told})" in next(one.text for one in found if one.name == "seeds differ")
    same = {**usual, "about": {"training": {"training": {"epochs": 3, "seed": 1}}}}
    found = report(ddm(5, 5, header=usual), ddm(5, 5, seed=1, header=same)).doubts
    assert "seeds differ" not in {one.name for one in found}


def doubt(name: str, *cells: CellRecords) -> tuple[str, list[str]]:
    """What a doubt says, and which rows it is about."""
    found, = (one for one in report(*cells).doubts if one.name == name)
    return found.text, sorted({key.defence for key in found.keys})


def test_rows_trained_otherwise_are_named_with_how() -> None:
    rows = [trained("plain"), trained("ddm"), trained("fat", epochs=10), trained("ttso", epochs=10),
            trained("ddm-restore", epochs=10, keep="last")]
    text, about = doubt("trained or selected differently", *rows)
    told = text[text.index("(ddm-restore") + 1:text.index("). What")].split("; ")
    assert told == ["ddm-restore: epochs 10 in place of 5, keep last in place of best",
                    "fat, ttso: epochs 10 in place of 5"]
    assert about == ["ddm-restore", "fat", "ttso"]


def test_rows_trained_before_corrections_are_named_with_what_was_corrected() -> None:
    """Records tell by what they lack: which parameters decayed, and that shield's experts were averaged."""
    former = [trained("plain"), trained("rsmi"), trained("shield")]
    text, about = doubt("trained before corrections", *former)
    assert text[text.index("(") + 1:text.index("). Only")].split("; ") == [
        "all of them: weight decay reached biases and normalisation",
        "rsmi: dropout had a part in which tokens were masked in training",
        "shield: experts and their depths were summed, not averaged"]
    assert about == ["plain", "rsmi", "shield"]
    text, about = doubt("trained before corrections", trained("plain", decay="all"), trained("ddm", weight_decay=0.0),
                        trained("rsmi", weight_decay=0.0))
    assert about == ["rsmi"] and "decay" not in text, "what was asked for is no fault"
    now = [trained("plain", decay="weights"), trained("rsmi", decay="weights"), many(5, 5)]
    assert "trained before corrections" not in {one.name for one in report(*now).doubts}


def test_rows_have_encoders_beside_them_where_there_are_several_and_few_exceptions_are_named() -> None:
    names = ("plain", "ddm", "fat", "ttso", "ib", "safer")
    former = [trained(name) for name in names] + [trained("ddm-paper", decay="weights")]
    assert "(all but ddm-paper: weight decay" in doubt("trained before corrections", *former)[0]
    other = trained("fat", best_epoch=5)
    other = other._replace(cell=replace(other.cell, encoder="mpnet"))
    rows = [trained("plain"), trained("ddm", best_epoch=5), other]
    assert "mr: ddm (bert), fat (mpnet): of all" in doubt("best at the last epoch", *rows)[0]
    seeds = [trained("ib", seed=seed, best_epoch=5 - seed) for seed in (0, 1)]
    assert "ib (bert, 1 of 2 seeds)" in doubt("best at the last epoch", *rows, *seeds)[0]


def test_without_a_plain_row_most_rows_are_the_measure() -> None:
    text, about = doubt("trained or selected differently", trained("ddm", patience=0), trained("fat"), trained("ttso"))
    assert "(ddm: patience 0 in place of 2)" in text and about == ["ddm"]


def test_an_option_that_came_up_later_had_its_old_effect_before() -> None:
    """What was trained before biases could be spared let them decay."""
    text, _ = doubt("trained or selected differently", trained("plain"), trained("ddm", decay="weights"))
    assert "(ddm: decay weights in place of all)" in text
    names = {one.name for one in report(trained("plain"), trained("ddm", decay="all")).doubts}
    assert "trained or selected differently" not in names


def test_a_profile_of_another_time_is_told_wherever_our_figure_stands_beside_the_reported() -> None:
    """bertattack at K = 8 beside a figure of K = 48; by any other name the profile of that time is the reported one."""
    newer = set_so("bertattack", {"candidates": 8, "split": "both-ends"})
    same = set_so("bertattack", {"candidates": 48, "split": "left-end"}, column="bertattack-0310")
    same = same._replace(header={**same.header, "preset": "textattack-0.3.10"})
    chance = same._replace(cell=replace(same.cell, attack="by-chance"), header={
        **same.header, "changed": {"ranking": "random"}})
    gaps = table(report(newer, same, chance)).lines[0].gaps
    assert {name: gap.older for name, gap in gaps.items()} == {
        "bertattack": "candidates 8 in place of 48, split both-ends in place of left-end", "bertattack-0310": ""}
    for render in (markdown, html, latex):
        assert render(report(newer)).count("candidates 8 in place of 48") >= 1, render
        assert "older profile" in render(report(newer)) and "in place of" not in render(report(same)), render


def test_the_profile_of_that_time_is_what_a_preset_of_ours_does() -> None:
    profile = load_reported().profile
    assert profile and {one.attack for one in load_reported().cells} == set(profile.options)
    for attack, options in profile.options.items():
        then, now = (build_attack(attack, preset=preset).lasting_options() for preset in (profile.preset, None))
        assert {name: value for name, value in then.items() if value != now[name]} == options


def test_rows_that_do_not_compare_are_named_beside_every_table_of_rows() -> None:
    rows = [trained("plain"), trained("ddm", epochs=10), many(5, 5, **learned("safer"))]
    told = "Not all rows compare as they stand (trained or selected differently: ddm; one synonym table for "
    told += "defence and attack: safer)."
    for render in (markdown, html, latex):
        assert told.split("; one")[0] in render(report(*rows)), render
    both = report(*rows, trained("plain", data="sms"), trained("ddm", data="sms", best_epoch=5))
    for render in (short_table, restoring_table):  # data sets share one table there
        assert "Not all rows of mr compare as they stand (trained or selected differently: ddm" in render(both), render
        assert "Not all rows of sms compare as they stand (best at the last epoch: ddm)." in render(both), render
    assert told in markdown(report(*rows)) and "as they stand" not in markdown(report(trained("plain")))
    head, even = (html(report(*cells)).split("<nav")[0] for cells in (rows, rows[:1]))
    assert "compare as they stand</a>" in head and "as they stand" not in even


def test_an_attack_that_learns_nothing_from_its_ranking_is_told_with_both_figures() -> None:
    text, _ = doubt("rankings no better than random", *DOUBTS["rankings no better than random"][0])
    assert "40.0 are left where words are taken in the order of their importance, 42.0 where by chance" in text
    worse = [set_so("pwws", {}, 60), set_so("pwws", {"ranking": "random"}, 40, column="by-chance")]
    assert "60.0 are left" in doubt("rankings no better than random", *worse)[0]
    nothing_left = [set_so("pwws", {}, 1), set_so("pwws", {"ranking": "random"}, 5, column="by-chance")]
    assert "rankings no better than random" not in {one.name for one in report(*nothing_left).doubts}, "chance does it"


def test_seeds_that_were_best_at_the_last_epoch_are_counted() -> None:
    rows = [trained("plain", seed=seed, best_epoch=best) for seed, best in enumerate((5, 5, 2))]
    text, about = doubt("best at the last epoch", *rows, trained("ddm", best_epoch=1))
    assert "mr: plain (2 of 3 seeds): of all" in text and about == ["plain"]


def test_a_temperature_is_doubted_once_for_all_attacks_on_a_classifier() -> None:
    rows = [ddm(5, 5, attack=attack, scores="calibrated", header={**VOTED, "temperature": 0.05})
            for attack in ("pwws", "textfooler")]
    for name in ("temperature at the end of its range", "temperature of other scores"):
        text, about = doubt(name, *rows, many(5, 5))
        told = "ddm (mr, bert), calibrated scores, under pwws, textfooler: their temperature is 0.05,"
        assert text.startswith(told) and about == ["ddm"]


def test_an_unfinished_attack_is_compared_with_nothing() -> None:
    """Of it the texts are there that fell at once: it seems to leave nothing standing."""
    partly = {"header": {"texts": 100}}
    found = report(many(80, 20), many(0, 20, scores="calibrated", **partly), ddm(80, 20),
                   ddm(0, 20, mode="transfer", **partly)).doubts
    assert not {"an illusion of scores", "transfer beats adaptive"} & {one.name for one in found}


def test_transfer_makes_no_queries_and_that_is_no_sign() -> None:
    found = report(cell("++++", defence="ddm"), cell("++++", defence="ddm", mode="transfer", queries=0)).doubts
    assert "hardly any query" not in {one.name for one in found}


def test_new_noise_may_overrule_the_last_answer() -> None:
    """A success by most draws whose last answer before was right is no contradiction."""
    found = report(altered(ddm(5, 5, draws=9, wrong_draws=6, **noisy(eot=10)),
                           lambda one: replace(one, predicted=one.label))).doubts
    assert "SUCC is not 1 - CAA/CLA" not in {one.name for one in found}


def test_a_sign_in_many_numbers_is_told_once() -> None:
    cells = [many(9, 1, queries=1, attack=f"attack{number}") for number in range(5)]
    found = [one for one in report(*cells).doubts if one.name == "hardly any query"]
    assert len(found) == 1 and len(found[0].keys) == 5 and "4 times more" in found[0].text


def test_what_holds_of_raw_and_calibrated_scores_alike_is_told_once() -> None:
    presets: Mapping[str, str] = {"textfooler": "paper", "pwws": "release"}
    both: Sequence[Scores] = ("raw", "calibrated")
    cells = [many(5, 5, attack=name, scores=scores, header={"preset": preset})
             for name, preset in presets.items() for scores in both]
    found = report(*cells)
    mixed = [one for one in found.doubts if one.name == "presets mixed"]
    assert len(mixed) == 1 and len(mixed[0].keys) == 4 and markdown(found).count(mixed[0].text) == 1
    elsewhere = report(*cells, *(many(5, 5, attack=name, data="ag_news", header={"preset": preset})
                                 for name, preset in presets.items())).doubts
    assert len([one for one in elsewhere if one.name == "presets mixed"]) == 2


def test_texts_that_differ_are_told_of_the_right_table() -> None:
    found = report(many(5, 5), many(5, 5, attack="pwws"), many(5, 5, scores="calibrated"),
                   many(5, 6, attack="pwws", scores="calibrated")).doubts
    told, = (one.text for one in found if one.name == "texts differ")
    assert "adaptive, calibrated scores: " in told


def test_figures_that_fall_with_calibrated_scores_are_told_together_and_are_no_ranking() -> None:
    found = report(many(20, 80), many(10, 90, scores="calibrated"), ddm(50, 50), many(80, 20, defence="sure"),
                   many(70, 30, defence="sure", attack="pwws"), many(40, 60, defence="sure", scores="calibrated"),
                   many(30, 70, defence="sure", attack="pwws", scores="calibrated"))
    told = [one.text for one in found.doubts if one.name == "an illusion of scores"]
    assert len(told) == 2 and "plain (mr, bert)" in told[0]
    assert "from 70.0 to 30.0 under adaptive pwws, 80.0 to 40.0 under adaptive textfooler when" in told[1]
    assert found.doubted(table(found)) == {"sure": "an illusion of scores"}  # nobody praises plain
    assert found.doubted(table(found, scores="calibrated")) == {}  # these are the figures to believe
    line = "There are serious doubts about the figures of sure (an illusion of scores)."
    assert markdown(found).count(line) == latex(found).count(line) == html(found).count(line) == 1
    assert "serious doubts" not in markdown(report(many(20, 80), ddm(50, 50)))


def test_tables_of_draws_held_still_stand_by_themselves() -> None:
    found = report(many(5, 5), ddm(8, 2), ddm(3, 7, scores="still"), ddm(6, 4, scores="calibrated"))
    assert [table.scores for table in found.tables] == ["raw", "calibrated", "still"]
    assert "adaptive, draws held still" in markdown(found) and "and sees draws held still" in html(found)
    worst = {one.scope: one.robust.mean for one in found.worst if one.defence == "ddm" and one.robust}
    assert worst == {"every": 0.3}


def test_a_worst_case_of_few_texts_is_no_doubt_about_another_one() -> None:
    """Attacks that know the defence met fewer texts: that is said of their table, not of the ordinary one."""
    found = report(ddm(50, 50), ddm(60, 40, attack="pwws"), ddm(5, 5, attack="steering", mode="defence-aware"))
    assert found.doubted(table(found)) == {}
    assert found.doubted(table(found, "defence-aware")) == {"ddm": "worst case on fewer texts"}


def test_a_defence_that_leaves_clean_texts_alone_is_asked_what_it_does_to_attacked_ones() -> None:
    """Around the very network of plain: the same labels on clean texts, by design."""
    plain, alone = many(10, 10), {"defence": "ddm-restore", "hidden": (), "undefended": 0}
    asleep = many(15, 5, hidden_after=(), **alone)
    awake = many(15, 5, hidden_after=((0, 4, 0, "text"),), **alone)
    shown = {**alone, "mode": "transfer", "hidden": None}
    told = [{one.name for one in report(plain, *rows).doubts} for rows in (
        [asleep], [awake],
        [asleep, altered(many(10, 10, **shown), lambda one: replace(one, undefended=one.label))],  # as plain did
        [asleep, altered(many(15, 5, **shown), lambda one: replace(one, undefended=one.label))])]
    assert ["answers like plain" in names for names in told] == [True, False, True, False]


def test_doubts_that_forbid_a_ranking_are_doubts() -> None:
    assert set(DOUBTS) > {*UNRANKED, *UNEVEN, OLDER}


# Tables


def test_markdown_lines_up_and_says_what_stands_behind() -> None:
    found = report(many(20, 80), many(25, 75, seed=1), ddm(60, 40), ddm(55, 45, seed=1))
    text = markdown(found)
    assert text.startswith("# Robustness report\n") and "400 records" in text
    assert re.search(r"\| ddm +\| 100\.0 ± 0\.0 \[.*\*\*57\.5 ± 3\.5 \[47\.7, 66\.7\]\*\* †", text)
    assert re.search(r"\| ddm +\| textfooler \| 100\.0 ± 0\.0 \[.*\] +\| 42\.5 ± 3\.5 \[.*\| 100 x 2 +\| 30 \(20\) +"
                     r"\| 10\.0", text)
    assert "< 0.001" in text and "on 100 x 2" in text
    assert rendered([["x"], ["a|b\nc"]]).splitlines()[2] == "| a\\|b c |"
    assert rendered([["x"], ["a\\|b"]]).splitlines()[2] == "| a\\\\\\|b |"
    assert rendered([["x"], ["**9** < 0.001 [8, 10] †"]]).splitlines()[2] == "| **9** < 0.001 [8, 10] † |"
    for block in re.findall(r"(?:^\|.*\n)+", text, re.M):
        assert len({len(line) for line in block.splitlines()}) == 1


def test_the_headline_is_short() -> None:
    found = report(many(20, 80), ddm(60, 40), ddm(70, 30, mode="transfer"), many(3, 1, attack="pwws"))
    assert headline(found) == [
        ["mode", "defence", "clean", "pwws", "textfooler", "worst case", "texts x seeds"],
        ["adaptive", "plain", "100.0", "75.0 (4 x 1)", "20.0", "75.0 (4 x 1)", "100 x 1"],
        ["adaptive", "ddm", "100.0", "-", "60.0", "-", "100 x 1"],
        ["transfer", "plain", "100.0", "-", "20.0", "-", "100 x 1"],
        ["transfer", "ddm", "100.0", "-", "70.0", "-", "100 x 1"]]
    two = headline(report(many(1, 1), many(1, 1, data="ag_news")))
    assert two[0] == ["data", "encoder", "mode", "defence", "clean", "textfooler", "texts x seeds"]
    assert {row[0] for row in two[1:]} == {"ag_news", "mr"}


def test_latex_marks_and_escapes() -> None:
    cells = [many(20, 80, data="a_b"), many(60, 40, defence="free_lb++", data="a_b"),
             many(70, 30, defence="ddm", data="a_b")]
    text = latex(report(*cells))
    assert r"free\_lb++ & \textbf{100.0} & \underline{60.0}$^\dagger$ & \underline{40.0}" in text
    assert r"ddm & \textbf{100.0} & \textbf{70.0}$^\dagger$ & \textbf{30.0}" in text
    assert r"a\_b, bert, adaptive" in text and "booktabs" in text.splitlines()[0]
    assert text.count(r"\begin{") == text.count(r"\end{") and text.count("{") == text.count("}")
    rows = [line for line in text.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in rows} == {3}
    assert escaped("a&b") == r"a\&b"
    assert escaped(r"50 % \ {x} ~ ^ # $ < 1") == (r"50 \% \textbackslash{} \{x\} \textasciitilde{} \textasciicircum{} "
                                                 r"\# \$ $<$ 1")


def test_settings_are_told_and_by_row_where_they_differ() -> None:
    text = markdown(report(many(2, 2, header={"passes": "1", "preset": "paper"}),
                           ddm(2, 2, header={"passes": "100", "preset": "paper"})))
    assert "Settings. Preset: paper. Forward passes for a prediction: 1 (plain); 100 (ddm)." in text


# Files


def test_a_corrupt_file_is_named_and_the_others_count(tmp_path: Path) -> None:
    folder = write(tmp_path / "out", many(3, 1), ddm(2, 2))
    (folder / "bad.jsonl").write_text('{"format": 1}\nnonsense\n', encoding="utf-8")
    write(folder / "copy", many(3, 1))
    found = build_report(read_cells(folder), title="Mine")
    assert len(found.entries) == 2 and len(found.problems) == 2 and found.records == 8
    assert "bad.jsonl, line 2" in found.problems[0] and "holds the same cell as" in found.problems[1]
    text = markdown(found)
    assert text.startswith("# Mine\n") and "Files that are not in this report" in text and "bad.jsonl, line 2" in text


def test_compare_two_files_by_hand(tmp_path: Path) -> None:
    one = write(tmp_path / "one", cell("+++++++-s+"))
    other = write(tmp_path / "other", cell("-------+s+", defence="ddm"))
    found = compare(next(one.iterdir()), next(other.iterdir()))
    assert len(found.pairs) == 1 and not found.problems
    pair = found.pairs[0]
    assert (pair.one, pair.other, pair.attack, pair.reason) == ("bert plain", "bert ddm", "textfooler", "")
    test = pair.test
    assert test and (test.texts, test.both, test.only_one, test.only_other, test.neither) == (10, 1, 7, 1, 1)
    assert test.difference.value == pytest.approx(0.6) and test.p == pytest.approx(2 * 9 / 2 ** 8) == test.corrected
    assert test.difference.interval.low < 0.6 < test.difference.interval.high


def test_compare_two_folders(tmp_path: Path) -> None:
    both = [cell("+" * 20), cell("+" * 20, defence="ddm"), cell("+" * 20, attack="pwws"), cell("+", mode="transfer")]
    less = [cell("-" * 20), cell("+" * 20, defence="ddm"), cell("-" * 10 + "+" * 10, attack="pwws")]
    found = compare(write(tmp_path / "one", *both), write(tmp_path / "other", *less))
    values = {(pair.attack, pair.one): pair.test for pair in found.pairs}
    assert {name for name, test in values.items() if test and test.significant} == {
        ("pwws", "bert plain"), ("textfooler", "bert plain")}
    test = values["pwws", "bert plain"]
    assert test and test.p == 2 / 2 ** 10 and test.corrected == pytest.approx(2 * 2 / 2 ** 10)
    assert all(pair.one == pair.other for pair in found.pairs)
    assert any("mr textfooler transfer raw is only there" in problem for problem in found.problems)


def test_names_of_folders_are_no_markup(tmp_path: Path) -> None:
    one, other = write(tmp_path / "a[" / "x]b", cell("++")), write(tmp_path / "c\x1b[31m", cell("++", attack="pwws"))
    both = altered(cell("++", header={"data": "[/y]"}), lambda text: replace(text, text="?"))
    found = CliRunner().invoke(app, ["compare", str(one), str(write(other, both))], env={"COLUMNS": "200"})
    assert found.exit_code == 0 and "x]b" in found.stdout and "[/y]" in found.stdout.replace("\n", "")
    assert "\x1b" not in found.stdout


def test_what_one_side_has_alone_is_counted(tmp_path: Path) -> None:
    many_more = [cell("+" * 4, attack=name) for name in ("a2t", "fgpm", "hotflip", "pwws", "textbugger")]
    found = compare(write(tmp_path / "one", cell("++++"), *many_more), write(tmp_path / "other", cell("+++-")))
    told, = found.problems
    assert "5 attacks on data are only there" in told
    assert told.endswith("left out: mr a2t adaptive raw, mr fgpm adaptive raw, mr hotflip adaptive raw and 2 more.")


def test_compare_says_why_it_can_not(tmp_path: Path) -> None:
    one = write(tmp_path / "one", cell("++", header={"data": "2 examples a"}))
    other = altered(cell("++", defence="ddm", header={"data": "2 examples b"}), lambda text: replace(text, text="?"))
    pair = compare(one, write(tmp_path / "other", other)).pairs[0]
    assert pair.test is None and "2 of 2 texts with the same number are different texts" in pair.reason
    assert "2 examples a and 2 examples b" in pair.reason
    with pytest.raises(DataError, match="no data, attack, mode and classifier in common"):
        compare(one, write(tmp_path / "pwws", cell("++", attack="pwws")))
    shifted = altered(cell("++", defence="ddm"), lambda text: replace(text, index=text.index + 10))
    assert compare(one, write(tmp_path / "far", shifted)).pairs[0].reason.startswith("they have no text in common")
    with pytest.raises(DataError, match="does not exist"):
        compare(one, tmp_path / "nowhere")


def test_compare_tells_where_another_encoder_has_the_same_name(tmp_path: Path) -> None:
    one, other = (write(tmp_path / mark, many(5, 5, **of_encoder(mark))) for mark in ("gte-small", "made"))
    assert compare(one, other).notes == (
        "the encoder bert is not the same on both sides (A: gte-small; B: made): what differs may come from it.",)
    assert not compare(one, one).notes and not compare(one, write(tmp_path / "old", many(5, 5))).notes
    found = CliRunner().invoke(app, ["compare", str(one), str(other)])
    assert "note: the encoder bert is not the same" in found.stderr
    text, about = doubt("seeds differ", many(5, 5, **of_encoder("a")), many(5, 5, seed=1, **of_encoder("b")))
    assert "encoder: a and b" in text and about == ["plain"]


def test_compare_does_not_compare_attacks_that_were_set_otherwise(tmp_path: Path) -> None:
    given = {"preset": "paper", "options": {"queries": None, "window": 15}, "noise": "none", "eot": 1}
    one = write(tmp_path / "one", cell("+" * 20, header=given))
    for place, (name, value, told) in enumerate([
            ("options", {"queries": 50, "window": 15}, "(queries: None and 50)"), ("preset", "own", "paper and own")]):
        other = write(tmp_path / f"{place}", cell("-" * 20, header={**given, name: value}))
        pair = compare(one, other).pairs[0]
        assert pair.test is None and "different settings" in pair.reason and told in pair.reason
    drawn = write(tmp_path / "noisy", cell("-" * 20, header={**given, "noise": "fresh", "eot": 10}))
    assert compare(one, drawn).pairs[0].test  # an attack can't average over noise that is not there
    few = compare(one, write(tmp_path / "few", cell("-" * 12, header={**given, "samples": 12})))
    assert few.pairs[0].test and few.pairs[0].test.texts == 12
    assert few.problems == ("mr textfooler adaptive, bert plain and bert plain: 8 texts that not every run has; 12 are "
                            "compared.",)


# In the terminal


def test_the_terminals_accuracies_are_those_of_the_report() -> None:
    """Faults are left out, and counted."""
    records = cell("+++--se")
    screen = StringIO()
    Console(file=screen, width=150).print(tally_table(records.results, tally(records.results), 1.0))
    shown, found = screen.getvalue(), only(records)
    assert found.clean and found.robust and found.success
    assert f"accuracy before        {found.clean.mean:.1%} (5/6)" in shown and "1 left out" in shown
    assert f"accuracy under attack  {found.robust.mean:.1%} (3/6)" in shown
    assert f"attack success         {found.success.mean:.1%} (2/5)" in shown


def test_about_gathers_what_headers_tell() -> None:
    told = {"about": {"versions": {"dualmask": "1"}, "revision": "abc", "grid": "quick"}}
    other = ddm(1, 1, seed=1, header={"about": {"revision": "x"}})
    found = report(many(1, 1, header=told), ddm(1, 1, header=told), other)
    assert found.about["versions"] == ("dualmask 1",) and set(found.about["revision"]) == {"abc", "x"}
    assert "* grid: quick" in markdown(found)


def test_the_deviation_in_a_table_is_the_samples() -> None:
    found = only(many(2, 8), many(4, 6, seed=1), many(9, 1, seed=2))
    assert found.robust and found.robust.deviation == pytest.approx(math.sqrt(0.13))


def test_a_report_needs_no_torch(tmp_path: Path) -> None:
    write(tmp_path / "out", many(3, 1), ddm(2, 2))
    code = ("import sys; from pathlib import Path\n"
            "from dualmask.evaluation.records import read_cells; from dualmask.reporting.report import build_report\n"
            "from dualmask.reporting.report_markdown import markdown\n"
            "from dualmask.reporting.report_tables import headline, rendered\n"
            "from dualmask.reporting.report_latex import latex; from dualmask.reporting.comparison import compare\n"
            "folder = Path(sys.argv[1]); report = build_report(read_cells(folder))\n"
            "markdown(report), latex(report), headline(report), compare(folder, folder)\n"
            "print(sorted({'torch', 'transformers', 'datasets', 'pyarrow'} & set(sys.modules)))")
    found = subprocess.run([sys.executable, "-c", code, str(tmp_path / "out")], capture_output=True, text=True,
                           check=True)
    assert found.stdout.strip() == "[]"
