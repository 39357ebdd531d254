# SPDX-License-Identifier: Apache-2.0
"""The hash of a file, and JSON that holds its own: every byte of it counts, so that one wrong bit is seen."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

SEAL = "checksum"  # the last entry of a sealed object: the sha256 of all, with this in its own place
BLANK = "0" * 64


def file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sealed(values: Mapping[str, object]) -> str:
    """The object as JSON, its checksum last."""
    whole = {name: value for name, value in values.items() if name != SEAL} | {SEAL: BLANK}
    head, _, tail = (json.dumps(whole, indent=2) + "\n").rpartition(BLANK)
    return f"{head}{hashlib.sha256(f'{head}{BLANK}{tail}'.encode()).hexdigest()}{tail}"


def seal_holds(content: bytes, seal: object) -> bool:
    """Whether bytes are just those that were sealed; `seal`: the checksum that was read out of them."""
    if not isinstance(seal, str) or len(seal) != len(BLANK):
        return False
    head, _, tail = content.rpartition(seal.encode("utf-8", "replace"))
    return hashlib.sha256(head + BLANK.encode() + tail).hexdigest() == seal
