# SPDX-License-Identifier: Apache-2.0
"""How often each word stands in the training texts."""

from collections import Counter
from collections.abc import Sequence
from math import log1p

import numpy as np
import torch
from torch import Tensor, nn

from dualmask.options import check_shares
from dualmask.text.examples import Text
from dualmask.text.words import Words


class WordCounts(nn.Module):
    """Counts of lower-cased words, kept in buffers and thus saved and loaded with the defence that owns them."""

    letters: Tensor  # the words in UTF-8, one a line, most frequent first
    counts: Tensor  # (words,)

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("letters", torch.zeros(0, dtype=torch.uint8))
        self.register_buffer("counts", torch.zeros(0, dtype=torch.long))
        self._table: dict[str, int] = {}
        self._shown: tuple[Tensor, ...] = ()  # the buffers that the table shows
        self._versions: list[int] = []  # and how often they had been written to

    def fit(self, texts: Sequence[Text]) -> None:
        """Count the words of these texts, instead of any counted before."""
        written = Counter(word for text in texts for word in Words(text).words)
        counts: Counter[str] = Counter()
        for word, count in written.items():
            counts[word.lower()] += count
        ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))  # the texts' order leaves no trace
        joined = "\n".join(word for word, _ in ranked).encode()
        self.letters = torch.frombuffer(bytearray(joined), dtype=torch.uint8) if joined else self.letters.new_zeros(0)
        self.counts = torch.tensor([count for _, count in ranked], dtype=torch.long)

    def table(self) -> dict[str, int]:
        """Word -> count, most frequent first; read again whenever a buffer was replaced or written to."""
        buffers = self.letters, self.counts
        versions = [0 if one.is_inference() else one._version for one in buffers]
        if versions != self._versions or any(old is not new for old, new in zip(self._shown, buffers, strict=True)):
            words = self.letters.cpu().numpy().tobytes().decode().split("\n") if len(self.counts) else []
            self._table = dict(zip(words, self.counts.tolist(), strict=True))
            self._shown, self._versions = buffers, versions
        return self._table

    def forward(self, word: str) -> int:
        """How often a word was seen, in whatever case."""
        return self.table().get(word.lower(), 0)

    def phi(self, word: str) -> float:
        """ln(1 + count): 0 for a word never seen."""
        return log1p(self.forward(word))

    def percentile(self, share: float) -> float:
        """The phi that this share of the words lies below, between neighbours by proportion; 0 without words."""
        check_shares(share=share)
        return float(np.quantile([*map(log1p, self.counts.tolist())], share)) if len(self.counts) else 0.0
