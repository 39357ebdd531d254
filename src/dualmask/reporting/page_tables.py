# SPDX-License-Identifier: Apache-2.0
"""The tables of a report's page: accuracy under attack, paired tests, costs."""

from collections.abc import Iterable, Sequence

from dualmask.reporting.axes import shown
from dualmask.reporting.comparison import PairedTest, listed
from dualmask.reporting.entries import WORST, Share, Worst, headless
from dualmask.reporting.findings import counted
from dualmask.reporting.report import Gap, Line, Report, Table
from dualmask.reporting.report_tables import (
    COST,
    DETECTION,
    UNDEFINED,
    attack_names,
    defence_cost_rows,
    detection_rows,
    mode_words,
    number,
    probability,
    table_title,
)

BETTER, WORSE = "†", "‡"


def main_table(table: Table, cautions: Sequence[str]) -> str:
    """Defences in rows, attacks in columns, with what a paper reports below what was measured."""
    off = any(line.undefended_figure for line in table.lines)
    heads = ["<th scope=\"col\">defence</th>", '<th scope="col">CLA<small>clean, defence on</small></th>']
    heads += [f'<th scope="col">{shown(name)}<small>{"CAA, all attacks" if name == WORST else "CAA"}</small></th>'
              for name in worst_first(table)]
    heads += ['<th scope="col">CLA off<small>clean, defence off</small></th>'] if off else []
    rows = zero_row(table, off=off) if table.zero_by_construction else ""
    rows += "".join(table_row(table, line, off=off) for line in table.lines)
    caption = mode_words(table)
    return scrolling("".join(heads), rows, caption=f"{caption[0].upper()}{caption[1:]}", label=table_title(table),
                     classes="main") + notes(table, cautions)


def worst_first(table: Table) -> list[str]:
    """The column that matters most where it is seen without scrolling."""
    return sorted(table.columns, key=lambda name: name != WORST)


def scrolling(head: str, body: str, *, caption: str, label: str, classes: str) -> str:
    """A table in a box of its own, which scrolls on narrow screens and by keyboard."""
    return (f'<div class="scroll" role="region" tabindex="0" aria-label="{shown(label)}"><table class="{classes}">'
            f"<caption><span>{shown(caption)}</span></caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
            f"</table></div>\n")


def zero_row(table: Table, *, off: bool) -> str:
    """What the plain classifier has by construction, where it was not shown its own texts again."""
    none = '<td><span class="none">not measured</span></td>'
    zeros = "<td>0.0<small>SUCC 100.0</small></td>" * len(table.columns)
    return f'<tr><th scope="row">plain<small>by construction</small></th>{none}{zeros}{none if off else ""}</tr>'


def table_row(table: Table, line: Line, *, off: bool) -> str:
    cells = [f'<th scope="row">{shown(line.defence)}<small>{basis(line)}</small></th>',
             f"<td>{clean_cell(line)}{reported(line.clean_gap)}</td>"]
    for column in worst_first(table):
        entry = line.entries.get(column)
        place = table.place(line.defence, column)
        content = figure(line.robust(column), place=place, sign=dagger(table.tests.get((line.defence, column))))
        if entry is not None and entry.success is not None:
            content += f"<small>SUCC {exact(entry.success)}</small>"
        if (redrawn := line.redrawn(column)) is not None:
            content += f"<small>redrawn {exact(redrawn)}</small>"
        content += reported(line.gaps.get(column)) + short_of(line, column)
        if column == WORST and line.worst is not None:
            content += worst_basis(line, line.worst)
        cells.append(f"<td>{content}</td>")
    if off:
        undefined = f'<span class="none">{UNDEFINED}</span>'
        cells.append(f"<td>{undefined if headless(line.method) else figure(line.undefended_figure)}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def basis(line: Line) -> str:
    return "no texts" if line.clean is None else stands_on(line.clean)


def clean_cell(line: Line) -> str:
    """Clean accuracy; of the whole test part with its texts, and beside it what the attacked texts had."""
    if line.tested is None:
        return figure(line.clean)
    sample = "" if line.clean is None else f"<small>attacked texts {exact(line.clean)}</small>"
    return f"{figure(line.tested)}<small>on {stands_on(line.tested)}</small>{sample}"


def stands_on(share: Share) -> str:
    return f"{counted(share.texts, 'text')}, {counted(share.seeds, 'seed')}"


def exact(share: Share) -> str:
    return f'<data value="{share.mean!r}">{100 * share.mean:.1f}</data>'


def figure(share: Share | None, *, place: int | None = None, sign: str = "") -> str:
    """A share in points with its interval; the best bold, the second underlined."""
    if share is None:
        return '<span class="none">not measured</span>'
    kind = {1: "best", 2: "second"}.get(place or 0, "figure")
    spread = f" ± {100 * share.deviation:.1f}" if share.deviation is not None else ""
    low, high = share.interval
    return (f'<span class="value"><span class="{kind}">{exact(share)}</span>{sign}{spread}</span>'
            f"<small>[{100 * low:.1f}, {100 * high:.1f}]</small>")


def dagger(test: PairedTest | None) -> str:
    if test is None or not test.significant:
        return ""
    sign, word = (BETTER, "better") if test.difference.value > 0 else (WORSE, "worse")
    return f'<sup title="{word} than plain, corrected p {shown(equal_to(test.corrected))}">{sign}</sup>'


def equal_to(p: float) -> str:
    """What follows the letter p."""
    text = probability(p)
    return text if text.startswith("<") else f"= {text}"


def reported(gap: Gap | None) -> str:
    if gap is None:
        return ""
    mark = ' <b class="far" title="outside two deviations or the interval">far off</b>' if gap.far else ""
    older = f'<small class="reported" title="{shown(gap.older)}">older profile</small>' if gap.older else ""
    return (f'<small class="reported">paper {gap.reported:.1f}</small>{older}'
            f'<small class="reported">{gap.difference:+.1f}{mark}</small>')


def worst_basis(line: Line, worst: Worst) -> str:
    """The attacks that it is over, and the texts and seeds that they share."""
    if worst.robust is None:
        return '<small class="warn">no text in common</small>'
    short = line.clean and (worst.robust.texts, worst.robust.seeds) != (line.clean.texts, line.clean.seeds)
    kind = ' class="warn"' if short else ""
    left = f'<small class="warn">without seeds {listed(worst.left_out)}</small>' if worst.left_out else ""
    return (f"<small>of {counted(len(worst.keys), 'attack')}</small>"
            f'<small{kind}>{stands_on(worst.robust)}</small>{left}')


def short_of(line: Line, column: str) -> str:
    """What an attack's cell stands on, where it is not what its row says."""
    entry = line.entries.get(column)
    if entry is None:
        return ""
    parts = []
    if entry.clean and line.clean and entry.clean.mean != line.clean.mean:
        parts.append(f"CLA {100 * entry.clean.mean:.1f}")
    parts += [stands_on(own)] if (own := line.basis(column)) else []
    parts += [f"{entry.missing:,} to come"] if entry.missing else []
    parts += [counted(entry.faults, "fault")] if entry.faults else []
    return f'<small class="warn">{", ".join(parts)}</small>' if parts else ""


def notes(table: Table, cautions: Sequence[str]) -> str:
    """What the signs of a table mean, those that it has."""
    lines = ["All figures are per cent of texts; [brackets] hold the 95 % interval over texts (Wilson)."]
    lines += [f"{shown(told)}." for told in attack_names(table)]
    if any(share.deviation is not None for line in table.lines if (share := line.clean)):
        lines.append("± is the standard deviation over training seeds.")
    if any(line.redrawn(column) for line in table.lines for column in table.columns):
        lines.append("“redrawn”: what is left of a defence whose noise is drawn from the text if a success counts only "
                     "where most answers to new draws are wrong too.")
    if any(table.place(line.defence, column) for line in table.lines for column in table.columns):
        lines.append("The highest of each attack is <b>bold</b>, the second <u>underlined</u>; a difference inside the "
                     "intervals is no ranking.")
    lines += map(shown, cautions)
    if any(test.significant for test in table.tests.values()):
        lines.append(f"{BETTER} better and {WORSE} worse than plain on the same texts (exact paired test, p &lt; 0.05 "
                     "after Holm's correction over this table, and the bootstrap interval over texts and seeds leaves "
                     "out 0).")
    elif table.tests:
        lines.append("No row differs significantly from plain (exact paired tests, Holm's correction).")
    if any(line.gaps or line.clean_gap for line in table.lines):
        where = f" on {shown(table.similar_data)}, similar data" if table.similar_data else ""
        rows = ", ".join(f"{line.defence} ({line.origin})" for line in table.lines
                         if line.origin and (line.gaps or line.clean_gap))
        beside = f"; it stands beside {shown(rows)}" if rows else ""
        lines.append(f"“paper” is what the literature reports{where}, with the difference of what was measured{beside}."
                     " “far off” means more than two deviations apart or, with one seed, outside the interval.")
    if any(gap.older for line in table.lines for gap in line.gaps.values()):
        lines.append("“older profile”: that figure was reported when the attack was set otherwise than here, so that "
                     "the two do not compare.")
    return f'<p class="notes">{" ".join(lines)}</p>\n'


def simple_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, label: str) -> str:
    """Text in cells; the first of each row is its head."""
    head = "".join(f'<th scope="col">{shown(name)}</th>' for name in heads)
    body = "".join(f'<tr><th scope="row">{shown(first)}</th>' + "".join(f"<td>{shown(cell)}</td>" for cell in rest)
                   + "</tr>" for first, *rest in rows)
    return scrolling(head, body, caption=label, label=label, classes="plainly")


def narrowed(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Without data and encoder where these are the same in all rows, as the page's beginning tells."""
    heads, *body = rows
    kept = [place for place, name in enumerate(heads)
            if name not in ("data", "encoder") or len({row[place] for row in body}) > 1]
    return [[row[place] for place in kept] for row in rows]


def paired_table(table: Table) -> str:
    """Every comparison with plain that was made, and why others were not."""
    rows = []
    for (defence, column), test in table.tests.items():
        low, high = test.difference.interval
        rows.append([defence, column, f"{100 * test.difference.value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]",
                     probability(test.p), probability(test.corrected), "yes" if test.significant else "no",
                     f"{test.only_one:,} : {test.only_other:,}", f"{test.texts:,}", str(test.seeds)])
    found = simple_table(
        ["defence", "attack", "points above plain", "p", "corrected", "significant", "only it held : only plain held",
         "texts", "seeds"], rows, label=f"Paired tests against plain, {table_title(table)}") if rows else ""
    items = "".join(f"<li>{shown(', '.join(map(' under '.join, places)))}: {shown(reason)}.</li>"
                    for reason, places in table.reasons.items())
    return found + (f'<p class="notes">Not tested:</p><ul class="notes">{items}</ul>\n' if items else "")


def cost_table(table: Table) -> str:
    """What the attacks asked, changed and took."""
    rows = []
    for line in table.lines:
        for name in table.attacks:
            if (entry := line.entries.get(name)) is not None:
                rows.append([line.defence, name, number(entry.queries, ",.1f"), number(entry.rows, ",.1f"),
                             number(entry.changed, ".1%"), number(entry.similarity, ".3f"),
                             number(entry.seconds, ",.2f"), f"{entry.attacked:,}", f"{entry.succeeded:,}",
                             f"{entry.faults:,}", f"{entry.missing:,}"])
    return simple_table(
        ["defence", "attack", "queries", "texts read", "words changed", "similarity", "seconds", "attacked",
         "succeeded", "faults", "to come"], rows,
        label=f"What attacks cost, {table_title(table)}: queries, texts read and seconds per attacked text; words "
              "changed and similarity over successes")


def defence_cost_table(report: Report) -> str:
    """What defences cost."""
    heads, *rows = narrowed(defence_cost_rows(report))
    return f'<p class="notes">{shown(COST)}</p>\n' + simple_table(heads, rows, label="What defences cost")


def detection_table(report: Report) -> str:
    """What detectors flagged."""
    heads, *rows = narrowed(detection_rows(report))
    return f'<p class="notes">{shown(DETECTION)}</p>\n' + simple_table(
        heads, rows, label="Detectors, in per cent; [brackets] hold the 95 % interval over texts (Wilson)")
