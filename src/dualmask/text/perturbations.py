# SPDX-License-Identifier: Apache-2.0
"""Perturbation sets: which words may stand for a word, told by who is whose synonym in a table of near words.

Two words are connected if a chain of synonyms leads from one to the other. A word's set is the words connected with
it, of more than `most` the nearest. How near is the angle between two words or, where the table holds no cosine of
them, the least sum of angles on a way through the table: never less than the true angle, and the same either way.
"""

import hashlib
import re
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from heapq import heappop, heappush
from math import acos
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from dualmask.errors import DataError, OptionError, ResourceError
from dualmask.system_errors import told_reason
from dualmask.text.spelling import Column, Numbers, Spelling
from dualmask.text.synonyms import LEAST, Synonyms, find_synonyms
from dualmask.text.words import in_case_of

FAR = 1 << 62
SHAPES = ("ab", "AB", "Ab")  # lower, UPPER, Capitalised: the cases that a substitute takes over
_CORE = re.compile(r"[^\W_](?:.*[^\W_])?", re.DOTALL)  # from the first letter or digit to the last


class SynonymGraph:
    """Words of a table, synonyms from a cosine of `threshold` on; what was worked out about them is remembered.

    Words are lower-case. Those that are not looked up as themselves in every case have no synonyms here, like words
    that the table doesn't know; about these nothing is kept, since there is no end to them.
    """

    def __init__(self, table: Synonyms, *, threshold: float, most: int) -> None:
        self.table, self.most = table, most
        self._widest = angle(threshold)
        self._near: dict[str, dict[str, int]] = {}
        self._components: dict[str, frozenset[str]] = {}
        self._members: dict[str, tuple[str, ...]] = {}

    def near(self, word: str) -> dict[str, int]:
        """All words that the table has beside this one, in either direction, nearest first, with their angles."""
        if word not in self.table or not is_found(word):
            return {}
        if word not in self._near:
            all_of_them = self.table.neighbours(word, most=len(self.table))
            self._near[word] = {other: angle(cosine) for other, cosine in all_of_them if is_found(other)}
        return self._near[word]

    def synonyms(self, word: str) -> list[str]:
        """S_w, nearest first."""
        return [other for other, apart in self.near(word).items() if apart <= self._widest]

    def component(self, word: str) -> frozenset[str]:
        """Every word connected with this one, itself included."""
        if word not in self.table:
            return frozenset({word})
        if word not in self._components:
            found, waiting = {word}, [word]
            while waiting:
                new = set(self.synonyms(waiting.pop())) - found
                found |= new
                waiting += new
            self._components |= dict.fromkeys(found, frozenset(found))
        return self._components[word]

    def members(self, word: str) -> tuple[str, ...]:
        """P_w, nearest first: the word itself, then at most `most - 1` others; equally near ones by name."""
        if word not in self.table:
            return (word,)
        if word not in self._members:
            connected = self.component(word)
            found: list[str] = []
            least, waiting = {word: 0}, [(0, word)]
            while waiting and len(found) < self.most:
                distance, nearest = heappop(waiting)
                if distance > least[nearest]:
                    continue  # it was reached on a shorter way
                found.append(nearest)
                for other, apart in self.near(nearest).items():
                    if other in connected and distance + apart < least.get(other, FAR):
                        least[other] = distance + apart
                        heappush(waiting, (least[other], other))
            self._members[word] = tuple(found)
        return self._members[word]

    def overlap(self, word: str, others: Iterable[str]) -> Fraction:
        """q_w: the least share that draws from P_w and from the set of one of the others have in common.

        Uniform draws share |P_w and P_w'| / max(|P_w|, |P_w'|); sets of connected words are equally large.
        """
        own = {*self.members(word)}
        return min((Fraction(len(own.intersection(theirs)), max(len(own), len(theirs)))
                    for theirs in map(self.members, others)), default=Fraction(1))

    def overlap_of(self, written: str, others: Iterable[str]) -> Fraction:
        """The same of a word in its dress, which each of the others takes over.

        Where a case can't be told it goes by how draws are written: "A" for "AN" is drawn for like a Capitalised word.
        """
        core, others = core_of(written), list(others)
        if all(map(is_regular, (core, *others))):
            return self.overlap(core, others)
        own = self._forms(written)
        return min((Fraction(len(own & theirs), max(len(own), len(theirs)))
                    for theirs in (self._forms(dressed(other, written)) for other in others)), default=Fraction(1))

    def _forms(self, written: str) -> set[str]:
        return {dressed(member, written) for member in self.members(core_of(written))}


class RandomSynonyms:
    """Draws from the perturbation sets of words as texts have them, by their numbers in one `Spelling`."""

    def __init__(self, spelling: Spelling, graph: SynonymGraph) -> None:
        self.spelling, self.graph = spelling, graph
        self._lock = Lock()  # several threads may ask one classifier
        self._starts: Numbers = np.zeros(0, dtype=np.int64)  # by word number: where its substitutes begin
        self._sizes: Numbers = np.zeros(0, dtype=np.int64)  # and how many there are; 0: not looked up yet
        self._numbers = Column([])  # of substitutes; -1 where one was never drawn, thus never spelled

    def __reduce__(self) -> tuple[type["RandomSynonyms"], tuple[Spelling, SynonymGraph]]:
        """A copy begins anew, as that of its spelling does."""
        return RandomSynonyms, (self.spelling, self.graph)

    def drawn(self, words: Numbers, draws: NDArray[np.float64]) -> Numbers:
        """For each word number the number of a member of its set, itself perhaps; draws from 0 up to 1 choose it."""
        with self._lock:
            self._look_up(np.unique(words))
            choices = (draws * self._sizes[words]).astype(np.int64)
            places = self._starts[words] + choices
            missing = self._numbers.values[places] < 0
            new, firsts = np.unique(places[missing], return_index=True)
            if len(new):
                forms = map(self._form, words[missing][firsts].tolist(), choices[missing][firsts].tolist())
                self._numbers.values[new] = self.spelling.read([" ".join(forms)], exact=True)[0].words
            drawn: Numbers = self._numbers.values[places]
            return drawn

    def _look_up(self, words: Numbers) -> None:
        more = int(words.max(initial=-1)) + 1 - len(self._sizes)
        if more > 0:
            self._sizes, self._starts = (np.pad(old, (0, more + len(old))) for old in (self._sizes, self._starts))
        new = words[self._sizes[words] == 0]
        if len(new):
            sizes = np.array([len(self.graph.members(core_of(self.spelling.word(word)))) for word in new.tolist()])
            self._sizes[new], self._starts[new] = sizes, len(self._numbers) + np.cumsum(sizes) - sizes
            self._numbers.extend(np.full(sizes.sum(), -1))

    def _form(self, word: int, choice: int) -> str:
        written = self.spelling.word(word)
        return dressed(self.graph.members(core_of(written))[choice], written)


def synonym_graph(name: str, threshold: float, most: int) -> SynonymGraph:
    """The graph of the table called `shipped`, or of vectors in a file, made once for each state of the file."""
    try:
        return _graph(name, table_digest(name), threshold, most)
    except DataError as error:  # it may be a saved classifier that is in want of it
        raise ResourceError(f"synonyms: {error}") from error


@lru_cache(maxsize=4)
def _graph(name: str, digest: bytes, threshold: float, most: int) -> SynonymGraph:
    return SynonymGraph(find_synonyms(name), threshold=threshold, most=most)


def table_digest(name: str) -> bytes:
    """Tells files of vectors apart; empty for the table that is shipped, which every installation has."""
    if name == "shipped":
        return b""
    try:
        with Path(name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise ResourceError(f"synonyms '{name}': no file of word vectors can be read there ({told_reason(error)}); "
                            "give 'shipped' or the path of one. A saved classifier needs the file that it was "
                            "trained with in its place: put it there, or start from the folder that the path begins "
                            "in.") from error


def check_threshold(threshold: float) -> None:
    if not LEAST <= threshold <= 1:
        raise OptionError(f"threshold is {threshold}; expected a cosine from {LEAST} to 1: tables hold no others.")


def core_of(written: str) -> str:
    """The word that is looked up for a white-space word: without punctuation around it, in lower case.

    A word in none of the three cases ("iPhone") stands for itself alone, as it is.
    """
    core = _undressed(written)[1]
    return core.lower() if cased(core.lower(), core) == core else core


def dressed(word: str, model: str) -> str:
    """A word in the case of another, between the same punctuation; the other's own core gives the other back."""
    before, core, after = _undressed(model)
    return before + cased(word, core) + after


def cased(word: str, model: str) -> str:
    """A word in the case of another, of which one capital letter counts as Capitalised."""
    return word.capitalize() if len(model) == 1 and model.isupper() else in_case_of(word, model)


def _undressed(written: str) -> tuple[str, str, str]:
    """A white-space word's core, which may be empty, and what stands before and behind it."""
    match = _CORE.search(written)
    start, end = match.span() if match else (len(written), len(written))
    return written[:start], written[start:end], written[end:]


@lru_cache(maxsize=1 << 17)
def is_found(word: str) -> bool:
    """Whether a word is one word in any text, and is looked up as itself in its every case."""
    return word.split() == [word] and all(core_of(cased(word, shape)) == word for shape in SHAPES)


@lru_cache(maxsize=1 << 17)
def is_regular(word: str) -> bool:
    """Whether its case can be told as well, which that of one letter can't, so that sets of words carry over."""
    return is_found(word) and all(cased("ab", cased(word, shape)) == shape for shape in SHAPES)


def angle(cosine: float) -> int:
    """In millionths, whole: sums are the same on every machine."""
    return round(1e6 * acos(min(1.0, cosine)))
