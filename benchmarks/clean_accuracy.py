# SPDX-License-Identifier: Apache-2.0
"""Clean accuracy of plain and DDM classifiers, with the inference masks on and off, over data sets and seeds.

    python benchmarks/clean_accuracy.py run --encoder ENCODER --data mr=FOLDER --data ag_news=FOLDER --out RECORDS
    python benchmarks/clean_accuracy.py table RECORDS
    python benchmarks/clean_accuracy.py rates RECORDS      # the same arm at several learning rates

`run` trains every arm that RECORDS (JSON Lines) lacks, several processes at a time; `table` prints what is recorded.
"""

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import asdict, replace
from pathlib import Path

# name -> (defence, preset, options, whether the common training options take the place of the preset's own): so that
# what the masks cost is not mixed up with what a schedule costs
ARMS: dict[str, tuple[str, str, dict[str, object], bool]] = {
    "plain": ("plain", "recommended", {}, True),
    "ddm": ("ddm", "recommended", {}, True),
    "ddm, preset paper but for the schedule": ("ddm", "paper", {}, True),
    "ddm, preset paper": ("ddm", "paper", {}, False),
    "ddm, preset release": ("ddm", "release", {}, False),
}
RATES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)


def run_one(
    arm: str, data_name: str, folder: str, encoder: str, seed: int, changes: dict[str, object],
) -> dict[str, object]:
    """Train one classifier and test it under every inference rate."""
    import torch

    from dualmask import TrainingOptions, load_dataset, train

    data = load_dataset(folder)
    defence, preset, options, common = ARMS[arm]
    training = {**asdict(TrainingOptions()), **changes} if common else {}
    started = time.perf_counter()
    classifier = train(data, encoder=encoder, defence=defence, preset=preset, options=options, progress=False,
                       training={**training, "seed": seed})
    seconds = time.perf_counter() - started
    accuracies = {"preset": classifier.facts["test_accuracy"]}
    for rate in RATES if defence == "ddm" else RATES[:1]:
        if defence == "ddm":
            classifier.defence.options = replace(classifier.defence.options, test_rate=rate)  # type: ignore[type-var]
        accuracies[f"{rate}"] = round(classifier.accuracy(data.test or []), 4)
    facts = classifier.facts
    return {"arm": arm, "data": data_name, "seed": seed, "encoder": Path(encoder).name,
            "encoder_sha256": weights_hash(Path(encoder)), "test": len(data.test or []),
            "accuracy": accuracies, "undefended": facts["test_accuracy_undefended"],
            "validation": facts["validation_accuracy"], "epochs": facts["epochs_run"],
            "best_epoch": facts["best_epoch"], "training": facts["training"], "options": facts["options"],
            "seconds": round(seconds, 1),
            "torch": torch.__version__, "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"}


def weights_hash(folder: Path) -> str:
    weights = folder / "model.safetensors"
    return hashlib.sha256(weights.read_bytes()).hexdigest() if weights.is_file() else ""


def run_all(args: argparse.Namespace) -> None:
    """Start a process per missing arm, `jobs` at a time, and append each record as it comes."""
    done = {(row["arm"], row["data"], row["seed"]) for row in read(args.out)}
    arms = args.arm or list(ARMS)
    wanted = [(arm, *pair.split("=", 1), seed) for seed in args.seed for pair in args.data for arm in arms]
    waiting = [job for job in wanted if (job[0], job[1], job[3]) not in done]
    deadline = time.monotonic() + args.limit
    running: list[tuple[subprocess.Popen[str], tuple[str, str, str, int]]] = []
    while waiting or running:
        while waiting and len(running) < args.jobs and time.monotonic() < deadline:
            job = waiting.pop(0)
            command = [sys.executable, __file__, "one", json.dumps([job[0], job[1], job[2], args.encoder, job[3],
                                                                    json.loads(args.training)])]
            running.append((subprocess.Popen(command, stdout=subprocess.PIPE, text=True), job))
        if not running:
            break
        for process, job in [entry for entry in running if entry[0].poll() is not None]:
            running.remove((process, job))
            output = (process.stdout.read() if process.stdout else "").strip().splitlines()
            if process.returncode == 0 and output:
                with args.out.open("a", encoding="utf-8") as file:
                    file.write(output[-1] + "\n")
            word = "done" if process.returncode == 0 else "FAILED"
            sys.stderr.write(f"{word}: {job[0]} on {job[1]}, seed {job[3]}\n")
        time.sleep(0.2)
    sys.stderr.write("".join(f"not run in time: {job[0]} on {job[1]}, seed {job[3]}\n" for job in waiting))


def read(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line] if path.exists() else []


def table(path: Path) -> str:
    """Mean and deviation over seeds, in points, by data set, arm and inference rate, as Markdown."""
    groups: dict[tuple[str, str], list[dict[str, object]]] = defaultdict(list)
    for row in read(path):
        groups[str(row["data"]), str(row["arm"])].append(row)
    lines = ["| data | training | seeds | " + " | ".join(f"b = {rate:g}" for rate in RATES) + " | as preset |",
             "|---" * (len(RATES) + 4) + "|"]
    for (data, arm), rows in sorted(groups.items(), key=lambda item: (item[0][0], list(ARMS).index(item[0][1]))):
        cells = [summary([row["accuracy"][key] for row in rows if key in row["accuracy"]])  # type: ignore[index,operator]
                 for key in [*(f"{rate}" for rate in RATES), "preset"]]
        lines.append(f"| {data} | {arm} | {len(rows)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def rates(path: Path) -> str:
    """Mean accuracies over seeds by learning rate, which is chosen by validation; the test column is for the record."""
    groups: dict[float, list[dict[str, object]]] = defaultdict(list)
    for row in read(path):
        groups[float(row["training"]["learning_rate"])].append(row)  # type: ignore[index]
    lines = ["| data | training | learning rate | seeds | validation | test |", "|---" * 6 + "|"]
    for rate, rows in sorted(groups.items()):
        cells = [summary([float(str(row["validation"])) for row in rows]),
                 summary([row["accuracy"]["preset"] for row in rows])]  # type: ignore[index]
        lines.append(f"| {rows[0]['data']} | {rows[0]['arm']} | {rate:g} | {len(rows)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def summary(values: list[float]) -> str:
    if not values:
        return "-"
    deviation = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{deviation}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    runner = commands.add_parser("run")
    runner.add_argument("--encoder", required=True)
    runner.add_argument("--data", action="append", required=True, help="NAME=FOLDER")
    runner.add_argument("--out", type=Path, required=True)
    runner.add_argument("--seed", type=int, nargs="+", default=[0, 1, 2])
    runner.add_argument("--arm", action="append", choices=ARMS)
    runner.add_argument("--jobs", type=int, default=1)
    runner.add_argument("--limit", type=float, default=float("inf"), help="seconds after which no new arm starts")
    runner.add_argument("--training", default="{}", help="training options for every arm, as JSON")
    commands.add_parser("one").add_argument("job")
    commands.add_parser("table").add_argument("records", type=Path)
    commands.add_parser("rates").add_argument("records", type=Path)
    args = parser.parse_args()
    if args.command == "run":
        run_all(args)
    elif args.command == "one":
        sys.stdout.write(json.dumps(run_one(*json.loads(args.job))) + "\n")
    else:
        sys.stdout.write((table if args.command == "table" else rates)(args.records) + "\n")


if __name__ == "__main__":
    main()
