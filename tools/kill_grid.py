# SPDX-License-Identifier: Apache-2.0
"""Kill a run of a grid again and again (SIGKILL) and compare what it leaves at last with a run that was let alone.

    python tools/kill_grid.py [GRID] [--kills 20] [--seed 0] [--work FOLDER]

Without GRID a toy of five seeds is run. A run is killed at random moments, each up to a quarter of the undisturbed
run's time after its start, and started again in the same folder; when it has come to its end in spite of it, another
is begun in a new folder, until there were so many kills. Every record must be the same, but for times and `about`, and
so must be every trained weight. Prints JSON; exit code 1 if something differs.
"""

import argparse
import json
import os
import random
import signal
import sys
import time
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from grid_stand_ins import change, write_toy

from dualmask.evaluation.bench import run_grid
from dualmask.evaluation.grid import Grid, read_grid

POLL = 0.005
# What a run imports as it goes; here once, so that runs spend their time on work
HEAVY = ("accelerate", "transformers.models.auto.modeling_auto", "transformers.models.bert.modeling_bert", "rapidfuzz")


def start(grid: Grid, out: Path) -> int:
    """A run in a process of its own. It is forked, so that a kill hits the work and not the imports."""
    process = os.fork()
    if not process:
        code = 70
        try:
            code = 1 if run_grid(grid, out).failures else 0
        finally:
            os._exit(code)
    return process


def waited(process: int, seconds: float) -> int | None:
    """The exit code of a process, or None if it still runs after so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(POLL)
    return None


def contents(out: Path) -> dict[str, object]:
    """All that must not depend on how often a run was stopped: records by cell, and the hashes of weights."""
    found: dict[str, object] = {}
    for path in sorted(out.glob("records/*.jsonl")):
        header, *results = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        header.pop("about", None)
        header.get("training", {}).pop("seconds", None)
        found[path.name] = [header, *({**one, "seconds": None} for one in results)]
    for path in sorted(out.glob("models/*/dualmask.json")):
        found[path.parent.name] = json.loads(path.read_text(encoding="utf-8"))["sha256"]
    return found


def finished_after_kills(grid: Grid, out: Path, kills: int, *, span: float, draw: random.Random) -> list[float]:
    """Run to the end with at most so many kills; the moments, in seconds after each start."""
    moments: list[float] = []
    while len(moments) < kills:
        moment = draw.uniform(0, span)
        process = start(grid, out)
        code = waited(process, moment)
        if code is not None:
            if code:
                raise SystemExit(f"a run in {out} ended with exit code {code}")
            return moments
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        moments.append(round(moment, 3))
    if code := waited(start(grid, out), 3600):
        raise SystemExit(f"the last run in {out} ended with exit code {code}")
    return moments


def experiment(path: Path, work: Path, *, kills: int, seed: int) -> dict[str, object]:
    grid, draw = read_grid(path), random.Random(seed)
    for name in HEAVY:
        import_module(name)
    began = time.monotonic()
    if waited(start(grid, work / "whole"), 3600) != 0:
        raise SystemExit("the undisturbed run failed")
    seconds = time.monotonic() - began
    whole, rounds = contents(work / "whole"), []
    differing: list[str] = []
    while (left := kills - sum(map(len, rounds))) > 0:
        out = work / f"killed-{len(rounds)}"
        rounds.append(finished_after_kills(grid, out, left, span=seconds / 4, draw=draw))
        found = contents(out)
        differing += [f"{out.name}: {name}" for name in sorted({*whole, *found}) if whole.get(name) != found.get(name)]
    records = sum(len(one) - 1 for one in whole.values() if isinstance(one, list))
    return {"grid": grid.name, "seeds": len(grid.seeds), "undisturbed_seconds": round(seconds, 1), "records": records,
            "kills": sum(map(len, rounds)), "kills_by_folder": list(map(len, rounds)), "moments": rounds,
            "differing": differing}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("grid", type=Path, nargs="?")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path)
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        work = given.work or Path(folder)
        grid = given.grid or toy(work)
        found = experiment(grid, work, kills=given.kills, seed=given.seed)
    print(json.dumps(found))
    sys.exit(bool(found["differing"]))


def toy(work: Path) -> Path:
    """Five seeds, attacked long enough that kills hit training and attacks alike."""
    write_toy(work / "toy", tests=150)
    return change(work / "toy" / "grid.toml", seeds="[0, 1, 2, 3, 4]", samples="150",
                  attacks='["deepwordbug", "typist"]', modes='["adaptive", "transfer", "transfer-successful", '
                  '"defence-aware"]')


if __name__ == "__main__":
    main()
