# SPDX-License-Identifier: Apache-2.0
"""The report's page: that its figures are the report's, that no text can break it, and that a browser shows it."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmask.evaluation.metrics import robustness, worst_case
from dualmask.evaluation.records import Cell, CellRecords, Loaded
from dualmask.reporting.axes import LEFT, RIGHT, WIDTH, Scale, place
from dualmask.reporting.charts import scatter_chart, survival_chart
from dualmask.reporting.curves import Fate, Point, Series, doubling_limits, even_limits, survival, sweeps
from dualmask.reporting.deeds import deed_sentence
from dualmask.reporting.entries import entries, share
from dualmask.reporting.findings import OF_SIZE
from dualmask.reporting.page import html
from dualmask.reporting.page_plots import before_and_after, pooled
from dualmask.reporting.page_tables import worst_first
from dualmask.reporting.report import PLAIN, WORST, Report, build_report
from dualmask.reporting.specimens import LONGEST, hidden_note, marked_pair, specimens
from dualmask.results import AttackResult, Outcome, Spans
from dualmask.text.columns import Text
from dualmask.text.differences import differences, joined

VOID = {"meta", "br", "link", "img", "hr", "input"}
LABELS = ["bad", "good"]
HOSTILE = [
    "<script>alert(1)</script> & \"quotes\" 'single' </p></section></main> <!-- <style>*{display:none}</style>",
    "turned \u202eround\u202c \u2066isolated zero\u200bwidth joined\u200d mark\ufeff line\u2028end",
    "half \ud800 of a character", "w" * 10_000 + " end", "bell\x07 escape\x1b[31m null\x00 delete\x7f c1\x9b",
    "\u05e9\u05dc\u05d5\u05dd hello \u05e2\u05d5\u05dc\u05dd", "z\u0334\u0321\u0322a\u0337l\u0338g\u0336o " * 20,
    "family \U0001f469\u200d\U0001f469\u200d\U0001f467 tag \U000e0041", "word " * 3000,
    "$body ${title} {0} %s", " ", "",
]  # fmt: skip
MORE, MOST = "ddm (test_rate=0.4)", "ddm (test_rate=0.7)"  # as rows of these options are shown


def result(index: int, outcome: Outcome = "failed", **given: object) -> AttackResult:
    usual = AttackResult(
        index=index, text=f"a film number {index} that I liked", label=index % 2, outcome=outcome,
        adversarial=None if outcome == "skipped" else f"a fi1m number {index} that I lixed",
        clean=index % 2, predicted=(index + 1) % 2, probability=0.9, probability_after=0.2, queries=10 + index, rows=12,
        gradients=0, words=7, changed=0 if outcome == "skipped" else 2, similarity=0.9, seconds=0.1)
    return replace(usual, **given)  # type: ignore[arg-type]


def cell(
    defence: str, attack: str, results: Iterable[AttackResult], /, *, mode: str = "adaptive", seed: int = 0,
    **header: object,
) -> CellRecords:
    where = Cell("reviews", "mini", defence, attack, mode, seed)  # type: ignore[arg-type]
    return CellRecords(where, {"format": 1, "labels": LABELS, **header}, list(results), Path(where.file_name))


def cells(texts: int = 60, seeds: int = 2) -> list[CellRecords]:
    """Two defences of the same kind and plain, two attacks, adaptive and transfer."""
    found = []
    for rate, defence in ((0.9, PLAIN), (0.7, "ddm"), (0.4, "ddm-more")):
        options = {"name": "plain"} if defence == PLAIN else {"name": "ddm", "test_rate": rate, "scorer": "frequency"}
        for seed in range(seeds):
            for mode in ("adaptive", "transfer"):
                for attack in ("deepwordbug", "textfooler"):
                    rng = random.Random(f"{defence} {seed} {mode} {attack}")
                    hidden = None if defence == PLAIN else ((2, 6, 0),)
                    rows = [result(index, "skipped" if index % 7 == seed else
                                   "succeeded" if rng.random() < rate else "failed", undefended=0, hidden=hidden,
                                   hidden_after=hidden, queries=0 if mode == "transfer" else rng.randrange(2, 300),
                                   changed=rng.randrange(1, 6)) for index in range(texts)]
                    found.append(cell(defence, attack, rows, mode=mode, seed=seed, defence=options, preset="paper",
                                      options={"split": "both-ends"}, noise="none", temperature=1.0,
                                      about={"versions": {"dualmask": "0.1.0"}, "revision": "abc"}))
    return found


def built(given: Sequence[CellRecords], problems: Sequence[str] = ()) -> Report:
    return build_report(Loaded(list(given), list(problems)))


class Element:
    def __init__(self, tag: str, attributes: Mapping[str, str | None]) -> None:
        self.tag, self.attributes = tag, attributes
        self.children: list[Element | str] = []

    def all(self, tag: str, kind: str | None = None) -> list["Element"]:
        found = []
        for child in self.children:
            if isinstance(child, Element):
                kinds = (child.attributes.get("class") or "").split()
                found += [child] if child.tag == tag and (kind is None or kind in kinds) else []
                found += child.all(tag, kind)
        return found

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


class Tree(HTMLParser):
    """A page as elements; fails on tags that do not match."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]
        self.feed(page)
        self.close()
        assert self.open == [self.root], f"never closed: {[one.tag for one in self.open[1:]]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice"
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data[:40]}")


def sound(page: str) -> Element:
    """A page that can be written, parsed and trusted, as its elements."""
    page.encode("utf-8")
    root = Tree(page).root
    every = [root, *(one for tag in set(re.findall(r"<(\w+)", page)) for one in root.all(tag.lower()))]
    ids = [one.attributes["id"] for one in every if "id" in one.attributes]
    assert len(ids) == len(set(ids))
    assert not any(root.all(tag) for tag in ("script", "iframe", "object", "img", "link", "form", "base"))
    assert not any(name.startswith("on") or name in ("src", "srcset") for one in every for name in one.attributes)
    links = {one.attributes["href"] for one in root.all("a")}
    assert links == {f"#{name}" for name in ids}
    steering = "[\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\x00-\x08\x0b-\x1f\x7f-\x9f]"
    assert not re.search(steering, page)
    for svg in re.findall(r"<svg.*?</svg>", page, re.S):
        ElementTree.fromstring(svg)
    return root


# Figures and words


def test_every_figure_of_the_tables_is_the_reports() -> None:
    report = built(cells())
    tables = sound(html(report)).all("table", "main")
    assert len(tables) == len(report.tables) == 2
    for table, shown in zip(report.tables, tables, strict=True):
        rows = shown.all("tbody")[0].all("tr")
        assert len(rows) == len(table.lines)
        for line, row in zip(table.lines, rows, strict=True):
            expected = [line.clean]
            for column in worst_first(table):
                entry = line.entries.get(column)
                expected += [line.robust(column), entry.success if entry else None]
            expected.append(line.undefended)
            figures = row.all("data")
            wanted = [one for one in expected if one is not None]
            assert [float(one.attributes["value"] or "") for one in figures] == [one.mean for one in wanted]
            assert [one.text for one in figures] == [f"{100 * one.mean:.1f}" for one in wanted]
            assert row.all("th")[0].attributes["scope"] == "row" and row.text.startswith(line.defence)
            low, high = (line.clean or wanted[0]).interval
            assert f"[{100 * low:.1f}, {100 * high:.1f}]" in row.all("td")[0].text
        assert all(head.attributes["scope"] == "col" for head in shown.all("thead")[0].all("th"))


def test_best_second_and_significance_are_marked() -> None:
    report = built(cells(texts=200))
    shown = sound(html(report)).all("table", "main")[0]
    table = report.tables[0]
    places = {(line.defence, column): table.place(line.defence, column) for line in table.lines
              for column in table.columns}
    assert len(shown.all("span", "best")) == list(places.values()).count(1)
    assert len(shown.all("span", "second")) == list(places.values()).count(2)
    assert len(shown.all("sup")) == sum(test.significant for test in table.tests.values()) > 0
    best = next(row for row in shown.all("tr") if row.text.startswith(MORE))
    assert len(best.all("span", "best")) == len(table.columns) and best.all("sup")[0].text == "†"


def test_reported_figures_stand_beside_measured_ones() -> None:
    where = Cell("mr", "bert", "ddm", "textfooler", "adaptive", 0)
    report = built([CellRecords(where, {"format": 1, "labels": LABELS}, [result(n, "succeeded") for n in range(50)],
                                Path("x.jsonl"))])
    gap = report.tables[0].lines[0].gaps["textfooler"]
    row = sound(html(report)).all("table", "main")[0].all("tbody")[0]
    assert f"paper {gap.reported:.1f}" in row.text and f"{gap.difference:+.1f} far off" in row.text
    assert report.reported.source in html(report)


def test_the_headline_says_what_was_found_and_on_how_much() -> None:
    words = sound(html(built(cells(texts=60, seeds=2)))).all("div", "headline")[0].text
    report = built(cells(texts=60, seeds=2))
    line = next(one for one in report.tables[0].lines if one.defence == MORE)
    assert line.clean and line.worst and line.worst.robust
    assert f"{MORE}: {100 * line.clean.mean:.0f}\u00a0% right before the attack" in words
    assert f"{100 * line.worst.robust.mean:.0f}\u00a0%" in words and "the worst of 2 adaptive attacks" in words
    assert "on 60 texts, 2 seeds" in words and "95 % interval" in words


def holding(defence: str, held: int, *, calibrated: bool = False, mode: str = "adaptive") -> CellRecords:
    """Of a hundred texts so many hold, which the first ones do."""
    rows = [result(n, "failed" if n < held else "succeeded", predicted=n % 2 if n < held else (n + 1) % 2)
            for n in range(100)]
    found = cell(defence, "textfooler", rows, mode=mode)
    return found._replace(cell=replace(found.cell, scores="calibrated")) if calibrated else found


def test_the_headline_praises_no_defence_whose_gain_is_doubted() -> None:
    given = [holding(PLAIN, 10), holding("ddm", 40), holding("sure", 80)]
    trusted = sound(html(built(given))).all("div", "headline")[0].text
    assert trusted.startswith("reviews, mini: under textfoolersure: ") and "Not ranked" not in trusted
    box = sound(html(built([*given, holding("sure", 30, calibrated=True)]))).all("div", "headline")[0]
    assert box.text.startswith("reviews, mini: under textfoolerddm: ")
    assert "Under attack ddm is 30.0 points above plain" in box.text
    assert "Not ranked, because of serious doubts: sure (80\u00a0%; an illusion of scores)." in box.text
    assert "more defence" not in box.text and "sure" not in box.all("div", "bars")[0].text
    assert [one.attributes["href"] for one in box.all("a")] == ["#doubts"]


def test_a_headline_may_rank_nobody() -> None:
    given = [holding(name, 60, mode="transfer") for name in ("ddm", "one", "three", "two")]
    words = sound(html(built(given))).all("div", "headline")[0].text
    assert words == ("reviews, mini: under textfoolerNot ranked, because of serious doubts: " + ", ".join(
        f"{name} (60\u00a0%; no adaptive attack)" for name in ("ddm", "one", "three")) + " and 1 more defence.")
    beside = sound(html(built([*given, holding(PLAIN, 10, mode="transfer")]))).all("div", "headline")[0].text
    assert beside.startswith("reviews, mini: under textfoolerplain: ")


def test_the_headline_tells_doubts_about_plain_itself() -> None:
    """Nothing is to be learned from the accuracy of a classifier that answers all texts alike."""
    same = [result(n, "failed" if n % 2 else "skipped", clean=1, predicted=1) for n in range(40)]
    words = sound(html(built([cell(PLAIN, "textfooler", same)]))).all("div", "headline")[0].text
    assert words.startswith("reviews, mini: under textfoolerplain: 50")
    assert "About plain itself there are serious doubts (always the same answer): beware" in words
    assert "About plain" not in sound(html(built([holding(PLAIN, 10)]))).all("div", "headline")[0].text


def test_doubts_are_there_with_their_severity_in_words() -> None:
    report = built(cells(texts=10, seeds=1))
    assert report.doubts
    box = sound(html(report)).all("div", "doubts")[0]
    items = box.all("li")
    order = sorted(report.doubts, key=lambda found: found.name in OF_SIZE)
    assert [one.all("b", "severity")[0].text for one in items] == [found.severity for found in order]
    assert all(found.text in item.text for found, item in zip(order, items, strict=True))


def test_doubts_about_size_are_one_folded_line_with_their_number() -> None:
    root = sound(html(built([holding(PLAIN, 10), holding("ddm", 40)])))
    folded, = root.all("div", "doubts")[0].all("details")
    assert folded.all("summary")[0].text == "2 doubts about size: few texts, one training seed"
    assert [one.all("b")[1].text for one in folded.all("li")] == ["few texts:", "one training seed:"]
    open_ones = [one.text for one in root.all("div", "doubts")[0].all("li") if one not in folded.all("li")]
    assert open_ones and not any("seed:" in one for one in open_ones)
    many = [cell(PLAIN, "textfooler", [result(n) for n in range(2000)], seed=seed) for seed in range(2)]
    assert not sound(html(built(many))).all("div", "doubts")[0].all("details")


def test_what_is_missing_is_listed() -> None:
    given = cells()
    given[0] = given[0]._replace(header={**given[0].header, "texts": 100})
    given[1] = given[1]._replace(results=[*given[1].results[1:], result(0, "victim-error", reason="no <answer>")])
    listed = sound(html(built(given, ["x.jsonl, line 3: not a record <b>"]))).all("ul", "missing")[0].text
    assert "x.jsonl, line 3: not a record <b>" in listed and "40 texts to come" in listed
    assert "no <answer>" in listed
    assert "Nothing: every file could be read" in html(built(cells()))


def test_settings_and_versions_are_told() -> None:
    root = sound(html(built(cells())))
    page = root.text
    assert "dualmask 0.1.0" in page and "test_rate 0.7" in page and "split both-ends" in page and "paper" in page
    table = next(one for one in root.all("table", "plainly") if one.all("caption")[0].text == "Classifiers")
    rows = [[cell.text for cell in row.children if isinstance(cell, Element)] for row in table.all("tr")[1:]]
    assert [(row[0], row[3]) for row in rows] == [(name, str(seed)) for name in (MORE, MOST, PLAIN)
                                                  for seed in range(2)]


def test_nothing_is_told_that_says_nothing() -> None:
    """Data and encoder of a single classifier's costs, places that a defence without masks hid, training twice."""
    given = [cell(name, "textfooler", [result(0, "succeeded", hidden=(), hidden_after=())],
                  about={"training": {"preset": "paper", "rows": {"test": 9}}}) for name in (PLAIN, "ddm")]
    page = html(built(given))
    costs = next(one for one in sound(page).all("table") if one.all("caption")[0].text == "What defences cost")
    assert costs.all("th")[0].text == "defence" and "encoder" not in costs.text
    assert "hidden places" not in page and "preset paper" in page and "{&#x27;test&#x27;: 9}" not in page
    other = given[1]._replace(cell=replace(given[1].cell, data="other"))
    assert sound(html(built([given[0], other]))).all("section")[2].all("th")[0].text == "data"


def test_examples_tell_that_scores_were_calibrated() -> None:
    card = sound(html(built([holding("ddm", 50, calibrated=True)]))).all("article", "specimen")[0]
    assert "under textfooler, adaptive, calibrated scores; its class" in card.text


def test_the_worst_case_shows_its_own_texts_and_seeds() -> None:
    """Twenty texts of both seeds under one attack, five of one seed under the other."""
    given = [cell(PLAIN, "textfooler", [result(n, "succeeded" if n > 4 else "failed") for n in range(20)], seed=seed)
             for seed in range(2)]
    root = sound(html(built([*given, cell(PLAIN, "pwws", [result(n) for n in range(5)])])))
    row = root.all("table", "main")[0].all("tbody")[0].all("tr")[0]
    heads = [head.text for head in root.all("table", "main")[0].all("thead")[0].all("th")]
    worst, pwws = (row.all("td")[next(place for place, head in enumerate(heads) if head.startswith(name)) - 1]
                   for name in (WORST, "pwws"))
    assert row.all("th")[0].text == f"{PLAIN}20 texts, 2 seeds"
    assert worst.all("data")[0].text == "100.0" and "of 2 attacks" in worst.text
    assert [one.text for one in worst.all("small", "warn")] == ["5 texts, 1 seed", "without seeds 1"]
    assert [one.text for one in pwws.all("small", "warn")] == ["5 texts, 1 seed"]
    words = root.all("div", "headline")[0].text
    assert "under the worst of 2 adaptive attacks; on 5 texts, 1 seed." in words
    assert "lower than any single column" not in root.text and f"{PLAIN} on 5 texts" in root.text
    usual = sound(html(built(cells()))).all("table", "main")[0]
    assert "of 2 attacks60 texts, 2 seeds" in usual.text and not usual.all("small", "warn")


def test_a_cell_whose_texts_were_right_more_often_tells_its_own_clean_accuracy() -> None:
    given = [cell(PLAIN, "pwws", [result(n) for n in range(4)]),
             cell(PLAIN, "textfooler", [result(n, "skipped" if n == 3 else "failed") for n in range(4)])]
    row = sound(html(built(given))).all("table", "main")[0].all("tbody")[0]
    assert [one.text for one in row.all("small", "warn")] == ["CLA 75.0"]


def test_rows_of_the_headline_tell_their_texts_where_these_differ() -> None:
    given = [cell(name, attack, [result(n) for n in range(texts)]) for name, texts in ((PLAIN, 8), ("ddm", 6))
             for attack in ("pwws", "textfooler")]
    words = sound(html(built(given))).all("div", "headline")[0].text
    assert "adaptive attacks, on 6 texts, 1 seed; plain: " in words and ", on 8 texts, 1 seed." in words
    assert "is level with plain" in words and "0.0 points" not in words


def test_plain_is_zero_by_construction_on_texts_that_fooled_it() -> None:
    given = [cell("ddm", "textfooler", [result(n) for n in range(4)], mode="transfer-successful")]
    rows = sound(html(built(given))).all("table", "main")[0].all("tbody")[0].all("tr")
    assert [row.all("th")[0].text for row in rows] == ["plainby construction", "ddm4 texts, 1 seed"]
    assert [one.text for one in rows[0].all("td")] == ["not measured", "0.0SUCC 100.0"]
    given.append(cell(PLAIN, "textfooler", [result(n, "succeeded") for n in range(4)], mode="transfer-successful"))
    assert "by construction" not in sound(html(built(given))).all("table", "main")[0].all("tbody")[0].text


# Plots


def test_survival_is_the_share_still_right() -> None:
    seeds = [[Fate(0, True, 1, 10), Fate(0, True, 3, 5), Fate(0, True), Fate(0, False)],
             [Fate(0, True, 2, 7), Fate(0, True), Fate(0, True), Fate(0, True)]]
    points = survival(seeds, lambda one: one.words, even_limits(3))
    assert [(one.x, one.share.mean) for one in points] == [(0, 0.875), (1, 0.75), (2, 0.625), (3, 0.5)]
    asked = survival(seeds, lambda one: one.queries, [4, 5, 10])
    assert [one.share.mean for one in asked] == [0.875, 0.75, 0.5]


@given(st.integers(1, 10**7))
def test_limits_reach_from_start_to_end(most: int) -> None:
    for limits, first in ((even_limits(most), 0), (doubling_limits(most), 1)):
        assert limits[0] == first and limits[-1] == most and len(limits) <= 70
        assert limits == sorted(limits)


def test_plots_end_where_the_metrics_are() -> None:
    report = built(cells())
    table = report.tables[0]
    for line in table.lines:
        results = [[run.records.results for run in line.entries[name].runs] for name in table.attacks]
        expected = [worst_case([attack[seed] for attack in results], noisy=True) for seed in range(2)]
        clean, robust = before_and_after(pooled([line], table.attacks)[line.defence])
        assert clean == share([(one.right, one.texts) for one in expected])
        assert robust == share([(one.right - one.flipped, one.texts) for one in expected]) == line.robust(WORST)
        alone = before_and_after(pooled([line], table.attacks[:1])[line.defence])[1]
        counts = [robustness(run) for run in results[0]]
        assert alone == share([(one.right - one.flipped, one.texts) for one in counts])


def test_every_plot_says_in_words_what_it_shows() -> None:
    root = sound(html(built(cells())))
    panels = root.all("figure", "panel")
    titles = [one.all("figcaption")[0].text for one in panels]
    for start in ("Words changed", "Queries", "Clean accuracy against", "bad (30 texts)", "ddm by test_rate",
                  "deepwordbug"):
        assert any(title.startswith(start) for title in titles), start
    for panel in panels:
        svg = panel.all("svg")[0]
        assert svg.attributes["role"] == "img" and "%" in str(svg.attributes["aria-label"]) + "median %"
    assert f"{MOST} from 8" in str(panels[0].all("svg")[0].attributes["aria-label"])
    assert all(one.all("title") for panel in panels for one in panel.all("path", "mark"))


def test_a_sweep_needs_rows_that_differ_in_one_number() -> None:
    found = sweeps(entries(cells()))
    assert [(one.defence, one.option, one.variants) for one in found] \
        == [("ddm", "test_rate", ((0.4, MORE), (0.7, MOST)))]
    other = [one._replace(header={**one.header, "defence": {"name": "ddm", "test_rate": 0.4, "scorer": "random"}})
             if one.cell.defence == "ddm-more" else one for one in cells()]
    assert sweeps(entries(other)) == []
    assert "ddm by test_rate" not in html(built(other))


@pytest.mark.parametrize(("low", "high", "log"), [(0, 0, False), (0, 1, False), (0, 60, False), (1, 2, True),
                                                  (1, 10**6, True), (3, 47, True), (0.1, 0.5, False)])
def test_ticks_lie_on_the_scale(low: float, high: float, log: bool) -> None:
    scale = Scale(low, high, 10, 110, log)
    ticks = scale.ticks()
    assert ticks and len(ticks) <= 11
    assert all(low <= tick <= high and 10 <= scale(tick) <= 110 for tick in ticks)


@pytest.mark.parametrize(("most", "expected"), [(1, [0, 1]), (2, [0, 1, 2]), (3, [0, 1, 2, 3]), (6, [*range(7)]),
                                                (7, [0, 2, 4, 6]), (24, [0, 5, 10, 15, 20])])
def test_whole_numbers_stand_at_their_places(most: int, expected: list[int]) -> None:
    """Words can't be changed by halves."""
    right = share([(50, 100)])
    assert right
    panel = survival_chart("x", [Series("a", 1, [Point(0, right), Point(most, right)])], x_title="words")
    ticks = re.findall(r'<path class="tick" d="M([\d.]+) [\d.]+v4"/><text x="[\d.]+" y="[\d.]+"[^>]*>(\d+)<', panel)
    x = Scale(0, most, LEFT, WIDTH - RIGHT)
    assert ticks == [(place(x(value)), str(value)) for value in expected]


def test_names_of_marks_do_not_lie_on_each_other() -> None:
    clean, low, high = (share([(part, 100)]) for part in (80, 10, 40))
    assert clean and low and high
    apart = scatter_chart("x", [("one", 1, clean, low), ("other", 2, clean, high)])
    assert re.findall(r'class="name[^"]*">(\w+)<', apart) == ["other", "one"]
    shares = [found for part in range(9) if (found := share([(10 + part, 100)]))]
    crowd = scatter_chart("x", [(f"defence {n}", n, clean, found) for n, found in enumerate(shares)])
    places = re.findall(r'<text x="([\d.]+)" y="([\d.]+)" class="name', crowd)
    assert 0 < len(places) == len(set(places)) < 9  # the others have their place in the legend


def test_a_name_stands_by_the_mark_that_is_seen() -> None:
    clean, low, high = (share([(part, 1000)]) for part in (800, 100, 101))
    assert clean and low and high
    hidden = scatter_chart("x", [("better", 1, clean, high), ("worse", 2, clean, low)])
    assert re.findall(r'class="name t1 d0">(\w+)<', hidden) == ["better"]
    assert hidden.index("worse: CLA") < hidden.index("better: CLA")  # drawn later, on top
    assert re.findall(r"<text[^>]*>(worse)<", hidden) == []


# Examples


def test_changed_and_hidden_words_are_marked() -> None:
    one = result(0, "succeeded", text="a truly great film", adversarial="a truly gre\u0430t fi1m",
                 hidden=((2, 7, 0),), hidden_after=((2, 7, 0), (8, 10, 0), (10, 11, 0)))
    before, after = (Tree(part).root for part in marked_pair(one))
    assert [mark.text for mark in before.all("mark", "old")] == ["great film"]
    assert [mark.text for mark in before.all("del")] == ["truly"]
    assert [mark.text for mark in after.all("mark", "new")] == ["gre\u0430U+0430t fi1m"]
    assert [mark.text for mark in after.all("del")] == ["truly", "gre"]
    assert after.text.replace("U+0430", "") == "a truly gre\u0430t fi1m"


def test_what_the_defence_read_instead_stands_behind_the_word() -> None:
    one = result(0, "failed", text="a great film", adversarial="a graet fi lm z",
                 hidden=(), hidden_after=((2, 7, 0, "<great>"), (8, 13, 0, "film"), (14, 15, 0)))
    before, after = (Tree(part).root for part in marked_pair(one))
    assert before.text == "a great film" and after.text == "a graet<great> fi lmfilm z"
    assert [mark.text for mark in after.all("ins")] == ["<great>", "film"]
    assert [mark.text for mark in after.all("del")] == ["z"]
    assert hidden_note(one) == "; hidden places: 0 before, 1 after; read otherwise: 0 before, 2 after"


@pytest.mark.parametrize(("before", "after", "hidden", "told"), [
    ("the worst film, lifeless", "the wrost film, lifelss", ((4, 9, 0, "worst"), (16, 19, 0), (19, 23, 0)),
     "The defence read 'wrost' as 'worst' and hid 'lifelss'; 1 of 2 changes undone."),
    ("a great film", "a great fi lm", ((8, 13, 0, "Film"),),
     "The defence read 'fi lm' as 'Film'; 1 of 1 change undone."),
    ("a great film", "a grand movie", ((2, 7, 0, "large"),),
     "The defence read 'grand' as 'large'; 0 of 2 changes undone."),
    ("a great film", "a grand movie", ((0, 1, 0),), "The defence left all 2 changes as written."),
    ("a great film", "a grand film", (), "The defence left the one change as written."),
    (("one text", "is good"), ("one text", "is gud"), ((3, 6, 0, "good"), (3, 6, 1, "good")),
     "The defence read 'gud' as 'good'; 1 of 1 change undone."),
    ("a great film", "a grand film", None, ""), ("a great film", None, (), ""), ("a film", "a film", (), ""),
])
def test_examples_begin_with_what_the_defence_did(
    before: Text, after: Text | None, hidden: Spans | None, told: str,
) -> None:
    one = result(0, "failed", text=before, adversarial=after, hidden=(), hidden_after=hidden)
    assert deed_sentence(one) == told
    if after is not None:
        sides = [sound(html(built([cell(name, "textfooler", [one])]))).all("section", "side")[0] for name in (
            "ddm", PLAIN)]
        side, bare = sides
        assert not bare.all("p", "deed")
        assert side.text.index(told) < side.text.index("original") and side.text.count("The defence") == bool(told)


def test_pairs_are_shown_part_by_part() -> None:
    one = result(0, "succeeded", text=("it rains", "it is wet"), adversarial=("it rains", "it is dry"),
                 hidden=((0, 2, 1),), hidden_after=((3, 8, 0),))
    before, after = (Tree(part).root for part in marked_pair(one))
    assert [part.text for part in before.all("p")] == ["it rains", "it is wet"]
    assert [mark.text for mark in before.all("p")[1].all("del")] == ["it"] and not before.all("p")[0].all("del")
    assert [mark.text for mark in after.all("mark")] == ["dry"]
    assert [mark.text for mark in after.all("del")] == ["rains"]


def test_long_texts_are_cut_and_say_so() -> None:
    text = "word " * 2000
    changed = text[:7000] + "W0RD" + text[7004:]
    before, after = (Tree(part).root for part in marked_pair(result(0, "succeeded", text=text, adversarial=changed)))
    assert len(after.text) < LONGEST + 100 and [mark.text for mark in after.all("mark")] == ["W0RD"]
    told = [int(number.replace(",", "")) for number in re.findall(r"\(([\d,]+)", after.text)]
    assert sum(told) + LONGEST == len(changed) and len(told) == 2
    assert "more characters)" in before.text


def test_disagreements_come_first_and_every_attack_has_its_turn() -> None:
    report = built(cells())
    group = [entry for line in report.tables[0].lines for entry in line.entries.values()]
    chosen = specimens(group, most=8)
    assert len(chosen) == 8
    assert {one.sides[0].key.attack for one in chosen[:2]} == {"deepwordbug", "textfooler"}
    first = chosen[0]
    assert {side.result.outcome for side in first.sides} == {"succeeded", "failed"}
    assert len({side.result.index for side in first.sides}) == 1 and "held where" in first.why
    seen = [(side.key, side.result.index) for one in chosen for side in one.sides]
    assert len(seen) == len(set(seen))
    assert all(side.result.outcome == "succeeded" for one in chosen if "few changes" in one.why for side in one.sides)


def test_cards_tell_outcome_probability_and_cost() -> None:
    card = sound(html(built([cell("ddm", "textfooler", [result(3, "succeeded", queries=1234)])]))) \
        .all("article", "specimen")[0]
    assert card.all("span", "outcome")[0].text == "fooled" and "1,234 queries" in card.text
    assert [one.text for one in card.all("span", "share")] == ["good 90 %", "good 20 %"]
    assert [one.attributes["style"] for one in card.all("i")] == ["width:90.0%", "width:20.0%"]


# Whatever comes


def hostile_cells() -> list[CellRecords]:
    rows = [result(n, "succeeded" if n % 2 else "failed", text=text, adversarial=f"x\u0430 {text[::-1]}",
                   words=len(text.split()), reason=text, hidden=((0, 4, 0), (2, 10**6, 0), (-3, 1, 0)))
            for n, text in enumerate(HOSTILE)]
    names = ["<b>&\"'", "\u202eevil\ud800"]
    return [cell("a+b", f"x{n}", [row], labels=names, preset="<i>", options={"<u>": "</table>"},
                 about={"revision": "<script>"}, defence={"name": "<b>", "x": "\u202e"}) for n, row in enumerate(rows)]


def test_no_text_breaks_the_page() -> None:
    report = build_report(Loaded(hostile_cells(), ["bad <file>\u202e\x00"]), title="<title>\u202e & co")
    page = html(report)
    root = sound(page)
    assert len(root.all("h2")) == 8 and root.all("h1")[0].text == "<title>\ufffd & co"
    text = " ".join(card.text for card in root.all("article", "specimen"))
    assert "<script>alert(1)</script>" in text and "U+200B" in text and "U+D800" in text and "U+0007" in text
    assert len(page) < 300_000


PLACES = st.integers(-5, 80), st.integers(-5, 80), st.integers(0, 1)


@given(st.text(max_size=60), st.text(max_size=60),
       st.lists(st.tuples(*PLACES) | st.tuples(*PLACES, st.text(max_size=5)), max_size=4))
@settings(max_examples=100, deadline=None)
def test_any_pair_of_texts_gives_sound_marks(
    before: str, after: str, spans: list[tuple[int, int, int] | tuple[int, int, int, str]],
) -> None:
    parts = marked_pair(result(0, "succeeded", text=before, adversarial=after, hidden=tuple(spans)))
    for part in parts:
        part.encode()
        Tree(part)


@given(st.lists(st.sampled_from(["a", "b", "c", "d", "-", "."]), max_size=12),
       st.lists(st.sampled_from(["a", "b", "c", "d", "-", "."]), max_size=12))
def test_what_is_not_a_difference_is_equal(one: list[str], other: list[str]) -> None:
    before, after = " ".join(one), " ".join(other)
    old, new = differences(before, after)
    assert joined(old) == old and joined(new) == new
    if before == after:
        assert not old and not new
    else:
        assert old or new or re.sub(r"\W", "", before) == re.sub(r"\W", "", after)

    def words(text: str, spans: list[tuple[int, int]]) -> list[str]:
        for start, end in reversed(spans):
            text = text[:start] + " " + text[end:]
        return re.findall(r"\w", text)

    assert words(before, old) == words(after, new)


@pytest.mark.parametrize("given", [
    [cell("ddm", "textfooler", [result(0, "succeeded")])],
    [cell("ddm", "textfooler", [result(n) for n in range(3)])],  # no success
    [cell(PLAIN, "textfooler", [result(0, "succeeded", hidden=None)])],
    [cell("ddm", "textfooler", [result(0, "skipped")])],
    [cell("ddm", "textfooler", [result(0, "attack-error", reason="broke", clean=None, predicted=None,
                                       probability=None, probability_after=None, adversarial=None)])],
    [cell("ddm", "textfooler", [])],
    [cell("ddm", "textfooler", []), cell(PLAIN, "textfooler", [result(0, "succeeded")])],
    [cell("ddm", "textfooler", [result(0, "succeeded", queries=0)], mode="transfer")],
    [cell("ddm", "textfooler", [result(0, "succeeded")]), cell("ddm", "pwws", [result(0)], seed=1)],
    [cell("ddm", "textfooler", [result(0, "succeeded", label=7, clean=7, predicted=-1)])],
])  # fmt: skip
def test_little_data_still_makes_a_page(given: list[CellRecords]) -> None:
    root = sound(html(built(given)))
    assert root.all("table", "main") and len(root.all("h2")) == 8


def test_nothing_could_be_read() -> None:
    page = html(build_report(Loaded([], ["a.jsonl: empty"])))
    assert "a.jsonl: empty" in sound(page).text


@pytest.mark.slow
def test_a_hundred_thousand_records_make_a_small_page_soon() -> None:
    outcomes: list[Outcome] = ["succeeded", "failed", "skipped", "succeeded"]
    rows = [[result(index, outcomes[(index * shift + shift) % 4], queries=index % 997 + 1, changed=index % 9 + 1,
                    text="many words in a text " * 30, adversarial="many w0rds in a text " * 30)
             for index in range(1000)] for shift in (1, 3)]
    given = [cell(name, attack, rows[place % 2], seed=seed)
             for place, name in enumerate([PLAIN, "a", "b", "c", "d"]) for attack in ("t", "u", "v", "w")
             for seed in range(5)]
    report = built(given)
    assert report.records == 100_000
    started = time.process_time()
    page = html(report)
    assert time.process_time() - started < 10
    assert len(page.encode()) < 3_000_000


def test_a_page_needs_no_torch_and_no_plotting_library() -> None:
    code = ("import sys; from dualmask.reporting.page import html; "
            "print([name for name in ('torch', 'transformers', 'matplotlib', 'rich') if name in sys.modules])")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


# In a browser


PROBE = """<body style="margin:0">%s<script>
const wide = (one) => one.documentElement.scrollWidth;
const seen = (one) => [...one].filter((each) => each.getBoundingClientRect().height > 0).length;
addEventListener("load", () => {
  const told = [...document.querySelectorAll("iframe")].map((frame) => {
    const page = frame.contentDocument;
    const style = (query) => frame.contentWindow.getComputedStyle(page.querySelector(query));
    const letters = [...page.querySelectorAll("details[open] > .panels svg text")];
    return {width: frame.clientWidth, scroll: wide(page), tables: seen(page.querySelectorAll("table.main")),
      marks: seen(page.querySelectorAll("mark")), hidden: seen(page.querySelectorAll("del")),
      plots: seen(page.querySelectorAll("details[open] figure svg")),
      changed: style("mark.new").backgroundColor, line: style("mark.new").textDecorationLine,
      struck: style("del").textDecorationLine,
      letters: Math.min(...letters.map((one) => one.getBoundingClientRect().height))};
  });
  const out = document.createElement("pre"); out.id = "told"; out.textContent = JSON.stringify(told);
  document.body.append(out);
});
</script>"""


def browser() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
    if found is None:
        pytest.skip("no Chromium or Chrome is installed")
    return found


def visit(folder: Path, page: str, *options: str) -> str:
    root = ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    command = [browser(), "--headless", "--disable-gpu", "--no-first-run", "--hide-scrollbars", *root,
               f"--user-data-dir={folder / 'profile'}", "--allow-file-access-from-files", *options,
               (folder / page).as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.mark.parametrize("given", [cells, hostile_cells], ids=["usual", "hostile"])
def test_a_browser_shows_tables_and_marks_on_every_width(tmp_path: Path, given: object) -> None:
    browser()
    (tmp_path / "page.html").write_text(html(built(given())), encoding="utf-8")  # type: ignore[operator]
    frames = "".join(f'<iframe src="page.html" style="width:{width}px;height:900px;border:0"></iframe>'
                     for width in (360, 390, 1200))
    (tmp_path / "probe.html").write_text(PROBE % frames, encoding="utf-8")
    seen = visit(tmp_path, "probe.html", "--dump-dom", "--virtual-time-budget=10000")
    found = re.search(r'<pre id="told">(.*?)</pre>', seen)
    assert found, seen[-500:]
    told = json.loads(found[1])
    assert [one["width"] for one in told] == [360, 390, 1200]
    for one in told:
        assert one["scroll"] <= one["width"], "the page is wider than its screen"
        assert one["tables"] >= 1 and one["marks"] >= 4 and one["hidden"] >= 1 and one["plots"] >= 4
        assert one["changed"] not in ("rgba(0, 0, 0, 0)", "rgb(255, 255, 255)")
        assert "underline" in one["line"] and "line-through" in one["struck"]
        assert one["letters"] > 9, "letters of plots are too small to read"


def test_a_browser_paints_the_page(tmp_path: Path) -> None:
    browser()
    (tmp_path / "page.html").write_text(html(built(cells())), encoding="utf-8")
    for width, options in ((1200, ()), (500, ("--blink-settings=preferredColorScheme=0",))):
        picture = tmp_path / f"{width}.png"
        visit(tmp_path, "page.html", f"--screenshot={picture}", f"--window-size={width},3000", *options)
        content = picture.read_bytes()
        assert content[:8] == b"\x89PNG\r\n\x1a\n"
        assert (int.from_bytes(content[16:20]), int.from_bytes(content[20:24])) == (width, 3000)
        assert len(content) > 60_000  # an empty page takes a tenth of it
