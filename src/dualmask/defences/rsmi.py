# SPDX-License-Identifier: Apache-2.0
"""Noise between layers, masks on the tokens that the loss hangs on, and a second round where the first is divided."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor, nn

from dualmask.cards import Paper, Preset
from dualmask.defences.base import Backward, Family, Network, Objective
from dualmask.defences.random_views import RandomViews
from dualmask.defences.voting import counted
from dualmask.errors import OptionError
from dualmask.masking.gradients import embedding_gradient
from dualmask.masking.replacement import ranks, replace_highest
from dualmask.models.layer_noise import encoder_layers, noisy
from dualmask.models.modes import evaluating
from dualmask.options import check_least, check_shares
from dualmask.seeds import uniform
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Example, Text

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class RSMIOptions:
    """Of noise, masks and rounds."""

    deviation: float = 0.2  # sigma of the noise on hidden states
    every: int = 3  # the first layer is noisy, and every so-manieth after it
    masked: int = 2  # M, tokens of a view that become [MASK]
    candidates: int = 5  # tokens of the highest gradient, of which the second round draws its masks
    gradient_weight: float = 1.0  # in training: how much of the gradient is added to the embeddings
    first: int = 5  # k0, views of the first round
    second: int = 50  # k1, of the second
    confidence: float = 0.98  # alpha: a first round whose binomial test gives less is not believed
    noise: Literal["text", "fresh"] = "text"  # the same draws each time a text comes, or new ones
    noise_seed: int = 0

    def __post_init__(self) -> None:
        check_least(deviation=(self.deviation, 0), every=(self.every, 1), masked=(self.masked, 0),
                    candidates=(self.candidates, 1), first=(self.first, 1), second=(self.second, 0))
        check_shares(confidence=self.confidence)
        if self.candidates < self.masked:
            raise OptionError(f"candidates is {self.candidates}, masked {self.masked}: mask fewer or raise candidates.")


class RSMI(RandomViews):
    """Randomised smoothing with masked inference: noisy layers, gradient-guided masks, two rounds of views.

    Paper: Moon, Joty, Zhao, Thakkar, Xu, Randomized Smoothing with Masked Inference, ACL 2023.
    Idea: noise between layers smooths the classifier, and hiding the tokens that the loss hangs on most makes it read
    the context; a text on which a few such views disagree is asked about many times more.
    Acts at: learn (M tokens of the highest gradient become [MASK], the gradient is added to the embeddings, every third
    layer is noisy), inference_view (the same masks for the label predicted; in the second round M of the five highest
    at random), answer (the noise). The answer is the mean of the first round's logits, or of the second's alone.
    Deviations: M = 2 of 5, sigma 0.2, 5 and 50 views, alpha 0.98 and the gradient of the batch's mean loss, in training
    with noise and without dropout, are the released code's. A gradient takes a pass forward and back for each batch; at
    inference it is noisy there and not here, so that the first masks depend on the text alone. The five are the text's
    own tokens (there some are special, then dropped, and texts of ten tokens or fewer have one), drawn without
    replacement; five views must all agree. Preset 'paper' trains as released, but for AdamW's epsilon (1e-8, there
    1e-6) and a second dropout in BERT's head there.
    Relations: RanMASK hides words at random and votes; DDM's scorer 'gradient' hides by the same norm, in one pass. No
    certificate: the noise is on hidden states, and a word's change of them has no bound.
    """

    name: ClassVar[str] = "rsmi"
    family: ClassVar[Family] = "smoothing"
    passes: ClassVar[str] = "5 to 55, 1 backward or more"
    paper: ClassVar[Paper | None] = Paper(
        "Randomized Smoothing with Masked Inference for Adversarially Robust Text Classifications",
        "Moon, Joty, Zhao, Thakkar, Xu", "ACL 2023", "aclanthology.org/2023.acl-long.282")
    Options = RSMIOptions
    presets: ClassVar = {
        "recommended": Preset({}, {}),
        "paper": Preset({}, {"learning_rate": 1e-5, "warmup": 0.0, "weight_decay": 0.0, "epochs": 10, "batch_size": 16,
                             "max_length": 256, "patience": 0})}
    options: RSMIOptions

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        self._noisy: tuple[nn.Module, ...] = ()  # in a tuple: no part of this module's weights
        self._mask_id = -1  # no token yet

    @property
    def views(self) -> int:
        return self.options.first + self.options.second

    @property
    def pass_count(self) -> str:
        return f"{self.options.first} to {self.views}, 1 backward or more"

    def adapt(self, model: "PreTrainedModel") -> None:
        super().adapt(model)
        self._noisy = encoder_layers(model)[::self.options.every]

    def fit(self, examples: Sequence[Example], encode: Encode) -> None:
        self._mask_id = encode.mask_id  # who learns from a batch, and masks, is given no encoder

    def learn(self, objective: Objective, batch: Batch, backward: Backward) -> tuple[Tensor, Tensor]:
        words: Tensor = self.table(batch.input_ids).detach().requires_grad_()
        with evaluating(self.model):
            gradient, = torch.autograd.grad(objective(batch, words)[0], words)
        shown = self.hidden(batch, gradient.norm(dim=2), self._mask_id)
        loss, answer = objective(shown, self.table(shown.input_ids) + self.options.gradient_weight * gradient)
        backward(loss)
        return loss, answer

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        row = {text: place for place, text in enumerate(dict.fromkeys(texts))}  # a gradient serves all views of a text
        once = encode(list(row)).to(device)
        norms = embedding_gradient(self.model, once).norm(dim=2)
        rows = torch.tensor([row[text] for text in texts], device=device)
        batch = once.with_tensors({name: tensor[rows] for name, tensor in once.per_token().items()})
        batch = replace(batch, seeds=self.seeds(texts, numbers).to(device),
                        cut=None if once.cut is None else once.cut[rows])
        drawn = torch.tensor(numbers, device=device) >= self.options.first
        return self.hidden(batch, norms[rows], encode.mask_id, drawn)

    def hidden(self, batch: Batch, norms: Tensor, mask_id: int, drawn: Tensor | None = None) -> Batch:
        """With the tokens of the highest norms masked or, in rows that are `drawn`, as many of the candidates."""
        rank = ranks(norms.masked_fill(~batch.body, -torch.inf), "left")
        if drawn is not None and batch.seeds is not None:
            lots = uniform(batch.seeds, self.options.candidates).to(norms.dtype)  # (rows, candidates)
            norms = torch.where(drawn[:, None], lots.gather(1, rank.clamp(max=lots.shape[1] - 1)), norms)
        shown = replace_highest(batch, norms, batch.lengths.clamp(max=self.options.masked), mask_id,
                                candidates=batch.body & (rank < self.options.candidates))
        return replace(shown, mask_position="normal")

    def answer(self, network: Network, batch: Batch, embeddings: Tensor | None = None) -> Tensor:
        with noisy(self._noisy, self.options.deviation, batch.seeds):
            return network(batch, embeddings)

    def wanted(self, logits: Tensor, seen: Tensor, *, early: bool) -> Tensor:
        """The first round, then the second where P(at most the leader's votes), of fair coins, is not high enough."""
        if (seen < (first := self.options.first)).any():
            return first - seen
        votes = counted(logits[:first]).amax(dim=1).cpu()
        ways = torch.tensor([comb(first, heads) for heads in range(first + 1)], dtype=torch.double)
        return torch.where((ways.cumsum(0) / 2**first)[votes] < self.options.confidence, self.views - seen, 0)

    def combine(self, logits: Tensor) -> Tensor:
        """The mean of the first round's logits, or of the second's where there was one."""
        first, second = logits[:self.options.first].nanmean(dim=0), logits[self.options.first:].nanmean(dim=0)
        return torch.where(second.isnan(), first, second)
