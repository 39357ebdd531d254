# SPDX-License-Identifier: Apache-2.0
"""Tiny encoders built from a configuration, and small data: everything runs offline in seconds."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # of other processes, too: tiny networks gain nothing by more

import pytest
import torch

from dualmask.text.examples import Dataset, Example

torch.set_num_threads(1)

GOOD, BAD = ["good", "great", "fine", "superb"], ["bad", "awful", "poor", "dull"]
FILLERS = ["the", "movie", "was", "a", "plot", "and", "actor", "scene", "with", "very"]
WORDS = [*FILLERS, *GOOD, *BAD, "rare", "un", "##able", "##s", "##ly", "##x", "x", "y", "z", ".", ",", "!", "'", "t"]
SHARED = Path(__file__).parents[2] / "shared"
ABSOLUTE = ["bert", "roberta", "distilbert", "electra", "mpnet"]
RELATIVE = ["deberta-v2", "modernbert"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell; processes started here inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def word_piece_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: i for i, word in enumerate([*specials, *WORDS])}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]", model_max_length=64).save_pretrained(folder)


def byte_level_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate([*specials, *letters])}
    backend = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", pad_token="<pad>", cls_token="<s>", sep_token="</s>",
        bos_token="<s>", eos_token="</s>", mask_token="<mask>", model_max_length=62).save_pretrained(folder)


def build_encoder(family: str, folder: Path) -> Path:
    """A network of 16 hidden units and two layers, with random weights, saved with its tokenizer."""
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    (byte_level_tokenizer if family == "roberta" else word_piece_tokenizer)(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
             "intermediate_size": 32, "max_position_embeddings": 64}
    if family == "distilbert":
        sizes = {"vocab_size": len(tokenizer), "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32,
                 "max_position_embeddings": 64}
    if family == "electra":
        sizes["embedding_size"] = 16
    if family == "deberta-v2":
        sizes |= {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False,
                  "type_vocab_size": 0}
    ids = {"pad_token_id": tokenizer.pad_token_id, "cls_token_id": tokenizer.cls_token_id,
           "sep_token_id": tokenizer.sep_token_id, "bos_token_id": tokenizer.cls_token_id,
           "eos_token_id": tokenizer.sep_token_id}
    torch.manual_seed(0)
    model = AutoModel.from_config(AutoConfig.for_model(family, **sizes, **ids))
    for weight in model.parameters():  # far from zero, so that a wrong position or token shows in the answer
        torch.nn.init.normal_(weight, std=0.3)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folders of tiny encoders by family, each built once."""
    built: dict[str, Path] = {}

    def get(family: str = "bert") -> Path:
        if family not in built:
            built[family] = build_encoder(family, tmp_path_factory.mktemp(family))
        return built[family]

    return get


def reviews(count: int, seed: int = 0) -> list[Example]:
    """Sentences whose one label word decides: easy to learn, for a tiny network too."""
    draw = torch.Generator().manual_seed(seed)

    def pick(words: list[str]) -> str:
        return words[int(torch.randint(len(words), (1,), generator=draw))]

    rows = []
    for number in range(count):
        label = number % 2
        words = [pick(FILLERS) for _ in range(2 + number % 5)] + [pick(GOOD if label else BAD)] + [pick(FILLERS)]
        rows.append(Example(" ".join(words), label))
    return rows


@pytest.fixture(scope="session")
def data() -> Dataset:
    return Dataset("toy", ("bad", "good"), reviews(96), reviews(24, seed=1), reviews(24, seed=2))


@contextmanager
def small_files(most: int) -> Iterator[None]:
    """No file of this process grows beyond so many bytes: what a full disk does, without one."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def shared() -> Path:
    if not (SHARED / "data").is_dir():
        pytest.skip("the folder with shared data and models is not beside this checkout")
    return SHARED


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A victim's waits for its server are noted, not waited."""
    found: list[float] = []
    monkeypatch.setattr("dualmask.models.victim.time.sleep", found.append)
    return found
