# SPDX-License-Identifier: Apache-2.0
"""Options by name, from Python or from text, all mistakes reported at once; and the options of training itself."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from dualmask.errors import OptionError, did_you_mean

T = TypeVar("T")
JUDGING_ATTACK = "deepwordbug"  # of epochs, for keep=robust: cheap, and in need of no other model


def make_options(kind: type[T], given: Mapping[str, object]) -> T:
    """An options dataclass from names and values; text is read as the field's type."""
    hints = get_type_hints(kind)
    names = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    problems: list[str] = []
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in names:
            problems.append(f"unknown option '{name}'" + (did_you_mean(name, names) if names else "; there are none."))
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
        if not isinstance(parts, list | tuple):
            raise ValueError("expected a list, or text with commas")
        return tuple(str(part).strip() for part in parts if str(part).strip())
    return _scalar(value, hint)


def _scalar(value: object, kind: type) -> object:
    if kind is bool:
        known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if str(value).lower() not in known:
            raise ValueError("expected true or false")
        return known[str(value).lower()]
    try:
        number = kind(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"expected {'a whole number' if kind is int else 'a number'}") from None
    if kind is int and isinstance(value, float) and number != value:
        raise ValueError("expected a whole number")
    return number


def check_shares(**shares: float) -> None:
    wrong = [f"{name} is {value}; expected a share between 0 and 1." for name, value in shares.items()
             if not 0 <= value <= 1]
    if wrong:
        raise OptionError("\n".join(wrong))


def check_least(**pairs: tuple[float | None, float]) -> None:
    """Each name with its value, where there is one, and the least it may be."""
    wrong = [f"{name} is {value}; expected a number of at least {least:g}." for name, (value, least) in pairs.items()
             if value is not None and not least <= value < math.inf]
    if wrong:
        raise OptionError("\n".join(wrong))


def least(number: int, default: int) -> int:
    """A whole-number field of an options class that may not be less than `number`; see `check_fields`."""
    return field(default=default, metadata={"least": number})


def came_later(default: T, *, before: T) -> T:
    """A field of an options class that models and records of before lack; see `saved_options`."""
    return field(default=default, metadata={"before": before})


def saved_options(kind: type[T], given: Mapping[str, object]) -> T:
    """Options as a model or a record has them; one that it lacks is as it was before there was that option."""
    return make_options(kind, {**former_options(kind), **given})


def former_options(kind: type[object]) -> dict[str, object]:
    """What was done before there were the options that came later."""
    return {f.name: f.metadata["before"] for f in fields(kind) if "before" in f.metadata}  # type: ignore[arg-type]


def check_fields(options: object) -> None:
    """Every field made with `least`."""
    bounds = {f.name: f.metadata["least"] for f in fields(options) if "least" in f.metadata}  # type: ignore[arg-type]
    check_least(**{name: (getattr(options, name), bound) for name, bound in bounds.items()})


def parse_assignments(pairs: list[str]) -> dict[str, str]:
    """``["test_rate=0.2", "unit=word"]`` as a mapping."""
    wrong = [pair for pair in pairs if "=" not in pair]
    if wrong:
        raise OptionError(f"option '{wrong[0]}' has no value; write {wrong[0]}=VALUE.")
    return {name.strip().replace("-", "_"): value.strip() for name, value in (pair.split("=", 1) for pair in pairs)}


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Every setting of the training loop; a defence's preset may bring its paper's own."""

    epochs: int = 5
    batch_size: int = 32
    max_length: int = 128
    optimiser: Literal["adamw", "adam"] = "adamw"
    learning_rate: float = 5e-5
    final_rate: float = 0.0
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    warmup: float = 0.1  # share of all steps; 1 or more: that many steps
    weight_decay: float = 0.01
    # what decays; weights: neither biases nor what normalises
    decay: Literal["weights", "all"] = came_later("weights", before="all")
    clip: Literal["norm", "value", "unit", "none"] = "norm"  # unit: the whole gradient gets the length clip_at
    clip_at: float = 1.0
    patience: int = 2  # epochs without a better validation accuracy before training stops; 0: never stop early
    keep: Literal["best", "last", "robust"] = "best"  # which epoch: best on validation, also attacked, or last, no stop
    robust_texts: int = 100  # validation texts that are attacked after each epoch (deepwordbug), for keep=robust
    validation_share: float = 0.1  # held out, stratified, where the data has no validation part
    validate: Literal["defended", "plain"] = "defended"
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: bf16 on a GPU that has it
    # what each class counts: none: all alike; balanced: rare ones for more, n / (k n_c); or NAME=NUMBER,..., others 1
    class_weights: str = came_later("none", before="none")
    seed: int = 0

    def __post_init__(self) -> None:
        named_weights(self.class_weights)
        check_least(epochs=(self.epochs, 1), batch_size=(self.batch_size, 1), max_length=(self.max_length, 4),
                    learning_rate=(self.learning_rate, 0), final_rate=(self.final_rate, 0), warmup=(self.warmup, 0),
                    weight_decay=(self.weight_decay, 0), clip_at=(self.clip_at, 0), patience=(self.patience, 0),
                    robust_texts=(self.robust_texts, 1))
        check_shares(validation_share=self.validation_share)


def named_weights(told: str) -> dict[str, float]:
    """``ham=1,spam=5`` as numbers by name; none for what is said in one word: none, balanced."""
    if told in ("none", "balanced"):
        return {}
    found: dict[str, float] = {}
    for part in told.split(","):
        name, equals, number = part.rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = math.nan
        if not equals or not name.strip() or not 0 < weight < math.inf:
            raise OptionError(f"class_weights is '{told}'; expected none, balanced, or names of classes with numbers "
                              "above 0, such as ham=1,spam=5.")
        if name.strip() in found:
            raise OptionError(f"class_weights is '{told}', which gives the class '{name.strip()}' two weights; give "
                              "each class one.")
        found[name.strip()] = weight
    return found


def whole_training(told: Mapping[str, object]) -> dict[str, object]:
    """The options of a training as an earlier version wrote them down, with those that came up later."""
    return {**asdict(TrainingOptions()), **former_options(TrainingOptions), **told}
