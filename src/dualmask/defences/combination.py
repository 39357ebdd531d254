# SPDX-License-Identifier: Apache-2.0
"""Defences together, by the names of both with a plus between: ddm+freelb++."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import Field, asdict, field, fields, make_dataclass
from functools import cache
from types import new_class
from typing import TYPE_CHECKING, Any, ClassVar, cast, get_type_hints

import torch
from torch import Tensor, nn

from dualmask.cards import Catalogue, Preset
from dualmask.defences.base import Ask, Backward, Defence, Network, Noise, Objective
from dualmask.errors import OptionError, did_you_mean
from dualmask.options import make_options
from dualmask.presets import prefixed
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Example, Text
from dualmask.text.readings import Reading

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from dualmask.models.victim import Classifier

# What only one defence can decide, and how that is said; everything else is done by one after the other
ROLES: Mapping[str, tuple[str, ...]] = {
    "what is shown in training": ("training_view", "harden"),
    "the loss": ("loss",),
    "how often a batch is learned from": ("learn",),
    "what happens inside the network": ("answer",),
    "what is asked at inference": ("inference_view", "views", "wanted", "combine", "suspicion", "radius"),
}


class Combined(Defence):
    """Several defences, each where it acts."""

    kinds: ClassVar[tuple[type[Defence], ...]] = ()
    owners: ClassVar[Mapping[str, int]] = {}  # by hook: which of them decides; others do nothing there

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        given = asdict(cast(Any, self.options))
        self.parts = nn.ModuleList(kind(make_options(kind.Options, own_options(self.kinds, kind, given)))
                                   for kind in self.kinds)
        self._nobody = (Defence(),)  # in a tuple: it is no part

    def __reduce__(self) -> tuple[object, ...]:
        """Its class and that of its options are made when asked for, and have no place to be imported from."""
        state = {name: value for name, value in self.__dict__.items() if name != "options"}
        return remade, (self.kinds, self.options_as_dict(), state)

    @property
    def each(self) -> list[Defence]:
        return [cast(Defence, part) for part in self.parts]

    def owner(self, hook: str) -> Defence:
        """Who decides there; nobody: the plain way."""
        place = self.owners.get(hook)
        return self._nobody[0] if place is None else self.each[place]

    @property
    def asker(self) -> Defence:
        return self.owner("inference_view")

    @property
    def noise(self) -> Noise:
        return self.asker.noise

    @property
    def views(self) -> int:
        return self.asker.views

    @property
    def pass_count(self) -> str:
        return self.asker.pass_count

    @property
    def threshold(self) -> float | None:
        return self.asker.threshold

    def adapt(self, model: "PreTrainedModel") -> None:
        super().adapt(model)
        for part in self.each:
            part.adapt(model)

    def fit(self, examples: Sequence[Example], encode: Encode) -> None:
        for part in self.each:
            part.fit(examples, encode)

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Each looks at what is its own, and may refuse it."""
        for place, part in enumerate(self.each):
            start = f"parts.{place}."
            part.restore({name.removeprefix(start): value for name, value in state.items() if name.startswith(start)})
        super().restore(state)  # which tells of what is nobody's

    def weigh_classes(self, weights: Tensor | None) -> None:
        for part in (self, *self.each, *self._nobody):
            part.class_weights = weights

    def augment(
        self, examples: Sequence[Example], epoch: int, generator: torch.Generator, classifier: "Classifier",
    ) -> Sequence[Example]:
        """Each with a generator of its own: one that is resumed may draw less than before, and move nobody else."""
        seeds = torch.randint(2**62, (len(self.each),), generator=generator).tolist()
        for part, seed in zip(self.each, seeds, strict=True):
            examples = part.augment(examples, epoch, torch.Generator().manual_seed(seed), classifier)
        return examples

    def is_ready(self, epoch: int) -> bool:
        return all(part.is_ready(epoch) for part in self.each)

    def tune(self, ask: Ask, validation: Sequence[Example]) -> None:
        for part in self.each:
            part.tune(ask, validation)

    def training_view(
        self, texts: Sequence[Text], labels: Sequence[int], encode: Encode, generator: torch.Generator,
    ) -> Batch:
        return self.owner("training_view").training_view(texts, labels, encode, generator)

    def loss(self, network: Network, batch: Batch, embeddings: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return self.owner("loss").loss(Inside(self, network), batch, embeddings)

    def harden(self, objective: Objective, batch: Batch) -> Batch:
        return self.owner("harden").harden(objective, batch)

    def learn(self, objective: Objective, batch: Batch, backward: Backward) -> tuple[Tensor, Tensor]:
        return self.owner("learn").learn(objective, batch, backward)

    def training_room(self, encode: Encode, specials: int) -> int:
        return self.owner("training_view").training_room(encode, specials)

    def room(self, encode: Encode, specials: int) -> int:
        return self.asker.room(encode, specials)

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        return self.asker.inference_view(texts, numbers, encode, device)

    def answer(self, network: Network, batch: Batch, embeddings: Tensor | None = None) -> Tensor:
        return self.owner("answer").answer(network, batch, embeddings)

    def wanted(self, logits: Tensor, seen: Tensor, *, early: bool) -> Tensor:
        return self.asker.wanted(logits, seen, early=early)

    def combine(self, logits: Tensor) -> Tensor:
        return self.asker.combine(logits)

    def suspicion(self, logits: Tensor) -> Tensor | None:
        return self.asker.suspicion(logits)

    def account(self, text: Text) -> list[Reading] | None:
        return self.asker.account(text)

    def origins(self, text: Text) -> list[tuple[int, int]] | None:
        return self.asker.origins(text)

    def redraw(self, number: int, *, same: bool = False) -> None:
        self.asker.redraw(number, same=same)

    def radius(self, text: Text, share: float, encode: Encode, *, strict: bool = True) -> int:
        return self.asker.radius(text, share, encode, strict=strict)


def parts_of(guard: Defence) -> list[Defence]:
    """The defences that one consists of: itself, unless it is a combination."""
    return guard.each if isinstance(guard, Combined) else [guard]


def acts_at_inference(guard: Defence) -> bool:
    """Whether it answers otherwise than the network alone would; others act in training only."""
    return any(type(part).inference_view is not Defence.inference_view or type(part).answer is not Defence.answer
               for part in parts_of(guard))


def threshold_setters(guard: Defence) -> list[str]:
    """The names of those that set thresholds on held-out texts after training."""
    return [part.name for part in parts_of(guard) if type(part).tune is not Defence.tune]


class Inside:
    """A network as one defence's loss asks it, when another acts inside. Its states are its own, without the other."""

    def __init__(self, defence: Combined, network: Network) -> None:
        self.defence, self.network = defence, network

    def __call__(self, batch: Batch, embeddings: Tensor | None = None, *, states: bool = False) -> Tensor:
        if states:
            return self.network(batch, embeddings, states=True)
        return self.defence.answer(self.network, batch, embeddings)


class Defences(Catalogue[Defence]):
    """Defences by name; names with a plus between them stand for all of these together."""

    def find(self, name: str) -> type[Defence]:
        parts = self.parts(name)
        if not parts and name not in self and "+" in name.strip("+"):
            wrong = next((one for one in filter(None, name.split("+")) if one not in self), name)
            raise OptionError(f"unknown defence '{wrong}' in '{name}'{did_you_mean(wrong, self)} See 'dualmask list "
                              "defences'.")
        return combined(parts) if len(parts) > 1 else super().find(name)

    def parts(self, name: str) -> tuple[type[Defence], ...]:
        """The defences of a combination; nothing where it is none. A name may end in plus signs of its own."""
        known = "|".join(re.escape(one) for one in sorted(self, key=len, reverse=True))
        if name in self or not re.fullmatch(rf"({known})(\+({known}))+", name):
            return ()
        return tuple(self[found] for found in re.findall(rf"(?:^|\+)({known})(?=\+|$)", name))


@cache
def combined(kinds: tuple[type[Defence], ...]) -> type[Defence]:
    """A class for several defences together; refused where two want to decide the same."""
    check_pair(kinds)
    owners = {hook: place for role, hooks in ROLES.items() if (place := decider(role, hooks, kinds)) is not None
              for hook in hooks}
    asked = kinds[owners["inference_view"]] if "inference_view" in owners else Defence
    blind = next((kind.name for kind in kinds if kind.looks_inside and not asked.explainable), None)
    if blind:
        raise OptionError(f"'{blind}' and '{asked.name}' can't be combined: the first leads gradients back to words, "
                          "and the second rewrites texts, so that they are not the text's own.")
    name, words = "+".join(kind.name for kind in kinds), " and ".join(kind.name for kind in kinds)
    return cast(type[Defence], new_class(name, (Combined,), exec_body=lambda body: body.update({
        "__doc__": card_text(kinds, words), "name": name, "family": kinds[0].family, "passes": asked.passes,
        "trains_head": all(kind.trains_head for kind in kinds),
        "explainable": asked.explainable, "reads_words": asked.reads_words,
        "certificate": asked.certificate, "kinds": kinds, "owners": owners,
        "Options": make_dataclass(f"{name} options", option_fields(kinds), frozen=True, kw_only=True),
        "presets": presets_of(kinds)})))


def remade(kinds: tuple[type[Defence], ...], given: Mapping[str, object], state: Mapping[str, object]) -> Defence:
    """A pickled or copied combination."""
    kind = combined(kinds)
    found = kind.__new__(kind)
    found.__dict__.update(state)
    found.options = make_options(kind.Options, given)
    return found


def check_pair(kinds: Sequence[type[Defence]]) -> None:
    names = [kind.name for kind in kinds]
    if Defence.name in names:
        raise OptionError(f"'{Defence.name}' is no defence, so that '{'+'.join(names)}' is none either; leave it out.")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise OptionError(f"'{twice}' stands twice in '{'+'.join(names)}'; name each defence once.")
    adding = [kind.name for kind in kinds if kind.adds]
    if len(adding) > 1:
        raise OptionError(f"'{adding[0]}' and '{adding[1]}' can't be combined: both add examples, and each would take "
                          "the other's for the data's own.")


def decider(role: str, hooks: Sequence[str], kinds: Sequence[type[Defence]]) -> int | None:
    """The place of the defence that decides there."""
    found = [place for place, kind in enumerate(kinds)
             if any(getattr(kind, hook) is not getattr(Defence, hook) for hook in hooks)]
    if len(found) > 1:
        one, other = (kinds[place].name for place in found[:2])
        raise OptionError(f"'{one}' and '{other}' can't be combined: both decide {role}, and only one can. Choose "
                          "defences that act at different places ('dualmask card NAME' says where).")
    return found[0] if found else None


def own_name(kinds: Sequence[type[Defence]], kind: type[Defence], name: str) -> str:
    """What an option of one of them is called; where two have one of that name, with the defence's in front."""
    twice = sum(name in {one.name for one in fields(other.Options)} for other in kinds) > 1
    return prefixed(kind.name, name) if twice else name


def own_options(kinds: Sequence[type[Defence]], kind: type[Defence], given: Mapping[str, object]) -> dict[str, object]:
    return {one.name: given[own_name(kinds, kind, one.name)] for one in fields(kind.Options)}


def option_fields(kinds: Sequence[type[Defence]]) -> list[tuple[str, Any, "Field[Any]"]]:
    """Every option of every one of them, with its type and default, and where it is written down."""
    return [(own_name(kinds, kind, one.name), get_type_hints(kind.Options)[one.name],
             field(default=one.default, metadata={**one.metadata, "of": (kind.Options, one.name)}))
            for kind in kinds for one in fields(kind.Options)]


def presets_of(kinds: Sequence[type[Defence]]) -> dict[str, Preset]:
    """Each preset that one of them has, the others as recommended; of training settings the last one's count."""
    found = {}
    for name in dict.fromkeys(name for kind in kinds for name in ("recommended", *kind.presets)):
        chosen = [(kind, kind.presets.get(name, kind.presets["recommended"])) for kind in kinds]
        found[name] = Preset(
            {own_name(kinds, kind, option): value for kind, preset in chosen
             for option, value in preset.options.items()},
            {setting: value for _, preset in chosen for setting, value in preset.training.items()})
    return found


def card_text(kinds: Sequence[type[Defence]], words: str) -> str:
    cards = [kind.card() for kind in kinds]
    told = {heading: " ".join(f"{card.name}: {card.sections[heading]}" for card in cards if heading in card.sections)
            for heading in ("Idea", "Acts at", "Deviations", "Relations")}
    return "\n".join([f"{words} together.", "", *(f"{heading}: {text}" for heading, text in told.items())])
