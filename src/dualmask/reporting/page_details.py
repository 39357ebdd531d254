# SPDX-License-Identifier: Apache-2.0
"""What a report's page tells beside its figures: words explained, how the records came about, what is missing."""

from collections.abc import Iterable, Mapping, Sequence

from dualmask.reporting.axes import shown
from dualmask.reporting.entries import Entry, training_facts
from dualmask.reporting.findings import counted
from dualmask.reporting.page_tables import simple_table
from dualmask.reporting.report import Report
from dualmask.reporting.report_tables import IDENTITY, MODE_WORDS, mode_name
from dualmask.reporting.side_by_side import missing_lines

MOST_ROWS = 200  # of a table about settings
GLOSSARY = {
    "CLA, clean accuracy": "The share of texts that the classifier gets right as they are, with the defence switched "
        "on. “CLA off” is the same network and the same texts with the defence switched off.",
    "CAA, accuracy under attack": "The share of all texts that were right before the attack and still are after it. "
        "Texts that were wrong from the start stay wrong. This is the figure that matters.",
    "SUCC, attack success": f"Of the texts that were right before, the share that the attack turned. {IDENTITY}",
    "worst case": "A text counts as held only if every attack failed on it. An adversary picks the attack that works. "
        "It is taken over the texts and training seeds that all these attacks share, which its cell names: there it is "
        "never above a single attack. Columns that stand on other texts may lie below it.",
    "interval": "The share on endlessly many texts of this kind lies in 95 of 100 ranges that are computed so. More "
        "texts make them narrower.",
    "seed": "Training starts from random numbers; several seeds show how much a figure owes to luck.",
    "query": "One text that the attack shows to the classifier to see its answer.",
    "look-alike": "A letter of another alphabet that looks the same, such as the Cyrillic \u0430. Examples show its "
        "number, U+0430.",
    **{f"mode: {mode}": f"{meaning[0].upper()}{meaning[1:]}." for mode, meaning in MODE_WORDS.items()},
    "calibrated scores": "The attack sees probabilities brought to a temperature that fits the classifier's own "
        "certainty. Answers do not change, but an over-confident classifier can no longer hide its doubts.",
    "draws held still": "Of a defence that draws random numbers from the text, the attack also sees what it would say "
        "if they were the same for all texts. Answers do not change, but noise can no longer hide where they lead.",
    "noise: fresh, text": "A defence may draw random numbers: fresh for every answer, or derived from the text, so "
        "that the same text always gets the same answer.",
}


def glossary() -> str:
    items = "".join(f"<div><dt>{shown(word)}</dt><dd>{shown(meaning)}</dd></div>" for word, meaning in GLOSSARY.items())
    return f'<dl class="glossary">{items}</dl>\n'


def provenance(report: Report) -> str:
    """Versions and machines, then every setting that the files of records name."""
    facts = [[name, "; ".join(values)] for name, values in report.about.items() if name != "training"]  # told below
    parts = [simple_table(["fact", "found in the records"], facts, label="Software and machines")] if facts else []
    headers = [(entry.key.defence, run.records.cell, run.records.header)
               for entry in report.entries for run in entry.runs]
    classifiers = unique([name, cell.data, cell.encoder, str(cell.seed), settings(header.get("defence")),
                          told(header, "noise", "passes", "temperature", "threshold"), settings(training_facts(header))]
                         for name, cell, header in headers)
    attacks = unique([cell.attack, cell.mode, str(header.get("preset", "")),
                      told(header, "seed", "samples", "sample_seed", "eot", "draws", "tolerance", "measure"),
                      settings(header.get("options"))] for _, cell, header in headers)
    parts.append(simple_table(["defence", "data", "encoder", "seed", "options", "answers", "training"], classifiers,
                              label="Classifiers"))
    parts.append(simple_table(["attack", "mode", "preset", "run", "options"], attacks, label="Attacks"))
    return "".join(parts)


def unique(rows: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    found = list(dict.fromkeys(map(tuple, rows)))
    more = len(found) - MOST_ROWS
    return [*found[:MOST_ROWS], *([(f"... and {more:,} more",)] if more > 0 else [])]


def settings(value: object) -> str:
    if not isinstance(value, Mapping):
        return "" if value is None else str(value)
    return ", ".join(f"{key} ({settings(item)})" if isinstance(item, Mapping) else f"{key} {short(item)}"
                     for key, item in value.items() if key != "name")


def short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def told(header: Mapping[str, object], *names: str) -> str:
    return ", ".join(f"{name} {short(header[name])}" for name in names if header.get(name) is not None)


def missing(report: Report) -> str:
    """Files that could not be read, cells that are not finished, texts on which something broke down."""
    lines = [f"<li><b>not read</b> {shown(problem)}</li>" for problem in report.problems]
    lines += [f"<li><b>not there</b> {shown(line)}</li>" for line in missing_lines(report)]
    for entry in report.entries:
        lines += [f"<li><b>unfinished</b> {shown(cell_name(entry, run.seed))}: {counted(run.missing, 'text')} to come; "
                  f"figures stand on those that are there.</li>" for run in entry.runs if run.missing]
        if entry.faults:
            reason = next((one.reason for one in entry.results if one.reason), "no reason was written down")
            lines.append(f"<li><b>faults</b> {shown(cell_name(entry))}: {counted(entry.faults, 'text')} left out; the "
                         f"first: {shown(reason[:300])}</li>")
    if not lines:
        return "<p>Nothing: every file could be read and every cell is finished.</p>\n"
    more = len(lines) - MOST_ROWS
    tail = f"<li>... and {more:,} more</li>" if more > 0 else ""
    return f'<ul class="missing">{"".join(lines[:MOST_ROWS])}{tail}</ul>\n'


def cell_name(entry: Entry, seed: int | None = None) -> str:
    return ", ".join([*entry.key[:4], mode_name(entry.key), *([] if seed is None else [f"seed {seed}"])])
