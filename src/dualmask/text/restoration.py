# SPDX-License-Identifier: Apache-2.0
"""Misspelt, parted and joined words put right, and what can't be put right masked.

A word stays unless another one explains it better by a margin, which is set on clean texts so that at most a given
share of their words changes. Then the likeliest word is read, or a mask where that one is not sure.
Left alone are single letters, numbers, words of other alphabets, addresses, handles, code, and texts in another
language. Words with accents, and those that make a whole #tag, are put right but never masked. Names and acronyms have
no rule of their own, but capitals count as evidence: a word that is mostly written in lower case is an unlikely source
of a capitalised one, and a name of the training texts a likely one.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import inf
from unicodedata import combining

import torch
from torch import Tensor, nn

from dualmask.options import check_shares
from dualmask.text.alternatives import LOWEST
from dualmask.text.invisible import Normal
from dualmask.text.lexicon import TOKEN, WORD, Lexicon
from dualmask.text.obfuscation import Undisguised, Undisguising
from dualmask.text.protection import ADDRESS, Protection
from dualmask.text.readings import Action, Reading
from dualmask.text.weighing import Outcome, Weighing

CHUNK = re.compile(r"\w+|\s+|[^\w\s]+")
HIGHEST = 6.0  # margin that calibration may choose
TAG = re.compile(rf"(?<!\w)#({WORD.pattern})(?!\w|\(|\.\w)")  # one word


class Restorer(nn.Module):
    """Reads texts as they most likely were before someone tampered with their words."""

    margin: Tensor  # nats by which another word must be better
    strangers: Tensor  # whether words that are in no list and near no other are masked

    def __init__(
        self, lexicon: Lexicon, *, touched: float = 0.01, masking: bool = True, sure: float = 0.5,
        obfuscation: bool = True,
    ) -> None:
        """At most `touched` of clean words change; the likeliest word is read if its probability is `sure`.

        Without `masking` it is read in any case, and words that are near no other stay as they are. `obfuscation`:
        words that were parted, stretched, written in digits or starred out are read first.
        """
        super().__init__()
        check_shares(touched=touched, sure=sure)
        self._lexicon = (lexicon,)  # in a tuple, since it is no part of this: whoever owns it saves it
        self.touched, self.masking, self.sure, self.obfuscation = touched, masking, sure, obfuscation
        self.register_buffer("margin", torch.tensor(1.0))
        self.register_buffer("strangers", torch.tensor(masking))
        self._weighing: Weighing | None = None
        self._undisguising: Undisguising | None = None
        self._shown: tuple[object, ...] = ()  # what this holds for

    def weighing(self) -> Weighing:
        """What is remembered about words, begun anew when lexicon or margin have changed."""
        buffers = self.margin, self.strangers
        versions = (0 if one.is_inference() else one._version for one in buffers)
        shown = self._lexicon[0].figures(), *buffers, *versions
        if self._weighing is None or any(old is not new for old, new in zip(self._shown, shown, strict=True)):
            self._weighing = self._at(float(self.margin), bool(self.strangers))
            self._shown = shown
        return self._weighing

    def undisguising(self) -> Undisguising:
        """What takes disguises off, for the words that are known now."""
        figures = self._lexicon[0].figures()
        if self._undisguising is None or self._undisguising.figures is not figures:
            self._undisguising = Undisguising(figures, obfuscation=self.obfuscation)
        return self._undisguising

    def _at(self, margin: float, strangers: bool) -> Weighing:
        sure = self.sure if self.masking else 0.0
        return Weighing(self._lexicon[0].figures(), margin, sure=sure, strangers=strangers)

    def calibrate(self, texts: Sequence[str]) -> float:
        """Set the margin on clean texts that the lexicon has not seen; returns the share of words that then changes.

        Where the texts are so full of words in no list that masking these alone would be too much, they stay. The
        margin has an upper limit: a few odd texts must not switch everything off.
        """
        for strangers in (True, False) if self.masking else (False,):
            found, words = _advantages(self._at(LOWEST, strangers), self.undisguising(), texts)
            allowed = int(self.touched * words)
            if allowed < len(found) and found[allowed] == inf and strangers:
                continue
            margin = min(max(found[allowed], LOWEST), HIGHEST) if allowed < len(found) else LOWEST
            break
        if words:
            self.margin = torch.full_like(self.margin, margin)
            self.strangers = torch.full_like(self.strangers, strangers)
        return sum(one > margin for one in found) / max(1, words)

    def readings(self, text: str) -> list[Reading]:
        """What is read otherwise than it is written, in order."""
        weighing = self.weighing()
        undisguised = self.undisguising()(text)
        normal = undisguised.normal
        joins, singles = weighing.outcomes(TOKEN.findall(normal.text))
        if normal.places is None and not joins and not singles:
            return []
        found = [(start, end, outcome) for outcome, start, end in placed(normal.text, joins, singles)]
        # Of a mark that belongs to a letter before it nothing is left where that letter is read otherwise
        return [reading for reading in _readings(text, undisguised, found) if reading.start < reading.end]

    def is_foreign(self, text: str) -> bool:
        """Whether a text is in another language, so that its words stay."""
        weighing = self.weighing()
        return weighing.is_foreign(TOKEN.findall(self.undisguising()(text).normal.text))


def _advantages(weighing: Weighing, undisguising: Undisguising, texts: Sequence[str]) -> tuple[list[float], int]:
    """By how much other words are better, largest first, and the number of words in all."""
    words = 0
    found: list[float] = []
    for text in texts:
        normal = undisguising(text).normal.text
        tokens = TOKEN.findall(normal)
        words += sum(WORD.fullmatch(token) is not None for token in tokens)
        found += (outcome.advantage for outcome, *_ in placed(normal, *weighing.outcomes(tokens)))
    return sorted(found, reverse=True), words


def placed(text: str, joins: Sequence[Outcome], singles: Sequence[Outcome]) -> Iterator[tuple[Outcome, int, int]]:
    """Outcomes with the characters that they are about, in order: joins go first, protected places stay."""
    if not joins and not singles:
        return
    spans = [match.span() for match in TOKEN.finditer(text)]
    taken: set[int] = set()
    chosen = [one for one in sorted(joins, key=lambda one: -one.advantage) if _is_one(text, spans, one)] + list(singles)
    kept = []
    names, addresses = Protection(text), Protection(text, ADDRESS)
    for one in chosen:
        start, end = spans[one.first][0], spans[one.last][1]
        places = set(range(one.first, one.last + 1))
        guarding = (addresses if one.last > one.first else names).guards(start, end)
        tag = TAG.match(text, start - 1) if one.tag and start else None
        if tag is not None and tag.span(1) == (start, end) and guarding == [start - 1]:
            one, guarding = one._replace(becomes=one.tag), []
        if not taken & places and not guarding:
            taken |= places
            kept.append((one, start, end))
    yield from sorted(kept, key=lambda entry: entry[1])


def _is_one(text: str, spans: Sequence[tuple[int, int]], join: Outcome) -> bool:
    """Whether nothing but single spaces, or the sign alone, stands between the parts."""
    between = {text[spans[place][1]:spans[place + 1][0]] for place in range(join.first, join.last)}
    sign = join.last == join.first + 2 and not text[slice(*spans[join.first + 1])].isalnum()
    return between == ({""} if sign else {" "})


def _readings(text: str, undisguised: Undisguised, found: Sequence[tuple[int, int, Outcome]]) -> Iterator[Reading]:
    """Outcomes at their places in the text as it was written, and what else was changed between them."""
    places = undisguised.normal.places
    done = 0, 0  # of the normalised text and of the text
    for start, stop, outcome in found:
        first, last = (start, stop) if places is None else (places[start], places[stop - 1] + 1)
        while places is not None and last < len(text) and combining(text[last]):
            last += 1  # the accent of the last letter is a part of it
        yield from _normalised(text, undisguised, done, (start, first))
        yield Reading(first, last, text[first:last], outcome.becomes, _action(outcome), outcome.why)
        done = stop, last
    yield from _normalised(text, undisguised, done, (len(undisguised.normal.text), len(text)))


def normalised_readings(text: str, normal: Normal) -> list[Reading]:
    """What was changed where no word was exchanged for another."""
    return list(_readings(text, Undisguised(normal, {}), []))


def _normalised(
    text: str, undisguised: Undisguised, start: tuple[int, int], end: tuple[int, int],
) -> Iterator[Reading]:
    """What was changed from one pair of places to another (in the normalised text, in the text), word by word."""
    normal, reasons = undisguised
    if normal.places is None or normal.text[start[0]:end[0]] == text[start[1]:end[1]]:
        return
    inner = [match.start() for match in CHUNK.finditer(normal.text, start[0], end[0])][1:]
    cuts = [start[0], *inner, end[0]]
    edges = [start[1], *(normal.places[cut] for cut in inner), end[1]]  # what left no trace goes to the word before
    for (old, new), (first, last) in zip(pairwise(cuts), pairwise(edges), strict=True):
        left, right = first, last
        if old < new:
            left, right = _without_blanks(text, range(first, last), normal.places[old:new])
        for begin, stop, becomes in ((first, left, ""), (left, right, normal.text[old:new]), (right, last, "")):
            if becomes != text[begin:stop]:
                action, why = reasons.get(begin, ("normalised", "other characters"))
                yield Reading(begin, stop, text[begin:stop], becomes, action, why)


def _without_blanks(text: str, span: range, places: Sequence[int]) -> tuple[int, int]:
    """Where a word, or the white space between two, begins and ends without the invisible words around it."""
    first, end = places[0], places[-1] + 1
    if text[first].isspace():
        return first, end
    before = [place + 1 for place in range(span.start, first) if text[place].isspace()]
    behind = (place for place in range(end, span.stop) if text[place].isspace())
    return max(before, default=span.start), next(behind, span.stop)


def _action(outcome: Outcome) -> Action:
    if outcome.becomes is None:
        return "masked"
    return "joined" if outcome.last > outcome.first else "split" if " " in outcome.becomes else "restored"
