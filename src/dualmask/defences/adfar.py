# SPDX-License-Identifier: Apache-2.0
"""Adversarial training that also learns to tell adversaries, and answers those from a randomised text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dualmask.cards import Paper, Preset, Source
from dualmask.defences.adversaries import Adversaries, part, shuffled
from dualmask.defences.base import Family, Network
from dualmask.defences.random_views import RandomViews
from dualmask.models.observation import watched
from dualmask.options import came_later, check_least, check_shares
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Example, Text
from dualmask.text.randomisation import FrequentSynonyms
from dualmask.text.synonyms import shipped_synonyms

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from dualmask.models.victim import Classifier


@dataclass(frozen=True, kw_only=True)
class ADFAROptions:
    """Of the attack and of the randomisation."""

    clean_epochs: int = 1  # before the attack; where there are records, none
    share: float = 1.0  # of the training examples that are attacked
    queries: int | None = 200  # of the attack on one text; none: no limit
    sentence_encoder: str = "minilm"  # the attack's: or use, a folder, a hub id
    records: str = ""  # a file of earlier attacks on the training texts, instead of an attack while training
    train_rate: float = 0.25  # words of a text that are drawn to be replaced, in training
    test_rate: float = 0.3  # and at inference
    # what its head reads; pooled: as the labels' last layer
    anomaly: Literal["state", "pooled"] = came_later("state", before="state")
    noise: Literal["text", "fresh"] = "text"  # the same draws each time a text comes, or new ones
    noise_seed: int = 0

    def __post_init__(self) -> None:
        check_least(clean_epochs=(self.clean_epochs, 0), queries=(self.queries, 1))
        check_shares(share=self.share, train_rate=self.train_rate, test_rate=self.test_rate)


class ADFAR(RandomViews):
    """Anomaly detection with frequency-aware randomisation: what looks adversarial is randomised before it is answered.

    Paper: Bao, Wang, Zhao, Defending Pre-trained Language Models [...], Findings of ACL 2021.
    Idea: an adversary hangs on its exact words, so that other synonyms break it; clean texts need not suffer, since the
    network learns beside its task which texts are adversarial, and only those are changed.
    Acts at: augment (TextFooler's successes on training texts; a copy of these and of the clean ones, a quarter of the
    words drawn and made frequent synonyms), loss (cross-entropy of labels on all four sets, and of a one-logit anomaly
    head on the two not randomised), inference_view (a randomised view, which answers for anomalies above 0.5).
    Deviations: the paper attacks one network and trains another; here, unless records of an earlier attack are given,
    one is attacked after a clean epoch ('paper': of five), with at most 200 questions a text ('paper': any number); a
    resumed run attacks anew. Frequencies are ranks in the shipped table (50,000 words in GloVe's order); one of the 10
    most frequent is drawn (the release: of 11). The anomaly head begins without suspicion and reads the first token's
    last state, in 'paper' what the labels' last layer reads, as the release's on BERT.
    Relations: A2T attacks each epoch and has no detector. It is trained on its paper's attack; judge it by others too.
    """

    name: ClassVar[str] = "adfar"
    family: ClassVar[Family] = "adversarial training"
    passes: ClassVar[str] = "1 to 2"
    explainable: ClassVar[bool] = False  # nothing is hidden, but the answer may be to other words
    paper: ClassVar[Paper | None] = Paper(
        "Defending Pre-trained Language Models from Adversarial Word Substitutions Without Performance Sacrifice",
        "Bao, Wang, Zhao", "Findings of ACL 2021", "arXiv:2105.14553")
    synonym_tables: ClassVar[tuple[Source, ...]] = (Source("shipped"),)
    learned_attacks: ClassVar[tuple[Source, ...]] = (Source("textfooler", when={"records": ("",)}),)
    Options = ADFAROptions
    presets: ClassVar = {"recommended": Preset({}, {}), "paper": Preset({"queries": None, "anomaly": "pooled"}, {
        "epochs": 5, "batch_size": 16, "learning_rate": 3e-5, "warmup": 0.0, "weight_decay": 0.0, "keep": "last"})}
    options: ADFAROptions
    views, threshold, pass_count, adds = 2, 0.5, passes, True

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        self.adversaries = Adversaries("textfooler", "paper", {
            "neighbours": 30, "queries": self.options.queries, "sentence_encoder": self.options.sentence_encoder,
        }, records=self.options.records)
        self._found: list[Example] | None = None
        self._clean = self._plain = 0  # of an epoch's examples the first are clean, up to the second not randomised

    def fit(self, examples: Sequence[Example], encode: Encode) -> None:
        self.adversaries.fit(examples)

    def adapt(self, model: "PreTrainedModel") -> None:
        super().adapt(model)
        self.anomaly = nn.Linear(model.config.hidden_size, 1)
        nn.init.zeros_(self.anomaly.weight)
        nn.init.constant_(self.anomaly.bias, -1.0)  # no text is suspected before there is a reason
        self.synonyms = FrequentSynonyms(shipped_synonyms())

    def is_ready(self, epoch: int) -> bool:
        return epoch >= self.options.clean_epochs or bool(self.options.records)

    def augment(
        self, examples: Sequence[Example], epoch: int, generator: torch.Generator, classifier: "Classifier",
    ) -> Sequence[Example]:
        """Clean ones, adversaries, and both again randomised, in this order, which tells the loss what each is."""
        if not self.is_ready(epoch):
            return examples
        rate, seed = self.options.train_rate, self.options.noise_seed  # no draw: the same in a run that is resumed
        if self._found is None:
            tried = shuffled(examples, torch.Generator().manual_seed(seed))[:part(self.options.share, examples)]
            self._found = list(self.adversaries.of(tried, generator, classifier))
        self._clean, self._plain = len(examples), len(plain := [*examples, *self._found])
        return plain + [one._replace(text=self.synonyms.randomised(one.text, rate, seed)) for one in plain]

    def loss(self, network: Network, batch: Batch, embeddings: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """CE(label) + BCE(anomaly), the latter over rows that are not randomised; nor over those nobody knows about."""
        assert batch.labels is not None
        answer, anomaly = self.heads(network, batch, embeddings)
        numbers = batch.labels.new_full((len(batch),), self._plain) if batch.examples is None else batch.examples
        judged, adversarial = (numbers < self._plain).float(), (numbers >= self._clean).float()
        wrong = F.binary_cross_entropy_with_logits(anomaly, adversarial.to(anomaly), reduction="none")
        return self.label_loss(answer, batch.labels) + (wrong * judged).sum() / judged.sum().clamp(min=1), answer

    def heads(self, network: Network, batch: Batch, embeddings: Tensor | None) -> tuple[Tensor, Tensor]:
        """Logits of the classes and of the anomaly, (rows, classes) and (rows,), out of one pass."""
        with watched(self.model) as seen:
            answer = network(batch, embeddings)
        read = seen["pooled"] if self.options.anomaly == "pooled" else seen["states"][:, 0]
        return answer, self.anomaly(read).squeeze(1)

    def answer(self, network: Network, batch: Batch, embeddings: Tensor | None = None) -> Tensor:
        """A constant on all logits changes no probability, so their mean is free to carry the anomaly's logit."""
        answer, anomaly = self.heads(network, batch, embeddings)
        return answer - answer.mean(dim=1, keepdim=True) + anomaly.detach()[:, None]

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        rate, rows = self.options.test_rate, zip(texts, numbers, self.seeds(texts, numbers).tolist(), strict=True)
        return encode([self.synonyms.randomised(text, rate, seed) if number else text
                       for text, number, seed in rows]).to(device)

    def suspicion(self, logits: Tensor) -> Tensor:
        return logits[:1].nanmean(dim=0).mean(dim=1).sigmoid()

    def wanted(self, logits: Tensor, seen: Tensor, *, early: bool) -> Tensor:
        """The plain view, then the randomised one of texts that are flagged."""
        return (self.suspicion(logits).cpu() > self.threshold) * (self.views - seen) if len(logits) else 1 - seen

    def combine(self, logits: Tensor) -> Tensor:
        plain, other = (part.nanmean(dim=0) for part in (logits[:1], logits[-1:]))  # of no texts there are no views
        return torch.where((self.suspicion(logits) > self.threshold)[:, None] & ~other.isnan(), other, plain)
