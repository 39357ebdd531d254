# SPDX-License-Identifier: Apache-2.0
"""The measured table: one report out of all packed records, with a reason for each cell that is not there."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from dualmask.errors import DataError
from dualmask.evaluation.records import Loaded, read_cells
from dualmask.reporting.page import tints_of
from dualmask.reporting.pictures import pictures
from dualmask.reporting.report import Report, build_report
from dualmask.reporting.report_latex import latex
from dualmask.reporting.report_markdown import markdown
from dualmask.reporting.report_tables import rendered
from dualmask.reporting.side_by_side import restoring, short_cautions, short_list, short_rows
from dualmask.system_errors import told_reason

PAGE, TABLES, PLOTS = "README.md", "paper_table.tex", "plots"
KEPT = ("versions", "revision", "hardware", "grid", "encoder")  # of how records were made; settings are in the file
NOTE = (
    "Every figure here is computed from {files} by `make results`, without a GPU; nothing is written by hand but the "
    "reasons for what is missing ([missing.toml](missing.toml)). Records there have no texts: hashes stand for "
    "them, and beside them the words that attacks changed, from which much of a text can be put together. "
    "[docs/evaluation.md](../docs/evaluation.md) says how it was measured, and when not to believe it.")
SHORT = (
    "Accuracy in percent under attacks that ask the defended classifier; the worst case: a text holds only if every "
    "attack failed on it; every attack: also those that know the defence, or see calibrated scores or draws "
    "held still, if any was run. "
    "The plain classifier, ours, and the three rivals that hold best. (n x s) after a figure: "
    "texts and seeds, where they are not its row's; (n redrawn): of votes, what is left if only successes count that "
    "new draws of their noise repeat. {records:,} records; [results](../results/README.md) has all "
    "defences, intervals, paired tests, transfer beside adaptive, what the paper reports, and what is missing.")


@dataclass(frozen=True)
class Reasons:
    """Why cells are missing, by patterns of their names."""

    default: str
    patterns: Mapping[str, str]

    def of(self, name: str, known: str) -> str:
        """What people wrote down, what the run told, or what is usual."""
        bare = name.removesuffix(".jsonl")
        return next((reason for pattern, reason in self.patterns.items() if fnmatchcase(bare, pattern)),
                    known or self.default)


def read_reasons(path: Path) -> Reasons:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        patterns = {str(pattern): str(reason) for pattern, reason in content.get("cells", {}).items()}
        return Reasons(str(content["default"]), patterns)
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise DataError(f"{path} can't be read ({told_reason(error)}); expected TOML with default = \"REASON\" "
                        "and, under [cells], \"PATTERN\" = \"REASON\".") from None


def measured(files: Sequence[Path], reasons: Reasons) -> Report:
    loaded = [read_cells(path) for path in files]
    here = {one.cell.file_name for part in loaded for one in part.cells}
    missing = {name: reasons.of(name, reason) for part in loaded for name, reason in part.missing.items()
               if name not in here}
    report = build_report(Loaded(sorted((one for part in loaded for one in part.cells), key=lambda one: one.cell),
                                 [problem for part in loaded for problem in part.problems], missing,
                                 {name: texts for part in loaded for name, texts in part.short.items()}),
                          title="Measured results")
    return replace(report, about={name: values for name, values in report.about.items() if name in KEPT})


def documents(report: Report, files: Sequence[Path]) -> dict[str, str]:
    """What is written beside the packed records: a page, tables for a paper, plots."""
    drawn = pictures(report, tints_of(report))
    named = {f"{name.replace('.', ', ')}: accuracy under attack against clean accuracy and costs": f"{PLOTS}/{name}.svg"
             for name in drawn}
    note = NOTE.format(files=", ".join(f"[{path.name}]({path.name})" for path in files))
    return {PAGE: markdown(report, note=note, pictures=named), TABLES: latex(report),
            **{f"{PLOTS}/{name}.svg": picture for name, picture in drawn.items()}}


def short_table(report: Report) -> str:
    """Those that hold best, side by side."""
    return "\n\n".join([SHORT.format(records=report.records), rendered(short_rows(report, short_list)),
                        *short_cautions(report, short_list)])


def restoring_table(report: Report) -> str:
    """For the page on ddm-restore."""
    return "\n\n".join([rendered(short_rows(report, restoring)), *short_cautions(report, restoring)])
