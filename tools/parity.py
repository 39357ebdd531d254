# SPDX-License-Identifier: Apache-2.0
"""Replay the golden traces with this library's attacks, and tell where they differ from TextAttack's.

    python tools/parity.py [--attacks NAME ...] [--data mr ag_news sentences] [--dump FOLDER]

With --dump, the folder of full queries that tools/parity_textattack.py wrote, the first differing query is shown.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from parity_examples import CLASSES, GOLDEN, SEED, SENTENCES, SHARED, ParityExample, examples, load_sentences
from stand_in_lm import StandInMaskedLM
from stand_ins import StandInSentenceEncoder, StandInSynonyms, StandInTagger, StandInVictim, StandInWordNet, digest

from dualmask.attacks import Tools, build_attack
from dualmask.attacks.running import Assault
from dualmask.results import AttackResult
from dualmask.text.examples import Example

ATTACKS = {"deepwordbug": "deepwordbug", "pwws": "pwws", "textbugger": "textbugger", "textfooler": "textfooler",
           "bert-attack": "bertattack"}


class Sentences:
    """The stand-in encoder as this library expects one."""

    name = "stand-in"

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return StandInSentenceEncoder()(texts)


class Lexicon:
    def __init__(self, table: StandInWordNet) -> None:
        self.table = table

    def synonyms(self, word: str) -> list[str]:
        return list(dict.fromkeys(self.table.lemma_names(word)))


def language_model(folder: Path) -> Any:
    """The stand-in masked language model with a real vocabulary."""
    import torch
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    vocabulary = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    answers = StandInMaskedLM(vocabulary).as_module()

    class Model(torch.nn.Module):
        config = SimpleNamespace(max_position_embeddings=512)
        device = torch.device("cpu")

        def forward(self, **inputs: torch.Tensor) -> SimpleNamespace:
            return SimpleNamespace(logits=answers(**inputs)[0])

    return SimpleNamespace(model=Model(), tokenizer=tokenizer)


def tools(attack: str, data: str, shared: Path) -> Tools:
    given: Any = {"tagger": StandInTagger(), "sentences": Sentences()}
    if data == SENTENCES:
        ours = load_sentences()
        given |= {"synonyms": ours.synonyms, "wordnet": Lexicon(ours.wordnet)}
    else:
        given["synonyms"] = StandInSynonyms.load(shared / "lexical/counterfitted_neighbors.json")
    if attack == "bert-attack":
        given["language_model"] = language_model(shared / "models/gte-small-mlm")
    return Tools(**given)


def replay(attack: str, data: str, shared: Path = SHARED) -> list[dict[str, object]]:
    """Our traces in the form of the golden ones, with the queries in full under "asked"."""
    chosen = build_attack(ATTACKS[attack], preset="textattack-0.3.11", tools=tools(attack, data, shared))
    assault = Assault(StandInVictim(CLASSES[data]), chosen, seed=SEED, sequential=True, measure=None)
    assault.logs = {}
    rows = examples(data, shared)
    results = assault.run([(place, Example(row.text, row.label)) for place, row in enumerate(rows)])
    return [trace(rows[one.index], one, assault.logs[one.index]) for one in results]


def trace(example: ParityExample, result: AttackResult, asked: list[str]) -> dict[str, object]:
    final = str(result.adversarial if result.adversarial is not None else result.text)
    return {"row": example.row, "label": example.label, "outcome": result.outcome, "queries": result.queries,
            "query_digest": digest(asked), "final_digest": digest([final]), "words": result.words, "asked": asked}


def golden(attack: str, data: str) -> list[dict[str, object]]:
    name = f"{SENTENCES}_{attack}.json" if data == SENTENCES else f"{attack}.json"
    rows: list[dict[str, object]] = json.loads((GOLDEN / name).read_text(encoding="utf-8"))[data]
    return rows


def differing(attack: str, data: str, shared: Path = SHARED) -> list[tuple[dict[str, object], dict[str, object]]]:
    """Golden and own trace of every example where they are not the same."""
    keys = ("row", "label", "outcome", "queries", "query_digest", "final_digest", "words")
    pairs = zip(golden(attack, data), replay(attack, data, shared), strict=True)
    return [(theirs, ours) for theirs, ours in pairs if any(theirs[key] != ours[key] for key in keys)]


def first_difference(dump: Path, attack: str, data: str, ours: dict[str, object]) -> str:
    for line in (dump / f"{attack}.jsonl").open(encoding="utf-8"):
        theirs = json.loads(line)
        if theirs["data"] == data and theirs["row"] == ours["row"]:
            asked: Any = ours["asked"]
            for place, (one, other) in enumerate(zip(theirs["asked"], asked, strict=False)):
                if one != other:
                    return f"query {place}:\n  TextAttack {one!r}\n  dualmask   {other!r}"
            return f"{len(theirs['asked'])} and {len(asked)} queries, alike as far as both go"
    return "not in the dump"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attacks", nargs="+", choices=ATTACKS, default=list(ATTACKS))
    parser.add_argument("--data", nargs="+", choices=CLASSES, default=list(CLASSES))
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--dump", type=Path)
    options = parser.parse_args()
    total = wrong = 0
    for attack in options.attacks:
        for data in options.data:
            if (attack, data) == ("bert-attack", SENTENCES):  # its vocabulary is not ours to ship
                continue
            found, count = differing(attack, data, options.shared), len(golden(attack, data))
            total, wrong = total + count, wrong + len(found)
            print(f"{attack} {data}: {count - len(found)} of {count} traces identical", flush=True)
            for theirs, ours in found:
                print(f"  row {theirs['row']}: {theirs['outcome']} after {theirs['queries']}, "
                      f"ours {ours['outcome']} after {ours['queries']}" + (" (tied)" if theirs.get("tied") else ""))
                if options.dump:
                    print("  " + first_difference(options.dump, attack, data, ours))
    print(f"{total - wrong} of {total} traces identical")
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
