# SPDX-License-Identifier: Apache-2.0
"""A report as Markdown."""

from collections.abc import Iterator, Mapping, Sequence

from dualmask.reporting.findings import OF_SIZE, Finding, size_line
from dualmask.reporting.first_words import explained_parts
from dualmask.reporting.headline import headline_sentences
from dualmask.reporting.report import Report, Table
from dualmask.reporting.report_tables import (
    COST,
    DETECTION,
    LEGEND,
    cautions,
    defence_cost_rows,
    detail_rows,
    detection_rows,
    headline,
    main_rows,
    mode_words,
    rendered,
    reported_rows,
    settings_line,
    table_title,
)
from dualmask.reporting.side_by_side import BESIDE, RIVAL, beside_rows, missing_lines, rival_rows, unfinished_lines
from dualmask.text.markdown import one_line


def markdown(report: Report, *, note: str = "", pictures: Mapping[str, str] | None = None) -> str:
    """The whole report as a text. note: said at its beginning; pictures: their names and where they lie."""
    parts = [f"# {one_line(report.title)}", *([note] if note else []),
             f"{report.records:,} records, {len(report.entries)} figures.",
             *problem_lines(report), "## What helps against what", *map(one_line, headline_sentences(report)),
             "## In short", rendered(headline(report)),
             *(f"![{name}]({place})" for name, place in (pictures or {}).items())]
    if report.doubts:
        parts += ["## Why you might not believe this", doubt_lines(report.doubts)]
    for heading, words, rows in (("Adaptive beside transfer", BESIDE, beside_rows(report)),
                                 ("Against the best rival", RIVAL, rival_rows(report))):
        if len(rows) > 1:
            parts += [f"## {heading}", words, rendered(rows)]
    for table in report.tables:
        parts += table_parts(table, cautions(report, table))
    if report.detections:
        parts += ["## Detection", DETECTION, rendered(detection_rows(report))]
    parts += ["## What defences cost", COST, rendered(defence_cost_rows(report))]
    if any(line.gaps or line.clean_gap for table in report.tables for line in table.lines):
        parts += ["## Reported beside measured",
                  one_line(f"{report.caution} Source: {report.reported.source}.") + " 'far' marks a difference of more "
                  "than two deviations or, with one seed, a reported figure outside the interval; 'older profile' a "
                  "reported figure for which the attack was set otherwise than here.",
                  rendered(reported_rows(report))]
    if missing := [*missing_lines(report), *unfinished_lines(report)]:
        parts += ["## What is missing", "\n".join(f"* {one_line(line)}." for line in missing)]
    parts += ["## How to read this", LEGEND]
    if report.about:
        parts += ["## How it was made",
                  "\n".join(one_line(f"* {name}: {'; '.join(values)}") for name, values in report.about.items())]
    return "\n\n".join(explained_parts(parts)) + "\n"


def doubt_lines(doubts: Sequence[Finding]) -> str:
    """A line for each; those about size share one."""
    of_size = [one for one in doubts if one.name in OF_SIZE]
    lines = [f"* {doubt_told(one)}" for one in doubts if one.name not in OF_SIZE]
    told = " ".join(map(doubt_told, of_size))
    return "\n".join([*lines, *([f"* {size_line(of_size)}. {told}"] if of_size else [])])


def doubt_told(found: Finding) -> str:
    return f"**{found.severity}**, {found.name}: {one_line(found.text)}"


def problem_lines(report: Report) -> list[str]:
    if not report.problems:
        return []
    return ["## Files that are not in this report", "\n".join(f"* {one_line(one)}" for one in report.problems)]


def table_parts(table: Table, cautions: Sequence[str]) -> Iterator[str]:
    yield f"## {table_title(table)}"
    yield f"CAA in points; {mode_words(table)}."
    yield rendered(main_rows(table))
    yield from map(one_line, cautions)
    yield rendered(detail_rows(table))
    yield from settings_line(table)
    if table.reasons:
        yield "\n".join(one_line(f"* Not tested against plain: {', '.join(map(' '.join, places))}; {reason}.")
                        for reason, places in table.reasons.items())
