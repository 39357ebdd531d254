# SPDX-License-Identifier: Apache-2.0
"""RSMI: which tokens it masks, where its noise is, when it asks again, and what it trains on."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import combinations
from math import comb
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest
import torch
from conftest import BAD, GOOD, reviews
from torch import Tensor, nn
from torch.nn import functional as F

from dualmask.classifier import DefendedClassifier
from dualmask.defences import DEFENCES
from dualmask.defences.base import Defence
from dualmask.defences.rsmi import RSMI, RSMIOptions
from dualmask.errors import OptionError
from dualmask.models.encoders import load_encoder, logits, model_inputs, prepare
from dualmask.models.layer_noise import encoder_layers, noisy
from dualmask.text.encoding import Batch
from dualmask.text.examples import Dataset, Example
from dualmask.training import train

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TEXTS = [str(example.text) for example in reviews(6, seed=4)] + ["", "x", "good .", "the plot of a movie , unable !"]
LONG = "the movie was a plot and a very good actor with a poor scene"
FAMILIES = ["bert", "roberta", "distilbert", "electra", "mpnet", "deberta-v2", "modernbert"]
Tiny = Callable[[str], Path]


def guarded(tiny: Tiny, data: Dataset, family: str = "bert", **options: object) -> DefendedClassifier:
    """Random weights, its head included."""
    model, tokenizer = load_encoder(tiny(family), data.labels)
    torch.manual_seed(3)
    for name, weight in model.named_parameters():
        if "classifier" in name:
            nn.init.normal_(weight, std=0.3)
    defence = RSMI(RSMIOptions(**options))  # type: ignore[arg-type]
    classifier = DefendedClassifier(model.eval(), tokenizer, defence, labels=data.labels, max_length=40)
    classifier.fit_defence(data.train)
    return classifier


def deep(tiny: Tiny, layers: int = 8) -> "PreTrainedModel":
    from transformers import AutoConfig, AutoModelForSequenceClassification

    torch.manual_seed(1)
    config = AutoConfig.from_pretrained(tiny("bert"), num_hidden_layers=layers)
    model = AutoModelForSequenceClassification.from_config(config).eval()
    prepare(model)
    return model


def norms_by_hand(classifier: DefendedClassifier, text: str, label: int | None = None) -> list[float]:
    """|| d CE / d embedding || of each of the text's own tokens, in their order; one text, one backward pass."""
    batch, model = classifier.encode([text]), classifier.model
    given = model.get_input_embeddings()(batch.input_ids).detach().clone().requires_grad_()
    arguments = model_inputs(model, batch)
    del arguments["input_ids"]
    answer = model(inputs_embeds=given, **arguments).logits
    (-answer.log_softmax(dim=1)[0, int(answer.argmax()) if label is None else label]).backward()
    model.zero_grad(set_to_none=True)
    assert given.grad is not None
    return [float(given.grad[0, place].norm()) for place in batch.body[0].nonzero().flatten()]


def masked_places(view: Batch, row: int) -> list[int]:
    return [place for place, is_masked in enumerate(view.masks[row][view.body[row]].tolist()) if is_masked]


# Masks


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "deberta-v2"])
def test_the_first_round_masks_the_tokens_of_the_highest_gradients(family: str, tiny: Tiny, data: Dataset) -> None:
    classifier = guarded(tiny, data, family)
    asked = [text for text in TEXTS for _ in range(2)]
    with torch.no_grad():
        view = classifier.defence.inference_view(asked, [0, 4] * len(TEXTS), classifier.encode, torch.device("cpu"))
    whole = classifier.encode(asked)
    for row, text in enumerate(TEXTS):
        norms = norms_by_hand(classifier, text)
        highest = sorted(sorted(range(len(norms)), key=lambda place: -norms[place])[:2])
        assert masked_places(view, 2 * row) == masked_places(view, 2 * row + 1) == highest
    assert (view.input_ids[view.masks] == classifier.encode.mask_id).all()
    assert torch.equal(view.input_ids[~view.masks], whole.input_ids[~view.masks])
    assert view.mask_position == "normal" and view.seeds is not None and len(set(view.seeds.tolist())) == len(asked)
    assert all(weight.grad is None for weight in classifier.model.parameters())


def test_the_second_round_draws_its_masks_from_the_candidates(tiny: Tiny, data: Dataset) -> None:
    classifier = guarded(tiny, data, second=2000)
    with torch.no_grad():
        view = classifier.defence.inference_view([LONG] * 2000, range(5, 2005), classifier.encode, torch.device("cpu"))
    norms = norms_by_hand(classifier, LONG)
    five = sorted(range(len(norms)), key=lambda place: -norms[place])[:5]
    drawn = [tuple(masked_places(view, row)) for row in range(2000)]
    assert set(drawn) == {tuple(sorted(pair)) for pair in combinations(five, 2)}
    counts = [drawn.count(pair) for pair in set(drawn)]
    assert sum((count - 200) ** 2 / 200 for count in counts) < 27.9  # chi-squared, 9 degrees, 1 in 1,000


def test_short_texts_lose_what_they_have(tiny: Tiny, data: Dataset) -> None:
    classifier = guarded(tiny, data)
    texts = ["", "x", "x y", "x y z"]
    for number, expected in ((0, [0, 1, 2, 2]), (9, [0, 1, 2, 2])):
        with torch.no_grad():
            view = classifier.defence.inference_view(texts, [number] * 4, classifier.encode, torch.device("cpu"))
        assert view.masks.sum(dim=1).tolist() == expected and not (view.masks & ~view.body).any()


# Noise


def noise_at_layers(model: "PreTrainedModel", batch: Batch, deviation: float, every: int) -> list[Tensor]:
    """What the layers above get minus what each layer gave."""
    layers = encoder_layers(model)
    given: list[Tensor] = []
    taken: list[Tensor] = []
    hooks = [layer.register_forward_hook(lambda layer, inputs, output: given.append(output)) for layer in layers]
    hooks += [layer.register_forward_pre_hook(lambda layer, inputs: taken.append(inputs[0])) for layer in layers[1:]]
    hooks.append(model.base_model.encoder.register_forward_hook(  # type: ignore[union-attr]
        lambda encoder, inputs, output: taken.append(output[0])))
    with torch.no_grad(), noisy(layers[::every], deviation, batch.seeds):
        logits(model, batch)
    for hook in hooks:
        hook.remove()
    return [after - before for before, after in zip(given, taken, strict=True)]


@pytest.mark.parametrize("seeded", [True, False])
def test_every_third_layer_is_noisy(seeded: bool, tiny: Tiny, data: Dataset) -> None:
    classifier, model = guarded(tiny, data), deep(tiny)
    batch = classifier.encode([LONG] * 200)
    batch = replace(batch, seeds=torch.arange(200) if seeded else None)
    found = noise_at_layers(model, batch, 0.2, 3)
    assert [bool(noise.any()) for noise in found] == [True, False, False, True, False, False, True, False]
    for noise in (found[0], found[3], found[6]):
        assert abs(noise.std() - 0.2) < 0.004 and abs(noise.mean()) < 0.004
    between = torch.corrcoef(torch.stack([found[0].flatten(), found[3].flatten(), found[6].flatten(),
                                          found[0].roll(1, 0).flatten(), found[0].roll(1, 1).flatten()]))
    assert (between - torch.eye(5)).abs().max() < 0.02


def test_a_rows_noise_depends_on_its_seed_alone(tiny: Tiny, data: Dataset) -> None:
    classifier, model = guarded(tiny, data), deep(tiny, layers=7)  # the last layer, which gives one token, is noisy
    alone = replace(classifier.encode(["a plot"]), seeds=torch.tensor([7]))
    other = replace(classifier.encode(["a plot", LONG]), seeds=torch.tensor([7, 8]))
    short, padded = noise_at_layers(model, alone, 0.5, 3), noise_at_layers(model, other, 0.5, 3)
    for one, two in zip(short, padded, strict=True):
        assert torch.allclose(one[0], two[0, :one.shape[1]], atol=1e-5)
    assert short[6].shape[1] == 1 and short[6].any()
    with torch.enable_grad(), noisy(encoder_layers(model)[::3], 0.5, alone.seeds):
        whole = logits(model, alone)
    with torch.no_grad(), noisy(encoder_layers(model)[::3], 0.5, alone.seeds):
        assert torch.allclose(logits(model, alone), whole, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_noise_is_gone_when_it_is_over(family: str, tiny: Tiny, data: Dataset) -> None:
    classifier = guarded(tiny, data, family, second=3)
    layers = encoder_layers(classifier.model)
    assert len(layers) == 2
    before = classifier.undefended().predict(TEXTS).probabilities
    noisy_answers = classifier.predict(TEXTS).probabilities
    assert torch.equal(classifier.predict(TEXTS, defended=False).probabilities, before)
    assert torch.equal(classifier.undefended().predict(TEXTS).probabilities, before)
    assert not any(layer._forward_hooks for layer in layers)
    quiet = guarded(tiny, data, family, second=3, deviation=0.0).predict(TEXTS).probabilities
    assert (noisy_answers - quiet).abs().max() > 1e-4
    assert torch.equal(guarded(tiny, data, family, masked=0, deviation=0.0, second=3).predict(TEXTS, batch_size=1)
                       .probabilities.argmax(dim=1), before.argmax(dim=1))


def test_the_noise_ends_with_an_error_and_stays_in_its_thread(tiny: Tiny, data: Dataset) -> None:
    classifier = guarded(tiny, data)
    layers, batch = encoder_layers(classifier.model), classifier.encode([LONG])
    with pytest.raises(ZeroDivisionError), noisy(layers, 1.0, None):
        raise ZeroDivisionError
    assert not any(layer._forward_hooks for layer in layers)
    with torch.no_grad():
        plain = classifier.network(batch)
    found: list[Tensor] = []

    def ask() -> None:
        with torch.no_grad():
            found.append(classifier.network(batch))

    with noisy(layers, 1.0, None), torch.no_grad():
        thread = Thread(target=ask)
        thread.start()
        thread.join()
        assert not torch.allclose(classifier.network(batch), plain)
    assert torch.equal(found[0], plain)


# Rounds


def votes(counts: list[int], views: int) -> Tensor:
    """Logits of `views` views of one text that give each class so many votes."""
    labels = [label for label, count in enumerate(counts) for _ in range(count)]
    assert len(labels) == views
    return F.one_hot(torch.tensor(labels), len(counts)).float()[:, None]


@pytest.mark.parametrize(("views", "confidence"), [(5, 0.98), (5, 0.9), (5, 0.7), (9, 0.98), (12, 0.9), (1, 0.98)])
def test_a_second_round_follows_the_binomial_test(views: int, confidence: float) -> None:
    defence = RSMI(RSMIOptions(first=views, second=7, confidence=confidence))
    seen = torch.tensor([views])
    for counts in ([a, b, views - a - b] for a in range(views + 1) for b in range(views + 1 - a)):
        most = max(counts)
        chance = sum(Fraction(comb(views, heads), 2**views) for heads in range(most + 1))
        for early in (True, False):
            found = defence.wanted(votes(counts, views), seen, early=early)
            assert found.tolist() == [7 if chance < Fraction(confidence) else 0]


def test_five_views_must_agree() -> None:
    defence = RSMI()
    assert defence.wanted(torch.zeros(0, 3, 2), torch.zeros(3, dtype=torch.long), early=True).tolist() == [5, 5, 5]
    table = torch.cat([votes([5, 0], 5), votes([4, 1], 5), votes([1, 4], 5), votes([0, 5], 5)], dim=1)
    assert defence.wanted(table, torch.full((4,), 5), early=True).tolist() == [0, 50, 50, 0]
    full = torch.cat([table, torch.full((50, 4, 2), torch.nan)])
    full[5:, 1:3] = 0.5
    assert defence.wanted(full, torch.tensor([5, 55, 55, 5]), early=True).tolist() == [0, 0, 0, 0]


def test_the_second_round_stands_alone() -> None:
    first = torch.tensor([[1.0, 0.0], [3.0, 1.0]])[:, None].expand(2, 2, 2)
    second = torch.tensor([[[torch.nan, torch.nan], [0.0, 4.0]], [[torch.nan, torch.nan], [1.0, 0.0]]])
    defence = RSMI(RSMIOptions(first=2, second=2))
    assert defence.combine(torch.cat([first, second])).tolist() == [[2.0, 0.5], [0.5, 2.0]]
    assert defence.combine(first).tolist() == [[2.0, 0.5], [2.0, 0.5]]


def test_divided_texts_are_asked_about_again(tiny: Tiny, data: Dataset) -> None:
    classifier = guarded(tiny, data, deviation=1.0, second=20)
    found = classifier.predict(TEXTS)
    assert found.passes is not None and set(found.passes.tolist()) == {5, 25}
    table = classifier.logits(TEXTS)
    for row, passes in enumerate(found.passes.tolist()):
        labels = table[:5, row].argmax(dim=1)
        assert passes == (5 if len(set(labels.tolist())) == 1 else 25)
        used = table[:5, row] if passes == 5 else table[5:, row]
        assert torch.allclose(used.mean(dim=0).softmax(dim=0), found.probabilities[row], atol=1e-5)
    few = classifier.predict(TEXTS, most=3)
    assert few.passes is not None and set(few.passes.tolist()) == {3}
    assert classifier.predict([]).probabilities.shape == (0, 2)


@pytest.mark.parametrize("family", ["bert", "roberta", "deberta-v2"])
def test_answers_do_not_depend_on_the_batch(family: str, tiny: Tiny, data: Dataset) -> None:
    classifier = guarded(tiny, data, family, deviation=0.5, second=5)
    whole = classifier.predict(TEXTS).probabilities
    for batch_size in (1, 300):
        found = classifier.predict(TEXTS[::-1], batch_size=batch_size).probabilities.flip(0)
        assert torch.allclose(found, whole, atol=1e-5)


def test_noise_comes_from_the_text_or_from_nowhere(tiny: Tiny, data: Dataset) -> None:
    classifier = guarded(tiny, data, deviation=0.5, second=3)
    one, again = (classifier.predict(TEXTS).probabilities for _ in range(2))
    assert torch.equal(one, again)
    classifier.defence.redraw(1)
    assert not torch.allclose(classifier.predict(TEXTS).probabilities, one)
    fresh = guarded(tiny, data, deviation=0.5, second=3, noise="fresh")
    one, again = (fresh.predict(TEXTS).probabilities for _ in range(2))
    assert not torch.allclose(one, again) and fresh.defence.noise == "fresh"


def test_explanations_name_the_masks_of_the_first_round(tiny: Tiny, data: Dataset) -> None:
    found = guarded(tiny, data).predict([LONG, "x"], explain=True).masked
    assert found is not None and [len(one) for one in found] == [2, 1]
    norms = norms_by_hand(guarded(tiny, data), LONG)
    highest = sorted(range(len(norms)), key=lambda place: -norms[place])[:2]
    assert [one.text for one in found[0]] == [LONG.split()[place] for place in sorted(highest)]


# Training


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "deberta-v2"])
def test_the_loss_by_hand(family: str, tiny: Tiny, data: Dataset) -> None:
    classifier = guarded(tiny, data, family, deviation=0.0, gradient_weight=3.0)
    texts, labels = zip(*data.train[:6], strict=True)
    defence, model, encode = classifier.defence, classifier.model, classifier.encode
    batch = defence.training_view(texts, labels, encode, torch.Generator())
    loss, answer = defence.learn(partial(defence.loss, classifier.network), batch, lambda loss: loss.backward())
    slope = model.get_input_embeddings().weight.grad.clone()
    model.zero_grad(set_to_none=True)

    given = model.get_input_embeddings()(batch.input_ids).detach().requires_grad_()
    first = logits(model, batch, embeddings=given)
    gradient, = torch.autograd.grad(F.cross_entropy(first, torch.tensor(labels)), given)
    ids = batch.input_ids.clone()
    for row, text in enumerate(texts):
        norms = norms_by_hand(classifier, str(text), labels[row])
        places = batch.body[row].nonzero().flatten()
        for place in sorted(range(len(norms)), key=lambda place: -norms[place])[:2]:
            ids[row, places[place]] = encode.mask_id
    words = model.get_input_embeddings()(ids) + 3.0 * gradient
    arguments = model_inputs(model, batch)
    del arguments["input_ids"]
    expected = model(inputs_embeds=words, **arguments).logits
    by_hand = F.cross_entropy(expected, torch.tensor(labels))
    assert torch.allclose(answer, expected, atol=1e-5) and torch.allclose(loss, by_hand, atol=1e-5)
    by_hand.backward()
    assert torch.allclose(model.get_input_embeddings().weight.grad, slope, atol=1e-5)


def test_nothing_masked_added_or_disturbed_is_the_plain_loss(tiny: Tiny, data: Dataset) -> None:
    classifier = guarded(tiny, data, masked=0, gradient_weight=0.0, deviation=0.0)
    texts, labels = zip(*data.train[:6], strict=True)
    batch = classifier.defence.training_view(texts, labels, classifier.encode, torch.Generator())
    plain, _ = Defence().loss(classifier.network, batch)
    defence = classifier.defence
    loss, _ = defence.learn(partial(defence.loss, classifier.network), batch, lambda loss: None)
    assert torch.allclose(loss, plain, atol=1e-6)


def test_training_is_noisy_by_the_generator_of_layers(tiny: Tiny, data: Dataset) -> None:
    classifier = guarded(tiny, data)
    texts, labels = zip(*data.train[:6], strict=True)
    batch = classifier.defence.training_view(texts, labels, classifier.encode, torch.Generator())

    def loss(seed: int) -> float:
        torch.manual_seed(seed)
        objective = partial(classifier.defence.loss, classifier.network)
        return float(classifier.defence.learn(objective, batch, lambda loss: None)[0].detach())

    assert loss(0) == loss(0) != loss(1)


def masks_in_training(tiny: Tiny, data: Dataset, rate: float) -> Tensor:
    """Which tokens 64 rows lose, with so much dropout in the network."""
    classifier = guarded(tiny, data)
    for part in classifier.model.modules():
        if isinstance(part, nn.Dropout):
            part.p = rate
    network, defence, asked = classifier.network.train(), classifier.defence, list[Batch]()
    texts, labels = zip(*data.train[:64], strict=True)

    def objective(batch: Batch, embeddings: Tensor | None = None) -> tuple[Tensor, Tensor]:
        asked.append(batch)
        return defence.loss(network, batch, embeddings)

    torch.manual_seed(5)
    defence.learn(objective, defence.training_view(texts, labels, classifier.encode, torch.Generator()),
                  lambda loss: None)
    return asked[1].masks


def test_dropout_does_not_choose_the_masks_of_training(tiny: Tiny, data: Dataset) -> None:
    masks = masks_in_training(tiny, data, 0.0)
    assert len(masks) == 64 and masks.any(dim=1).all()
    assert torch.equal(masks_in_training(tiny, data, 0.1), masks)


def test_only_the_pass_for_the_gradient_is_in_evaluation_mode(tiny: Tiny, data: Dataset) -> None:
    classifier = guarded(tiny, data)
    network, defence, modes = classifier.network.train(), classifier.defence, list[set[bool]]()
    frozen = encoder_layers(classifier.model)[0].eval()  # a part that somebody else put to rest
    texts, labels = zip(*data.train[:6], strict=True)
    batch = defence.training_view(texts, labels, classifier.encode, torch.Generator())

    def objective(batch: Batch, embeddings: Tensor | None = None) -> tuple[Tensor, Tensor]:
        modes.append({part.training for part in classifier.model.modules()})
        if len(modes) == 3:
            raise ZeroDivisionError
        return defence.loss(network, batch, embeddings)

    before = {name: part.training for name, part in network.named_modules()}
    defence.learn(objective, batch, lambda loss: None)
    assert modes == [{False}, {True, False}] and not frozen.training
    assert {name: part.training for name, part in network.named_modules()} == before
    with pytest.raises(ZeroDivisionError):
        defence.learn(objective, batch, lambda loss: None)
    assert {name: part.training for name, part in network.named_modules()} == before
    assert not any(layer._forward_hooks for layer in encoder_layers(classifier.model))


@pytest.mark.slow
def test_trained_saved_and_trained_again(
    tiny: Tiny, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(DEFENCES, "rsmi", RSMI)
    many = [Example(" ".join([*[words[number % 4]] * 3, words[number % 3]]), label)  # with two hidden two still tell
            for number in range(48) for label, words in enumerate((BAD, GOOD))]
    data = Dataset("many", data.labels, many, many[:24], many[:24])
    settings = {"epochs": 30, "patience": 0, "max_length": 40, "learning_rate": 2e-3, "batch_size": 16, "seed": 3}
    changes = {"second": 5, "deviation": 0.02}
    one, two = (train(data, encoder=tiny("bert"), defence="rsmi", options=changes, training=settings, out=out,
                      progress=False) for out in (tmp_path / "one", None))
    first, second = one.network.state_dict(), two.network.state_dict()
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
    assert not one.defence.state_dict() and not one.network.model._forward_hooks
    again = DefendedClassifier.load(tmp_path / "one", device="cpu")
    assert torch.equal(one.predict(TEXTS).probabilities, again.predict(TEXTS).probabilities)
    assert torch.equal(one.predict(TEXTS, defended=False).probabilities,
                       again.predict(TEXTS, defended=False).probabilities)
    assert one.accuracy(many) > 0.9


@pytest.mark.parametrize(("options", "named"), [
    ({"masked": 6}, "candidates"), ({"candidates": 0, "masked": 0}, "candidates"), ({"every": 0}, "every"),
    ({"deviation": -0.1}, "deviation"), ({"confidence": 1.2}, "confidence"), ({"first": 0}, "first"),
])  # fmt: skip
def test_impossible_options_are_refused(options: dict[str, float], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        RSMIOptions(**options)  # type: ignore[arg-type]


def test_what_is_said_about_it() -> None:
    card = RSMI.card()
    assert {"Paper", "Idea", "Acts at", "Deviations", "Relations"} <= set(card.sections)
    assert RSMI.passes == RSMI().pass_count
    assert RSMI(RSMIOptions(first=3, second=4)).pass_count == "3 to 7, 1 backward or more"
    with pytest.raises(OptionError, match="no certificate"):
        RSMI().radius("a text", 0.9, None)  # type: ignore[arg-type]
