# SPDX-License-Identifier: Apache-2.0
"""Words in disguise, one at a time: letters repeated, written as digits and signs, or starred out.

Each is read only as a known word, and only if nothing known is written. Short words need more: there is a frequent
word near any two or three letters, and numbers with units, acronyms and codes look like disguises.
"""

import re
from collections.abc import Iterator
from itertools import groupby, product
from math import exp, log, prod
from string import ascii_lowercase, digits
from typing import NamedTuple

from dualmask.text.alternatives import LIMIT, LONGEST, WEIGHT
from dualmask.text.lexicon import ODD, UPPER, WORD, Figures, case_of, plain
from dualmask.text.normalisation import SIGNS

LISTED = 6  # letters from which on a rare word counts as known: nothing else looks like it
FREQUENT = 4.5  # general frequency (zipf) that shorter words need
COMMON = 5.0  # and the shortest
RARER = 2.0  # by how much a repeated spelling that is listed ("sooo") must be rarer than the word
LEET = {**SIGNS, "2": "z", "6": "gb"}
STARS = frozenset("*#%?^~_@")  # each may stand for a letter
MOST_STARS = 2
MOST_READINGS = 128  # of the digits and signs of one word
MOST_RUNS = 5  # of repeated letters, of which every length is tried
VOWELS = "aeiou"
VOWEL = log(3)  # how much likelier a vowel is starred out
SURE = 0.5  # share that the likeliest word must have of all that fit
REPEATED, AS_SIGNS, STARRED = "repeated letters", "digits and signs for letters", "letters starred out"
THRICE = re.compile(r"(.)\1\1")
_UNITS = re.compile(r"\d+(?:st|nd|rd|th|am|pm|[kmgdphxv]|[kmgt]b|[cmk]m|kg|mg|ml|ft|in|lbs?|oz|hrs?|mins?|secs?|mph)",
                    re.I)


class Guess(NamedTuple):
    """A word that may have been meant, letter by letter."""

    form: str  # in the case of what is written
    places: tuple[int, ...]  # of what is written, that each of its letters comes from
    why: str
    sure: bool = True  # False: only in a text that has others


def is_clear(word: str, figures: Figures) -> bool:
    """Whether a word is known, or long enough for a listed one not to be met by chance."""
    return figures.is_known(word) or (
        len(word) >= LISTED and word in figures.vocabulary and not THRICE.search(word))


def shortened(word: str, figures: Figures, before: str, after: str) -> Guess | None:
    """A word of letters some of which are repeated ("idiooooot"), with each once or twice. Not "Aaaargh", nor AAAS."""
    runs = runs_of(word.lower())
    longest = max((length for _, length in runs), default=0)
    doubled = sum(length > 1 for _, length in runs)
    if (longest < 3 and doubled < 3) or len(runs) > LONGEST or plain(word) in figures.table:
        return None
    if (case_of(word) == UPPER and len(word) <= 4) or len(word.lower()) != len(word):
        return None  # an acronym; or a letter that is two in lower case
    guesses = [_cut(word, runs, lengths) for lengths in _lengths(runs)]
    own = figures.zipf(plain(word))
    found = [guess for guess in guesses if _is_meant(plain(guess.form), own, figures, at_start=runs[0][1] > 2)]
    return max(found, key=lambda guess: _score(plain(guess.form), figures, before, after), default=None)


def _score(word: str, figures: Figures, before: str, after: str) -> float:
    """How likely a word is between these neighbours."""
    near = WEIGHT * (figures.pair(before, word) + figures.pair(word, after))
    return figures.log_probability(word) + min(max(near, -LIMIT), LIMIT)


def runs_of(word: str) -> list[tuple[int, int]]:
    """Where each run of one character begins, and how long it is."""
    found, start = list[tuple[int, int]](), 0
    for _, run in groupby(word):
        length = len(list(run))
        found.append((start, length))
        start += length
    return found


def _lengths(runs: list[tuple[int, int]]) -> Iterator[tuple[int, ...]]:
    """How long the runs may have been: hardly a word begins with a double letter."""
    free = [number for number, (place, length) in enumerate(runs) if length > 1 and place]
    once = [1] * len(runs)
    if len(free) <= MOST_RUNS:
        for lengths in product((1, 2), repeat=len(free)):
            chosen = dict(zip(free, lengths, strict=True))
            yield tuple(chosen.get(number, 1) for number in range(len(runs)))
        return
    yield tuple(once)
    for number in free:
        yield (*once[:number], 2, *once[number + 1:])


def _cut(word: str, runs: list[tuple[int, int]], lengths: tuple[int, ...]) -> Guess:
    places: list[int] = []
    for (start, length), kept in zip(runs, lengths, strict=True):
        places += [start, start + length - 1][:kept] if kept > 1 else [start]
    places[-1] = len(word) - 1
    return Guess("".join(word[place] for place in places), tuple(places), REPEATED)


def _is_meant(word: str, own: float, figures: Figures, *, at_start: bool) -> bool:
    if len(set(word)) < 2 or not is_clear(word, figures) or (own and figures.zipf(word) < own + RARER):
        return False
    return len(word) > 3 or (figures.zipf(word) >= (FREQUENT if len(word) == 3 else COMMON) and not at_start)


def unsigned(core: str, figures: Figures) -> Guess | None:
    """A word with more digits and signs than one expects, or with them at its ends ("1d10t", "fr33", "4r3")."""
    word = plain(core)
    signs = [place for place, letter in enumerate(core) if letter in LEET]
    letters = len(core) - len(signs)
    if not signs or not letters or len(core) > LONGEST or figures.is_known(word) or _UNITS.fullmatch(core):
        return None
    if any(letter not in LEET and not (letter.isascii() and letter.isalpha()) for letter in core):
        return None
    choices = [LEET[core[place]] for place in signs]
    if prod(map(len, choices)) > MOST_READINGS:
        return None
    loud = letters > 1 and core.isupper()
    forms = [_filled(core, signs, "".join(chosen), loud=loud) for chosen in product(*choices)]
    known = [form for form in forms if is_clear(plain(form), figures) and WORD.fullmatch(form)]
    best = max(known, key=lambda form: figures.log_probability(plain(form)), default=None)
    if best is None or (len(best) < 4 and figures.zipf(plain(best)) < COMMON):
        return None
    enough = letters > 1 and (3 * letters >= len(core) or len(core) >= LISTED)
    sure = enough and (len(core) > 4 or (len(core) == 4 and _is_frequent(best, core, figures)))
    return Guess(best, tuple(range(len(core))), AS_SIGNS, sure)


def _is_frequent(form: str, core: str, figures: Figures) -> bool:
    """Whether a reading of four letters is a frequent word, and what is written no other with a number beside it."""
    rest = plain(core.strip(digits))
    return figures.zipf(plain(form)) >= FREQUENT and not (len(rest) > 2 and figures.is_known(rest))


def _filled(core: str, places: list[int], letters: str, *, loud: bool) -> str:
    form = list(core)
    for place, letter in zip(places, letters, strict=True):
        form[place] = letter.upper() if loud else letter
    return "".join(form)


def stars(core: str) -> list[int]:
    """Where letters of a word are starred out: one or two inside; none where it is no such word."""
    found = [place for place, letter in enumerate(core) if letter in STARS] if len(core) <= LONGEST else []
    inside = 0 < len(found) <= MOST_STARS and found[0] > 0 and found[-1] < len(core) - 1
    rest = "".join(letter for letter in core if letter not in STARS)
    if not inside or not (rest.isascii() and rest.isalpha()) or len(core) < 2 + len(found):
        return []
    return found


def unstarred(core: str, figures: Figures, before: str, after: str) -> Guess | None:
    """The likeliest word between these neighbours, if it is likelier than all others that fit together.

    Stars may stand between the letters of a known word as well ("mo*vie"): that is left to be joined. Of three letters
    only a vowel may be starred out.
    """
    places = stars(core)
    lower, rest = plain(core), "".join(letter for letter in core if letter not in STARS)
    case = case_of(rest)
    if not places or case == ODD:
        return None  # "him?Not": two words
    scores: dict[str, float] = {}
    if len(rest) > 3 and figures.is_known(plain(rest)):
        scores[plain(rest)] = _score(plain(rest), figures, before, after) + figures.log_case(plain(rest), case)
    for letters in product(VOWELS if len(core) == 3 else ascii_lowercase, repeat=len(places)):
        word = _filled(lower, places, "".join(letters), loud=False)
        if word in figures.vocabulary and is_clear(word, figures) and (len(word) > 3 or figures.zipf(word) >= COMMON):
            vowels = sum(letter in VOWELS for letter in letters)
            scores[word] = _score(word, figures, before, after) + figures.log_case(word, case) + VOWEL * vowels
    best = max(scores, key=scores.__getitem__, default=None)
    if best is None or len(best) < len(core) or SURE * sum(exp(score - scores[best]) for score in scores.values()) > 1:
        return None
    return Guess(_filled(core, places, "".join(best[place] for place in places), loud=case == UPPER),
                 tuple(range(len(core))), STARRED)
