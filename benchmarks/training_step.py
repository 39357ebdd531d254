# SPDX-License-Identifier: Apache-2.0
"""What does an epoch of DDM training cost beside plain fine-tuning with transformers' Trainer and dynamic padding?

    python benchmarks/training_step.py [--encoder minilm] [--data rotten-tomatoes] [--rows 640]

Prints one JSON line. Same rows, batch size, optimiser, precision and number of steps; tokenising in advance is
Trainer's, ours tokenises as it goes. Both take turns; ratios are medians over the rounds.
"""

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import replace

import torch

from dualmask import Dataset, load_dataset, train
from dualmask.models.encoders import load_encoder

BATCH = 32


def trainer_seconds(data: Dataset, encoder: str) -> float:
    """Training time of one epoch as Trainer itself reports it."""
    from transformers import DataCollatorWithPadding, Trainer, TrainingArguments
    from transformers.trainer_callback import PrinterCallback

    model, tokenizer = load_encoder(encoder, data.labels)
    rows = [{**tokenizer(str(example.text), truncation=True, max_length=128), "labels": example.label}
            for example in data.train]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=BATCH, num_train_epochs=1, report_to="none", save_strategy="no",
            logging_strategy="no", disable_tqdm=True, bf16=torch.cuda.is_available(), learning_rate=2e-5)
        trainer = Trainer(model, arguments, train_dataset=rows, data_collator=DataCollatorWithPadding(tokenizer),
                          processing_class=tokenizer)
        trainer.remove_callback(PrinterCallback)
        return float(trainer.train().metrics["train_runtime"])


def our_seconds(data: Dataset, encoder: str, defence: str) -> float:
    facts = train(data, encoder=encoder, defence=defence, progress=False,
                  training={"epochs": 1, "batch_size": BATCH}).facts
    return float(str(facts["seconds"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--data", default="rotten-tomatoes")
    parser.add_argument("--rows", type=int, default=640)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    data = load_dataset(args.data)
    held_out = (data.validation or data.train)[-64:]
    rows = data.train[::max(1, len(data.train) // args.rows)][:args.rows]
    data = replace(data, train=rows, validation=held_out, test=None)
    ways = {"trainer": lambda: trainer_seconds(data, args.encoder),
            "plain": lambda: our_seconds(data, args.encoder, "plain"),
            "ddm": lambda: our_seconds(data, args.encoder, "ddm")}
    rounds = [{name: work() for name, work in ways.items()} for _ in range(args.rounds + 1)][1:]  # the first warms up
    median = {name: statistics.median(row[name] / row["trainer"] for row in rounds) for name in ways}
    result = {
        "benchmark": "training_step", "device": "cuda" if torch.cuda.is_available() else "cpu",
        "threads": torch.get_num_threads(), "encoder": args.encoder, "rows": len(data.train), "batch": BATCH,
        "ddm_over_trainer": round(median["ddm"], 3), "limit": 1.35, "plain_over_trainer": round(median["plain"], 3)}
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
