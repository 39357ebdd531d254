# SPDX-License-Identifier: Apache-2.0
"""From a CSV file to a saved, defended classifier, and back from disk.

    python examples/train_from_csv.py [ENCODER]

The file has a few dozen made-up rows: enough to see every step, not enough for a good classifier.
"""

import csv
import sys
import tempfile
from pathlib import Path

from dualmask import DefendedClassifier, load_dataset, train

SUBJECTS = ["movie", "plot", "cast", "ending", "music", "script", "hero", "scene"]
ADJECTIVES = {"positive": ["good", "great"], "negative": ["bad", "awful"]}


def write_reviews(path: Path) -> None:
    rows = [(f"the {subject} was very {word}", label) for label, words in ADJECTIVES.items() for word in words
            for subject in SUBJECTS]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])  # columns are found by their names


def main(encoder: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_reviews(reviews := Path(folder, "reviews.csv"))
        data = load_dataset(reviews, test=reviews)  # for real figures give a file that was not trained on
        train(data, encoder=encoder, defence="ddm-restore", preset="restore", options={"budget": 0.2},
              training={"epochs": 4, "learning_rate": 2e-4, "batch_size": 8, "max_length": 48},
              out=Path(folder, "model"), progress=False)

        classifier = DefendedClassifier.load(Path(folder, "model"))
        facts = classifier.facts
        print(f"labels: {', '.join(classifier.labels)}; {facts['epochs_run']} epochs, {facts['steps']} steps")
        print(f"accuracy on the training rows: {facts['test_accuracy']:.3f} with the defence on, "
              f"{facts['test_accuracy_undefended']:.3f} with it off")
        texts = ["the actor was very good", "the mvoie was very great", "an awful film"]
        answers = classifier.predict(texts)
        for text, label, row in zip(texts, answers.labels, answers.probabilities.tolist(), strict=True):
            print(f"{label:>8} {max(row):.2f}  {text}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "minilm")
