# SPDX-License-Identifier: Apache-2.0
"""Answers, defences and attacks in the terminal; readable without colour too."""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from inspect import getsource
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args, get_origin, get_type_hints

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dualmask.answers import SCORED, scored
from dualmask.fitted_tables import FittedTable
from dualmask.text.differences import SHOWN, joined
from dualmask.text.invisible import seen

if TYPE_CHECKING:
    from dualmask.cards import Method, Paper
    from dualmask.classifier import DefendedClassifier, Masked, Predictions
    from dualmask.prediction import Summary
    from dualmask.text.columns import Text as Words

MARK = "strike white on red"
NOTE = re.compile(r"^    (\w+): .*?  # (.+)$", re.M)
ROOMY = 110  # columns of a screen that has room for titles of papers
LONGEST = 1200  # characters of a text that are shown


def marked_text(text: str, masked: Iterable["Masked"], *, brackets: bool = False) -> Text:
    """The text with distrusted words struck through on red; with `brackets`, for screens without colour, ⟦so⟧.

    What was read instead of a word stands behind it.
    """
    result, done, given = Text(), 0, list(masked)
    instead = {span.start: span.becomes for span in given if span.becomes is not None}
    for start, end in sorted([*joined_spans(span for span in given if span.becomes is None),
                              *((span.start, span.end) for span in given if span.becomes is not None)]):
        if start >= LONGEST:
            break
        result.append(text[done:start].translate(SHOWN))
        word = text[start:end].translate(SHOWN)
        result.append(f"\u27e6{word}\u27e7" if brackets else word, style="dim strike" if start in instead else MARK)
        if start in instead:
            result.append(f"\u2192{instead[start].translate(SHOWN) or '(nothing)'}", style="bold green")
        done = end
    result.append(text[done:max(done, LONGEST)].translate(SHOWN))
    if len(text) > max(done, LONGEST):
        result.append(f" \u2026 ({len(text) - max(done, LONGEST):,} more characters)", style="dim")
    return result


def joined_spans(masked: Iterable["Masked"]) -> list[tuple[int, int]]:
    return joined((span.start, span.end) for span in masked)


def distrusted(masked: Sequence["Masked"]) -> str:
    """What was hidden with its scores; of a defence that tells why, each word with what became of it."""
    if not any(span.why for span in masked):
        return f"distrusted: {scored_words(masked) or 'nothing'}"
    return "\n".join(f"{shown_letters(span.text)} \u2192 {read_instead(span)}  {span.why}" for span in masked)


def read_instead(span: "Masked") -> str:
    return "[MASK]" if span.becomes is None else span.becomes.translate(SHOWN) or "(nothing)"


def shown_letters(text: str) -> str:
    """With something to see in the place of what can't be seen, unless it does something, as in emoji."""
    places = seen(text).places
    kept = set(range(len(text)) if places is None else places)
    return "".join(letter if place in kept or letter.isspace() else "\ufffd"
                   for place, letter in enumerate(text)).translate(SHOWN)


def scored_words(masked: Sequence["Masked"]) -> str:
    """``fnuny 0.00, plot -3.14``: distrusted words with the highest score among their pieces."""
    words = []
    for part in (0, 1):
        spans = [span for span in masked if span.part == part]
        for start, end in joined_spans(spans):
            pieces = [span for span in spans if start <= span.start < end]
            score = max(piece.score for piece in pieces)
            words.append(f"{''.join(piece.text for piece in pieces).translate(SHOWN)} {score + 0.0:.2f}")
    return ", ".join(words)


def confidence_bar(share: float, width: int = 10) -> Text:
    """A bar and a percentage, such as ``███████░░░ 72.4 %``."""
    full = round(share * width)
    return Text.assemble(("\u2588" * full, "green"), ("\u2591" * (width - full), "dim"), f" {share:6.1%}")


def show_predictions(
    console: Console, texts: Sequence["Words"], answers: "Predictions", *, header: bool = True, width: int = 0,
    threshold: float | None = None,
) -> None:
    """One row for each text: its label, how sure the classifier is, the text with what it distrusted marked.

    threshold: of a detector; each text's suspicion is shown then, and whether it is flagged.
    """
    brackets = console.color_system is None or console.no_color
    table = Table(box=None, show_header=header, padding=(0, 2, 0 if answers.masked is None else 1, 0), expand=True)
    table.add_column("label", no_wrap=True, style="bold", min_width=max(width, 5))
    table.add_column("confidence", no_wrap=True, min_width=18)
    for name in () if threshold is None else SCORED:
        table.add_column(name, no_wrap=True, min_width=len(name))
    table.add_column("text", overflow="fold", ratio=1)
    masked, doubts = answers.masked or [[] for _ in texts], scored(answers, threshold)
    for text, label, row, spans, doubt in zip(
            texts, answers.labels, answers.probabilities.tolist(), masked, doubts, strict=True):
        parts = (text,) if isinstance(text, str) else text
        lines = [marked_text(part, [span for span in spans if span.part == place], brackets=brackets)
                 for place, part in enumerate(parts)]
        if answers.masked is not None:
            lines.append(Text(distrusted(spans), style="dim"))
        table.add_row(Text(label.translate(SHOWN)), confidence_bar(max(row)), *map(shown, doubt), Group(*lines))
    console.print(table)


def legend(console: Console, classifier: "DefendedClassifier", *, defended: bool) -> None:
    """What the marks and the scores mean."""
    if not defended:
        console.print("The defence was off: nothing was masked.", style="dim")
        return
    if not classifier.defence.explainable:
        mean = getattr(classifier.defence.options, "synonyms", "") == "mixture"
        rest = "Most other words are read as the mean of their synonyms." if mean else "No other word was changed."
        votes = " So it is in the first view; in others words are exchanged." if classifier.defence.views > 1 else ""
        console.print(f"A word and, behind the arrow, what was read instead; [MASK]: it was hidden. {rest}{votes}",
                      style="dim", markup=False)
        return
    sample = marked_text("words", [_whole("words")], brackets=console.color_system is None or console.no_color)
    note = ""
    if getattr(classifier.defence.options, "scorer", "") in ("frequency", "word-frequency"):
        note = ", here -ln(1 + how often the training texts have it)"
    meaning = Text(f" were hidden from the network. Their score{note}: the higher, the more suspicious.")
    console.print(Text.assemble("Marked ", sample, meaning), style="dim")


def _whole(text: str) -> "Masked":
    from dualmask.classifier import Masked

    return Masked(text, 0, len(text), 0.0)


def own_command() -> str:
    """How to call this program again: by its name where the shell finds it, else by the path it was called with."""
    called = Path(sys.argv[0])
    by_path = called.name == "dualmask" and not shutil.which("dualmask")
    return os.path.relpath(called) if by_path else "dualmask"


def show_summary(console: Console, summary: "Summary") -> None:
    most_first = sorted(summary.counts.items(), key=lambda pair: -pair[1])
    counts = ", ".join(f"{label} {count:,}" for label, count in most_first)
    earlier = f" ({summary.resumed:,} of them by an earlier run)" if summary.resumed else ""
    answered = summary.rows - summary.skipped
    line = f"{answered:,} rows answered{earlier} in {summary.seconds:.1f} s: {counts}. Written to {summary.out}"
    console.print(Text(line.translate(SHOWN)), soft_wrap=True)
    new = summary.rows - summary.resumed - summary.skipped_now
    if summary.passes < new * summary.views:
        share = summary.passes / new / summary.views
        console.print(f"{summary.passes / new:.1f} of {summary.views} passes a text ({share:.0%}): the others were not "
                      "needed.", soft_wrap=True, highlight=False)


def method_table(kinds: Iterable[type["Method"]], *, width: int = 200) -> FittedTable:
    """Defences or attacks, one a row; where there is no room, papers are told in short."""
    kinds = list(kinds)
    told = [name for name in ("passes", "certificate") if any(getattr(kind, name, "") for kind in kinds)]
    threats = ["threat"] if any(getattr(kind, "threat", None) for kind in kinds) else []
    rows = [[Text(kind.name, "bold"), family_of(kind), *(threat_name(kind) for _ in threats),
             *(getattr(kind, name) or "-" for name in told), ", ".join(kind.presets), kind.card().summary,
             paper_of(kind, short=width < ROOMY)] for kind in kinds]
    return FittedTable(head=(kinds[0].noun, "family", *threats, *told, "presets", "summary", "paper"), rows=rows,
                       keys=2)


def family_of(kind: type["Method"]) -> str:
    knows = getattr(kind, "against", ())
    return kind.family + (f"\nknows {', '.join(knows)}" if knows else "")


def threat_name(kind: type["Method"]) -> str:
    threat = getattr(kind, "threat", None)
    return threat.name if threat else "-"


def paper_of(kind: type["Method"], *, short: bool) -> str:
    if kind.paper is None:
        return "-"
    return in_short(kind.paper) if short else f"{kind.paper.authors}, {kind.paper.title}, {kind.paper.venue}"


def in_short(paper: "Paper") -> str:
    """``Jin et al., AAAI 2020``."""
    first, *others = paper.authors.split(", ")
    names = paper.authors.replace(", ", " and ") if len(others) < 2 else f"{first} et al."
    return f"{names}, {paper.venue}"


def method_card(kind: type["Method"]) -> Group:
    """A method's card, then each of its options with the values it may take and those of the presets."""
    card = kind.card()
    head = Table(box=None, show_header=False, padding=(0, 2, 1, 0))
    head.add_column(style="bold", no_wrap=True)
    head.add_column(overflow="fold")
    for heading, text in card.sections.items():
        head.add_row(heading, Text(text))
    if kind.paper and kind.paper.link:
        head.add_row("Link", Text(kind.paper.link))
    if threat := getattr(kind, "threat", None):
        head.add_row("Threat", Text(f"{threat.name}. {threat.help}"))
    if knows := getattr(kind, "against", ()):
        head.add_row("Knows", Text(f"the defence {' or '.join(knows)}: other victims are refused; mode defence-aware"))
    return Group(Text(f"{card.name}: {card.summary}\n", "bold"), head, *_options(kind))


def _options(kind: type["Method"]) -> list[RenderableType]:
    from dualmask.options import TrainingOptions

    own = {name: preset.options for name, preset in kind.presets.items()}
    training = {name: preset.training for name, preset in kind.presets.items()}
    lists = [(kind.Options, own, "--option NAME=VALUE")]
    if kind.noun == "defence":
        lists.append((TrainingOptions, training, "--set NAME=VALUE (training)"))
    presets = Text(f"Presets: {', '.join(kind.presets)}; the first is the default.\n")
    return [presets, *(option_list(options, presets, title) for options, presets, title in lists if fields(options))]


def option_list(options: type, presets: Mapping[str, Mapping[str, object]], title: str) -> Group:
    """Every field of an options class: default, values, meaning, what presets change; fits narrow screens too."""
    lines: list[RenderableType] = [Text(f"{title}\n", "bold")]
    hints, notes = get_type_hints(options), option_notes(options)
    width = max(len(option.name) for option in fields(options)) + 2
    for option in fields(options):
        first = Text.assemble((option.name.ljust(width), "bold"), shown(option.default),
                              (f"   {values_of(hints[option.name])}", "dim"))
        changes = [f"{name}: {shown(preset[option.name])}" for name, preset in presets.items() if option.name in preset]
        more = "; ".join(part for part in (notes.get(option.name, ""), ", ".join(changes)) if part)
        lines += [first, Padding(Text(more), (0, 0, 0, width))] if more else [first]
    return Group(*lines, Text())


def option_notes(options: type) -> dict[str, str]:
    """What the source says beside each field: the one place where it is written down."""
    of = {option.name: option.metadata["of"] for option in fields(options) if "of" in option.metadata}
    if of:  # made of other classes' fields, which have the source
        return {name: option_notes(origin).get(there, "") for name, (origin, there) in of.items()}
    notes: dict[str, str] = {}
    for kind in options.__mro__[-2::-1]:
        notes |= dict(NOTE.findall(getsource(kind)))
    return notes


def values_of(hint: object) -> str:
    if get_origin(hint) is Literal:
        return " | ".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return "words, by commas"
    names = {bool: "true | false", int: "whole number", float: "number", str: "text", type(None): "none"}
    return " | ".join(names[part] for part in get_args(hint) or (hint,) if isinstance(part, type))


def shown(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "-"
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def show_error(message: str) -> None:
    """An error meant for the user, without a stack trace."""
    shown_message = message.translate({**SHOWN, 0x0A: "\n"})
    Console(stderr=True).print(Text.assemble(("error: ", "bold red"), (shown_message, "red")), soft_wrap=True)


def show_note(message: str) -> None:
    """What a user should know of the answers and what must not be among them."""
    Console(stderr=True).print(Text(f"note: {message.translate(SHOWN)}", "yellow"), soft_wrap=True)
