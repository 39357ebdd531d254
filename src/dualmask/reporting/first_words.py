# SPDX-License-Identifier: Apache-2.0
"""A report's own words, each explained in a few others where it first stands."""

import re
from collections.abc import Iterator, Sequence

from dualmask.reporting.axes import shown

WORDS = {  # the longer ones first, where one is part of another
    "worst case": "a text counts as held only if every attack failed on it",
    "defence-aware": "the attack asks the defended classifier and knows how its defence works",
    "adaptive": "the attack asks the defended classifier itself",
    "transfer": "texts made against the plain classifier, then shown to the defended one",
    "calibrated": "the attack sees probabilities under a temperature that fits how often the classifier is right",
    "redrawn": "of a defence that draws random numbers, what is left if only successes count that new draws repeat",
    "interval": "the range in which the share on endlessly many such texts lies, in 95 of 100 cases",
    "before attack": "clean accuracy of the attacked texts alone, which are a sample of the test part",
    "clean": "as they are, not attacked, with the defence switched on",
    "CLA": "clean accuracy, the share of texts that are right without an attack",
    "CAA": "accuracy under attack, the share of all texts that are right before it and after it",
    "SUCC": "the share of the texts right before that the attack turned",
    "Holm": "p-values made larger for the number of tests, so that few of many are significant by chance",
    "seed": "the number that all random draws of a training begin with",
    "query": "one text that an attack shows to the classifier to see its answer",
}
PATTERNS = {word: re.compile(rf"\b{re.escape(word)}s?\b", 0 if word[0].isupper() else re.I) for word in WORDS}
PIECES = re.compile(r"(<[^>]*>)")
CLOSED = frozenset({  # elements whose text is no sentence of ours, or is a link or a heading
    "article", "svg", "a", "nav", "h1", "h2", "b", "dl", "summary", "style", "title", "footer", "head", "del", "mark"})


def explained_page(page: str) -> str:
    """The page with an explanation to point at or to tap on, for each word where it first stands."""
    waiting, closed = dict(PATTERNS), 0
    pieces = PIECES.split(page)
    for place, piece in enumerate(pieces):
        if piece.startswith("<"):
            name = re.match(r"</?(\w+)", piece)
            if name and name[1] in CLOSED:
                closed += -1 if piece[1] == "/" else 1
        elif not closed and piece and waiting:
            pieces[place] = explained_text(piece, waiting)
        if not waiting:
            break
    return "".join(pieces)


def explained_text(text: str, waiting: dict[str, re.Pattern[str]]) -> str:
    """A stretch of text; words that are found in it are waited for no longer."""
    taken: list[tuple[int, int, str]] = []
    for word, pattern in list(waiting.items()):
        found = pattern.search(text)
        if found and not any(start < found.end() and found.start() < end for start, end, _ in taken):
            taken.append((*found.span(), word))
            del waiting[word]
    for start, end, word in sorted(taken, reverse=True):
        text = f'{text[:start]}<abbr tabindex="0" title="{shown(WORDS[word])}">{text[start:end]}</abbr>{text[end:]}'
    return text


def explained_parts(parts: Sequence[str]) -> Iterator[str]:
    """The parts of a Markdown text; before one that brings new words, a line explains them."""
    waiting, heading = dict(PATTERNS), ""
    for part in parts:
        if part.startswith("#"):
            heading = part
            yield part
            continue
        new = [word for word, pattern in waiting.items() if pattern.search(f"{heading}\n{part}")]
        if new:
            yield "; ".join(f"*{word}*: {WORDS[word]}" for word in new) + "."
        waiting = {word: pattern for word, pattern in waiting.items() if word not in new}
        yield part
