# SPDX-License-Identifier: Apache-2.0
"""What of a plan somebody else has measured already and published."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from dualmask.evaluation.material import Material
from dualmask.evaluation.plan import Job, Plan, Task
from dualmask.evaluation.records import Cell, CellRecords, read_cells
from dualmask.evaluation.standing import differences, settings_of, wanted_texts
from dualmask.results import FAULTS


def without_known(plan: Plan, known: Path, material: Material) -> Plan:
    """The plan without the classifiers all of whose cells are there, with the grid's settings and all of their texts.

    Of a classifier that lacks some, all cells are left to do: another training gives another network, and a row of a
    table is to be one. So are those whose texts are shown to others: published records mostly have none.
    """
    cells = {records.cell: records for records in read_cells(known).cells}
    lacking = {job.name for job in plan.jobs for task in job.tasks if not is_known(job, task, cells, material)}
    return replace(plan, jobs=tuple(with_sources(lacking, plan)))


def is_known(job: Job, task: Task, cells: Mapping[Cell, CellRecords], material: Material) -> bool:
    records = cells.get(task.cell)
    if records is None:
        return False
    settings = settings_of(job, task, material)
    whole = sum(one.outcome not in FAULTS for one in records.results) >= wanted_texts(records.header, settings)
    return whole and not differences(records.header, {**settings, "samples": records.header.get("samples")})


def with_sources(names: set[str], plan: Plan) -> Iterator[Job]:
    """The jobs of these names, and of others the cells whose texts they show."""
    needed = {task.source for job in plan.jobs if job.name in names for task in job.tasks}
    for job in plan.jobs:
        if tasks := tuple(task for task in job.tasks if job.name in names or task.cell in needed):
            yield replace(job, tasks=tasks)
