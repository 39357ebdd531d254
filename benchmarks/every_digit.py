# SPDX-License-Identifier: Apache-2.0
"""Does a classifier that is very sure hold, or hide? Attacks that see every digit of its calibrated scores.

    python benchmarks/every_digit.py MODEL DATA [--texts 200] [--attacks textfooler bertattack deepwordbug]

MODEL is the folder of a trained classifier. The temperature is fitted on validation texts; the test texts are those
that grids draw. Usually a search takes scores that differ by less than 0.0001 for equal, as such digits depend on the
batch; here none are. Prints one JSON line for each attack: percent of texts answered rightly before it and after it.
"""

import argparse
import json
import sys
from pathlib import Path

from dualmask import DefendedClassifier, load_dataset
from dualmask.attacks import build_attack
from dualmask.attacks.running import Assault, sampled
from dualmask.evaluation.calibration import Tempered
from dualmask.evaluation.protocol import temperature_of
from dualmask.models.victim import ClassifierVictim


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data")
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--attacks", nargs="+", default=["textfooler", "bertattack", "deepwordbug"])
    args = parser.parse_args()
    classifier, data = DefendedClassifier.load(args.model), load_dataset(args.data)
    asked, tests = ClassifierVictim(classifier), data.test or []
    temperature = temperature_of(asked, data.validation or [])
    chosen = [(place, tests[place]) for place in sampled(tests, args.texts, 0)]
    for method in args.attacks:
        victim = Tempered(asked, temperature)
        found = list(Assault(victim, build_attack(method), measure=None, tolerance=0).run(chosen))
        sys.stdout.write(json.dumps({
            "benchmark": "every_digit", "defence": classifier.defence.name, "data": data.name, "attack": method,
            "encoder": Path(str(classifier.facts["encoder"])).name, "temperature": temperature, "texts": len(found),
            "right": round(100 * sum(one.outcome != "skipped" for one in found) / len(found), 1),
            "left": round(100 * sum(str(one.outcome) in ("failed", "unconfirmed") for one in found) / len(found), 1),
            "queries": round(sum(one.queries for one in found) / len(found), 1)}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
