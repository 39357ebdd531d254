# SPDX-License-Identifier: Apache-2.0
"""What cells are made from: data with all three parts, and classifiers that are trained once and kept."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from dualmask import checkpoints
from dualmask.classifier import DefendedClassifier
from dualmask.defences import build_defence, preset_training
from dualmask.errors import OptionError
from dualmask.evaluation.grid import DataEntry
from dualmask.evaluation.plan import Job
from dualmask.results import difference
from dualmask.storage import DESCRIPTION
from dualmask.text.columns import Columns
from dualmask.text.examples import Dataset, Example, load_dataset, split_stratified
from dualmask.training import fingerprint, train

SPLIT_SEED = 0  # of parts that data lack and of rows that a grid leaves out: the same for every seed of training
HELD_OUT = 0.1


def load_data(entry: DataEntry) -> Dataset:
    """Data with a training, a validation and a test part, each of at most as many rows as the grid says."""
    data = load_dataset(entry.source, columns=Columns(entry.text_column, entry.label_column, entry.pair_column))
    train, test = (data.train, data.test) if data.test else split_stratified(data.train, HELD_OUT, SPLIT_SEED)
    validation = data.validation
    if not validation:
        train, validation = split_stratified(train, HELD_OUT, SPLIT_SEED)
    return replace(data, name=entry.name, train=drawn(train, entry.train),
                   validation=drawn(validation, entry.validation), test=drawn(test, entry.test))


def drawn(rows: list[Example], most: int | None) -> list[Example]:
    """At most so many rows, every class by its share."""
    if most is None or len(rows) <= most:
        return rows
    return split_stratified(rows, most / len(rows), SPLIT_SEED)[1]


def trained(job: Job, data: Dataset, folder: Path) -> DefendedClassifier:
    """The job's classifier out of its folder, trained first if it is not there; a stopped training goes on."""
    settings = {**job.defence.training, "seed": job.seed}
    if unfinished(folder):
        for rest in folder.glob(".saving-*"):
            shutil.rmtree(rest, ignore_errors=True)
        train(data, encoder=job.encoder.source, defence=job.defence.defence, preset=job.defence.preset,
              options=job.defence.options, training=settings, out=folder, resume=True, progress=False)
    checkpoints.remove(folder)  # left where a run was killed just after saving
    classifier = DefendedClassifier.load(folder)
    check_facts(folder, classifier.facts, {
        "rows": fingerprint(data), "encoder": job.encoder.source, "defence": job.defence.defence,
        "preset": job.defence.preset,
        "options": build_defence(job.defence.defence, preset=job.defence.preset,
                                 options=job.defence.options).options_as_dict(),
        "training": asdict(preset_training(job.defence.defence, job.defence.preset, settings))})
    return classifier


def unfinished(folder: Path) -> bool:
    """Whether the classifier is still to be trained: its description is written last."""
    try:
        json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return True
    except ValueError:  # cut off
        return bool(checkpoints.found(folder))
    return False


def check_facts(folder: Path, found: Mapping[str, object], wanted: Mapping[str, object]) -> None:
    """A classifier that was trained otherwise than the grid says must not be taken for this one."""
    now = json.loads(json.dumps(wanted))
    there = {**found, "encoder": Path(str(found.get("encoder"))).name}  # wherever it lay then
    now["encoder"] = Path(now["encoder"]).name
    changes = [difference(name, there.get(name), now[name]) for name in now if there.get(name) != now[name]]
    if changes:
        raise OptionError(f"{folder} holds a classifier that was trained with other settings ({'; '.join(changes)}); "
                          "give the defence another name, or the run another folder with --out.")
