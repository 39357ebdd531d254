# SPDX-License-Identifier: Apache-2.0
"""How long TextAttack 0.3.11 takes for an attack, on one CPU thread: its side of benchmarks/attack_speed.py.

    python tools/speed_textattack.py MODEL TEXTS.json --attack deepwordbug [--dynamic-padding]
    python tools/speed_textattack.py MODEL TEXTS.json --attack bert-attack --masked-lm FOLDER [--candidates 48]

MODEL is a folder with a Hugging Face sequence classifier and its tokenizer, TEXTS a JSON list of [text, label]. Runs in
the virtual environment that holds TextAttack and prints one JSON object. Loading does not count. BERT-Attack's sentence
encoder is the stand-in of the golden traces, which costs next to nothing.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from parity_examples import SEED, SHARED
from parity_sources import ATTACKS, prepare, stand_in_encoder

if TYPE_CHECKING:
    import torch
    from textattack import Attack
    from transformers import BatchEncoding


def main() -> None:
    options = _options()
    prepare(options.shared / "lexical/nltk_english_stopwords.txt")
    import torch

    torch.set_num_threads(1)
    pairs = json.loads(options.texts.read_text(encoding="utf-8"))
    attack = _attack(options)
    from textattack.shared.utils import set_seed

    set_seed(SEED)
    print(json.dumps(_measure(attack, pairs, options)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--attack", choices=["deepwordbug", "bert-attack"], required=True)
    parser.add_argument("--masked-lm", type=Path, help="folder with a BERT masked language model and its tokenizer")
    parser.add_argument("--candidates", type=int, default=48, help="K of BERT-Attack")
    parser.add_argument("--dynamic-padding", action="store_true", help="pad to the longest text of a call, not to 512")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no further text after this long")
    parser.add_argument("--shared", type=Path, default=SHARED, help="folder with lexical/nltk_english_stopwords.txt")
    options = parser.parse_args()
    if options.attack == "bert-attack" and options.masked_lm is None:
        parser.error("bert-attack needs --masked-lm FOLDER")
    return options


def _attack(options: argparse.Namespace) -> "Attack":
    import textattack
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(options.model).float().eval()
    wrapper = textattack.models.wrappers.HuggingFaceModelWrapper(model, AutoTokenizer.from_pretrained(options.model))
    if options.attack == "bert-attack":
        _name_masked_lm(options.masked_lm)
    attack = getattr(textattack.attack_recipes, ATTACKS[options.attack]).build(wrapper)
    if options.attack == "bert-attack":
        attack.transformation.max_candidates = options.candidates
        stand_in_encoder(attack)
    if options.dynamic_padding:
        _pad_to_longest(attack)
    return attack


def _name_masked_lm(folder: Path) -> None:
    """The recipe names a model of a hub; it gets the one of the folder."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    module = import_module("textattack.transformations.word_swaps.word_swap_masked_lm")
    vars(module)["AutoModelForMaskedLM"] = SimpleNamespace(
        from_pretrained=lambda *_, **__: AutoModelForMaskedLM.from_pretrained(folder).float())
    vars(module)["AutoTokenizer"] = SimpleNamespace(
        from_pretrained=lambda *_, **__: AutoTokenizer.from_pretrained(folder))


def _pad_to_longest(attack: "Attack") -> None:
    """TextAttack pads every call of the victim and of the masked language model to 512 tokens; here it does not."""
    import torch

    wrapper, swap = attack.goal_function.model, attack.transformation
    longest = min(wrapper.tokenizer.model_max_length, 512)

    class Dynamic(type(wrapper)):  # type: ignore[misc]
        def __call__(self, texts: Sequence[str]) -> "torch.Tensor":
            batch = self.tokenizer(texts, padding=True, max_length=longest, truncation=True, return_tensors="pt")
            with torch.no_grad():
                logits: torch.Tensor = self.model(**batch).logits
            return logits

    wrapper.__class__ = Dynamic
    if hasattr(swap, "_lm_tokenizer"):
        def encode(text: str) -> "BatchEncoding":
            batch: BatchEncoding = swap._lm_tokenizer(
                text, max_length=swap.max_length, truncation=True, return_tensors="pt")
            return batch

        swap._encode_text = encode


def _measure(attack: "Attack", pairs: Sequence[tuple[str, int]], options: argparse.Namespace) -> dict[str, object]:
    outcomes: Counter[str] = Counter()
    queries = 0
    wall, processor = time.perf_counter(), time.process_time()
    for text, label in pairs:
        if time.perf_counter() - wall > options.seconds:
            break
        result = attack.attack(text, label)
        outcomes[type(result).__name__.removesuffix("AttackResult").lower()] += 1
        queries += attack.goal_function.num_queries
    return {
        "attack": options.attack, "candidates": options.candidates if options.attack == "bert-attack" else None,
        "dynamic_padding": options.dynamic_padding, "texts": outcomes.total(), "queries": queries,
        "seconds": {"cpu": time.process_time() - processor, "wall": time.perf_counter() - wall},
        "succeeded": outcomes["successful"], "failed": outcomes["failed"], "skipped": outcomes["skipped"],
    }


if __name__ == "__main__":
    main()
