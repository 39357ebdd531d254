# SPDX-License-Identifier: Apache-2.0
"""What every attack keeps to under every preset: its rules, its budget, its victim; and what becomes of its records."""

import dataclasses
import json
import math
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from attack_stand_ins import (
    NEAR,
    HashVictim,
    SentenceVectors,
    Synonyms,
    assault,
    records,
    run,
    stand_ins,
    tiny_classifier,
    tiny_language_model,
)
from conftest import reviews

from dualmask.attacks import ATTACKS, Tools, build_attack
from dualmask.attacks.base import Attack, AttackOptions
from dualmask.attacks.running import Assault, labelled, sampled
from dualmask.attacks.running import attack as attack_all
from dualmask.classifier import DefendedClassifier
from dualmask.errors import DataError, OptionError
from dualmask.models.language_models import MaskedLanguageModel
from dualmask.results import AttackResult, Outcome, ResultFile, read_results, tally
from dualmask.text.examples import Dataset, Example, Text
from dualmask.text.stop_words import stop_words
from dualmask.text.words import Words

EVERY = [(name, preset) for name, kind in ATTACKS.items() for preset in kind.presets]
LONG = [(name, next(iter(kind.presets))) for name, kind in ATTACKS.items()]
IDS = ["-".join(pair) for pair in EVERY]
WHITE_BOX = {name for name, kind in ATTACKS.items() if kind.family == "gradients"}
AWARE = {name for name, kind in ATTACKS.items() if kind.against}  # each attacks the defence that it knows, and no other
INSIDE = WHITE_BOX | AWARE  # a victim must be a classifier
FIELDS = {name: kind.against or ("plain", "ddm") for name, kind in ATTACKS.items()}  # defences it is tried against
DUELS = [(name, preset, defence) for name, preset in EVERY for defence in FIELDS[name]]
TEXTS: list[Text] = [str(example.text) for example in reviews(14, seed=4)]
TEXTS += ["Good movies, with a SUPERB plot and a fine actor; the scene was dull . Very dull !",
          "the good movie was a great plot and the awful scene with a poor actor was very fine and dull and bad x y z"]
PAIRS: list[Text] = [
    ("the good movie was dull", "a great plot with a fine actor"), ("superb plot.", "Dull scene, dull actor!"),
    ("", "good dull movie"), ("good dull movie", "")]
ODD: list[Text] = [
    "", " ", "\n", "?!... --", "the of and a", "x", "good", "\U0001f600", "\U0001f600 good \U0001f4a9 dull movie",
    "\u4f60\u597d\u4e16\u754c good \u597d\u7684", "go\u200bod mo\u200dvie \ufeffdull",
    "good\x00movie\x07dull\x1b[31m plot", "lone \ud800 good \udfff surrogate dull", "a\u0301 good e\u0301 movie",
    "[MASK] good [SEP] dull [UNK] [CLS]", "good\u2028dull\u2029movie\x85plot", "##able ##s good",
    "'good' -dull- _movie_ *plot*", "GOOD DULL MOVIE", "\u02d7\u00d7`",
]


@pytest.fixture(scope="module")
def language_model(tiny: Callable[[str], Path]) -> MaskedLanguageModel:
    return tiny_language_model(tiny("bert"))


@pytest.fixture(scope="module")
def victims(tiny: Callable[[str], Path], data: Dataset) -> dict[str, DefendedClassifier]:
    """In double precision: behind a mask many texts tie, and what padding does to float32 would break the ties."""
    found = {name: tiny_classifier(tiny("bert"), name, data) for name in ("plain", "ddm", "ddm-restore")}
    found["ranmask"] = tiny_classifier(tiny("bert"), "ranmask", data, votes=3, decision="mean")
    for classifier in found.values():
        classifier.network.double()
    return found


Build = Callable[..., Attack]


@pytest.fixture
def build(language_model: MaskedLanguageModel) -> Build:
    """An attack with stand-ins for all that would have to be fetched."""
    def make(name: str, preset: str | None = None, *, tools: Tools | None = None, **options: object) -> Attack:
        if name in ("bertattack", "outsider"):  # few enough to choose among the tiny vocabulary
            options = {"candidates": 6, **options}
        if name == "unseen":  # few invisible words tell as much here
            options = {"most": 8, **options}
        return build_attack(name, preset=preset, options=options, tools=tools or stand_ins(language_model))
    return make


def own_labels(classifier: DefendedClassifier, texts: Sequence[Text]) -> list[Example]:
    """Texts under the victim's own label, so that all are attacked."""
    found = [int(classifier.predict([text]).probabilities.argmax()) for text in texts]
    return [Example(text, label) for text, label in zip(texts, found, strict=True)]


# The catalogue


def test_all_published_attacks_are_there() -> None:
    published = {name: kind for name, kind in ATTACKS.items() if name not in AWARE}
    assert set(published) == {"deepwordbug", "textbugger", "pwws", "textfooler", "bertattack", "hotflip", "fgpm",
                             "a2t"}
    assert all({"paper"} <= set(kind.presets) for kind in published.values())
    assert all({"textattack-0.3.11", "textdefender-2021"} <= set(kind.presets) for name, kind in published.items()
               if name not in WHITE_BOX)


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_every_attack_has_a_card_that_names_its_deviations(name: str) -> None:
    kind = ATTACKS[name]
    card = kind.card()
    assert set(card.sections) == {"Paper", "Idea", "Acts at", "Deviations", "Relations"}
    assert (kind.paper is not None and bool(kind.paper.link)) is (name not in AWARE), "those have no paper"
    assert f"dualmask.attacks.{name}" == kind.__module__


@pytest.mark.parametrize(("name", "preset"), EVERY, ids=IDS)
def test_presets_are_options_of_their_attack(name: str, preset: str) -> None:
    options = build_attack(name, preset=preset).options
    given = ATTACKS[name].presets[preset].options
    assert {key: getattr(options, key) for key in given} == dict(given)
    json.dumps(dataclasses.asdict(options))
    if preset == "textdefender-2021":
        assert (options.queries_per_word, options.max_share, options.fix_premise) == (50, 0.3, True)
        assert options.overlaid or options.similarity == 0.840845057
    if preset == "textattack-0.3.10":
        assert options.split == "left-end"


def test_recipes_have_the_published_numbers() -> None:
    def options(name: str, preset: str = "textattack-0.3.11") -> Any:
        return build_attack(name, preset=preset).options

    fooler, bert, bugger = options("textfooler"), options("bertattack"), options("textbugger")
    assert (fooler.neighbours, fooler.cosine, fooler.similarity, fooler.metric, fooler.window, fooler.skip_short) == (
        50, 0.5, 0.840845057, "angular", 15, True)
    assert (fooler.reference, fooler.fix_premise, fooler.stop_words) == ("current", True, "textfooler")
    assert options("textfooler", "paper").cosine == 0.7
    assert (bert.candidates, bert.max_share, bert.similarity, bert.metric, bert.window) == (8, 0.4, 0.2, "cosine", None)
    assert options("bertattack", "textattack-0.3.10").candidates == 48
    assert options("bertattack", "paper").pieces == "best"
    assert (bugger.neighbours, bugger.similarity, bugger.metric, bugger.window) == (5, 0.8, "angular", None)
    assert options("deepwordbug").max_edits == 30 and options("deepwordbug").draws == 1
    flip, fgpm = options("hotflip", "paper"), options("fgpm", "paper")
    assert (flip.beam, flip.max_words, flip.cosine) == (10, 2, 0.8)
    assert (fgpm.neighbours, fgpm.distance, fgpm.max_share, fgpm.stop_words) == (4, 0.5, 0.25, "fgpm")
    free = options("hotflip", "free"), options("fgpm", "free")
    assert all((one.max_words, one.max_share, one.stop_words) == (None, None, "textfooler") for one in free)
    assert (free[0].cosine, 1 - free[1].distance / 2, free[1].neighbours) == (0.5, 0.5, 50)  # as TextFooler's


@pytest.mark.parametrize("wrong", [
    {"queries": 0}, {"queries": -3}, {"queries_per_word": 0.5}, {"seconds": -1}, {"max_words": 0}, {"max_share": 1.5},
    {"window": 0}, {"no_such_option": 1}, {"split": "middle"}, {"stop_words": "german"}, {"queries": "many"},
    {"draws": -1}, {"max_edits": -1}])
def test_impossible_options_are_refused_by_name(wrong: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        build_attack("deepwordbug", options=wrong)


@pytest.mark.parametrize(("name", "wrong"), [
    ("bertattack", {"candidates": 0}), ("hotflip", {"beam": 0}), ("hotflip", {"flips": 0}), ("fgpm", {"steps": 0}),
    ("textfooler", {"neighbours": -1}), ("fgpm", {"neighbours": 0})])
def test_numbers_that_would_switch_an_attack_off_are_refused(name: str, wrong: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        build_attack(name, options=wrong)


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(OptionError, match="did you mean 'textfooler'"):
        build_attack("textfoler")
    with pytest.raises(OptionError, match=r"did you mean 'textattack-0\.3\.11'"):
        build_attack("textfooler", preset="textattack-0.3.1")


# Rules


def check_result(one: AttackResult, attack: Attack, victim: Any) -> None:
    """Everything that can be said about a result without knowing how it was found."""
    options = attack.options
    assert one.outcome in get_args(Outcome) and not one.reason
    assert one.queries >= 1 and 1 <= one.rows <= one.queries + 1
    original = Words(one.text, rule=options.split)
    limit = options.queries_per_word * max(len(original), 1) if options.queries_per_word else math.inf
    assert one.queries <= min(limit, options.queries or math.inf)
    assert one.words == len(original)
    assert attack.name in WHITE_BOX or one.gradients == 0
    assert one.clean == one.label or one.outcome == "skipped"
    row = torch.as_tensor(np.asarray(victim(one.adversarial if one.adversarial is not None else one.text)))
    assert one.predicted == int(row.argmax())
    assert one.probability_after == pytest.approx(float(row[one.label]), abs=2e-4)
    if one.outcome == "succeeded":
        assert one.adversarial is not None and one.adversarial != one.text and one.predicted != one.label
    else:
        assert one.predicted == one.label or one.outcome == "skipped"
    if one.adversarial is None:
        assert one.changed == 0
        return
    assert isinstance(one.adversarial, str) == isinstance(one.text, str)
    final = Words(one.adversarial, rule=options.split)
    check_edits(one, attack, original, final)


def check_edits(one: AttackResult, attack: Attack, original: Words, final: Words) -> None:
    options: Any = attack.options
    if options.fix_premise and not isinstance(one.text, str):
        assert one.adversarial is not None and one.adversarial[0] == one.text[0]
    # Around the words nothing moved; a language model's words may bring their own punctuation, and words may be joined.
    assert outside(final) == outside(original) or len(final) > len(original) or attack.name in (
        "bertattack", "outsider", "misprint", "unseen")
    if len(final) == len(original):
        places = [place for place in range(len(final)) if final[place] != original[place]]
        assert len(places) <= one.changed <= len(final)
        assert not {original[place] for place in places} & stop_words(options.stop_words)
        if options.max_words is not None:
            assert len(places) <= options.max_words
        if options.max_share is not None:
            rounded = math.floor if attack.name == "fgpm" else math.ceil
            assert len(places) <= rounded(len(original) * options.max_share)
        if attack.family == "words" or attack.name in WHITE_BOX:
            for place in places:
                check_word(attack, original[place], final[place])
    rest = iter(final.words)
    assert all(word in rest for word in original.words if word in stop_words(options.stop_words)), "all, in their order"
    if attack.name == "deepwordbug":
        assert distance(original.text, final.text) <= options.max_edits
    if options.similarity is not None and options.reference == "original" and options.window is None:
        vectors = SentenceVectors().encode([original.window(0), final.window(0)])
        cosine = min(1.0, float(vectors[0] @ vectors[1]))
        value = cosine if options.metric == "cosine" else 1 - math.acos(cosine) / math.pi
        assert value >= options.similarity - 1e-6


def check_word(attack: Attack, old: str, new: str) -> None:
    options: Any = attack.options
    if attack.name in ("textfooler", "fgpm", "hotflip", "frequent", "seethrough"):
        near = NEAR.get(old.lower(), {})
        if attack.name != "frequent" and getattr(options, "pool", "neighbours") == "neighbours":
            assert new.lower() in near
        least = 1 - options.distance / 2 if attack.name == "fgpm" else options.cosine
        if least is not None and new.lower() in near:
            assert near[new.lower()] >= least
    if attack.name in ("textfooler", "fgpm"):
        assert new.isupper() == old.isupper() or len(old) == 1


def outside(words: Words) -> list[str]:
    """What stands before, between and behind the words."""
    edges = [0, *(edge for span in words.spans for edge in span), len(words.text)]
    return [words.text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]


def distance(one: str, other: str) -> int:
    from rapidfuzz.distance import DamerauLevenshtein, Levenshtein

    found = int(Levenshtein.distance(one, other))
    assert DamerauLevenshtein.distance(one, other) <= found
    return found


@pytest.mark.parametrize(("name", "preset", "defence"), DUELS, ids=map("-".join, DUELS))
def test_every_attack_keeps_its_rules(
    name: str, preset: str, defence: str, build: Build, victims: dict[str, DefendedClassifier],
) -> None:
    classifier = victims[defence]
    mark = classifier.fingerprint()
    attack = build(name, preset)
    examples = own_labels(classifier, TEXTS)
    found = run(classifier, attack, examples)
    assert [one.index for one in found] == list(range(len(examples)))
    for one in found:
        check_result(one, attack, lambda text: classifier.predict([text]).probabilities[0])
    assert {one.outcome for one in found} <= {"succeeded", "failed", "out-of-queries"}
    assert classifier.fingerprint() == mark
    if name not in WHITE_BOX:
        assert any(one.adversarial is not None for one in found), "an attack that never does anything tests nothing"


@pytest.mark.parametrize(("name", "preset"), EVERY, ids=IDS)
def test_every_attack_makes_progress_against_a_weak_victim(
    name: str, preset: str, build: Build, victims: dict[str, DefendedClassifier],
) -> None:
    """Under loose limits at least one text falls, or gets less sure."""
    loose: dict[str, object] = {"similarity": None, "max_share": None}
    if name == "hotflip":
        loose |= {"max_words": 6, "cosine": 0.0}
    if name == "fgpm":
        loose |= {"distance": 2.0}
    attack = build(name, preset, **loose)
    victim: Any = victims[FIELDS[name][0]] if name in INSIDE else HashVictim()
    examples = own_labels(victim, TEXTS) if name in INSIDE else victim.examples(TEXTS)
    found = run(victim, attack, examples)
    assert any(one.outcome == "succeeded" for one in found) or any(
        float(one.probability_after or 0) < float(one.probability or 0) - 0.01 for one in found)


@pytest.mark.parametrize(("name", "preset"), EVERY, ids=IDS)
def test_no_attack_exceeds_any_budget(
    name: str, preset: str, build: Build, victims: dict[str, DefendedClassifier],
) -> None:
    inside = name in INSIDE
    victim: Any = victims[FIELDS[name][0]] if inside else HashVictim(gain=0.3)
    texts = [TEXTS[2], TEXTS[-2]]
    examples = own_labels(victim, texts) if inside else victim.examples(texts)
    for budget in range(1, 31, 3 if inside else 1):
        for one in run(victim, build(name, preset, queries=budget), examples):
            assert one.queries <= budget and one.rows <= budget + 1
            assert (one.outcome == "out-of-queries") <= (one.queries == budget)
            assert one.outcome in ("succeeded", "failed", "out-of-queries", "skipped")


@pytest.mark.parametrize(("name", "preset"), EVERY, ids=IDS)
def test_odd_texts_end_with_an_outcome(
    name: str, preset: str, build: Build, victims: dict[str, DefendedClassifier],
) -> None:
    attack = build(name, preset)
    for defence in FIELDS[name]:
        classifier = victims[defence]
        for one in run(classifier, attack, own_labels(classifier, ODD)):
            check_result(one, attack, lambda text: classifier.predict([text]).probabilities[0])  # noqa: B023
            AttackResult.from_json(json.loads(one.as_json().encode()))
            if not Words(one.text):
                assert one.outcome == "failed" and one.queries <= 3 and one.adversarial is None
        if name == "textfooler":
            stop = run(classifier, attack, own_labels(classifier, ["the of and a"]))[0]
            assert stop.outcome == "failed" and stop.adversarial is None and stop.queries <= 2


@pytest.mark.parametrize(("name", "preset"), EVERY, ids=IDS)
def test_pairs_are_attacked_and_premises_fixed_where_they_must_be(
    name: str, preset: str, build: Build, victims: dict[str, DefendedClassifier],
) -> None:
    classifier = victims[FIELDS[name][0]]
    for fixed in (True, False):
        attack = build(name, preset, fix_premise=fixed)
        for one in run(classifier, attack, own_labels(classifier, PAIRS)):
            check_result(one, attack, lambda text: classifier.predict([text]).probabilities[0])
            assert isinstance(one.text, tuple)
            if fixed and one.adversarial is not None:
                assert one.adversarial[0] == one.text[0]
    default = build(name, preset)
    assert default.options.fix_premise is (name in ("textfooler", "a2t") or preset == "textdefender-2021")


@pytest.mark.parametrize(("name", "preset"), EVERY, ids=IDS)
def test_a_victim_with_a_single_class_withstands(
    name: str, preset: str, build: Build, tiny: Callable[[str], Path], data: Dataset,
) -> None:
    if name in INSIDE:
        one_class = dataclasses.replace(data, labels=("only",), train=[Example(text, 0) for text, _ in data.train])
        victim: object = tiny_classifier(tiny("bert"), FIELDS[name][0], one_class)
    else:
        victim = lambda texts: [[1.0]] * len(texts)  # noqa: E731
    for one in run(victim, build(name, preset), [Example(text, 0) for text in (TEXTS[0], TEXTS[-2], "", "the of")]):
        assert one.outcome in ("failed", "out-of-queries") and one.predicted == 0 and one.probability_after == 1.0


def test_no_special_token_is_written_by_the_papers_bertattack(
    build: Build, victims: dict[str, DefendedClassifier],
) -> None:
    found = run(victims["plain"], build("bertattack", "paper", candidates=40), own_labels(victims["plain"], TEXTS))
    assert any(one.adversarial for one in found)
    written = " ".join(str(one.adversarial) for one in found).lower()
    assert not [token for token in ("[sep]", "[cls]", "[pad]", "[unk]", "[mask]") if token in written]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "preset"), LONG, ids=["-".join(pair) for pair in LONG])
def test_two_thousand_words_take_reasonable_time(
    name: str, preset: str, build: Build, victims: dict[str, DefendedClassifier],
) -> None:
    draw = random.Random(0)
    words = ["good", "dull", "movie", "the", "plot", "was", "scene", "actor,"]
    text = " ".join(draw.choice(words) for _ in range(2000))
    inside = name in INSIDE

    def quick(texts: Sequence[Text]) -> np.ndarray:
        return np.tile([0.9, 0.1], (len(texts), 1))

    victim: Any = victims[FIELDS[name][-1]] if inside else quick
    example = own_labels(victim, [text])[0] if inside else Example(text, 0)
    limit: dict[str, object] = {}
    if name not in WHITE_BOX:
        limit["queries"] = 300 if inside else 2600  # a real victim reads it all each time
    if name == "misprint":
        limit["letters"] = "near"  # so few words are there that almost all errors are put right, 300 queries go far
    began = time.process_time()  # of this process alone, whatever else the machine does
    one = run(victim, build(name, preset, **limit), [example])[0]
    took = time.process_time() - began
    assert one.outcome in ("failed", "out-of-queries", "succeeded") and one.words == 2000
    assert took < 40, f"{took:.1f} s"  # work that grows with the square of the words takes minutes


@pytest.mark.parametrize("name", ["textfooler", "fgpm", "hotflip", "textbugger", "pwws"])
def test_odd_entries_of_a_users_table_do_no_harm(
    name: str, build: Build, victims: dict[str, DefendedClassifier], language_model: MaskedLanguageModel,
) -> None:
    """Tables of word vectors hold all kinds of things."""
    entries = ("n/a", "", "...", "new york", "'s", "-", "\u4f60", "ok")
    odd = {word: {entry: 0.99 - 0.01 * rank for rank, entry in enumerate(entries)} for word in NEAR}
    tools = stand_ins(language_model, synonyms=Synonyms(odd))
    attack = build(name, "textdefender-2021" if name == "pwws" else None, tools=tools)
    classifier = victims["plain"]
    for one in run(classifier, attack, own_labels(classifier, TEXTS)):
        assert one.outcome in ("succeeded", "failed", "out-of-queries")


def test_single_letters_and_stop_words_are_left_alone(build: Build) -> None:
    victim = HashVictim()
    for name, preset in EVERY:
        if name in INSIDE or preset != "textattack-0.3.11":
            continue
        found = run(victim, build(name, preset), victim.examples(["the of and a", "a b c"]))
        assert found[0].queries == 1 and found[0].outcome == "failed" and found[0].adversarial is None


def test_no_word_is_edited_twice(build: Build) -> None:
    """With as many letters as it likes, DeepWordBug still makes one edit in a word."""
    from rapidfuzz.distance import OSA

    victim = HashVictim(gain=0.05)
    for one in run(victim, build("deepwordbug", max_edits=1000), victim.examples(TEXTS)):
        if one.adversarial is None:
            continue
        old, new = Words(one.text), Words(one.adversarial)
        assert len(old) == len(new)
        assert all(OSA.distance(before, after) <= 1 for before, after in zip(old.words, new.words, strict=True))
        assert one.changed == old.differing(new)


def test_final_texts_are_compared_with_the_originals(build: Build) -> None:
    victim, encode = HashVictim(), SentenceVectors().encode
    attack = build("textbugger")
    assert attack.options.sentence_encoder == "minilm"  # here in name only
    found = list(Assault(victim, attack, measure="minilm").run(list(enumerate(victim.examples(TEXTS)))))
    assert {one.outcome for one in found} >= {"succeeded"}
    for one in found:
        if one.outcome == "succeeded":
            vectors = encode([str(one.text), str(one.adversarial)])
            assert one.similarity == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-4)
        else:
            assert one.similarity is None


def test_misclassified_texts_are_skipped_with_one_query(build: Build) -> None:
    victim = HashVictim()
    wrong = [Example(text, 1 - label) for text, label in victim.examples(TEXTS)]
    for name, preset in EVERY:
        if name not in INSIDE:
            for one in run(victim, build(name, preset), wrong):
                assert (one.outcome, one.queries, one.rows, one.adversarial) == ("skipped", 1, 1, None)
                assert one.predicted != one.label


@pytest.mark.parametrize(("name", "preset"), EVERY, ids=IDS)
def test_results_do_not_depend_on_order_or_width(
    name: str, preset: str, build: Build, victims: dict[str, DefendedClassifier],
) -> None:
    classifier = victims[FIELDS[name][-1]]
    longer = TEXTS[-1:] if name == "misprint" else TEXTS[-2:]  # it tries every error of every word
    examples = list(enumerate(own_labels(classifier, [*TEXTS[:8], *longer])))
    expected = records(list(assault(classifier, build(name, preset), width=1).run(examples)))
    for width in (3, 64):
        mixed = random.Random(width).sample(examples, len(examples))
        assert records(list(assault(classifier, build(name, preset), width=width).run(mixed))) == expected


# Records


def result(**changes: object) -> AttackResult:
    values: dict[str, Any] = {
        "index": 3, "text": "good", "label": 1, "outcome": "succeeded", "adversarial": "go od",
        "clean": 1, "predicted": 0, "gradients": 0,
        "probability": 0.9, "probability_after": 0.2, "queries": 12, "rows": 10, "words": 1, "changed": 2,
        "similarity": 0.8, "seconds": 0.5, "reason": "", **changes}
    return AttackResult(**values)


NOTHING = {"adversarial": None, "clean": None, "predicted": None, "probability": None, "similarity": None,
           "probability_after": None, "outcome": "victim-error", "reason": "\ud800 no"}


@pytest.mark.parametrize("text", [
    "good", ("a pair", "of texts"), "caf\u00e9 \U0001f600\u2028\x00\n\"", "lone \ud800", ""])
@pytest.mark.parametrize("changes", [{}, NOTHING])
def test_results_come_back_from_json(text: Text, changes: dict[str, object], tmp_path: Path) -> None:
    one = result(text=text, **{"adversarial": text, **changes})
    assert "\n" not in one.as_json()
    assert AttackResult.from_json(json.loads(one.as_json())) == one
    header = {"format": 1, "attack": "x"}
    file = ResultFile(tmp_path / "r.jsonl", header, resume=False, overwrite=False)
    file.add(one)
    file.close()
    assert read_results(tmp_path / "r.jsonl") == (header, [one])


def test_records_of_other_versions_are_refused() -> None:
    record = json.loads(result().as_json())
    assert AttackResult.from_json({**record, "more": 1}) == result()
    with pytest.raises(DataError, match="queries"):
        AttackResult.from_json({name: value for name, value in record.items() if name != "queries"})
    with pytest.raises(DataError, match="queries"):
        AttackResult.from_json({**record, "queries": 10**400})  # of which no mean can be taken
    with pytest.raises(DataError, match="conquered"):
        AttackResult.from_json({**record, "outcome": "conquered"})


@pytest.mark.parametrize("garbage", [
    b"no json\n", b"{\n", b"5\n", b"null\n", b"[]\n", b'"x"\n', b"\xff\xfe\n", b"\n", b"{}\n"])
@pytest.mark.parametrize("header", [True, False])
def test_garbage_among_records_is_named_by_its_line(garbage: bytes, header: bool, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    lines = [b'{"format": 1, "attack": "x"}\n', result().as_json().encode() + b"\n"]
    path.write_bytes(garbage + lines[1] if header else b"".join([*lines, garbage, lines[1]]))
    with pytest.raises(DataError, match=r"line 1" if header else r"line 3|lacks"):
        read_results(path)


@pytest.mark.parametrize("wrong", [
    (None, 0), (3, 0), (("a", "b", "c"), 0), (("a", None), 0), (["a", "b"], 0), ("a", None), ("a", 1.5), ("a", 0, 1)])
def test_what_is_no_text_with_a_label_is_refused(wrong: Any) -> None:
    with pytest.raises(DataError, match=r"expected (pairs of )?a text"):
        labelled([wrong], ["bad", "good"])
    found = labelled([("a", np.int64(1)), (("a", "b"), "bad")], ["bad", "good"])
    assert found == [Example("a", 1), Example(("a", "b"), 0)] and type(found[0].label) is int


def test_a_tally_counts_what_it_says() -> None:
    found = tally([result(), result(outcome="failed", queries=8, rows=4), result(outcome="skipped", queries=1),
                   result(outcome="victim-error"), result(outcome="unconfirmed"), result(outcome="out-of-time"),
                   result(outcome="out-of-queries"), result(changed=0, words=4, similarity=None)])
    assert sum(found.outcomes.values()) == 8 and found.succeeded == 2 and found.attacked == 6
    assert found.queries == pytest.approx((12 * 5 + 8) / 6) and found.rows == pytest.approx((10 * 5 + 4) / 6)
    assert found.changed == pytest.approx((2 / 1 + 0) / 2) and found.similarity == 0.8
    nothing = tally([])
    assert (sum(nothing.outcomes.values()), nothing.attacked, nothing.queries, nothing.changed) == (0, 0, 0.0, None)


# Runs that are stopped and go on

RUN: dict[str, Any] = {"measure": None, "seed": 3}


def examples_with_odd_ones() -> list[Example]:
    return HashVictim().examples([
        *TEXTS[:6], "caf\u00e9 \U0001f600 movie \u4f60\u597d", "lone \ud800 surrogate", *TEXTS[6:9]])


def without_seconds(path: Path) -> list[dict[str, object]]:
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def test_a_run_cut_anywhere_goes_on_to_the_same_records(tmp_path: Path) -> None:
    victim, examples = HashVictim(), examples_with_odd_ones()
    whole = tmp_path / "whole.jsonl"
    expected = attack_all(victim, examples, "deepwordbug", out=whole, **RUN)
    content = whole.read_bytes()
    assert [one.index for one in expected] == list(range(len(examples))) and content.endswith(b"\n")
    cuts = set(random.Random(0).sample(range(len(content) + 1), 25))
    emoji = content.index("\U0001f600".encode())
    header = content.index(b"\n")
    cuts |= {0, 1, header, header + 1, len(content) - 1, len(content), emoji + 1, emoji + 2, emoji + 3}
    for cut in sorted(cuts):
        path = tmp_path / f"cut-{cut}.jsonl"
        path.write_bytes(content[:cut])
        again = attack_all(victim, examples, "deepwordbug", out=path, resume=True, **RUN)
        assert records(again) == records(expected), f"cut at byte {cut}"
        assert without_seconds(path) == without_seconds(whole)
        assert not list(tmp_path.glob("*.part"))


def test_what_was_done_is_not_done_again(tmp_path: Path) -> None:
    victim, examples = HashVictim(), HashVictim().examples(TEXTS)
    path = tmp_path / "r.jsonl"
    done: list[AttackResult] = []

    def stop(one: AttackResult) -> None:
        done.append(one)
        if len(done) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attack_all(victim, examples, "deepwordbug", out=path, watch=stop, width=2, **RUN)
    header, kept = read_results(path)
    assert header["attack"] == "deepwordbug" and [one.index for one in kept] == sorted(one.index for one in done)
    watched: list[AttackResult] = []
    found = attack_all(victim, examples, "deepwordbug", out=path, resume=True, watch=watched.append, **RUN)
    assert not {one.index for one in watched} & {one.index for one in done}
    assert len(watched) + len(done) == len(examples) == len(found)
    assert records(found) == records(attack_all(victim, examples, "deepwordbug", **RUN))
    once_more: list[AttackResult] = []
    assert attack_all(victim, examples, "deepwordbug", out=path, resume=True, watch=once_more.append, **RUN) == found
    assert once_more == []


@pytest.mark.parametrize(("changes", "named"), [
    ({"seed": 4}, "seed"), ({"preset": "paper"}, "preset"), ({"options": {"max_edits": 3}}, "max_edits: 30"),
    ({"samples": 3}, "samples"), ({"sequential": True}, "sequential"), ({"name": "textbugger"}, "attack"),
    ({"examples": 5}, "examples"), ({"other": True}, "examples|data|texts"), ({"victim": True}, "victim"),
])
def test_going_on_with_other_settings_is_refused_by_name(
    changes: dict[str, Any], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    victim: Any = HashVictim()
    examples = HashVictim().examples(TEXTS)
    path = tmp_path / "r.jsonl"
    attack_all(victim, examples, "deepwordbug", out=path, **RUN)
    before = path.read_bytes()
    given = {**RUN, **changes}
    name = given.pop("name", "deepwordbug")
    if name == "textbugger":
        monkeypatch.setattr("dualmask.attacks.base.Attack.synonyms", lambda self, name: Synonyms(NEAR))
        given["options"] = {"similarity": None}
    if given.pop("examples", None):
        examples = examples[:5]
    if given.pop("other", None):  # as many, but not the same
        examples = [Example(f"{text} x", label) for text, label in examples]
    if given.pop("victim", None):
        victim = victim.probabilities
    with pytest.raises(OptionError, match=named) as found:
        attack_all(victim, examples, name, out=path, resume=True, **given)
    assert ("other settings" in str(found.value) or named == "sequential") and path.read_bytes() == before


def test_files_are_not_overwritten_by_chance(tmp_path: Path) -> None:
    victim, examples = HashVictim(), HashVictim().examples(TEXTS[:3])
    path = tmp_path / "deep" / "er" / "r.jsonl"
    attack_all(victim, examples, "deepwordbug", out=path, **RUN)
    with pytest.raises(OptionError, match="--resume"):
        attack_all(victim, examples, "deepwordbug", out=path, **RUN)
    attack_all(victim, examples, "deepwordbug", out=path, overwrite=True, measure=None, seed=9)
    assert read_results(path)[0]["seed"] == 9


def test_a_sequential_run_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    """Its random streams run through all examples, so it must either start over or refuse."""
    victim, examples = HashVictim(), HashVictim().examples(TEXTS)
    path = tmp_path / "r.jsonl"
    expected = attack_all(victim, examples, "deepwordbug", out=path, sequential=True, **RUN)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]))
    try:
        found = attack_all(victim, examples, "deepwordbug", out=path, resume=True, sequential=True, **RUN)
    except OptionError:
        return
    assert records(found) == records(expected)


def test_an_attack_may_be_given_as_it_is(tmp_path: Path) -> None:
    victim, examples = HashVictim(), HashVictim().examples(TEXTS)
    made = build_attack("deepwordbug", preset="paper")
    path = tmp_path / "r.jsonl"
    found = attack_all(victim, examples, made, out=path, **RUN)
    assert records(found) == records(attack_all(victim, examples, "deepwordbug", preset="paper", **RUN))
    header = read_results(path)[0]
    assert header["attack"] == "deepwordbug" and header["options"] == made.lasting_options()
    assert header["preset"] in ("paper", None), "it names a preset that was not used"
    with pytest.raises(OptionError):  # rather than leave out what was asked for
        attack_all(victim, examples, made, options={"max_edits": 1}, **RUN)


def test_samples_depend_on_the_seed_alone() -> None:
    examples = HashVictim().examples(TEXTS)
    chosen = sampled(examples, 5, 1)
    assert chosen == sampled(examples, 5, 1) == sorted(set(chosen)) and len(chosen) == 5
    assert sampled(examples, 5, 2) != chosen
    assert sampled(examples, None, 0) == sampled(examples, 99, 0) == list(range(len(examples)))
    found = attack_all(HashVictim(), examples, "deepwordbug", samples=5, measure=None, seed=1)
    assert [one.index for one in found] == chosen
    whole = attack_all(HashVictim(), examples, "deepwordbug", measure=None, seed=1)
    assert records(found) == [records(whole)[number] for number in chosen]


def test_nothing_to_attack_is_said() -> None:
    with pytest.raises(DataError, match="no examples"):
        attack_all(HashVictim(), [], "deepwordbug")


def test_all_options_have_a_default_and_a_type() -> None:
    assert AttackOptions() == AttackOptions()
    with pytest.raises(dataclasses.FrozenInstanceError):
        AttackOptions().queries = 3  # type: ignore[misc]
