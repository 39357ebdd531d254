# SPDX-License-Identifier: Apache-2.0
"""What of a plan somebody else has measured already and published as packed records."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from dualmask.evaluation.grid import Grid
from dualmask.evaluation.material import Material
from dualmask.evaluation.packing import read_packed
from dualmask.evaluation.plan import Job, Plan, Task
from dualmask.evaluation.records import Cell, CellRecords
from dualmask.evaluation.standing import differences, settings_of, wanted_texts
from dualmask.results import FAULTS


def without_known(grid: Grid, plan: Plan, packed: Path, material: Material) -> Plan:
    """The plan without the classifiers all of whose cells are there, with the grid's settings and all of their texts.

    Of a classifier that lacks some, all cells are left to do: another training gives another network, and a row of a
    table is to be one. So are those whose texts are shown to others: packed records have none.
    """
    cells = {records.cell: records for records in read_packed(packed).cells}
    left = [job for job in plan.jobs if not all(is_known(grid, job, task, cells, material) for task in job.tasks)]
    return replace(plan, jobs=tuple(with_sources(left, plan)))


def is_known(grid: Grid, job: Job, task: Task, cells: Mapping[Cell, CellRecords], material: Material) -> bool:
    records = cells.get(task.cell)
    if records is None:
        return False
    settings = settings_of(grid, job, task, material)
    whole = sum(one.outcome not in FAULTS for one in records.results) >= wanted_texts(records.header, settings)
    return whole and not differences(records.header, {**settings, "samples": records.header.get("samples")})


def with_sources(left: list[Job], plan: Plan) -> Iterable[Job]:
    """These jobs, and of others the cells whose texts they show."""
    needed = {task.source for job in left for task in job.tasks}
    for job in plan.jobs:
        tasks = job.tasks if job in left else tuple(task for task in job.tasks if task.cell in needed)
        if tasks:
            yield replace(job, tasks=tasks)
