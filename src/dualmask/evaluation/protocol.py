# SPDX-License-Identifier: Apache-2.0
"""How a defence is measured: who is attacked, on which texts, with what knowledge, and what is written down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from math import isfinite, nan
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dualmask.attacks.base import Attack
from dualmask.attacks.cut_texts import windows_told, with_cut
from dualmask.attacks.running import Assault, Watch, collected, digest, kept, predicted, rounded, sampled
from dualmask.classifier import DefendedClassifier
from dualmask.errors import OptionError
from dualmask.evaluation.calibration import Revealed, Tempered, fit_temperature
from dualmask.evaluation.noise import Averaged, Still, verified
from dualmask.evaluation.records import FITTED, TRANSFER, Cell, CellRecords, provenance
from dualmask.models.victim import ClassifierVictim, Victim, check_classes
from dualmask.options import check_least
from dualmask.output_lock import locks_output
from dualmask.results import FAULTS, AttackResult, Outcome, ResultFile, Spans
from dualmask.text.examples import Example, Text

Numbered = Sequence[tuple[int, Example]]


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """What is the same for every defence of a table."""

    samples: int | None = 1000  # test texts, drawn at random; none: all
    sample_seed: int = 0
    attack_seed: int = 0
    eot: int = 10  # draws of a randomised defence that the attack averages over
    draws: int = 10  # of new noise, by which a success against such a defence is checked
    measure: str | None = "minilm"  # the sentence encoder that compares texts before and after

    def __post_init__(self) -> None:
        check_least(samples=(self.samples, 1), eot=(self.eot, 1), draws=(self.draws, 0))


@locks_output("out")
def evaluate(
    cell: Cell, classifier: DefendedClassifier, examples: Sequence[Example], attack: Attack, *,
    protocol: Protocol, out: Path | None, validation: Sequence[Example] = (), source: CellRecords | None = None,
    resume: bool = True, overwrite: bool = False, about: Mapping[str, object] | None = None, watch: Watch | None = None,
) -> list[AttackResult]:
    """Measure one cell and write its records; what `out` holds already is not done again.

    validation: data for the temperature, where the cell wants calibrated scores.
    source: records of the plain classifier under the same attack, for the modes that replay its texts.
    resume, overwrite: whether a file that is there is gone on with, or replaced; without either it is an error.
    """
    check_classes(ClassifierVictim(classifier), examples)
    check_mode(cell, attack, source)
    if source is not None and out is not None and out.exists() and out.samefile(source.path):
        raise OptionError(f"{out} holds the texts that are to be replayed; give another file to write to.")
    chosen = [(place, examples[place]) for place in sampled(examples, protocol.samples, protocol.sample_seed)]
    victim = victim_of(cell, classifier, protocol)
    if cell.scores == "calibrated":
        victim = Tempered(victim, temperature_of(victim, validation))
    common = {**setting(cell, classifier, protocol), **temperature_told(victim),
              "data": digest(examples), "about": {**provenance(), "training": dict(classifier.facts), **(about or {})}}
    opened = partial(ResultFile, out, resume=resume, overwrite=overwrite) if out else lambda header: None
    if source is not None and cell.mode in TRANSFER:
        made = source_results(cell, chosen, source)
        return replayed(classifier, made, opened(replay_header(classifier, source, common, len(made))),
                        draws=protocol.draws, watch=watch)
    assault = Assault(victim, attack, seed=protocol.attack_seed, measure=protocol.measure)
    file = opened({**assault.header(), **common, "texts": len(chosen)})
    done = {one.index for one in file.done} if file else set()
    waiting = {number: example for number, example in chosen if number not in done}
    before = looked_at(classifier, waiting)
    suspicion = dict(zip(waiting, suspicions(classifier, [one.text for one in waiting.values()]), strict=True))
    return collected(assault, chosen, file, watch, finish=lambda result: finished(
        classifier, suspected(classifier, verified(classifier, result, protocol.draws), suspicion[result.index]),
        before[result.index]))


def check_mode(cell: Cell, attack: Attack, source: CellRecords | None) -> None:
    if cell.mode in TRANSFER and source is None:
        raise OptionError(f"the mode '{cell.mode}' replays texts that were made against the plain classifier; measure "
                          "that one first, in the mode 'adaptive', and give its records.")
    if (cell.mode == "defence-aware") != bool(attack.against):
        raise OptionError(f"the attack '{attack.name}' knows {', '.join(attack.against) or 'no defence'}: the mode "
                          f"'{cell.mode}' is not its own. Attacks with such knowledge, and only they, run in the mode "
                          "'defence-aware'.")


def setting(cell: Cell, classifier: DefendedClassifier, protocol: Protocol) -> dict[str, object]:
    """What a header says besides the attack."""
    defence = classifier.defence
    noisy = defence.noise != "none"
    detector = {} if defence.threshold is None else {"threshold": defence.threshold}
    return {**detector, "cell": cell.as_dict(), "samples": protocol.samples, "sample_seed": protocol.sample_seed,
            **windows_told(classifier), "noise": defence.noise, "eot": protocol.eot if noisy else 1,
            "draws": protocol.draws if noisy else 0, "passes": defence.pass_count, "source": None}


def temperature_told(victim: Victim) -> dict[str, object]:
    """What a header says of it; raw scores are those of temperature 1."""
    if isinstance(victim, Tempered):
        return {"temperature": victim.temperature, "temperature_fitted_on": FITTED}
    return {"temperature": 1.0}


def temperature_of(victim: Victim, validation: Sequence[Example]) -> float:
    """Fitted on what the attack sees: other scores, such as votes without the views behind them, have another."""
    if not validation:
        raise OptionError("calibrated scores need validation data to fit the temperature on; none was given.")
    rows = [victim.log_probabilities([example.text for example in validation[start:start + victim.rows]])
            for start in range(0, len(validation), victim.rows)]
    return fit_temperature(np.concatenate(rows), [example.label for example in validation])


def victim_of(cell: Cell, classifier: DefendedClassifier, protocol: Protocol) -> Victim:
    """Whom the attack asks, before any temperature."""
    defence, victim = classifier.defence, ClassifierVictim(classifier)
    if cell.scores == "still":
        return Still(classifier, protocol.eot)
    if cell.scores == "calibrated" and defence.views > 1:
        victim = Revealed(classifier)
    return Averaged(classifier, protocol.eot, victim) if defence.noise != "none" and protocol.eot > 1 else victim


# What is told of each text besides the attack's own account


@dataclass(frozen=True)
class Look:
    """A clean text as the network sees it: its label with the defence off, and what the defence makes of its words.

    There is no such label where the network's own head was never trained.
    """

    undefended: int | None
    hidden: Spans | None


def looked_at(classifier: DefendedClassifier, examples: Mapping[int, Example]) -> dict[int, Look]:
    texts = [example.text for example in examples.values()]
    if not texts:
        return {}
    labels: list[int | None] = [None] * len(texts)
    if classifier.defence.trains_head:
        labels = classifier.predict(texts, defended=False).probabilities.argmax(dim=1).tolist()
    return {number: Look(label, spans) for number, label, spans
            in zip(examples, labels, hidden_spans(classifier, texts), strict=True)}


def hidden_spans(classifier: DefendedClassifier, texts: Sequence[Text]) -> list[Spans | None]:
    return [None if found is None else tuple(
        (one.start, one.end, one.part) if one.becomes is None else (one.start, one.end, one.part, one.becomes)
        for one in found) for found in classifier.hidden(texts)]


def finished(classifier: DefendedClassifier, result: AttackResult, look: Look) -> AttackResult:
    after = None if result.adversarial is None else hidden_spans(classifier, [result.adversarial])[0]
    return with_cut(classifier, replace(result, undefended=look.undefended, hidden=look.hidden, hidden_after=after))


class Seen(NamedTuple):
    """The defended classifier's answer to a text and, from the same passes, how suspicious a detector finds it."""

    row: tuple[float, ...]
    suspicion: float | None


def seen(classifier: DefendedClassifier, texts: Sequence[Text]) -> list[Seen]:
    found, threshold = classifier.predict(texts), classifier.defence.threshold
    scores = [nan] * len(texts) if found.suspicion is None else found.suspicion.tolist()
    return [Seen(tuple(row), shortened(score, threshold) if isfinite(score) else None)
            for row, score in zip(found.probabilities.tolist(), scores, strict=True)]


def shortened(score: float, threshold: float | None) -> float:
    """Without the last digits, which depend on the batch, but where these decide whether the text is flagged."""
    short = round(score, 4)
    return short if threshold is None or (short > threshold) == (score > threshold) else score


def suspicions(classifier: DefendedClassifier, texts: Sequence[Text]) -> list[float | None]:
    """What a detector thinks of each text; a defence that is none is not asked."""
    if classifier.defence.threshold is None or not texts:
        return [None] * len(texts)
    return [one.suspicion for one in seen(classifier, texts)]


def suspected(classifier: DefendedClassifier, result: AttackResult, before: float | None) -> AttackResult:
    after = None if result.adversarial is None else suspicions(classifier, [result.adversarial])[0]
    return replace(result, suspicion=before, suspicion_after=after)


# Texts that were made against another classifier


def replay_header(
    classifier: DefendedClassifier, source: CellRecords, common: Mapping[str, object], texts: int,
) -> dict[str, object]:
    """The attack as the source tells it, and the classifier that is shown its texts."""
    own = (*common, "texts", "victim", "defence", "threshold", "temperature_fitted_on")
    same = {key: value for key, value in source.header.items() if key not in own}
    return {**same, **common, "source": source_mark(source), "texts": texts,
            "victim": ClassifierVictim(classifier).describe(),
            "defence": {"name": classifier.defence.name, **classifier.defence.lasting_options()}}


def replayed(
    classifier: DefendedClassifier, made: Sequence[AttackResult], file: ResultFile | None, *, draws: int,
    watch: Watch | None,
) -> list[AttackResult]:
    """The defended classifier's answers to texts that the attack made against the plain one."""
    done = {one.index for one in file.done} if file else set()
    return kept(answered(classifier, [one for one in made if one.index not in done], draws=draws), file, watch)


def source_mark(source: CellRecords) -> dict[str, object]:
    """Which texts were replayed: the cell they come from, and a hash of what came of each."""
    total = blake2b(digest_size=8)
    for one in source.results:
        total.update(repr((one.index, one.outcome, one.adversarial)).encode("utf-8", "backslashreplace"))
    return {"cell": source.cell.as_dict(), "digest": total.hexdigest()}


def source_results(cell: Cell, chosen: Numbered, source: CellRecords) -> list[AttackResult]:
    """The plain classifier's results for the same texts; in the stricter mode only those that fooled it."""
    found = {one.index: one for one in source.results}
    for number, example in chosen:
        if number not in found or found[number].text != example.text:
            raise OptionError(f"{source.path} has no record of text {number}; measure the plain classifier on the same "
                              "texts first.")
    results = [found[number] for number, _ in chosen]
    return [one for one in results if one.outcome == "succeeded"] if cell.mode == "transfer-successful" else results


def answered(classifier: DefendedClassifier, made: Sequence[AttackResult], *, draws: int = 0) -> list[AttackResult]:
    """Each text's record, its success checked with so many draws of new noise where the defence has any."""
    if not made:
        return []
    looks = looked_at(classifier, {one.index: Example(one.text, one.label) for one in made})
    finals = [one.text if one.adversarial is None else one.adversarial for one in made]
    befores, afters = (seen(classifier, texts) for texts in ([one.text for one in made], finals))
    shown = [transferred(one, before, after) for one, before, after in zip(made, befores, afters, strict=True)]
    return [finished(classifier, verified(classifier, one, draws, otherwise="failed"), looks[one.index])
            for one in shown]


def transferred(made: AttackResult, first: Seen, last: Seen) -> AttackResult:
    """The record of a replayed text. It cost the defended classifier no query: nothing was asked of it."""
    last = first._replace(suspicion=None) if made.adversarial is None else last  # noise must make no attack of none
    before, after = first.row, last.row
    outcome: Outcome = "failed"
    if made.outcome in FAULTS:
        outcome = made.outcome
    elif predicted(before) != made.label:
        outcome = "skipped"
    elif predicted(after) != made.label:
        outcome = "succeeded"
    return AttackResult(
        index=made.index, text=made.text, label=made.label, outcome=outcome, adversarial=made.adversarial,
        clean=predicted(before), predicted=predicted(after), probability=rounded(before, made.label),
        probability_after=rounded(after, made.label), queries=0, rows=0, gradients=0,
        words=made.words, changed=made.changed, similarity=made.similarity, seconds=0.0,
        reason=made.reason, suspicion=first.suspicion, suspicion_after=last.suspicion)
