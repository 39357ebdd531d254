# SPDX-License-Identifier: Apache-2.0
"""A detector: texts whose answer changes when rare words give way to frequent synonyms."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, isfinite
from typing import ClassVar, Literal

import torch
from torch import Tensor

from dualmask.cards import Paper, Preset, Source
from dualmask.defences.base import Ask, Defence, Family
from dualmask.errors import OptionError
from dualmask.options import check_least, check_shares
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Example, Text
from dualmask.text.substitutes import Substitutes

NOTHING = 1e-4  # two passes over the same tokens, in other company, differ by less
TUNED_ON = 500  # texts at most; each takes a pass for every delta that is tried


@dataclass(frozen=True, kw_only=True)
class FGWSOptions:
    """Which words are replaced by what, and what follows."""

    percentile: float | None = None  # 0 to 100, of the training words' log-frequencies: delta; none: tuned
    synonyms: Literal["vectors", "both"] = "vectors"  # 'both': WordNet's as well, which are fetched at first use
    neighbours: int = 6  # K, nearest words by vectors; 0: as many as validation words have WordNet synonyms on average
    false_positives: float = 0.1  # share of clean texts that may be flagged
    restore: Literal["flagged", "always"] = "flagged"  # which texts are answered from their substituted version
    simulated: float = 0.3  # share of words replaced in the adversaries on which delta is tuned
    seed: int = 0  # of these adversaries

    def __post_init__(self) -> None:
        check_shares(false_positives=self.false_positives, simulated=self.simulated)
        if self.percentile is not None and not 0 <= self.percentile <= 100:
            raise OptionError(f"percentile is {self.percentile}; expected a number from 0 to 100.")
        check_least(neighbours=(self.neighbours, 0))
        if not self.neighbours and self.synonyms == "vectors":
            raise OptionError("neighbours=0 takes their number from WordNet, which synonyms='vectors' does without; "
                              "give a number such as 6, or synonyms='both'.")


class FGWS(Defence):
    """Frequency-guided word substitutions: rare words give way to frequent synonyms; what then changes is flagged.

    Paper: Mozes, Stenetorp, Kleinberg, Griffin, Frequency-Guided Word Substitutions for Detecting Textual Adversarial
    Examples, EACL 2021.
    Idea: attacks put rarer words in the place of frequent ones. Every word w with ln(1 + count in training) < delta is
    replaced by the most frequent of S(w), if that is more frequent; a text is suspicious by what its label's
    probability loses, and flagged above gamma, which one in ten clean validation texts exceeds.
    Acts at: fit (counts), tune (delta, gamma), inference_view (a second view with words replaced), combine (flagged
    texts are answered from that view).
    Deviations: S(w) is the 6 nearest words in the shipped vectors (6.1 is the average number of WordNet synonyms of
    validation words on rotten-tomatoes); 'paper' adds WordNet's and counts them on the data at hand. Words are split at
    white space and punctuation, not by spaCy. delta, which the paper tunes on real adversaries, is tuned on simulated
    ones: of words but stop words a share gives way to rarer members of S, and texts whose right label is lost count; of
    percentiles 0, 10, ..., 100 the best F1 wins, the lowest of equals. S itself made them: an optimistic guess.
    Until it was tuned nothing is flagged, and without a given percentile nothing replaced.
    Relations: DDM takes its frequencies from here and masks instead of replacing. SAFER replaces at random, and votes.
    """

    name: ClassVar[str] = "fgws"
    family: ClassVar[Family] = "detection"
    passes: ClassVar[str] = "2"
    explainable: ClassVar[bool] = False  # nothing is hidden, but the answer may be to other words than the text's
    paper: ClassVar[Paper | None] = Paper(
        "Frequency-Guided Word Substitutions for Detecting Textual Adversarial Examples",
        "Mozes, Stenetorp, Kleinberg, Griffin", "EACL 2021", "aclanthology.org/2021.eacl-main.13")
    synonym_tables: ClassVar[tuple[Source, ...]] = (Source("shipped"), Source("wordnet", when={"synonyms": ("both",)}))
    Options = FGWSOptions
    presets: ClassVar = {"recommended": Preset({}, {}), "paper": Preset({"synonyms": "both", "neighbours": 0}, {})}
    options: FGWSOptions
    delta: Tensor  # words with a lower phi are rare; 0: none is
    gamma: Tensor

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        self.substitutes = Substitutes(self.options.neighbours, wordnet=self.options.synonyms == "both")
        self.register_buffer("delta", torch.tensor(0.0, dtype=torch.double))
        self.register_buffer("gamma", torch.tensor(inf))

    @property
    def views(self) -> int:
        return 2 if self.delta > 0 else 1

    @property
    def threshold(self) -> float | None:
        return float(self.gamma) if isfinite(self.gamma) else None

    def fit(self, examples: Sequence[Example], encode: Encode) -> None:
        self.substitutes.counts.fit([example.text for example in examples])
        if self.options.percentile is not None:
            self.delta.fill_(self.substitutes.counts.percentile(self.options.percentile / 100))

    def tune(self, ask: Ask, validation: Sequence[Example]) -> None:
        texts = [example.text for example in validation]
        if not self.options.neighbours:
            self.substitutes.neighbours.fill_(round(self.substitutes.mean_synonyms(texts)))
        if self.options.percentile is None:
            self.delta.fill_(0)  # the text as it is, in one view, whatever is asked
            step = ceil(len(validation) / TUNED_ON)
            self.delta.fill_(max(self.trials(ask, validation[::step]), key=lambda trial: trial[1])[0])
        self.gamma.fill_(self.limit(self.suspicion(ask(texts))))

    def trials(self, ask: Ask, examples: Sequence[Example]) -> Iterator[tuple[float, float]]:
        """Each delta from the lowest with its F1, were there as many adversaries as clean texts."""
        known: dict[Text, Tensor] = {}

        def answers(texts: Sequence[Text]) -> Tensor:
            if new := [text for text in dict.fromkeys(texts) if text not in known]:
                known.update(zip(new, ask(new)[0], strict=True))
            return torch.stack([known[text] for text in texts]) if texts else torch.zeros(0, 1)

        clean = [example.text for example in examples]
        changed = self.substitutes.rarer(clean, self.options.simulated, self.options.seed)
        labels = torch.tensor([example.label for example in examples])
        lost = (answers(clean).argmax(dim=1) == labels) & (answers(changed).argmax(dim=1) != labels)
        fooled = [text for text, is_lost in zip(changed, lost.tolist(), strict=True) if is_lost]
        for delta in sorted({self.substitutes.counts.percentile(tenth / 10) for tenth in range(11)}):
            wrong, found = (self.suspicion(torch.stack([answers(texts), answers(
                self.substitutes.frequent(texts, delta))])) for texts in (clean, fooled))
            limit = self.limit(wrong)
            rates = [float((scores > limit).sum()) / max(1, len(scores)) for scores in (found, wrong)]
            yield delta, 2 * rates[0] / (1 + rates[0] + rates[1])

    def limit(self, scores: Tensor) -> float:
        """gamma: the least of these scores above which no more than the budget of them lie."""
        spared = floor(self.options.false_positives * len(scores) + 1e-9)
        return float(scores.sort(descending=True).values[min(spared, len(scores) - 1)])

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        second = {text for text, number in zip(texts, numbers, strict=True) if number}
        shown = dict(zip(second, self.substitutes.frequent([*second], float(self.delta)), strict=True))
        return encode([shown[text] if number else text for text, number in zip(texts, numbers, strict=True)]).to(device)

    def suspicion(self, logits: Tensor) -> Tensor:
        """max(0, p_y(x) - p_y(x')) with y = argmax p(x); exactly 0 where no word was replaced."""
        before, after = (part.nanmean(dim=0).softmax(dim=1) for part in (logits[:1], logits[-1:]))  # no text, no view
        lost = (before - after).gather(1, before.argmax(dim=1, keepdim=True)).squeeze(1)
        return torch.where(lost < NOTHING, 0.0, lost)

    def combine(self, logits: Tensor) -> Tensor:
        """View 1's logits where a text is flagged, or always; view 0's elsewhere."""
        gamma = -inf if self.options.restore == "always" else float(self.gamma)
        restored = self.suspicion(logits) > gamma
        return torch.where(restored[:, None], logits[-1:].nanmean(dim=0), logits[:1].nanmean(dim=0))
