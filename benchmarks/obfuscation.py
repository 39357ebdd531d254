# SPDX-License-Identifier: Apache-2.0
"""Which disguises of words are read, without `obfuscation` (as by models of before) and with it?

    python benchmarks/obfuscation.py TRAIN.csv [--validation VALIDATION.csv] [--texts 1000]

The lexicon is that of the training texts. In each validation text one content word of three plain letters or more,
drawn by chance, is disguised; the margin is set on the other half of these texts. Without a validation file 2,500 of
the training texts are set aside. Prints a line of JSON for each disguise, without obfuscation and with it: in percent,
read as before, as another form of the word, as a mask, as another word, or left as it is written; then the share of
words of the same texts, as they were, that are touched.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from restoration import editable, judged, percentages

from dualmask import load_dataset
from dualmask.text.examples import split_stratified
from dualmask.text.lexicon import WORD, Lexicon
from dualmask.text.restoration import Restorer
from dualmask.text.stop_words import stop_words

Disguise = Callable[[str, Random], str]
DIGITS = str.maketrans("aeiostAEIOST", "431057431057")
SIGNS = {"a": "@", "s": "$", "i": "!", "l": "|"}
WHOLE = "whole text in digits"


def repeated(word: str, draw: Random) -> str:
    at = draw.randrange(1, len(word))
    return word[:at] + word[at] * draw.randint(3, 6) + word[at:]


def signed(word: str, draw: Random) -> str:
    """One letter as a sign."""
    places = [at for at, letter in enumerate(word) if letter.lower() in SIGNS]
    if not places:
        return word
    at = draw.choice(places)
    return word[:at] + SIGNS[word[at].lower()] + word[at + 1:]


def starred(word: str, draw: Random, number: int) -> str:
    inner = range(1, len(word) - 1)
    for at in draw.sample(inner, min(number, len(inner))):
        word = word[:at] + "*" + word[at + 1:]
    return word


DISGUISES: dict[str, Disguise] = {
    "letters parted by dots": lambda word, draw: ".".join(word),
    "letters parted by hyphens": lambda word, draw: "-".join(word),
    "letters parted by spaces": lambda word, draw: " ".join(word),
    "repeated letters": repeated,
    "digits for letters": lambda word, draw: word.translate(DIGITS),
    "a sign for a letter": signed,
    "one letter starred out": lambda word, draw: starred(word, draw, 1),
    "two letters starred out": lambda word, draw: starred(word, draw, 2),
}


def places_of(texts: Sequence[str]) -> list[tuple[str, tuple[int, int]]]:
    """A content word of each text that has one."""
    draw, stops = Random(0), stop_words("nltk")
    found = []
    for text in texts:
        spans = [span for span in editable(text) if text[slice(*span)].lower() not in stops]
        if spans:
            found.append((text, draw.choice(spans)))
    return found


def counted(restorer: Restorer, places: Sequence[tuple[str, tuple[int, int]]], kind: str) -> Counter[str]:
    draw, found = Random(kind), Counter[str]()
    for text, (start, end) in places:
        word = text[start:end]
        if kind == WHOLE:
            new, changed = word.translate(DIGITS), text.translate(DIGITS)
        else:
            new = DISGUISES[kind](word, draw)
            changed = text[:start] + new + text[end:]
        if new != word:
            found[judged(restorer.readings(changed), changed, (start, start + len(new)), word)] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("--validation")
    parser.add_argument("--texts", type=int, default=1000, help="validation texts measured on")
    args = parser.parse_args()
    data, train = Path(args.train).absolute().parent.name, load_dataset(args.train).train
    if args.validation:
        held_out = load_dataset(args.validation).train
    else:
        train, held_out = split_stratified(train, 2500 / len(train), 0)
    texts = [str(one.text) for one in Random(0).sample(held_out, len(held_out))]
    measured, calibration = texts[:min(args.texts, len(texts) // 2)], texts[len(texts) // 2:]
    lexicon = Lexicon()
    lexicon.fit([one.text for one in train])
    words = sum(len(WORD.findall(text)) for text in measured)
    for obfuscation in (False, True):
        restorer = Restorer(lexicon, obfuscation=obfuscation)
        restorer.calibrate(calibration)
        row = {"benchmark": "obfuscation", "data": data, "obfuscation": obfuscation}
        for kind in (*DISGUISES, WHOLE):
            counts = counted(restorer, places_of(measured), kind)
            told({**row, "disguise": kind, "number": counts.total(), **percentages(counts)})
        touched = sum(len(restorer.readings(text)) for text in measured)
        told({**row, "disguise": "none", "number": words, "touched, percent": round(100 * touched / words, 3)})


def told(row: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
