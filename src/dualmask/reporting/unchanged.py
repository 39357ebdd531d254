# SPDX-License-Identifier: Apache-2.0
"""Signs that a defence does nothing: clean texts get the same answers with and without it, and attacked ones too."""

from collections.abc import Iterator, Mapping, Sequence

from dualmask.reporting.entries import PLAIN, Entry, Key, plain_rows
from dualmask.reporting.findings import Finding, named, points, setting
from dualmask.results import AttackResult

Entries = Sequence[Entry]
ENOUGH = 20  # clean texts; fewer may all keep their labels
TIMES, SOME = 2, 0.1  # so many times the places of clean texts, and so many a text, are no accident


def no_effect(entries: Entries) -> Iterator[Finding]:
    """Both signs. A defence that leaves clean texts alone by design shows what it does on attacked ones: it is none."""
    by_key, rows = {one.key: one for one in entries}, plain_rows(entries)
    groups: dict[Key, list[Entry]] = {}
    for one in entries:
        groups.setdefault(one.key._replace(attack="", mode="adaptive", scores="raw"), []).append(one)
    for group in groups.values():
        pairs = [(one, by_key.get(shown_to_plain(one, rows, by_key))) for one in group]
        if group[0].method != PLAIN and not acts_on_attacked(pairs):
            yield from like_plain(group, by_key, rows)
            for one in group:
                yield from like_undefended(one)


def shown_to_plain(one: Entry, rows: Mapping[tuple[str, str], str], by_key: Mapping[Key, Entry]) -> Key:
    """The plain row's entry of the same texts; those that were made against it are its adaptive ones."""
    same = one.key._replace(defence=rows.get(one.key[:2], ""))
    return same if same in by_key or same.mode != "transfer" else same._replace(mode="adaptive")


def acts_on_attacked(pairs: Sequence[tuple[Entry, Entry | None]]) -> bool:
    """Whether the defence reads attacked texts otherwise than clean ones, or answers them otherwise than its network
    does without it."""
    return any(reads_attacked_otherwise(one) or (plain is not None and answers_otherwise(one, plain))
               for one, plain in pairs)


def reads_attacked_otherwise(entry: Entry) -> bool:
    """Whether it hides, or reads otherwise, far more places of attacked texts than of the same texts before.

    A few more mean nothing: who masks a share of the tokens masks more of misspelt words, which have more pieces.
    """
    both = [(len(one.hidden), len(one.hidden_after)) for one in entry.results
            if one.adversarial is not None and one.hidden is not None and one.hidden_after is not None]
    before, after = (sum(pair[side] for pair in both) for side in (0, 1))
    return after > TIMES * before and after > SOME * len(both)


def answers_otherwise(one: Entry, plain: Entry) -> bool:
    """On texts that were made against the plain classifier, where that is the same network without the defence."""
    if one.key.mode != "transfer":
        return False
    known = {(run.seed, result.index): result for run in plain.runs for result in run.records.results}
    both = [(result, known[run.seed, result.index]) for run in one.runs for result in run.records.results
            if (run.seed, result.index) in known and result.undefended is not None]
    same_network = bool(both) and all(own.undefended == other.clean for own, other in both)
    return same_network and any(differs(own, other) for own, other in both)


def differs(own: AttackResult, other: AttackResult) -> bool:
    return own.adversarial is not None and own.adversarial == other.adversarial and own.predicted != other.predicted


def like_plain(group: Entries, by_key: Mapping[Key, Entry], rows: Mapping[tuple[str, str], str]) -> Iterator[Finding]:
    """The same answers on clean texts as the plain classifier, text by text."""
    pairs = [(one, plain) for one in group
             if (plain := by_key.get(one.key._replace(defence=rows.get(one.key[:2], ""))))]
    same = [one for one, plain in pairs
            if len(clean_labels(one)) >= ENOUGH and clean_labels(one) == clean_labels(plain)]
    if same:
        yield Finding("answers like plain", "serious",
                      f"{same[0].key.defence} ({same[0].key.data}, {same[0].key.encoder}): the same label as the "
                      f"plain classifier on all {len(clean_labels(same[0]))} clean texts, and no sign on attacked "
                      "ones that it reads them otherwise. Was it trained and switched on?",
                      tuple(one.key for one in same))


def clean_labels(entry: Entry) -> dict[tuple[int, int], int]:
    return {(run.seed, one.index): one.clean for run in entry.runs for one in run.records.results
            if one.clean is not None}


def like_undefended(entry: Entry) -> Iterator[Finding]:
    """Clean accuracy with the defence on that equals the one with it off, to the decimal."""
    acts = any(one.hidden for one in entry.results) or any(
        setting(run, "noise") in ("fresh", "text") or setting(run, "passes") not in (None, "1") for run in entry.runs)
    if not acts or entry.clean is None or entry.undefended is None:
        return
    if points(entry.clean.mean) == points(entry.undefended.mean):
        asked = [one for one in entry.results if one.undefended is not None and one.clean is not None]
        other = sum(one.undefended != one.clean for one in asked)
        doubtful = len(asked) >= ENOUGH and not other
        yield Finding("clean accuracy unchanged", "serious" if doubtful else "note",
                      f"{named(entry.key)}: clean accuracy is {points(entry.clean.mean)} with the defence on and off; "
                      f"it changed the label of {other} of {len(asked)} clean texts"
                      + (", and nothing shows that it reads attacked ones otherwise. Was it switched on?" if doubtful
                         else ". The two may agree by chance."), (entry.key,))
