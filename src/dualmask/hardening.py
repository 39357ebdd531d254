# SPDX-License-Identifier: Apache-2.0
"""Put a defence around a classifier that somebody runs already, and measure at once what that brings.

The network's weights stay as they are; only the defence learns, which takes seconds. Then attacks that ask the
classifier try to fool the same texts twice: with the defence off, and with it on.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

import torch

from dualmask import __version__
from dualmask.attacks import build_attack
from dualmask.attacks.base import Attack
from dualmask.attacks.running import digest, sampled
from dualmask.classifier import DefendedClassifier
from dualmask.deadline import TimeUp, until
from dualmask.defences import DEFENCES, build_defence
from dualmask.defences.base import Defence
from dualmask.errors import OptionError
from dualmask.evaluation.protocol import Protocol, evaluate
from dualmask.evaluation.records import Cell, cell_name
from dualmask.evaluation.standing import record_path
from dualmask.evaluation.statistics import mcnemar, wilson
from dualmask.hardening_texts import CLEAN_TEXTS, Given, HardeningTexts, hardening_texts
from dualmask.models.classifiers import class_names, load_classifier, usual_length
from dualmask.options import check_least
from dualmask.output_lock import output_lock
from dualmask.prediction import cut_count
from dualmask.results import HELD, AttackResult, read_header
from dualmask.storage import DESCRIPTION, WORK
from dualmask.text.character_sets import UTF8
from dualmask.text.columns import FIND, Columns
from dualmask.text.examples import Example
from dualmask.text.input_choices import Empty, InputChoices
from dualmask.threats import threat_of
from dualmask.windows import Windows
from dualmask.wrapping import wrap_network

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DEFENCE = "ddm-restore"  # what is put around a network unless something else is asked for
ATTACKS_RUN = ("deepwordbug", "textbugger", "textfooler")  # misspelling, both, and synonyms
RECORDS = "attacks"  # the folder of records inside the saved classifier's
REPORTS = ("report.html", "report.tex", "report.md")  # that were made of them there
KEPT_FACTS = ("encoder", "training", "columns")  # of what a classifier tells of its training: no figure is its own now
GROWTH = (4, 2, 1)  # a quarter of the texts is attacked first, then half, then all: time may end in between


@dataclass(frozen=True)
class CleanEffect:
    """Answers to texts as they are: how many are right (without labels: as before) with the defence off and on."""

    texts: int
    before: int
    after: int
    slowdown: float  # time of the answers with the defence on, as a multiple of that with it off
    cut: int = 0  # of these texts are longer than what is read of them


@dataclass(frozen=True)
class AttackEffect:
    """How many of the same texts still have their right answer after one attack, the defence off and on."""

    attack: str
    texts: int
    before: int
    after: int
    p: float  # of McNemar's exact test on these texts
    right: int  # with the defence on, before the attack

    @property
    def threat(self) -> str:
        found = threat_of(self.attack)
        return found.name if found else ""

    @property
    def helps(self) -> bool:
        """Whether more texts hold than chance explains."""
        return self.after > self.before and self.p < 0.05


@dataclass(frozen=True)
class Hardened:
    """A classifier with its new defence, and what was measured of it."""

    classifier: DefendedClassifier
    name: str  # of the defence and its preset
    seconds: float  # that setting up the defence took
    learned: int  # texts that the defence learned from
    labelled: bool
    clean: CleanEffect
    attacks: tuple[AttackEffect, ...] = ()
    asked: int = 0  # texts that each attack was to try
    unfinished: tuple[str, ...] = ()  # attacks for which time did not suffice
    out: Path | None = None
    notes: tuple[str, ...] = ()


class HardeningWatch:
    """Whoever wants to follow the work overrides what it needs."""

    def stage(self, description: str) -> None: ...

    def attacking(self, attack: str, defended: bool, texts: int) -> None: ...

    def attacked(self, result: AttackResult) -> None: ...


def harden(
    model: "str | Path | DefendedClassifier | PreTrainedModel", data: Given, *,
    tokenizer: "PreTrainedTokenizerBase | None" = None, defence: str = DEFENCE, preset: str | None = None,
    options: Mapping[str, object] | None = None, labels: Sequence[str] = (), columns: Columns = FIND,
    encoding: str = UTF8, empty: Empty = "refuse", attacks: Sequence[str] = ATTACKS_RUN, samples: int = 40,
    minutes: float = 5.0, seed: int = 0, max_length: int | None = None, windows: Windows | str | None = None,
    out: str | Path | None = None, resume: bool = False, overwrite: bool = False, watch: HardeningWatch | None = None,
) -> Hardened:
    """Put a defence around a trained classifier, save it, and attack it with the defence off and on.

    model: a folder or a hub id of any Hugging Face text classifier or of ours, or the loaded model and its tokenizer.
    data: texts such as the classifier answers, with labels or without; without, its own answers stand in for labels.
    preset: that which the defence recommends around a network that is trained already, unless given.
    labels: what the data call the classes, in the model's order, where it can't be told by name or number.
    windows: how texts are read that are longer than max_length; they are cut unless given.
    samples, minutes: how many texts each attack tries, and after how long attacks end (0: none is run).
    out: the folder to save in, records of the attacks included. resume: go on with the attacks on what it holds.
    """
    folder, watch = Path(out) if out else None, watch or HardeningWatch()
    choices = InputChoices(columns=columns, encoding=encoding, empty=empty)
    chosen = preset or DEFENCES.find(defence).preset_around_trained
    guard = build_defence(defence, preset=chosen, options=options)
    built = chosen_attacks(attacks, samples=samples, minutes=minutes)
    with output_lock(folder), TemporaryDirectory() as scratch:
        check_target(folder, model, resume=resume, overwrite=overwrite)
        watch.stage("loading the classifier")
        bare, replaced = bare_classifier(model, tokenizer, max_length, windows=windows)
        watch.stage("reading texts")
        texts = hardening_texts(data, bare, labels=labels, choices=choices, guard=guard, seed=seed)
        watch.stage(f"setting up {guard.name}")
        made = set_up(bare, guard, texts, preset=chosen, name=source_name(model), replaced=replaced)
        if folder:
            save_hardened(made.classifier, folder, resume=resume)
        measured = Measurement(made, bare, texts, folder / RECORDS if folder else Path(scratch), watch=watch, seed=seed)
        done = replace(measured.run(built, samples=samples, minutes=minutes), out=folder)
        if folder and done.attacks:
            note_measurement(done)
            done.classifier.save(folder)
    return done


def save_hardened(classifier: DefendedClassifier, folder: Path, *, resume: bool) -> None:
    """Write the folder or, to go on with its attacks, find the very same classifier there; else nothing is touched."""
    if resume and (folder / DESCRIPTION).exists():
        if DefendedClassifier.load(folder, device=str(classifier.device)).fingerprint() != classifier.fingerprint():
            raise OptionError(f"{folder} holds another classifier than these choices make (model, data, defence, "
                              "preset, options or lengths differ): give the same ones to go on, or replace it "
                              "(--overwrite).")
        return
    classifier.save(folder)  # first: where it can't be written, what was there stays whole
    remove_records(folder / RECORDS)


def remove_records(folder: Path) -> None:
    """Take away what attacks on an earlier classifier left; its figures must not stand beside the new one's."""
    if not folder.is_dir():
        return
    for path in folder.rglob("*.jsonl"):
        if read_header(path):
            path.unlink()
    for name in REPORTS:
        (folder / name).unlink(missing_ok=True)


def chosen_attacks(names: Sequence[str], *, samples: int, minutes: float) -> list[Attack]:
    """The attacks that measure, refused before anything is loaded where they can't."""
    check_least(samples=(samples, 1), minutes=(minutes, 0))
    built = [build_attack(name) for name in names]
    for attack in built:
        if attack.against:
            raise OptionError(f"the attack '{attack.name}' knows one defence and can't be run with it off; give "
                              f"attacks such as {', '.join(ATTACKS_RUN)}, and run this one with 'dualmask attack'.")
    return built


def check_target(folder: Path | None, model: object, *, resume: bool, overwrite: bool) -> None:
    """Refuse to write over anything that was not asked to be replaced, before work begins."""
    if folder is None:
        if resume or overwrite:
            raise OptionError("resume and overwrite are about a folder; name it with out (--out).")
        return
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder} is a file; give a folder to save the hardened classifier in.")
    if isinstance(model, str | Path) and Path(model).exists() and folder.exists() and folder.samefile(model):
        raise OptionError(f"{folder} holds the classifier that is to be hardened; save the new one in another folder.")
    own = (".lock", RECORDS)  # what a run that was killed may have left alone
    if not folder.exists() or not any(
            path for path in folder.iterdir() if path.name not in own and not path.name.startswith(WORK)):
        return
    if not (resume or overwrite):
        raise OptionError(f"{folder} is not empty: choose another folder, go on with the attacks there (--resume), or "
                          "replace what is there (--overwrite).")
    if not (folder / DESCRIPTION).exists():
        raise OptionError(f"{folder} holds files but no classifier of dualmask, and nothing in it is replaced; choose "
                          "another folder.")


def source_name(model: object) -> str:
    if isinstance(model, str | Path):
        return Path(model).name or str(model)
    facts: Mapping[str, object] = getattr(model, "facts", {})
    config = getattr(model, "config", None)
    return str(facts.get("encoder") or getattr(config, "name_or_path", "") or "model").rpartition("/")[2]


def bare_classifier(
    model: "str | Path | DefendedClassifier | PreTrainedModel", tokenizer: "PreTrainedTokenizerBase | None",
    max_length: int | None, *, windows: Windows | str | None = None,
) -> tuple[DefendedClassifier, str]:
    """The classifier without any defence, and the name of the one that it had.

    One of ours reads long texts as it was saved, unless windows are given. The caller's own object is not changed.
    """
    if isinstance(model, str | Path):
        found = load_classifier(str(model), max_length=max_length)
    elif isinstance(model, DefendedClassifier):
        if max_length is not None:
            raise OptionError(f"max_length={max_length} was given with a classifier of dualmask, which keeps the "
                              f"length that it has ({model.encode.max_length}); leave max_length out.")
        found = model
    elif tokenizer is None:
        raise OptionError("a loaded model was given without its tokenizer; give tokenizer=..., or the model's folder.")
    else:
        found = classifier_of(model, tokenizer, max_length=max_length)
    replaced = "" if found.defence.name == Defence.name else found.defence.name
    bare = found.undefended()
    bare.network.eval()
    if windows is not None:
        bare.windows = windows
    return bare, replaced


def classifier_of(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", *, max_length: int | None,
) -> DefendedClassifier:
    """A network in memory, read as one out of a folder would be."""
    names = class_names(model.config, source="the model")
    length = usual_length(model, tokenizer) if max_length is None else max_length
    return DefendedClassifier(model, tokenizer, Defence(), labels=names, max_length=length)


# What it brings


def set_up(
    bare: DefendedClassifier, guard: Defence, texts: HardeningTexts, *, preset: str, name: str, replaced: str,
) -> Hardened:
    """The classifier with its defence, and its answers to texts that nobody changed."""
    began = time.perf_counter()
    facts: dict[str, object] = {
        "encoder": name, **{fact: bare.facts[fact] for fact in KEPT_FACTS if fact in bare.facts}, "defence": guard.name,
        "preset": preset, "options": guard.options_as_dict(), "dualmask": __version__, "torch": torch.__version__,
        **texts.columns}
    classifier = wrap_network(
        bare.model, bare.encode.tokenizer, guard, labels=bare.labels, max_length=bare.encode.max_length, facts=facts,
        texts=texts.learned, validation=texts.validation)
    classifier.windows = bare.windows
    seconds = time.perf_counter() - began
    clean = clean_effect(bare, classifier, texts.measured)
    classifier.facts["hardened"] = {
        "source": name, "data": texts.name, "texts": digest(texts.learned), "labelled": texts.labelled,
        "seconds": round(seconds, 1), "clean": asdict(clean)}
    return Hardened(classifier, f"{guard.name} ({preset})", seconds, len(texts.learned), texts.labelled, clean,
                    notes=(*texts.notes, *setup_notes(clean, len(bare.labels), replaced)))


def setup_notes(clean: CleanEffect, classes: int, replaced: str) -> Iterator[str]:
    """What a reader of the figures might not expect."""
    if replaced:
        yield (f"The classifier came with the defence {replaced}, whose place the new one takes: what is compared with "
               "is its network without any defence.")
    if wilson(clean.before, clean.texts).high < 1 / classes:
        yield (f"Without the defence only {clean.before} of {clean.texts} clean texts are answered rightly, fewer than "
               "by chance: are the labels in another order (--labels)? The figures below say little until that is "
               "clear.")


def clean_effect(bare: DefendedClassifier, classifier: DefendedClassifier, examples: Sequence[Example]) -> CleanEffect:
    chosen = [examples[place] for place in sampled(examples, CLEAN_TEXTS, 0)]
    texts, labels = [example.text for example in chosen], torch.tensor([example.label for example in chosen])
    bare.predict(texts[:16])  # the first passes of a process are slow
    right, seconds, cut = [], [], 0
    for asked in (bare, classifier):
        began = time.perf_counter()
        found = asked.predict(texts)
        seconds.append(time.perf_counter() - began)
        right.append(int((found.probabilities.argmax(dim=1) == labels).sum()))
        cut = cut_count(found)
    return CleanEffect(len(chosen), right[0], right[1], round(seconds[1] / max(seconds[0], 1e-9), 2), cut)


class Measurement:
    """Attacks on the same texts, the defence off and on, as far as the time goes."""

    def __init__(
        self, made: Hardened, bare: DefendedClassifier, texts: HardeningTexts, records: Path, *,
        watch: HardeningWatch, seed: int,
    ) -> None:
        self.made, self.victims = made, {False: bare, True: made.classifier}
        self.texts, self.records, self.watch, self.seed = texts, records, watch, seed
        self.encoder = cell_name(Path(str(made.classifier.facts["encoder"])).name)

    def run(self, attacks: Sequence[Attack], *, samples: int, minutes: float) -> Hardened:
        """What the attacks leave of as many texts as each had time for."""
        samples = min(samples, len(self.texts.measured))
        sizes = sorted({-(-samples // part) for part in GROWTH})
        found: dict[str, AttackEffect] = {}
        if not minutes:
            return self.made
        with until(60 * minutes), suppress(TimeUp):
            for size in sizes:
                for attack in attacks:
                    found[attack.name] = self.effect(attack, size)
        return replace(self.made, attacks=tuple(found[attack.name] for attack in attacks if attack.name in found),
                       asked=samples,
                       unfinished=tuple(attack.name for attack in attacks if attack.name not in found))

    def effect(self, attack: Attack, size: int) -> AttackEffect:
        before, after = (self.outcomes(attack, size, defended) for defended in (False, True))
        held = [[outcomes[number] in HELD for number in before] for outcomes in (before, after)]
        right = sum(outcome in HELD or outcome == "succeeded" for outcome in after.values())
        return AttackEffect(attack.name, len(before), sum(held[0]), sum(held[1]), mcnemar(*held), right)

    def outcomes(self, attack: Attack, size: int, defended: bool) -> dict[int, str]:
        """By the text's number: what came of attacking it."""
        self.watch.attacking(attack.name, defended, size)
        victim = self.victims[defended]
        cell = Cell(cell_name(self.texts.name), self.encoder, cell_name(victim.defence.name), attack.name, "adaptive",
                    0)
        path = record_path(self.records, cell)
        asked = max(size, recorded_samples(path))  # records grow, but are never cut
        protocol = Protocol(samples=asked, sample_seed=self.seed, attack_seed=self.seed, measure=None)
        results = evaluate(cell, victim, self.texts.measured, attack, protocol=protocol, out=path, resume=True,
                           watch=self.watch.attacked)
        wanted = set(sampled(self.texts.measured, size, self.seed))
        return {result.index: result.outcome for result in results if result.index in wanted}


def recorded_samples(path: Path) -> int:
    """How many texts a file of records was begun with; 0 where there is none."""
    samples = read_header(path).get("samples") if path.exists() else None
    return samples if isinstance(samples, int) else 0


def note_measurement(done: Hardened) -> None:
    """Keep the figures in what the saved classifier tells of itself."""
    told = cast(dict[str, object], done.classifier.facts["hardened"])
    told["attacks"] = [asdict(effect) for effect in done.attacks]
