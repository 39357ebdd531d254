# SPDX-License-Identifier: Apache-2.0
"""A report's tables for a paper, in LaTeX."""

import re
from collections.abc import Iterator, Sequence

from dualmask.reporting.entries import WORST, Share
from dualmask.reporting.report import CLEAN, Line, Report, Table, rank
from dualmask.reporting.report_tables import (
    DETECTION,
    attack_names,
    cautions,
    detection_rows,
    mode_name,
    mode_words,
    reported_rows,
)

PREAMBLE = ("% Put \\usepackage{booktabs} and \\usepackage{graphicx} into the preamble. Names with letters beyond "
            "Latin ones need\n% lualatex or xelatex and a font that has them.")
MARKS = {1: r"\textbf", 2: r"\underline"}
SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "±": r"$\pm$",
    "<": r"$<$", ">": r"$>$", "|": r"$|$", '"': "''",
}
READING = ("CLA, accuracy on clean texts with the defence on, of the whole test part where it is known; CAA, accuracy "
           "under attack; SUCC, share of the right "
           "texts that the attack flips. Bold is the best figure of a column, underlined the second best. Worst case: "
           "a text holds only if every attack failed on it. Texts x seeds that a figure stands on are in brackets "
           "where they are not its row's, and always for the worst case. Small, in square brackets: what is left of a "
           "defence that draws if only successes count that most new draws repeat")
TESTED = (r"$^\dagger$ differs from plain on the same texts (exact paired test over texts, Holm's correction over the "
          "table, $p < 0.05$; the bootstrap interval over texts and seeds leaves out 0)")


def escaped(text: str) -> str:
    """Names and sentences as LaTeX prints them."""
    plain = re.sub(r"[\x00-\x1f\x7f]", " ", text)  # a form feed would end a paragraph, and a caption with it
    return re.sub("|".join(map(re.escape, SPECIAL)), lambda found: SPECIAL[found[0]], plain).replace("--", "-{}-")


def latex(report: Report) -> str:
    """All tables: best bold, second underlined, a dagger where a test against plain found a difference."""
    parts = [PREAMBLE, *(latex_table(table, number, cautions(report, table))
                         for number, table in enumerate(report.tables, start=1))]
    parts += listing(detection_rows(report), "lllll" + "r" * 9, f"Detection. {DETECTION}", label="tab:detection")
    parts += listing(reported_rows(report), "lllllrlrl",
                     f"Reported beside measured. {report.caution} Source: {report.reported.source}.",
                     label="tab:reported")
    return "\n\n".join(parts) + "\n"


def listing(rows: Sequence[Sequence[str]], columns: str, caption: str, *, label: str) -> list[str]:
    """A table of texts below the names in its first row; none where there is nothing to list."""
    names, *body = [[escaped(cell) for cell in row] for row in rows]
    return [floated(columns, [joined(names)], map(joined, body), caption=escaped(caption), label=label)] if body else []


def latex_table(table: Table, number: int, cautions: Sequence[str]) -> str:
    worst = WORST in table.columns
    names = [rf"\multicolumn{{2}}{{c}}{{{escaped(attack)}}}" for attack in table.attacks]
    rules = "".join(rf"\cmidrule(lr){{{2 * place + 3}-{2 * place + 4}}}" for place in range(len(table.attacks)))
    heads = [joined(["", "", *names, *(["worst case"] if worst else [])]) + rules,
             joined(["defence", "CLA", *(r"CAA & SUCC" for _ in table.attacks), *(["CAA"] if worst else [])])]
    label = re.sub(r"[^a-z0-9]+", "-", f"{number} {table.data} {table.encoder} {mode_name(table)}".lower()).strip("-")
    return floated("lr" + "rr" * len(table.attacks) + "r" * worst, heads, map(joined, lines(table)),
                   caption=caption(table, cautions), label=f"tab:{label}")


def caption(table: Table, cautions: Sequence[str]) -> str:
    shares = [share for line in table.lines for column in table.columns if (share := line.robust(column))]
    widest = max((share.interval.high - share.interval.low for share in shares), default=0.0)
    about = f"{table.data}, {table.encoder}, {mode_name(table)}: {mode_words(table)}."
    count = f" {behind(shares)}; the intervals over texts (Wilson, 95 %) are at most ±{50 * widest:.1f} points."
    seeds = " Subscripts are standard deviations over seeds." if any(share.seeds > 1 for share in shares) else ""
    names = "".join([*(f" {told}." for told in attack_names(table)), *(f" {told}" for told in cautions)])
    return escaped(f"{about} {READING}.{count}{seeds}{names}") + (f" {TESTED}." if table.tests else "")


def behind(shares: Sequence[Share]) -> str:
    """Texts and seeds that the figures stand on."""
    texts, seeds = ([getattr(share, name) for share in shares] or [0] for name in ("texts", "seeds"))
    told = [str(min(found)) if min(found) == max(found) else f"{min(found)} to {max(found)}"
            for found in (texts, seeds)]
    return f"{told[0]} texts, training seeds: {told[1]}"


def lines(table: Table) -> Iterator[list[str]]:
    if table.zero_by_construction:
        yield ["plain (by construction)", "", *("0.0 & 100.0" for _ in table.attacks)]
    for line in table.lines:
        cells = [f"{accuracy(table, line, attack)} & {success(table, line, attack)}" for attack in table.attacks]
        yield [escaped(line.defence), accuracy(table, line, CLEAN), *cells,
               *([accuracy(table, line, WORST)] if WORST in table.columns else [])]


def success(table: Table, line: Line, attack: str) -> str:
    """The lower, the better."""
    found = {one.defence: one.entries[attack].success for one in table.lines if attack in one.entries}
    return value(found.get(line.defence),
                 rank({name: -share.mean for name, share in found.items() if share}, line.defence))


def value(share: Share | None, place: int | None) -> str:
    if share is None:
        return "--"
    shown = f"{100 * share.mean:.1f}"
    deviation = rf"$_{{\pm {100 * share.deviation:.1f}}}$" if share.deviation is not None else ""
    return (f"{MARKS[place]}{{{shown}}}" if place else shown) + deviation


def accuracy(table: Table, line: Line, column: str) -> str:
    test = table.tests.get((line.defence, column))
    shown = value(line.robust(column), table.place(line.defence, column))
    basis, redrawn = line.basis(column), line.redrawn(column)
    noisy = rf" {{\scriptsize[{100 * redrawn.mean:.1f}]}}" if redrawn else ""
    return shown + (r"$^\dagger$" if test and test.significant else "") + noisy + (
        rf" {{\scriptsize({basis.texts} $\times$ {basis.seeds})}}" if basis else "")


def joined(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def floated(columns: str, heads: Sequence[str], rows: Iterator[str], *, caption: str, label: str) -> str:
    """A table float in booktabs' manner, as wide as the page at most."""
    body = [r"\begin{table*}[t]", r"\centering", rf"\caption{{{caption}}}", rf"\label{{{label}}}",
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%", rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule", *heads, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}}", r"\end{table*}"]
    return "\n".join(body)
