# SPDX-License-Identifier: Apache-2.0
"""Words weighed against others that may have been meant: a noisy channel.

The score of a word is ln P(word) + ln P(its case) + context + ln P(edit), without the last for the word as it is
written. What can be said about a token without its neighbours is worked out once and remembered.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import exp, inf, log
from typing import NamedTuple

from dualmask.text.edits import KINDS, LETTERS, Edit, parted, undone, undone_twice
from dualmask.text.lexicon import EDGE, ODD, OWNER, UPPER, WORD, Figures, case_of, plain
from dualmask.text.words import in_case_of

LIMIT = 4.0  # nats that context may speak for or against a word
WEIGHT = 0.85  # of the context: both neighbours in part say the same
LOWEST = -1.0  # margin by which another word must be better, at least
MOST = 8  # alternatives that are weighed
ACRONYM = 4  # letters of a word in capitals that stays as it is, where training texts have none to tell more
TWICE = 7  # letters from which on two edits are thought of
SPACE = log(1 / 1000)  # how likely the space between two words is lost
AGAIN = log(1 / 20)  # how likely a second edit
REMEMBERED = 1 << 17  # tokens: an attack must not fill the memory
SIGNS = frozenset("-._*#@+~^|'")  # that may part a word, besides a space
_HUMPS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")  # of camelCase
_INFLECTIONS = ("s", "es", "d", "ed", "'s")


class Alternative(NamedTuple):
    """Another word that may have been meant."""

    score: float
    word: str  # plain; two words with a space between them
    form: str  # in the case of what is written


class Entry(NamedTuple):
    """What can be said about a token without its neighbours."""

    word: str
    keep: float  # score of the word as it is written
    guess: str  # what it most likely is
    alternatives: tuple[Alternative, ...]  # those that neighbours may let win, best first
    strange: bool  # a word in no list


class Outcome(NamedTuple):
    """A place at which something else is read."""

    first: int  # tokens from here
    last: int  # to here
    advantage: float  # of the best alternative, in nats
    becomes: str | None  # None: a mask
    why: str


class Weighing:
    """All that a restorer remembers, for one lexicon and one margin."""

    def __init__(self, figures: Figures, margin: float, *, sure: float, strangers: bool) -> None:
        """`sure`: share of the likeliest word, below which it is masked; `strangers`: words in no list are masked."""
        self.figures, self.margin, self.sure, self.strangers = figures, margin, sure, strangers
        self._entries = Entries(figures)
        self._outcomes: dict[tuple[str, str, str], Outcome | None] = {}
        self._joined: dict[tuple[str, ...], Outcome | None] = {}

    def outcomes(self, tokens: Sequence[str]) -> tuple[list[Outcome], list[Outcome]]:
        """Words joined from several tokens, which must be looked at in the text, and words read otherwise."""
        entries = list(map(self._entries.__getitem__, tokens))
        joins = list(self._joins(tokens, entries))
        singles = []
        for place, entry in enumerate(entries):
            if entry.alternatives or entry.strange:
                found = self._single(tokens[place], entry, *around(entries, place, place))
                if found is not None:
                    singles.append(found._replace(first=place, last=place))
        return joins, singles

    def _single(self, token: str, entry: Entry, before: str, after: str) -> Outcome | None:
        key = before, token, after
        if key not in self._outcomes:
            if len(self._outcomes) >= REMEMBERED:
                self._outcomes.clear()
            self._outcomes[key] = self._weighed(token, entry, before, after)
        return self._outcomes[key]

    def _weighed(self, token: str, entry: Entry, before: str, after: str) -> Outcome | None:
        keep = entry.keep + self._context(before, entry.word, after)
        scores = {one: one.score + self._context(before, one.word, after) for one in entry.alternatives}
        best = max(scores, key=scores.__getitem__, default=None)
        strange = entry.strange and self.strangers
        advantage = -inf if best is None else scores[best] - keep
        if best is None or advantage <= self.margin:
            why = f"'{token}' is no known word, nor near one" if best is None else f"'{token}' is no known word"
            return Outcome(0, 0, inf, None, why) if strange else None
        shares = {one: exp(score - scores[best]) for one, score in scores.items()}
        own = sum(share for one, share in shares.items() if one == best or inflected(one.word, best.word))
        rank = inf if strange else advantage
        if own < self.sure * sum(shares.values()):
            likely = sorted(shares, key=lambda one: -shares[one])[:3]
            return Outcome(0, 0, rank, None, f"may be {' or '.join(repr(one.word) for one in likely)}")
        return Outcome(0, 0, rank, best.form, f"'{best.word}' is {advantage:.1f} nats likelier here")

    def _context(self, before: str, word: str, after: str) -> float:
        """What the neighbours say, within limits; two words also say something about each other."""
        first, _, last = word.partition(" ")
        pair = self.figures.pair
        found = pair(before, first) + (pair(first, last) + pair(last, after) if last else pair(first, after))
        return min(max(WEIGHT * found, -LIMIT), LIMIT)

    def _joins(self, tokens: Sequence[str], entries: Sequence[Entry]) -> Iterator[Outcome]:
        """Words that a space, a sign or spaces between all letters may have parted."""
        words = [entry.word for entry in entries]
        vocabulary = self.figures.vocabulary
        parts = [(place, place + 1) for place, (one, other) in enumerate(pairwise(words)) if one + other in vocabulary]
        parts += [(place - 1, place + 1) for place, word in enumerate(words[1:-1], start=1)
                  if word in SIGNS and words[place - 1] + words[place + 1] in vocabulary]
        for first, last in parts:
            beside = around(entries, first, last)
            key = (*beside, *tokens[first:last + 1])
            if key not in self._joined:
                if len(self._joined) >= REMEMBERED:
                    self._joined.clear()
                self._joined[key] = self._weighed_join(tokens[first] + tokens[last], entries[first:last + 1], *beside)
            if (found := self._joined[key]) is not None:
                yield found._replace(first=first, last=last)
        letters = [place for place, word in enumerate(words) if len(word) == 1 and word.isalpha()]
        if len(letters) > 2:
            yield from self._spelt(tokens, letters)

    def _weighed_join(self, written: str, parts: Sequence[Entry], before: str, after: str) -> Outcome | None:
        figures, word = self.figures, parts[0].word + parts[-1].word
        if not self._may_join(word, [part.word for part in parts]):
            return None
        row = [before, *(part.guess for part in parts), after]
        apart = WEIGHT * sum(figures.pair(*pair) for pair in pairwise(row)) + sum(
            part.alternatives[0].score if part.strange and part.alternatives else part.keep
            for part in parts if part.word not in SIGNS)
        likelihood = KINDS * (len(word) - 1) * (1 if len(parts) == 2 else len(SIGNS))
        together = figures.log_probability(word) + figures.log_case(word, case_of(written)) - log(likelihood)
        advantage = together + self._context(before, word, after) - apart
        why = f"'{word}' is {advantage:.1f} nats likelier in one piece"
        return Outcome(0, 0, advantage, written, why) if advantage > self.margin else None

    def _may_join(self, word: str, parts: Sequence[str]) -> bool:
        """Not compounds that are written apart more often ("back seat"), nor initials."""
        figures = self.figures
        rare = word not in figures.table and figures.log_probability(word) < min(map(figures.log_probability, parts))
        return not (rare and all(map(figures.is_known, parts))) and (len(parts) == 2 or len(word) > 3)

    def _spelt(self, tokens: Sequence[str], letters: Sequence[int]) -> Iterator[Outcome]:
        """Words with spaces between all their letters, which are the tokens at these places."""
        for first, start in enumerate(letters):
            if first and letters[first - 1] == start - 1:
                continue
            last = first
            while last + 1 < len(letters) and letters[last + 1] == letters[last] + 1:
                last += 1
            written = "".join(tokens[start:letters[last] + 1])
            if last > first + 1 and plain(written) in self.figures.vocabulary:
                yield Outcome(start, letters[last], inf, written, f"'{plain(written)}', letter by letter")


class Entries(dict[str, Entry]):
    """Entries of tokens, made when first asked for."""

    def __init__(self, figures: Figures) -> None:
        super().__init__()
        self.figures = figures
        self._by_length: dict[int, list[str]] = {}  # known words, for two edits

    def __missing__(self, token: str) -> Entry:
        if len(self) >= REMEMBERED:
            self.clear()
        entry = self[token] = self._made(token)
        return entry

    def _made(self, token: str) -> Entry:
        figures, word = self.figures, plain(token)
        keep = figures.log_probability(word) + figures.log_case(word, case_of(token))
        if len(word) < 2 or not word.isascii() or not (WORD.fullmatch(token) or self._letters(token)) or (
                len(word) <= ACRONYM and not figures.cased and case_of(token) == UPPER):
            return Entry(word, keep, word, (), False)
        stem, owner = (token[:-2], token[-2:]) if word.endswith("'s") and word not in figures.table else (token, "")
        listed = figures.is_word(plain(stem))
        if not listed and case_of(token) == ODD and (humps := self._humps(token)) is not None:
            keep, listed = max(keep, humps), True
        found = self._alternatives(stem, keep + LOWEST - 2 * LIMIT)
        if owner:
            found = [Alternative(score + OWNER, word + "'s", form + owner) for score, word, form in found]
        found = sorted(found, key=lambda one: (-one.score, one.word))[:MOST]
        better = bool(found) and not figures.is_known(plain(stem)) and found[0].score > keep
        return Entry(word, keep, found[0].word if better else word, tuple(found), not listed and len(stem) > 2)

    def _letters(self, token: str) -> str:
        """The word in a token with one digit or underscore inside; none in numbers, marks and names such as mp3."""
        letters = "".join(filter(str.isalpha, token))
        inside = token[:1].isalpha() and token[-1:].isalpha() and len(token) == len(letters) + 1 > 4
        return letters if inside and plain(letters) in self.figures.vocabulary else ""

    def _humps(self, token: str) -> float | None:
        """The score of a name in camelCase, if its parts are known words."""
        parts = [part.lower() for part in _HUMPS.findall(token)]
        known = len(parts) > 1 and all(len(part) > 1 and self.figures.is_known(part) for part in parts)
        return SPACE + sum(map(self.figures.log_probability, parts)) if known else None

    def _alternatives(self, written: str, least: float) -> list[Alternative]:
        figures, lower = self.figures, plain(written)
        if not WORD.fullmatch(written):
            letters = self._letters(written)
            found = [Edit(plain(letters), letters, 1 / (KINDS * len(letters) * LETTERS))]
        else:
            found = undone(written.replace("\u2019", "'"), figures.vocabulary)
        scored = [Alternative(score + figures.log_case(word, case_of(form)), word, form)
                  for word, form, likelihood in found
                  if (score := figures.log_probability(word) + log(likelihood)) > least]
        if figures.is_word(lower):
            return scored
        scored += self._parted(written, lower)
        if not scored and len(lower) >= TWICE:
            scored = [Alternative(figures.log_probability(one.word) + log(one.likelihood) + AGAIN, one.word,
                                  in_case_of(one.word, written)) for one in undone_twice(lower, self._known())]
        return [one for one in scored if one.score > least]

    def _known(self) -> dict[int, list[str]]:
        if not self._by_length:
            for word in self.figures.vocabulary:
                if self.figures.is_known(word):
                    self._by_length.setdefault(len(word), []).append(word)
        return self._by_length

    def _parted(self, written: str, lower: str) -> list[Alternative]:
        figures = self.figures
        found = ((head, tail, written[:len(head)], written[len(head):]) for head, tail in parted(lower)
                 if figures.is_frequent(head) and figures.is_frequent(tail))
        return [Alternative(SPACE + figures.log_probability(head) + figures.log_case(head, case_of(one))
                            + figures.log_probability(tail) + figures.log_case(tail, case_of(other)),
                            f"{head} {tail}", f"{one} {other}") for head, tail, one, other in found]


def around(entries: Sequence[Entry], first: int, last: int) -> tuple[str, str]:
    """What most likely stands before and behind some tokens."""
    return (entries[first - 1].guess if first else EDGE,
            entries[last + 1].guess if last + 1 < len(entries) else EDGE)


def inflected(one: str, other: str) -> bool:
    """Whether two words are forms of one, told by their endings: a mistake between them does little."""
    short, long = sorted((one, other), key=len)
    return len(short) > 3 and long.startswith(short) and long[len(short):] in _INFLECTIONS
