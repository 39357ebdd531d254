# SPDX-License-Identifier: Apache-2.0
"""`dualmask attack`: a victim and labelled texts in, changed texts, counts and records out."""

import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from dualmask.errors import DataError, OptionError
from dualmask.results import HELD
from dualmask.text.columns import FIND, Columns


@dataclass(frozen=True, kw_only=True)
class Request:
    """What was asked for on the command line."""

    victim: str
    data: str
    attack: str
    preset: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    samples: int | None = None
    seed: int = 0
    labels: tuple[str, ...] = ()
    defended: bool = True
    measure: str | None = "minilm"
    columns: Columns = FIND
    out: Path | None = None
    show: int = 5
    resume: bool = False
    overwrite: bool = False
    progress: bool = True


def run(request: Request) -> None:
    from dualmask.attack_display import show_results, tally_table
    from dualmask.attacks import build_attack
    from dualmask.attacks.running import attack
    from dualmask.results import AttackResult, tally
    from dualmask.text.examples import load_examples

    check(request)
    build_attack(request.attack, preset=request.preset, options=request.options)  # mistakes before models are loaded
    victim, labels = find_victim(request)
    try:
        examples = load_examples(request.data, labels=labels, columns=request.columns, part="test")
    except DataError as error:
        if "unknown label" not in str(error):
            raise
        problem = str(error).partition(" Correct the label")[0].replace("of the training data", "of the model")
        raise DataError(f"{problem} If the data name the classes otherwise, say so with --labels, e.g. "
                        f"--labels {','.join(map(str, range(len(labels))))} for {', '.join(labels)}.") from None
    began, console = time.perf_counter(), Console()
    seen: list[AttackResult] = []
    total = min(request.samples or len(examples), len(examples))
    with progress_bar(request.progress) as bar:
        task = bar.add_task(request.attack, total=total, counts="")

        def watch(result: AttackResult) -> None:
            seen.append(result)
            fooled, held = (sum(one.outcome in kinds for one in seen) for kinds in (("succeeded",), HELD))
            bar.update(task, advance=1, counts=f"{fooled} fooled, {held} held")

        results = attack(
            victim, examples, request.attack, preset=request.preset, options=request.options, samples=request.samples,
            seed=request.seed, labels=labels, measure=request.measure, out=request.out, resume=request.resume,
            overwrite=request.overwrite, watch=watch, about={"victim": request.victim, "data": request.data})
    show_results(console, results, labels, shown=request.show)
    console.print(setting(request, victim, len(results), len(examples)), soft_wrap=True)
    console.print(tally_table(results, tally(results), time.perf_counter() - began))
    if request.out:
        console.print(Text(f"records: {request.out}"), soft_wrap=True)
    else:
        from dualmask.display import own_command

        again = shlex.join([own_command(), *sys.argv[1:], "--out", "attack.jsonl"])
        console.print(Text(f"to keep one record for each text: {again}", "dim"), soft_wrap=True)


def setting(request: Request, victim: object, attacked: int, given: int) -> Text:
    """What the numbers below are about; without it they can't be quoted."""
    from dualmask.attacks import ATTACKS

    kind = ATTACKS.find(request.attack)
    preset = request.preset or next(iter(kind.presets))
    changed = "".join(f", {name}={value}" for name, value in request.options.items())
    defence = getattr(getattr(victim, "defence", None), "name", None)
    who = f"a model with the defence {defence}" if defence not in (None, "plain") else "a model without a defence"
    if defence is None:
        who = "a server"
    told = (f"{kind.name}, preset {preset}{changed}, seed {request.seed}, against {request.victim}, {who} that it may "
            f"ask (adaptive); {attacked:,} of {given:,} texts of {request.data}")
    if kind.family != "characters" or kind.name == "textbugger":
        told += ("\nSynonyms, tagger, language model and sentence encoder are this library's: such numbers go beside "
                 "each other, not beside published ones.")
    return Text(told)


def check(request: Request) -> None:
    if request.resume and request.out is None:
        raise OptionError("--resume goes on with a file of records; name it with --out.")
    server = request.victim.startswith(("http://", "https://"))
    if server and not request.defended:
        raise OptionError("--undefended takes the defence off a saved model; a server keeps its own.")
    if server and len(request.labels) < 2:
        raise OptionError("a server does not tell its labels: name them in their order, e.g. --labels bad,good.")


def find_victim(request: Request) -> tuple[object, tuple[str, ...]]:
    """A server, or a saved classifier with its own labels."""
    if request.victim.startswith(("http://", "https://")):
        return request.victim, request.labels
    from dualmask.classifier import DefendedClassifier

    classifier = DefendedClassifier.load(request.victim)
    if not request.defended:
        classifier = classifier.undefended()
    if request.labels and len(request.labels) != len(classifier.labels):
        raise OptionError(f"--labels {','.join(request.labels)} names {len(request.labels)} classes, but the model has "
                          f"{len(classifier.labels)}: {','.join(classifier.labels)}. Name each, in this order.")
    return classifier, request.labels or classifier.labels


def progress_bar(wanted: bool) -> Progress:
    return Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                    TextColumn("{task.fields[counts]}"), TimeRemainingColumn(),
                    console=Console(stderr=True), disable=not wanted, transient=True)
