# SPDX-License-Identifier: Apache-2.0
"""Attack a classifier of this library, and a plain function that gives probabilities.

    python examples/attack_a_classifier.py [ENCODER]
"""

import sys

from dualmask import Dataset, Example, attack, train

SUBJECTS = ["movie", "plot", "cast", "ending", "music", "script", "hero", "scene"]
ADJECTIVES = [["bad", "awful"], ["good", "great"]]
ROWS = [Example(f"the {subject} was very {word}", label) for label, words in enumerate(ADJECTIVES) for word in words
        for subject in SUBJECTS]


def counting(texts: list[str]) -> list[list[float]]:
    """A victim may be any function from texts to rows of probabilities; this one counts good words."""
    sure = [0.9 if "good" in text or "great" in text else 0.2 for text in texts]
    return [[1 - share, share] for share in sure]


def main(encoder: str) -> None:
    data = Dataset("reviews", ("negative", "positive"), train=ROWS, validation=ROWS, test=None)
    classifier = train(data, encoder=encoder, progress=False, training={"epochs": 2, "max_length": 32})
    for name, victim in (("the classifier", classifier), ("the function", counting)):
        print(f"{name}:")
        for result in attack(victim, ROWS[::6], "deepwordbug", options={"queries": 50}, measure=None):
            print(f"  {result.outcome:<10} {result.queries:>3} queries  {result.text} -> {result.adversarial}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "minilm")
