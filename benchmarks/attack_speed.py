# SPDX-License-Identifier: Apache-2.0
"""How fast are attacks: against TextAttack on one CPU thread, against ourselves one text at a time, and as data grow?

    python benchmarks/attack_speed.py peer MODEL DATA --attack deepwordbug --textattack .venv-textattack/bin/python
    python benchmarks/attack_speed.py peer MODEL DATA --attack bertattack --masked-lm FOLDER --textattack ...
    python benchmarks/attack_speed.py lockstep MODEL DATA --attack deepwordbug --texts 200
    python benchmarks/attack_speed.py growth MODEL DATA --attack deepwordbug --texts 100

MODEL is a saved classifier, attacked without its defence, DATA labelled texts. Prints one JSON line. Loading is not
counted. TextAttack draws other random letters, so it asks a few more or fewer queries: both counts are printed, and
the ratios are of seconds for a query; in sequence and with its seed ours must give its very counts.
CPU seconds of the process count in `peer`, wall seconds elsewhere.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from dualmask.attacks import Tools, build_attack
from dualmask.attacks.running import Assault
from dualmask.classifier import DefendedClassifier
from dualmask.devices import default_device
from dualmask.text.encoding import Encode
from dualmask.text.examples import Example, load_examples
from dualmask.text.words import Words

TOOLS = Path(__file__).resolve().parents[1] / "tools"
TEXTATTACK_SEED = 765
Moment = float | torch.cuda.Event
PEER_NAMES = {"deepwordbug": "deepwordbug", "bertattack": "bert-attack"}


class Sentences:
    """The stand-in sentence encoder that TextAttack's side uses too; it costs next to nothing."""

    name = "stand-in"

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        sys.path.insert(0, str(TOOLS))
        from stand_ins import StandInSentenceEncoder

        return StandInSentenceEncoder()(texts)


def load(options: argparse.Namespace) -> tuple[DefendedClassifier, list[Example]]:
    """The bare network, reading texts as TextAttack's wrapper does: up to 512 tokens, "[UNK]" as one token."""
    saved = DefendedClassifier.load(options.model, device=options.device)
    plain = saved.undefended()
    plain.encode = Encode(saved.encode.tokenizer, max_length=options.max_length, literal=False)
    examples = load_examples(options.data, labels=saved.labels)
    if options.kind == "peer" and options.attack == "bertattack":
        examples = [example for example in examples if most_pieces(saved, str(example.text)) <= options.max_pieces]
    step = max(1, len(examples) // options.texts)
    return plain, examples[::step][:options.texts]


def most_pieces(classifier: DefendedClassifier, text: str) -> int:
    """Sub-word pieces of a text's longest word. TextAttack tries K to the power of this many combinations."""
    return max((len(classifier.encode.tokenizer.tokenize(word)) for word in Words(text).words), default=0)


def assault(
    options: argparse.Namespace, victim: object, width: int | None = None, *, sequential: bool = False,
) -> Assault:
    tools, more = Tools(sentences=Sentences()), {}
    if options.attack == "bertattack":
        more = {"candidates": options.candidates, "language_model": str(options.masked_lm or "shipped")}
    return Assault(victim, build_attack(options.attack, options=more, tools=tools), width=width, measure=None,
                   sequential=sequential, seed=TEXTATTACK_SEED if sequential else 0)


def timed(work: Assault, examples: Sequence[Example], clock: Callable[[], float]) -> dict[str, float]:
    started = clock()
    results = list(work.run(list(enumerate(examples))))
    seconds = clock() - started
    outcomes = {name: sum(one.outcome == name for one in results) for name in ("succeeded", "failed", "skipped")}
    return {"seconds": round(seconds, 3), "queries": sum(one.queries for one in results), **outcomes,
            "rows": work.engine.stations["victim"].run}


def peer(options: argparse.Namespace) -> dict[str, object]:
    victim, examples = load(options)
    ours: dict[str, dict[str, float]] = {}
    work = assault(options, victim)
    list(work.run(list(enumerate(examples[:3]))))  # warm up
    ours["before"] = timed(assault(options, victim), examples, time.process_time)
    theirs = {"as_shipped": textattack(options, examples, padded=True),
              "dynamic_padding": textattack(options, examples, padded=False)}
    ours["after"] = timed(assault(options, victim), examples, time.process_time)
    in_sequence = timed(assault(options, victim, sequential=True), examples, time.process_time)
    own = np.mean([one["seconds"] / one["queries"] for one in ours.values()])
    ratios = {name: round(found["seconds"] / found["queries"] / own, 2) for name, found in theirs.items()}
    return {"benchmark": "attack_speed peer", "attack": options.attack, "texts": len(examples), "threads": 1,
            "candidates": options.candidates if options.attack == "bertattack" else None,
            "max_pieces": options.max_pieces if options.attack == "bertattack" else None,
            "ours": ours, "ours_in_sequence": in_sequence, "textattack-0.3.11": theirs, "times_faster": ratios}


def textattack(options: argparse.Namespace, examples: Sequence[Example], *, padded: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder, "texts.json")
        texts.write_text(json.dumps([[example.text, example.label] for example in examples]), encoding="utf-8")
        command = [options.textattack, "speed_textattack.py", str(Path(options.model).resolve()), str(texts),
                   "--attack", PEER_NAMES[options.attack]]
        if options.attack == "bertattack":
            command += ["--masked-lm", str(options.masked_lm.resolve()), "--candidates", str(options.candidates)]
        command += [] if padded else ["--dynamic-padding"]
        command += ["--seconds", str(options.seconds)]
        done = subprocess.run(command, cwd=TOOLS, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return {"seconds": round(found["seconds"]["cpu"], 3), "wall": round(found["seconds"]["wall"], 3),
            **{name: found[name] for name in ("texts", "queries", "succeeded", "failed", "skipped")}}


class ForwardClock:
    """Seconds inside the network. On a GPU its own clock counts: to wait for it would stop what is done meanwhile."""

    def __init__(self, classifier: DefendedClassifier) -> None:
        self.spans: list[tuple[Moment, Moment]] = []
        network, forward = classifier.network, classifier.network.forward

        def measured(*given: object, **named: object) -> torch.Tensor:
            began = moment(classifier.device)
            answer = forward(*given, **named)  # type: ignore[arg-type]
            self.spans.append((began, moment(classifier.device)))
            return answer

        network.forward = measured  # type: ignore[method-assign]

    @property
    def seconds(self) -> float:
        if self.spans and isinstance(self.spans[0][0], torch.cuda.Event):
            torch.cuda.synchronize()
        return sum(span(*one) for one in self.spans)


def moment(device: torch.device) -> Moment:
    if device.type != "cuda":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def span(began: Moment, ended: Moment) -> float:
    if isinstance(began, torch.cuda.Event) and isinstance(ended, torch.cuda.Event):
        return float(began.elapsed_time(ended)) / 1000
    return float(ended) - float(began)  # type: ignore[arg-type]


def lockstep(options: argparse.Namespace) -> dict[str, object]:
    victim, examples = load(options)
    clock = ForwardClock(victim)
    list(assault(options, victim).run(list(enumerate(examples[:20]))))  # warm up
    clock.spans.clear()
    together = timed(assault(options, victim), examples, time.perf_counter)
    share = clock.seconds / together["seconds"]
    alone = timed(assault(options, victim, width=1), examples[:options.alone], time.perf_counter)
    ratio = (alone["seconds"] / alone["queries"]) / (together["seconds"] / together["queries"])
    return {"benchmark": "attack_speed lockstep", "attack": options.attack, "device": str(victim.device),
            "texts": len(examples), "together": together, "one_at_a_time": {"texts": options.alone, **alone},
            "times_faster": round(ratio, 2), "forward_share": round(share, 3),
            "queries_per_second": round(together["queries"] / together["seconds"])}


def growth(options: argparse.Namespace) -> dict[str, object]:
    """Ten times the texts, each text ten times: the work is exactly ten times as much."""
    victim, examples = load(options)
    list(assault(options, victim).run(list(enumerate(examples[:20]))))
    few = timed(assault(options, victim), examples, time.perf_counter)
    many = [Example(f"{example.text} {number}", example.label) for number in range(10) for example in examples]
    lots = timed(assault(options, victim), many, time.perf_counter)
    per_query = (lots["seconds"] / lots["queries"]) / (few["seconds"] / few["queries"])
    return {"benchmark": "attack_speed growth", "attack": options.attack, "device": str(victim.device),
            "texts": [len(examples), len(many)], "few": few, "many": lots,
            "seconds_for_a_query_many_over_few": round(per_query, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["peer", "lockstep", "growth"])
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--attack", choices=list(PEER_NAMES), default="deepwordbug")
    parser.add_argument("--texts", type=int, default=30)
    parser.add_argument("--alone", type=int, default=20, help="texts attacked one at a time (lockstep)")
    parser.add_argument("--textattack", help="Python of the environment that holds TextAttack (peer)")
    parser.add_argument("--masked-lm", type=Path, help="folder of a masked language model (bertattack)")
    parser.add_argument("--candidates", type=int, default=48)
    parser.add_argument("--max-pieces", type=int, default=3, help="leave out texts on which TextAttack takes hours")
    parser.add_argument("--seconds", type=float, default=600.0, help="TextAttack begins no further text after so long")
    parser.add_argument("--max-length", type=int, default=512)
    parser.add_argument("--device", default=default_device())
    options = parser.parse_args()
    if options.kind == "peer":
        torch.set_num_threads(1)
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        options.device = "cpu"
    work = {"peer": peer, "lockstep": lockstep, "growth": growth}[options.kind]
    sys.stdout.write(json.dumps(work(options)) + "\n")


if __name__ == "__main__":
    main()
