# SPDX-License-Identifier: Apache-2.0
"""The defences by name. A defence's file, key, result folder and table row are one word."""

from collections.abc import Mapping
from dataclasses import asdict

from dualmask.defences.base import Defence, Preset
from dualmask.defences.ddm import DDM
from dualmask.defences.options import TrainingOptions, make_options
from dualmask.errors import OptionError, did_you_mean

DEFENCES: dict[str, type[Defence]] = {kind.name: kind for kind in (Defence, DDM)}


def find_defence(name: str) -> type[Defence]:
    if name not in DEFENCES:
        raise OptionError(f"unknown defence '{name}'{did_you_mean(name, DEFENCES)} See 'dualmask list'.")
    return DEFENCES[name]


def build_defence(name: str, *, preset: str = "recommended", options: Mapping[str, object] | None = None) -> Defence:
    """A defence with a preset's options, changed by those given."""
    kind = find_defence(name)
    return kind(make_options(kind.Options, {**find_preset(name, preset).options, **(options or {})}))


def find_preset(name: str, preset: str) -> Preset:
    kind = find_defence(name)
    if preset not in kind.presets:
        raise OptionError(f"the defence '{name}' has no preset '{preset}'{did_you_mean(preset, kind.presets)}")
    return kind.presets[preset]


def preset_training(name: str, preset: str, changes: Mapping[str, object] | None = None) -> TrainingOptions:
    """The training options that go with a preset, changed by those given."""
    return make_options(TrainingOptions, {**find_preset(name, preset).training, **(changes or {})})


def options_as_dict(defence: Defence) -> dict[str, object]:
    return asdict(defence.options)  # type: ignore[call-overload,no-any-return]
