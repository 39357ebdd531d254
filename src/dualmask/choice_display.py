# SPDX-License-Identifier: Apache-2.0
"""In the terminal: what was measured of each defence, and which one is recommended against what."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dualmask.choice_tables import (
    HEAD,
    NOT_MEASURED,
    answer_price,
    basis_words,
    beaten_words,
    choice_rows,
    footnotes,
    kept_figures,
    kept_words,
    passes_words,
    shares_of,
    training_price,
)
from dualmask.measured_figures import PLAIN, MeasuredRow, MeasuredShare, find_row, measured_rows
from dualmask.presets import USUAL
from dualmask.recommendations import DATA, ENCODER, WORST, Recommendation

ATTACKS = {"deepwordbug": "deep-\nwordbug", "textbugger": "text-\nbugger", "textfooler": "text-\nfooler"}
ABOUT = (
    "Percent of texts that are answered rightly: clean ones, and those under attacks that ask the defended classifier. "
    "Worst case: a text holds only if every attack tried on it failed. Texts x seeds: attacked texts and training "
    "seeds behind a row; plain stands there once for each, with what it keeps of the same texts; 500 texts tell a "
    "figure to within 4 points, 100 to within 10, 40 to within 16. -: not measured.")
SOURCE = "'make results' wrote these figures from the committed records; results/README.md has intervals and tests."
DOUBTED = ("* not trained, chosen or measured as the others; results/README.md says how. Nearly all rows, the plain "
           "one too, were trained before faults in training were corrected.")
SHARED = "trained before corrections"  # a doubt that nearly all rows share, the plain one too, is not marked
LAST = ("These are small tests of a few data sets. Attack your own model before you rely on it: "
        "dualmask attack MODEL TEST --attack textfooler")


def measured_tables(names: Sequence[str], rows: Sequence[MeasuredRow] | None = None) -> Group:
    """Of every defence of `names` what each of its presets was measured to keep; names without figures say so."""
    known = measured_rows() if rows is None else rows
    trained = [row for row in known if row.trained and (row.data, row.encoder) == (DATA, ENCODER)]
    around = [row for row in known if not row.trained]
    parts: list[RenderableType] = [
        figure_table(f"Measured: {DATA}, encoder {ENCODER}", rows_to_list(names, trained), list(names))]
    for data, encoder in dict.fromkeys((row.data, row.encoder) for row in around):
        found = [row for row in around if (row.data, row.encoder) == (data, encoder)]
        parts.append(Text())
        parts.append(figure_table(f"Measured around an unchanged network: {data}, encoder {encoder}",
                                  rows_to_list([PLAIN, *names], found), []))
    return Group(*parts, Text("\n".join([ABOUT, DOUBTED, SOURCE, ""]), "dim"))


def rows_to_list(names: Iterable[str], rows: Sequence[MeasuredRow]) -> list[MeasuredRow]:
    """One row for each defence and preset that was measured: of several that with the fewest other options."""
    found: dict[tuple[str, str], MeasuredRow] = {}
    for name in dict.fromkeys([*names, *(row.defence for row in rows)]):
        for row in sorted((row for row in rows if row.defence == name), key=lambda row: row.preset != USUAL):
            nearest = find_row(rows, row.defence, row.preset, data=row.data, encoder=row.encoder, trained=row.trained)
            found.setdefault((row.defence, row.preset), nearest or row)
    return list(found.values())


def figure_table(title: str, rows: Sequence[MeasuredRow], names: Sequence[str]) -> Table:
    """Eight columns that fit a screen of 80 characters. names: those that get a row in any case, in this order."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("defence (preset)", overflow="fold")
    for heading in ("clean", *ATTACKS.values(), "worst\ncase", "texts x\nseeds", "passes"):
        table.add_column(heading, justify="left" if heading == "passes" else "right", overflow="fold",
                         max_width=9 if heading == "passes" else None)
    rows = [line for row in rows for line in ([row, *plain_rows(rows)] if row.name == PLAIN else [row])]
    measured = {row.defence for row in rows}
    order = [*names, *(name for name in dict.fromkeys(row.defence for row in rows) if name not in names)]
    for name in order:
        for row in (row for row in rows if row.defence == name):
            table.add_row(*figure_cells(row))
        if name not in measured:
            table.add_row(Text(name, "bold"), *["-"] * (len(table.columns) - 1))
    return table


def plain_rows(rows: Sequence[MeasuredRow]) -> list[MeasuredRow]:
    """Plain once more for each other number of texts and seeds that rows stand on: what it keeps of theirs."""
    own = {basis_of(row) for row in rows if row.name == PLAIN}
    places = sorted({basis_of(row) for row in rows} - own - {(0, 0)}, reverse=True)
    found = (plain_row([row for row in rows if basis_of(row) == place], place) for place in places)
    return [row for row in found if row.clean or row.attacks or row.worst]


def plain_row(rows: Sequence[MeasuredRow], place: tuple[int, int]) -> MeasuredRow:
    """By what tests of these rows found of it; figures that these do not tell alike are left out."""
    def agreed(shares: Iterable[MeasuredShare | None]) -> MeasuredShare | None:
        found = {share.plain for share in shares if share and share.plain is not None}
        return MeasuredShare(percent=found.pop(), texts=place[0], seeds=place[1]) if len(found) == 1 else None

    attacks = {attack: share for attack in ATTACKS if (share := agreed(row.attacks.get(attack) for row in rows))}
    return replace(rows[0], name=PLAIN, defence=PLAIN, preset=USUAL, changes={}, doubts=(), passes="1",
                   clean=agreed(row.clean for row in rows), attacks=attacks, worst=agreed(row.worst for row in rows))


def basis_of(row: MeasuredRow) -> tuple[int, int]:
    """Texts and seeds that a row of the list is told to stand on."""
    first = next((share for attack in ATTACKS if (share := row.attacks.get(attack))), row.worst)
    return (first.texts, first.seeds) if first else (0, 0)


def figure_cells(row: MeasuredRow) -> list[RenderableType]:
    shares = [row.clean, *(row.attacks.get(attack) for attack in ATTACKS), row.worst]
    behind = [one.basis for one in shares[1:] if one]
    mark = "*" if any(doubt != SHARED for doubt in row.doubts) else ""
    return [Text(row.name + mark, "bold"), *map(shown, shares), behind[0] if behind else "-", row.passes or "-"]


def shown(share: MeasuredShare | None) -> str:
    return "-" if share is None else share.shown()


# Recommendations


def show_recommendation(console: Console, found: Recommendation) -> None:
    """The commands, why, what it keeps, what it costs, what beats it, and what speaks against the figures."""
    way = "You can train" if found.train else "The network stays as it is, without training"
    console.print(Text.assemble((f"{way}: ", ""), (found.name, "bold")))
    for command in found.commands:
        console.print(Text(f"  {command}", "bold cyan"), soft_wrap=True)  # to be copied whole
    for label, text in told_parts(found):
        console.print(Padding(Text.assemble((f"{label}: ", "bold"), text), (0, 0, 0, 2)))
    console.print()


def told_parts(found: Recommendation) -> Iterator[tuple[str, str]]:
    yield "Why", found.why
    yield "Keeps", " ".join(kept_sentences(found)) or "not measured yet."
    yield "Price", f"training: {training_price(found)}; answers: {answer_price(found)}."
    yield "What beats it", f"{beaten_words(found)}." if found.beaten_by else "not measured yet."
    if found.runner_up and found.kept:
        yield "Next", next_words(found, found.runner_up)
    beware = [*([found.beware] if found.beware else []), *doubt_sentences(found)]
    if beware:
        yield "Beware", " ".join(beware)


def kept_sentences(found: Recommendation) -> Iterator[str]:
    row = found.row
    if row is None:
        return
    if row.certificate:
        proved = ", ".join(f"{share:.1f} for {words}" for words, share in enumerate(row.certificate.certified))
        yield (f"Right and proved, in percent of {row.certificate.texts} texts, by words that may be replaced: "
               f"{proved}.")
    if found.wanted == "detection" and row.flagged:
        flagged = ", ".join(f"{attack} {share.shown()}" for attack, share in row.flagged.items())
        alarms = f", and {row.false_alarms.shown()} of clean texts" if row.false_alarms else ""
        yield f"It flags, in percent of adversarial texts: {flagged}{alarms}."
    if found.clean:
        behind = f", on {found.clean.defended.basis} texts x seeds" if found.clean.same_texts else ", texts x seeds"
        yield f"Clean accuracy, plain -> this: {kept_figures(found.clean)}{behind}."
    if found.kept:
        yield f"Under attack, plain -> this: {', '.join(map(kept_words, found.kept))}."
    if shares := shares_of(found):
        yield f"Attacked: {basis_words(row, shares)}."


def next_words(found: Recommendation, row: MeasuredRow) -> str:
    """What comes next, under the same attacks."""
    shares = {**row.attacks, WORST: row.worst}
    left = [f"{one.attack} {share.shown(basis=True)}" for one in found.kept if (share := shares.get(one.attack))]
    times = "" if row.training_times is None else f"; training {row.training_times:.2f} x plain"
    return f"{row.name} keeps {', '.join(left)}{times}; {passes_words(row.passes)}."


def doubt_sentences(found: Recommendation) -> Iterator[str]:
    if found.row and found.row.doubts:
        yield f"Doubts about these figures (results/README.md has each in full): {'; '.join(found.row.doubts)}."


def choice_blocks() -> Iterator[RenderableType]:
    """The whole table, a block for each row, so that narrow screens lose nothing."""
    yield Text("Which defence for me?\n", "bold")
    for threat, *cells in choice_rows()[1:]:
        yield Text(threat[0].upper() + threat[1:], "bold")
        for heading, cell in zip(HEAD[1:], cells, strict=True):
            yield Padding(Text.assemble((f"{heading}: ", "dim"), cell), (0, 0, 0, 2))
        yield Text()
    yield Text(" ".join(footnotes()).replace("\\", "") + "\n")
    yield Text(f"{NOT_MEASURED}: no committed record tells it. For commands and reasons: dualmask choose --against "
               "misspelling, synonyms, both or any; --train or --no-train, --guarantee, --one-pass, --detect.\n")
