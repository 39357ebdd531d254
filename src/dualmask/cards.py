# SPDX-License-Identifier: Apache-2.0
"""What is said about a method (a defence or an attack): its paper, its card, its presets; and methods by name."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import ClassVar, NamedTuple, TypeVar

from dualmask.errors import OptionError, did_you_mean
from dualmask.options import former_options, make_options

HEADINGS = ("Paper", "Idea", "Acts at", "Deviations", "Relations")


class Paper(NamedTuple):
    title: str
    authors: str
    venue: str
    link: str = ""


class Preset(NamedTuple):
    """Options of a method and, for a defence, the training options that go with them."""

    options: Mapping[str, object]
    training: Mapping[str, object] = MappingProxyType({})


class Source(NamedTuple):
    """What a method takes from elsewhere, by name, and with which options it does. {option}: what that one names."""

    name: str
    when: Mapping[str, tuple[object, ...]] = MappingProxyType({})  # options, each with the values that lead there
    unless: Mapping[str, tuple[object, ...]] = MappingProxyType({})  # and with those that lead away


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """A method without settings."""


@dataclass(frozen=True)
class Card:
    """What a reader wants to know first; read off the class docstring's headings."""

    name: str
    summary: str
    sections: Mapping[str, str] = field(default_factory=dict)


class Method:
    """What defences and attacks have in common: a name, a paper, options with presets, and a card as docstring."""

    name: ClassVar[str]
    noun: ClassVar[str]
    paper: ClassVar[Paper | None] = None
    family: ClassVar[str]
    Options: ClassVar[type] = NoOptions
    presets: ClassVar[Mapping[str, Preset]] = {"recommended": Preset({})}
    synonym_tables: ClassVar[tuple[Source, ...]] = ()  # whose words it writes, or makes itself used to
    options: object

    @classmethod
    def card(cls) -> Card:
        """The docstring, split at its headings."""
        lines = (cls.__doc__ or "").strip().splitlines()
        sections: dict[str, str] = {}
        heading = ""
        for line in map(str.strip, lines[1:]):
            start, colon, rest = line.partition(": ")
            if colon and start in HEADINGS:
                heading, line = start, rest
            if heading and line:
                sections[heading] = f"{sections.get(heading, '')} {line}".strip()
        return Card(cls.name, lines[0].rstrip("."), sections)

    def options_as_dict(self) -> dict[str, object]:
        return asdict(self.options)  # type: ignore[call-overload,no-any-return]

    def lasting_options(self) -> dict[str, object]:
        """All but those that came later and do what was done before: of equal ones every version made the same."""
        former = former_options(type(self.options))
        return {name: value for name, value in self.options_as_dict().items()
                if name not in former or value != former[name]}

    def changes(self, preset: str | None) -> dict[str, object]:
        """The options that are not the preset's."""
        named = self.presets.get(preset or "")
        usual: object = make_options(self.Options, named.options if named else {})
        return {name: value for name, value in self.options_as_dict().items() if value != getattr(usual, name)}


M = TypeVar("M", bound=Method)


def plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


class Catalogue(dict[str, type[M]]):
    """Methods of one kind by name; what is not there is answered with the nearest name."""

    def __init__(self, kinds: Iterable[type[M]]) -> None:
        super().__init__({kind.name: kind for kind in kinds})

    def find(self, name: str) -> type[M]:
        """A method by its name, however papers write it: BERT-Attack is bertattack."""
        if name in self:
            return self[name]
        alike = [kind for key, kind in self.items() if plain(key) == plain(name)]
        if not alike:
            noun = next(iter(self.values())).noun
            raise OptionError(f"unknown {noun} '{name}'{did_you_mean(name, self)} See 'dualmask list {noun}s'.")
        return alike[0]

    def preset(self, name: str, preset: str | None) -> Preset:
        """A method's preset by name; none given: its first."""
        kind = self.find(name)
        if preset is None:
            return next(iter(kind.presets.values()))
        if preset not in kind.presets:
            raise OptionError(f"the {kind.noun} '{name}' has no preset '{preset}'{did_you_mean(preset, kind.presets)}")
        return kind.presets[preset]

    def options(self, name: str, preset: str | None, changes: Mapping[str, object] | None) -> object:
        """A preset's options, changed by those given."""
        return make_options(self.find(name).Options, {**self.preset(name, preset).options, **(changes or {})})
