# SPDX-License-Identifier: Apache-2.0
"""Words that may stand for another, and texts in which they do, by how frequent they are."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from random import Random
from typing import Literal

import torch
from torch import Tensor, nn

from dualmask.seeds import derived_seed
from dualmask.text.examples import Text
from dualmask.text.frequencies import WordCounts
from dualmask.text.invisible import visible
from dualmask.text.stop_words import stop_words
from dualmask.text.synonyms import shipped_synonyms
from dualmask.text.words import Words, in_case_of

Nearest = Literal["table", "release"]


class Substitutes(nn.Module):
    """S(w): the nearest words by the shipped vectors and, if wanted, WordNet's synonyms; with counts of words.

    nearest='release' looks among the counted words, for these alone, and of equally frequent ones takes the last.
    """

    neighbours: Tensor  # K, how many of the nearest

    def __init__(self, neighbours: int, *, wordnet: bool = False, nearest: Nearest = "table") -> None:
        super().__init__()
        self.counts, self.wordnet, self.nearest = WordCounts(), wordnet, nearest
        self.register_buffer("neighbours", torch.tensor(neighbours))
        self._known: dict[tuple[str, int], str] = {}
        self._counted: dict[str, int] = {}  # the counts for which that holds

    def synonyms(self, word: str) -> list[str]:
        """WordNet's, of all senses, in lower case; without phrases and the word itself."""
        from dualmask.text.wordnet import load_wordnet

        names = dict.fromkeys(name.lower() for name in load_wordnet().synonyms(word) if "_" not in name)
        return [name for name in names if name != word]

    def mean_synonyms(self, texts: Sequence[Text]) -> float:
        """How many of them a word of these texts has, on average over different words."""
        words = {word.lower() for text in texts for word in Words(text).words}
        return sum(len(self.synonyms(word)) for word in words) / max(1, len(words))

    def near(self, word: str, neighbours: int) -> list[str]:
        """S(w) of a word in lower case."""
        if self.nearest == "table":
            vectors = [other for other, _ in shipped_synonyms().neighbours(word, neighbours)]
        else:
            around = shipped_synonyms().neighbours(word) if self.counts(word) else []
            vectors = [other for other, _ in around if self.counts(other)][:neighbours]
        return list(dict.fromkeys([*(self.synonyms(word) if self.wordnet else ()), *vectors]))

    def most_frequent(self, word: str, neighbours: int) -> str:
        """Of the word and S(w), of equals the word itself, or else the first of S(w) ('release': the last by name).

        Remembered, since it depends on the word alone; not of words without others: there is no end to these.
        """
        if self._counted is not (counted := self.counts.table()):
            self._known, self._counted = {}, counted
        best = self._known.get((word, neighbours), "")
        if not best and (others := self.near(word, neighbours)):
            ranked = others if self.nearest == "table" else sorted(others, reverse=True)
            best = self._known[word, neighbours] = max([word, *ranked], key=self.counts)
        return best or word

    def frequent(self, texts: Sequence[Text], delta: float) -> list[Text]:
        """The texts with every word whose phi is below delta replaced by the most frequent of S(w)."""
        neighbours = int(self.neighbours)  # once: on a GPU it is waited for
        return [rewritten(text, lambda word: word if self.counts.phi(word) >= delta
                          else self.most_frequent(word, neighbours)) for text in texts]

    def rarer(self, texts: Sequence[Text], share: float, seed: int) -> list[Text]:
        """The texts as attacks may leave them: about this share of words replaced by rarer ones, no stop words."""
        neighbours = int(self.neighbours)
        return [self._rarer(text, share, neighbours, Random(derived_seed(seed, "rarer", repr(text)))) for text in texts]

    def _rarer(self, text: Text, share: float, neighbours: int, draw: Random) -> Text:
        def worse(word: str) -> str:
            chosen = draw.random() < share and word not in stop_words("nltk")
            others = [other for other in (self.near(word, neighbours) if chosen else ())
                      if self.counts(other) < self.counts(word)]
            return draw.choice(others) if others else word

        return rewritten(text, worse)


def rewritten(text: Text, substitute: Callable[[str], str]) -> Text:
    """With each word, asked for in lower case, exchanged for another in its own case; all else that is seen stays."""
    text = visible(text)
    if not isinstance(text, str):
        return tuple(str(rewritten(part, substitute)) for part in text)  # type: ignore[return-value]
    parts: list[str] = []
    end = 0
    for start, after in Words(text).spans:
        word = text[start:after]
        new = substitute(word.lower())
        parts += text[end:start], word if new == word.lower() else in_case_of(new, word)
        end = after
    return "".join([*parts, text[end:]])


def exchanged(text: Text, words: Mapping[int, str]) -> Text:
    """With the words at some places, counted through both texts of a pair, exchanged for others in lower case."""
    places = count()
    return rewritten(text, lambda word: words.get(next(places), word))
