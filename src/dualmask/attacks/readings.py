# SPDX-License-Identifier: Apache-2.0
"""What the network gets to read of a text behind its defence: a question to the defence, which costs no query."""

from collections.abc import Sequence

import numpy as np

from dualmask.attacks.hidden import of_beginnings
from dualmask.attacks.problem import Problem, Question, Steps
from dualmask.classifier import DefendedClassifier
from dualmask.text.encoding import characters
from dualmask.text.examples import Text
from dualmask.text.words import Words

NUMBER = np.dtype(np.int32)
LETTERS = 8  # for each token of the network's input; if they do not fill it the whole text is read


class ReadingOracle:
    """The network's input for each text, its first view, as bytes. Where two are equal no query tells them apart."""

    memory = 1 << 16
    rows, cells = 256, 1 << 17

    def __init__(self, classifier: DefendedClassifier) -> None:
        self.classifier = classifier

    def lengths(self, items: Sequence[Text]) -> list[int]:
        most = LETTERS * self.classifier.encode.max_length
        return [min(characters(text), most) for text in items]

    def answers(self, items: Sequence[Text]) -> list[bytes]:
        """Of long texts the beginning counts: its share of masks is taken for the whole text's."""
        encode = self.classifier.encode
        special = encode.special_tokens(items)
        return of_beginnings(encode, items, self._answers, letters=LETTERS,
                             size=lambda read: len(read) // NUMBER.itemsize - special)

    def _answers(self, items: Sequence[Text]) -> list[bytes]:
        view = self.classifier.first_view(items)
        ids, lengths = view.input_ids.cpu().numpy().astype(NUMBER), view.attention_mask.sum(dim=1).tolist()
        return [row[:length].tobytes() for row, length in zip(ids, lengths, strict=True)]


class Otherwise:
    """Keeps the candidates that are read otherwise than the current text; `once`: of those read alike the first."""

    def __init__(self, *, once: bool = True) -> None:
        self.once = once

    def __call__(self, problem: Problem, candidates: list[Words], current: Words) -> Steps[list[Words]]:
        before, *found = yield Question("readings", [words.value for words in (current, *candidates)])
        kept: list[Words] = []
        seen: set[bytes] = {before}
        for words, reading in zip(candidates, found, strict=True):
            if reading not in seen:
                kept.append(words)
            if self.once:
                seen.add(reading)
        return kept
