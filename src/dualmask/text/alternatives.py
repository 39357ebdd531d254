# SPDX-License-Identifier: Apache-2.0
"""Which other words may have been meant by a token, and how likely each is, before its neighbours are asked."""

import re
from math import log
from typing import NamedTuple

from dualmask.text.edits import KINDS, LETTERS, Edit, parted, undone, undone_twice
from dualmask.text.lexicon import ODD, OWNER, UPPER, WORD, Figures, case_of, plain
from dualmask.text.normalisation import is_disguised, unaccented
from dualmask.text.words import in_case_of

LIMIT = 4.0  # nats that context may speak for or against a word
WEIGHT = 0.85  # of the context: both neighbours in part say the same
LOWEST = -1.0  # margin by which another word must be better, at least
MOST = 8  # alternatives that are weighed
ACRONYM = 4  # letters of a word in capitals that is never masked where training texts have none; shorter ones stay
TWICE = 7  # letters from which on two edits are thought of
SPACE = log(1 / 50)  # how likely the space between two words is lost
ALONE = log(1 / 1000)  # and that behind "a" or "I": a letter more before a word is likelier
WHOLE = 4  # letters of a part that need not be frequent: shorter ones are found in any word
AGAIN = log(1 / 20)  # how likely a second edit
ACCENT = log(1 / 100)  # how likely an English word is written with accents that it hasn't
ACCENTED = log(1 / 500)  # how likely a word in no list has accents
CAMEL = log(1 / 10_000)  # how likely two words make a name in CamelCase
FLOOR = -16.0  # ln P that a word is worth at least: a few strange ones make no text a foreign one
REMEMBERED = 1 << 17  # tokens: an attack must not fill the memory
LONGEST = 64  # letters that are looked at: to find other words for n letters takes n * n steps
_HUMPS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")  # of camelCase


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
    alternatives: tuple[Alternative, ...] = ()  # those that neighbours may let win, best first
    strange: bool = False  # a word in no list
    spared: bool = False  # from being a mask
    worth: float | None = None  # ln P(guess); None if it is no word


class Entries(dict[str, Entry]):
    """Entries of tokens, made when first asked for."""

    def __init__(self, figures: Figures) -> None:
        super().__init__()
        self.figures = figures
        self._by_length: dict[int, list[str]] = {}  # known words, for two edits

    def __missing__(self, token: str) -> Entry:
        if len(self) >= REMEMBERED:
            self.clear()
        if len(token) > LONGEST:
            return self._cut(token)  # and not remembered
        as_plain = plain(token).isascii() or is_disguised(plain(token))  # a strange letter is one put for another
        entry = self._made(token) if as_plain else self._accented(token)
        if len(token) > 1 and WORD.fullmatch(token):
            likely = max(map(self.figures.log_probability, entry.guess.split(" ")))
            entry = entry._replace(worth=max(likely, FLOOR))
        self[token] = entry
        return entry

    def _cut(self, token: str) -> Entry:
        """Of a run of letters or digits that is longer than words are: it stays or is a mask, whatever is beside it."""
        word, is_word = plain(token), WORD.fullmatch(token) is not None
        strange = is_word and word.isascii() and not self.figures.is_known(word)
        return Entry(word, FLOOR, word[:LONGEST], strange=strange, worth=FLOOR if is_word else None)

    def _made(self, token: str) -> Entry:
        figures, word = self.figures, plain(token)
        keep = figures.log_probability(word) + figures.log_case(word, case_of(token))
        acronym = len(word) <= ACRONYM and not figures.cased and case_of(token) == UPPER
        if len(word) < 2 or not (WORD.fullmatch(token) or self._letters(token)) or (acronym and len(word) < ACRONYM):
            return Entry(word, keep, word)
        stem, owner = (token[:-2], token[-2:]) if word.endswith("'s") and word not in figures.table else (token, "")
        listed = figures.is_word(plain(stem))
        if not listed and case_of(token) == ODD and (humps := self._humps(token)) is not None:
            keep, listed = max(keep, humps), True
        found = self._alternatives(stem, keep + LOWEST - 2 * LIMIT)
        if owner:
            found = [Alternative(score + OWNER, word + "'s", form + owner) for score, word, form in found]
        found = sorted(found, key=lambda one: (-one.score, one.word))[:MOST]
        better = bool(found) and not figures.is_known(plain(stem)) and found[0].score > keep
        strange = not listed and len(stem) > 2
        return Entry(word, keep, found[0].word if better else word, tuple(found), strange, acronym)

    def _accented(self, token: str) -> Entry:
        """Of a word with accents: it or its sources without them may have been meant. It is never a mask."""
        figures, word, bare = self.figures, plain(token), unaccented(token)
        listed = word in figures.table or figures.zipf(word) > 0
        keep = figures.log_probability(word) if listed else figures.log_unlisted(plain(bare)) + ACCENTED
        keep += figures.log_case(word, case_of(token))
        if len(word) < 2 or word in figures.table or not bare.isascii() or not WORD.fullmatch(token):
            return Entry(word, keep, word)
        entry = self[bare]
        found = [Alternative(one.score + 2 * ACCENT, one.word, one.form)  # an edit besides is one more thing to happen
                 for one in entry.alternatives if " " not in one.word]
        if figures.is_word(plain(bare)):
            found.append(Alternative(entry.keep + ACCENT, entry.word, bare))
        found = sorted((one for one in found if one.score > keep + LOWEST - 2 * LIMIT), key=lambda one: -one.score)
        better = bool(found) and found[0].score > keep
        return Entry(word, keep, found[0].word if better else word, tuple(found), spared=True)

    def _letters(self, token: str) -> str:
        """The word in a token with one digit or underscore inside; none in numbers, marks and names such as mp3."""
        letters = "".join(filter(str.isalpha, token))
        inside = token[:1].isalpha() and token[-1:].isalpha() and len(token) == len(letters) + 1 > 4
        return letters if inside and plain(letters) in self.figures.vocabulary else ""

    def _humps(self, token: str) -> float | None:
        """The score of a name in camelCase, if its parts are known words."""
        parts = [part.lower() for part in _HUMPS.findall(token)]
        known = len(parts) > 1 and all(len(part) > 1 and self.figures.is_known(part) for part in parts)
        name = CAMEL if token[0].isupper() else SPACE
        return name + sum(map(self.figures.log_probability, parts)) if known else None

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
        if not figures.is_known(lower):
            scored += self._parted(written, lower)
        if not scored and not figures.is_word(lower) and len(lower) >= TWICE:
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
        """Two words for one, which are neighbours. Neighbours of both say more, later."""
        found = []
        for head, tail in parted(lower):
            if self._is_part(head) and self._is_part(tail):
                one, other = written[:len(head)], written[len(head):]
                case = self.figures.log_case(head, case_of(one)) + self.figures.log_case(tail, case_of(other))
                found.append(Alternative(self._log_parted(head, tail) + case, f"{head} {tail}", f"{one} {other}"))
        return found

    def _log_parted(self, head: str, tail: str) -> float:
        figures, lost = self.figures, SPACE if len(head) > 1 else ALONE
        together = min(max(WEIGHT * figures.pair(head, tail), -LIMIT), LIMIT)
        return lost + figures.log_probability(head) + figures.log_probability(tail) + together

    def _is_part(self, word: str) -> bool:
        return self.figures.is_frequent(word) or (len(word) >= WHOLE and self.figures.is_word(word))
