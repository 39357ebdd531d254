# SPDX-License-Identifier: Apache-2.0
"""Training in the terminal: what it is about, before it starts; what came of it, and what to type next."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dualmask.defences import DEFENCES
from dualmask.display import own_command
from dualmask.errors import CleanCostWarning
from dualmask.measured_figures import measured_rows
from dualmask.text.class_balance import imbalance_told, largest_class
from dualmask.text.columns import Columns
from dualmask.text.differences import SHOWN
from dualmask.text.input_choices import is_empty

if TYPE_CHECKING:
    from dualmask.classifier import DefendedClassifier
    from dualmask.text.examples import Dataset

NAMED = 10  # classes, and rare ones, that are told by name
FEW = 5  # training texts of a class; with fewer, some of them held out, it can hardly be learned
SLOW = 2.0  # times plain's time of training, from which on it is told before training
ASKED = 8  # training texts that show whether the defence hides words


def show_start(
    console: Console, data: "Dataset", given: Columns, *, weights: str = "none", price: str | None = None,
) -> None:
    """Before hours go into it: what will be learned, and from which columns; what speaks against it; the price."""
    for line in (f"training on {describe(data)}", *guessed(data, given), *empty_rows(data), *rare_classes(data),
                 *uneven_classes(data, weights), *([price] if price else [])):
        console.print(Text(line.translate(SHOWN)), soft_wrap=True)


def training_price(defence: str, preset: str) -> str | None:
    """That training takes several times as long as a plain classifier's, if it was measured to."""
    rows = [row for row in measured_rows() if (row.defence, row.preset) == (defence, preset) and row.trained]
    row = max(rows, key=lambda found: found.training_times or 0.0, default=None)
    if row is None or not row.training_times or row.training_times < SLOW:
        return None
    quick = DEFENCES.find(defence).preset_around_trained
    other = f" The preset {quick} (--preset {quick}) takes one pass for each text, as plain does."
    return (f"note: training {row.name} took {row.training_times:.1f} times as long as training a plain classifier, "
            f"measured on {row.data}.{other if quick not in ('recommended', preset) else ''}")


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


def empty_rows(data: "Dataset") -> Iterator[str]:
    """Rows without a text teach nothing but how often a label is given to them."""
    if data.empty:
        left = sum(is_empty(example.text) for example in data.train)
        told = f"{left:,} of them are trained on" if left else "none of them is trained on"
        yield f"note: rows without a text: {data.empty:,}; {told}."


def rare_classes(data: "Dataset") -> Iterator[str]:
    counts = Counter(example.label for example in data.train)
    rare = [f"{name} ({counts[label]})" for label, name in enumerate(data.labels) if counts[label] < FEW]
    if rare:
        yield (f"warning: fewer than {FEW} training texts of {shortened(rare)}: too few to learn a class from, or to "
               "measure it. Add some, merge classes, or choose another label column.")


def uneven_classes(data: "Dataset", weights: str) -> Iterator[str]:
    """That accuracy will say little, where nearly all texts are of one class; weights: the training option's value."""
    largest = largest_class((example.label for example in data.train), data.labels)
    if largest.dominates:
        yield (f"warning: {imbalance_told(largest, 'training texts')}; look at recall per class (dualmask evaluate)"
               + (" and consider --set class_weights=balanced." if weights == "none" else "."))


def shortened(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


@contextmanager
def cost_told_later() -> Iterator[None]:
    """Within it training does not warn of what the defence costs, which `show_training` tells."""
    with catch_warnings():
        simplefilter("ignore", CleanCostWarning)
        yield


def show_training(console: Console, classifier: "DefendedClassifier", data: "Dataset", out: Path) -> None:
    """What was learned, where it lies and what to type next."""
    from dualmask.training_outcome import clean_cost

    facts: Mapping[str, Any] = classifier.facts
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_row("saved in", Text(str(out)))
    table.add_row("trained on", Text(describe(data).translate(SHOWN)))
    if "epochs_run" in facts:
        run, planned, best = facts["epochs_run"], facts["training"]["epochs"], facts["best_epoch"]
        table.add_row("epochs", f"{run} of {planned}; the weights are those of epoch {best}")
    for name, told in accuracies_told(facts):
        table.add_row(name, Text(told.translate(SHOWN)))
    console.print(table)
    if cost := clean_cost(facts, classifier.defence.name):
        console.print(Text(f"warning: {cost}", "yellow"), soft_wrap=True)
    for line in cut_texts(classifier, data):
        console.print(Text(line, "yellow"), soft_wrap=True)
    console.print("Clean accuracy says nothing about robustness.", style="dim")
    explain = ["--explain"] if explains(classifier, data) else []
    command = shlex.join([own_command(), "predict", str(out), "some text", *explain])
    console.print(Text.assemble("next: ", (command, "bold")), soft_wrap=True)


def accuracies_told(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every accuracy that was measured, beside what a classifier would score that always answers the same."""
    rows = {"validation accuracy": "validation_accuracy",
            "validation accuracy, defence on": "validation_accuracy_defended",
            "validation accuracy, defence off": "validation_accuracy_undefended",
            "validation accuracy, by class_weights": "validation_weighed",
            "validation accuracy under attack": "validation_under_attack", "test accuracy, defence on": "test_accuracy",
            "test accuracy, defence off": "test_accuracy_undefended"}
    beside = {"validation_accuracy": "validation_majority", "test_accuracy": "test_majority"}
    if facts.get("validation_accuracy_defended") == facts.get("validation_accuracy"):
        del rows["validation accuracy, defence on"]
    for name, key in rows.items():
        if key in facts:
            told = "not defined: the network's own head was not trained" if facts[key] is None else f"{facts[key]:.1%}"
            largest = facts.get(beside.get(key, ""))
            yield name, told + (f"   (always '{largest['label']}': {largest['share']:.1%})" if largest else "")
    for name, key in (("validation recall", "validation_recall"), ("test recall", "test_recall")):
        if key in facts:
            yield name, recalls_told(facts[key])


def recalls_told(recalls: Mapping[str, float]) -> str:
    """``ham 100.0%, spam 12.5%``, the lowest ones where there are many."""
    worst = sorted(recalls, key=lambda name: recalls[name])[:NAMED]
    told = ", ".join(f"{name} {share:.1%}" for name, share in recalls.items() if name in worst)
    return told if len(recalls) <= NAMED else f"{told} (the lowest of {len(recalls)} classes)"


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
