# SPDX-License-Identifier: Apache-2.0
"""Attacked texts worth a look: which to show, and how, with what was changed, and what the defence hid or read."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from typing import NamedTuple

from dualmask.reporting.axes import shown
from dualmask.reporting.deeds import deed_sentence
from dualmask.reporting.entries import PLAIN, Entry, Key, label_names
from dualmask.reporting.report_tables import mode_name
from dualmask.results import HELD, AttackResult, Spans
from dualmask.text.columns import Text
from dualmask.text.differences import SHOWN, Span, differences, foreign, joined

LONGEST = 700  # characters of a text that are shown
BEFORE_CHANGE = 120  # characters kept before the first change where a text's beginning is left out
OUTCOMES = {"succeeded": "fooled", "skipped": "wrong from the start"}  # all else held


class Distrusted(NamedTuple):
    """A place that the defence hid from the network, or showed it as another word."""

    start: int
    end: int
    read: str | None = None


class Side(NamedTuple):
    """One defence's part of a specimen."""

    key: Key
    seed: int
    labels: Sequence[str]
    result: AttackResult
    defends: bool  # the plain classifier does nothing that could be told


class Specimen(NamedTuple):
    """One text under one attack, before one defence or several."""

    why: str
    sides: Sequence[Side]


def specimens(entries: Sequence[Entry], *, most: int) -> list[Specimen]:
    """The most telling ones of a table: disagreements first, then cheap successes and dear failures of attacks."""
    by_attack: dict[str, list[Entry]] = {}
    for one in entries:
        by_attack.setdefault(one.key.attack, []).append(one)
    kinds = [candidates(group, place) for place, group in enumerate(by_attack.values())]
    chosen: list[Specimen] = []
    seen: set[tuple[Key, int]] = set()
    while kinds and len(chosen) < most:  # in turn, so that every attack is there
        for kind in list(kinds):
            found = next((one for one in kind if not seen & marks(one)), None)
            if found is None:
                kinds.remove(kind)
            elif len(chosen) < most:
                chosen.append(found)
                seen |= marks(found)
    return chosen


def marks(specimen: Specimen) -> set[tuple[Key, int]]:
    return {(side.key, side.result.index) for side in specimen.sides}


def candidates(group: Sequence[Entry], place: int) -> Iterator[Specimen]:
    """Of one attack: first one of each kind, then the next; attacks begin with different defences."""
    ordered = sorted(group, key=lambda one: (one.method != PLAIN, one.key.defence != PLAIN, one.key.defence))
    first = place % max(1, len(ordered) - 1) + 1
    sides = [first_run(entry) for entry in (*ordered[:1], *ordered[first:], *ordered[1:first])]
    kinds = [disagreements(sides), *(iter(cheap(side)) for side in sides), *(iter(dear(side)) for side in sides)]
    while kinds:
        for kind in list(kinds):
            found = next(kind, None)
            if found is None:
                kinds.remove(kind)
            else:
                yield found


def first_run(entry: Entry) -> dict[int, Side]:
    """By text, those of the lowest seed that were changed."""
    run = entry.runs[0]
    labels = label_names(run.records.header)
    return {one.index: Side(entry.key, run.seed, labels, one, entry.method != PLAIN) for one in run.records.results
            if one.adversarial is not None and not run.records.packed}


def disagreements(sides: Sequence[Mapping[int, Side]]) -> Iterator[Specimen]:
    """Texts on which the first row fell and another held, or the other way round, by turns."""
    pairs = [(sides[0], other) for other in sides[1:]]
    split: dict[str, list[Specimen]] = {}
    for one, other in pairs:
        for index in sorted(one.keys() & other.keys(), key=lambda index: one[index].result.changed):
            both = one[index], other[index]
            if one[index].result.text == other[index].result.text:
                fell = [side.key.defence for side in both if side.result.outcome == "succeeded"]
                stood = [side.key.defence for side in both if side.result.outcome in HELD]
                if fell and stood:
                    why = f"{stood[0]} held where {fell[0]} was fooled"
                    split.setdefault(why, []).append(Specimen(why, both))
    for round_ in range(max(map(len, split.values()), default=0)):
        yield from (found[round_] for found in split.values() if round_ < len(found))


def cheap(side: Mapping[int, Side]) -> list[Specimen]:
    won = [one for one in side.values() if one.result.outcome == "succeeded"]
    return [Specimen(f"{one.key.defence} was fooled by few changes", [one])
            for one in sorted(won, key=lambda one: (one.result.changed, one.result.queries))]


def dear(side: Mapping[int, Side]) -> list[Specimen]:
    stood = [one for one in side.values() if one.result.outcome in HELD]
    return [Specimen(f"{one.key.defence} held against many {'queries' if one.result.queries else 'changes'}", [one])
            for one in sorted(stood, key=lambda one: (-one.result.queries, -one.result.changed))]


def card(specimen: Specimen) -> str:
    first = specimen.sides[0]
    truth = named(first.result.label, first.labels)
    head = (f"<header><h4>{shown(specimen.why)}</h4><p>text {first.result.index:,} under {shown(first.key.attack)}, "
            f"{shown(mode_name(specimen.sides[-1].key))}; its class is <b>{shown(truth)}</b></p></header>")
    return (f'<article class="specimen">{head}<div class="sides">'
            f'{"".join(side_card(side, truth) for side in specimen.sides)}</div></article>\n')


def side_card(side: Side, truth: str) -> str:
    result = side.result
    came = OUTCOMES.get(result.outcome, "held")
    facts = [f"{result.changed} of {result.words} words changed"]
    if result.queries:
        facts.append(f"{result.queries:,} queries")
    if result.similarity is not None:
        facts.append(f"similarity {result.similarity:.2f}")
    if result.draws:
        facts.append(f"wrong in {result.wrong_draws} of {result.draws} draws of new noise")
    if side.seed:
        facts.append(f"seed {side.seed}")
    before, after = marked_pair(result)
    deed = deed_sentence(result) if side.defends else ""
    told = f'<p class="deed">{shown(deed)}</p>' if deed else ""
    answers = (named(result.clean, side.labels), named(result.predicted, side.labels))
    return (f'<section class="side {"fell" if came == "fooled" else "stood"}"><h5>{shown(side.key.defence)} '
            f'<span class="outcome">{came}</span></h5>{told}'
            f'<div class="words"><h6>original {answer(answers[0], result.probability, truth)}</h6>{before}</div>'
            f'<div class="words"><h6>attacked {answer(answers[1], result.probability_after, truth)}</h6>{after}</div>'
            f'<p class="facts">{shown(", ".join(facts))}{hidden_note(result)}</p></section>')


def named(label: int | None, labels: Sequence[str]) -> str:
    if label is None:
        return "no answer"
    return labels[label] if 0 <= label < len(labels) else f"class {label}"


def answer(label: str, probability: float | None, truth: str) -> str:
    """What the classifier said, and a bar for what it gave the true class."""
    if probability is None:
        return f'<span class="answer">→ {shown(label)}</span>'
    share = min(1.0, max(0.0, probability))
    return (f'<span class="answer">→ {shown(label)}</span><span class="meter"><i style="width:{100 * share:.1f}%"></i>'
            f'</span><span class="share">{shown(truth)} {100 * share:.0f} %</span>')


def hidden_note(result: AttackResult) -> str:
    """How many places the defence hid, and how many it read otherwise, before and after."""
    found = [[one.read for part in (0, 1) for one in of_part(spans, part)]
             for spans in (result.hidden, result.hidden_after)]
    masks = [places.count(None) for places in found]
    words = [len(places) - count for places, count in zip(found, masks, strict=True)]
    told = ("hidden places", *masks), ("read otherwise", *words)
    return "".join(f"; {what}: {before} before, {after} after" for what, before, after in told if before or after)


def marked_pair(result: AttackResult) -> tuple[str, str]:
    """The original and the attacked text as paragraphs, two of each for pairs of texts."""
    old, new = parts(result.text), parts(result.adversarial or result.text)
    before, after = [], []
    for part, (one, other) in enumerate(zip(old, new, strict=False)):
        gone, come = differences(one, other)
        before.append(paragraph(one, gone, of_part(result.hidden, part), known=one, kind="old"))
        after.append(paragraph(other, come, of_part(result.hidden_after, part), known=one, kind="new"))
    return "".join(before), "".join(after)


def parts(text: Text) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text)


def of_part(spans: Spans | None, part: int) -> list[Distrusted]:
    here = [one for one in spans or () if one[2] == part]
    masks = joined(one[:2] for one in here if len(one) == 3)
    words = [Distrusted(*one[:2], one[3]) for one in here if len(one) == 4]
    return sorted([*starmap(Distrusted, masks), *words], key=lambda one: one[:2])


def paragraph(text: str, changed: Sequence[Span], hidden: Sequence[Distrusted], *, known: str, kind: str) -> str:
    """A text with its marks; of a long one the part around the first change."""
    start = 0
    if len(text) > LONGEST and changed and changed[0][1] > LONGEST:
        start = max(0, changed[0][0] - BEFORE_CHANGE)
    end = min(len(text), start + LONGEST)
    pieces, done = [], start
    for first, last in clipped(changed, start, end):
        pieces.append(struck(text, (done, first), hidden, known=known))
        pieces.append(f'<mark class="{kind}">{struck(text, (first, last), hidden, known=known)}</mark>')
        done = last
    pieces.append(struck(text, (done, end), hidden, known=known))
    head = f'<i class="cut">({start:,} characters before) … </i>' if start else ""
    tail = f'<i class="cut"> … ({len(text) - end:,} more characters)</i>' if end < len(text) else ""
    return f'<p dir="auto">{head}{"".join(pieces)}{tail}</p>'


def struck(text: str, span: Span, hidden: Sequence[Distrusted], *, known: str) -> str:
    """A stretch of text with what was hidden of it struck out, and what was read instead beside it."""
    pieces, done = [], span[0]
    for one in hidden:
        for first, last in clipped([one[:2]], done, span[1]):
            word = revealed(text[first:last], known)
            ends = f"<ins>{shown(one.read)}</ins>" if one.read is not None and last == one.end else ""
            pieces += [revealed(text[done:first], known), f"<del>{word}</del>" if one.read is None else word + ends]
            done = last
    return "".join([*pieces, revealed(text[done:span[1]], known)])


def clipped(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    """Spans as far as they lie between two places."""
    inside = ((max(first, start), min(last, end)) for first, last in spans)
    return [(first, last) for first, last in inside if first < last]


def revealed(text: str, known: str) -> str:
    """Letters that only look like others, or like nothing, with their numbers."""
    if text.isascii() and text.isprintable():
        return shown(text)
    return "".join(coded(letter) if foreign(letter, known) or is_control(letter) else shown(letter) for letter in text)


def is_control(letter: str) -> bool:
    return ord(letter) in SHOWN and letter not in "\t\n\r"


def coded(letter: str) -> str:
    sign = shown(letter) if letter.isprintable() else ""
    return f'{sign}<span class="code">U+{ord(letter):04X}</span>'
