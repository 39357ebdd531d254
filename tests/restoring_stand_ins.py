# SPDX-License-Identifier: Apache-2.0
"""A small ddm-restore whose readings are easy to foretell: the tiny vocabulary, two clusters, nearest words."""

from pathlib import Path

from attack_stand_ins import tiny_classifier
from conftest import WORDS
from rapidfuzz.distance import OSA

from dualmask.classifier import DefendedClassifier
from dualmask.defences.ddm_restore import DDMRestore, DDMRestoreOptions
from dualmask.text.examples import Dataset
from dualmask.text.lexicon import Lexicon
from dualmask.text.readings import Reading
from dualmask.text.rewriting import Rewriting
from dualmask.text.words import Words

KNOWN = {word for word in WORDS if word.isalpha()}
HEADS = {"great": "good", "fine": "good", "awful": "bad", "poor": "bad", "scene": "plot"}


class Nearest(Rewriting):
    """A known word becomes its cluster's head. An unknown one becomes the only known word an edit away; else a mask."""

    def __init__(self) -> None:
        super().__init__(lexicon=Lexicon(), restorer=None, clusters=None, budget=1.0)

    def readings(self, text: str) -> list[Reading]:
        words = Words(text)
        found = [Reading(start, end, word, read(word.lower()), "restored", "")
                 for word, (start, end) in zip(words.words, words.spans, strict=True) if word.isalpha()]
        return [one for one in found if one.becomes != one.written.lower()]


def read(word: str) -> str | None:
    near = [word] if word in KNOWN else [known for known in sorted(KNOWN)
                                         if len(known) > 1 and OSA.distance(known, word) == 1]
    return HEADS.get(near[0], near[0]) if len(near) == 1 else None


def restoring(folder: Path, data: Dataset, **options: object) -> DefendedClassifier:
    """The tiny classifier behind it; in double precision, since many texts tie."""
    base = tiny_classifier(folder, "plain", data)
    base.network.double()
    defence = DDMRestore(DDMRestoreOptions(**{"synonyms": "none", **options}))  # type: ignore[arg-type]
    defence.rewriting = defence.drafts.rewriting = Nearest()
    return DefendedClassifier(base.model, base.encode.tokenizer, defence, labels=base.labels,
                              max_length=base.encode.max_length)
