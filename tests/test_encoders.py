# SPDX-License-Identifier: Apache-2.0
"""What "position zero" means for each family of encoders, and that everything else about a model stays the same."""

import copy
import io
import json
import pickle
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import ABSOLUTE, RELATIVE
from torch import Tensor

from dualmask.classifier import DefendedClassifier
from dualmask.defences import build_defence
from dualmask.errors import EncoderError, OptionError
from dualmask.masking.insertion import insert_masks
from dualmask.models.encoders import ZERO, load_encoder, logits, longest_input, position_table, prepare
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Dataset, Example

TEXTS = ["the movie was good", "a bad plot and a very dull actor", "unable"]
Loaded = tuple[torch.nn.Module, Encode]


@pytest.fixture(scope="module", params=ABSOLUTE)
def absolute(request: pytest.FixtureRequest, tiny: Callable[[str], Path]) -> Loaded:
    return opened(tiny(request.param))


@pytest.fixture(scope="module", params=ABSOLUTE + RELATIVE)
def any_family(request: pytest.FixtureRequest, tiny: Callable[[str], Path]) -> Loaded:
    return opened(tiny(request.param))


def opened(folder: Path) -> Loaded:
    model, encode = untouched(folder)
    prepare(model)
    return model, encode


def untouched(folder: Path) -> Loaded:
    model, tokenizer = load_encoder(folder, ["bad", "good"])
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():  # a head that shows small differences: new heads are nearly zero
        for name, weight in model.named_parameters():
            if not name.startswith(model.base_model_prefix) or "pooler" in name:
                weight.normal_(std=2.0, generator=draw)
    return model.eval(), Encode(tokenizer, max_length=48)


@pytest.fixture(autouse=True)
def no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def substituted(encode: Encode, *, mask_position: str = "zero") -> Batch:
    """The texts with their first body token replaced by a mask, where it stands."""
    batch = encode(TEXTS)
    masks = torch.zeros_like(batch.body)
    masks[:, 1] = True
    return replace(batch, input_ids=batch.input_ids.masked_fill(masks, encode.mask_id), masks=masks,
                   mask_position=mask_position)


def moved(batch: Batch, column: int) -> Batch:
    """The mask at column 1 goes to another column and gets that place; all other tokens keep their positions."""
    order = list(range(batch.input_ids.shape[1]))
    order.insert(column, order.pop(1))
    turned = replace(batch, **{name: tensor[:, order] for name, tensor in batch.per_token().items()})
    places = torch.arange(len(order)).expand_as(turned.positions)
    return replace(turned, positions=torch.where(turned.masks, places, turned.positions))


def difference(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max())


# Position zero


@pytest.mark.parametrize("place", ["random", "before-sep", "end"])
def test_moving_inserted_masks_changes_nothing(absolute: Loaded, place: str) -> None:
    model, encode = absolute
    batch, counts = encode(TEXTS), torch.tensor([2, 3, 1])
    start = insert_masks(batch, counts, encode.mask_id, place="start", ordinary="kept")
    other = insert_masks(batch, counts, encode.mask_id, place=place, ordinary="kept",
                         generator=torch.Generator().manual_seed(3))
    assert not torch.equal(start.input_ids, other.input_ids)
    assert difference(logits(model, other), logits(model, start)) < 1e-5
    plain = logits(model, batch)
    assert difference(logits(model, start), plain) > 1e-3, "the masks themselves must be seen, or this test is empty"


@pytest.mark.parametrize("column", [2, 3])
def test_moving_a_substituted_mask_changes_nothing(absolute: Loaded, column: int) -> None:
    model, encode = absolute
    batch = substituted(encode)
    assert difference(logits(model, moved(batch, column)), logits(model, batch)) < 1e-5


@pytest.mark.parametrize("column", [2, 3])
def test_moving_a_mask_with_a_normal_position_changes_the_answer(absolute: Loaded, column: int) -> None:
    model, encode = absolute
    batch = substituted(encode, mask_position="normal")
    assert difference(logits(model, moved(batch, column)), logits(model, batch)) > 1e-3


def test_moving_inserted_masks_with_normal_positions_changes_the_answer(absolute: Loaded) -> None:
    model, encode = absolute
    batch, counts = replace(encode(TEXTS), mask_position="normal"), torch.tensor([2, 3, 1])
    start = insert_masks(batch, counts, encode.mask_id, place="start", ordinary="kept")
    other = insert_masks(batch, counts, encode.mask_id, place="end", ordinary="kept")
    assert difference(logits(model, other), logits(model, start)) > 1e-3


@pytest.mark.parametrize("place", ["start", "random", "before-sep", "end"])
def test_cutting_attention_to_inserted_masks_gives_the_plain_answer(absolute: Loaded, place: str) -> None:
    model, encode = absolute
    batch = encode(TEXTS)
    masked = insert_masks(batch, torch.tensor([2, 3, 1]), encode.mask_id, place=place, ordinary="kept",
                          generator=torch.Generator().manual_seed(3))
    hidden = replace(masked, attention_mask=masked.attention_mask.masked_fill(masked.masks, 0))
    plain = logits(model, batch)
    assert difference(logits(model, hidden), plain) < 1e-5
    assert difference(logits(model, masked), plain) > 1e-3


def test_shifted_positions_reach_the_model(absolute: Loaded) -> None:
    """With attention cut, only the shift of the ordinary tokens is left, and it must be seen."""
    model, encode = absolute
    batch = encode(TEXTS)
    masked = insert_masks(batch, torch.tensor([2, 3, 1]), encode.mask_id, ordinary="shifted")
    hidden = replace(masked, attention_mask=masked.attention_mask.masked_fill(masked.masks, 0))
    assert difference(logits(model, hidden), logits(model, batch)) > 1e-3


def test_the_position_embedding_of_a_mask_is_exactly_zero(absolute: Loaded) -> None:
    model, encode = absolute
    table = position_table(model)
    assert table is not None
    seen: list[tuple[Tensor, Tensor]] = []
    hook = table.register_forward_hook(lambda _, args, output: seen.append((args[0], output)))
    batch = substituted(encode)
    try:
        logits(model, batch)
    finally:
        hook.remove()
    (ids, output), = seen
    assert torch.equal(ids == ZERO, batch.masks)
    assert output[batch.masks].count_nonzero() == 0
    assert bool((output[~batch.masks & (batch.attention_mask == 1)] != 0).any(dim=-1).all())


def test_masks_send_no_gradient_to_the_position_table(absolute: Loaded) -> None:
    model, encode = absolute
    table = position_table(model)
    assert table is not None
    with torch.enable_grad():
        table(torch.full((2, 5), ZERO)).square().sum().backward()
        assert table.weight.grad is None or table.weight.grad.count_nonzero() == 0
        model.zero_grad()
        logits(model, substituted(encode)).sum().backward()
        assert table.weight.grad is not None
        first = int(model.config.max_position_embeddings) - longest_input(model)
        assert table.weight.grad[first].count_nonzero() > 0, "[CLS] does learn its position"
        assert table.weight.grad[first + 1].count_nonzero() == 0, "every text has a mask at place 1"
        model.zero_grad()
    assert torch.equal(table(torch.full((1, 2), ZERO)), torch.zeros(1, 2, table.embedding_dim))


def test_mpnet_has_no_relative_bias_to_or_from_a_mask(tiny: Callable[[str], Path]) -> None:
    """Seen by [CLS] and masks alone, only the distance 0 may count: the first bucket of the table."""
    model, encode = opened(tiny("mpnet"))
    batch = encode(["the movie was good"])
    masked = replace(batch, input_ids=batch.input_ids.masked_fill(batch.body, encode.mask_id), masks=batch.body)
    alone = replace(masked, attention_mask=torch.tensor([[1, 1, 1, 1, 1, 0]]))
    other = copy.deepcopy(model)
    other.base_model.encoder.relative_attention_bias.weight[1:] += 5.0
    assert difference(logits(other, alone), logits(model, alone)) < 1e-5
    assert difference(logits(other, batch), logits(model, batch)) > 1e-3


def test_word_and_type_embeddings_of_a_mask_are_kept(tiny: Callable[[str], Path]) -> None:
    model, encode = opened(tiny("bert"))
    parts = model.base_model.embeddings
    ids, kinds = torch.tensor([[encode.mask_id]]), torch.tensor([[1]])
    found = parts(input_ids=ids, token_type_ids=kinds, position_ids=torch.tensor([[ZERO]]))
    by_hand = parts.LayerNorm(parts.word_embeddings.weight[encode.mask_id] + parts.token_type_embeddings.weight[1])
    assert difference(found[0, 0], by_hand) < 1e-6


# Everything else stays


def plain_inputs(model: torch.nn.Module, encode: Encode, texts: list[str]) -> dict[str, Tensor]:
    """What a user of transformers would give the model."""
    inputs = encode.tokenizer(texts, padding=True, return_tensors="pt")
    names = {"input_ids", "attention_mask"}
    if model.config.model_type in ("bert", "roberta", "electra"):
        names.add("token_type_ids")
    return {name: tensor for name, tensor in inputs.items() if name in names}


def test_prepared_models_answer_as_before(any_family: Loaded, tiny: Callable[[str], Path]) -> None:
    model, encode = any_family
    original, _ = untouched(tiny(model.config.model_type))
    inputs = plain_inputs(model, encode, TEXTS)
    expected = original(**inputs).logits
    assert difference(logits(model, encode(TEXTS)), expected) < 1e-5
    assert difference(model(**inputs).logits, expected) < 1e-5
    logits(model, encode(TEXTS * 2))  # whatever was asked in between, of another shape too
    assert difference(model(**inputs).logits, expected) < 1e-5


def test_prepared_models_keep_their_weights(any_family: Loaded, tiny: Callable[[str], Path]) -> None:
    model, _ = any_family
    original, _ = untouched(tiny(model.config.model_type))
    before, after = original.state_dict(), model.state_dict()
    assert list(after) == list(before)
    for name, tensor in before.items():
        assert torch.equal(after[name], tensor), name


def test_preparing_twice_is_preparing_once(any_family: Loaded) -> None:
    model, encode = any_family
    again = copy.deepcopy(model)
    prepare(again)
    batch = substituted(encode)
    assert torch.equal(logits(again, batch), logits(model, batch))


def test_models_can_be_pickled(any_family: Loaded) -> None:
    model, encode = any_family
    again, batch = pickle.loads(pickle.dumps(model)), substituted(encode)
    assert torch.equal(logits(again, batch), logits(model, batch))


def test_saved_weights_open_in_plain_transformers(any_family: Loaded, tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    model, encode = any_family
    model.save_pretrained(tmp_path)
    plain, report = AutoModelForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    inputs = plain_inputs(model, encode, TEXTS)
    assert difference(plain.eval()(**inputs).logits, logits(model, encode(TEXTS))) < 1e-5


def test_answers_do_not_depend_on_padding(any_family: Loaded) -> None:
    model, encode = any_family
    together = logits(model, substituted(encode))
    for row in range(len(TEXTS)):
        batch = encode([TEXTS[row]])
        masks = torch.zeros_like(batch.body)
        masks[:, 1] = True
        alone = replace(batch, input_ids=batch.input_ids.masked_fill(masks, encode.mask_id), masks=masks)
        assert difference(logits(model, alone)[0], together[row]) < 1e-5


def test_texts_may_fill_all_positions(any_family: Loaded) -> None:
    model, encode = any_family
    full = Encode(encode.tokenizer, max_length=longest_input(model))
    batch = full(["the movie was good " * 40])
    assert batch.input_ids.shape[1] == longest_input(model)
    assert torch.isfinite(logits(model, batch)).all()


def test_padding_stands_on_the_right_whatever_the_tokenizer_was_saved_with(tiny: Callable[[str], Path]) -> None:
    model, encode = opened(tiny("bert"))
    expected = logits(model, encode(TEXTS))
    encode.tokenizer.padding_side = "left"
    assert difference(logits(model, encode(TEXTS)), expected) < 1e-5


def test_other_word_embeddings_take_the_place_of_the_words(any_family: Loaded) -> None:
    model, encode = any_family
    batch = substituted(encode)
    words = model.get_input_embeddings()(batch.input_ids)
    assert difference(logits(model, batch, embeddings=words), logits(model, batch)) < 1e-5
    assert difference(logits(model, batch, embeddings=words.flip(2)), logits(model, batch)) > 1e-3


# The released code's positions


@pytest.mark.parametrize("family", ["distilbert", "mpnet", *RELATIVE])
def test_the_released_positions_are_refused_where_they_mean_nothing(family: str, tiny: Callable[[str], Path]) -> None:
    model, tokenizer = load_encoder(tiny(family), ["bad", "good"])
    with pytest.raises(OptionError, match="Choose 'zero' or 'normal'"):
        DefendedClassifier(model, tokenizer, build_defence("ddm", preset="release"), labels=["bad", "good"],
                           max_length=32)


# Relative positions


@pytest.mark.parametrize("family", RELATIVE)
def test_relative_positions_train_and_predict_and_say_what_zero_means(
    family: str, tiny: Callable[[str], Path], data: Dataset,
) -> None:
    model, tokenizer = load_encoder(tiny(family), data.labels)
    seen: list[Tensor] = []
    model.base_model.register_forward_pre_hook(
        lambda _, args, kwargs: seen.append(kwargs["position_ids"]), with_kwargs=True)
    defence = build_defence("ddm")
    with pytest.warns(UserWarning, match="relative positions"):
        classifier = DefendedClassifier(model, tokenizer, defence, labels=data.labels, max_length=32)
    defence.fit(data.train, classifier.encode)
    texts, labels = zip(*data.train[:16], strict=True)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    with torch.enable_grad():
        for _ in range(8):
            batch = defence.training_view(texts, labels, classifier.encode, torch.Generator())
            loss, _ = defence.loss(classifier.network, batch)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    assert losses[-1] < losses[0]
    found = classifier.predict(list(texts), explain=True)
    assert found.masked is not None and all(found.masked)
    assert torch.isfinite(found.probabilities).all()
    assert seen and all(int(ids.min()) >= 0 for ids in seen if ids is not None)


@pytest.mark.parametrize("family", ABSOLUTE)
def test_absolute_positions_give_no_warning(family: str, tiny: Callable[[str], Path]) -> None:
    model, tokenizer = load_encoder(tiny(family), ["bad", "good"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DefendedClassifier(model, tokenizer, build_defence("ddm"), labels=["bad", "good"], max_length=32)


# Refusals


def test_an_encoder_without_a_mask_token_is_refused_with_the_remedy(tiny: Callable[[str], Path]) -> None:
    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    tokenizer.mask_token = None
    with pytest.raises(EncoderError, match="no mask token") as caught:
        DefendedClassifier(model, tokenizer, build_defence("ddm"), labels=["bad", "good"], max_length=32)
    assert "bert-base-uncased" in str(caught.value) and "add_special_tokens" in str(caught.value)


@pytest.mark.parametrize("family", ["gpt2", "t5"])
def test_unknown_families_are_refused(family: str, tiny: Callable[[str], Path]) -> None:
    from transformers import AutoConfig, AutoModelForSequenceClassification

    _, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2} if family == "gpt2" else {
        "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    config = AutoConfig.for_model(family, vocab_size=len(tokenizer), **sizes)
    model = AutoModelForSequenceClassification.from_config(config)
    with pytest.raises(EncoderError, match=f"'{family}'.*bert.*roberta"):
        DefendedClassifier(model, tokenizer, build_defence("ddm"), labels=["bad", "good"], max_length=32)


def test_a_folder_without_an_encoder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(EncoderError, match="can't be loaded"):
        load_encoder(tmp_path, ["bad", "good"])


@pytest.mark.parametrize(("file", "entries", "told"), [
    ("config.json", {"model_type": "evil", "auto_map": {"AutoConfig": "evil.E"}},
     "can't be loaded as an encoder"),
    ("tokenizer_config.json", {"tokenizer_class": "E", "auto_map": {"AutoTokenizer": ["evil.E", None]}}, ""),
    ("config.json", {"attn_implementation": "somebody/kernel"}, "code of 'somebody/kernel'"),
    ("config.json", {"hidden_size": 0}, "can't be loaded"),
    ("config.json", {"vocab_size": "many"}, "can't be loaded"),
    ("config.json", {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, "can't be loaded"),
], ids=["model", "tokenizer", "kernel", "no size", "words", "quantised"])
def test_a_folder_runs_no_code_of_its_own(
    file: str, entries: dict[str, object], told: str, tiny: Callable[[str], Path], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny("bert"), folder)
    (folder / "evil.py").write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\nclass E: pass\n")
    config = json.loads((folder / file).read_text()) if (folder / file).is_file() else {}
    (folder / file).write_text(json.dumps({**config, **entries}))
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 9))  # what the library's question would be answered with
    with pytest.raises(EncoderError, match=told) if told else nullcontext():
        load_encoder(folder, ["bad", "good"])
    assert not (tmp_path / "ran").exists()


def test_longer_inputs_than_the_encoder_has_positions_are_refused(any_family: Loaded) -> None:
    model, encode = any_family
    longest = longest_input(model)
    with pytest.raises(OptionError, match=f"positions for {longest}.*max_length"):
        DefendedClassifier(model, encode.tokenizer, build_defence("plain"), labels=["bad", "good"],
                           max_length=longest + 1)


def test_texts_that_masks_extend_beyond_all_positions_are_refused(tiny: Callable[[str], Path]) -> None:
    """With length='extend' a text of 60 tokens becomes one of 78, and the encoder has 64 positions."""
    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    with pytest.raises(OptionError, match="max_length"):
        defence = build_defence("ddm", options={"length": "extend"})
        classifier = DefendedClassifier(model, tokenizer, defence, labels=["bad", "good"], max_length=60)
        defence.fit([Example("the movie", 0)], classifier.encode)
        batch = defence.training_view(["the " * 70], [0], classifier.encode, torch.Generator())
        defence.loss(classifier.network, batch)


def test_wrong_number_of_label_names_is_refused(tiny: Callable[[str], Path]) -> None:
    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    with pytest.raises(OptionError, match=r"3 label names.*2 classes"):
        DefendedClassifier(model, tokenizer, build_defence("plain"), labels=["a", "b", "c"], max_length=32)
