# SPDX-License-Identifier: Apache-2.0
"""Signs in the headers of records that rows which stand side by side were not trained alike, or not for long enough."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dualmask.options import whole_training
from dualmask.reporting.entries import Entry, Key, defence_options, plain_rows, training_facts
from dualmask.reporting.findings import Finding

Entries = Sequence[Entry]
Options = Mapping[str, object]


class Row(NamedTuple):
    """A classifier of a table, over its seeds."""

    data: str
    encoder: str
    defence: str


def rows(entries: Entries) -> dict[Row, list[Entry]]:
    found: dict[Row, list[Entry]] = {}
    for one in entries:
        found.setdefault(Row(*one.key[:3]), []).append(one)
    return found


def training_options(entries: Entries) -> Options | None:
    """How a row was trained, but for the seed; None where its records do not tell. That of the first seed: whether
    seeds were trained alike is another doubt's."""
    for run in (run for one in entries for run in one.runs):
        if isinstance(told := training_facts(run.records.header).get("training"), Mapping):
            return {name: value for name, value in whole_training(told).items() if name != "seed"}
    return None


def trained_otherwise(entries: Entries) -> Iterator[Finding]:
    """Rows that had other options of training, or of choosing the epoch, than the plain row or, without one, most."""
    told = {row: given for row, group in rows(entries).items() if (given := training_options(group)) is not None}
    plain = plain_rows(entries)
    found: dict[str, dict[str, dict[Row, None]]] = {}  # by data: how, and which rows
    for place in dict.fromkeys(row[:2] for row in told):
        beside = {row: given for row, given in told.items() if row[:2] == place}
        usual = beside.get(Row(*place, plain.get(place, ""))) or commonest(list(beside.values()))
        for row, given in beside.items():
            if how := options_apart(given, usual):
                found.setdefault(row.data, {}).setdefault(how, {})[row] = None
    for data, ways in found.items():
        which = "; ".join(f"{listed(group, of_data(told, data))}: {how}" for how, group in ways.items())
        yield Finding("trained or selected differently", "caution",
                      f"{data}: not all rows were trained, or had their epoch chosen, as the plain row or most others "
                      f"({which}). What such a row gains or loses may come from that, not from its defence.",
                      keys_of(entries, {row for group in ways.values() for row in group}))


def trained_before_corrections(entries: Entries) -> Iterator[Finding]:
    """Rows that would not be trained so any more, by what their records lack."""
    found: dict[str, dict[str, dict[Row, None]]] = {}  # by data: what, and which rows
    for row, group in rows(entries).items():
        for what in corrected_since(group):
            found.setdefault(row.data, {}).setdefault(what, {})[row] = None
    for data, faults in found.items():
        every = [row for row, group in rows(entries).items() if row.data == data and training_options(group)]
        which = "; ".join(f"{listed(group, every)}: {what}" for what, group in faults.items())
        yield Finding("trained before corrections", "caution",
                      f"{data}: rows were trained before faults in training were corrected ({which}). Only training "
                      "them again can tell what that changes.",
                      keys_of(entries, {row for group in faults.values() for row in group}))


def corrected_since(entries: Entries) -> Iterator[str]:
    """Of one row. Which parameters decay was asked for from the day on that `rsmi` was corrected, too."""
    told = [options for one in entries for run in one.runs
            if isinstance(options := training_facts(run.records.header).get("training"), Mapping)]
    methods = {part for one in entries for part in one.method.split("+")}
    if any("decay" not in options for options in told):
        if any(options.get("weight_decay") != 0 for options in told):
            yield "weight decay reached biases and normalisation"
        if "rsmi" in methods:
            yield "dropout had a part in which tokens were masked in training"
    summed = any("averaged" not in defence_options(run.records.header) for one in entries for run in one.runs)
    if "shield" in methods and told and summed:
        yield "experts and their depths were summed, not averaged"


def commonest(given: Sequence[Options]) -> Options:
    counts = Counter(json.dumps(one, sort_keys=True) for one in given)
    return next(one for one in given if json.dumps(one, sort_keys=True) == counts.most_common(1)[0][0])


def options_apart(given: Options, usual: Options) -> str:
    return ", ".join(f"{name} {given.get(name)} in place of {usual.get(name)}"
                     for name in {**usual, **given} if given.get(name) != usual.get(name))


def best_at_the_end(entries: Entries) -> Iterator[Finding]:
    """Rows that were still getting better, by the held-out texts, when their epochs were used up."""
    found: dict[str, dict[Row, str]] = {}
    for row, group in rows(entries).items():
        ends = {run.seed: ended for one in group for run in one.runs
                if (ended := still_rising(training_facts(run.records.header))) is not None}
        if last := [seed for seed, ended in ends.items() if ended]:
            found.setdefault(row.data, {})[row] = f"{len(last)} of {len(ends)} seeds" if len(ends) > 1 else ""
    for data, those in found.items():
        several = several_encoders(of_data(rows(entries), data))
        which = ", ".join(row.defence + in_brackets(row.encoder if several else "", seeds)
                          for row, seeds in those.items())
        yield Finding("best at the last epoch", "caution",
                      f"{data}: {which}: of all epochs the last one allowed was the best on the held-out texts. They "
                      "may not have converged, and longer training may change their figures.",
                      keys_of(entries, set(those)))


def still_rising(facts: Mapping[str, object]) -> bool | None:
    """Whether the epoch that was kept for its figures is the last that there could be; None where nobody chose."""
    options = facts.get("training")
    if not isinstance(options, Mapping) or options.get("keep") == "last" or "best_epoch" not in facts:
        return None
    return bool(facts["best_epoch"] == options.get("epochs"))


def of_data(those: Iterable[Row], data: str) -> list[Row]:
    return [row for row in those if row.data == data]


def several_encoders(those: Iterable[Row]) -> bool:
    return len({row.encoder for row in those}) > 1


def listed(group: Collection[Row], every: Sequence[Row]) -> str:
    """Rows by name, or the few of all that are not among them; with their encoders where there are several."""
    those = set(group)
    rest = [row for row in every if row not in those]
    if len(every) > 1 and len(rest) < len(those) / 4:
        return f"all but {by_encoder(rest, every)}" if rest else "all of them"
    return by_encoder(list(group), every)


def by_encoder(those: Sequence[Row], every: Sequence[Row]) -> str:
    encoders: dict[str, list[str]] = {}
    for row in those:
        encoders.setdefault(row.defence, []).append(row.encoder)
    several = several_encoders(every)
    return ", ".join(name + in_brackets(*(found if several else ())) for name, found in encoders.items())


def in_brackets(*words: str) -> str:
    told = ", ".join(filter(None, words))
    return f" ({told})" if told else ""


def keys_of(entries: Entries, those: set[Row]) -> tuple[Key, ...]:
    return tuple(one.key for one in entries if Row(*one.key[:3]) in those)
