# SPDX-License-Identifier: Apache-2.0
"""The tables of a report's page: accuracy under attack, paired tests, costs."""

from collections.abc import Iterable, Sequence

from dualmask.reporting.axes import attribute, shown
from dualmask.reporting.comparison import PairedTest
from dualmask.reporting.entries import WORST, Entry, Share
from dualmask.reporting.report import Gap, Line, Table

BETTER, WORSE = "†", "‡"
MODES = {
    "adaptive": "attacks that ask the defended classifier",
    "transfer": "texts made against the plain classifier, then shown to the defended one",
    "transfer-successful": "only texts that fooled the plain classifier, shown to the defended one",
    "defence-aware": "attacks that know how the defence works",
}


def table_title(table: Table) -> str:
    scores = ", calibrated scores" if table.scores == "calibrated" else ""
    return f"{table.data}, {table.encoder}: {table.mode}{scores}"


def main_table(table: Table) -> str:
    """Defences in rows, attacks in columns, with what a paper reports below what was measured."""
    off = any(line.undefended for line in table.lines)
    heads = ["<th scope=\"col\">defence</th>", '<th scope="col">CLA<small>clean, defence on</small></th>']
    heads += [f'<th scope="col">{shown(name)}<small>{"CAA, all attacks" if name == WORST else "CAA"}</small></th>'
              for name in worst_first(table)]
    heads += ['<th scope="col">CLA off<small>clean, defence off</small></th>'] if off else []
    rows = "".join(table_row(table, line, off=off) for line in table.lines)
    caption = MODES[table.mode]
    return scrolling("".join(heads), rows, caption=f"{caption[0].upper()}{caption[1:]}", label=table_title(table),
                     classes="main") + notes(table)


def worst_first(table: Table) -> list[str]:
    """The column that matters most where it is seen without scrolling."""
    return sorted(table.columns, key=lambda name: name != WORST)


def scrolling(head: str, body: str, *, caption: str, label: str, classes: str) -> str:
    """A table in a box of its own, which scrolls on narrow screens and by keyboard."""
    return (f'<div class="scroll" role="region" tabindex="0" aria-label="{attribute(label)}"><table class="{classes}">'
            f"<caption><span>{shown(caption)}</span></caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
            f"</table></div>\n")


def table_row(table: Table, line: Line, *, off: bool) -> str:
    cells = [f'<th scope="row">{shown(line.defence)}<small>{basis(line)}</small></th>',
             f"<td>{figure(line.clean)}{reported(line.clean_gap)}</td>"]
    for column in worst_first(table):
        entry = line.entries.get(column)
        place = table.place(line.defence, column)
        content = figure(line.robust(column), place=place, sign=dagger(table.tests.get((line.defence, column))))
        if entry is not None and entry.success is not None:
            content += f"<small>SUCC {exact(entry.success)}</small>"
        content += reported(line.gaps.get(column)) + short_of(line, entry)
        if column == WORST and line.worst is not None:
            content += f"<small>of {counted(len(line.worst.keys), 'attack')}</small>"
        cells.append(f"<td>{content}</td>")
    cells += [f"<td>{figure(line.undefended)}</td>"] if off else []
    return f"<tr>{''.join(cells)}</tr>"


def basis(line: Line) -> str:
    return "no texts" if line.clean is None else stands_on(line.clean)


def stands_on(share: Share) -> str:
    return f"{counted(share.texts, 'text')}, {counted(share.seeds, 'seed')}"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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
    return f'<sup title="{word} than plain, corrected p = {p_value(test.corrected)}">{sign}</sup>'


def p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def reported(gap: Gap | None) -> str:
    if gap is None:
        return ""
    mark = ' <b class="far" title="outside two deviations or the interval">far off</b>' if gap.far else ""
    return (f'<small class="reported">paper {gap.reported:.1f}</small>'
            f'<small class="reported">{gap.difference:+.1f}{mark}</small>')


def short_of(line: Line, entry: Entry | None) -> str:
    """What this cell stands on, where it is not what its row says."""
    if entry is None:
        return ""
    parts = []
    if entry.robust and line.clean and (entry.robust.texts, entry.robust.seeds) != (line.clean.texts, line.clean.seeds):
        parts.append(stands_on(entry.robust))
    parts += [f"{entry.missing:,} to come"] if entry.missing else []
    parts += [counted(entry.faults, "fault")] if entry.faults else []
    return f'<small class="warn">{", ".join(parts)}</small>' if parts else ""


def notes(table: Table) -> str:
    """What the signs of a table mean, those that it has."""
    lines = ["All figures are per cent of texts; [brackets] hold the 95 % interval over texts (Wilson)."]
    if any(share.deviation is not None for line in table.lines if (share := line.clean)):
        lines.append("± is the standard deviation over training seeds.")
    if any(table.place(line.defence, column) for line in table.lines for column in table.columns):
        lines.append("The best of each attack is <b>bold</b>, the second <u>underlined</u>; a difference inside the "
                     "intervals is no ranking.")
    if any(test.significant for test in table.tests.values()):
        lines.append(f"{BETTER} better and {WORSE} worse than plain on the same texts (exact paired test, p &lt; 0.05 "
                     "after Holm's correction over this table).")
    elif table.tests:
        lines.append("No row differs significantly from plain (exact paired tests, Holm's correction).")
    if any(line.gaps or line.clean_gap for line in table.lines):
        where = f" on {shown(table.similar_data)}, similar data" if table.similar_data else ""
        lines.append(f"“paper” is what the literature reports{where}, with the difference of what was measured; "
                     "“far off” means more than two deviations apart or, with one seed, outside the interval.")
    return f'<p class="notes">{" ".join(lines)}</p>\n'


def simple_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, label: str) -> str:
    """Text in cells; the first of each row is its head."""
    head = "".join(f'<th scope="col">{shown(name)}</th>' for name in heads)
    body = "".join(f'<tr><th scope="row">{shown(first)}</th>' + "".join(f"<td>{shown(cell)}</td>" for cell in rest)
                   + "</tr>" for first, *rest in rows)
    return scrolling(head, body, caption=label, label=label, classes="plainly")


def paired_table(table: Table) -> str:
    """Every comparison with plain that was made, and why others were not."""
    rows = []
    for (defence, column), test in table.tests.items():
        low, high = test.difference.interval
        rows.append([defence, column, f"{100 * test.difference.value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]",
                     p_value(test.p), p_value(test.corrected), "yes" if test.significant else "no",
                     f"{test.only_one:,} : {test.only_other:,}", f"{test.texts:,}", str(test.seeds)])
    found = simple_table(
        ["defence", "attack", "points above plain", "p", "corrected", "significant", "only it held : only plain held",
         "texts", "seeds"], rows, label=f"Paired tests against plain, {table_title(table)}") if rows else ""
    reasons: dict[str, list[str]] = {}
    for (defence, column), reason in table.untested.items():
        reasons.setdefault(reason, []).append(f"{defence} under {column}")
    items = "".join(f"<li>{shown(', '.join(names))}: {shown(reason)}.</li>" for reason, names in reasons.items())
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


def number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
