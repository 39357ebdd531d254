# SPDX-License-Identifier: Apache-2.0
"""Outsider: where substitutes come from, which of them are tried, and what the victim is asked."""

from collections.abc import Callable, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from attack_stand_ins import (
    NEAR,
    Lexicon,
    SentenceVectors,
    Synonyms,
    Tagger,
    assault,
    run,
    stand_ins,
    tiny_language_model,
)
from conftest import reviews
from restoring_stand_ins import HEADS, restoring

from dualmask.attacks import build_attack
from dualmask.attacks.problem import Problem
from dualmask.classifier import DefendedClassifier
from dualmask.errors import OptionError
from dualmask.models.language_models import MaskedLanguageModel
from dualmask.text.examples import Dataset, Example, Text
from dualmask.text.words import Words

TEXTS: list[Text] = [str(example.text) for example in reviews(12, seed=4)]
TEXTS += ["the good movie was a great plot and the awful scene with a poor actor was very fine and dull and bad x y z"]
ONE = {"wordnet": False, "candidates": 0, "neighbours": 0, "similarity": None, "max_share": None}
LEMMAS = {"movie": ["film", "plot", "moving_picture", "pictures"], "good": ["great", "dull", "honest"]}


@pytest.fixture(scope="module")
def classifier(tiny: Callable[[str], Path], data: Dataset) -> DefendedClassifier:
    return restoring(tiny("bert"), data)


@pytest.fixture(scope="module")
def language_model(tiny: Callable[[str], Path]) -> MaskedLanguageModel:
    return tiny_language_model(tiny("bert"))


def read(classifier: DefendedClassifier, texts: Sequence[Text]) -> list[tuple[int, ...]]:
    view = classifier.first_view(texts)
    return [tuple(ids[shown.bool()].tolist()) for ids, shown in zip(view.input_ids, view.attention_mask, strict=True)]


def finished(charge: Any, problem: Problem, steps: Callable[[], Any]) -> Any:
    ending, = charge.engine.run([(problem, steps)])
    assert not ending.stopped, ending.reason
    return ending.result


def candidates(
    classifier: DefendedClassifier, text: str, *, tools: Any = None, **options: object,
) -> dict[int, list[str]]:
    """By place, what may be written there."""
    attack = build_attack("outsider", options=options, tools=tools or stand_ins())
    charge = assault(classifier, attack)
    problem = charge.problem(0, Example(text, 1))
    found = finished(charge, problem, lambda: attack.moves.candidates(problem, problem.original))
    places: dict[int, list[str]] = {}
    for words in found:
        places.setdefault(words.newest.start, []).append(words[words.newest.start])
    return places


def own_labels(classifier: DefendedClassifier) -> list[Example]:
    labels = classifier.predict(TEXTS).probabilities.argmax(dim=1).tolist()
    return [Example(text, label) for text, label in zip(TEXTS, labels, strict=True)]


# Sources


def test_the_table_gives_neighbours_of_other_clusters(classifier: DefendedClassifier) -> None:
    found = candidates(classifier, "the good movie", **ONE | {"neighbours": 50})
    assert NEAR["good"].keys() == {"great", "fine", "superb", "bad", "awful", "poor", "dull"}
    assert set(found[1]) == {"bad", "dull", "superb"}, "great and fine are read as good, and bad stands for three"
    assert set(found[2]) == {"plot", "actor"}
    assert set(candidates(classifier, "the good movie", **ONE | {"neighbours": 50, "cosine": 0.6})[2]) == {"plot"}
    assert 1 not in candidates(classifier, "the good movie", **ONE | {"neighbours": 2})


def test_wordnet_gives_single_words(classifier: DefendedClassifier) -> None:
    tools = stand_ins(wordnet=Lexicon(LEMMAS))
    found = candidates(classifier, "the good movie", tools=tools, **ONE | {"wordnet": True})
    assert set(found[1]) == {"dull", "honest"}  # an unknown word becomes a mask, which is another reading
    assert set(found[2]) == {"plot", "film"}, "pictures becomes the same mask as film"


def test_the_language_model_gives_what_it_finds_likely(
    classifier: DefendedClassifier, language_model: MaskedLanguageModel,
) -> None:
    tools = stand_ins(language_model)
    found = candidates(classifier, "the good movie was dull", tools=tools, **ONE | {"candidates": 30})
    written = {word for words in found.values() for word in words}
    assert len(written) > 3 and not written & {"the", "was", "[MASK]", "[UNK]"} and not {*found[1]} & {"great", "fine"}
    fewer = candidates(classifier, "the good movie was dull", tools=tools, **ONE | {"candidates": 3})
    assert sum(map(len, fewer.values())) < sum(map(len, found.values()))


def test_without_any_source_nothing_is_asked(classifier: DefendedClassifier) -> None:
    for one in run(classifier, build_attack("outsider", options=ONE, tools=stand_ins()), own_labels(classifier)[:3]):
        assert one.outcome == "failed" and one.queries == 1 and one.adversarial is None
    with pytest.raises(OptionError, match="candidates"):
        build_attack("outsider", options={"candidates": -1})


def test_the_language_models_antonyms_may_be_refused(
    classifier: DefendedClassifier, language_model: MaskedLanguageModel,
) -> None:
    """What the table knows and holds for far; unknown words pass."""
    table = Synonyms({"movie": {"actor": 0.5, "dull": 0.3}, "dull": {"movie": 0.3}})
    tools = stand_ins(language_model, synonyms=table)
    text, only = "the movie was dull", ONE | {"candidates": 40}
    free, near = (candidates(classifier, text, tools=tools, **only | {"model_cosine": cosine})
                  for cosine in (None, 0.4))
    assert {"dull"} <= {*free[1]} - {*near[1]} and {"movie"} <= {*free[3]} - {*near[3]}
    assert all(table.cosine(word, new) is None or (word, new) == ("movie", "actor")
               for place, word in ((1, "movie"), (3, "dull")) for new in near[place])
    assert near[1] and {*near[3]} < {*free[3]}


# Which are tried


def test_one_for_each_reading_and_none_that_is_read_as_before(
    classifier: DefendedClassifier, language_model: MaskedLanguageModel,
) -> None:
    attack = build_attack("outsider", options={"similarity": None, "max_share": None}, tools=stand_ins(language_model))
    charge = assault(classifier, attack)
    for example in own_labels(classifier)[-4:]:
        problem = charge.problem(0, example)
        found = finished(charge, problem, lambda: attack.moves.candidates(problem, problem.original))  # noqa: B023
        readings = read(classifier, [words.value for words in found])
        assert len(set(readings)) == len(readings) > 0 and read(classifier, [example.text])[0] not in readings


def test_the_one_of_those_read_alike_passes_every_check(classifier: DefendedClassifier) -> None:
    """"bad" comes first but is a verb here, so "poor", which is read as it, must be tried instead."""
    assert HEADS["poor"] == "bad"
    tools = stand_ins(tagger=Tagger({"bad": "VERB", "awful": "ADV", "poor": "ADJ", "good": "ADJ"}))
    assert candidates(classifier, "a good movie", tools=tools, **ONE | {"neighbours": 50})[1] == ["poor"]


def test_the_meaning_is_checked_as_in_textfooler(classifier: DefendedClassifier) -> None:
    long, share = str(TEXTS[-1]), 0.975
    strict = candidates(classifier, long, **ONE | {"neighbours": 50, "similarity": share, "metric": "cosine"})
    free = candidates(classifier, long, **ONE | {"neighbours": 50})
    encode = SentenceVectors().encode
    for place, written in strict.items():
        for word in written:
            new = Words(long).replaced(place, word)
            one, other = encode([Words(long).window(place, 15), new.window(place, 15)])
            assert float(one @ other) >= share - 1e-6
    assert 0 < sum(map(len, strict.values())) < sum(map(len, free.values()))


def test_no_more_words_than_allowed_and_none_twice(
    classifier: DefendedClassifier, language_model: MaskedLanguageModel,
) -> None:
    changed = []
    for share in (0.2, 0.4):
        options = {"max_share": share, "similarity": None}
        charge = assault(classifier, build_attack("outsider", options=options, tools=stand_ins(language_model)))
        charge.logs = {}
        for one in charge.run(list(enumerate(own_labels(classifier)))):
            assert one.queries == len(charge.logs[one.index])
            original = Words(one.text)
            for text in charge.logs[one.index]:
                assert Words(text).differing(original) <= ceil(share * len(original))
            changed.append(one.changed)
    assert max(changed) > 1


def test_it_is_the_stronger_for_what_it_knows(
    classifier: DefendedClassifier, language_model: MaskedLanguageModel,
) -> None:
    examples = own_labels(classifier)
    loose = {"similarity": None, "cosine": 0.5}

    def fooled(name: str, **options: object) -> int:
        attack = build_attack(name, options=loose | options, tools=stand_ins(language_model))
        return sum(one.outcome == "succeeded" for one in run(classifier, attack, examples))

    assert fooled("outsider", max_share=None) >= max(fooled("textfooler"), fooled("outsider"))


def test_a_table_of_ones_own(classifier: DefendedClassifier) -> None:
    tools = stand_ins(synonyms=Synonyms({"movie": {"two words": 0.9, "dull": 0.8, "": 0.7}}))
    assert candidates(classifier, "a movie", tools=tools, **ONE | {"neighbours": 9}) == {1: ["dull"]}
