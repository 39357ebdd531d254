# SPDX-License-Identifier: Apache-2.0
"""A narrow, noisy code of the text between encoder and head."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dualmask.cards import Paper, Preset
from dualmask.defences.base import Family, Network, Noise
from dualmask.defences.voting import Voting, VotingOptions
from dualmask.models.heads import head_logits
from dualmask.options import check_least, check_shares
from dualmask.seeds import gaussian
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Text

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class IBOptions(VotingOptions):
    """How narrow the code is, and whether it is drawn at inference too."""

    size: int = 500  # dimensions of z
    weight: float = 0.1  # beta, of the divergence
    dropout: float = 0.1  # of z
    inference: Literal["mean", "sampled"] = "mean"  # the head reads mu, or z drawn around it
    votes: int = 1  # draws that an answer is made of, where it is drawn
    decision: Literal["vote", "mean"] = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(size=(self.size, 1), weight=(self.weight, 0))
        check_shares(dropout=self.dropout)


class IB(Voting):
    """Information bottleneck: the head reads a code of the text that is noisy and may hold little.

    Paper: Zhang, Zhou, Wan, Zheng, Chang, Hsieh, Improving the Adversarial Robustness of NLP Models by Information
    Bottleneck, Findings of ACL 2022.
    Idea: features that an attacker moves easily tell little about the task for what they cost to encode; a code that
    pays for every bit, by its divergence from a distribution r that all texts share, leaves them out.
    Acts at: loss (cross-entropy of z ~ N(mu, sigma), plus 0.1 KL(N(mu, sigma) || r)), answer (the code and its head),
    inference_view (seeds of z, where it is drawn).
    Deviations: mu answers; the released code draws z for every answer, so that the same question gets other answers
    ('sampled', which preset 'release' has, draws by the text). As released, KL is the mean of the 500 dimensions,
    not their sum. There Adam takes epochs in turn: heads at 2e-5, with the encoder at 1e-5 once validation reaches
    75 %, then r alone at 2e-5; here all learn in every epoch, at one rate, and 'release' has 5 epochs for those 10.
    r begins as N(0, 1), not at random with widths near 0. A second linear layer before the code, with nothing
    between, is left out. The encoder's own head, which plain transformers and undefended() ask, learns beside it by
    cross-entropy from the same states, in which it has no say.
    Relations: InfoBERT bounds what word embeddings tell. The released code trains on FreeLB's steps: that is ib+freelb.
    """

    name: ClassVar[str] = "ib"
    family: ClassVar[Family] = "regularisation"
    passes: ClassVar[str] = "1"
    explainable: ClassVar[bool] = True
    paper: ClassVar[Paper | None] = Paper(
        "Improving the Adversarial Robustness of NLP Models by Information Bottleneck",
        "Zhang, Zhou, Wan, Zheng, Chang, Hsieh", "Findings of ACL 2022", "arXiv:2206.05511")
    Options = IBOptions
    presets: ClassVar = {
        "recommended": Preset({}, {}),
        "release": Preset({"inference": "sampled"}, {
            "optimiser": "adam", "learning_rate": 2e-5, "schedule": "constant", "warmup": 0.0, "weight_decay": 0.0,
            "epochs": 5, "batch_size": 64, "patience": 0}),
    }
    options: IBOptions

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        self.dropout = nn.Dropout(self.options.dropout)
        self.usual_mean = nn.Parameter(torch.zeros(self.options.size))  # r, and the logarithm of its deviation
        self.usual_width = nn.Parameter(torch.zeros(self.options.size))

    @property
    def sampled(self) -> bool:
        return self.options.inference == "sampled"

    @property
    def noise(self) -> Noise:
        return self.options.noise if self.sampled else "none"

    @property
    def views(self) -> int:
        return self.options.votes if self.sampled else 1

    def adapt(self, model: "PreTrainedModel") -> None:
        super().adapt(model)
        self.code = nn.Linear(model.config.hidden_size, 2 * self.options.size)
        self.head = nn.Linear(self.options.size, cast(int, model.config.num_labels))
        self.to(model.device)

    def loss(self, network: Network, batch: Batch, embeddings: Tensor | None = None) -> tuple[Tensor, Tensor]:
        assert batch.labels is not None
        states = network(batch, embeddings, states=True)  # (rows, length, hidden size)
        mean, deviation = self.coded(states)
        answer = self.read(drawn(mean, deviation, batch.seeds))
        cost = divergence(mean, deviation, self.usual_mean, self.usual_width.exp())
        own = head_logits(self.model, states.detach(), batch.attention_mask)
        return (self.label_loss(answer, batch.labels) + self.options.weight * cost.mean()
                + self.label_loss(own, batch.labels)), answer

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        batch = super().inference_view(texts, numbers, encode, device)
        return replace(batch, seeds=self.seeds(texts, numbers).to(device)) if self.sampled else batch

    def answer(self, network: Network, batch: Batch, embeddings: Tensor | None = None) -> Tensor:
        mean, deviation = self.coded(network(batch, embeddings, states=True))
        return self.read(drawn(mean, deviation, batch.seeds) if self.sampled else mean)

    def coded(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """mu and sigma of each row, (rows, size) both, from its first token."""
        mean, width = self.code(states[:, 0]).float().chunk(2, dim=1)
        return mean, F.softplus(width)

    def read(self, code: Tensor) -> Tensor:
        answer: Tensor = self.head(self.dropout(code))
        return answer


def drawn(mean: Tensor, deviation: Tensor, seeds: Tensor | None) -> Tensor:
    """z, each row by its seed; rows in training have none: there the loop has seeded what layers draw from."""
    noise = torch.randn_like(mean) if seeds is None else gaussian(seeds, mean.shape[1])
    return mean + deviation * noise


def divergence(mean: Tensor, deviation: Tensor, usual_mean: Tensor, usual_deviation: Tensor) -> Tensor:
    """KL(N(mean, deviation) || N(usual mean, usual deviation)) of each dimension by itself."""
    ratio, distance = deviation / usual_deviation, (mean - usual_mean) / usual_deviation
    return (ratio.square() + distance.square() - 1) / 2 - ratio.log()
