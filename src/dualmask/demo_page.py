# SPDX-License-Identifier: Apache-2.0
"""The demo's report as one self-contained page."""

from collections.abc import Sequence
from html import escape
from string import Template
from typing import TYPE_CHECKING

from dualmask.display import SHOWN, joined_spans

if TYPE_CHECKING:
    from dualmask.classifier import Masked
    from dualmask.demo import Answer, Finding, Report

PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>dualmask: the demo's report</title>
<style>
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #667; --page: #fff; --line: #dde; --mark: #ffd9d6; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8ea; --soft: #9aa; --page: #17181b; --line: #333; --mark: #6b2320; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 52rem;
       margin: 2rem auto; padding: 0 1rem; }
h2 { font-size: 1.05rem; margin: 2rem 0 .3rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem .4rem 0; border-top: 1px solid var(--line); }
th { color: var(--soft); font-weight: normal; font-size: .85rem; border: 0; }
td:not(:last-child) { white-space: nowrap; }
del { background: var(--mark); padding: 0 .15em; border-radius: .2em; }
meter { width: 3.5rem; }
.big { font-size: 1.6rem; font-variant-numeric: tabular-nums; }
.soft { color: var(--soft); font-size: .85rem; }
.changed { font-weight: bold; text-decoration: underline wavy; }
</style>
</head>
<body>
<h1>What the defence does</h1>
<p class="soft">$settings</p>
<table>
<tr><th>right answers on $tests test texts</th><th>defence on</th><th>defence off</th></tr>
<tr><td>as they are</td><td class="big">$on</td><td class="big">$off</td></tr>
<tr><td>$share of the words misspelt at random</td><td class="big">$altered</td><td class="big">$altered_off</td></tr>
</table>
$cases
<h2>What is seen</h2>
<ul>
$sentences
</ul>
</body>
</html>
""")

CASE = Template("""<h2>$change</h2>
<table>
<tr><th></th><th>defence on</th><th>defence off</th><th>text; what was hidden is struck through</th></tr>
<tr><td>clean</td><td>$clean</td><td>$clean_off</td><td>$clean_text</td></tr>
<tr><td>altered</td><td>$altered</td><td>$altered_off</td><td>$altered_text</td></tr>
</table>
""")


def page(report: "Report") -> str:
    from dualmask.demo import ALTERED_SHARE, DEFENCE, PRESET, sentences

    settings = (f"Encoder {report.encoder}, data {report.data}, defence {DEFENCE}, preset {PRESET}; "
                f"{report.rows.train:,} training texts, {report.seconds:.0f} s of training.")
    return PAGE.substitute(
        settings=escape(settings), tests=f"{report.rows.test:,}", on=f"{report.accuracy:.1%}",
        off=f"{report.accuracy_off:.1%}", share=f"{ALTERED_SHARE:.0%}", altered=f"{report.altered:.1%}",
        altered_off=f"{report.altered_off:.1%}", cases="".join(map(case, report.findings)),
        sentences="\n".join(f"<li>{escape(sentence)}</li>" for sentence in sentences(report)))


def case(finding: "Finding") -> str:
    return CASE.substitute(
        change=escape(finding.case.change.capitalize()),
        clean=answer(finding.clean), clean_off=answer(finding.clean_off),
        altered=answer(finding.altered, changed=finding.altered.label != finding.clean.label),
        altered_off=answer(finding.altered_off, changed=finding.altered_off.label != finding.clean_off.label),
        clean_text=marked(finding.case.clean, finding.clean.masked),
        altered_text=marked(finding.case.altered, finding.altered.masked))


def answer(given: "Answer", *, changed: bool = False) -> str:
    label = f'<span class="changed">{escape(given.label)}</span>' if changed else escape(given.label)
    return f'{label}<br><meter value="{given.confidence:.3f}"></meter> {given.confidence:.1%}'


def marked(text: str, masked: "Sequence[Masked]") -> str:
    parts, done = [], 0
    for start, end in joined_spans(masked):
        parts += [escape(text[done:start].translate(SHOWN)), f"<del>{escape(text[start:end].translate(SHOWN))}</del>"]
        done = end
    return "".join([*parts, escape(text[done:].translate(SHOWN))])
