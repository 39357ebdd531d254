# SPDX-License-Identifier: Apache-2.0
"""What attacks threaten with, in words that need no paper; and which threat an attack belongs to, for reports.

Each attack's class declares its threat, and classes can't be had without torch: an asset holds what they say
(`python tools/build_word_sources.py` writes it, and a test compares).
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple, Protocol

ASSET = "threats.json"


class Threat(NamedTuple):
    name: str  # as sentences have it
    help: str  # one sentence on what is done to a text


MISSPELLING = Threat("misspelling", "Letters are left out, added, exchanged or replaced by look-alikes.")
MISSPELLING_AND_SYNONYMS = Threat(
    "misspelling and synonyms", "Words are misspelt, split, written with look-alikes or exchanged for near ones.")
SYNONYMS = Threat("synonyms", "Words are exchanged for others of about the same meaning.")
LIKELY_WORDS = Threat(
    "words a language model finds likely", "Words are exchanged for others that a language model expects there.")
GRADIENTS = Threat("gradient", "Words are exchanged where the network's own gradient says that it hurts most.")
ADDED_WORDS = Threat("added words", "Words that say nothing are added, so that a defence spends itself on them.")
INVISIBLE = Threat("invisible characters", "Characters that nobody sees are added to the text.")
THREATS: Mapping[str, Threat] = {one.name: one for one in (  # in the order in which reports tell them
    MISSPELLING, MISSPELLING_AND_SYNONYMS, SYNONYMS, LIKELY_WORDS, GRADIENTS, ADDED_WORDS, INVISIBLE)}


class Threatening(Protocol):
    """An attack, as far as it counts here."""

    name: str
    threat: Threat | None


def threat_of(attack: str) -> Threat | None:
    """The threat that an attack of this name belongs to; None for those that are not of this library."""
    return THREATS.get(declared_threats().get(attack, ""))


@cache
def declared_threats() -> Mapping[str, str]:
    """By attack the name of its threat."""
    found: Mapping[str, str] = json.loads((files("dualmask") / "assets" / ASSET).read_text(encoding="utf-8"))
    return found


def as_asset(attacks: Iterable[type[Threatening]]) -> str:
    """The asset's content."""
    found = {attack.name: attack.threat.name for attack in attacks if attack.threat}
    return json.dumps(found, indent=1, sort_keys=True) + "\n"
