# SPDX-License-Identifier: Apache-2.0
"""Synonym clusters: each word read as the head of its cluster, so that swapping synonyms changes nothing.

Related: Wang et al., "Natural language adversarial defense through synonym encoding", UAI 2021, and Jones et al.,
"Robust encodings", ACL 2020. Theirs look at words alone; here the training labels say which words must stay apart.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dualmask.errors import OptionError, did_you_mean
from dualmask.options import check_least, check_shares
from dualmask.text.examples import Example
from dualmask.text.stop_words import stop_words
from dualmask.text.synonyms import shipped_synonyms

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SOURCES = ("shipped", "wordnet")
PRIOR = 2.0  # texts that every word counts as seen in beforehand, spread as the classes are
WORDNET = 0.7  # the cosine that a pair of WordNet's counts as
SHARPNESS = 4  # votes grow with this power of the cosine: near words decide
_RUNS = re.compile(r"[^\W\d_]+")


def function_words() -> frozenset[str]:
    """Words that stay themselves; attacks leave them alone as well."""
    return stop_words("nltk") | stop_words("textfooler")


class Evidence:
    """What the training labels say about a word: for each class an interval of P(class | word), all classes alike.

    The log-odds of each class against the others have an informative Dirichlet prior (Monroe, Colaresi and Quinn,
    2008), so a rare word has a wide interval. Texts are counted, not occurrences: these come in bursts.
    """

    def __init__(self, examples: Sequence[Example], *, z: float, apart: float) -> None:
        self.z, self.apart = z, apart
        counts: list[Counter[str]] = [Counter() for _ in range(max((label for _, label in examples), default=0) + 1)]
        counts += [Counter()] * (2 - len(counts))  # one class alone has no others to stand against
        for text, label in examples:
            counts[label].update(set(_RUNS.findall((text if isinstance(text, str) else "\n".join(text)).lower())))
        self.words = sorted(set().union(*counts))
        self._number = {word: number for number, word in enumerate(self.words)}
        rows = [[count[word] for count in counts] for word in self.words]
        self._texts = np.array([*rows, [0] * len(counts)], dtype=np.float64)  # (words + 1, classes); last: never seen
        seen = np.bincount([label for _, label in examples], minlength=len(counts)) if examples else [0] * len(counts)
        self._classes = np.asarray(seen, dtype=np.float64) + 1

    def texts(self, words: Sequence[str]) -> Floats:
        """How many texts of each class have the word, (words, classes)."""
        return self._texts[[self._number.get(word, -1) for word in words]]

    def intervals(self, words: Sequence[str]) -> tuple[Floats, Floats]:
        """Lower and upper ends, (words, classes) each; a word never seen may mean anything."""
        here, prior = self.texts(words), PRIOR * self._classes / self._classes.sum()
        there = here.sum(axis=1, keepdims=True) - here + PRIOR - prior
        here = here + prior
        odds = np.log(here / self._classes) - np.log(there / (self._classes.sum() - self._classes))
        doubt = self.z * np.sqrt(1 / here + 1 / there)
        return _probability(odds - doubt), _probability(odds + doubt)

    def information(self, words: Sequence[str]) -> Floats:
        """What a word tells about the classes in all its texts: log-likelihood ratio against nothing, (words,)."""
        here = self.texts(words)
        expected = here.sum(axis=1, keepdims=True) * self._classes / self._classes.sum()
        terms = here * np.log(np.where(here > 0, here, 1) / np.where(here > 0, expected, 1))
        return np.asarray(terms.sum(axis=1))

    def conflict(self, one: str, other: str) -> bool:
        """Whether the two surely differ, for some class, by more than `apart`."""
        return bool(self.conflicts([one, other], np.array([0]), np.array([1]))[0])

    def conflicts(self, words: Sequence[str], one: Integers, other: Integers) -> NDArray[np.bool_]:
        """The same for pairs of word numbers."""
        low, high = self.intervals(words)
        gaps = np.maximum(low[one], low[other]) - np.minimum(high[one], high[other])  # (pairs, classes)
        return np.asarray(gaps.max(axis=1, initial=0) > self.apart)


class Links(NamedTuple):
    """Pairs of word numbers with the cosine of each."""

    one: Integers
    other: Integers
    cosines: Floats


class Clusters(nn.Module):
    """Word -> head of its cluster. The state is in buffers and thus saved and loaded with the defence that owns it.

    Words come in the order of what they tell about the classes. Each joins the cluster of earlier words that most of
    its neighbours are in, near ones counting most and large clusters less, unless its evidence conflicts with that of
    any word there; then the next best, or a cluster of its own. So a word without evidence follows its near words
    that have some. The head is the word seen in most training texts.
    """

    letters: Tensor  # the words that share a cluster in UTF-8, one a line, by the alphabet
    heads: Tensor  # (words,) the place of each one's head among them

    def __init__(
        self, *, threshold: float = 0.7, sources: Sequence[str] = ("shipped",), z: float = 2.0, apart: float = 0.2,
        most: int = 300,
    ) -> None:
        """`threshold`: least cosine; `z`: deviations that make sure; `apart`: see Evidence; `most`: largest cluster."""
        super().__init__()
        check_shares(threshold=threshold, apart=apart)
        check_least(z=(z, 0), most=(most, 1))
        if not sources:
            raise OptionError(f"no source of synonyms; expected one or more of: {', '.join(SOURCES)}.")
        for source in sources:
            if source not in SOURCES:
                raise OptionError(f"unknown source of synonyms '{source}'{did_you_mean(source, SOURCES)}")
        self.threshold, self.sources, self.z, self.apart, self.most = threshold, tuple(sources), z, apart, most
        self.register_buffer("letters", torch.zeros(0, dtype=torch.uint8))
        self.register_buffer("heads", torch.zeros(0, dtype=torch.long))
        self._table: dict[str, str] = {}
        self._sizes: Counter[str] = Counter()
        self._shown: tuple[Tensor, ...] = ()  # the buffers that the table shows
        self._versions: list[int] = []  # and how often they had been written to

    def fit(self, examples: Sequence[Example]) -> None:
        """Learn the clusters from labelled training texts, instead of any learned before."""
        evidence = Evidence(examples, z=self.z, apart=self.apart)
        words, links = self._linked(evidence)
        seen = evidence.texts(words).sum(axis=1)
        order = np.lexsort((-seen, -evidence.information(words)))  # most telling, then most frequent first
        words, seen, rank = [words[place] for place in order], seen[order], np.argsort(order)
        links = Links(rank[links.one], rank[links.other], links.cosines)
        roots = np.array(grown(links, *evidence.intervals(words), apart=self.apart, most=self.most), dtype=np.int64)
        self._keep(words, _most_seen(roots, seen))

    def _linked(self, evidence: Evidence) -> tuple[list[str], Links]:
        """All words that may be swapped for another, and the pairs that may be swapped."""
        words: list[str] = []
        parts: list[Links] = []
        if "shipped" in self.sources:
            words, links = _shipped_links(self.threshold)
            parts.append(links)
        if "wordnet" in self.sources:
            words, links = _wordnet_links(words, evidence.words)
            parts.append(links)
        return words, _once(parts, len(words))

    def _keep(self, words: Sequence[str], heads: Integers) -> None:
        """Store the clusters of two or more words."""
        shared = np.bincount(heads, minlength=len(words))[heads] > 1
        kept = sorted((words[place], words[heads[place]]) for place in np.flatnonzero(shared).tolist())
        place = {word: number for number, (word, _) in enumerate(kept)}
        joined = bytearray("\n".join(place).encode())
        self.letters = torch.frombuffer(joined, dtype=torch.uint8) if joined else self.letters.new_zeros(0)
        self.heads = torch.tensor([place[head] for _, head in kept], dtype=torch.long)

    def table(self) -> dict[str, str]:
        """Word -> head for all words that share a cluster; read again whenever a buffer was replaced or written to."""
        buffers = self.letters, self.heads
        versions = [0 if one.is_inference() else one._version for one in buffers]
        if versions != self._versions or any(old is not new for old, new in zip(self._shown, buffers, strict=True)):
            words = self.letters.cpu().numpy().tobytes().decode().split("\n") if len(self.heads) else []
            self._table = {word: words[head] for word, head in zip(words, self.heads.tolist(), strict=True)}
            self._sizes = Counter(self._table.values())
            self._shown, self._versions = buffers, versions
        return self._table

    def head(self, word: str) -> str:
        """What a word in lower case is read as: itself if it is in no cluster."""
        return self.table().get(word, word)

    def reason(self, word: str) -> str:
        """Why a word in lower case is read as it is."""
        head = self.table().get(word)
        if head is None:
            return "function word" if word in function_words() else "no synonym that may stand for it"
        if head == word:
            return f"most frequent of {self._sizes[head]} synonyms"
        cosine = shipped_synonyms().cosine(word, head) if "shipped" in self.sources else None
        near = f"cosine {cosine:.2f}" if cosine else "by way of others"
        return f"synonym of '{head}', {near}, most frequent of {self._sizes[head]}"


def grown(links: Links, low: Floats, high: Floats, *, apart: float, most: int) -> list[int]:
    """For each word, the number of the first word of its cluster; words are numbered in the order in which they come.

    That no two intervals in a cluster lie more than `apart` from each other needs no look at every pair: it holds if
    the highest lower end and the lowest upper end do not, and these two are all that is kept of a cluster.
    """
    later, earlier = np.maximum(links.one, links.other), np.minimum(links.one, links.other)
    order = np.argsort(later, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(later, minlength=len(low)))]).tolist()
    others, weights = earlier[order].tolist(), (links.cosines[order] ** SHARPNESS).tolist()
    lows, highs = low.tolist(), high.tolist()
    roots, sizes = list(range(len(lows))), [1] * len(lows)
    for word in range(len(roots)):
        votes: dict[int, float] = {}
        for place in range(starts[word], starts[word + 1]):
            root = roots[others[place]]
            votes[root] = votes.get(root, 0.0) + weights[place]
        for root in sorted(votes, key=lambda root: -votes[root] / sizes[root] ** 0.5):
            ends = list(map(max, lows[root], lows[word])), list(map(min, highs[root], highs[word]))
            if sizes[root] < most and all(below - above <= apart for below, above in zip(*ends, strict=True)):
                roots[word], (lows[root], highs[root]) = root, ends
                sizes[root] += 1
                break
    return roots


def _most_seen(roots: Integers, seen: Floats) -> Integers:
    """For each word the most frequent one with the same root, of equals the first."""
    order = np.lexsort((-seen, roots))
    found, first = np.unique(roots[order], return_index=True)
    heads = np.zeros(len(roots), dtype=np.int64)
    heads[found] = order[first]
    return heads[roots]


def _shipped_links(threshold: float) -> tuple[list[str], Links]:
    """The pairs of the shipped table, without function words."""
    table, functional = shipped_synonyms(), function_words()
    one, other, cosines = table.pairs
    spared = np.array([word in functional for word in table.words])
    kept = (cosines >= np.float32(threshold)) & ~spared[one] & ~spared[other]
    return list(table.words), Links(one[kept], other[kept], cosines[kept].astype(np.float64))


def _wordnet_links(words: Sequence[str], asked: Sequence[str]) -> tuple[list[str], Links]:
    """Every asked word with its synonyms in WordNet, if letters alone; words not yet among `words` come behind them."""
    from dualmask.text.wordnet import load_wordnet

    wordnet, spared = load_wordnet(), function_words()
    number = {word: place for place, word in enumerate(words)}
    one, other = [], []
    for word in asked:
        for name in dict.fromkeys(map(str.lower, wordnet.synonyms(word))) if word not in spared else ():
            if name.isalpha() and name != word and name not in spared:
                one.append(number.setdefault(word, len(number)))
                other.append(number.setdefault(name, len(number)))
    return list(number), Links(np.array(one, np.int64), np.array(other, np.int64), np.full(len(one), WORDNET))


def _once(parts: Sequence[Links], words: int) -> Links:
    """All links, each pair once with its highest cosine."""
    one, other = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
    cosines = np.concatenate([part.cosines for part in parts])
    keys = np.minimum(one, other) * words + np.maximum(one, other)
    order = np.lexsort((-cosines, keys))
    keys, first = np.unique(keys[order], return_index=True)
    return Links(keys // max(words, 1), keys % max(words, 1), cosines[order][first])


def _probability(odds: Floats) -> Floats:
    return 1 / (1 + np.exp(-odds))
