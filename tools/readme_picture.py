# SPDX-License-Identifier: Apache-2.0
"""Draw the picture of the README: one sentence, answered by a plain network and by the same one hardened.

    python tools/readme_picture.py [DEMO] [--out docs/pictures]

DEMO is the folder of `make demo` (`demo` unless given), which holds both classifiers. Two SVG files are written, one
for light pages and one for dark ones; their text is what the command line prints.
"""

import argparse
import io
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from dualmask import DefendedClassifier
from dualmask.display import show_predictions

SENTENCE = "The wrost film of the year, lifelss."
WIDTH = 100
DARK = TerminalTheme(
    (22, 27, 34), (230, 237, 243),
    [(72, 79, 88), (255, 123, 114), (86, 211, 100), (227, 179, 65), (121, 192, 255), (210, 168, 255), (86, 212, 221),
     (230, 237, 243)])
LIGHT = TerminalTheme(
    (246, 248, 250), (31, 35, 40),
    [(36, 41, 47), (207, 34, 46), (17, 99, 41), (77, 45, 0), (9, 105, 218), (130, 80, 223), (27, 124, 131),
     (89, 99, 110)])
# As rich's own, without the frame of a window and without fonts that a page would have to fetch
FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {terminal_height}" xmlns="http://www.w3.org/2000/svg" \
role="img" aria-label="{title}">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; \
font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" \
height="{terminal_height}"/></clipPath>{lines}</defs>
<rect width="{width}" height="{terminal_height}" rx="8" fill="{background}"/>
<g transform="translate(12, 8)" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def recorded(demo: Path) -> Console:
    """What the two commands print."""
    console = Console(width=WIDTH, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor",
                      legacy_windows=False)
    for name, explain in (("plain", False), ("hardened", True)):
        folder = next((demo / "models").glob(f"*.{name}.0"), None)
        if folder is None:
            raise SystemExit(f"{demo} holds no classifier called {name}; run 'make demo' first, or name its folder.")
        classifier = DefendedClassifier.load(folder, device="cpu")
        flag = " --explain" if explain else ""
        console.print(Text.assemble(("$ ", "dim"), (f'dualmask predict {name}/ "{SENTENCE}"{flag}', "bold")))
        show_predictions(console, [SENTENCE], classifier.predict([SENTENCE], explain=explain), width=6)
        console.print()
    return console


def drawn(console: Console, theme: TerminalTheme) -> str:
    background = "#{:02x}{:02x}{:02x}".format(*theme.background_color)
    title = "A plain classifier is fooled by two typing errors; the hardened one reads them as they were meant."
    form = FORMAT.replace("{background}", background).replace("{title}", title)
    return console.export_svg(theme=theme, clear=False, code_format=form, unique_id="picture")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("demo", nargs="?", type=Path, default=Path("demo"))
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    given = parser.parse_args()
    console = recorded(given.demo)
    given.out.mkdir(parents=True, exist_ok=True)
    for name, theme in (("light", LIGHT), ("dark", DARK)):
        path = given.out / f"predict-{name}.svg"
        path.write_text(drawn(console, theme), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
