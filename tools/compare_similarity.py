# SPDX-License-Identifier: Apache-2.0
"""How sentence encoders rate one swapped word: a synonym or an antonym in the same place of the same sentence.

    pip install 'dualmask[use]' && python tools/compare_similarity.py [--shared ../shared] [--encoders minilm use]

From each MR test sentence the first word is taken that has both an antonym (the WordNet pairs of the counter-fitting
constraints) and a synonym (its nearest neighbour in counter-fitted space that is no antonym of it). A third kind of
pair is the sentence and another one of the set. Printed are Markdown tables: the spread of the similarities, which
share of the swaps passes the thresholds of published attacks, and the threshold that stops as many synonyms as USE's.
"""

import argparse
import csv
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualmask.models.sentences import Vectors, angular, cosine, find_sentence_encoder
from dualmask.text.stop_words import stop_words

SHARED = Path(__file__).parents[2] / "shared"
MEASURES: Mapping[str, Callable[[Vectors, Vectors], Vectors]] = {"cosine": cosine, "angular": angular}
THRESHOLDS = (("BERT-Attack", "cosine", 0.2), ("TextBugger", "angular", 0.8), ("TextFooler", "angular", 0.840845057))
KINDS = ("synonym", "antonym", "other sentence")
Similarities = dict[tuple[str, str], NDArray[np.float32]]  # (measure, kind) -> one number for each sentence


class Swap(NamedTuple):
    sentence: str
    synonym: str
    antonym: str


def find_swaps(shared: Path) -> list[Swap]:
    opposites: dict[str, list[str]] = defaultdict(list)
    for line in (shared / "lexical" / "wordnet_antonyms.txt").read_text(encoding="utf-8").split("\n"):
        if len(pair := line.split()) == 2:
            opposites[pair[0]].append(pair[1])
    neighbours = json.loads((shared / "lexical" / "counterfitted_neighbors.json").read_text(encoding="utf-8"))
    left_alone = stop_words("textfooler") | stop_words("nltk")
    with (shared / "data" / "mr" / "test.csv").open(encoding="utf-8", newline="") as stream:
        sentences = [row["text"] for row in csv.DictReader(stream)]
    swaps = []
    for sentence in sentences:
        words = sentence.split(" ")
        for place, word in enumerate(words):
            alike = [other for other in neighbours.get(word, ()) if other not in opposites[word]]
            if word not in left_alone and alike and opposites[word]:
                before, after = " ".join([*words[:place], ""]), " ".join(["", *words[place + 1:]])
                swaps.append(Swap(sentence, before + alike[0] + after, before + opposites[word][0] + after))
                break
    return swaps


def measure(name: str, swaps: list[Swap]) -> Similarities:
    encoder = find_sentence_encoder(name)
    originals, synonyms, antonyms = (encoder.encode(list(column)) for column in zip(*swaps, strict=True))
    compared = dict(zip(KINDS, (synonyms, antonyms, np.roll(originals, 1, axis=0)), strict=True))
    return {(label, kind): function(originals, vectors)
            for label, function in MEASURES.items() for kind, vectors in compared.items()}


def print_spread(found: Mapping[str, Similarities]) -> None:
    print("\n| encoder | measure | pair | mean | 5 % | median | 95 % | synonym above antonym |\n" + "|---" * 8 + "|")
    for name, similarities in found.items():
        for (label, kind), values in similarities.items():
            low, middle, high = np.quantile(values, (0.05, 0.5, 0.95))
            above = f"{np.mean(similarities[label, KINDS[0]] > values):.1%}" if kind == "antonym" else ""
            numbers = " | ".join(f"{value:.3f}" for value in (values.mean(), low, middle, high))
            print(f"| {name} | {label} | {kind} | {numbers} | {above} |")


def print_thresholds(found: Mapping[str, Similarities]) -> None:
    print("\n| threshold | encoder | synonyms that pass | antonyms that pass | other sentences | as strict as use |")
    print("|---" * 6 + "|")
    for attack, label, threshold in THRESHOLDS:
        for name, similarities in found.items():
            shares = [float(np.mean(similarities[label, kind] >= threshold)) for kind in KINDS]
            equal = ""
            failing = float(np.mean(found["use"][label, KINDS[0]] < threshold)) if "use" in found else 0
            if failing and name != "use":  # where none fails, any low threshold would do
                equal = f"{np.quantile(similarities[label, KINDS[0]], failing):.3f}"
            print(f"| {attack}, {label} {threshold:.3f} | {name} | " + " | ".join(f"{s:.1%}" for s in shares)
                  + f" | {equal} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=SHARED, help="folder with data/mr and lexical")
    parser.add_argument("--encoders", nargs="+", default=["minilm", "use"], help="names for find_sentence_encoder")
    options = parser.parse_args()
    swaps = find_swaps(options.shared)
    print(f"{len(swaps)} MR test sentences with one word swapped, for instance:", *swaps[0], sep="\n  ")
    found = {name: measure(name, swaps) for name in options.encoders}
    print_spread(found)
    print_thresholds(found)


if __name__ == "__main__":
    main()
