# SPDX-License-Identifier: Apache-2.0
"""A2T: its attack's recipe, whom it attacks when, what it adds to an epoch, and adversaries out of records."""

import json
from collections.abc import Callable
from math import ceil
from pathlib import Path

import numpy as np
import pytest
import torch
from attack_stand_ins import NEAR, HashVictim, SentenceVectors, Synonyms, Tagger, run, stand_ins, tiny_classifier
from conftest import reviews

from dualmask.attacks import ATTACKS, build_attack
from dualmask.attacks import a2t as recipe
from dualmask.attacks.gradients import GradientOracle
from dualmask.attacks.running import Assault
from dualmask.attacks.running import attack as attack_all
from dualmask.classifier import DefendedClassifier
from dualmask.defences import DEFENCES, build_defence
from dualmask.defences.a2t import A2T, A2TOptions
from dualmask.errors import DataError, OptionError
from dualmask.options import make_options
from dualmask.text.examples import Dataset, Example
from dualmask.text.words import Words
from dualmask.training import train

ATTACKS.setdefault("a2t", recipe.A2T)
DEFENCES.setdefault("a2t", A2T)
Tiny = Callable[[str], Path]
SHORT = {"epochs": 2, "max_length": 40, "learning_rate": 1e-6, "batch_size": 16, "seed": 3}
LOOSE = {"similarity": None}  # in texts of a few words no synonym leaves a bag of words where it was


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an attack loads by itself."""
    monkeypatch.setattr("dualmask.models.sentences.find_sentence_encoder", lambda *_, **__: SentenceVectors())
    monkeypatch.setattr("dualmask.text.synonyms.find_synonyms", lambda _: Synonyms(NEAR))
    monkeypatch.setattr("dualmask.text.tagging.find_tagger", lambda _: Tagger({"superb": "VERB", "rare": "ADV"}))


@pytest.fixture(scope="module")
def victim(tiny: Tiny, data: Dataset) -> DefendedClassifier:
    return tiny_classifier(tiny("bert"), "plain", data)


@pytest.fixture(scope="module")
def right(victim: DefendedClassifier) -> list[Example]:
    """Texts under the labels that the victim gives them, each once."""
    texts = list(dict.fromkeys(example.text for example in reviews(60, seed=4)))
    labels = victim.predict(texts).probabilities.argmax(dim=1).tolist()
    return [Example(text, label) for text, label in zip(texts, labels, strict=True)]


def draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def defence(**options: object) -> A2T:
    return A2T(make_options(A2TOptions, {**LOOSE, **options}))


# The attack


def test_the_recipe_has_the_published_numbers() -> None:
    options = build_attack("a2t").options
    assert isinstance(options, recipe.A2TOptions)
    assert (options.neighbours, options.cosine, options.similarity, options.metric, options.window) == (
        20, 0.8, 0.9, "cosine", None)
    assert (options.max_rate, options.least_words, options.reference, options.fix_premise) == (0.1, 4, "original", True)
    assert set(recipe.A2T.card().sections) == {"Paper", "Idea", "Acts at", "Deviations", "Relations"}


def test_words_are_asked_about_in_the_order_of_the_gradient(victim: DefendedClassifier, right: list[Example]) -> None:
    attack = build_attack("a2t", options=LOOSE, tools=stand_ins())
    assault = Assault(victim, attack, measure=None)
    assault.logs = {}
    found = {one.index: one for one in assault.run(list(enumerate(right)))}
    oracle, checked = GradientOracle(victim), 0
    for number, example in enumerate(right):
        words = Words(example.text)
        gradient, = oracle.answers([(example.text, example.label)])
        norms = [float(np.abs(vector).sum()) for vector in gradient.word_vectors(words)]
        asked = [Words(text).words for text in assault.logs[number][1:]]
        first = [next(place for place, word in enumerate(words.words) if row[place] != word) for row in asked][:1]
        may = [place for place in attack.moves.places(words)
               if any(cosine >= 0.8 for cosine in NEAR.get(words[place], {}).values())]
        checked += bool(first and norms[first[0]] == max(norms[place] for place in may))
        assert found[number].gradients == 1
    assert checked >= 0.8 * len(right), "a place is passed over where tags allow nothing"


def test_words_that_the_victim_does_not_see_are_left_alone(victim: DefendedClassifier, tiny: Tiny) -> None:
    text = " ".join(["good", "movie", "dull", "plot"] * 30)
    label = int(victim.predict([text]).probabilities.argmax())
    assault = Assault(victim, build_attack("a2t", options={**LOOSE, "max_rate": None}, tools=stand_ins()), measure=None)
    assault.logs = {}
    list(assault.run([(0, Example(text, label))]))
    for asked in assault.logs[0]:
        assert asked.split()[38:] == text.split()[38:], "two of 40 tokens are special ones"


def test_every_new_word_is_near_of_one_kind_and_one_of_four(victim: DefendedClassifier, right: list[Example]) -> None:
    attack = build_attack("a2t", options=LOOSE, tools=stand_ins(tagger=Tagger({"superb": "VERB"})))
    found = run(victim, attack, right)
    assert sum(one.outcome == "succeeded" for one in found) > 5
    for one in found:
        old, new = Words(one.text), Words(one.adversarial or one.text)
        exchanged = [(a, b) for a, b in zip(old.words, new.words, strict=True) if a != b]
        assert len(exchanged) <= 4
        for a, b in exchanged:
            assert NEAR[a][b] >= 0.8
            assert "superb" not in (a, b), "a verb is no noun here, though TextFooler lets it pass"


def test_the_similarity_of_whole_texts_is_checked(victim: DefendedClassifier, right: list[Example]) -> None:
    def changed(least: float | None) -> list[tuple[str, str]]:
        found = run(victim, build_attack("a2t", tools=stand_ins(), options={"similarity": least}), right)
        return [(str(one.text), str(one.adversarial)) for one in found if one.adversarial is not None]

    strict, loose = changed(0.9), changed(None)
    cosines = [[float(np.dot(*SentenceVectors().encode(pair))) for pair in pairs] for pairs in (strict, loose)]
    assert min(cosines[0]) >= 0.9 - 1e-6 > min(cosines[1]) and len(strict) < len(loose)


def test_who_only_answers_is_not_attacked() -> None:
    with pytest.raises(OptionError, match="needs gradients"):
        Assault(HashVictim(), build_attack("a2t", options=LOOSE, tools=stand_ins()), measure=None)


# What an epoch is made of


def test_the_first_epoch_is_clean_and_so_is_one_without_a_share(right: list[Example]) -> None:
    nobody: DefendedClassifier = None  # type: ignore[assignment]
    assert defence().augment(right, 0, draw(), nobody) is right
    assert defence(clean_epochs=3).augment(right, 2, draw(), nobody) is right
    assert defence(share=0).augment(right, 5, draw(), nobody) is right


def test_only_successes_are_added_each_with_its_label(victim: DefendedClassifier, right: list[Example]) -> None:
    epoch = defence(share=1.0).augment(right, 1, draw(), victim)
    added = epoch[len(right):]
    assert list(epoch[:len(right)]) == right
    expected = run(victim, build_attack("a2t", options={**LOOSE, "queries": 200}, tools=stand_ins()), right)
    won = [Example(one.adversarial, one.label) for one in expected if one.outcome == "succeeded" and one.adversarial]
    assert sorted(added) == sorted(won) and 0 < len(won) < len(right)
    labels = victim.predict([one.text for one in added]).probabilities.argmax(dim=1).tolist()
    assert all(label != one.label for label, one in zip(labels, added, strict=True))


def test_a_fifth_is_attacked_or_a_fifth_falls(victim: DefendedClassifier, right: list[Example]) -> None:
    fifth = ceil(0.2 * len(right))
    attacked, fallen = (len(defence(share_of=kind).augment(right, 1, draw(), victim)) - len(right)
                        for kind in ("attacked", "successes"))
    assert 0 < attacked < fifth and fallen == fifth


def test_each_epoch_draws_others_and_the_same_draws_give_the_same(
    victim: DefendedClassifier, right: list[Example],
) -> None:
    made = defence(share=0.5)
    first, again, other = (made.augment(right, 1, draw(seed), victim) for seed in (1, 1, 2))
    assert first == again and first != other


def test_the_budget_of_questions_is_kept(victim: DefendedClassifier, right: list[Example]) -> None:
    assert len(defence(share=1.0, queries=1).augment(right, 1, draw(), victim)) == len(right)
    given = defence(queries=7, sentence_encoder="use", synonyms="vectors.txt").adversaries.options
    assert given == {"queries": 7, "sentence_encoder": "use", "synonyms": "vectors.txt", "similarity": None}
    assert A2T().adversaries.options["queries"] == 200 and A2T().adversaries.options["similarity"] == 0.9


def test_the_network_is_left_as_it_was(victim: DefendedClassifier, right: list[Example]) -> None:
    mark = victim.fingerprint()
    victim.network.train()
    defence().augment(right, 1, draw(), victim)
    assert victim.network.training and victim.fingerprint() == mark
    assert all(weight.grad is None for weight in victim.network.parameters())
    victim.network.eval()


@pytest.mark.parametrize("wrong", [{"share": 1.5}, {"clean_epochs": -1}, {"queries": 0}, {"share_of": "all"}])
def test_impossible_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        defence(**wrong)


def test_texts_that_could_not_be_attacked_are_told(
    victim: DefendedClassifier, right: list[Example], monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("no tags today")

    monkeypatch.setattr("dualmask.text.tagging.find_tagger", lambda _: broken)
    with pytest.warns(UserWarning, match="of 12 training texts could not be attacked.*no tags today"):
        assert len(defence(share=1.0).augment(right[:12], 1, draw(), victim)) == 12


# Records instead of attacks


@pytest.fixture
def records(victim: DefendedClassifier, right: list[Example], tmp_path: Path) -> Path:
    path = tmp_path / "attacks.jsonl"
    attack_all(victim, right, "textfooler", tools=stand_ins(), measure=None, out=path)
    return path


def successes(path: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    return [line for line in lines if line["outcome"] == "succeeded"]


def test_records_stand_in_for_attacks(records: Path, right: list[Example]) -> None:
    nobody: DefendedClassifier = None  # type: ignore[assignment]
    made = defence(records=str(records), share=1.0)
    made.fit(right, None)  # type: ignore[arg-type]
    added = made.augment(right, 1, draw(), nobody)[len(right):]
    assert sorted(added) == sorted((one["adversarial"], one["label"]) for one in successes(records))
    assert made.augment(right, 0, draw(), nobody) is right
    few = defence(records=str(records), share=0.2, share_of="successes")
    few.fit(right, None)  # type: ignore[arg-type]
    epochs = [few.augment(right, epoch, draw(epoch), nobody)[len(right):] for epoch in (1, 2)]
    assert all(len(epoch) == ceil(0.2 * len(right)) and set(epoch) <= set(added) for epoch in epochs)
    assert set(epochs[0]) != set(epochs[1])


def test_what_is_held_out_is_not_learned_from_records(records: Path, right: list[Example]) -> None:
    made = defence(records=str(records), share=1.0)
    made.fit(right, None)  # type: ignore[arg-type]
    half = right[:len(right) // 2]
    added = made.augment(half, 1, draw(), None)[len(half):]  # type: ignore[arg-type]
    texts = {example.text for example in half}
    assert sorted(added) == sorted((one["adversarial"], one["label"]) for one in successes(records)
                                   if one["text"] in texts)
    assert 0 < len(added) < len(successes(records))


def test_records_that_are_none_are_refused(records: Path, right: list[Example], tmp_path: Path) -> None:
    turned = [example._replace(label=1 - example.label) for example in right]
    for path, examples, error, reason in (
        (tmp_path / "nowhere", right, OptionError, "can't be read"), (tmp_path, right, OptionError, "can't be read"),
        (records, turned, DataError, "none is a success on a training text"),
        (records, reviews(4, seed=77), DataError, "none is a success on a training text"),
    ):
        with pytest.raises(error, match=reason):
            defence(records=str(path)).fit(examples, None)  # type: ignore[arg-type]
    (tmp_path / "other").write_text("{}\n")
    with pytest.raises(DataError, match="line 1"):
        defence(records=str(tmp_path / "other")).fit(right, None)  # type: ignore[arg-type]


# As a whole


Trained = Callable[..., DefendedClassifier]


@pytest.fixture(scope="module")
def started(
    victim: DefendedClassifier, right: list[Example], tmp_path_factory: pytest.TempPathFactory,
) -> Trained:
    """Training that begins with a network that has its texts right, since few steps teach a tiny one nothing."""
    folder = victim.save(tmp_path_factory.mktemp("start"))
    data = Dataset("own", victim.labels, right[:48], right[48:], None)

    def trained(name: str = "a2t", out: Path | None = None, **options: object) -> DefendedClassifier:
        return train(data, encoder=folder, defence=name, options={**LOOSE, "share": 1.0, **options}, training=SHORT,
                     out=out, progress=False)

    return trained


def test_it_trains_on_more_after_the_first_epoch_and_is_saved(started: Trained, tmp_path: Path) -> None:
    classifier = started(out=tmp_path / "model")
    assert 3 + 3 < int(str(classifier.facts["steps"])) <= 3 + 6
    again = DefendedClassifier.load(tmp_path / "model", device="cpu")
    assert again.defence.options == classifier.defence.options
    texts = [example.text for example in reviews(12, seed=8)]
    assert torch.equal(classifier.predict(texts).probabilities, again.predict(texts).probabilities)
    assert torch.equal(classifier.predict(texts).probabilities, classifier.predict(texts, defended=False).probabilities)


def test_the_same_seed_gives_the_same_weights(started: Trained) -> None:
    first, second, clean = (started(clean_epochs=0, share=share).network.state_dict() for share in (1.0, 1.0, 0.0))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], clean[name]) for name in first)


def test_together_with_another_defence_the_defended_classifier_is_attacked(started: Trained) -> None:
    classifier = started("ddm+a2t")
    assert int(str(classifier.facts["steps"])) > 6
    assert any(classifier.predict(["the movie was a good plot with a scene"], explain=True).masked or [])


def test_presets_are_buildable() -> None:
    for preset in A2T.presets:
        made = build_defence("a2t", preset=preset)
        assert made.options_as_dict()["records"] == ""
    assert A2T.presets["paper"].options == {"share_of": "successes"}
