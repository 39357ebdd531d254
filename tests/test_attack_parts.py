# SPDX-License-Identifier: Apache-2.0
"""The parts of attacks against brute force: edits, constraints, rankings, searches, gradients."""

import itertools
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attack_stand_ins import (
    NEAR,
    Lexicon,
    SentenceVectors,
    Synonyms,
    Tagger,
    hashed,
    stand_ins,
    tiny_classifier,
    tiny_language_model,
)
from conftest import WORDS
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmask.attacks import build_attack
from dualmask.attacks.constraints import (
    FewLetters,
    FewWords,
    NearWords,
    SameMeaning,
    SamePart,
    except_words,
    second_text,
    unchanged,
    up_to_rate,
)
from dualmask.attacks.gradients import (
    EmbeddingOracle,
    FlipOracle,
    GradientOracle,
    HarmfulSynonyms,
    gains_of,
    word_table,
)
from dualmask.attacks.hotflip import VocabularyFlips
from dualmask.attacks.moves import Moves
from dualmask.attacks.oracles import Filled, LanguageModelOracle, SentenceOracle
from dualmask.attacks.pieces import Pieces, likeliest, piece_marks
from dualmask.attacks.problem import Answer, LoggedRow, Problem, Question, Steps, Streams, Terms
from dualmask.attacks.rankings import (
    Ranking,
    by_chance,
    by_deletion,
    by_gradient,
    by_prefixes,
    by_saliency,
    by_sentences,
    by_unknown,
)
from dualmask.attacks.searches import beam, genetic, greedy, in_turn, most_similar
from dualmask.attacks.transformations import (
    LanguageModelWords,
    LetterEdit,
    LookAlikes,
    Neighbours,
    WordNetSynonyms,
    deleted,
    inserted,
    mistyped,
    spaced,
    substituted,
    swapped,
)
from dualmask.classifier import DefendedClassifier
from dualmask.defences.base import Defence
from dualmask.evaluation.standing import differences
from dualmask.models.encoders import load_encoder
from dualmask.models.modes import evaluating
from dualmask.models.sentences import angular, cosine
from dualmask.text.examples import Dataset, Example, Text
from dualmask.text.letters import HOMOGLYPHS, LETTERS, keyboard_neighbours
from dualmask.text.stop_words import stop_words
from dualmask.text.words import Words, word_count


def driven(steps: Steps[Any] | Any, oracles: Mapping[str, Callable[[Sequence[Any]], Sequence[Any]]]) -> Any:
    """The end of a computation whose questions go to plain functions."""
    if not hasattr(steps, "send"):
        return steps
    reply: Any = None
    while True:
        try:
            question: Question = steps.send(reply)
        except StopIteration as stop:
            return stop.value
        reply = list(oracles[question.oracle](question.items))
        assert len(reply) == len(question.items)


def begun(
    text: Text, victim: Callable[[Sequence[Text]], Sequence[Sequence[float]]], label: int = 0, **terms: Any,
) -> tuple[Problem, dict[str, Any]]:
    """A problem after its first look, and the oracles that go on answering."""
    problem = Problem(Words(text), label, streams=Streams(0), terms=Terms(**terms))
    oracles = {"victim": lambda texts: [tuple(row) for row in victim(texts)],
               "sentences": SentenceOracle(SentenceVectors()).answers}
    driven(problem.begin(), oracles)
    return problem, oracles


def moves_of(*transformations: Any, constraints: Sequence[Any] = (), editable: Sequence[Any] = (unchanged,)) -> Moves:
    return Moves(transformations, constraints, editable)


class Swaps:
    """Each word may become one of those in a table."""

    def __init__(self, table: Mapping[str, Sequence[str]]) -> None:
        self.table = table

    def __call__(self, problem: Problem, current: Words, places: Sequence[int]) -> list[tuple[int, str]]:
        return [(place, new) for place in places for new in self.table.get(current[place], ())]


def additive(weights: Mapping[str, float], start: float = 0.9) -> Callable[[Sequence[Text]], list[list[float]]]:
    """A victim whose certainty falls by the weight of each word it finds."""
    def answer(texts: Sequence[Text]) -> list[list[float]]:
        found = [min(0.99, max(0.01, start - sum(weights.get(word, 0.0) for word in str(text).split())))
                 for text in texts]
        return [[sure, 1 - sure] for sure in found]
    return answer


# Letters


@pytest.mark.parametrize(("edit", "inner", "word", "expected"), [
    (swapped, False, "abcd", ["bacd", "acbd", "abdc"]), (swapped, True, "abcd", ["acbd"]), (swapped, True, "abc", []),
    (deleted, False, "abc", ["bc", "ac", "ab"]), (deleted, True, "abcd", ["acd", "abd"]), (deleted, True, "ab", []),
    (spaced, True, "abc", ["a bc"]), (spaced, True, "abcd", ["a bcd", "ab cd"]), (spaced, True, "ab", []),
    (swapped, False, "ab", ["ba"]), (swapped, False, "a", []), (deleted, False, "a", []), (inserted, False, "", []),
])
def test_every_place_of_an_edit(
    edit: LetterEdit.Edit, inner: bool, word: str, expected: list[str],
) -> None:
    assert list(LetterEdit(edit, draws=0, inner=inner).replacements(word, Streams(0))) == expected


@pytest.mark.parametrize(("edit", "inner", "least"), [
    (swapped, False, 2), (substituted, False, 2), (deleted, False, 2), (inserted, False, 2),
    (spaced, True, 3), (deleted, True, 3), (swapped, True, 4), (mistyped, True, 3)])
@pytest.mark.parametrize("draws", [1, 5])
def test_drawn_edits_are_among_all_edits(edit: LetterEdit.Edit, inner: bool, least: int, draws: int) -> None:
    for size in range(7):
        word = "qwerty"[:size]
        found = list(LetterEdit(edit, draws=draws, inner=inner).replacements(word, Streams(size)))
        assert len(found) == (draws if size >= least else 0)
        for new in found:
            assert len(new) - size == {deleted: -1, inserted: 1, spaced: 1}.get(edit, 0)
            if inner:
                assert (new[0], new[-1]) == (word[0], word[-1])
            if edit is swapped:
                assert sorted(new) == sorted(word)
            if edit is inserted:  # before a letter, never at the end
                assert new[-1] == word[-1] and set(new) - set(word) <= set(LETTERS)


def test_all_places_and_letters_are_drawn_in_the_end() -> None:
    streams = Streams(1)
    places = {next(iter(LetterEdit(spaced, inner=True).replacements("abcdef", streams))).index(" ") for _ in range(200)}
    assert places == {1, 2, 3, 4}
    letters = {next(iter(LetterEdit(substituted).replacements("..", streams))).strip(".") for _ in range(2000)}
    assert letters == set(LETTERS)


def test_keys_beside_each_other() -> None:
    found = list(LetterEdit(mistyped, draws=0).replacements("aQ1", Streams(0)))
    assert found[0][0] in keyboard_neighbours("a") and found[1][1] in keyboard_neighbours("Q")
    assert found[1][1].isupper() and found[2] == "aQ1"


def test_look_alikes_for_each_letter_that_has_one() -> None:
    found = list(LookAlikes().replacements("Abc-é1", Streams(0)))
    assert found == [f"A{HOMOGLYPHS['b']}c-é1", f"Ab{HOMOGLYPHS['c']}-é1", f"Abc{HOMOGLYPHS['-']}é1",
                     f"Abc-é{HOMOGLYPHS['1']}"]
    for letter, other in HOMOGLYPHS.items():
        assert letter != other and word_count(f"a{other}b") == 1, "a look-alike must not break its word"


# Words


def test_neighbours_follow_the_case() -> None:
    table = Synonyms({"good": {"fine": 0.9, "great": 0.8}})
    assert Neighbours(table, most=1).replacements("GOOD", Streams(0)) == ["FINE"]
    assert Neighbours(table, most=5).replacements("Good", Streams(0)) == ["Fine", "Great"]
    assert Neighbours(table, most=5).replacements("unknown", Streams(0)) == []


def test_wordnet_gives_single_words_of_the_right_part() -> None:
    lexicon = Lexicon({"good": ["good", "fine", "well_made", "two words", "it-s"]})
    problem, _ = begun("good Good", lambda texts: [[0.9, 0.1]] * len(texts))
    assert WordNetSynonyms(lexicon).replacements("good", Streams(0)) == ["fine", "it-s"]
    tagged = WordNetSynonyms(lexicon, tagger=Tagger({"good": "NOUN"}))
    assert tagged(problem, problem.original, [0]) == [(0, "fine"), (0, "it-s")]
    for tag in ("VERB", "DET", "."):
        assert WordNetSynonyms(lexicon, tagger=Tagger({"good": tag}))(problem, problem.original, [0]) == []


# A language model's words

PIECES = ["[CLS]", "good", "##ly", "##s", "un", "x", "-", ".", "bad", "##.", "'", "##x", "#", "# #"]
BYTES = ["good", "\u0120", "ly", "\u0120un", "x", "-", ".", "\u0120bad", "'", "s"]
SENTENCE_PIECES = [token.replace("\u0120", "\u2581") for token in BYTES]


def as_written(tokens: Sequence[str]) -> str:
    """A string of pieces as a reader would join it: marks of a beginning are spaces."""
    first, *others = tokens
    joined = first.lstrip("\u0120\u2581") + "".join(others)
    return joined.replace("##", "").replace("\u0120", " ").replace("\u2581", " ")


@pytest.mark.parametrize("tokens", [PIECES[:-2], BYTES, SENTENCE_PIECES], ids=["pieces", "bytes", "sentence pieces"])
@pytest.mark.parametrize("seed", range(6))
def test_the_first_words_are_those_of_the_whole_product(tokens: list[str], seed: int) -> None:
    draw = random.Random(seed)
    rows = [draw.sample(range(len(tokens)), 5) for _ in range(2 + seed % 3)]
    every = [as_written([tokens[token] for token in combination]) for combination in itertools.product(*rows)]
    expected = [word for word in every if word_count(word) == 1 and " " not in word]
    for most in (1, 7, 10_000):
        assert Pieces(tokens).in_order(rows, most) == expected[:most]


@pytest.mark.parametrize("sizes", [(1,), (4,), (3, 4), (3, 1, 4), (2, 3, 2, 3)])
def test_likeliest_is_the_sorted_product(sizes: tuple[int, ...]) -> None:
    draw = random.Random(len(sizes))
    losses = [sorted(draw.random() * 5 for _ in range(size)) for size in sizes]
    found = list(likeliest(losses))
    every = list(itertools.product(*(range(size) for size in sizes)))
    assert sorted(found) == every, "each combination once"
    sums = [sum(row[rank] for row, rank in zip(losses, ranks, strict=True)) for ranks in found]
    assert sums == pytest.approx(sorted(sums))


def test_likeliest_words_are_the_best_of_the_product() -> None:
    draw = random.Random(0)
    tokens = PIECES[:12]
    rows = [draw.sample(range(12), 6) for _ in range(3)]
    losses = [sorted(draw.random() for _ in range(6)) for _ in range(3)]
    ranked = sorted(
        (sum(losses[row][rank] for row, rank in enumerate(ranks)), as_written([tokens[rows[row][rank]]
         for row, rank in enumerate(ranks)])) for ranks in itertools.product(range(6), repeat=3))
    expected = [word for _, word in ranked if word_count(word) == 1]
    assert Pieces(tokens).likeliest(rows, losses, 20) == expected[:20]


@pytest.mark.parametrize("best", [False, True])
def test_many_pieces_without_a_sensible_word_end_soon(best: bool) -> None:
    tokens = [*"abcdefghijklmnopqrstuvwxyz", *".!?,;:()"]
    letters, marks = list(range(8)), list(range(26, 34))
    rows = [*[letters] * 9, marks, letters]
    began = time.process_time()
    if best:
        assert Pieces(tokens).likeliest(rows, [[0.1 * rank for rank in range(8)]] * 11, 8) == []
    else:
        assert Pieces(tokens).in_order(rows, 8) == []
    assert time.process_time() - began < 5


@pytest.mark.parametrize(("tokens", "expected"), [
    (PIECES, ("", "##")), (BYTES, ("\u0120", "")), (SENTENCE_PIECES, ("\u2581", "")), (["a", "b"], ("", "##"))])
def test_how_vocabularies_mark_words(tokens: list[str], expected: tuple[str, str]) -> None:
    assert piece_marks(tokens) == expected


def test_single_pieces_that_are_words() -> None:
    assert Pieces(PIECES).whole_words(range(1, 12), first=False) == ["good", "un", "x", "bad"]
    assert Pieces(BYTES).whole_words(range(len(BYTES)), first=False) == ["un", "bad"]
    assert set(Pieces(BYTES).whole_words(range(len(BYTES)), first=True)) >= {"good", "un", "bad", "x"}


class Vocabulary:
    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = list(tokens)

    def __len__(self) -> int:
        return len(self.tokens)

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        return [self.tokens[token] for token in ids]


def test_a_language_models_words_for_each_kind_of_word() -> None:
    # "Good gooly x": one piece, two pieces, and a word behind the cut
    filled = Filled([0, 0, 5, 8, 0], [0, 4, 8, 10, 0], np.array([[0, 1], [8, 2], [1, 4], [2, 3], [0, 0]]),
                    np.array([[0.1, 0.2]] * 3 + [[0.1, 0.9]] + [[0, 0]], dtype=np.float32))
    problem, _ = begun("Good gooly x", lambda texts: [[0.9, 0.1]] * len(texts))
    oracles = {"language model": lambda texts: [filled] * len(texts)}
    plain = LanguageModelWords(Vocabulary(PIECES), most=2)  # type: ignore[arg-type]
    assert driven(plain(problem, problem.original, [0, 1, 2]), oracles) == [(0, "bad"), (1, "goodly"), (1, "goods")]
    best = LanguageModelWords(Vocabulary(PIECES), most=2, best=True)  # type: ignore[arg-type]
    assert driven(best(problem, problem.original, [1]), oracles) == [(1, "goodly"), (1, "unly")]
    kept = LanguageModelWords(Vocabulary(PIECES), most=2, refused=frozenset({"bad"}), keep_case=True)  # type: ignore[arg-type]
    assert driven(kept(problem, problem.original, [0]), oracles) == []
    cased = LanguageModelWords(Vocabulary(PIECES), most=2, keep_case=True)  # type: ignore[arg-type]
    assert driven(cased(problem, problem.original, [0]), oracles) == [(0, "Bad")]


def test_the_language_models_oracle_against_one_text_at_a_time(tiny: Callable[[str], Path]) -> None:
    model = tiny_language_model(tiny("bert"))
    texts = ["the movie was unable", "x", "", "good \ud800 movie", "the " * 90, "\u4f60\u597d !"]
    oracle = LanguageModelOracle(model, most=5)
    together = oracle.answers(texts)
    for text, found in zip(texts, together, strict=True):
        clean = text.replace("\ud800", "\ufffd")
        given = model.tokenizer(clean, truncation=True, max_length=64, return_tensors="pt", return_offsets_mapping=True)
        offsets = given.pop("offset_mapping")[0].tolist()
        with torch.no_grad():
            losses = -model.model(**given).logits[0].log_softmax(dim=-1)
        best = losses.sort(dim=-1)
        assert [list(pair) for pair in zip(found.starts, found.ends, strict=True)] == offsets
        assert found.losses == pytest.approx(best.values[:, :5].numpy(), abs=1e-4)
        assert (found.ids == best.indices[:, :5].numpy()).mean() > 0.99


def test_more_candidates_than_the_vocabulary_has(tiny: Callable[[str], Path]) -> None:
    model = tiny_language_model(tiny("bert"))
    found = LanguageModelOracle(model, most=10_000).answers(["the movie"])[0]
    assert found.ids.shape == (4, len(model.tokenizer))


def test_words_after_a_space_that_belongs_to_their_token() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = [("<unk>", -9.0), ("\u2581good", -1.0), ("\u2581movie", -1.0), ("\u2581", -3.0)]
    backend = Tokenizer(models.Unigram(vocabulary, unk_id=0))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    offsets = backend.encode("good movie").offsets
    filled = Filled([start for start, _ in offsets], [end for _, end in offsets], np.array([[2], [1]]),
                    np.zeros((2, 1), dtype=np.float32))
    problem, _ = begun("good movie", lambda texts: [[0.9, 0.1]] * len(texts))
    found = driven(LanguageModelWords(Vocabulary([token for token, _ in vocabulary]), most=1)(  # type: ignore[arg-type]
        problem, problem.original, [0, 1]), {"language model": lambda texts: [filled]})
    assert found == [(0, "movie"), (1, "good")]


# Which words


def test_which_places_may_be_edited() -> None:
    current = Words("The plot of the plot").replaced(1, "scene")
    assert unchanged(current) == {0, 2, 3, 4}
    assert except_words(frozenset({"the", "of"}))(current) == {0, 1, 4}  # case counts
    assert set(second_text(Words(("a b", "c d")))) == {2, 3} and set(second_text(Words("a b"))) == {0, 1}
    rate = up_to_rate(0.4)
    assert list(rate(current)) == [0, 1, 2, 3, 4] and list(rate(current.replaced(0, "A"))) == []
    assert list(up_to_rate(0.1, least=4)(current.replaced(0, "A"))) == [0, 1, 2, 3, 4]
    assert list(up_to_rate(0.0)(Words("a b"))) == [0, 1] and list(up_to_rate(0.0)(Words("a b").replaced(0, "x"))) == []


def test_stop_words_by_their_lists() -> None:
    sizes = {"nltk": 179, "textfooler": 266, "fgpm": 21, "none": 0}
    assert {name: len(stop_words(name)) for name in sizes} == sizes  # type: ignore[arg-type]
    assert len(stop_words("nltk") - stop_words("textfooler")) >= 22
    for word in ("be", "because", "did", "few", "had", "ma", "own", "should", "so", "some", "very", "will"):
        assert word in stop_words("nltk") and word not in stop_words("textfooler")


def test_moves_are_sorted_deduplicated_and_differ() -> None:
    problem, oracles = begun("a b", lambda texts: [[0.9, 0.1]] * len(texts))
    table = {"a": ["z", "a", "c", "c"], "b": ["y"]}
    one = driven(moves_of(Swaps(table)).candidates(problem, problem.original), oracles)
    assert [words.text for words in one] == ["a y", "c b", "c b", "z b"], "one transformation's repetitions are kept"
    problem, oracles = begun("a b", lambda texts: [[0.9, 0.1]] * len(texts))
    two = driven(moves_of(Swaps(table), Swaps({"b": ["y", "x"]})).candidates(problem, problem.original), oracles)
    assert [words.text for words in two] == ["a x", "a y", "c b", "z b"]
    problem, oracles = begun("a b", lambda texts: [[0.9, 0.1]] * len(texts))
    some = driven(moves_of(Swaps(table)).candidates(problem, problem.original, [1, 7]), oracles)
    assert [words.text for words in some] == ["a y"]
    assert driven(moves_of(Swaps(table), editable=[lambda words: ()]).candidates(
        problem, Words("a b"), None), oracles) == []


# Constraints


def kept(constraint: Any, original: str, candidates: Sequence[Words], current: Words | None = None) -> list[str]:
    problem, oracles = begun(original, lambda texts: [[0.9, 0.1]] * len(texts))
    found = driven(constraint(problem, list(candidates), current or problem.original), oracles)
    return [words.text for words in found]


def test_few_words() -> None:
    original = Words("a b c d e")
    one, two = original.replaced(0, "x"), original.replaced(0, "x").replaced(1, "y")
    longer = original.replaced(3, "x y")
    assert kept(FewWords(most=1), "a b c d e", [one, two, longer]) == [one.text]
    assert kept(FewWords(share=0.2), "a b c d e", [one, two]) == [one.text]
    assert kept(FewWords(share=0.21), "a b c d e", [one, two]) == [one.text, two.text]  # rounded up
    assert kept(FewWords(most=1, share=0.9), "a b c d e", [two]) == []
    assert kept(FewWords(share=0.0), "a b c d e", [one]) == []


@given(st.text("ab c", max_size=12), st.text("ab c", max_size=12), st.integers(0, 6))
@settings(max_examples=100, deadline=None)
def test_few_letters_against_the_textbook(one: str, other: str, most: int) -> None:
    distance = list(range(len(other) + 1))
    for row, letter in enumerate(one, start=1):
        before, distance = distance, [row]
        for column, opposite in enumerate(other, start=1):
            distance.append(min(before[column] + 1, distance[-1] + 1, before[column - 1] + (letter != opposite)))
    assert FewLetters(most).allows(Words(other), Words(one)) == (distance[-1] <= most)


def test_near_words() -> None:
    table = Synonyms({"good": {"fine": 0.6, "bad": 0.3}})
    original = Words("Good movie")
    found = kept(NearWords(table, 0.5), "Good movie", [original.replaced(0, new) for new in (
        "Fine", "BAD", "gooood", "fine movie")])
    assert found == ["Fine movie", "gooood movie", "fine movie movie"]  # what has no vector passes
    assert kept(NearWords(table, 0.61), "Good movie", [original.replaced(0, "fine")]) == []
    assert kept(NearWords(table, 0.5), "Good movie", [original.replaced(1, "a b c")]) == []  # longer than the original


def test_same_part_reads_the_originals_window() -> None:
    heard: list[tuple[str, ...]] = []

    class Listening(Tagger):
        def __call__(self, words: Sequence[str]) -> list[str]:
            heard.append(tuple(words))
            return super().__call__(words)

    text = "a b c d e f g h i j"
    tagger = Listening({"run": "VERB", "fast": "ADV"})
    current = Words(text).replaced(4, "changed")
    candidates = [current.replaced(5, new) for new in ("noun", "run", "fast")]
    assert kept(SamePart(tagger), text, candidates, current) == [candidates[0].text, candidates[1].text]
    assert set(heard) == {("b", "c", "d", "e", word, "g", "h", "i") for word in ("f", "noun", "run", "fast")}
    assert kept(SamePart(tagger, verb_is_noun=False), text, candidates, current) == [candidates[0].text]
    heard.clear()
    kept(SamePart(tagger), "a b", [Words("a b").replaced(0, "x")])
    assert set(heard) == {("a", "b"), ("x", "b")}


def test_same_part_takes_the_first_of_two_equal_words() -> None:
    class ByPlace:
        def __call__(self, words: Sequence[str]) -> list[str]:
            return ["ADV" if place == 0 else "NOUN" for place, _ in enumerate(words)]

    original = Words("x b c x")
    # The second "x" is read at the first one's place, as in TextAttack: an adverb, so "y" (a noun) is refused.
    assert kept(SamePart(ByPlace()), "x b c x", [original.replaced(3, "y")]) == []
    assert kept(SamePart(ByPlace()), "x b c x", [original.replaced(1, "y")]) == ["x y c x"]


def test_similarity_in_both_ways() -> None:
    one, other = np.array([1.0, 0.0]), np.array([1.0, 1.0])
    assert float(cosine(one, other)) == pytest.approx(math.sqrt(0.5))
    assert float(angular(one, other)) == pytest.approx(0.75)
    assert float(angular(one, -one)) == 0 and float(angular(one, one * 3)) == 1
    tilted = np.array([0.1, 0.7, 0.3]) / np.linalg.norm([0.1, 0.7, 0.3])
    assert float(angular(tilted, tilted)) <= 1
    assert math.isfinite(float(angular(np.zeros(2), one)))


@pytest.mark.parametrize("metric", ["cosine", "angular"])
@pytest.mark.parametrize("reference", ["original", "current"])
@pytest.mark.parametrize("window", [None, 3])
def test_same_meaning_against_plain_arithmetic(metric: str, reference: str, window: int | None) -> None:
    text = "a b c d e f g"
    current = Words(text).replaced(6, "q")
    candidates = [current.replaced(place, new) for place in range(6) for new in ("x", "y z")]
    encode = SentenceVectors().encode

    def between(words: Words) -> float:
        base = Words(text) if reference == "original" else current
        place = words.newest.start
        vectors = encode([base.window(place, window or math.inf), words.window(place, window or math.inf)])
        cosine = min(1.0, float(vectors[0] @ vectors[1]))
        return cosine if metric == "cosine" else 1 - math.acos(cosine) / math.pi

    for least in (0.5, 0.8, 0.9):
        constraint = SameMeaning(least, metric=metric, window=window, reference=reference)  # type: ignore[arg-type]
        expected = [words.text for words in candidates if between(words) >= least]
        assert kept(constraint, text, candidates, current) == expected
    assert candidates[0].similarity == pytest.approx(between(candidates[0]))


def test_short_texts_are_not_compared_where_the_recipe_says_so() -> None:
    class Refusing:
        name = "none"

        def encode(self, texts: Sequence[str]) -> np.ndarray:
            raise AssertionError("nothing to compare")

    words = Words("a b c").replaced(0, "x")
    problem, oracles = begun("a b c", lambda texts: [[0.9, 0.1]] * len(texts))
    oracles["sentences"] = SentenceOracle(Refusing()).answers
    assert driven(SameMeaning(0.9, window=4, skip_short=True)(problem, [words], problem.original), oracles) == [words]
    assert words.similarity == 1.0
    with pytest.raises(AssertionError, match="compare"):
        driven(SameMeaning(0.9, window=3, skip_short=True)(problem, [words], problem.original), oracles)


# Rankings

TEXT = "the good movie had a very fine plot, and a dull actor."


def wide(texts: Sequence[Text]) -> list[list[float]]:
    """Three classes by hash, never near each other."""
    found = []
    for text in texts:
        odds = [1 + sum(hashed(f"{label} {word}") % 1000 for word in str(text).split()) for label in range(3)]
        found.append([odd / sum(odds) for odd in odds])
    return found


def brute(texts: Sequence[str], label: int) -> list[float]:
    return [1 - row[label] for row in wide(texts)]


def falling(places: Sequence[int], scores: Sequence[float]) -> list[int]:
    return [place for _, place in sorted(zip([-score for score in scores], places, strict=True))]


@pytest.mark.parametrize("tolerance", [0.0, 1e-9])
def test_words_by_what_is_lost_without_them(tolerance: float) -> None:
    problem, oracles = begun(TEXT, wide, 1, tolerance=tolerance)
    allowed = [place for place, word in enumerate(problem.original.words) if word not in stop_words("nltk")]
    moves = Moves([], [], [except_words(stop_words("nltk"))])
    text = problem.original
    unknown = brute([text.replaced(place, "[UNK]").text for place in allowed], 1)
    assert driven(by_unknown(problem, moves), oracles) == falling(allowed, unknown)
    gone = [text.deleted(place).text for place in allowed]
    assert driven(by_deletion(problem, moves), oracles) == falling(allowed, brute(gone, 1))
    first = wide([TEXT])[0]
    more = [1 - row[1] + (row[top] - first[top] if top != 1 else 0) for row in wide(gone)
            for top in [row.index(max(row))]]
    assert driven(by_deletion(problem, moves, new_label=True), oracles) == falling(allowed, more)
    assert problem.best.words is text, "probes are no answers"


def test_a_label_that_takes_over_counts_by_what_it_gains() -> None:
    rows = {"a b c": [0.4, 0.35, 0.25], "b c": [0.3, 0.5, 0.2], "a c": [0.31, 0.27, 0.42], "a b ": [0.36, 0.35, 0.29]}
    problem, oracles = begun("a b c", lambda texts: [rows[str(text)] for text in texts], tolerance=0.0)
    moves = Moves([], [], [])
    assert driven(by_deletion(problem, moves), oracles) == [0, 1, 2]  # 0.70, 0.69, 0.64
    assert driven(by_deletion(problem, moves, new_label=True), oracles) == [1, 0, 2]  # 0.86, 0.85, 0.64


def test_words_by_prefixes_and_tails() -> None:
    problem, oracles = begun(TEXT, wide, 1, tolerance=0.0)
    words = problem.original

    def sure(text: str) -> float:
        return wide([text])[0][1]

    scores = []
    for place, (start, end) in enumerate(words.spans):
        before = TEXT[:words.spans[place - 1][1]] if place else ""
        after = TEXT[words.spans[place + 1][0]:] if place + 1 < len(words) else ""
        scores.append(sure(TEXT[:end]) - sure(before) + 0.5 * (sure(TEXT[start:]) - sure(after)))
    found = driven(by_prefixes(problem, Moves([], [], []), tail_weight=0.5), oracles)
    assert found == falling(range(len(words)), scores)
    assert problem.queries == 1 + 2 * len(words) + 1


@pytest.mark.parametrize("drop", [True, False])
def test_words_by_saliency_times_gain(drop: bool) -> None:
    table = {"good": ["nice", "grand"], "movie": ["film"], "dull": ["slow", "flat", "grey"], "plot": ["plan"]}
    problem, oracles = begun(TEXT, wide, 1, tolerance=0.0)
    text, moves = problem.original, moves_of(Swaps(table))
    saliency = np.array(brute([text.replaced(place, "[UNK]").text for place in range(len(text))], 1))
    shares = np.exp(saliency) / np.exp(saliency).sum()
    start = 1 - wide([TEXT])[0][1]
    gains = [max(brute([text.replaced(place, new).text for new in table[word]], 1)) - (start if drop else 0)
             if word in table else 0.0 for place, word in enumerate(text.words)]
    found = driven(by_saliency(problem, moves, drop=drop), oracles)
    scores = shares * gains
    assert sorted(found) == list(range(len(text)))
    assert [scores[place] for place in found] == pytest.approx(sorted(scores, reverse=True), abs=1e-6)


def test_sentences_first_then_their_words() -> None:
    text = "A dull plot! The good actor saves it. Fine? ...it ends"
    problem, oracles = begun(text, wide, 1, tolerance=0.0)
    found = driven(by_sentences(problem, Moves([], [], [])), oracles)
    assert sorted(found) == list(range(len(problem.original)))
    sentences = ["A dull plot!", "The good actor saves it.", "Fine?", "it ends"]
    places = [range(3), range(3, 8), range(8, 9), range(9, 11)]
    sure = [row[1] for row in wide(sentences)]
    expected: list[int] = []
    for rank in sorted(range(4), key=lambda rank: -sure[rank]):
        expected += falling(places[rank], brute([problem.original.deleted(place).text for place in places[rank]], 1))
    assert found == expected


def test_by_chance_depends_on_the_stream_alone() -> None:
    orders = []
    for seed in (1, 1, 2):
        problem = Problem(Words(TEXT), 0, streams=Streams(seed), terms=Terms())
        orders.append(driven(by_chance(problem, Moves([], [], [])), {}))
    assert orders[0] == orders[1] != orders[2] and sorted(orders[0]) == list(range(len(Words(TEXT))))


RANKINGS: dict[str, Any] = {
    "unk": by_unknown, "delete": by_deletion, "new label": partial(by_deletion, new_label=True),
    "saliency": by_saliency, "drop": partial(by_saliency, drop=True), "prefixes": by_prefixes,
    "sentences": by_sentences}


@pytest.mark.parametrize("ranking", RANKINGS.values(), ids=RANKINGS)
@pytest.mark.parametrize("text", ["", "...", "one", TEXT, ("a pair", "of texts"), ("", "")])
def test_every_ranking_keeps_to_every_budget(ranking: Any, text: Text) -> None:
    for budget in [*range(1, 12), 30]:
        problem, oracles = begun(text, lambda texts: [[0.8, 0.2]] * len(texts), queries=budget)
        found = driven(ranking(problem, moves_of(Swaps({"plot": ["plan", "film"]}))), oracles)
        assert problem.queries <= budget
        assert len(set(found)) == len(found) and set(found) <= set(range(len(problem.original)))
        if budget == 30:
            assert len(found) == len(problem.original)


# Searches


def test_greedy_takes_the_best_word_by_word() -> None:
    table = {"a": ["a1", "a2"], "b": ["b1", "b2"], "c": ["c1"]}
    victim = additive({"a2": 0.2, "a1": 0.1, "b1": 0.15, "c1": 0.3, "b2": -0.5})
    problem, oracles = begun("a b c", victim)
    found: Answer = driven(greedy(problem, moves_of(Swaps(table)), by_unknown), oracles)
    assert found.fooled and found.words.text in ("a2 b c1", "a2 b1 c1")
    problem, oracles = begun("a b", victim)
    found = driven(greedy(problem, moves_of(Swaps(table)), by_unknown), oracles)
    assert not found.fooled and found.words.text == "a2 b1"


def test_greedy_keeps_nothing_that_is_not_better() -> None:
    problem, oracles = begun("a b", additive({"a1": 0.0, "b1": -0.05}))
    found = driven(greedy(problem, moves_of(Swaps({"a": ["a1"], "b": ["b1"]})), by_unknown), oracles)
    assert found.words is problem.original and problem.queries == 1 + 2 + 2


def test_any_success_ends_the_search_where_it_is_wanted() -> None:
    def victim(texts: Sequence[Text]) -> list[list[float]]:
        table = {"x y": [0.5, 0.3, 0.2], "x1 y": [0.36, 0.32, 0.32], "x2 y": [0.4, 0.6, 0.0], "x3 y": [0.45, 0.55, 0.0]}
        return [table.get(str(text), [0.9, 0.1, 0.0]) for text in texts]

    swaps = moves_of(Swaps({"x": ["x1", "x2", "x3"]}))
    problem, oracles = begun("x y", victim)
    assert not driven(greedy(problem, swaps, by_unknown), oracles).fooled  # x1 scores best and fools nobody
    problem, oracles = begun("x y", victim, any_success=True)
    assert driven(greedy(problem, swaps, by_unknown), oracles).words.text == "x2 y"
    problem, oracles = begun("x y", victim, any_success=True)
    assert driven(beam(problem, swaps, width=1), oracles).words.text == "x2 y"


def test_replacements_chosen_beforehand_are_put_in_one_by_one() -> None:
    """PWWS as published: nothing is asked again, and the order is that of saliency times gain."""
    table = {"a": ["a1", "a2"], "b": ["b1", "b2"], "c": ["c1"]}
    victim = additive({"a2": 0.2, "a1": 0.1, "b1": 0.15, "c1": 0.3, "b2": -0.5})
    problem, oracles = begun("a b c", victim, tolerance=0.0)
    problem.log = []
    found = driven(in_turn(problem, moves_of(Swaps(table)), drop=True), oracles)
    assert problem.log[-2:] == ["a b c1", "a2 b c1"] and found.words.text == "a2 b c1" and found.fooled
    assert len(problem.log) == 3 + 5 + 2  # [UNK] for each word, each replacement once, and one for each step


@pytest.mark.parametrize("text", ["a b", "a b zzz"])
def test_what_is_put_in_does_not_depend_on_words_that_have_no_replacement(text: str) -> None:
    problem, oracles = begun(text, additive({"a1": 0.1, "b1": -0.05}), tolerance=0.0)
    found = driven(in_turn(problem, moves_of(Swaps({"a": ["a1"], "b": ["b1"]})), drop=True), oracles)
    assert found.words.words[:2] == ["a1", "b1"]


def test_of_several_successes_the_most_similar_wins() -> None:
    answers = []
    for score, fooled, alike in (
            (0.9, True, 0.5), (0.8, True, 0.7), (0.7, True, 0.7), (0.6, False, 0.9), (0.5, True, 0.99)):
        words = Words(f"{score}")
        words.similarity = alike
        answers.append(Answer(words, score, fooled))
    assert most_similar(answers) is answers[1]  # the first of equals, up to the first failure
    answers[0].words.similarity = None
    assert most_similar(answers) is answers[0]


@pytest.mark.parametrize(("follow", "expected"), [(True, "a1 x b c1 d"), (False, "a1 x b c d1")])
def test_places_follow_their_words_or_drift(follow: bool, expected: str) -> None:
    """After "a" became two words, "d" stands where no word of the original stood."""
    table = {"a": ["a1 x"], "c": ["c1"], "d": ["d1"]}

    def ranking(problem: Problem, moves: Moves) -> Steps[list[int]]:
        return [0, 2] if follow else [0, 4]
        yield

    problem, oracles = begun("a b c d", additive({"a1": 0.05, "c1": 0.05, "d1": 0.05}), follow_words=follow)
    assert driven(greedy(problem, moves_of(Swaps(table)), ranking), oracles).words.text == expected


def test_a_beam_finds_what_greedy_misses() -> None:
    weights = {"a1": 0.2, "a2": 0.1}

    def victim(texts: Sequence[Text]) -> list[list[float]]:
        """a2 alone is worse than a1, but only with it b1 helps."""
        rows = additive(weights)(texts)
        return [[0.1, 0.9] if str(text) == "a2 b1" else row for text, row in zip(texts, rows, strict=True)]

    table = {"a": ["a1", "a2"], "b": ["b1"]}
    for width, fooled in ((1, False), (2, True), (10, True)):
        problem, oracles = begun("a b", victim)
        found = driven(beam(problem, moves_of(Swaps(table)), width=width), oracles)
        assert found.fooled is fooled
    assert found.words.text == "a2 b1"
    problem, oracles = begun("a b", victim, queries=3)
    assert not driven(beam(problem, moves_of(Swaps(table)), width=10), oracles).fooled and problem.queries == 3


def test_two_edits_in_either_order_are_one_text_of_a_beam() -> None:
    """Else its places fill with copies of one text; what only many edits together reach is not found then."""
    table = {"a": ["a1"], "b": ["b1"], "c": ["c1"], "d": ["d1"]}
    problem, oracles = begun("a b c d", additive({f"{letter}1": 0.05 for letter in "abcd"}))
    problem.log = []
    driven(beam(problem, moves_of(Swaps(table)), width=6), oracles)
    assert len(problem.log) == len(set(problem.log)) == 4 + 6 + 4 + 1


def test_what_looks_like_a_success_is_put_to_the_judge_and_the_search_goes_on() -> None:
    """The mean of draws is wrong from "x1" on, the classifier's own answer from "x2" on."""
    problem, oracles = begun("x y", additive({}), judge="victim")
    problem.terms = replace(problem.terms, judge="own")
    oracles |= {"victim": lambda texts: additive({"x1": 0.6, "y1": 0.6})(texts),
                "own": lambda texts: [(0.1, 0.9) if "y1" in text else (0.9, 0.1) for text in texts]}
    found = driven(greedy(problem, moves_of(Swaps({"x": ["x1"], "y": ["y1"]})), by_unknown), oracles)
    assert found.fooled and found.words.text == "x1 y1"


def test_the_first_look_is_had_whatever_the_budget() -> None:
    problem, _ = begun("x", additive({}), queries=3, cost=10)
    assert problem.first == (0.9, pytest.approx(0.1)) and problem.queries == 10 and problem.spent


def test_very_sure_victims_have_a_slope() -> None:
    problem, _ = begun("x", additive({}))
    rows = [(1 - 10.0**-digits, 10.0**-digits) for digits in (30, 20)]
    assert problem.score(rows[0]) < problem.score(rows[1]) - 20


def test_a_beam_ends_when_nothing_is_left_to_change() -> None:
    problem, oracles = begun("a b c", lambda texts: [[0.9, 0.1]] * len(texts))
    found = driven(beam(problem, moves_of(Swaps({"a": ["x"], "b": ["y"], "c": ["z"]})), width=3), oracles)
    assert not found.fooled and found.words.text == "x y z"


def test_evolution_finds_the_one_way_out() -> None:
    letters = "abcdefgh"
    table = {letter: [f"{letter}1", f"{letter}2"] for letter in letters}
    victim = additive({f"{letter}1": 0.06 for letter in letters}, start=0.9)  # seven of eight are needed
    problem, oracles = begun(" ".join(letters), victim)
    found = driven(genetic(problem, moves_of(Swaps(table)), population=12, generations=12), oracles)
    assert found.fooled and sum(f"{letter}1" in found.words.text for letter in letters) >= 7
    assert all(word[0] == letter for word, letter in zip(found.words.words, letters, strict=True))


def logged(weights: Mapping[str, float], *, far: float) -> Callable[[Sequence[Text]], list[LoggedRow]]:
    """A victim that is all but certain: the logarithm of the odds against its label is -far, more for some words."""
    def answers(texts: Sequence[Text]) -> list[LoggedRow]:
        return [LoggedRow.of([0.0, sum(weights.get(word, 0.0) for word in str(text).split()) - far]) for text in texts]

    return answers


@pytest.mark.parametrize("ranking", [by_unknown, by_deletion, by_sentences, by_prefixes, by_saliency])
def test_every_ranking_sees_what_a_victim_with_logarithms_tells(ranking: Ranking) -> None:
    """Its probabilities are 0 and 1 whatever it is shown."""
    victim = logged({"c": -9.0, "c1": -1.0}, far=100.0)
    problem, oracles = begun("a b c d", lambda texts: [[1.0, 0.0]] * len(texts))
    moves = moves_of(Swaps({letter: [f"{letter}1"] for letter in "abcd"}))
    assert driven(ranking(problem, moves), oracles)[0] == 0  # a tie
    problem = Problem(Words("a b c d"), 0, streams=Streams(0), terms=Terms())
    driven(problem.begin(), {"victim": victim})
    assert driven(ranking(problem, moves), {"victim": victim})[0] == 2


@pytest.mark.parametrize("far", [100.0, 3000.0])
def test_evolution_goes_on_where_no_odds_are_a_number(far: float) -> None:
    letters, victim = "abcdef", logged({f"{letter}1": 400.0 for letter in "abcdef"}, far=far)
    problem = Problem(Words(" ".join(letters)), 0, streams=Streams(0), terms=Terms())
    driven(problem.begin(), {"victim": victim})
    moves = moves_of(Swaps({letter: [f"{letter}1"] for letter in letters}))
    found = driven(genetic(problem, moves, population=6, generations=4), {"victim": victim})
    assert found.fooled == (far == 100.0) and found.score > 300 - far


@pytest.mark.parametrize("budget", [1, 2, 5, 13, 40])
def test_evolution_keeps_its_budget_and_never_invents_an_answer(budget: int) -> None:
    letters = "abcdef"
    asked: list[str] = []

    def victim(texts: Sequence[Text]) -> list[list[float]]:
        asked.extend(map(str, texts))
        return additive({f"{letter}1": 0.02 for letter in letters})(texts)

    for generations in (1, 3):
        problem, oracles = begun(" ".join(letters), victim, queries=budget, tolerance=0.0)
        moves = moves_of(Swaps({letter: [f"{letter}1"] for letter in letters}), constraints=[FewWords(most=2)])
        found = driven(genetic(problem, moves, population=6, generations=generations), oracles)
        assert problem.queries <= budget and found.words.text in asked
        assert found.score == pytest.approx(1 - victim([found.words.text])[0][0])
        assert found.words.differing(problem.original) <= 2


@pytest.mark.parametrize("text", ["", "...", "the of"])
def test_searches_end_where_there_is_nothing_to_do(text: str) -> None:
    for search in (lambda p, m: greedy(p, m, by_deletion), lambda p, m: beam(p, m, width=3), genetic):
        problem, oracles = begun(text, lambda texts: [[0.9, 0.1]] * len(texts))
        assert driven(search(problem, moves_of(Swaps({"a": ["b"]}))), oracles).words is problem.original


# Gradients


@pytest.fixture(scope="module", params=["plain", "ddm"])
def exact(request: pytest.FixtureRequest, tiny: Callable[[str], Path], data: Dataset) -> DefendedClassifier:
    """A classifier in double precision, so that finite differences tell something."""
    classifier = tiny_classifier(tiny("bert"), request.param, data, max_length=16)
    classifier.network.double()
    return classifier


GRADIENT_TEXTS: list[Text] = [
    "the movie was superb", "unable movies, rarely !", "x", "", "good " * 30,
    "the dull plot and the awful actor with a very poor scene", "Good \U0001f600 \u4f60\u597d \ud800 movie"]


def odds_of(classifier: DefendedClassifier, text: Text, label: int, embeddings: torch.Tensor) -> float:
    view = classifier.first_view([text])
    with torch.no_grad():
        logits = classifier.network(view, embeddings)[0]
        return float(logits[[other for other in range(len(logits)) if other != label]].logsumexp(0) - logits[label])


@pytest.mark.parametrize("number", range(len(GRADIENT_TEXTS)))
def test_gradients_are_what_finite_differences_say(exact: DefendedClassifier, number: int) -> None:
    text, label = GRADIENT_TEXTS[number], number % 2
    exact.network.eval()
    found = GradientOracle(exact).answers([(text, label), ("a rare scene, and more of it", 0)])[0]
    view = exact.first_view([text])
    table = exact.model.get_input_embeddings().weight
    start = table[view.input_ids].detach().double()
    body = view.body[0].nonzero().flatten().tolist()
    assert len(body) == len(found.vectors) == len(found.starts) == len(found.ids)
    draw = random.Random(number)
    for row, column in enumerate(body):
        masked = bool(view.masks[0, column])
        if masked:
            assert not found.vectors[row].any(), "what is hidden can change nothing"
            continue
        for size in draw.sample(range(start.shape[2]), 2):
            up, down = start.clone(), start.clone()
            up[0, column, size] += 1e-5
            down[0, column, size] -= 1e-5
            slope = (odds_of(exact, text, label, up) - odds_of(exact, text, label, down)) / 2e-5
            assert found.vectors[row, size] == pytest.approx(slope, rel=1e-3, abs=1e-6)
    whole = str(text)
    for start_at, end_at, token in zip(found.starts, found.ends, found.ids, strict=True):
        piece = str(exact.encode.tokenizer.convert_ids_to_tokens(token)).removeprefix("##")
        assert piece in (whole[start_at:end_at].lower(), "[UNK]")


def test_the_defence_hides_words_from_the_gradient(tiny: Callable[[str], Path], data: Dataset) -> None:
    classifier = tiny_classifier(tiny("bert"), "ddm", data)
    text = "the movie was rare and the plot was a zyx scene with unable actor ."
    masked = (classifier.predict([text], explain=True).masked or [[]])[0]
    assert masked, "nothing was masked, so nothing is tested"
    found = GradientOracle(classifier).answers([(text, 0)])[0]
    hidden = {start for start, vector in zip(found.starts, found.vectors, strict=True) if not vector.any()}
    assert hidden == {one.start for one in masked}


def test_gradients_do_not_depend_on_the_batch(tiny: Callable[[str], Path], data: Dataset) -> None:
    oracle = GradientOracle(tiny_classifier(tiny("bert"), "ddm", data))
    items = [(text, number % 2) for number, text in enumerate(GRADIENT_TEXTS)]
    for item, together in zip(items, oracle.answers(items), strict=True):
        alone = oracle.answers([item])[0]
        assert alone.vectors == pytest.approx(together.vectors, rel=1e-3, abs=1e-4) and alone.starts == together.starts


def test_pairs_have_their_gradients_at_their_words(exact: DefendedClassifier) -> None:
    pair = ("the movie", "was superb")
    found = GradientOracle(exact).answers([(pair, 0)])[0]
    words = Words(pair)
    assert found.starts == [start for start, _ in words.spans] and found.ends == [end for _, end in words.spans]
    assert [vector.shape for vector in found.word_vectors(words)] == [(16,)] * 4


def test_a_words_vector_is_the_mean_of_its_pieces(tiny: Callable[[str], Path], data: Dataset) -> None:
    classifier = tiny_classifier(tiny("bert"), "plain", data, max_length=8)
    text = "unable movies are here and cut off behind"
    found = GradientOracle(classifier).answers([(text, 1)])[0]
    vectors = found.word_vectors(Words(text))
    assert vectors[0] == pytest.approx(found.vectors[:2].mean(axis=0)) and found.vectors[:2].any()
    assert vectors[1] == pytest.approx(found.vectors[2:4].mean(axis=0))
    assert not vectors[-1].any() and len(found.vectors) == 6
    table = word_table(classifier).numpy()
    ids = classifier.encode.tokenizer.convert_tokens_to_ids(["un", "##able"])
    embedded = EmbeddingOracle(classifier).answers(["unable", "good", "", "\ud800"])
    assert embedded[0] == pytest.approx(table[ids].mean(axis=0)) and not embedded[2].any()


def test_flips_are_the_best_of_the_whole_vocabulary(tiny: Callable[[str], Path], data: Dataset) -> None:
    classifier = tiny_classifier(tiny("bert"), "plain", data)
    tokenizer = classifier.encode.tokenizer
    table = word_table(classifier).numpy()
    oracle = FlipOracle(classifier, most=4)
    whole = [word for word in WORDS if word.isalpha()]
    assert sorted(str(tokenizer.convert_ids_to_tokens(token)) for token in oracle.choices) == sorted(whole)
    for text, flips in zip(GRADIENT_TEXTS, oracle.answers([(text, 1) for text in GRADIENT_TEXTS]), strict=True):
        gradient = GradientOracle(classifier).answers([(text, 1)])[0]
        for row, token in enumerate(gradient.ids):
            gains = {word: float((table[tokenizer.convert_tokens_to_ids(word)] - table[token]) @ gradient.vectors[row])
                     for word in whole}
            best = sorted(gains, key=lambda word: -gains[word])[:4]
            assert flips.gains[row] == pytest.approx([gains[word] for word in best], rel=1e-3, abs=1e-3)
            assert [gains[word] for word in flips.words[row]] == pytest.approx(flips.gains[row], rel=1e-3, abs=1e-3)


def white_box_oracles(classifier: DefendedClassifier, most: int = 3) -> dict[str, Any]:
    return {"gradients": GradientOracle(classifier).answers, "embeddings": EmbeddingOracle(classifier).answers,
            "flips": FlipOracle(classifier, most=most).answers,
            "victim": lambda texts: [tuple(row) for row in classifier.predict(texts).probabilities.double().tolist()]}


def test_the_gain_of_an_exchange_is_a_product(tiny: Callable[[str], Path], data: Dataset) -> None:
    classifier = tiny_classifier(tiny("bert"), "ddm", data)
    text = "the unable movie was good and dull"
    problem = Problem(Words(text), 0, streams=Streams(0), terms=Terms())
    pool = [(1, "rare"), (2, "unable"), (4, "bad"), (6, "superb"), (6, "dull")]
    read, found = driven(gains_of(problem, problem.original, pool), white_box_oracles(classifier))
    gradient = GradientOracle(classifier).answers([(text, 0)])[0].word_vectors(problem.original)
    words = [*text.split(), "rare", "bad", "superb"]
    embed = dict(zip(words, EmbeddingOracle(classifier).answers(words), strict=True))
    expected = [float((embed[new] - embed[problem.original[place]]) @ gradient[place]) for place, new in pool]
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-4) and found[-1] == 0
    assert read == pool and driven(gains_of(problem, problem.original, []), {}) == ([], [])


def test_words_that_are_cut_off_are_not_exchanged(tiny: Callable[[str], Path], data: Dataset) -> None:
    classifier = tiny_classifier(tiny("bert"), "plain", data, max_length=6)
    problem = Problem(Words("the movie was good and dull"), 0, streams=Streams(0), terms=Terms())
    read, gains = driven(gains_of(problem, problem.original, [(1, "plot"), (5, "rare")]), white_box_oracles(classifier))
    assert read == [(1, "plot")] and len(gains) == 1


def test_words_have_the_tokens_that_they_have_inside_a_text(tiny: Callable[[str], Path], data: Dataset) -> None:
    """Byte-level vocabularies have others for a word that begins a text."""
    for family in ("bert", "roberta"):
        model, tokenizer = load_encoder(tiny(family), data.labels)
        classifier = DefendedClassifier(model, tokenizer, Defence(), labels=data.labels, max_length=40)
        batch = classifier.encode(["the movie"])
        ids = batch.input_ids[0][batch.body[0]]
        word = ids[len(classifier.encode(["the"]).input_ids[0]) - 2:]
        expected = word_table(classifier)[word].mean(dim=0).numpy()
        assert np.allclose(EmbeddingOracle(classifier).answers(["movie"])[0], expected, atol=1e-6), family


def test_neighbour_flips_are_the_most_harmful_neighbours(tiny: Callable[[str], Path], data: Dataset) -> None:
    classifier = tiny_classifier(tiny("bert"), "plain", data)
    problem = Problem(Words("the Good movie was dull"), 0, streams=Streams(0), terms=Terms())
    table = Synonyms(NEAR)
    oracles, rules = white_box_oracles(classifier), [NearWords(table, 0.8)]
    pool = [(place, new.capitalize() if place == 1 else new) for place, word in enumerate(problem.original.words)
            for new, cosine in table.neighbours(word.lower()) if cosine >= 0.8]
    _, gains = driven(gains_of(problem, problem.original, pool), oracles)
    best = [exchange for _, exchange in sorted(zip([-gain for gain in gains], pool, strict=True))]
    found = driven(HarmfulSynonyms(table, rules, most=3)(problem, problem.original, range(5)), oracles)
    assert found == best[:3]
    some = driven(HarmfulSynonyms(table, rules, most=3)(problem, problem.original, [4]), oracles)
    assert some == [exchange for exchange in best if exchange[0] == 4][:3]


def test_vocabulary_flips_are_the_most_harmful_words(tiny: Callable[[str], Path], data: Dataset) -> None:
    classifier = tiny_classifier(tiny("bert"), "plain", data)
    problem = Problem(Words("the unable movie was dull"), 0, streams=Streams(0), terms=Terms())
    oracles = white_box_oracles(classifier, most=6)
    flips = oracles["flips"]([(problem.original.text, 0)])[0]
    every = sorted(((-gain, place, word) for row, place in ((0, 0), (3, 2), (4, 3), (5, 4))  # "unable" has two pieces
                    for gain, word in zip(flips.gains[row], flips.words[row], strict=True)))
    found = driven(VocabularyFlips(6)(problem, problem.original, range(5)), oracles)
    assert found == [(place, word) for _, place, word in every[:6]]
    assert {place for place, _ in driven(VocabularyFlips(6)(problem, problem.original, [2]), oracles)} == {2}


def test_words_by_gradient(tiny: Callable[[str], Path], data: Dataset) -> None:
    classifier = tiny_classifier(tiny("bert"), "plain", data)
    problem = Problem(Words("the unable movie was good"), 0, streams=Streams(0), terms=Terms(tolerance=0.0))
    found = driven(by_gradient(problem, Moves([], [], [])), white_box_oracles(classifier))
    vectors = GradientOracle(classifier).answers([(problem.original.text, 0)])[0].word_vectors(problem.original)
    assert found == falling(range(5), [float(np.abs(vector).sum()) for vector in vectors])
    assert problem.queries == 0


def test_words_by_gradient_stand_in_the_order_of_textbuggers_jacobian(
    tiny: Callable[[str], Path], data: Dataset,
) -> None:
    """The label's probability changes with each word as the odds do, times p (1 - p)."""
    three = replace(data, labels=("bad", "good", "odd"),
                    train=[Example(text, number % 3) for number, (text, _) in enumerate(data.train)])
    classifier = tiny_classifier(tiny("bert"), "plain", three)
    text, label = "the unable movie was good and the plot was dull", 2
    ours = GradientOracle(classifier).answers([(text, label)])[0].vectors
    batch = classifier.encode([text])
    given = classifier.model.get_input_embeddings()(batch.input_ids).detach().requires_grad_()
    with evaluating(classifier.network):
        p = classifier.network(batch, given).softmax(dim=1)[0, label]
    jacobian, = torch.autograd.grad(p, given)
    factor = float(p.detach() * (1 - p.detach()))
    assert np.allclose(-factor * ours, jacobian[batch.body].numpy(), rtol=1e-3, atol=1e-7)


def test_fgpm_takes_the_largest_projection_each_time(tiny: Callable[[str], Path], data: Dataset) -> None:
    classifier = tiny_classifier(tiny("bert"), "ddm", data)
    text = "the good movie was dull and the plot was fine but the actor was poor"
    label = int(classifier.predict([text]).probabilities.argmax())
    options = {"max_share": 0.5, "distance": 2.0, "steps": 4}
    attack = build_attack("fgpm", options=options, tools=stand_ins())
    oracles = white_box_oracles(classifier)
    problem = Problem(Words(text), label, streams=Streams(0), terms=Terms(tolerance=1e-7))
    problem.log = []
    driven(problem.begin(), oracles)
    driven(attack.search(problem), oracles)
    table, current, used = Synonyms(NEAR), Words(text), set[tuple[int, str]]()
    for asked in problem.log[1:]:
        pool = [(place, new) for place, word in enumerate(Words(text).words) if word not in stop_words("fgpm")
                for new, _ in table.neighbours(word, 4) if new != current[place] and (place, new) not in used]
        _, gains = driven(gains_of(problem, current, pool), oracles)
        ranked = [exchange for _, exchange in sorted(zip([-gain for gain in gains], pool, strict=True))]
        best = next(exchange for exchange in ranked
                    if current.replaced(*exchange).differing(Words(text)) <= math.ceil(len(current) * 0.5))
        used.add(best)
        current = current.replaced(*best)
        assert asked == current.text
    assert 1 <= len(problem.log) - 1 <= 4


def test_fgpm_tries_each_synonym_of_a_place_once(tiny: Callable[[str], Path], data: Dataset) -> None:
    one_class = replace(data, labels=("only",), train=[Example(text, 0) for text, _ in data.train])
    classifier = tiny_classifier(tiny("bert"), "plain", one_class)  # never fooled
    attack = build_attack("fgpm", options={"distance": 2.0, "max_share": None}, tools=stand_ins())
    problem = Problem(Words("good"), 0, streams=Streams(0), terms=Terms())
    problem.log = []
    oracles = white_box_oracles(classifier)
    driven(problem.begin(), oracles)
    driven(attack.search(problem), oracles)
    assert sorted(problem.log[1:]) == sorted(word for word, _ in Synonyms(NEAR).neighbours("good", 4))
    assert problem.gradients == 4


def test_fgpm_ends_where_the_best_exchange_would_change_too_many_words(
    tiny: Callable[[str], Path], data: Dataset,
) -> None:
    """As published; or goes on with the words that it has changed already."""
    classifier = tiny_classifier(tiny("bert"), "plain", data)
    with torch.no_grad():
        classifier.model.classifier.bias += torch.tensor([0.0, 1000.0])  # never fooled
    text, logs = "the good movie was dull and the plot was fine but the actor was poor", []
    oracles = white_box_oracles(classifier)
    for over_limit in ("end", "pass"):
        attack = build_attack("fgpm", options={"distance": 2.0, "max_share": 0.15, "over_limit": over_limit},
                              tools=stand_ins())
        problem = Problem(Words(text), 1, streams=Streams(0), terms=Terms())
        problem.log = []
        driven(problem.begin(), oracles)
        last = driven(attack.search(problem), oracles).words
        logs.append(problem.log)
        if over_limit == "end":
            tried = {(place, word) for one in problem.log for place, word in enumerate(Words(one).words)}
            pool = [one for one in attack.pool(problem.original, last) if one not in tried]  # type: ignore[attr-defined]
            ranked, gains = driven(gains_of(problem, last, pool), oracles)
            assert last.replaced(*ranked[problem.order(gains)[0]]).differing(Words(text)) == 3
    ended, passed = logs
    assert ended == passed[:len(ended)] and 2 <= len(ended) < len(passed)
    assert {Words(one).differing(Words(text)) for one in passed[1:]} == {1, 2}  # of 14 words


def test_records_of_before_are_of_an_fgpm_that_goes_on() -> None:
    """They lack the option, as new records of that way do."""
    current, former = (build_attack("fgpm", options={"over_limit": way}).lasting_options() for way in ("end", "pass"))
    assert "over_limit" not in former and current == {**former, "over_limit": "end"}
    assert differences({"attack": "fgpm", "options": former}, {"options": former}) == ""
    assert "over_limit: None there" in differences({"attack": "fgpm", "options": former}, {"options": current})


def test_a_distance_of_zero_leaves_fgpm_nothing(tiny: Callable[[str], Path], data: Dataset) -> None:
    classifier = tiny_classifier(tiny("bert"), "plain", data)
    for text in ("good", "dull movie", "the plot was fine and the scene was dull"):
        attack = build_attack("fgpm", options={"distance": 0.0}, tools=stand_ins())
        label = int(classifier.predict([text]).probabilities.argmax())
        problem = Problem(Words(text), label, streams=Streams(0), terms=Terms())
        oracles = white_box_oracles(classifier)
        driven(problem.begin(), oracles)
        assert driven(attack.search(problem), oracles).words is problem.original
