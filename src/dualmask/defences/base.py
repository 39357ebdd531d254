# SPDX-License-Identifier: Apache-2.0
"""What a defence is: hooks, each doing nothing here, so that this base class is the plain classifier."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dualmask.cards import Method, Source
from dualmask.errors import DualmaskError, OptionError
from dualmask.seeds import Noise as Noise
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Example, Text
from dualmask.text.readings import Reading

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from dualmask.models.victim import Classifier

Family = Literal["none", "masking", "smoothing", "detection", "adversarial training", "regularisation", "purification"]
Ask = Callable[[Sequence[Text]], Tensor]  # logits of all views of texts, (views, texts, classes)
Backward = Callable[[Tensor], None]  # adds a loss's gradient to the parameters


class Network(Protocol):
    """What a loss may ask: logits (rows, classes) of a batch, with other word embeddings if wanted.

    states: the last layer's output (rows, length, size) instead; at inference perhaps the first token's alone.
    """

    def __call__(self, batch: Batch, embeddings: Tensor | None = None, *, states: bool = False) -> Tensor: ...


class Objective(Protocol):
    """A defence's loss, the network inside: the loss to lower and the logits (rows, classes) it came from."""

    def __call__(self, batch: Batch, embeddings: Tensor | None = None) -> tuple[Tensor, Tensor]: ...


class Defence(nn.Module, Method):
    """The plain classifier: no defence at all.

    Idea: fine-tune on the texts as they are and answer in one pass; the row every defence is compared with.
    Acts at: nothing.
    Deviations: none. Invisible characters that the tokenizer has pieces for (BERT's for a Hangul filler, byte-level
    ones for all) are read, here and in defences that don't read word by word.
    Relations: what any defence becomes when its rates are zero.
    """

    name: ClassVar[str] = "plain"
    noun: ClassVar[str] = "defence"
    family: ClassVar[Family] = "none"
    passes: ClassVar[str] = "1"  # a text, with the recommended options
    adds: ClassVar[bool] = False  # examples of its own, in training
    looks_inside: ClassVar[bool] = False  # in training it leads gradients back to words, which must be the text's own
    trains_head: ClassVar[bool] = True  # the network's own; else nobody can ask the network without the defence
    explainable: ClassVar[bool] = True  # the k-th body token of what the network sees is the text's k-th, or its mask
    learned_attacks: ClassVar[tuple[Source, ...]] = ()  # on whose texts it is trained
    reads_words: ClassVar[bool] = False  # word by word, invisible characters left out before
    certificate: ClassVar[str] = ""  # what a certificate of it is about, in a few words; empty: there is none
    preset_around_trained: ClassVar[str] = "recommended"  # around a network that was trained without the defence

    def __init__(self, options: object | None = None) -> None:
        super().__init__()
        self.options = options if options is not None else self.Options()
        self._model: tuple[PreTrainedModel, ...] = ()  # in a tuple: no part of this module's weights
        self.class_weights: Tensor | None = None  # (classes,), while it is trained with some; never saved

    @property
    def noise(self) -> Noise:
        return "none"

    @property
    def model(self) -> "PreTrainedModel":
        """The network that it was given."""
        if not self._model:
            raise DualmaskError(f"the defence '{self.name}' was not given a model; call adapt() first.")
        return self._model[0]

    @property
    def table(self) -> nn.Embedding:
        """The network's word embeddings."""
        return cast(nn.Embedding, self.model.get_input_embeddings())

    @property
    def views(self) -> int:
        """Views of a text that an answer is made of, at most."""
        return 1

    @property
    def pass_count(self) -> str:
        """Passes that a text takes, with the options at hand."""
        return str(self.views)

    @property
    def threshold(self) -> float | None:
        """Of detectors: texts more suspicious than this are flagged."""
        return None

    # Training

    def adapt(self, model: "PreTrainedModel") -> None:
        """Take the network, before training or after loading, and change it, e.g. teach it a zero position."""
        self._model = (model,)

    def fit(self, examples: Sequence[Example], encode: Encode) -> None:
        """Learn corpus statistics from the training examples and keep them as buffers."""

    def augment(
        self, examples: Sequence[Example], epoch: int, generator: torch.Generator, classifier: "Classifier",
    ) -> Sequence[Example]:
        """The examples of one epoch, counted from 0; the classifier as it is then, defence and all, may be asked."""
        return examples

    def training_view(
        self, texts: Sequence[Text], labels: Sequence[int], encode: Encode, generator: torch.Generator,
    ) -> Batch:
        """What the network sees in training."""
        return encode(texts).with_labels(labels)

    def loss(self, network: Network, batch: Batch, embeddings: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The loss to lower, and the logits (rows, classes) it came from; embeddings stand in for the batch's words."""
        assert batch.labels is not None
        answer = self.answer(network, batch, embeddings)
        return self.label_loss(answer, batch.labels), answer

    def label_loss(self, answer: Tensor, labels: Tensor, *, reduction: Literal["mean", "sum"] = "mean") -> Tensor:
        """The cross-entropy of logits (rows, classes), by which every defence learns labels; each class by its weight.

        The mean is one over rows: divided by the weights of a batch, as PyTorch has it, rows of a frequent class would
        count in full again wherever a batch has no other.
        """
        if self.class_weights is None:
            return F.cross_entropy(answer, labels, reduction=reduction)
        losses = F.cross_entropy(answer, labels, weight=self.class_weights, reduction="none")
        return losses.mean() if reduction == "mean" else losses.sum()

    def weigh_classes(self, weights: Tensor | None) -> None:
        """From now on learn from classes by these weights, (classes,), on the device of training; None: from all alike.

        Other terms of a loss, which know no labels, stay as they are.
        """
        self.class_weights = weights

    def harden(self, objective: Objective, batch: Batch) -> Batch:
        """The batch that is learned from instead, harder for the network as it is; asked just before `learn`."""
        return batch

    def learn(self, objective: Objective, batch: Batch, backward: Backward) -> tuple[Tensor, Tensor]:
        """What one batch teaches: gradients into the parameters, in as many passes as it takes; loss and logits."""
        loss, answer = objective(batch)
        backward(loss)
        return loss, answer

    def is_ready(self, epoch: int) -> bool:
        """Whether the weights after this epoch, counted from 0, may be kept: all that the defence does has begun."""
        return True

    def tune(self, ask: Ask, validation: Sequence[Example]) -> None:
        """After training: set thresholds on held-out examples."""

    def training_room(self, encode: Encode, specials: int) -> int:
        """Tokens of a text that training has room for, beside so many special ones."""
        return self.room(encode, specials)

    # Inference

    def room(self, encode: Encode, specials: int) -> int:
        """Tokens of a text that its views have room for, beside so many special ones; longer texts are cut."""
        return encode.max_length - specials

    @property
    def asker(self) -> "Defence":
        """Who decides what is asked at inference: itself or, of several together, one of them."""
        return self

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        """What the network sees at inference: row i is view numbers[i] of texts[i], a function of these two alone."""
        return encode(texts).to(device)

    def answer(self, network: Network, batch: Batch, embeddings: Tensor | None = None) -> Tensor:
        """The network's logits (rows, classes); the place for noise inside it."""
        return network(batch, embeddings)

    def wanted(self, logits: Tensor, seen: Tensor, *, early: bool) -> Tensor:
        """Further views that each text needs after `seen` of them, (texts,) both, on the CPU.

        logits: (views, texts, classes), NaN where a view was not asked; early: stop where the label can't change.
        """
        return self.views - seen

    def combine(self, logits: Tensor) -> Tensor:
        """(views, texts, classes), NaN where a view was not asked -> (texts, classes)."""
        return logits.nanmean(dim=0)

    def suspicion(self, logits: Tensor) -> Tensor | None:
        """Of detectors: how suspicious each text is, (texts,), from the same logits."""
        return None

    def account(self, text: Text) -> list[Reading] | None:
        """Words that the network is shown otherwise than they are written, where a defence that rewrites can tell."""
        return None

    def origins(self, text: Text) -> list[tuple[int, int]] | None:
        """Where in the text each word of the first view (`Batch.words`) comes from, if one that rewrites can tell.

        A pair counts as its texts joined by one character.
        """
        return None

    def redraw(self, number: int, *, same: bool = False) -> None:
        """For noise: take the draws of this number from now on; 0 is where everybody begins. same: for all texts."""

    def radius(self, text: Text, share: float, encode: Encode, *, strict: bool = True) -> int:
        """The most changes to a text that a share of votes outweighs; -1 where it proves nothing.

        share: a lower bound of the votes for the leading class. strict: a guarantee; else the published heuristic.
        """
        raise OptionError(f"the defence '{self.name}' has no {'certificate' if strict else 'heuristic radius'} that "
                          "follows from votes.")

    # Storage

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load saved buffers and parameters; tables take the size they were saved with."""
        for name in dict(self.named_buffers()):
            if name in state:
                owner, _, leaf = name.rpartition(".")
                setattr(self.get_submodule(owner), leaf, torch.empty_like(state[name]))
        self.load_state_dict(dict(state))
