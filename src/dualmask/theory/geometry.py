# SPDX-License-Identifier: Apache-2.0
"""The points a, m, r and s of an attacked text, at layers of a classifier's encoder.

Choices, none of which the paper makes:

    the points      what goes into a layer (hidden states), not the attention's values, which differ from head to head
    a word          the mean of its pieces' states
    a, r            in the text as it was, and as the attack left it
    m               where the replacement stands, all changed words of the attacked text being masked, in the way that
                    the defence masks
    s               the unchanged tokens of the text as it was, [CLS] and [SEP] among them, contracted with the
                    attention that the layer's first token pays to each, mean over heads; uniform where a family
                    doesn't tell its attention
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dualmask.attacks.hidden import token_spans
from dualmask.attacks.pieces import tokens_of
from dualmask.classifier import DefendedClassifier
from dualmask.errors import OptionError
from dualmask.models.layer_noise import encoder_layers
from dualmask.models.modes import evaluating
from dualmask.models.observation import LayerView, layer_views
from dualmask.text.encoding import Batch
from dualmask.text.examples import Text
from dualmask.text.words import Words
from dualmask.theory.alignment import align
from dualmask.theory.contraction import contract
from dualmask.theory.products import Floats, Products, products


class Points(NamedTuple):
    """Where a changed word is at one layer, (d,) each."""

    a: Floats
    m: Floats
    r: Floats
    s: Floats

    def products(self) -> Products:
        """Of v_a, v_m and v_r, the vectors rooted at s."""
        return products(self.a - self.s, self.m - self.s, self.r - self.s)


class WordPoints(NamedTuple):
    """A word that was replaced by one word."""

    place: int  # among the words of the attacked text
    before: str
    after: str
    layers: dict[int, Points]


class TextPoints(NamedTuple):
    """A text and its attacked form."""

    words: list[WordPoints]
    others: int  # words that were inserted, deleted, joined or split
    cut: int  # words replaced beyond what the network reads
    attended: bool  # whether s is contracted by the layers' own attention


class Tokens(NamedTuple):
    """A text's words, and at which columns of its row each stands."""

    words: Words
    columns: list[list[int]]

    def of(self, places: frozenset[int]) -> list[int]:
        return sorted({column for place in places for column in self.columns[place]})


def layer_count(classifier: DefendedClassifier) -> int:
    return len(encoder_layers(classifier.model))


def default_layers(count: int) -> tuple[int, ...]:
    """The embeddings, the middle, and the last layer, whose attention makes the [CLS] that the head reads."""
    return tuple(sorted({0, count // 2, count - 1}))


def check_layers(layers: Sequence[int], count: int) -> None:
    if wrong := [layer for layer in layers if not 0 <= layer < count]:
        raise OptionError(f"layer {wrong[0]} was asked for; this encoder has {count}: give numbers from 0, what the "
                          f"embeddings are, to {count - 1}, what the last layer is given.")


def points_of(
    classifier: DefendedClassifier, pairs: Sequence[tuple[Text, Text]], layers: Sequence[int],
) -> list[TextPoints]:
    """The points of every word that was replaced by one word, for pairs of a text and its attacked form."""
    check_layers(layers, layer_count(classifier))
    befores, afters = [before for before, _ in pairs], [after for _, after in pairs]
    sides = [(tokens(classifier, texts), classifier.encode(texts)) for texts in (befores, afters)]
    found = [align(old.words, new.words) for old, new in zip(sides[0][0], sides[1][0], strict=True)]
    hidden = [new.of(one.new) for new, one in zip(sides[1][0], found, strict=True)]
    batches = [sides[0][1], sides[1][1], masked(classifier, sides[1][1], hidden)]
    with evaluating(classifier.network):
        views = [layer_views(classifier.model, batch.to(classifier.device), layers) for batch in batches]
    attended = all(view.attention is not None for view in views[0].values())
    result = []
    for row, (old, new, one) in enumerate(zip(sides[0][0], sides[1][0], found, strict=True)):
        roots = {layer: root(views[0][layer], batches[0], row, old.of(one.lost)) for layer in layers}
        kept = [(left, right) for left, right in one.pairs if old.columns[left] and new.columns[right]]
        words = [WordPoints(right, old.words[left], new.words[right], {layer: Points(
            mean(views[0][layer], row, old.columns[left]), mean(views[2][layer], row, new.columns[right]),
            mean(views[1][layer], row, new.columns[right]), roots[layer]) for layer in layers}) for left, right in kept]
        result.append(TextPoints(words, one.others, len(one.pairs) - len(kept), attended))
    return result


def tokens(classifier: DefendedClassifier, texts: Sequence[Text]) -> list[Tokens]:
    body = classifier.encode(texts).body
    found = []
    for text, spans, row in zip(texts, token_spans(classifier.encode, texts), body, strict=True):
        words, columns = Words(text), row.nonzero().flatten().tolist()
        starts, ends = [start for start, _ in spans], [end for _, end in spans]
        found.append(Tokens(words, [[columns[token] for token in tokens_of(starts, ends, *span)]
                                    for span in words.spans]))
    return found


def masked(classifier: DefendedClassifier, batch: Batch, columns: Sequence[Sequence[int]]) -> Batch:
    """With masks at these columns of each row, placed as the defence places its own."""
    masks = torch.zeros_like(batch.masks)
    for row, places in enumerate(columns):
        masks[row, list(places)] = True
    return replace(batch, input_ids=batch.input_ids.masked_fill(masks, classifier.encode.mask_id), masks=masks,
                   mask_position=getattr(classifier.defence.options, "mask_position", "normal"))


def root(view: LayerView, batch: Batch, row: int, lost: Sequence[int]) -> Floats:
    """s: the contracted unchanged tokens of a row."""
    read = batch.attention_mask[row].bool().numpy()
    unchanged = read.copy()
    unchanged[list(lost)] = False
    weights = read.astype(np.float64) if view.attention is None else numbers(view.attention[row])
    return contract(weights, numbers(view.states[row]), unchanged).point


def mean(view: LayerView, row: int, columns: Sequence[int]) -> Floats:
    return np.asarray(numbers(view.states[row, list(columns)]).mean(axis=0))


def numbers(tensor: Tensor) -> Floats:
    return np.asarray(tensor.double().cpu().numpy())
