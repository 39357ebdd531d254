# SPDX-License-Identifier: Apache-2.0
"""Logits divided by a temperature in training, and left alone afterwards."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from dualmask.cards import Paper, Preset
from dualmask.defences.base import Defence, Family, Network
from dualmask.errors import OptionError
from dualmask.options import check_least
from dualmask.text.encoding import Batch

RAINA = {"learning_rate": 1e-5, "epochs": 5, "patience": 0, "batch_size": 8, "warmup": 0.0, "clip": "unit"}
RELEASED = {"learning_rate": 2e-5, "epochs": 4, "patience": 0, "batch_size": 16, "weight_decay": 0.0, "clip": "none"}


@dataclass(frozen=True, kw_only=True)
class TTSOOptions:
    """Of the temperature."""

    temperature: float = 10.0  # T; 1: ordinary training
    entropy_weight: float = 0.0  # alpha of TTSO++: how much a text's temperature grows with its entropy

    def __post_init__(self) -> None:
        check_least(temperature=(self.temperature, 0), entropy_weight=(self.entropy_weight, 0))
        if self.temperature == 0:
            raise OptionError("temperature is 0, by which nothing can be divided; expected more, e.g. 10.")


class TTSO(Defence):
    """Training-time temperature scaling: logits are divided by a high temperature while the classifier learns.

    Paper: Raina, Tan, Cevher, Rawal, Zha, Karypis, Extreme Miscalibration and the Illusion of Adversarial Robustness,
    ACL 2024; TTSO++: Wang, Lin, Tougher Text, Smarter Models, COLING 2025.
    Idea: under a high temperature hardly a text is learned well enough, so that all margins are widened to the end.
    Acts at: loss (cross-entropy of logits / T; in TTSO++ of logits / (T + alpha H), H a text's entropy in nats without
    the temperature). At inference there is no temperature.
    Deviations: preset 'paper' is the first paper's: T = 200, its training settings and its gradient normalisation,
    which gives the whole gradient (of all weights together) the length 1 at each step, as the training option clip=unit
    does for any defence. The schedule and the epoch that counts are not told: ours are linear and the best one on
    held-out texts. There T is swept for each data set: 200 is best on film reviews, 10 on paraphrases and on a tenth of
    AG News, none on the whole of it. 'recommended' is therefore mild: T = 10 with our usual settings, which cut
    gradients at the length 1 and lengthen none. T = 10 and, for TTSO++ (preset 'plus'), T = 20 and alpha = 0.5 are
    those of the second paper's released code, gradients through the entropy as there. Presets 'release' and
    'release-plus' have its 4 epochs at 2e-5 too; it picks the best epoch on the test part, we on held-out texts.
    Relations: Flooding-X stops the loss from falling; here it only falls slowly. Logits that were fitted to be divided
    are far too large without: attacks that see nothing but zeros and ones are blinded, not beaten, so that it must be
    judged with calibrated scores as well. Combines with what moves words, e.g. freelb+ttso.
    """

    name: ClassVar[str] = "ttso"
    family: ClassVar[Family] = "regularisation"
    paper: ClassVar[Paper | None] = Paper(
        "Extreme Miscalibration and the Illusion of Adversarial Robustness", "Raina, Tan, Cevher, Rawal, Zha, Karypis",
        "ACL 2024", "arXiv:2402.17509")
    Options = TTSOOptions
    presets: ClassVar = {
        "recommended": Preset({}, {}),
        "paper": Preset({"temperature": 200.0}, RAINA),
        "plus": Preset({"temperature": 20.0, "entropy_weight": 0.5}, {}),
        "release": Preset({}, RELEASED),
        "release-plus": Preset({"temperature": 20.0, "entropy_weight": 0.5}, RELEASED),
    }
    options: TTSOOptions

    def loss(self, network: Network, batch: Batch, embeddings: Tensor | None = None) -> tuple[Tensor, Tensor]:
        assert batch.labels is not None
        answer = self.answer(network, batch, embeddings)
        return self.label_loss(answer / self.temperatures(answer)[:, None], batch.labels), answer

    def temperatures(self, answer: Tensor) -> Tensor:
        """T + alpha H(softmax(logits)) of each row, (rows,)."""
        entropy = -(answer.softmax(dim=1) * answer.log_softmax(dim=1)).sum(dim=1)
        return self.options.temperature + self.options.entropy_weight * entropy
