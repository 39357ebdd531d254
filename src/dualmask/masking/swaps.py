# SPDX-License-Identifier: Apache-2.0
"""Words exchanged for those of their synonyms that hurt a classifier most, by the gradient at each word."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dualmask.masking.drafts import Draft, Swap
from dualmask.text.encoding import Batch
from dualmask.text.spelling import Numbers, Spelling, ragged

Embed = Callable[[Tensor], Tensor]  # tokens' embeddings
Spare = Callable[[Tensor, Tensor], list[bool]]  # texts that stay as they are, by their logits and right labels
RATE = 0.02  # of the last batch in a running share: about fifty batches count
Loss = Callable[[Batch, Tensor], tuple[Tensor, Tensor]]  # and logits, of a batch with other embeddings


class Sparing(nn.Module):
    """Which texts are not made harder: what a network can't do yet, it does not learn from harder ones."""

    right: Tensor  # running share of the texts that were answered rightly, which begins at none; a resumed run needs it

    def __init__(self, sure: float, known: float) -> None:
        """Texts whose right label has a probability below `sure`, while fewer than `known` of all are right."""
        super().__init__()
        self.sure, self.known = sure, known
        self.register_buffer("right", torch.zeros(()))
        self.register_load_state_dict_pre_hook(begun)  # type: ignore[no-untyped-call]  # PyTorch has no types here

    def forward(self, answers: Tensor, labels: Tensor) -> list[bool]:
        chances = answers.softmax(dim=1).gather(1, labels[:, None]).flatten()
        self.right += RATE * ((answers.argmax(dim=1) == labels).float().mean() - self.right)
        return (chances < (self.sure if float(self.right) < self.known else 0.0)).tolist()


def begun(_: nn.Module, state: dict[str, Tensor], prefix: str, *__: object) -> None:
    """Classifiers that were saved before the share was can be loaded; they are trained already."""
    state.setdefault(f"{prefix}right", torch.zeros(()))


def worst(
    draft: Draft, swaps: Sequence[Swap], batch: Batch, loss: Loss, *, embed: Embed, spare: Spare,
) -> list[int]:
    """For each swap the word that raises the loss most by first order, which may be the one that stands there.

    batch: the draft as the network sees it. A word of several pieces counts as their mean.
    """
    given = embed(batch.input_ids).detach().requires_grad_()
    total, answers = loss(batch, given)
    gradient, = torch.autograd.grad(total, given)
    assert batch.labels is not None
    spared = spare(answers.detach(), batch.labels)
    choices = [np.append(swap.numbers, draft.rows[swap.row][swap.place]) for swap in swaps]
    numbers, inverse = np.unique(np.concatenate(choices), return_inverse=True)
    sizes = np.array([len(one) for one in choices])
    columns = np.full((len(swaps), int(sizes.max())), len(numbers))  # a column of its own for what is no choice
    columns[ragged(sizes)] = inverse
    gradients = word_gradients(gradient, batch.words, draft.longest)
    here = gradients[[swap.row for swap in swaps], [swap.place for swap in swaps]].float()  # (swaps, size)
    with torch.autocast(here.device.type, enabled=False):
        gains = here @ mean_embeddings(draft.spelling, numbers, embed, here.device).T  # (swaps, different words)
    gains = F.pad(gains, (0, 1), value=-torch.inf).gather(1, torch.from_numpy(columns).to(here.device))
    return [int(one[-1 if spared[swap.row] else place])
            for swap, one, place in zip(swaps, choices, gains.argmax(dim=1).tolist(), strict=True)]


def mean_embeddings(spelling: Spelling, numbers: Numbers, embed: Embed, device: torch.device) -> Tensor:
    """Of the pieces of each word, (words, size); zeros for one without pieces."""
    ids, owners = spelling.pieces(numbers)
    where = torch.from_numpy(owners).to(device)
    with torch.no_grad():
        vectors = embed(torch.from_numpy(ids).to(device)).float()
    total = vectors.new_zeros(len(numbers), vectors.shape[1]).index_add_(0, where, vectors)
    return total / torch.bincount(where, minlength=len(numbers)).clamp(min=1)[:, None]


def word_gradients(gradient: Tensor, words: Tensor, longest: int) -> Tensor:
    """The tokens' gradients added up for each word, (rows, longest, size); `words` as in a batch."""
    places = torch.where(words >= 0, words, longest)  # what is no word goes to a place behind all
    total = gradient.new_zeros(len(gradient), longest + 1, gradient.shape[2])
    return total.scatter_add_(1, places[..., None].expand_as(gradient), gradient)[:, :longest]
