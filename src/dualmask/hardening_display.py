# SPDX-License-Identifier: Apache-2.0
"""`dualmask harden` in the terminal: how far it is; then what the defence brings, costs and does not stop."""

import shlex
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from dualmask.display import own_command
from dualmask.evaluation.statistics import wilson
from dualmask.hardening import AttackEffect, Hardened, HardeningWatch
from dualmask.results import HELD
from dualmask.text.differences import SHOWN
from dualmask.text.input_choices import learned_columns
from dualmask.windows import told_of_cut

if TYPE_CHECKING:
    from dualmask.results import AttackResult

MOST = 0.5  # of the texts answered rightly; where fewer hold, the attack is said not to be stopped


class HardeningProgress(HardeningWatch):
    """Shows the stage at hand and, of an attack, how many texts it has done."""

    def __init__(self, console: Console, *, shown: bool) -> None:
        self.bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[counts]}"),
            TimeElapsedColumn(), console=console, disable=not (shown and console.is_terminal), transient=True)
        self.lines = console if shown and not console.is_terminal else None
        self.task = self.bar.add_task("", total=None, counts="")
        self.held = self.fooled = 0

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def stage(self, description: str) -> None:
        self.bar.update(self.task, description=description, total=None, counts="")
        if self.lines:
            self.lines.print(Text(description.translate(SHOWN)), soft_wrap=True)

    def attacking(self, attack: str, defended: bool, texts: int) -> None:
        self.held = self.fooled = 0
        self.stage(f"{attack} on {texts} texts, defence {'on' if defended else 'off'}")
        self.bar.reset(self.task, total=texts, counts="")

    def attacked(self, result: "AttackResult") -> None:
        self.fooled += result.outcome == "succeeded"
        self.held += result.outcome in HELD
        self.bar.update(self.task, advance=1, counts=f"{self.fooled} fooled, {self.held} held")


def show_hardened(console: Console, done: Hardened) -> None:
    """What was set up, a table of what it brings, what it costs, what it does not stop, and what to type next."""
    for line in opening_lines(done):
        console.print(Text(line.translate(SHOWN)), soft_wrap=True)
    console.print()
    console.print(effect_table(done))
    console.print()
    for line in (*price_lines(done), *limit_lines(done)):
        console.print(Text(line), soft_wrap=True)
    if done.out:
        command = shlex.join([own_command(), "predict", str(done.out), "your own text", "--explain"])
        console.print(Text.assemble("next: ", (command, "bold")), soft_wrap=True)


def opening_lines(done: Hardened) -> Iterator[str]:
    where = f"{done.out} holds the same network with {done.name} around it" if done.out else (
        f"{done.name} was put around the network")
    yield (f"{where}. The defence was set up on {done.learned:,} texts in {done.seconds:.1f} s; the network's weights "
           "are unchanged.")
    yield from done.notes
    if not done.labelled:
        yield ("The texts have no labels: an answer counts as right if it is what the classifier said of the unchanged "
               "text, the defence off.")


def effect_table(done: Hardened) -> Table:
    """Texts with the right answer, before and after, for clean texts and each attack."""
    table = Table(box=None, padding=(0, 2, 0, 0), title="texts that are still answered rightly (95 % interval)",
                  title_justify="left", title_style="bold")
    table.add_column("texts that somebody", no_wrap=False)
    table.add_column("no defence", no_wrap=True, justify="right")
    table.add_column("hardened", no_wrap=True, justify="right")
    clean = done.clean
    table.add_row("left alone", format_share(clean.before, clean.texts), format_share(clean.after, clean.texts))
    for effect in done.attacks:
        table.add_row(f"attacked by {effect.threat or 'an attack'} ({effect.attack})",
                      format_share(effect.before, effect.texts),
                      Text(format_share(effect.after, effect.texts), "bold green" if effect.helps else ""))
    return table


def format_share(part: int, whole: int) -> str:
    """``27 of 40 (52-80 %)``."""
    low, high = wilson(part, whole)
    return f"{part} of {whole} ({100 * low:.0f}-{100 * high:.0f} %)"


def price_lines(done: Hardened) -> Iterator[str]:
    clean = done.clean
    points = 100 * (clean.after - clean.before) / clean.texts
    yield (f"Price: {points:+.1f} points on clean texts, and an answer takes {clean.slowdown:.1f} times as long; no "
           "training.")
    if clean.cut:
        asked = done.classifier
        told = told_of_cut(clean.cut, clean.texts, asked.encode.max_length, asked.windows,
                           pairs=learned_columns(asked.facts).pair is not None)
        yield f"Note: {told}"


def limit_lines(done: Hardened) -> Iterator[str]:
    """What the measurement says the defence does not stop, and what was not measured."""
    weak = [effect for effect in done.attacks if effect.after < MOST * effect.right]
    if weak:
        yield f"It does not stop {join_names([describe_left(effect) for effect in weak])}."
    elif done.attacks:
        yield "No attack that was tried fooled it on more than half of the texts that it answers rightly; others may."
    else:
        yield "Nothing was attacked: attack it before you rely on it ('dualmask attack')."
    if done.attacks:
        yield ("These attacks ask the classifier as it is, but do not know how the defence works; 'dualmask attack "
               "--mode defence-aware' tries some that do.")
    if done.unfinished:
        yield f"Time ended before {join_names(done.unfinished)}; give more --minutes, and --resume."
    elif any(effect.texts < done.asked for effect in done.attacks):
        fewest = min(effect.texts for effect in done.attacks)
        yield (f"Time ended when every attack had tried {fewest} of {done.asked} texts; give more --minutes, and "
               "--resume.")


def describe_left(effect: AttackEffect) -> str:
    return f"{effect.threat or effect.attack} ({effect.attack} leaves {effect.after} of {effect.right} right answers)"


def join_names(names: "list[str] | tuple[str, ...]") -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
