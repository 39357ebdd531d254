# SPDX-License-Identifier: Apache-2.0
"""What a training run shows while it runs: a progress bar in a terminal, and a JSON Lines log on disk."""

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from dualmask.errors import DualmaskError, ResourceError
from dualmask.system_errors import explain_os_error

if TYPE_CHECKING:
    from torch import Tensor

    from dualmask.checkpoints import Progress
    from dualmask.selection import Verdict


class Screen:
    """A bar for the epoch at hand, where there is a terminal, and a line for each that is over."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self.console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
            console=self.console, disable=not self.console.is_terminal, transient=True)

    def begin(self, epoch: int, batches: int, done: int) -> None:
        for task in self.bar.task_ids:
            self.bar.remove_task(task)
        self.task = self.bar.add_task(f"epoch {epoch + 1}", total=batches, completed=done, figures="")


class Reporter:
    """Follows a run; reads the loss from its device only now and then, since every reading waits for the device."""

    def __init__(self, folder: Path | None, facts: Mapping[str, object], *, show: bool) -> None:
        self.screen = Screen() if show else None
        self.file: TextIO | None = (folder / "training.jsonl").open("a", encoding="utf-8") if folder else None
        self.write({"event": "start", **facts})

    def __enter__(self) -> Self:
        if self.screen:
            self.screen.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        if self.screen:
            self.screen.bar.stop()
        if self.file:
            with suppress(OSError):  # whatever could not be written was told when it was to be
                self.file.close()

    def begin(self, epoch: int, batches: int, done: int) -> None:
        if self.screen:
            self.screen.begin(epoch, batches, done)
        self.total: Tensor | None = None
        self.count = 0

    def step(self, state: "Progress", loss: "Tensor", *, rate: float, accuracy: "Tensor | None") -> None:
        """Add a step's loss; every so often show and write the mean."""
        self.total = loss if self.total is None else self.total + loss
        self.count += 1
        if self.screen:
            self.screen.bar.advance(self.screen.task)
        if accuracy is None:
            return
        mean = self.mean(state)
        if self.screen:
            self.screen.bar.update(self.screen.task, figures=f"loss {mean:.3f}  accuracy {float(accuracy):.2f}")
        self.write({"event": "step", "epoch": state.epoch + 1, "step": state.step, "loss": round(mean, 5),
                    "batch_accuracy": round(float(accuracy), 4), "learning_rate": rate})

    def end(self, state: "Progress", verdict: "Verdict", *, epochs: int) -> None:
        """Show and write what the epoch came to, and whether training stops before all of them."""
        mean = self.mean(state) if self.count else None  # none where a resumed epoch had nothing left to train on
        best = " (kept so far)" if state.best_epoch == state.epoch else ""
        loss = "" if mean is None else f"loss {mean:.3f}, "
        if self.screen:
            under = f", {verdict.under_attack:.1%} under attack" if verdict.attacked else ""
            self.screen.console.print(f"epoch {state.epoch}: {loss}validation accuracy {verdict.accuracy:.1%}{under}"
                                      f"{best}, {state.seconds:.0f} s in all")
        self.write({"event": "epoch", "epoch": state.epoch, "step": state.step,
                    "loss": None if mean is None else round(mean, 5), "validation_accuracy": verdict.accuracy,
                    **({"validation_under_attack": verdict.under_attack} if verdict.attacked else {}),
                    "seconds": round(state.seconds, 2)})
        if state.finished and state.epoch < epochs:
            if self.screen:
                self.screen.console.print(f"stopped after epoch {state.epoch} of {epochs}: no gain since epoch "
                                          f"{state.best_epoch}, whose weights are kept")
            self.write({"event": "stop", "epoch": state.epoch, "epochs": epochs, "best_epoch": state.best_epoch})

    def mean(self, state: "Progress") -> float:
        """The mean loss of the epoch so far; reading it waits for the device."""
        mean = float(self.total) / self.count if self.total is not None else math.nan
        if not math.isfinite(mean):
            raise DualmaskError(f"the loss became {mean} by step {state.step}; lower the learning rate, or train with "
                                "precision=fp32.")
        return mean

    def write(self, record: Mapping[str, object]) -> None:
        if self.file:
            try:
                self.file.write(json.dumps(record) + "\n")
                self.file.flush()
            except OSError as error:
                raise ResourceError(f"{explain_os_error(error, 'written', self.file.name)} Then go on with --resume: a "
                                    "checkpoint that was written is kept.") from error
