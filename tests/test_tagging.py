# SPDX-License-Identifier: Apache-2.0
"""The shipped tagger: what it says, that it is the file of its manifest, and that its training averages rightly."""

import gzip
import hashlib
import io
import json
import pickle
import random
import sys
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import pytest

from dualmask.errors import OptionError, ResourceError
from dualmask.text import tagging
from dualmask.text.tagging import TAGS, PerceptronTagger, find_tagger, shipped_tagger

sys.path.append(str(Path(__file__).parents[1] / "tools"))

import tagger_text
import tagger_training
from tagger_text import Token

ASSETS = resources.files("dualmask") / "assets"
MANIFEST = json.loads((ASSETS / "tagger.manifest.json").read_text(encoding="utf-8"))
SHARE = MANIFEST["accuracy in percent"]


def tagged(text: str) -> str:
    return " ".join(shipped_tagger()(text.split()))


def test_the_asset_is_the_one_of_the_manifest() -> None:
    content = (ASSETS / MANIFEST["asset"]).read_bytes()
    assert len(content) == MANIFEST["bytes"] <= 4_000_000
    assert hashlib.sha256(content).hexdigest() == MANIFEST["sha256"]
    assert content[4:8] == bytes(4)  # no time in the gzip header: the same weights give the same file
    assert json.loads(gzip.decompress(content))["tags"] == list(TAGS)


def test_the_manifest_holds_the_promised_quality_and_the_licences() -> None:
    held_out = SHARE["held-out text, labels of the spaCy model"]
    assert set(held_out) == {"rotten-tomatoes", "imdb", "wordnet"}
    assert min(share for source in held_out.values() for share in source.values()) >= 95
    assert MANIFEST["labels"]["licence"] == "MIT"
    assert all(source["licence"] and len(source["sha256"]) == 64 for source in MANIFEST["text"])
    assert {source["name"] for source in MANIFEST["text"]}.isdisjoint({"brown", "treebank"})


@pytest.mark.parametrize(("text", "tags"), [
    ("the film is a quiet triumph .", "DET NOUN VERB DET ADJ NOUN ."),
    ("The actors never overplay their roles", "DET NOUN ADV VERB PRON NOUN"),
    ("she wants to go to Paris", "PRON VERB PRT VERB ADP NOUN"),
    ("two men and a dog", "NUM NOUN CONJ DET NOUN"),
    ("it fails because nobody cares", "PRON VERB ADP NOUN VERB"),
    ("they gave up quickly", "PRON VERB PRT ADV"),
    ("a well-acted big-budget drama", "DET ADJ ADJ NOUN"),
    ("the director does n't care", "DET NOUN VERB ADV VERB"),
    ("the director doesn't care", "DET NOUN VERB VERB"),
    ("the director's best work", "DET NOUN ADJ NOUN"),
    ("the director 's best work", "DET NOUN PRT ADJ NOUN"),
])
def test_sentences(text: str, tags: str) -> None:
    assert tagged(text) == tags
    assert tagged(text.lower()) == tags


@pytest.mark.parametrize(("text", "place", "tag"), [
    ("i will watch it again", 2, "VERB"), ("he wore a watch", 3, "NOUN"),
    ("they play the fool", 1, "VERB"), ("the play was dull", 1, "NOUN"),
    ("a light comedy", 1, "ADJ"), ("a beam of light from above", 3, "NOUN"),
])
def test_the_same_word_is_told_apart_by_its_neighbours(text: str, place: int, tag: str) -> None:
    assert tagged(text).split()[place] == tag


def test_unknown_words_go_by_their_shape_and_place() -> None:
    assert tagged("the blorfing grenches snorfled zumbily").split()[2:] == ["NOUN", "VERB", "ADV"]
    assert tagged("he met Xqzvandor in 1847").split()[2:] == ["NOUN", "ADP", "NUM"]
    for odd in ("", " ", "\u0430\u0431\u0432", "\U0001f600", "a" * 10_000, "'", "-", "--", "\u00e9\u0301", "\x00"):
        assert shipped_tagger()([odd])[0] in TAGS
        assert len(shipped_tagger()(["the", odd, "film"])) == 3


def test_no_words_no_tags() -> None:
    assert shipped_tagger()([]) == []
    assert shipped_tagger()(()) == []


def test_the_answer_does_not_depend_on_what_was_asked_before(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    vocabulary = ["the", "a", "film", "watch", "light", "play", "good", "to", "Paris", "it's", "1999", "zumbily", "."]
    windows = [[rng.choice(vocabulary) for _ in range(rng.randrange(9))] for _ in range(300)]
    content = (ASSETS / MANIFEST["asset"]).read_bytes()
    expected = [PerceptronTagger.from_bytes(content)(windows[0]), *map(shipped_tagger(), windows[1:])]
    backwards = PerceptronTagger.from_bytes(content)
    monkeypatch.setattr(tagging, "_REMEMBERED", 7)  # its memory is emptied again and again
    assert [backwards(window) for window in reversed(windows)][::-1] == expected


def test_weights_add_up_and_certain_words_win() -> None:
    noun, verb = TAGS.index("NOUN"), TAGS.index("VERB")
    weights = {"word run": f"{noun} 3 {verb} 2", "-1 word to": f"{verb} 2", "tag word VERB run": f"{noun} 9"}
    tagger = PerceptronTagger({"to": TAGS.index("PRT"), "must": verb}, weights)
    assert tagger(["run"]) == ["NOUN"]
    assert tagger(["to", "run"]) == ["PRT", "VERB"]
    assert tagger(["must", "Run"]) == ["VERB", "NOUN"]
    assert tagger(["TO", "RUN"]) == ["PRT", "VERB"]


def test_weights_for_other_tags_are_refused() -> None:
    packed = gzip.compress(json.dumps({"tags": ["N", "V"], "certain": {}, "weights": {}}).encode())
    with pytest.raises(ResourceError, match="build it again"):
        PerceptronTagger.from_bytes(packed)


def test_averaging_against_brute_force() -> None:
    """The lazy average equals the mean of all weights written down after every step."""
    rng = random.Random(5)
    names = [f"feature {number}" for number in range(8)]
    trainer = tagger_training.Trainer({})
    plain = {name: [0] * len(TAGS) for name in names}
    totals = {name: [0] * len(TAGS) for name in names}
    for _ in range(200):
        features, truth = rng.sample(names, 3), rng.randrange(len(TAGS))
        scores = [sum(plain[name][tag] for name in features) for tag in range(len(TAGS))]
        guess = scores.index(max(scores))
        assert trainer.guess(features) == guess
        if guess != truth:
            for name in features:
                plain[name][truth] += 1
                plain[name][guess] -= 1
        trainer.update(features, truth, guess)
        for name in names:
            totals[name] = [total + weight for total, weight in zip(totals[name], plain[name], strict=True)]
    averages = dict(trainer.averages())
    assert set(averages) == set(names)
    for name in names:
        assert averages[name] == pytest.approx([total / 200 for total in totals[name]], abs=1e-9)


def test_training_learns_what_the_context_decides() -> None:
    pairs = ["the/DET run/NOUN", "we/PRON run/VERB", "the/DET plan/NOUN", "we/PRON plan/VERB"]
    texts = [[[Token(*pair.split("/")) for pair in line.split()]] for line in pairs]
    lines: list[str] = []
    settings = tagger_training.Settings(epochs=6, certain_count=2, least_updates=1, least_weight=0.01, scale=100)
    trainer = tagger_training.train(texts, settings, lines.append)
    tagger = PerceptronTagger(trainer.certain, tagger_training.packed(trainer, settings))
    assert len(lines) == 6
    assert trainer.certain == {"the": TAGS.index("DET"), "we": TAGS.index("PRON")}
    assert [tagger([token.text for token in text[0]]) for text in texts] == [
        ["DET", "NOUN"], ["PRON", "VERB"]] * 2


def test_tokens_are_joined_as_attacks_split_them() -> None:
    pieces = [("It", "PRP", False), ("'s", "VBZ", True), ("a", "DT", True), ("big", "JJ", False), ("-", "HYPH", False),
              ("budget", "NN", True), ("film", "NN", False), (",", ",", True), ("is", "VBZ", False),
              ("n't", "RB", True), ("it", "PRP", False), ("?", ".", False)]
    sentence = tagger_text.joined(pieces)
    assert [token.text for token in sentence] == ["It", "'s", "a", "big-budget", "film", ",", "is", "n't", "it", "?"]
    assert sentence[3].tag == "ADJ"
    assert tagger_text.bare(sentence) == [
        Token("It's", "PRON"), Token("a", "DET"), Token("big-budget", "ADJ"), Token("film", "NOUN"),
        Token("isn't", "VERB"), Token("it", "PRON")]


def test_unknown_taggers_are_named_with_what_is_known() -> None:
    assert find_tagger("shipped") is shipped_tagger()
    with pytest.raises(OptionError, match="unknown tagger 'shiped': did you mean 'shipped'"):
        find_tagger("shiped")
    for name in ("spacy", "spacy:", "", "nltk:eng"):
        with pytest.raises(OptionError, match="unknown tagger"):
            find_tagger(name)


@pytest.mark.parametrize("name", ["nltk", "spacy:no_such_model"])
def test_a_tagger_that_is_not_there_says_what_to_do(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = name.partition(":")[0]
    if find_spec(package) and package == "nltk":
        import nltk

        monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
        remedy = "averaged_perceptron_tagger_eng"
    else:
        remedy = "spacy download no_such_model" if find_spec(package) else f"pip install {package}"
    with pytest.raises(ResourceError, match=remedy) as caught:
        find_tagger(name)
    assert "choose 'shipped'" in str(caught.value)


def test_old_tagger_data_may_not_run_anything() -> None:
    kept = ({"bias": {"NN": 1.5}}, {"the": "DT"}, {"NN", "DT"})
    assert tagging._PlainUnpickler(io.BytesIO(pickle.dumps(kept, protocol=2))).load() == kept
    with pytest.raises(ResourceError, match=r"print, which tagger data need not"):
        tagging._PlainUnpickler(io.BytesIO(pickle.dumps(print))).load()


@pytest.mark.shared
def test_our_table_of_penn_tags_agrees_with_the_published_one(shared: Path) -> None:
    published = tagger_text.tag_map(shared / "lexical" / "universal_tagset_en-ptb.map")
    common = set(published) & set(tagging.UNIVERSAL)
    assert len(common) >= 44
    assert {tag: tagging.UNIVERSAL[tag] for tag in common} == {tag: published[tag] for tag in common}


@pytest.mark.slow
@pytest.mark.shared
def test_the_accuracy_on_text_that_people_tagged_is_as_the_manifest_says(shared: Path) -> None:
    treebank = tagger_text.treebank(shared / "lexical")
    assert (len(treebank), sum(map(len, treebank))) == (3914, 94084)
    assert tagger_training.accuracy(shipped_tagger(), treebank) == SHARE["treebank"]["shipped"]["sentences"]
    brown = tagger_text.brown(shared / "lexical")
    assert (len(brown), sum(map(len, brown))) == (57340, 1161192)
    assert tagger_training.window_accuracy(shipped_tagger(), brown[::20], every=4) == (
        SHARE["brown"]["shipped"]["windows of 8 words"])
