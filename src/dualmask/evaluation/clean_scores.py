# SPDX-License-Identifier: Apache-2.0
"""What a classifier is worth on labelled texts that nobody attacks: accuracy with its interval, and class by class."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dualmask.confusion import Confusion
from dualmask.defences.combination import acts_at_inference
from dualmask.errors import DataError
from dualmask.evaluation.statistics import Interval, wilson
from dualmask.text.class_balance import imbalance_told
from dualmask.text.examples import Dataset, Example, load_dataset, read_by_name_or_number
from dualmask.text.input_choices import InputChoices, learned_columns
from dualmask.text.label_matching import match_labels

if TYPE_CHECKING:
    from dualmask.classifier import DefendedClassifier

PORTION = 512  # texts that are answered before progress is told


@dataclass(frozen=True)
class CleanScores:
    """How texts of each class were answered, the defence on; and how many the network alone has right."""

    confusion: Confusion
    defence: str
    right_undefended: int | None = None  # none: not defined, as the network's own head was not trained
    acts: bool = False  # whether the defence does anything at inference
    flagged: int | None = None  # texts that a detector takes for attacked ones, which none of these is
    cut: int = 0  # texts that are longer than what is read of them

    @property
    def texts(self) -> int:
        return self.confusion.texts

    @property
    def accuracy(self) -> float:
        return self.confusion.accuracy

    @property
    def interval(self) -> Interval:
        """Wilson's, at 95 %."""
        return wilson(self.confusion.right, self.texts)

    @property
    def accuracy_undefended(self) -> float | None:
        return None if self.right_undefended is None else self.right_undefended / self.texts

    @property
    def imbalance(self) -> str | None:
        """That accuracy says little, where nearly all texts are of one class, or nothing of the other classes."""
        largest = self.confusion.largest
        if largest.size == largest.texts:
            return (f"all {largest.texts:,} texts are '{largest.label}': accuracy is then the recall of this class, "
                    f"as is balanced accuracy, and a classifier that always says '{largest.label}' is right on all. "
                    "How often other classes are taken for it was not measured: give texts of each class.")
        if not largest.dominates:
            return None
        return f"{imbalance_told(largest, 'texts')}; look at recall per class and at balanced accuracy."

    def as_dict(self) -> dict[str, object]:
        """All of it as JSON can hold it; shares between 0 and 1, and none where one is of nothing."""
        found = self.confusion
        return {
            "texts": self.texts, "right": found.right, "accuracy": self.accuracy,
            "accuracy_interval": list(self.interval), "defence": self.defence,
            "accuracy_undefended": self.accuracy_undefended, "flagged": self.flagged, "cut": self.cut,
            "largest_class": {"label": found.largest.label, "texts": found.largest.size,
                              "share": found.largest.share},
            "balanced_accuracy": found.balanced_accuracy, "macro_f1": found.macro_f1,
            "classes": [score._asdict() for score in found.classes],
            "confusion": {"rows": "true class", "columns": "answer", "labels": list(found.labels),
                          "counts": [list(row) for row in found.counts]},
        }


def with_classes_of(
    classifier: "DefendedClassifier", given: "str | Path | Dataset | Sequence[Example]",
) -> Sequence[Example]:
    """The examples with numbers of the classifier's classes; of a data set its test part, else its training part."""
    if isinstance(given, str | Path):
        if not Path(given).is_file():
            return with_classes_of(classifier, load_dataset(given))
        found, note = read_by_name_or_number(given, classifier.labels,
                                             InputChoices(learned=learned_columns(classifier.facts)))
        if note:
            warnings.warn(note, stacklevel=3)
        return found
    if isinstance(given, Dataset):
        match = match_labels(given.labels, classifier.labels)
        return [Example(text, match.classes[label]) for text, label in given.test or given.train]
    if not all(isinstance(example, Example) for example in given):
        raise DataError("expected a file, a data set or a list of Examples (text, class number) to evaluate on; got "
                        f"{type(given).__name__} with {next(iter(given), None)!r:.60}.")
    return given


def evaluate_clean(
    classifier: "DefendedClassifier", examples: "str | Path | Dataset | Sequence[Example]", *,
    batch_size: int | None = None, watch: Callable[[int], None] | None = None,
) -> CleanScores:
    """Ask a classifier about labelled texts, as it is and, where that differs and is defined, without its defence.

    examples: a file or a data set, whose classes are matched by name, or examples whose classes are numbers in the
    order of the classifier's labels. watch: told how many texts were answered.
    """
    examples = with_classes_of(classifier, examples)
    if not examples:
        raise DataError("a classifier can't be evaluated on no texts at all; give labelled texts.")
    defence = classifier.defence
    acts = acts_at_inference(defence)
    bare = acts and defence.trains_head
    answers: list[int] = []
    right = flagged = cut = 0
    for start in range(0, len(examples), PORTION):
        part = examples[start:start + PORTION]
        texts = [example.text for example in part]
        found = classifier.predict(texts, batch_size=batch_size)
        answers += found.probabilities.argmax(dim=1).tolist()
        cut += 0 if found.cut is None else int(found.cut.sum())
        if found.suspicion is not None and defence.threshold is not None:
            flagged += int((found.suspicion > defence.threshold).sum())
        if bare:
            without = classifier.predict(texts, defended=False, batch_size=batch_size).probabilities.argmax(dim=1)
            right += sum(chosen == example.label for chosen, example in zip(without.tolist(), part, strict=True))
        if watch is not None:
            watch(len(part))
    confusion = Confusion.of((example.label for example in examples), answers, classifier.labels)
    if not acts:
        right = confusion.right  # the same network, asked in the same way
    return CleanScores(confusion, defence.name, right if bare or (not acts and defence.trains_head) else None, acts,
                       None if defence.threshold is None else flagged, cut)
