# SPDX-License-Identifier: Apache-2.0
"""A defended classifier in the place of a text-classification pipeline, and what it says beyond one.

    python examples/pipeline_style.py [ENCODER]
"""

import sys

from dualmask import Dataset, DefendedClassifier, Example, train

SUBJECTS = ["movie", "plot", "cast", "ending", "music", "script", "hero", "scene"]
ADJECTIVES = [["bad", "awful"], ["good", "great"]]
ROWS = [Example(f"the {subject} was very {word}", label) for label, words in enumerate(ADJECTIVES) for word in words
        for subject in SUBJECTS]


def trained(encoder: str) -> DefendedClassifier:
    """A few dozen rows, a few steps: enough to show the calls, not enough for a good classifier."""
    data = Dataset("reviews", ("negative", "positive"), train=ROWS, validation=ROWS, test=None)
    return train(data, encoder=encoder, progress=False,
                 training={"epochs": 4, "learning_rate": 2e-4, "batch_size": 8, "max_length": 48})


def main(encoder: str) -> None:
    classifier = trained(encoder)

    print("one text:    ", classifier("the movie was very great"))
    print("several:     ", classifier(["the movie was very great", "an awful film"]))
    print("every label: ", classifier(["an awful film"], top_k=None))

    # what a pipeline does not tell: which words of the text were read otherwise or hidden from the network, and why
    text = "the mvoie was very great and the music was good"
    answer = classifier.predict([text], explain=True)
    assert answer.masked is not None
    print(f"text: {text}")
    for span in answer.masked[0]:
        read = f"read as '{span.becomes}'" if span.becomes is not None else "hidden"
        print(f"  '{span.text}', characters {span.start} to {span.end}: {read} ({span.why})")
    bare = classifier.predict([text], defended=False)
    print(f"with the defence {answer.labels[0]} {answer.probabilities.max():.2f}, "
          f"without it {bare.labels[0]} {bare.probabilities.max():.2f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "minilm")
