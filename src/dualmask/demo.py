# SPDX-License-Identifier: Apache-2.0
"""A newcomer's first run: train on film reviews, then look at what the defence does to a few altered ones."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dualmask.display import confidence_bar, marked_text, own_command
from dualmask.errors import OptionError

if TYPE_CHECKING:
    from dualmask.classifier import DefendedClassifier, Masked
    from dualmask.text.examples import Dataset, Example

ENCODER, DATA, DEFENCE, PRESET = "minilm", "rotten-tomatoes", "ddm", "recommended"
SEED = 0


class Size(NamedTuple):
    """Rows of each part that are used; the rest is left alone, so that two cores are done in minutes."""

    train: int
    validation: int
    test: int


FULL, QUICK = Size(9000, 400, 500), Size(160, 40, 40)
TRAINING = {"epochs": 1, "learning_rate": 1e-4, "batch_size": 16, "max_length": 64, "seed": SEED}

ALTERED_SHARE = 0.3  # of a test text's words, for the second measurement
LOOK_ALIKES = dict(zip("aceiopxy", "\u0430\u0441\u0435\u0456\u043e\u0440\u0445\u0443", strict=True))  # Cyrillic

NOT_ROBUSTNESS = (
    "Read this with care. Accuracy on clean texts says nothing about robustness, and neither do words altered at "
    "random or by hand: they show the mechanism. A real attack searches until it finds an alteration that works.")


class Case(NamedTuple):
    """A review, and the same review as somebody might write it to get past a classifier."""

    change: str
    clean: str
    altered: str


CASES = (
    Case("typos",
         "The worst film of the year, lifeless and predictable.",
         "The wrost film of the year, lifelss and predictible."),
    Case("look-alike letters from another alphabet",
         "Beautiful, touching and original.",
         "Be\u0430utiful, t\u043euching and \u043eriginal."),
    Case("one look-alike letter in the word that decides",
         "It fails to be funny.",
         "It f\u0430ils to be funny."),
    Case("rare words instead of common ones",
         "There is little to like in this tedious, clumsy thriller.",
         "There is little to like in this wearisome, maladroit thriller."),
    Case("a rare word slipped in",
         "The story is boring and the jokes are bad.",
         "The cromulent story is boring and the jokes are bad."),
)


class Answer(NamedTuple):
    label: str
    confidence: float
    masked: "Sequence[Masked]"


class Finding(NamedTuple):
    """One case: the answers to both texts, with the defence on and off."""

    case: Case
    clean: Answer
    altered: Answer
    clean_off: Answer
    altered_off: Answer


@dataclass(frozen=True)
class Report:
    """Everything that the demo measured."""

    rows: Size
    encoder: str
    data: str
    seconds: float
    accuracy: float
    accuracy_off: float
    altered: float  # accuracy on the test texts with words altered at random
    altered_off: float
    findings: list[Finding]

    @property
    def changed(self) -> int:
        """Cases whose label changed with the alteration, defence on."""
        return sum(finding.clean.label != finding.altered.label for finding in self.findings)

    @property
    def changed_off(self) -> int:
        return sum(finding.clean_off.label != finding.altered_off.label for finding in self.findings)

    @property
    def moved(self) -> int:
        """Clean reviews whose label the defence itself changed."""
        return sum(finding.clean.label != finding.clean_off.label for finding in self.findings)


def run_demo(
    out: Path, *, encoder: str | Path = ENCODER, data: "str | Dataset" = DATA, quick: bool = False,
    console: Console | None = None,
) -> Report:
    """Train, measure, show, and leave the model and a page in `out`."""
    from dualmask.demo_page import page
    from dualmask.text.examples import load_dataset
    from dualmask.training import train

    console = console or Console()
    model, page_file = out / "model", out / "report.html"
    if (model / "dualmask.json").exists() and not page_file.exists():
        raise OptionError(f"{model} holds a saved model that no demo has made; choose another folder with --out.")
    whole = load_dataset(data) if isinstance(data, str) else data
    part = sample(whole, QUICK if quick else FULL)
    console.print(f"Training a classifier with the defence '{DEFENCE}' on {len(part.train):,} texts of {part.name}"
                  + ("." if quick else "; on two cores without a GPU this takes a few minutes."))
    classifier = train(part, encoder=encoder, defence=DEFENCE, preset=PRESET, training=TRAINING, out=model,
                       overwrite=True)
    report = measure(classifier, part, encoder=Path(encoder).name)
    show_report(console, report)
    page_file.write_text(page(report), encoding="utf-8")
    show_next(console, model, page_file)
    return report


def sample(data: "Dataset", size: Size) -> "Dataset":
    """At most `size` rows of each part, drawn by class; a data set without a test part gives up some training rows."""
    from dualmask.text.examples import split_stratified

    def drawn(rows: "list[Example]", most: int) -> "list[Example]":
        return rows if len(rows) <= most else split_stratified(rows, most / len(rows), SEED)[1]

    train, test = (data.train, data.test) if data.test else split_stratified(data.train, 0.1, SEED)
    validation = drawn(data.validation, size.validation) if data.validation else None
    return replace(data, train=drawn(train, size.train), validation=validation, test=drawn(test, size.test))


def measure(classifier: "DefendedClassifier", data: "Dataset", *, encoder: str) -> Report:
    facts, altered = classifier.facts, altered_at_random(data.test or [])
    return Report(
        rows=Size(len(data.train), len(data.validation or []), len(data.test or [])), encoder=encoder, data=data.name,
        seconds=float(str(facts["seconds"])), accuracy=float(str(facts["test_accuracy"])),
        accuracy_off=float(str(facts["test_accuracy_undefended"])), altered=classifier.accuracy(altered),
        altered_off=classifier.accuracy(altered, defended=False), findings=ask(classifier, CASES))


def altered_at_random(examples: "Sequence[Example]") -> "list[Example]":
    """The same texts with a share of their words misspelt: two letters swapped, or one by a look-alike."""
    draw = Random(SEED)
    return [example._replace(text=" ".join(
        altered_word(word, draw) if draw.random() < ALTERED_SHARE else word for word in str(example.text).split(" ")))
        for example in examples]


def altered_word(word: str, draw: Random) -> str:
    """The word with two unlike neighbours swapped or a letter replaced by a look-alike; as it is if neither can be."""
    swaps = [place for place in range(len(word) - 1) if word[place] != word[place + 1]]
    alikes = [place for place, letter in enumerate(word) if letter in LOOK_ALIKES]
    if swaps and (draw.random() < 0.5 or not alikes):
        place = draw.choice(swaps)
        return word[:place] + word[place + 1] + word[place] + word[place + 2:]
    if alikes:
        place = draw.choice(alikes)
        return word[:place] + LOOK_ALIKES[word[place]] + word[place + 1:]
    return word


def ask(classifier: "DefendedClassifier", cases: Sequence[Case]) -> list[Finding]:
    """The classifier's answers to both forms of every case, with and without its defence."""
    texts = [text for case in cases for text in (case.clean, case.altered)]
    answers: dict[bool, list[Answer]] = {}
    for defended in (True, False):
        found = classifier.predict(texts, explain=True, defended=defended)
        rows = zip(found.labels, found.probabilities.max(dim=1).values.tolist(), found.masked or [], strict=True)
        answers[defended] = [Answer(*row) for row in rows]
    on, off = answers[True], answers[False]
    return [Finding(case, on[row], on[row + 1], off[row], off[row + 1])
            for case, row in zip(cases, range(0, len(texts), 2), strict=True)]


def sentences(report: Report) -> list[str]:
    """What is seen, in plain words; every number was measured by this run."""
    count = len(report.findings)
    return [
        f"On {report.rows.test:,} clean test texts {report.accuracy:.1%} of the answers were right with the defence on "
        f"and {report.accuracy_off:.1%} with it off (the same network, nothing hidden).",
        f"With about {ALTERED_SHARE:.0%} of their words misspelt at random it was {report.altered:.1%} with the "
        f"defence on and {report.altered_off:.1%} with it off.",
        f"Of the {count} altered reviews, {report.changed} got another label than their clean form with the defence "
        f"on, {report.changed_off} with it off. Hiding words has its price: with the defence on, {report.moved} of the "
        f"{count} clean reviews got another label than with it off.",
        "Marked words were hidden from the network because the training texts hardly have them. Typos and foreign "
        "letters break words into rare pieces, so they are often among them; so are some honest rare words.",
        NOT_ROBUSTNESS,
    ]


def show_report(console: Console, report: Report) -> None:
    brackets = console.color_system is None or console.no_color
    for finding in report.findings:
        table = Table(title=finding.case.change, title_justify="left", title_style="bold", box=None, expand=True,
                      padding=(0, 2, 0, 0))
        table.add_column("")
        table.add_column("defence on", no_wrap=True)
        table.add_column("defence off", no_wrap=True)
        table.add_column("text", ratio=1)
        for name, text, on, off in (
            ("clean", finding.case.clean, finding.clean, finding.clean_off),
            ("altered", finding.case.altered, finding.altered, finding.altered_off),
        ):
            table.add_row(name, shown_answer(on), shown_answer(off), marked_text(text, on.masked, brackets=brackets))
        console.print("", table)
    console.print("", *(Text(f"* {sentence}") for sentence in sentences(report)), sep="\n")


def shown_answer(answer: Answer) -> Text:
    return Text.assemble((f"{answer.label} ", "bold"), confidence_bar(answer.confidence, width=5))


def show_next(console: Console, model: Path, page_file: Path) -> None:
    folder, dualmask = shlex.quote(str(model)), shlex.quote(own_command())
    console.print(
        "", Text(f"The same as a page: {page_file}"), Text(f"The model: {model}"), "Try next:",
        *(Text(f"  {dualmask} {rest}", "bold") for rest in (
            f"attack {folder} {DATA} --attack deepwordbug --samples 20",
            f"predict {folder} 'your own review' --explain", f"predict {folder} 'your own review' --undefended",
            f"predict {folder} --file reviews.csv --out answers.csv", "train reviews.csv --out model/")),
        sep="\n", soft_wrap=True)
