# SPDX-License-Identifier: Apache-2.0
"""The attacks by name. An attack's file, key and table row are one word."""

from collections.abc import Mapping
from typing import cast

from dualmask.attacks.a2t import A2T
from dualmask.attacks.base import Attack, AttackOptions, Tools
from dualmask.attacks.bertattack import BertAttack
from dualmask.attacks.deepwordbug import DeepWordBug
from dualmask.attacks.fgpm import FGPM
from dualmask.attacks.frequent import Frequent
from dualmask.attacks.hotflip import HotFlip
from dualmask.attacks.misprint import Misprint
from dualmask.attacks.outsider import Outsider
from dualmask.attacks.padding import Padding
from dualmask.attacks.pwws import PWWS
from dualmask.attacks.seethrough import SeeThrough
from dualmask.attacks.steering import Steering
from dualmask.attacks.textbugger import TextBugger
from dualmask.attacks.textfooler import TextFooler
from dualmask.attacks.typist import Typist
from dualmask.attacks.unseen import Unseen
from dualmask.cards import Catalogue

ATTACKS: Catalogue[Attack] = Catalogue((
    DeepWordBug, TextBugger, PWWS, TextFooler, BertAttack, HotFlip, FGPM, A2T,
    Frequent, Steering, Typist, Padding, SeeThrough, Misprint, Outsider, Unseen))  # these know a defence


def build_attack(
    name: str, *, preset: str | None = None, options: Mapping[str, object] | None = None, tools: Tools | None = None,
) -> Attack:
    """An attack with a preset's options (the first preset's where none is named), changed by those given."""
    kind = ATTACKS.find(name)
    made = kind(cast(AttackOptions, ATTACKS.options(name, preset, options)), tools)
    made.preset = preset or next(iter(kind.presets))
    return made


def aware_of(defence: str) -> list[str]:
    """The attacks that know how this defence works, by name; those on any victim are not among them."""
    parts = {defence, *defence.split("+")}  # of a combination
    return [name for name, kind in ATTACKS.items() if parts.intersection(kind.against)]
