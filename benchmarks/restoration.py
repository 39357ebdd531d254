# SPDX-License-Identifier: Apache-2.0
"""How well are words restored, what happens to clean ones, and how long does it take?

    python benchmarks/restoration.py TRAIN.csv [--validation VALIDATION.csv] [--texts 1000] [--worst 300]
    python benchmarks/restoration.py TRAIN.csv [--validation VALIDATION.csv] --test TEST.csv

The lexicon is that of the training texts; everything is measured on validation texts, the margin set on the other half
of them. Without a validation file 2,500 of the training texts are set aside. With --test only clean words are counted,
on all texts of that file: it is for the end, nothing may be chosen by it. One JSON object for each part:

clean   share of words touched, by what was done, with examples
edits   of the words edited (a random 30 % of those of three or more plain letters, one edit each), the percentage that
        is read as before, as another form of the word, as a mask, as another word, or left as the attacker wrote it
worst   every edit of one letter, one word at a time, by how often the training texts have the word: percentage of
        words that some edit makes read as another word, or as a mask; of edits undone; and of words that survive
        DeepWordBug's four draws on average
time    seconds of one core to fit on 120,000 texts (the training texts, repeated) and microseconds a text
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from pathlib import Path
from random import Random
from string import ascii_lowercase

from dualmask import load_dataset
from dualmask.text.examples import split_stratified
from dualmask.text.letters import HOMOGLYPHS, LETTERS, keyboard_neighbours
from dualmask.text.lexicon import WORD, Lexicon, plain
from dualmask.text.readings import Reading
from dualmask.text.restoration import Restorer
from dualmask.text.stop_words import stop_words
from dualmask.text.weighing import inflected

Edit = Callable[[str, Random], str]
SHARE = 0.3
BANDS = (1000, 100, 10, 1, 0)  # least count of a word in the training texts
RESULTS = ("as before", "other form", "mask", "other word", "as edited")


def swapped(word: str, at: int) -> str:
    return word[:at] + word[at + 1] + word[at] + word[at + 2:]


def written(word: str, at: int, letters: str, gone: int) -> str:
    return word[:at] + letters + word[at + gone:]


DEEPWORDBUG: dict[str, Edit] = {
    "swap": lambda word, draw: swapped(word, draw.randrange(len(word) - 1)),
    "substitute": lambda word, draw: written(word, draw.randrange(len(word)), draw.choice(LETTERS), 1),
    "delete": lambda word, draw: written(word, draw.randrange(len(word)), "", 1),
    "insert": lambda word, draw: written(word, draw.randrange(len(word)), draw.choice(LETTERS), 0),
}


def look_alike(word: str, draw: Random) -> str:
    at = draw.randrange(len(word))
    return written(word, at, HOMOGLYPHS.get(word[at], word[at]), 1)


def mistyped(word: str, draw: Random) -> str:
    at = draw.randrange(1, len(word) - 1)
    return written(word, at, draw.choice(keyboard_neighbours(word[at]) or word[at]), 1)


TEXTBUGGER: dict[str, Edit] = {
    "space": lambda word, draw: written(word, draw.randrange(1, len(word)), " ", 0),
    "inner swap": lambda word, draw: swapped(word, draw.randrange(1, len(word) - 2)) if len(word) > 3 else word,
    "inner delete": lambda word, draw: written(word, draw.randrange(1, len(word) - 1), "", 1),
    "look-alike": look_alike,
    "key": mistyped,
}


def neighbours(word: str) -> dict[str, set[str]]:
    """All strings one edit away, by DeepWordBug's kinds."""
    places = range(len(word))
    found = {
        "swap": {swapped(word, at) for at in places[:-1]}, "delete": {written(word, at, "", 1) for at in places},
        "substitute": {written(word, at, new, 1) for at in places for new in ascii_lowercase},
        "insert": {written(word, at, new, 0) for at in places for new in ascii_lowercase}}
    return {kind: strings - {word} for kind, strings in found.items()}


def editable(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in WORD.finditer(text) if len(match[0]) > 2 and match[0].isascii()
            and match[0].isalpha()]


def judged(readings: Sequence[Reading], text: str, span: tuple[int, int], original: str) -> str:
    """What the characters of a span are read as, compared with the word that was there before the edit."""
    start, end = span
    read, at = "", start
    for one in readings:
        if one.start < end and one.end > start:
            if one.becomes is None:
                return "mask"
            read += text[at:one.start] + one.becomes
            at = one.end
    read, word = plain(read + text[at:end]), plain(original)
    if read == word:
        return "as before"
    if inflected(read, word):
        return "other form"
    return "as edited" if read == plain(text[start:end]) else "other word"


def attacked(text: str, edit: Edit, draw: Random) -> tuple[str, list[tuple[tuple[int, int], str]]]:
    """A text with some of its words edited: where they are now, and what they were."""
    pieces, edited, end, size = [], [], 0, 0
    for start, stop in editable(text):
        word = text[start:stop]
        new = edit(word, draw) if draw.random() < SHARE else word
        pieces += text[end:start], new
        size += start - end
        if new.lower() != word.lower():
            edited.append(((size, size + len(new)), word))
        size, end = size + len(new), stop
    return "".join([*pieces, text[end:]]), edited


def after_edits(restorer: Restorer, texts: Sequence[str]) -> Iterator[dict[str, object]]:
    stops = stop_words("nltk")
    for attack, edits in (("deepwordbug", DEEPWORDBUG), ("textbugger", TEXTBUGGER)):
        for kind, edit in edits.items():
            results: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
            draw = Random(kind)
            for text in texts:
                new, edited = attacked(text, edit, draw)
                readings = restorer.readings(new)
                for span, word in edited:
                    results[word.lower() in stops][judged(readings, new, span, word)] += 1
            for stop, counts in results.items():
                yield {"attack": attack, "edit": kind, "words": "stop words" if stop else "other words",
                       "number": counts.total(), **percentages(counts)}


def percentages(counts: Counter[str]) -> dict[str, float]:
    return {result: round(100 * counts[result] / max(1, counts.total()), 2) for result in RESULTS}


def worst_case(
    restorer: Restorer, lexicon: Lexicon, texts: Sequence[str], *, number: int,
) -> Iterator[dict[str, object]]:
    """All edits of a sample of words other than stop words, in their texts."""
    places = [(text, span) for text in texts for span in editable(text)
              if text[slice(*span)].lower() not in stop_words("nltk")]
    rows: dict[int, list[dict[str, Counter[str]]]] = {band: [] for band in BANDS}
    for text, (start, end) in Random(0).sample(places, min(number, len(places))):
        word = text[start:end]
        found: dict[str, Counter[str]] = {}
        for kind, strings in neighbours(word).items():
            found[kind] = Counter()
            for new in sorted(strings):
                changed = text[:start] + new + text[end:]
                found[kind][judged(restorer.readings(changed), changed, (start, start + len(new)), word)] += 1
        rows[next(band for band in BANDS if lexicon.count(word.lower()) >= band)].append(found)
    for band, words in rows.items():
        if words:
            yield {"count from": band, "words": len(words), **summary(words)}
    yield {"count from": "all", **summary([found for words in rows.values() for found in words])}


def summary(words: Sequence[dict[str, Counter[str]]]) -> dict[str, float]:
    def percent(values: Sequence[float]) -> float:
        return round(100 * sum(values) / len(values), 1)

    totals = [sum(found.values(), Counter()) for found in words]
    return {
        "some edit read as another word": percent([bool(one["other word"] + one["as edited"]) for one in totals]),
        "some edit read as a mask": percent([bool(one["mask"]) for one in totals]),
        "edits undone": percent([one["as before"] / one.total() for one in totals]),
        "edits read as another word": percent([(one["other word"] + one["as edited"]) / one.total() for one in totals]),
        "survive four draws": percent([prod(one["as before"] / max(1, one.total()) for one in found.values())
                                       for found in words])}


def clean(restorer: Restorer, texts: Sequence[str], examples: int) -> dict[str, object]:
    words = sum(len(WORD.findall(text)) for text in texts)
    found = [one for text in texts for one in restorer.readings(text)]
    shown = {action: [f"{one.written} > {'[MASK]' if one.becomes is None else one.becomes}"
                      for one in found if one.action == action]
             for action in ("normalised", "restored", "joined", "split", "masked")}
    return {"words": words, "touched, percent": round(100 * len(found) / words, 3),
            "by action, percent": {action: round(100 * len(some) / words, 3) for action, some in shown.items()},
            "examples": {action: Random(0).sample(some, min(examples, len(some))) for action, some in shown.items()}}


def timed(texts: Sequence[str], validation: Sequence[str]) -> dict[str, float]:
    many = (list(texts) * (120_000 // len(texts) + 1))[:120_000]
    started = time.process_time()
    lexicon = Lexicon()
    lexicon.fit(many)
    fitted = time.process_time()
    restorer = Restorer(lexicon, obfuscation=False)
    restorer.weighing()
    prepared = time.process_time()
    rounds = []
    for _ in range(4):
        begun = time.process_time()
        for text in validation:
            restorer.readings(text)
        rounds.append((time.process_time() - begun) / len(validation))
    return {"fit, s": round(fitted - started, 2), "first use, s": round(prepared - fitted, 2),
            "cold, us a text": round(1e6 * rounds[0], 1), "warm, us a text": round(1e6 * min(rounds[1:]), 1)}


def told(data: str, part: str, values: dict[str, object] | dict[str, float]) -> None:
    row = {"benchmark": "restoration", "data": data, "part": part, **values}
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("--validation")
    parser.add_argument("--test", help="count clean words of this file, and nothing else")
    parser.add_argument("--texts", type=int, default=1000, help="validation texts measured on")
    parser.add_argument("--worst", type=int, default=300, help="words of which all edits are tried")
    parser.add_argument("--examples", type=int, default=12)
    parser.add_argument("--touched", type=float, default=0.01)
    parser.add_argument("--no-masking", action="store_true")
    args = parser.parse_args()
    tell = partial(told, Path(args.train).absolute().parent.name)
    train = load_dataset(args.train).train
    if args.validation:
        held_out = load_dataset(args.validation).train
    else:
        train, held_out = split_stratified(train, 2500 / len(train), 0)
    texts = [str(one.text) for one in Random(0).sample(held_out, len(held_out))]
    measured, calibration = texts[:min(args.texts, len(texts) // 2)], texts[len(texts) // 2:]
    lexicon = Lexicon()
    lexicon.fit([one.text for one in train])
    restorer = Restorer(lexicon, touched=args.touched, masking=not args.no_masking, obfuscation=False)
    share = restorer.calibrate(calibration)
    tell("calibration", {"margin": round(float(restorer.margin), 3), "touched, percent": round(100 * share, 3)})
    if args.test:
        tell("clean test", clean(restorer, [str(one.text) for one in load_dataset(args.test).train], args.examples))
        return
    tell("clean", clean(restorer, measured, args.examples))
    for row in after_edits(restorer, measured):
        tell("edits", row)
    for row in worst_case(restorer, lexicon, measured, number=args.worst):
        tell("worst", row)
    tell("time", timed([str(one.text) for one in train], measured))


if __name__ == "__main__":
    main()
