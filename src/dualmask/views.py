# SPDX-License-Identifier: Apache-2.0
"""Asking a network about views of texts: packed by length, as many at once as fit, in rounds where a vote may end."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from dualmask.deadline import check_time
from dualmask.defences.base import Defence
from dualmask.models.encoders import hidden_states, logits
from dualmask.models.modes import evaluating
from dualmask.text.encoding import Batch, Encode, PreparedEncode, packed
from dualmask.text.examples import Text

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Rows and tokens of a forward pass; CPUs are fastest at 8 to 32 rows
LIMITS = {"cpu": (16, 1 << 14), "cuda": (1024, 1 << 16)}


class DefendedNetwork(nn.Module):
    """What is trained: the model and whatever the defence learns."""

    def __init__(self, model: "PreTrainedModel", defence: Defence) -> None:
        super().__init__()
        self.model = model
        self.defence = defence
        self._passes, self._texts = [0, 0], [0, 0]  # forward and backward
        self.train(model.training)

    def forward(self, batch: Batch, embeddings: Tensor | None = None, *, states: bool = False) -> Tensor:
        self._count(0, len(batch))
        found = (hidden_states if states else logits)(self.model, batch, embeddings=embeddings)
        if found.requires_grad:
            found.register_hook(self._went_back)  # type: ignore[no-untyped-call]
        return found

    def _went_back(self, gradient: Tensor) -> None:
        self._count(1, len(gradient))

    def _count(self, way: int, rows: int) -> None:
        self._passes[way] += 1
        self._texts[way] += rows

    def take(self) -> tuple[int, int]:
        """Passes forward and backward since this was asked last."""
        (forwards, backwards), self._passes = self._passes, [0, 0]
        return forwards, backwards

    def take_texts(self) -> tuple[int, int]:
        """The same in rows, a view of a text each, since this was asked last: what the passes cost."""
        (forwards, backwards), self._texts = self._texts, [0, 0]
        return forwards, backwards


class Viewed(NamedTuple):
    """What the network said about views of texts."""

    logits: Tensor  # (views, texts, classes), NaN where a text did without a view
    seen: Tensor  # views that each text took, (texts,)
    cut: Tensor  # bool: whether a view left out what lies behind the last token that fits, (texts,)


class Answered(NamedTuple):
    """The same of a list of views, in the order in which they were asked."""

    order: list[int]  # the view that each row is
    logits: Tensor  # (rows, classes)
    cut: Tensor  # (rows,) bool


class Tasks(NamedTuple):
    """Views to ask about: of which text, and which of its views."""

    rows: list[int]
    numbers: list[int]


class Questions:
    """A network, how it reads, and how much of it memory holds."""

    def __init__(self, network: DefendedNetwork, encode: Encode, classes: int) -> None:
        self.network, self.encode, self.classes = network, encode, classes
        self._fits = 1 << 40  # tokens of a pass that memory is known to hold

    @property
    def device(self) -> torch.device:
        return self.network.model.device

    def views(
        self, texts: Sequence[Text], kind: Defence, *, early: bool, most: int | None = None,
        batch_size: int | None = None,
    ) -> Viewed:
        """What the network says about as many views of each text as the defence wants.

        Views are asked in rounds of as many as the defence wants next, all texts of a round together.
        """
        encode = self.encode.prepared(texts)
        seen, cut = torch.zeros(len(texts), dtype=torch.long), torch.zeros(len(texts), dtype=torch.bool)
        table = torch.zeros(0, len(texts), self.classes, device=self.device)
        limit = kind.views if most is None else min(most, kind.views)
        while (more := kind.wanted(table, seen, early=early).minimum(limit - seen)).any():
            rows = torch.arange(len(texts)).repeat_interleave(more)
            numbers = torch.arange(len(rows)) + (seen + more - more.cumsum(0))[rows]
            seen = seen + more
            order, answers, ended = self.answers(encode, texts, Tasks(rows.tolist(), numbers.tolist()), kind,
                                                 batch_size=batch_size)
            wider = table.new_full((int(seen.max()), *table.shape[1:]), torch.nan)
            wider[:len(table)] = table
            wider[numbers[order], rows[order]] = answers
            table = wider
            cut[rows[order][ended]] = True
        return Viewed(table, seen, cut)

    def votes(self, texts: Sequence[Text], numbers: Sequence[int]) -> Tensor:
        """How many of the views with these numbers vote for each class, (texts, classes)."""
        tasks = Tasks([row for row in range(len(texts)) for _ in numbers], list(numbers) * len(texts))
        order, answers, _ = self.answers(self.encode.prepared(texts), texts, tasks, self.network.defence)
        places = torch.tensor(tasks.rows, dtype=torch.long)[order] * self.classes + answers.argmax(dim=1).cpu()
        return torch.bincount(places, minlength=len(texts) * self.classes).view(len(texts), self.classes)

    def answers(
        self, encode: PreparedEncode, texts: Sequence[Text], tasks: Tasks, kind: Defence, *,
        batch_size: int | None = None,
    ) -> Answered:
        """Logits of views, those of like length together; what memory can't hold is halved.

        They stay on the device until all are there: while it works, the next batch is made ready here.
        """
        rows, tokens = LIMITS["cuda" if self.device.type == "cuda" else "cpu"]
        sizes = [encode.sizes[row] for row in tasks.rows]
        waiting = list(packed(sizes, rows=batch_size or rows, cells=min(tokens, self._fits)))[::-1]
        order: list[int] = []
        parts: list[Tensor] = []
        ended: list[Tensor] = []
        with evaluating(self.network), torch.no_grad():
            while waiting:
                check_time()
                batch = waiting.pop()
                try:
                    view = kind.inference_view([texts[tasks.rows[one]] for one in batch],
                                               [tasks.numbers[one] for one in batch], encode, self.device)
                    parts.append(kind.answer(self.network, view).float())
                    cut = torch.zeros(len(batch), dtype=torch.bool) if view.cut is None else view.cut
                    ended.append(cut.to(self.device, non_blocking=True))
                    order += batch
                except torch.cuda.OutOfMemoryError:
                    if len(batch) == 1:
                        raise
                    self._fits = len(batch) * sizes[batch[0]] // 2  # later batches would not fit either
                    waiting += [batch[len(batch) // 2:], batch[:len(batch) // 2]]
        if not parts:
            return Answered([], torch.zeros(0, self.classes, device=self.device), torch.zeros(0, dtype=torch.bool))
        return Answered(order, torch.cat(parts), torch.cat(ended).cpu())
