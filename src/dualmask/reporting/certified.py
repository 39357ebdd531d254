# SPDX-License-Identifier: Apache-2.0
"""Certified accuracy: what certificates say about all texts together, in words, as a table and as a curve.

It is a promise about every attack of a kind, while accuracy under attack is what one attack left over. The two never
share a column.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import NamedTuple

from dualmask import __version__
from dualmask.evaluation.certified_records import Certificate, Certified, End, Summary, summarise
from dualmask.reporting.axes import shown, stylesheet
from dualmask.reporting.charts import legend, survival_chart, told
from dualmask.reporting.curves import Point, Series
from dualmask.reporting.entries import Share, defence_options, share
from dualmask.reporting.page import PAGE, POLICY

PROVED, GUESSED = "certified", "heuristic (no guarantee)"
ENDS: Mapping[End, str] = {
    "all tried": "because all was tried that was asked for", "flipped": "because an edit changes the answer",
    "in sight": "because an edit might stay in sight", "passes": "because the passes were used up"}
ENOUGH = 10  # texts, from which on one answer to all of them is no chance
EACH = 12  # changes that a table has one by one; beyond them it takes larger steps
CAUTION = ("Certified accuracy at d: texts, of all, that are right and stay so whatever d changes are made. A promise "
           "about this kind of change alone; it can't be compared with accuracy under an attack.")


class Row(NamedTuple):
    """Accuracy at a number of changes."""

    changes: int
    proved: Share
    guessed: Share | None  # by the published heuristic, which is no guarantee


def rows(found: Summary) -> list[Row]:
    """For 0, 1, 2, ... changes, up to the most that anything is certified at."""
    most = len(found.certified) - 1
    step = ceil(max(most - EACH, 1) / EACH)
    places = [*range(min(EACH, most)), *range(EACH, most, step), most]
    return [Row(changes, part(found.certified[changes], found.texts),
                part(found.heuristic[changes], found.texts) if found.heuristic else None) for changes in places]


def part(count: int, texts: int) -> Share:
    found = share([(count, texts)])
    assert found is not None  # a summary has texts
    return found


def facts(certified: Certified, found: Summary) -> list[tuple[str, str]]:
    """What the figures are about; without it they can't be quoted."""
    header = certified.header
    told_ones = [("answers", answers(header)), ("certified against", str(header.get("certificate", ""))),
                 ("texts", f"{found.texts:,}{unfinished(header, found.texts)}, seed {header.get('seed')}"),
                 ("clean accuracy", f"{told(part(found.right, found.texts))} of all texts, without an attack"),
                 ("median radius", f"{found.median}; wrong and abstained texts count as -1")]
    if header.get("method") == "votes":
        told_ones += [("abstained", f"{told(part(found.abstained, found.texts))}: no class is sure of half the votes"),
                      ("bound", f"{header.get('selection')} views choose the class, {header.get('draws')} others bound "
                                f"its share; each holds with {1 - number(header, 'alpha'):.1%} confidence "
                                "(Clopper-Pearson)")]
    else:
        told_ones += [("proof", f"every choice of places was tried, up to {header.get('most_changes')} edits and "
                                f"{header.get('most_passes')} passes; nothing was drawn"),
                      ("went no further", ended(certified.records))]
    return [*told_ones, ("cost", f"{found.passes:,.0f} passes and {found.seconds:.2f} s for a text")]


def one_answer(records: Sequence[Certificate]) -> str:
    """Empty, or what certificates of a classifier are worth that answers all texts alike."""
    answers = {one.predicted for one in records}
    if len(records) < ENOUGH or len(answers) > 1 or len({one.label for one in records}) == 1:
        return ""
    return (f"Doubt: all {len(records):,} texts got one and the same answer. A classifier that has learned nothing is "
            "certified with ease; these figures are no robustness.")


def ended(records: Iterable[Certificate]) -> str:
    """Why proofs without votes are about no more edits: an answer that changes, or the limits that were set."""
    counts = Counter(one.ended for one in records if one.ended)
    return ", ".join(f"{counts[end]:,} {told_end}" for end, told_end in ENDS.items() if counts[end]) or "not recorded"


def number(header: Mapping[str, object], name: str) -> float:
    value = header.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def answers(header: Mapping[str, object]) -> str:
    """Whose answers these are: a network may have been trained with another defence."""
    options = {**defence_options(header)}
    name, trained = options.pop("name", ""), header.get("trained")
    settings = ", ".join(f"{key}={value}" for key, value in options.items())
    own = f"of {name} ({settings})"
    if trained in (None, name):
        return own
    return f"{own} over the network of a model trained with {trained}: the vote's, not those of {trained}"


def unfinished(header: Mapping[str, object], texts: int) -> str:
    wanted = header.get("texts")
    return f" of {wanted:,}, not finished" if isinstance(wanted, int) and wanted > texts else ""


def curves(found: Summary) -> list[Series]:
    """Certified accuracy as it falls; where there is a heuristic, that as well."""
    lines = [(PROVED, 1, found.certified), *([(GUESSED, 0, found.heuristic)] if found.heuristic else [])]
    return [Series(name, tint, [Point(changes, part(counts[changes], found.texts)) for changes in corners(counts)])
            for name, tint, counts in lines]


def corners(counts: Sequence[int]) -> list[int]:
    """Both ends, and where the count is another than before: all that a curve in steps needs."""
    last = len(counts) - 1
    return [place for place in range(last + 1) if place in (0, last) or counts[place] != counts[place - 1]]


def page(certified: Certified, title: str) -> str:
    """One page of HTML that needs nothing else: the facts, the curve, the table."""
    found = summarise(certified.records)
    lines = curves(found)
    chart = survival_chart("Certified accuracy", lines[::-1], x_title="changes that may be made")
    items = "".join(f"<tr><th>{shown(name)}</th><td>{shown(text)}</td></tr>" for name, text in facts(certified, found))
    doubt = one_answer(certified.records)
    warning = f'<div class="doubts"><p>{shown(doubt)}</p></div>\n' if doubt else ""
    body = (f'<section id="facts"><h2>What was certified</h2>\n{warning}<table>{items}</table></section>\n'
            f'<section id="curve"><h2>Certified accuracy</h2>\n<p class="notes">{shown(CAUTION)}</p>'
            f"{legend((one.name, one.tint) for one in lines)}"
            f'<div class="panels">{chart}</div>{table(rows(found))}</section>\n')
    style = stylesheet("theme", "plots", "report")
    links = '<li><a href="#facts">What was certified</a></li><li><a href="#curve">Certified accuracy</a></li>'
    return PAGE.substitute(policy=POLICY, title=shown(title), style=style, headline="", links=links, body=body,
                           foot=f"{found.texts:,} records; written by dualmask {__version__}.")


def table(lines: Sequence[Row]) -> str:
    guesses = any(one.guessed for one in lines)
    head = f"<tr><th>changes</th><th>{PROVED}</th>{f'<th>{GUESSED}</th>' if guesses else ''}</tr>"
    cells = "".join(f"<tr><td>{one.changes}</td><td>{told(one.proved)}</td>"
                    f"{f'<td>{told(one.guessed)}</td>' if one.guessed else ''}</tr>" for one in lines)
    return f"<table><thead>{head}</thead><tbody>{cells}</tbody></table>"
