# SPDX-License-Identifier: Apache-2.0
"""Whose synonyms a method takes, and from which attack a defence learns, for those who have its name and options alone.

Both are declared on the classes, which can't be had without torch; an asset holds what these say
(`python tools/build_word_sources.py` writes it, and a test compares).
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from importlib.resources import files
from typing import Any

from dualmask.cards import Method, Source
from dualmask.options import former_options

ASSET = "word_sources.json"
KINDS = ("synonym_tables", "learned_attacks")  # the declarations, by their names on the classes


def synonym_tables(noun: str, name: str, options: Mapping[str, object]) -> tuple[str, ...]:
    """The tables of synonyms that an attack or a defence, told by `noun`, takes words from."""
    return taken(noun, name, options, "synonym_tables")


def learned_attacks(defence: str, options: Mapping[str, object]) -> tuple[str, ...]:
    """The attacks whose texts a defence is trained on."""
    return taken("defence", defence, options, "learned_attacks")


def taken(noun: str, name: str, options: Mapping[str, object], kind: str) -> tuple[str, ...]:
    """Of several defences together those of each part."""
    found: dict[str, None] = {}
    for part, told in declarations()[noun].items():
        if f"+{part}+" in f"+{name}+":
            given = own_options(part, told["options"], options)
            found |= dict.fromkeys(one for source in told[kind] for one in names_of(source, given))
    return tuple(found)


def own_options(part: str, usual: Mapping[str, object], given: Mapping[str, object]) -> dict[str, object]:
    """Where two defences together have options of one name, theirs have the defence's name before them."""
    before = part.replace("-", "_")
    return {name: given.get(f"{before}_{name}", given.get(name, value)) for name, value in usual.items()}


def names_of(source: Mapping[str, Any], options: Mapping[str, object]) -> Sequence[str]:
    if any(options[name] not in values for name, values in source["when"].items()):
        return ()
    if any(options[name] in values for name, values in source["unless"].items()):
        return ()
    name: str = source["name"]
    named = options[name[1:-1]] if name.startswith("{") else name
    return [str(one) for one in named] if isinstance(named, list | tuple) else [str(named)]


@cache
def declarations() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """By noun and name: what classes declare, and the options that it depends on as they are without being told."""
    found: Mapping[str, Mapping[str, Mapping[str, Any]]] = json.loads(
        (files("dualmask") / "assets" / ASSET).read_text(encoding="utf-8"))
    return found


def as_asset(methods: Iterable[type[Method]]) -> str:
    """The asset's content."""
    found: dict[str, dict[str, object]] = {}
    for method in methods:
        own = {kind: getattr(method, kind, ()) for kind in KINDS}
        if any(own.values()):
            told = {kind: [{**one._asdict(), "when": dict(one.when), "unless": dict(one.unless)} for one in sources]
                    for kind, sources in own.items()}
            found.setdefault(method.noun, {})[method.name] = {**told, "options": dict(usual_options(method, own))}
    return json.dumps(found, indent=1, sort_keys=True) + "\n"


def usual_options(method: type[Method], own: Mapping[str, Sequence[Source]]) -> Iterator[tuple[str, object]]:
    """Those that its declarations name; of one that came up later, what was done before."""
    asked = {name for sources in own.values() for one in sources
             for name in (*one.when, *one.unless, *([one.name[1:-1]] if one.name.startswith("{") else []))}
    former = former_options(method.Options)
    for one in fields(method.Options):
        if one.name in asked:
            assert one.default is not MISSING
            yield one.name, former.get(one.name, one.default)
