# SPDX-License-Identifier: Apache-2.0
"""Prediction of whole files: any size in constant memory, order kept, resumable after a kill at any moment.

Answers go to `out.partial`. After every chunk the file is forced to disk, then `out.progress.json` says how much of it
counts; only a finished run puts `out` in its place.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from dualmask.answers import Format, Item, Layout, is_formula, output_format
from dualmask.errors import DataError, ModelFileError, OptionError, ResourceError
from dualmask.output_lock import check_ordinary, is_lockable, output_lock
from dualmask.system_errors import explain_os_error
from dualmask.text.character_sets import UTF8
from dualmask.text.columns import FIND, Columns
from dualmask.text.input_choices import Empty, InputChoices, TableKind, is_empty, learned_columns
from dualmask.text.tables import open_table, table_rows

if TYPE_CHECKING:
    from rich.progress import Progress

    from dualmask.classifier import DefendedClassifier, Predictions


@dataclass(frozen=True)
class Summary:
    """What a run over a file did."""

    out: Path
    rows: int
    resumed: int  # rows that an earlier run had answered
    counts: dict[str, int]  # how often each label was given
    seconds: float
    passes: int = 0  # of the network, in this run
    views: int = 1  # passes that a text may take at most
    empty: int = 0  # rows without a text; they are answered, but what can be said of nothing?
    formulas: int = 0  # texts, names of columns and labels in CSV or TSV that a spreadsheet may run
    skipped: int = 0  # rows without a text that were not answered
    skipped_now: int = 0  # those of them that this run came to
    cut: int = 0  # rows answered in this run whose texts are longer than what is read of them


@dataclass
class Job:
    """How much of the partial file counts, and of which job it is a part."""

    identity: dict[str, object]
    overwrite: bool
    rows: int = 0
    bytes: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    skipped: int = 0  # rows without a text, which no label counts


def predict_file(
    classifier: "DefendedClassifier", source: str | Path, out: str | Path, *, format: Format | None = None,
    columns: Columns = FIND, explain: bool = False, defended: bool = True, batch_size: int | None = None,
    chunk: int | None = None, resume: bool = False, overwrite: bool = False, progress: bool = True,
    safe_csv: bool = False, encoding: str = UTF8, empty: Empty = "answer", input_format: TableKind | None = None,
    tell: Callable[[str], None] | None = None,
) -> Summary:
    """Answer every row of a file: its own columns, then `predicted`, `confidence` and a probability for each label.

    A detector adds `suspicion` and `flagged`, `explain` adds `masked`. safe_csv: a ' before each text that a
    spreadsheet would run as a formula; for programs it is a part of the text. empty: rows without a text are answered
    and counted, or skipped, which leaves the added columns empty, or refused before anything is written. encoding,
    input_format: of the file; tell: is told in a sentence where the model remembered which columns to read.
    """
    source, out, started = Path(source), real_place(Path(out)), time.perf_counter()
    kind = output_format(out, format)
    check_places(source, out, chunk)
    if not defended:
        classifier.check_head()
    with output_lock(out):
        choices = InputChoices(columns=columns, learned=learned_columns(classifier.facts), encoding=encoding,
                               empty=empty, kind=input_format, tell=tell)
        options = {"format": kind, "columns": list(columns), "explain": explain, "defended": defended,
                   **({"safe_csv": True} if safe_csv else {}), **unusual(choices)}
        job = begin(out, identity_of(classifier, source, options), resume=resume, overwrite=overwrite)
        total, names, blank, formulas = survey(source, choices)  # all of it is checked before hours of work begin
        layout = Layout.of(kind, names, classifier.labels, explain=explain, safe=safe_csv,
                           threshold=threshold_of(classifier, defended))
        check_rows(out, job, total)
        resumed, skipped = job.rows, job.skipped
        left = islice(read_items(source, replace(choices, tell=None)), resumed, None)
        answered = predict_items(classifier, left, explain=explain, defended=defended, batch_size=batch_size,
                                 chunk=chunk or chunk_size(classifier), skip_empty=empty == "skip")
        passes, cut = write_answers(out, job, answered, layout=layout, total=total, progress=progress)
    return Summary(out, job.rows, resumed, job.counts, time.perf_counter() - started, passes,
                   classifier.defence.views if defended else 1, blank,
                   0 if safe_csv or kind == "jsonl" else formulas + sum(map(is_formula, classifier.labels)),
                   job.skipped, job.skipped - skipped, cut)


def unusual(choices: InputChoices) -> dict[str, object]:
    """How the input is read where it is not as always; notes of earlier versions have none of it."""
    told = {"encoding": (choices.encoding, UTF8), "empty": (choices.empty, "answer"), "kind": (choices.kind, None)}
    return {name: value for name, (value, usual) in told.items() if value != usual}


def write_answers(
    out: Path, job: Job, answered: Iterator[tuple[list[Item], "Predictions"]], *, layout: Layout, total: int,
    progress: bool,
) -> tuple[int, int]:
    """The rest of the partial file, which takes its place at the end; its answers' passes and texts that were cut."""
    passes = cut = 0
    with writing(out), partial_file(out, job) as file, progress_bar(progress) as bar:
        task = bar.add_task("predicting", total=total, completed=job.rows)
        if not job.rows:
            file.write(layout.header())
        for items, answers in answered:
            skipped = len(items) - len(answers.labels)
            file.write(layout.lines(items, answers, skip_empty=skipped > 0))
            record(out, job, file, answers.labels, skipped=skipped)
            passes += int(answers.passes.sum()) if answers.passes is not None else 0
            cut += cut_count(answers)
            bar.advance(task, len(items))
    with writing(out):
        os.replace(beside(out, "partial"), out)
        beside(out, "progress.json").unlink(missing_ok=True)
    return passes, cut


def cut_count(answers: "Predictions") -> int:
    """How many of the texts are longer than what was read of them."""
    return 0 if answers.cut is None else int(answers.cut.sum())


def predict_items(
    classifier: "DefendedClassifier", items: Iterator[Item], *, explain: bool = False, defended: bool = True,
    batch_size: int | None = None, chunk: int = 256, skip_empty: bool = False,
    at_hand: Callable[[], bool] | None = None,
) -> Iterator[tuple[list[Item], "Predictions"]]:
    """Answers chunk by chunk, for whoever writes or shows them; those that are skipped have none.

    at_hand: whether a further item can be had without waiting for it; where none can, what is there is answered.
    """
    for part in parts_of(items, chunk, at_hand):
        texts = [item.text for item in part if not (skip_empty and is_empty(item.text))]
        answers = classifier.predict(texts, explain=explain, defended=defended, batch_size=batch_size)
        check_numbers(answers)
        yield part, answers


def parts_of(items: Iterator[Item], most: int, at_hand: Callable[[], bool] | None) -> Iterator[list[Item]]:
    """At most so many items at once, and only those that need not be waited for; what follows a bad row is not read.

    What comes before one is given first: of a pipe it could not be had again.
    """
    problem: DataError | None = None
    while problem is None:
        part: list[Item] = []
        try:
            while len(part) < most and (not part or at_hand is None or at_hand()):
                part.append(next(items))
        except StopIteration:
            if not part:
                return
        except DataError as error:
            problem = error
        if part:
            yield part
    raise problem


def check_numbers(answers: "Predictions") -> None:
    """A network whose training went astray names a class for every text, and means nothing by it."""
    wrong = (~answers.probabilities.isfinite().all(dim=1)).nonzero().flatten().tolist()
    if wrong:
        raise ModelFileError(f"the network's answer is not a number for {len(wrong):,} of {len(answers.labels):,} "
                             "texts, so the model is of no use: train again with a lower learning rate, or copy it "
                             "again if it was damaged.")


def threshold_of(classifier: "DefendedClassifier", defended: bool) -> float | None:
    """Of a detector that is asked."""
    return classifier.defence.threshold if defended else None


def chunk_size(classifier: "DefendedClassifier") -> int:
    """Rows between two notes on disk: enough to sort by length, few enough that little is lost."""
    return 4096 if classifier.device.type == "cuda" else 512


def check_places(source: Path, out: Path, chunk: int | None) -> None:
    if chunk is not None and chunk < 1:
        raise OptionError(f"chunk is {chunk}; expected 1 row or more.")
    check_out(out)
    if out.exists() and source.exists() and out.samefile(source):
        raise OptionError(f"{out} is the input itself; give another file to write to.")


def real_place(out: Path) -> Path:
    """Where a link leads, so that it stays a link. A pipe has no such place: /dev/stdout leads to none with a name."""
    return Path(os.path.realpath(out)) if is_lockable(out) else out


def check_out(out: Path) -> None:
    if out.is_dir():
        raise OptionError(f"{out} is a folder; give a file to write to, such as {out / 'answers.csv'}.")
    check_ordinary(out)
    check_parent(out)


def check_parent(out: Path) -> None:
    if out.parent.exists() and not out.parent.is_dir():
        raise OptionError(f"{out}: {out.parent} is a file (Not a directory); give a file inside of a folder.")
    if not out.parent.exists():
        raise OptionError(f"{out}: the folder {out.parent} does not exist; create it first.")


def read_items(source: Path, choices: InputChoices) -> Iterator[Item]:
    """The rows of a file with their values as they are typed there."""
    for row in table_rows(open_table(source, choices), choices):
        yield Item(row.fields, row.text)


class Survey(NamedTuple):
    """A file before it is answered."""

    rows: int
    names: list[str]  # every column that any row has
    empty: int  # rows without a text
    formulas: int  # values and names that a spreadsheet may run


def survey(source: Path, choices: InputChoices) -> Survey:
    rows, names, empty, formulas = 0, dict[str, None](), 0, 0
    for item in read_items(source, choices):
        rows += 1
        names.update(dict.fromkeys(item.values))
        empty += is_empty(item.text)
        formulas += sum(map(is_formula, item.values.values()))
    return Survey(rows, list(names), empty, formulas + sum(map(is_formula, names)))


def beside(out: Path, ending: str) -> Path:
    return out.with_name(f"{out.name}.{ending}")


def identity_of(classifier: "DefendedClassifier", source: Path, options: Mapping[str, object]) -> dict[str, object]:
    """What must be the same for two runs to be parts of one job."""
    try:
        facts = source.stat()
    except OSError:
        open_table(source)  # complains in its own words
        raise
    return {"input": source.name, "size": facts.st_size, "modified": facts.st_mtime_ns,
            "model": classifier.fingerprint(), **options}


def begin(out: Path, identity: dict[str, object], *, resume: bool, overwrite: bool) -> Job:
    """Where to start: at the beginning or where an earlier run stopped; nothing is lost unasked."""
    place = beside(out, "progress.json")
    if not place.exists():
        if out.exists() and not overwrite:
            detail = ", and no unfinished run is there to resume" if resume else ""
            raise OptionError(f"{out} exists already{detail}: choose another file, or replace it (--overwrite).")
        return Job(identity, overwrite)
    if resume:
        return resumable(out, identity, overwrite=overwrite)
    if not overwrite:
        raise OptionError(f"an unfinished run is at {place}: go on with it (--resume), choose another file, or start "
                          "over (--overwrite).")
    place.unlink()
    return Job(identity, overwrite)


def resumable(out: Path, identity: Mapping[str, object], *, overwrite: bool) -> Job:
    """The earlier run's progress, once it is sure to be of the same job and to have its part of the file."""
    place, partial = beside(out, "progress.json"), beside(out, "partial")
    try:
        job = noted(json.loads(place.read_text(encoding="utf-8")))
    except OSError as error:
        raise OptionError(f"{explain_os_error(error, 'read', place)} Or start over (--overwrite).") from error
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{place} can't be read ({error}); start over (--overwrite).") from error
    differing = [f"{key} was {job.identity.get(key)!r} and is {identity.get(key)!r}"
                 for key in {**job.identity, **identity} if job.identity.get(key) != identity.get(key)]
    if differing:
        raise OptionError(f"{place} is of another run ({'; '.join(differing)}); give the same input, model and "
                          "options, choose another file, or start over (--overwrite).")
    if not partial.exists() and out.exists() and out.stat().st_size == job.bytes:
        out.rename(partial)  # it was killed between its last two steps, which are done again
    if out.exists() and not (overwrite or job.overwrite):
        raise OptionError(f"{out} has appeared since the unfinished run began: move it away, or replace it "
                          "(--overwrite).")
    if not ends_a_row(partial, job.bytes):
        raise OptionError(f"{partial} is missing or shorter than the {job.bytes} bytes that were written, or no row "
                          "ends there; start over (--overwrite).")
    return job


def ends_a_row(partial: Path, size: int) -> bool:
    """Whether a row of the file ends after so many bytes."""
    if not partial.is_file():
        return False
    with partial.open("rb") as file:
        file.seek(size - 1)
        return file.read(1) == b"\n"


def noted(values: object) -> Job:
    """A note as `record` wrote it: what is not quite like one would lose rows, or answer some twice."""
    if isinstance(values, dict):
        values = {"skipped": 0, **values}  # which notes of earlier versions lack
    if not isinstance(values, dict) or set(values) != {one.name for one in fields(Job)}:
        raise ValueError(f"expected an object with {', '.join(one.name for one in fields(Job))}")
    job = Job(**values)
    for name, kind in (("identity", dict), ("overwrite", bool), ("rows", int), ("bytes", int), ("counts", dict),
                       ("skipped", int)):
        if type(values[name]) is not kind:
            raise ValueError(f"{name} is {values[name]!r:.40}, expected a JSON {kind.__name__}")
    if not all(type(count) is int and count > 0 for count in job.counts.values()):
        raise ValueError(f"counts are {job.counts!r:.80}, expected whole numbers")
    if not 0 < job.rows == sum(job.counts.values()) + job.skipped or min(job.bytes - 1, job.skipped) < 0:
        raise ValueError(f"{job.rows} rows, {sum(job.counts.values())} counted labels, {job.skipped} skipped rows and "
                         f"{job.bytes} bytes do not fit together")
    return job


def check_rows(out: Path, job: Job, total: int) -> None:
    if job.rows > total:
        raise OptionError(f"{beside(out, 'progress.json')} tells of {job.rows:,} answered rows, the input has "
                          f"{total:,}; start over (--overwrite).")


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """A full disk and its like, told with the file and with how to go on."""
    try:
        yield
    except OSError as error:
        begun = beside(out, "progress.json").exists()  # the note itself may be what could not be written
        again = "Then go on with --resume: what was answered is kept." if begun else "Then run it again."
        raise ResourceError(f"{explain_os_error(error, 'written', out)} {again}") from error


def partial_file(out: Path, job: Job) -> BinaryIO:
    """The partial file, cut to what counts and open behind it."""
    partial = beside(out, "partial")
    file = partial.open("r+b" if job.bytes else "wb")
    file.truncate(job.bytes)
    file.seek(job.bytes)
    return file


def record(out: Path, job: Job, file: BinaryIO, labels: Sequence[str], *, skipped: int = 0) -> None:
    """First the answers reach the disk, then the word that they did."""
    file.flush()
    os.fsync(file.fileno())
    job.rows, job.bytes, job.skipped = job.rows + len(labels) + skipped, file.tell(), job.skipped + skipped
    for label in labels:
        job.counts[label] = job.counts.get(label, 0) + 1
    place, work = beside(out, "progress.json"), beside(out, "progress.json.new")
    with work.open("w", encoding="utf-8") as note:
        json.dump(asdict(job), note)
        note.flush()
        os.fsync(note.fileno())
    os.replace(work, place)


def progress_bar(show: bool) -> "Progress":
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    return progress.Progress(
        progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(), progress.TextColumn("left"), progress.TimeRemainingColumn(),
        console=console, transient=True, disable=not (show and console.is_terminal))
