# SPDX-License-Identifier: Apache-2.0
"""Write what follows from the packed records in results: results/README.md, LaTeX, plots, tables in other pages.

    dualmask pack RUN... --words --out results/paper_table.jsonl.gz
    python tools/results_page.py        (or: make results)

No model is loaded and nothing is measured. The same records give the same bytes; a test compares them.
"""

from collections.abc import Callable
from pathlib import Path

from dualmask.evaluation.records import PACKED
from dualmask.reporting.measured import PLOTS, documents, measured, read_reasons, restoring_table, short_table
from dualmask.reporting.report import Report
from dualmask.results import read_header

ROOT = Path(__file__).parents[1]
TABLES: dict[str, Callable[[Report], str]] = {"docs/measured.md": short_table, "docs/restore.md": restoring_table}
BEGIN, END = "<!-- written by make results -->\n", "<!-- up to here -->\n"


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
    return {**{folder / name: text for name, text in documents(report, files).items()},
            **{root / name: filled(root / name, table(report)) for name, table in TABLES.items()}}


def filled(page: Path, table: str) -> str:
    """The page with the table between its marks."""
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    return f"{before}{BEGIN}\n{table}\n\n{END}{rest.split(END)[1]}"


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
