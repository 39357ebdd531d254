# SPDX-License-Identifier: Apache-2.0
"""What cells are made from: data with all three parts, and classifiers that are trained once and kept."""

import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import NamedTuple

from dualmask import checkpoints
from dualmask.attacks.running import digest
from dualmask.classifier import DefendedClassifier, tested
from dualmask.defences import build_defence
from dualmask.errors import CleanCostWarning, OptionError
from dualmask.evaluation.grid import DataEntry, DefenceEntry, EncoderEntry
from dualmask.evaluation.plan import Job
from dualmask.options import whole_training
from dualmask.resources import RESOURCES, MadeByTool, cache_folder
from dualmask.results import difference
from dualmask.storage import DESCRIPTION
from dualmask.text.columns import Columns
from dualmask.text.examples import Dataset, Example, load_dataset, split_stratified
from dualmask.training import fingerprint, train
from dualmask.training_outcome import validated
from dualmask.wrapping import wrap_network

SPLIT_SEED = 0  # of parts that data lack and of rows that a grid leaves out: the same for every seed of training
HELD_OUT = 0.1
MARK = "encoder.txt"  # in a classifier's folder: what it was trained from
ENCODER_FILES = {".json", ".txt", ".model", ".safetensors", ".bin"}  # weights, configuration, vocabulary


class Data(NamedTuple):
    """Data, and by what they are known: the test texts, and the rows of all parts."""

    parts: Dataset
    digest: str
    rows: Mapping[str, object]


class Material:
    """What a run reads, each thing once, when it is first asked for; so is what is wrong with it."""

    def __init__(self) -> None:
        self._data: dict[DataEntry, Data | Exception] = {}
        self._encoders: dict[EncoderEntry, str] = {}

    def data(self, entry: DataEntry) -> Data:
        if entry not in self._data:
            try:
                data = load_data(entry)
                self._data[entry] = Data(data, digest(data.test or []), fingerprint(data))
            except Exception as error:
                self._data[entry] = error
        found = self._data[entry]
        if isinstance(found, Exception):
            raise found
        return found

    def encoder(self, entry: EncoderEntry) -> str:
        if entry not in self._encoders:
            self._encoders[entry] = encoder_mark(entry.source)
        return self._encoders[entry]


def encoder_mark(source: str) -> str:
    """What an encoder is known by: its name or, of a folder, its contents, wherever they lie."""
    made = RESOURCES[source].source if source in RESOURCES else None
    folder = cache_folder() / source if isinstance(made, MadeByTool) else Path(source)
    if (made and not isinstance(made, MadeByTool)) or not folder.is_dir():
        return source
    total = blake2b(digest_size=8)
    for path in sorted(path for path in folder.iterdir() if path.suffix in ENCODER_FILES and path.is_file()):
        total.update(path.name.encode("utf-8", "surrogateescape"))
        with path.open("rb") as stream:
            total.update(file_digest(stream, partial(blake2b, digest_size=16)).digest())
    return f"folder {total.hexdigest()}"


def load_data(entry: DataEntry) -> Dataset:
    """Data with a training, a validation and a test part, each of at most as many rows as the grid says."""
    data = load_dataset(entry.source, columns=Columns(entry.text_column, entry.label_column, entry.pair_column))
    check_expected(entry, fingerprint(data))
    train, test = (data.train, data.test) if data.test else split_stratified(data.train, HELD_OUT, SPLIT_SEED)
    validation = data.validation
    if not validation:
        train, validation = split_stratified(train, HELD_OUT, SPLIT_SEED)
    return replace(data, name=entry.name, train=drawn(train, entry.train),
                   validation=drawn(validation, entry.validation),
                   test=drawn(validation if entry.part == "validation" else test, entry.test))


def check_expected(entry: DataEntry, found: Mapping[str, object]) -> None:
    """Data from elsewhere must be the ones that the grid means, row by row."""
    wrong = [f"{name}: {found.get(name)}, expected {wanted}" for name, wanted in entry.expected.items()
             if found.get(name) != wanted]
    if wrong:
        raise OptionError(f"'{entry.source}' holds other data than the grid means by '{entry.name}' "
                          f"({'; '.join(wrong)}). Give the same data, or the entry another name and what it expects.")


def drawn(rows: list[Example], most: int | None) -> list[Example]:
    """At most so many rows, every class by its share."""
    if most is None or len(rows) <= most:
        return rows
    return split_stratified(rows, most / len(rows), SPLIT_SEED)[1]


def trained(job: Job, data: Data, mark: str, models: Path) -> DefendedClassifier:
    """The job's classifier out of its folder, made first if it is not there; a stopped training goes on.

    mark: of the encoder, kept beside the classifier.
    """
    folder, entry = models / job.name, job.defence
    if unfinished(folder):
        (folder / MARK).unlink(missing_ok=True)
        if job.base:
            other = trained(replace(job, defence=job.base, base=None), data, mark, models)
            take_over = asked_otherwise if job.base.defence == entry.defence else put_around
            take_over(other, entry, data.parts, named=job.base.name).save(folder)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CleanCostWarning)  # the report has clean accuracies side by side
                train(data.parts, encoder=job.encoder.source, defence=entry.defence, preset=entry.preset,
                      options=entry.options, training=asdict(job.training), out=folder, resume=True, progress=False)
        (folder / MARK).write_text(mark + "\n", encoding="utf-8")
    checkpoints.remove(folder)  # left where a run was killed just after saving
    classifier = DefendedClassifier.load(folder)
    told = classifier.facts.get("training")
    check_facts(folder, {"network": "", **classifier.facts, "encoder": kept_mark(folder) or mark,
                         "options": classifier.defence.options_as_dict(),  # also those that its facts are too old for
                         "training": whole_training(told) if isinstance(told, Mapping) else told}, {
        "rows": data.rows, "encoder": mark, "defence": entry.defence, "preset": entry.preset, "network": entry.network,
        "options": build_defence(entry.defence, preset=entry.preset, options=entry.options).options_as_dict(),
        "training": asdict(job.training)})
    return classifier


def asked_otherwise(made: DefendedClassifier, entry: DefenceEntry, data: Dataset, *, named: str) -> DefendedClassifier:
    """The same network with its defence set up otherwise, and what that changes measured again."""
    defence = build_defence(entry.defence, preset=entry.preset, options=entry.options)
    found = DefendedClassifier(made.model, made.encode.tokenizer, defence, labels=made.labels,
                               max_length=made.encode.max_length, windows=made.windows).to(made.device)
    defence.restore({name: tensor.cpu() for name, tensor in made.defence.state_dict().items()})
    found.tune_defence(data.validation or [])
    found.network.eval()
    found.facts = facts_of_taken(found, made, entry, data, named=named)
    return found


def put_around(made: DefendedClassifier, entry: DefenceEntry, data: Dataset, *, named: str) -> DefendedClassifier:
    """A defence around a network that was trained without it, whose weights stay as they are."""
    defence = build_defence(entry.defence, preset=entry.preset, options=entry.options)
    found = wrap_network(made.model, made.encode.tokenizer, defence, labels=made.labels,
                         max_length=made.encode.max_length, facts={}, texts=data.train,
                         validation=data.validation or [])
    found.facts = {**facts_of_taken(found, made, entry, data, named=named), "defence": entry.defence}
    return found


def facts_of_taken(
    found: DefendedClassifier, made: DefendedClassifier, entry: DefenceEntry, data: Dataset, *, named: str,
) -> dict[str, object]:
    """What is told of a classifier that took another's network, measured anew where the defence matters."""
    held_out, accuracy = data.validation or [], found.accuracy(data.validation or [])
    return {**{name: fact for name, fact in made.facts.items() if not name.startswith("validation_")},
            "preset": entry.preset, "options": found.defence.options_as_dict(), "network": named,
            "validation_accuracy": round(accuracy, 4),
            **validated(found, held_out, judged=accuracy, recalls="validation_recall" in made.facts),
            **tested(found, data.test or [], recalls="test_recall" in made.facts)}


def kept_mark(folder: Path) -> str:
    """Of the encoder that a classifier was trained from; empty where a kill came before it was noted."""
    return (folder / MARK).read_text(encoding="utf-8").strip() if (folder / MARK).exists() else ""


def unfinished(folder: Path) -> bool:
    """Whether the classifier is still to be trained: its description is written last."""
    try:
        json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return True
    except ValueError:  # cut off
        return bool(checkpoints.found(folder))
    return False


def as_written(facts: Mapping[str, object]) -> dict[str, object]:
    """Facts as a file would give them back: tuples are lists there, and both kinds are compared."""
    written: dict[str, object] = json.loads(json.dumps(facts))
    return written


def check_facts(folder: Path, found: Mapping[str, object], wanted: Mapping[str, object]) -> None:
    """A classifier that was trained otherwise than the grid says must not be taken for this one."""
    found, wanted = as_written(found), as_written(wanted)
    changes = [difference(name, found.get(name), wanted[name]) for name in wanted if found.get(name) != wanted[name]]
    if changes:
        raise OptionError(f"{folder} holds a classifier that was trained with other settings ({'; '.join(changes)}); "
                          "give the defence another name, or the run another folder with --out.")
