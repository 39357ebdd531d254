# SPDX-License-Identifier: Apache-2.0
"""What a report says first: what helps against what, clean accuracy of the whole test part, words explained."""

import re
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from test_page import sound
from test_report import cell, report

from dualmask.evaluation.records import CellRecords
from dualmask.quickstart import show
from dualmask.reporting.charts import query_chart
from dualmask.reporting.curves import Histogram
from dualmask.reporting.first_words import WORDS, explained_page, explained_parts
from dualmask.reporting.headline import headline_sentences, headlines, uneven_reasons
from dualmask.reporting.page import html
from dualmask.reporting.report import CLEAN
from dualmask.reporting.report_latex import latex
from dualmask.reporting.report_markdown import markdown
from dualmask.reporting.report_tables import headline, main_rows

BUG, FOOL = "deepwordbug", "textfooler"


def held(defence: str, attack: str, texts: int, *, of: int = 100, **given: object) -> CellRecords:
    return cell("+" * texts + "-" * (of - texts), defence=defence, attack=attack, **given)  # type: ignore[arg-type]


def facts(accuracy: float, *, texts: int | None = 500, attacked: int = 500, **more: object) -> dict[str, object]:
    """The header of a classifier that knows its accuracy on a test part of so many texts."""
    rows = {} if texts is None else {"rows": {"test": texts}}
    return {"header": {"data": f"{attacked} examples 0123", "about": {
        "training": {"test_accuracy": accuracy, "test_accuracy_undefended": accuracy + 0.01, **rows, **more}}}}


def test_the_best_row_stands_beside_plain_threat_by_threat() -> None:
    found = report(held("plain", FOOL, 3), held("plain", BUG, 10), held("better", BUG, 68), held("better", FOOL, 15),
                   held("ddm", BUG, 12), held("ddm", FOOL, 4))
    assert headline_sentences(found) == [
        "better against plain. Misspelling (deepwordbug): 10 -> 68 of 100 texts still right; synonyms (textfooler): "
        "3 -> 15.",
        "Right on clean texts: better 100.0 % of 100 texts, plain 100.0 %.",
        "Worst case, if the attacker may take whichever of these 2 attacks works: 3 -> 15 of 100 texts still right."]


@pytest.mark.parametrize(("bug", "fool", "first", "rest"), [
    (68, 5, "synonyms (textfooler): 3 -> 5 (may be chance).", []),
    (12, 5, "10 -> 12 of 100 texts still right; synonyms (textfooler): 3 -> 5.",
     ["On 100 texts all of these differences may be chance."]),
    (10, 3, "10 -> 10 of 100 texts still right; synonyms (textfooler): 3 -> 3.",
     ["Nothing here keeps more than plain."]),
])
def test_a_difference_inside_chance_is_told_as_such(bug: int, fool: int, first: str, rest: list[str]) -> None:
    found = report(held("plain", FOOL, 3), held("plain", BUG, 10), held("ddm", BUG, bug), held("ddm", FOOL, fool))
    told = headline_sentences(found)
    assert told[0].endswith(first) and told[1:-2] == rest


def test_a_row_that_keeps_less_than_plain_says_so() -> None:
    worse = [held("plain", BUG, 60), held("ddm", BUG, 10), held("plain", FOOL, 50), held("ddm", FOOL, 5)]
    less = "ddm keeps less than plain against misspelling (deepwordbug) and synonyms (textfooler)."
    assert headline_sentences(report(*worse))[1:3] == [less, "Nothing here keeps more than plain."]
    mixed = [*worse[:2], held("plain", FOOL, 5), held("ddm", FOOL, 50)]
    told = headline_sentences(report(*mixed))
    assert told[1] == "ddm keeps less than plain against misspelling (deepwordbug)."
    assert not any("Nothing" in one for one in told)
    chance = [*worse[:2], held("plain", FOOL, 5), held("ddm", FOOL, 7)]
    assert headline_sentences(report(*chance))[2] == "Nothing here keeps more than plain beyond chance."


def test_rows_are_compared_under_the_attacks_that_both_have_met() -> None:
    plain = [held("plain", BUG, 10), held("plain", FOOL, 10)]
    bad, good = [held("bad", BUG, 2), held("bad", FOOL, 1)], held("good", BUG, 90)
    assert headline_sentences(report(*plain, *bad, good))[:2] == [
        "good against plain. Misspelling (deepwordbug): 10 -> 90 of 100 texts still right.",
        "Not tried with good: synonyms (textfooler)."]
    both = [held("both", BUG, 60), held("both", FOOL, 20)]  # 40 on average, but more where the other was tried
    assert headline_sentences(report(*plain, *both, held("half", BUG, 50)))[0].startswith("both against plain.")
    other = [held("other", BUG, 80), held("other", FOOL, 1)]  # a row of few attacks does not narrow it for others
    assert headline_sentences(report(*plain, *both, *other, held("half", BUG, 5)))[0].startswith("other against plain.")
    better = [held("even", BUG, 79), held("even", FOOL, 60)]
    assert headline_sentences(report(*plain, *better, *other, held("half", BUG, 5)))[0].startswith("even against")


def test_threats_that_a_row_has_not_met_are_named() -> None:
    told = headline_sentences(report(held("plain", BUG, 10), held("ddm", BUG, 60), held("ddm", FOOL, 60)))
    assert told[1] == "Not tried with plain: synonyms (textfooler)."
    told = headline_sentences(report(held("plain", BUG, 10), held("plain", FOOL, 5, header={"texts": 200}),
                                     held("ddm", BUG, 60), held("ddm", FOOL, 5)))
    assert told[1] == "Not tried with plain: synonyms (textfooler), not finished."


def test_a_row_that_keeps_more_against_one_threat_is_named_too() -> None:
    given = [held("plain", BUG, 5), held("plain", FOOL, 5), held("one", BUG, 80), held("one", FOOL, 10)]
    assert ("two keeps more against synonyms (textfooler): 10 -> 40 of 100 texts (from one to two)."
            in headline_sentences(report(*given, held("two", BUG, 20), held("two", FOOL, 40))))
    assert not any("keeps more" in one for one in headline_sentences(
        report(*given, held("two", BUG, 20), held("two", FOOL, 12))))  # by chance


def test_seeds_are_told_and_attacks_go_by_what_they_are() -> None:
    column = {"attack": "fool-50", "header": {"attack": FOOL}}
    runs = [cell("+" * count + "-" * (50 - count), defence=name, seed=seed, **column)
            for seed in range(2) for name, count in (("plain", 5), ("ddm", 20 + 5 * seed))]
    assert headline_sentences(report(*runs))[0] == (
        "ddm against plain. Synonyms (fool-50): 10.0 -> 45.0 % of 50 texts still right (mean of 2 seeds).")
    own = report(held("plain", "mine", 5), held("ddm", "mine", 50))
    assert headline_sentences(own)[0] == "ddm against plain. Mine: 5 -> 50 of 100 texts still right."


def test_without_plain_or_other_rows_figures_stand_alone() -> None:
    assert headline_sentences(report(held("ddm", BUG, 68)))[0] == "ddm. Misspelling (deepwordbug): 68 of 100 texts " \
        "still right."
    assert headline_sentences(report(held("plain", BUG, 8)))[0].startswith("plain. Misspelling (deepwordbug): 8 of")
    assert headline_sentences(report(cell("ss", header={"texts": 10}))) == []  # still running


def test_a_row_with_serious_doubts_is_not_named_but_told() -> None:
    sure = [held("sure", BUG, 90), held("sure", BUG, 20, scores="calibrated")]
    told = headline_sentences(report(held("plain", BUG, 10), held("ddm", BUG, 40), *sure))
    assert told[0].startswith("ddm against plain.")
    assert told[-1] == "Not named above, because of serious doubts: sure (an illusion of scores)."
    learned = held("safer", FOOL, 50, header={"defence": {"name": "safer", "synonyms": "shipped"}})
    assert headline_sentences(report(held("plain", FOOL, 10), learned))[-1] == (
        "What safer keeps does not compare as it stands: one synonym table for defence and attack.")


def test_a_doubt_about_both_rows_is_none_about_their_difference() -> None:
    """A defence around the plain network shares its training, and what may be said against that."""
    class Doubted:
        def uneven(self, lines: list[str]) -> dict[str, list[str]]:
            known = {"best at the last epoch": ["plain", "hardened"], "one synonym table": ["hardened"]}
            return {name: rows for name, rows in known.items() if lines[0] in rows}

    given: Any = Doubted()
    assert uneven_reasons(given, "hardened", "plain") == ("one synonym table",)  # type: ignore[arg-type]
    assert len(uneven_reasons(given, "hardened", None)) == 2  # type: ignore[arg-type]


def test_the_page_has_the_threats_before_the_worst_case_with_a_bar_and_its_value_for_each() -> None:
    page = html(report(held("plain", BUG, 10), held("ddm", BUG, 68), held("plain", FOOL, 3), held("ddm", FOOL, 15)))
    root = sound(page)
    box, = root.all("div", "helps")
    assert page.index('class="helps"') < page.index('class="headline"')
    assert "Misspelling (deepwordbug): 10 -> 68 of 100 texts still right; synonyms (textfooler): 3 -> 15." in box.text
    bars = [[one.text for one in threat.all("span")] for threat in box.all("div", "threat")]
    assert bars == [["plain", "10\u00a0%", "ddm", "68\u00a0%"], ["plain", "3\u00a0%", "ddm", "15\u00a0%"]]
    assert "the worst of 2 adaptive attacks" in root.all("div", "headline")[0].text


def test_quickstart_ends_with_what_helps_against_what(tmp_path: Path) -> None:
    found, screen = report(held("plain", BUG, 10), held("ddm", BUG, 68)), StringIO()
    show(Console(file=screen, width=200), found, tmp_path / "report.html", tmp_path)
    assert screen.getvalue().splitlines()[-2:] == headline_sentences(found)


# Clean accuracy


def test_clean_accuracy_is_that_of_the_whole_test_part_and_the_attacked_texts_keep_theirs() -> None:
    found = report(cell("+" * 40 + "s" * 20, **facts(0.74)), cell("+" * 50 + "s" * 10, defence="ddm", **facts(0.72)))
    line = found.tables[0].lines[0]
    assert line.clean and line.tested and line.clean_figure == line.tested
    assert (line.tested.mean, line.tested.texts, line.clean.texts) == (0.74, 500, 60)
    assert [row[:4] for row in main_rows(found.tables[0])] == [
        ["defence", "CLA", "CLA, defence off", "CLA, attacked texts"],
        ["plain", "74.0 [70.0, 77.7] (500 x 1)", "75.0", "66.7 [54.1, 77.3]"],
        ["ddm", "72.0 [67.9, 75.8] (500 x 1)", "73.0", "83.3 [72.0, 90.7]"]]
    assert headline(found)[1] == ["adaptive", "plain", "74.0 (500 x 1)", "66.7", "66.7", "60 x 1"]
    assert found.tables[0].place("plain", CLEAN) == 1  # of the whole part, not of the sample
    cells = sound(html(found)).all("table", "main")[0].all("tbody")[0].all("td")
    assert cells[0].text.startswith("74.0[70.0, 77.7]on 500 texts, 1 seedattacked texts 66.7")
    assert "74.0" in latex(found) and "Right on clean texts: ddm 72.0 % of 500 texts, plain 74.0 %." in markdown(found)
    both = line.both(FOOL)
    assert both and both[0] == line.clean  # what an attack took is told of the texts that it met


@pytest.mark.parametrize("given", [
    {}, facts(0.74, texts=400), facts(float("nan")), {"header": {"about": {"training": {"test_accuracy": 0.74}}}},
    {**facts(0.74), "mode": "transfer-successful"},
])
def test_where_the_whole_test_part_is_not_known_the_attacked_texts_count(given: Mapping[str, object]) -> None:
    line = report(cell("+" * 40 + "s" * 20, **given)).tables[0].lines[0]  # type: ignore[arg-type]
    assert line.tested is None and line.clean_figure == line.clean
    one_seed = report(cell("++", **facts(0.5)), cell("++", seed=1))
    assert one_seed.tables[0].lines[0].tested is None


def test_rows_of_which_some_know_less_are_not_ranked_by_clean_accuracy() -> None:
    found = report(cell("+" * 40 + "s" * 20, **facts(0.74)), cell("+" * 50 + "s" * 10, defence="ddm"))
    assert found.tables[0].place("ddm", CLEAN) is None
    sizes = report(cell("++++", **facts(0.5, texts=None, attacked=1000))).tables[0].lines[0].tested
    assert sizes and sizes.texts == 1000  # as many as the texts that the sample was drawn from


def test_paired_tests_stay_on_the_attacked_texts() -> None:
    bare = report(held("plain", BUG, 10), held("ddm", BUG, 40))
    known = report(held("plain", BUG, 10, **facts(0.9)), held("ddm", BUG, 40, **facts(0.5)))
    assert bare.tables[0].tests == known.tables[0].tests


# Far off


def test_far_off_is_marked_only_where_the_profiles_are_the_same() -> None:
    def gap(**header: object) -> object:
        found = report(held("ddm", FOOL, 30, header=header)).tables[0].lines[0].gaps[FOOL]
        return found.far

    assert gap(options={"split": "left-end"}) and gap()
    assert not gap(options={"split": "both-ends"}) and not gap(changed={"queries": 5})
    page = html(report(held("ddm", FOOL, 30, header={"options": {"split": "both-ends"}})))
    assert "older profile" in page and not [
        one for cell_ in sound(page).all("table", "main")[0].all("td")[1:] for one in cell_.all("b", "far")]


# Words


def test_words_are_explained_where_they_first_stand_and_only_there() -> None:
    root = sound(html(report(held("plain", BUG, 10), held("ddm", BUG, 40), held("ddm", BUG, 40, mode="transfer"))))
    told = [one.attributes["title"] for one in root.all("abbr")]
    assert len(told) == len(set(told))
    assert {WORDS[word] for word in ("clean", "adaptive", "transfer", "CLA")} <= set(told)
    assert all(one.attributes["tabindex"] == "0" for one in root.all("abbr"))  # can be tapped on


def test_no_markup_no_title_and_no_example_is_explained() -> None:
    page = ('<title>clean</title><a title="clean">clean</a><article>clean</article><p class="clean">uncleaned</p>'
            "<p>a clean and a clean worst case</p>")
    explained = explained_page(page)
    assert explained.startswith(page[:page.index("<p>")])
    assert re.findall(r"<abbr[^>]*>([^<]*)</abbr>", explained) == ["clean", "worst case"]
    assert re.sub(r"</?abbr[^>]*>", "", explained) == page


def test_markdown_explains_words_before_the_part_that_brings_them() -> None:
    parts = list(explained_parts(["# adaptive", "some CAA", "## next", "more CAA, a seed"]))
    assert parts == ["# adaptive", f"*adaptive*: {WORDS['adaptive']}; *CAA*: {WORDS['CAA']}.", "some CAA", "## next",
                     f"*seed*: {WORDS['seed']}.", "more CAA, a seed"]
    text = markdown(report(held("plain", BUG, 10), held("ddm", BUG, 40)))
    assert text.count(f"*clean*: {WORDS['clean']}") == 1
    assert text.index("*clean*: ") < text.index("Right on clean texts")


def test_every_bar_has_its_value() -> None:
    chart = query_chart("x", [Histogram("ddm", 1, (1, 2, 4, 8), (7, 0, 1234), 3.0)])
    assert re.findall(r'class="count"[^>]*>([\d,]+)<', chart) == ["7", "1,234"] and chart.count("<rect") == 2


def test_markdown_has_doubts_about_size_in_one_line() -> None:
    text = markdown(report(held("plain", BUG, 10)))
    start = "* 2 doubts about size: few texts, one training seed. "
    line, = [one for one in text.splitlines() if one.startswith(start)]
    assert "**caution**, few texts: " in line and "**caution**, one training seed: " in line


def test_a_headline_per_data_set() -> None:
    found = report(held("plain", BUG, 1), held("plain", BUG, 2, data="other"))
    assert [one.table.data for one in headlines(found)] == ["mr", "other"]
    assert [one.partition(":")[0] for one in headline_sentences(found)][::2] == ["mr, bert", "other, bert"]
