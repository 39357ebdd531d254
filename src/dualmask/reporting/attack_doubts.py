# SPDX-License-Identifier: Apache-2.0
"""Signs that an attack is no fair measure: the defence knows it, or its words; its ranking tells nothing; it is newer
than the figures that it stands beside."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dualmask.errors import DataError
from dualmask.options import JUDGING_ATTACK
from dualmask.reporting.comparison import LEVEL, PairedTest, corrected, paired, seeds_of
from dualmask.reporting.conditions import tables
from dualmask.reporting.entries import Entry, Key, defence_options, options_of, training_facts
from dualmask.reporting.findings import Finding, named, points
from dualmask.reporting.reported import ReportedTable
from dualmask.word_sources import learned_attacks, synonym_tables

Entries = Sequence[Entry]
OLDER = "profile newer than the reported figure"
RANKING, RANDOM = "ranking", "random"  # the option, and its value for words by chance


def newer_profiles(entries: Entries, reported: ReportedTable) -> Iterator[Finding]:
    """Attacks that are set otherwise than when the figures were reported beside which theirs stand."""
    found: dict[str, dict[str, list[Key]]] = {}  # how, and which attacks
    for one in entries:
        if how := reported.apart(one):
            found.setdefault(how, {}).setdefault(one.key.attack, []).append(one.key)
    if found and reported.profile:
        ways = sorted(found, key=lambda how: -how.count(","))
        told = "; ".join(f"{', '.join(found[how])}: {how}" for how in ways)
        yield Finding("profile newer than the reported figure", "caution",
                      f"Attacks are set otherwise than by {reported.profile.preset}, the profile of the time in "
                      f"which the reported figures were made ({told}). Who tries fewer candidates finds less, so that "
                      "ours may be too high beside them. Until they are run again by that profile, the two do not "
                      "compare.",
                      tuple(key for how in ways for keys in found[how].values() for key in keys))


def trained_on_an_attack(entries: Entries) -> Iterator[Finding]:
    """Defences that were trained on texts of the very attack that they are measured by."""
    found: dict[str, dict[str, list[Key]]] = {}
    for one in entries:
        if one.recipe in {name for run in one.runs for name in learned_attacks(
                one.method, defence_options(run.records.header))}:
            found.setdefault(one.key.attack, {}).setdefault(one.key.defence, []).append(one.key)
    for attack, rows in found.items():
        yield Finding("trained on an attack of the table", "caution",
                      f"{', '.join(rows)}: trained on texts that {attack} writes, which stands in the table. That "
                      "figure tells how a defence withstands what it has been shown; judge it by the other attacks.",
                      keys_of(rows.values()))


def chosen_under_an_attack(entries: Entries) -> Iterator[Finding]:
    """Rows whose epoch was chosen by what the attack leaves that is a column of their table."""
    found: dict[str, list[Key]] = {}
    for one in (one for one in entries if one.recipe == JUDGING_ATTACK):
        options = [training_facts(run.records.header).get("training") for run in one.runs]
        if any(isinstance(told, Mapping) and told.get("keep") == "robust" for told in options):
            found.setdefault(one.key.defence, []).append(one.key)
    if found:
        yield Finding("epochs chosen under an attack of the table", "note",
                      f"{', '.join(found)}: the epoch was kept that had the best mean of clean accuracy and accuracy "
                      f"under {JUDGING_ATTACK}, on validation texts. That column flatters them a little, all alike.",
                      keys_of(found.values()))


def shared_tables(entries: Entries) -> Iterator[Finding]:
    """Defences that were made used to the words of the table from which an attack takes its own."""
    rows: dict[str, dict[str, None]] = {}  # by table
    attacks: dict[str, dict[str, None]] = {}
    keys: dict[str, list[Key]] = {}
    for one in (one for one in entries if one.key.mode != "defence-aware"):  # which go round the words that it knows
        header = one.runs[0].records.header
        written = synonym_tables("attack", one.recipe, options_of(header))
        for table in set(written).intersection(synonym_tables("defence", one.method, defence_options(header))):
            rows.setdefault(table, {})[one.key.defence] = None
            attacks.setdefault(table, {})[one.key.attack] = None
            keys.setdefault(table, []).append(one.key)
    for table, names in rows.items():
        yield Finding("one synonym table for defence and attack", "caution",
                      f"{', '.join(names)}: made used to words of the very table of synonyms ({table}) that these "
                      f"attacks write from: {', '.join(attacks[table])}. Whoever writes other words may find more; "
                      "judge these rows by the other attacks.", tuple(keys[table]))


def no_better_rankings(entries: Entries) -> Iterator[Finding]:
    """Attacks that find as much when they take words by chance: the scores by which they rank tell them nothing."""
    for group in tables(entries):
        pairs = {(one.key.defence, one.key.attack): (one, other) for one in group for other in group
                 if only_ranked_otherwise(one, other)}
        tests: dict[tuple[str, str], PairedTest] = {}
        for place, (chance, ranked) in pairs.items():
            try:
                tests[place] = paired(seeds_of(chance), seeds_of(ranked))
            except DataError:  # not on the same texts
                continue
        for place, test in corrected(tests).items():
            chance, ranked = pairs[place]
            if could_tell(test) and not (test.significant and test.difference.value > 0):
                yield Finding("rankings no better than random", "caution",
                              f"{named(ranked.key)}: {points(left(test, ranked=True))} are left where words are taken "
                              f"in the order of their importance, {points(left(test, ranked=False))} where by chance "
                              f"({chance.key.attack}; {test.texts} texts, training seeds: {test.seeds}), which is no "
                              "better beyond chance. The scores that it ranks by are of little use to it; an attack "
                              "that needs none may find more.", (ranked.key, chance.key))


def only_ranked_otherwise(chance: Entry, ranked: Entry) -> bool:
    """Whether the same attack, with the same settings, was run against one row with words by chance and with not."""
    if chance.key.defence != ranked.key.defence or chance.recipe != ranked.recipe or chance.missing or ranked.missing:
        return False
    one, other = (dict(options_of(entry.runs[0].records.header)) for entry in (chance, ranked))
    return one.pop(RANKING, None) == RANDOM and other.pop(RANKING, None) != RANDOM and one == other


def could_tell(test: PairedTest) -> bool:
    """Whether an attack that finds everything would be better beyond chance: not so where chance finds it all, too."""
    return 2.0 ** (1 - test.both - test.only_one) < LEVEL  # McNemar's exact test, if none of these were left


def left(test: PairedTest, *, ranked: bool) -> float:
    """The share of texts that hold, of those that were tested."""
    alone = test.only_other if ranked else test.only_one
    return (test.both + alone) / (test.texts * test.seeds)


def keys_of(rows: Iterable[Sequence[Key]]) -> tuple[Key, ...]:
    return tuple(key for keys in rows for key in keys)
