# SPDX-License-Identifier: Apache-2.0
"""Does an attack find more if it sees the gradient? Attacks on validation texts; no test part is read.

    python benchmarks/white_box.py MODEL DATA [--defence ddm-restore] [--texts 100] [--rows 4000] [--epochs 4]

MODEL as for held_still.py: trained first if there is none. Prints one JSON line: percent of texts that are answered
rightly before and after each attack, TextFooler, which only asks, among them. A defence that hides its gradient, not
its errors, falls to those that ask and holds under those that look.
"""

import json
import random
import sys

from held_still import arguments, left, trained

from dualmask import load_dataset

ATTACKS = {  # name: attack and preset
    "textfooler": ("textfooler", None), "hotflip": ("hotflip", "paper"), "hotflip, free": ("hotflip", "free"),
    "fgpm": ("fgpm", "paper"), "fgpm, free": ("fgpm", "free")}


def main() -> None:
    args = arguments(__doc__, texts=100).parse_args()
    data = load_dataset(args.data)
    made = trained(args.model, data, args.defence, rows=args.rows, epochs=args.epochs)
    texts = random.Random(1).sample(list(data.validation or []), args.texts)
    found = {name: left(made, texts, attack, "raw", preset=preset) for name, (attack, preset) in ATTACKS.items()}
    sys.stdout.write(json.dumps({
        "benchmark": "white_box", "defence": made.defence.name, "data": data.name, "encoder": made.facts["encoder"],
        "texts": len(texts), "training_texts": made.facts["rows"]["train"],  # type: ignore[index]
        "right": found["textfooler"][0], "left": {name: after for name, (_, after) in found.items()}}) + "\n")


if __name__ == "__main__":
    main()
