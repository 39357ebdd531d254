# SPDX-License-Identifier: Apache-2.0
"""Compare our reading of WordNet with NLTK's, word by word and in order.

    pip install nltk && python tools/compare_wordnet.py [--data ../shared/data] [--inflect]

asks both about every word of the CSV files below --data, as written and in lower, upper and title case; --inflect adds
every entry of WordNet with common endings, and all irregular forms. Exit code 1 if any answer differs. The digest it
prints for `mr/test.csv` stands in tests/test_wordnet.py.
"""

import argparse
import csv
import hashlib
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import get_args

from dualmask.resources import resolve
from dualmask.text.wordnet import Part, WordNet

Answer = Callable[[str, Part | None], list[str]]

SHARED = Path(__file__).parents[2] / "shared" / "data"
ENDINGS = ("", "s", "es", "ed", "ing", "er", "est", "men")


def words_of(paths: Iterable[Path]) -> set[str]:
    """All runs of letters, marks and white-space-free characters, in four cases."""
    words: set[str] = set()
    for path in paths:
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                words.update(row["text"].split(), re.findall(r"[\w'-]+", row["text"]))
    return words | {form for word in words for form in (word.lower(), word.upper(), word.capitalize())}


def inflected(folder: Path) -> set[str]:
    lines = [line for path in folder.glob("index.*") for line in path.read_text(encoding="utf-8").split("\n")]
    words = {line.split(" ")[0] + ending for line in lines if line and line[0] != " " for ending in ENDINGS}
    irregular = [line for path in folder.glob("*.exc") for line in path.read_text(encoding="utf-8").split("\n")]
    return words | {line.split()[0] for line in irregular if line}


def digest(answers: Iterable[tuple[str, list[str]]]) -> str:
    return hashlib.sha256("\n".join(f"{word} {' '.join(names)}" for word, names in answers).encode()).hexdigest()


def compare(words: set[str], ours: WordNet, nltk_answer: Answer) -> list[str]:
    wrong = [word for word in words if nltk_answer(word, None) != ours.synonyms(word)]
    for part in get_args(Part):
        wrong += [f"{word} ({part})" for word in words if nltk_answer(word, part) != ours.synonyms_of(word, part)]
    return sorted(wrong)


def nltk_reader(folder: Path, work: Path) -> Answer:
    """NLTK's own loader, on a copy of the files in the layout that it asks for."""
    copy = shutil.copytree(folder, work / "corpora" / "wordnet")
    (copy / "index.sense").touch()  # wanted at loading, for other editions and languages, and 7 MB large
    import nltk.data

    nltk.data.path.insert(0, str(work))
    from nltk.corpus import wordnet

    return lambda word, part: list(dict.fromkeys(
        name for sense in wordnet.synsets(word, part) for name in sense.lemma_names()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED, help="folder with CSV files that have a column text")
    parser.add_argument("--inflect", action="store_true", help="also every entry of WordNet with endings; minutes")
    options = parser.parse_args()
    folder = resolve("wordnet", kind="lexicon")
    started = time.perf_counter()
    ours = WordNet(folder)
    print(f"loaded in {time.perf_counter() - started:.2f} s; compared with nltk {version('nltk')}")
    words = words_of(options.data.rglob("*.csv")) | (inflected(folder) if options.inflect else set())
    with tempfile.TemporaryDirectory() as work:
        nltk_answer = nltk_reader(folder, Path(work))
        wrong = compare(words, ours, nltk_answer)
        found = sum(bool(ours.synonyms(word)) for word in words)
        print(f"{len(words)} words, {found} with synonyms, {len(wrong)} answers differ", *wrong[:20], sep="\n")
        if (sample := options.data / "mr" / "test.csv").is_file():
            answers = digest((word, nltk_answer(word, None)) for word in sorted(words_of([sample])))
            print(f"digest of NLTK's answers for mr/test.csv: {answers}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
