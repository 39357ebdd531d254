# SPDX-License-Identifier: Apache-2.0
"""Attack a victim on many examples, and keep what came of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from dualmask import __version__
from dualmask.attacks import build_attack
from dualmask.attacks.base import Attack, Tools
from dualmask.attacks.constraints import similarity
from dualmask.attacks.engine import Ending, Engine, Station
from dualmask.attacks.oracles import SentenceOracle, VictimOracle
from dualmask.attacks.problem import Answer, Problem, Question, Row, SharedStreams, Steps, Streams
from dualmask.errors import DataError, OptionError
from dualmask.models.victim import Victim, as_victim, check_classes
from dualmask.options import check_least
from dualmask.results import AttackResult, Outcome, ResultFile
from dualmask.seeds import derived_seed
from dualmask.text.examples import Example
from dualmask.text.words import Words

MEASURE = "similarity"  # the station that compares final texts with the originals
WIDTH = {False: 64, True: 1024}  # attacks at once, without and with a GPU
Watch = Callable[[AttackResult], None]


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
        check_least(width=(width or 1, 1), tolerance=(tolerance, 0), batch_size=(batch_size or 1, 1))
        self.victim: Victim = as_victim(victim, labels=labels)
        self.attack, self.seed, self.tolerance = attack, seed, 0.0 if sequential else tolerance
        self.logs: dict[int, list[str]] | None = None  # a dictionary given here gets every text asked about, in order
        # One after the other with one pair of random streams, every digit counting: TextAttack's way
        self.shared = SharedStreams(seed) if sequential else None
        attack.sequential, attack.victim = sequential, self.victim
        stations = {"victim": Station(VictimOracle(self.victim, rows=batch_size), tolerant=True)}
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
        terms = self.attack.terms(words, tolerance=self.tolerance)
        streams = self.shared or Streams(derived_seed(self.seed, "attack", words.text, example.label))
        return Problem(words, example.label, streams=streams, terms=terms, number=number, unknown=self.victim.unknown)

    def _pursue(self, problem: Problem) -> Steps[Found]:
        """The attack as a whole. It can't report its own success: the victim is asked once more."""
        start = yield from problem.begin()
        if start.fooled:
            return Found("skipped", start, problem.known(start.words))
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
        return round(similarity(vectors[0], vectors[1], "cosine"), 4)

    def _result(self, ending: Ending) -> AttackResult:
        problem = ending.problem
        found = ending.result if isinstance(ending.result, Found) else None
        answer = found.answer if found else problem.best
        first, last = problem.known(problem.original), found.row if found else problem.known(answer.words)
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


def attack(
    victim: object, examples: Sequence[Example], attack: str | Attack = "textfooler", *, preset: str | None = None,
    options: Mapping[str, object] | None = None, tools: Tools | None = None, samples: int | None = None, seed: int = 0,
    labels: Sequence[str] = (), measure: str | None = "minilm", sequential: bool = False, width: int | None = None,
    tolerance: float = 1e-4, batch_size: int | None = None, out: str | Path | None = None, resume: bool = False,
    overwrite: bool = False, watch: Watch | None = None, about: Mapping[str, str] | None = None,
) -> list[AttackResult]:
    """Attack a classifier, a pipeline, a function or an address on labelled texts; results in the texts' order.

    `samples` takes so many of them at random, by the seed alone. `labels` names a function's or server's classes,
    `batch_size` is how many texts it gets at a time.
    `measure` names the sentence encoder that compares final texts with the originals (None: not compared).
    Scores (log-odds) nearer than `tolerance`, a share of them, count as equal; raise it for a victim of low precision.
    `out` is a file of JSON Lines that is written as results come; `resume` goes on with it; `about` is kept in it.
    """
    if not examples:
        raise DataError("there is nothing to attack: no examples were given.")
    if resume and sequential:
        raise OptionError("a sequential run can't be resumed: its one random stream runs through all examples.")
    chosen = build_attack(attack, preset=preset, options=options, tools=tools) if isinstance(attack, str) else attack
    assault = Assault(victim, chosen, seed=seed, sequential=sequential, width=width, measure=measure, labels=labels,
                      tolerance=tolerance, batch_size=batch_size)
    examples = [Example(*example) for example in examples]
    check_classes(assault.victim, examples)
    places = sampled(examples, samples, seed)
    header = {"format": 1, "attack": chosen.name, "preset": preset or next(iter(chosen.presets)), "seed": seed,
              "options": chosen.options_as_dict(), "sequential": sequential, "tolerance": assault.tolerance,
              "measure": measure, "samples": samples, "labels": list(assault.victim.labels), "dualmask": __version__}
    file = None
    if out is not None:
        header |= {"victim": assault.victim.describe(), "defence": defence_of(assault.victim),
                   "data": digest(examples), "about": dict(about or {})}
        file = ResultFile(Path(out), header, resume=resume, overwrite=overwrite)
    return collected(assault, [(place, examples[place]) for place in places], file, watch)


def defence_of(victim: Victim) -> dict[str, object] | None:
    """The name and options of the defence that was on, where the victim is one of ours."""
    defence = getattr(victim.classifier, "defence", None)
    return None if defence is None else {"name": defence.name, **defence.options_as_dict()}


def collected(
    assault: Assault, examples: Sequence[tuple[int, Example]], file: ResultFile | None, watch: Watch | None,
) -> list[AttackResult]:
    """Results by number, those that the file holds already and the new ones, written as they come."""
    results = {one.index: one for one in (file.done if file else [])}
    try:
        for result in assault.run([(number, one) for number, one in examples if number not in results]):
            results[result.index] = result
            if file:
                file.add(result)
            if watch:
                watch(result)
    finally:
        if file:
            file.close()
    return [results[number] for number in sorted(results)]


def digest(examples: Sequence[Example]) -> str:
    """Which texts and labels a run was about."""
    total = blake2b(digest_size=8)
    for example in examples:
        total.update(repr(tuple(example)).encode("utf-8", "backslashreplace"))
    return f"{len(examples)} examples {total.hexdigest()}"


def sampled(examples: Sequence[Example], samples: int | None, seed: int) -> list[int]:
    """Which examples to attack: all, or so many at random, the same ones for every victim and attack."""
    check_least(samples=(samples or 1, 1))
    if samples is None or samples >= len(examples):
        return list(range(len(examples)))
    order = np.random.default_rng(derived_seed(seed, "sample", len(examples))).permutation(len(examples))
    return sorted(order[:samples].tolist())
