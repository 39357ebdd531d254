# SPDX-License-Identifier: Apache-2.0
"""Write down what attacks and defences declare, for reports: whose synonyms each takes, which attack a defence learns
from, and what each attack threatens with.

    python tools/build_word_sources.py

The classes declare it (`synonym_tables`, `learned_attacks`, `threat`). Reports, which load no class that needs torch,
read the assets.
"""

from pathlib import Path

from dualmask import threats, word_sources
from dualmask.attacks import ATTACKS
from dualmask.defences import DEFENCES

ASSETS = Path(__file__).resolve().parents[1] / "src" / "dualmask" / "assets"


if __name__ == "__main__":
    (ASSETS / word_sources.ASSET).write_text(
        word_sources.as_asset([*ATTACKS.values(), *DEFENCES.values()]), encoding="utf-8")
    (ASSETS / threats.ASSET).write_text(threats.as_asset(ATTACKS.values()), encoding="utf-8")
