# SPDX-License-Identifier: Apache-2.0
"""RanMASK: which words its views show, and that its certificate is about these views."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import combinations, permutations
from math import comb
from pathlib import Path

import pytest
import torch
from attack_stand_ins import tiny_classifier, tiny_language_model
from torch import Tensor

from dualmask.classifier import DefendedClassifier
from dualmask.defences.ranmask import RanMASK, RanMASKOptions
from dualmask.errors import DataError, OptionError
from dualmask.masking import word_losses
from dualmask.masking.certificates import certified_words
from dualmask.models.encoders import load_encoder
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Dataset, Text
from dualmask.text.spelling import Spelling

CPU = torch.device("cpu")
WORDS = ["the", "movie", "was", "a", "plot", "and", "actor", "scene", "with", "very", "good", "bad"]
TEXTS: list[Text] = ["the movie was good", "", "x", "unables rarely !", "a \u200b plot was very movies", "the " * 70]
Guided = Callable[..., RanMASK]


@pytest.fixture(scope="module")
def encode(tiny: Callable[[str], Path]) -> Encode:
    from transformers import AutoTokenizer

    return Encode(AutoTokenizer.from_pretrained(tiny("bert")), max_length=40)


@pytest.fixture(scope="module")
def guided(tmp_path_factory: pytest.TempPathFactory, tiny: Callable[[str], Path]) -> Guided:
    folder = tmp_path_factory.mktemp("language-model")
    found = tiny_language_model(tiny("bert"))
    found.model.save_pretrained(folder)
    found.tokenizer.save_pretrained(folder)

    def make(**options: object) -> RanMASK:
        defence = ranmask(guide="language-model", language_model=str(folder), **options)
        defence.adapt(load_encoder(tiny("bert"), ["bad", "good"])[0])
        return defence

    return make


def ranmask(**options: object) -> RanMASK:
    return RanMASK(RanMASKOptions(**options))  # type: ignore[arg-type]


def text_of(length: int) -> str:
    return " ".join(WORDS[place % len(WORDS)] for place in range(length))


def shown(batch: Batch) -> list[tuple[int, ...]]:
    """Places of the words that each row shows."""
    return [tuple(sorted(set(words[seen].tolist())))
            for words, seen in zip(batch.words, batch.body & ~batch.masks, strict=True)]


def views(defence: RanMASK, text: Text, encode: Encode, count: int) -> Batch:
    return defence.inference_view([text] * count, range(count), encode, CPU)


def losses(defence: RanMASK, texts: Sequence[Text], encode: Encode) -> list[Tensor]:
    assert defence.guide is not None
    return defence.guide(texts, defence.spelling(encode), CPU)


def assert_same(one: Batch, other: Batch) -> None:
    for field in fields(Batch):
        ours, theirs = getattr(one, field.name), getattr(other, field.name)
        assert torch.equal(ours, theirs) if isinstance(ours, Tensor) else ours == theirs, field.name


def row(batch: Batch, number: int) -> dict[str, list[object]]:
    """One row without its padding."""
    length = int(batch.attention_mask[number].sum())
    return {name: tensor[number, :length].tolist() for name, tensor in batch.per_token().items()}


def chi_square(counts: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> float:
    assert set(counts) <= set(expected)
    return sum((counts[one] - wanted) ** 2 / wanted for one, wanted in expected.items())


# Which words


@pytest.mark.parametrize("drawn", ["at inference", "in training"])
def test_every_set_of_k_words_is_as_likely(encode: Encode, drawn: str) -> None:
    defence, text, count = ranmask(rate=0.6), text_of(5), 6000
    if drawn == "at inference":
        batch = views(defence, text, encode, count)
    else:
        batch = defence.training_view([text] * count, [0] * count, encode, torch.Generator().manual_seed(1))
    counts = Counter(shown(batch))
    expected = {one: count / comb(5, 2) for one in combinations(range(5), 2)}
    assert chi_square(counts, expected) < 27.9  # nine degrees of freedom, one in a thousand


def test_views_of_one_text_are_independent(encode: Encode) -> None:
    found = shown(views(ranmask(rate=0.5), text_of(4), encode, 6000))
    pairs = Counter((*one, *other) for one, other in zip(found[::2], found[1::2], strict=True))
    sets = list(combinations(range(4), 2))
    assert chi_square(pairs, {(*one, *other): 3000 / 36 for one in sets for other in sets}) < 66.6  # 35 degrees


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.3, 0.7, 0.9, 0.95, 1.0])
def test_the_same_k_in_training_at_inference_and_in_the_certificate(encode: Encode, rate: float) -> None:
    defence = ranmask(rate=rate)
    for length in [0, 1, 2, 3, 5, 10, 20, 36]:
        text = text_of(length)
        masks = round(rate * length)
        kept = length - masks if length - masks >= 2 else min(2, length)
        seen = shown(views(defence, text, encode, 8))
        learned = shown(defence.training_view([text] * 8, [1] * 8, encode, torch.Generator().manual_seed(0)))
        assert {len(one) for one in [*seen, *learned]} == {kept} == {defence.kept(length)}
        for share in (0.4, 0.6, 0.9, 0.999):
            assert defence.radius(text, share, encode) == certified_words(length, kept, share)


def test_one_mask_stands_for_a_whole_word(encode: Encode) -> None:
    batch = views(ranmask(rate=0.5), "unables movies rarely xxxx", encode, 50)
    mask = encode.mask_id
    assert torch.equal(batch.input_ids == mask, batch.masks)
    for number, seen in enumerate(shown(batch)):
        places = batch.words[number][batch.body[number]].tolist()
        assert sorted(set(places)) == [0, 1, 2, 3] and places == sorted(places)
        assert all(places.count(place) == (1 if place not in seen else pieces)
                   for place, pieces in enumerate([3, 2, 2, 4]))
    assert len(set(shown(batch))) == 6


def test_nothing_of_a_short_text_is_hidden(encode: Encode) -> None:
    defence = ranmask(rate=0.9)
    for text in ["", " ", "x", "unables", "good movies"]:
        batch = views(defence, text, encode, 3)
        assert not batch.masks.any() and torch.equal(batch.input_ids, encode([text] * 3).input_ids)


@pytest.mark.parametrize("nothing", ["\u200b", "\u2060\u00ad", "\ufffd", "\u0301"])
def test_words_without_pieces_are_none(encode: Encode, nothing: str) -> None:
    """They take no mask from the words that are read, wherever they stand and however many there are."""
    text, many = "the movie was good", f"{nothing} " * 400
    padded = [f"{many}{text}", f"{text} {many}", f"the movie {many}was good"]
    for defence in (ranmask(rate=0.5), ranmask(rate=0.5, noise_seed=3)):
        assert {defence.radius(one, 0.99, encode) for one in padded} == {certified_words(4, 2, 0.99)}
        seeds = torch.arange(50)
        assert all(torch.equal(defence.rewritten([one] * 50, seeds, encode).input_ids,
                               defence.rewritten([text] * 50, seeds, encode).input_ids) for one in padded)


def test_both_texts_of_a_pair_are_masked(encode: Encode) -> None:
    defence, pair = ranmask(rate=0.5), ("the movie was", "a very bad plot actor")
    batch = views(defence, pair, encode, 1000)
    plain = encode([pair])
    assert {len(one) for one in shown(batch)} == {4} and len(set(shown(batch))) == comb(8, 4)
    assert (batch.token_type_ids == plain.token_type_ids).all() and (batch.body == plain.body).all()
    assert defence.radius(pair, 0.95, encode) == certified_words(8, 4, 0.95)
    with pytest.raises(DataError, match="mixed"):
        defence.inference_view([pair, "a text"], [0, 0], encode, CPU)


@pytest.mark.parametrize("guide", ["uniform", "language-model"])
def test_a_view_depends_on_its_text_and_number_alone(encode: Encode, guided: Guided, guide: str) -> None:
    defence = ranmask(rate=0.5) if guide == "uniform" else guided(rate=0.5)
    texts, numbers = TEXTS * 3, [number for number in range(3) for _ in TEXTS]
    whole = defence.inference_view(texts, numbers, encode, CPU)
    for place, (text, number) in enumerate(zip(texts, numbers, strict=True)):
        alone = defence.inference_view([text], [number], encode.prepared([text]), CPU)
        assert row(whole, place) == row(alone, 0)
    defence.redraw(1)
    again = defence.inference_view(texts, numbers, encode, CPU)
    assert not torch.equal(again.masks, whole.masks)


def test_training_draws_from_its_generator(encode: Encode) -> None:
    def drawn(seed: int, steps: int) -> list[Batch]:
        draw = torch.Generator().manual_seed(seed)
        return [ranmask(rate=0.5).training_view([text_of(12)] * 4, [0, 1, 0, 1], encode, draw) for _ in range(steps)]

    first, second = drawn(0, 2)
    assert_same(first, drawn(0, 1)[0])
    assert not torch.equal(first.masks, second.masks) and not torch.equal(first.masks, drawn(1, 1)[0].masks)
    assert len(set(shown(first))) == 4 and first.labels is not None and first.labels.tolist() == [0, 1, 0, 1]


def test_masks_have_ordinary_positions_unless_asked(encode: Encode) -> None:
    assert views(ranmask(), text_of(9), encode, 1).mask_position == "normal"
    assert views(ranmask(mask_position="zero"), text_of(9), encode, 1).mask_position == "zero"


# The certificate


CHANGES: list[tuple[Text, Text, set[int]]] = [
    ("the movie was a very good plot", "the movie was a very bad plot", {5}),
    ("the movie was a very good plot", "unables movie was a very xxxxxxxxx plot", {0, 5}),
    ("the movie was a very good plot", "the xx\u200bxx was a very good [SEP]", {1, 6}),
    (" ".join(["movies"] * 14), " ".join(["movies"] * 3 + ["x" * 30] + ["movies"] * 9 + ["!!!!"]), {3, 13}),
    (("the movie was", "a very good plot"), ("the xxxxxxxxx was", "a very unables plot"), {1, 5}),
    (("movies " * 8, "rarely " * 8), ("movies " * 7 + "x" * 25, "rarely " * 7 + "z"), {7, 15}),
]


@pytest.mark.parametrize("max_length", [40, 14])  # 14: some views are cut
@pytest.mark.parametrize(("text", "changed", "places"), CHANGES)
def test_views_that_hide_the_changed_words_are_the_same(
    encode: Encode, max_length: int, text: Text, changed: Text, places: set[int],
) -> None:
    """The proof's premise: views of two texts that show the same places are equal if no changed word is there."""
    short, uncut = (Encode(encode.tokenizer, max_length=length) for length in (max_length, 1000))
    defence, seeds = ranmask(rate=0.7), torch.arange(600)
    one, other = Spelling(encode).read([text, changed])
    assert len(one.words) == len(other.words) and one.boundary == other.boundary
    sets = shown(defence.rewritten([text] * 600, seeds, uncut))
    free = [number for number, kept in enumerate(sets) if not places & set(kept)]
    hit = [number for number, kept in enumerate(sets) if places & set(kept)]
    assert free and hit
    ours, theirs = (defence.rewritten([given] * len(free), seeds[free], short) for given in (text, changed))
    assert_same(ours, theirs)
    # And the others can tell, unless the change was cut away
    ours, theirs = (defence.rewritten([given] * len(hit), seeds[hit], short) for given in (text, changed))
    assert ours.input_ids.shape != theirs.input_ids.shape or not torch.equal(ours.input_ids, theirs.input_ids)


@pytest.mark.parametrize(("length", "rate", "wanted"), [
    (10, 0.7, "0/0 0/1 1/1 1/1 1/1"), (10, 0.9, "0/0 1/1 2/2 2/2 2/2"), (20, 0.8, "0/0 1/2 2/2 2/2 2/2"),
    (40, 0.3, "0/0 0/0 0/0 0/0 0/0"), (40, 0.9, "0/1 3/4 4/5 5/5 5/6"), (40, 0.95, "2/3 6/8 8/10 10/10 11/11"),
    (100, 0.9, "0/1 3/4 4/5 5/5 6/6"), (100, 0.95, "2/3 6/8 9/10 11/11 12/12"),
])
def test_worked_radii(encode: Encode, length: int, rate: float, wanted: str) -> None:
    """Ten words at 0.9 show two, and two are certified, not the four of a set of one that is never shown."""
    defence, text = ranmask(rate=rate), text_of(length)
    found = [f"{defence.radius(text, share, encode)}/{defence.radius(text, share, encode, strict=False)}"
             for share in (0.6, 0.8 - 1e-9, 0.9, 0.95, 0.99)]  # 0.8 as a float is a little more, and proves more
    assert " ".join(found) == wanted
    assert defence.radius(text, 0.5, encode) == defence.radius(text, 0.5, encode, strict=False) == -1


def test_the_recommended_rate_certifies_nothing(encode: Encode) -> None:
    assert {ranmask().radius(text_of(length), 1.0, encode) for length in range(1, 120, 7)} == {0}
    assert ranmask().radius("", 1.0, encode) == 0  # there is no word to change
    assert "certifies nothing" in RanMASK.card().sections["Deviations"]


# Guided by a language model


def test_a_guided_mask_falls_in_proportion_to_the_loss(encode: Encode, guided: Guided) -> None:
    defence, text, count = guided(rate=0.2), "the unables was movies good", 6000
    weights = losses(defence, [text], encode)[0]
    batch = views(defence, text, encode, count)
    hidden = Counter(tuple(words[masks].tolist()) for words, masks in zip(batch.words, batch.masks, strict=True))
    share = (weights / weights.sum()).tolist()
    assert max(share) > 1.5 * min(share)
    assert chi_square(hidden, {(place,): count * one for place, one in enumerate(share)}) < 18.5  # four degrees


def test_guided_masks_are_drawn_one_after_the_other(encode: Encode, guided: Guided) -> None:
    """Without replacement: each next one in proportion among those that are left."""
    defence, text, count = guided(rate=0.5), "the unables was good", 6000
    share = losses(defence, [text], encode)[0].tolist()
    share = [one / sum(share) for one in share]
    expected = dict.fromkeys(combinations(range(4), 2), 0.0)
    for first, second in permutations(range(4), 2):
        expected[min(first, second), max(first, second)] += count * share[first] * share[second] / (1 - share[first])
    batch = views(defence, text, encode, count)
    hidden = Counter(tuple(words[masks].tolist()) for words, masks in zip(batch.words, batch.masks, strict=True))
    assert chi_square(hidden, expected) < 20.5  # five degrees


def test_losses_are_means_over_the_pieces_of_words(encode: Encode, guided: Guided) -> None:
    defence = guided()
    assert defence.guide is not None
    judge = defence.guide.scorer
    texts: list[Text] = ["the unables was", "a \u200b movies", "movies " * 30, "", "the unables was"]
    found = losses(defence, texts, encode)
    assert [len(one) for one in found] == [3, 2, 30, 0, 3] and torch.equal(found[0], found[4])
    plain = judge(encode(["the unables was"]))[0, 1:6].double()
    assert torch.allclose(found[0], torch.stack([plain[0], plain[1:4].mean(), plain[4]]), atol=1e-5)
    other = judge(encode(["a movies"]))[0, 1:4].double()
    assert torch.allclose(found[1], torch.stack([other[0], other[1:].mean()]), atol=1e-5)
    long = judge(encode(["movies " * 30]))[0, 1:39].double()  # 38 tokens fit, the first 19 words
    assert torch.allclose(found[2][:19], long.view(19, 2).mean(dim=1), atol=1e-5)
    assert torch.allclose(found[2][19:], long.mean().expand(11), atol=1e-5)
    assert all((one > 0).all() for one in found)


def test_the_language_model_reads_a_text_once_for_all_batches(
    encode: Encode, guided: Guided, monkeypatch: pytest.MonkeyPatch,
) -> None:
    defence, read = guided(rate=0.5), []
    assert defence.guide is not None
    forward = defence.guide.scorer.forward
    monkeypatch.setattr(defence.guide.scorer, "forward", lambda batch: read.append(len(batch)) or forward(batch))
    for _ in range(7):
        views(defence, TEXTS[0], encode, 16)
    defence.inference_view([TEXTS[0], TEXTS[3]], [0, 0], encode, CPU)
    assert read == [1, 1]
    losses(defence, [f"movie {number}" for number in range(word_losses.REMEMBERED + 9)], encode)
    assert len(defence.guide._known[1]) == word_losses.REMEMBERED
    shorter = Encode(encode.tokenizer, max_length=5)  # judges less of a text, and differently
    assert not torch.equal(losses(defence, ["the unables was"], shorter)[0], losses(guided(), ["the unables was"],
                                                                                     encode)[0])
    assert defence.pass_count == "100, 8 of a language model" and ranmask(votes=7).pass_count == "7"


def test_a_guided_defence_trains_on_uniform_masks(encode: Encode, guided: Guided) -> None:
    one, other = (defence.training_view([text_of(9)] * 20, [0] * 20, encode, torch.Generator().manual_seed(0))
                  for defence in (guided(rate=0.5), ranmask(rate=0.5)))
    assert_same(one, other)


@pytest.mark.parametrize("strict", [True, False])
def test_guided_masks_are_not_certified(encode: Encode, guided: Guided, strict: bool) -> None:
    with pytest.raises(OptionError, match="guide=uniform"):
        guided().radius("a text", 0.99, encode, strict=strict)


# As a defence


@pytest.mark.parametrize(("options", "message"), [
    ({"rate": 1.2}, "rate"), ({"rate": -0.1}, "rate"), ({"keep_least": 0}, "keep_least"), ({"votes": 0}, "votes"),
    ({"guide": "language-model"}, "language_model"), ({"language_model": "bert"}, "guide=language-model"),
])
def test_impossible_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ranmask(**options)


def classifier_of(tiny: Callable[[str], Path], data: Dataset, defence: RanMASK) -> DefendedClassifier:
    plain = tiny_classifier(tiny("bert"), "plain", data)
    return DefendedClassifier(plain.model, plain.encode.tokenizer, defence, labels=data.labels, max_length=40)


def test_answers_are_votes_over_masked_texts(tiny: Callable[[str], Path], data: Dataset) -> None:
    defence = ranmask(rate=0.5, votes=30)
    classifier = classifier_of(tiny, data, defence)
    texts: Sequence[Text] = [example.text for example in data.test[:6]] + TEXTS[:5]
    whole, early = classifier.predict(texts, early=False), classifier.predict(texts)
    assert whole.labels == early.labels and early.passes is not None and int(early.passes.sum()) < 30 * len(texts)
    for number, text in enumerate(texts):
        view = views(defence, text, classifier.encode, 30)
        with torch.no_grad():
            votes = classifier.network.eval()(view).argmax(dim=1).bincount(minlength=2)
        assert torch.allclose(whole.probabilities[number], votes / 30, atol=1e-5)


def test_no_attack_within_the_radius_changes_the_answer(tiny: Callable[[str], Path], data: Dataset) -> None:
    """All sets of words are asked about, so that the share is exact, and so is the proof."""
    classifier = classifier_of(tiny, data, ranmask(rate=0.8))
    spelling = Spelling(classifier.encode)
    sets = list(combinations(range(10), 2))

    def votes(text: str) -> Tensor:
        words = spelling.read([text])[0].words
        rows = [[word if place in one else Spelling.MASK for place, word in enumerate(words.tolist())] for one in sets]
        batch = spelling.batch(torch.tensor(rows).numpy(), [None] * len(rows))
        with torch.no_grad():
            return classifier.network.eval()(batch).argmax(dim=1).bincount(minlength=2)

    draw, tried = torch.Generator().manual_seed(0), 0
    for _ in range(12):
        words = [WORDS[place] for place in torch.randint(len(WORDS), (10,), generator=draw).tolist()]
        counts = votes(" ".join(words))
        radius = classifier.defence.radius(" ".join(words), int(counts.max()) / len(sets), classifier.encode)
        for _ in range(20 if radius > 0 else 0):
            attacked = list(words)
            for place in torch.randperm(10, generator=draw)[:radius].tolist():
                attacked[place] = [*WORDS, "unables", "xxxxxxx"][int(torch.randint(14, (1,), generator=draw))]
            assert votes(" ".join(attacked)).argmax() == counts.argmax()
            tried += 1
    assert tried > 50
