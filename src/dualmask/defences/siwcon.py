# SPDX-License-Identifier: Apache-2.0
"""Words made alike in influence: a text without its important words should read like one without the others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from dualmask.cards import Paper, Preset
from dualmask.defences.base import Defence, Family, Network
from dualmask.errors import OptionError
from dualmask.masking.budget import mask_budget
from dualmask.masking.replacement import replace_highest
from dualmask.options import check_least, check_shares
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Example


@dataclass(frozen=True, kw_only=True)
class SIWConOptions:
    """Of the two views and their comparison."""

    rate: float = 0.3  # share of a text's tokens that each view hides, half of them at most
    weight: float = 0.1  # of the comparison beside the cross-entropy
    temperature: float = 0.1  # tau, which cosines are divided by

    def __post_init__(self) -> None:
        check_shares(rate=self.rate)
        check_least(weight=(self.weight, 0), temperature=(self.temperature, 0))
        if self.temperature == 0:
            raise OptionError("temperature is 0, by which nothing can be divided; expected more, e.g. 0.1.")


class SIWCon(Defence):
    """SIWCon: contrastive learning that makes important and unimportant words alike in influence.

    Paper: Zhan, Yang, Wang, Zheng, Huang, Wang, Similarizing the Influence of Words with Contrastive Learning, Findings
    of ACL 2023.
    Idea: attacks look for the few words that a prediction hangs on; where all words weigh alike there are none.
    Acts at: loss (cross-entropy + weight InfoNCE of two views of each text).
    Deviations: no code was found and the paper was not at hand but for its abstract, so that all that follows is our
    reading. A token's influence is the norm of the loss's gradient in its embedding. One view hides the 30 % of the
    tokens with the most influence behind [MASK], the other the 30 % with the least; never the same token, and half of
    a text at most. InfoNCE compares the [CLS] states of both by cosine / 0.1, the batch's other texts as negatives,
    from each view to the other; it counts 0.1. Training takes three passes a batch, and back through the first twice:
    once for the influence. Where another defence puts noise inside the network, the two views are without it.
    Relations: RSMI hides tokens by the same norm, at inference too, and compares nothing. InfoBERT's InfoNCE is
    between words and the text. Combines with what moves words, e.g. freelb+siwcon, and with what shows a text once in
    training: MVP must draw one template (training=one).
    """

    name: ClassVar[str] = "siwcon"
    family: ClassVar[Family] = "regularisation"
    paper: ClassVar[Paper | None] = Paper(
        "Similarizing the Influence of Words with Contrastive Learning to Defend Word-level Adversarial Text Attack",
        "Zhan, Yang, Wang, Zheng, Huang, Wang", "Findings of ACL 2023", "aclanthology.org/2023.findings-acl.500")
    Options = SIWConOptions
    presets: ClassVar = {"recommended": Preset({}, {})}
    options: SIWConOptions

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        self._mask_id = 0

    def fit(self, examples: Sequence[Example], encode: Encode) -> None:
        self._mask_id = encode.mask_id  # views are made inside the loss, which knows no tokenizer

    def loss(self, network: Network, batch: Batch, embeddings: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if batch.labels is not None and len(batch) != len(batch.labels):
            raise OptionError(f"'siwcon' compares two views of each text, but another defence shows "
                              f"{len(batch.labels)} texts in {len(batch)} rows; expected a row each: "
                              "choose one that shows a text once (of mvp: training=one).")
        words = (self.table(batch.input_ids) if embeddings is None else embeddings).requires_grad_()
        loss, answer = super().loss(network, batch, words)
        influence = torch.autograd.grad(loss, words, retain_graph=True)[0].norm(dim=2)
        most, least = (self.first_state(network, self.hidden(batch, scores), batch, embeddings)
                       for scores in (influence, -influence))
        return loss + self.options.weight * info_nce(most, least, self.options.temperature), answer

    def hidden(self, batch: Batch, scores: Tensor) -> Batch:
        """With the highest scores behind [MASK]; what another defence has hidden is left as it is."""
        open_ = batch.body & ~batch.masks
        length = open_.sum(dim=1)
        counts = mask_budget(length, self.options.rate).minimum(length // 2)
        shown = replace_highest(batch, scores.masked_fill(~open_, -torch.inf), counts, self._mask_id, candidates=open_)
        return replace(batch, input_ids=shown.input_ids)  # these masks keep their positions

    def first_state(self, network: Network, view: Batch, batch: Batch, embeddings: Tensor | None) -> Tensor:
        """The [CLS] state of a view, (rows, size); words that were moved stay moved where they aren't hidden."""
        if embeddings is not None:
            embeddings = torch.where((view.input_ids != batch.input_ids)[:, :, None], self.table.weight[self._mask_id],
                                     embeddings)
        return network(view, embeddings, states=True)[:, 0]


def info_nce(one: Tensor, other: Tensor, temperature: float) -> Tensor:
    """-log exp(cos(a_i, b_i) / tau) / sum_j exp(cos(a_i, b_j) / tau), the mean over rows and both directions."""
    cosines = F.normalize(one, dim=1) @ F.normalize(other, dim=1).T / temperature  # (rows, rows)
    own = torch.arange(len(one), device=one.device)
    return (F.cross_entropy(cosines, own) + F.cross_entropy(cosines.T, own)) / 2
