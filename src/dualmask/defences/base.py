# SPDX-License-Identifier: Apache-2.0
"""What a defence is: seven hooks, each doing nothing here, so that this base class is the plain classifier."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dualmask.cards import Method
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Example, Text

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Noise = Literal[
    "none",  # equal texts get equal answers, always
    "text",  # drawn from the text and a number: the same until `redraw`
    "fresh",  # drawn anew for each answer
]
Family = Literal["none", "masking", "smoothing", "detection", "adversarial training", "regularisation", "purification"]


class Network(Protocol):
    """What a loss may ask: logits (rows, classes) of a batch, with other word embeddings if wanted."""

    def __call__(self, batch: Batch, embeddings: Tensor | None = None) -> Tensor: ...


class Defence(nn.Module, Method):
    """The plain classifier: no defence at all.

    Idea: fine-tune on the texts as they are and answer in one pass; the row every defence is compared with.
    Acts at: nothing.
    Deviations: none.
    Relations: what any defence becomes when its rates are zero.
    """

    name: ClassVar[str] = "plain"
    noun: ClassVar[str] = "defence"
    family: ClassVar[Family] = "none"
    passes: ClassVar[str] = "1"
    noise: Noise = "none"

    def __init__(self, options: object | None = None) -> None:
        super().__init__()
        self.options = options if options is not None else self.Options()

    def adapt(self, model: "PreTrainedModel") -> None:
        """Change the network before training or after loading, e.g. teach it a zero position."""

    def fit(self, examples: Sequence[Example], encode: Encode) -> None:
        """Learn corpus statistics from the training examples and keep them as buffers."""

    def augment(self, examples: Sequence[Example], epoch: int, generator: torch.Generator) -> Sequence[Example]:
        """The examples of one epoch."""
        return examples

    def training_view(
        self, texts: Sequence[Text], labels: Sequence[int], encode: Encode, generator: torch.Generator,
    ) -> Batch:
        """What the network sees in training."""
        return encode(texts).with_labels(labels)

    def loss(self, network: Network, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss to lower, and the logits (rows, classes) it came from."""
        assert batch.labels is not None
        answer = network(batch)
        return F.cross_entropy(answer, batch.labels), answer

    def inference_views(self, texts: Sequence[Text], encode: Encode, device: torch.device) -> Iterator[Batch]:
        """What the network sees at inference: one batch or, for voting defences, several of the same rows."""
        yield encode(texts).to(device)

    def combine(self, logits: Tensor) -> Tensor:
        """(views, rows, classes) -> (rows, classes)."""
        return logits.mean(dim=0)

    def redraw(self, number: int) -> None:
        """For noise drawn from the text: take the draws of this number from now on; 0 is where everybody begins."""

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load saved buffers and parameters; tables take the size they were saved with."""
        for name in dict(self.named_buffers()):
            if name in state:
                owner, _, leaf = name.rpartition(".")
                setattr(self.get_submodule(owner), leaf, torch.empty_like(state[name]))
        self.load_state_dict(dict(state))
