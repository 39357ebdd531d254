# SPDX-License-Identifier: Apache-2.0
"""Options by name, from Python or from text: unknown names and impossible values are all reported at once."""

from collections.abc import Mapping
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from dualmask.errors import OptionError, did_you_mean

T = TypeVar("T")


def make_options(kind: type[T], given: Mapping[str, object]) -> T:
    """An options dataclass from names and values; text is read as the field's type."""
    hints = get_type_hints(kind)
    names = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    problems: list[str] = []
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in names:
            problems.append(f"unknown option '{name}'" + (did_you_mean(name, names) if names else ": there are none here"))
            continue
        try:
            values[name] = converted(value, hints[name])
        except ValueError as error:
            problems.append(f"option {name}={value!r}: {error}")
    if problems:
        raise OptionError("\n".join(problems))
    return kind(**values)


def converted(value: object, hint: Any) -> object:
    """`value` as the type `hint` asks for; ValueError says what was expected."""
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise ValueError(f"expected one of {', '.join(map(str, get_args(hint)))}")
        return value
    if get_origin(hint) in (Union, UnionType):
        if value is None or value == "none":
            return None
        return converted(value, next(part for part in get_args(hint) if part is not NoneType))
    if get_origin(hint) is tuple:
        parts = value.split(",") if isinstance(value, str) else value
        return tuple(str(part).strip() for part in parts if str(part).strip())  # type: ignore[attr-defined]
    return _scalar(value, hint)


def _scalar(value: object, kind: type) -> object:
    if kind is bool:
        known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if str(value).lower() not in known:
            raise ValueError("expected true or false")
        return known[str(value).lower()]
    try:
        number = kind(value)  # type: ignore[call-arg]
    except (TypeError, ValueError):
        raise ValueError(f"expected {'a whole number' if kind is int else 'a number'}") from None
    if kind is int and isinstance(value, float) and number != value:
        raise ValueError("expected a whole number")
    return number


def parse_assignments(pairs: list[str]) -> dict[str, str]:
    """``["test_rate=0.2", "unit=word"]`` as a mapping."""
    wrong = [pair for pair in pairs if "=" not in pair]
    if wrong:
        raise OptionError(f"option '{wrong[0]}' has no value; write name=value, e.g. test_rate=0.2.")
    return {name.strip().replace("-", "_"): value.strip() for name, value in (pair.split("=", 1) for pair in pairs)}
