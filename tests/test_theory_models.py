# SPDX-License-Identifier: Apache-2.0
"""The theory on real networks: where the points come from, what is counted, what is written, what the command says."""

import gzip
import json
import math
import random
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from conftest import ABSOLUTE, BAD, GOOD, RELATIVE
from rich.console import Console
from typer.testing import CliRunner

from dualmask.attacks.running import attack
from dualmask.classifier import DefendedClassifier
from dualmask.cli import app
from dualmask.cli_theory import show
from dualmask.defences import build_defence
from dualmask.errors import DataError, OptionError
from dualmask.evaluation.grid import read_grid
from dualmask.evaluation.plan import make_plan
from dualmask.evaluation.records import Cell, read_cells, record_files
from dualmask.models.encoders import load_encoder
from dualmask.models.layer_noise import encoder_layers
from dualmask.reporting.theory_plots import geometry_plot, grouped, recovery_plot, seen_along
from dualmask.reporting.theory_tables import findings, markdown
from dualmask.results import AttackResult, as_line, read_results
from dualmask.text.examples import Dataset
from dualmask.theory.geometry import default_layers, points_of
from dualmask.theory.measurement import (
    CUT,
    FAULTY,
    OTHERS,
    TWICE,
    UNCHANGED,
    WRONG,
    Attacked,
    Found,
    find_records,
    measure,
)
from dualmask.theory.products import products
from dualmask.theory.quantities import ChangedWord, Quantities, geometry, lines_of, read_quantities
from dualmask.theory.recovery import EVERY, FOOLED, MASKED, SEEN, table
from dualmask.theory.summary import summarise
from dualmask.training import train

BEFORE, AFTER = "the movie was good and the plot", "the movie was unable and the plot"


def untrained(tiny: Callable[[str], Path], family: str, data: Dataset, defence: str = "ddm") -> DefendedClassifier:
    model, tokenizer = load_encoder(tiny(family), data.labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # relative positions, which zeroing does not reach
        classifier = DefendedClassifier(model, tokenizer, build_defence(defence), labels=data.labels, max_length=40)
    classifier.fit_defence(data.train)
    return classifier


def record(before: object, after: object, *, index: int = 0, label: int = 0) -> AttackResult:
    return AttackResult(index=index, text=before, label=label, outcome="failed",  # type: ignore[arg-type]
                        adversarial=after, clean=label, predicted=label,  # type: ignore[arg-type]
                        probability=0.9, probability_after=0.8, queries=3, rows=3, gradients=0, words=7, changed=1,
                        similarity=None, seconds=0.1)


# The points


@pytest.mark.parametrize("family", ABSOLUTE + RELATIVE)
def test_points_are_what_layers_are_given(family: str, tiny: Callable[[str], Path], data: Dataset) -> None:
    classifier = untrained(tiny, family, data)
    model, form = classifier.model, classifier.model.config._attn_implementation
    found, = points_of(classifier, [(BEFORE, AFTER)], [0, 1])
    word, = found.words
    assert (word.place, word.before, word.after) == (3, "good", "unable") and found.attended
    assert model.config._attn_implementation == form and not any(
        layer._forward_pre_hooks for layer in encoder_layers(model))
    model.eval()
    model.set_attn_implementation("eager")
    for text, name in ((BEFORE, "a"), (AFTER, "r")):
        inputs = classifier.encode.tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            output = model.base_model(**{key: value for key, value in inputs.items() if key != "token_type_ids"
                                         or family not in ("distilbert", "mpnet", "modernbert", "deberta-v2")},
                                      output_hidden_states=True, output_attentions=True)
        span = text.index("good" if name == "a" else "unable"), text.index(" and")
        offsets = classifier.encode.tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        columns = [place for place, (start, end) in enumerate(offsets) if end > span[0] and start < span[1]]
        others = [place for place in range(len(offsets)) if place not in columns]
        for layer in (0, 1):
            states = output.hidden_states[layer][0].double().numpy()
            assert np.allclose(getattr(word.layers[layer], name), states[columns].mean(axis=0), atol=1e-5)
            if name == "a":
                weights = output.attentions[layer][0, :, 0].mean(dim=0).double().numpy()[others]
                assert np.allclose(word.layers[layer].s, weights @ states[others] / weights.sum(), atol=1e-5)


def test_a_mask_is_placed_as_the_defence_places_its_own(tiny: Callable[[str], Path], data: Dataset) -> None:
    classifier = untrained(tiny, "bert", data)
    found, = points_of(classifier, [(BEFORE, AFTER)], [0])
    parts = classifier.model.base_model.embeddings
    with torch.no_grad():  # no position at all
        mask = parts.word_embeddings.weight[classifier.encode.mask_id] + parts.token_type_embeddings.weight[0]
        expected = parts.LayerNorm(mask).double().numpy()
    assert np.allclose(found.words[0].layers[0].m, expected, atol=1e-6)
    plain, = points_of(untrained(tiny, "bert", data, "plain"), [(BEFORE, AFTER)], [0])
    assert not np.allclose(plain.words[0].layers[0].m, expected, atol=0.1)


def test_all_changed_words_are_masked_for_m_and_none_counts_for_s(tiny: Callable[[str], Path], data: Dataset) -> None:
    classifier = untrained(tiny, "bert", data)
    after = "the plot was unable and the plot"
    both, = points_of(classifier, [(BEFORE, after)], [1])
    other, = points_of(classifier, [(BEFORE, "the actor was superb and the plot")], [1])
    assert [word.place for word in both.words] == [word.place for word in other.words] == [1, 3]
    for one, two in zip(both.words, other.words, strict=True):  # another replacement, of as many pieces or not
        assert np.allclose(one.layers[1].a, two.layers[1].a) and np.allclose(one.layers[1].s, two.layers[1].s)
    assert np.allclose(points_of(classifier, [(BEFORE, "the actor was x and the plot")], [1])[0].words[1].layers[1].m,
                       other.words[1].layers[1].m, atol=1e-6)


def test_batches_and_padding_change_nothing(tiny: Callable[[str], Path], data: Dataset) -> None:
    classifier = untrained(tiny, "bert", data)
    pairs = [(BEFORE, AFTER), ("bad plot", "poor plot"), ("a " * 20 + "dull", "a " * 20 + "awful")]
    together = points_of(classifier, pairs, [0, 1])
    for whole, pair in zip(together, pairs, strict=True):
        alone, = points_of(classifier, [pair], [0, 1])
        for layer in (0, 1):
            for one, two in zip(whole.words[0].layers[layer], alone.words[0].layers[layer], strict=True):
                assert np.allclose(one, two, atol=1e-5)


def test_pairs_of_texts_have_points_too(tiny: Callable[[str], Path], data: Dataset) -> None:
    classifier = untrained(tiny, "bert", data)
    found, = points_of(classifier, [(("a good film", "the plot"), ("a good film", "the scene"))], [0])
    assert [(word.place, word.before, word.after) for word in found.words] == [(4, "plot", "scene")]


def test_what_is_no_word_for_a_word_is_counted(tiny: Callable[[str], Path], data: Dataset) -> None:
    classifier = untrained(tiny, "bert", data)
    found = points_of(classifier, [("a good plot", "a go od plot"), ("a good plot", "a very good scene"),
                                   ("the " * 50 + "good", "the " * 50 + "bad")], [0])
    assert [(len(one.words), one.others, one.cut) for one in found] == [(0, 2, 0), (1, 1, 0), (0, 0, 1)]


def test_default_layers_and_those_that_are_not_there(tiny: Callable[[str], Path], data: Dataset) -> None:
    assert [default_layers(count) for count in (1, 2, 6, 12)] == [(0,), (0, 1), (0, 3, 5), (0, 6, 11)]
    with pytest.raises(OptionError, match="layer 2 was asked for; this encoder has 2"):
        points_of(untrained(tiny, "bert", data), [(BEFORE, AFTER)], [0, 2])


@contextmanager
def silent(model: object) -> Iterator[None]:
    yield


def test_families_that_do_not_tell_their_attention_get_uniform_weights(
    tiny: Callable[[str], Path], data: Dataset, monkeypatch: pytest.MonkeyPatch,
) -> None:
    classifier = untrained(tiny, "bert", data)
    told, = points_of(classifier, [(BEFORE, AFTER)], [0])
    monkeypatch.setattr("dualmask.models.observation.telling_attention", silent)  # the quick form keeps its weights
    found, = points_of(classifier, [(BEFORE, AFTER)], [0])
    assert not found.attended and not np.allclose(found.words[0].layers[0].s, told.words[0].layers[0].s, atol=1e-3)
    with torch.no_grad():
        states = classifier.model.base_model.embeddings(classifier.encode([BEFORE]).input_ids)[0].double().numpy()
    assert np.allclose(found.words[0].layers[0].s, np.delete(states, 4, axis=0).mean(axis=0), atol=1e-6)
    label = classifier.predict([BEFORE]).probabilities.argmax().item()
    quantities = measure(classifier, given([record(BEFORE, AFTER, label=int(label))]))
    written = markdown(summarise(quantities))
    assert quantities.header["weights"] == "uniform" and "uniform weights" in written
    assert "one that doesn't say how it was trained; asked with ddm" in written


# Measuring


def given(records: Sequence[AttackResult], name: str = "stand-in") -> Found:
    return Found([Attacked(name, "transfer", one) for one in records], ("bad", "good"), [])


@pytest.fixture(scope="module")
def trained(tiny: Callable[[str], Path], data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("theory") / "model"
    train(data, encoder=tiny("bert"), defence="ddm", out=folder, progress=False, training={
        "epochs": 30, "max_length": 40, "learning_rate": 3e-3, "batch_size": 16, "patience": 0, "seed": 3})
    return folder


@pytest.fixture(scope="module")
def classifier(trained: Path) -> DefendedClassifier:
    return DefendedClassifier.load(trained, device="cpu")


@pytest.fixture(scope="module")
def run(classifier: DefendedClassifier, data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as 'dualmask bench' leaves it: an attack on the classifier, and texts that came from elsewhere."""
    folder = tmp_path_factory.mktemp("run") / "records"
    cell = Cell("toy", "tiny", "ddm", "deepwordbug", "adaptive", 0)
    attack(classifier, data.train[:20], "deepwordbug", measure=None, out=folder / cell.file_name, cell=cell.as_dict())
    for defence in ("ddm", "plain"):
        cell = Cell("toy", "tiny", defence, "deepwordbug", "transfer", 0)
        lines = [as_line({"format": 1, "labels": ["bad", "good"], "cell": cell.as_dict()})]
        lines += [record(str(one.text), swapped(str(one.text), number), index=number, label=one.label).as_json()
                  for number, one in enumerate([*data.train, *data.validation, *data.test])]
        (folder / cell.file_name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder.parent


def swapped(text: str, number: int) -> str:
    """One word or two become others, rare, frequent or of the other class."""
    draw, words = random.Random(number), text.split()
    for place in draw.sample(range(len(words)), draw.choice([1, 2])):
        words[place] = draw.choice([word for word in (*GOOD, *BAD, "x", "rare", "unable", "very", "with")
                                    if word != words[place]])
    return " ".join(words)


@pytest.fixture(scope="module")
def measured(classifier: DefendedClassifier, run: Path) -> Quantities:
    return measure(classifier, find_records(run, "ddm"))


def test_words_tell_what_the_classifier_does(
    classifier: DefendedClassifier, run: Path, measured: Quantities,
) -> None:
    _, results = read_results(run / "records" / "toy.tiny.ddm.deepwordbug.transfer.0.jsonl")
    known = {one.index: one for one in results}
    assert len(measured.words) > 50 and {word.mode for word in measured.words} == {"transfer"}
    assert {word.recovered for word in measured.words} == {True, False} == {word.masked for word in measured.words}
    for word in measured.words:
        one = known[word.index]
        assert one.adversarial is not None
        text = str(one.adversarial)
        defended = classifier.predict([text], explain=True)
        bare = classifier.predict([text], defended=False)
        assert classifier.predict([one.text]).probabilities.argmax() == one.label
        assert word.recovered == (defended.probabilities.argmax() == one.label)
        assert word.fooled == (bare.probabilities.argmax() != one.label)
        assert text.split()[word.place].strip("!.,") == word.after and str(one.text).split()[word.place] == word.before
        place = sum(len(part) + 1 for part in text.split()[:word.place])
        assert defended.masked is not None
        assert word.masked == any(place <= mask.start < place + len(word.after) for mask in defended.masked[0])


def test_inner_products_are_those_of_the_points(
    classifier: DefendedClassifier, measured: Quantities, run: Path,
) -> None:
    _, results = read_results(run / "records" / "toy.tiny.ddm.deepwordbug.transfer.0.jsonl")
    known = {one.index: one for one in results}
    word = measured.words[0]
    one = known[word.index]
    found, = points_of(classifier, [(one.text, one.adversarial)], [0, 1])  # type: ignore[list-item]
    a, m, r, s = found.words[0].layers[1]
    assert word.layers[1] == pytest.approx(products(a - s, m - s, r - s).table().tolist(), rel=1e-4)


def test_what_is_left_out_is_counted(classifier: DefendedClassifier, data: Dataset) -> None:
    text = str(data.train[0].text)
    label, long = (int(one) for one in classifier.predict([text, text + " the" * 50]).probabilities.argmax(dim=1))
    changed = " ".join([*text.split()[:-1], "x"])
    records = [record(text, changed, label=label), record(text, changed, index=1, label=label),
               record(text, text, index=2, label=label), record(text, None, index=3, label=label),
               record(text, changed + "s", index=4, label=1 - label), record(text, text + " x y", index=5, label=label),
               record(text + " the" * 50 + " a", text + " the" * 50 + " z", index=6, label=long)]
    found = measure(classifier, given(records))
    left = found.header["left_out"]
    assert isinstance(left, dict)
    assert {name: left[name] for name in (TWICE, UNCHANGED, WRONG, OTHERS, CUT, FAULTY)} == {
        TWICE: 1, UNCHANGED: 2, WRONG: 1, OTHERS: 2, CUT: 1, FAULTY: 2}
    assert len(found.words) == 1 and found.header["texts"] == 3
    with pytest.raises(DataError, match=r"measured: there are 1 records \(the attack changed nothing: 1\)"):
        measure(classifier, given(records[2:3]))
    with pytest.raises(DataError, match=r"there are 0 records\. Give records of an attack"):
        measure(classifier, given([]))
    for labels in (("a", "b", "c"), ("good", "bad")):  # other names of as many classes may mean the same
        with pytest.raises(DataError, match="expected the same ones in the same order"):
            measure(classifier, given(records)._replace(labels=labels))


def test_samples_are_drawn_by_seed(classifier: DefendedClassifier, run: Path) -> None:
    found = find_records(run, "ddm")
    one, same, other = (measure(classifier, found, layers=[1], samples=10, seed=seed) for seed in (1, 1, 2))
    assert one == same and one.words != other.words and one.header["texts"] == 10
    assert {tuple(word.layers) for word in one.words} == {(1,)}


def test_defences_that_rewrite_texts_have_no_split(
    classifier: DefendedClassifier, run: Path, data: Dataset, tiny: Callable[[str], Path],
) -> None:
    plain = DefendedClassifier(classifier.model, classifier.encode.tokenizer,
                               build_defence("ranmask", options={"votes": 3}), labels=data.labels, max_length=40)
    found = measure(plain, find_records(run, "ddm"), samples=20)
    assert {word.masked for word in found.words} == {None}
    assert not {MASKED, SEEN} & {row.group for row in table(found.words)}


def test_a_folder_gives_the_records_of_the_models_defence(run: Path, tmp_path: Path) -> None:
    found = find_records(run, "ddm")
    assert {(one.attack, one.mode) for one in found.texts} == {("deepwordbug", "transfer")}
    assert found.labels == ("bad", "good") and found.notes == [
        "2 files of other classifiers, defences or modes left out."]
    assert {one.mode for one in find_records(run, "ddm", "adaptive").texts} == {"adaptive"}
    with pytest.raises(DataError, match="no records of the defence 'mi4d' in the mode 'transfer'; there are: ddm"):
        find_records(run, "mi4d")
    path = run / "records" / "toy.tiny.ddm.deepwordbug.transfer.0.jsonl"
    with pytest.raises(OptionError, match="leave --mode out"):
        find_records(path, "ddm", "adaptive")
    packed = tmp_path / "records.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert find_records(packed, "ddm") == find_records(path, "mi4d")  # one file is taken as it is
    assert len(find_records(tmp_path, "ddm").texts) == len(find_records(path, "ddm").texts)
    packed.write_bytes(packed.read_bytes()[:200])
    with pytest.raises(DataError, match="can't be unpacked to its end"):
        find_records(packed, "ddm")
    with pytest.raises(DataError, match="does not exist"):
        find_records(tmp_path / "nowhere", "ddm")


def test_records_of_one_classifier_are_chosen(run: Path, tmp_path: Path) -> None:
    """Several seeds in one folder: another seed's texts were made against another network."""
    path = run / "records" / "toy.tiny.ddm.deepwordbug.transfer.0.jsonl"
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    for seed in (0, 1):
        cell = Cell("toy", "tiny", "ddm", "deepwordbug", "transfer", seed)
        told = {**json.loads(header), "cell": cell.as_dict(), "victim": f"classifier {seed}{seed}"}
        (tmp_path / cell.file_name).write_text("\n".join([as_line(told), *lines[:5 + seed]]) + "\n")
    found = find_records(tmp_path, "ddm", fingerprint="11")
    assert len(found.texts) == 6 and found.notes == ["1 file of other classifiers, defences or modes left out."]
    with pytest.raises(DataError, match=r"several classifiers \(toy tiny seed 0, toy tiny seed 1\), none of which"):
        find_records(tmp_path, "ddm", fingerprint="22")
    (tmp_path / "toy.tiny.ddm.deepwordbug.transfer.1.jsonl").unlink()
    assert len(find_records(tmp_path, "ddm", fingerprint="22").texts) == 5  # weights were altered a little, say


def test_answers_other_than_recorded_are_counted(classifier: DefendedClassifier, run: Path) -> None:
    found = find_records(run, "ddm", "adaptive")
    asked = measure(classifier, found)
    assert asked.header["other_answers"] == 0 and asked.header["attacks"] == "deepwordbug adaptive"
    texts = [one._replace(result=replace(one.result, predicted=1 - (one.result.predicted or 0))) for one in found.texts]
    wrong = measure(classifier, found._replace(texts=texts))
    assert wrong.header["other_answers"] == asked.header["texts"]
    assert f"other answers than recorded: {asked.header['texts']} of" in markdown(summarise(wrong))


def test_a_file_of_the_python_function_will_do(classifier: DefendedClassifier, data: Dataset, tmp_path: Path) -> None:
    attack(classifier, data.train[:6], "deepwordbug", measure=None, out=tmp_path / "a.jsonl")
    found = find_records(tmp_path / "a.jsonl", "ddm")
    assert {(one.attack, one.mode) for one in found.texts} == {("deepwordbug", "adaptive")} and len(found.texts) == 6
    (tmp_path / "b.jsonl").write_text("")
    with pytest.raises(DataError, match="empty or its first line is cut off"):
        find_records(tmp_path / "b.jsonl", "ddm")
    (tmp_path / "c.jsonl.gz").write_text("no gzip")
    with pytest.raises(DataError, match=r"c\.jsonl\.gz can't be unpacked to its end"):
        find_records(tmp_path / "c.jsonl.gz", "ddm")


def test_records_of_other_classes_are_not_mixed(run: Path, tmp_path: Path) -> None:
    for number, labels in enumerate((["bad", "good"], ["good", "bad"])):
        path = run / "records" / "toy.tiny.ddm.deepwordbug.transfer.0.jsonl"
        header, *lines = path.read_text(encoding="utf-8").splitlines()
        (tmp_path / f"{number}.jsonl").write_text("\n".join([as_line({**json.loads(header), "labels": labels}),
                                                             *lines]) + "\n")
    with pytest.raises(DataError, match="different classes"):
        find_records(tmp_path, "ddm")


# Tables, plots, files


def test_rows_are_layers_and_groups(measured: Quantities) -> None:
    rows = table(measured.words)
    assert [row.layer for row in rows] == [0] * 4 + [1] * 4
    assert [row.group for row in rows[:4]] == [EVERY, MASKED, SEEN, FOOLED]
    whole, masked, seen, fooled = rows[:4]
    assert whole.words == masked.words + seen.words == len(measured.words) and fooled.texts < whole.texts
    texts = {word.text: word.recovered for word in measured.words}
    assert whole.texts == len(texts) and whole.recovered.value == pytest.approx(sum(texts.values()) / len(texts))
    assert whole.recovered.low < whole.recovered.value < whole.recovered.high
    holds = [word for word in measured.words if word.masked]
    assert masked.recovered.value == pytest.approx(np.mean([one for _, one in {
        word.text: (word, word.recovered) for word in holds}.values()]), abs=1e-6)
    twice = table([*measured.words, *(replace(word, attack="other") for word in measured.words)])
    assert [row.group for row in twice[:3]] == [EVERY, "deepwordbug", "other"]
    # Twice the attacks on the same texts make no figure surer
    assert twice[0].recovered == whole.recovered and twice[0].words == 2 * whole.words


def synthetic(count: int, *, seed: int = 0, signal: float = 3.0) -> Quantities:
    """Words whose texts are recovered the more likely, the longer v_r is."""
    generator = np.random.default_rng(seed)
    words = []
    for number in range(count):
        a, m, r = generator.normal(size=(3, 8))
        chance = 1 / (1 + math.exp(-signal * math.log(np.linalg.norm(r) / 2.7)))
        words.append(ChangedWord(
            index=number, source=str(number), attack="stand-in", mode="transfer", place=0, before="a", after="b",
            masked=bool(number % 2), fooled=True, recovered=bool(generator.random() < chance),
            layers={3: tuple(products(a, m, r).table().tolist())}))
    return Quantities({"format": 1, "kind": "theory", "holds": "words", "layer_count": 12}, words)


def test_our_rule_finds_what_the_condition_does_not() -> None:
    row = table(synthetic(400).words)[0]
    rule, condition = row.auroc["rule"], row.auroc["condition"]
    assert rule is not None and condition is not None and rule.low > 0.6 and rule.value > condition.value
    summary = summarise(synthetic(400))
    rules = summary.header["rules"]
    assert isinstance(rules, dict)
    weights = {name: one["weight"] for name, one in rules["3"]["rule"]["inputs"].items()}
    assert max(weights, key=lambda name: abs(weights[name])) == "log |v_r|" and weights["log |v_r|"] > 0
    assert any("Better than a coin" in sentence and "our rule at layer 3" in sentence for sentence in findings(summary))
    turned = synthetic(400)._replace(words=[replace(one, recovered=not one.recovered) for one in synthetic(400).words])
    assert any("Worse than a coin" in sentence and "E_m <= E_r at layer 3" in sentence
               for sentence in findings(summarise(turned)))
    few = summarise(synthetic(60))
    assert few.header["rules"] == {} and few.rows[0].auroc["rule"] is None and "| - |" in markdown(few)
    assert "Nothing was fitted" in markdown(few) and "Nothing was fitted" not in markdown(summary)


def test_nothing_is_concluded_from_a_handful_of_texts() -> None:
    """With one text recovered of seven, an interval of 1 to 1 is no evidence."""
    words = [replace(one, recovered=not number) for number, one in enumerate(synthetic(7).words)]
    told = " ".join(findings(summarise(synthetic(7)._replace(words=words))))
    assert "than a coin" not in told
    assert "takes 50 texts that are recovered, here 1, and as many that are not, here 6." in told


@pytest.mark.parametrize("six", [
    (0, 0, 0, 0, 0, 0), (1, 0, 1, 0, 1, 0), (0, 1, 1, 0, 0, 1), (1, 1, 0, 1, 0, 0), (2, 2, 2, 2, 2, 2),
])  # fmt: skip
@pytest.mark.parametrize("recovered", [None, True, False])
def test_degenerate_geometry_never_leaves_a_nan(six: tuple[float, ...], recovered: bool | None) -> None:
    """Zero vectors, a = s, m = r, all texts alike: every cell is a number or a dash, every plot can be drawn."""
    words = [replace(word, layers={3: tuple(map(float, six))},
                     recovered=word.recovered if recovered is None else recovered) for word in synthetic(120).words]
    found = Quantities(synthetic(1).header, words)
    with np.errstate(divide="raise", invalid="raise"):
        told = markdown(summarise(found))
        drawn = geometry_plot(found) + recovery_plot(found)
    assert "nan" not in told.lower() and "inf" not in told.lower() and "nan" not in drawn.lower()
    alone = Quantities(found.header, found.words[:1])
    assert "nan" not in markdown(summarise(alone)).lower()
    assert ElementTree.fromstring(geometry_plot(alone)).tag.endswith("svg")


def test_quantities_are_written_and_read(measured: Quantities, tmp_path: Path) -> None:
    path = tmp_path / "words.jsonl"
    path.write_text(lines_of(measured), encoding="utf-8")
    again = read_quantities(path)
    assert again.words == measured.words and markdown(summarise(again)) == markdown(summarise(measured))
    assert geometry_plot(again) == geometry_plot(measured) and recovery_plot(again) == recovery_plot(measured)
    assert list(record_files(tmp_path)) == []  # reports leave such files alone


@pytest.mark.parametrize("wrong", [
    {"layers": {}}, {"layers": {"0": [1, 2, 3]}}, {"layers": {"0": [1, 1, 1, 0, 0, float("nan")]}},
    {"layers": {"0": [-1, 1, 1, 0, 0, 0]}}, {"layers": {"x": [1, 1, 1, 0, 0, 0]}}, {"masked": 1}, {"recovered": None},
    {"place": -1}, {"source": 5}, {"layers": {"1": [1, 1, 1, 0, 0, 0]}},
])  # fmt: skip
def test_damaged_quantities_are_refused(wrong: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "words.jsonl"
    first, second = synthetic(2).words
    damaged = {**json.loads(second.as_json()), **wrong}
    path.write_text("\n".join([as_line(synthetic(2).header), first.as_json(), json.dumps(damaged)]) + "\n")
    with pytest.raises(DataError, match=r"line 3|different layers"):
        read_quantities(path)
    path.write_text(as_line({"format": 1}) + "\n")
    with pytest.raises(DataError, match="holds no geometric quantities"):
        read_quantities(path)


def test_the_geometry_is_seen_along_the_victim() -> None:
    found = seen_along(products([[2, 0, 0], [0, 0, 0]], [[1, 3, 4], [1, 1, 1]], [[0, 0, 1], [1, 1, 1]]), "m")
    assert found.tolist() == [[0.5, 2.5]]  # a zero v_a gives no direction


def test_groups_of_a_plot_keep_ties_together() -> None:
    recovered = np.array([0.0, 1, 0, 1, 1, 1, 1, 1])
    assert grouped(np.zeros(8), recovered) == [(0.5, 6, 8)]
    split = grouped(np.array([0.0, 0, 0, 0, 0, 0, 1, 2]), recovered)
    assert [(part, whole) for _, part, whole in split] == [(4, 6), (2, 2)]
    even = grouped(np.arange(100.0), np.ones(100))
    assert [whole for _, _, whole in even] == [20] * 5 and even[0][0] < 0.1 < 0.9 < even[-1][0]


def test_plots_are_drawings_by_themselves(measured: Quantities) -> None:
    for drawn in (geometry_plot(measured), recovery_plot(measured)):
        tree = ElementTree.fromstring(drawn)
        words = ["".join(one.itertext()) for one in tree.iter("{http://www.w3.org/2000/svg}text")]
        assert {"layer 0, the embeddings", "layer 1, the last"} <= set(words) and tree.get("aria-label")
        assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "") and "var(" not in drawn
    assert geometry(measured.words, 0).size.shape == (len(measured.words),)


# The command


def test_the_command_prints_and_writes(trained: Path, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["theory", str(trained), str(run), "--out", str(out), "--quiet"])
    assert result.exit_code == 0, result.output
    names = ["geometry.svg", "recovery.svg", "table.jsonl", "table.md", "words.jsonl"]
    assert sorted(path.name for path in out.iterdir()) == names
    found = read_quantities(out / "words.jsonl")
    assert (out / "table.md").read_text() == markdown(summarise(found))
    assert (out / "geometry.svg").read_text() == geometry_plot(found)
    header, *rows = [json.loads(line) for line in (out / "table.jsonl").read_text().splitlines()]
    assert header["kind"] == "theory" and header["layers"] == [0, 1] and header["defence"]["name"] == "ddm"
    assert [row["group"] for row in rows] == [row.group for row in table(found.words)]
    assert rows[0]["condition"] == list(table(found.words)[0].condition)
    for part in ("layer 0, the embeddings", "attacked word masked", "AUROC for recovery", "no theorem",
                 "2 files of other classifiers, defences or modes left out"):
        assert part in result.output
    again = CliRunner().invoke(app, ["theory", str(trained), str(run), "--out", str(out), "--quiet"])
    assert isinstance(again.exception, OptionError) and "--overwrite" in str(again.exception)
    less = CliRunner().invoke(app, ["theory", str(trained), str(run), "--out", str(out), "--overwrite", "--layer", "1",
                                    "--samples", "15", "--quiet"])
    assert less.exit_code == 0 and "layer 0" not in less.output and read_quantities(out / "words.jsonl").words
    assert len(read_cells(run).cells) == 3


@pytest.mark.parametrize("layers", [1, 3, 5])
def test_tables_fit_80_columns(layers: int) -> None:
    """No heading is broken inside a word, no row is folded; all words come with intervals."""
    words = [replace(word, attack=attack, layers=dict.fromkeys(range(0, 3 * layers, 3), word.layers[3]))
             for attack in ("deepwordbug", "textfooler") for word in synthetic(200).words]
    stream = StringIO()
    show(Console(file=stream, width=80, color_system=None), summarise(Quantities(synthetic(1).header, words)))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 80 and "ordering, ordering," in stream.getvalue()
    for name in ("attacked word masked", "attacked word seen"):
        cells = [len(line.removeprefix(name).split()) for line in lines if line.startswith(name)]
        assert cells == [7] * 2 * layers
    whole = [line for line in lines if re.match(r"our rule and counts +[\d-]", line)]
    assert len(whole) == -(-layers // 3) and sum(line.count(" to ") for line in whole) == layers


def test_the_experiment_makes_texts_against_the_plain_classifier() -> None:
    grid = read_grid(Path(__file__).parents[1] / "experiments" / "theory.toml")
    tasks = [task.cell for task in make_plan(grid).tasks]
    assert {(one.attack, one.mode) for one in tasks if one.defence == "ddm"} == {
        ("deepwordbug", "transfer"), ("textfooler", "transfer")}


@pytest.mark.parametrize(("arguments", "told"), [
    (["--layer", "7"], "layer 7 was asked for"), (["--mode", "defence-aware"], "no records of the defence 'ddm'"),
    (["--out", "taken"], "is a file; give a folder"),
])  # fmt: skip
def test_mistakes_on_the_command_line_are_told(
    arguments: list[str], told: str, trained: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("x")
    result = CliRunner().invoke(app, ["theory", str(trained), str(run), "--quiet", *arguments])
    assert isinstance(result.exception, OptionError | DataError) and told in str(result.exception)
