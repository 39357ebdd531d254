# SPDX-License-Identifier: Apache-2.0
"""Text-RS: noise on embeddings, as wide as a word's synonyms lie apart."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from attack_stand_ins import tiny_classifier
from torch import Tensor

from dualmask.attacks.gradients import GradientOracle
from dualmask.classifier import DefendedClassifier
from dualmask.defences.textrs import TextRS, TextRSOptions, token_synonyms, whole_words
from dualmask.errors import DualmaskError, OptionError
from dualmask.models.encoders import load_encoder
from dualmask.seeds import gaussian
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Dataset
from dualmask.text.synonyms import load_vectors

# Degrees on a circle; synonyms are up to 36 degrees apart. "unable" and "films" are no single tokens.
CIRCLE = {"good": 0, "great": 20, "fine": 45, "bad": 180, "films": 260, "movie": 270, "plot": 300, "unable": 310}
TEXTS = ["the movie was good", "a bad plot", "x", "", "the plot of the movie was rarely unable !"]


@pytest.fixture
def vectors(tmp_path: Path) -> str:
    turns = {word: math.radians(place) for word, place in CIRCLE.items()}
    (tmp_path / "vectors.txt").write_text("\n".join(
        f"{word} {math.cos(turn)} {math.sin(turn)}" for word, turn in turns.items()))
    return str(tmp_path / "vectors.txt")


def guarded(tiny: Callable[[str], Path], data: Dataset, vectors: str, **options: object) -> DefendedClassifier:
    plain = tiny_classifier(tiny("bert"), "plain", data)
    defence = TextRS(TextRSOptions(synonyms=vectors, **options))  # type: ignore[arg-type]
    found = DefendedClassifier(plain.model, plain.encode.tokenizer, defence, labels=data.labels, max_length=40)
    found.fit_defence(data.train)
    found.network.eval()
    return found


def token(classifier: DefendedClassifier, word: str) -> int:
    return int(classifier.encode.tokenizer.convert_tokens_to_ids(word))


def heard(classifier: DefendedClassifier, batch: Batch, embeddings: Tensor | None = None) -> Tensor:
    """The noise that reaches the network, (rows, length, size)."""
    seen: list[Tensor] = []

    def listen(batch: Batch, embeddings: Tensor | None = None) -> Tensor:
        assert embeddings is not None
        seen.append(embeddings.detach())
        return classifier.network(batch, embeddings)

    classifier.defence.answer(listen, batch, embeddings)
    clean = classifier.model.get_input_embeddings()(batch.input_ids) if embeddings is None else embeddings
    return seen[0] - clean.detach()


def view(classifier: DefendedClassifier, texts: list[str], numbers: list[int]) -> Batch:
    return classifier.defence.inference_view(texts, numbers, classifier.encode, torch.device("cpu"))


# Radii


def test_a_radius_is_the_distance_of_the_farthest_synonym(
    tiny: Callable[[str], Path], data: Dataset, vectors: str,
) -> None:
    classifier = guarded(tiny, data, vectors)
    table = classifier.model.get_input_embeddings().weight.detach()
    synonyms = {"good": ["great"], "great": ["good", "fine"], "fine": ["great"], "movie": ["plot"], "plot": ["movie"]}
    expected = torch.zeros(len(table))
    for word, others in synonyms.items():
        expected[token(classifier, word)] = max(
            float((table[token(classifier, word)] - table[token(classifier, other)]).norm()) for other in others)
    assert torch.allclose(classifier.defence.scales, expected) and expected.max() > 1  # type: ignore[arg-type]


def test_tokens_without_synonyms_take_the_floor(tiny: Callable[[str], Path], data: Dataset, vectors: str) -> None:
    bare, raised = (guarded(tiny, data, vectors, floor=floor).defence.scales for floor in (0.0, 1.2))
    assert isinstance(bare, Tensor) and isinstance(raised, Tensor)
    assert (bare == 0).sum() == len(bare) - 5 and torch.equal(raised, bare.clamp(min=1.2))


def test_a_stricter_cosine_leaves_fewer_synonyms(tiny: Callable[[str], Path], data: Dataset, vectors: str) -> None:
    classifier = guarded(tiny, data, vectors, threshold=0.93)  # 21 degrees
    scales = classifier.defence.scales
    assert isinstance(scales, Tensor)
    assert sorted(scales.nonzero().flatten().tolist()) == sorted(token(classifier, one) for one in ("good", "great"))


def test_words_are_found_in_every_way_that_they_are_written(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    """Byte-level tokenizers write a word differently in each case, and where it stands first."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    specials, words = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], ["go", "Go", "GO", "it", "It", "IT"]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*specials, *letters, *words, *(f"\u0120{word}" for word in words)]
    vocabulary = {one: number for number, one in enumerate(tokens)}
    merges = [(word[0], word[1]) for word in words] + [("\u0120", word) for word in words]
    backend = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    encode = Encode(PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", pad_token="<pad>", cls_token="<s>", sep_token="</s>",
        bos_token="<s>", eos_token="</s>", mask_token="<mask>"))
    (tmp_path / "two.txt").write_text("go 1 0\nit 0.9 0.1\nfar 0.9 0.1")
    pairs = token_synonyms(load_vectors(tmp_path / "two.txt"), 0.8, encode)
    written = {(tokens[one], tokens[other]) for one, other in pairs.tolist()}
    expected = [(f"{before}{one}", f"{before}{other}") for before in ("", "\u0120")
                for one, other in (("go", "it"), ("Go", "It"), ("GO", "IT"))]
    assert written == {*expected, *((other, one) for one, other in expected)}


def test_the_unknown_token_is_nobodys_synonym(tiny: Callable[[str], Path], data: Dataset) -> None:
    encode = tiny_classifier(tiny("bert"), "plain", data).encode
    assert set(whole_words({"good": "good", "zebra": "zebra", "unable": "unable", "the": "the"}, encode)) == {
        "good", "the"}


# Noise


@pytest.mark.parametrize(("shape", "scale"), [("gaussian", 1.0), ("gaussian", 0.5), ("uniform", 2.0)])
def test_noise_is_as_wide_as_the_radius(
    shape: str, scale: float, tiny: Callable[[str], Path], data: Dataset, vectors: str,
) -> None:
    classifier = guarded(tiny, data, vectors, shape=shape, scale=scale)
    text = "the good plot was great unable ."
    found = heard(classifier, view(classifier, [text] * 2000, list(range(2000))))
    ids = classifier.encode([text]).input_ids[0]
    radii = classifier.defence.scales[ids] * scale  # type: ignore[index]
    lengths = found.norm(dim=2)  # (rows, length)
    share = 1.0 if shape == "gaussian" else 1 / 3  # of the squared radius, on average
    assert torch.allclose(lengths.square().mean(dim=0), share * radii.square(), rtol=0.03)
    assert (lengths[:, radii == 0] == 0).all() and (radii > 0).sum() == 3
    noisy = found[:, radii > 0] / radii[radii > 0][:, None]
    assert noisy.mean(dim=0).abs().max() < 0.03
    assert noisy.var(dim=0).mul(16).sub(share).abs().max() < 0.2  # alike in all 16 directions
    if shape == "uniform":
        assert (lengths <= radii * 1.0001).all() and lengths.max() > 0.6 * radii.max()


def test_special_tokens_have_no_noise(tiny: Callable[[str], Path], data: Dataset, vectors: str) -> None:
    classifier = guarded(tiny, data, vectors, floor=1.0)
    batch = view(classifier, ["good", "the plot was"], [0, 0])
    found = heard(classifier, batch)
    assert torch.equal(found.norm(dim=2) > 0, batch.body)


def test_noise_depends_on_text_and_number_alone(tiny: Callable[[str], Path], data: Dataset, vectors: str) -> None:
    classifier = guarded(tiny, data, vectors)
    alone = heard(classifier, view(classifier, [TEXTS[0]], [3]))
    padded = heard(classifier, view(classifier, [TEXTS[4], TEXTS[0], TEXTS[0]], [0, 2, 3]))
    assert torch.allclose(padded[2, :alone.shape[1]], alone[0], atol=1e-6) and alone.abs().max() > 0
    assert not torch.allclose(padded[1], padded[2], atol=1e-3)
    one = torch.cat([classifier.predict([text]).probabilities for text in TEXTS])
    many = classifier.predict(TEXTS[::-1], batch_size=3)
    assert torch.allclose(many.probabilities.flip(0), one, atol=1e-5)
    assert many.passes is not None and many.passes.tolist() == [20] * len(TEXTS)
    classifier.defence.redraw(1)
    assert not torch.allclose(classifier.predict(TEXTS).probabilities, one, atol=1e-5)


def test_seeds_give_the_noise(tiny: Callable[[str], Path], data: Dataset, vectors: str) -> None:
    classifier = guarded(tiny, data, vectors)
    batch = view(classifier, ["good"], [0])
    assert batch.seeds is not None
    width = classifier.defence.scales[token(classifier, "good")] / 4  # type: ignore[index]
    assert torch.allclose(heard(classifier, batch)[0, 1], width * gaussian(batch.seeds, 3, 16)[0, 1], atol=1e-6)


@pytest.mark.parametrize("shape", ["gaussian", "uniform"])
def test_training_is_noisy_by_the_loops_seed(
    shape: str, tiny: Callable[[str], Path], data: Dataset, vectors: str,
) -> None:
    classifier = guarded(tiny, data, vectors, shape=shape)
    batch = classifier.defence.training_view(["good plot"] * 400, [0] * 400, classifier.encode, torch.Generator())
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(heard(classifier, batch))
    assert torch.equal(found[0], found[1]) and not torch.allclose(found[0], found[2])
    radius = classifier.defence.scales[token(classifier, "good")]  # type: ignore[index]
    share = 1.0 if shape == "gaussian" else 1 / 3
    assert torch.allclose(found[0][:, 1].square().sum(dim=1).mean(), share * radius.square(), rtol=0.1)
    assert found[0][:, 1].mean().abs() < 0.02 * radius
    loss, _ = classifier.defence.loss(classifier.network, batch)
    loss.backward()
    gradient = classifier.model.get_input_embeddings().weight.grad
    assert gradient is not None and gradient[token(classifier, "good")].abs().max() > 0


def test_without_noise_it_is_the_plain_classifier(tiny: Callable[[str], Path], data: Dataset, vectors: str) -> None:
    classifier = guarded(tiny, data, vectors, scale=0.0, votes=2)
    found, bare = (classifier.predict(TEXTS, defended=defended).probabilities for defended in (True, False))
    assert torch.allclose(found, bare, atol=1e-5)
    noisy = guarded(tiny, data, vectors, votes=2).predict(TEXTS).probabilities
    changed = (noisy - bare).abs().amax(dim=1) > 1e-3
    assert changed.tolist() == [True, True, False, False, True]  # two texts have no word with synonyms


def test_a_mean_of_logits_answers(tiny: Callable[[str], Path], data: Dataset, vectors: str) -> None:
    classifier = guarded(tiny, data, vectors, votes=6)
    logits = classifier.logits(TEXTS)
    assert torch.allclose(classifier.predict(TEXTS).probabilities, logits.mean(dim=0).softmax(dim=1), atol=1e-5)
    votes = guarded(tiny, data, vectors, votes=6, decision="vote").predict(TEXTS, early=False).probabilities * 6
    assert torch.allclose(votes, votes.round(), atol=1e-4)


def test_fresh_noise_differs_each_time(tiny: Callable[[str], Path], data: Dataset, vectors: str) -> None:
    classifier = guarded(tiny, data, vectors, noise="fresh", votes=1)
    first, second = (classifier.predict(TEXTS[:1]).probabilities for _ in range(2))
    assert classifier.defence.noise == "fresh" and not torch.equal(first, second)


# With the rest of the library


def test_gradients_pass_through_the_noise(tiny: Callable[[str], Path], data: Dataset, vectors: str) -> None:
    classifier = guarded(tiny, data, vectors)
    batch = view(classifier, [TEXTS[0]] * 2, [0, 1])
    given = classifier.model.get_input_embeddings()(batch.input_ids).detach() + 0.5
    assert torch.allclose(heard(classifier, batch, given), heard(classifier, batch), atol=1e-6)
    with torch.no_grad():
        own = classifier.model.get_input_embeddings()(batch.input_ids)
        assert torch.allclose(classifier.defence.answer(classifier.network, batch, own),
                              classifier.defence.answer(classifier.network, batch))
    gradient, = GradientOracle(classifier).answers([(TEXTS[0], 0)])
    assert gradient.vectors.shape == (4, 16) and np.abs(gradient.vectors).min(axis=1).max() > 0


def test_saved_classifiers_answer_the_same(
    tiny: Callable[[str], Path], data: Dataset, vectors: str, tmp_path: Path,
) -> None:
    classifier = guarded(tiny, data, vectors, shape="uniform", votes=3)
    folder = classifier.save(tmp_path / "model")
    Path(vectors).unlink()  # radii are saved: the table isn't needed any more
    again = DefendedClassifier.load(folder, device="cpu")
    assert torch.equal(again.predict(TEXTS).probabilities, classifier.predict(TEXTS).probabilities)
    assert list(classifier.defence.state_dict()) == ["scales"]


def test_pairs_empty_texts_and_explanations(tiny: Callable[[str], Path], data: Dataset, vectors: str) -> None:
    classifier = guarded(tiny, data, vectors, votes=3)
    pairs = [("good movie", "bad"), ("", "plot"), ("", "")]
    assert torch.isfinite(classifier.predict(pairs).probabilities).all()
    found = classifier.predict(["", "good\ud800", "the " * 100], explain=True)
    assert torch.isfinite(found.probabilities).all() and found.masked == [[], [], []]
    assert classifier.predict([]).labels == []


@pytest.mark.parametrize("family", ["distilbert", "electra", "deberta-v2", "mpnet", "roberta"])
def test_other_encoders(family: str, tiny: Callable[[str], Path], data: Dataset, vectors: str) -> None:
    model, tokenizer = load_encoder(tiny(family), data.labels)
    defence = TextRS(TextRSOptions(synonyms=vectors, votes=2, floor=1.0))
    classifier = DefendedClassifier(model, tokenizer, defence, labels=data.labels, max_length=40)
    classifier.fit_defence([])
    batch = view(classifier, TEXTS, [0] * len(TEXTS))
    assert torch.equal(heard(classifier, batch).norm(dim=2) > 0, batch.body)
    assert torch.isfinite(classifier.predict(TEXTS).probabilities).all()


def test_impossible_options_are_refused(tiny: Callable[[str], Path], data: Dataset) -> None:
    for options in ({"scale": -1.0}, {"floor": -0.1}, {"threshold": 0.2}, {"votes": 0}, {"scale": math.nan}):
        with pytest.raises(OptionError, match=next(iter(options))):
            TextRSOptions(**options)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="no file of that name"):
        guarded(tiny, data, "nowhere.txt")
    with pytest.raises(DualmaskError, match="adapt"):
        TextRS().fit([], tiny_classifier(tiny("bert"), "plain", data).encode)
    with pytest.raises(OptionError, match="no certificate"):
        TextRS().radius("good", 0.9, tiny_classifier(tiny("bert"), "plain", data).encode)


def test_the_card() -> None:
    assert {"Paper", "Idea", "Acts at", "Deviations", "Relations"} == set(TextRS.card().sections)
    assert TextRS.paper is not None and not TextRS.certificate and TextRS.explainable
    assert str(TextRS().views) == TextRS.passes and replace(TextRS().options).decision == "mean"
