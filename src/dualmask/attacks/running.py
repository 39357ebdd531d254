# SPDX-License-Identifier: Apache-2.0
"""Attack a victim on many examples, and keep what came of it."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from math import sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from dualmask import __version__
from dualmask.attacks import build_attack
from dualmask.attacks.base import Attack, Tools
from dualmask.attacks.cut_texts import windows_told, with_cut
from dualmask.attacks.engine import Ending, Engine, Station
from dualmask.attacks.oracles import SentenceOracle, VictimOracle
from dualmask.attacks.problem import Answer, Problem, Question, Row, SharedStreams, Steps, Streams
from dualmask.errors import DataError, OptionError
from dualmask.models.sentences import cosine
from dualmask.models.victim import Victim, as_victim, check_classes
from dualmask.options import check_least
from dualmask.output_lock import locks_output
from dualmask.results import FORMAT, AttackResult, Outcome, R, RecordFile, ResultFile
from dualmask.seeds import derived_seed
from dualmask.text.columns import FIND, Columns, Text
from dualmask.text.examples import Dataset, Example, load_dataset, read_by_name_or_number
from dualmask.text.input_choices import InputChoices, learned_columns
from dualmask.text.words import Words

MEASURE, JUDGE = "similarity", "judge"  # stations: final texts beside the originals; who decides what counts
WIDTH = {False: 64, True: 1024}  # attacks at once, without and with a GPU
Watch = Callable[[AttackResult], None]
Data = str | Path | Dataset | Sequence[tuple[Text, int | str]]


class Found(NamedTuple):
    """How one attack ended by itself."""

    outcome: Outcome
    answer: Answer
    row: Row | None = None  # the victim's last word
    similarity: float | None = None


class Assault:
    """An attack on a victim: its oracles, its random streams, and the engine that runs it."""

    def __init__(
        self, victim: object, attack: Attack, *, seed: int = 0, sequential: bool = False, width: int | None = None,
        measure: str | None = "minilm", labels: Sequence[str] = (), tolerance: float = 1e-4,
        batch_size: int | None = None,
    ) -> None:
        check_least(width=(width, 1), tolerance=(tolerance, 0), batch_size=(batch_size, 1))
        self.victim: Victim = as_victim(victim, labels=labels)
        self.attack, self.seed, self.measure = attack, seed, measure
        self.tolerance = 0.0 if sequential else tolerance
        self.logs: dict[int, list[str]] | None = None  # a dictionary given here gets every text asked about, in order
        # One after the other with one pair of random streams, every digit counting: TextAttack's way
        self.shared = SharedStreams(seed) if sequential else None
        attack.sequential, attack.victim = sequential, self.victim
        if attack.options.queries is not None and attack.options.queries < self.victim.cost:
            raise OptionError(f"an answer of this victim takes {self.victim.cost} queries, and the attack may make "
                              f"{attack.options.queries}; allow more queries, or average over fewer draws.")
        stations = {"victim": Station(VictimOracle(self.victim, rows=batch_size), tolerant=True)}
        if self.victim.judge is not None:
            stations[JUDGE] = Station(VictimOracle(self.victim.judge, rows=batch_size), tolerant=True)
        for name, oracle in attack.oracles(self.victim, self.victim.device).items():
            stations[name] = Station(oracle)
        if measure is not None:
            stations[MEASURE] = self._measure(measure, stations)
        _ = attack.moves  # what it needs is loaded now: a wrong name is told before anything is written
        usual = WIDTH[torch.device(self.victim.device).type == "cuda"]
        self.engine = Engine(stations, width=1 if sequential else width or usual)

    def _measure(self, name: str, stations: Mapping[str, Station]) -> Station:
        if "sentences" in stations and name == self.attack.options.sentence_encoder:
            return stations["sentences"]
        from dualmask.models.sentences import find_sentence_encoder

        return Station(SentenceOracle(find_sentence_encoder(name, device=self.victim.device)))

    def header(self) -> dict[str, object]:
        """What a file of results says about how they came about."""
        attack, defence = self.attack, getattr(self.victim.classifier, "defence", None)
        return {"format": FORMAT, "attack": attack.name, "preset": attack.preset, "options": attack.lasting_options(),
                "changed": attack.changes(attack.preset), "seed": self.seed,
                "sequential": attack.sequential, "tolerance": self.tolerance, "measure": self.measure,
                "victim": self.victim.describe(), "labels": list(self.victim.labels),
                "defence": None if defence is None else {"name": defence.name, **defence.lasting_options()},
                "dualmask": __version__}

    def run(self, examples: Sequence[tuple[int, Example]]) -> Iterator[AttackResult]:
        """A result for each numbered example, in the order in which they end."""
        for ending in self.engine.run(map(self._work, examples)):  # one by one, so that what is done is forgotten
            yield self._result(ending)

    def _work(self, numbered: tuple[int, Example]) -> tuple[Problem, Callable[[], Steps[object]]]:
        problem = self.problem(*numbered)
        if self.logs is not None:
            problem.log = self.logs.setdefault(problem.number, [])
        return problem, lambda: self._pursue(problem)

    def problem(self, number: int, example: Example) -> Problem:
        words = Words(example.text, rule=self.attack.options.split)
        terms = replace(self.attack.terms(words, tolerance=self.tolerance), fresh=self.victim.fresh,
                        cost=self.victim.cost, judge=JUDGE if self.victim.judge else "victim")
        streams = self.shared or Streams(derived_seed(self.seed, "attack", words.text, example.label))
        return Problem(words, example.label, streams=streams, terms=terms, number=number, unknown=self.victim.unknown)

    def _pursue(self, problem: Problem) -> Steps[Found]:
        """The attack as a whole. It can't report its own success: the victim is asked once more."""
        start = yield from problem.begin()
        if start.fooled:
            return Found("skipped", start, problem.first)
        answer = yield from self.attack.search(problem)
        if not answer.fooled:
            outcome: Outcome = "out-of-queries" if problem.spent else "failed"
            return Found(outcome, answer, problem.known(answer.words))
        row = yield from problem.confirm(answer.words)
        if row.index(max(row)) == problem.label:
            return Found("unconfirmed", answer, row)
        return Found("succeeded", answer, row, (yield from self._similarity(problem, answer.words)))

    def _similarity(self, problem: Problem, words: Words) -> Steps[float | None]:
        if MEASURE not in self.engine.stations:
            return None
        vectors: list[np.ndarray] = yield Question(MEASURE, [problem.original.text, words.text])
        return round(float(cosine(vectors[0], vectors[1])), 4)

    def _result(self, ending: Ending) -> AttackResult:
        problem = ending.problem
        found = ending.result if isinstance(ending.result, Found) else None
        answer = found.answer if found else problem.best
        first, last = problem.first, found.row if found else problem.known(answer.words)
        return AttackResult(
            index=problem.number, text=problem.original.value, label=problem.label,
            outcome=found.outcome if found else ending.stopped,  # type: ignore[arg-type]
            adversarial=answer.words.value if answer.words is not problem.original else None,
            clean=predicted(first), predicted=predicted(last),
            probability=rounded(first, problem.label), probability_after=rounded(last, problem.label),
            queries=problem.queries, rows=problem.rows, gradients=problem.gradients, words=len(problem.original),
            changed=len(answer.words.changed), similarity=found.similarity if found else None,
            seconds=round(problem.seconds, 4), reason=ending.reason)


def rounded(row: Row | None, label: int) -> float | None:
    """A label's probability without the last digits, which depend on the batch."""
    return round(row[label], 4) if row is not None and label < len(row) else None


def predicted(row: Row | None) -> int | None:
    return None if row is None else row.index(max(row))


@locks_output("out")
def attack(
    victim: object, examples: Data, attack: str | Attack = "textfooler", *, preset: str | None = None,
    options: Mapping[str, object] | None = None, tools: Tools | None = None, samples: int | None = None, seed: int = 0,
    labels: Sequence[str] = (), measure: str | None = "minilm", sequential: bool = False, width: int | None = None,
    tolerance: float = 1e-4, batch_size: int | None = None, out: str | Path | None = None, resume: bool = False,
    overwrite: bool = False, watch: Watch | None = None, about: Mapping[str, str] | None = None,
    cell: Mapping[str, object] | None = None,
) -> list[AttackResult]:
    """Attack a classifier, a pipeline, a function or an address on labelled texts; results in the texts' order.

    examples: a file or data set, whose classes are matched by name, or pairs of a text and a label (number or name).
    attack, preset, options, tools: a name with its settings, or an Attack object, which has them.
    samples, seed: take so many texts at random, by the seed alone, which also seeds the attack's draws.
    labels: the names of a function's or server's classes, in its order; batch_size: texts that it gets at a time.
    measure: the sentence encoder that compares final texts with the originals; None: they are not compared.
    sequential: one text after the other with one random stream, TextAttack's way; its seed is 765.
    width: attacks at once. tolerance: scores (log-odds) that differ by less than this share of them count as equal.
    out, resume, overwrite: a file of JSON Lines that is written as results come, gone on with, or replaced.
    watch: called with each result. about: kept in the file's header. cell: which number of a table this is.
    """
    if resume and sequential:
        raise OptionError("a sequential run can't be resumed: its one random stream runs through all examples.")
    if not isinstance(attack, str) and (preset, options, tools) != (None, None, None):
        raise OptionError("an attack given as an object has its preset, options and tools already; leave them out.")
    chosen = build_attack(attack, preset=preset, options=options, tools=tools) if isinstance(attack, str) else attack
    assault = Assault(victim, chosen, seed=seed, sequential=sequential, width=width, measure=measure, labels=labels,
                      tolerance=tolerance, batch_size=batch_size)
    texts = labelled(examples, assault.victim.labels, learned_columns(getattr(victim, "facts", {})))
    check_classes(assault.victim, texts)
    chosen_texts = [(place, texts[place]) for place in sampled(texts, samples, seed)]
    file = None
    if out is not None:
        header = {**assault.header(), "samples": samples, "data": digest(texts), "about": dict(about or {}),
                  "texts": len(chosen_texts), **windows_told(assault.victim.classifier),
                  **({"cell": dict(cell)} if cell else {})}
        file = ResultFile(Path(out), header, resume=resume, overwrite=overwrite)
    return collected(assault, chosen_texts, file, watch,
                     finish=partial(with_cut, assault.victim.classifier))


def collected(
    assault: Assault, examples: Sequence[tuple[int, Example]], file: ResultFile | None, watch: Watch | None, *,
    finish: Callable[[AttackResult], AttackResult] = lambda result: result,
) -> list[AttackResult]:
    """Results by number, those that the file holds already and the new ones, finished and written as they come."""
    done = {one.index for one in file.done} if file else set()
    found = kept(map(finish, assault.run([pair for pair in examples if pair[0] not in done])), file, watch)
    wrong, classes = sum(one.outcome == "skipped" for one in found), len(assault.victim.labels) or 2
    chance = len(found) * (1 - 1 / classes)
    if len(found) >= 10 and wrong > chance + 2 * sqrt(chance / classes):  # two deviations: no accident
        warnings.warn(f"the victim had {len(found) - wrong} of {len(found)} texts right before the attack, fewer than "
                      "by chance: are the labels' numbers in its order?", stacklevel=4)
    return found


def kept(new: Iterable[R], file: RecordFile[R] | None, watch: Callable[[R], None] | None) -> list[R]:
    """New records, each written as it comes, with those that the file holds already; in the order of the data."""
    results = {one.index: one for one in (file.done if file else [])}
    try:
        for result in new:
            results[result.index] = result
            if file:
                file.add(result)
            if watch:
                watch(result)
    finally:
        if file:
            file.close()
    return [results[number] for number in sorted(results)]


def labelled(given: Data, labels: Sequence[str], learned: Columns = FIND) -> list[Example]:
    """Examples with the victim's numbers for their classes; learned: the columns that it was trained on."""
    if isinstance(given, str | Path):
        if not labels:
            return by_name(load_dataset(given), labels)
        found, note = read_by_name_or_number(given, labels, InputChoices(learned=learned))
        if note:
            warnings.warn(note, stacklevel=3)
        return found
    if isinstance(given, Dataset):
        return by_name(given, labels)
    examples = []
    for one in given:
        if not isinstance(one, tuple) or len(one) != 2 or not isinstance(one[1], int | str | np.integer):
            raise DataError(f"expected pairs of a text and a label, which is a number or a name, got {one!r:.60}.")
        text, label = one
        if not is_text(text):
            raise DataError(f"expected a text, or a pair of texts as a tuple, got {text!r:.60} with the label {label}.")
        if isinstance(label, str):
            if label not in labels:
                raise DataError(f"the label '{label}' is a name, and the victim's names are "
                                f"{', '.join(labels) or 'not known; give them with labels='}.")
            label = labels.index(label)
        examples.append(Example(text, int(label)))
    if not examples:
        raise DataError("there is nothing to attack: no examples were given.")
    return examples


def is_text(value: object) -> bool:
    pair = isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, str) for part in value)
    return isinstance(value, str) or pair


def by_name(data: Dataset, labels: Sequence[str]) -> list[Example]:
    """A data set's test part, or else its training part, with its classes numbered as the victim does."""
    examples = data.test or data.train
    return labelled([(one.text, data.labels[one.label]) for one in examples], labels or data.labels)


def digest(examples: Sequence[Example]) -> str:
    """Which texts and labels a run was about."""
    total = blake2b(digest_size=8)
    for example in examples:
        total.update(repr(tuple(example)).encode("utf-8", "backslashreplace"))
    return f"{len(examples)} examples {total.hexdigest()}"


def sampled(examples: Sequence[Example], samples: int | None, seed: int) -> list[int]:
    """Which examples to attack: all, or so many at random, the same ones for every victim and attack."""
    check_least(samples=(samples, 1))
    if samples is None or samples >= len(examples):
        return list(range(len(examples)))
    order = np.random.default_rng(derived_seed(seed, "sample", len(examples))).permutation(len(examples))
    return sorted(order[:samples].tolist())
