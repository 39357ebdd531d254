# SPDX-License-Identifier: Apache-2.0
"""Two methods on the same texts: paired tests, of a table's rows against the plain classifier and of any two runs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dualmask.errors import DataError
from dualmask.evaluation.metrics import held
from dualmask.evaluation.records import CellRecords, read_cells
from dualmask.evaluation.statistics import Difference, bootstrap, holm, mcnemar, sign_flips
from dualmask.reporting.conditions import differing
from dualmask.reporting.entries import WORST, Entry, Key, Worst, encoder_of, unique

LEVEL = 0.05
Place = tuple[str, str]  # a defence and a column of the table
Kind = tuple[str, str, str, str]  # data, attack, mode, scores
Method = tuple[str, str]  # encoder and defence
NOT_ATTACKED = "the plain classifier was not attacked so"
BY_CONSTRUCTION = "the texts are those that fooled the plain classifier, whose accuracy on them is 0 by construction"


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """How much more often a method holds than another on the same texts."""

    difference: Difference  # of accuracies under attack; the bootstrap interval is over texts and seeds
    p: float  # over texts: McNemar's exact test or, for several seeds, the exact test that generalises it
    corrected: float  # by Holm, across the table
    texts: int  # that both were measured on, of each seed
    seeds: int
    both: int  # texts that both hold, over all seeds
    only_one: int
    only_other: int
    neither: int

    @property
    def significant(self) -> bool:
        """The corrected p is under 0.05, and the interval, which also carries the seeds, leaves out zero."""
        low, high = self.difference.interval
        return self.corrected < LEVEL and not low <= 0 <= high


@dataclass(frozen=True)
class Outcomes:
    """One seed of a method: which texts held, and what they were."""

    held: Mapping[int, bool]
    texts: Mapping[int, tuple[str, int]]  # what a text is known by, and its label


@dataclass(frozen=True)
class Pair:
    """One comparison of two runs: its test, or why there is none."""

    data: str
    attack: str
    mode: str
    scores: str
    one: str  # encoder and defence
    other: str
    test: PairedTest | None
    reason: str = ""
    unpaired: int = 0  # texts that not every seed of both sides has measured


@dataclass(frozen=True)
class Comparison:
    """Two files or folders of records, cell by cell."""

    one: Path
    other: Path
    pairs: tuple[Pair, ...]
    problems: tuple[str, ...]  # what was left out: files that could not be read, cells and texts of one side only
    notes: tuple[str, ...] = ()  # what is to be read beside the tests


Sides = tuple[Mapping[int, Outcomes], Mapping[int, Outcomes]]  # by seed, of two methods


def outcomes(records: CellRecords) -> Outcomes:
    return Outcomes(held(records.results), {one.index: (records.mark_of(one), one.label) for one in records.results})


def worst_outcomes(attacks: Sequence[CellRecords]) -> Outcomes:
    """A text holds only if every attack failed on it."""
    every = [held(records.results) for records in attacks]
    shared = set.intersection(*(set(one) for one in every))
    return Outcomes({index: all(one[index] for one in every) for index in shared}, outcomes(attacks[0]).texts)


def paired(one: Mapping[int, Outcomes], other: Mapping[int, Outcomes]) -> PairedTest:
    """Test two methods, by seed; DataError says why where they can't be paired."""
    seeds = sorted(one.keys() & other.keys())
    if not seeds:
        raise DataError(f"they have no seed in common ({listed(one)} and {listed(other)})")
    common = [one[seed].held.keys() & other[seed].held.keys() for seed in seeds]
    for seed, indices in zip(seeds, common, strict=True):
        differing = sum(one[seed].texts[index] != other[seed].texts[index] for index in indices)
        if differing:
            raise DataError(f"{differing} of {len(indices)} texts with the same number are different texts")
    texts = sorted(set.intersection(*map(set, common)))
    if not texts:
        raise DataError("they have no text in common")
    changing = sum(len({one[seed].texts[index] for seed in seeds}) > 1 for index in texts)
    if changing:
        raise DataError(f"{changing} of {len(texts)} texts with the same number differ from seed to seed")
    return tested([[one[seed].held[index] for index in texts] for seed in seeds],
                  [[other[seed].held[index] for index in texts] for seed in seeds])


def tested(one: Sequence[Sequence[bool]], other: Sequence[Sequence[bool]]) -> PairedTest:
    """From tables (seeds, texts) of what held."""
    first, second = ([cell for row in table for cell in row] for table in (one, other))
    kinds = list(zip(first, second, strict=True))
    p = mcnemar(first, second) if len(one) == 1 else sign_flips(one, other)
    return PairedTest(difference=bootstrap(one, other), p=p, corrected=p, texts=len(one[0]), seeds=len(one),
                      both=kinds.count((True, True)), only_one=kinds.count((True, False)),
                      only_other=kinds.count((False, True)), neither=kinds.count((False, False)))


def corrected(tests: Mapping[Place, PairedTest]) -> dict[Place, PairedTest]:
    values = holm({place: test.p for place, test in tests.items()})
    return {place: replace(test, corrected=values[place]) for place, test in tests.items()}


def paired_tests(
    group: Sequence[Entry], found: Sequence[Entry], worst: Mapping[str, Worst], *, plain: str | None,
) -> tuple[dict[Place, PairedTest], dict[Place, str]]:
    """Each row of a table against the plain one on the same texts; found: all entries, for transfer tables."""
    by_key = {one.key: one for one in found}
    sides: dict[Place, Callable[[], Sides]] = {}
    for one in group:
        if one.key.defence != plain:
            sides[one.key.defence, one.key.attack] = partial(entry_pair, one, plain, by_key)
    for name in dict.fromkeys(one.key.defence for one in group):
        if name != plain and name in worst:
            sides[name, WORST] = partial(worst_pair, worst[name], worst.get(plain or ""), by_key)
    tests, untested = {}, {}
    for place, both in sides.items():
        try:
            tests[place] = paired(*both())
        except DataError as error:
            untested[place] = str(error)
    return corrected(tests), untested


def entry_pair(one: Entry, plain: str | None, by_key: Mapping[Key, Entry]) -> Sides:
    """A row and plain under the same attack. Texts made against plain and shown to it again are its adaptive ones."""
    if one.key.mode == "transfer-successful":
        raise DataError(BY_CONSTRUCTION)
    same = one.key._replace(defence=plain or "")
    other = by_key.get(same) or (by_key.get(same._replace(mode="adaptive")) if same.mode == "transfer" else None)
    if other is None:
        raise DataError(NOT_ATTACKED)
    return seeds_of(one), seeds_of(other)


def seeds_of(entry: Entry) -> dict[int, Outcomes]:
    return {run.seed: outcomes(run.records) for run in entry.runs}


def worst_pair(case: Worst, plain: Worst | None, by_key: Mapping[Key, Entry]) -> Sides:
    if plain is None:
        raise DataError(NOT_ATTACKED)
    kinds = [{key[3:] for key in one.keys} for one in (case, plain)]
    if kinds[0] != kinds[1]:
        raise DataError("the worst cases are over different attacks")
    made = [{seed: worst_outcomes([run.records for key in one.keys for run in by_key[key].runs
                                   if run.seed == seed]) for seed in one.seeds} for one in (case, plain)]
    return made[0], made[1]


def compare(one: Path, other: Path) -> Comparison:
    """Two files of records, or two folders: every attack and mode that both have on the same data, seed by seed.

    Where each side has one classifier for it, these two are compared; else those of the same name. Attacks that were
    set otherwise on the other side are not: the attack would be tested, not the classifier.
    """
    sides = [unique(read_cells(path)) for path in (one, other)]
    first, second = (by_kind(side.cells) for side in sides)
    pairs = {place: pair for kind in sorted(first.keys() & second.keys())
             for place, pair in kind_pairs(kind, first[kind], second[kind]).items()}
    if not pairs:
        raise DataError(f"{one} and {other} can't be compared: they have no data, attack, mode and classifier in "
                        f"common ({described(first)} in the one, {described(second)} in the other). Give runs of the "
                        "same grid.")
    lonely = [told for path, here, there in ((one, first, second), (other, second, first))
              if (told := only_there(path, sorted(here.keys() - there.keys())))]
    values = holm({place: pair.test.p for place, pair in pairs.items() if pair.test})
    done = [replace(pair, test=replace(pair.test, corrected=values[place])) if pair.test else pair
            for place, pair in pairs.items()]
    return Comparison(one, other, tuple(done), (*sides[0].problems, *sides[1].problems, *lonely, *lost_texts(done)),
                      tuple(other_encoders(sides[0].cells, sides[1].cells)))


def other_encoders(one: Sequence[CellRecords], other: Sequence[CellRecords]) -> Iterator[str]:
    """Encoders that have one name on both sides and are not the same: the classifiers differ by these, too."""
    for name in dict.fromkeys(records.cell.encoder for records in one):
        marks = [dict.fromkeys(mark for records in side if records.cell.encoder == name
                               if (mark := encoder_of(records.header))) for side in (one, other)]
        if all(marks) and marks[0].keys() != marks[1].keys():
            yield (f"the encoder {name} is not the same on both sides (A: {', '.join(marks[0])}; B: "
                   f"{', '.join(marks[1])}): what differs may come from it.")


def only_there(path: Path, kinds: Sequence[Kind]) -> str:
    """What one side has alone: a line, however much it is."""
    names = [" ".join(kind) for kind in kinds]
    if len(names) < 2:
        return f"{path}: {names[0]} is only there, and was left out." if names else ""
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return f"{path}: {len(names):,} attacks on data are only there, and were left out: {', '.join(names[:3])}{more}."


def by_kind(cells: Iterable[CellRecords]) -> dict[Kind, dict[Method, dict[int, CellRecords]]]:
    """What may be compared: cells by data, attack, mode and scores; for each the classifiers and their seeds."""
    found: dict[Kind, dict[Method, dict[int, CellRecords]]] = {}
    for records in cells:
        cell = records.cell
        methods = found.setdefault((cell.data, cell.attack, cell.mode, cell.scores), {})
        methods.setdefault((cell.encoder, cell.defence), {})[cell.seed] = records
    return found


def kind_pairs(
    kind: Kind, one: Mapping[Method, Mapping[int, CellRecords]], other: Mapping[Method, Mapping[int, CellRecords]],
) -> dict[tuple[Kind, Method], Pair]:
    matches = [(name, name) for name in one if name in other]
    if not matches and len(one) == len(other) == 1:
        matches = [(next(iter(one)), next(iter(other)))]
    return {(kind, left): pair(kind, (left, one[left]), (right, other[right])) for left, right in matches}


def pair(
    kind: Kind, one: tuple[Method, Mapping[int, CellRecords]], other: tuple[Method, Mapping[int, CellRecords]],
) -> Pair:
    sides = [{seed: outcomes(records) for seed, records in seeds.items()} for _, seeds in (one, other)]
    left, right = (" ".join(method) for method, _ in (one, other))
    texts = len({index for side in sides for seed in side.values() for index in seed.held})
    try:
        check_settings([records.header for seeds in (one[1], other[1]) for records in seeds.values()])
        test = paired(*sides)
        return Pair(*kind, left, right, test, unpaired=texts - test.texts)
    except DataError as error:
        digests = [", ".join(sorted({str(records.header.get("data")) for records in seeds.values()}))
                   for _, seeds in (one, other)]
        told = f"; the data were {digests[0]} and {digests[1]}" if digests[0] != digests[1] else ""
        return Pair(*kind, left, right, None, f"{error}{told}")


def check_settings(headers: Sequence[Mapping[str, object]]) -> None:
    """That one attack was run with the same settings everywhere; how much noise was drawn, among those with noise."""
    noisy = [header for header in headers if header.get("noise") not in (None, "none")]
    among = {"attack": headers, "preset": headers, "options": headers, "tolerance": headers, "eot": noisy,
             "draws": noisy}
    told = [text for name, group in among.items()
            if (values := [header[name] for header in group if name in header]) and (text := differing(name, values))]
    if told:
        raise DataError(f"the attack had different settings ({'; '.join(told)})")


def lost_texts(pairs: Iterable[Pair]) -> list[str]:
    return [f"{pair.data} {pair.attack} {pair.mode}, {pair.one} and {pair.other}: {pair.unpaired} texts that not every "
            f"run has; {pair.test.texts} are compared." for pair in pairs if pair.test and pair.unpaired]


def described(kinds: Mapping[Kind, Mapping[Method, object]]) -> str:
    """The first few, for a message."""
    names = [" ".join((*kind[:3], *method)) for kind, methods in sorted(kinds.items()) for method in methods]
    return ", ".join(names[:3]) + (" and more" if len(names) > 3 else "")


def listed(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(seeds)))
