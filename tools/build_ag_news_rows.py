# SPDX-License-Identifier: Apache-2.0
"""Write down which public row each training row of AG News is: source, first row and how many, run by run.

    python tools/build_ag_news_rows.py TRAIN.csv SOURCES

TRAIN.csv has the rows that were measured (`dualmask resources fetch ag-news` puts them together by what this tool
wrote); SOURCES is a folder with the sources' files as `dualmask.published_data.AG_NEWS` lists them,
OWNER/NAME/COMMIT/PATH.
The asset holds row numbers alone, no text. A training row that no source has is an error.
"""

import argparse
import csv
from collections import defaultdict
from pathlib import Path

from dualmask.published_data import AG_NEWS, AG_NEWS_READERS, AG_NEWS_ROWS, Row

WIDTH = 110
HEAD = """\
# SPDX-License-Identifier: Apache-2.0
# Which rows of public repositories the training part of AG News consists of, in its order: SOURCE:FIRST+COUNT, all
# from 0 on; sources as in published_data.py. Written by tools/build_ag_news_rows.py.
"""
Run = tuple[int, int, int]  # source, first row, rows


def find_runs(wanted: list[Row], sources: list[list[Row]]) -> list[Run]:
    """As few runs as going on where one can, else with the nearest later row of the same source, gives."""
    places: dict[Row, list[tuple[int, int]]] = defaultdict(list)
    for source, rows in enumerate(sources):
        for number, row in enumerate(rows):
            places[row].append((source, number))
    runs: list[Run] = []
    last = (0, -1)
    for row in wanted:
        if row not in places:
            raise SystemExit(f"no source has the row {row[0][:60]!r}")
        following = (last[0], last[1] + 1)
        later = [place for place in places[row] if place[0] == last[0] and place[1] > last[1]]
        chosen = following if following in places[row] else min(later, default=places[row][0])
        if runs and chosen == following:
            runs[-1] = (runs[-1][0], runs[-1][1], runs[-1][2] + 1)
        else:
            runs.append((*chosen, 1))
        last = chosen
    return runs


def lines_of(words: list[str]) -> list[str]:
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + 1 + len(word) > WIDTH:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path, help="CSV file, columns text and label")
    parser.add_argument("sources", type=Path, help="folder with the sources' files")
    options = parser.parse_args()
    *inputs, _ = AG_NEWS.inputs
    sources = [read(options.sources / one.repository / one.commit / one.path)
               for read, one in zip(AG_NEWS_READERS, inputs, strict=True)]
    with options.train.open(encoding="utf-8", newline="") as stream:
        wanted = [(row["text"], row["label"]) for row in csv.DictReader(stream)]
    runs = find_runs(wanted, sources)
    lines = lines_of([f"{source}:{first}+{count}" for source, first, count in runs])
    AG_NEWS_ROWS.write_text(HEAD + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{AG_NEWS_ROWS}: {len(wanted)} rows in {len(runs)} runs, {AG_NEWS_ROWS.stat().st_size} bytes")


if __name__ == "__main__":
    main()
