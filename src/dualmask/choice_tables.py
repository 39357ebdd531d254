# SPDX-License-Identifier: Apache-2.0
"""The table "which defence for me?" as rows of texts: for documents and for terminals."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dualmask.measured_figures import MeasuredRow, MeasuredShare, measured_rows
from dualmask.recommendations import ALL, WORST, Kept, Recommendation, Wanted, recommend

HEAD = ("threat", "recommended", "clean texts", "under attack", "data, texts x seeds", "price", "what beats it")
CAPTION = ("Percent of texts that are answered rightly, by the plain classifier -> by the defended one, when attacks "
           "ask it. Both figures are of the same attacked texts and training seeds unless numbers behind one say "
           "otherwise. Worst case: a text holds only if every attack failed on it. Price: time of training, in that "
           "of plain; passes and time of an answer.")
FEW: dict[str, tuple[str, ...]] = {  # what the short table shows of a threat
    "misspelling": ("deepwordbug", "textbugger"), "synonyms": ("textfooler", WORST),
    "both": ("deepwordbug", "textfooler", WORST), "any": ("deepwordbug", "textfooler", WORST)}
SYNONYM_ATTACK = "textfooler"
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
    """With few attacks, none where something else was asked for, and of those that beat it the hardest alone."""
    few = FEW[found.against] if found.wanted == "answers" else ()
    return replace(found, kept=tuple(one for one in found.kept if one.attack in few), beaten_by=found.beaten_by[:1])


def choice_row(question: Question, found: Recommendation) -> list[str]:
    return [question.threat, found.name + ("*" if found.row and found.row.changes else ""), clean_cell(found),
            "; ".join(kept_parts(found)) or NOT_MEASURED, basis_cell(found), price_cell(found), beaten_words(found)]


def clean_cell(found: Recommendation) -> str:
    """``76.2 -> 76.0 (400 x 1)``: of texts that nobody changed, which are more than those that were attacked."""
    clean = found.clean
    if clean is None:
        return NOT_MEASURED
    shares = shares_of(found)
    own = clean.same_texts and bool(shares) and clean.defended.basis != " x ".join(numbers_of(shares))
    return kept_figures(clean) + (f" ({clean.defended.basis})" if own else "")


def kept_parts(found: Recommendation) -> Iterator[str]:
    """Of detectors and certificates first what they are for, then texts under attack."""
    row = found.row
    if row is None:
        return
    if row.certificate:
        proved = row.certificate.certified
        yield (f"right and proved: {proved[1]:.1f} against any one word, {proved[2]:.1f} against two "
               f"({row.certificate.texts} texts)")
    if found.wanted == "detection" and row.flagged:
        least, most = (bound(one.percent for one in row.flagged.values()) for bound in (min, max))
        alarms = f", {row.false_alarms.percent:.1f} of clean ones" if row.false_alarms else ""
        yield f"flags {least:.1f} to {most:.1f} of 100 adversarial texts{alarms}"
    yield from map(kept_words, found.kept)


def kept_words(one: Kept) -> str:
    """``deepwordbug 16.5 -> 77.1``."""
    return f"{one.attack} {kept_figures(one)}" + (" (within chance)" if one.within_chance else "")


def kept_figures(one: Kept) -> str:
    """``16.5 -> 77.1``, each with its texts and seeds where these are not the same."""
    shares = [one.plain, one.defended] if one.plain else [one.defended]
    return " -> ".join(share.shown(basis=not one.same_texts) for share in shares)


def basis_cell(found: Recommendation) -> str:
    """``mr, 500 x 3``: behind the attacks."""
    row = found.row
    shares = shares_of(found)
    return f"{row.data}, {' x '.join(numbers_of(shares))}" if row and shares else NOT_MEASURED


def shares_of(found: Recommendation) -> list[MeasuredShare]:
    """Those under attacks, or of detectors what they flag."""
    row = found.row
    if row is None:
        return []
    return [one.defended for one in found.kept] or list((row.flagged or row.attacks).values())


def numbers_of(shares: Iterable[MeasuredShare]) -> tuple[str, str]:
    """Texts and seeds, as a span where they differ."""
    texts, seeds = (counted(numbers) for numbers in zip(*((one.texts, one.seeds) for one in shares), strict=True))
    return texts, seeds


def basis_words(row: MeasuredRow, shares: Iterable[MeasuredShare]) -> str:
    """On which texts, and of which options where they are not the preset's."""
    texts, seeds = numbers_of(shares)
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
    """``1 pass, 13.7 x plain's time``; by the preset as it would be trained, and what was measured where that is
    another number of passes."""
    row = found.row
    if row is None:
        return NOT_MEASURED
    times = f"{row.answer_times:.1f} x plain's time" if row.answer_times else ""
    if found.votes:
        return f"{passes_words(found.votes)} (measured with {row.passes}{': ' if times else ''}{times})"
    return ", ".join(filter(None, [passes_words(row.passes), times])) or NOT_MEASURED


def passes_words(passes: str) -> str:
    return f"{passes} pass{'' if passes == '1' else 'es'}" if passes else ""


def price_cell(found: Recommendation) -> str:
    return f"training {training_price(found)}; {answer_price(found)}"


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


def footnotes(rows: Sequence[MeasuredRow] | None = None, *, short: bool = False) -> list[str]:
    """Which networks the table is of, and which rows were measured with other options than the preset's."""
    known = measured_rows() if rows is None else rows
    found = [question.answer(known) for question in QUESTIONS if question.short or not short]
    used = [(one.row.trained, one.row.encoder) for one in found if one.row]
    encoders = {kind: ", ".join(dict.fromkeys(encoder for trained, encoder in used if trained is kind))
                for kind in (True, False)}
    told = [*([f"trained ones with the encoder {encoders[True]}"] if encoders[True] else []),
            *([f"those that stay as they are with {encoders[False]}"] if encoders[False] else [])]
    changed = dict.fromkeys(f"{one.name} as {one.row.name}" for one in found if one.row and one.row.changes)
    return [*([f"Networks: {', '.join(told)}."] if told else []),
            *([f"\\* measured with other options: {', '.join(changed)}."] if changed else [])]


def limits_text(rows: Sequence[MeasuredRow] | None = None) -> str:
    """What nothing here stops, in two sentences: what TextFooler leaves around a network that stays as it is, and of
    the best that was trained."""
    known = measured_rows() if rows is None else rows
    (around,), (trained,) = (recommend("any", train=way, rows=known) for way in (False, True))
    if trained.row is None or trained.row.worst is None:
        return "Nothing was measured yet."
    return f"{around_sentence(around)} {trained_sentence(trained.row, trained.row.worst)}"


def around_sentence(found: Recommendation) -> str:
    """Of a network that stays as it is."""
    first = "An attacker who writes synonyms still wins often"
    left = found.row.attacks.get(SYNONYM_ATTACK) if found.row else None
    if found.row is None or left is None:
        return f"{first}; what is left around a network that stays as it is was {NOT_MEASURED}."
    bare = left.of_plain(None)
    beside = f", where the bare network keeps {bare.shown()}" if bare else ""
    return (f"{first}: around a network that stays as it is (data {found.row.data}) `{found.row.name}` keeps "
            f"{left.shown(basis=True)} percent under TextFooler{beside}.")


def trained_sentence(row: MeasuredRow, worst: MeasuredShare) -> str:
    """Of the best that was trained."""
    left = row.attacks.get(SYNONYM_ATTACK)
    under = f"{left.shown()} percent under TextFooler, " if left else ""
    every = (f", and {row.every.shown(basis=True)} where attacks count that know it or see more of it" if row.every
             else "")
    return (f"Of those that were trained (data {row.data}) the best, `{row.name}`, keeps {under}"
            f"{worst.shown(basis=True)} percent where an attacker may try several attacks{every}.")
