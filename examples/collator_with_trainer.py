# SPDX-License-Identifier: Apache-2.0
"""DDM inside your own Hugging Face training script: one collator before training, one call after it.

    python examples/collator_with_trainer.py [ENCODER]
"""

import sys
import tempfile

from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments
from transformers.utils import logging

from dualmask import Example, MaskInsertionCollator, defend, resolve

SUBJECTS = ["movie", "plot", "cast", "ending", "music", "script", "hero", "scene"]
ADJECTIVES = [["bad", "awful"], ["good", "great"]]
ROWS = [(f"the {subject} was very {word}", label) for label, words in enumerate(ADJECTIVES) for word in words
        for subject in SUBJECTS]


def main(encoder: str) -> None:
    logging.set_verbosity_error()  # the loader would tell that the head is new
    folder = resolve(encoder, kind="encoder")  # a resource's name, a folder or a hub id
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, id2label={0: "negative", 1: "positive"}, label2id={"negative": 0, "positive": 1})
    # 36 tokens of 48: masks for 30 % of the text have to fit behind them
    rows = [{**tokenizer(text, truncation=True, max_length=36), "labels": label} for text, label in ROWS]

    # 1. the training half: masks behind [CLS] in every batch, at position zero because the model is given
    collator = MaskInsertionCollator(tokenizer, budget=0.3, model=model)
    shown = tokenizer.decode(collator(rows[:1])["input_ids"][0])
    print(f"what the network is trained on: {shown}")
    with tempfile.TemporaryDirectory() as out:
        settings = TrainingArguments(
            out, num_train_epochs=4, per_device_train_batch_size=8, learning_rate=2e-4, report_to="none",
            save_strategy="no", logging_strategy="no", disable_tqdm=True, dataloader_pin_memory=False)
        trained = Trainer(model, settings, train_dataset=rows, data_collator=collator).train()
    print(f"{trained.global_step} steps, mean loss {trained.training_loss:.3f}")

    # 2. the inference half: word counts are taken from the texts that the model was trained on
    texts = [text for text, _ in ROWS]
    classifier = defend(model, tokenizer, texts, defence="ddm", max_length=48)
    accuracy = classifier.accuracy([Example(text, label) for text, label in ROWS])
    print(f"{accuracy:.3f} of the training rows right with the defence on")
    print(classifier(["the movie was very gerat"]))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "minilm")
