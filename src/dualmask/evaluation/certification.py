# SPDX-License-Identifier: Apache-2.0
"""Certify answers: how many changes to a text, of the kind that a defence is about, can't alter its answer.

p: chance that a random view votes for the class. p_lower: its lower confidence bound (Clopper and Pearson) at level
alpha. One draw of views chooses the class and another estimates p_lower: the draw that chose a class flatters it.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Protocol

from dualmask import __version__
from dualmask.attacks.running import Data, digest, kept, labelled, sampled
from dualmask.classifier import DefendedClassifier
from dualmask.defences import DEFENCES, build_defence
from dualmask.defences.base import Defence
from dualmask.defences.ddm import DDM
from dualmask.defences.voting import Voting
from dualmask.errors import OptionError
from dualmask.evaluation import enumeration
from dualmask.evaluation.certified_records import KIND, Certificate, Certified
from dualmask.evaluation.records import provenance
from dualmask.evaluation.statistics import clopper_pearson
from dualmask.models.victim import ClassifierVictim, check_classes
from dualmask.options import check_least
from dualmask.output_lock import locks_output
from dualmask.results import FORMAT, RecordFile
from dualmask.seeds import derived_seed
from dualmask.text.examples import Example, Text
from dualmask.text.input_choices import learned_columns
from dualmask.text.invisible import visible
from dualmask.windows import refuse_windows

Watch = Callable[[Certificate], None]
Numbered = tuple[int, Example]
ROWS = {"cpu": 1 << 10, "cuda": 1 << 15}  # views that are asked about between two records, about
CERTIFYING = 1 << 30  # draws of this number on are kept for certificates: no attack and no check has seen them


@dataclass(frozen=True, kw_only=True)
class CertifyingOptions:
    """How certificates are made; the last two are for proofs without votes."""

    samples: int | None = None  # texts, drawn at random; none: all
    seed: int = 0  # of that, and of the views
    selection: int = 100  # views that choose the class
    draws: int = 1000  # other views, which the bound comes from; the published number is 5,000
    alpha: float = 0.05  # the chance that a bound is too high
    changes: int = 1  # edits that are counted out
    passes: int = 10_000  # for one text, at most

    def __post_init__(self) -> None:
        check_least(samples=(self.samples, 1), selection=(self.selection, 1), draws=(self.draws, 1),
                    changes=(self.changes, 1), passes=(self.passes, 1))
        if not 0 < self.alpha < 0.5:  # from 1/2 on a bound may lie above the share that was seen
            raise OptionError(f"alpha is {self.alpha}; expected a number between 0 and 0.5, such as 0.05.")


class Prover(Protocol):
    """A way to certify."""

    def header(self) -> dict[str, object]: ...  # how it proves, for the records

    def certificates(self, examples: Sequence[Numbered]) -> Iterator[Certificate]: ...


@locks_output("out")
def certify(
    classifier: DefendedClassifier, examples: Data, options: CertifyingOptions | None = None, *,
    out: str | Path | None = None, resume: bool = False, overwrite: bool = False, watch: Watch | None = None,
    about: Mapping[str, object] | None = None,
) -> Certified:
    """Certify the answers to labelled texts: certificates in the texts' order, under a header that says how.

    examples: a file or data set, whose classes are matched by name, or pairs of a text and a label (number or name).
    out, resume, overwrite: a file of JSON Lines that is written as certificates come, gone on with, or replaced.
    watch: called with each certificate. about: kept in the file's header.
    """
    options = options or CertifyingOptions()
    check_read_at_once(classifier)
    prover: Prover = prover_of(classifier)(classifier, options)
    texts = labelled(examples, classifier.labels, learned_columns(classifier.facts))
    check_classes(ClassifierVictim(classifier), texts)
    chosen = [(place, texts[place]) for place in sampled(texts, options.samples, options.seed)]
    header = {**common_header(classifier, options), **prover.header(), "data": digest(texts), "texts": len(chosen),
              "about": {**provenance(), "training": dict(classifier.facts), **(about or {})}}
    file = RecordFile(Path(out), header, Certificate, resume=resume, overwrite=overwrite) if out else None
    done = {one.index for one in file.done} if file else set()
    found = kept(prover.certificates([pair for pair in chosen if pair[0] not in done]), file, watch)
    return Certified(file.header if file else header, found)


def check_read_at_once(classifier: DefendedClassifier) -> None:
    refuse_windows(classifier.windows, "a certificate", "it is about the votes, or the masks, of one view of a text, "
                   "and a change to a text that is read in windows moves all windows behind it.")


def under(
    classifier: DefendedClassifier, name: str, *, preset: str | None = None,
    options: Mapping[str, object] | None = None,
) -> DefendedClassifier:
    """The same network, not a copy, as what another defence asks: the answer is that defence's from then on.

    Options are those of the preset or, where none is named and the model has this defence already, the model's own,
    changed by those given.
    """
    if not classifier.defence.trains_head:
        raise OptionError(f"the defence '{classifier.defence.name}' answers by a head of its own and leaves that of "
                          "the network untrained, so that no other defence can ask it; certify a model of another one.")
    own = own_options(classifier.defence, name) if preset is None else {}
    defence = build_defence(name, preset=preset, options={**own, **(options or {})})
    check_votes(defence)
    return DefendedClassifier(classifier.model, classifier.encode.tokenizer, defence, labels=classifier.labels,
                              max_length=classifier.encode.max_length, facts=classifier.facts,
                              windows=classifier.windows).to(classifier.device)


def own_options(defence: Defence, name: str) -> dict[str, object]:
    """The model's, if it has the defence of this name, alone or as the one of several that decides what is asked."""
    wanted = DEFENCES.find(name).name
    return next((one.options_as_dict() for one in (defence, defence.asker) if one.name == wanted), {})


def prover_of(classifier: DefendedClassifier) -> "type[Vote | Enumeration]":
    return Enumeration if isinstance(classifier.defence.asker, DDM) else Vote


def provable(classifier: DefendedClassifier, texts: Iterable[Text], options: CertifyingOptions) -> bool:
    """Whether one change to any of the texts would be certified if all views agreed."""
    if prover_of(classifier) is Enumeration:
        return True
    check_votes(classifier.defence)
    share = clopper_pearson(options.draws, options.draws, options.alpha)
    return any(classifier.defence.radius(text, share, classifier.encode) > 0 for text in texts)


def common_header(classifier: DefendedClassifier, options: CertifyingOptions) -> dict[str, object]:
    defence = classifier.defence
    return {"format": FORMAT, "kind": KIND, "dualmask": __version__, "victim": ClassifierVictim(classifier).describe(),
            "labels": list(classifier.labels), "defence": {"name": defence.name, **defence.lasting_options()},
            "trained": classifier.facts.get("defence"), "samples": options.samples, "seed": options.seed}


class Vote:
    """Certificates of defences that vote over random views."""

    unused: ClassVar = ("changes", "passes")  # options that are the other's

    def __init__(self, classifier: DefendedClassifier, options: CertifyingOptions) -> None:
        self.classifier, self.defence, self.options = classifier, classifier.defence, options
        check_votes(self.defence)
        self.defence.radius("a", 1.0, classifier.encode)  # a variant without a certificate is refused here
        self.heuristic = has_heuristic(classifier)

    def header(self) -> dict[str, object]:
        o = self.options
        return {"method": "votes", "certificate": self.defence.certificate, "strict": True,
                "heuristic": self.heuristic, "selection": o.selection, "draws": o.draws, "alpha": o.alpha,
                "noise": self.defence.noise}

    def certificates(self, examples: Sequence[Numbered]) -> Iterator[Certificate]:
        """Several texts at a time, so that views of like length fill the passes."""
        o = self.options
        kind = "cuda" if self.classifier.device.type == "cuda" else "cpu"
        for part in enumeration.batched(examples, max(1, ROWS[kind] // (o.selection + o.draws))):
            began = time.perf_counter()
            first, second = self._drawn([example.text for _, example in part])
            seconds = round((time.perf_counter() - began) / len(part), 4)
            for (number, example), chose, votes in zip(part, first, second, strict=True):
                yield self._certificate(number, example, chose, votes, seconds=seconds)

    def _drawn(self, texts: list[Text]) -> list[list[list[int]]]:
        """Votes of the views that choose, and of those that estimate: two ranges of one draw, which share no view."""
        o, ends = self.options, self.options.selection + self.options.draws
        self.defence.redraw(CERTIFYING + (derived_seed(o.seed, "certificates") >> 34))
        try:
            return [self.classifier.votes(texts, numbers).tolist()
                    for numbers in (range(o.selection), range(o.selection, ends))]
        finally:
            self.defence.redraw(0)

    def _certificate(
        self, number: int, example: Example, chose: list[int], votes: list[int], *, seconds: float,
    ) -> Certificate:
        predicted = chose.index(max(chose))
        share = clopper_pearson(votes[predicted], self.options.draws, self.options.alpha)
        radius = partial(self.defence.radius, example.text, share, self.classifier.encode)
        return Certificate(
            index=number, text=example.text, label=example.label, predicted=predicted, radius=radius(strict=True),
            heuristic=radius(strict=False) if self.heuristic else None, share=share, selection=tuple(chose),
            estimation=tuple(votes), length=words(example.text), passes=sum(chose) + sum(votes), seconds=seconds)


class Enumeration:
    """DDM's certificates against rare edits: exact, and nothing is drawn."""

    unused: ClassVar = ("selection", "draws", "alpha")

    def __init__(self, classifier: DefendedClassifier, options: CertifyingOptions) -> None:
        enumeration.checked(classifier)
        self.classifier, self.options = classifier, options

    def header(self) -> dict[str, object]:
        o = self.options
        return {"method": "enumeration", "certificate": enumeration.ABOUT, "strict": True, "heuristic": False,
                "selection": None, "alpha": None, "most_changes": o.changes, "most_passes": o.passes, "noise": "none"}

    def certificates(self, examples: Sequence[Numbered]) -> Iterator[Certificate]:
        for number, example in examples:
            began = time.perf_counter()
            found = enumeration.withstood(self.classifier, example.text, changes=self.options.changes,
                                          passes=self.options.passes)
            yield Certificate(
                index=number, text=example.text, label=example.label, predicted=found.predicted, radius=found.radius,
                heuristic=None, share=None, selection=(), estimation=(), length=found.tokens, passes=found.passes,
                seconds=round(time.perf_counter() - began, 4), ended=found.ended)


def check_votes(defence: Defence) -> None:
    """Only a vote over random views has a certificate that follows from its shares."""
    defence = defence.asker
    if not isinstance(defence, Voting) or not defence.certificate:
        known = ", ".join(name for name, kind in DEFENCES.items() if issubclass(kind, Voting) and kind.certificate)
        raise OptionError(f"no certificate follows from answers of the defence '{defence.name}'. Certify the network "
                          f"under one that votes: --under NAME, one of {known}.")
    if defence.options.decision != "vote":
        raise OptionError(f"the defence '{defence.name}' averages its views (decision={defence.options.decision}), and "
                          f"only a vote is certified: add --under {defence.name} --option decision=vote.")


def has_heuristic(classifier: DefendedClassifier) -> bool:
    try:
        classifier.defence.radius("a", 1.0, classifier.encode, strict=False)
    except OptionError:
        return False
    return True


def words(text: Text) -> int:
    seen = visible(text)
    return sum(len(part.split()) for part in ((seen,) if isinstance(seen, str) else seen))
