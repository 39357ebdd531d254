# SPDX-License-Identifier: Apache-2.0
"""A grid: what is to be measured, read from a TOML file, all of its mistakes reported at once."""

import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from os.path import exists
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast

from dualmask.attacks import ATTACKS, build_attack
from dualmask.cards import Catalogue
from dualmask.defences import DEFENCES, build_defence
from dualmask.defences.base import Defence
from dualmask.errors import OptionError, did_you_mean
from dualmask.evaluation.records import Cell, Mode, Scores
from dualmask.evaluation.sources import fits_measure, fits_source
from dualmask.evaluation.values import Mistakes, checked
from dualmask.options import TrainingOptions, make_options
from dualmask.resources import RESOURCES
from dualmask.system_errors import explain_os_error
from dualmask.wrapping import check_wrapping


@dataclass(frozen=True, kw_only=True)
class DataEntry:
    """Labelled texts. Of a part at most so many rows are used, drawn by class; without a number, all."""

    name: str
    source: str  # a file, a folder (from the grid's file), a hub data set or a resource
    train: int | None = None
    validation: int | None = None
    test: int | None = None
    part: Literal["test", "validation"] = "test"  # whose texts are attacked; validation: to choose settings by
    text_column: str | None = None  # found by name unless given
    label_column: str | None = None
    pair_column: str | None = None
    training: Mapping[str, object] = field(default_factory=dict, hash=False)  # over all other settings
    expected: Mapping[str, object] = field(default_factory=dict, hash=False)  # rows of each part and the hash of all


@dataclass(frozen=True, kw_only=True)
class EncoderEntry:
    name: str
    source: str  # a resource, a folder (from the grid's file) or a hub id


@dataclass(frozen=True, kw_only=True)
class DefenceEntry:
    name: str
    defence: str
    preset: str
    options: Mapping[str, object] = field(default_factory=dict)
    training: Mapping[str, object] = field(default_factory=dict)  # the grid's, changed by its own
    samples: int | None = None  # texts, where they are fewer than the grid's, e.g. for defences of many passes
    eot: int | None = None  # answers averaged for each question, where they are not as many as the grid's
    data: tuple[str, ...] = ()  # names of the data it is for, where it is not for all, e.g. by words for their classes
    network: str = ""  # the entry whose trained network it takes: of the same defence, or plain to put this one around


@dataclass(frozen=True, kw_only=True)
class AttackEntry:
    name: str
    attack: str
    preset: str
    options: Mapping[str, object] = field(default_factory=dict)
    samples: int | None = None  # texts, where they are fewer than the grid's


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Every combination of data, encoders, defences, attacks, modes, scores and seeds is a cell of a table."""

    name: str
    data: tuple[DataEntry, ...]
    defences: tuple[DefenceEntry, ...]
    attacks: tuple[AttackEntry, ...] = ()
    encoders: tuple[EncoderEntry, ...] = (EncoderEntry(name="minilm", source="minilm"),)
    modes: tuple[Mode, ...] = ("adaptive",)
    scores: tuple[Scores, ...] = ("raw",)  # what attacks see in the modes that ask the defended classifier
    seeds: tuple[int, ...] = (0,)  # of training
    samples: int = 1000  # test texts, the same ones for every defence; all where there are fewer
    sample_seed: int = 0
    attack_seed: int = 0
    eot: int = 10  # answers that are averaged for each question, for defences with noise
    draws: int = 10  # and new answers about each final text
    measure: str = "minilm"  # the sentence encoder that compares texts; none: they are not compared
    training: Mapping[str, object] = field(default_factory=dict)  # over every defence's own settings
    text: str = field(default="", metadata={"given": False})  # of the file
    only: str = field(default="", metadata={"given": False})  # parts of cells' names, between commas: just those cells

    @property
    def plain(self) -> DefenceEntry | None:
        """The classifier without a defence, whose adversarial texts are shown to the others."""
        return next((one for one in self.defences if one.defence == "plain"), None)

    def samples_of(self, defence: DefenceEntry, attack: AttackEntry) -> int:
        """Texts of a cell; smaller samples are part of larger ones."""
        return min(given for given in (self.samples, defence.samples, attack.samples) if given is not None)


LISTS: Mapping[str, type] = {"data": DataEntry, "encoders": EncoderEntry, "defences": DefenceEntry,
                             "attacks": AttackEntry}
WHAT = {"data": "source", "encoders": "source", "defences": "defence", "attacks": "attack"}
EXAMPLES = {"data": "rotten-tomatoes", "encoders": "minilm", "defences": "ddm", "attacks": "textfooler"}
EXPECTED = ("train", "validation", "test", "hash")  # of data: the rows of each part and the digest of all
LEAST = {"samples": 1, "eot": 1, "draws": 0, "train": 2, "validation": 2, "test": 1}


def read_grid(path: Path, *, sources: Mapping[str, str] = MappingProxyType({})) -> Grid:
    """A grid's file. Paths in it are relative to it; a grid without a name has the file's.

    sources: by the name of an entry of data or encoders, what is taken instead of the source that the file gives.
    """
    try:
        text = path.read_text(encoding="utf-8").removeprefix("\ufeff")  # the mark that some editors put first
        values = tomllib.loads(text)
    except FileNotFoundError:
        near = sorted(other.name for other in path.parent.glob("*.toml")) if path.parent.is_dir() else []
        raise OptionError(f"{path} does not exist; give a grid's file (TOML)"
                          + (f". There: {', '.join(near)}" if near else ".")) from None
    except IsADirectoryError:
        raise OptionError(f"{path} is a folder; give a grid's file (TOML).") from None
    except OSError as error:
        raise OptionError(explain_os_error(error, "read", path)) from error
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}, byte {error.start}: not UTF-8; save the grid as UTF-8 text.") from None
    except tomllib.TOMLDecodeError as error:
        lines = text.split("\n")
        end = f"at line {len(lines)}, column {len(lines[-1]) + 1}"
        raise OptionError(f"{path} is no TOML: {str(error).replace('at end of document', f'{end}, the end')}") from None
    except (RecursionError, ValueError) as error:
        raise OptionError(f"{path} can't be read ({error}); nest less deeply, and write shorter numbers.") from None
    mistakes = Mistakes()
    values = with_sources(values, sources)
    grid = make_grid({"name": named(path.stem), **values}, mistakes, folder=path.parent)
    if mistakes or grid is None:
        count = f"{len(mistakes)} mistakes" if len(mistakes) > 1 else "a mistake"
        raise OptionError("\n  ".join([f"{path} has {count}; nothing was run:", *mistakes]))
    return replace(grid, text=text)


def with_sources(values: Mapping[str, object], sources: Mapping[str, str]) -> dict[str, object]:
    """The grid's values with other sources; paths are then those from the current folder."""
    found = dict(values)
    for kind in ("data", "encoders"):
        if isinstance(given := values.get(kind), list):
            tables = [long_form(kind, one) for one in given]
            found[kind] = [{**table, "source": local_or_named(sources[str(table["name"])])}
                           if table.get("name") in sources else one for table, one in zip(tables, given, strict=True)]
    return found


def local_or_named(source: str) -> str:
    return str(Path(source).absolute()) if source not in RESOURCES and exists(source) else source


def make_grid(values: Mapping[str, object], mistakes: Mistakes, *, folder: Path) -> Grid | None:
    """The grid, or None where there are mistakes, which are added to the others."""
    given = {name: value for name, value in values.items() if name not in LISTS}
    settings = checked(Grid, given, mistakes, least=LEAST)
    fits_cell(settings.get("name", "grid"), mistakes, "name")
    for name in ("modes", "scores", "seeds"):
        unlike(settings.get(name, ("one",)), mistakes, name)
    fits_measure(str(settings.get("measure", "none")), mistakes)
    training = fits_training(settings.get("training", {}), mistakes, "training")
    for name in LISTS:
        if name in values:
            settings[name] = entries(name, values[name], mistakes, folder=folder, training=training)
    known_names(settings, mistakes)
    modes = cast(tuple[str, ...], settings.get("modes", ("adaptive",)))
    needed = ["data", "defences", *(["attacks"] if set(modes) - {"defence-aware"} else [])]
    for name in needed:
        if name not in values:
            mistakes.add(name, f"missing; list at least one, such as {name} = [\"{EXAMPLES[name]}\"]")
    return None if mistakes else Grid(**cast(dict[str, Any], settings))


def entries(
    name: str, given: object, mistakes: Mistakes, *, folder: Path, training: Mapping[str, object],
) -> tuple[object, ...]:
    """The entries of a list, each a name or a table; those with mistakes are left out."""
    if not isinstance(given, list) or not given:
        mistakes.add(name, f"expected a list of at least one, got {given!r:.40}")
        return ()
    found: list[DataEntry | EncoderEntry | DefenceEntry | AttackEntry] = []
    for number, one in enumerate(given):
        place, before = f"{name}[{number}]", len(mistakes)
        table = long_form(name, one)
        values = checked(LISTS[name], table, mistakes, place=place, least=LEAST)
        if WHAT[name] not in table:
            mistakes.add(place, f"{WHAT[name]} is missing; such as {WHAT[name]} = \"{EXAMPLES[name]}\"")
        if name in ("data", "encoders"):
            fits_source(values, mistakes, place, folder=folder, kind=name)
            fits_training(values.get("training", {}), mistakes, f"{place}.training")
            for key in cast(Mapping[str, object], values.get("expected", {})):
                if key not in EXPECTED:
                    mistakes.add(f"{place}.expected", f"unknown key '{key}'{did_you_mean(key, EXPECTED)}")
        elif name == "attacks":
            fits_attack(values, mistakes, place)
        else:
            fits_defence(values, mistakes, place, training=training)
        if len(mistakes) == before:
            found.append(LISTS[name](**values))
            fits_cell(found[-1].name, mistakes, f"{place}.name")
    if found:
        unlike([one.name for one in found], mistakes, name)
    return tuple(found)


def known_names(settings: Mapping[str, object], mistakes: Mistakes) -> None:
    """Defences that are for some of the data, or take another's network, must name them."""
    known = [one.name for one in cast(tuple[DataEntry, ...], settings.get("data", ()))]
    defences = cast(tuple[DefenceEntry, ...], settings.get("defences", ()))
    for one in defences:
        for name in one.data:
            if name not in known:
                mistakes.add(f"defences, {one.name}.data", f"unknown data '{name}'{did_you_mean(name, known)}")
        kinds = (one.defence, Defence.name)
        fit = [each.name for each in defences if each.defence in kinds and not each.network and not each.data
               and each.training == one.training]
        place = f"defences, {one.name}.network"
        if one.network and one.network not in fit:
            mistakes.add(place, f"'{one.network}' is no entry for all data with the defence {' or '.join(kinds)}, a "
                         f"network of its own and the same training{did_you_mean(one.network, fit)}")
        elif one.network and one.defence not in (each.defence for each in defences if each.name == one.network):
            with mistakes.of(place):
                check_wrapping(build_defence(one.defence, preset=one.preset, options=one.options), held_out=True)


def fits_cell(name: object, mistakes: Mistakes, place: str) -> None:
    with mistakes.of(place):
        Cell(*(str(name),) * 4, "adaptive", 0)


def long_form(name: str, given: object) -> dict[str, object]:
    """An entry as a table: what it is follows from its name, or its name from what it is."""
    what = WHAT[name]
    values = dict(given) if isinstance(given, Mapping) else {what: given}
    if "name" in values and what != "source":
        values.setdefault(what, values["name"])
    if isinstance(given := values.get(what), str):
        values.setdefault("name", named(given.rpartition("/")[2].partition("@")[0]))
        known: Catalogue[Any] = ATTACKS if what == "attack" else DEFENCES
        if what != "source" and given == values["name"]:
            with suppress(OptionError):  # it is told where the entry is checked
                values["name"] = known.find(given).name
    return values


def named(source: str) -> str:
    """A name for a file or a hub id, without its ending and what a cell's name may not have."""
    bare = re.sub(r"(\.(csv|tsv|jsonl|json|parquet))?(\.(gz|bz2|xz|zst))?$", "", source)
    return re.sub(r"[^\w+-]+", "-", bare).strip("-") or source


def fits_training(given: object, mistakes: Mistakes, place: str) -> Mapping[str, object]:
    """What of the training options can be used."""
    values = cast(Mapping[str, object], given)
    if "seed" in values:
        mistakes.add(f"{place}.seed", "give it in the list 'seeds', which is that of every defence")
    found = checked(TrainingOptions, {name: one for name, one in values.items() if name != "seed"}, mistakes,
                    place=place)
    with mistakes.of(place):
        make_options(TrainingOptions, found)
    return found


def fits_defence(
    values: dict[str, object], mistakes: Mistakes, place: str, *, training: Mapping[str, object],
) -> None:
    own = fits_training(values.get("training", {}), mistakes, f"{place}.training")
    values["training"] = {**training, **own}
    if fits_method(values, DEFENCES, mistakes, place):
        with mistakes.of(f"{place}.options"):
            build_defence(str(values["defence"]), preset=str(values["preset"]), options=options_of(values))


def fits_attack(values: dict[str, object], mistakes: Mistakes, place: str) -> None:
    if fits_method(values, ATTACKS, mistakes, place):
        with mistakes.of(f"{place}.options"):
            build_attack(str(values["attack"]), preset=str(values["preset"]), options=options_of(values))


def options_of(values: Mapping[str, object]) -> Mapping[str, object]:
    return cast(Mapping[str, object], values.get("options", {}))


def fits_method(values: dict[str, object], known: Catalogue[Any], mistakes: Mistakes, place: str) -> bool:
    """Whether a defence or an attack is one that there is, with its preset and options; it gets its own spelling."""
    kind, before = next(iter(known.values())).noun, len(mistakes)
    if kind not in values:
        return False
    with mistakes.of(place):
        method = known.find(str(values[kind]))
        values[kind] = method.name
        checked(method.Options, options_of(values), mistakes, place=f"{place}.options")
        with mistakes.of(f"{place}.preset"):
            known.preset(method.name, str(values.setdefault("preset", next(iter(method.presets)))))
    return len(mistakes) == before


def unlike(names: object, mistakes: Mistakes, place: str) -> None:
    """Two entries of one name would be one cell."""
    counts = Counter(cast(tuple[object, ...], names))
    for name, count in counts.items():
        if count > 1:
            mistakes.add(place, f"{name} is there {count} times; leave one, or give each a name of its own")
    if not counts:
        mistakes.add(place, "expected at least one, got an empty list")
