# SPDX-License-Identifier: Apache-2.0
"""Rare words added until a defence has no masks left for anything else."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from dualmask.attacks.base import Attack, AttackOptions, Family
from dualmask.attacks.constraints import second_text
from dualmask.attacks.hidden import asked, by_swapping, in_rounds
from dualmask.attacks.moves import Transformation
from dualmask.attacks.problem import Answer, Problem, Steps
from dualmask.attacks.transformations import LetterEdit, deleted, inserted, substituted, swapped
from dualmask.options import least
from dualmask.text.words import Words
from dualmask.threats import ADDED_WORDS, Threat

EDITS = (swapped, substituted, deleted, inserted)
# Letters that English texts do not have, though many vocabularies do: Cyrillic, Greek, Georgian, Hebrew and others
MARKS = ("\u0436\u0444\u0449\u044e\u044f\u03be\u03c8\u03c9\u10d0\u10d1"
         "\u05d0\u05d1\u0627\u0628\u0e01\u4e00\u7684\u014b\u0127")


@dataclass(frozen=True, kw_only=True)
class PaddingOptions(AttackOptions):
    where: Literal["start", "end"] = "start"  # at the start padding wins where masks fall on the first of equals
    spare: int = least(0, 1)  # words added beyond need: misspelt words have more pieces, and the masks grow with them
    draws: int = least(1, 2)  # random places tried for each kind of edit
    any_success: bool = True
    follow_words: bool = True


class Padding(Attack):
    """Rare letters that use up the masks, then typing errors that stay in sight.

    Paper: none; the idea is this library's, against DDM (Yang, Yang, Guo, Barthelemy 2026).
    Idea: the number of masks is a share of the text's length, and the rarest tokens get them. As many rare letters as
    there are masks, counting those that their own length adds, leave none for the text itself: from then on the
    defence hides nothing, and ordinary edits follow.
    Acts at: characters; added words first, then every word but stop words.
    Deviations: which letters are rarest and how many are needed is asked of the defence; that is no query. The word
    beside the padding counts as changed and stays as it is. A limit on changed words compares word by word, so padding
    at the start uses it up at once: with max_share or max_words take where=end.
    Relations: steering spends masks on words that are there already; DeepWordBug has the same edits.
    """

    name: ClassVar[str] = "padding"
    family: ClassVar[Family] = "characters"
    threat: ClassVar[Threat | None] = ADDED_WORDS
    against: ClassVar[tuple[str, ...]] = ("ddm",)
    Options = PaddingOptions
    options: PaddingOptions

    def transformations(self) -> Sequence[Transformation]:
        return [LetterEdit(edit, draws=self.options.draws) for edit in EDITS]

    def search(self, problem: Problem) -> Steps[Answer]:
        padded = yield from self.padded(problem.original)
        allowed = yield from self.moves.allowed(problem, padded, problem.original)
        answers = yield from problem.ask(allowed)
        if answers:  # better or worse, the edits build on it
            problem.start = answers[0]
        return problem.start if problem.start.fooled else (yield from in_rounds(problem, self.moves, by_swapping))

    def padded(self, text: Words) -> Steps[list[Words]]:
        """The text with padding for all of the masks; nothing where there are none, or where it can't be done."""
        before = (yield from asked([text]))[0]
        mine = second_text(text) if self.options.fix_premise else range(len(text))
        places = [place for place in before.read(text) if place in mine]
        if not places or not before.masks:
            return []
        place = places[0 if self.options.where == "start" else -1]
        marks = yield from self._rarest(text, place)
        count = len(before.masks)
        while marks and count <= len(before.masked):  # where half of the text is masked no padding is enough
            words = self._added(text, place, marks, count)
            hidden, pads = (yield from asked([words]))[0], self._pads(place, count)
            first, last = words.spans[pads.start][0], words.spans[pads.stop - 1][1]
            if all(first < end and start < last for start, end in hidden.masks):
                return [self._added(text, place, marks, count + self.options.spare)]
            count = max(count + 1, len(hidden.masks))
        return []

    def _rarest(self, text: Words, place: int) -> Steps[list[str]]:
        """Of the letters that are one token those that look most suspicious here."""
        texts = [self._added(text, place, [mark], 1) for mark in MARKS]
        scores: dict[str, float] = {}
        for mark, words, hidden in zip(MARKS, texts, (yield from asked(texts)), strict=True):
            tokens = hidden.tokens(words, self._pads(place, 1).start)
            if len(tokens) == 1:
                scores[mark] = hidden.scores[tokens[0]]
        return [mark for mark, score in scores.items() if score == max(scores.values())]

    def _added(self, text: Words, place: int, marks: Sequence[str], count: int) -> Words:
        pads = [marks[number % len(marks)] for number in range(count)]
        words = [*pads, text[place]] if self.options.where == "start" else [text[place], *pads]
        return text.replaced(place, " ".join(words))

    def _pads(self, place: int, count: int) -> range:
        first = place if self.options.where == "start" else place + 1
        return range(first, first + count)
