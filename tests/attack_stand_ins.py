# SPDX-License-Identifier: Apache-2.0
"""Small stand-ins for what attacks use besides their victim, and victims that are easy to reason about."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path

import numpy as np
import torch
from conftest import BAD, GOOD

from dualmask.attacks import Tools
from dualmask.attacks.base import Attack
from dualmask.attacks.running import Assault
from dualmask.classifier import DefendedClassifier
from dualmask.defences import build_defence
from dualmask.models.encoders import load_encoder
from dualmask.models.language_models import MaskedLanguageModel
from dualmask.models.victim import Victim
from dualmask.results import AttackResult
from dualmask.text.examples import Dataset, Example, Text


def hashed(key: str) -> int:
    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "big")


class Synonyms:
    """Word -> nearest words with cosines, from a table; words that are not in it are unknown."""

    def __init__(self, table: Mapping[str, Mapping[str, float]]) -> None:
        self.table = table
        self.known = set(table).union(*table.values())

    def __contains__(self, word: str) -> bool:
        return word in self.known

    def neighbours(self, word: str, most: int = 50) -> list[tuple[str, float]]:
        return sorted(self.table.get(word, {}).items(), key=lambda pair: -pair[1])[:most]

    def cosine(self, one: str, other: str) -> float | None:
        if one not in self or other not in self:
            return None
        if one == other:
            return 1.0
        return self.table.get(one, {}).get(other, self.table.get(other, {}).get(one, 0.1))


class Tagger:
    """Everything is a noun but for the words given."""

    def __init__(self, tags: Mapping[str, str] | None = None) -> None:
        self.tags = tags or {}

    def __call__(self, words: Sequence[str]) -> list[str]:
        return [self.tags.get(word.lower(), "NOUN") for word in words]


class Lexicon:
    def __init__(self, table: Mapping[str, Sequence[str]]) -> None:
        self.table = table

    def synonyms(self, word: str) -> list[str]:
        return list(self.table.get(word.lower(), ()))

    def synonyms_of(self, word: str, part: str) -> list[str]:
        return self.synonyms(word) if part == "n" else []


class SentenceVectors:
    """A bag of hashed words."""

    name = "stand-in"

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        rows = np.zeros((len(texts), 32))
        for row, text in zip(rows, texts, strict=True):
            row[0] = 1.0
            for word in text.lower().split():
                row[hashed(word) % 31 + 1] += 1
        unit: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit


NEAR = {
    **{word: {other: 0.95 - 0.04 * rank for rank, other in enumerate(w for w in [*GOOD, *BAD] if w != word)}
       for word in [*GOOD, *BAD]},
    "movie": {"plot": 0.9, "scene": 0.85, "actor": 0.55}, "plot": {"scene": 0.9, "movie": 0.9, "rare": 0.52},
    "actor": {"scene": 0.81, "x": 0.7}, "scene": {"plot": 0.9, "actor": 0.81}, "rare": {"fine": 0.6},
}
LEMMAS = {word: [word, *near, "a_phrase", "two words"] for word, near in NEAR.items()}


def tiny_language_model(folder: Path) -> MaskedLanguageModel:
    """A masked language model of random weights over the tiny vocabulary."""
    from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer

    torch.manual_seed(1)
    model = AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(folder))
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.4)
    return MaskedLanguageModel(model.eval().requires_grad_(False), AutoTokenizer.from_pretrained(folder))


def stand_ins(language_model: MaskedLanguageModel | None = None, **others: object) -> Tools:
    given: dict[str, object] = {
        "synonyms": Synonyms(NEAR), "tagger": Tagger({"superb": "VERB", "rare": "ADV"}), "wordnet": Lexicon(LEMMAS),
        "sentences": SentenceVectors(), "language_model": language_model, **others}
    return Tools(**given)  # type: ignore[arg-type]


def tiny_classifier(
    folder: Path, defence: str, data: Dataset, *, max_length: int = 40, **options: object,
) -> DefendedClassifier:
    """Random weights, with a head that is unsure of itself: words matter, and attacks get somewhere."""
    model, tokenizer = load_encoder(folder, data.labels)
    torch.manual_seed(5)
    classifier = DefendedClassifier(
        model, tokenizer, build_defence(defence, options=options), labels=data.labels, max_length=max_length)
    classifier.fit_defence(data.train)
    head = model.classifier
    torch.nn.init.normal_(head.weight)
    torch.nn.init.zeros_(head.bias)
    if len(data.labels) > 1:
        probabilities = classifier.predict([example.text for example in data.train]).probabilities
        logits = probabilities.log()
        spread = (logits[:, 1] - logits[:, 0]).std()
        with torch.no_grad():
            head.weight *= 2 / spread
            head.bias -= logits.mean(dim=0) * 2 / spread
    return classifier


class HashVictim(Victim):
    """Two classes; every word has a hashed weight, so that most attacks get somewhere. Counts what it reads."""

    labels = ("bad", "good")

    def __init__(self, gain: float = 1.5) -> None:
        self.gain = gain
        self.read: list[Text] = []
        self.calls: list[int] = []

    def one(self, text: Text) -> list[float]:
        whole = text if isinstance(text, str) else " ".join(text)
        total = sum(hashed(word) % 2001 - 1000 for word in whole.lower().split())
        first = 1 / (1 + float(np.exp(-self.gain * total / 1000)))
        return [first, 1 - first]

    def probabilities(self, texts: Sequence[Text]) -> list[list[float]]:
        self.read += texts
        self.calls.append(len(texts))
        return [self.one(text) for text in texts]

    def label(self, text: Text) -> int:
        row = self.one(text)
        return row.index(max(row))

    def examples(self, texts: Sequence[Text]) -> list[Example]:
        """The texts under the victim's own labels."""
        return [Example(text, self.label(text)) for text in texts]


def assault(victim: object, attack: Attack, *, width: int | None = None, seed: int = 0) -> Assault:
    return Assault(victim, attack, measure=None, width=width, seed=seed)


def records(found: Sequence[AttackResult]) -> list[dict[str, object]]:
    """All that must not depend on order, batch or machine, by example."""
    return [{name: value for name, value in asdict(one).items() if name != "seconds"}
            for one in sorted(found, key=lambda one: one.index)]


def run(
    victim: object, attack: Attack, examples: Sequence[Example], *, width: int | None = None, seed: int = 0,
) -> list[AttackResult]:
    """Results in the order of the examples."""
    found = list(assault(victim, attack, width=width, seed=seed).run(list(enumerate(examples))))
    return sorted(found, key=lambda one: one.index)
