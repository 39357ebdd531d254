# SPDX-License-Identifier: Apache-2.0
"""Random synonyms and a vote, with its certificate against synonyms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from dualmask.cards import Paper, Preset, Source
from dualmask.defences.base import Family
from dualmask.defences.voting import RandomTexts, VotingOptions, in_slices
from dualmask.errors import ResourceError
from dualmask.masking.certificates import certified_synonyms
from dualmask.options import check_least
from dualmask.seeds import uniform
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Text
from dualmask.text.perturbations import (
    RandomSynonyms,
    SynonymGraph,
    check_threshold,
    core_of,
    synonym_graph,
    table_digest,
)
from dualmask.text.spelling import Spelling

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class SAFEROptions(VotingOptions):
    """Which words may stand for a word, and what an attacker may write for it."""

    synonyms: str = "shipped"  # the table, or a file of word vectors
    threshold: float = 0.9  # cosine of synonyms, at least; the paper's is 0.8, of other vectors
    most: int = 100  # words of a perturbation set
    against: Literal["synonyms", "sets"] = "synonyms"  # what a certificate lets an attacker write for a word

    def __post_init__(self) -> None:
        super().__post_init__()
        check_threshold(self.threshold)
        check_least(most=(self.most, 1))


class SAFER(RandomTexts):
    """Random synonyms: each view replaces every word by one of its perturbation set, and views vote.

    Paper: Ye, Gong, Liu, SAFER, ACL 2020.
    Idea: a word and its synonym are replaced by much the same words, so that exchanging them moves few of the votes.
    Acts at: training_view and inference_view (each white-space word is drawn uniformly from its set P_w), the vote.
    Deviations: P_w is made of the shipped counter-fitted table, whatever the data (the release takes the data's own
    words and removes the vectors' main directions first): connected words, of more than 100 the nearest, by their
    angle or, where the table holds none, by the shortest way through it. Looked up is a word without the punctuation
    around it, in lower case, and a substitute takes over both (the release: one mark at the end, cases as they are);
    words in mixed case stay, and one capital letter counts as Capitalised. 100 views answer, where the release draws
    2,000 or more, and a certificate rests on a confidence bound, not on the share of the votes less 0.01. It counts
    words, weakest first. 'sets' lets the attacker write any word of P_w, not only the word's own synonyms as in the
    paper. Synonyms have a cosine of 0.9 or more: no set is cut then, a word and its synonyms have the same one, and
    any majority certifies against any number of them, but for six words in capitals ("AN": what is drawn for "A" is
    in another case). 0.8 (preset 'paper') connects 4,341 words of this table, "the" and "was" among them, which costs
    accuracy and proves little.
    Relations: RanMASK hides words where this one replaces them, and certifies against any word. The certificate means
    nothing against other synonyms than its table's, against typing errors, or against words inside a white-space word.
    """

    name: ClassVar[str] = "safer"
    family: ClassVar[Family] = "smoothing"
    certificate: ClassVar[str] = "synonyms of its table substituted"
    paper: ClassVar[Paper | None] = Paper(
        "SAFER: A Structure-free Approach for Certified Robustness to Adversarial Word Substitutions",
        "Ye, Gong, Liu", "ACL 2020", "aclanthology.org/2020.acl-main.317")
    synonym_tables: ClassVar[tuple[Source, ...]] = (Source("{synonyms}"),)
    Options = SAFEROptions
    presets: ClassVar = {"recommended": Preset({}, {}), "paper": Preset({"threshold": 0.8}, {})}
    options: SAFEROptions
    digest: Tensor  # of the file of vectors, in bytes: other vectors, other answers and certificates

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        self.register_buffer("digest", torch.zeros(0, dtype=torch.uint8))
        self._graph: SynonymGraph | None = None
        self._random: RandomSynonyms | None = None

    def adapt(self, model: "PreTrainedModel") -> None:
        super().adapt(model)
        self.digest = torch.tensor([*table_digest(self.options.synonyms)], dtype=torch.uint8)
        self.graph()  # what is wrong with the table is told now

    def restore(self, state: Mapping[str, Tensor]) -> None:
        here = self.digest
        super().restore(state)
        if not torch.equal(here, self.digest):
            raise ResourceError(f"synonyms '{self.options.synonyms}': the file is not the one that this classifier was "
                                "trained with; put that one in its place, or train again with this one.")

    def graph(self) -> SynonymGraph:
        if self._graph is None:
            self._graph = synonym_graph(self.options.synonyms, self.options.threshold, self.options.most)
        return self._graph

    def random(self, encode: Encode) -> RandomSynonyms:
        known = self._random
        spelling = Spelling.current(known.spelling if known else None, encode)
        if known is None or known.spelling is not spelling:  # numbers of words have changed
            known = self._random = RandomSynonyms(spelling, self.graph())
        return known

    def rewritten(self, texts: Sequence[Text], seeds: Tensor, encode: Encode) -> Batch:
        """Rows in which every word is a member of its set, drawn by the row's seed."""
        random = self.random(encode)
        read = random.spelling.read(texts)
        lengths = np.array([len(one.words) for one in read], dtype=np.int64)
        longest = int(lengths.max(initial=0))

        def view(part: slice) -> Batch:
            inside = np.arange(longest) < lengths[part, None]
            words = np.concatenate([*(one.words for one in read[part]), np.zeros(0, dtype=np.int64)])
            drawn = random.drawn(words, uniform(seeds[part], longest).numpy()[inside])
            return random.spelling.batch(
                np.split(drawn, np.cumsum(lengths[part]))[:-1], [one.boundary for one in read[part]])

        return in_slices(view, len(read), longest, pad_id=encode.pad_id)

    def radius(self, text: Text, share: float, encode: Encode, *, strict: bool = True) -> int:
        """The largest R with p - (1 - product of the R smallest q_w) > 1/2; the number of words: against any."""
        if not strict:
            return super().radius(text, share, encode, strict=strict)  # refused: there is no heuristic
        graph, spelling = self.graph(), self.random(encode).spelling
        words = [spelling.word(number) for number in spelling.read([text])[0].words.tolist()]
        choices = graph.synonyms if self.options.against == "synonyms" else graph.members
        return certified_synonyms([graph.overlap_of(word, choices(core_of(word))) for word in words], share)
