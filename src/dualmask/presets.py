# SPDX-License-Identifier: Apache-2.0
"""The presets of defences, for those who have a defence's name and options alone, and one way to write both.

Defences declare their presets on classes, which can't be had without torch; an asset holds what these say
(`python tools/build_presets.py` writes it, and a test compares).
"""

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from dualmask.cards import Method
from dualmask.options import make_options

ASSET = "presets.json"
USUAL = "recommended"  # the preset that a name without one stands for


class KnownPreset(NamedTuple):
    """A preset with every option that its defence has."""

    options: Mapping[str, object]


def row_name(
    defence: str, preset: str = USUAL, changes: Mapping[str, object] | None = None, *, around: str = "",
) -> str:
    """``ddm-restore (vote, vote_swaps=0.7)``: how tables name a defence, its preset and what differs from that.

    around: the defence that its network was trained with, where that is another.
    """
    told = [*([preset] if preset not in ("", USUAL) else []),
            *(f"{name}={option_text(value)}" for name, value in (changes or {}).items()),
            *([f"around {around}"] if around else [])]
    return defence + (f" ({', '.join(told)})" if told else "")


def option_text(value: object) -> str:
    """A value as ``--option NAME=VALUE`` takes it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return format(value, "g")
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def option_changes(defence: str, preset: str, options: Mapping[str, object]) -> dict[str, object]:
    """Which of a record's options are not the preset's.

    An option that a record lacks came up later. What that changed stands beside the figures of such a row, not in its
    name (`results/changed_since.toml`).
    """
    known = known_presets(defence).get(preset)
    if known is None:
        return {}
    usual = {name: as_json(value) for name, value in known.options.items()}
    return {name: value for name, value in options.items() if name not in usual or as_json(value) != usual[name]}


def nearest_preset(defence: str, options: Mapping[str, object]) -> str:
    """The first of those presets that the fewest options differ from; empty for a defence that is not known."""
    return min(known_presets(defence), key=lambda name: len(option_changes(defence, name, options)), default="")


def known_presets(defence: str) -> dict[str, KnownPreset]:
    """By name; of several defences together each preset that one of them has, the others as recommended."""
    parts = parts_of(defence)
    names = dict.fromkeys(name for part in parts for name in (USUAL, *declared()[part]["presets"]))
    return {name: together(parts, name) for name in names}


def parts_of(defence: str) -> list[str]:
    """The defences that a name stands for; none where one of them is not known. Names may end in plus signs."""
    known = "|".join(re.escape(name) for name in sorted(declared(), key=len, reverse=True))
    if not re.fullmatch(rf"({known})(\+({known}))*", defence):
        return []
    return [defence] if defence in declared() else re.findall(rf"(?:^|\+)({known})(?=\+|$)", defence)


def together(parts: list[str], preset: str) -> KnownPreset:
    options: dict[str, object] = {}
    every = [name for part in parts for name in declared()[part]["usual"]]
    for part in parts:
        told = declared()[part]
        changed = told["presets"].get(preset, told["presets"][USUAL])
        for name, value in {**told["usual"], **changed}.items():
            own = prefixed(part, name) if every.count(name) > 1 else name
            options[own] = value
    return KnownPreset(options)


def prefixed(defence: str, option: str) -> str:
    """What an option is called in a combination where another defence has one of its name."""
    return f"{re.sub(r'[^a-z0-9]', lambda sign: 'p' if sign[0] == '+' else '_', defence)}_{option}"


def as_json(value: object) -> object:
    """As a record holds it: tuples are lists there."""
    return list(value) if isinstance(value, tuple) else value


@cache
def declared() -> dict[str, dict[str, Any]]:
    """By defence: options as they are by default, those that each preset changes, and those that came later."""
    content: dict[str, dict[str, Any]] = json.loads(
        (files("dualmask") / "assets" / ASSET).read_text(encoding="utf-8"))
    return content


def as_asset(kinds: Iterable[type[Method]]) -> str:
    """The asset's text, from the classes."""
    found = {kind.name: {"usual": option_values(kind, {}),
                         "presets": {name: dict(preset.options) for name, preset in kind.presets.items()}}
             for kind in kinds}
    return json.dumps(found, indent=1) + "\n"


def option_values(kind: type[Method], given: Mapping[str, object]) -> dict[str, object]:
    return dict(vars(make_options(kind.Options, given)))
