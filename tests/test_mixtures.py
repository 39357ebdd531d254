# SPDX-License-Identifier: Apache-2.0
"""Words as means of their synonyms: what is in a mixture, how it is spelled, and what the encoder makes of it."""

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from dualmask.errors import EncoderError, ModelFileError, OptionError
from dualmask.models.encoders import load_encoder
from dualmask.models.mixed_words import MixedWords, teach_mixtures
from dualmask.text.encoding import Encode
from dualmask.text.examples import Example
from dualmask.text.mixtures import FIRST, MixedSpelling, Mixtures
from dualmask.text.spelling import Spelling
from dualmask.text.synonyms import shipped_synonyms

TEXTS = [Example("a wonderful film", 1), Example("a dreadful film", 0)] * 200


@pytest.fixture(scope="module")
def encode(tiny: Callable[[str], Path]) -> Encode:
    from transformers import AutoTokenizer

    return Encode(AutoTokenizer.from_pretrained(tiny("bert")), max_length=64)


@pytest.fixture
def table(tiny: Callable[[str], Path]) -> MixedWords:
    return teach_mixtures(load_encoder(tiny("bert"), ["bad", "good"])[0])


@pytest.fixture
def ready(table: MixedWords, encode: Encode) -> MixedWords:
    mixtures = Mixtures(apart=0.1)
    mixtures.fit(TEXTS, table.weight)
    table.prepare(mixtures, encode.tokenizer)
    return table


def number(word: str) -> int:
    return list(shipped_synonyms().words).index(word)


# What is in a mixture


def test_a_mixture_is_the_word_and_its_synonyms_weighed_by_nearness(ready: MixedWords, encode: Encode) -> None:
    recipe, word = ready._recipe, number("film")
    part = slice(int(recipe.starts[word]), int(recipe.starts[word + 1]))
    near = {"film": 1.0, **{other: cosine**4 for other, cosine in shipped_synonyms().neighbours("film", 1000)}}
    spelled = {other: encode.tokenizer(other, add_special_tokens=False)["input_ids"] for other in near}
    whole = [other for other in near if len(spelled[other]) == 1] or list(near)
    expected = torch.zeros(len(encode.tokenizer))
    for other in whole:
        for piece in spelled[other]:
            expected[piece] += near[other] / len(spelled[other])
    found = torch.zeros(len(encode.tokenizer)).index_add_(0, recipe.pieces[part], recipe.weights[part])
    assert torch.allclose(found, expected / expected.sum(), atol=1e-5)


def test_weights_of_every_mixture_add_to_one(ready: MixedWords) -> None:
    recipe = ready._recipe
    owners = torch.repeat_interleave(torch.arange(len(recipe.starts) - 1), recipe.starts.diff())
    total = torch.zeros(len(recipe.starts) - 1).index_add_(0, owners, recipe.weights)
    assert len(total) == len(shipped_synonyms()) and torch.allclose(total, torch.ones_like(total), atol=1e-4)


def test_words_that_the_labels_tell_apart_share_no_mixture(table: MixedWords) -> None:
    one, other, _ = shipped_synonyms().pairs
    words = shipped_synonyms().words
    place = next(row for row, pair in enumerate(zip(one, other, strict=True))
                 if all(words[word].isalpha() and len(words[word]) > 4 for word in pair))
    pair = words[one[place]], words[other[place]]
    alike = [Example(f"{word} film", label) for word in pair for label in (0, 1)] * 100
    apart = [Example(f"{word} film", label) for label, word in enumerate(pair)] * 200
    for examples, clash in ((alike, 0), (apart, 1)):
        mixtures = Mixtures(apart=0.1)
        mixtures.fit(examples, table.weight)
        assert np.unpackbits(mixtures.clashes.numpy())[place] == clash
        owners, others, _ = mixtures._links()
        assert bool(((owners == one[place]) & (others == other[place])).any()) is not bool(clash)


# How it is spelled


def test_words_of_the_table_are_one_piece_and_others_stay(encode: Encode) -> None:
    mixed, plain = MixedSpelling(encode), Spelling(encode)

    def pieces(spelling: Spelling, word: str) -> list[int]:
        return spelling.pieces(spelling.read([word])[0].words)[0].tolist()

    film = FIRST + number("film")
    comma, hyphen = pieces(plain, ","), pieces(plain, "-")
    assert pieces(mixed, "film") == pieces(mixed, "Film") == [film]
    assert pieces(mixed, "film,") == [film, *comma]
    assert pieces(mixed, "film-story") == [film, *hyphen, FIRST + number("story")]
    for word in ("the", "qzxvkj", "2004", "film2", "my_film", "...", "x", "X-", "http://film.example/story",
                 "film.com/story"):
        assert pieces(mixed, word) == pieces(plain, word)
    assert mixed.read(["a film"])[0].words.size == 2 and type(copy.copy(mixed)) is MixedSpelling
    assert type(MixedSpelling.current(plain, encode)) is MixedSpelling


# What the encoder makes of it


def test_what_it_knew_it_does_as_before(table: MixedWords, ready: MixedWords) -> None:
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    assert torch.equal(ready(ids), nn.functional.embedding(ids, ready.weight))


def test_mixtures_lie_as_far_from_the_centre_as_pieces_do(ready: MixedWords) -> None:
    numbers = FIRST + torch.tensor([[number("film"), number("story")], [number("film"), 0]])
    numbers[1, 1] = 7
    found, mixtures = ready(numbers), ready.mixtures
    assert torch.equal(found[0, 0], found[1, 0]) and torch.equal(found[1, 1], ready.weight[7])
    away = (found[0] - mixtures.centre).norm(dim=1)
    assert torch.allclose(away, mixtures.length.expand(2), rtol=1e-4)
    pieces = ready.weight.detach()
    assert mixtures.length == pytest.approx(float((pieces - pieces.mean(0)).norm(dim=1).mean()), rel=1e-5)


def test_learning_reaches_the_pieces_of_a_mixture(ready: MixedWords) -> None:
    word = number("film")
    ready(torch.tensor([[FIRST + word]]))[..., 0].sum().backward()  # the sum over all axes would not change
    recipe = ready._recipe
    pieces = recipe.pieces[recipe.starts[word]:recipe.starts[word + 1]]
    assert ready.weight.grad is not None and (ready.weight.grad[pieces].abs().sum(dim=1) > 0).all()


def test_near_words_come_nearer(ready: MixedWords) -> None:
    """The reason for all of it: a swap moves a mixture less than it moves a word."""
    one, other, cosines = shipped_synonyms().pairs
    rows = np.argsort(-cosines)[:3000:10].copy()
    mixed = [ready(FIRST + torch.from_numpy(side[rows])) for side in (one, other)]
    moved = (mixed[0] - mixed[1]).norm(dim=1).mean() / ready.mixtures.length
    strangers = (mixed[0] - mixed[1].roll(1, dims=0)).norm(dim=1).mean() / ready.mixtures.length
    assert moved < 0.6 * strangers


def test_another_table_of_synonyms_is_told(table: MixedWords, encode: Encode) -> None:
    mixtures = Mixtures(apart=0.1)
    mixtures.fit(TEXTS, table.weight)
    mixtures.clashes = mixtures.clashes[:-1]
    with pytest.raises(ModelFileError, match="another table of synonyms"):
        mixtures.recipe(encode.tokenizer)
    with pytest.raises(OptionError, match="apart"):
        Mixtures(apart=2.0)


def test_an_encoder_without_a_plain_table_is_refused(tiny: Callable[[str], Path]) -> None:
    class Odd(nn.Embedding):
        pass

    model = load_encoder(tiny("bert"), ["bad", "good"])[0]
    model.get_input_embeddings().__class__ = Odd
    with pytest.raises(EncoderError, match="Odd"):
        teach_mixtures(model)
