# SPDX-License-Identifier: Apache-2.0
"""Many attacks in lockstep: their questions are gathered, merged, asked in large batches and answered together.

This is the only place where a model runs during an attack.
"""

import gc
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from dualmask.attacks.problem import Problem, Question, Steps
from dualmask.deadline import check_time
from dualmask.errors import DualmaskError, OptionError
from dualmask.models.victim import VictimError, VictimUnreachableError
from dualmask.text.encoding import packed


class Oracle(Protocol):
    """A model that attacks may ask. Items are hashable; equal items get equal answers."""

    rows: int  # most items in one call
    cells: int  # most items times longest length in one call
    memory: int  # how many answers to keep for later rounds

    def lengths(self, items: Sequence[Any]) -> list[int]: ...

    def answers(self, items: Sequence[Any]) -> Sequence[object]: ...


HOPELESS = 8  # texts in a row from the start for which a victim failed


class Failure(NamedTuple):
    """What stands in the place of an answer that a victim could not give."""

    reason: str


class Station:
    """An oracle with its queue: packs items by length, goes on with half when memory runs out, keeps count."""

    def __init__(self, oracle: Oracle, *, tolerant: bool = False) -> None:
        self.oracle = oracle
        self.tolerant = tolerant  # an item that makes the oracle fail gets a Failure, the others their answers
        self.rows, self.cells = oracle.rows, oracle.cells
        self.asked = 0  # items that were asked for, before merging
        self.run = 0  # items that the model saw
        self.calls = 0
        self.seconds = 0.0
        self._useful, self._failed = False, 0  # whether it has ever answered, and how often it has not
        self._kept: OrderedDict[Hashable, object] = OrderedDict()

    def ask(self, items: Iterable[Hashable]) -> dict[Hashable, object]:
        """An answer for every different item."""
        found: dict[Hashable, object] = {}
        new: list[Hashable] = []
        for item in dict.fromkeys(items):
            if item in self._kept:
                self._kept.move_to_end(item)
                found[item] = self._kept[item]
            else:
                new.append(item)
        began = time.perf_counter()
        for places in packed(self.oracle.lengths(new), rows=self.rows, cells=self.cells):
            check_time()
            batch = [new[place] for place in places]
            found.update(zip(batch, self._answered(batch), strict=True))
        self.seconds += time.perf_counter() - began
        self._check(list(found.values()))
        if self.oracle.memory:
            self._kept.update((item, found[item]) for item in new)
            while len(self._kept) > self.oracle.memory:
                self._kept.popitem(last=False)
        return found

    def _check(self, answers: Sequence[object]) -> None:
        """An oracle that has failed for many texts and never done anything else is set up wrongly."""
        failures = [answer for answer in answers if isinstance(answer, Failure)]
        self._useful = self._useful or len(failures) < len(answers)
        self._failed += len(failures)
        if self._failed >= HOPELESS and not self._useful:
            raise VictimError(f"the victim failed for each of the first {self._failed} texts; the last time: "
                              f"{failures[-1].reason}")

    def _answered(self, batch: list[Hashable]) -> list[object]:
        self.calls += 1
        self.run += len(batch)
        try:
            return list(self.oracle.answers(batch))
        except (OptionError, VictimUnreachableError):  # no text's fault
            raise
        except Exception as error:
            full = out_of_memory(error)
            if not (full or self.tolerant) or (len(batch) == 1 and not self.tolerant):
                raise
            if len(batch) == 1:
                name = "" if isinstance(error, VictimError) else f"{type(error).__name__}: "
                return [Failure(f"{name}{error}")]
        half = len(batch) // 2
        if full:  # later batches would not fit either
            self.rows, self.cells = max(1, min(self.rows, half)), max(1, self.cells // 2)
        return self._answered(batch[:half]) + self._answered(batch[half:])


def out_of_memory(error: Exception) -> bool:
    """Whether a smaller batch may do; PyTorch says so in several ways, one for each device."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or any(
        words in str(error) for words in ("not enough memory", "can't allocate memory"))


class Ending(NamedTuple):
    """How the work on one problem ended: with its own result, or stopped for a reason."""

    problem: Problem
    result: object = None
    stopped: str = ""  # "out-of-time", "victim-error" or "attack-error"
    reason: str = ""


@dataclass
class _Running:
    problem: Problem
    steps: Steps[object]
    question: Question


Replies = list[tuple[_Running, list[object]]]
Work = tuple[Problem, Callable[[], Steps[object]]]


@contextmanager
def rare_collections() -> Iterator[None]:
    """Python looks for dead cycles after every few hundred new objects. Attacks make few cycles but many objects, and
    looking through them that often took a tenth of the time."""
    usual = gc.get_threshold()
    gc.set_threshold(max(usual[0], 20_000) if usual[0] else 0, *usual[1:])  # 0: somebody has switched it off
    try:
        yield
    finally:
        gc.set_threshold(*usual)


class Engine:
    """Steps up to `width` attacks at once. Their results do not depend on how many or which run together."""

    def __init__(self, stations: Mapping[str, Station], *, width: int = 256) -> None:
        self.stations = dict(stations)
        self.width = width
        self.rounds = 0

    def run(self, work: Iterable[Work]) -> Iterator[Ending]:
        """Each problem's ending as soon as it is there; new work starts when other work ends."""
        waiting = iter(work)
        running: list[_Running] = []
        with rare_collections():
            yield from self._fill(running, waiting)
            while running:
                replies, running = self._round(running), []
                for one, reply in replies:
                    ending = self._step(one, reply)
                    if ending is None:
                        running.append(one)
                    else:
                        yield ending
                yield from self._fill(running, waiting)

    def _fill(self, running: list[_Running], waiting: Iterator[Work]) -> Iterator[Ending]:
        """Start new work while there is room."""
        while len(running) < self.width and (next_one := next(waiting, None)) is not None:
            problem, begin = next_one
            one = _Running(problem, begin(), Question("", []))
            ending = self._step(one, None)
            if ending is None:
                running.append(one)
            else:
                yield ending

    def _round(self, running: Sequence[_Running]) -> Replies:
        """One answer for every waiting attack; each oracle runs once for all of them."""
        self.rounds += 1
        by_oracle: dict[str, list[_Running]] = {}
        for one in running:
            by_oracle.setdefault(one.question.oracle, []).append(one)
        replies = []
        for name, those in by_oracle.items():
            station = self.stations[name]
            before = station.seconds
            found = station.ask(item for one in those for item in one.question.items)
            total = sum(len(one.question.items) for one in those)
            station.asked += total
            for one in those:
                one.problem.seconds += (station.seconds - before) * len(one.question.items) / max(total, 1)
                replies.append((one, [found[item] for item in one.question.items]))
        return replies

    def _step(self, one: _Running, reply: list[object] | None) -> Ending | None:
        """Go on to the next question; an ending if there is none."""
        began = time.perf_counter()
        try:
            failure = next((answer for answer in reply or () if isinstance(answer, Failure)), None)
            if failure is not None:
                with suppress(StopIteration):
                    one.steps.throw(VictimError(failure.reason))
                return Ending(one.problem, stopped="victim-error", reason=failure.reason)
            one.question = one.steps.send(reply) if reply is not None else next(one.steps)
        except StopIteration as stop:
            return Ending(one.problem, result=stop.value)
        except VictimError as error:
            return Ending(one.problem, stopped="victim-error", reason=str(error))
        except DualmaskError:  # settings, or a resource that is missing
            raise
        except Exception as error:  # a long run must not end because one text shows a fault of the attack
            return Ending(one.problem, stopped="attack-error", reason=f"{type(error).__name__}: {error}")
        finally:
            one.problem.seconds += time.perf_counter() - began
        problem = one.problem
        won = problem.best.fooled and problem.best.words is not problem.original  # it has only to be confirmed
        if problem.seconds > problem.terms.seconds and not won:
            one.steps.close()
            return Ending(one.problem, stopped="out-of-time")
        return None
