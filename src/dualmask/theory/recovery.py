# SPDX-License-Identifier: Apache-2.0
"""Does the theory tell when masking recovers the label? Rates and AUROC over changed words and their texts.

Conditions are about words, recovery is about texts. A text's score is the mean over its changed words; of rows that
have some of the words only, over these. Intervals are 95 % and by text: attacks on one text stand or fall together.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualmask.evaluation.statistics import wilson
from dualmask.theory.conditions import exact_conditions_of, success_condition_of
from dualmask.theory.products import Flags, Floats, Products
from dualmask.theory.quantities import ChangedWord, geometry
from dualmask.theory.rates import rates_of
from dualmask.theory.rule import FEATURES, HeldOut, Rule, features, fit, held_out

RULE, COUNTS, BOTH = "rule", "counts", "both"  # fitted: to the geometry, to what was changed and masked, to all of it
INPUTS: Mapping[str, slice] = {RULE: slice(0, 6), COUNTS: slice(6, 8), BOTH: slice(0, 8)}
NAMES = (*FEATURES, "log number of changed words", "share of them masked")
EVERY, MASKED, SEEN, FOOLED = "all", "attacked word masked", "attacked word seen", "wrong undefended"
DRAWS = 1000  # of the bootstrap
PREDICTORS: Mapping[str, Callable[[Products], Floats]] = {
    "condition": lambda p: success_condition_of(p).reach,
    "paper": lambda p: exact_conditions_of(p).relative("p1"),  # P1 implies P2: the whole ordering
    "uniform": lambda p: np.minimum(*(exact_conditions_of(p).relative(name) for name in ("u1", "u2"))),
    "masked_closer": lambda p: exact_conditions_of(p).relative("r"),
}


DIGITS = 6  # of a figure, so that one that was written and read is the same


class Figure(NamedTuple):
    """A share or an AUROC with its interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, *numbers: float) -> "Figure":
        return cls(*(round(float(one), DIGITS) for one in numbers))


class Row(NamedTuple):
    """One line of the table."""

    layer: int
    group: str
    words: int
    texts: int  # attacked texts that these words are of
    condition: Figure  # words that satisfy the theorem's condition
    paper: Figure  # words with E_m <= E_mr <= E_r under the paper's law
    uniform: Figure
    masked_closer: Figure  # words with E_m <= E_r
    recovered: Figure  # texts
    auroc: Mapping[str, Figure | None]  # of each predictor and each fitted rule for recovery; None: too few texts


class Texts(NamedTuple):
    """Attacked texts at one layer, each with the means over its words."""

    scores: Mapping[str, Floats]  # of each predictor, (texts,)
    inputs: Floats  # of rules, (texts, 8), as in NAMES
    recovered: Flags
    sources: NDArray[np.int64]  # number of the text before the attack


def table(words: Sequence[ChangedWord]) -> list[Row]:
    """Layer by layer: all words, by attack, by whether the attacked word was masked, and where masking had to help."""
    layers = sorted(words[0].layers) if words else []
    return [row(layer, name, part) for layer in layers for name, part in groups(words)]


def groups(words: Sequence[ChangedWord]) -> Iterator[tuple[str, list[ChangedWord]]]:
    yield EVERY, list(words)
    attacks = sorted({word.attack for word in words})
    for attack in attacks if len(attacks) > 1 else ():
        yield attack, [word for word in words if word.attack == attack]
    for name, chosen in ((MASKED, lambda word: word.masked is True), (SEEN, lambda word: word.masked is False),
                         (FOOLED, lambda word: word.fooled)):
        if part := [word for word in words if chosen(word)]:
            yield name, part


def row(layer: int, name: str, words: Sequence[ChangedWord]) -> Row:
    p, texts = geometry(words, layer), texts_at(words, layer)
    found, different = rates_of(p), len(set(texts.sources.tolist()))

    def share(value: float) -> Figure:
        # As if each text before the attack were one trial: its words and attacks vary together
        return Figure.of(value, *wilson(value * different, different))

    whole = np.zeros(len(texts.recovered), dtype=np.int64)
    rounds = {**{predictor: [HeldOut(scores, whole)] for predictor, scores in texts.scores.items()},
              **{rule: held_out(texts.inputs[:, inputs], texts.recovered, texts.sources)
                 for rule, inputs in INPUTS.items()}}
    return Row(layer, name, len(words), len(texts.recovered), share(found.condition), share(found.paper),
               share(found.uniform), share(found.masked_closer), share(float(texts.recovered.mean())),
               {predictor: auroc(one, texts.recovered, texts.sources) for predictor, one in rounds.items()})


def texts_at(words: Sequence[ChangedWord], layer: int) -> Texts:
    p = geometry(words, layer)
    names = {name: number for number, name in enumerate(dict.fromkeys(word.text for word in words))}
    places = np.array([names[word.text] for word in words])
    masked = np.array([[float(word.masked or 0)] for word in words])
    first = {word.text: word for word in words}
    sources = {source: number for number, source in enumerate(dict.fromkeys(word.source for word in words))}
    return Texts({name: means(predictor(p)[:, None], places)[:, 0] for name, predictor in PREDICTORS.items()},
                 np.column_stack([means(features(p), places), np.log(np.bincount(places)), means(masked, places)]),
                 np.array([first[name].recovered for name in names]),
                 np.array([sources[first[name].source] for name in names]))


def means(values: Floats, places: NDArray[np.int64]) -> Floats:
    """Of rows of values by place, (places, columns)."""
    totals = np.zeros((places.max() + 1, values.shape[1]))
    np.add.at(totals, places, values)
    return np.asarray(totals / np.bincount(places)[:, None])


def fitted(words: Sequence[ChangedWord], layer: int) -> Mapping[str, Rule]:
    """The rules on all texts, to be used on others; how good they are, cross-validation tells."""
    texts = texts_at(words, layer)
    return {rule: fit(texts.inputs[:, inputs], texts.recovered) for rule, inputs in INPUTS.items()}


def auroc(rounds: Sequence[HeldOut], recovered: Flags, sources: NDArray[np.int64], *, seed: int = 0) -> Figure | None:
    """The chance that a recovered text scores higher than another of its fold, ties counted half, over all rounds.

    For the interval texts before the attack are drawn anew, each with all that attacks made of it. None where there is
    nothing to compare.
    """
    wins, pairs = np.zeros((2, recovered.sum(), (~recovered).sum()))  # by recovered text and other text
    for scores, folds in rounds:
        together = folds[recovered][:, None] == folds[~recovered][None, :]
        gap = scores[recovered][:, None] - scores[~recovered][None, :]
        wins += together * (0.5 + 0.5 * np.sign(gap))
        pairs += together
    if not pairs.any():
        return None
    generator, count = np.random.default_rng(seed), int(sources.max()) + 1
    drawn = generator.multinomial(count, np.full(count, 1 / count), size=DRAWS)[:, sources].astype(float)
    good, bad = drawn[:, recovered], drawn[:, ~recovered]  # how often each text is drawn
    won, compared = (np.einsum("ni,ni->n", good @ one, bad) for one in (wins, pairs))
    low, high = np.quantile(won[compared > 0] / compared[compared > 0], [0.025, 0.975])
    return Figure.of(wins.sum() / pairs.sum(), low, high)
