# SPDX-License-Identifier: Apache-2.0
"""`dualmask attack`: a victim and labelled texts in, changed texts, counts and records out."""

import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from dualmask.devices import default_device
from dualmask.display import own_command, show_error, show_note
from dualmask.errors import EncoderError, OptionError
from dualmask.evaluation.records import TRANSFER, Mode
from dualmask.output_lock import output_lock
from dualmask.results import HELD
from dualmask.system_errors import told_reason
from dualmask.text.character_sets import UTF8
from dualmask.text.columns import FIND, Columns
from dualmask.text.input_choices import Empty, InputChoices, learned_columns
from dualmask.text.label_matching import check_label_count

if TYPE_CHECKING:
    from dualmask.attacks.base import Attack
    from dualmask.classifier import DefendedClassifier
    from dualmask.evaluation.records import Cell, CellRecords
    from dualmask.results import AttackResult
    from dualmask.text.examples import Example


SERVER = ("http://", "https://")  # how the addresses of victims begin
# What an attack may have used that its paper had otherwise
TOOLS = {"synonyms": "synonyms", "tagger": "tagger", "language_model": "language model",
         "sentences": "sentence encoder"}


@dataclass(frozen=True, kw_only=True)
class Request:
    """What was asked for on the command line."""

    victim: str
    data: str
    attack: str | None = None  # none: TextFooler or, where the attack is to know the defence, the first that does
    mode: Mode | None = None  # none: adaptive, or the attack's own
    source: Path | None = None  # records of texts to replay
    preset: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    samples: int | None = None
    seed: int = 0
    labels: tuple[str, ...] = ()
    defended: bool = True
    sequential: bool = False
    measure: str | None = "minilm"
    columns: Columns = FIND
    encoding: str = UTF8
    empty: Empty = "refuse"
    out: Path | None = None
    show: int = 5
    windows: str | None = None  # none: as the model was saved
    resume: bool = False
    overwrite: bool = False
    progress: bool = True


def run(request: Request) -> None:
    """Attack; what another process is writing is refused before a model is loaded."""
    check(request)
    with output_lock(request.out):
        attack_and_show(request)


def attack_and_show(request: Request) -> None:
    from dualmask.attack_display import show_results, tally_table
    from dualmask.attacks import build_attack
    from dualmask.cli_certify import find_examples
    from dualmask.models.victim import Victim
    from dualmask.results import tally

    if request.attack:  # a wrong name or option is told before models are loaded
        build_attack(request.attack, preset=request.preset, options=request.options)
    victim, labels = find_victim(request)
    given = request.victim
    if isinstance(victim, Victim):  # a server, whose address may hold a password
        request = replace(request, victim=victim.describe())
    chosen = build_attack(attack_name(request, victim), preset=request.preset, options=request.options)
    own: Mode = "defence-aware" if chosen.against else "adaptive"
    request = replace(request, attack=chosen.name, mode=request.mode or own)
    examples = find_examples(request, labels, InputChoices(
        columns=request.columns, learned=learned_columns(getattr(victim, "facts", {})), encoding=request.encoding,
        empty=request.empty, tell=show_note))
    began, console = time.perf_counter(), Console()
    results = attacked(request, victim, chosen, examples=examples, labels=labels)
    show_results(console, results, labels, shown=request.show)
    console.print(setting(request, chosen, victim, (len(results), len(examples))))
    threshold = getattr(getattr(victim, "defence", None), "threshold", None)
    console.print(tally_table(results, tally(results), time.perf_counter() - began, threshold=threshold,
                              reads=reads_of(victim)))
    told = f"records: {request.out}"
    if not request.out:
        words = [request.victim if word == given else word for word in sys.argv[1:]]
        again = shlex.join([own_command(), *words, "--out", "attack.jsonl"])
        told = f"to keep one record for each text: {again}"
    console.print(Text(told, "dim"), soft_wrap=True)
    check_measured(results)


def check_measured(results: "list[AttackResult]") -> None:
    """Where every text ended in a fault, nobody may take the run for a measurement."""
    if results and not any(one.settled for one in results):
        show_error(f"nothing was measured: each of the {len(results):,} texts ended in a fault, the first with: "
                   f"{results[0].reason or results[0].outcome}. Mend that, and attack again.")
        raise SystemExit(1)


def reads_of(victim: object) -> str:
    """How much of a text the victim reads, in words."""
    from dualmask.classifier import DefendedClassifier
    from dualmask.windows import length_in_words

    if not isinstance(victim, DefendedClassifier):
        return "what the victim reads"
    return length_in_words(victim.encode.max_length, victim.windows)


def attack_name(request: Request, victim: object) -> str:
    """The attack that was asked for, that made the texts, or that fits the mode."""
    if request.source is not None:
        from dualmask.evaluation.records import read_cell

        made = str(read_cell(request.source).header.get("attack"))
        if request.attack not in (None, made):
            raise OptionError(f"{request.source} holds texts of {made}, not of {request.attack}; leave --attack out.")
        return made
    if request.attack or request.mode != "defence-aware":
        return request.attack or "textfooler"
    from dualmask.attacks import aware_of

    name = str(getattr(getattr(victim, "defence", None), "name", "none"))
    known = aware_of(name)
    if not known:
        raise OptionError(f"no attack is known that knows the defence '{name}'; see 'dualmask list attacks'.")
    return known[0]


def attacked(
    request: Request, victim: object, chosen: "Attack", *, examples: "list[Example]", labels: tuple[str, ...],
) -> "list[AttackResult]":
    """Under the whole protocol where the victim is a classifier of ours; others, and TextAttack's order, only ask."""
    from dualmask.attacks.running import attack
    from dualmask.classifier import DefendedClassifier

    about = {"victim": request.victim, "data": request.data}
    with Progressing(request, min(request.samples or len(examples), len(examples))) as watch:
        if isinstance(victim, DefendedClassifier) and not request.sequential:
            return measured(request, victim, chosen, examples=examples, about=about, watch=watch)
        if request.mode != "adaptive":
            raise OptionError(f"--mode {request.mode} needs a model that dualmask has saved, and no --sequential.")
        return attack(
            victim, examples, chosen, samples=request.samples, seed=request.seed, labels=labels,
            measure=request.measure, sequential=request.sequential, out=request.out, resume=request.resume,
            overwrite=request.overwrite, watch=watch, about=about, cell=cell_of(request, victim).as_dict())


def measured(
    request: Request, victim: "DefendedClassifier", chosen: "Attack", *, examples: "list[Example]",
    about: Mapping[str, object], watch: "Progressing",
) -> "list[AttackResult]":
    from dualmask.evaluation.protocol import Protocol, evaluate

    protocol = Protocol(samples=request.samples, sample_seed=request.seed, attack_seed=request.seed,
                        measure=request.measure)
    source = None
    with TemporaryDirectory() as folder:
        if request.mode in TRANSFER:
            path = request.source or Path(folder, "source.jsonl")
            if request.source is None:
                bare = victim.undefended()
                evaluate(cell_of(replace(request, mode="adaptive"), bare), bare, examples, chosen, protocol=protocol,
                         out=path, watch=watch)
            source = source_of(path, victim)
            samples, seed = (source.header.get(key) for key in ("samples", "sample_seed"))
            protocol = replace(protocol, samples=samples, sample_seed=seed)  # type: ignore[arg-type]
        return evaluate(
            cell_of(request, victim), victim, examples, chosen, protocol=protocol, out=request.out, source=source,
            resume=request.resume, overwrite=request.overwrite, about=about, watch=None if source else watch)


def source_of(path: Path, victim: "DefendedClassifier") -> "CellRecords":
    """Records whose texts are to be replayed."""
    from dualmask.evaluation.records import read_cell

    found = read_cell(path)
    if found.header.get("labels") != list(victim.labels):
        raise OptionError(f"{path} is about the labels {found.header.get('labels')}, the model about "
                          f"{list(victim.labels)}; give records of the same classes in the same order.")
    return found


def cell_of(request: Request, victim: object) -> "Cell":
    """What a report or a comparison calls these records."""
    from dualmask.evaluation.records import Cell, cell_name

    facts: Mapping[str, Any] = getattr(victim, "facts", {})
    defence = str(getattr(getattr(victim, "defence", None), "name", "unknown"))
    trained = str(facts.get("defence", defence))
    return Cell(cell_name(Path(request.data).stem), cell_name(Path(str(facts.get("encoder", "unknown"))).name),
                cell_name(defence if trained == defence else f"{trained}-off"), str(request.attack),
                request.mode or "adaptive", int(facts.get("training", {}).get("seed", 0)))


class Progressing(Progress):
    """A bar with what has been fooled and what has held; called with each result."""

    def __init__(self, request: Request, total: int) -> None:
        super().__init__(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[counts]}"),
            TimeRemainingColumn(), console=Console(stderr=True), disable=not request.progress, transient=True)
        self.fooled = self.held = 0
        self.bar = self.add_task(str(request.attack), total=total, counts="")

    def __call__(self, result: "AttackResult") -> None:
        self.fooled += result.outcome == "succeeded"
        self.held += result.outcome in HELD
        self.update(self.bar, advance=1, counts=f"{self.fooled} fooled, {self.held} held")


def setting(request: Request, attack: "Attack", victim: object, counts: tuple[int, int]) -> Text:
    """What the numbers below are about; without it they can't be quoted."""
    changed = "".join(f", {name}={value}" for name, value in request.options.items())
    changed += ", sequential" if request.sequential else ""
    defence = getattr(getattr(victim, "defence", None), "name", None)
    who = f"a model with the defence {defence}" if defence not in (None, "plain") else "a model without a defence"
    if request.victim.startswith(SERVER):
        who = "a server"
    told = (f"{attack.name}, preset {attack.preset}{changed}, seed {request.seed}, against {request.victim}, {who} "
            f"{relation(request, attack, defence)}; {counts[0]:,} of {counts[1]:,} texts of {request.data}")
    used = [TOOLS[name] for name in TOOLS if getattr(attack.tools, name) is not None]
    if used:
        told += f"\nThe {' and '.join(used)} may differ from the paper's: such numbers don't go beside published ones."
    return Text(told)


def relation(request: Request, attack: "Attack", defence: str | None) -> str:
    """What the attack had to do with the classifier that it is measured on."""
    if request.mode in TRANSFER:
        made = f"taken from {request.source}" if request.source else "made against the network without its defence"
        only = ", only those that fooled it" if request.mode == "transfer-successful" else ""
        return f"that was shown texts {made}{only} ({request.mode})"
    may = "look into" if attack.family == "gradients" else "ask"
    return f"that it may {may}" + (f" ({request.mode})" if defence not in (None, "plain") else "")


def check(request: Request) -> None:
    from dualmask.cli_certify import check_places

    transfer = request.mode in TRANSFER
    if transfer and request.resume:
        raise OptionError(f"--resume does not go with --mode {request.mode}, which writes its records at the end; use "
                          "--overwrite, or 'dualmask bench' for long runs.")
    if transfer and not request.defended:
        raise OptionError(f"--mode {request.mode} shows texts to the defended model; leave --undefended out.")
    if request.source is not None and request.samples is not None:
        raise OptionError("--source brings its own sample of the texts; leave --samples out.")
    if request.source is not None and not transfer:
        raise OptionError("--source names texts to replay; it goes with --mode transfer or transfer-successful.")
    if request.resume and request.out is None:
        raise OptionError("--resume goes on with a file of records; name it with --out.")
    check_places(request.out, request.data, request.source)
    server = request.victim.startswith(SERVER)
    if request.windows is not None:
        check_windows(request)
    if server and not request.defended:
        raise OptionError("--undefended takes the defence off a saved model; a server keeps its own.")
    if server and len(request.labels) < 2:
        raise OptionError("a server does not tell its labels: name them in their order, e.g. --labels bad,good.")


def check_windows(request: Request) -> None:
    from dualmask.windows import read_windows

    read_windows(request.windows)
    folder = Path(request.victim)
    if request.victim.startswith(SERVER) or is_plain(folder):
        raise OptionError("--windows is about a model that dualmask has saved; other victims read texts as they do.")


def is_plain(folder: Path) -> bool:
    """Whether a folder holds a classifier that another program wrote."""
    return (folder / "config.json").is_file() and not (folder / "dualmask.json").exists()


def find_victim(request: Request) -> tuple[object, tuple[str, ...]]:
    """A server, a saved classifier, or a plain Hugging Face one; and what the data call its classes."""
    if request.victim.startswith(SERVER):
        from dualmask.models.victim import HttpVictim

        return HttpVictim(request.victim, request.labels), request.labels
    from dualmask.classifier import DefendedClassifier

    folder = Path(request.victim)
    victim: object
    if is_plain(folder):
        victim, names = plain_classifier(folder)
    else:
        classifier = DefendedClassifier.load(request.victim, windows=request.windows or "saved")
        victim, names = classifier if request.defended else classifier.undefended(), classifier.labels
    if request.labels:
        check_label_count(request.labels, names)
    return victim, request.labels or names


def plain_classifier(folder: Path) -> tuple[object, tuple[str, ...]]:
    """A text-classification pipeline of a folder that another program wrote, whatever its family."""
    from transformers import pipeline

    from dualmask.models.classifiers import classifier_config
    from dualmask.models.encoders import LOADING_ERRORS, load_tokenizer, quiet_transformers

    config: Any = classifier_config(folder, source=str(folder))
    try:
        tokenizer: Any = load_tokenizer(folder)
        with quiet_transformers():
            found = pipeline("text-classification", model=str(folder), tokenizer=tokenizer, trust_remote_code=False,
                             device=default_device(), model_kwargs={"use_safetensors": True})
    except LOADING_ERRORS as error:
        raise EncoderError(f"{folder} can't be loaded as a text classifier: {told_reason(error)}") from error
    return found, tuple(str(config.id2label[place]) for place in range(config.num_labels))
