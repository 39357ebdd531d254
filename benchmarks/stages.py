# SPDX-License-Identifier: Apache-2.0
"""What does each stage of ddm-restore bring, and cost? Attacks on validation texts; no test part is read.

    python benchmarks/stages.py run DATA [--encoder minilm] [--only NAME ...] [--texts 200] [--training epochs=3 ...]
    python benchmarks/stages.py table RECORDS
    python benchmarks/stages.py choose RECORDS

`run` trains the classifier once for each variant below, attacks it (it is asked, defence and all) and prints one JSON
line for each (to stderr also after each attack): accuracy on all validation texts, then what is left of the attacked
ones under each attack, in percent. Texts of a variant that votes are half as many. Data without a validation part lend
2,500 training texts. `table` prints the lines of a file as a table, one for each data set. `choose` prints the variants
that all data sets have, the best first, by how far they stay below BARS over all data; a point of clean accuracy
counts five times.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from dualmask import attack, load_dataset, train
from dualmask.evaluation.filling import tensor_cores
from dualmask.text.examples import Dataset, split_stratified

ATTACKS = ("textfooler", "bertattack", "deepwordbug", "textbugger", "pwws")
HELD_OUT = 2500
BARS = {  # what a classifier should keep, set before anything was measured
    "mr": {"clean": 83.0, "textfooler": 45, "bertattack": 40, "deepwordbug": 58, "textbugger": 50},
    "ag_news": {"clean": 91.0, "textfooler": 75, "bertattack": 70, "deepwordbug": 75, "textbugger": 75},
}

VARIANTS: dict[str, tuple[str, dict[str, object]]] = {  # preset, options
    "all stages": ("recommended", {}),
    "no restoring": ("recommended", {"restore": False}),
    "clusters instead of means": ("recommended", {"synonyms": "head"}),
    "no synonyms": ("recommended", {"synonyms": "none"}),
    "no worst swaps": ("recommended", {"worst_share": 0.0}),
    "worst swaps in every text": ("recommended", {"worst_share": 1.0, "strange_rate": 0.0, "worst_sure": 0.0}),
    "worst swaps in three of four texts": ("recommended", {"strange_rate": 0.0, "worst_sure": 0.0}),
    "worst swaps in half of the texts": ("recommended", {"worst_share": 0.5, "strange_rate": 0.0, "worst_sure": 0.0}),
    "strangers, in half of the texts": ("recommended", {"worst_share": 0.5, "worst_sure": 0.0}),
    "strangers, in three of four texts": ("recommended", {"worst_sure": 0.0}),
    "strangers and WordNet's words, in three of four texts": (
        "recommended", {"sources": ("shipped", "wordnet"), "worst_sure": 0.0}),
    "strangers, in three of four texts, unsure ones spared": ("recommended", {"worst_known": 1.0}),
    "unsure ones spared until seven in ten are right": ("recommended", {"worst_known": 0.7}),
    "unsure ones spared until eight in ten are right": ("recommended", {"worst_known": 0.8}),
    "no steps of FreeLB": ("recommended", {"steps": 0}),
    "no masks": ("recommended", {"masking": False}),
    "no masks in training": ("recommended", {"insert_share": 0.0, "hide_share": 0.0}),
    "restoring alone": ("restore", {}),
    "vote of ten": ("vote", {"vote_swaps": 0.7}),
    "vote of ten, half of the words exchanged": ("vote", {"vote_swaps": 0.5}),
    "vote of ten, three in ten words exchanged": ("vote", {}),
    "vote of ten, mean of logits": ("vote", {"vote_swaps": 0.7, "decision": "mean"}),
    "vote of ten, no synonyms": ("vote", {"vote_swaps": 0.7, "synonyms": "none"}),
}


def load(source: str) -> Dataset:
    data = load_dataset(source)
    if data.validation is None:
        fitted, held_out = split_stratified(data.train, HELD_OUT / len(data.train), 0)
        data = replace(data, train=fitted, validation=held_out)
    return replace(data, test=None)


def measured(data: Dataset, name: str, args: argparse.Namespace) -> dict[str, object]:
    (preset, options), training = VARIANTS[name], dict(json_setting(one) for one in args.training)
    started = time.perf_counter()
    classifier = train(data, encoder=args.encoder, defence="ddm-restore", preset=preset, options=options,
                       training=training, progress=False)
    row: dict[str, object] = {
        "benchmark": "stages", "data": data.name, "variant": name, "encoder": Path(args.encoder).name,
        "training": training, "seconds": round(time.perf_counter() - started),
        "clean": round(100 * float(classifier.facts["validation_accuracy"]), 1)}  # type: ignore[arg-type]
    assert data.validation is not None
    count = args.texts if classifier.defence.views == 1 else args.texts // 2
    texts = random.Random(1).sample(list(data.validation), min(count, len(data.validation)))
    for method in args.attacks:
        held = sum(str(one.outcome) in ("failed", "unconfirmed") for one in attack(
            classifier, texts, method, measure=None))
        row[method] = round(100 * held / len(texts), 1)
        sys.stderr.write(f"{json.dumps(row)}\n")
    return {**row, "texts": len(texts)}


def json_setting(text: str) -> tuple[str, object]:
    name, _, value = text.partition("=")
    return name, json.loads(value)


def read(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def shortfall(row: Mapping[str, object]) -> float:
    """Points below the bars of the row's data set; one of clean accuracy counts as five."""
    return sum((5 if name == "clean" else 1) * max(0.0, bar - float(str(row[name])))
               for name, bar in BARS[str(row["data"])].items())


def choose(path: Path) -> Iterator[str]:
    """Variants, the best first: the last line of each variant and data set counts."""
    last = {(str(row["variant"]), str(row["data"])): row for row in read(path) if row["data"] in BARS
            and set(BARS[str(row["data"])]) <= set(row)}
    data = {one for _, one in last}
    whole = [name for name in VARIANTS if all((name, one) in last for one in data)]
    found = {name: sum(shortfall(last[name, one]) for one in data) for name in whole}
    for name in sorted(whole, key=lambda name: found[name]):
        yield f"{found[name]:6.1f}  {name}"


def table(path: Path) -> Iterator[str]:
    rows = read(path)
    for data in dict.fromkeys(row["data"] for row in rows):
        yield f"{data}:\n"
        yield "| variant | texts | clean | " + " | ".join(f"`{name}`" for name in ATTACKS) + " |"
        yield "|" + "---|" * (3 + len(ATTACKS))
        for row in rows:
            if row["data"] == data:
                figures = " | ".join(str(row.get(name, "-")) for name in ("texts", "clean", *ATTACKS))
                yield f"| {row['variant']} | {figures} |"
        yield ""


LISTS = {"table": table, "choose": choose}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("data")
    run.add_argument("--encoder", default="minilm")
    run.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    run.add_argument("--attacks", nargs="+", default=list(ATTACKS))
    run.add_argument("--texts", type=int, default=200)
    run.add_argument("--training", nargs="*", default=[], metavar="NAME=JSON")
    for name in LISTS:
        commands.add_parser(name).add_argument("records", type=Path)
    args = parser.parse_args()
    if args.command in LISTS:
        sys.stdout.writelines(f"{line}\n" for line in LISTS[args.command](args.records))
        return
    data = load(args.data)
    with tensor_cores():
        for name in args.only:
            sys.stdout.write(json.dumps(measured(data, name, args)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
