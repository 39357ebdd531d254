# SPDX-License-Identifier: Apache-2.0
"""Texts with their disguises off: plain letters, and words that were parted, stretched, in digits or starred out.

Most texts have none of these: what each piece between white space says is remembered, and a text none of whose pieces
may be disguised costs a look at each.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dualmask.text.alternatives import LONGEST, REMEMBERED
from dualmask.text.disguises import LEET, STARS, THRICE, Guess, runs_of, shortened, stars, unsigned, unstarred
from dualmask.text.invisible import Normal
from dualmask.text.lexicon import EDGE, WORD, Figures, plain
from dualmask.text.normalisation import SIGNS, normalised
from dualmask.text.parted_letters import ROW, TRACE, parted_letters
from dualmask.text.protection import ADDRESS, Protection
from dualmask.text.readings import Action

_CHUNK = re.compile(r"\S+")
_CORE = re.compile(rf"(?:[^\W_]|[{re.escape(''.join((*LEET, *STARS)))}])+")
_OPENING, _CLOSING = "*#%?^~_", "!|*#%?^~_@"  # marks of emphasis, headings and sentences around a word
_TRAILING = re.escape("".join(sign for sign in LEET if sign not in _CLOSING))
_LETTER, _SIGNS = r"[^\W\d_]", rf"[{re.escape(''.join(LEET))}]"
# What any of them leaves: repeated letters, a digit or sign on either side of a letter, one that parts single letters
_TRACE = re.compile(
    rf"({_LETTER})\1\1|({_LETTER})\2({_LETTER})\3({_LETTER})\4|{_SIGNS}(?={_LETTER})|(?<={_LETTER})[{_TRAILING}]"
    rf"|(?<={_LETTER})[{re.escape(_CLOSING)}]++(?=[^\W_])|{ROW.pattern}", re.I)
_LONGEST_CHUNK = 256  # characters of what is remembered


class Undisguised(NamedTuple):
    """A text as it is read letter by letter, and why words of it are: by where these begin in what is written."""

    normal: Normal
    reasons: dict[int, tuple[Action, str]]


class Undisguising:
    """Takes disguises off, for the words of one lexicon; without `obfuscation` only characters become plain ones."""

    def __init__(self, figures: Figures, *, obfuscation: bool) -> None:
        self.figures, self.obfuscation = figures, obfuscation
        self._doubts = Doubts(figures)

    def __call__(self, text: str) -> Undisguised:
        normal = normalised(text, self.figures.is_known)
        if not self.obfuscation:
            return Undisguised(normal, {})
        doubtful = self._doubts.any_in(normal.text)
        if not doubtful and not TRACE.search(normal.text):
            return Undisguised(normal, {})
        found = _undisguised(Undisguised(normal, {}), [
            Disguise(one.places[0], one.places[-1] + 1, one.form, one.places, "joined", one.why)
            for one in parted_letters(normal.text, self.figures, self._doubts.is_readable)])
        if not doubtful and not found.reasons:
            return found
        return _undisguised(found, self._guesses(found.normal.text, hint=_has_signs_read(text, normal)))

    def _guesses(self, text: str, *, hint: bool) -> "list[Disguise]":
        """Words to read otherwise. Those of which we are not sure count where others are written in the same way."""
        found: list[tuple[int, Guess, str]] = []
        chunks = list(_CHUNK.finditer(text))
        for number, chunk in enumerate(chunks):
            if self._doubts.holds(chunk[0]):
                before = _last_word(chunks[number - 1][0]) if number else EDGE
                after = _first_word(chunks[number + 1][0]) if number + 1 < len(chunks) else EDGE
                for start, core in cores(chunk[0]):
                    guess = guessed(core, self.figures, before, after)
                    if guess is not None:
                        found.append((chunk.start() + start, guess, core))
        certain = hint or any(guess.sure for _, guess, _ in found)
        return [Disguise(start, start + len(core), guess.form, tuple(start + place for place in guess.places),
                         "restored", guess.why) for start, guess, core in found if certain or guess.sure]


class Disguise(NamedTuple):
    """A word in disguise: where it stands, what is read, where each character of that comes from, and why."""

    start: int
    end: int
    form: str
    places: tuple[int, ...]
    action: Action
    why: str


class Doubts:
    """Which pieces of texts, without white space, may hold a disguise: worked out when first asked for."""

    def __init__(self, figures: Figures) -> None:
        self.figures = figures
        self._harmless: set[str] = set()

    def any_in(self, text: str) -> bool:
        chunks = text.split()
        return not self._harmless.issuperset(chunks) and any(map(self.holds, chunks))

    def holds(self, chunk: str) -> bool:
        """Whether a piece may hold one. That it may is not remembered, since there are few that do."""
        if chunk in self._harmless:
            return False
        if _TRACE.search(chunk) and (ROW.search(chunk) or any(
                stars(core) or guessed(core, self.figures, EDGE, EDGE) for _, core in cores(chunk))):
            return True
        if len(chunk) <= _LONGEST_CHUNK:
            if len(self._harmless) >= REMEMBERED:
                self._harmless.clear()
            self._harmless.add(chunk)
        return False

    def is_readable(self, letters: str) -> bool:
        """Whether letters in one piece are a disguise by themselves."""
        guess = guessed(letters, self.figures, EDGE, EDGE)
        return guess is not None and guess.sure


def cores(chunk: str) -> Iterator[tuple[int, str]]:
    """The words of a piece of text that may be disguised, and where they begin: not those of names and addresses."""
    if chunk.isalpha():
        yield 0, chunk
        return
    names, addresses = Protection(chunk), Protection(chunk, ADDRESS)
    for match in _CORE.finditer(chunk):
        left = match[0].lstrip(_OPENING)
        core, start = left.rstrip(_CLOSING), match.end() - len(left)
        end = start + len(core)
        signs = (place for place in names.guards(start, end) if place <= start or chunk[place] not in "@#")
        if len(core) > 1 and not addresses.guards(start, end) and next(signs, None) is None:
            yield start, core


def guessed(core: str, figures: Figures, before: str, after: str) -> Guess | None:
    """What a word in disguise most likely is, between these neighbours."""
    if core.isalpha():
        return shortened(core, figures, before, after)
    found = unsigned(core, figures)
    if found is None and core.isascii() and THRICE.search(core):
        places = [place for start, length in runs_of(core.lower())
                  for place in range(start, start + (1 if length > 2 else length))]
        places[-1] = len(core) - 1
        short = unsigned("".join(core[place] for place in places), figures)
        found = None if short is None else short._replace(places=tuple(places[place] for place in short.places))
    return unstarred(core, figures, before, after) if found is None else found


def _last_word(chunk: str) -> str:
    words = WORD.findall(chunk[-LONGEST:])
    return plain(words[-1]) if words else EDGE


def _first_word(chunk: str) -> str:
    word = WORD.search(chunk[:LONGEST])
    return plain(word[0]) if word else EDGE


def _has_signs_read(text: str, normal: Normal) -> bool:
    """Whether digits or signs were read as letters already."""
    return normal.places is not None and any(
        letter.isalpha() and text[place] in SIGNS for letter, place in zip(normal.text, normal.places, strict=True))


def _undisguised(before: Undisguised, disguises: Sequence[Disguise]) -> Undisguised:
    """With these words, in order, read otherwise."""
    if not disguises:
        return before
    text = before.normal.text
    old = list(range(len(text))) if before.normal.places is None else before.normal.places
    pieces, places, reasons, end = list[str](), list[int](), dict(before.reasons), 0
    for one in disguises:
        pieces += text[end:one.start], one.form
        places += old[end:one.start]
        new = [old[place] for place in one.places]
        for word in _CHUNK.finditer(one.form):
            first = new[word.start()]
            why = f"{reasons[first][1]}, {one.why}" if first in reasons else one.why
            reasons[first] = (reasons[first][0] if first in reasons else one.action, why)
        places += new
        end = one.end
    return Undisguised(Normal("".join([*pieces, text[end:]]), [*places, *old[end:]]), reasons)
