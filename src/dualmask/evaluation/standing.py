# SPDX-License-Identifier: Apache-2.0
"""How far a grid is: what its folder holds already."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, cast

from dualmask.attacks import build_attack
from dualmask.defences import DEFENCES, build_defence
from dualmask.errors import DualmaskError, OptionError
from dualmask.evaluation.material import Material, unfinished
from dualmask.evaluation.plan import Job, Plan, Task
from dualmask.evaluation.protocol import source_mark
from dualmask.evaluation.records import RECORDS, Cell, CellRecords, cell_of
from dualmask.options import saved_options, whole_training
from dualmask.results import FAULTS, AttackResult, difference, read_header, read_results
from dualmask.system_errors import explain_os_error

MODELS = "models"


class Standing(NamedTuple):
    """Of one cell."""

    texts: int = 0  # that are done
    wanted: int | None = None  # as far as it is known before the cell was begun
    right: int = 0
    flipped: int = 0
    faults: int = 0
    seconds: float = 0.0
    ordered: bool = True  # and no text twice
    mark: Mapping[str, object] | None = None  # what the texts are known by, where they are shown to other classifiers
    source: object = None  # where they are another's: its mark at that time
    outdated: bool = False  # by now it has other texts
    samples: int = 0  # that it was begun with
    problem: str = ""  # why the cell can't be gone on with

    @property
    def finished(self) -> bool:
        """All texts are there, none of them with a fault, in the data's order, and none of them outdated."""
        return self.whole and not self.faults and self.ordered and not self.outdated

    @property
    def whole(self) -> bool:
        """All texts are there, with or without faults."""
        return self.texts == self.wanted and not self.problem

    @property
    def begun(self) -> bool:
        return self.texts > 0 or self.wanted is not None

    def plus(self, result: AttackResult) -> "Standing":
        if result.outcome in FAULTS:
            return self._replace(texts=self.texts + 1, faults=self.faults + 1)
        return self._replace(
            texts=self.texts + 1, right=self.right + (result.outcome != "skipped"),
            flipped=self.flipped + (result.outcome == "succeeded"), seconds=self.seconds + result.seconds)


def survey(plan: Plan, out: Path, material: Material | None = None) -> dict[Cell, Standing]:
    """The standing of every cell, out of the records; what they are compared with is read only where there are any."""
    known = material or Material()
    found = {task.cell: standing(path, settings_of(job, task, known)) if path.exists() else Standing()
             for job in plan.jobs for task in job.tasks for path in [record_path(out, task.cell)]}
    for job in plan.jobs:
        new = [task.cell for task in job.tasks if not found[task.cell].begun and not found[task.cell].problem]
        if new and (problem := stranger(job, out, known)):
            found |= dict.fromkeys(new, Standing(problem=problem))
    return {task.cell: beside_source(task, found) for task in plan.tasks}


def stranger(job: Job, out: Path, material: Material) -> str:
    """What keeps new cells out of a folder: records by the same names of other texts, or from another encoder."""
    for path in sorted((out / RECORDS).glob(f"{job.data.name}.{job.encoder.name}.*.jsonl")):
        if changes := differences(read_header(path), material_settings(job, material)):
            return (f"{path} has the same names for other material ({changes}), and a table would mix them; "
                    "restore it, give the new one another name in the grid, or choose another folder with --out.")
    return ""


def beside_source(task: Task, standings: Mapping[Cell, Standing]) -> Standing:
    """A cell's standing; where the cell whose texts it shows has other ones by now, nothing of it is left."""
    found = standings[task.cell]
    if task.source is None or not found.begun or found.problem:
        return found
    source = standings[task.source]
    outdated = source.whole and source.mark != found.source
    return Standing(wanted=found.wanted, outdated=True, samples=found.samples) if outdated else found


def record_path(out: Path, cell: Cell) -> Path:
    return out / RECORDS / cell.file_name


def settings_of(job: Job, task: Task, material: Material) -> dict[str, object]:
    """What a cell's header must say, as far as it is known without the classifier."""
    grid, entry, chosen = job.grid, task.attack, job.defence
    attack = build_attack(entry.attack, preset=entry.preset, options=entry.options)
    defence = build_defence(chosen.defence, preset=chosen.preset, options=chosen.options)
    found = {"cell": task.cell.as_dict(), "attack": attack.name, "preset": entry.preset,
             "options": attack.lasting_options(), "seed": grid.attack_seed, "samples": task.texts,
             "sample_seed": grid.sample_seed, "measure": None if grid.measure == "none" else grid.measure,
             "eot": (chosen.eot or grid.eot) if defence.noise != "none" else 1,
             "draws": grid.draws if defence.noise != "none" else 0,
             "defence": {"name": defence.name, **defence.options_as_dict()}, "network": chosen.network,
             "training": asdict(job.training)}
    return {**json.loads(json.dumps(found)), **material_settings(job, material)}


def material_settings(job: Job, material: Material) -> dict[str, object]:
    """By what data and encoder are known; nothing where they can't be read: a run then adds nothing, and says why."""
    with suppress(Exception):
        data = material.data(job.data)
        return {"data": data.digest, "rows": data.rows, "encoder": material.encoder(job.encoder)}
    return {}


def stated(header: Mapping[str, object]) -> dict[str, object]:
    """A header with what it has among the facts about the classifier, as far as that is compared, beside the rest."""
    about = header.get("about")
    told = about if isinstance(about, Mapping) else {}
    given = told.get("training")
    facts = given if isinstance(given, Mapping) else {}
    options = facts.get("training")
    beside = {"encoder": told.get("encoder"), "defence": whole_defence(header), "rows": facts.get("rows"),
              "training": whole_training(options) if isinstance(options, Mapping) else None,
              "network": facts.get("network", "") if facts else None}
    return {**header, **{name: value for name, value in beside.items() if value is not None}}


def whole_defence(header: Mapping[str, object]) -> object:
    """The defence with all of its options; one that came up later is as it was until then."""
    given = header.get("defence")
    if not isinstance(given, Mapping):
        return given
    options = {name: value for name, value in given.items() if name != "name"}
    try:
        found: Any = saved_options(DEFENCES.find(str(given.get("name"))).Options, options)
    except OptionError:  # of another version; what it says is compared
        return given
    return json.loads(json.dumps({"name": given["name"], **asdict(found)}))


def differences(header: Mapping[str, object], settings: Mapping[str, object]) -> str:
    """What a header says otherwise; empty if it agrees in all that it says."""
    said = stated(header)
    return "; ".join(difference(name, said[name], settings[name]) for name in settings
                     if name in said and said[name] != settings[name])


def standing(path: Path, settings: Mapping[str, object]) -> Standing:
    """Of the cell that a file holds, with what keeps it from being one of this grid's."""
    try:
        header, results = read_results(path)
        if not header:  # cut off before there was anything in it
            return Standing()
        cell = cell_of(path, header)
    except (DualmaskError, OSError) as error:
        return Standing(problem=explain_os_error(error, "read", path) if isinstance(error, OSError) else str(error))
    found = Standing(wanted=wanted_texts(header, settings), source=header.get("source"),
                     samples=cast(int | None, header.get("samples")) or 0)
    for result in results:
        found = found.plus(result)
    fixed = {name: value for name, value in settings.items() if name != "samples"}
    places, changes = [one.index for one in results], differences(header, fixed)
    told = (f"{path} comes from a run with other settings ({changes}); restore them in the grid, choose another folder "
            "with --out, or delete the file.") if changes else ""
    mark = source_mark(CellRecords(cell, header, results, path))
    return found._replace(ordered=places == sorted(set(places)), mark=mark, problem=told)


def wanted_texts(header: Mapping[str, object], settings: Mapping[str, object]) -> int:
    """Texts that a cell is to have: as many as its header says, or more where the grid by now wants a larger sample
    and the data have it. A larger sample than the grid's stays as it is."""
    rows = settings.get("rows")
    tests = rows.get("test") if isinstance(rows, Mapping) else None
    there, now = header.get("samples"), settings.get("samples")
    if isinstance(there, int) and isinstance(now, int) and isinstance(tests, int) and there < min(now, tests):
        return min(now, tests)
    return cast(int, header.get("texts", -1))


def untrained(plan: Plan, standings: Mapping[Cell, Standing], out: Path) -> list[Job]:
    """Jobs with something left to do whose network is not there; of several that take the same one, the first."""
    found: dict[str, Job] = {}
    for job in plan.jobs:
        if not all(standings[task.cell].finished or standings[task.cell].problem for task in job.tasks):
            found.setdefault(job.models[0], job)
    return [job for name, job in found.items() if unfinished(out / MODELS / name)]
