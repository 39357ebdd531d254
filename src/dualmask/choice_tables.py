# SPDX-License-Identifier: Apache-2.0
"""The table "which defence for me?" as rows of texts: for documents and for terminals."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dualmask.measured_figures import MeasuredRow, MeasuredShare, measured_rows
from dualmask.recommendations import ALL, WORST, Kept, Recommendation, Wanted, recommend

HEAD = ("threat", "recommended", "what it keeps: plain -> defended", "price in training", "price in answers",
        "what beats it")
CAPTION = ("Percent of texts that are answered rightly, by the plain classifier -> by the defended one, when attacks "
           "ask it; (n x s): texts and training seeds. Worst case: a text holds only if every attack failed on it.")
FEW = ("deepwordbug", "textfooler", WORST)  # of misspelling, of synonyms, and of all
NOT_MEASURED = "not measured"
DOUBTS = "What speaks against comparing these figures as they stand ([results](../results/README.md) has each in full):"


@dataclass(frozen=True)
class Question:
    """A row of the table: how it is told, and what is asked for."""

    threat: str
    against: str
    train: bool
    one_pass: bool = False
    guarantee: bool = False
    detect: bool = False
    short: bool = True  # whether the short table has it

    def answer(self, rows: Sequence[MeasuredRow]) -> Recommendation:
        return recommend(self.against, train=self.train, one_pass=self.one_pass, guarantee=self.guarantee,
                         detect=self.detect, rows=rows)[0]


QUESTIONS = (
    Question("misspelling, the network stays as it is", "misspelling", False),
    Question("misspelling, I can train", "misspelling", True),
    Question("synonyms or both, the network stays as it is", "any", False),
    Question("synonyms or both, in one pass, the network stays as it is", "any", False, one_pass=True, short=False),
    Question("synonyms or both, I can train", "any", True),
    Question("synonyms or both, in one pass, I can train", "any", True, one_pass=True, short=False),
    Question("a guarantee, whatever words are replaced", "any", True, guarantee=True),
    Question("a guarantee against synonyms", "synonyms", True, guarantee=True, short=False),
    Question("flag such texts, I can train", "any", True, detect=True),
    Question("flag such texts, the network stays as it is", "any", False, detect=True, short=False),
)


def choice_rows(rows: Sequence[MeasuredRow] | None = None, *, short: bool = False) -> list[list[str]]:
    """The whole table, or the few rows that a front page has room for; names in the first row."""
    known = measured_rows() if rows is None else rows
    answers = [(question, question.answer(known)) for question in QUESTIONS if question.short or not short]
    return [list(HEAD), *(choice_row(question, in_short(found) if short else found) for question, found in answers)]


def in_short(found: Recommendation) -> Recommendation:
    """With one attack of each kind, and of those that beat it the hardest alone."""
    return replace(found, kept=tuple(one for one in found.kept if one.attack in FEW), beaten_by=found.beaten_by[:1])


def choice_row(question: Question, found: Recommendation) -> list[str]:
    return [question.threat, found.name, "; ".join(kept_parts(found)) or NOT_MEASURED, training_price(found),
            answer_price(found), beaten_words(found)]


def kept_parts(found: Recommendation) -> Iterator[str]:
    """Clean texts, then texts under attack; of detectors and certificates first what they are for."""
    row = found.row
    if row is None:
        return
    if row.certificate:
        proved = row.certificate.certified
        yield (f"{proved[1]:.1f} of 100 are right and proved against any one word, {proved[2]:.1f} against two "
               f"({row.certificate.texts} texts)")
    if found.wanted == "detection" and row.flagged:
        least, most = (bound(one.percent for one in row.flagged.values()) for bound in (min, max))
        alarms = f", {row.false_alarms.percent:.1f} of clean ones" if row.false_alarms else ""
        yield f"flags {least:.1f} to {most:.1f} of 100 adversarial texts{alarms}"
    if row.clean and found.plain and found.plain.clean:
        yield f"clean {found.plain.clean.shown()} -> {row.clean.shown()}"
    yield from map(kept_words, found.kept)
    if shares := [*(one.defended for one in found.kept), *row.flagged.values()]:
        yield basis_words(row, shares)


def kept_words(one: Kept) -> str:
    """``deepwordbug 16.5 -> 77.1``."""
    beside = f"{one.plain.shown()} -> " if one.plain else ""
    return f"{one.attack} {beside}{one.defended.shown()}" + (" (within chance)" if one.within_chance else "")


def basis_words(row: MeasuredRow, shares: Iterable[MeasuredShare]) -> str:
    """On which texts, and of which options where they are not the preset's."""
    texts, seeds = (counted(numbers) for numbers in zip(*((one.texts, one.seeds) for one in shares), strict=True))
    changed = f", measured as {row.name}" if row.changes else ""
    return f"{texts} texts x {seeds} seed{'' if seeds == '1' else 's'} of {row.data}, {row.encoder}{changed}"


def counted(numbers: Sequence[int]) -> str:
    """``174 to 178``, or the one number that all are."""
    return " to ".join(map(str, dict.fromkeys((min(numbers), max(numbers)))))


def training_price(found: Recommendation) -> str:
    if not found.train:
        return "none"
    times = found.row.training_times if found.row else None
    return NOT_MEASURED if times is None else f"{times:.2f} x plain"


def answer_price(found: Recommendation) -> str:
    row = found.row
    if row is None:
        return NOT_MEASURED
    passes = f"{row.passes} {'pass' if row.passes == '1' else 'passes'}" if row.passes else ""
    times = f"{row.answer_times:.1f} x plain's time" if row.answer_times else ""
    return ", ".join(filter(None, [passes, times])) or NOT_MEASURED


def beaten_words(found: Recommendation) -> str:
    """``misprint, which knows the defence, leaves 1.5 (200 x 1)``, the hardest first; of detectors what is flagged."""
    return "; ".join(beater_words(found.wanted, attack, share) for attack, share in found.beaten_by) or NOT_MEASURED


def beater_words(wanted: Wanted, attack: str, share: MeasuredShare) -> str:
    left = share.shown(basis=True)
    if wanted == "detection":
        return f"{attack}, of whose texts {left} are flagged"
    return f"{attack}{', leaves' if ', ' in attack else ' leave' if attack == ALL else ' leaves'} {left}"


def doubt_lines(rows: Sequence[MeasuredRow] | None = None) -> list[str]:
    """What speaks against the figures of each recommended row, once."""
    known = measured_rows() if rows is None else rows
    found: dict[str, None] = {}
    for row in (question.answer(known).row for question in QUESTIONS):
        if row and row.doubts:
            found[f"{row.name}, {row.data}: {'; '.join(row.doubts)}"] = None
    return list(found)


def limits_text(rows: Sequence[MeasuredRow] | None = None) -> str:
    """What nothing here stops, in two sentences: the best that was measured in the worst case, and what is left of it
    when attacks count that know it."""
    found, = recommend("any", train=True, rows=measured_rows() if rows is None else rows)
    row = found.row
    if row is None or row.worst is None:
        return "Nothing was measured yet."
    every = (f", and {row.every.shown(basis=True)} where attacks count that know it or see more of it" if row.every
             else "")
    return (f"A patient attacker who writes synonyms and may try several attacks still wins: of the data {row.data} "
            f"the best that was measured, `{row.name}`, keeps {row.worst.shown(basis=True)} percent{every}. A defence "
            "makes a classifier harder to fool, and notices nothing that the network itself does not.")
