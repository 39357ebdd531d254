# SPDX-License-Identifier: Apache-2.0
"""Attacks in the terminal: what was changed, and what came of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from dualmask.display import LONGEST
from dualmask.evaluation.detection import detection
from dualmask.evaluation.metrics import robustness
from dualmask.evaluation.statistics import wilson
from dualmask.text.differences import SHOWN, Span, differences, foreign

if TYPE_CHECKING:
    from dualmask.results import AttackResult, Tally
    from dualmask.text.columns import Text as AnyText

BEFORE, AFTER = "white on blue", "white on red"


def difference(before: str, after: str, *, brackets: bool = False) -> tuple[Text, Text]:
    """Both texts, the words that differ on colour or, for screens without, in ⟦brackets⟧."""
    old, new = differences(before, after)
    return (painted(before, old, BEFORE, brackets=brackets, known=before),
            painted(after, new, AFTER, brackets=brackets, known=before))


def revealed(word: str, known: str) -> str:
    """Look-alikes that the other text does not have, with their numbers: nobody could tell them otherwise."""
    return "".join(f"{letter}\u2039U+{ord(letter):04X}\u203a" if foreign(letter, known) else letter
                   for letter in word)


def painted(text: str, runs: Sequence[Span], style: str, *, brackets: bool, known: str) -> Text:
    result, done = Text(), 0
    for start, stop in runs:
        if start > LONGEST:
            break
        result.append(text[done:start].translate(SHOWN))
        word = revealed(text[start:stop], known).translate(SHOWN)
        result.append(f"\u27e6{word}\u27e7" if brackets else word, style=style)
        done = stop
    result.append(text[done:max(done, LONGEST)].translate(SHOWN))
    if len(text) > max(done, LONGEST):
        result.append(f" \u2026 ({len(text) - max(done, LONGEST):,} more characters)", style="dim")
    return result


def one_string(text: "AnyText") -> str:
    return text if isinstance(text, str) else "\n".join(text)


def attacked_text(result: "AttackResult", labels: Sequence[str], *, brackets: bool) -> Group:
    """One example: its number, what the victim thought before and after, the two texts."""
    named = [labels[place] if place is not None and place < len(labels) else str(place)
             for place in (result.label, result.predicted)]
    sure = [f" {share:.0%}" if share is not None else "" for share in (result.probability, result.probability_after)]
    facts = f"{result.changed} of {result.words} words, {result.queries:,} queries"
    if result.similarity is not None:
        facts += f", similarity {result.similarity:.2f}"
    head = Text.assemble((f"#{result.index} {result.outcome}", "bold"),
                         f"  {named[0]}{sure[0]} \u2192 {named[1]} ({named[0]}{sure[1]})".translate(SHOWN),
                         f"  {facts}")
    before, after = difference(one_string(result.text), one_string(result.adversarial or result.text),
                               brackets=brackets)
    texts = Table.grid(padding=(0, 2))
    texts.add_column(no_wrap=True)
    texts.add_column(overflow="fold")
    texts.add_row("  before", before)
    texts.add_row("  after", after)
    return Group(head, texts, Text())


def tally_table(
    results: Sequence["AttackResult"], counts: "Tally", seconds: float, *, threshold: float | None = None,
    reads: str = "what the victim reads",
) -> Table:
    """Outcomes and costs; with a detector's threshold also how many texts it flagged. reads: how much of a text is."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for style in ("bold", "", ""):
        table.add_column(style=style, overflow="fold")
    shown_only = counts.queries == 0 and counts.attacked > 0  # texts that were made against another victim
    for name, count in counts.outcomes.items():
        if count or name in ("succeeded", "failed", "skipped"):
            reason = next((one.reason for one in results if one.outcome == name and one.reason), "")
            meaning = SHOWN_ONLY.get(name, MEANING[name]) if shown_only else MEANING[name]
            told = meaning + (f"; the first: {reason}" if reason else "")
            table.add_row(name, f"{count:,}", Text(told.translate(SHOWN)))  # a victim may have worded the reason
    found = robustness(results)
    whole = f"of the texts without a fault; {found.faults:,} left out" if found.faults else "of all texts"
    table.add_row("accuracy before", *share(found.right, found.texts, whole))
    table.add_row("accuracy under attack", *share(found.right - found.flipped, found.texts, whole))
    table.add_row("attack success", *share(found.flipped, found.right, "of those right before"))
    seen = detection(results, threshold)
    if threshold is not None and seen.clean:  # sequential runs have no scores
        alarms = portion(seen.false_alarms, seen.clean)
        table.add_row("flagged", portion(seen.detected, seen.adversarial),
                      f"of adversarial texts, successful or not; {alarms} of clean ones")
    cut_row(table, results, reads)
    if not shown_only:
        table.add_row("queries", f"{counts.queries:,.1f}",
                      f"a text attacked; the victim read {counts.rows:,.1f}, the last check included")
    if counts.gradients:
        table.add_row("gradients", f"{counts.gradients:,.1f}", "backward passes a text attacked")
    if counts.changed is not None:
        table.add_row("words changed", f"{counts.changed:.1%}", "in successes")
    if counts.similarity is not None:
        table.add_row("similarity", f"{counts.similarity:.3f}", "cosine of sentence vectors, in successes")
    table.add_row("time", f"{seconds:.1f} s", "")
    return table


def cut_row(table: Table, results: Sequence["AttackResult"], reads: str) -> None:
    """How many texts are not read to their end, where some are and it is known."""
    known = [one.cut for one in results if one.cut is not None]
    if any(known):
        table.add_row("cut", portion(sum(known), len(known)),
                      f"of all texts are longer than {reads}; what lies behind is not read")


MEANING = {
    "succeeded": "another label, asked twice", "failed": "the search found nothing",
    "skipped": "wrong before the attack", "out-of-queries": "the budget ended first",
    "out-of-time": "the time limit came first", "unconfirmed": "the victim did not repeat its answer",
    "victim-error": "no usable answer", "attack-error": "a fault of the attack itself",
}


SHOWN_ONLY = {"succeeded": "another label for the text that was shown", "failed": "the same label for it"}


def share(part: int, whole: int, meaning: str) -> tuple[str, str]:
    """A share, and what it is of, with its 95 % interval."""
    if not whole:
        return portion(part, whole), meaning
    low, high = wilson(part, whole)
    return portion(part, whole), f"{meaning}; 95 % interval {low:.0%} to {high:.0%}"


def portion(part: int, whole: int) -> str:
    return f"{part / whole:.1%} ({part:,}/{whole:,})" if whole else "-"


def show_results(console: Console, results: Sequence["AttackResult"], labels: Sequence[str], *, shown: int) -> None:
    """The first few texts that were changed, successes first."""
    brackets = console.color_system is None or console.no_color
    changed = [one for one in results if one.adversarial is not None]
    for result in sorted(changed, key=lambda one: one.outcome != "succeeded")[:shown]:
        console.print(attacked_text(result, labels, brackets=brackets), soft_wrap=False)
