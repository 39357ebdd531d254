# SPDX-License-Identifier: Apache-2.0
"""How quick the theory's functions are, how often its statements hold for drawn vectors, and for token embeddings.

    python benchmarks/theory.py speed [--triples 1000000] [--dimension 64] [--rounds 3]
    python benchmarks/theory.py statements [--triples 6000000]
    python benchmarks/theory.py drawn [--triples 200000]
    python benchmarks/theory.py embeddings ENCODER [--draws 20000]    a name, or a folder

Each prints one JSON line. Set OMP_NUM_THREADS=1 for one core. Vectors of `statements` have random directions, half of
them with one in common, and log-normal lengths, in 2, 3, 5, 16 and 64 dimensions.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dualmask.theory.conditions import exact_conditions_of, ordering_of, success_condition_of
from dualmask.theory.products import Products, products
from dualmask.theory.rates import Rates, Replacement, condition_rate, rates_of

DIMENSIONS = (2, 3, 5, 16, 64)
AT_ONCE = 100_000


def speed(triples: int, dimension: int, rounds: int) -> dict[str, object]:
    """Products, condition, exact conditions and ordering of all triples at once."""
    vectors = np.random.default_rng(0).normal(size=(3, triples, dimension))
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        p = products(*vectors)
        success_condition_of(p), exact_conditions_of(p), ordering_of(p)
        seconds.append(time.perf_counter() - started)
    return {"benchmark": "theory speed", "triples": triples, "dimension": dimension, "limit": 10,
            "threads": os.environ.get("OMP_NUM_THREADS"), "seconds": round(statistics.median(seconds), 3)}


def drawn(generator: np.random.Generator, count: int, dimension: int, *, shared: bool) -> Products:
    directions = generator.normal(size=(3, count, dimension)) + shared * generator.normal(size=dimension)
    lengths = generator.lognormal(size=(3, count, 1))
    return products(*(lengths * directions / np.linalg.norm(directions, axis=-1, keepdims=True)))


def statements(triples: int) -> dict[str, object]:
    """Counts of draws that satisfy the condition, and of those that contradict what should follow."""
    generator = np.random.default_rng(0)
    counts: dict[str, int] = {}
    for dimension in DIMENSIONS:
        for number in range(triples // len(DIMENSIONS) // AT_ONCE):
            found = contradictions(drawn(generator, AT_ONCE, dimension, shared=number % 2 == 1))
            counts = {name: counts.get(name, 0) + int(flags.sum()) for name, flags in found.items()}
    return {"benchmark": "theory statements", "triples": triples, **counts}


def contradictions(p: Products) -> dict[str, NDArray[np.bool_]]:
    success, exact, order = success_condition_of(p), exact_conditions_of(p), ordering_of(p)
    slack, length = 1e-9 * p.size, np.sqrt(p.rr)
    first, third = length >= success.first - 1e-9 * length, p.mr >= p.mm
    return {
        "condition": success.holds,
        "paper: E_m > E_mr": success.holds & (order.e_m > order.e_mr_paper + slack),
        "paper: E_mr > E_r": success.holds & (order.e_mr_paper > order.e_r + slack),
        "uniform: E_m > E_mr": success.holds & (order.e_m > order.e_mr_uniform + slack),
        "uniform: E_mr > E_r": success.holds & (order.e_mr_uniform > order.e_r + slack),
        "paper: E_m <= E_mr": exact.hold("p1"), "paper: E_m <= E_mr > E_r": exact.hold("p1") & ~exact.hold("p2"),
        "uniform: E_m <= E_mr": exact.hold("u1"), "uniform: E_m <= E_mr > E_r": exact.hold("u1") & ~exact.hold("u2"),
        "ordering under the paper's law": order.paper,
        "ordering under the paper's law without the condition": order.paper & ~success.holds,
        "condition without Delta_2": success.applicable & first & third,
    }


def gaussian(triples: int) -> dict[str, object]:
    generator = np.random.default_rng(0)
    found = {}
    for dimension in (2, 8, 64, 768):
        parts = [rates_of(products(*generator.normal(size=(3, AT_ONCE // 10, dimension))))
                 for _ in range(triples // (AT_ONCE // 10))]
        found[str(dimension)] = {name: round(statistics.mean(getattr(part, name) for part in parts), 4)
                                 for name in Rates._fields[1:]}
    return {"benchmark": "theory drawn", "vectors": "isotropic Gaussian", "triples": triples, "dimensions": found}


def embeddings(encoder: str, draws: int) -> dict[str, object]:
    from torch import nn

    from dualmask.models.encoders import load_encoder

    model, tokenizer = load_encoder(encoder, ["a", "b"])
    table = cast(nn.Embedding, model.get_input_embeddings()).weight.detach().double().numpy()
    found = {}
    counts: dict[Replacement, int] = {"random": draws, "nearest": draws // 10}
    for replacement, count in counts.items():
        rates = condition_rate(table, table[tokenizer.mask_token_id], replacement=replacement, draws=count,
                               generator=np.random.default_rng(0))
        found[replacement] = {name: round(value, 4) for name, value in rates._asdict().items()}
    return {"benchmark": "theory embeddings", "encoder": Path(encoder).name, "context": 20, "replacements": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    for name, triples in (("speed", 1_000_000), ("statements", 6_000_000), ("drawn", 200_000)):
        kinds.add_parser(name).add_argument("--triples", type=int, default=triples)
    kinds.choices["speed"].add_argument("--dimension", type=int, default=64)
    kinds.choices["speed"].add_argument("--rounds", type=int, default=3)
    kinds.add_parser("embeddings").add_argument("encoder")
    kinds.choices["embeddings"].add_argument("--draws", type=int, default=20_000)
    args = parser.parse_args()
    if args.kind == "speed":
        found = speed(args.triples, args.dimension, args.rounds)
    elif args.kind == "statements":
        found = statements(args.triples)
    else:
        found = gaussian(args.triples) if args.kind == "drawn" else embeddings(args.encoder, args.draws)
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
