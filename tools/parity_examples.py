# SPDX-License-Identifier: Apache-2.0
"""Which texts the golden traces attack and under which label: the same for TextAttack and for dualmask."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from stand_ins import StandInSynonyms, StandInVictim, StandInWordNet

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"
SHARED = ROOT.parent / "shared"
SEED = 765  # TextAttack's own default


class Choice(NamedTuple):
    """Rows first, first + step, ... of a CSV file, `count` of them; data rows are numbered from 0."""

    file: str
    classes: int
    first: int
    step: int
    count: int


CHOICES: Mapping[str, Choice] = {
    "mr": Choice("data/mr/test.csv", 2, 5, 10, 100),
    "ag_news": Choice("data/ag_news/test.csv", 4, 7, 150, 50),
}
SENTENCES = "sentences"
CLASSES: Mapping[str, int] = {**{name: choice.classes for name, choice in CHOICES.items()}, SENTENCES: 2}


@dataclass(frozen=True)
class ParityExample:
    """A text to attack, its row in the file, and the label that counts as true."""

    row: int
    text: str
    label: int


@dataclass(frozen=True)
class Sentences:
    """Our own sentences with the tables that stand in for synonyms and WordNet: needs no other file."""

    texts: Sequence[str]
    synonyms: StandInSynonyms
    wordnet: StandInWordNet


def load_sentences(path: Path = GOLDEN / "sentences.json") -> Sentences:
    raw = json.loads(path.read_text(encoding="utf-8"))
    return Sentences(raw["sentences"], StandInSynonyms(raw["synonyms"]), StandInWordNet(raw["wordnet"]))


def examples(name: str, shared: Path = SHARED) -> list[ParityExample]:
    """The chosen texts of "mr", "ag_news" or "sentences".

    The victim's own answer counts as true, but for every tenth text the next class does, so that skipped ones occur.
    """
    rows = list(enumerate(load_sentences().texts)) if name == SENTENCES else _chosen(CHOICES[name], shared)
    classes = CLASSES[name]
    answers = StandInVictim(classes)([text for _, text in rows]).argmax(axis=1)
    return [
        ParityExample(row, text, (int(answer) + (place % 10 == 9)) % classes)
        for place, ((row, text), answer) in enumerate(zip(rows, answers, strict=True))
    ]


def _chosen(choice: Choice, shared: Path) -> list[tuple[int, str]]:
    with (shared / choice.file).open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [(row, rows[row]["text"]) for row in range(choice.first, len(rows), choice.step)][:choice.count]


def file_digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
