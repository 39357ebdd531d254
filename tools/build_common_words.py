# SPDX-License-Identifier: Apache-2.0
"""Build the list of English words with their general frequency that ships with the package.

    python tools/build_common_words.py [--least 1.5] [--out src/dualmask/assets]

Frequencies are wordfreq's, as zipf values: the decimal logarithm of occurrences in a thousand million words. One line
for each value, commonest first: the value, then its words. Needs wordfreq (`pip install dualmask[words]`).
"""

import argparse
import gzip
import json
import unicodedata
from collections.abc import Iterator
from importlib import metadata
from math import log10
from pathlib import Path

from dualmask.checksums import file_hash
from dualmask.text.lexicon import ASSET, WORD

ASSETS = Path(__file__).resolve().parents[1] / "src" / "dualmask" / "assets"
LIST = "large"  # wordfreq's list of words down to zipf 1
HEAD = """# English words by general frequency: zipf values (log10 per thousand million words) and their words.
# Taken from wordfreq {version} (Robyn Speer), whose data are under CC BY-SA 4.0; so is this file.
"""


def english_words(least: float) -> dict[str, float]:
    """Words of Latin letters, apostrophes inside allowed, that are at least so frequent."""
    from wordfreq import get_frequency_dict

    found = ((word, round(log10(share) + 9, 2)) for word, share in get_frequency_dict("en", wordlist=LIST).items())
    return {word: zipf for word, zipf in found if zipf >= least and WORD.fullmatch(word) and is_latin(word)}


def is_latin(word: str) -> bool:
    return all(unicodedata.name(letter, "").startswith("LATIN") for letter in word if letter != "'")


def lines(zipfs: dict[str, float]) -> Iterator[str]:
    by_value: dict[float, list[str]] = {}
    for word, zipf in zipfs.items():
        by_value.setdefault(zipf, []).append(word)
    for zipf in sorted(by_value, reverse=True):
        yield f"{zipf:.2f} {' '.join(sorted(by_value[zipf]))}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--least", type=float, default=1.5, help="least zipf value")
    parser.add_argument("--out", type=Path, default=ASSETS)
    arguments = parser.parse_args()
    version = metadata.version("wordfreq")
    zipfs = english_words(arguments.least)
    text = HEAD.format(version=version) + "\n".join(lines(zipfs)) + "\n"
    path = arguments.out / ASSET
    path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
    manifest = {
        "asset": path.name, "bytes": path.stat().st_size, "sha256": file_hash(path),
        "built by": f"python tools/build_common_words.py --least {arguments.least}",
        "words": len(zipfs), "words of zipf 3 and more": sum(zipf >= 3 for zipf in zipfs.values()),
        "licence": "CC BY-SA 4.0, as the data it is taken from",
        "source": {"package": f"wordfreq {version}", "list": f"en, {LIST}", "licence": "Apache-2.0; data CC BY-SA 4.0"},
    }
    target = arguments.out / "common_words.manifest.json"
    target.write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{path.name}: {len(zipfs):,} words, {path.stat().st_size:,} bytes; wrote {target.name}")


if __name__ == "__main__":
    main()
