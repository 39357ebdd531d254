# SPDX-License-Identifier: Apache-2.0
"""What a defence costs: texts through the network in training, passes for an answer, time and memory, as recorded."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dualmask.reporting.entries import Entry, Run, training_facts
from dualmask.results import mean


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one classifier, mean over seeds; None where records don't tell it."""

    data: str
    encoder: str
    defence: str
    forwards: float | None  # texts through the network for each training text and epoch
    backwards: float | None
    seconds: float | None  # an epoch
    whole: float | None  # seconds of all epochs
    answer: float | None  # milliseconds for a test text, many at once
    megabytes: float | None  # at most
    passes: str  # for an answer
    hardware: str  # that seconds and megabytes are of

    @property
    def training(self) -> float | None:
        """Forward and backward together, two for the plain way; the axis of a plot."""
        return None if self.forwards is None or self.backwards is None else self.forwards + self.backwards

    @property
    def inference(self) -> float | None:
        """The most passes that an answer may take."""
        return max(map(float, re.findall(r"\d+", self.passes)), default=None)


def costs(entries: Iterable[Entry]) -> tuple[Cost, ...]:
    """One for each classifier of a report, in the order of the entries."""
    runs: dict[tuple[str, str, str], dict[int, Run]] = {}
    for one in entries:
        for run in one.runs:
            runs.setdefault(one.key[:3], {}).setdefault(run.seed, run)
    return tuple(cost(place, list(seeds.values())) for place, seeds in runs.items())


def cost(place: tuple[str, str, str], runs: list[Run]) -> Cost:
    facts = [training_facts(run.records.header) for run in runs]
    told = [given if isinstance(given := one.get("cost"), Mapping) else {} for one in facts]
    devices = sorted({str(one["device"]) for one in told if "device" in one})
    return Cost(
        data=place[0], encoder=place[1], defence=place[2], forwards=a_text(told, "forward_texts"),
        backwards=a_text(told, "backward_texts"), seconds=over(told, "seconds_per_epoch"),
        whole=over(facts, "seconds"), answer=over(list(map(answer_time, facts)), "answer"),
        megabytes=over(told, "peak_memory_mb"), passes=str(runs[0].records.header.get("passes") or ""),
        hardware="; ".join(devices))


def a_text(told: Iterable[Mapping[str, object]], name: str) -> float | None:
    """For each training text and epoch."""
    return mean([texts / count for one in told if (texts := numbered(one, name)) is not None
                 and (count := (numbered(one, "examples") or 0) * (numbered(one, "epochs") or 0))])


def answer_time(facts: Mapping[str, object]) -> dict[str, object]:
    """Milliseconds for a test text with the defence on; nothing where the facts don't tell it."""
    rows = facts.get("rows")
    texts = numbered(rows, "test") if isinstance(rows, Mapping) else None
    seconds = numbered(facts, "test_seconds")
    return {"answer": 1000 * seconds / texts} if texts and seconds is not None else {}


def over(told: Iterable[Mapping[str, object]], name: str) -> float | None:
    return mean([value for one in told if (value := numbered(one, name)) is not None])


def numbered(values: Mapping[str, object], name: str) -> float | None:
    """A number out of a file, which may hold anything there."""
    value = values.get(name)
    return float(value) if type(value) in (int, float) and 0 <= value < 1e15 else None  # type: ignore[operator,arg-type]
