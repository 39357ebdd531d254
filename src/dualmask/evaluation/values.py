# SPDX-License-Identifier: Apache-2.0
"""Values out of a file against the types they should have; what does not fit is collected, with its place."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from dualmask.errors import OptionError, did_you_mean

KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


class Mistakes(list[str]):
    """Lines, each with the place in the file that it is about."""

    def add(self, place: str, message: str) -> None:
        self.append(f"{place}: {message}")

    @contextmanager
    def of(self, place: str) -> Iterator[None]:
        """Errors about options become mistakes at this place."""
        try:
            yield
        except OptionError as error:
            for line in str(error).splitlines():
                self.add(place, line)


def checked(
    kind: type, given: object, mistakes: Mistakes, *, place: str = "", least: Mapping[str, int] | None = None,
) -> dict[str, object]:
    """The values of a table that fit the fields of a dataclass; lists become tuples."""
    if not isinstance(given, Mapping):
        mistakes.add(place, f"expected a table, got {given!r:.40}")
        return {}
    hints, known = get_type_hints(kind), [f.name for f in fields(kind) if f.metadata.get("given", True)]
    found: dict[str, object] = {}
    for name, value in given.items():
        at = f"{place}.{name}" if place else name
        if name not in known:
            mistakes.add(at, "unknown key" + (did_you_mean(name, known) if known else "; there are none."))
        elif wrong := mismatches(value, hints[name], at):
            for where, told in wrong:
                mistakes.add(where, told)
        elif isinstance(value, int) and value < (least or {}).get(name, value):
            mistakes.add(at, f"expected at least {(least or {})[name]}, got {value}")
        else:
            found[name] = tuple(value) if isinstance(value, list) else value
    return found


def mismatches(value: object, hint: Any, place: str) -> list[tuple[str, str]]:
    """Of a list every item that does not fit, with its place."""
    items = [(place, value, hint)]
    if get_origin(hint) is tuple and isinstance(value, list):
        items = [(f"{place}[{number}]", one, get_args(hint)[0]) for number, one in enumerate(value)]
    return [(where, f"{wrong}, got {one!r:.40}") for where, one, kind in items if (wrong := mismatch(one, kind))]


def mismatch(value: object, hint: Any) -> str:
    """What was expected, where a value is not of its type; a number is never text, nor truth a number."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        near = did_you_mean(str(value), map(str, parts)).removesuffix(".")
        return "" if value in parts and not isinstance(value, bool) else f"unknown{near}"
    if origin in (Union, UnionType):
        return "" if value == "none" and NoneType in parts else mismatch(value, parts[0])
    if origin is tuple:
        return "" if isinstance(value, list) and not any(mismatch(one, parts[0]) for one in value) \
            else f"expected a list of {KINDS.get(parts[0], 'values')}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        fits = isinstance(value, Mapping) and not any(mismatch(one, parts[1]) for one in value.values())
        return "" if fits else "expected a table" + (" of text" if parts[1] is str else "")
    if hint not in KINDS:
        return ""
    taken = {float: (float, int)}.get(hint, (hint,))
    return "" if type(value) in taken else f"expected {KINDS[hint]}"
