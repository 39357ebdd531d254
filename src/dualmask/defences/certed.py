# SPDX-License-Identifier: Apache-2.0
"""Random word deletion and a vote, with its certificate against words inserted, deleted or replaced."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from dualmask.cards import Paper, Preset
from dualmask.defences.base import Family
from dualmask.defences.voting import RandomTexts, VotingOptions, in_slices
from dualmask.errors import OptionError
from dualmask.masking.certificates import certified_edits
from dualmask.seeds import uniform
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Text
from dualmask.text.spelling import Spelling

MOST_EDITS = 1000  # no more are counted; a rate of 0.999 proves 692


@dataclass(frozen=True, kw_only=True)
class CertEDOptions(VotingOptions):
    """How much a view leaves out."""

    rate: float = 0.3  # p_del, the chance of each word to be deleted, in training and at inference

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.rate < 1:
            raise OptionError(f"rate is {self.rate}; expected a share from 0 to less than 1, which would delete all.")


class CertED(RandomTexts):
    """Random deletion: each view leaves out words by chance, and views vote.

    Paper: Huang, Marchant, Ohrimenko, Rubinstein, CERT-ED, Findings of EMNLP 2024.
    Idea: texts that differ by few words look alike where the difference happens to be deleted; no mask tells how many
    words there were, so that the proof reaches insertions and deletions too.
    Acts at: training_view and inference_view (each white-space word is deleted by a chance of its own), the vote.
    Deviations: certified by the winner's share alone, p - (1 - rate^d) > 1/2, not by its lead over the second, which
    proves more where there are more than two classes; at most 10 epochs at 5e-5, the release has up to 200 at 2e-5;
    both texts of a pair are thinned. 'recommended' deletes 30 %, as many words as RanMASK's masks, and certifies
    nothing: that takes a rate above 1.5 less the vote share. 'certify' deletes 90 %, as the release's examples do.
    Relations: RanMASK leaves a [MASK] for each word and the length in sight; its proof is about replaced words only.
    """

    name: ClassVar[str] = "certed"
    family: ClassVar[Family] = "smoothing"
    certificate: ClassVar[str] = "words inserted, deleted or substituted"
    paper: ClassVar[Paper | None] = Paper(
        "CERT-ED: Certifiably Robust Text Classification for Edit Distance",
        "Huang, Marchant, Ohrimenko, Rubinstein", "Findings of EMNLP 2024", "arXiv:2408.00728")
    Options = CertEDOptions
    presets: ClassVar = {"recommended": Preset({}, {}), "certify": Preset({"rate": 0.9}, {"epochs": 10})}
    options: CertEDOptions

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        self._spelling: Spelling | None = None

    def rewritten(self, texts: Sequence[Text], seeds: Tensor, encode: Encode) -> Batch:
        """Rows of the words that are left, if any: to keep one always would undo the proof.

        Words close up, so that nothing in a row tells where others were.
        """
        self._spelling = spelling = Spelling.current(self._spelling, encode)
        read = spelling.read(texts)
        longest = max((len(one.words) for one in read), default=0)

        def view(part: slice) -> Batch:
            shown = (uniform(seeds[part], longest) >= self.options.rate).numpy()
            pairs = list(zip(read[part], shown, strict=True))
            return spelling.batch(
                [one.words[row[:len(one.words)]] for one, row in pairs],
                [None if one.boundary is None else int(row[:one.boundary].sum()) for one, row in pairs])

        return in_slices(view, len(read), longest, pad_id=encode.pad_id)

    def radius(self, text: Text, share: float, encode: Encode, *, strict: bool = True) -> int:
        """The largest d with p - (1 - rate^d) > 1/2, whatever the text."""
        if not strict:
            return super().radius(text, share, encode, strict=strict)
        return certified_edits(self.options.rate, share, MOST_EDITS)
