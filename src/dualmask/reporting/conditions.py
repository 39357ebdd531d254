# SPDX-License-Identifier: Apache-2.0
"""Signs that numbers which stand side by side, or are averaged, were not measured alike."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from dualmask.evaluation.records import FITTED, SCORE_WORDS, TEMPERATURES, TRANSFER
from dualmask.options import whole_training
from dualmask.reporting.entries import (
    PLAIN,
    Entry,
    Key,
    Run,
    Worst,
    defence_options,
    encoder_of,
    plain_rows,
    training_facts,
)
from dualmask.reporting.findings import Finding, counted, named, options, setting
from dualmask.text.columns import Text

Entries = Sequence[Entry]
Basis = frozenset[tuple[int, int, str]]  # seed, number and mark of the text of all that was measured
FEW = 0.9  # of the texts: a worst case on fewer is another figure


def tables(entries: Entries) -> Iterator[Entries]:
    """Entries that stand in one table."""
    groups: dict[tuple[str, ...], list[Entry]] = {}
    for one in entries:
        groups.setdefault((one.key.data, one.key.encoder, one.key.mode, one.key.scores), []).append(one)
    yield from groups.values()


def differing(name: str, values: Sequence[object]) -> str:
    """What a setting was, where that is not the same everywhere; of groups of settings only those that differ."""
    if all(value == values[0] for value in values):
        return ""
    if all(isinstance(value, Mapping) for value in values):
        groups = [value for value in values if isinstance(value, Mapping)]
        names = dict.fromkeys(key for group in groups for key in group)
        told = (differing(str(key), [group.get(key) for group in groups]) for key in names)
        return "; ".join(filter(None, told))
    return f"{name}: {' and '.join(dict.fromkeys(map(str, values)))}"


def seeds_differ(entries: Entries) -> Iterator[Finding]:
    """The mean over seeds of one number, whose classifiers, texts or programs are not the same."""
    for one in entries:
        told = [text for name, values in conditions(one.runs).items() if (text := differing(name, values))]
        if told:
            yield Finding("seeds differ", "serious",
                          f"{named(one.key)}: its {len(one.runs)} seeds do not differ in the seed alone "
                          f"({'; '.join(told)}). Their mean is of different things.", (one.key,))


def conditions(runs: Sequence[Run]) -> dict[str, list[object]]:
    """What must be the same for all seeds, run by run, as far as the records tell it."""
    found: dict[str, list[object]] = {"defence": [defence_options(run.records.header) or None for run in runs]}
    for name in ("data", "samples", "sample_seed", "seed", "measure", "noise", "eot", "draws"):
        found[name] = [setting(run, name) for run in runs]
    found["training"] = [{**whole_training(given), "seed": None} for run in runs
                         if isinstance(given := training_facts(run.records.header).get("training"), Mapping)]
    found["dualmask"] = [version_of(run) for run in runs]
    found["encoder"] = [encoder_of(run.records.header) or None for run in runs]
    return {name: values for name, given in found.items() if (values := [one for one in given if one is not None])}


def version_of(run: Run) -> object:
    about = setting(run, "about")
    versions = about.get("versions") if isinstance(about, Mapping) else None
    return setting(run, "dualmask") or (versions.get("dualmask") if isinstance(versions, Mapping) else None)


def basis(entry: Entry) -> Basis:
    return frozenset((run.seed, one.index, run.records.mark_of(one))
                     for run in entry.runs for one in run.records.results)


def encoders_differ(entries: Entries) -> Iterator[Finding]:
    """Rows of one table whose encoder has the same name and is another one."""
    for group in tables(entries):
        found: dict[str, list[Key]] = {}
        for one in group:
            for mark in dict.fromkeys(encoder_of(run.records.header) for run in one.runs):
                found.setdefault(mark, []).append(one.key)
        found.pop("", None)  # records of before, or of other programs, may not tell it
        if len(found) > 1:
            key = group[0].key
            told = "; ".join(f"{mark}: {', '.join(dict.fromkeys(one.defence for one in keys))}"
                             for mark, keys in found.items())
            yield Finding("encoders differ", "serious",
                          f"{key.data}, {key.mode}: more than one encoder goes by the name {key.encoder} ({told}). "
                          "What rows differ by may come from it; give one of them another name.",
                          tuple(one for keys in found.values() for one in keys))


def texts_differ(entries: Entries) -> Iterator[Finding]:
    """Figures of one table on different texts; those that fooled plain are other ones for each attack by nature."""
    for group in tables(entries):
        found = {one.key: basis(one) for one in group if one.robust}
        if group[0].key.mode == "transfer-successful" or len(set(found.values())) < 2:
            continue
        least, most = min(found, key=lambda key: len(found[key])), max(found, key=lambda key: len(found[key]))
        scores = f", {words}" if (words := SCORE_WORDS[most.scores]) else ""
        yield Finding("texts differ", "caution",
                      f"{most.data}, {most.encoder}, {most.mode}{scores}: the figures of this table stand on different "
                      f"texts, from {counts(found[least])} ({least.defence} under {least.attack}) to "
                      f"{counts(found[most])} ({most.defence} under {most.attack}). Columns and rows can't be compared "
                      "figure by figure.",
                      tuple(found))


def counts(found: Basis) -> str:
    texts, seeds = {text for _, text, _ in found}, {seed for seed, _, _ in found}
    return f"{counted(len(texts), 'text')}, {counted(len(seeds), 'seed')}"


def short_worst(entries: Entries, worst: Sequence[Worst]) -> Iterator[Finding]:
    """A worst case over fewer texts or seeds than the attacks that it is taken over."""
    by_key = {one.key: one for one in entries}
    for case in worst:
        largest = max((by_key[key] for key in case.keys),
                      key=lambda one: (one.robust.texts if one.robust else 0, len(one.runs)))
        most, texts = largest.robust.texts if largest.robust else 0, case.robust.texts if case.robust else 0
        if texts < most or case.left_out:
            seeds = f"; seeds that lack an attack were left out ({', '.join(map(str, case.left_out))})" \
                if case.left_out else ""
            yield Finding("worst case on fewer texts", "serious" if texts < FEW * most else "caution",
                          f"{case.defence} ({case.data}, {case.encoder}): the worst of {len(case.keys)} attacks is "
                          f"over the {counted(texts, 'text')} and {counted(len(case.seeds), 'seed')} that all of them "
                          f"have, while {largest.key.attack} alone was measured on {counted(most, 'text')} and "
                          f"{counted(len(largest.runs), 'seed')}"
                          f"{seeds}. It may lie above a single attack.", own_keys(case))


def own_keys(case: Worst) -> tuple[Key, ...]:
    """The entries that stand in a table beside this worst case: ordinary attacks have one of their own."""
    return tuple(key for key in case.keys if case.scope == "adaptive" or key.mode == "defence-aware")


def never_begun(entries: Entries) -> Iterator[Finding]:
    """Defences that act late in training, of classifiers whose training ended before."""
    rows: dict[tuple[str, str, str], list[Entry]] = {}
    for one in entries:
        if any(training_facts(run.records.header).get("ready") is False for run in one.runs):
            rows.setdefault(one.key[:3], []).append(one)
    for (data, encoder, defence), group in rows.items():
        yield Finding("never begun", "serious",
                      f"{defence} ({data}, {encoder}): training ended before the defence had begun, or had begun with "
                      "all it does. These are figures of some other classifier; train it longer, or let it begin "
                      "earlier.", tuple(one.key for one in group))


def several_plain(entries: Entries) -> Iterator[Finding]:
    chosen = plain_rows(entries)
    rows: dict[tuple[str, str], dict[str, None]] = {}
    for one in entries:
        if one.method == PLAIN and one.key[:2] not in chosen:
            rows.setdefault(one.key[:2], {})[one.key.defence] = None
    for (data, encoder), names in rows.items():
        yield Finding("several plain rows", "caution",
                      f"{data}, {encoder}: {', '.join(names)} are classifiers without a defence and none is called "
                      f"'{PLAIN}', so no row was tested against one. Give one of them that name.",
                      tuple(one.key for one in entries if one.key[:2] == (data, encoder) and one.method == PLAIN))


def sources_differ(entries: Entries) -> Iterator[Finding]:
    """Rows of a transfer table that were shown other texts than the first: of another plain classifier."""
    for group in (group for group in tables(entries) if group[0].key.mode in TRANSFER):
        key, first, others = group[0].key, dict[tuple[str, int, int], Text](), list[Key]()
        for one in group:
            shown = {(one.key.attack, run.seed, result.index): result.adversarial for run in one.runs
                     for result in run.records.results if result.adversarial is not None}
            if any(first.setdefault(place, text) != text for place, text in shown.items()):
                others.append(one.key)
        if others:
            names = ", ".join(dict.fromkeys(one.defence for one in others))
            yield Finding("other texts shown", "caution",
                          f"{key.data}, {key.encoder}, {key.mode}: {names} saw other adversarial texts than "
                          f"{key.defence}, made against another training of the plain classifier. Between the two "
                          "groups rows compare only roughly.", tuple(others))


def mixed_presets(entries: Entries) -> Iterator[Finding]:
    for group in tables(entries):
        presets = sorted({str(setting(run, "preset")) for one in group for run in one.runs if setting(run, "preset")})
        if len(presets) > 1:
            key = group[0].key
            yield Finding("presets mixed", "caution",
                          f"{key.data}, {key.encoder}, {key.mode}: the attacks have different presets "
                          f"({', '.join(presets)}); columns of one table follow different rules.",
                          tuple(one.key for one in group))


def other_options(entries: Entries) -> Iterator[Finding]:
    """The same attack with other settings against another row: the rows are not comparable."""
    for group in tables(entries):
        for attack in sorted({one.key.attack for one in group}):
            rows = [one for one in group if one.key.attack == attack]
            kinds = {json.dumps([options(run), setting(run, "preset"), setting(run, "tolerance")], sort_keys=True)
                     for one in rows for run in one.runs}
            if len(kinds) > 1:
                yield Finding("settings differ", "serious",
                              f"{attack} ({rows[0].key.mode}, {rows[0].key.data}, {rows[0].key.encoder}) was run with "
                              f"{len(kinds)} different settings; its rows can't be compared.",
                              tuple(one.key for one in rows))


def temperature_extreme(entries: Entries) -> Iterator[Finding]:
    """Calibrated scores that no temperature of those looked at makes honest."""
    for those, told in calibrated_with(entries, lambda run: temperature(run) in TEMPERATURES):
        yield Finding("temperature at the end of its range", "caution",
                      f"{told}, an end of the range that is looked at ({TEMPERATURES[0]:g} to {TEMPERATURES[1]:g}): "
                      "the right one lies beyond, or it was fitted on other scores than the attack saw. The figures "
                      "are hardly those of calibrated scores.", those)


def temperature_of_others(entries: Entries) -> Iterator[Finding]:
    """Records of before: of votes and draws the temperature was fitted on shares of votes alone, or on one draw."""
    for those, told in calibrated_with(entries, lambda run: setting(run, "temperature_fitted_on") != FITTED and (
            setting(run, "passes") not in (None, "1") or setting(run, "noise") in ("fresh", "text"))):
        yield Finding("temperature of other scores", "caution",
                      f"{told}, fitted on the defence's answers alone, while the attack saw more behind them: the "
                      "probabilities of all views, or a mean of draws. For what it saw another temperature is right; "
                      "measure these cells again.", those)


def calibrated_with(
    entries: Entries, doubtful: Callable[[Run], bool],
) -> Iterator[tuple[tuple[Key, ...], str]]:
    """Classifiers whose temperature in calibrated cells is doubtful: which cells, and how that begins in words."""
    found: dict[tuple[str, str, str], dict[Key, dict[str, None]]] = {}
    for one in entries:
        wrong = [f"{temperature(run):g}" for run in one.runs if doubtful(run)] if one.key.scores == "calibrated" else []
        if wrong:
            found.setdefault(one.key[:3], {})[one.key] = dict.fromkeys(wrong)
    for (data, encoder, defence), those in found.items():
        values = " and ".join(dict.fromkeys(value for group in those.values() for value in group))
        attacks = ", ".join(dict.fromkeys(key.attack for key in those))
        yield tuple(those), (f"{defence} ({data}, {encoder}), calibrated scores, under {attacks}: their temperature is "
                             f"{values}")


def temperature(run: Run) -> float:
    value = setting(run, "temperature")
    return float(value) if isinstance(value, int | float) else 1.0


def stand_ins(entries: Entries) -> Iterator[Finding]:
    """Tools that are not those of the papers."""
    used: dict[str, set[str]] = {}
    for one in entries:
        for run in one.runs:
            given = options(run)
            own = [f"this library's own {name.replace('_', ' ')}" for name in given if given[name] == "shipped"]
            if given.get("sentence_encoder") == "minilm" and (given.get("similarity") or given.get("overlaid")):
                own.append("sentences compared by minilm, not the Universal Sentence Encoder")
            for what in own:
                used.setdefault(what, set()).add(one.key.attack)
    if used:
        told = "; ".join(f"{what} ({', '.join(sorted(attacks))})" for what, attacks in used.items())
        yield Finding("stand-ins", "note", f"Attacks used tools other than their papers': {told}. Figures of other "
                      "programs with the original tools may differ.")
