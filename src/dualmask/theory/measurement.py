# SPDX-License-Identifier: Apache-2.0
"""From a classifier and records of attacks to changed words with their geometry, and whether the label came back."""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, cast

from dualmask.attacks.hidden import HiddenOracle
from dualmask.classifier import DefendedClassifier
from dualmask.errors import DataError, OptionError
from dualmask.evaluation.records import (
    THEORY,
    Cell,
    CellRecords,
    Mode,
    check_classes,
    provenance,
    read_cell,
    read_cells,
)
from dualmask.results import FORMAT, AttackResult, read_results
from dualmask.system_errors import explain_os_error
from dualmask.text.encoding import length_batches
from dualmask.text.examples import Text
from dualmask.text.words import Words
from dualmask.theory.geometry import check_layers, default_layers, layer_count, points_of
from dualmask.theory.quantities import WORDS, ChangedWord, Quantities, rounded
from dualmask.windows import refuse_windows

ROWS, CELLS = 16, 1 << 13  # texts and characters of a pass
UNCHANGED, WRONG, TWICE, FAULTY = ("the attack changed nothing", "wrong before the attack", "there twice",
                                   "no word replaced by one word within what the network reads")
UNIFORM, ANSWERS = "contracted with uniform weights", "answers other than recorded"  # counted, not left out
OTHERS, CUT = "words inserted, deleted, joined or split", "words beyond what the network reads"


class Attacked(NamedTuple):
    """A record, and which attack it is of."""

    attack: str
    mode: Mode
    result: AttackResult

    @property
    def after(self) -> Text:
        assert self.result.adversarial is not None  # others are left out
        return self.result.adversarial


class Found(NamedTuple):
    """Records to measure, and what was left out of the files, told in words."""

    texts: list[Attacked]
    labels: tuple[str, ...]
    notes: list[str]


def find_records(path: Path, defence: str, mode: Mode | None = None, *, fingerprint: str | None = None) -> Found:
    """A file as it is; of a folder the cells of a defence in one mode, `transfer` unless given.

    What an adaptive attack found is what masking does not recover, by construction. fingerprint: of the classifier,
    to choose where a folder has records of several.
    """
    if path.is_file():
        one = read_alone(path)
        if mode not in (None, one.cell.mode):
            raise OptionError(f"{path} holds records of the mode '{one.cell.mode}', not '{mode}'; leave --mode out.")
        return Found(*gathered([one]), [])
    found, problems, *_ = read_cells(path)
    loaded = [one for one in found if not one.packed]  # those have no texts
    notes = [f"left out: {problem}" for problem in problems]
    wanted = [one for one in loaded if (one.cell.defence, one.cell.mode) == (defence, mode or "transfer")]
    if not wanted:
        there = sorted({f"{one.cell.defence} {one.cell.mode}" for one in loaded})
        raise DataError(f"{path} has no records of the defence '{defence}' in the mode '{mode or 'transfer'}'; there "
                        f"are: {', '.join(there)}. Choose with --mode, or give one file.")
    chosen = of_one_classifier(wanted, path, fingerprint)
    if others := len(loaded) - len(chosen):
        notes.append(f"{others:,} file{'s' * (others > 1)} of other classifiers, defences or modes left out.")
    return Found(*gathered(chosen), notes)


def of_one_classifier(cells: Sequence[CellRecords], path: Path, fingerprint: str | None) -> list[CellRecords]:
    """Other encoders, data and seeds have texts of their own: those of this classifier, where there are several."""
    several = sorted({f"{one.cell.data} {one.cell.encoder} seed {one.cell.seed}" for one in cells})
    own = [one for one in cells if one.header.get("victim") == f"classifier {fingerprint}"]
    if len(several) > 1 and not own:
        raise DataError(f"{path} has records of several classifiers ({', '.join(several)}), none of which is this one; "
                        "give one file, or a folder with those of one classifier.")
    return own if len(several) > 1 else list(cells)


def read_alone(path: Path) -> CellRecords:
    """A file of records; one that says nothing of a cell, as `attack` in Python writes it, is of an adaptive attack."""
    try:
        header, results = read_results(path)
        if not header or "cell" in header:
            return read_cell(path)
    except OSError as error:
        raise DataError(explain_os_error(error, "read", path)) from error
    check_classes(path, len(cast("list[str]", header.get("labels", []))), results)
    name = str(header.get("attack", "attack"))
    return CellRecords(Cell("records", "encoder", "defence", name, "adaptive", 0), header, results, path)


def gathered(cells: Sequence[CellRecords]) -> tuple[list[Attacked], tuple[str, ...]]:
    labels = {tuple(map(str, names)) for one in cells if isinstance(names := one.header.get("labels"), list)}
    if len(labels) > 1:
        raise DataError(f"the records have different classes: {'; '.join(', '.join(one) for one in sorted(labels))}. "
                        "Give those of one data set.")
    texts = [Attacked(one.cell.attack, one.cell.mode, result) for one in sorted(cells, key=lambda one: one.cell)
             for result in one.results]
    return texts, next(iter(labels), ())


def measure(
    classifier: DefendedClassifier, found: Found, *, layers: Sequence[int] = (), samples: int | None = None,
    seed: int = 0, watch: Callable[[int, int], None] = lambda done, total: None,
) -> Quantities:
    """The changed words of all texts that the classifier has right without the attack, at these layers.

    layers: the embeddings, the middle and the last unless given. samples: so many attacked texts, drawn at random.
    watch: called with how many texts are done, and of how many.
    """
    refuse_windows(classifier.windows, "measuring a text's points", "they are those of a text that is read at once.")
    moved = found.labels != classifier.labels and set(found.labels) == set(classifier.labels)
    if found.labels and (moved or len(found.labels) != len(classifier.labels)):
        raise DataError(f"the records have the classes {', '.join(found.labels)} and the model "
                        f"{', '.join(classifier.labels)}; expected the same ones in the same order.")
    count = layer_count(classifier)
    chosen = tuple(sorted(set(layers))) or default_layers(count)
    check_layers(chosen, count)
    left: Counter[str] = Counter()
    texts = usable(classifier, found.texts, left)
    if samples is not None and samples < len(texts):
        texts = [texts[place] for place in sorted(random.Random(seed).sample(range(len(texts)), samples))]
    words = [word for part in measured(classifier, texts, chosen, left=left, watch=watch) for word in part]
    uniform, others = left.pop(UNIFORM, 0) > 0, left.pop(ANSWERS, 0)
    if not words:
        raise DataError(f"nothing can be measured: there are {len(found.texts):,} records{told(left)}. Give records of "
                        "an attack that replaces words.")
    return Quantities({**header(classifier, chosen, texts, left), "other_answers": others,
                       "weights": "uniform" if uniform else "attention"}, words)


def usable(classifier: DefendedClassifier, texts: Sequence[Attacked], left: Counter[str]) -> list[Attacked]:
    """What an attack changed, each once, of texts that the classifier has right before; counts what is left out."""
    changed: dict[tuple[str, Text, Text], Attacked] = {}
    for one in texts:
        if one.result.adversarial in (None, one.result.text):
            left[UNCHANGED] += 1
        elif (key := (one.attack, one.result.text, one.after)) in changed:
            left[TWICE] += 1
        else:
            changed[key] = one
    kept = list(changed.values())
    answers = labels_of(classifier, [one.result.text for one in kept])
    right = [one for one, answer in zip(kept, answers, strict=True) if answer == one.result.label]
    left[WRONG] += len(kept) - len(right)
    return right


def labels_of(classifier: DefendedClassifier, texts: Sequence[Text], *, defended: bool = True) -> list[int]:
    return classifier.predict(texts, defended=defended).probabilities.argmax(dim=1).tolist() if texts else []


def measured(
    classifier: DefendedClassifier, texts: Sequence[Attacked], layers: Sequence[int], *, left: Counter[str],
    watch: Callable[[int, int], None],
) -> list[list[ChangedWord]]:
    """The words of each text, in the order of the texts."""
    result: list[list[ChangedWord]] = [[] for _ in texts]
    afters = [one.after for one in texts]
    answers = list(zip(labels_of(classifier, afters), labels_of(classifier, afters, defended=False), strict=True))
    left[ANSWERS] += sum(one.result.predicted not in (None, answer)
                         for one, (answer, _) in zip(texts, answers, strict=True))
    outcomes = [(defended == one.result.label, bare != one.result.label)
                for one, (defended, bare) in zip(texts, answers, strict=True)]
    done = 0
    for rows in length_batches(afters, rows=ROWS, cells=CELLS):
        part = [texts[place] for place in rows]
        hidden = hidden_words(classifier, [one.after for one in part])
        found = points_of(classifier, [(one.result.text, one.after) for one in part], layers)
        for place, one, points, masked in zip(rows, part, found, hidden, strict=True):
            left.update({OTHERS: points.others, CUT: points.cut, FAULTY: int(not points.words),
                         UNIFORM: int(not points.attended)})
            recovered, fooled = outcomes[place]
            result[place] = [ChangedWord(
                index=one.result.index, source=digest(one.result.text), attack=one.attack, mode=one.mode,
                place=word.place, before=word.before, after=word.after,
                masked=None if masked is None else word.place in masked, fooled=fooled, recovered=recovered,
                layers={layer: rounded(at.products()) for layer, at in word.layers.items()}) for word in points.words]
        watch(done := done + len(rows), len(texts))
    return result


def hidden_words(classifier: DefendedClassifier, texts: Sequence[Text]) -> list[set[int] | None]:
    """Of each text the words of which the defence hides a piece; None where it rewrites texts."""
    if not classifier.defence.explainable:
        return [None] * len(texts)
    return [hidden.places(Words(text)) for text, hidden
            in zip(texts, HiddenOracle(classifier).answers(texts), strict=True)]


def digest(text: Text) -> str:
    return blake2b(repr(text).encode("utf-8", "backslashreplace"), digest_size=6).hexdigest()


def header(
    classifier: DefendedClassifier, layers: Sequence[int], texts: Sequence[Attacked], left: Mapping[str, int],
) -> dict[str, object]:
    """How the quantities came about."""
    facts = classifier.facts
    rows, training = (one if isinstance(one := facts.get(name), dict) else {} for name in ("rows", "training"))
    trained = {name: facts.get(name) for name in ("encoder", "data", "defence", "preset")}
    attacks = " ".join((", ".join(sorted({one.attack for one in texts})), *sorted({one.mode for one in texts})))
    return {"format": FORMAT, "kind": THEORY, "holds": WORDS, "texts": len(texts), "attacks": attacks,
            "layers": list(layers),
            "layer_count": layer_count(classifier), "classifier": classifier.fingerprint(),
            "defence": {"name": classifier.defence.name, **classifier.defence.options_as_dict()},
            "trained": {**trained, "rows": rows.get("train"), "seed": training.get("seed")},
            "device": str(classifier.device),
            "left_out": {name: count for name, count in left.items() if count}, "about": provenance()}


def told(left: Mapping[str, int]) -> str:
    reasons = ", ".join(f"{name}: {count:,}" for name, count in left.items() if count)
    return f" ({reasons})" if reasons else ""
