# SPDX-License-Identifier: Apache-2.0
"""Plain Hugging Face classifiers opened as ours: the same answers, and nothing opened that should not be."""

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from dualmask.classifier import DefendedClassifier
from dualmask.errors import DualmaskError, EncoderError, ModelFileError, OptionError
from dualmask.models.classifiers import load_classifier
from dualmask.models.encoders import load_encoder
from dualmask.text.examples import Dataset
from dualmask.training import train

Tiny = Callable[[str], Path]
FAMILIES = ["bert", "roberta", "distilbert", "mpnet"]
TEXTS = ["a good plot", "the movie was awful !", "x y z", "a fine actor with a dull scene ."]
LABELS = ("bad", "good", "mixed")


def saved_plain(family: str, tiny: Tiny, folder: Path) -> Path:
    """A classifier with three classes as plain transformers saves it; its head is drawn at random."""
    model, tokenizer = load_encoder(tiny(family), LABELS)
    for name, weight in model.named_parameters():
        if "classifier" in name:
            torch.nn.init.normal_(weight, std=0.5)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def plain(tiny: Tiny, tmp_path: Path) -> Path:
    return saved_plain("bert", tiny, tmp_path / "plain")


def configured(folder: Path, **changes: object) -> Path:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    return folder


def refused(folder: str | Path, kind: type[DualmaskError] = EncoderError) -> str:
    with pytest.raises(kind) as found:
        load_classifier(folder, device="cpu")
    return str(found.value)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_plain_classifier_answers_as_transformers_does(family: str, tiny: Tiny, tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = saved_plain(family, tiny, tmp_path / "plain")
    classifier = load_classifier(folder, device="cpu")
    assert classifier.labels == LABELS and classifier.defence.name == "plain"
    assert not classifier.network.training and classifier.device == torch.device("cpu")
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        expected = torch.cat([model.eval()(**tokenizer(text, return_tensors="pt")).logits.softmax(dim=1)
                              for text in TEXTS])
    torch.testing.assert_close(classifier.predict(TEXTS).probabilities, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("family", "longest"), [("bert", 64), ("roberta", 62)])
def test_no_more_is_read_than_the_network_has_positions_for(
    family: str, longest: int, tiny: Tiny, tmp_path: Path,
) -> None:
    folder = saved_plain(family, tiny, tmp_path / "plain")
    assert load_classifier(folder).encode.max_length == longest
    assert load_classifier(folder, max_length=20).encode.max_length == 20
    with pytest.raises(OptionError, match="lower max_length"):
        load_classifier(folder, max_length=100)
    load_classifier(folder).predict(["a good plot " * 100])


def test_longer_networks_read_as_much_as_in_training(plain: Path) -> None:
    settings = json.loads((plain / "tokenizer_config.json").read_text())
    (plain / "tokenizer_config.json").write_text(json.dumps({**settings, "model_max_length": 512}))
    weights = {"max_position_embeddings": 300}
    from transformers import AutoModelForSequenceClassification

    config = configured(plain, **weights)
    model = AutoModelForSequenceClassification.from_pretrained(config, ignore_mismatched_sizes=True)
    model.save_pretrained(plain)
    assert load_classifier(plain).encode.max_length == 128


def test_a_model_of_ours_keeps_its_defence_and_its_length(tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    trained = train(data, encoder=tiny("bert"), defence="ddm", training={"epochs": 1, "max_length": 40},
                    out=tmp_path / "model", progress=False)
    found = load_classifier(tmp_path / "model", device="cpu")
    assert found.fingerprint() == trained.to("cpu").fingerprint() and found.defence.name == "ddm"
    with pytest.raises(OptionError, match="leave max_length out"):
        load_classifier(tmp_path / "model", max_length=20)


def test_what_was_opened_can_be_saved_as_ours(plain: Path, tmp_path: Path) -> None:
    classifier = load_classifier(plain, device="cpu")
    classifier.save(tmp_path / "ours")
    again = DefendedClassifier.load(tmp_path / "ours", device="cpu")
    assert torch.equal(again.predict(TEXTS).probabilities, classifier.predict(TEXTS).probabilities)


def test_hub_ids_are_opened_by_their_local_copy(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dualmask.models.classifiers.hub_snapshot", lambda name: {"owner/name": plain}[name])
    assert load_classifier("owner/name").labels == LABELS
    assert load_classifier("owner/name").facts["encoder"] == "owner/name"


@pytest.mark.parametrize(("changes", "told"), [
    ({"architectures": ["BertModel"]}, "without a classifier's head"),
    ({"architectures": None}, "without a classifier's head"),
    ({"architectures": ["BertForTokenClassification"]}, "without a classifier's head"),
    ({"id2label": {"0": "only"}, "label2id": {"only": 0}}, "single number"),
    ({"problem_type": "multi_label_classification"}, "several labels at once"),
    ({"problem_type": "regression"}, "was trained for regression"),
    ({"id2label": {"0": "a", "1": "a", "2": "b"}}, "a name of its own"),
    ({"id2label": {"0": "a", "1": "b", "3": "c"}}, "the numbers 0 to 2"),
    ({"attn_implementation": "someone/kernels"}, "is not run here"),
    ({"model_type": "nobody-knows"}, "can't be loaded as a text classifier"),
    ({"hidden_size": 32}, "can't be loaded as a text classifier"),
])
def test_what_chooses_no_class_is_refused_with_a_reason(changes: dict[str, object], told: str, plain: Path) -> None:
    assert told in refused(configured(plain, **changes))


def test_code_of_the_folder_is_never_run(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(plain)
    (plain / "evil.py").write_text("open('opened', 'w')\nclass Config: pass\n")
    configured(plain, model_type="evil", auto_map={"AutoConfig": "evil.Config"})
    assert "can't be loaded as a text classifier" in refused(plain)
    assert not Path("opened").exists()


class Danger:
    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (Path("opened"),)


def test_pickles_are_never_opened(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(plain)
    (plain / "model.safetensors").unlink()
    (plain / "pytorch_model.bin").write_bytes(pickle.dumps(Danger()))
    assert "its weights are in pytorch_model.bin, a pickle" in refused(plain)
    assert not Path("opened").exists()


def test_a_head_without_weights_is_refused(plain: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(plain / "model.safetensors")
    save_file({name: value for name, value in weights.items() if not name.startswith("classifier")},
              plain / "model.safetensors", metadata={"format": "pt"})
    assert "lacks trained weights for classifier.bias, classifier.weight" in refused(plain)


def test_folders_that_hold_no_classifier_are_refused(tiny: Tiny, plain: Path, tmp_path: Path) -> None:
    assert "without a classifier's head" in refused(tiny("bert"))
    (tmp_path / "empty").mkdir()
    assert "there: nothing" in refused(tmp_path / "empty", ModelFileError)
    (tmp_path / "file").write_text("x")
    assert "it is a file" in refused(tmp_path / "file", ModelFileError)
    assert "no folder on this machine" in refused("nobody/nothing-there", ModelFileError)
    assert "is a resource" in refused("minilm", ModelFileError)
    shutil.rmtree(tmp_path / "empty")
    for path in plain.glob("*token*"):
        path.unlink()
    assert "holds no tokenizer" in refused(plain)
