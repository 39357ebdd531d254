# SPDX-License-Identifier: Apache-2.0
"""What synonym clusters merge, which swaps of attackers they undo, and what that costs; no test part is read.

    python benchmarks/clusters.py merges DATA [--threshold 0.6] [--sources shipped wordnet]
    python benchmarks/clusters.py costs DATA [--thresholds 0.5 0.6 ...] [--aparts 0.2 1]

DATA is a folder with train (and validation) files; without validation, 2,500 training rows are held out. `merges`
describes one setting: words that change, the largest clusters, random merges, and the share of swaps undone. `costs`
prints a row for each setting: accuracy of naive Bayes over read words, clean and when an attacker who knows all its
weights swaps at most a share of a text's words for the candidates that hurt most. Each swap adds to the margin of one
class over another by itself, so the best swaps are found exactly. A bag of words stands in for an encoder: it knows
nothing of words it never saw, and so is easier to fool; the rows are for comparing settings.

Candidates: TextFooler's (the shipped table's 50 nearest, cosine 0.5 or more, same part of speech; `near` only the 8
nearest of those) and PWWS's (WordNet, any sense), for words that are no stop words of the attack.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualmask.attacks.constraints import SamePart
from dualmask.text.clusters import Clusters, Evidence
from dualmask.text.examples import Example, load_dataset, split_stratified
from dualmask.text.stop_words import stop_words
from dualmask.text.synonyms import shipped_synonyms
from dualmask.text.tagging import shipped_tagger
from dualmask.text.wordnet import load_wordnet
from dualmask.text.words import Words, word_count

Floats = NDArray[np.float64]
Head = Callable[[str], str]

HELD_OUT, NEAR = 2500, 8
BUDGETS = (0.1, 0.3, 1.0)  # shares of a text's words that may be swapped
ATTACKERS = ("textfooler", "near", "pwws")


class Swap(NamedTuple):
    """A word of a validation text in lower case, and what each attacker may write instead."""

    word: str
    textfooler: list[str]  # nearest first
    pwws: list[str]

    def candidates(self, attacker: str) -> list[str]:
        return {"textfooler": self.textfooler, "near": self.textfooler[:NEAR], "pwws": self.pwws}[attacker]


class Target(NamedTuple):
    label: int
    swaps: list[Swap]


def load(folder: Path) -> tuple[list[Example], list[Example]]:
    """Training and validation part."""
    data = load_dataset(folder)
    if data.validation is not None:
        return data.train, data.validation
    return split_stratified(data.train, HELD_OUT / len(data.train), 0)


def lower_words(example: Example) -> list[str]:
    return [word.lower() for word in Words(example.text).words]


def targets(examples: Sequence[Example]) -> Iterator[Target]:
    """What may be swapped in each text."""
    same_part, wordnet = SamePart(shipped_tagger()), load_wordnet()
    for example in examples:
        text = Words(example.text)
        swaps = []
        for place, word in enumerate(lower_words(example)):
            near: list[str] = []
            if word not in stop_words("textfooler"):
                near = [other for other, _ in shipped_synonyms().neighbours(word)
                        if same_part.allows(text.replaced(place, other), text)]
            names = wordnet.synonyms(word) if word not in stop_words("nltk") else []
            lower = dict.fromkeys(name.lower() for name in names if "_" not in name and word_count(name) == 1)
            swaps.append(Swap(word, near, [name for name in lower if name != word]))
        yield Target(example.label, swaps)


class NaiveBayes:
    """Over the words as they are read; smoothed by one."""

    def __init__(self, examples: Sequence[Example], head: Head) -> None:
        self.head = head
        classes = max(label for _, label in examples) + 1
        counts: list[Counter[str]] = [Counter() for _ in range(classes)]
        for example in examples:
            counts[example.label].update(map(head, lower_words(example)))
        words = sorted(set().union(*counts))
        table = np.array([[count[word] for count in counts] for word in words], dtype=np.float64) + 1
        logs = np.log(table / table.sum(axis=0))
        self.bias: Floats = np.log(np.bincount([label for _, label in examples]) / len(examples))
        centred: Floats = logs - logs.mean(axis=1, keepdims=True)
        self.weights: dict[str, Floats] = dict(zip(words, centred, strict=True))  # (classes,) each
        self.unknown: Floats = np.zeros(classes)

    def weight(self, word: str) -> Floats:
        return self.weights.get(self.head(word), self.unknown)

    def margins(self, words: Sequence[str], label: int) -> Floats:
        """How far the label is ahead of each other class; of itself infinitely."""
        scores = self.bias + sum((self.weight(word) for word in words), self.unknown)
        margins = scores[label] - scores
        margins[label] = np.inf
        return np.asarray(margins)

    def accuracy(self, examples: Sequence[Example]) -> float:
        return float(np.mean([self.margins(lower_words(one), one.label).min() > 0 for one in examples]))

    def losses(self, target: Target, attacker: str) -> Floats:
        """The most that each word's swap takes from the margin over each class, (words, classes), largest first."""
        losses = np.zeros((len(target.swaps), len(self.bias)))
        for place, swap in enumerate(target.swaps):
            if candidates := swap.candidates(attacker):
                gains = np.array([self.weight(word) for word in candidates]) - self.weight(swap.word)
                losses[place] = np.maximum((gains - gains[:, [target.label]]).max(axis=0), 0)
        return -np.sort(-losses, axis=0)

    def attacked(self, found: Sequence[Target], attacker: str) -> list[float]:
        """Accuracy under each budget."""
        right = np.zeros(len(BUDGETS))
        for target in found:
            margins = self.margins([swap.word for swap in target.swaps], target.label)
            losses = self.losses(target, attacker)
            for place, budget in enumerate(BUDGETS):
                right[place] += (margins - losses[:int(np.ceil(budget * len(losses)))].sum(axis=0)).min() > 0
        return [float(share) for share in right / len(found)]


def unchanged(found: Sequence[Target], attacker: str, head: Head) -> float:
    """The share of an attacker's swaps that leave the text as it is read."""
    same = [head(other) == head(swap.word) for target in found for swap in target.swaps
            for other in swap.candidates(attacker)]
    return float(np.mean(same))


def conflicting(found: Sequence[Target], attacker: str, head: Head, evidence: Evidence) -> float:
    """Of the swaps that do change it, the share that leads to a word of conflicting evidence."""
    pairs = [(swap.word, other) for target in found for swap in target.swaps for other in swap.candidates(attacker)
             if head(other) != head(swap.word)]
    low, high = evidence.intervals([word for pair in pairs for word in pair])
    low, high = low.reshape(len(pairs), 2, -1), high.reshape(len(pairs), 2, -1)
    return float(((low.max(axis=1) - high.min(axis=1)).max(axis=1) > evidence.apart).mean())


def touched(examples: Sequence[Example], head: Head) -> tuple[float, float]:
    """The share of words that are read as another, and the share of different words that are no longer different."""
    words = Counter(word for example in examples for word in lower_words(example))
    changed = sum(count for word, count in words.items() if head(word) != word)
    return changed / words.total(), 1 - len(set(map(head, words))) / len(words)


def merges(options: argparse.Namespace) -> None:
    """One setting in detail."""
    train, validation = load(options.data)
    clusters = Clusters(threshold=options.threshold, sources=options.sources, z=options.z, apart=options.apart,
                        most=options.most)
    clusters.fit(train)
    changed, merged = touched(validation, clusters.head)
    members: dict[str, list[str]] = {}
    for word, head in clusters.table().items():
        members.setdefault(head, []).append(word)
    sizes = sorted(members, key=lambda head: -len(members[head]))
    seen = sorted({word for example in validation for word in lower_words(example)} & set(clusters.table()))
    draw = Random(0)
    examples = [f"{word} -> {clusters.head(word)}" for word in draw.sample(seen, len(seen))
                if clusters.head(word) != word][:30]
    lines = [f"{len(clusters.table()):,} words in {len(members):,} clusters; of the validation words {changed:.1%} "
             f"change, {merged:.1%} of the different ones are merged", "largest clusters:"]
    lines += [f"  {head} ({len(members[head])}): {', '.join(draw.sample(members[head], 8))}" for head in sizes[:10]]
    lines += ["random merges: " + "; ".join(examples)]
    found = list(targets(validation[::max(1, len(validation) // options.texts)][:options.texts]))
    evidence = Evidence(train, z=options.z, apart=options.apart)
    for attacker in ATTACKERS:
        lines.append(f"{attacker}: {unchanged(found, attacker, clusters.head):.1%} of swaps change nothing, of the "
                     f"others {conflicting(found, attacker, clusters.head, evidence):.1%} lead to conflicting evidence")
    sys.stdout.write("\n".join(lines) + "\n")


def folded(train: Sequence[Example], learn: Callable[[Sequence[Example]], Head], folds: int) -> float:
    """Clean accuracy by cross-validation over the training part, clusters learned anew; steadier than held-out rows."""
    parts = [([one for place, one in enumerate(train) if place % folds != fold], train[fold::folds])
             for fold in range(folds)]
    return float(np.mean([NaiveBayes(kept, learn(kept)).accuracy(held) for kept, held in parts]))


def learned(train: Sequence[Example], **settings: Any) -> Head:
    clusters = Clusters(**settings)
    clusters.fit(train)
    return clusters.head


def row(name: str, head: Head, data: tuple[Sequence[Example], Sequence[Example]], found: Sequence[Target]) -> str:
    model = NaiveBayes(data[0], head)
    shares = [*touched(data[1], head), *(unchanged(found, attacker, head) for attacker in ATTACKERS),
              model.accuracy(data[1])]
    attacked = [" / ".join(f"{share:.1%}"[:-1] for share in model.attacked(found, attacker)) for attacker in ATTACKERS]
    return f"| {name} | " + " | ".join([*(f"{share:.1%}"[:-1] for share in shares), *attacked])


def costs(options: argparse.Namespace) -> None:
    """A row for each setting."""
    train, validation = load(options.data)
    found = list(targets(validation[::max(1, len(validation) // options.texts)][:options.texts]))
    budgets = " / ".join(f"{budget:.0%}" for budget in BUDGETS)
    heads = ["setting", "changed", "merged", *(f"{attacker} undone" for attacker in ATTACKERS), "clean",
             *(f"{attacker} {budgets}" for attacker in ATTACKERS), f"clean, {options.folds} folds"]
    sys.stdout.write(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|\n")
    learners: dict[str, Callable[[Sequence[Example]], Head]] = {"as written": lambda _: str}
    for sources in (["shipped"], ["shipped", "wordnet"], ["wordnet"]):
        for threshold in options.thresholds if "shipped" in sources else [0.5]:
            for apart in options.aparts:
                learners[f"{'+'.join(sources)} {threshold:g}, apart {apart:g}"] = partial(
                    learned, threshold=threshold, sources=sources, z=options.z, apart=apart, most=options.most)
    for name, learn in learners.items():
        clean = f"{folded(train, learn, options.folds):.1%}"[:-1] if options.folds else "-"
        sys.stdout.write(row(name, learn(train), (train, validation), found) + f" | {clean} |\n")
        sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    defaults = Clusters()
    parser.add_argument("command", choices=("merges", "costs"))
    parser.add_argument("data", type=Path)
    parser.add_argument("--texts", type=int, default=1000, help="validation texts to attack")
    parser.add_argument("--threshold", type=float, default=defaults.threshold)
    parser.add_argument("--sources", nargs="+", default=defaults.sources)
    parser.add_argument("--z", type=float, default=defaults.z)
    parser.add_argument("--apart", type=float, default=defaults.apart)
    parser.add_argument("--most", type=int, default=defaults.most)
    parser.add_argument("--folds", type=int, default=4, help="of the cross-validation; 0: none")
    parser.add_argument("--thresholds", type=float, nargs="+", default=[0.5, 0.6, 0.7, 0.8, 0.9])
    parser.add_argument("--aparts", type=float, nargs="+", default=[defaults.apart])
    options = parser.parse_args()
    (merges if options.command == "merges" else costs)(options)


if __name__ == "__main__":
    main()
