# SPDX-License-Identifier: Apache-2.0
"""A floor under the training loss, laid where batches begin to teach against each other."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from dualmask.cards import Paper, Preset
from dualmask.defences.base import Defence, Family, Network
from dualmask.options import check_least
from dualmask.seeds import seed_layers
from dualmask.text.encoding import Batch
from dualmask.text.examples import Example

if TYPE_CHECKING:
    from dualmask.models.victim import Classifier

LEARNED = 0.8  # of the loss of guessing: above, gradients disagree because nothing is learned yet
SHORTEST = 1e-12  # a gradient shorter than this has no direction


@dataclass(frozen=True, kw_only=True)
class FloodingXOptions:
    """Where the floor is, or how it is found."""

    level: float | None = None  # b; none: found by accordance
    sub_batches: int = 8  # whose gradients are compared after each epoch
    sub_batch_size: int = 32

    def __post_init__(self) -> None:
        check_least(level=(self.level, 0), sub_batches=(self.sub_batches, 2), sub_batch_size=(self.sub_batch_size, 1))


class Trainee(Protocol):
    """What of a classifier the accordance is measured on: its network, and what it shows and asks in training."""

    @property
    def network(self) -> nn.Module: ...

    @property
    def defence(self) -> Defence: ...


class FloodingX(Defence):
    """Flooding-X: the training loss may not fall below a level, which agreement between gradients finds.

    Paper: Liu, Zheng, Rong, Liu, Liu, Cheng, Qiao, Gui, Zhang, Huang, Flooding-X, ACL 2022.
    Idea: what is learned after batches have stopped helping each other is learned by heart, and breaks under small
    changes; |L - b| + b turns the gradient round as soon as the loss L of a batch is below the level b.
    Acts at: loss (|L - b| + b); augment (after each epoch: has the accordance gone? then b is the training loss).
    Deviations: our reading: the paper's criterion was at hand as a description alone, and the release takes b by hand
    (0.1 and 0.2 for SST-2, 0.02 for IMDB; preset 'release' has 0.1). A step e along the gradient g_i of a sub-batch
    changes another's loss by about -e g_i g_j: the accordance is the mean cosine over all pairs of 8 disjoint
    sub-batches of 32 training texts, labels in like shares, all parameters together, dropout on. The first time that it
    is not positive, b is their mean loss, for good, unless above 80 % of that of guessing. Eight passes after each
    epoch. The best flooded epoch is kept ('release': the last), the last where b is never found: `level` is b or 0.
    Relations: TTSO keeps the loss high by a temperature. Judge both with calibrated scores as well: confidence is not
    what it would be. In freelb+floodingx each step's loss is flooded by itself; below b the steps lead further down.
    """

    name: ClassVar[str] = "floodingx"
    family: ClassVar[Family] = "regularisation"
    paper: ClassVar[Paper | None] = Paper(
        "Flooding-X: Improving BERT's Resistance to Adversarial Attacks via Loss-Restricted Fine-Tuning",
        "Liu, Zheng, Rong, Liu, Liu, Cheng, Qiao, Gui, Zhang, Huang", "ACL 2022", "aclanthology.org/2022.acl-long.386")
    Options = FloodingXOptions
    presets: ClassVar = {
        "recommended": Preset({}, {}),
        "release": Preset({"level": 0.1}, {"learning_rate": 2e-5, "epochs": 10, "patience": 0, "clip": "none",
                                           "keep": "last", "max_length": 512}),
    }
    options: FloodingXOptions
    level: Tensor  # b; 0 while there is none, since no cross-entropy lies below
    asked: Tensor  # the epoch before which the accordance was measured last

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        self.register_buffer("level", torch.tensor(self.options.level or 0.0))
        self.register_buffer("asked", torch.tensor(0))

    def augment(
        self, examples: Sequence[Example], epoch: int, generator: torch.Generator, classifier: "Classifier",
    ) -> Sequence[Example]:
        """An epoch ends where the next begins; one that is resumed half way has been asked about already."""
        if self.options.level is None and not self.level and epoch > self.asked:
            self.asked.fill_(epoch)
            agreement, loss = self.measured(examples, generator, classifier)
            if agreement <= 0 and loss < LEARNED * guessing(examples, self.class_weights):
                self.level.fill_(loss)
        return examples

    def is_ready(self, epoch: int) -> bool:
        return bool(self.level) or self.options.level is not None

    def measured(
        self, examples: Sequence[Example], generator: torch.Generator, classifier: "Classifier",
    ) -> tuple[float, float]:
        """The accordance of sub-batches and their mean loss, shown and asked as in training."""
        trainee = cast(Trainee, classifier)
        network, defence, training = trainee.network, trainee.defence, trainee.network.training
        weights = [weight for weight in network.parameters() if weight.requires_grad]
        losses: list[float] = []

        def gradient(part: Sequence[Example]) -> Sequence[Tensor]:
            view = defence.training_view([one.text for one in part], [one.label for one in part], classifier.encode,
                                         generator)
            loss, _ = defence.loss(network, view.to(classifier.device))
            losses.append(float(loss.detach()))
            return torch.autograd.grad(loss, weights, materialize_grads=True)

        seed_layers(int(torch.randint(1 << 62, (1,), generator=generator)), "accordance")
        network.train()
        found = accordance(map(gradient, self.dealt(examples, generator)))
        network.train(training)
        return found, sum(losses) / len(losses)

    def dealt(self, examples: Sequence[Example], generator: torch.Generator) -> list[list[Example]]:
        """Disjoint sub-batches drawn at random, each label shared out evenly among them."""
        count = self.options.sub_batches
        drawn = torch.randperm(len(examples), generator=generator)[:count * self.options.sub_batch_size].tolist()
        chosen = sorted((examples[row] for row in drawn), key=lambda example: example.label)
        return [part for start in range(count) if (part := chosen[start::count])]

    def loss(self, network: Network, batch: Batch, embeddings: Tensor | None = None) -> tuple[Tensor, Tensor]:
        loss, answer = super().loss(network, batch, embeddings)
        return (loss - self.level).abs() + self.level, answer


def guessing(examples: Sequence[Example], weights: Tensor | None = None) -> float:
    """The cross-entropy of one who knows how frequent labels are, and nothing else: the entropy of their shares.

    weights: of the classes, by which the loss counts them; such shares are those of what each class weighs in all.
    """
    counts = torch.bincount(torch.tensor([example.label for example in examples]))
    if weights is None:
        return float(torch.special.entr(counts / counts.sum()).sum())
    weighed = counts * weights[:len(counts)].cpu()
    return float(torch.special.entr(weighed / weighed.sum()).sum() * weighed.sum() / counts.sum())


def accordance(gradients: Iterable[Sequence[Tensor]]) -> float:
    """The mean cosine over all pairs: of n unit vectors u, (|sum u|^2 - sum |u|^2) / (n (n - 1)); one alone has none.

    Only the sum is kept: memory would not hold all gradients of a large network. One that is zero agrees with none."""
    total: list[Tensor] = []
    own: list[Tensor] = []
    for gradient in gradients:
        length = get_total_norm(gradient).clamp(min=SHORTEST)
        units = [part / length for part in gradient]
        total = [one + other for one, other in zip(total, units, strict=True)] if total else units
        own.append(get_total_norm(units).square())
    return float((get_total_norm(total).square() - torch.stack(own).sum()) / (len(own) * (len(own) - 1)))
