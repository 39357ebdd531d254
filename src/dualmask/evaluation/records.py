# SPDX-License-Identifier: Apache-2.0
"""What a table is made of: one file of records for each cell, and what it says about how it came about."""

import errno
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, NamedTuple, cast, get_args

from dualmask import __version__
from dualmask.errors import DataError, OptionError
from dualmask.evaluation.certified_records import KIND as CERTIFICATES
from dualmask.output_lock import check_ordinary, locks_output
from dualmask.results import FINISHED, AttackResult, read_header, read_results
from dualmask.system_errors import explain_os_error
from dualmask.text.columns import Text

Mode = Literal[
    "adaptive",  # the attack asks the defended classifier: the headline
    "transfer",  # made against the plain classifier, then shown to the defended one
    "transfer-successful",  # the same, only texts that fooled the plain one: its own accuracy is 0 by construction
    "defence-aware",  # adaptive, by attacks that know the mechanism
]
Scores = Literal[  # what the attack sees
    "raw",  # the classifier's own probabilities
    "calibrated",  # under a temperature; of a vote also what its views say
    "still",  # of a defence that draws: its decisions, and what it says with draws that are the same for all texts
]
SCORE_WORDS: Mapping[str, str] = {"raw": "", "calibrated": "calibrated scores", "still": "draws held still"}
MODES: tuple[Mode, ...] = get_args(Mode)
TEMPERATURES = (0.05, 20.0)  # that are looked at; a fit at an end says that none makes the scores honest
FITTED = "the scores attacked"  # what a header says that the temperature was fitted on; of before, nothing
NAME = re.compile(rf"(?:[\w+-]+\.){{4}}(?:{'|'.join(MODES)})\.-?[0-9]+(?:\.[a-z]+)?\.jsonl")  # of a cell's file
TRANSFER: tuple[Mode, ...] = ("transfer", "transfer-successful")
RECORDS = "records"  # of a run's folder: its files of records
FAILURES = "failures.jsonl"  # cells that could not be filled
CELLS = "*.cells"  # the names of all files of records that a grid asks for
PACKED = "packed"  # what the header of a file says that holds many cells without their texts
THEORY = "theory"  # what the header of a file says that holds geometric quantities
UNREADABLE = (ValueError, KeyError, TypeError, RecursionError, DataError, OptionError)  # lines of that list
# What processes of earlier versions noted there whose run had been killed: of no cell that is a failure
ORPHANS = tuple(f"[Errno {number}] {os.strerror(number)}" for number in (errno.EPIPE, errno.ECONNRESET))
NO_RECORDS = (FAILURES, "training.jsonl")  # what else there is of this ending: that, and logs of training


@dataclass(frozen=True, order=True)
class Cell:
    """Which number this is. Each part is also a part of the file's name."""

    data: str
    encoder: str
    defence: str
    attack: str
    mode: Mode
    seed: int  # of training
    scores: Scores = "raw"

    def __post_init__(self) -> None:
        for name in (self.data, self.encoder, self.defence, self.attack):
            if not isinstance(name, str) or not name or not all(one.isalnum() or one in "-_+" for one in name):
                raise OptionError(f"'{name}' can't be part of a file's name; use letters, digits, '-', '_' and '+'.")
        if self.mode not in MODES or self.scores not in get_args(Scores):
            raise OptionError(f"{self.mode}, {self.scores}: expected one of {', '.join(MODES)}, with scores that are "
                              f"one of {', '.join(SCORE_WORDS)}.")
        if type(self.seed) is not int:
            raise OptionError(f"the seed {self.seed!r:.40} is no whole number.")

    @property
    def file_name(self) -> str:
        parts = [self.data, self.encoder, self.defence, self.attack, self.mode, str(self.seed)]
        return ".".join(parts + ([self.scores] if self.scores != "raw" else [])) + ".jsonl"

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_dict(cls, given: object) -> "Cell":
        try:
            return cls(**given)  # type: ignore[arg-type]
        except TypeError:
            raise DataError("the header does not say which cell this is (data, encoder, defence, attack, mode, seed); "
                            "files of 'dualmask attack' need a run of 'dualmask bench' around them.") from None


def cell_name(name: str) -> str:
    """A name with nothing in it that a cell's file could not have."""
    return "".join(letter if letter.isalnum() or letter in "-_+" else "-" for letter in name) or "unknown"


class CellRecords(NamedTuple):
    """A file of records, read."""

    cell: Cell
    header: Mapping[str, object]
    results: list[AttackResult]
    path: Path
    packed: bool = False  # texts were left out: hashes stand for them

    @property
    def wanted(self) -> int:
        """Texts that the run was to have; fewer results mean that it is not finished."""
        texts = self.header.get("texts")
        return texts if isinstance(texts, int) else len(self.results)

    def mark_of(self, result: AttackResult) -> str:
        """By what a record's text is known, be it there or left out."""
        return str(result.text) if self.packed else mark(result.text)


def mark(text: Text) -> str:
    """A hash that stands for a text."""
    return blake2b(repr(text).encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()


class Loaded(NamedTuple):
    """All that could be read of a folder, and what could not."""

    cells: list[CellRecords]
    problems: list[str]
    missing: Mapping[str, str] = {}  # files of cells that grids ask for and that are not there; why, if it is known
    short: Mapping[str, int] = {}  # files of cells that are there with fewer texts than grids ask for; for how many


def read_cell(path: Path) -> CellRecords:
    """A file of records; DataError names the file and the line where something is wrong with it."""
    header, results = read_results(path)
    if not header:
        raise DataError(f"{path}: the file is empty or its first line is cut off; run the cell again.")
    cell = cell_of(path, header)
    twice = len(results) - len({one.index for one in results})
    if twice:
        raise DataError(f"{path}: {twice} texts are there twice; 'dualmask bench' with its grid does them again.")
    check_classes(path, len(cast(list[str], header.get("labels", []))), results)
    return last_whole(CellRecords(cell, header, results, path))


def last_whole(records: CellRecords) -> CellRecords:
    """Of a cell that grows, its last whole sample: of the rest the easy texts are there first."""
    finished = set(cast(list[int], records.header.get(FINISHED, [])))
    results = [one for one in records.results if one.index in finished]
    if not finished or len(records.results) >= records.wanted or len(results) < len(finished):
        return records
    return records._replace(results=results, header={**records.header, "texts": len(results), "samples": len(results)})


def cell_of(path: Path, header: Mapping[str, object]) -> Cell:
    try:
        return Cell.from_dict(header.get("cell"))
    except (DataError, OptionError) as error:
        raise DataError(f"{path}, line 1: {error}") from None


def check_classes(path: Path, classes: int, results: Sequence[AttackResult]) -> None:
    """Labels are places in the header's list of names, where it has one."""
    for number, one in enumerate(results, start=2):
        if classes and max(one.label, one.clean or 0, one.predicted or 0, one.undefended or 0) >= classes:
            raise DataError(f"{path}, line {number}: a label that is not among the {classes} of the header; restore "
                            "the file, or delete it and run the cell again.")


def read_cells(folder: Path) -> Loaded:
    """A file of records, or all of a run, of several runs, or of a folder. A damaged one is named, the others count."""
    cells, problems, missing, short = list[CellRecords](), list[str](), dict[str, str](), dict[str, int]()
    readers = {**dict.fromkeys(record_files(folder), read_file), **dict.fromkeys(sorted(folder.rglob(CELLS)), lacking)}
    for path, reader in readers.items():
        try:
            read = reader(path)
        except (DataError, OSError) as error:
            problems.append(told_problem(error, path))
            continue
        cells += read.cells
        problems += read.problems
        missing |= read.missing
        short |= read.short
    for path in sorted(folder.rglob(FAILURES)):
        try:
            problems += told_failures(path, missing, {one.cell.file_name for one in cells})
        except OSError as error:
            problems.append(told_problem(error, path))
    if not cells:
        others = f" What is there: {' '.join(problems[:3])}" if problems else ""
        raise DataError(f"no records that can be read below {folder}; make some with 'dualmask bench GRID'.{others}")
    return Loaded(sorted(cells, key=lambda one: one.cell), problems, missing, short)


def told_problem(error: Exception, path: Path) -> str:
    return explain_os_error(error, "read", path) if isinstance(error, OSError) else str(error)


def read_file(path: Path) -> Loaded:
    """The one cell of a file of records, or all of a packed one."""
    from dualmask.evaluation.packing import read_packed  # which needs what is here

    return read_packed(path) if read_header(path).get("kind") == PACKED else Loaded([read_cell(path)], [])


def lacking(path: Path) -> Loaded:
    """The files of records that a grid asks for and its run does not have; why is not known here."""
    asked, problems = cell_names(path, path.read_text(encoding="utf-8", errors="replace").splitlines())
    return Loaded([], problems, {name: "" for name in asked if not (path.parent / RECORDS / name).exists()})


def cell_names(path: Path, given: Collection[str]) -> tuple[list[str], list[str]]:
    """Of names that a file holds those of cells, and a problem where there are others: it may be cut off or foreign."""
    known = [name for name in given if NAME.fullmatch(name) and len(name.encode()) < 256]
    odd = sorted(set(given).difference(known))
    told = f"({len(odd):,} such); run 'dualmask bench' with its grid, or 'dualmask pack', again."
    return known, [f"{path}: expected names of cells' files, found {odd[0]!r:.60} {told}"] if odd else []


class CellFailure(NamedTuple):
    """A line of the list of failures."""

    name: str  # of the cell's file
    reason: str


def read_failure(line: str) -> CellFailure:
    found = json.loads(line)
    return CellFailure(Cell.from_dict(found["cell"]).file_name, str(found["reason"]))


def told_failures(path: Path, missing: dict[str, str], read: Collection[str]) -> Iterator[str]:
    """Cells that a run could not fill: why is noted where they are missing, and the others are told, by reason."""
    reasons: dict[str, list[str]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        try:
            name, reason = read_failure(line)
        except UNREADABLE as error:
            yield f"{path}, line {number}, can't be read: {error}"
            continue
        if reason in ORPHANS:
            continue
        if name in missing:
            missing[name] = reason
        else:
            reasons.setdefault(reason, []).append(name)
    for reason, files in reasons.items():
        names = ", ".join(files[:3]) + (f" and {len(files) - 3:,} more" if len(files) > 3 else "")
        here = sum(name in read for name in files)
        told = f" (of {here:,} of them what was there before stands in this report)" if here else ""
        yield f"failed: {names}{told}: {reason}"


def clear_failure(path: Path, cell: Cell) -> None:
    """Take the lines of a cell, which is filled by now, off the list of failures, and the list away if that was all."""
    if not path.is_file():
        return
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    left = [line for line in lines if not is_about(line, cell)]
    if not left:
        path.unlink()
    elif left != lines:
        keep("".join(left), path)


def is_about(line: str, cell: Cell) -> bool:
    with suppress(*UNREADABLE):
        return read_failure(line).name == cell.file_name
    return False


def record_files(folder: Path) -> Iterator[Path]:
    """All that should hold records, those of 'dualmask attack' as well."""
    if not folder.exists():
        raise DataError(f"{folder} does not exist; give a folder that 'dualmask bench' has written.")
    if folder.is_file():
        yield folder
    yield from sorted(path for ending in ("*.jsonl", "*.jsonl.gz") for path in folder.rglob(ending)
                      if path.name not in NO_RECORDS and not holds_others(path))


def holds_others(path: Path) -> bool:
    """What can't be opened counts as records, so that whoever reads it tells what is wrong."""
    try:
        return read_header(path).get("kind") in (CERTIFICATES, THEORY)
    except OSError:
        return False


@locks_output("path")
def keep(content: str | bytes, path: Path) -> None:
    """Write a file, whole or not at all: what was there stays until the new one is. A link stays a link."""
    check_ordinary(path)
    real = Path(os.path.realpath(path))
    part = real.with_name(f"{real.name}.part")
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace"))
        part.replace(real)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise OptionError(explain_os_error(error, "written", path)) from error


def provenance() -> dict[str, object]:
    """Versions, code and machine; never compared when a run is resumed."""
    return {"versions": {"dualmask": __version__, "python": platform.python_version(), **installed()},
            "revision": revision(), "hardware": hardware()}


def installed() -> dict[str, str]:
    found = {}
    for name in ("torch", "transformers", "tokenizers", "numpy"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


@cache
def revision() -> str | None:
    """The commit of the checkout that this package is run from, marked where files were changed; None elsewhere.

    An environment may lie inside the checkout of something else, which does not track this file.
    """
    folder = Path(__file__).resolve().parents[1]
    commands = (["ls-files", "--error-unmatch", __file__], ["rev-parse", "--short=12", "HEAD"],
                ["status", "--porcelain", "--", str(folder)])
    try:
        _, commit, changes = (
            subprocess.run(["git", *command], cwd=folder, capture_output=True, text=True, check=True, timeout=10)
            .stdout.strip() for command in commands)
    except (OSError, subprocess.SubprocessError):
        return None
    return commit + (" with changes" if changes else "")


def hardware() -> dict[str, object]:
    found: dict[str, object] = {"machine": platform.machine(), "system": platform.system(), "cores": cores()}
    torch = sys.modules.get("torch")  # reports, which never load it, have no use for it
    if torch is not None and torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
