# SPDX-License-Identifier: Apache-2.0
"""Texts in which some random words gave way to frequent synonyms."""

from random import Random

from dualmask.seeds import derived_seed
from dualmask.text.examples import Text
from dualmask.text.invisible import visible
from dualmask.text.stop_words import stop_words
from dualmask.text.substitutes import rewritten
from dualmask.text.synonyms import Synonyms
from dualmask.text.words import Words


class FrequentSynonyms:
    """The most frequent of each word's near synonyms. Tables list frequent words first, as word vectors do."""

    def __init__(self, table: Synonyms, *, nearest: int = 20, cosine: float = 0.7, frequent: int = 10) -> None:
        self.table, self.nearest, self.cosine, self.frequent = table, nearest, cosine, frequent
        self._ranks = {word: rank for rank, word in enumerate(self.table.words)}
        self._known: dict[str, list[str]] = {}

    def __call__(self, word: str) -> list[str]:
        """Of a word in lower case, most frequent first; none where the table has none that is near enough."""
        if word not in self._known:
            near = [other for other, cosine in self.table.neighbours(word, self.nearest) if cosine >= self.cosine]
            self._known[word] = sorted(near, key=self._ranks.__getitem__)[:self.frequent]
        return self._known[word]

    def randomised(self, text: Text, rate: float, seed: int) -> Text:
        """With this share of the words drawn, rounded down, and each replaced by one of its synonyms; stop words stay.

        All draws come from the seed and what can be seen of the text.
        """
        text = visible(text)
        draw, count = Random(derived_seed(seed, "randomised", repr(text))), len(Words(text))
        chosen = set(draw.sample(range(count), int(rate * count + 1e-9)))
        places, spared = iter(range(count)), stop_words("textfooler")

        def substitute(word: str) -> str:
            drawn = next(places) in chosen and word not in spared
            return draw.choice(self(word) or [word]) if drawn else word

        return rewritten(text, substitute)
