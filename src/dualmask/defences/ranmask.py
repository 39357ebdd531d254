# SPDX-License-Identifier: Apache-2.0
"""Random word masking and a vote, with its certificate against replaced words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dualmask.cards import Paper, Preset
from dualmask.defences.base import Family
from dualmask.defences.voting import RandomTexts, VotingOptions, in_slices
from dualmask.errors import OptionError
from dualmask.masking.certificates import certified_words
from dualmask.masking.word_losses import WordLosses
from dualmask.models.encoders import check_mask_position
from dualmask.options import check_least, check_shares
from dualmask.seeds import uniform
from dualmask.text.encoding import Batch, Encode, MaskPosition
from dualmask.text.examples import Text
from dualmask.text.spelling import Spelling

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class RanMASKOptions(VotingOptions):
    """How many words a view hides, and which."""

    rate: float = 0.3  # rho, the share of words masked, in training and at inference
    keep_least: int = 2  # words that stay in sight, or all of a shorter text
    guide: Literal["uniform", "language-model"] = "uniform"  # at inference: all words alike, or by their loss
    language_model: str | None = None  # whose loss that is
    stride: int = 8
    mask_position: MaskPosition = "normal"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shares(rate=self.rate)
        check_least(keep_least=(self.keep_least, 1))
        if self.language_model is not None and self.guide == "uniform":
            raise OptionError(f"language_model is '{self.language_model}', and guide=uniform asks none; add "
                              "guide=language-model, or leave it out.")


class RanMASK(RandomTexts):
    """Random masking: each view hides random words, and views vote.

    Paper: Zeng, Xu, Zheng, Huang, Certified Robustness by Randomized [MASK], Computational Linguistics 49(2), 2023.
    Idea: few views see any one word, so that whoever changes some words changes few of the votes, provably.
    Acts at: training_view and inference_view (all but k random white-space words become one [MASK] each), the vote.
    Deviations: words that nobody sees, or that have no pieces, are none: a word that is exchanged for such a one was
    deleted, and of that a certificate says nothing; both texts of a pair are masked; no test between the two best
    classes, so no abstention but in certificates; the language model doesn't see the token that it judges, and words
    that it didn't read get the text's mean loss, not none. 'recommended' hides 30 %, which costs little accuracy and
    certifies nothing: that takes a rate above 1.5 less the vote share. 'certify' hides 90 %, the paper's rate for AG
    News; 'release' is the code's default.
    Relations: CERT-ED deletes the words; SAFER replaces them by synonyms; DDM masks the suspicious ones, and once.
    """

    name: ClassVar[str] = "ranmask"
    family: ClassVar[Family] = "smoothing"
    certificate: ClassVar[str] = "words substituted"
    paper: ClassVar[Paper | None] = Paper(
        "Certified Robustness to Text Adversarial Attacks by Randomized [MASK]", "Zeng, Xu, Zheng, Huang",
        "Computational Linguistics 49(2), 2023", "arXiv:2105.03743")
    Options = RanMASKOptions
    presets: ClassVar = {
        "recommended": Preset({}, {}),
        "certify": Preset({"rate": 0.9}, {"epochs": 10}),
        "release": Preset({"rate": 0.7}, {"learning_rate": 5e-5, "epochs": 10, "patience": 0, "batch_size": 32,
                                          "weight_decay": 1e-6, "schedule": "cosine", "warmup": 0.0}),
    }
    options: RanMASKOptions

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        self._spelling: Spelling | None = None
        self.guide = None if self.options.guide == "uniform" else WordLosses(
            language_model=self.options.language_model, stride=self.options.stride)

    @property
    def pass_count(self) -> str:
        return super().pass_count + (f", {self.options.stride} of a language model" if self.guide else "")

    def adapt(self, model: "PreTrainedModel") -> None:
        super().adapt(model)
        check_mask_position(model, self.options.mask_position)
        if self.guide is not None:
            self.guide.adapt(model)

    def kept(self, length: int) -> int:
        """k: words of so many that a view shows, in training, at inference and in the certificate."""
        return min(length, max(length - round(self.options.rate * length), self.options.keep_least))

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        losses = None if self.guide is None else self.guide(texts, self.spelling(encode), device)
        return self.rewritten(texts, self.seeds(texts, numbers), encode, losses).to(device)

    def rewritten(
        self, texts: Sequence[Text], seeds: Tensor, encode: Encode, losses: Sequence[Tensor] | None = None,
    ) -> Batch:
        """Rows in which k words are as they were, drawn by the row's seed; losses of guided draws: by row, (words,)."""
        spelling = self.spelling(encode)
        read = spelling.read(texts)
        lengths = np.array([len(one.words) for one in read], dtype=np.int64)
        kept = np.array([self.kept(length) for length in lengths.tolist()], dtype=np.int64)
        longest = int(lengths.max(initial=0))

        def view(part: slice) -> Batch:
            keys = uniform(seeds[part], longest)  # (rows, words)
            if losses is not None:  # the least exponential times of these rates come first, and are masked
                width = torch.ones(longest, dtype=torch.double)
                keys = keys.log() / pad_sequence([*losses[part], width], batch_first=True, padding_value=1.0)[:-1]
            shown = lowest(keys.numpy(), lengths[part], kept[part])
            rows = [np.where(row[:len(one.words)], one.words, Spelling.MASK)
                    for one, row in zip(read[part], shown, strict=True)]
            return spelling.batch(rows, [one.boundary for one in read[part]])

        return replace(in_slices(view, len(read), longest, pad_id=encode.pad_id),
                       mask_position=self.options.mask_position)

    def spelling(self, encode: Encode) -> Spelling:
        self._spelling = known = Spelling.current(self._spelling, encode)
        return known  # another thread may put a new one in its place

    def radius(self, text: Text, share: float, encode: Encode, *, strict: bool = True) -> int:
        """The largest d with p - Delta(d) > 1/2; the heuristic takes p Delta(d), as the paper does."""
        if self.guide is not None:
            raise OptionError("masks that a language model guides depend on the words under attack, so that nothing is "
                              "certified; certify with guide=uniform.")
        length = len(self.spelling(encode).read([text])[0].words)
        return certified_words(length, self.kept(length), share, beta=1 if strict else share)


def lowest(keys: NDArray[np.float64], lengths: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where in each row the `counts` lowest keys of its first `lengths` are, (rows, words)."""
    outside = np.arange(keys.shape[1]) >= lengths[:, None]
    order = np.where(outside, np.inf, keys).argsort(axis=1, kind="stable")
    return order.argsort(axis=1) < counts[:, None]
