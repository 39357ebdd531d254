# SPDX-License-Identifier: Apache-2.0
"""Which words matter: the places that may be edited, most important first."""

import re
from collections.abc import Callable, Sequence

import numpy as np

from dualmask.attacks.moves import Moves
from dualmask.attacks.problem import Problem, Steps
from dualmask.text.words import Words

SENTENCE = re.compile(r"[^.!?]+[.!?]*")
Ranking = Callable[[Problem, Moves], Steps[list[int]]]


def by_unknown(problem: Problem, moves: Moves) -> Steps[list[int]]:
    """How much is lost when a word becomes an unknown one."""
    places = moves.places(problem.original)
    rows = yield from problem.probe([problem.original.replaced(place, problem.unknown) for place in places])
    return [places[rank] for rank in problem.order([problem.score(row) for row in rows])]


def by_deletion(problem: Problem, moves: Moves, *, new_label: bool = False) -> Steps[list[int]]:
    """How much is lost without a word; with `new_label` also what another label gains when it takes over."""
    places = moves.places(problem.original)
    rows = yield from problem.probe([problem.original.deleted(place) for place in places])
    first = problem.known(problem.original)
    scores = [problem.loss(row) if new_label else problem.score(row) for row in rows]
    if new_label and first is not None:
        for rank, row in enumerate(rows):
            if (top := row.index(max(row))) != problem.label:
                scores[rank] += row[top] - first[top]
    return [places[rank] for rank in problem.order(scores)]


def by_sentences(problem: Problem, moves: Moves) -> Steps[list[int]]:
    """First the sentences that alone are surest of the label, then in each the words that matter when deleted.

    Pairs of texts are ranked by deletion.
    """
    places, text = moves.places(problem.original), problem.original
    if text.boundary is not None:
        return (yield from by_deletion(problem, moves))
    spans = [match.span() for match in SENTENCE.finditer(text.text)]
    alone = yield from problem.probe([Words(text.text[start:end].strip(), rule=text.rule) for start, end in spans])
    rows = yield from problem.probe([text.deleted(place) for place in places])
    scores = [problem.score(row) for row in rows]
    order: list[int] = []
    for rank in problem.order([problem.belief(row) for row in alone]):
        start, end = spans[rank]
        here = [place for place, _ in enumerate(scores) if start <= text.spans[places[place]][0] < end]
        order += [places[here[best]] for best in problem.order([scores[place] for place in here])]
    return order


def by_saliency(problem: Problem, moves: Moves, *, drop: bool = False) -> Steps[list[int]]:
    """Softmax of what [UNK] costs, times the best replacement's score or, with `drop`, its gain over the original."""
    return [place for place, _ in (yield from salient_choices(problem, moves, drop=drop))]


def salient_choices(problem: Problem, moves: Moves, *, drop: bool = False) -> Steps[list[tuple[int, Words | None]]]:
    """The same places, each with the original changed there in the best way; None where nothing can be done."""
    places = moves.places(problem.original)
    rows = yield from problem.probe([problem.original.replaced(place, problem.unknown) for place in places])
    saliency = np.array([problem.loss(row) for row in rows], dtype=np.float32)
    first = problem.known(problem.original)
    powers = np.exp(saliency - saliency.max(initial=0))
    shares = powers / powers.sum() if len(powers) else powers
    best, reached = yield from best_changes(problem, moves, places[:len(shares)])
    before = problem.loss(first) if drop and first else 0
    gains = np.array([0.0 if loss is None else loss - before for loss in reached])
    return [(places[rank], best[rank]) for rank in problem.order((shares * gains).tolist())]


def random_choices(problem: Problem, moves: Moves) -> Steps[list[tuple[int, Words | None]]]:
    """Places by chance, each with the original changed there in the best way; None where nothing can be done."""
    places = yield from by_chance(problem, moves)
    best, _ = yield from best_changes(problem, moves, places)
    return list(zip(places, best, strict=True))


def best_changes(
    problem: Problem, moves: Moves, places: Sequence[int],
) -> Steps[tuple[list[Words | None], list[float | None]]]:
    """For each place the original with the candidate that costs most there, and the loss that it leads to."""
    best, reached = list[Words | None]([None] * len(places)), list[float | None]([None] * len(places))
    for rank, place in enumerate(places):
        if problem.spent:
            break
        candidates = yield from moves.candidates(problem, problem.original, [place])
        found = yield from problem.probe(candidates)
        if found:
            losses = [problem.loss(row) for row in found]
            best[rank], reached[rank] = candidates[problem.order(losses)[0]], max(losses)
    return best, reached


def by_prefixes(problem: Problem, moves: Moves, *, tail_weight: float = 1.0) -> Steps[list[int]]:
    """How much each word adds when the text is read from its head, plus the same from its tail.

    Pairs of texts are ranked as `by_unknown` does.
    """
    text, places = problem.original, moves.places(problem.original)
    if text.boundary is not None:
        return (yield from by_unknown(problem, moves))
    heads = [Words(text.text[:end], rule=text.rule) for _, end in text.spans]
    tails = [Words(text.text[start:], rule=text.rule) for start, _ in text.spans]
    rows = yield from problem.probe([*heads, *tails, Words("", rule=text.rule)])
    right = [problem.belief(row) for row in rows]
    right += [right[-1] if right else 0.0] * (2 * len(text) + 1 - len(right))  # the budget may have ended
    head, tail, empty = right[:len(text)], right[len(text):-1], right[-1]
    scores = [head[place] - (head[place - 1] if place else empty)
              + tail_weight * (tail[place] - (tail[place + 1] if place + 1 < len(text) else empty)) for place in places]
    return [places[rank] for rank in problem.order(scores)]


def by_gradient(problem: Problem, moves: Moves) -> Steps[list[int]]:
    """The L1 norm of the gradient with respect to a word's embedding; costs one backward pass."""
    places = moves.places(problem.original)
    vectors = (yield from problem.slope("gradients", problem.original)).word_vectors(problem.original)
    return [places[rank] for rank in problem.order([float(np.abs(vectors[place]).sum()) for place in places])]


def by_chance(problem: Problem, moves: Moves) -> Steps[list[int]]:
    return problem.streams.shuffled(moves.places(problem.original))
    yield  # a generator like the others, though it asks nothing
