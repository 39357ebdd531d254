# SPDX-License-Identifier: Apache-2.0
"""Texts as a network is to read them: words restored, exchanged for the head of their cluster, or hidden."""

import re
from collections.abc import Iterator, Sequence
from math import ceil

from torch import nn

from dualmask.text.alternatives import LONGEST
from dualmask.text.clusters import Clusters
from dualmask.text.examples import Example, Text
from dualmask.text.invisible import HIDDEN as HIDDEN
from dualmask.text.invisible import seen, visible
from dualmask.text.lexicon import Figures, Lexicon
from dualmask.text.protection import Protection
from dualmask.text.readings import Reading
from dualmask.text.restoration import Restorer, normalised_readings
from dualmask.text.words import in_case_of

REMEMBERED = 1 << 17  # words: an attack must not fill the memory
_WORD = re.compile(r"\S+")
# Letters that may be exchanged: one alone is a name ("U.S.", "F-16"), beside a digit or an underscore a unit or code
_RUN = re.compile(r"(?<!\w)[^\W\d_]{2,}+(?![\d_])")


class Rewriting(nn.Module):
    """What is done to a text before the network sees it. Each part may be missing."""

    def __init__(
        self, *, lexicon: Lexicon, restorer: Restorer | None, clusters: Clusters | None, budget: float,
    ) -> None:
        super().__init__()
        self.lexicon, self.restorer, self.clusters, self.budget = lexicon, restorer, clusters, budget
        self._known: Heads | None = None

    def fit(self, examples: Sequence[Example]) -> None:
        """Learn words from training examples; how bold to be, from a tenth of them that was set aside at first."""
        aside = examples[::10]
        if self.restorer is not None and len(examples) > len(aside) > 0:
            self.lexicon.fit([one.text for number, one in enumerate(examples) if number % 10])
            self.restorer.calibrate([part for one in aside for part in parts(one.text)])
        self.lexicon.fit([one.text for one in examples])
        if self.clusters is not None:
            self.clusters.fit(examples)

    def readings(self, text: str) -> list[Reading]:
        """Every word that is not read as it is written, in order."""
        found = normalised_readings(text, seen(text)) if self.restorer is None else self.restorer.readings(text)
        found = list(within_budget(found, ceil(self.budget * len(str(visible(text)).split()))))
        return found if self.clusters is None else list(self._exchanged(text, found))

    def _exchanged(self, text: str, found: Sequence[Reading]) -> Iterator[Reading]:
        """Readings in which words became the head of their cluster; those between them, too."""
        if self.restorer is not None and self.restorer.is_foreign(text):
            yield from found
            return
        heads, end = self._heads(), 0
        kept = Protection(text)
        for one in [*found, None]:
            after = len(text) if one is None else one.start
            for match in _RUN.finditer(text, end, after):
                head = heads[match[0]]
                if head != match[0] and not kept.guards(*match.span()):
                    yield Reading(match.start(), match.end(), match[0], head, "canonical", heads.why(match[0]))
            if one is not None:
                end = one.end
                yield one if one.becomes is None or kept.guards(one.start, one.end) else heads.applied(one)

    def _heads(self) -> "Heads":
        """What is remembered about words, begun anew when words or clusters have changed."""
        assert self.clusters is not None
        table, figures = self.clusters.table(), self.lexicon.figures()
        if self._known is None or self._known.table is not table or self._known.figures is not figures:
            self._known = Heads(self.clusters, figures)
        return self._known

    def __call__(self, text: Text) -> Text:
        """The text as it is read, `HIDDEN` where a mask is to stand."""
        if not isinstance(text, str):
            return tuple(str(self(part)) for part in text)  # type: ignore[return-value]
        return "".join(piece for piece, _, _ in self.pieces(text))

    def pieces(self, text: str) -> Iterator[tuple[str, int, int]]:
        """What is read, one piece after the other, and the characters of the text that each stands for."""
        text, end = text.replace(HIDDEN, " "), 0
        for one in self.readings(text):
            yield text[end:one.start], end, one.start
            yield f" {HIDDEN} " if one.becomes is None else one.becomes, one.start, one.end
            end = one.end
        yield text[end:], end, len(text)

    def account(self, text: Text) -> list[Reading]:
        """Every word of a text or a pair that is not read as it is written."""
        return [one._replace(part=number, written=part[one.start:one.end]) for number, part in enumerate(parts(text))
                for one in self.readings(part.replace(HIDDEN, " "))]

    def origins(self, text: Text) -> list[tuple[int, int]]:
        """For each white-space word of what is read the characters of the text that it comes from.

        A pair counts as its texts joined by one character.
        """
        found, shift = list[tuple[int, int]](), 0
        for part in parts(text):
            found += [(start + shift, end + shift) for start, end in self._origins(part)]
            shift += len(part) + 1
        return found

    def _origins(self, text: str) -> list[tuple[int, int]]:
        read, spans = "", list[tuple[int, int]]()
        for number, (piece, start, end) in enumerate(self.pieces(text)):
            read += piece
            kept = number % 2 == 0  # as it is written, letter by letter
            spans += [(start + at, start + at + 1) if kept else (start, end) for at in range(len(piece))]
        return [(spans[word.start()][0], spans[word.end() - 1][1]) for word in _WORD.finditer(read)]


class Heads(dict[str, str]):
    """A word as it is written -> what is read for it. Names stay: words that the training texts write with capitals."""

    def __init__(self, clusters: Clusters, figures: Figures) -> None:
        super().__init__()
        self.clusters, self.table, self.figures = clusters, clusters.table(), figures
        self._reasons: dict[str, str] = {}

    def __missing__(self, written: str) -> str:
        word = written.lower()
        head = self.table.get(word, word)
        found = written if head == word or not self.figures.is_no_name(word, written) else in_case_of(head, written)
        if len(self) < REMEMBERED and len(written) <= LONGEST:
            self[written] = found
        return found

    def applied(self, one: Reading) -> Reading:
        """A word that was put right, read as the head of its cluster."""
        head = _RUN.sub(lambda run: self[run[0]], str(one.becomes))
        return one if head == one.becomes else one._replace(becomes=head, why=f"{one.why}, and read as '{head}'")

    def why(self, written: str) -> str:
        """Only of words that have another head, so that there are not many."""
        if written not in self._reasons:
            self._reasons[written] = self.clusters.reason(written.lower())
        return self._reasons[written]


def rewriting(
    clusters: Clusters | None, *, restore: bool, touched: float, masking: bool, budget: float, obfuscation: bool,
) -> Rewriting:
    """One with all its parts."""
    lexicon = Lexicon()
    restorer = Restorer(lexicon, touched=touched, masking=masking, obfuscation=obfuscation) if restore else None
    return Rewriting(lexicon=lexicon, restorer=restorer, clusters=clusters, budget=budget)


def within_budget(found: Sequence[Reading], most: int) -> Iterator[Reading]:
    """At most so many masks, the first ones; whatever would be another stays as it is written."""
    for one in found:
        if one.becomes is None:
            most -= 1
        if one.becomes is not None or most >= 0:
            yield one


def parts(text: Text) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else text
