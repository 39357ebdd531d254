# SPDX-License-Identifier: Apache-2.0
"""A detector: texts whose answer changes when rare words give way to frequent synonyms."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, inf, isfinite
from random import Random
from typing import ClassVar, Literal

import torch
from torch import Tensor

from dualmask.cards import Paper, Preset, Source
from dualmask.defences.base import Ask, Defence, Family
from dualmask.errors import OptionError
from dualmask.options import came_later, check_least, check_shares
from dualmask.seeds import derived_seed
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Example, Text
from dualmask.text.substitutes import Nearest, Substitutes, exchanged
from dualmask.text.words import Words

NOTHING = 1e-4  # two passes over the same tokens, in other company, differ by less
CHANGED = 0.2  # share of a text's words that the attack on validation texts may change, but one word in any case


@dataclass(frozen=True, kw_only=True)
class FGWSOptions:
    """Which words are replaced by what, and what follows."""

    percentile: float | None = None  # 0 to 100, of the training words' log-frequencies: delta; none: tuned
    synonyms: Literal["vectors", "both"] = "vectors"  # 'both': WordNet's as well, which are fetched at first use
    neighbours: int = 6  # K, nearest words by vectors; 0: the average number of WordNet synonyms of validation words
    # among which words they are looked for; release: among those of the training texts, and for these words alone
    nearest: Nearest = came_later("table", before="table")
    false_positives: float = 0.1  # share of clean texts that may be flagged
    restore: Literal["flagged", "always"] = "flagged"  # which texts are answered from their substituted version
    # on which delta is tuned: words replaced by rarer ones at random, or WordNet's synonyms that hurt most, one by one
    adversaries: Literal["simulated", "attacked"] = came_later("simulated", before="simulated")
    simulated: float = 0.3  # share of words replaced in simulated adversaries
    tuned_on: int = came_later(500, before=500)  # texts at most; each takes a pass for every delta that is tried
    # the delta that is taken: best F1, of equals the lowest; or most found of adversaries, of equals the highest
    chosen_by: Literal["f1", "found"] = came_later("f1", before="f1")
    seed: int = 0  # of these adversaries

    def __post_init__(self) -> None:
        check_shares(false_positives=self.false_positives, simulated=self.simulated)
        if self.percentile is not None and not 0 <= self.percentile <= 100:
            raise OptionError(f"percentile is {self.percentile}; expected a number from 0 to 100.")
        check_least(neighbours=(self.neighbours, 0), tuned_on=(self.tuned_on, 1))
        if not self.neighbours and self.synonyms == "vectors":
            raise OptionError("neighbours=0 takes their number from WordNet, which synonyms='vectors' does without; "
                              "give a number such as 6, or synonyms='both'.")


@dataclass
class Greedy:
    """The release's attack on one text, which waits for answers to its proposals."""

    example: Example
    substitutes: Substitutes
    seed: int
    chosen: dict[int, str] = field(default_factory=dict)  # place -> word
    lost: bool = False  # the right label

    def __post_init__(self) -> None:
        self.words = [word.lower() for word in Words(self.example.text).words]
        self.places = list(range(len(self.words)))
        Random(derived_seed(self.seed, "attacked", repr(self.example.text))).shuffle(self.places)
        self.most = max(1, int(CHANGED * len(self.words)))
        self.offered: list[dict[int, str]] = []

    @property
    def text(self) -> Text:
        return exchanged(self.example.text, self.chosen)

    def proposals(self) -> list[Text]:
        """The text with each synonym at the next place that has any; none when it is over."""
        self.offered = []
        while not self.offered and self.places and not self.lost and len(self.chosen) < self.most:
            place = self.places.pop()
            self.offered = [{**self.chosen, place: name}
                            for name in sorted(self.substitutes.synonyms(self.words[place]))]
        return [exchanged(self.example.text, words) for words in self.offered]

    def take(self, logits: Tensor) -> None:
        """The proposal under which the right label has the lowest probability, of equals the first."""
        best = int(logits.softmax(dim=1)[:, self.example.label].argmin())
        self.chosen, self.lost = self.offered[best], int(logits[best].argmax()) != self.example.label


class FGWS(Defence):
    """Frequency-guided word substitutions: rare words give way to frequent synonyms; what then changes is flagged.

    Paper: Mozes, Stenetorp, Kleinberg, Griffin, Frequency-Guided Word Substitutions for Detecting Textual Adversarial
    Examples, EACL 2021.
    Idea: attacks put rarer words in the place of frequent ones. Every word w with ln(1 + count in training) < delta is
    replaced by the most frequent of S(w), if that is more frequent; a text is suspicious by what its label's
    probability loses, and flagged above gamma, which one in ten clean validation texts exceeds.
    Acts at: fit (counts), tune (delta, gamma), inference_view (a second view with words replaced), combine (flagged
    texts are answered from that view).
    Deviations: 'release' does as the released code: S(w) has WordNet's synonyms and the K nearest of the training words
    (of these alone; another word has WordNet's), K the average number of synonyms of validation words, rounded up;
    delta is, of percentiles 0, 10, ..., 100, the one at which most adversaries are above gamma, the highest of equals;
    these come of a greedy attack on validation texts by WordNet; every text is answered with its words replaced. What
    stays there: the shipped vectors (50 neighbours a word at most) in GloVe's place; words split at white space and
    punctuation, not by spaCy; the network reads texts as they are, not cut to 50 words of letters, digits and full
    stops in lower case; differences below 1e-4 count as none; the epoch is kept by accuracy, not by the loss; AdamW's
    epsilon is 1e-8, not 1e-6. More in 'recommended': S(w) is the 6 nearest of all words, without WordNet (6.2 synonyms
    a word on rotten-tomatoes: K would be 7); delta is tuned on simulated adversaries (of words but stop words a share
    gives way to rarer members of S, and texts whose right label is lost count) by the best F1, the lowest of equals. S
    itself made them: an optimistic guess. 'paper' is 'recommended' with WordNet and its K. Where there is no adversary,
    the lowest delta is taken. Until it was tuned nothing is flagged, and without a given percentile nothing replaced.
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
    presets: ClassVar = {
        "recommended": Preset({}, {}), "paper": Preset({"synonyms": "both", "neighbours": 0}, {}),
        "release": Preset({
            "synonyms": "both", "neighbours": 0, "nearest": "release", "adversaries": "attacked", "tuned_on": 2000,
            "chosen_by": "found", "restore": "always"}, {
            "learning_rate": 1e-5, "epochs": 10, "weight_decay": 0.1, "decay": "all", "warmup": 0.06, "clip": "none",
            "patience": 0})}
    options: FGWSOptions
    delta: Tensor  # words with a lower phi are rare; 0: none is
    gamma: Tensor

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        o = self.options
        self.substitutes = Substitutes(o.neighbours, wordnet=o.synonyms == "both", nearest=o.nearest)
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
            self.substitutes.neighbours.fill_(ceil(self.substitutes.mean_synonyms(texts)))
        if self.options.percentile is None:
            self.delta.fill_(0)  # the text as it is, in one view, whatever is asked
            step = ceil(len(validation) / self.options.tuned_on)
            trials = list(self.trials(ask, validation[::step]))
            last = self.options.chosen_by == "found"
            self.delta.fill_(max(reversed(trials) if last else trials, key=lambda trial: trial[1])[0])
        self.gamma.fill_(self.limit(self.suspicion(ask(texts))))

    def trials(self, ask: Ask, examples: Sequence[Example]) -> Iterator[tuple[float, float]]:
        """Each delta from the lowest with its score; without adversaries the lowest alone.

        The score is the share of adversaries that are found, or F1, were there as many of them as clean texts.
        """
        known: dict[Text, Tensor] = {}

        def answers(texts: Sequence[Text]) -> Tensor:
            if new := [text for text in dict.fromkeys(texts) if text not in known]:
                known.update(zip(new, ask(new)[0], strict=True))
            return torch.stack([known[text] for text in texts]) if texts else torch.zeros(0, 1)

        clean = [example.text for example in examples]
        guesses = answers(clean).argmax(dim=1).tolist()
        right = [one for one, guess in zip(examples, guesses, strict=True) if guess == one.label]
        changed = (self.attacked(ask, right) if self.options.adversaries == "attacked" else
                   self.substitutes.rarer([one.text for one in right], self.options.simulated, self.options.seed))
        labels = [one.label for one in right]
        fooled = [text for text, guess, label in zip(changed, answers(changed).argmax(dim=1).tolist(), labels,
                                                     strict=True) if guess != label]
        deltas = sorted({self.substitutes.counts.percentile(tenth / 10) for tenth in range(11)})
        for delta in deltas if fooled else deltas[:1]:
            wrong, found = (self.suspicion(torch.stack([answers(texts), answers(
                self.substitutes.frequent(texts, delta))])) for texts in (clean, fooled))
            limit = self.limit(wrong)
            rates = [float((scores > limit).sum()) / max(1, len(scores)) for scores in (found, wrong)]
            yield delta, rates[0] if self.options.chosen_by == "found" else 2 * rates[0] / (1 + rates[0] + rates[1])

    def attacked(self, ask: Ask, examples: Sequence[Example]) -> list[Text]:
        """Texts whose words, in random order, gave way to the WordNet synonym that costs the right label most.

        Whether it costs anything or not, until the label is lost or enough words were changed; all texts side by side.
        """
        attacks = [Greedy(one, self.substitutes, self.options.seed) for one in examples]
        while questions := {place: found for place, one in enumerate(attacks) if (found := one.proposals())}:
            logits = ask([text for found in questions.values() for text in found])[0]
            start = 0
            for place, found in questions.items():
                attacks[place].take(logits[start:start + len(found)])
                start += len(found)
        return [attack.text for attack in attacks]

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
