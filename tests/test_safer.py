# SPDX-License-Identifier: Apache-2.0
"""SAFER: perturbation sets, uniform draws from them, and a certificate that no substitution breaks."""

import math
import pickle
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
import torch
from attack_stand_ins import tiny_classifier

from dualmask.classifier import DefendedClassifier
from dualmask.defences.safer import SAFER, SAFEROptions
from dualmask.errors import OptionError, ResourceError
from dualmask.models.encoders import load_tokenizer
from dualmask.text import spelling as spelling_module
from dualmask.text.encoding import Encode
from dualmask.text.examples import Dataset, Text
from dualmask.text.perturbations import RandomSynonyms, SynonymGraph, core_of, dressed, is_regular, synonym_graph
from dualmask.text.spelling import Spelling
from dualmask.text.synonyms import Pairs, Synonyms, nearest_pairs

# Degrees on a circle: neighbours of up to 36 degrees are synonyms (cosine 0.8), up to 60 are in the table (0.5)
CIRCLE = {"good": 0, "great": 20, "fine": 45, "superb": 80, "bad": 180, "awful": 190, "movie": 270, "x": 275,
          "plot": 305}
TEXTS = ["the movie was good", "GREAT, (fine) plot!", "a Bad plot", "x", "", "the plot of the movie was rarely dull !"]


def on_circle(degrees: Mapping[str, float]) -> Synonyms:
    turns = np.deg2rad(list(degrees.values()))
    return Synonyms(list(degrees), nearest_pairs(np.stack([np.cos(turns), np.sin(turns)], axis=1).astype(np.float32)))


def circle(most: int = 100, threshold: float = 0.8, degrees: Mapping[str, float] = CIRCLE) -> SynonymGraph:
    return SynonymGraph(on_circle(degrees), threshold=threshold, most=most)


@pytest.fixture
def vectors(tmp_path: Path) -> str:
    """The same words as a file."""
    turns = {word: math.radians(place) for word, place in CIRCLE.items()}
    lines = [f"{word} {math.cos(turn)} {math.sin(turn)}" for word, turn in turns.items()]
    (tmp_path / "vectors.txt").write_text("\n".join(lines))
    return str(tmp_path / "vectors.txt")


@pytest.fixture
def encode(tiny: Callable[[str], Path]) -> Encode:
    return Encode(load_tokenizer(tiny("bert")), max_length=40)


def guarded(tiny: Callable[[str], Path], data: Dataset, vectors: str, **options: object) -> DefendedClassifier:
    plain = tiny_classifier(tiny("bert"), "plain", data)
    defence = SAFER(SAFEROptions(**{"synonyms": vectors, "threshold": 0.8, **options}))  # type: ignore[arg-type]
    return DefendedClassifier(plain.model, plain.encode.tokenizer, defence, labels=data.labels, max_length=40)


# Sets


def test_connected_words_are_found_through_others() -> None:
    graph = circle()
    assert graph.synonyms("good") == ["great"] and graph.synonyms("fine") == ["great", "superb"]
    chain = {"good", "great", "fine", "superb"}
    assert all(graph.component(word) == chain == {*graph.members(word)} for word in chain)
    assert graph.members("bad") == ("bad", "awful") and graph.members("movie") == ("movie", "x", "plot")
    before = len(pickle.dumps(graph))
    assert graph.members("unheard") == ("unheard",) and not graph.synonyms("unheard")
    assert graph.component("unheard") == {"unheard"} and graph.overlap("unheard", []) == 1
    assert len(pickle.dumps(graph)) == before  # attackers make up words without end


def test_of_many_words_the_nearest_stay_by_angle_or_the_shortest_way() -> None:
    assert circle().members("good") == ("good", "great", "fine", "superb")
    assert circle().members("superb") == ("superb", "fine", "great", "good")
    assert circle(most=2).members("fine") == ("fine", "great") and circle(most=1).members("fine") == ("fine",)
    far = {"aa": -72, "dd": -36, "ff": 0, "ee": 34, "bb": 70}  # aa and bb: too far from ff to be in its row
    assert circle(degrees=far).members("ff") == ("ff", "ee", "dd", "bb", "aa")
    assert circle(most=4, degrees=far).members("ff") == ("ff", "ee", "dd", "bb")
    assert "zz" not in circle(degrees={**far, "zz": 118}).members("bb")  # in its row, and connected with nobody


def test_a_cosine_that_the_table_holds_goes_before_a_way_through_it() -> None:
    """From aa over bb it is 60 degrees to cc and over dd 50 to ee, but cc itself is only 40 degrees off."""
    degrees = {("aa", "bb"): 30, ("bb", "cc"): 30, ("aa", "cc"): 40, ("aa", "dd"): 25, ("dd", "ee"): 25}
    words = ["aa", "bb", "cc", "dd", "ee"]
    rows = sorted((words.index(one), words.index(other), math.cos(math.radians(apart)))
                  for (one, other), apart in degrees.items())
    first, second, cosines = zip(*rows, strict=True)
    table = Synonyms(words, Pairs(np.array(first), np.array(second), np.array(cosines, dtype=np.float32)))
    graph = SynonymGraph(table, threshold=0.8, most=4)
    assert graph.members("aa") == ("aa", "dd", "bb", "cc") and graph.synonyms("aa") == ["dd", "bb"]


def test_equally_near_words_come_by_name() -> None:
    assert circle(most=2, degrees={"mm": 0, "zz": 10, "bb": -10}).members("mm") == ("mm", "bb")


def test_capped_sets_of_connected_words_are_equally_large() -> None:
    graph = synonym_graph("shipped", 0.8, 100)
    sample = sorted(graph.component("good"))[::200]
    assert len(graph.component("good")) == 4341 and {len(graph.members(word)) for word in sample} == {100}
    assert all({*graph.synonyms(word)} < {*graph.members(word)} for word in sample)
    assert {*graph.members("plot")} == graph.component("plot") == {*graph.members("plots")}


def test_no_set_is_cut_at_the_cosine_of_the_preset_for_certificates() -> None:
    threshold = SAFER().options.threshold
    graph = synonym_graph("shipped", threshold, 100)
    assert max(len(graph.component(word)) for word in graph.table.words[::10]) == 80
    assert graph.overlap_of("a", graph.synonyms("a")) == graph.overlap_of("An", graph.synonyms("an")) == 1
    capitals = {word.upper() for word in (*graph.synonyms("a"), "gram", "grams", "gs", "rs", "vs")}
    assert {word for word in (*capitals, "GOOD", "A", "G") if graph.overlap_of(
        word, graph.synonyms(word.lower())) < 1} == capitals == {"AN", "GRAM", "GRAMS", "GS", "RS", "VS"}


@pytest.mark.parametrize("seed", range(5))
def test_overlaps_agree_with_brute_force(seed: int) -> None:
    draw = random.Random(seed)
    words = [f"{one}{other}" for one in "bcd" for other in "fghj"]
    graph = circle(most=4, degrees={word: draw.uniform(0, 150) for word in words})
    sets = {word: {*graph.members(word)} for word in words}
    found = []
    for word in words:
        for others in (graph.synonyms(word), graph.members(word)):
            expected = min((Fraction(len(sets[word] & sets[other]), len(sets[word])) for other in others), default=1)
            found.append(graph.overlap(word, others))
            assert found[-1] == expected
            # What uniform draws share: the sum of the lesser of two chances
            assert expected == min((sum(min(
                Fraction(one in sets[word], len(sets[word])), Fraction(one in sets[other], len(sets[other])))
                for one in words) for other in others), default=1)
    assert min(found) < 1 and max(found) == 1


# Words as texts have them


@pytest.mark.parametrize(("written", "core", "great"), [
    ("good", "good", "great"), ("Good,", "good", "Great,"), ("(\"GOOD\")!", "good", "(\"GREAT\")!"),
    ("well-known.", "well-known", "great."), ("gOOd", "gOOd", "great"), ("...", "", "...great"), ("A", "a", "Great"),
    ("__it's_", "it's", "__great_"), ("good,bad", "good,bad", "great"),
])  # fmt: skip
def test_cores_and_dress(written: str, core: str, great: str) -> None:
    assert core_of(written) == core
    assert dressed("great", written) == great
    assert dressed(core, written) == written


def test_long_words_take_no_time() -> None:
    hostile = "a" + "." * 200_000 + "b"
    assert core_of(hostile) == hostile and core_of("." * 200_000) == "" and dressed("c", f"{hostile}!!") == "c!!"


@pytest.mark.parametrize("word", ["x,", "'s", "two words", "iPhone", "ß", "ﬁne"])
def test_words_that_are_not_looked_up_as_themselves_have_no_synonyms(word: str) -> None:
    assert not is_regular(word) and is_regular("good") and is_regular("well-known") and is_regular("élan")
    graph = circle(degrees={"good": 0, word: 10})
    assert graph.members("good") == ("good",) and graph.members(word) == (word,)


@pytest.mark.parametrize(("word", "shares"), [("a", (1, Fraction(1, 2), 1)), ("2nd", (1, 1, Fraction(1, 2))),
                                              ("12", (1, Fraction(1, 2), Fraction(1, 2)))])
def test_what_is_drawn_for_words_without_a_case_is_counted_as_it_is_written(
    word: str, shares: tuple[Fraction, ...],
) -> None:
    """Certificates hold for "an" and "a" as well, though "A" may stand for "An" or for "AN"."""
    graph = circle(degrees={"an": 0, word: 10})
    assert not is_regular(word) and set(graph.members("an")) == set(graph.members(word)) == {"an", word}
    for shape, share in zip(("an", "AN", "An"), shares, strict=True):
        other = dressed(word, shape)  # what an attacker writes
        draws = [{dressed(one, written) for one in graph.members(core_of(written))} for written in (shape, other)]
        assert graph.overlap_of(shape, [word]) == share == Fraction(len(draws[0] & draws[1]), 2)


@pytest.mark.parametrize("shape", ["fine", "FINE", "Fine"])
def test_sets_carry_over_to_every_case(shape: str) -> None:
    """A substitute has the set of the word that it is, in the same dress: overlaps in texts are the graph's."""
    graph = circle(most=3)
    for other in graph.members("fine"):
        written = dressed(other, f"({shape},")
        assert core_of(written) == other
        theirs = {dressed(one, written) for one in graph.members(core_of(written))}
        assert theirs == {dressed(one, f"({shape},") for one in graph.members(other)}


# Draws


def words_drawn(graph: SynonymGraph, encode: Encode, text: str, seed: int = 0) -> list[str]:
    spelling = Spelling(encode)
    words = spelling.read([text])[0].words
    draws = np.random.default_rng(seed).random(len(words))
    return [spelling.word(number) for number in RandomSynonyms(spelling, graph).drawn(words, draws).tolist()]


def test_draws_are_uniform_and_keep_case_and_punctuation(encode: Encode) -> None:
    counts = Counter(words_drawn(circle(most=3), encode, "Fine, " * 9000))
    assert set(counts) == {"Fine,", "Great,", "Superb,"}
    assert all(abs(count - 3000) < 200 for count in counts.values())  # four deviations


def test_words_without_synonyms_stay(encode: Encode) -> None:
    words = ["the", "iPhone", "gOOd", "...", "y", "[MASK]", "12"]
    assert words_drawn(circle(), encode, " ".join(words)) == words


def test_draws_choose_members_in_their_order(encode: Encode) -> None:
    spelling, graph = Spelling(encode), circle()
    substitutes = RandomSynonyms(spelling, graph)
    numbers = np.full(8, spelling.read(["good"])[0].words[0])
    edges = np.array([0, 0.2499, 0.25, 0.4999, 0.5, 0.7499, 0.75, 1 - 2.0**-53])
    for _ in range(2):  # the second time nothing is spelled
        found = [spelling.word(number) for number in substitutes.drawn(numbers, edges).tolist()]
        assert found == [word for word in graph.members("good") for _ in range(2)]
    assert len(substitutes.drawn(numbers[:0], edges[:0])) == 0


def test_words_that_come_later_are_looked_up_too(encode: Encode) -> None:
    spelling, graph = Spelling(encode), circle(most=2)
    substitutes = RandomSynonyms(spelling, graph)
    for text in ("bad", "the bad movie", "good awful plot", "unheard BAD"):
        words = spelling.read([text])[0].words
        for draw, place in ((0.0, 0), (0.9, -1)):
            found = [spelling.word(one) for one in substitutes.drawn(words, np.full(len(words), draw)).tolist()]
            assert found == [dressed(graph.members(core_of(word))[place], word) for word in text.split()]


def test_views_depend_on_text_and_number_alone(
    tiny: Callable[[str], Path], data: Dataset, vectors: str, monkeypatch: pytest.MonkeyPatch,
) -> None:
    classifier = guarded(tiny, data, vectors, votes=9)
    alone = torch.cat([classifier.predict([text], early=False).probabilities for text in TEXTS])
    together = classifier.predict(TEXTS[::-1], early=False, batch_size=3).probabilities.flip(0)
    assert torch.allclose(alone, together, atol=1e-6)
    monkeypatch.setattr(spelling_module, "MOST_LETTERS", 1)  # every piece of work begins with new numbers
    assert torch.allclose(classifier.predict(TEXTS, early=False).probabilities, alone, atol=1e-6)


def shown(classifier: DefendedClassifier, text: Text, count: int) -> list[str]:
    batch = classifier.defence.inference_view([text] * count, range(count), classifier.encode, torch.device("cpu"))
    decode = classifier.encode.tokenizer.decode
    return [decode(ids[body]) for ids, body in zip(batch.input_ids, batch.body, strict=True)]


def test_views_are_texts_of_the_sets(tiny: Callable[[str], Path], data: Dataset, vectors: str) -> None:
    views = Counter(shown(guarded(tiny, data, vectors), "the Movie was bad, good", 2000))
    expected = {f"the {one} was {two}, {three}" for one, two, three in product(
        ("movie", "x", "plot"), ("bad", "awful"), ("good", "great", "fine", "superb"))}
    assert {view.replace(" ,", ",") for view in views} == expected
    assert max(views.values()) < 2 * min(views.values())  # 83 each


def test_training_draws_from_its_generator(encode: Encode, vectors: str) -> None:
    defence = SAFER(SAFEROptions(synonyms=vectors, threshold=0.8))
    texts, labels = ["good movie and good plot"] * 40, [0, 1] * 20
    first, again, other = (defence.training_view(texts, labels, encode, torch.Generator().manual_seed(seed))
                           for seed in (1, 1, 2))
    assert torch.equal(first.input_ids, again.input_ids) and not torch.equal(first.input_ids, other.input_ids)
    assert first.labels is not None and first.labels.tolist() == labels
    assert len(set(map(tuple, first.input_ids.tolist()))) > 20


def test_views_are_cut_after_words_were_drawn(tiny: Callable[[str], Path], vectors: str) -> None:
    defence, tokenizer = SAFER(SAFEROptions(synonyms=vectors, threshold=0.8)), load_tokenizer(tiny("bert"))
    for length in (9, 6):  # the next tokenizer, or length, takes effect at once
        encode = Encode(tokenizer, max_length=length)
        batch = defence.rewritten(["good bad movie plot the a was"], torch.tensor([3]), encode)
        assert batch.input_ids.shape == (1, length)


def test_pairs_empty_texts_and_odd_ones(tiny: Callable[[str], Path], data: Dataset, vectors: str) -> None:
    classifier = guarded(tiny, data, vectors, votes=5)
    pairs = [("good movie", "bad"), ("", "plot"), ("", "")]
    assert torch.isfinite(classifier.predict(pairs).probabilities).all()
    batch = classifier.defence.inference_view(pairs[:1] * 30, range(30), classifier.encode, torch.device("cpu"))
    assert len(set(map(tuple, batch.input_ids.tolist()))) > 10 and batch.token_type_ids.max() == 1
    assert torch.isfinite(classifier.predict(["", "\ud800good", "\u200b", "good\xa0bad"]).probabilities).all()
    assert classifier.predict([]).labels == []


def test_saved_classifiers_answer_the_same(
    tiny: Callable[[str], Path], data: Dataset, vectors: str, tmp_path: Path,
) -> None:
    classifier = guarded(tiny, data, vectors, votes=7, most=3)
    again = DefendedClassifier.load(classifier.save(tmp_path / "model"), device="cpu")
    assert again.defence.options == classifier.defence.options
    assert torch.equal(again.predict(TEXTS).probabilities, classifier.predict(TEXTS).probabilities)


def test_a_classifier_is_bound_to_the_vectors_that_it_was_trained_with(
    tiny: Callable[[str], Path], data: Dataset, vectors: str, tmp_path: Path,
) -> None:
    classifier = guarded(tiny, data, vectors, votes=3)
    folder, mark, before = classifier.save(tmp_path / "model"), classifier.fingerprint(), Path(vectors).read_text()
    assert DefendedClassifier.load(folder, device="cpu").fingerprint() == mark
    Path(vectors).write_text(before.replace("superb", "dull"))
    with pytest.raises(ResourceError, match=f"{vectors}.*not the one .* trained with.*put that one in its place"):
        DefendedClassifier.load(folder, device="cpu")
    other = guarded(tiny, data, vectors, votes=3)
    assert other.fingerprint() != mark
    assert isinstance(other.defence, SAFER) and "dull" in other.defence.graph().table  # not the one made before
    Path(vectors).write_text("no vectors at all")
    with pytest.raises(ResourceError, match=f"{vectors}.*line 1"):
        DefendedClassifier.load(folder, device="cpu")
    Path(vectors).unlink()
    with pytest.raises(ResourceError, match=f"{vectors}.*put it there"):
        DefendedClassifier.load(folder, device="cpu")
    assert torch.isfinite(classifier.predict(TEXTS).probabilities).all()  # what was read stays
    Path(vectors).write_text(before)
    assert DefendedClassifier.load(folder, device="cpu").fingerprint() == mark


def test_faulty_vectors_are_told_before_training(tiny: Callable[[str], Path], data: Dataset, vectors: str) -> None:
    Path(vectors).write_text("good 1 2\nbad 1")
    with pytest.raises(ResourceError, match=f"{vectors}.*line 2"):
        guarded(tiny, data, vectors)


# Certificates


def shares(text: Sequence[str], graph: SynonymGraph, classes: Mapping[tuple[str, ...], int]) -> Fraction:
    """The exact share of views of a text that an arbitrary classifier gives class 1."""
    views = list(product(*(graph.members(word) for word in text)))
    return Fraction(sum(classes[view] for view in views), len(views))


def attacks(text: Sequence[str], graph: SynonymGraph, against: str, changed: int) -> list[tuple[str, ...]]:
    """Every text that an attacker who keeps to the table makes with so many words."""
    choices = graph.synonyms if against == "synonyms" else graph.members
    return [found for places in combinations(range(len(text)), changed)
            for found in product(*(choices(word) if place in places else [word] for place, word in enumerate(text)))]


@pytest.mark.parametrize("against", ["synonyms", "sets"])
@pytest.mark.parametrize("text", ["good fine fine", "great superb", "good bad the", "fine Great, superb"])
def test_no_substitution_within_the_radius_moves_the_majority(
    text: str, against: str, vectors: str, encode: Encode,
) -> None:
    """Random classifiers of all degrees of bias, by exact shares over all views, against all attacks."""
    defence = SAFER(SAFEROptions(synonyms=vectors, threshold=0.8, most=3, against=against))  # type: ignore[arg-type]
    graph, words = defence.graph(), [core_of(word) for word in text.split()]
    vocabulary = sorted({other for word in words for other in graph.component(word)})
    draw = random.Random(0)
    radii = set()
    for bias in [0.6, 0.8, 0.9, 0.95, 0.98, 1.0] * 4:
        classes = {view: int(draw.random() < bias) for view in product(vocabulary, repeat=len(words))}
        share = math.nextafter(float(shares(words, graph, classes)), 0)  # rounded up it would prove too much
        radius = defence.radius(text, share, encode)
        radii.add(radius)
        for changed in range(radius + 1):
            assert all(shares(attack, graph, classes) > Fraction(1, 2)
                       for attack in attacks(words, graph, against, changed))
    assert len(radii) > 1


@pytest.mark.parametrize("against", ["synonyms", "sets"])
def test_the_radius_is_the_largest_that_can_be_proved(against: str, vectors: str, encode: Encode) -> None:
    """A classifier that knows the views of the text alone: beyond the radius some attack does take its majority."""
    defence = SAFER(SAFEROptions(synonyms=vectors, threshold=0.8, most=3, against=against))  # type: ignore[arg-type]
    graph, words = defence.graph(), ["good", "fine", "the", "superb", "great"]
    own = {*product(*(graph.members(word) for word in words))}
    classes = {view: int(view in own) for view in product(
        ["the", *sorted(graph.component("good"))], repeat=len(words))}
    radius = defence.radius(" ".join(words), 1.0, encode)
    assert 0 < radius < len(words)
    least = [min(shares(attack, graph, classes) for attack in attacks(words, graph, against, changed))
             for changed in (radius, radius + 1)]
    assert least[0] > Fraction(1, 2) >= least[1]


def test_radii_by_hand(vectors: str, encode: Encode) -> None:
    """good: {good great fine}; great: {great good fine}; fine: {fine great superb}; superb: {superb fine great}."""
    defence = SAFER(SAFEROptions(synonyms=vectors, threshold=0.8, most=3))
    graph = defence.graph()
    overlaps = {word: graph.overlap(word, graph.synonyms(word)) for word in ("good", "great", "fine", "superb", "the")}
    assert overlaps == {"good": 1, "great": Fraction(2, 3), "fine": Fraction(2, 3), "superb": 1, "the": 1}
    radius = defence.radius
    assert radius("great Fine! good the", 0.84, encode) == 1  # 0.84 - 1/3 > 1/2, less 5/9 it is not
    assert radius("great Fine! good the", 0.83, encode) == 0
    assert radius("great good the superb", 0.84, encode) == 4  # one weak word: any number of the others besides
    assert radius(("great good", "the FINE"), 0.84, encode) == 1
    assert radius("good the", 0.5, encode) == -1 and radius("good the", 0.51, encode) == 2
    assert radius("", 0.9, encode) == 0
    whole = SAFER(SAFEROptions(synonyms=vectors, threshold=0.8))
    assert whole.radius("great fine good", 0.51, encode) == 3  # uncut sets


def test_there_is_no_heuristic(vectors: str, encode: Encode) -> None:
    with pytest.raises(OptionError, match="no heuristic"):
        SAFER(SAFEROptions(synonyms=vectors, threshold=0.8)).radius("good", 0.9, encode, strict=False)


# Options and the card


def test_impossible_options_are_refused(tiny: Callable[[str], Path], data: Dataset) -> None:
    for options in ({"threshold": 0.4}, {"threshold": 1.1}, {"most": 0}, {"votes": 0}):
        with pytest.raises(OptionError, match=next(iter(options))):
            SAFEROptions(**options)  # type: ignore[arg-type]
    with pytest.raises(ResourceError, match=r"nowhere\.txt.*give 'shipped' or the path"):
        guarded(tiny, data, "nowhere.txt")


def test_options_have_their_effect(tiny: Callable[[str], Path], data: Dataset, vectors: str) -> None:
    def words(**options: object) -> set[str]:
        return set(shown(guarded(tiny, data, vectors, **options), "fine", 60))

    assert words() == {"good", "great", "fine", "superb"} and words(most=2) == {"fine", "great"}
    assert words(threshold=0.9) == {"great", "fine", "good"} and words(threshold=0.99) == {"fine"}


def test_the_card() -> None:
    card = SAFER.card()
    assert {"Paper", "Idea", "Acts at", "Deviations", "Relations"} == set(card.sections)
    assert SAFER.certificate and SAFER.paper is not None and "recommended" in SAFER.presets
