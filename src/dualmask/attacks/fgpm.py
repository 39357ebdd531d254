# SPDX-License-Identifier: Apache-2.0
"""FGPM: synonyms that lie furthest along the gradient."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from dualmask.attacks.base import Attack, AttackOptions, Family
from dualmask.attacks.constraints import FewWords, unchanged
from dualmask.attacks.engine import Oracle
from dualmask.attacks.gradients import EmbeddingOracle, GradientOracle, by_harm, white_box
from dualmask.attacks.moves import Editable, Proposals, Transformation
from dualmask.attacks.problem import Answer, Problem, Steps
from dualmask.attacks.transformations import near_words
from dualmask.cards import Paper, Preset, Source
from dualmask.models.victim import Victim
from dualmask.options import came_later, least
from dualmask.text.stop_words import StopWords
from dualmask.text.words import Words
from dualmask.threats import SYNONYMS, Threat


@dataclass(frozen=True, kw_only=True)
class FGPMOptions(AttackOptions):
    steps: int = least(1, 30)  # N: substitutions at most; 30 for AG News, 40 for DBPedia, 50 for Yahoo in the paper
    neighbours: int = least(1, 4)  # k
    distance: float = 0.5  # delta, of the squared distance between unit vectors, as the released code has it
    synonyms: str = "shipped"
    stop_words: StopWords = "fgpm"
    max_share: float | None = 0.25
    # where the exchange that gains most would change too many words: the end, as published, or the next best instead
    over_limit: Literal["end", "pass"] = came_later("end", before="pass")


class FGPM(Attack):
    """Fast Gradient Projection Method: the synonym with the largest projection on the gradient, again and again.

    Paper: Wang, Yang, Deng, He, Adversarial Training with Fast Gradient Projection Method against Synonym Substitution
    Based Text Attacks, AAAI 2021.
    Idea: (synonym's embedding - word's embedding) times the gradient, largest over all words and their
    synonyms; one forward and one backward pass for a substitution.
    Acts at: words outside a list of 21 stop words, at most a quarter of them, in at most 30 substitutions (40 for
    DBPedia, 50 for Yahoo); a word may be replaced again, which counts as another substitution.
    Deviations: the paper attacks models on GloVe vectors. Here a word's embedding is the mean of its pieces' rows in
    the victim's own table, and its gradient (of the log-odds, which points where the loss's does) the mean of theirs.
    Synonyms come from the table that this library ships. The attack ends before the substitution that would change more
    than a quarter of the words; the paper makes it and stops after it, which its release counts as a failure, and the
    release makes none at all, not even of a changed word, once a quarter is changed. over_limit=pass, ours, takes the
    next best instead. 'free', which is ours, exchanges any share of them, for words as far as TextFooler's, whatever
    part of speech they are.
    Relations: HotFlip searches with a beam; A2T orders words by the gradient but asks about each synonym.
    """

    name: ClassVar[str] = "fgpm"
    family: ClassVar[Family] = "gradients"
    threat: ClassVar[Threat | None] = SYNONYMS
    paper: ClassVar[Paper | None] = Paper(
        "Adversarial Training with Fast Gradient Projection Method against Synonym Substitution Based Text Attacks",
        "Wang, Yang, Deng, He", "AAAI 2021", "arXiv:2008.03709")
    round_down: ClassVar[bool] = True
    synonym_tables: ClassVar[tuple[Source, ...]] = (Source("{synonyms}"),)
    Options = FGPMOptions
    presets: ClassVar = {
        "paper": Preset({}),
        "free": Preset({"neighbours": 50, "distance": 1.0, "max_share": None, "stop_words": "textfooler"}),
    }
    options: FGPMOptions

    def oracles(self, victim: Victim, device: str) -> dict[str, Oracle]:
        classifier = white_box(victim, self.name)
        return {**super().oracles(victim, device), "gradients": GradientOracle(classifier),
                "embeddings": EmbeddingOracle(classifier)}

    def editable(self) -> Sequence[Editable]:
        return [places for places in super().editable() if places is not unchanged]

    def transformations(self) -> Sequence[Transformation]:
        return ()  # the search below proposes by itself, since what it tried before matters

    def search(self, problem: Problem) -> Steps[Answer]:
        current, used = problem.start, set[tuple[int, str]]()
        for _ in range(self.options.steps):
            pool = [one for one in self.pool(problem.original, current.words) if one not in used]
            ranked = yield from by_harm(problem, current.words, pool)
            chosen = yield from self._first_allowed(problem, current.words, ranked)
            if chosen is None or problem.spent:
                break
            used.add((chosen.newest.start, chosen[chosen.newest.start]))
            current = (yield from problem.ask([chosen]))[0]
            if current.fooled:
                break
        return current

    def pool(self, original: Words, current: Words) -> Proposals:
        """Every place with the synonyms of the word that stood there at first."""
        table, nearest = self.synonyms(self.options.synonyms), 1 - self.options.distance / 2
        return [(place, word) for place in self.moves.places(current)
                for word, cosine in near_words(table, original[place], most=self.options.neighbours)
                if cosine >= nearest and word != current[place]]

    def _first_allowed(self, problem: Problem, current: Words, proposals: Proposals) -> Steps[Words | None]:
        limit = FewWords(most=self.options.max_words, share=self.options.max_share, round_down=self.round_down)
        for place, word in proposals:
            changed = current.replaced(place, word)
            if self.options.over_limit == "end" and not limit.allows(changed, problem.original):
                return None
            allowed = yield from self.moves.allowed(problem, [changed], current)
            if allowed:
                return allowed[0]
        return None
