# SPDX-License-Identifier: Apache-2.0
"""Training of the averaged perceptron tagger, and what it is measured by."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from tagger_text import Sentence, bare, lowered

from dualmask.text.tagging import (
    TAGS,
    Tagger,
    history_features,
    mixed_features,
    neighbour_features,
    normal,
    own_features,
)

NUMBERS = {tag: number for number, tag in enumerate(TAGS)}
WINDOW = (4, 4)  # words before a word and from it on that an attack shows a tagger
# Words that the Penn and the Brown tag sets treat differently ("to" as preposition, possessives, existential "there").
DISPUTED = frozenset(["to", "my", "your", "his", "her", "its", "our", "their", "whose", "there"])

_own, _neighbour, _history = cache(own_features), cache(neighbour_features), cache(history_features)


@dataclass(frozen=True)
class Settings:
    """All choices of the training."""

    epochs: int = 5
    lower: float = 0.5  # share of texts in lower case
    whole: float = 0.45  # share of texts as sentences with punctuation
    bare: float = 0.2  # share as sentences without; the rest are windows of eight words without
    certain_count: int = 40  # a word this frequent ...
    certain_share: float = 0.995  # ... with one tag this often needs no context
    least_updates: int = 3  # a feature that was changed less often is dropped
    least_weight: float = 0.1  # smaller weights are dropped
    scale: int = 10  # weights are rounded to 1 / scale
    seed: int = 0


class Trainer:
    """An averaged perceptron: the weights now, and the sum of each change times the step in which it was made.

    The average of the weights over all N steps is then weights - sums / N, and no step touches more than the features
    of one word.
    """

    def __init__(self, certain: dict[str, int]) -> None:
        self.certain = certain
        self.weights: dict[str, list[int]] = {}
        self.sums: dict[str, list[int]] = {}
        self.updates: Counter[str] = Counter()
        self.step = 0

    def learn(self, sentence: Sentence) -> int:
        """One pass over a sentence, its own guesses as history; returns how many were wrong."""
        words = ["", "", *(token.text for token in sentence), "", ""]
        before = tag = ""
        wrong = 0
        for at, token in enumerate(sentence, start=2):
            guess = self.certain.get(normal(token.text))
            if guess is None:
                features = _features(words, at, (before, tag))
                guess = self.guess(features)
                self.update(features, NUMBERS[token.tag], guess)
                wrong += guess != NUMBERS[token.tag]
            before, tag = tag, TAGS[guess]
        return wrong

    def guess(self, features: Iterable[str]) -> int:
        vectors = [found for feature in features if (found := self.weights.get(feature))]
        scores = list(map(sum, zip(*vectors, strict=True))) or [0]
        return scores.index(max(scores))

    def update(self, features: Iterable[str], truth: int, guess: int) -> None:
        """One step: towards the truth and away from a wrong guess."""
        if truth != guess:
            for feature in features:
                weights = self.weights.setdefault(feature, [0] * len(TAGS))
                sums = self.sums.setdefault(feature, [0] * len(TAGS))
                weights[truth] += 1
                weights[guess] -= 1
                sums[truth] += self.step
                sums[guess] -= self.step
                self.updates[feature] += 1
        self.step += 1

    def averages(self) -> Iterator[tuple[str, list[float]]]:
        for feature, weights in self.weights.items():
            pairs = zip(weights, self.sums[feature], strict=True)
            yield feature, [weight - changes / self.step for weight, changes in pairs]


def _features(words: Sequence[str], at: int, history: tuple[str, str]) -> list[str]:
    around = [feature for place in (-2, -1, 1, 2) for feature in _neighbour(words[at + place], place)]
    mixed = mixed_features(history[1], words[at], words[at + 1])
    return [*_own(words[at]), *around, *_history(*history), *mixed]


def train(texts: Sequence[list[Sentence]], settings: Settings, say: Callable[[str], None]) -> Trainer:
    """Several passes over the texts in changing order, each time seen in another way."""
    trainer = Trainer(certain_words(texts, settings))
    rng = random.Random(settings.seed)
    order = list(texts)
    for epoch in range(settings.epochs):
        rng.shuffle(order)
        wrong = count = 0
        for text in order:
            for sentence in view(text, settings, rng):
                wrong += trainer.learn(sentence)
                count += len(sentence)
        say(f"pass {epoch + 1}: {count:,} words, {100 - 100 * wrong / count:.2f} % right while learning, "
            f"{len(trainer.weights):,} features")
    return trainer


def certain_words(texts: Iterable[list[Sentence]], settings: Settings) -> dict[str, int]:
    """Frequent words that practically always have the same tag."""
    seen: dict[str, Counter[str]] = {}
    for text in texts:
        for sentence in text:
            for token in (*sentence, *bare(sentence)):
                seen.setdefault(normal(token.text), Counter())[token.tag] += 1
    certain = {}
    for word, tags in sorted(seen.items()):
        tag, count = tags.most_common(1)[0]
        if tags.total() >= settings.certain_count and count >= settings.certain_share * tags.total():
            certain[word] = NUMBERS[tag]
    return certain


def view(text: list[Sentence], settings: Settings, rng: random.Random) -> list[Sentence]:
    """The text as one of the kinds of input that the tagger will meet."""
    if rng.random() < settings.lower:
        text = [lowered(sentence) for sentence in text]
    kind = rng.random()
    if kind < settings.whole:
        return text
    text = [bare(sentence) for sentence in text]
    if kind < settings.whole + settings.bare:
        return text
    words = [word for sentence in text for word in sentence]
    size = sum(WINDOW)
    return [words[max(start, 0):start + size] for start in range(-rng.randrange(size), len(words), size)]


def packed(trainer: Trainer, settings: Settings) -> dict[str, str]:
    """The weights worth keeping, as the package reads them: feature -> "tag weight tag weight ..."."""
    kept = {}
    for feature, weights in sorted(trainer.averages()):
        if trainer.updates[feature] >= settings.least_updates:
            pairs = [(tag, round(weight * settings.scale)) for tag, weight in enumerate(weights)
                     if abs(weight) >= settings.least_weight]
            if any(weight for _, weight in pairs):
                kept[feature] = " ".join(f"{tag} {weight}" for tag, weight in pairs if weight)
    return kept


def accuracy(tagger: Tagger, sentences: Iterable[Sentence], *, disputed: bool = True) -> float:
    """Percent of words with the right tag, with or without the words on which tag sets differ."""
    right = count = 0
    for sentence in sentences:
        for token, tag in zip(sentence, tagger([token.text for token in sentence]), strict=True):
            if disputed or token.text.lower() not in DISPUTED:
                count += 1
                right += tag == token.tag
    return round(100 * right / count, 2)


def window_accuracy(tagger: Tagger, sentences: Iterable[Sentence], *, every: int) -> float:
    """Percent of words (each `every`th) with the right tag when shown as attacks do, amid words without punctuation."""
    words = [word for sentence in sentences for word in bare(sentence)]
    places = range(0, len(words), every)
    right = 0
    for place in places:
        start = max(0, place - WINDOW[0])
        right += tagger([word.text for word in words[start:place + WINDOW[1]]])[place - start] == words[place].tag
    return round(100 * right / len(places), 2)


def measure(tagger: Tagger, sentences: Sequence[Sentence], *, every: int = 4) -> dict[str, float]:
    """Accuracy in percent on each kind of input."""
    small = [lowered(sentence) for sentence in sentences]
    return {
        "sentences": accuracy(tagger, sentences),
        "sentences, lower case": accuracy(tagger, small),
        "sentences, undisputed words": accuracy(tagger, sentences, disputed=False),
        "no punctuation": accuracy(tagger, map(bare, sentences)),
        "no punctuation, lower case": accuracy(tagger, map(bare, small)),
        "windows of 8 words": window_accuracy(tagger, sentences, every=every),
        "windows of 8 words, lower case": window_accuracy(tagger, small, every=every),
    }
