# SPDX-License-Identifier: Apache-2.0
"""Put a defence around a classifier that was fine-tuned without one: misspelt words are read as they were meant.

    python examples/defend_a_model.py [ENCODER]

The network's weights stay as they are. `dualmask harden` does the same for a saved model, and attacks it as well.
"""

import sys
import tempfile

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from dualmask import DefendedClassifier, Example, defend, resolve

SUBJECTS = ["movie", "plot", "cast", "ending", "music", "script", "hero", "scene"]
ADJECTIVES = [["bad", "awful"], ["good", "great"]]
ROWS = [Example(f"the {subject} was very {word}", label) for label, words in enumerate(ADJECTIVES) for word in words
        for subject in SUBJECTS]


def fine_tuned(encoder: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Stands for the model that you have already."""
    folder = resolve(encoder, kind="encoder")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, id2label={0: "negative", 1: "positive"}, label2id={"negative": 0, "positive": 1})
    inputs = tokenizer([str(text) for text, _ in ROWS], padding=True, return_tensors="pt")
    labels = torch.tensor([label for _, label in ROWS])
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model.train()
    for _ in range(12):
        model(**inputs, labels=labels).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    return model.eval(), tokenizer


def main(encoder: str) -> None:
    logging.set_verbosity_error()  # the loader would tell that the head is new
    model, tokenizer = fine_tuned(encoder)
    classifier = defend(model, tokenizer, [text for text, _ in ROWS], max_length=48)
    for defended in (False, True):
        state = "on" if defended else "off"
        print(f"defence {state}: {classifier.accuracy(ROWS, defended=defended):.3f} of the training rows right")
    with tempfile.TemporaryDirectory() as folder:
        classifier.save(folder)  # plain transformers opens this folder too, without the defence
        again = DefendedClassifier.load(folder)
        for words in again.predict(["the mvoie was very great"], explain=True).masked or []:
            print("read otherwise:", ", ".join(f"'{word.text}' as {word.becomes or 'a mask'}" for word in words))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "minilm")
