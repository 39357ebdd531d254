# SPDX-License-Identifier: Apache-2.0
"""Which words there are: how often, in which case and beside which others the training texts have them.

Words that the training texts lack get their general frequency in English from a list that ships with the package;
strings that neither knows, what their letters are worth as an English word or name.
"""

import gzip
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from itertools import chain
from math import log

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dualmask.errors import ResourceError
from dualmask.system_errors import told_reason
from dualmask.text.examples import Text
from dualmask.text.frequencies import WordCounts

ASSET = "common_words.txt.gz"
# Letters of any script, apostrophes inside; beside a digit or an underscore they are no word
WORD = re.compile(r"[^\W\d_]++(?:['\u2019][^\W\d_]++)*+(?![\d_])")
TOKEN = re.compile(rf"{WORD.pattern}|\w+|[^\w\s\ud800-\udfff]")  # numbers, names like mp3 and marks are context too
EDGE = ""  # the border of a text, as a neighbour
LOWER, CAPITALISED, UPPER, ODD = range(4)

GENERAL = 50_000  # words of general English that the training texts are mixed with, or half as many as they have
CASE = 2.0  # occurrences in the corpus' mix of cases that those of a word are mixed with
NAMED = 0.3  # share in lower case under which a word is a name
CASED = 0.02  # share of words with capitals from which on case tells something
PAIRS = 1 << 19  # above so many different ones, pairs seen once are left out
PAIR = 0.3  # added to how often a pair was seen, and to how often chance would show it
NAME = -log(20)
LEAST_NEW = 0.001  # share of words that no list has, at least
DERIVED = 1e-8  # general frequency of words that only their making explains
BEGINNINGS = ("un", "re", "non", "pre", "mis", "over", "under", "out", "super", "semi", "anti", "inter", "counter")
ENDINGS = (  # and what they replace
    ("s", ""), ("es", ""), ("ies", "y"), ("d", ""), ("ed", ""), ("ing", ""), ("ing", "e"), ("ingly", ""), ("ly", ""),
    ("ly", "le"), ("ily", "y"), ("ness", ""), ("iness", "y"), ("less", ""), ("like", ""), ("ish", ""), ("er", ""),
    ("ier", "y"), ("est", ""), ("iest", "y"), ("able", ""), ("able", "e"), ("ism", ""), ("dom", ""), ("ful", ""))
OWNER = log(0.03)  # of a word, how often it owns something: "film's"


class Lexicon(WordCounts):
    """Counts of words, of their cases and of neighbouring pairs, in buffers."""

    cases: Tensor  # (words, 3): of `counts`, how many in lower case, Capitalised and UPPER
    pairs: Tensor  # (pairs,): number of the first word * words + number of the second
    pair_counts: Tensor  # (pairs,)

    def __init__(self, *, common: float = 3.0) -> None:
        """Words of a general frequency (zipf) of `common` or more are known without having been seen."""
        super().__init__()
        self.common = common
        self.register_buffer("cases", torch.zeros(0, 3, dtype=torch.long))
        self.register_buffer("pairs", torch.zeros(0, dtype=torch.long))
        self.register_buffer("pair_counts", torch.zeros(0, dtype=torch.long))
        self._figures: Figures | None = None

    def fit(self, texts: Sequence[Text]) -> None:
        """Count words, cases and pairs of these texts, instead of any counted before."""
        parts = (part for text in texts for part in ((text,) if isinstance(text, str) else text))
        rows = [[EDGE], *([*TOKEN.findall(part), EDGE] for part in parts)]
        written = Counter(chain.from_iterable(rows))
        numbers: dict[str, int] = {}  # of a word in whatever case
        number_of = {token: numbers.setdefault(plain(token), len(numbers)) for token in written}
        tallies = np.zeros((len(numbers), 4), dtype=np.int64)
        for token, count in written.items():
            tallies[number_of[token], case_of(token)] += count
        places = np.fromiter(map(number_of.__getitem__, chain.from_iterable(rows)), dtype=np.int64)
        self._keep(list(numbers), tallies, places)

    def _keep(self, words: list[str], tallies: NDArray[np.int64], places: NDArray[np.int64]) -> None:
        totals = tallies.sum(axis=1)
        order = sorted(range(len(words)), key=lambda number: (-totals[number], words[number]))  # leaves no trace of
        rank = np.empty(len(words), dtype=np.int64)  # the texts' order
        rank[order] = np.arange(len(words))
        letters = bytearray("\n".join(words[number] for number in order).encode())
        self.letters = torch.frombuffer(letters, dtype=torch.uint8) if letters else self.letters.new_zeros(0)
        self.counts, self.cases = torch.from_numpy(totals[order]), torch.from_numpy(tallies[order, :3])
        places = rank[places]
        keys, seen = np.unique(places[:-1] * len(words) + places[1:], return_counts=True)
        kept = seen > (len(keys) > PAIRS)
        self.pairs, self.pair_counts = torch.from_numpy(keys[kept]), torch.from_numpy(seen[kept])

    def figures(self) -> "Figures":
        """Everything that can be asked, worked out anew whenever the buffers have changed."""
        table = self.table()
        if self._figures is None or self._figures.table is not table:
            pairs = dict(zip(self.pairs.tolist(), self.pair_counts.tolist(), strict=True))
            self._figures = Figures(table, self.cases.cpu().numpy(), pairs, common=self.common)
        return self._figures

    def count(self, word: str) -> int:
        return self.table().get(word, 0)

    def zipf(self, word: str) -> float:
        return self.figures().zipf(word)

    def is_known(self, word: str) -> bool:
        return self.figures().is_known(word)

    def log_probability(self, word: str) -> float:
        return self.figures().log_probability(word)

    def context(self, before: str, word: str, after: str) -> float:
        return self.figures().context(before, word, after)


class Figures:
    """What a lexicon's counts say, in plain tables: asked for every word of every text. Words are plain ones."""

    def __init__(
        self, table: Mapping[str, int], cases: NDArray[np.int64], pairs: Mapping[int, int], *, common: float,
    ) -> None:
        self.table, self.common, self._pairs = table, common, pairs
        self._zipfs = common_words().zipfs
        self.vocabulary = frozenset(word for word in table if len(word) > 1 and WORD.fullmatch(word)).union(
            common_words().words)
        self._number = {word: number for number, word in enumerate(table)}
        self._cases = cases.tolist()
        self._total = max(1, sum(table.values()))
        self._general = min(GENERAL, 1000 + self._total / 2)
        is_word = np.array([WORD.fullmatch(word) is not None for word in table], dtype=bool)
        counts = np.fromiter(table.values(), dtype=np.int64, count=len(table))
        self._mix = case_mix(cases[is_word], counts[is_word])
        self.cased = self._mix[LOWER] <= 1 - CASED
        once = is_word & (counts == 1) & np.array([word not in self._zipfs for word in table], dtype=bool)
        self._new_mix = case_mix(cases[once], counts[once])
        # Words seen once tell how many were never seen (Good and Turing)
        self._new = log(max(once.sum() / (self._total + self._general), LEAST_NEW))

    def is_known(self, word: str) -> bool:
        """Seen in training, or common."""
        return word in self.table or self._zipfs.get(word, 0.0) >= self.common

    def is_word(self, word: str) -> bool:
        """Known, or at least listed as English, be it rare, or made of a known one."""
        return word in self.table or word in self._zipfs or self.is_derived(word)

    def is_derived(self, word: str) -> bool:
        """Whether a beginning or ending makes it of a known word: "haplessness", "underplays"."""
        stems = [word[:-len(end)] + more for end, more in ENDINGS if word.endswith(end)]
        stems += [word[len(start):] for start in BEGINNINGS if word.startswith(start)]
        return any(len(stem) > 3 and self.is_known(stem) for stem in stems)

    def is_frequent(self, word: str) -> bool:
        """Seen more than once, or very common."""
        return self.table.get(word, 0) > 1 or self._zipfs.get(word, 0.0) >= 4.0

    def is_no_name(self, word: str, written: str) -> bool:
        """Whether it is no name: of words that were seen, by the share in lower case; else by how it is written."""
        if self._mix[LOWER] > 1 - CASED:
            return True
        number = self._number.get(word)
        return written.islower() if number is None else self._cases[number][LOWER] >= NAMED * self.table[word]

    def log_probability(self, word: str) -> float:
        """Training counts mixed with general frequency; of an unlisted word, how likely its letters are."""
        count, zipf = self.table.get(word, 0), self._zipfs.get(word)
        if count or zipf is not None:
            general = 0.0 if zipf is None else 10 ** (zipf - 9)
            return log((count + self._general * general) / (self._total + self._general))
        if word.endswith("'s") and self.is_word(word[:-2]):
            return self.log_probability(word[:-2]) + OWNER
        if self.is_derived(word):
            return log(self._general * DERIVED / (self._total + self._general))
        return self.log_unlisted(word)

    def log_unlisted(self, word: str) -> float:
        """How likely a word is in no list and has these letters."""
        return self._new + common_words().log_letters(word)

    def zipf(self, word: str) -> float:
        """General frequency in English, 0 below what the shipped list has."""
        return self._zipfs.get(word, 0.0)

    def log_case(self, word: str, case: int) -> float:
        """How likely a word is written in this case.

        Where the training texts are all in lower case, capitals speak for a name that is in no list.
        """
        if not self.cased:
            return log(self._mix[ODD]) if case == ODD else NAME if case != LOWER and self.is_word(word) else 0.0
        number = self._number.get(word)
        if number is None:
            mix = self._mix if word in self._zipfs else self._new_mix
            return log(mix[case])
        seen, total = self._cases[number], self.table[word]
        here = total - sum(seen) if case == ODD else seen[case]
        return log((here + CASE * self._mix[case]) / (total + CASE))

    def context(self, before: str, word: str, after: str) -> float:
        """Log-odds that the neighbours bring; 0 when nothing is known."""
        return self.pair(before, word) + self.pair(word, after)

    def pair(self, one: str, other: str) -> float:
        """How much likelier two words are next to each other than by chance, as a logarithm."""
        first, second = self._number.get(one), self._number.get(other)
        if first is None or second is None:
            return 0.0
        seen = self._pairs.get(first * len(self._number) + second, 0)
        expected = self.table[one] * self.table[other] / self._total
        return log((seen + PAIR) / (expected + PAIR))


def case_mix(cases: NDArray[np.int64], counts: NDArray[np.int64]) -> list[float]:
    """Shares of the four cases, none below one in a thousand."""
    tallies = np.array([*cases.sum(axis=0), (counts - cases.sum(axis=1)).sum()], dtype=float)
    shares = np.maximum((tallies + 0.25) / (tallies.sum() + 1), 0.001)
    return [float(share) for share in shares / shares.sum()]


def plain(token: str) -> str:
    """The form under which a token is looked up: lower case, one apostrophe, one number."""
    return "0" if token.isdecimal() else token.lower().replace("\u2019", "'")


def case_of(word: str) -> int:
    if word.islower():
        return LOWER
    stem = word[:-2] if word.endswith(("'s", "\u2019s")) else word
    if stem.isupper():
        return UPPER if len(stem) > 1 else CAPITALISED
    return CAPITALISED if stem[:1].isupper() and stem[1:].islower() else ODD if any(map(str.isupper, stem)) else LOWER


class CommonWords:
    """English words with their zipf values, and a trigram model of their letters."""

    def __init__(self, zipfs: Mapping[str, float]) -> None:
        self.zipfs = zipfs
        self.words = frozenset(word for word in zipfs if len(word) > 1)
        self._logs: list[float] | None = None

    def log_letters(self, word: str) -> float:
        """How likely these letters are, as a word that one meets rarely: ln P, spread over all strings."""
        if self._logs is None:
            self._logs = letter_logs([word for word, zipf in self.zipfs.items() if zipf < 3.0])
        numbers = [0, 0, *map(letter_number, word), 0]
        return sum(self._logs[(one * SIGNS + two) * SIGNS + three]
                   for one, two, three in zip(numbers, numbers[1:], numbers[2:], strict=False))


SIGNS = 28  # 0: the border of a word; 1 to 26: a to z; 27: any other


def letter_number(letter: str) -> int:
    return ord(letter) - 96 if "a" <= letter <= "z" else 27


def letter_logs(words: Sequence[str]) -> list[float]:
    """ln P(third | first two) of all triples, mixed with ln P(third | second)."""
    raw = np.frombuffer("".join(f"``{word}" for word in words).encode("latin-1", "replace"), dtype=np.uint8)
    numbers = np.where((raw >= 96) & (raw <= 122), raw.astype(np.int64) - 96, 27)  # "`" comes before "a"
    numbers = np.concatenate([numbers, [0, 0]])
    codes = (numbers[:-2] * SIGNS + numbers[1:-1]) * SIGNS + numbers[2:]
    triples = np.bincount(codes, minlength=SIGNS ** 3).reshape(SIGNS, SIGNS, SIGNS).astype(float)
    doubles = triples.sum(axis=0) + 0.1  # (second, third)
    backed = doubles / doubles.sum(axis=1, keepdims=True)
    mixed = (triples + 5 * backed) / (triples.sum(axis=2, keepdims=True) + 5)
    return [float(value) for value in np.log(mixed).ravel()]


@lru_cache(maxsize=1)
def common_words() -> CommonWords:
    """The list that comes with the package."""
    try:
        text = gzip.decompress((resources.files("dualmask") / "assets" / ASSET).read_bytes()).decode()
        rows = (line.split(" ") for line in text.splitlines() if not line.startswith("#"))
        return CommonWords({word: float(zipf) for zipf, *words in rows for word in words})
    except (OSError, EOFError, ValueError) as error:
        raise ResourceError(f"the shipped word list {ASSET} can't be read ({told_reason(error)}): install dualmask "
                            "again, or build it with tools/build_common_words.py.") from error
