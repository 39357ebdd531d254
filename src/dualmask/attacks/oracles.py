# SPDX-License-Identifier: Apache-2.0
"""What attacks may ask: the victim, a sentence encoder, a masked language model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from dualmask.attacks.problem import Anew, Row
from dualmask.models.victim import Victim, checked
from dualmask.text.encoding import characters
from dualmask.text.examples import Text

if TYPE_CHECKING:
    from dualmask.models.language_models import Filled, MaskedLanguageModel
    from dualmask.models.sentences import SentenceEncoder

WHOLE = 1 << 40  # no limit: the oracle packs by itself


class VictimOracle:
    """Rows of probabilities."""

    memory = 0  # a defence with fresh noise must be asked each time; a problem remembers its own texts

    def __init__(self, victim: Victim, *, rows: int | None = None) -> None:
        self.victim = victim
        self.rows, self.cells = rows or victim.rows, WHOLE

    def lengths(self, items: Sequence[Text | Anew]) -> list[int]:
        return [characters(text) for text in map(plain, items)]

    def answers(self, items: Sequence[Text | Anew]) -> list[Row]:
        texts = list(map(plain, items))
        rows = checked(self.victim.probabilities(texts), len(texts), classes=len(self.victim.labels))
        return [tuple(row) for row in rows.tolist()]


def plain(item: Text | Anew) -> Text:
    return item.text if isinstance(item, Anew) else item


class SentenceOracle:
    """Unit vectors of texts."""

    memory = 1 << 15
    rows, cells = 4096, WHOLE

    def __init__(self, encoder: "SentenceEncoder") -> None:
        self.encoder = encoder

    def lengths(self, items: Sequence[str]) -> list[int]:
        return [len(text) for text in items]

    def answers(self, items: Sequence[str]) -> list[NDArray[np.floating]]:
        return [row.copy() for row in self.encoder.encode(items)]  # a view would keep its whole batch in memory


class LanguageModelOracle:
    """For every token of an unmasked text the `most` likeliest ones, in one pass."""

    memory = 1 << 12
    rows = 64

    def __init__(self, language_model: "MaskedLanguageModel", *, most: int, device: str = "cpu") -> None:
        self.cells = (1 << 15) * 30_000 // max(len(language_model.tokenizer), 30_000)  # characters: logits need room
        language_model.model.to(torch.device(device))  # type: ignore[arg-type]
        self.language_model, self.most = language_model, most

    def lengths(self, items: Sequence[str]) -> list[int]:
        return [len(text) for text in items]

    def answers(self, items: Sequence[str]) -> "list[Filled]":
        return self.language_model.fill(items, self.most)
