# SPDX-License-Identifier: Apache-2.0
"""Several processes at one plan. Each takes a cell, and when it is filled, the next that nobody has taken.

One small network rarely keeps a GPU busy. Cells are independent, so what they hold does not depend on who fills them.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from dualmask.deadline import TimeUp, check_time, seconds_left, time_is_up, until
from dualmask.errors import BusyOutputError, DualmaskError
from dualmask.evaluation.filling import Failure, Outcome, Run, Watch, tensor_cores
from dualmask.evaluation.material import unfinished
from dualmask.evaluation.plan import Job, Plan, Task
from dualmask.evaluation.records import RECORDS, Cell
from dualmask.evaluation.standing import MODELS, Standing
from dualmask.output_lock import locked_outputs, output_lock, remove_stale_locks
from dualmask.results import AttackResult

WORKER = "worker"  # a process of a crew owns OUT/worker-PID as long as it lives: nothing is there but its lock
ORPHANED = 3  # the exit code of one whose parent is gone
PATIENCE = 60.0  # seconds that such a one may take to end
Event = tuple[str, tuple[object, ...]]  # a method of Watch, and what it is told


class Order(NamedTuple):
    """A cell to be filled, by a process that knows nothing of the others."""

    job: Job  # with this one task
    standings: dict[Cell, Standing]  # of the cell and of that whose texts it shows
    seconds: float | None  # to stop after


class Filled(NamedTuple):
    outcome: Outcome
    standing: Standing


class Member:
    """A process of the crew."""

    def __init__(self, run: "Crew") -> None:
        spawning = get_context("spawn")  # a forked process can't use the GPU
        self.pipe, theirs = spawning.Pipe()
        threads = max(1, (os.cpu_count() or 1) // run.size)
        self.process = spawning.Process(target=serve, args=(theirs, run.out), kwargs={"threads": threads}, daemon=True)
        self.process.start()
        theirs.close()  # so that its end is heard
        self.task: Task | None = None
        self.job = ""  # whose classifier it has at hand
        self.plan: Plan | None = run.plan  # that it must still be told

    def send(self, order: Order) -> None:
        with suppress(ConnectionError):  # it is gone, as will be heard
            if self.plan is not None:
                self.pipe.send(self.plan)
            self.pipe.send(order)
        self.plan = None


class Crew(Run):
    """A run that several processes share."""

    def __init__(self, plan: Plan, out: Path, *, watch: Watch, end: float | None = None, size: int) -> None:
        super().__init__(plan, out, watch=watch, end=end)
        self.size = size
        self.members: list[Member] = []
        self.taken: set[Cell] = set()
        self.training: dict[str, Cell] = {}  # classifiers that are being trained, and the cell they are trained for

    def fill_all(self) -> None:
        news = True
        try:
            while True:
                at_work = sum(one.task is not None for one in self.members)
                found = list(self.ready(self.size - at_work)) if news else []
                # All begin at once: a large plan can be sent only to one that has got as far as to listen
                self.members += [Member(self) for _ in range(at_work + len(found) - len(self.members))]
                for job, task in found:
                    self.give(job, task)
                busy = {one.pipe: one for one in self.members if one.task is not None}
                if not busy:
                    break
                heard = [self.hear(busy[pipe]) for pipe in wait(list(busy))]  # type: ignore[index]
                news = any(heard)
        finally:
            for one in self.members:
                one.process.terminate()
                one.process.join()
            remove_locks(self.out)
        check_time()
        self.is_late([task for task in self.plan.tasks if task.cell not in self.taken and self.is_open(task)])

    def ready(self, most: int) -> Iterator[tuple[Job, Task]]:
        """Cells that can be begun now; of a job whose classifier is not there, one, for which it is trained."""
        if time_is_up() or self.is_late([]):
            return
        for job in self.plan.jobs:
            for task in job.tasks:
                if most <= 0 or not self.training.keys().isdisjoint(job.models):
                    break
                if task.cell in self.taken or not self.is_open(task) or self.waits(task):
                    continue
                self.training |= {name: task.cell for name in job.models if unfinished(self.out / MODELS / name)}
                self.taken.add(task.cell)
                most -= 1
                yield job, task

    def waits(self, task: Task) -> bool:
        """For the cell whose texts it shows, as long as that one may still be filled."""
        failed = {failure.cell for failure in self.outcome.failures}
        return task.source is not None and task.source not in failed and not self.standings[task.source].whole

    def give(self, job: Job, task: Task) -> None:
        """To one who is free, rather to one who has the job's classifier at hand."""
        free = [one for one in self.members if one.task is None]
        member = next((one for one in free if one.job == job.name), free[0])
        member.task, member.job = task, job.name
        known = {cell: self.standings[cell] for cell in (task.cell, task.source) if cell in self.standings}
        member.send(Order(replace(job, tasks=(task,)), known, seconds_left()))

    def hear(self, member: Member) -> bool:
        """Whether it may let another cell begin: most of what is told are single texts."""
        assert member.task is not None
        try:
            found: Event | Filled = member.pipe.recv()
        except (EOFError, ConnectionError):
            self.lost(member)
            return True
        if isinstance(found, Filled):
            self.ended(member.task, found)
            member.task = None
            return True
        name, told = found
        if isinstance(job := told[0], Job):  # with one task there; here it has all of them
            told = next(one for one in self.plan.jobs if one.name == job.name), *told[1:]
            if name == "trained":
                self.no_longer_trained(member.task.cell)
        getattr(self.watch, name)(*told)
        return name == "trained"

    def ended(self, task: Task, found: Filled) -> None:
        self.standings[task.cell] = found.standing
        self.outcome.done += found.outcome.done
        for cell in found.outcome.done:
            self.clear(cell)
        self.outcome.failures += found.outcome.failures
        for failure in found.outcome.failures:
            self.note(failure)
        lost = self.no_longer_trained(task.cell)  # what was still to be trained came to nothing
        for failure in found.outcome.failures if lost else ():
            self.give_up(lost, DualmaskError(failure.reason))

    def no_longer_trained(self, cell: Cell) -> set[str]:
        """The classifiers that were being trained for a cell."""
        names = {name for name, trained in self.training.items() if trained == cell}
        self.training = {name: other for name, other in self.training.items() if name not in names}
        return names

    def give_up(self, names: set[str], reason: DualmaskError) -> None:
        """All other cells of jobs whose classifiers can't be trained."""
        for task in [task for job in self.plan.jobs if not names.isdisjoint(job.models) for task in job.tasks]:
            if task.cell not in self.taken and self.is_open(task):
                self.taken.add(task.cell)
                self.failed(task, reason)

    def lost(self, member: Member) -> None:
        """A process that ended by itself, or was killed; the others go on, and a new one takes its place."""
        assert member.task is not None
        member.process.join()
        self.members.remove(member)
        self.no_longer_trained(member.task.cell)
        self.failed(member.task, DualmaskError(
            f"the process that worked on it ended with code {member.process.exitcode}"
            + (", as one that is killed for want of memory; take fewer workers." if member.process.exitcode == -9
               else "; the same command tries it again.")))


class Told(Watch):
    """What happens in a process, told to the one who gave the work."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe

    def send(self, *told: object) -> None:
        try:
            self.pipe.send(told)
        except OSError:  # nobody listens: this is no failure of the cell, and no longer this process's affair
            os._exit(ORPHANED)

    def training(self, job: Job) -> None:
        self.send("training", (job,))

    def trained(self, job: Job, seconds: float) -> None:
        self.send("trained", (job, seconds))

    def begin(self, task: Task, texts: int) -> None:
        self.send("begin", (task, texts))

    def text(self, task: Task, result: AttackResult) -> None:
        self.send("text", (task, result))

    def done(self, task: Task, found: Standing) -> None:
        self.send("done", (task, found))

    def failed(self, task: Task, reason: str) -> None:
        self.send("failed", (task, reason))


class MemberRun(Run):
    """What a process does of a run. The list of failures belongs to the one who gave the work."""

    def note(self, failure: Failure) -> None: ...

    def clear(self, cell: Cell) -> None: ...


def serve(pipe: Connection, out: Path, *, threads: int) -> None:
    """What a process of the crew does until it is ended: it is sent the plan, then orders."""
    import torch

    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who gave the work stops it, and says so once
    os.environ.setdefault("RAYON_NUM_THREADS", str(threads))  # tokenizers'
    torch.set_num_threads(threads)
    with output_lock(out / f"{WORKER}-{os.getpid()}"), suppress(EOFError, ConnectionError), tensor_cores():
        if not parent_lives():  # whoever has the folder by now may have looked for this lock before it was there
            return
        run = MemberRun(pipe.recv(), out, watch=Told(pipe))
        while True:
            pipe.send(filled(run, pipe.recv()))


def parent_lives() -> bool:
    parent = parent_process()
    return parent is not None and parent.is_alive()


def end_with_parent() -> None:
    """However the one who gave the work ends, this process ends at once: nobody would hear what it does."""
    def wait_for_end() -> None:
        if (parent := parent_process()) is not None:
            parent.join()
        os._exit(ORPHANED)

    Thread(target=wait_for_end, daemon=True).start()


def await_orphans(out: Path, patience: float = PATIENCE) -> None:
    """Wait for processes whose run was killed a moment ago; until then they may write to the cell they were given."""
    for output in locked_outputs(out, f"{WORKER}-*"):
        try:
            with output_lock(output, patience=patience):
                pass
        except BusyOutputError as error:
            raise BusyOutputError(f"a process of a run that was killed still works in {out} ({error}) End it, and try "
                                  "again.") from None
    remove_locks(out)


def remove_locks(out: Path) -> None:
    """Those that killed processes left."""
    remove_stale_locks(out, out / RECORDS, out / MODELS)


def filled(run: MemberRun, order: Order) -> Filled:
    task, = order.job.tasks
    run.standings, run.outcome = dict(order.standings), Outcome(run.out)
    with until(order.seconds), suppress(TimeUp):
        run.work(order.job)
    return Filled(run.outcome, run.standings[task.cell])
