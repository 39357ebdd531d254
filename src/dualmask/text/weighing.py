# SPDX-License-Identifier: Apache-2.0
"""Words weighed against others that may have been meant: a noisy channel.

The score of a word is ln P(word) + ln P(its case) + context + ln P(edit), without the last for the word as it is
written. What can be said about a token without its neighbours is worked out once and remembered.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import exp, inf, log
from typing import NamedTuple

from dualmask.text.alternatives import FLOOR, LIMIT, LONGEST, REMEMBERED, WEIGHT, Entries, Entry
from dualmask.text.edits import KINDS
from dualmask.text.lexicon import EDGE, Figures, case_of, plain
from dualmask.text.normalisation import is_disguised

SIGNS = frozenset("-._*#@+~^|'")  # that may part a word, besides a space
FOREIGN = -12.0  # mean worth of words below which a text is in another language
DOUBTFUL = -10.5  # and below which it may be, so that accents are no trick
FEWEST = 4  # words that tell so
TAG = 1.0  # nats by which a word behind a # must be better still: tags are made up
_INFLECTIONS = ("s", "es", "d", "ed", "'s")


class Outcome(NamedTuple):
    """A place at which something else is read."""

    first: int  # tokens from here
    last: int  # to here
    advantage: float  # of the best alternative, in nats
    becomes: str | None  # None: a mask
    why: str
    tag: str | None = None  # what is read behind a #


class Weighing:
    """All that a restorer remembers, for one lexicon and one margin."""

    def __init__(self, figures: Figures, margin: float, *, sure: float, strangers: bool) -> None:
        """`sure`: share of the likeliest word, below which it is masked; `strangers`: words in no list are masked."""
        self.figures, self.margin, self.sure, self.strangers = figures, margin, sure, strangers
        self._entries = Entries(figures)
        self._outcomes: dict[tuple[str, ...], Outcome | None] = {}
        self._joined: dict[tuple[str, ...], Outcome | None] = {}

    def outcomes(self, tokens: Sequence[str]) -> tuple[list[Outcome], list[Outcome]]:
        """Words joined from several tokens, which must be looked at in the text, and words read otherwise."""
        entries = list(map(self._entries.__getitem__, tokens))
        joins = list(self._joins(tokens, entries))
        singles = []
        row = ("", *tokens, "")
        for place, entry in enumerate(entries):
            if entry.alternatives or entry.strange:
                found = self._single(row[place:place + 3], entries, place)
                if found is not None:
                    singles.append(found._replace(first=place, last=place))
        if joins or singles:
            worth = self._worth(entries, joins)
            if worth < FOREIGN:
                return [], []
            if worth < DOUBTFUL:
                singles = [one for one in singles if (word := plain(tokens[one.first])).isascii() or is_disguised(word)]
        return joins, singles

    def is_foreign(self, tokens: Sequence[str]) -> bool:
        entries = list(map(self._entries.__getitem__, tokens))
        return self._worth(entries, list(self._joins(tokens, entries))) < FOREIGN

    def _worth(self, entries: Sequence[Entry], joins: Sequence[Outcome]) -> float:
        """Mean ln P of the words that were most likely meant; 0 where they are too few to tell the language by."""
        parts = {place for join in joins for place in range(join.first, join.last + 1)}
        found = [one.worth for place, one in enumerate(entries) if one.worth is not None and place not in parts]
        found += [max(self.figures.log_probability(plain(str(join.becomes))), FLOOR) for join in joins]
        return sum(found) / len(found) if len(found) >= FEWEST else 0.0

    def _single(self, key: tuple[str, ...], entries: Sequence[Entry], place: int) -> Outcome | None:
        """`key`: the token between its neighbours, which settle it, but for a # that is passed over."""
        if "#" in key or max(map(len, key)) > LONGEST:  # long ones are not remembered
            return self._weighed(key[1], entries[place], *around(entries, place, place))
        if key not in self._outcomes:
            if len(self._outcomes) >= REMEMBERED:
                self._outcomes.clear()
            self._outcomes[key] = self._weighed(key[1], entries[place], *around(entries, place, place))
        return self._outcomes[key]

    def _weighed(self, token: str, entry: Entry, before: str, after: str) -> Outcome | None:
        keep = entry.keep + self._context(before, entry.word, after)
        if not entry.strange and entry.alternatives[0].score + LIMIT - keep <= self.margin:
            return None  # whatever the neighbours say
        scores = {one: one.score + self._context(before, one.word, after) for one in entry.alternatives}
        best = max(scores, key=scores.__getitem__, default=None)
        strange = entry.strange and self.strangers and not entry.spared
        advantage = -inf if best is None else scores[best] - keep
        if best is None or advantage <= self.margin:
            named = token if len(token) <= LONGEST else f"{token[:LONGEST]}..."
            why = f"'{named}' is no known word, nor near one" if best is None else f"'{named}' is no known word"
            return Outcome(0, 0, inf, None, why) if strange else None
        shares = {one: exp(score - scores[best]) for one, score in scores.items()}
        own = sum(share for one, share in shares.items() if one == best or inflected(one.word, best.word))
        rank = inf if strange else advantage
        known = self.figures.is_known(entry.word) or " " in best.word
        behind = best.form if not known and advantage > self.margin + TAG else None
        if own < self.sure * sum(shares.values()) and not entry.spared:
            likely = sorted(shares, key=lambda one: -shares[one])[:3]
            return Outcome(0, 0, rank, None, f"may be {' or '.join(repr(one.word) for one in likely)}", behind)
        return Outcome(0, 0, rank, best.form, f"'{best.word}' is {advantage:.1f} nats likelier here", behind)

    def _context(self, before: str, word: str, after: str) -> float:
        """What the neighbours say, within limits."""
        found = self.figures.pair(before, word.split(" ")[0]) + self.figures.pair(word.split(" ")[-1], after)
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


def around(entries: Sequence[Entry], first: int, last: int) -> tuple[str, str]:
    """What most likely stands before and behind some tokens; the # of a tag is passed over."""
    before = first - 2 if first and entries[first - 1].word == "#" else first - 1
    after = last + 2 if last + 1 < len(entries) and entries[last + 1].word == "#" else last + 1
    return (entries[before].guess.split(" ")[-1] if before >= 0 else EDGE,
            entries[after].guess.split(" ")[0] if after < len(entries) else EDGE)


def inflected(one: str, other: str) -> bool:
    """Whether two words are forms of one, told by their endings: a mistake between them does little."""
    short, long = sorted((one, other), key=len)
    return len(short) > 3 and long.startswith(short) and long[len(short):] in _INFLECTIONS
