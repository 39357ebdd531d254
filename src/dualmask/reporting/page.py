# SPDX-License-Identifier: Apache-2.0
"""A report as one page of HTML that needs nothing else: no script, no network, light or dark, for phones and paper."""

from collections.abc import Mapping, Sequence
from string import Template

from dualmask import __version__
from dualmask.reporting.axes import percent, shown, stylesheet, tinted
from dualmask.reporting.entries import WORST, Entry, Share
from dualmask.reporting.findings import OF_SIZE, Finding, counted, size_line
from dualmask.reporting.first_words import explained_page
from dualmask.reporting.headline import Headline, clean_sentence, gain_sentences, headlines
from dualmask.reporting.page_details import glossary, missing, provenance
from dualmask.reporting.page_plots import plots
from dualmask.reporting.page_tables import (
    cost_table,
    defence_cost_table,
    detection_table,
    equal_to,
    main_table,
    paired_table,
    stands_on,
)
from dualmask.reporting.report import Line, Report, Table
from dualmask.reporting.report_tables import cautions, table_title
from dualmask.reporting.specimens import card, specimens

EXAMPLES = {"adaptive": 12, "defence-aware": 6}  # of a table; of other modes fewer
OTHER_EXAMPLES, MOST_EXAMPLES, OPEN_EXAMPLES = 4, 60, 6
Row = tuple[Line, Share, Share]  # with its accuracy before and under the attacks that a headline is about
HEADLINES = 3  # rows that the words on top name, beside plain
# Nothing may run or be loaded, whatever a text holds that escaped our escaping
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="$policy">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
$style</style>
</head>
<body>
<main>
<header>
<h1>$title</h1>
$headline<nav aria-label="Sections"><ul>$links</ul></nav>
</header>
$body</main>
<footer>$foot Every figure is computed from the records.</footer>
</body>
</html>
""")


def html(report: Report) -> str:
    """The whole page."""
    tints = tints_of(report)
    sections = [
        ("doubts", "Why you might not believe this", doubts(report)),
        ("figures", "Accuracy under attack", tables(report)),
        *([("detection", "Detection", detection_table(report))] if report.detections else []),
        ("cost", "What defences cost", defence_cost_table(report)),
        ("plots", "Plots", all_plots(report, tints)),
        ("examples", "Examples", examples(report)),
        ("missing", "What is missing", missing(report)),
        ("words", "What the words mean", glossary()),
        ("origin", "Where the figures come from",
         f"<details><summary>Versions, machines, options and seeds</summary>{provenance(report)}</details>"),
    ]
    links = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title, _ in sections)
    body = "".join(f'<section id="{name}"><h2>{title}</h2>\n{content}</section>\n' for name, title, content in sections)
    cells = sum(len(one.runs) for one in report.entries)
    style = stylesheet("theme", "plots", "report")
    return explained_page(PAGE.substitute(
        policy=POLICY, title=shown(report.title), style=style, links=links, body=body,
        headline=threats(report, tints) + headline(report, tints),
        foot=f"{counted(report.records, 'record')}, {counted(cells, 'cell')}; written by dualmask {__version__}."))


def tints_of(report: Report) -> dict[str, int]:
    """A colour and a mark for each defence, the same in every plot; plain, if there, is grey."""
    plain = {table.plain for table in report.tables if table.plain}
    names = sorted({entry.key.defence for entry in report.entries} - plain)
    return {**dict.fromkeys(plain, 0), **{name: place for place, name in enumerate(names, start=1)}}


def threats(report: Report, tints: Mapping[str, int]) -> str:
    """What helps against what: sentences and bars for each classifier's adaptive table."""
    return "".join(
        f'<div class="helps"><p class="where">{shown(found.table.data)}, {shown(found.table.encoder)}</p>'
        f"<p>{shown(' '.join(gain_sentences(found)))}</p>{threat_bars(found, tints)}"
        f"<p>{shown(' '.join(clean_sentence(found)))}</p></div>\n" for found in headlines(report))


def threat_bars(found: Headline, tints: Mapping[str, int]) -> str:
    """For each attack a bar of plain and one of the best row, with their values; sentences tell the same."""
    rows = []
    for gain in found.gains:
        sides = [(found.beside.defence, gain.plain)] if found.beside and gain.plain is not None else []
        bars = "".join(held_bar(name, tints[name], held / gain.texts)
                       for name, held in [*sides, (found.line.defence, gain.best)])
        rows.append(f'<div class="threat"><b>{shown(gain.named)}</b>{bars}</div>')
    return f'<div class="threats" aria-hidden="true">{"".join(rows)}</div>'


def held_bar(name: str, tint: int, share: float) -> str:
    return (f'<div class="{tinted(tint)}"><span>{shown(name)}</span><div class="track">'
            f'<i class="robust" style="width:{100 * share:.1f}%"></i></div><span>{percent(share)}</span></div>')


def headline(report: Report, tints: Mapping[str, int]) -> str:
    """What was found, in words: one paragraph for each classifier's adaptive table, or for the first there is."""
    chosen = [table for table in report.tables if table.mode == "adaptive" and table.scores == "raw"]
    return "".join(headline_of(table, tints, report.doubted(table, plain=True), even=not report.uneven(table.lines))
                   for table in chosen or report.tables[:1])


def headline_of(table: Table, tints: Mapping[str, int], doubted: Mapping[str, str], *, even: bool) -> str:
    """The best rows; one that a serious doubt is about is not among them, but is named with the doubt.

    Plain stays, since others are compared with it; doubts about it stand behind the figures.
    """
    column = table.leading
    every = sorted(((line, *both) for line in table.lines if (both := line.both(column))),
                   key=lambda one: (one[0].defence == table.plain, -one[2].mean))
    if not every:
        return ""
    order = [one for one in every if one[0].defence == table.plain or one[0].defence not in doubted]
    named = [*order[:HEADLINES], *(one for one in order[HEADLINES:] if one[0].defence == table.plain)]
    left = f"; {counted(len(order) - len(named), 'more defence')} below" if len(order) > len(named) else ""
    words = f"{told(table, named)}{left}.{compared(table, named[0][0], column)} " if named else ""
    others = [one for one in every if one not in order]
    apart = "" if even else ' Not all rows <a href="#doubts">compare as they stand</a>.'
    bars = "".join(bar(line.defence, tints[line.defence], clean, robust) for line, clean, robust in named)
    return (f'<div class="headline"><p class="where">{shown(place_of(table))}</p>'
            f"<p>{words}{doubted_plain(table, doubted)}{unranked(others, doubted)}{apart}</p>"
            f'<div class="bars" aria-hidden="true">{bars}</div></div>\n')


def place_of(table: Table) -> str:
    kind = "the worst case" if table.leading == WORST else f"under {table.leading}"
    return f"{table.data}, {table.encoder}: {kind}"


def doubted_plain(table: Table, doubted: Mapping[str, str]) -> str:
    if table.plain is None or table.plain not in doubted:
        return ""
    return (f'About {shown(table.plain)} itself there are <a href="#doubts">serious doubts</a> '
            f"({shown(doubted[table.plain])}): beware of figures beside it. ")


def unranked(rows: Sequence[Row], doubted: Mapping[str, str]) -> str:
    if not rows:
        return ""
    names = [f"{shown(line.defence)} ({percent(robust.mean)}; {shown(doubted[line.defence])})"
             for line, _, robust in rows[:HEADLINES]]
    more = f" and {counted(len(rows) - HEADLINES, 'more defence')}" if len(rows) > HEADLINES else ""
    return f'Not ranked, because of <a href="#doubts">serious doubts</a>: {", ".join(names)}{more}.'


def told(table: Table, rows: Sequence[Row]) -> str:
    """Rows in words, the first at length; what they stand on once if it is the same, else row by row."""
    bases = [f"on {stands_on(robust)}" for _, _, robust in rows]
    same = len(set(bases)) == 1
    words: list[str] = []
    for (line, clean, robust), basis in zip(rows, bases, strict=True):
        if words:
            text = f"{percent(clean.mean)} and <b>{percent(robust.mean)}</b> ({interval(robust)})"
        else:
            text = (f"{percent(clean.mean)} right before the attack, <b>{percent(robust.mean)}</b> (95 % interval "
                    f"{interval(robust)}) under {shown(attack_words(table, line))}")
        words.append(f"<b>{shown(line.defence)}</b>: {text}" + ("" if same else f", {basis}"))
    return "; ".join([*words, *bases[:same]])


def attack_words(table: Table, line: Line) -> str:
    if table.leading == WORST and line.worst:
        return f"the worst of {counted(len(line.worst.keys), f'{table.mode} attack')}"
    return f"{table.mode} {table.leading}"


def interval(share: Share) -> str:
    return f"{100 * share.interval.low:.0f} to {100 * share.interval.high:.0f}"


def compared(table: Table, line: Line, column: str) -> str:
    """Whether the best row differs from plain, and how surely."""
    test = table.tests.get((line.defence, column))
    if test is None:
        return ""
    names = f"Under attack {shown(line.defence)} is"
    plain = shown(table.plain or "")
    points = f"{abs(100 * test.difference.value):.1f}"
    if points == "0.0":
        return f" {names} level with {plain} on these texts."
    low, high = test.difference.interval
    side = "above" if test.difference.value > 0 else "below"
    gap = f"{names} {points} points {side} {plain} ({100 * low:+.1f} to {100 * high:+.1f}"
    return f" {gap}; p {shown(equal_to(test.corrected))})." if test.significant else f" {gap}), which may be chance."


def bar(name: str, tint: int, clean: Share, robust: Share) -> str:
    return (f'<div class="{tinted(tint)}"><span>{shown(name)}</span><div class="track">'
            f'<i class="clean" style="width:{100 * clean.mean:.1f}%"></i>'
            f'<i class="robust" style="width:{100 * robust.mean:.1f}%"></i></div>'
            f"<span>{percent(clean.mean)} → {percent(robust.mean)}</span></div>")


def doubts(report: Report) -> str:
    """Always there: also where no check found anything, figures have limits."""
    if not report.doubts:
        return ('<div class="doubts"><p>No automatic check found a reason for doubt. That proves nothing: other '
                "attacks may still succeed.</p></div>\n")
    of_size = [one for one in report.doubts if one.name in OF_SIZE]
    others = "".join(doubt_item(one) for one in report.doubts if one.name not in OF_SIZE)
    listed = f"<ul>{others}</ul>" if others else ""
    folded = (f"<details><summary>{size_line(of_size)}</summary><ul>{''.join(map(doubt_item, of_size))}</ul></details>"
              if of_size else "")
    return f'<div class="doubts">{listed}{folded}</div>\n'


def doubt_item(found: Finding) -> str:
    return (f'<li class="{found.severity}"><b class="severity">{found.severity}</b> <b>{shown(found.name)}:</b> '
            f"{shown(found.text)}</li>")


def tables(report: Report) -> str:
    parts = []
    for table in report.tables:
        content = main_table(table, cautions(report, table))
        tests = paired_table(table)
        more = f"<details><summary>What the attacks cost</summary>{cost_table(table)}</details>"
        if tests:
            more += f"<details><summary>Paired tests against plain</summary>{tests}</details>"
        parts.append(f"<h3>{shown(table_title(table))}</h3>\n{content}{more}\n")
    if any(line.gaps or line.clean_gap for table in report.tables for line in table.lines):
        parts.append(f'<p class="notes">Reported: {shown(report.reported.source)}. {shown(report.caution)}</p>\n')
    return "".join(parts)


def all_plots(report: Report, tints: Mapping[str, int]) -> str:
    """Those of the first table open, the others folded."""
    parts = ['<p class="notes">Shaded bands and thin lines are 95 % intervals. Point at a mark for its figures.</p>']
    for place, table in enumerate(report.tables):
        costs = {one.defence: one for one in report.costs if (one.data, one.encoder) == (table.data, table.encoder)}
        opened = " open" if place == 0 else ""
        parts.append(f'<details class="board"{opened}><summary><h3>{shown(table_title(table))}</h3></summary>'
                     f"{plots(table, tints, costs)}</details>\n")
    return "".join(parts)


def examples(report: Report) -> str:
    cards: list[str] = []
    for table in report.tables:
        group: Sequence[Entry] = [entry for line in table.lines for entry in line.entries.values()]
        most = min(EXAMPLES.get(table.mode, OTHER_EXAMPLES), MOST_EXAMPLES - len(cards))
        cards += map(card, specimens(group, most=most))
    if not cards and any(run.records.packed for entry in report.entries for run in entry.runs):
        return "<p>These records are packed: their texts were left out, so there are no examples to show.</p>\n"
    if not cards:
        return "<p>No text was changed by an attack, so there is nothing to show.</p>\n"
    key = ('<p class="notes key"><mark class="old">word</mark> is going to be changed, <mark class="new">word</mark> '
           "was changed by the attack, <del>word</del> was hidden from the network by the defence, and what it read "
           "instead of a word stands behind it (wrod<ins>word</ins>). Bars show the probability of the text's true "
           "class. Chosen: texts on which defences disagree, successes by few changes, and texts that held against "
           "many queries.</p>\n")
    rest = (f"<details><summary>{counted(len(cards) - OPEN_EXAMPLES, 'more example')}</summary>"
            f"{''.join(cards[OPEN_EXAMPLES:])}</details>\n") if len(cards) > OPEN_EXAMPLES else ""
    return key + "".join(cards[:OPEN_EXAMPLES]) + rest
