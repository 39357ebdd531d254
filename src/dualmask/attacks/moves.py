# SPDX-License-Identifier: Apache-2.0
"""What may be tried next: transformations propose, constraints refuse, and some words are never touched."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dualmask.attacks.problem import Problem, Steps, settled
from dualmask.text.words import Words

Proposals = list[tuple[int, str]]  # a word's place and what to write there
Editable = Callable[[Words], Collection[int]]  # the places that may be edited


class Transformation(Protocol):
    """Proposes replacements for the words at some places."""

    def __call__(self, problem: Problem, current: Words, places: Sequence[int]) -> Proposals | Steps[Proposals]: ...


class Constraint(Protocol):
    """Keeps those of the candidates, each one edit away from the current text, that it allows."""

    def __call__(
        self, problem: Problem, candidates: list[Words], current: Words,
    ) -> list[Words] | Steps[list[Words]]: ...


@dataclass(frozen=True)
class Moves:
    """One step of an attack, whatever the search: from a text to the allowed texts one edit away."""

    transformations: Sequence[Transformation]
    constraints: Sequence[Constraint]
    editable: Sequence[Editable]
    arrange: Callable[[set[int]], list[int]] = sorted  # `list`: the order of a Python set, which TextAttack asks in

    def places(self, current: Words, among: Iterable[int] | None = None) -> list[int]:
        """The words that may be edited, in the order of the text unless arranged otherwise."""
        if current.editable is None or current.editable[0] is not self:
            places = set(range(len(current)))
            for allowed in self.editable:
                places = places & set(allowed(current))
            current.editable = self, self.arrange(places)
        if among is None:
            return current.editable[1]
        wanted = set(among)
        return [place for place in current.editable[1] if place in wanted]

    def candidates(
        self, problem: Problem, current: Words, among: Iterable[int] | None = None,
    ) -> Steps[list[Words]]:
        """Allowed texts one edit away, in the order of the alphabet."""
        places = self.places(current, among)
        found: list[Words] = []
        for transformation in self.transformations if places else ():
            proposals = yield from settled(transformation(problem, current, places))
            found += [current.replaced(place, new) for place, new in proposals if new != current[place]]
        if len(self.transformations) > 1:  # one transformation's own repetitions are kept, and counted as queries
            found = list({words.text: words for words in reversed(found)}.values())[::-1]
        found = yield from self.allowed(problem, found, current)
        return sorted(found, key=lambda words: words.text)

    def allowed(self, problem: Problem, candidates: Sequence[Words], current: Words) -> Steps[list[Words]]:
        """Those that differ from the current text and that every constraint keeps."""
        found = [words for words in candidates if words.text != current.text]
        for constraint in self.constraints:
            if not found:
                break
            found = yield from settled(constraint(problem, found, current))
        return found
