# SPDX-License-Identifier: Apache-2.0
"""Run grids: what is missing is trained and attacked, by one process or several."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from dualmask.deadline import until
from dualmask.errors import OptionError
from dualmask.evaluation.crew import Crew, await_orphans
from dualmask.evaluation.filling import Outcome, Run, Watch, tensor_cores
from dualmask.evaluation.grid import Grid
from dualmask.evaluation.known import without_known
from dualmask.evaluation.material import Material
from dualmask.evaluation.plan import Plan, joined, make_plan
from dualmask.evaluation.records import FAILURES, keep
from dualmask.evaluation.standing import survey, untrained
from dualmask.output_lock import locks_output
from dualmask.resources import refuse_unmade

GRID, CELLS = ".toml", ".cells"  # endings of a grid's copy and of the names of all cells that it asks for


@locks_output("out")
def run_grid(
    grid: Grid | Sequence[Grid], out: Path, *, watch: Watch | None = None, only: str = "",
    minutes: float | None = None, deadline: float | None = None, workers: int = 1, known: Path | None = None,
) -> Outcome:
    """Fill the cells of a grid, or of several, that `out` lacks; one that fails is listed and the others go on.

    only: just the cells whose names contain it, or one of several between commas, and what they need.
    minutes: begin nothing new after so many.
    deadline: stop after so many seconds, whatever is under way; what was recorded stays, and the next run goes on.
    workers: processes that share the cells, for a GPU that one can't keep busy.
    known: records of others, packed or a folder; classifiers that these have wholly are left out.
    """
    if workers < 1:
        raise OptionError(f"workers is {workers}; expected 1 or more.")
    grids = [grid] if isinstance(grid, Grid) else list(grid)
    end = time.monotonic() + 60 * minutes if minutes is not None else None
    out.mkdir(parents=True, exist_ok=True)
    with tensor_cores(), until(deadline):
        await_orphans(out)
        (out / FAILURES).unlink(missing_ok=True)
        for one in grids:
            keep(one.text, out / f"{one.name}{GRID}")
            whole = make_plan(replace(one, only=""))
            keep("".join(f"{task.cell.file_name}\n" for task in whole.tasks), out / f"{one.name}{CELLS}")
        plan, kind = plan_of(grids, only, known), partial(Crew, size=workers) if workers > 1 else Run
        run = kind(plan, out, watch=watch or Watch(), end=end)
        found = survey(plan, out, run.material)
        for source in dict.fromkeys(job.encoder.source for job in untrained(plan, found, out)):
            refuse_unmade(source)
        return run.through(found)


def plan_of(grids: Sequence[Grid], only: str = "", known: Path | None = None) -> Plan:
    """What is to be done for grids, those before others; `only` and `known` as of `run_grid`."""
    texts: dict[str, str] = {}
    for grid in grids:
        if texts.setdefault(grid.name, grid.text) != grid.text:
            raise OptionError(f"two different grids are called '{grid.name}'; give each a name of its own.")
    plans, refused = [], []
    for grid in grids:
        try:
            plans.append(make_plan(grid, only=only))
        except OptionError as error:  # it has no such cell; one of the others may
            refused.append(error)
    if not plans:
        raise refused[0]
    plan = joined(plans)
    return plan if known is None else without_known(plan, known, Material())
