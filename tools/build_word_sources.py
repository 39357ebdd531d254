# SPDX-License-Identifier: Apache-2.0
"""Write down whose synonyms each attack and defence takes, and which attack a defence learns from, for reports.

    python tools/build_word_sources.py

The classes declare it (`synonym_tables`, `learned_attacks`). Reports, which load no class that needs torch, read the
asset.
"""

from pathlib import Path

from dualmask.attacks import ATTACKS
from dualmask.defences import DEFENCES
from dualmask.word_sources import ASSET, as_asset

PLACE = Path(__file__).resolve().parents[1] / "src" / "dualmask" / "assets" / ASSET


if __name__ == "__main__":
    PLACE.write_text(as_asset([*ATTACKS.values(), *DEFENCES.values()]), encoding="utf-8")
