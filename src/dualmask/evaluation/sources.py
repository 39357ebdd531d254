# SPDX-License-Identifier: Apache-2.0
"""Where a grid's data and encoders come from: what can't be there is told before anything is trained."""

from collections.abc import Sequence
from difflib import get_close_matches
from os.path import relpath
from pathlib import Path

from dualmask.errors import did_you_mean
from dualmask.evaluation.values import Mistakes
from dualmask.hub import parse as hub_id
from dualmask.resources import RESOURCES
from dualmask.text.examples import NAMED
from dualmask.text.splits import may_be_on_hub


def fits_source(values: dict[str, object], mistakes: Mistakes, place: str, *, folder: Path, kind: str) -> None:
    """Paths become those from the current folder; names of resources and hub ids stay as they are."""
    known = encoder_names() if kind == "encoders" else list(NAMED)
    source = str(values.get("source", known[0]))
    if source in known:
        return
    if (folder / source).exists():
        values["source"] = source if Path(source).is_absolute() else relpath(folder / source)
    elif not may_be_elsewhere(source, kind, known):
        mistakes.add(f"{place}.source", f"{folder / source} does not exist, nor is it a resource"
                                        f"{did_you_mean(source, known)} From a hub give owner/name.")


def fits_measure(name: str, mistakes: Mistakes) -> None:
    """A slip is told now; else it would be found out after the first training."""
    known = ["none", "use", *encoder_names()]
    if name not in known and not Path(name).is_dir() and not may_be_elsewhere(name, "encoders", known):
        mistakes.add("measure", f"'{name}' is no sentence encoder{did_you_mean(name, known)} Give one of these, a "
                     "folder, or owner/name of a hub.")


def encoder_names() -> list[str]:
    return [name for name, one in RESOURCES.items() if one.kind == "encoder"]


def may_be_elsewhere(source: str, kind: str, known: Sequence[str]) -> bool:
    """Whether a hub may have it; a lone word that is nearly a resource's name is a slip."""
    slip = "/" not in source and bool(get_close_matches(source, known))
    return not slip and bool(may_be_on_hub(source) if kind == "data" else hub_id(source))
