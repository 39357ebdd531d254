# SPDX-License-Identifier: Apache-2.0
"""The one training loop. Every draw derives from (seed, step), so a run that was killed goes on to the same weights."""

import json
import math
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dualmask import __version__, checkpoints
from dualmask.checkpoints import Progress, State, check_folder, clear_folder, network_state
from dualmask.class_weights import class_weights
from dualmask.classifier import DefendedClassifier
from dualmask.deadline import TimeUp, time_is_up
from dualmask.defences import build_defence, preset_training
from dualmask.defences.base import Defence, Network
from dualmask.devices import check_one_device, device_chosen
from dualmask.errors import CleanCostWarning, DataError, OptionError
from dualmask.models.encoders import load_encoder
from dualmask.optimisation import forget_peak, learning_rate, limit_gradients, make_optimiser, peak_memory
from dualmask.options import TrainingOptions
from dualmask.output_lock import output_lock
from dualmask.seeds import generator, seed_layers
from dualmask.selection import Judge, Verdict
from dualmask.text.encoding import Batch, bucketed
from dualmask.text.examples import Dataset, Example, split_stratified
from dualmask.training_log import Reporter
from dualmask.training_outcome import check_finite, clean_cost, outcome
from dualmask.windows import Windows, read_windows

if TYPE_CHECKING:
    from accelerate import Accelerator

CHECKPOINT_SECONDS = 300.0
LOG_STEPS = 25


def train(
    data: Dataset, *, encoder: str | Path = "minilm", defence: str = "ddm-restore", preset: str = "recommended",
    options: Mapping[str, object] | None = None, training: Mapping[str, object] | None = None,
    out: str | Path | None = None, resume: bool = False, overwrite: bool = False, progress: bool = True,
    device: str | None = None, windows: Windows | str | None = None,
) -> DefendedClassifier:
    """Train a classifier with a defence; with `out` also save it, its log and, until it is done, checkpoints.

    device: cpu, cuda or cuda:1; a GPU where there is one unless given.
    windows: how the classifier reads long texts, once it is trained; training texts are cut.
    """
    windows = read_windows(windows)
    if windows is not None:
        windows.check_labels(data.labels)
    settings = preset_training(defence, preset, training)
    guard = build_defence(defence, preset=preset, options=options)
    if settings.validate == "plain" and not guard.trains_head:
        raise OptionError(f"the defence '{guard.name}' leaves the network's own head untrained: no epoch can be "
                          "judged by it; use validate=defended.")
    folder = Path(out) if out else None
    with device_chosen(device), output_lock(folder if is_main_process() else None):
        if folder:
            check_folder(folder, resume=resume, overwrite=overwrite)
        facts = {"data": data.name, "rows": fingerprint(data), "encoder": str(encoder), "defence": defence,
                 "preset": preset, "options": guard.options_as_dict(), "training": asdict(settings)}
        return trained_classifier(data, guard, settings, folder, facts=facts, resume=resume, progress=progress,
                                  windows=windows)


def trained_classifier(
    data: Dataset, guard: Defence, settings: TrainingOptions, folder: Path | None, *, facts: Mapping[str, object],
    resume: bool, progress: bool, windows: Windows | None = None,
) -> DefendedClassifier:
    """Train with a folder that nobody else writes to; `facts` begin what the saved model tells of its training."""
    fitted, held_out = validation_split(data, settings)
    weights = class_weights(settings.class_weights, fitted, data.labels)
    model, tokenizer = load_encoder(str(facts["encoder"]), data.labels, seed=settings.seed)
    classifier = DefendedClassifier(model, tokenizer, guard, labels=data.labels, max_length=settings.max_length)
    classifier.fit_defence(fitted)  # what is held out must be new to it: thresholds are set by it
    main = is_main_process()  # of several that train together, one writes
    if folder and main:
        clear_folder(folder, resume=resume)
    with Reporter(folder if main else None, facts, show=progress and main) as reporter:
        run = Run(classifier, settings, fitted, held_out, reporter=reporter, out=folder, facts=facts, weights=weights)
        run.loop(resume=resume)
    classifier.tune_defence(held_out)
    classifier.windows = windows
    classifier.facts = {**facts, **columns_of(data), **outcome(run, data), "dualmask": __version__,
                        "torch": torch.__version__}
    if folder and main:
        classifier.save(folder)
        checkpoints.remove(folder)
    if main and (told := clean_cost(classifier.facts, guard.name)):
        warnings.warn(told, CleanCostWarning, stacklevel=3)
    return classifier


def columns_of(data: Dataset) -> dict[str, object]:
    """Which columns were read, for files that the saved model will be given; data that have none tell nothing."""
    return {} if data.columns is None else {"columns": data.columns._asdict()}


def is_main_process() -> bool:
    from accelerate import PartialState

    return bool(PartialState().is_main_process)


@dataclass
class Run:
    """One training run: settings, data, and where it stands."""

    classifier: DefendedClassifier
    settings: TrainingOptions
    examples: Sequence[Example]
    held_out: Sequence[Example]
    reporter: Reporter
    out: Path | None
    facts: Mapping[str, object]
    state: Progress = field(default_factory=Progress)
    best: State = field(default_factory=dict)
    measured: tuple[Sequence[Example], list[int]] | None = None
    weights: Tensor | None = None  # of the classes, (classes,)

    def loop(self, *, resume: bool) -> None:
        self.accelerator = make_accelerator()
        network = self.classifier.network.to(self.accelerator.device)
        if self.weights is not None:
            self.classifier.defence.weigh_classes(self.weights.to(self.accelerator.device))
        self.optimiser = make_optimiser(network, self.settings)
        self.judge = Judge(self.classifier, self.held_out, self.settings)
        if resume and self.out and checkpoints.found(self.out):
            self.state, self.best = checkpoints.read(self.out, self.facts, network=network, optimiser=self.optimiser)
        self.wrapped: Network = self.accelerator.prepare(network)
        self.steps_per_epoch = math.ceil(len(self.examples) / self.settings.batch_size)
        while self.state.epoch < self.settings.epochs and not self.state.finished:
            started, before = time.perf_counter(), self.state.seconds
            for _ in self.epoch():
                self.state.seconds = before + time.perf_counter() - started
            if self.accelerator.device.type == "cuda":
                torch.cuda.synchronize()
            self.state.seconds = before + time.perf_counter() - started
            self.measure_memory()
            self.end_of_epoch()
        network.load_state_dict(self.best)
        network.eval()
        self.classifier.defence.weigh_classes(None)
        if not self.state.best_ready:
            warnings.warn(f"the defence '{self.classifier.defence.name}' had not begun, or not with all it does, by "
                          f"epoch {self.state.best_epoch}, the last, whose weights are kept: raise epochs (now "
                          f"{self.settings.epochs}), or let it begin earlier (see its card's options).", stacklevel=4)

    def epoch(self) -> Iterator[None]:
        """Train on what is left of the epoch at hand."""
        state, settings, seed = self.state, self.settings, self.settings.seed
        defence, encode = self.classifier.defence, self.classifier.encode
        forget_peak(self.accelerator.device)
        self.classifier.network.take()  # validation is no cost of training
        self.classifier.network.take_texts()
        examples = defence.augment(self.examples, state.epoch, generator(seed, "augment", state.epoch),
                                   self.classifier)
        self.count_passes()
        batches = bucketed(self.lengths(examples), settings.batch_size, generator(seed, "order", state.epoch))
        self.classifier.network.train()
        self.pace = self.steps_per_epoch / len(batches)
        self.reporter.begin(state.epoch, len(batches), state.batch)
        saved = time.monotonic()
        for rows in batches[state.batch:]:
            mine, self.portion = self.share(rows)
            chosen = [examples[row] for row in mine]
            seed_layers(seed, "layers", state.step, *self.rank)
            batch = defence.training_view([example.text for example in chosen], [example.label for example in chosen],
                                          encode, generator(seed, "view", state.step))
            batch = replace(batch, examples=torch.tensor(mine))
            rate = self.rate()
            loss, answer = self.update(batch.to(self.accelerator.device), rate)
            state.step, state.batch = state.step + 1, state.batch + 1
            self.reporter.step(state, loss, rate=rate, accuracy=(
                batch_accuracy(answer, batch) if state.step % LOG_STEPS == 0 else None))
            yield
            if (late := time_is_up()) or time.monotonic() - saved > CHECKPOINT_SECONDS:
                self.measure_memory()
                self.checkpoint()
                saved = time.monotonic()
            if late:
                raise TimeUp

    def lengths(self, examples: Sequence[Example]) -> list[int]:
        """Tokens per example, counted again only where the defence made other examples."""
        if self.measured is None or self.measured[0] is not examples:
            self.measured = examples, self.classifier.encode.lengths([example.text for example in examples])
        return self.measured[1]

    def update(self, batch: Batch, rate: float) -> tuple[Tensor, Tensor]:
        """One step of the optimiser; the loss stays on its device, so nothing waits for it."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        defence, network = self.classifier.defence, self.classifier.network
        with torch.autocast(self.accelerator.device.type, torch.bfloat16, enabled=self.half_precision):
            objective = partial(defence.loss, self.wrapped)
            loss, answer = defence.learn(objective, defence.harden(objective, batch), self.backward)
        limit_gradients(network.parameters(), self.settings)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.count_passes()
        return loss.detach(), answer.detach()

    def count_passes(self) -> None:
        """All since the last time: those that taught, and those of attacks before an epoch."""
        state, network = self.state, self.classifier.network
        passes, texts = network.take(), network.take_texts()
        state.forwards, state.backwards = state.forwards + passes[0], state.backwards + passes[1]
        state.forward_texts, state.backward_texts = state.forward_texts + texts[0], state.backward_texts + texts[1]

    def measure_memory(self) -> None:
        self.state.megabytes = max(self.state.megabytes, peak_memory(self.accelerator.device) or 0.0)

    def backward(self, loss: Tensor) -> None:
        """Processes' gradients are averaged, so that one with more rows of a batch than another counts for more."""
        with torch.autocast(self.accelerator.device.type, enabled=False):
            self.accelerator.backward(loss if self.portion == 1 else loss * self.portion)

    @property
    def half_precision(self) -> bool:
        if self.settings.precision == "auto":
            return bool(self.accelerator.device.type == "cuda" and torch.cuda.is_bf16_supported())
        return self.settings.precision == "bf16"

    @property
    def rank(self) -> list[int]:
        """A further part for seeds of what differs between processes that train together; none for the first."""
        return [self.accelerator.process_index] if self.accelerator.process_index else []

    def rate(self) -> float:
        """By epochs done, so that one to which a defence added examples takes no more of the schedule than another."""
        done = self.state.epoch * self.steps_per_epoch + self.state.batch * self.pace
        return learning_rate(done, self.steps_per_epoch * self.settings.epochs, self.settings)

    def share(self, rows: list[int]) -> tuple[list[int], float]:
        """This process's rows of a batch, and how much their mean counts among those of all processes.

        A batch smaller than the number of processes is repeated to fill it.
        """
        world = int(self.accelerator.num_processes)
        filled = (rows * world)[:max(len(rows), world)]
        mine = filled[self.accelerator.process_index::world]
        return mine, len(mine) * world / len(filled)

    def end_of_epoch(self) -> None:
        """Judge the epoch on held-out texts, keep the best weights, decide whether to go on."""
        state = self.state
        check_finite(self.classifier.network, state.step)
        try:
            verdict = self.judge.verdict()
        except TimeUp:
            self.checkpoint()  # resumed, the epoch has no batch left and is judged first
            raise
        if self.accelerator.num_processes > 1:  # one verdict for all, or some would stop while others wait for them
            figures = torch.tensor(verdict).to(self.accelerator.device)
            verdict = Verdict(*self.accelerator.reduce(figures, "mean").tolist())
        ready = self.classifier.defence.is_ready(state.epoch)
        state.epoch, state.batch = state.epoch + 1, 0
        best = Verdict(state.best_accuracy, state.best_under_attack, state.best_weighed)
        better = verdict.figure > best.figure or self.settings.keep == "last"
        if (ready and better) or (not self.best and state.epoch == self.settings.epochs):
            state.best_accuracy, state.best_under_attack, state.best_weighed = verdict
            state.best_epoch, state.best_ready, state.waited = state.epoch, ready, 0
            self.best = network_state(self.classifier.network)
        elif ready:
            state.waited += 1
        state.finished = 0 < self.settings.patience <= state.waited
        self.reporter.end(state, verdict, epochs=self.settings.epochs)
        self.checkpoint()

    def checkpoint(self) -> None:
        if self.out and self.accelerator.is_main_process:
            checkpoints.write(self.out, self.state, self.facts, network=self.classifier.network,
                              optimiser=self.optimiser, best=self.best)


def batch_accuracy(answer: Tensor, batch: Batch) -> Tensor:
    assert batch.labels is not None
    return answer.argmax(dim=1).eq(batch.labels.to(answer.device)).float().mean()


def make_accelerator() -> "Accelerator":
    """Devices and processes as accelerate finds them; precision and batches are ours, whatever the environment says."""
    from accelerate import Accelerator
    from accelerate.utils import DistributedType, GradientAccumulationPlugin

    every_batch = GradientAccumulationPlugin(num_steps=1)
    accelerator = Accelerator(mixed_precision="no", gradient_accumulation_plugin=every_batch)
    if accelerator.distributed_type in (DistributedType.DEEPSPEED, DistributedType.FSDP, DistributedType.MEGATRON_LM):
        raise OptionError(f"training under {accelerator.distributed_type.value} is not supported: weights are kept and "
                          "saved whole here. Launch with plain multi-GPU, or on one device.")
    check_one_device(accelerator.num_processes)
    return accelerator


def validation_split(data: Dataset, settings: TrainingOptions) -> tuple[Sequence[Example], Sequence[Example]]:
    """The data's own validation part, else a stratified share of the training part."""
    if data.validation:
        return data.train, data.validation
    fitted, held_out = split_stratified(data.train, settings.validation_share, settings.seed)
    if not held_out or not fitted:
        raise DataError(f"{data.name} has {len(data.train)} training rows, too few to hold out "
                        f"{settings.validation_share:.0%} for validation; give more rows or a validation file.")
    return fitted, held_out


def fingerprint(data: Dataset) -> dict[str, object]:
    """How many rows each part has, and a hash of them all, so that a run is never resumed on other data."""
    digest = blake2b(digest_size=8)
    parts = {"train": data.train, "validation": data.validation or [], "test": data.test or []}
    for part in parts.values():
        digest.update(json.dumps(part).encode())
    return {**{name: len(part) for name, part in parts.items()}, "hash": digest.hexdigest()}
