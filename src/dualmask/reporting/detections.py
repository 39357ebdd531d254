# SPDX-License-Identifier: Apache-2.0
"""What a report says of detectors: how many adversarial and clean texts they flag, over training seeds."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from dualmask.evaluation.detection import Detection, detection
from dualmask.evaluation.statistics import Spread, spread
from dualmask.reporting.entries import Entry, Key, Run, Share, share


@dataclass(frozen=True, kw_only=True)
class Detected:
    """One attack on one detector. Figures are None where no text stands behind them, or there is no threshold."""

    key: Key
    runs: tuple[Detection, ...]  # of each seed
    detected: Share | None  # of the adversarial texts
    false_alarms: Share | None  # of the clean ones
    f1: Spread | None
    auroc: Spread | None
    restored: Share | None  # CAA
    or_flagged: Share | None  # CAA with flagged successes counted as defended

    @property
    def texts(self) -> tuple[int, int]:
        """Adversarial and clean ones behind the figures, of one seed."""
        seeds = len(self.runs)
        return sum(one.adversarial for one in self.runs) // seeds, sum(one.clean for one in self.runs) // seeds


def detections(entries: Iterable[Entry]) -> tuple[Detected, ...]:
    """Those of the entries whose records have scores of a detector."""
    return tuple(found for one in entries if (found := detected(one)))


def detected(entry: Entry) -> Detected | None:
    runs = tuple(one for run in entry.runs if (one := scored(run)).clean)
    if not runs:
        return None
    flagging = [one for one in runs if one.threshold is not None]
    return Detected(
        key=entry.key, runs=runs, detected=share([(one.detected, one.adversarial) for one in flagging]),
        false_alarms=share([(one.false_alarms, one.clean) for one in flagging]),
        f1=over_seeds(runs, lambda one: one.f1), auroc=over_seeds(runs, lambda one: one.auroc),
        restored=of_texts(runs, lambda one: one.restored_accuracy),
        or_flagged=of_texts(runs, lambda one: one.accuracy_or_flagged))


def scored(run: Run) -> Detection:
    threshold = run.records.header.get("threshold")  # a number or nothing: it was checked when it was read
    return detection(run.records.results, cast(float | None, threshold))


def of_texts(runs: Sequence[Detection], figure: Callable[[Detection], Fraction | None]) -> Share | None:
    """A figure that is a share of all texts."""
    return share([(int(value * one.counts.texts), one.counts.texts) for one in runs
                  if (value := figure(one)) is not None])  # an exact fraction: its count is whole


def over_seeds(runs: Sequence[Detection], figure: Callable[[Detection], Fraction | None]) -> Spread | None:
    found = [float(value) for one in runs if (value := figure(one)) is not None]
    return spread(found) if found else None
