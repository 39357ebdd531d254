# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201
"""A defended classifier in the place of a text-classification pipeline, and what it says beyond one.

    python examples/pipeline_style.py [ENCODER]
"""

import sys

from dualmask import Dataset, DefendedClassifier, Example, train

ADJECTIVES = [["bad", "awful", "poor", "dull"], ["good", "great", "fine", "superb"]]
SENTENCES = ["the movie was {}", "a {} plot and a {} actor", "the scene with the actor was very {}", "a very {} movie"]
ROWS = [Example(sentence.replace("{}", word), label) for label, words in enumerate(ADJECTIVES) for word in words
        for sentence in SENTENCES]


def trained(encoder: str) -> DefendedClassifier:
    """A few dozen rows, a few steps: enough to show the calls, not enough for a good classifier."""
    data = Dataset("reviews", ("negative", "positive"), train=ROWS, validation=ROWS, test=None)
    return train(data, encoder=encoder, progress=False,
                 training={"epochs": 3, "learning_rate": 1e-4, "batch_size": 8, "max_length": 48})


def main(encoder: str) -> None:
    classifier = trained(encoder)

    print("one text:    ", classifier("the movie was great"))
    print("several:     ", classifier(["the movie was great", "a dull plot"]))
    print("every label: ", classifier(["a dull plot"], top_k=None))

    # what a pipeline does not tell: which pieces of the text were hidden from the network, and why
    text = "the mvoie was very great and the acting was fine"
    answer = classifier.predict([text], explain=True)
    assert answer.masked is not None
    print(f"{answer.labels[0]}: {text}")
    for span in answer.masked[0]:
        print(f"  hidden: '{text[span.start:span.end]}' (characters {span.start} to {span.end}), score {span.score:.2f}")
    print("  the score is -ln(1 + count in the training texts): 0 was never seen there")
    bare = classifier.predict([text], defended=False)
    print(f"without the defence: {bare.labels[0]} {bare.probabilities.max():.2f}, with it {answer.probabilities.max():.2f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "minilm")
