# SPDX-License-Identifier: Apache-2.0
"""CERT-ED: which words its views leave out, and that its certificate is about these views."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import product
from math import log
from pathlib import Path

import pytest
import torch
from attack_stand_ins import tiny_classifier
from torch import Tensor

from dualmask.classifier import DefendedClassifier
from dualmask.defences.certed import MOST_EDITS, CertED, CertEDOptions
from dualmask.errors import DataError, OptionError
from dualmask.seeds import uniform
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Dataset, Text

CPU = torch.device("cpu")
WORDS = ["the", "movie", "was", "a", "plot", "and", "actor", "scene", "with", "very", "good", "bad"]
TEXTS: list[Text] = ["the movie was good", "", "x", "unables rarely !", "a \u200b plot was very movies", "the " * 70]
Pattern = tuple[bool, ...]


@pytest.fixture(scope="module")
def encode(tiny: Callable[[str], Path]) -> Encode:
    from transformers import AutoTokenizer

    return Encode(AutoTokenizer.from_pretrained(tiny("bert")), max_length=40)


def certed(**options: object) -> CertED:
    return CertED(CertEDOptions(**options))  # type: ignore[arg-type]


def views(defence: CertED, text: Text, encode: Encode, count: int) -> Batch:
    return defence.inference_view([text] * count, range(count), encode, CPU)


def assert_same(one: Batch, other: Batch) -> None:
    for field in fields(Batch):
        ours, theirs = getattr(one, field.name), getattr(other, field.name)
        assert torch.equal(ours, theirs) if isinstance(ours, Tensor) else ours == theirs, field.name


def row(batch: Batch, number: int) -> dict[str, list[object]]:
    """One row without its padding."""
    length = int(batch.attention_mask[number].sum())
    return {name: tensor[number, :length].tolist() for name, tensor in batch.per_token().items()}


# Which words


@pytest.mark.parametrize("drawn", ["at inference", "in training"])
@pytest.mark.parametrize("rate", [0.3, 0.9])
def test_each_word_is_deleted_by_itself(encode: Encode, drawn: str, rate: float) -> None:
    """Every set of words that are left is as frequent as independent deletions make it, the empty one too."""
    defence, words, count = certed(rate=rate), ["the", "movie", "was"], 8000
    if drawn == "at inference":
        batch = views(defence, " ".join(words), encode, count)
    else:
        batch = defence.training_view(
            [" ".join(words)] * count, [0] * count, encode, torch.Generator().manual_seed(1))
    counts = Counter(tuple(ids[body].tolist()) for ids, body in zip(batch.input_ids, batch.body, strict=True))
    numbers = encode([" ".join(words)]).input_ids[0, 1:4].tolist()
    total = 0.0
    for kept in product([True, False], repeat=3):
        seen = tuple(number for number, keep in zip(numbers, kept, strict=True) if keep)
        wanted = count * rate ** (3 - sum(kept)) * (1 - rate) ** sum(kept)
        total += (counts.pop(seen, 0) - wanted) ** 2 / wanted
    assert not counts and total < 24.3  # seven degrees of freedom, one in a thousand


def test_rows_are_the_texts_of_the_words_that_are_left(encode: Encode) -> None:
    defence, text = certed(rate=0.5), "the unables was, movies rarely good"
    seeds = torch.arange(60)
    batch = defence.rewritten([text] * 60, seeds, encode)
    kept = (uniform(seeds, 6) >= 0.5).tolist()
    left = [" ".join(word for word, keep in zip(text.split(), one, strict=True) if keep) for one in kept]
    plain = encode(left)
    for name in ("input_ids", "attention_mask", "token_type_ids", "positions", "body"):
        assert torch.equal(getattr(batch, name), getattr(plain, name)), name
    assert not batch.masks.any() and len(set(left)) > 30


def test_a_pairs_texts_stay_apart(encode: Encode) -> None:
    defence, pair, seeds = certed(rate=0.5), ("the movie was", "a very bad plot"), torch.arange(100)
    kept = (uniform(seeds, 7) >= 0.5).tolist()
    words = [*pair[0].split(), *pair[1].split()]
    left: list[Text] = []
    for one in kept:
        first, second = ([words[place] for place in places if one[place]] for places in (range(3), range(3, 7)))
        left.append((" ".join(first), " ".join(second)))
    batch, plain = defence.rewritten([pair] * 100, seeds, encode), encode(left)
    assert torch.equal(batch.input_ids, plain.input_ids) and torch.equal(batch.token_type_ids, plain.token_type_ids)
    assert any(not one[0] and one[1] for one in left) and any(one[0] and not one[1] for one in left)
    with pytest.raises(DataError, match="mixed"):
        defence.inference_view([pair, "a text"], [0, 0], encode, CPU)


def test_all_of_a_text_may_go(encode: Encode) -> None:
    empty = encode([""]).input_ids
    assert torch.equal(views(certed(rate=0.9), "", encode, 1).input_ids, empty)
    found = views(certed(rate=0.9), "movies", encode, 200)
    gone = ~found.body.any(dim=1)
    assert 160 < int(gone.sum()) < 197 and torch.equal(found.input_ids[gone][:1, :2], empty)
    assert torch.equal(views(certed(rate=0.0), "the movies", encode, 1).input_ids, encode(["the movies"]).input_ids)


def test_a_view_depends_on_its_text_and_number_alone(encode: Encode) -> None:
    defence = certed(rate=0.5)
    texts, numbers = TEXTS * 3, [number for number in range(3) for _ in TEXTS]
    whole = defence.inference_view(texts, numbers, encode, CPU)
    for place, (text, number) in enumerate(zip(texts, numbers, strict=True)):
        assert row(whole, place) == row(defence.inference_view([text], [number], encode.prepared([text]), CPU), 0)
    defence.redraw(1)
    again = defence.inference_view(texts, numbers, encode, CPU)
    assert not torch.equal(again.body.sum(dim=1), whole.body.sum(dim=1))


def test_training_draws_from_its_generator(encode: Encode) -> None:
    def drawn(seed: int, steps: int) -> list[Batch]:
        draw = torch.Generator().manual_seed(seed)
        return [certed(rate=0.5).training_view([" ".join(WORDS)] * 4, [0, 1, 0, 1], encode, draw)
                for _ in range(steps)]

    first, second = drawn(0, 2)
    assert_same(first, drawn(0, 1)[0])
    assert row(first, 0) != row(first, 1) and [row(first, n) for n in range(4)] != [row(second, n) for n in range(4)]
    assert first.labels is not None and first.labels.tolist() == [0, 1, 0, 1]


# The certificate


def seeds_of_patterns(length: int, rate: float) -> dict[Pattern, int]:
    """For every set of words that may be left a seed that leaves it."""
    seeds = torch.arange(200 * 2**length)
    kept = (uniform(seeds, length) >= rate).tolist()
    found = {tuple(one): seed for seed, one in zip(seeds.tolist(), kept, strict=True)}
    assert len(found) == 2**length
    return found


def edited(words: Sequence[str], kind: str, place: int, new: str) -> list[str]:
    match kind:
        case "insert":
            return [*words[:place], new, *words[place:]]
        case "delete":
            return [*words[:place], *words[place + 1:]]
        case _:
            return [*words[:place], new, *words[place + 1:]]


def coupled(pattern: Pattern, kind: str, place: int) -> Pattern:
    """What is left of the edited text when the same words go, and the one that was edited."""
    match kind:
        case "insert":
            return (*pattern[:place], False, *pattern[place:])
        case "delete":
            return (*pattern[:place], *pattern[place + 1:])
        case _:
            return pattern


@pytest.mark.parametrize("max_length", [40, 8])  # 8: some views are cut
@pytest.mark.parametrize("kind", ["insert", "delete", "replace"])
@pytest.mark.parametrize("place", [0, 2, 4])
def test_views_without_the_edited_word_are_the_same(encode: Encode, max_length: int, kind: str, place: int) -> None:
    """The proof's premise, for every set of words that may be left."""
    short, defence = Encode(encode.tokenizer, max_length=max_length), certed(rate=0.5)
    words = ["the", "unables", "movies", "good", "xxxx"]
    other = edited(words, kind, place, "x" * 30)
    seeds, others = seeds_of_patterns(5, 0.5), seeds_of_patterns(len(other), 0.5)
    free = [pattern for pattern in seeds if kind == "insert" or not pattern[place]]
    ours = defence.rewritten([" ".join(words)] * len(free), torch.tensor([seeds[one] for one in free]), short)
    theirs = defence.rewritten([" ".join(other)] * len(free), torch.tensor(
        [others[coupled(one, kind, place)] for one in free]), short)
    assert_same(ours, theirs)


def chances(defence: CertED, words: Sequence[str], encode: Encode) -> dict[tuple[int, ...], float]:
    """How likely each view of a text is, exactly."""
    rate = defence.options.rate
    patterns = seeds_of_patterns(len(words), rate)
    batch = defence.rewritten([" ".join(words)] * len(patterns), torch.tensor(list(patterns.values())), encode)
    chance: dict[tuple[int, ...], float] = {}
    for ids, body, pattern in zip(batch.input_ids, batch.body, patterns, strict=True):
        seen = tuple(ids[body].tolist())
        left = sum(pattern)
        chance[seen] = chance.get(seen, 0.0) + (1 - rate) ** left * rate ** (len(words) - left)
    return chance


@pytest.mark.parametrize("rate", [0.5, 0.7])
def test_edits_move_no_more_of_the_views_than_is_certified(encode: Encode, rate: float) -> None:
    """Any answer's share moves by at most 1 - rate^d, for all kinds of edits and two of them at once."""
    defence, words = certed(rate=rate), ["the", "movie", "was", "good"]
    clean = chances(defence, words, encode)
    assert abs(sum(clean.values()) - 1) < 1e-9
    kinds = ["insert", "delete", "replace"]
    for first, place in product(kinds, [0, 2, 3]):
        once = edited(words, first, place, "bad")
        attacks = [(1, once)] + [(2, edited(once, second, 1, "plot")) for second in kinds]
        for edits, attacked in attacks:
            dirty = chances(defence, attacked, encode)
            moved = sum(max(0.0, chance - dirty.get(seen, 0.0)) for seen, chance in clean.items())
            assert moved <= 1 - rate**edits + 1e-9
            if edits == 1 and first == "replace":
                assert moved > 0.9 * (1 - rate)  # the bound is met


@pytest.mark.parametrize(("rate", "wanted"), [
    (0.9, [-1, 0, 3, 4, 5, 6]), (0.95, [-1, 2, 6, 9, 11, 13]), (0.7, [-1, 0, 0, 1, 1, 1]), (0.5, [-1, 0, 0, 0, 0, 0]),
    (0.3, [-1, 0, 0, 0, 0, 0]), (0.0, [-1, 0, 0, 0, 0, 0]),
])
def test_worked_radii(encode: Encode, rate: float, wanted: list[int]) -> None:
    shares = (0.5, 0.6, 0.8, 0.9, 0.95, 0.99)
    for text in ["", "x", "the movie was good", ("a pair", "of texts")]:  # its length is no bound: edits may insert
        assert [certed(rate=rate).radius(text, share, encode) for share in shares] == wanted
    for share, radius in zip(shares[2:], wanted[2:], strict=True):  # the closed form, where nothing is on the edge
        if rate > 0:
            assert radius == int(log(1.5 - share) / log(rate) - 1e-9)


def test_no_more_edits_are_counted_than_can_be(encode: Encode) -> None:
    assert certed(rate=0.999).radius("x", 1.0, encode) == 692
    assert certed(rate=0.99999).radius("x", 1.0, encode) == MOST_EDITS


def test_there_is_no_heuristic(encode: Encode) -> None:
    with pytest.raises(OptionError, match="no heuristic"):
        certed(rate=0.9).radius("a text", 0.99, encode, strict=False)


# As a defence


@pytest.mark.parametrize(("options", "message"), [
    ({"rate": 1.0}, "rate"), ({"rate": -0.1}, "rate"), ({"rate": float("nan")}, "rate"), ({"votes": 0}, "votes"),
])
def test_impossible_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        certed(**options)


def test_answers_are_votes_over_thinned_texts(tiny: Callable[[str], Path], data: Dataset) -> None:
    plain = tiny_classifier(tiny("bert"), "plain", data)
    defence = certed(rate=0.5, votes=30)
    classifier = DefendedClassifier(plain.model, plain.encode.tokenizer, defence, labels=data.labels, max_length=40)
    texts: Sequence[Text] = [example.text for example in data.test[:6]] + TEXTS[:5]
    whole, early = classifier.predict(texts, early=False), classifier.predict(texts)
    assert whole.labels == early.labels and early.passes is not None and int(early.passes.sum()) < 30 * len(texts)
    for number, text in enumerate(texts):
        with torch.no_grad():
            answer = classifier.network.eval()(views(defence, text, classifier.encode, 30))
        assert torch.allclose(whole.probabilities[number], answer.argmax(dim=1).bincount(minlength=2) / 30, atol=1e-5)
