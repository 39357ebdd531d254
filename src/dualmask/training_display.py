# SPDX-License-Identifier: Apache-2.0
"""Training in the terminal: what it is about, before it starts; what came of it, and what to type next."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dualmask.display import own_command
from dualmask.text.columns import Columns
from dualmask.text.differences import SHOWN

if TYPE_CHECKING:
    from dualmask.classifier import DefendedClassifier
    from dualmask.text.examples import Dataset

NAMED = 10  # classes, and rare ones, that are told by name
FEW = 5  # training texts of a class; with fewer, some of them held out, it can hardly be learned
ASKED = 8  # training texts that show whether the defence hides words


def show_start(console: Console, data: "Dataset", given: Columns) -> None:
    """Before hours go into it: what will be learned, and from which columns."""
    for line in (f"training on {describe(data)}", *guessed(data, given), *rare_classes(data)):
        console.print(Text(line.translate(SHOWN)), soft_wrap=True)


def describe(data: "Dataset") -> str:
    """``text column: body; label column: stars; 2 classes: 0, 1``."""
    classes = f"{len(data.labels)} classes: {shortened(data.labels)}"
    if data.columns is None:
        return classes
    text, label, pair = data.columns
    texts = f"text column: {text}" if pair is None else f"text columns: {text}, {pair}"
    return f"{texts}; label column: {label}; {classes}"


def guessed(data: "Dataset", given: Columns) -> Iterator[str]:
    """A column that goes by a usual name need not be the one that was meant."""
    missing = [f"--{role}-column" for role in ("text", "label") if getattr(given, role) is None]
    if data.columns is not None and missing:
        yield f"(found by name; others: {', '.join(missing)})"


def rare_classes(data: "Dataset") -> Iterator[str]:
    counts = Counter(example.label for example in data.train)
    rare = [f"{name} ({counts[label]})" for label, name in enumerate(data.labels) if counts[label] < FEW]
    if rare:
        yield (f"warning: fewer than {FEW} training texts of {shortened(rare)}: too few to learn a class from, or to "
               "measure it. Add some, merge classes, or choose another label column.")


def shortened(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def show_training(console: Console, classifier: "DefendedClassifier", data: "Dataset", out: Path) -> None:
    """What was learned, where it lies and what to type next."""
    facts: Mapping[str, Any] = classifier.facts
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_row("saved in", Text(str(out)))
    table.add_row("trained on", Text(describe(data).translate(SHOWN)))
    if "epochs_run" in facts:
        run, planned, best = facts["epochs_run"], facts["training"]["epochs"], facts["best_epoch"]
        table.add_row("epochs", f"{run} of {planned}; the weights are those of epoch {best}")
    rows = {"validation accuracy": "validation_accuracy",
            "validation accuracy under attack": "validation_under_attack", "test accuracy, defence on": "test_accuracy",
            "test accuracy, defence off": "test_accuracy_undefended"}
    for name, key in rows.items():
        if key in facts:
            table.add_row(name, "not defined: the network's own head was not trained" if facts[key] is None
                          else f"{facts[key]:.1%}")
    console.print(table)
    for line in cut_texts(classifier, data):
        console.print(Text(line, "yellow"), soft_wrap=True)
    console.print("Clean accuracy says nothing about robustness.", style="dim")
    explain = ["--explain"] if explains(classifier, data) else []
    command = shlex.join([own_command(), "predict", str(out), "some text", *explain])
    console.print(Text.assemble("next: ", (command, "bold")), soft_wrap=True)


def cut_texts(classifier: "DefendedClassifier", data: "Dataset") -> Iterator[str]:
    """What stands behind the cut was not learned from, windows or not."""
    if count := classifier.facts.get("cut_texts"):
        verb, encode = "was" if count == 1 else "were", classifier.encode
        room = classifier.defence.training_room(encode, encode.special_tokens([one.text for one in data.train[:1]]))
        yield (f"note: {count:,} of {len(data.train):,} training texts {verb} cut: {room:,} of their tokens fit into "
               f"the {encode.max_length:,} of --max-length, beside what is added to them; what lies behind was not "
               "learned from.")


def explains(classifier: "DefendedClassifier", data: "Dataset") -> bool:
    """Whether the defence hides words, or accounts for those that it reads otherwise."""
    if classifier.defence.explainable:
        return any(classifier.hidden([example.text for example in data.train[:ASKED]]))
    return classifier.defence.account("some text") is not None
