# SPDX-License-Identifier: Apache-2.0
"""What a report's figures are: shares with their uncertainty, one entry for each kind of cell, and the worst case."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from dualmask.evaluation.metrics import Robustness, robustness, worst_case
from dualmask.evaluation.records import SCORE_WORDS, Cell, CellRecords, Loaded, Mode, Scores
from dualmask.evaluation.statistics import Interval, spread, wilson
from dualmask.reporting.row_names import place_of, row_names
from dualmask.results import FAULTS, AttackResult, mean, tally

PLAIN = "plain"  # the defence that is none, which all others are compared with
HEADLESS = ("mvp",)  # defences that leave the network's own head untrained; a test compares them with the catalogue's
WORST = "worst case"  # the column of it
Scope = Literal[
    "adaptive",  # attacks in adaptive mode that see the classifier's own scores: what every defence can be given
    "every",  # also those that know the defence, and those that see more than its scores
]


class Key(NamedTuple):
    """Which entry this is: a cell without its seed, its row by the name that reports show (`row_names`)."""

    data: str
    encoder: str
    defence: str
    attack: str
    mode: Mode
    scores: Scores


@dataclass(frozen=True)
class Share:
    """A share between 0 and 1: the mean over seeds, their deviation, and how far the texts carry it."""

    mean: float
    deviation: float | None  # over training seeds; None for a single one
    interval: Interval  # Wilson, 95 %, of the mean on one seed's texts: seeds share their texts, more seeds add none
    texts: int  # in the denominator, of one seed
    seeds: int


@dataclass(frozen=True)
class Run:
    """One training seed of an entry."""

    seed: int
    counts: Robustness
    undefended: tuple[int, int]  # texts right with the defence off, and those that were asked about
    missing: int  # texts that the run still lacks
    records: CellRecords


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One number of a table, over its seeds. Figures are None where no text stands behind them."""

    key: Key
    method: str  # the defence that its row, whatever it is called, is made of
    preset: str  # that its options come from, where the records tell it
    recipe: str  # the attack that its column, whatever it is called, is made of
    attack_preset: str  # that the attack is set by, where nothing of it was changed
    runs: tuple[Run, ...]
    clean: Share | None  # CLA, the defence on
    undefended: Share | None  # the same texts with the defence off
    tested: Share | None  # CLA on the whole test part, where the classifier's own facts tell it
    tested_undefended: Share | None  # and with the defence off
    robust: Share | None  # CAA
    redrawn: Share | None  # of a defence that draws: CAA if only successes count that most new draws repeat
    success: Share | None  # SUCC
    queries: float | None  # per attacked text, as the attack counts them
    rows: float | None  # and texts that the classifier read for them
    changed: float | None  # share of words, mean over successes
    similarity: float | None  # mean over successes where it was measured
    seconds: float | None  # per attacked text
    attacked: int  # texts over all seeds behind queries and seconds
    succeeded: int  # and behind changed and similarity
    faults: int
    missing: int

    @property
    def results(self) -> list[AttackResult]:
        return [one for run in self.runs for one in run.records.results]


@dataclass(frozen=True, kw_only=True)
class Worst:
    """A text holds only if every attack failed on it."""

    data: str
    encoder: str
    defence: str
    scope: Scope
    keys: tuple[Key, ...]  # the entries it is taken over
    seeds: tuple[int, ...]  # those that every attack was run on
    counts: tuple[Robustness, ...]  # of each seed
    clean: Share | None
    robust: Share | None
    redrawn: Share | None
    left_out: tuple[int, ...]  # seeds that lack an attack


def unique(loaded: Loaded) -> Loaded:
    """Each cell once: where two files hold the same one, the first counts and the other is named."""
    first: dict[Cell, CellRecords] = {}
    problems = list(loaded.problems)
    for records in loaded.cells:
        kept = first.setdefault(records.cell, records)
        if kept is not records:
            problems.append(f"{records.path} holds the same cell as {kept.path}, and was left out; remove one of them.")
    return loaded._replace(cells=list(first.values()), problems=problems)


def share(parts: Sequence[tuple[int, int]]) -> Share | None:
    """From (part, whole) of each seed."""
    counted = [(part, whole) for part, whole in parts if whole]
    if not counted:
        return None
    found = spread([part / whole for part, whole in counted])
    texts = sum(whole for _, whole in counted) // len(counted)
    return Share(found.mean, found.deviation, wilson(found.mean * texts, texts), texts, len(counted))


def entries(cells: Iterable[CellRecords]) -> list[Entry]:
    """Cells that differ in nothing but the seed, taken together."""
    groups: dict[Key, list[CellRecords]] = {}
    cells = list(cells)
    names = row_names(cells)
    for records in cells:
        cell = records.cell
        key = Key(cell.data, cell.encoder, names[place_of(records)], cell.attack, cell.mode, cell.scores)
        groups.setdefault(key, []).append(records)
    order = list(SCORE_WORDS)
    return [entry(key, groups[key]) for key in sorted(groups, key=lambda key: (*key[:5], order.index(key.scores)))]


def entry(key: Key, cells: Sequence[CellRecords]) -> Entry:
    runs = tuple(map(run, sorted(cells, key=lambda one: one.cell.seed)))
    counts = [one.counts for one in runs]
    results = [one for records in cells for one in records.results]
    total = tally(results)
    attacked = [one.seconds for one in results if one.outcome != "skipped" and one.outcome not in FAULTS]
    header = runs[0].records.header
    return Entry(
        key=key, method=method_of(runs[0].records),
        preset=str(training_facts(header).get("preset") or ""), recipe=str(header.get("attack") or key.attack),
        attack_preset="" if header.get("changed") else str(header.get("preset") or ""), runs=runs,
        clean=share([(one.right, one.texts) for one in counts]), undefended=share([one.undefended for one in runs]),
        tested=on_test_part(cells, "test_accuracy"),
        tested_undefended=None if headless(method_of(cells[0])) else on_test_part(cells, "test_accuracy_undefended"),
        robust=share([(one.right - one.flipped, one.texts) for one in counts]), redrawn=with_new_draws(counts),
        success=share([(one.flipped, one.right) for one in counts]),
        queries=total.queries if attacked else None, rows=total.rows if attacked else None,
        changed=total.changed, similarity=total.similarity, seconds=mean(attacked), attacked=len(attacked),
        succeeded=total.succeeded, faults=sum(one.faults for one in counts), missing=sum(one.missing for one in runs))


def on_test_part(cells: Sequence[CellRecords], fact: str) -> Share | None:
    """An accuracy that classifiers know of the whole test part that the attacked texts were drawn from; None where one
    of them does not know it, or knows it of other data."""
    found = []
    for header in (records.header for records in cells):
        known, texts = training_facts(header).get(fact), test_texts(header)
        if not isinstance(known, int | float) or not 0 <= known <= 1 or not texts:
            return None
        found.append((round(known * texts), texts))
    return share(found)


def test_texts(header: Mapping[str, object]) -> int:
    """How many texts the test part has; 0 where it is not told, or where the attacked texts come from other data."""
    rows = training_facts(header).get("rows")
    tested = rows.get("test") if isinstance(rows, Mapping) else None
    digest = re.match(r"(\d+) examples ", str(header.get("data")))
    attacked = int(digest[1]) if digest else None
    known = tested if isinstance(tested, int) else attacked
    return known if known and attacked in (None, known) else 0


def with_new_draws(counts: Sequence[Robustness]) -> Share | None:
    """None where it is the same."""
    if not any(one.undone for one in counts):
        return None
    return share([(one.right - one.flipped + one.undone, one.texts) for one in counts])


def run(records: CellRecords) -> Run:
    asked = [one for one in records.results if one.undefended is not None and not headless(method_of(records))]
    right = sum(one.undefended == one.label for one in asked)
    return Run(records.cell.seed, robustness(records.results), (right, len(asked)),
               max(0, records.wanted - len(records.results)), records)


def method_of(records: CellRecords) -> str:
    """The defence that a row, whatever it is called, is made of."""
    return str(defence_options(records.header).get("name") or records.cell.defence)


def headless(method: str) -> bool:
    """Whether no accuracy is defined with the defence off, whatever records of before say of an untrained head."""
    return not set(HEADLESS).isdisjoint(method.split("+"))


def defence_options(header: Mapping[str, object]) -> Mapping[str, object]:
    """The defence's name and its options, as a file of records tells them."""
    given = header.get("defence")
    return given if isinstance(given, Mapping) else {}


def options_of(header: Mapping[str, object]) -> Mapping[str, object]:
    """The attack's."""
    found = header.get("options")
    return found if isinstance(found, dict) else {}


def encoder_of(header: Mapping[str, object]) -> str:
    """Which encoder stands behind the name: another name, or the digest of its files; empty where nothing is told."""
    about = header.get("about")
    return str(about.get("encoder") or "") if isinstance(about, Mapping) else ""


def training_facts(header: Mapping[str, object]) -> Mapping[str, object]:
    """How the classifier was trained."""
    about = header.get("about")
    given = about.get("training") if isinstance(about, Mapping) else None
    return given if isinstance(given, Mapping) else {}


def label_names(header: Mapping[str, object]) -> list[str]:
    given = header.get("labels")
    return [str(name) for name in given] if isinstance(given, list) else []


def plain_rows(found: Iterable[Entry]) -> dict[tuple[str, str], str]:
    """By data and encoder the row that others are compared with: of those without a defence the one so called, or the
    only one."""
    rows: dict[tuple[str, str], set[str]] = {}
    for one in found:
        if one.method == PLAIN:
            rows.setdefault(one.key[:2], set()).add(one.key.defence)
    return {place: PLAIN if PLAIN in names else min(names) for place, names in rows.items()
            if PLAIN in names or len(names) == 1}


def worst_cases(found: Iterable[Entry]) -> list[Worst]:
    """For each classifier that several attacks were tried on: over adaptive ones, and over all that may ask it."""
    groups: dict[tuple[str, str, str], list[Entry]] = {}
    for one in found:  # of an unfinished attack only the texts that end soonest are there: the wrong and the easy ones
        if one.key.mode in ("adaptive", "defence-aware") and not one.missing:
            groups.setdefault(one.key[:3], []).append(one)
    worst = []
    for group in groups.values():
        usual = [one for one in group if one.key.mode == "adaptive" and one.key.scores == "raw"]
        if len(usual) > 1:
            worst.append(worst_of(usual, "adaptive"))
        if len(group) > max(1, len(usual)):
            worst.append(worst_of(group, "every"))
    return worst


def worst_of(group: Sequence[Entry], scope: Scope) -> Worst:
    seeds = [{run.seed: run.records.results for run in one.runs} for one in group]
    shared = sorted(set.intersection(*(set(one) for one in seeds)))
    counts = tuple(worst_case([one[seed] for one in seeds], noisy=True) for seed in shared)
    key = group[0].key
    return Worst(data=key.data, encoder=key.encoder, defence=key.defence, scope=scope,
                 keys=tuple(one.key for one in group), seeds=tuple(shared), counts=counts,
                 clean=share([(one.right, one.texts) for one in counts]),
                 robust=share([(one.right - one.flipped, one.texts) for one in counts]), redrawn=with_new_draws(counts),
                 left_out=tuple(sorted({seed for one in seeds for seed in one} - set(shared))))
