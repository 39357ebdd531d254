# SPDX-License-Identifier: Apache-2.0
"""Adversarial training on texts that a cheap attack finds, anew before each epoch."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Literal

import torch

from dualmask.cards import Paper, Preset, Source
from dualmask.defences.adversaries import Adversaries, part, shuffled
from dualmask.defences.base import Defence, Family
from dualmask.options import check_least, check_shares
from dualmask.text.encoding import Encode
from dualmask.text.examples import Example

if TYPE_CHECKING:
    from dualmask.models.victim import Classifier


@dataclass(frozen=True, kw_only=True)
class A2TOptions:
    """How much is attacked, when, and at what price."""

    clean_epochs: int = 1  # before the first attack
    share: float = 0.2  # gamma, of the training examples
    share_of: Literal["attacked", "successes"] = "attacked"  # so many are tried, or tried until so many have fallen
    queries: int | None = 200  # of the attack on one text; none: no limit
    similarity: float | None = 0.9  # least cosine of sentence vectors; none: not checked, no encoder needed
    sentence_encoder: str = "minilm"  # or use, a folder, a hub id
    synonyms: str = "shipped"  # the table, or a file of word vectors
    records: str = ""  # a file of earlier attacks on the training texts, instead of attacks while training

    def __post_init__(self) -> None:
        check_least(clean_epochs=(self.clean_epochs, 0), queries=(self.queries, 1))
        check_shares(share=self.share)


class A2T(Defence):
    """Attacking to training: before each epoch some training texts are attacked, and those that fall are learned too.

    Paper: Yoo, Qi, Towards Improving Adversarial Training of NLP Models, Findings of EMNLP 2021.
    Idea: plain adversarial training works for texts once the attack is cheap: a word order from one gradient, few and
    near synonyms, a bound on the questions. Adversaries are made for the network as it then is, not once for all.
    Acts at: augment (after one clean epoch, a fifth of the examples is attacked by the attack 'a2t'; its successes are
    learned beside all clean examples, with the same weight: alpha = 1).
    Deviations: a fifth is attacked here, where the released code goes on until a fifth has fallen, however many
    attempts that takes: preset 'paper', with the release's four epochs. What the attack takes from other sources than
    the paper is on its own card. Records of any attack may stand in for it: then each epoch draws from the same
    successes. A stopped run attacks anew when it goes on, so that its weights may differ from an unbroken run's.
    Relations: ADFAR makes adversaries once, with TextFooler, and also learns to tell them; FreeLB and FAT move
    embeddings, not words. Combines with what acts elsewhere, e.g. ddm+a2t: then the defended classifier is attacked.
    """

    name: ClassVar[str] = "a2t"
    family: ClassVar[Family] = "adversarial training"
    adds: ClassVar[bool] = True
    looks_inside: ClassVar[bool] = True
    paper: ClassVar[Paper | None] = Paper(
        "Towards Improving Adversarial Training of NLP Models", "Yoo, Qi", "Findings of EMNLP 2021",
        "aclanthology.org/2021.findings-emnlp.81")
    synonym_tables: ClassVar[tuple[Source, ...]] = (Source("{synonyms}", when={"records": ("",)}),)
    learned_attacks: ClassVar[tuple[Source, ...]] = (Source("a2t", when={"records": ("",)}),)
    Options = A2TOptions
    presets: ClassVar = {
        "recommended": Preset({}, {}),
        "paper": Preset({"share_of": "successes"}, {
            "epochs": 4, "batch_size": 8, "learning_rate": 5e-5, "warmup": 100, "patience": 0}),
    }
    options: A2TOptions

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        chosen = self.options
        self.adversaries = Adversaries("a2t", "paper", {
            "queries": chosen.queries, "similarity": chosen.similarity, "sentence_encoder": chosen.sentence_encoder,
            "synonyms": chosen.synonyms}, records=chosen.records)

    def fit(self, examples: Sequence[Example], encode: Encode) -> None:
        self.adversaries.fit(examples)

    def is_ready(self, epoch: int) -> bool:
        return epoch >= self.options.clean_epochs

    def augment(
        self, examples: Sequence[Example], epoch: int, generator: torch.Generator, classifier: "Classifier",
    ) -> Sequence[Example]:
        count = part(self.options.share, examples)
        if not self.is_ready(epoch) or not count:
            return examples
        tried = shuffled(examples, generator)
        if self.options.share_of == "attacked":
            tried = tried[:count]
        return [*examples, *islice(self.adversaries.of(tried, generator, classifier), count)]
