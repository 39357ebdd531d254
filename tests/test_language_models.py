# SPDX-License-Identifier: Apache-2.0
"""Masked language models: the adapter's arithmetic on a tiny network, its file, and what the shipped model knows."""

import csv
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from dualmask.errors import EncoderError, ModelFileError, ResourceError
from dualmask.models import language_models
from dualmask.models.language_models import (
    ADAPTER,
    MaskedLanguageModel,
    load_language_model,
    load_masked_language_model,
    merge_adapter,
    read_adapter,
)
from dualmask.resources import RESOURCES, resolve

MANIFEST = ADAPTER.with_name("masked_lm.manifest.json")
TABLE, BIAS = "bert.embeddings.word_embeddings.weight", "cls.predictions.bias"
QUERY, WIDE = "bert.encoder.layer.0.attention.self.query.weight", "bert.encoder.layer.1.intermediate.dense.weight"
TEXT = torch.tensor([[2, 5, 6, 4, 15, 28, 3]])
Tiny = Callable[[str], Path]


def with_head(folder: Path, target: Path) -> Path:
    """A tiny masked language model: the encoder in the folder with a random head, saved with its tokenizer."""
    from transformers import AutoModelForMaskedLM

    shutil.copytree(folder, target)
    torch.manual_seed(1)
    model: Any = AutoModelForMaskedLM.from_pretrained(folder)
    torch.nn.init.normal_(model.cls.predictions.bias)
    model.save_pretrained(target)
    return target


@pytest.fixture(scope="module")
def complete(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_head(tiny("bert"), tmp_path_factory.mktemp("mlm") / "model")


@pytest.fixture
def model(complete: Path) -> Any:
    return load_masked_language_model(str(complete)).model


def factors(model: Any, *names: str, rank: int = 3) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(5)
    adapter = {}
    for name in names:
        rows, columns = model.get_parameter(name).shape
        adapter[f"{name}.up"] = torch.randn(rows, rank, generator=draw)
        adapter[f"{name}.down"] = torch.randn(rank, columns, generator=draw)
    return adapter


# The adapter's arithmetic


def test_merging_equals_low_rank_paths_in_the_forward_pass(model: Any) -> None:
    adapter = factors(model, QUERY, WIDE, TABLE)
    hooks = []
    for name in (QUERY, WIDE):
        def beside(_: object, inputs: tuple[Tensor, ...], output: Tensor, name: str = name) -> Tensor:
            return output + inputs[0] @ adapter[f"{name}.down"].T @ adapter[f"{name}.up"].T
        hooks.append(model.get_submodule(name.removesuffix(".weight")).register_forward_hook(beside))
    hooks.append(model.get_input_embeddings().register_forward_hook(
        lambda _, inputs, output: output + adapter[f"{TABLE}.up"][inputs[0]] @ adapter[f"{TABLE}.down"]))
    hooks.append(model.cls.predictions.decoder.register_forward_hook(  # the head is tied to the table
        lambda _, inputs, output: output + inputs[0] @ adapter[f"{TABLE}.down"].T @ adapter[f"{TABLE}.up"].T))
    expected = model(TEXT).logits
    for hook in hooks:
        hook.remove()
    before = model(TEXT).logits
    merge_adapter(model, adapter)
    assert torch.allclose(model(TEXT).logits, expected, atol=1e-4)
    assert not torch.allclose(before, expected, atol=1e-1)


def test_factors_in_integers_are_multiplied_by_their_scales(model: Any) -> None:
    before = model.get_parameter(QUERY).clone()
    up, down = torch.randint(-127, 128, (16, 3)).to(torch.int8), torch.randint(-127, 128, (3, 16)).to(torch.int8)
    scales = {"up": torch.rand(16, 1).half(), "down": torch.rand(3, 1).half() / 100}
    merge_adapter(model, {f"{QUERY}.up": up, f"{QUERY}.up.scale": scales["up"],
                          f"{QUERY}.down": down, f"{QUERY}.down.scale": scales["down"]})
    expected = before.double() + (up * scales["up"].double()) @ (down * scales["down"].double())
    assert torch.allclose(model.get_parameter(QUERY).double(), expected, rtol=1e-4, atol=1e-3)


def test_whole_tensors_replace_and_leave_the_rest(model: Any) -> None:
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    bias = torch.linspace(-1, 1, len(before[BIAS])).half()
    assert [weight.shape for weight in merge_adapter(model, {BIAS: bias})] == [bias.shape]
    assert torch.equal(model.cls.predictions.decoder.bias, bias.float())  # tied, under another name
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters() if name != BIAS)


@pytest.mark.parametrize(("adapter", "message"), [
    ({"bert.encoder.layer.9.output.dense.bias": torch.zeros(16)}, "layer.9.*doesn't have: it was made for another"),
    ({BIAS: torch.zeros(3)}, r"shape \(3,\).*another encoder"),
    ({f"{QUERY}.up": torch.zeros(8, 2), f"{QUERY}.down": torch.zeros(2, 16)}, r"shape \(8, 16\).*\(16, 16\)"),
    ({f"{QUERY}.up": torch.zeros(16, 2)}, "no tensor '.*query.weight.down'"),
    ({f"{QUERY}.down": torch.zeros(2, 16)}, "no tensor '.*query.weight.up'"),
    ({f"{QUERY}.up.scale": torch.zeros(16, 1)}, "no tensor '.*query.weight.up'"),
])
def test_an_adapter_for_another_encoder_is_refused(model: Any, adapter: dict[str, Tensor], message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        merge_adapter(model, adapter)


# The shipped file


def test_the_shipped_file_is_small_and_the_one_that_was_measured() -> None:
    facts = json.loads(MANIFEST.read_text(encoding="utf-8"))
    content = ADAPTER.read_bytes()
    assert len(content) == facts["bytes"] <= 8_000_000
    assert hashlib.sha256(content).hexdigest() == facts["sha256"]
    assert facts["encoder"]["sha256"] == RESOURCES["minilm"].sha256
    assert facts["held_out_accuracy"]["test, chosen tokens all [MASK]"]["top1"] >= 0.40
    assert {"command", "text", "training", "seconds", "licence"} <= set(facts)
    assert facts["training"].keys() >= {"steps", "learning_rate", "ranks", "device"}


def test_the_shipped_file_holds_a_whole_head_and_pairs_of_factors() -> None:
    tensors = read_adapter(ADAPTER)
    ranks = json.loads(MANIFEST.read_text(encoding="utf-8"))["training"]["ranks"]
    head = {"transform.dense.weight", "transform.dense.bias", "transform.LayerNorm.weight", "transform.LayerNorm.bias"}
    assert {f"cls.predictions.{name}" for name in head} | {BIAS} <= set(tensors)
    assert tensors[f"{TABLE}.up"].shape == (30522, ranks["embedding tables"])
    assert tensors[f"{QUERY}.down"].shape == (ranks["linear layers"], 384)
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values() if tensor.is_floating_point())


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    shutil.copy(MANIFEST, tmp_path)
    return Path(shutil.copy(ADAPTER, tmp_path))


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "gone", "no manifest", "broken manifest", "no hash"])
def test_a_damaged_adapter_is_refused(copied: Path, damage: str) -> None:
    content, manifest = copied.read_bytes(), copied.with_name(MANIFEST.name)
    middle = len(content) // 2
    changes: dict[str, Callable[[], object]] = {
        "flipped": lambda: copied.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1:]),
        "cut": lambda: copied.write_bytes(content[:-1]), "empty": lambda: copied.write_bytes(b""),
        "gone": copied.unlink, "no manifest": manifest.unlink,
        "broken manifest": lambda: manifest.write_text("{"), "no hash": lambda: manifest.write_text("[]"),
    }
    assert read_adapter(copied)
    changes[damage]()
    with pytest.raises(ModelFileError, match=r"masked_lm\.safetensors.*Install dualmask again"):
        read_adapter(copied)


def test_an_adapter_that_is_no_safetensors_file_is_refused(copied: Path) -> None:
    copied.write_bytes(b"words")
    facts = json.loads(MANIFEST.read_text(encoding="utf-8")) | {"sha256": hashlib.sha256(b"words").hexdigest()}
    copied.with_name(MANIFEST.name).write_text(json.dumps(facts))
    with pytest.raises(ModelFileError, match="can't be read"):
        read_adapter(copied)


def test_an_adapter_trained_on_other_weights_is_refused(copied: Path) -> None:
    facts = json.loads(MANIFEST.read_text(encoding="utf-8"))
    facts["encoder"]["sha256"] = "0" * 64
    copied.with_name(MANIFEST.name).write_text(json.dumps(facts))
    with pytest.raises(ModelFileError, match="another 'minilm'"):
        read_adapter(copied)


# Loading by name


def test_a_model_with_a_head_is_loaded_ready_for_use(complete: Path) -> None:
    state = torch.random.get_rng_state()
    loaded = load_masked_language_model(str(complete))
    assert not loaded.model.training and not any(weight.requires_grad for weight in loaded.model.parameters())
    assert loaded.mask_id == 4 and loaded.tokenizer.is_fast
    same, mask_id = load_language_model(str(complete), vocabulary=len(loaded.tokenizer))
    assert mask_id == 4 and torch.equal(same(TEXT).logits, loaded.model(TEXT).logits)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_model_without_a_head_is_refused(tiny: Tiny) -> None:
    state = torch.random.get_rng_state()
    with pytest.raises(EncoderError, match=r"no masked-language-model head: its weights lack cls\..*'shipped'"):
        load_masked_language_model(str(tiny("bert")))
    assert torch.equal(torch.random.get_rng_state(), state)  # although a head was drawn on the way


def test_another_vocabulary_is_refused(complete: Path) -> None:
    with pytest.raises(EncoderError, match="and the encoder 30522; the language model must share"):
        load_language_model(str(complete), vocabulary=30522)


@pytest.mark.parametrize(("name", "message"), [("minilmm", "minilm"), ("rotten-tomatoes", "of kind data")])
def test_unknown_names_are_refused(name: str, message: str) -> None:
    with pytest.raises(ResourceError, match=message):
        load_masked_language_model(name)


def test_the_shipped_adapter_does_not_fit_another_encoder(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_models, "_shipped_encoder", lambda: tiny("bert"))
    with pytest.raises(ModelFileError, match="made for another encoder"):
        load_masked_language_model()


def test_an_adapter_without_the_whole_head_is_refused(
    tiny: Tiny, complete: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = load_file(complete / "model.safetensors")
    head = {name: weight for name, weight in whole.items() if name.startswith("cls.") and "decoder" not in name}
    path = tmp_path / ADAPTER.name
    monkeypatch.setattr(language_models, "_shipped_encoder", lambda: tiny("bert"))
    monkeypatch.setattr(language_models, "ADAPTER", path)

    def ship(tensors: dict[str, Tensor]) -> None:
        save_file(tensors, path)
        facts = {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                 "encoder": {"sha256": RESOURCES["minilm"].sha256}}
        path.with_name(MANIFEST.name).write_text(json.dumps(facts))

    ship(head)
    expected = load_masked_language_model(str(complete)).model(TEXT).logits
    assert torch.equal(load_masked_language_model().model(TEXT).logits, expected)
    ship({name: weight for name, weight in head.items() if "LayerNorm" not in name})
    with pytest.raises(EncoderError, match=r"'shipped' has no .* head: its weights lack .*LayerNorm"):
        load_masked_language_model()


def test_the_error_names_the_encoder_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"DUALMASK_CACHE": str(tmp_path / "cache"), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ResourceError, match="adapter for the encoder 'minilm', which is not on this machine"):
        load_masked_language_model()


# What the shipped model knows


@pytest.fixture(scope="module")
def shipped() -> MaskedLanguageModel:
    try:
        resolve("minilm", kind="encoder", progress=False)
    except ResourceError as error:
        pytest.skip(f"the encoder 'minilm' is not at hand: {error}")
    return load_masked_language_model()


def best(loaded: MaskedLanguageModel, text: str, count: int = 10) -> list[str]:
    ids = torch.tensor([loaded.tokenizer(text)["input_ids"]])
    scores = loaded.model(ids).logits[ids == loaded.mask_id][0]
    return [str(word) for word in loaded.tokenizer.convert_ids_to_tokens(scores.topk(count).indices.tolist())]


@pytest.mark.network
def test_sensible_words_stand_first(shipped: MaskedLanguageModel) -> None:
    words = set(best(shipped, "the movie was absolutely [MASK] ."))
    assert len(words & {"terrible", "horrible", "awful", "brilliant", "amazing", "hilarious", "great", "fantastic"}) > 4
    assert best(shipped, "one of the worst [MASK] i have ever seen .", 2) in (["movies", "films"], ["films", "movies"])


@pytest.mark.network
def test_the_words_around_are_read(shipped: MaskedLanguageModel) -> None:
    praise = set(best(shipped, "i loved this wonderful film , the acting was [MASK] .", 5))
    blame = set(best(shipped, "i hated this boring film , the acting was [MASK] .", 5))
    assert praise & {"superb", "excellent", "great", "wonderful"} and blame & {"terrible", "awful", "bad", "horrible"}


@pytest.mark.network
def test_padding_changes_nothing(shipped: MaskedLanguageModel) -> None:
    texts = ["a [MASK] film", "the plot of this [MASK] film is as old as the hills"]
    batch = shipped.tokenizer(texts, padding=True, return_tensors="pt")
    alone = shipped.tokenizer(texts[:1], return_tensors="pt")
    together, single = shipped.model(**batch).logits[0], shipped.model(**alone).logits[0]
    assert torch.allclose(together[:len(single)], single, atol=1e-3)


@pytest.mark.network
def test_a_scorer_can_use_it(shipped: MaskedLanguageModel) -> None:
    model, mask_id = load_language_model("shipped", vocabulary=30522)
    assert mask_id == 103 and torch.equal(model.get_parameter(BIAS), shipped.model.get_parameter(BIAS))


# The tools that made and measure it


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "tools"))
    import measure_masked_lm

    return measure_masked_lm


@pytest.mark.network
@pytest.mark.shared
def test_accuracy_on_reviews_of_another_source(
    shipped: MaskedLanguageModel, measuring: ModuleType, shared: Path,
) -> None:
    with (shared / "data" / "mr" / "test.csv").open(encoding="utf-8", newline="") as stream:
        texts = [row["text"] for row in csv.DictReader(stream)][::10]
    ids = shipped.tokenizer(texts, add_special_tokens=False)["input_ids"]
    special = measuring.special_tokens(shipped.tokenizer)
    result = measuring.measure(shipped.model, ids, special, kept=0.0)
    assert result["tokens"] > 300 and result["top1"] >= 0.40 and result["top5"] > result["top1"] + 0.1


def test_hidden_tokens_are_fifteen_in_a_hundred_and_never_special(measuring: ModuleType) -> None:
    special = measuring.Special(cls=2, sep=3, mask=4, every=(0, 1, 2, 3, 4), stops=(3,), vocabulary=5000)
    ids = torch.randint(5, 5000, (500, 102))
    ids[:, 0], ids[:, 50:], = 2, torch.where(torch.rand(500, 52) < 0.1, 3, ids[:, 50:])
    shown, chosen = measuring.hide(ids, special, torch.Generator().manual_seed(0))
    true, seen = ids.gather(1, chosen), shown.gather(1, chosen)
    assert chosen.shape == (500, 15) and (true >= 5).all()
    assert int((shown != ids).sum()) == int((seen != true).sum())
    assert abs((seen == 4).float().mean() - 0.8) < 0.02 and abs((seen == true).float().mean() - 0.1) < 0.02
    shown, chosen = measuring.hide(ids, special, torch.Generator().manual_seed(0), kept=0.0)
    assert (shown.gather(1, chosen) == 4).all()


def test_packing_loses_little_and_reads_back(measuring: ModuleType, model: Any) -> None:
    import build_masked_lm

    adapter = factors(model, QUERY, WIDE) | {BIAS: torch.randn(len(model.get_parameter(BIAS)))}
    packed = build_masked_lm.packed(adapter)
    assert packed[f"{QUERY}.up"].dtype == torch.int8 and packed[BIAS].dtype == torch.float16
    before = model.get_parameter(WIDE).clone()
    merge_adapter(model, packed)
    exact = adapter[f"{WIDE}.up"] @ adapter[f"{WIDE}.down"]
    assert (model.get_parameter(WIDE) - before - exact).norm() < 0.02 * exact.norm()


def test_training_starts_at_the_encoder_and_trains_what_is_merged(measuring: ModuleType, model: Any) -> None:
    import build_masked_lm

    adapter = build_masked_lm.new_adapter(model, rank=3, table_rank=2, seed=0)
    weights = dict(model.named_parameters())
    start = build_masked_lm.merged(model, adapter)
    assert all(torch.equal(start[name], weights[name]) for name in weights if "transform.dense.weight" not in name)
    with torch.no_grad():
        for value in adapter.values():
            value += 0.1 * torch.randn(value.shape)
    trained = build_masked_lm.merged(model, adapter)
    merge_adapter(model, {name: value.detach() for name, value in adapter.items()})
    for name, weight in model.named_parameters():
        assert torch.allclose(trained[name], weight, atol=1e-5), name
    ids, chosen = TEXT, torch.tensor([[3]])
    loss = build_masked_lm.loss_of(model, trained, ids, (ids, chosen))
    expected = torch.nn.functional.cross_entropy(model(ids).logits[0, 3:4], ids[0, 3:4])
    assert torch.allclose(loss, expected, atol=1e-4)
    loss.backward()
    assert all(value.grad is not None and value.grad.any() for name, value in adapter.items() if "position" not in name)
