# SPDX-License-Identifier: Apache-2.0
"""White-box questions: how the odds change with each token's embedding, through the input that the defence makes."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from dualmask.attacks.hidden import view_spans
from dualmask.attacks.moves import Constraint, Moves, Proposals
from dualmask.attacks.pieces import BYTE_LEVEL, PIECE_MARKS, piece_marks, tokens_of
from dualmask.attacks.problem import Problem, Question, Steps
from dualmask.attacks.transformations import near_words
from dualmask.classifier import DefendedClassifier
from dualmask.errors import OptionError
from dualmask.models.modes import evaluating
from dualmask.models.victim import Victim
from dualmask.text.encoding import Batch, characters
from dualmask.text.examples import Text
from dualmask.text.words import Words
from dualmask.windows import refuse_windows

if TYPE_CHECKING:
    from dualmask.text.synonyms import Synonyms

Item = tuple[Text, int]  # a text and the label against which the odds are to rise
Vectors = NDArray[np.float32]
VIEWS = 8  # of a defence that votes, behind a gradient
AT_ONCE = 32  # exchanges that rules look at together


def white_box(victim: Victim, attack: str) -> DefendedClassifier:
    """The classifier behind a victim; refused where there is none to look into."""
    if isinstance(victim.classifier, DefendedClassifier):
        defence = victim.classifier.defence
        if not defence.explainable and defence.origins("") is None:
            raise OptionError(f"the defence '{defence.name}' rewrites texts, so that gradients can't "
                              f"be led back to their words; '{attack}' looks inside, choose an attack that only asks.")
        refuse_windows(victim.classifier.windows, f"the attack '{attack}'",
                       "its gradients are led back to the words of a text that is read at once.")
        return victim.classifier
    raise OptionError(f"the attack '{attack}' needs gradients, and this victim only answers; give a DefendedClassifier "
                      "(dualmask.defend wraps a Hugging Face model), or choose an attack that only asks.")


def word_table(classifier: DefendedClassifier) -> Tensor:
    """The embedding of every token, (vocabulary, size)."""
    return cast(Tensor, classifier.model.get_input_embeddings().weight).detach().float()


def embedded(classifier: DefendedClassifier, ids: Tensor) -> Tensor:
    """The embeddings of tokens; a defence may have some that the vocabulary does not."""
    with torch.no_grad():
        return cast(Tensor, classifier.model.get_input_embeddings()(ids.to(classifier.device))).float()


def as_read(classifier: DefendedClassifier, texts: Sequence[Text]) -> Batch:
    """The tokens of texts; those of a defence that rewrites, rewritten."""
    return classifier.encode(texts) if classifier.defence.explainable else classifier.first_view(texts)


class Gradient(NamedTuple):
    """One text's gradient by token; what the defence hid has none."""

    starts: list[int]  # where each token's characters begin; a pair counts as its texts joined by one character
    ends: list[int]
    ids: list[int]
    vectors: Vectors  # (tokens, size)

    def cut(self) -> "Gradient":
        """Without the tokens that the defence cut off."""
        known = len(self.vectors)
        return Gradient(self.starts[:known], self.ends[:known], self.ids[:known], self.vectors[:len(self.starts)])

    def word_vectors(self, words: Words) -> list[Vectors]:
        """For each word the mean over its tokens; zeros for a word that was cut off."""
        zero = np.zeros(self.vectors.shape[1], dtype=np.float32)
        found = []
        for start, end in words.spans:
            rows = tokens_of(self.starts, self.ends, start, end)
            found.append(self.vectors[rows].mean(axis=0) if rows else zero)
        return found


def odds_against(logits: Tensor, labels: Sequence[int]) -> Tensor:
    """The logarithm of the odds against each row's label. Its gradient points where the cross-entropy's does, but does
    not fade as the classifier grows sure."""
    true = F.one_hot(torch.tensor(labels, device=logits.device), logits.shape[1]).bool()
    if logits.shape[1] == 1:
        return logits.sum(dim=1) * 0
    return logits.masked_fill(true, float("-inf")).logsumexp(dim=1) - logits[true]


class GradientOracle:
    """Gradients of the odds against the true label with respect to the word embeddings."""

    memory = 0

    def __init__(self, classifier: DefendedClassifier) -> None:
        self.classifier = classifier
        self.rows = 16 if classifier.device.type == "cpu" else 128
        self.cells = 1 << 17

    def lengths(self, items: Sequence[Item]) -> list[int]:
        return [characters(text) for text, _ in items]

    def answers(self, items: Sequence[Item]) -> list[Gradient]:
        texts, labels = [text for text, _ in items], [label for _, label in items]
        read, totals = as_read(self.classifier, texts), self._gradients(texts, labels)
        return [Gradient([start for start, _ in spans], [end for _, end in spans], ids[body].tolist(), total).cut()
                for spans, ids, body, total in zip(
                    view_spans(self.classifier, texts, read), read.input_ids, read.body, totals, strict=True)]

    def _gradients(self, texts: Sequence[Text], labels: Sequence[int]) -> list[Vectors]:
        """For each text (tokens, size), of the mean over the defence's first views: a vote has no slope. Of a defence
        that rewrites the first alone, in which alone the text's words are known."""
        network, defence = self.classifier.network, self.classifier.defence
        views = min(defence.views, VIEWS) if defence.explainable else 1
        with evaluating(network):
            batch = defence.inference_view([text for text in texts for _ in range(views)],
                                           list(range(views)) * len(texts), self.classifier.encode,
                                           self.classifier.device)
            with torch.no_grad():
                given = network.model.get_input_embeddings()(batch.input_ids)
            given.requires_grad_()
            with torch.enable_grad():
                logits = defence.answer(network, batch, given).float().view(len(texts), views, -1)
                slope, = torch.autograd.grad(odds_against(logits.mean(dim=1), labels).sum(), given)
        return [self._of_text([(batch.body[row], batch.masks[row], slope[row])
                               for row in range(first, first + views)]) for first in range(0, len(batch), views)]

    def _of_text(self, parts: Sequence[tuple[Tensor, Tensor, Tensor]]) -> Vectors:
        """The k-th body token of every view is the k-th of the text; behind a mask the text can change nothing."""
        rows = [slope.masked_fill(masks[:, None], 0)[body] for body, masks, slope in parts]
        return torch.stack(rows).sum(dim=0).float().cpu().numpy()


class EmbeddingOracle:
    """A word's place in the victim's own embedding table: the mean of its pieces, as the defence reads it."""

    memory = 1 << 16
    rows, cells = 1 << 16, 1 << 40

    def __init__(self, classifier: DefendedClassifier) -> None:
        self.classifier = classifier

    @cached_property
    def _space(self) -> str:
        """What stands before a word in a text, where the vocabulary has another token for it then."""
        vocabulary = self.classifier.encode.tokenizer.get_vocab()
        return " " if any(token.startswith(BYTE_LEVEL) for token in vocabulary) else ""

    def lengths(self, items: Sequence[str]) -> list[int]:
        return [1] * len(items)

    def answers(self, items: Sequence[str]) -> list[Vectors]:
        batch = as_read(self.classifier, [self._space + word for word in items])
        found = embedded(self.classifier, batch.input_ids)
        counts = batch.body.to(found.device).sum(dim=1, keepdim=True)
        total = (found * batch.body.to(found.device)[..., None]).sum(dim=1)
        return list((total / counts.clamp(min=1)).cpu().numpy())


class Flips(NamedTuple):
    """For each token of a text the vocabulary's most harmful whole words."""

    gradient: Gradient
    words: list[list[str]]  # (tokens, most)
    gains: Vectors  # (tokens, most): first-order rise of the loss


class FlipOracle(GradientOracle):
    """HotFlip's estimate for every word of the vocabulary at once: one gradient, one product with the table."""

    def __init__(self, classifier: DefendedClassifier, *, most: int) -> None:
        super().__init__(classifier)
        self.most = most

    @cached_property
    def choices(self) -> list[int]:
        """Tokens that are words by themselves."""
        tokenizer = self.classifier.encode.tokenizer
        tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        begins, _ = piece_marks([str(token) for token in tokens])
        return [token for token, text in enumerate(map(str, tokens))
                if text.startswith(begins) and text[len(begins):].isalpha()]

    @cached_property
    def words(self) -> list[str]:
        tokens = self.classifier.encode.tokenizer.convert_ids_to_tokens(self.choices)
        return [str(token).lstrip(PIECE_MARKS) for token in tokens]

    @cached_property
    def rewritten(self) -> Vectors:
        """(choices, size): the embeddings of what a defence that rewrites makes of them."""
        return np.stack(EmbeddingOracle(self.classifier).answers(self.words))

    def answers(self, items: Sequence[Item]) -> list[Flips]:  # type: ignore[override]
        table = word_table(self.classifier)
        explainable = self.classifier.defence.explainable
        chosen = table[self.choices] if explainable else torch.from_numpy(self.rewritten).to(table.device)
        found = []
        for gradient in super().answers(items):
            slopes = torch.from_numpy(gradient.vectors).to(table.device)
            own = embedded(self.classifier, torch.tensor(gradient.ids, dtype=torch.long))
            here = (slopes * own).sum(dim=1, keepdim=True)
            top = (slopes @ chosen.T - here).topk(min(self.most, len(chosen)), dim=1)
            words = [[self.words[place] for place in row] for row in top.indices.tolist()]
            found.append(Flips(gradient, words, top.values.cpu().numpy()))
        return found


def gains_of(problem: Problem, current: Words, pool: Proposals) -> Steps[tuple[Proposals, list[float]]]:
    """(new embedding - old embedding) times the gradient at the old word, for each exchange of a word that is read.

    One of a word that is cut off would gain nothing, and so come before all that lose.
    """
    if not pool:
        return [], []
    gradient = yield from problem.slope("gradients", current)
    slopes = gradient.word_vectors(current)
    read = [(place, word) for place, word in pool if tokens_of(gradient.starts, gradient.ends, *current.spans[place])]
    old = yield Question("embeddings", [current[place] for place, _ in read])
    new = yield Question("embeddings", [word for _, word in read])
    return read, [float(np.dot(after - before, slopes[place]))
                  for (place, _), before, after in zip(read, old, new, strict=True)]


def by_harm(problem: Problem, current: Words, pool: Proposals) -> Steps[Proposals]:
    """The most harmful exchanges first."""
    read, gains = yield from gains_of(problem, current, pool)
    return [read[rank] for rank in problem.order(gains)]


class HarmfulSynonyms:
    """The most harmful exchanges for synonyms among those that its rules allow, looked at in turn until enough are."""

    def __init__(self, table: "Synonyms", rules: Sequence[Constraint], *, most: int) -> None:
        self.table, self.rules, self.most = table, Moves((), rules, ()), most

    def __call__(self, problem: Problem, current: Words, places: Sequence[int]) -> Steps[Proposals]:
        pool = [(place, word) for place in places for word, _ in near_words(self.table, current[place])]
        ranked = yield from by_harm(problem, current, pool)
        found: Proposals = []
        for start in range(0, len(ranked), AT_ONCE):
            candidates = [current.replaced(*exchange) for exchange in ranked[start:start + AT_ONCE]]
            allowed = yield from self.rules.allowed(problem, candidates, current)
            found += [(place, words[place]) for words in allowed for place in words.newest]
            if len(found) >= self.most:
                break
        return found[:self.most]
