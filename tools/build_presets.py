# SPDX-License-Identifier: Apache-2.0
"""Write down the options of every defence and what its presets change, for reports.

    python tools/build_presets.py

The classes declare it (`Options`, `presets`). Reports, which load no class that needs torch, read the asset and name
their rows by it.
"""

from pathlib import Path

from dualmask.defences import DEFENCES
from dualmask.presets import ASSET, as_asset

PLACE = Path(__file__).resolve().parents[1] / "src" / "dualmask" / "assets" / ASSET


if __name__ == "__main__":
    PLACE.write_text(as_asset(DEFENCES.values()), encoding="utf-8")
