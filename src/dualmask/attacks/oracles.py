# SPDX-License-Identifier: Apache-2.0
"""What attacks may ask: the victim, a sentence encoder, a masked language model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dualmask.attacks.problem import Anew, LoggedRow, Row
from dualmask.models.victim import Victim, checked
from dualmask.text.encoding import characters, readable
from dualmask.text.examples import Text

if TYPE_CHECKING:
    from dualmask.models.language_models import MaskedLanguageModel
    from dualmask.models.sentences import SentenceEncoder

WHOLE = 1 << 40  # no limit: the oracle packs by itself


class VictimOracle:
    """Rows of probabilities; of a victim that tells logarithms, with these."""

    memory = 0  # a defence with fresh noise must be asked each time; a problem remembers its own texts

    def __init__(self, victim: Victim, *, rows: int | None = None) -> None:
        self.victim = victim
        self.rows, self.cells = rows or victim.rows, WHOLE

    def lengths(self, items: Sequence[Text | Anew]) -> list[int]:
        return [characters(text) for text in map(plain, items)]

    def answers(self, items: Sequence[Text | Anew]) -> list[Row]:
        texts = list(map(plain, items))
        classes = len(self.victim.labels)
        if self.victim.logged:
            logs = self.victim.log_probabilities(texts)
            checked(np.exp(logs), len(texts), classes=classes)
            return [LoggedRow.of(row) for row in logs.tolist()]
        rows = checked(self.victim.probabilities(texts), len(texts), classes=classes)
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


class Filled(NamedTuple):
    """A masked language model's view of a text: for each token the likeliest ids and how unlikely each is."""

    starts: list[int]  # where each token's characters begin; special tokens have none, their ends are 0
    ends: list[int]
    ids: NDArray[np.int32]  # (tokens, most)
    losses: NDArray[np.float32]  # (tokens, most): -log probability


class LanguageModelOracle:
    """For every token of an unmasked text the `most` likeliest ones, in one pass."""

    memory = 1 << 12
    rows = 64

    def __init__(self, language_model: "MaskedLanguageModel", *, most: int, device: str = "cpu") -> None:
        self.cells = (1 << 15) * 30_000 // max(len(language_model.tokenizer), 30_000)  # characters: logits need room
        language_model.model.to(torch.device(device))  # type: ignore[arg-type]
        self.model = language_model.model
        self.tokenizer = language_model.tokenizer
        self.most = most
        longest = getattr(self.model.config, "max_position_embeddings", 512)
        self.longest = min(int(longest), int(self.tokenizer.model_max_length), 512)

    def lengths(self, items: Sequence[str]) -> list[int]:
        return [len(text) for text in items]

    def answers(self, items: Sequence[str]) -> list[Filled]:
        texts = [str(readable(text)) for text in items]
        encoding = self.tokenizer(texts, truncation=True, max_length=self.longest, padding=True,
                                  return_offsets_mapping=True, return_tensors="pt")
        offsets = encoding.pop("offset_mapping").tolist()
        with torch.inference_mode():
            logits = self.model(**encoding.to(self.model.device)).logits.float()  # (texts, tokens, vocabulary)
            top = logits.topk(min(self.most, logits.shape[-1]), dim=-1)
            losses = (logits.logsumexp(dim=-1, keepdim=True) - top.values).cpu().numpy()
            ids = top.indices.to(torch.int32).cpu().numpy()
        lengths = encoding["attention_mask"].sum(dim=1).tolist()
        return [Filled([start for start, _ in offsets[row][:length]],
                       [end for _, end in offsets[row][:length]], ids[row, :length].copy(),
                       losses[row, :length].copy())
                for row, length in enumerate(lengths)]
