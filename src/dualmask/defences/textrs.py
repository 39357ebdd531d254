# SPDX-License-Identifier: Apache-2.0
"""Noise on word embeddings, as wide as a word's synonyms lie apart."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import sqrt
from typing import ClassVar, Literal

import torch
from torch import Tensor

from dualmask.cards import Paper, Preset, Source
from dualmask.defences.base import Family, Network
from dualmask.defences.voting import Voting, VotingOptions
from dualmask.masking.words import is_cased, written_forms
from dualmask.options import check_least
from dualmask.seeds import gaussian, uniform
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Example, Text
from dualmask.text.perturbations import SHAPES, angle, check_threshold
from dualmask.text.synonyms import Synonyms, find_synonyms
from dualmask.text.words import in_case_of


@dataclass(frozen=True, kw_only=True)
class TextRSOptions(VotingOptions):
    """How wide the noise is, in training and at inference."""

    votes: int = 20
    decision: Literal["vote", "mean"] = "mean"
    shape: Literal["gaussian", "uniform"] = "gaussian"
    scale: float = 1.0  # times the distance of a token's farthest synonym
    floor: float = 0.0  # the least such distance, for tokens without synonyms too
    synonyms: str = "shipped"  # the table, or a file of word vectors
    threshold: float = 0.8  # cosine of synonyms, at least

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(scale=(self.scale, 0), floor=(self.floor, 0))
        check_threshold(self.threshold)


class TextRS(Voting):
    """Noisy embeddings: each view adds noise to every word, as wide as its synonyms lie apart, and views are averaged.

    Paper: Zhang, Yao, Liang, Xu, Text-RS, Findings of EACL 2024.
    Idea: to the network a synonym is a nearby embedding, so that one that stands noise of that size stands synonyms.
    Acts at: fit (a radius for every token), answer (noise on the word embeddings, in training and at inference).
    Deviations: no code was found and the paper was not at hand but for its abstract, so that all that follows is our
    reading. A token's radius is the largest distance, in the network's own table before training, to a synonym of the
    shipped counter-fitted table (cosine of 0.8 or more) that is one token too; tokens without any get no noise.
    Gaussian noise has the radius as its root mean square length, and uniform noise as its greatest. 20 views, the
    mean of whose logits answers. No certificate: it would be about distances of embeddings, which words don't keep to.
    Relations: SAFER draws the synonyms themselves. RSMI adds noise of one size to whole layers, and masks.
    """

    name: ClassVar[str] = "textrs"
    family: ClassVar[Family] = "smoothing"
    passes: ClassVar[str] = "20"
    explainable: ClassVar[bool] = True  # nothing of the text is hidden
    paper: ClassVar[Paper | None] = Paper(
        "Random Smooth-based Certified Defense against Text Adversarial Attack", "Zhang, Yao, Liang, Xu",
        "Findings of EACL 2024", "aclanthology.org/2024.findings-eacl.83")
    synonym_tables: ClassVar[tuple[Source, ...]] = (Source("{synonyms}"),)
    Options = TextRSOptions
    presets: ClassVar = {"recommended": Preset({}, {}), "uniform": Preset({"shape": "uniform"}, {})}
    options: TextRSOptions
    scales: Tensor  # (vocabulary,): the radius of each token

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        self.register_buffer("scales", torch.zeros(0))

    def fit(self, examples: Sequence[Example], encode: Encode) -> None:
        o, table = self.options, self.table.weight.detach().float().cpu()
        pairs = token_synonyms(find_synonyms(o.synonyms), o.threshold, encode)
        # Some at a time: all differences of a large vocabulary would take a gigabyte
        distances = torch.cat([(table[part[:, 0]] - table[part[:, 1]]).norm(dim=1)
                               for part in torch.split(pairs, 1 << 12)])
        self.scales = torch.full((len(table),), o.floor).scatter_reduce(0, pairs[:, 0], distances, "amax")

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        return replace(encode(texts), seeds=self.seeds(texts, numbers)).to(device)

    def answer(self, network: Network, batch: Batch, embeddings: Tensor | None = None) -> Tensor:
        if embeddings is None:
            embeddings = self.table(batch.input_ids)
        width = self.scales[batch.input_ids] * batch.body * (self.options.scale / sqrt(embeddings.shape[2]))
        return network(batch, embeddings + width[:, :, None] * self.drawn(batch, embeddings))

    def drawn(self, batch: Batch, like: Tensor) -> Tensor:
        """Standard normal numbers or uniform ones from -1 to 1, (rows, length, size), by the rows' seeds.

        Rows in training have none: there the loop has seeded what layers draw from.
        """
        normal = self.options.shape == "gaussian"
        if batch.seeds is None:
            return torch.randn_like(like) if normal else 2 * torch.rand_like(like) - 1
        if normal:
            return gaussian(batch.seeds, *like.shape[1:]).to(like.dtype)
        return (2 * uniform(batch.seeds, like.shape[1] * like.shape[2]).view_as(like) - 1).to(like.dtype)


def token_synonyms(table: Synonyms, threshold: float, encode: Encode) -> Tensor:
    """Token ids that write two synonyms, one token each, alike in case and in standing first or not, (pairs, 2)."""
    @cache
    def synonyms(word: str) -> list[str]:
        return [other for other, cosine in table.neighbours(word, most=len(table)) if angle(cosine) <= angle(threshold)]

    pairs: set[tuple[int, int]] = set()
    places = ("", " ")[:len(written_forms(encode))]
    for before, shape in product(places, SHAPES if is_cased(encode) else SHAPES[:1]):
        tokens = whole_words({word: before + in_case_of(word, shape) for word in table.words}, encode)
        pairs |= {(token, tokens[other]) for word, token in tokens.items() for other in synonyms(word)
                  if other in tokens}
    return torch.tensor(sorted(pairs), dtype=torch.long).view(-1, 2)


def whole_words(forms: dict[str, str], encode: Encode) -> dict[str, int]:
    """The token of each word that is written with one; the unknown token stands for any word, thus for none."""
    batch = encode(list(forms.values()))
    alone = batch.lengths == 1
    tokens = (batch.input_ids * batch.body).sum(dim=1)[alone].tolist()
    words = [word for word, single in zip(forms, alone.tolist(), strict=True) if single]
    unknown = encode.tokenizer.unk_token_id
    return {word: token for word, token in zip(words, tokens, strict=True) if token != unknown}
