# SPDX-License-Identifier: Apache-2.0
"""Words that nobody sees, in the hope that a defence counts them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dualmask.attacks.base import Attack, AttackOptions, Family
from dualmask.attacks.constraints import second_text
from dualmask.attacks.moves import Transformation
from dualmask.attacks.problem import Answer, Problem, Steps
from dualmask.attacks.rankings import by_unknown
from dualmask.attacks.searches import greedy
from dualmask.attacks.transformations import LetterEdit, deleted, inserted, substituted, swapped
from dualmask.options import least
from dualmask.text.words import Words
from dualmask.threats import INVISIBLE, Threat

EDITS = (swapped, substituted, deleted, inserted)
# Zero-width space and joiner, word joiner, soft hyphen, a selector of variants, a Hangul filler, Braille without dots
BLANKS = ("\u200b", "\u200d", "\u2060", "\u00ad", "\ufe0f", "\u3164", "\u2800")
STEP = 8  # times as many words in each further try


@dataclass(frozen=True, kw_only=True)
class UnseenOptions(AttackOptions):
    most: int = least(1, 512)  # invisible words: more than a network reads
    draws: int = least(1, 1)  # random places tried for each kind of edit
    any_success: bool = True
    follow_words: bool = True


class Unseen(Attack):
    """Words of invisible characters before, amid and behind the text, then typing errors.

    Paper: none; the idea is this library's, against defences that read a text word by word.
    Idea: a defence that counts white-space words may count those that nobody sees: they use up its masks, or the room
    that the text has. Whoever counts only what is read gives the same answers as without.
    Acts at: characters; invisible words first, then every word but stop words.
    Deviations: 1, 8, 64 and 512 words of each of seven characters are tried in three places, 84 queries in all;
    DeepWordBug's edits begin with the best text of all. The word beside invisible ones counts as
    changed. A tokenizer may have pieces for some of these characters: those change any classifier's answer.
    Relations: padding spends DDM's masks on rare letters that everybody sees.
    """

    name: ClassVar[str] = "unseen"
    family: ClassVar[Family] = "characters"
    threat: ClassVar[Threat | None] = INVISIBLE
    against: ClassVar[tuple[str, ...]] = ("ddm-restore", "ranmask")
    Options = UnseenOptions
    options: UnseenOptions

    def transformations(self) -> Sequence[Transformation]:
        return [LetterEdit(edit, draws=self.options.draws) for edit in EDITS]

    def search(self, problem: Problem) -> Steps[Answer]:
        for padded in self.padded(problem.original):
            allowed = yield from self.moves.allowed(problem, padded, problem.original)
            for answer in (yield from problem.ask(allowed)):
                if answer.fooled or problem.better(answer, problem.start):
                    problem.start = answer
                if answer.fooled:
                    return answer
        return (yield from greedy(problem, self.moves, by_unknown))

    def padded(self, text: Words) -> Iterator[list[Words]]:
        """The text with invisible words in it, few at first."""
        places = second_text(text) if self.options.fix_premise else range(len(text))
        count = 1
        while places and count <= self.options.most:
            yield [words for blank in BLANKS for words in self._with(text, places, [blank] * count)]
            count *= STEP

    @staticmethod
    def _with(text: Words, places: Sequence[int], blanks: list[str]) -> Iterator[Words]:
        """Before the first word, before the one in the middle, behind the last."""
        first, middle, last = places[0], places[len(places) // 2], places[-1]
        for place in dict.fromkeys((first, middle)):
            yield text.replaced(place, " ".join([*blanks, text[place]]))
        yield text.replaced(last, " ".join([text[last], *blanks]))
