# SPDX-License-Identifier: Apache-2.0
"""Which typing errors get past ddm-restore? For each kind, how often a text with one of them is read otherwise.

    python benchmarks/misreadings.py DATA --texts 150

DATA is a folder or data set with training texts, from which the defence learns, and validation texts, in which every
word of four letters and more, but no stop word, gets one error of each kind at a random inner letter. No network is
needed. Prints one JSON line: errors tried, and the shares that are read otherwise and as a mask.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from string import ascii_lowercase

from dualmask.attacks.misprint import ACCENTS, SIGNS
from dualmask.defences.ddm_restore import DDMRestore, DDMRestoreOptions
from dualmask.text.examples import load_dataset
from dualmask.text.letters import HOMOGLYPHS, keyboard_neighbours
from dualmask.text.rewriting import HIDDEN
from dualmask.text.stop_words import stop_words
from dualmask.text.words import Words


def errors(word: str, draw: random.Random) -> Iterator[tuple[str, str]]:
    place = draw.randrange(1, len(word) - 1)
    before, letter, after = word[:place], word[place], word[place + 1:]
    swapped = before + after[:1] + letter + after[1:]
    yield "left out", before + after
    yield "doubled", before + letter + letter + after
    yield "swapped", swapped
    yield "space", f"{before} {letter}{after}"
    yield "key beside", before + draw.choice(keyboard_neighbours(letter) or ascii_lowercase) + after
    yield "any letter", before + draw.choice(ascii_lowercase) + after
    yield "letter added", before + draw.choice(ascii_lowercase) + letter + after
    for sign in SIGNS:
        yield f"sign {sign}", before + sign + letter + after
    yield "look-alike", before + HOMOGLYPHS.get(letter, letter) + after
    yield "capital inside", before + letter.upper() + after
    yield "swapped, Name", swapped.capitalize()
    yield "swapped, LOUD", swapped.upper()
    yield "swapped, accent", "".join(ACCENTS.get(one, one) for one in swapped)
    yield "swapped, #tag", f"#{swapped}"


def texts_with(text: str, draw: random.Random) -> Iterator[tuple[str, str]]:
    """Kinds of errors, each with the text that has one."""
    words = Words(text)
    for place, word in enumerate(words.words):
        if len(word) > 3 and word.isascii() and word.isalpha() and word.lower() not in stop_words("nltk"):
            for kind, error in errors(word, draw):
                if error.lower() != word.lower() or kind == "capital inside":
                    yield kind, words.replaced(place, error).text
            if place + 1 < len(words) and text[words.spans[place][1]:words.spans[place + 1][0]] == " ":
                yield "joined", words.joined(place).text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--texts", type=int, default=150)
    given = parser.parse_args()
    data, draw = load_dataset(given.data), random.Random(0)
    defence = DDMRestore(DDMRestoreOptions(obfuscation=False))
    defence.rewriting.fit(data.train)

    def read(text: str) -> list[str]:
        """In lower case, and without the sign of a tag, which alone would be no harm."""
        return str(defence.rewriting(text)).lower().replace("#", "").split()

    tried, otherwise, masked = Counter[str](), Counter[str](), Counter[str]()
    for example in (data.validation or data.train)[:given.texts]:
        expected = read(str(example.text))
        for kind, text in texts_with(str(example.text), draw):
            found = read(text)
            tried[kind] += 1
            otherwise[kind] += found != expected
            masked[kind] += found.count(HIDDEN) > expected.count(HIDDEN)
    sys.stdout.write(json.dumps({"benchmark": "misreadings", "data": data.name, "kinds": {
        kind: {"tried": count, "otherwise": round(otherwise[kind] / count, 4), "masked": round(masked[kind] / count, 4)}
        for kind, count in tried.items()}}) + "\n")


if __name__ == "__main__":
    main()
