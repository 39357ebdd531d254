# SPDX-License-Identifier: Apache-2.0
"""Write what follows from the records in results: results/README.md, LaTeX, plots, tables in other pages, and the
figures that `dualmask list` and `dualmask choose` show.

    dualmask pack RUN... --words --out results/paper_table.jsonl.gz
    python tools/results_page.py        (or: make results)

No model is loaded and nothing is measured. The same records give the same bytes; a test compares them.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from dualmask.choice_tables import CAPTION, DOUBTS, choice_rows, doubt_lines, footnotes, limits_text
from dualmask.evaluation.records import PACKED
from dualmask.measured_figures import ASSET, PLAIN, MeasuredRow, as_asset
from dualmask.reporting.measured import PLOTS, documents, measured, read_reasons, restoring_table, short_table
from dualmask.reporting.measured_counts import counted_rows, data_names, hardened_rows, with_certificates
from dualmask.reporting.measured_rows import rows_of_report
from dualmask.reporting.report import Report
from dualmask.reporting.report_tables import rendered
from dualmask.results import read_header
from dualmask.text.markdown import one_line

ROOT = Path(__file__).parents[1]
TABLES: dict[str, Callable[[Report], str]] = {"docs/measured.md": short_table, "docs/restore.md": restoring_table}
BEGIN, END = "<!-- written by make results -->\n", "<!-- up to here -->\n"
CHOICES = {"README.md": True, "docs/choose.md": False}  # pages that may have "which defence for me?": in short?
CHOICE_BEGIN = "<!-- which defence: written by make results -->\n"
LIMITS_BEGIN = "<!-- what it does not stop: written by make results -->\n"


def packed_files(folder: Path) -> list[Path]:
    """Those of the table: attacks that few defences have met would narrow its worst cases to what all of them met."""
    return [path for path in sorted(folder.glob("paper_*.jsonl.gz")) if read_header(path).get("kind") == PACKED]


def measured_report(root: Path = ROOT) -> Report:
    return measured(packed_files(root / "results"), read_reasons(root / "results" / "missing.toml"))


def contents(root: Path = ROOT) -> dict[Path, str]:
    """Every file that follows from the records, with its text; none without packed records."""
    folder = root / "results"
    files = packed_files(folder)
    if not files:
        return {}
    report = measured_report(root)
    rows = figures(report, root)
    pages = {name: (root / name).read_text(encoding="utf-8") for name in {**TABLES, **CHOICES}
             if (root / name).exists()}
    for name, table in TABLES.items():
        pages[name] = filled(pages[name], table(report), BEGIN)
    for name, short in CHOICES.items():
        for begin, text in ((CHOICE_BEGIN, choice_table(rows, short=short)), (LIMITS_BEGIN, limits_text(rows))):
            if begin in pages.get(name, ""):
                pages[name] = filled(pages[name], text, begin)
    return {root / "src" / "dualmask" / "assets" / ASSET: as_asset(rows),
            **{folder / name: text for name, text in documents(report, files).items()},
            **{root / name: text for name, text in pages.items()}}


def figures(report: Report, root: Path = ROOT) -> list[MeasuredRow]:
    """What was measured of each defence and preset: by reports, by counts, and around unchanged networks."""
    folder = root / "results"
    changed = read_reasons(folder / "changed_since.toml")
    rows = rows_of_report(report, changed, source="paper_table.jsonl.gz")
    cells = [(one.key.data, run.records.header) for one in report.entries for run in one.runs]
    if (votes := folder / "votes.jsonl.gz").exists():  # of today's preset, on validation texts
        rows += rows_of_report(measured([votes], changed), changed, source=votes.name)
    rows += counted_rows(folder / "defences.jsonl", root / "experiments", rows)
    rows = with_certificates(rows, folder / "benchmarks.jsonl", dict(data_names(cells)))
    rows.sort(key=lambda row: (row.data, row.encoder, row.name != PLAIN, row.name))
    return [*rows, *hardened_rows(folder / "hardened.jsonl")]


def choice_table(rows: Sequence[MeasuredRow], *, short: bool) -> str:
    """Which defence for me? On its own page with what speaks against the figures."""
    parts = [CAPTION, rendered(choice_rows(rows, short=short)), *footnotes(rows, short=short)]
    if not short:
        parts += [DOUBTS, "\n".join(f"* {one_line(line)}." for line in doubt_lines(rows))]
    return "\n\n".join(parts)


def filled(page: str, text: str, begin: str) -> str:
    """The page with the text between its mark and the next end."""
    before, rest = page.split(begin)
    return f"{before}{begin}\n{text}\n\n{END}{rest.split(END, 1)[1]}"


def main() -> None:
    found = contents()
    if not found:
        raise SystemExit("results has no packed records; make some with 'dualmask pack RUN... --out "
                         "results/paper_table.jsonl.gz'.")
    (ROOT / "results" / PLOTS).mkdir(exist_ok=True)
    for path in (ROOT / "results" / PLOTS).glob("*.svg"):
        path.unlink()  # of data that are no longer there
    for path, text in found.items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
