# SPDX-License-Identifier: Apache-2.0
"""Texts that a classifier does not read to their end: their figures are about their beginnings."""

from collections.abc import Iterator, Mapping, Sequence

from dualmask.reporting.entries import Entry, Run, training_facts
from dualmask.reporting.findings import Finding, percent, setting

Entries = Sequence[Entry]


def cut_texts(entries: Entries) -> Iterator[Finding]:
    """One note for each classifier on each data; nothing of records that do not tell, as those of before."""
    groups: dict[tuple[str, str, str], list[Entry]] = {}
    for one in entries:
        groups.setdefault((one.key.data, one.key.encoder, one.key.defence), []).append(one)
    for (data, encoder, defence), group in groups.items():
        known = {(run.seed, result.index): result.cut for entry in group for run in entry.runs
                 for result in run.records.results if result.cut is not None}
        if count := sum(known.values()):
            verb = "is" if count == 1 else "are"
            yield Finding("texts cut", "note",
                          f"{defence} ({data}, {encoder}): {percent(count, len(known))} texts {verb} longer than "
                          f"{told_length(group[0].runs[0])}; what lies behind is not read, neither by the classifier "
                          "nor under attack.", tuple(entry.key for entry in group))


def told_length(run: Run) -> str:
    """How much of a text is read, as far as the header says."""
    options, windows = training_facts(run.records.header).get("training"), setting(run, "windows")
    length = options.get("max_length") if isinstance(options, Mapping) else None
    most = windows.get("most") if isinstance(windows, Mapping) else None
    length = windows.get("length", length) if isinstance(windows, Mapping) else length
    tokens = f"{length:,} tokens" if isinstance(length, int) else "tokens"
    return f"the {f'{most} windows of {tokens}' if isinstance(most, int) else tokens} that the classifier reads"
