# SPDX-License-Identifier: Apache-2.0
"""How an attack looks for its answer: word by word in order of importance, with a beam, or by evolution."""

from collections.abc import Sequence
from math import exp

from dualmask.attacks.moves import Moves
from dualmask.attacks.problem import Answer, Problem, Steps
from dualmask.attacks.rankings import Ranking, random_choices, salient_choices
from dualmask.text.words import Words

SAME = 1e-6  # similarities nearer than this are equal
FARTHEST = 700.0  # log-odds whose odds are a number still


def greedy(problem: Problem, moves: Moves, ranking: Ranking) -> Steps[Answer]:
    """Visit each word once, most important first, and keep the best replacement if it is better than what was."""
    order = yield from ranking(problem, moves)
    current = problem.start
    for place in order:
        if problem.spent:
            break
        here = current.words.places[place] if problem.terms.follow_words else place
        candidates = yield from moves.candidates(problem, current.words, [here])
        answers = problem.ranked((yield from problem.ask(candidates)))
        if problem.terms.any_success and any(answer.fooled for answer in answers):
            answers = sorted(answers, key=lambda answer: not answer.fooled)
        elif not answers or not problem.better(answers[0], current):
            continue
        current = answers[0]
        if current.fooled:
            return most_similar(answers)
    return current


def in_turn(problem: Problem, moves: Moves, *, drop: bool, chance: bool = False) -> Steps[Answer]:
    """PWWS's own way: each word's replacement is chosen beforehand, on the original, and put in even if it harms.

    chance: in random order, without a question about saliency.
    """
    current = problem.start
    choices = random_choices(problem, moves) if chance else salient_choices(problem, moves, drop=drop)
    for place, changed in (yield from choices):
        if problem.spent:
            break
        if changed is None:
            continue
        allowed = yield from moves.allowed(problem, [current.words.replaced(place, changed[place])], current.words)
        answers = yield from problem.ask(allowed)
        current = answers[0] if answers else current
        if current.fooled:
            break
    return current


def most_similar(answers: Sequence[Answer]) -> Answer:
    """Of the successes that lead the ranking the most similar text; the first where similarity was not measured."""
    best = answers[0]
    for answer in answers:
        if not answer.fooled or answer.words.similarity is None or best.words.similarity is None:
            break
        if answer.words.similarity > best.words.similarity + SAME:
            best = answer
    return best


def beam(problem: Problem, moves: Moves, *, width: int) -> Steps[Answer]:
    """From each of the `width` best texts all texts one edit away, until one succeeds; width 1 is plain greedy."""
    front, best = [problem.start], problem.start
    for _ in problem.original.spans:  # no more steps than words: moves that may edit a word twice would never end
        if best.fooled or problem.spent:
            break
        candidates: list[Words] = []
        for member in front:
            candidates += yield from moves.candidates(problem, member.words)
        if problem.terms.tolerance:  # two edits in either order make one text; TextAttack keeps both
            candidates = list({words.text: words for words in candidates}.values())
        answers = problem.ranked((yield from problem.ask(candidates)))
        if not answers:
            break
        best, front = answers[0], answers[:width]
        if problem.terms.any_success:
            best = next((answer for answer in answers if answer.fooled), best)
    return best


def genetic(problem: Problem, moves: Moves, *, population: int = 60, generations: int = 20) -> Steps[Answer]:
    """Evolution: parents drawn by fitness, children made word by word from both, then changed at one random word."""
    members, best = [problem.start] * population, problem.start
    for _ in range(generations):
        children = yield from _changed(problem, moves, members)
        if not children:
            break
        best = problem.ranked(children)[0]
        if best.fooled or problem.spent:
            break
        members = [best] + [_child(problem, children) for _ in range(population - 1)]
    return best


def _changed(problem: Problem, moves: Moves, members: Sequence[Answer]) -> Steps[list[Answer]]:
    """Each member after the best change of one random word; those that can't be changed stay if they were asked."""
    kept: list[Answer] = []
    for member in members:
        places = moves.places(member.words)
        candidates: list[Words] = []
        if places:
            place = places[problem.streams.place(0, len(places))]
            candidates = yield from moves.candidates(problem, member.words, [place])
        answers = problem.ranked((yield from problem.ask(candidates)))
        if answers:
            kept.append(answers[0])
        elif member.words is not problem.original and problem.known(member.words) is not None:
            kept.append(member)
        if problem.spent or (answers and answers[0].fooled):
            break
    return kept


def _child(problem: Problem, parents: Sequence[Answer]) -> Answer:
    """One parent with words of another, where their numbers of words allow it; its score is its better half's."""
    best = max(parent.score for parent in parents)
    shift = best if abs(best) > FARTHEST else 0.0  # or every weight would be 0, or more than a number can be
    weights = [exp(parent.score - shift) for parent in parents]
    one, other = (parents[problem.streams.drawn(weights)] for _ in range(2))
    words = one.words
    if len(words) == len(other.words):
        for place in range(len(words)):
            if words[place] != other.words[place] and problem.streams.place(0, 2):
                words = words.replaced(place, other.words[place])
    return Answer(words, max(one.score, other.score), False)
