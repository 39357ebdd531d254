# SPDX-License-Identifier: Apache-2.0
"""Several processes at one grid: the same records as of one, whatever happens to some of them."""

import json
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from grid_stand_ins import change, write_toy
from typer.testing import CliRunner

from dualmask.cli import app
from dualmask.errors import BusyOutputError, OptionError
from dualmask.evaluation.bench import run_grid
from dualmask.evaluation.crew import ORPHANED, Crew, Member, MemberRun, Told, await_orphans
from dualmask.evaluation.filling import Watch
from dualmask.evaluation.grid import read_grid
from dualmask.evaluation.plan import Job, Task, make_plan
from dualmask.evaluation.standing import survey
from dualmask.output_lock import locked_outputs
from dualmask.results import AttackResult

# The second one can't be trained, for want of a language model
UNTRAINABLE = ('["plain", {name = "lost", defence = "ddm", options = {scorer = "surprisal", '
               'language_model = "./nowhere"}}]')


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crew")
    write_toy(folder)
    return folder


def lines(out: Path) -> dict[str, list[dict[str, object]]]:
    """All records without what may differ between runs."""
    found = {}
    for path in sorted((out / "records").iterdir()):
        header, *results = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        header.pop("about")
        found[path.name] = [header, *({**one, "seconds": 0} for one in results)]
    return found


class Seen(Watch):
    def __init__(self) -> None:
        self.trained_jobs: list[str] = []
        self.texts = 0

    def trained(self, job: Job, seconds: float) -> None:
        assert len(job.tasks) == 2
        self.trained_jobs.append(job.name)

    def text(self, task: Task, result: AttackResult) -> None:
        self.texts += 1


@pytest.mark.slow
def test_records_are_those_of_one_process(toy: Path) -> None:
    grid, seen = read_grid(toy / "grid.toml"), Seen()
    outcome = run_grid(grid, toy / "several", watch=seen, workers=2)
    assert (len(outcome.done), outcome.failures, outcome.left, outcome.found) == (4, [], [], 0)
    assert set(seen.trained_jobs) == {"toy.tiny.plain.0", "toy.tiny.ddm.0"} and seen.texts == 4 * 12
    run_grid(grid, toy / "one")
    assert lines(toy / "several") == lines(toy / "one")
    again = run_grid(grid, toy / "several", workers=2)
    assert (again.done, again.found) == ([], 4)


class Killer(Crew):
    """Kills the first process that begins a cell."""

    def hear(self, member: Member) -> bool:
        news = super().hear(member)
        if not self.outcome.failures:
            member.process.kill()
            member.process.join()
        return news


@pytest.mark.slow
def test_a_process_that_dies_costs_its_cell_and_no_other(toy: Path) -> None:
    out = toy / "killed"
    out.mkdir()
    grid = read_grid(toy / "grid.toml")
    plan = make_plan(grid)
    outcome = Killer(plan, out, watch=Watch(), size=1).through(survey(plan, out))
    reasons = [failure.reason for failure in outcome.failures]
    assert "ended with code -9" in reasons[0] and "fewer workers" in reasons[0]
    assert all("it needs the texts of" in reason for reason in reasons[1:])
    assert [cell.defence for cell in outcome.done] == ["ddm"] and len(reasons) == 3
    rest = run_grid(grid, out)
    assert rest.failures == [] and len(rest.done) == 3


@pytest.mark.slow
def test_a_training_that_fails_is_tried_once(toy: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(toy, tmp_path / "toy", ignore=shutil.ignore_patterns("several", "one", "killed")))
    grid = read_grid(change(folder / "grid.toml", defences=UNTRAINABLE))
    seen = Seen()
    outcome = run_grid(grid, folder / "out", watch=seen, workers=2)
    assert {cell.defence for cell in outcome.done} == {"plain"} and len(outcome.done) == 2
    assert [failure.cell.defence for failure in outcome.failures] == ["lost", "lost"]
    assert len({failure.reason for failure in outcome.failures}) == 1 and seen.trained_jobs[0] == "toy.tiny.plain.0"
    written = (folder / "out" / "failures.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(written) == 2


def test_nothing_is_begun_when_time_is_up(toy: Path, tmp_path: Path) -> None:
    grid = read_grid(toy / "grid.toml")
    for limit in ({"minutes": 0.0}, {"deadline": 0.0}):
        outcome = run_grid(grid, tmp_path / next(iter(limit)), workers=3, **limit)  # type: ignore[arg-type]
        assert len(outcome.left) == 4 and outcome.done == outcome.failures == []


def test_too_few_workers_are_refused(toy: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="workers is 0"):
        run_grid(read_grid(toy / "grid.toml"), tmp_path, workers=0)
    found = CliRunner().invoke(app, ["bench", str(toy / "grid.toml"), "--workers", "0"])
    assert found.exit_code == 2 and "--workers" in found.output


KILLED = """
import os
import signal
import sys
from pathlib import Path
from dualmask.evaluation.bench import run_grid
from dualmask.evaluation.filling import Watch
from dualmask.evaluation.grid import read_grid

class Kill(Watch):
    def text(self, task, result):
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    run_grid(read_grid(Path(sys.argv[1])), Path(sys.argv[2]), watch=Kill(), workers=2)
"""


@pytest.mark.slow
def test_processes_end_with_their_run_and_say_nothing_of_it(toy: Path, tmp_path: Path) -> None:
    """A pipe that all of them have is at its end when the last of them is gone."""
    (tmp_path / "killed.py").write_text(KILLED)
    out, grid = tmp_path / "out", change(toy / "long.toml", samples="24")
    process = subprocess.Popen([sys.executable, tmp_path / "killed.py", grid, out], stdout=subprocess.PIPE, text=True)
    assert process.communicate(timeout=600) == ("", None) and process.returncode == -signal.SIGKILL
    assert not (out / "failures.jsonl").exists()
    assert locked_outputs(out, "worker-*")
    found = run_grid(read_grid(grid), out)
    assert found.failures == [] and found.found + len(found.done) == 4
    run_grid(read_grid(grid), toy / "undisturbed")
    assert lines(out) == lines(toy / "undisturbed")
    assert not list(tmp_path.rglob(".*.lock"))


HOLD = ("import sys\nfrom pathlib import Path\nfrom dualmask.output_lock import output_lock\n"
        "with output_lock(Path(sys.argv[1], 'worker-1')): print('held', flush=True); sys.stdin.read()")


def test_a_run_begins_when_processes_of_a_killed_one_are_gone(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    grid = read_grid(toy / "grid.toml")
    monkeypatch.setattr("dualmask.evaluation.bench.await_orphans", partial(await_orphans, patience=0.0))
    (tmp_path / "failures.jsonl").write_text("")
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / ".left.jsonl.lock").write_text("")
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as orphan:
        assert orphan.stdout is not None and orphan.stdout.readline() == "held\n"
        with pytest.raises(BusyOutputError, match=f"run that was killed still works in .*process {orphan.pid} on"):
            run_grid(grid, tmp_path, minutes=0.0)
        assert (tmp_path / "failures.jsonl").exists(), "nothing is touched"
        orphan.kill()
        orphan.wait()
        assert len(run_grid(grid, tmp_path, minutes=0.0).left) == 4
    assert not list(tmp_path.rglob(".*.lock")) and not (tmp_path / "failures.jsonl").exists()


class Orphan(Connection):
    """A pipe whose other end is gone."""

    def __init__(self) -> None:
        super().__init__(os.open(os.devnull, os.O_RDWR))

    def send(self, obj: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")


def test_a_process_nobody_listens_to_ends_and_notes_nothing(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []

    def end(code: int) -> None:
        ended.append(code)
        raise SystemExit(code)

    monkeypatch.setattr("dualmask.evaluation.crew.os._exit", end)
    plan = make_plan(read_grid(toy / "grid.toml"))
    run = MemberRun(plan, toy, watch=Told(Orphan()))
    with pytest.raises(SystemExit):
        run.failed(plan.tasks[0], OptionError("what is noted by the one who gave the work"))
    assert ended == [ORPHANED] and not (toy / "failures.jsonl").exists()
