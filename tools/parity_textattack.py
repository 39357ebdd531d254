# SPDX-License-Identifier: Apache-2.0
"""Golden traces: TextAttack's own recipes on chosen texts, every logical query in order.

    python tools/parity_textattack.py [--attacks NAME ...] [--shared FOLDER] [--out FOLDER] [--dump FOLDER]

Runs in the virtual environment that holds TextAttack. Writes OUT/<attack>.json with digests only (the licences of the
texts differ), and OUT/sentences_<attack>.json with the queries themselves for our own sentences. --dump writes the
queries of all texts as JSON Lines, to a folder outside the repository.
"""

import argparse
import json
import platform
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from parity_examples import (
    CHOICES,
    CLASSES,
    GOLDEN,
    ROOT,
    SEED,
    SENTENCES,
    SHARED,
    ParityExample,
    examples,
    file_digest,
    load_sentences,
)
from parity_sources import ATTACKS, Sources, build, prepare
from parity_watch import Watch
from stand_ins import StandInSynonyms, StandInVictim, digest

if TYPE_CHECKING:
    from textattack import Attack

_PACKAGES = ("textattack", "numpy", "torch", "transformers", "nltk", "editdistance")
_FILES = ("data/mr/test.csv", "data/ag_news/test.csv", "lexical/counterfitted_neighbors.json",
          "lexical/nltk_english_stopwords.txt", "models/gte-small-mlm/tokenizer.json")
_OURS = ("stand_ins.py", "stand_in_lm.py", "parity_examples.py")


@dataclass(frozen=True)
class Trace:
    """What an attack asked, in order, and where it ended."""

    example: ParityExample
    outcome: str
    final: str
    queries: Sequence[str]
    words: int
    tied: bool

    def digests(self) -> dict[str, object]:
        """Without any text. `tied`: two words had the same importance, whose order numpy leaves to the processor."""
        return {
            "row": self.example.row, "label": self.example.label, "outcome": self.outcome,
            "queries": len(self.queries), "query_digest": digest(self.queries), "final_digest": digest([self.final]),
            "words": self.words, **({"tied": True} if self.tied else {}),
        }

    def in_full(self) -> dict[str, object]:
        return {**self.digests(), "text": self.example.text, "final": self.final, "asked": list(self.queries)}


def main() -> None:
    options = _options()
    prepare(options.shared / "lexical/nltk_english_stopwords.txt")
    for name in options.attacks:
        traces = {data: _run(name, data, options) for data in CLASSES if (name, data) != ("bert-attack", SENTENCES)}
        header = _header(name, options.shared)
        _write(options.out / f"{name}.json", header, {
            data: [trace.digests() for trace in traces[data]] for data in CHOICES})
        if SENTENCES in traces:
            _write(options.out / f"{SENTENCES}_{name}.json", header, {
                SENTENCES: [trace.in_full() for trace in traces[SENTENCES]]})
        if options.dump:
            _dump(options.dump / f"{name}.jsonl", traces)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attacks", nargs="+", choices=ATTACKS, default=list(ATTACKS))
    parser.add_argument("--shared", type=Path, default=SHARED, help="folder with data/, lexical/ and models/")
    parser.add_argument("--out", type=Path, default=GOLDEN)
    parser.add_argument("--dump", type=Path, help="folder for the queries in full, not inside the repository")
    options = parser.parse_args()
    if options.dump and ROOT in [options.dump.resolve(), *options.dump.resolve().parents]:
        parser.error(f"--dump {options.dump} lies in the repository, and the texts may not: give a folder outside it")
    return options


def _run(name: str, data: str, options: argparse.Namespace) -> list[Trace]:
    """One attack on one set of texts, seeded once before it, as TextAttack does."""
    victim = StandInVictim(CLASSES[data])
    if data == SENTENCES:
        ours = load_sentences()
        sources = Sources(victim, ours.synonyms, wordnet=ours.wordnet)
    else:
        synonyms = StandInSynonyms.load(options.shared / "lexical/counterfitted_neighbors.json")
        tokenizer = options.shared / "models/gte-small-mlm" if name == "bert-attack" else None
        sources = Sources(victim, synonyms, tokenizer=tokenizer)
    attack = build(name, sources)
    watch = Watch(attack)
    from textattack.shared.utils import set_seed

    set_seed(SEED)
    started = time.perf_counter()
    traces = [_trace(attack, watch, example) for example in examples(data, options.shared)]
    counts = Counter(trace.outcome for trace in traces)
    print(f"{name} {data}: {dict(sorted(counts.items()))}, {sum(len(trace.queries) for trace in traces)} queries, "
          f"{sum(trace.tied for trace in traces)} with tied ranks, nearest ranks {watch.nearest_rank:.1e}, "
          f"nearest similarity to a limit {watch.nearest_limit:.1e}, {time.perf_counter() - started:.0f} s", flush=True)
    return traces


def _trace(attack: "Attack", watch: Watch, example: ParityExample) -> Trace:
    from textattack.attack_results import SkippedAttackResult, SuccessfulAttackResult

    watch.start()
    result = attack.attack(example.text, example.label)
    final = result.perturbed_result.attacked_text.text
    outcome = "failed"
    if isinstance(result, SkippedAttackResult):
        outcome = "skipped"
    elif isinstance(result, SuccessfulAttackResult):
        outcome = "succeeded"
    if len(watch.queries) != attack.goal_function.num_queries:
        raise SystemExit(f"row {example.row}: {len(watch.queries)} queries seen, but TextAttack counts "
                         f"{attack.goal_function.num_queries}: the wrapped functions miss some")
    words = result.original_result.attacked_text.num_words
    return Trace(example, outcome, final, watch.queries, words, watch.tied)


def _header(name: str, shared: Path) -> dict[str, object]:
    command = f"python tools/parity_textattack.py --attacks {name}"
    return {
        "attack": name, "recipe": ATTACKS[name], "seed": SEED, "command": command, "python": platform.python_version(),
        "packages": {package: version(package) for package in _PACKAGES},
        "files": {file: file_digest(shared / file) for file in _FILES},
        "stand_ins": {file: file_digest(ROOT / "tools" / file) for file in _OURS},
        "choice": {data: choice._asdict() for data, choice in CHOICES.items()},
    }


def _write(path: Path, header: dict[str, object], sections: dict[str, list[dict[str, object]]]) -> None:
    """JSON with one example a line, so that a difference shows which one changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = [f'"header": {json.dumps(header, indent=1)}']
    for name, rows in sections.items():
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        parts.append(f'"{name}": [\n{lines}\n]')
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    print(f"wrote {path} ({path.stat().st_size:,} bytes)", flush=True)


def _dump(path: Path, traces: dict[str, list[Trace]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as stream:
        for data, rows in traces.items():
            for trace in rows:
                stream.write(json.dumps({"data": data, **trace.in_full()}, ensure_ascii=False) + "\n")
    print(f"wrote {path}", flush=True)


if __name__ == "__main__":
    main()
