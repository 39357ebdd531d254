# SPDX-License-Identifier: Apache-2.0
"""Why you might not believe this: signs found by comparing numbers with each other and with what papers report."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from dualmask.evaluation.metrics import held
from dualmask.evaluation.records import SCORE_WORDS, Scores
from dualmask.evaluation.statistics import Interval
from dualmask.reporting.attack_doubts import (
    chosen_under_an_attack,
    newer_profiles,
    no_better_rankings,
    shared_tables,
    trained_on_an_attack,
)
from dualmask.reporting.conditions import (
    Entries,
    encoders_differ,
    mixed_presets,
    never_begun,
    other_options,
    seeds_differ,
    several_plain,
    short_worst,
    sources_differ,
    stand_ins,
    temperature_extreme,
    temperature_of_others,
    texts_differ,
)
from dualmask.reporting.entries import PLAIN, Entry, Key, Share, Worst
from dualmask.reporting.findings import CHECKS, WIDE, Finding, Severity, named, percent, points, setting
from dualmask.reporting.length_doubts import cut_texts
from dualmask.reporting.reported import ReportedTable
from dualmask.reporting.training_doubts import best_at_the_end, trained_before_corrections, trained_otherwise
from dualmask.reporting.unchanged import no_effect

ORDER: Sequence[Severity] = ("serious", "caution", "note")
UNRANKED = frozenset({  # where serious: accuracy under attack may flatter the defence, or can't be compared
    "an illusion of scores", "an illusion of noise", "transfer beats adaptive", "hardly any query",
    "stopped by the budget", "given up", "always the same answer", "no adaptive attack", "unfinished",
    "worst case on fewer texts", "settings differ", "encoders differ", "never begun"})
UNEVEN = (  # where rows were not made, or are not met, alike: their figures can't be compared as they stand
    "trained or selected differently", "best at the last epoch", "trained on an attack of the table",
    "one synonym table for defence and attack", "rankings no better than random")
SLACK = 0.01  # a point: less is no sign
SEVERAL = Fraction(3, 100)  # between raw scores and others
ILLUSIONS: Mapping[Scores, tuple[str, str]] = {  # of figures that fall when the attack sees more, and where from
    "calibrated": ("an illusion of scores", "over- or under-confident scores"),
    "still": ("an illusion of noise", "draws that change with each text"),
}
MANY = 3  # times that a sign is told in full


def find_doubts(entries: Entries, worst: Sequence[Worst], reported: ReportedTable) -> list[Finding]:
    """All reasons for doubt, gravest first."""
    found = [finding for one in entries for check in CHECKS for finding in check(one)]
    found += trained_before_corrections(entries)
    whole = [one for one in entries if not one.missing]  # of others the easy texts are there, so they look weak
    for compare in (transfer_stronger, aware_weaker, white_box_weaker, illusions):
        found += compare(whole)
    for look in (adaptive_missing, aware_missing, no_effect, small_samples, single_seeds, unfinished, seeds_differ,
                 never_begun, trained_otherwise, best_at_the_end, encoders_differ, texts_differ, sources_differ,
                 several_plain, mixed_presets, other_options, temperature_extreme, temperature_of_others, stand_ins,
                 trained_on_an_attack, chosen_under_an_attack, shared_tables, no_better_rankings, cut_texts):
        found += look(entries)
    found += [*short_worst(entries, worst), *disputed(worst, entries)]
    found += [*under_reported(entries, reported), *odd_reports(entries, reported), *newer_profiles(entries, reported)]
    return sorted(merged(found), key=lambda one: ORDER.index(one.severity))


def merged(found: Iterable[Finding]) -> Iterator[Finding]:
    """A sign that shows in many numbers is told once, with the first of them."""
    groups: dict[tuple[str, Severity], list[Finding]] = {}
    for one in said_once(found):
        groups.setdefault((one.name, one.severity), []).append(one)
    for (name, severity), same in groups.items():
        if len(same) <= MANY:
            yield from same
        else:
            keys = dict.fromkeys(key for one in same for key in one.keys)
            yield Finding(name, severity, f"{same[0].text} The same shows {len(same) - 1} times more.", tuple(keys))


def said_once(found: Iterable[Finding]) -> Iterator[Finding]:
    """What is found again in the same words, as in tables of raw and of calibrated scores, is one finding."""
    groups: dict[tuple[str, Severity, str], dict[Key, None]] = {}
    for one in found:
        groups.setdefault((one.name, one.severity, one.text), {}).update(dict.fromkeys(one.keys))
    for words, keys in groups.items():
        yield Finding(*words, tuple(keys))


def classifiers(entries: Entries) -> Iterator[Entries]:
    """Entries of the same data, encoder and defence."""
    groups: dict[tuple[str, str, str], list[Entry]] = {}
    for one in entries:
        groups.setdefault(one.key[:3], []).append(one)
    yield from groups.values()


def robust(one: Entry) -> float:
    return one.robust.mean if one.robust else 1.0


def within(value: float, interval: Interval) -> bool:
    return interval.low <= value <= interval.high


def half(share: Share) -> float:
    return (share.interval.high - share.interval.low) / 2


def strongest(entries: Iterable[Entry]) -> Entry | None:
    return min((one for one in entries if one.robust), key=robust, default=None)


def transfer_stronger(entries: Entries) -> Iterator[Finding]:
    """Texts made for another classifier should fool less than those made for this one."""
    by_key = {one.key: one for one in entries}
    for one in entries:
        asked = by_key.get(one.key._replace(mode="adaptive"))
        if one.key.mode != "transfer" or one.method == PLAIN or asked is None:
            continue
        if one.robust and asked.robust and asked.robust.mean - one.robust.mean > SLACK:
            sure = not within(asked.robust.mean, one.robust.interval)
            yield Finding("transfer beats adaptive", "serious" if sure else "caution",
                          f"{named(asked.key)}: accuracy is {points(asked.robust.mean)} when the attack asks the "
                          f"defended classifier, and {points(one.robust.mean)} on texts made against the plain one. "
                          "The defence may hide its scores from the attack instead of withstanding it.",
                          (asked.key, one.key))


def aware_weaker(entries: Entries) -> Iterator[Finding]:
    yield from weaker(
        entries, lambda one: one.key.mode == "defence-aware", lambda one: one.key.mode == "adaptive",
        ("knowing does not help", "attacks that know the defence", "attacks that do not",
         "Whoever knows more should do no worse; they search badly, or have less freedom."))


def white_box_weaker(entries: Entries) -> Iterator[Finding]:
    yield from weaker(
        [one for one in entries if one.key.mode == "adaptive" and one.key.scores == "raw"], looks_inside,
        lambda one: not looks_inside(one),
        ("white box weaker", "attacks that see gradients", "attacks that see scores only",
         "Gradients may be masked, or these attacks have less freedom."))


def looks_inside(one: Entry) -> bool:
    return any(result.gradients for result in one.results)


def weaker(
    entries: Entries, better: Callable[[Entry], bool], usual: Callable[[Entry], bool], words: tuple[str, str, str, str],
) -> Iterator[Finding]:
    """Attacks with an advantage whose best is worse than the best of those without."""
    name, those, others, remark = words
    for group in classifiers(entries):
        one, other = strongest(filter(better, group)), strongest(filter(usual, group))
        if one and other and robust(one) - robust(other) > SLACK:
            yield Finding(name, "caution",
                          f"{one.key.defence} ({one.key.data}, {one.key.encoder}): {those} leave {points(robust(one))} "
                          f"at best ({one.key.attack}), {others} {points(robust(other))} ({other.key.attack}). "
                          f"{remark}",
                          (one.key, other.key))


def illusions(entries: Entries) -> Iterator[Finding]:
    """Figures that fall on the same texts when the attack sees more, all of a classifier together; the doubt is about
    the raw ones."""
    for group in classifiers(entries):
        key = group[0].key
        raw = {(one.key.attack, one.key.mode): one for one in group if one.key.scores == "raw"}
        for scores, (name, cause) in ILLUSIONS.items():
            pairs = [(before, one) for one in group if one.key.scores == scores
                     and (before := raw.get((one.key.attack, one.key.mode)))]
            falls = {before.key: both for before, one in pairs if (both := on_same_texts(before, one))
                     and both[0] - both[1] > SEVERAL}
            told = ", ".join(f"{points(float(most))} to {points(float(least))} under {which.mode} {which.attack}"
                             for which, (most, least) in falls.items())
            if falls:
                yield Finding(name, "serious", f"{key.defence} ({key.data}, {key.encoder}): accuracy falls from {told} "
                              f"when the attack sees {SCORE_WORDS[scores]}, on the same texts. What is lost came from "
                              f"{cause}, not from robustness.", tuple(falls))


def on_same_texts(one: Entry, other: Entry) -> tuple[Fraction, Fraction] | None:
    """The shares of texts that held in each, of those that both have; exact, so that a limit is one."""
    first, second = ({(run.seed, index): kept for run in each.runs
                      for index, kept in held(run.records.results).items()} for each in (one, other))
    if not (shared := first.keys() & second.keys()):
        return None
    return Fraction(sum(first[place] for place in shared), len(shared)), Fraction(
        sum(second[place] for place in shared), len(shared))


def adaptive_missing(entries: Entries) -> Iterator[Finding]:
    for group in classifiers(entries):
        if not any(one.key.mode in ("adaptive", "defence-aware") for one in group):
            key = group[0].key
            yield Finding("no adaptive attack", "serious",
                          f"{key.defence} ({key.data}, {key.encoder}): no attack asked the defended classifier; texts "
                          "made against another one flatter any defence that changes its input.",
                          tuple(one.key for one in group))


def aware_missing(entries: Entries) -> Iterator[Finding]:
    lacking = [group for group in classifiers(entries) if group[0].method != PLAIN
               and not any(one.key.mode == "defence-aware" for one in group)]
    known = {one.key.defence for one in entries if one.key.mode == "defence-aware"}
    if lacking:
        names = ", ".join(sorted({f"{key.defence} ({key.data}, {key.encoder})" if key.defence in known else key.defence
                                  for group in lacking for key in [group[0].key]}))
        yield Finding("no attack that knows the defence", "note",
                      f"{names}: no attack was run that knows how the defence works; one might do better.",
                      tuple(one.key for group in lacking for one in group))


def small_samples(entries: Entries) -> Iterator[Finding]:
    wide = {one.key: half(one.robust) for one in entries if one.robust and half(one.robust) > WIDE}
    if wide:
        widest = max(wide, key=lambda key: wide[key])
        texts = next(one.robust.texts for one in entries if one.key == widest and one.robust)
        yield Finding("few texts", "caution",
                      f"{len(wide)} of {len(entries)} accuracies are known to no better than ±5 points; the widest "
                      f"interval is ±{points(wide[widest])}, on {texts} texts ({named(widest)}). Differences inside "
                      "the interval are no ranking.", tuple(wide))


def single_seeds(entries: Entries) -> Iterator[Finding]:
    lonely = tuple(one.key for one in entries if len(one.runs) == 1)
    if lonely:
        yield Finding("one training seed", "caution",
                      f"{len(lonely)} of {len(entries)} figures come from one trained classifier; another seed may "
                      "differ by several points. Three to five are usual.", lonely)


def unfinished(entries: Entries) -> Iterator[Finding]:
    lacking = [one for one in entries if one.missing]
    if lacking:
        missing = sum(one.missing for one in lacking)
        yield Finding("unfinished", "serious",
                      f"{len(lacking)} of {len(entries)} figures are not finished: {missing} texts are still to be "
                      f"attacked (first: {named(lacking[0].key)}). What ends soonest is there first, so these "
                      "figures will move.",
                      tuple(one.key for one in lacking))


def disputed(worst: Sequence[Worst], entries: Entries) -> Iterator[Finding]:
    """Texts that a classifier without noise had right before one attack and wrong before another."""
    by_key = {one.key: one for one in entries}
    for case in worst:
        labels: dict[tuple[int, int], set[int]] = {}
        for run in (run for key in case.keys for run in by_key[key].runs if setting(run, "noise") in (None, "none")):
            for one in run.records.results:
                if one.clean is not None:
                    labels.setdefault((run.seed, one.index), set()).add(one.clean)
        several = sum(len(found) > 1 for found in labels.values())
        if several:
            yield Finding("different classifiers", "serious" if 100 * several > len(labels) else "note",
                          f"{case.defence} ({case.data}, {case.encoder}): {percent(several, len(labels))} clean texts "
                          "got different labels before different attacks. The records come from different classifiers, "
                          "or its answers depend on the batch.", case.keys)


def under_reported(entries: Entries, reported: ReportedTable) -> Iterator[Finding]:
    for group in classifiers(entries):
        one = max(group, key=lambda one: one.clean.texts if one.clean and one.key.mode != "transfer-successful" else 0)
        beside = reported.clean(one.key.data, one.method)
        clean = one.tested or one.clean
        if beside is None or clean is None or one.key.mode == "transfer-successful":
            continue
        if 100 * clean.mean < beside - 2 and 100 * clean.interval.high < beside:
            other = " (other texts of the same kind)" if one.key.data in reported.similar else ""
            yield Finding("clean accuracy under the reported", "caution",
                          f"{one.key.defence} ({one.key.data}, {one.key.encoder}): clean accuracy is "
                          f"{points(clean.mean)}, reported{other} {beside:.1f}. A weaker encoder or too little "
                          "training; its robustness is not comparable with the reported.",
                          tuple(entry.key for entry in group))


def odd_reports(entries: Entries, reported: ReportedTable) -> Iterator[Finding]:
    cells = {cell: one.key for one in entries
             if (cell := reported.beside(one)) and not cell.consistent}
    if cells:
        told = "; ".join(f"{cell.name} {cell.attack} on {cell.data}: SUCC {cell.success}, implied "
                         f"{cell.implied_success:.1f}" for cell in cells)
        yield Finding("reported figures disagree", "note", f"Reported figures beside which ours stand break SUCC = 1 - "
                      f"CAA/CLA by more than a point ({told}).", tuple(cells.values()))
