# SPDX-License-Identifier: Apache-2.0
"""Looks on while TextAttack attacks: every logical query, ties in the ranking, how near a similarity came to limits."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch
    from textattack import Attack
    from textattack.goal_function_results import GoalFunctionResult
    from textattack.shared import AttackedText

    Results = tuple[list[GoalFunctionResult], bool]


class Watch:
    """Wraps the attack's own functions; the attack takes the same course as without it."""

    def __init__(self, attack: "Attack") -> None:
        self.queries: list[str] = []
        self.tied = False
        self.nearest_limit = float("inf")  # distance of a similarity from its threshold
        self.nearest_rank = float("inf")  # relative distance of two importances that are not equal
        self._ranking = False
        self._scores: list[list[float]] = []  # of each call during the ranking
        self._offers: list[int] = []  # candidates of each word during the ranking
        self._watch_queries(attack)
        self._watch_ranking(attack)
        for constraint in attack.constraints:
            if hasattr(constraint, "_score_list"):
                self._watch_similarity(constraint)

    def start(self) -> None:
        """Before each example."""
        self.queries, self.tied = [], False

    def _watch_queries(self, attack: "Attack") -> None:
        original: Callable[..., Results] = attack.goal_function.get_results

        def get_results(texts: "Sequence[AttackedText]", check_skip: bool = False) -> "Results":
            self.queries += [text.text for text in texts]
            results, over = original(texts, check_skip=check_skip)
            if self._ranking:
                self._scores.append([result.score for result in results])
            return results, over

        attack.goal_function.get_results = get_results
        attack.search_method.get_goal_results = get_results

    def _watch_ranking(self, attack: "Attack") -> None:
        search = attack.search_method
        order, offer = search._get_index_order, search.get_transformations

        def get_index_order(*arguments: object, **options: object) -> object:
            self._ranking, self._scores, self._offers = True, [], []
            answer = order(*arguments, **options)
            self._ranking = False
            self._compare()
            return answer

        def get_transformations(*arguments: object, **options: object) -> "list[AttackedText]":
            candidates: list[AttackedText] = offer(*arguments, **options)
            if self._ranking:
                self._offers.append(len(candidates))
            return candidates

        search._get_index_order, search.get_transformations = get_index_order, get_transformations

    def _compare(self) -> None:
        scores = np.sort(self._importances())
        if len(scores) < 2:
            return
        gaps = np.diff(scores)
        self.tied = bool((gaps == 0).any())
        if (gaps > 0).any():
            self.nearest_rank = min(self.nearest_rank, float((gaps / scores[1:])[gaps > 0].min()))

    def _importances(self) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        probes, *calls = self._scores or [[]]
        if not self._offers:
            return np.array(probes)
        import torch

        saliency = torch.softmax(torch.Tensor(probes), dim=0).numpy()
        best = iter(calls)
        effect = np.array([max(next(best)) if count else 0.0 for count in self._offers])
        return np.array((saliency * effect)[effect > 0])  # words without candidates tie at 0 and never ask

    def _watch_similarity(self, constraint: object) -> None:
        original: Callable[..., torch.Tensor] = constraint._score_list  # type: ignore[attr-defined]

        def score_list(starting: object, transformed: "Sequence[AttackedText]") -> "torch.Tensor":
            scores = original(starting, transformed)
            if len(scores):
                nearest = (scores - constraint.threshold).abs().min()  # type: ignore[attr-defined]
                self.nearest_limit = min(self.nearest_limit, float(nearest))
            return scores

        constraint._score_list = score_list  # type: ignore[attr-defined]
