# SPDX-License-Identifier: Apache-2.0
"""How hard a masked language model finds each white-space word of a text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dualmask.masking.scorers import Surprisal
from dualmask.text.examples import Text
from dualmask.text.spelling import Spelling

if TYPE_CHECKING:
    from transformers import PreTrainedModel

REMEMBERED = 256  # texts: the views of one come in several batches
LEAST = 1e-6  # the loss of a word that the language model is sure of: it may be drawn still, when nothing else is left


class WordLosses:
    """The mean loss over the pieces of each word; of the last texts it is remembered."""

    def __init__(self, *, language_model: str | None, stride: int) -> None:
        self.scorer = Surprisal(language_model=language_model, stride=stride)
        self._known: tuple[Spelling | None, dict[Text, Tensor]] = None, {}

    def adapt(self, model: "PreTrainedModel") -> None:
        """Load the language model, which must fit this one's vocabulary."""
        self.scorer.adapt(model)

    def __call__(self, texts: Sequence[Text], spelling: Spelling, device: torch.device) -> list[Tensor]:
        """(words,) for each text."""
        known = self._known[1] if self._known[0] is spelling else {}
        found = {text: known[text] for text in texts if text in known}
        if new := [text for text in dict.fromkeys(texts) if text not in known]:
            found |= zip(new, self._judged(new, spelling, device), strict=True)
            # A new dictionary, so that threads don't meet: at worst a text is judged twice
            self._known = spelling, dict([*known.items(), *((text, found[text]) for text in new)][-REMEMBERED:])
        return [found[text] for text in texts]

    def _judged(self, texts: Sequence[Text], spelling: Spelling, device: torch.device) -> list[Tensor]:
        """Words that the language model doesn't get to read have the text's mean."""
        read = spelling.read(texts)
        batch = spelling.batch([one.words for one in read], [one.boundary for one in read]).to(device)
        losses = []
        for one, words, scores in zip(read, batch.words.cpu(), self.scorer(batch).cpu().double(), strict=True):
            body = words >= 0
            sums, pieces = (torch.zeros(len(one.words), dtype=torch.double).index_add(0, words[body], values[body])
                            for values in (scores, torch.ones_like(scores)))
            mean = sums.sum() / pieces.sum().clamp(min=1)
            losses.append(torch.where(pieces > 0, sums / pieces.clamp(min=1), mean).clamp(min=LEAST))
        return losses
