# SPDX-License-Identifier: Apache-2.0
"""The defences by name. A defence's file, key, result folder and table row are one word."""

from collections.abc import Mapping

from dualmask.cards import Catalogue
from dualmask.defences.base import Defence
from dualmask.defences.ddm import DDM
from dualmask.defences.mi4d import MI4D
from dualmask.options import TrainingOptions, make_options

DEFENCES: Catalogue[Defence] = Catalogue((Defence, DDM, MI4D))


def build_defence(name: str, *, preset: str | None = None, options: Mapping[str, object] | None = None) -> Defence:
    """A defence with a preset's options (the first preset's where none is named), changed by those given."""
    return DEFENCES.find(name)(DEFENCES.options(name, preset, options))


def preset_training(name: str, preset: str | None, changes: Mapping[str, object] | None = None) -> TrainingOptions:
    """The training options that go with a preset, changed by those given."""
    return make_options(TrainingOptions, {**DEFENCES.preset(name, preset).training, **(changes or {})})
