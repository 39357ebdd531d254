# SPDX-License-Identifier: Apache-2.0
"""For people with their own code: the collator, `defend`, the pipeline's manners, the hub."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from dualmask import DefendedClassifier, MaskInsertionCollator, build_defence, defend, storage
from dualmask.errors import DataError, EncoderError, OptionError, ResourceError
from dualmask.models.encoders import ZERO, load_encoder, logits
from dualmask.text.encoding import Encode
from dualmask.text.examples import Dataset

Tiny = Callable[[str], Path]
TEXTS = ["the movie was good", "a dull plot and a very poor actor", "x"]


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "mpnet"])
def test_collator_gives_what_the_method_gives(family: str, tiny: Tiny) -> None:
    """Rows tokenised by the user and collated answer as DDM's own training view does."""
    model, tokenizer = load_encoder(tiny(family), ["bad", "good"])
    collator = MaskInsertionCollator(tokenizer, budget=0.3, model=model.eval())
    rows = [{**tokenizer(text), "label": number % 2} for number, text in enumerate(TEXTS)]
    inputs = collator(rows)
    assert inputs["labels"].tolist() == [0, 1, 0]
    view = build_defence("ddm").training_view(TEXTS, [0, 1, 0], Encode(tokenizer, max_length=60), torch.Generator())
    assert torch.equal(inputs["input_ids"], view.input_ids)
    assert int((inputs["position_ids"] == ZERO).sum()) == int(view.masks.sum()) > 0
    with torch.no_grad():
        assert torch.allclose(model(**{k: v for k, v in inputs.items() if k != "labels"}).logits, logits(model, view))


def test_collator_without_a_model_says_what_it_leaves_out(tiny: Tiny) -> None:
    _, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    with pytest.warns(UserWarning, match="ordinary position"):
        collator = MaskInsertionCollator(tokenizer)
    inputs = collator([tokenizer(text) for text in TEXTS])
    assert "position_ids" not in inputs
    assert "labels" not in inputs
    assert (inputs["input_ids"] == tokenizer.mask_token_id).sum(dim=1).tolist() == [2, 3, 1]


def test_collator_refuses_a_tokenizer_without_mask_and_rows_too_long(tiny: Tiny) -> None:
    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    with pytest.raises(OptionError, match="positions for 64"):
        MaskInsertionCollator(tokenizer, model=model)([tokenizer("the " * 60)])
    tokenizer.mask_token = None
    with pytest.raises(EncoderError, match="no mask token"):
        MaskInsertionCollator(tokenizer, model=model)


def test_defend_wraps_a_model_as_it_is(tiny: Tiny, data: Dataset) -> None:
    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    classifier = defend(model, tokenizer, [example.text for example in data.train], max_length=40,
                        options={"test_rate": 0.5})
    assert classifier.labels == ("bad", "good")
    found = classifier.predict(["the movie was rare"], explain=True)
    assert found.masked is not None
    assert "rare" in [piece.text for piece in found.masked[0]], "a word that training never saw is distrusted first"
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("texts", [[], "one text"])
def test_defend_needs_training_texts(texts: list[str], tiny: Tiny) -> None:
    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    with pytest.raises(DataError, match="as a list"):
        defend(model, tokenizer, texts)


def test_answers_like_a_pipeline(tiny: Tiny) -> None:
    from transformers import pipeline

    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    ours = DefendedClassifier(model.eval(), tokenizer, build_defence("plain"), labels=["bad", "good"], max_length=60)
    theirs = pipeline("text-classification", model=model, tokenizer=tokenizer)
    for found, expected in zip(ours(TEXTS), theirs(TEXTS), strict=True):
        assert found["label"] == expected["label"]
        assert found["score"] == pytest.approx(expected["score"], abs=1e-5)
    assert ours("x")[0]["label"] == theirs("x")[0]["label"]
    every, expected_every = ours(TEXTS, top_k=None), theirs(TEXTS, top_k=None)
    assert [[row["label"] for row in rows] for rows in every] == [[row["label"] for row in r] for r in expected_every]
    assert [len(rows) for rows in ours(TEXTS, top_k=2)] == [2, 2, 2]


def test_hub_round_trip(tiny: Tiny, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub's client is the real one but for the two calls that would leave this machine."""
    from huggingface_hub import HfApi

    made: list[tuple[str, bool]] = []

    def create(self: HfApi, repo_id: str, *, private: bool, exist_ok: bool) -> None:
        made.append((repo_id, private))

    def upload(self: HfApi, *, repo_id: str, folder_path: str, commit_message: str) -> str:
        shutil.copytree(folder_path, tmp_path / "hub")
        return f"commit of {repo_id}"

    monkeypatch.setattr(HfApi, "create_repo", create)
    monkeypatch.setattr(HfApi, "upload_folder", upload)
    monkeypatch.setattr(storage, "downloaded", lambda repository: tmp_path / "hub")
    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    classifier = defend(model, tokenizer, [example.text for example in data.train], max_length=40)
    assert classifier.push_to_hub("someone/reviews", private=True) == "commit of someone/reviews"
    assert made == [("someone/reviews", True)]
    again = DefendedClassifier.load("someone/reviews", device="cpu")
    assert torch.equal(again.predict(TEXTS).probabilities, classifier.predict(TEXTS).probabilities)


def test_an_upload_that_fails_is_named(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import HfApi

    def refuse(self: HfApi, repo_id: str, **rest: object) -> None:
        raise OSError("no route to the hub")

    monkeypatch.setattr(HfApi, "create_repo", refuse)
    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    with pytest.raises(ResourceError, match=r"someone/reviews.*no route.*login"):
        defend(model, tokenizer, ["the movie"], max_length=40).push_to_hub("someone/reviews")
