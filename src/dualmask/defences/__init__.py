# SPDX-License-Identifier: Apache-2.0
"""The defences by name. A defence's file, key, result folder and table row are one word."""

from collections.abc import Mapping

from dualmask.defences.a2t import A2T
from dualmask.defences.adfar import ADFAR
from dualmask.defences.base import Defence
from dualmask.defences.certed import CertED
from dualmask.defences.combination import Defences
from dualmask.defences.ddm import DDM
from dualmask.defences.ddm_restore import DDMRestore
from dualmask.defences.fat import FAT
from dualmask.defences.fgws import FGWS
from dualmask.defences.floodingx import FloodingX
from dualmask.defences.freelb import FreeLB
from dualmask.defences.freelbpp import FreeLBpp
from dualmask.defences.ib import IB
from dualmask.defences.infobert import InfoBERT
from dualmask.defences.mi4d import MI4D
from dualmask.defences.mvp import MVP
from dualmask.defences.ranmask import RanMASK
from dualmask.defences.rsmi import RSMI
from dualmask.defences.safer import SAFER
from dualmask.defences.shield import SHIELD
from dualmask.defences.siwcon import SIWCon
from dualmask.defences.textrs import TextRS
from dualmask.defences.ttso import TTSO
from dualmask.options import TrainingOptions, make_options

DEFENCES = Defences((
    Defence, DDM, DDMRestore, MI4D, FGWS, RanMASK, SAFER, CertED, TextRS, RSMI, FreeLB, FreeLBpp, FAT,
    InfoBERT, A2T, ADFAR, FloodingX, TTSO, IB, SIWCon, MVP,
    SHIELD))


def build_defence(name: str, *, preset: str | None = None, options: Mapping[str, object] | None = None) -> Defence:
    """A defence with a preset's options (the first preset's where none is named), changed by those given."""
    return DEFENCES.find(name)(DEFENCES.options(name, preset, options))


def preset_training(name: str, preset: str | None, changes: Mapping[str, object] | None = None) -> TrainingOptions:
    """The training options that go with a preset, changed by those given."""
    return make_options(TrainingOptions, {**DEFENCES.preset(name, preset).training, **(changes or {})})
