# SPDX-License-Identifier: Apache-2.0
"""A grid that runs in seconds: a tiny encoder that learns, sentences whose one word decides, an attack by typos."""

import csv
from pathlib import Path

from conftest import build_encoder, reviews

LABELS = ("bad", "good")
GRID = """name = "toy"
data = [{name = "toy", source = "data"}]
encoders = [{name = "tiny", source = "encoder"}]
defences = ["plain", "ddm"]
attacks = ["deepwordbug"]
modes = ["adaptive", "transfer"]
seeds = [0]
samples = 12
measure = "none"

[training]
epochs = 6
batch_size = 16
learning_rate = 0.01
max_length = 40
patience = 0
"""


def learning_encoder(folder: Path) -> Path:
    """The tiny encoder with weights as small as a new network's are, so that it learns within a second."""
    import torch
    from transformers import AutoConfig, AutoModel

    build_encoder("bert", folder)
    torch.manual_seed(0)
    AutoModel.from_config(AutoConfig.from_pretrained(folder)).save_pretrained(folder)
    return folder


def write_toy(folder: Path, *, tests: int = 24) -> Path:
    """Encoder, data and grid; gives the grid's file."""
    learning_encoder(folder / "encoder")
    (folder / "data").mkdir(parents=True)
    for number, (part, rows) in enumerate({"train": 96, "validation": 24, "test": tests}.items()):
        with (folder / "data" / f"{part}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *((str(one.text), LABELS[one.label])
                                                             for one in reviews(rows, seed=number))])
    return change(folder / "grid.toml")


def change(path: Path, **settings: str) -> Path:
    """The toy grid with other settings, as TOML; one that it lacks comes first."""
    lines = GRID.splitlines()
    for name, value in settings.items():
        place = next((number for number, line in enumerate(lines) if line.startswith(f"{name} = ")), None)
        lines[place or 0:(place or 0) + (place is not None)] = [f"{name} = {value}"] if value else []
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
