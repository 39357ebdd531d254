# SPDX-License-Identifier: Apache-2.0
"""Several heads instead of one, and a random choice among them for each text."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from dualmask.cards import Paper, Preset
from dualmask.defences.base import Family, Network, Noise
from dualmask.defences.voting import Voting, VotingOptions
from dualmask.errors import OptionError
from dualmask.models.experts import TINY, Experts, kept_back, likeness, seeded_gumbel
from dualmask.models.heads import head_logits
from dualmask.options import came_later, check_least, check_shares
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Example, Text

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from dualmask.models.victim import Classifier


@dataclass(frozen=True, kw_only=True)
class SHIELDOptions(VotingOptions):
    """Of the experts, the choice among them, and how their depths are searched."""

    votes: int = 1
    decision: Literal["vote", "mean"] = "mean"
    gumbel: bool = True  # noise in the choice at inference; without it the same expert each time
    experts: int = 5  # N
    temperature: float = 0.01  # tau at inference
    training_temperature: float = 1.0
    weights: Literal["gumbel", "release"] = "gumbel"  # release: times the temperature, and the switch once more
    averaged: bool = came_later(True, before=False)  # over experts and, in training, their depths; false: summed
    dropout: float = 0.5
    warm: int = 3  # epochs in which the encoder learns; then it is frozen
    search: float = 0.1  # share of the examples that teach the depths, not the experts
    diversity: float = 0.5  # weight of both diversity terms
    depth_rate: float = 2000.0  # times the learning rate: the depths' own

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(experts=(self.experts, 2), warm=(self.warm, 0), depth_rate=(self.depth_rate, 1),
                    temperature=(self.temperature, TINY), training_temperature=(self.training_temperature, TINY))
        check_shares(dropout=self.dropout, search=self.search)


class SHIELD(Voting):
    """SHIELD: five expert heads, one drawn by lot for each text.

    Paper: Le, Park, Lee, SHIELD, ACL 2022.
    Idea: an attack that asks step by step is led astray by a model that is another one at each step.
    Acts at: answer (experts, switch and lot in the head's place), loss, augment (the freeze), inference_view. The lot
    makes no encoder robust: suspect masked gradients and scores, and judge it with gumbel=false and many votes too.
    Deviations: for 3 epochs the encoder learns through its own head, the experts beside it; then it is frozen, dropout
    on ('patch', for a trained classifier, freezes at once, as published). A tenth of the training examples teach the
    depths, not validation data. Models saved before there was 'averaged' sum and go on so. 'release' multiplies by tau
    where we divide, and weighs by the switch twice. What stays there: one optimiser for all (the released encoder is
    trained before, by AdamW), a switch that learns, the diversity of experts before they are weighed, distances that
    are not squared, and the epoch kept by accuracy, not by the loss.
    Relations: IB draws a code where this draws a head. Text-RS and RSMI put noise before or into the encoder.
    """

    name: ClassVar[str] = "shield"
    family: ClassVar[Family] = "regularisation"
    passes: ClassVar[str] = "1"
    explainable: ClassVar[bool] = True  # nothing of the text is hidden
    paper: ClassVar[Paper | None] = Paper(
        "SHIELD: Defending Textual Neural Networks against Multiple Black-Box Adversarial Attacks with Stochastic "
        "Multi-Expert Patcher", "Le, Park, Lee", "ACL 2022", "arXiv:2011.08908")
    Options = SHIELDOptions
    presets: ClassVar = {
        "recommended": Preset({}, {"epochs": 8}), "patch": Preset({"warm": 0}, {}),
        "release": Preset({"weights": "release", "depth_rate": 3333.0}, {
            "optimiser": "adam", "learning_rate": 3e-5, "weight_decay": 0.0, "schedule": "constant", "warmup": 0.0,
            "clip_at": 3.0, "batch_size": 32, "epochs": 8})}
    options: SHIELDOptions
    _frozen = False  # the encoder, while training

    @property
    def noise(self) -> Noise:
        return self.options.noise if self.options.gumbel else "none"

    @property
    def views(self) -> int:
        return self.options.votes if self.options.gumbel else 1

    def adapt(self, model: "PreTrainedModel") -> None:
        super().adapt(model)
        o, config = self.options, model.config
        self.experts = Experts(
            o.experts, config.hidden_size, int(config.num_labels or 0), rate=o.depth_rate, dropout=o.dropout,
            temperature=o.training_temperature, scaled=o.weights == "release", averaged=o.averaged).to(model.device)

    def is_ready(self, epoch: int) -> bool:
        return epoch >= self.options.warm

    def augment(
        self, examples: Sequence[Example], epoch: int, generator: torch.Generator, classifier: "Classifier",
    ) -> Sequence[Example]:
        from accelerate import PartialState

        if (processes := PartialState().num_processes) > 1:  # they would wait for gradients that frozen weights lack
            raise OptionError(f"the defence 'shield' can't be trained by {processes} processes together; start one.")
        self._frozen = self.is_ready(epoch)
        return examples

    def train(self, mode: bool = True) -> Self:
        for model in self._model:
            model.requires_grad_(not (mode and self._frozen))  # frozen in training alone: a model at rest is as any
        return super().train(mode)

    def loss(self, network: Network, batch: Batch, embeddings: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """First the encoder's own head and, without moving it, the experts; once it is frozen experts and depths."""
        assert batch.labels is not None
        states = network(batch, embeddings, states=True)
        answer, _ = self.experts((states if self._frozen else states.detach())[:, 0], self.experts.mixture().detach())
        if not self._frozen or batch.examples is None:
            own = head_logits(self.model, states, batch.attention_mask)
            return self.label_loss(own, batch.labels) + self.label_loss(answer, batch.labels), answer
        held = kept_back(batch.examples, self.options.search)
        loss = self.label_loss(answer[~held], batch.labels[~held], reduction="sum") / (~held).sum().clamp(min=1)
        return (loss + self.searched(network, batch, embeddings, held) if held.any() else loss), answer

    def searched(self, network: Network, batch: Batch, embeddings: Tensor | None, held: Tensor) -> Tensor:
        """What the examples kept back teach the depths: cross entropy, and experts that differ in their gradients."""
        words = self.table(batch.input_ids) if embeddings is None else embeddings
        words = words[held].detach().requires_grad_()
        part = batch.with_tensors({f.name: value[held] for f in fields(batch)
                                   if isinstance(value := getattr(batch, f.name), Tensor)})
        assert part.labels is not None
        with sdpa_kernel(SDPBackend.MATH):  # other ways to attend can't be differentiated twice
            answer, answers = self.experts(network(part, words, states=True)[:, 0], self.experts.mixture())
            alike = self.options.diversity * likeness(answers, part.labels, words)
            return self.experts.search(self.label_loss(answer, part.labels) + alike)

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        return replace(encode(texts), seeds=self.seeds(texts, numbers) if self.options.gumbel else None).to(device)

    def answer(self, network: Network, batch: Batch, embeddings: Tensor | None = None) -> Tensor:
        """Each expert at its likeliest depth; the lot by the rows' seeds, none where they have none."""
        first = network(batch, embeddings, states=True)[:, 0]
        answers = self.experts.answers(first, self.experts.chosen())
        lot = torch.zeros(()) if batch.seeds is None else seeded_gumbel(batch.seeds, answers.shape[1])
        return self.experts.decided(first, answers, lot.to(answers), self.options.temperature)
