# SPDX-License-Identifier: Apache-2.0
"""MVP: templates around texts, label words in their gap, and the masked language model's own head."""

import math
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ABSOLUTE, RELATIVE
from rich.console import Console
from torch import Tensor
from typer.testing import CliRunner

from dualmask.classifier import DefendedClassifier
from dualmask.cli import app
from dualmask.defences import DEFENCES
from dualmask.defences.fat import FAT
from dualmask.defences.mvp import MVP, MVPOptions
from dualmask.errors import DualmaskError, OptionError
from dualmask.evaluation.protocol import looked_at
from dualmask.models.encoders import hidden_states, load_encoder
from dualmask.models.first_token import every_token
from dualmask.models.word_head import word_head
from dualmask.options import make_options
from dualmask.prediction import predict_file
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Dataset
from dualmask.text.prompts import label_words, read_template
from dualmask.training import train
from dualmask.training_display import show_training

Tiny = Callable[[str], Path]

DEFENCES.setdefault(MVP.name, MVP)
TEMPLATES = ["a [MASK] plot . {}", "{} the plot was [MASK] !"]
TEXTS = ["the movie was good", "a bad plot", "x", "", "the plot with the [MASK] was rarely unable !", "the " * 60]
SHORT = {"epochs": 1, "max_length": 40, "learning_rate": 1e-3, "batch_size": 16, "seed": 3}
LETTERS = {"words": ["bad=b/d", "good=g"]}  # the tiny byte-level tokenizer has no longer words


@pytest.fixture(scope="module")
def language_models(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folders of tiny masked language models, their heads random, by family."""
    from transformers import AutoModelForMaskedLM

    def get(family: str) -> Path:
        folder = tmp_path_factory.mktemp("mlm") / family
        shutil.copytree(tiny(family), folder)
        torch.manual_seed(1)
        model: Any = AutoModelForMaskedLM.from_pretrained(folder)
        inside = {id(weight) for weight in model.base_model.parameters()}
        for weight in model.parameters():
            if id(weight) not in inside:
                torch.nn.init.normal_(weight, std=0.3)
        model.save_pretrained(folder)
        return folder

    return get


def guarded(folder: Path, *, labels: tuple[str, ...] = ("bad", "good"), max_length: int = 40,
            **options: object) -> DefendedClassifier:
    model, tokenizer = load_encoder(folder, labels)
    defence = MVP(make_options(MVPOptions, {"templates": TEMPLATES, **options}))
    classifier = DefendedClassifier(model, tokenizer, defence, labels=labels, max_length=max_length)
    classifier.fit_defence([])
    classifier.network.eval()
    return classifier


def view(classifier: DefendedClassifier, texts: list[Any], numbers: list[int]) -> Batch:
    return classifier.defence.inference_view(texts, numbers, classifier.encode, torch.device("cpu"))


def rows(classifier: DefendedClassifier, batch: Batch) -> list[str]:
    """What is attended to, as tokens."""
    return [" ".join(classifier.encode.tokenizer.convert_ids_to_tokens(ids[real.bool()].tolist()))
            for ids, real in zip(batch.input_ids, batch.attention_mask, strict=True)]


def ids(encode: Encode, *words: str) -> list[int]:
    return [int(encode.tokenizer.convert_tokens_to_ids(word)) for word in words]


# Options


@pytest.mark.parametrize("options", [
    {"templates": ["{} it was"]}, {"templates": ["it was [MASK]"]}, {"templates": ["[MASK] {} [MASK]"]},
    {"templates": ["{} {} [MASK]"]}, {"templates": []}, {"words": ["good"]}, {"words": ["=good"]},
    {"words": ["good="]}, {"training": "none"},
])  # fmt: skip
def test_impossible_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        make_options(MVPOptions, options)


def test_options_are_read_from_text() -> None:
    found = make_options(MVPOptions, {"templates": "{} It was [MASK], A [MASK] one : {}", "words": "0=bad/poor,1=good"})
    assert found.templates == ("{} It was [MASK]", "A [MASK] one : {}")
    assert found.words == ("0=bad/poor", "1=good")


def test_presets_have_the_published_templates() -> None:
    for name in ("ag-news", "sst-2"):
        options = make_options(MVPOptions, MVP.presets[name].options)
        assert len(options.templates) == 4 == MVP(options).views
        assert MVP.presets[name].training["learning_rate"] == 1e-5


# Templates and words as tokens


def test_a_template_is_what_stands_before_and_behind_the_text(tiny: Tiny) -> None:
    encode = guarded(tiny("bert")).encode
    mask = encode.mask_id
    assert read_template("a [MASK] plot . {}", encode) == ([*ids(encode, "a"), mask, *ids(encode, "plot", ".")], [])
    assert read_template("{} was [MASK]", encode) == ([], [*ids(encode, "was"), mask])
    assert read_template("the {} [MASK] ! ", encode) == (ids(encode, "the"), [mask, *ids(encode, "!")])


def test_byte_level_templates_keep_the_spaces_that_words_have_inside_a_text(tiny: Tiny) -> None:
    encode = guarded(tiny("roberta"), **LETTERS).encode
    assert read_template("{} is [MASK] x", encode) == ([], [*ids(encode, "Ġ", "i", "s"), encode.mask_id,
                                                            *ids(encode, "Ġ", "x")])
    assert read_template("[MASK] : {}", encode) == ([encode.mask_id, *ids(encode, "Ġ", ":")], [])


def test_labels_are_their_own_words_unless_others_are_given(tiny: Tiny) -> None:
    encode = guarded(tiny("bert")).encode
    good, fine, bad, dull, plot = ids(encode, "good", "fine", "bad", "dull", "plot")
    assert label_words(["bad", "good"], [], encode) == [(bad, 0), (good, 1)]
    assert label_words(["Dull_Plot", "Good/fine"], [], encode) == [(dull, 0), (plot, 0), (good, 1), (fine, 1)]
    given = ["0=bad/dull", "x=y=good", "World=plot"]
    assert label_words(["0", "x=y"], given, encode) == [(bad, 0), (dull, 0), (good, 1)]


@pytest.mark.parametrize(("labels", "entries", "message"), [
    (["unable", "good"], [], "'unable', which stands for the label 'unable', is not one token"),
    (["bad", "excellent"], [], "words=excellent=WORD"),
    (["0", "1"], ["0=bad", "1=good/rarely"], "'rarely'"),
    (["bad plot", "good plot"], [], "same token"),
    (["0", "1"], ["0=bad", "1=bad"], "same token"),
])  # fmt: skip
def test_words_that_are_not_one_token_of_one_label_are_refused(
    labels: list[str], entries: list[str], message: str, tiny: Tiny,
) -> None:
    with pytest.raises(OptionError, match=message):
        label_words(labels, entries, guarded(tiny("bert")).encode)


def test_a_defence_that_was_not_fitted_says_so(tiny: Tiny) -> None:
    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    classifier = DefendedClassifier(model, tokenizer, MVP(), labels=["bad", "good"], max_length=40)
    with pytest.raises(DualmaskError, match=r"call fit\(\)"):
        classifier.predict(["good"])


# Views


def test_each_view_is_the_text_inside_one_template(tiny: Tiny) -> None:
    classifier = guarded(tiny("bert"))
    found = view(classifier, ["the movie was good", "x y"], [1, 0])
    assert rows(classifier, found) == ["[CLS] the movie was good the plot was [MASK] ! [SEP]",
                                       "[CLS] a [MASK] plot . x y [SEP]"]
    assert found.masks.int().argmax(dim=1).tolist() == [8, 2] and found.masks.sum(dim=1).tolist() == [1, 1]
    assert found.mask_position == "normal"
    assert found.positions[0].tolist() == list(range(11))
    bodies = [" ".join(classifier.encode.tokenizer.convert_ids_to_tokens(ids[body].tolist()))
              for ids, body in zip(found.input_ids, found.body, strict=True)]
    assert bodies == ["the movie was good", "x y"]


def test_a_mask_written_in_a_text_is_no_gap(tiny: Tiny) -> None:
    classifier = guarded(tiny("bert"))
    found = view(classifier, ["the [MASK] plot"] * 2, [0, 1])
    assert (found.input_ids == classifier.encode.mask_id).sum(dim=1).tolist() == [1, 1]
    assert found.masks.int().argmax(dim=1).tolist() == [2, 9]
    assert found.lengths.tolist() == [5, 5]  # the text's own is three unknown signs


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("paired", [False, True])
def test_long_texts_are_cut_and_templates_never(family: str, paired: bool, tiny: Tiny) -> None:
    classifier = guarded(tiny(family), **(LETTERS if family == "roberta" else {}))
    encode = classifier.encode
    longest: list[Any] = [("x " * 60, "y " * 60) if paired else "x " * 60, ("x", "y") if paired else "x"]
    prompts = [read_template(template, encode) for template in TEMPLATES]
    sizes = [len(prompt.before + prompt.behind) for prompt in prompts]
    for number, prompt in enumerate(prompts):
        found = view(classifier, longest, [number] * 2)
        for row, size in zip(found.input_ids, found.attention_mask.sum(dim=1), strict=True):
            tokens = row[:size].tolist()
            assert tokens[1:1 + len(prompt.before)] == prompt.before
            assert tokens[len(tokens) - 1 - len(prompt.behind):-1] == prompt.behind
            assert tokens[0] == encode.tokenizer.cls_token_id and tokens[-1] == encode.tokenizer.sep_token_id
        assert int(found.attention_mask[0].sum()) == encode.max_length - max(sizes) + sizes[number]


def test_templates_that_leave_no_room_are_refused(tiny: Tiny) -> None:
    with pytest.raises(OptionError, match="leave 3 of max_length=8"):
        guarded(tiny("bert"), max_length=8).predict(["good"])


def test_in_training_a_text_comes_with_all_templates_or_with_one(tiny: Tiny) -> None:
    for choice, size in (("all", 6), ("one", 3)):
        classifier = guarded(tiny("bert"), training=choice)
        found = classifier.defence.training_view(["x", "y", "z"], [0, 1, 0], classifier.encode,
                                                 torch.Generator().manual_seed(1))
        assert len(found) == size and found.labels is not None and found.labels.tolist() == [0, 1, 0]
        shown = rows(classifier, found)
        if choice == "all":
            assert shown[1] == "[CLS] a [MASK] plot . y [SEP]" and shown[4] == "[CLS] y the plot was [MASK] ! [SEP]"
        drawn = {row.replace("y", "x").replace("z", "x") for seed in range(8) for row in rows(
            classifier, classifier.defence.training_view(["x", "y", "z"], [0, 1, 0], classifier.encode,
                                                         torch.Generator().manual_seed(seed)))}
        assert len(drawn) == 2


# Scores


def gelu(x: Tensor) -> Tensor:
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def by_hand(classifier: DefendedClassifier, batch: Batch) -> Tensor:
    """Scores of bad, dull, good in the gap, (rows, words), straight from the definition."""
    defence: Any = classifier.defence
    with torch.no_grad(), every_token():
        states = hidden_states(classifier.model, batch)
        found = []
        for row, masks in zip(states, batch.masks, strict=True):
            x = gelu(defence.head.dense.weight @ row[int(masks.nonzero())] + defence.head.dense.bias)
            x = (x - x.mean()) / (x.var(unbiased=False) + 1e-12).sqrt() * defence.head.norm.weight
            x = x + defence.head.norm.bias
            words = ids(classifier.encode, "bad", "dull", "good")
            table: Any = classifier.model.get_input_embeddings()
            found.append([float(table.weight[word] @ x + defence.head.bias[word]) for word in words])
    return torch.tensor(found)


@pytest.fixture
def worded(tiny: Tiny) -> DefendedClassifier:
    """A classifier with two words for the first label, and nothing in the head left at zero or one."""
    classifier = guarded(tiny("bert"), words=["bad=bad/dull"])
    draw = torch.Generator().manual_seed(2)
    for weight in classifier.defence.parameters():
        weight.data += 0.3 * torch.randn(weight.shape, generator=draw)
    return classifier


def test_a_class_has_the_score_of_its_best_word(worded: DefendedClassifier) -> None:
    batch, defence = view(worded, TEXTS, [0, 1, 0, 1, 0, 1]), worded.defence
    bad, dull, _ = by_hand(worded, batch).unbind(dim=1)
    assert isinstance(defence, MVP)
    defence.head.bias.data[ids(worded.encode, "dull")] += (bad - dull).mean()  # now each is the better one somewhere
    with torch.no_grad():
        found = defence.answer(worded.network, batch)
    scores = by_hand(worded, batch)
    expected = torch.stack([scores[:, :2].amax(dim=1), scores[:, 2]], dim=1)
    assert torch.allclose(found, expected, atol=1e-4)
    assert 0 < int((scores[:, 0] > scores[:, 1]).sum()) < len(TEXTS)


def test_an_answer_is_the_mean_over_the_templates(worded: DefendedClassifier) -> None:
    with torch.no_grad():
        one, other = (worded.defence.answer(worded.network, view(worded, TEXTS, [number] * len(TEXTS)))
                      for number in (0, 1))
    found = worded.predict(TEXTS)
    assert torch.allclose(found.probabilities, ((one + other) / 2).softmax(dim=1), atol=1e-5)
    assert found.passes is not None and found.passes.tolist() == [2] * len(TEXTS)


def test_the_loss_is_that_of_the_mean_over_the_templates(worded: DefendedClassifier) -> None:
    batch = worded.defence.training_view(TEXTS, [0, 1] * 3, worded.encode, torch.Generator())
    loss, answer = worded.defence.loss(worded.network, batch)
    both = worded.defence.answer(worded.network, replace(batch, labels=None))
    assert both.shape == (12, 2) and answer.shape == (6, 2)
    assert torch.allclose(answer, (both[:6] + both[6:]) / 2, atol=1e-6)
    assert loss.item() == pytest.approx(-answer.log_softmax(dim=1)[range(6), [0, 1] * 3].mean().item(), rel=1e-5)


def test_other_embeddings_stand_in_for_the_words(worded: DefendedClassifier) -> None:
    batch = view(worded, TEXTS, [0] * len(TEXTS))
    words = worded.model.get_input_embeddings()(batch.input_ids)
    plain, same, other = (worded.defence.answer(worded.network, batch, given) for given in (None, words, -words))
    assert torch.allclose(plain, same, atol=1e-5) and not torch.allclose(plain, other, atol=1e-2)


def test_inside_every_token_hidden_states_are_whole(tiny: Tiny) -> None:
    classifier = guarded(tiny("bert"))
    batch = view(classifier, ["the movie was good"], [0])
    with torch.no_grad():
        first = hidden_states(classifier.model, batch)
        with every_token():
            whole = hidden_states(classifier.model, batch)
        again = hidden_states(classifier.model, batch)
    assert first.shape[1] == again.shape[1] == 1 and whole.shape[1] == batch.input_ids.shape[1]
    assert torch.allclose(first[:, 0], whole[:, 0], atol=1e-5)


# The head


@pytest.mark.parametrize("family", [*ABSOLUTE, *RELATIVE])
def test_the_head_is_the_language_model_s_own(family: str, language_models: Callable[[str], Path]) -> None:
    from transformers import AutoModelForMaskedLM

    folder = language_models(family)
    classifier = guarded(folder, **(LETTERS if family == "roberta" else {}))
    whole: Any = AutoModelForMaskedLM.from_pretrained(folder).eval()
    batch = view(classifier, ["z y x", "x y"], [0, 1])
    tokens: Any = classifier.defence.tokens
    with torch.no_grad():
        logits = whole(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
        found = classifier.defence.answer(classifier.network, batch)
    expected = logits[batch.masks][:, tokens]
    if family == "roberta":  # two words for the first label
        expected = torch.stack([expected[:, :2].amax(dim=1), expected[:, 2]], dim=1)
    assert torch.allclose(found, expected, atol=1e-4)


def test_an_encoder_without_such_a_head_gets_a_rotation(tiny: Tiny) -> None:
    model, _ = load_encoder(tiny("bert"), ["bad", "good"])
    head = word_head(model)
    assert torch.allclose(head.dense.weight @ head.dense.weight.T, torch.eye(16), atol=1e-5)
    assert not head.bias.any() and not head.dense.bias.any()


# Training


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_it_trains_is_saved_and_does_not_depend_on_the_batch(
    family: str, language_models: Callable[[str], Path], data: Dataset, tmp_path: Path,
) -> None:
    folder = language_models(family)
    options = {"templates": TEMPLATES, **(LETTERS if family == "roberta" else {})}
    classifier, again = (train(data, encoder=folder, defence="mvp", options=options, training=SHORT,
                               out=tmp_path / name, progress=False) for name in ("one", "two"))
    first, second = (one.network.state_dict() for one in (classifier, again))
    assert all(torch.equal(first[name], second[name]) for name in first)
    start = word_head(load_encoder(folder, data.labels)[0])
    assert not torch.equal(start.dense.weight, first["defence.head.dense.weight"])
    loaded = DefendedClassifier.load(tmp_path / "one", device="cpu")
    whole = classifier.predict(TEXTS, explain=True)
    assert torch.equal(loaded.predict(TEXTS).probabilities, whole.probabilities)
    assert whole.masked == [[]] * len(TEXTS)
    for size in (1, 2):
        assert torch.allclose(classifier.predict(TEXTS, batch_size=size).probabilities, whole.probabilities, atol=1e-5)
    assert classifier.facts["steps"] == 6


def test_with_the_defence_off_nothing_is_defined(tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    """The encoder's own head learns nothing: its answers are chance, and no figure is made of them."""
    classifier = train(data, encoder=tiny("bert"), defence="mvp", training=SHORT, progress=False)
    assert isinstance(classifier.facts["test_accuracy"], float) and classifier.facts["test_accuracy_undefended"] is None
    console = Console(width=120)
    with console.capture() as capture:
        show_training(console, classifier, data, tmp_path / "model")
    assert re.search(r"defence off +not defined", capture.get())
    assert {one.undefended for one in looked_at(classifier, dict(enumerate(data.test or []))).values()} == {None}
    for asked in (classifier.undefended, lambda: classifier.accuracy(data.train, defended=False)):
        with pytest.raises(OptionError, match="'mvp' answers by a head of its own"):
            asked()
    with pytest.raises(OptionError, match="validate=defended"):
        train(data, encoder=tiny("bert"), defence="mvp", training={**SHORT, "validate": "plain"})
    classifier.save(tmp_path / "model")
    (tmp_path / "texts.csv").write_text("text\ngood\n")
    with pytest.raises(OptionError, match="'mvp' answers by a head of its own"):
        predict_file(classifier, tmp_path / "texts.csv", tmp_path / "out.csv", defended=False, progress=False)
    shown = CliRunner().invoke(app, ["predict", str(tmp_path / "model"), "good", "--undefended", "--format", "csv"])
    assert isinstance(shown.exception, OptionError) and not shown.stdout and not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("other", ["freelb", "fat"])
def test_it_can_be_trained_on_moved_words(other: str, tiny: Tiny, data: Dataset) -> None:
    classifier = train(data, encoder=tiny("bert"), defence=f"mvp+{other}", options={"templates": TEMPLATES},
                       training=SHORT, progress=False)
    assert torch.isfinite(classifier.predict(TEXTS).probabilities).all()


def test_pairs_are_asked_about_too(tiny: Tiny) -> None:
    classifier = guarded(tiny("bert"))
    found = view(classifier, [("x", "y")] * 2, [0, 1])
    assert rows(classifier, found) == ["[CLS] a [MASK] plot . x [SEP] y [SEP]",
                                       "[CLS] x [SEP] y the plot was [MASK] ! [SEP]"]
    assert found.token_type_ids[1].tolist() == [0, 0, 0] + [1] * 7
    assert torch.isfinite(classifier.predict([("x", "y")]).probabilities).all()


@pytest.mark.parametrize("family", [*ABSOLUTE, *RELATIVE])
def test_weights_that_learn_are_those_that_get_a_gradient(family: str, tiny: Tiny) -> None:
    """Processes that train together wait for every weight that may learn."""
    classifier = guarded(tiny(family), **(LETTERS if family == "roberta" else {}))
    texts = ["the movie was good", "a bad plot"]
    batch = classifier.defence.training_view(texts, [1, 0], classifier.encode, torch.Generator())
    classifier.network.train()
    classifier.defence.loss(classifier.network, batch)[0].backward()  # type: ignore[no-untyped-call]
    found = {name: weight.grad is not None for name, weight in classifier.network.named_parameters()}
    assert found == {name: weight.requires_grad for name, weight in classifier.network.named_parameters()}
    assert not all(found.values())


def test_fat_keeps_signs_of_every_template(tiny: Tiny, data: Dataset) -> None:
    found = train(data, encoder=tiny("bert"), defence="mvp+fat", options={"templates": TEMPLATES}, training=SHORT,
                  progress=False)
    fat = next(part for part in found.defence.modules() if isinstance(part, FAT))
    assert len(fat._signs) == 2 * int(str(found.facts["rows"]["train"]))  # type: ignore[index]
