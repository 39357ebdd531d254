# SPDX-License-Identifier: Apache-2.0
"""What came of attacking one text; written and read as lines of JSON."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Generic, Literal, Protocol, Self, TypeVar, get_args

from dualmask.errors import DataError, OptionError, ResourceError
from dualmask.output_lock import check_ordinary
from dualmask.record_rules import FITS, HEADER_FITS, check, growing
from dualmask.system_errors import explain_os_error
from dualmask.text.columns import SURROGATES, Text
from dualmask.text.lines import DAMAGED, unpacked

FORMAT = 1
LONGEST = 64 * 2**20  # bytes of a line; a small packed file may hold one that fits into no memory
Outcome = Literal[
    "succeeded",  # the victim, asked again, gives another label
    "failed",  # the search came to its end
    "skipped",  # wrong from the start
    "out-of-queries", "out-of-time",
    "unconfirmed",  # an answer that the victim, asked again, did not repeat
    "victim-error",  # no usable answer; see reason
    "attack-error",  # a fault in the attack itself; see reason
]
FAULTS = ("victim-error", "attack-error")  # neither won nor withstood; done again when a run is resumed
# Start and end in characters, 1 for the second text of a pair, and what was read instead, unless it was a mask
Spans = tuple[tuple[int, int, int] | tuple[int, int, int, str], ...]
FINISHED = "finished"  # of a header, while a file grows: the numbers of the texts of its last whole sample
CIRCUMSTANCES = ("about", "dualmask", FINISHED)  # of a header: told, and no reason to refuse to go on
PLACE = ("versions", "revision", "hardware")  # of `about`: what may change while a run is stopped
HELD = ("failed", "out-of-queries", "out-of-time", "unconfirmed")  # the victim withstood


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """One example. All but `seconds` depends only on example, attack, victim and seed."""

    index: int  # of the example in the data
    text: Text
    label: int
    outcome: Outcome
    adversarial: Text | None  # the attack's last word, whether it succeeded or not
    clean: int | None  # the victim's label for the text
    predicted: int | None  # and for the attack's last word
    probability: float | None  # of the true label before, as the attack saw it: under its temperature, if it had one
    probability_after: float | None
    queries: int  # texts asked about, each time
    rows: int  # texts that the victim read
    gradients: int  # backward passes, for attacks that look inside
    words: int
    changed: int
    similarity: float | None  # of sentence vectors of the whole texts, where it was measured
    seconds: float
    reason: str = ""
    undefended: int | None = None  # the label for the text with the defence off, where an evaluation asked
    hidden: Spans | None = None  # what the defence hid of the text, or read otherwise
    hidden_after: Spans | None = None  # and of the attack's last word
    draws: int = 0  # how often a defence with noise was asked again about that last word, each time with new noise
    wrong_draws: int = 0
    suspicion: float | None = None  # of the text, where the defence is a detector
    suspicion_after: float | None = None  # and of the attack's last word
    cut: bool | None = None  # whether the text is longer than what the victim reads of it; none: nobody knows
    cut_after: bool | None = None  # and the attack's last word

    @property
    def settled(self) -> bool:
        return self.outcome not in FAULTS

    def as_json(self) -> str:
        return as_line({f.name: getattr(self, f.name) for f in FIELDS if getattr(self, f.name) != f.default})

    @classmethod
    def from_json(cls, record: Mapping[str, object]) -> "AttackResult":
        check_whole(record, REQUIRED)
        check(record, FITS, "record")
        if record["outcome"] not in OUTCOMES:
            raise DataError(f"the record's outcome is {record['outcome']!r}; known: {', '.join(OUTCOMES)}.")
        if record.get("wrong_draws", 0) > record.get("draws", 0):  # type: ignore[operator]
            raise DataError(f"the record has {record['wrong_draws']} wrong draws of {record.get('draws', 0)}.")
        values = {name: frozen(value) if type(value) is list else value
                  for name, value in record.items() if name in NAMES}
        return cls(**values)  # type: ignore[arg-type]


FIELDS = fields(AttackResult)
NAMES = frozenset(f.name for f in FIELDS)
REQUIRED = frozenset(f.name for f in FIELDS if f.default is MISSING)
OUTCOMES: tuple[str, ...] = get_args(Outcome)


def check_whole(record: Mapping[str, object], required: frozenset[str]) -> None:
    if missing := required - record.keys():
        raise DataError(f"the record lacks {', '.join(sorted(missing))}; it was written by another version or program.")


def frozen(value: list[object]) -> tuple[object, ...]:
    """A pair of texts, or spans, as the tuples they were."""
    return tuple([tuple(one) if type(one) is list else one for one in value])


@dataclass(frozen=True)
class Tally:
    """Counts over results; the shares are of the texts that the victim had right."""

    outcomes: Mapping[str, int]
    queries: float  # mean over attacked texts
    rows: float
    changed: float | None  # mean share of words over successes
    similarity: float | None  # mean over successes
    gradients: float  # mean over attacked texts

    @property
    def succeeded(self) -> int:
        return self.outcomes["succeeded"]

    @property
    def attacked(self) -> int:
        return self.succeeded + sum(self.outcomes[name] for name in HELD)


def tally(results: Iterable[AttackResult]) -> Tally:
    results = list(results)
    attacked = [one for one in results if one.outcome == "succeeded" or one.outcome in HELD]
    won = [one for one in attacked if one.outcome == "succeeded"]
    similar = [one.similarity for one in won if one.similarity is not None]
    return Tally(
        {name: sum(one.outcome == name for one in results) for name in get_args(Outcome)},
        mean([one.queries for one in attacked]) or 0.0, mean([one.rows for one in attacked]) or 0.0,
        mean([one.changed / max(one.words, 1) for one in won]), mean(similar),
        mean([one.gradients for one in attacked]) or 0.0)


def mean(values: list[float] | list[int]) -> float | None:
    return sum(values) / len(values) if values else None


def as_line(record: Mapping[str, object]) -> str:
    """Readable JSON; where a text holds what UTF-8 can't write, in escapes."""
    line = json.dumps(record, ensure_ascii=False)
    return json.dumps(record) if SURROGATES.search(line) else line


class Record(Protocol):
    """What one line of a file tells about one example."""

    @property
    def index(self) -> int: ...  # of the example in the data

    @property
    def settled(self) -> bool: ...  # or else it is done again when a run is resumed

    def as_json(self) -> str: ...

    @classmethod
    def from_json(cls, record: Mapping[str, object]) -> Self: ...


R = TypeVar("R", bound=Record)


def read_results(path: Path) -> tuple[dict[str, object], list[AttackResult]]:
    return read_records(path, AttackResult)


def read_records(path: Path, kind: type[R]) -> tuple[dict[str, object], list[R]]:
    """The header and the records of a file, packed or not; a last line that was cut off by a crash is left out."""
    header: dict[str, object] = {}
    results: list[R] = []
    for number, line in enumerate(whole_lines(path), start=1):
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise DataError("no JSON object.")
            if number == 1:
                header = checked_header(record)
            else:
                results.append(kind.from_json(record))
        except (ValueError, RecursionError, DataError) as error:
            raise DataError(f"{path}, line {number}: not a record ({error}) Restore the file, or make a new "
                            "one.") from None
    return header, results


def whole_lines(path: Path, *, cut: bool = True) -> Iterator[bytes]:
    """The lines of a file, packed or not. Read to the end, a packed one is also held against its checksum.

    cut: leave out a last line without an end, as a crash makes it; otherwise it is an error.
    """
    try:
        with unpacked(path) as lines:
            while (line := lines.readline(LONGEST + 1)).endswith(b"\n"):
                yield line
    except DAMAGED as error:
        raise DataError(f"{path} can't be unpacked to its end ({error}); copy or pack the file again.") from error
    if len(line) > LONGEST:
        raise DataError(f"{path} has a line longer than {LONGEST // 2**20} MiB, which no record is; restore the file.")
    if line and not cut:
        raise DataError(f"{path} ends in the middle of a line; copy or pack the file again.")


def read_header(path: Path) -> dict[str, object]:
    """The first line of a file of results; empty where it is cut off or no header."""
    with unpacked(path) as lines, suppress(ValueError, RecursionError, DataError, *DAMAGED):
        found = json.loads(lines.readline(LONGEST))
        return checked_header(found) if isinstance(found, dict) else {}
    return {}


def checked_header(header: dict[str, object]) -> dict[str, object]:
    form = header.get("format")
    if type(form) is not int:
        raise DataError("the first line is no header with a format number.")
    if form > FORMAT:
        raise DataError(f"its format is {form} and this version of dualmask reads up to {FORMAT}; install a newer one.")
    check(header, HEADER_FITS, "header")
    return header


def difference(name: str, there: object, now: object) -> str:
    """Two settings, of groups of them only what differs."""
    if isinstance(there, dict) and isinstance(now, dict):
        return "; ".join(difference(key, there.get(key), now.get(key)) for key in {**there, **now}
                         if there.get(key) != now.get(key))
    return f"{name}: {there!r} there, {now!r} now"


def resumed(first: object, now: object) -> object:
    """Of a run that goes on: how it began, and under `resumed` each time that it went on elsewhere."""
    if not isinstance(first, dict) or not isinstance(now, dict):
        return first
    went_on = first.get("resumed", [])
    place = {name: now[name] for name in PLACE if name in now}
    if all({**first, **(went_on[-1] if went_on else {})}.get(name) == value for name, value in place.items()):
        return first
    return {**first, "resumed": [*went_on, place]}


class RecordFile(Generic[R]):
    """A header and one line for each record, written at once; a run that was stopped goes on where it was."""

    def __init__(
        self, path: Path, header: Mapping[str, object], kind: type[R], *, resume: bool, overwrite: bool,
    ) -> None:
        check_ordinary(path)
        path = Path(os.path.realpath(path))  # a link stays a link
        self.path, self.header, self.kind = path, json.loads(json.dumps(header)), kind
        self.done: list[R] = []
        if path.is_dir():
            raise OptionError(f"{path} is a folder; give a file for the records, such as {path / 'records.jsonl'}.")
        if path.exists() and not overwrite:
            if not resume:
                raise OptionError(f"{path} is there already; go on with it (--resume) or replace it (--overwrite).")
            self._go_on()
        try:
            if overwrite and path.is_file() and path.stat().st_size and not read_header(path):  # maybe the input itself
                raise OptionError(f"{path} holds no records and is not replaced; delete it, or give another file.")
            path.parent.mkdir(parents=True, exist_ok=True)
            self._write(self.done)
            self._stream = path.open("a", encoding="utf-8", newline="\n")
        except OSError as error:
            raise OptionError(f"{explain_os_error(error, 'written', path)}{self._kept()}") from error

    def _go_on(self) -> None:
        """Take what is done; a fault, or a text that is there twice, is done again."""
        found, done = read_records(self.path, self.kind)
        times = Counter(one.index for one in done)
        self.done = [one for one in done if one.settled and times[one.index] == 1]
        if not found:
            return
        same = (*CIRCUMSTANCES, *growing(found, self.header))
        differing = [name for name in {**found, **self.header}
                     if name not in same and found.get(name) != self.header.get(name)]
        if differing:
            told = ["attack"] if "attack" in differing else differing  # another attack has other settings throughout
            changes = "; ".join(difference(name, found.get(name), self.header.get(name)) for name in told)
            raise OptionError(f"{self.path} comes from a run with other settings ({changes}); give the same ones, or "
                              "write another file.")
        grown = {name: self.header[name] for name in growing(found, self.header)}
        if grown and len(self.done) == found.get("texts"):
            grown[FINISHED] = sorted(one.index for one in self.done)
        self.header = {**found, **grown, "about": resumed(found.get("about", {}), self.header.get("about"))}

    def _write(self, results: Sequence[R]) -> None:
        lines = [as_line(self.header), *(one.as_json() for one in results)]
        part = self.path.with_name(self.path.name + ".part")
        try:
            part.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
            part.replace(self.path)
        except OSError:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise

    def add(self, result: R) -> None:
        with self._writing():
            self._stream.write(result.as_json() + "\n")
            self._stream.flush()
        self.done.append(result)

    def close(self) -> None:
        """Put the results into the order of the data."""
        with self._writing():
            self._stream.close()
            if len(self.done) == self.header.get("texts"):
                self.header.pop(FINISHED, None)
            self._write(sorted(self.done, key=lambda one: one.index))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A full disk and its like, told with what is safe and how to go on."""
        try:
            yield
        except OSError as error:
            raise ResourceError(f"{explain_os_error(error, 'written', self.path)}{self._kept()} Then go on with the "
                                "same command and --resume; 'dualmask bench' goes on without it.") from error

    def _kept(self) -> str:
        return f" {len(self.done):,} of {self.header.get('texts', 'its')} records are kept in it." if self.done else ""


class ResultFile(RecordFile[AttackResult]):
    """A file of records of attacks."""

    def __init__(self, path: Path, header: Mapping[str, object], *, resume: bool, overwrite: bool) -> None:
        super().__init__(path, header, AttackResult, resume=resume, overwrite=overwrite)
