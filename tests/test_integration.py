# SPDX-License-Identifier: Apache-2.0
"""For people with their own code: the collator, `defend`, the pipeline's manners, the hub."""

import copy
import pickle
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import get_ident
from types import SimpleNamespace

import pytest
import torch

from dualmask import DefendedClassifier, MaskInsertionCollator, build_defence, defend, storage
from dualmask.defences import DEFENCES
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
    classifier = defend(model, tokenizer, [example.text for example in data.train], max_length=40, defence="ddm",
                        options={"test_rate": 0.5})
    assert classifier.labels == ("bad", "good")
    found = classifier.predict(["the movie was rare"], explain=True)
    assert found.masked is not None
    assert "rare" in [piece.text for piece in found.masked[0]], "a word that training never saw is distrusted first"
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_defend_reads_words_as_they_were_meant_unless_told_otherwise(tiny: Tiny, data: Dataset) -> None:
    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    texts = [example.text for example in data.train]
    classifier = defend(model, tokenizer, texts, max_length=40)
    assert classifier.defence.name == "ddm-restore" and classifier.facts["preset"] == "restore"
    assert classifier.defence.options_as_dict()["synonyms"] == "none"
    assert defend(model, tokenizer, texts, max_length=40, defence="ddm").facts["preset"] == "recommended"
    mixing = defend(model, tokenizer, texts, max_length=40, preset="recommended")
    assert mixing.defence.options_as_dict()["synonyms"] == "mixture"


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
    assert [row["label"] for row in ours("x", top_k=None)] == [row["label"] for row in theirs("x", top_k=None)]
    assert [[row["label"] for row in rows] for rows in ours(["x"], top_k=1)] == [
        [row["label"] for row in rows] for rows in theirs(["x"], top_k=1)]
    pair = {"text": "a dull plot", "text_pair": "the movie"}
    assert ours(pair)[0]["score"] == pytest.approx(ours([("a dull plot", "the movie")])[0]["score"])
    with pytest.raises(DataError, match="text_pair"):
        ours({"sentence": "x"})
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


def test_a_column_of_a_data_frame_is_answered_in_its_own_order(tiny: Tiny, data: Dataset) -> None:
    import pandas as pd

    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    column = pd.Series(TEXTS, index=[2, 0, 1])
    classifier = defend(model, tokenizer, pd.Series([example.text for example in data.train]), max_length=40)
    assert torch.equal(classifier.predict(column).probabilities, classifier.predict(TEXTS).probabilities)


@pytest.mark.parametrize(("family", "defence"), [("bert", "ddm"), ("mpnet", "ddm"), *(("bert", name) for name in (
    "ranmask", "certed", "safer", "textrs", "rsmi", "mi4d", "ddm-restore"))])
def test_threads_do_not_disturb_each_other(family: str, defence: str, tiny: Tiny, data: Dataset) -> None:
    model, tokenizer = load_encoder(tiny(family), ["bad", "good"])
    options = {"votes": 6} if hasattr(DEFENCES[defence].Options(), "votes") else {}
    classifier = defend(model.eval(), tokenizer, [example.text for example in data.train], max_length=40,
                        defence=defence, options=options)
    texts = [" ".join(["the movie was good"] * count) for count in (1, 2, 3, 5, 8)]
    alone = [classifier.predict([text]).probabilities for text in texts]
    if hasattr(classifier.defence, "_spelling"):
        classifier.defence._spelling = None  # words are learned anew, by all threads at once
    if hasattr(classifier.defence, "drafts"):
        classifier.defence.drafts._memory = None
    with ThreadPoolExecutor(5) as pool:
        found = list(pool.map(lambda number: classifier.predict([texts[number % 5]]).probabilities, range(100)))
    assert all(torch.equal(answer, alone[number % 5]) for number, answer in enumerate(found))


def test_no_thread_tells_a_tokenizer_how_to_cut_while_another_one_asks_it(tiny: Tiny) -> None:
    """What is told, and what is asked then, must not come between another's two."""
    _, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    steps: list[tuple[int, str]] = []

    class Slow:
        """A tokenizer's core during whose every step another thread may come."""

        def __getattr__(self, name: str) -> Callable[..., object]:
            def step(*given: object, **more: object) -> object:
                steps.append((get_ident(), name))
                time.sleep(0.002)
                return []

            return step

        def __setattr__(self, name: str, value: object) -> None:
            steps.append((get_ident(), name))

    encode = Encode(tokenizer, max_length=8)
    encode.tokenizer = SimpleNamespace(backend_tokenizer=Slow())  # type: ignore[assignment]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: encode.pieces(["a text"]), range(9)))
    rounds = [steps[start:start + 4] for start in range(0, len(steps), 4)]
    assert len(rounds) == 9 and all(len({thread for thread, _ in one}) == 1 for one in rounds)


@pytest.mark.parametrize(("defence", "options"), [
    *((name, {}) for name in ("ranmask", "certed", "safer", "rsmi", "ddm-restore")), ("ddm-restore", {"votes": 4})])
def test_classifiers_that_have_answered_can_be_copied(
    defence: str, options: dict[str, object], tiny: Tiny, data: Dataset,
) -> None:
    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    classifier = defend(model, tokenizer, [example.text for example in data.train], max_length=40, defence=defence,
                        options=options)
    before = classifier.predict(TEXTS, most=4).probabilities
    for other in (copy.deepcopy(classifier), pickle.loads(pickle.dumps(classifier))):
        assert torch.equal(other.predict(TEXTS, most=4).probabilities, before)


def test_thresholds_need_held_out_texts(tiny: Tiny, data: Dataset) -> None:
    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    texts = [example.text for example in data.train]
    with pytest.raises(OptionError, match="validation="):
        defend(model, tokenizer, texts, max_length=40, defence="fgws")
    classifier = defend(model, tokenizer, texts, max_length=40, defence="fgws", validation=data.validation or [])
    assert classifier.defence.threshold is not None


def broken(tiny: Tiny, out: Path, name: str) -> Path:
    """A copy of an encoder without one of its files, or with that file cut short."""
    shutil.copytree(tiny("bert"), out)
    path = out / name.removeprefix("cut ")
    if name.startswith("cut "):
        path.write_bytes(path.read_bytes()[:200])
    else:
        path.unlink()
    return out


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors", "cut model.safetensors", "cut tokenizer.json",
                                  "cut config.json"])
def test_encoders_that_are_not_whole_are_refused(name: str, tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"tokenizer|can't be loaded"):
        load_encoder(broken(tiny, tmp_path / "encoder", name), ["bad", "good"])


def test_pickled_weights_are_refused(tiny: Tiny, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    folder = broken(tiny, tmp_path / "encoder", "model.safetensors")
    torch.save(load_file(tiny("bert") / "model.safetensors"), folder / "pytorch_model.bin")
    with pytest.raises(EncoderError, match="can't be loaded"):
        load_encoder(folder, ["bad", "good"])


def test_an_encoder_with_another_head_gets_a_new_one(tiny: Tiny, tmp_path: Path) -> None:
    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert load_encoder(tmp_path, ["a", "b", "c"])[0].config.num_labels == 3


def test_a_token_that_the_model_does_not_know_is_refused(tiny: Tiny) -> None:
    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    tokenizer.add_tokens(["brandnew"])
    with pytest.raises(EncoderError, match="resize_token_embeddings"):
        defend(model, tokenizer, ["the movie"], max_length=40)
    model.resize_token_embeddings(len(tokenizer))
    defend(model, tokenizer, ["the movie"], max_length=40).predict(["brandnew"])


def test_saving_leaves_a_page_of_somebody_else_alone(tiny: Tiny, tmp_path: Path) -> None:
    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    (tmp_path / "README.md").write_text("mine")
    classifier = defend(model, tokenizer, ["the movie"], max_length=40)
    classifier.save(tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"
    (tmp_path / "README.md").unlink()
    for _ in range(2):
        classifier.save(tmp_path)
        assert "library_name: dualmask" in (tmp_path / "README.md").read_text()


def test_labels_bring_nothing_into_the_model_card(tiny: Tiny, tmp_path: Path) -> None:
    labels = ["<img src=x onerror=alert(1)>\n---\n# head", "[a](http://b)"]
    model, tokenizer = load_encoder(tiny("bert"), labels)
    defend(model, tokenizer, ["the movie"], max_length=40).save(tmp_path)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "Labels: &lt;img src=x" in card and "<img" not in card and "](http" not in card and "\n# head" not in card
    assert DefendedClassifier.load(tmp_path).labels == tuple(labels)
