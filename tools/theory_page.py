# SPDX-License-Identifier: Apache-2.0
"""Put what `dualmask theory MODEL RECORDS --out FOLDER` wrote into docs/theory.md.

    python tools/theory_page.py [FOLDER]

The quantities become results/theory.jsonl.gz; without a folder it is read. Plots become docs/theory/*.svg, and
what stands in the page between the two marks the tables and sentences that follow from them; tests compare all.
"""

import argparse
import gzip
from pathlib import Path

from dualmask.reporting.theory_plots import geometry_plot, recovery_plot
from dualmask.reporting.theory_tables import markdown
from dualmask.theory.quantities import read_quantities
from dualmask.theory.summary import summarise

ROOT = Path(__file__).parents[1]
PAGE, QUANTITIES, PLOTS = ROOT / "docs" / "theory.md", ROOT / "results" / "theory.jsonl.gz", ROOT / "docs" / "theory"
BEGIN, END = "<!-- written by tools/theory_page.py -->\n", "<!-- up to here -->\n"


def contents(quantities: Path) -> dict[Path, str]:
    """What follows from the quantities: the page with its tables, and the plots."""
    found = read_quantities(quantities)
    page = PAGE.read_text(encoding="utf-8")
    before, (_, after) = page.split(BEGIN)[0], page.split(BEGIN)[1].split(END)
    return {PAGE: f"{before}{BEGIN}\n{markdown(summarise(found))}\n{END}{after}",
            PLOTS / "geometry.svg": geometry_plot(found), PLOTS / "recovery.svg": recovery_plot(found)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    if (folder := parser.parse_args().folder) is not None:
        QUANTITIES.write_bytes(gzip.compress((folder / "words.jsonl").read_bytes(), mtime=0))
    PLOTS.mkdir(exist_ok=True)
    for path, text in contents(QUANTITIES).items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
