# SPDX-License-Identifier: Apache-2.0
"""A report's tables as rows of texts, the names first: for Markdown, LaTeX, pages and terminals."""

from collections.abc import Iterator, Mapping, Sequence

from dualmask.evaluation.records import SCORE_WORDS, Mode
from dualmask.evaluation.statistics import Spread
from dualmask.reporting.comparison import PairedTest, listed
from dualmask.reporting.entries import WORST, Entry, Key, Share, headless
from dualmask.reporting.report import CLEAN, Gap, Line, Report, Table
from dualmask.text.markdown import one_line, table_cell

NOTHING, UNDEFINED = "-", "not defined"
ATTACKED, BEFORE = "CLA, attacked texts", "before attack"  # columns of the sample's own clean accuracy
MODE_WORDS: Mapping[Mode, str] = {
    "adaptive": "the attack asks the defended classifier itself",
    "transfer": "texts made against the plain classifier, then shown to the defended one, which flatters many defences",
    "transfer-successful": "of the texts made against the plain classifier only those that fooled it, so that its own "
                           "accuracy is 0 by construction",
    "defence-aware": "the attack asks the defended classifier itself and knows how the defence works",
}
IDENTITY = ("In every file of records CAA = CLA (1 - SUCC) exactly; means over seeds, and a CLA that its row has from "
            "the whole test part or another attack's texts, may differ from it.")
SETTINGS = {
    "preset": "Preset", "samples": "Texts drawn", "sample_seed": "Seed of the draw", "seed": "Seed of the attack",
    "passes": "Forward passes for a prediction", "noise": "Noise", "eot": "Draws that the attack averages over",
    "draws": "Draws that verify a success", "temperature": "Temperature of the scores",
}
LEGEND = (
    "CLA: accuracy on clean texts, the defence on; of the whole test part where the classifier knows it, and beside it "
    "that of the attacked texts, which accuracies under attack stand on. CAA: accuracy under attack; a text that was "
    "wrong from the start "
    "counts as wrong. SUCC: share of the texts that were right which the attack flipped. " + IDENTITY + " Worst "
    "case: a text holds only if every attack failed on it, over the texts and seeds that all of them share. (n x s) "
    "after a figure: the texts and seeds that it stands on, where they are not its row's, and always for the worst "
    "case. (n redrawn): of a defence whose noise is drawn from the text, what is left if a success counts only where "
    "most answers to new draws are wrong too, as for somebody who shows the attack's texts to another copy. ± is the "
    "standard deviation over training seeds, [ ] "
    "Wilson's 95 % interval over the texts of one seed (more seeds add no texts). † differs from plain on the same "
    "texts and seeds, a row of one seed from plain's same one: exact paired test over texts (McNemar's for one seed), "
    "Holm's correction over the table, p < 0.05, and the 95 % bootstrap interval over texts and seeds leaves out 0. "
    "**Bold** is the highest of a column; within the intervals that is no ranking.")

COST = ("Training is counted in texts through the whole network for each training text and epoch, those of attacks "
        "before an epoch included and validation not; the plain way takes one forward and one back. Seconds and memory "
        "are of the device that is named, and compare on that one only; memory is the GPU's while training or, on a "
        "CPU, the most that the whole process ever took. An answer's time is that of all test texts in large batches, "
        "the defence on; 'x plain' compares with the plain classifier on the same device. It is measured once, and "
        "where several processes share a device it may be off by half: small ratios are no ranking.")
DETECTION = (
    "These defences give each text a score of suspicion and flag it above a threshold. Positives are the attack's last "
    "words for the texts that it changed, whether they succeeded or not; in the mode transfer-successful that is those "
    "which fooled the plain classifier, as detectors are usually measured. Negatives are the texts before the attack. "
    "AUROC: how often an adversarial text is more suspicious than a clean one, equal scores counted half. F1 is for as "
    "many adversarial as clean texts. Restored accuracy is CAA: of the answers after detection and restoring. 'Flagged "
    "as defended' also counts successes that were flagged, and no cost of false alarms. An attack that asks the "
    "classifier stops at a wrong answer, flagged or not, and does not try to stay unseen.")


def number(value: float | None, form: str = ".1f") -> str:
    return NOTHING if value is None else format(value, form)


def figure(share: Share | None, *, interval: bool = True) -> str:
    """In points: mean, deviation, interval."""
    if share is None:
        return NOTHING
    deviation = f" ± {100 * share.deviation:.1f}" if share.deviation is not None else ""
    bounds = f" [{100 * share.interval.low:.1f}, {100 * share.interval.high:.1f}]" if interval else ""
    return f"{100 * share.mean:.1f}{deviation}{bounds}"


def probability(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def mode_name(table: Table | Key) -> str:
    return table.mode + (f", {words}" if (words := SCORE_WORDS[table.scores]) else "")


def mode_words(table: Table) -> str:
    return MODE_WORDS[table.mode] + (f", and sees {words}" if (words := SCORE_WORDS[table.scores]) else "")


def table_title(table: Table) -> str:
    return f"{table.data}, {table.encoder}: {mode_name(table)}"


def behind(share: Share | None) -> str:
    """What a figure stands on."""
    return "no texts" if share is None else f"{share.texts} x {share.seeds}"


def own_basis(line: Line, column: str) -> str:
    """To be read after a figure: its other count, where noise decides, and what it stands on, if not as its row."""
    share, redrawn = line.basis(column), line.redrawn(column)
    return (f" ({100 * redrawn.mean:.1f} redrawn)" if redrawn else "") + (f" ({behind(share)})" if share else "")


def rendered(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns also line up in a terminal."""
    escaped = [[table_cell(cell) for cell in row] for row in rows]
    widths = [max(3, *map(len, column)) for column in zip(*escaped, strict=True)]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
             for row in escaped]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def cautions(report: Report, table: Table) -> list[str]:
    """What is to be read beside a table's highest figures, and beside rows that were not made, or not met, alike."""
    told = ", ".join(f"{name} ({why})" for name, why in report.doubted(table).items())
    serious = [f"There are serious doubts about the figures of {told}."] if told else []
    return [*serious, *uneven_lines(report.uneven(table.lines))]


def uneven_lines(uneven: Mapping[str, Sequence[str]], *, of: str = "") -> Iterator[str]:
    """Of one table, or of the data that are told."""
    if uneven:
        told = "; ".join(f"{name}: {', '.join(rows)}" for name, rows in uneven.items())
        yield f"Not all rows{f' of {of}' if of else ''} compare as they stand ({told})."


def settings_line(table: Table) -> Iterator[str]:
    """What the headers say of how the attacks were run; where rows differ, each value with its rows."""
    told = []
    for name, words in SETTINGS.items():
        found: dict[str, dict[str, None]] = {}
        for line in table.lines:
            for run in (run for one in line.entries.values() for run in one.runs):
                if run.records.header.get(name) is not None:
                    found.setdefault(str(run.records.header[name]), {})[line.defence] = None
        if found:
            told.append(f"{words}: " + "; ".join(
                value + (f" ({', '.join(names)})" if len(found) > 1 else "") for value, names in found.items()))
    told += attack_names(table)
    if told:
        yield one_line("Settings. " + ". ".join(told) + ".")


def attack_names(table: Table) -> list[str]:
    """What a column's name stands for, where it is not an attack as its preset has it, or one of the table's own."""
    told: dict[str, None] = {}
    if table.mode == "defence-aware" and WORST in table.columns:
        told["The worst case is over these and the ordinary attacks that ask the defended classifier"] = None
    for one in (one for line in table.lines for one in line.entries.values()):
        header = one.runs[0].records.header
        name, changed = str(header.get("attack") or one.key.attack), header.get("changed")
        options = [f"{key} {value}" for key, value in changed.items()] if isinstance(changed, Mapping) else []
        options += [f"preset {header['preset']}"] if header.get("preset") else []
        if changed or name != one.key.attack:
            told[f"{one.key.attack} is {name}" + (f" with {', '.join(options)}" if options else "")] = None
    return list(told)


def main_rows(table: Table) -> list[list[str]]:
    both = any(line.tested for line in table.lines)
    rows = [["defence", "CLA", "CLA, defence off", *([ATTACKED] if both else []), *table.columns]]
    if table.zero_by_construction:
        rows.append(["plain (by construction)", NOTHING, NOTHING, *("0.0" for _ in table.columns)])
    return rows + [[line.defence, clean_cell(line), undefended(line), *([figure(line.clean)] if both else []),
                    *(main_cell(table, line, column) for column in table.columns)] for line in table.lines]


def clean_cell(line: Line, *, interval: bool = True) -> str:
    """Clean accuracy and, where they are not its row's, the texts and seeds that it stands on."""
    return figure(line.clean_figure, interval=interval) + own_basis(line, CLEAN)


def undefended(line: Line) -> str:
    """Accuracy with the defence off, or why there is none."""
    return UNDEFINED if headless(line.method) else figure(line.undefended_figure, interval=False)


def main_cell(table: Table, line: Line, column: str) -> str:
    text = figure(line.robust(column))
    test = table.tests.get((line.defence, column))
    return (f"**{text}**" if table.place(line.defence, column) == 1 else text) + (
        " †" if test and test.significant else "") + own_basis(line, column)


def detail_rows(table: Table) -> list[list[str]]:
    rows = [["defence", "attack", "CLA", "SUCC", "texts x seeds", "queries (read)", "words changed %", "similarity",
             "s a text", "faults", "missing", "against plain", "p (Holm)"]]
    for line in table.lines:
        rows += [detail_row(one, table.tests.get((line.defence, attack))) for attack, one in line.entries.items()]
        if line.worst:
            left = f", without seeds {listed(line.worst.left_out)}" if line.worst.left_out else ""
            rows.append([line.defence, WORST, figure(line.worst.clean), NOTHING, behind(line.worst.robust) + left,
                         *[NOTHING] * 6, *test_cells(table.tests.get((line.defence, WORST)))])
    return rows


def detail_row(one: Entry, test: PairedTest | None) -> list[str]:
    changed = None if one.changed is None else 100 * one.changed
    return [one.key.defence, one.key.attack, figure(one.clean), figure(one.success), behind(one.robust),
            NOTHING if one.queries is None else f"{one.queries:.0f} ({number(one.rows, '.0f')})", number(changed),
            number(one.similarity, ".2f"), number(one.seconds, ".2f"), str(one.faults), str(one.missing),
            *test_cells(test)]


def test_cells(test: PairedTest | None) -> list[str]:
    if test is None:
        return [NOTHING, NOTHING]
    value, (low, high) = test.difference
    return [f"{100 * value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}] on {test.texts} x {test.seeds}",
            probability(test.corrected)]


def reported_rows(report: Report) -> list[list[str]]:
    """Every measured figure that has a reported one."""
    rows = [["data", "encoder", "mode", "defence", "figure", "reported", "measured", "difference", ""]]
    for table in report.tables:
        data = f"{table.data} (reported: {table.similar_data}, other texts)" if table.similar_data else table.data
        for line in table.lines:
            name_of_row = f"{line.defence} ({line.origin})" if line.origin else line.defence
            found: list[tuple[str, Gap | None, Share | None]] = [("CLA", line.clean_gap, line.clean_figure)]
            found += [(f"CAA {attack}", gap, line.entries[attack].robust) for attack, gap in line.gaps.items()]
            rows += [[data, table.encoder, mode_name(table), name_of_row, name, f"{gap.reported:.1f}", figure(share),
                      f"{gap.difference:+.1f}", ", ".join([*(["far"] if gap.far else []),
                                                           *(["older profile"] if gap.older else [])])]
                     for name, gap, share in found if gap]
    return rows


def detection_rows(report: Report) -> list[list[str]]:
    """Every attack on a detector; names in the first row."""
    rows = [["defence", "attack", "mode", "data", "encoder", "F1", "AUROC", "adversarial flagged", "clean flagged",
             "restored accuracy", "CAA, flagged as defended", "adversarial", "clean", "seeds"]]
    for one in report.detections:
        key = one.key
        rows.append([key.defence, key.attack, mode_name(key), key.data, key.encoder, averaged(one.f1),
                     averaged(one.auroc), figure(one.detected), figure(one.false_alarms), figure(one.restored),
                     figure(one.or_flagged), *(f"{count:,}" for count in one.texts), str(len(one.runs))])
    return rows


def defence_cost_rows(report: Report) -> list[list[str]]:
    """Every classifier, what it costs against plain, and what it withstands; names in the first row."""
    rows = [["data", "encoder", "defence", "passes for an answer", "texts forward", "texts backward",
             "seconds an epoch", "seconds in all", "x plain", "ms an answer", "x plain", "peak memory, MB",
             "worst case, adaptive", "trained on"]]
    plain = {(table.data, table.encoder): table.plain for table in report.tables}
    usual = {(one.data, one.encoder): one for one in report.costs if one.defence == plain.get((one.data, one.encoder))}
    held = {(one.data, one.encoder, one.defence): one.robust for one in report.worst if one.scope == "adaptive"}
    for one in report.costs:
        beside = usual.get((one.data, one.encoder))
        same = beside if beside and beside.hardware == one.hardware else None
        rows.append([
            one.data, one.encoder, one.defence, one.passes or NOTHING, number(one.forwards, ".2f"),
            number(one.backwards, ".2f"), number(one.seconds, ",.1f"), number(one.whole, ",.0f"),
            ratio(one.whole, same.whole if same else None, ".2f"), number(one.answer, ",.2f"),
            ratio(one.answer, same.answer if same else None, ".1f"), number(one.megabytes, ",.0f"),
            figure(held.get((one.data, one.encoder, one.defence))), one.hardware or NOTHING])
    return rows


def ratio(value: float | None, base: float | None, form: str) -> str:
    return NOTHING if value is None or not base else format(value / base, form)


def averaged(found: Spread | None) -> str:
    """In points: mean and deviation over seeds."""
    if found is None:
        return NOTHING
    return f"{100 * found.mean:.1f}" + (f" ± {100 * found.deviation:.1f}" if found.deviation is not None else "")


def headline(report: Report) -> list[list[str]]:
    """The few columns that a person understands: for each mode and defence the accuracies; names in the first row."""
    attacks = sorted({attack for table in report.tables for attack in table.attacks})
    several = len({(table.data, table.encoder) for table in report.tables}) > 1
    place = ["data", "encoder"] if several else []
    last = [WORST] if any(WORST in table.columns for table in report.tables) else []
    both = any(line.tested for table in report.tables for line in table.lines)
    rows = [[*place, "mode", "defence", "clean", *([BEFORE] if both else []), *attacks, *last, "texts x seeds"]]
    for table in report.tables:
        for line in table.lines:
            cells = [figure(line.robust(column), interval=False) + own_basis(line, column)
                     for column in (*attacks, *last)]
            rows.append([*([table.data, table.encoder] if several else []), mode_name(table), line.defence,
                         clean_cell(line, interval=False),
                         *([figure(line.clean, interval=False)] if both else []), *cells, behind(line.clean)])
    return rows
