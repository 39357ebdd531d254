# SPDX-License-Identifier: Apache-2.0
"""What was proved about the answer to one text, as a line of JSON; and what follows for all texts together."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from itertools import accumulate
from pathlib import Path
from statistics import median_low
from typing import Literal, NamedTuple, get_args

from dualmask.errors import DataError
from dualmask.record_rules import COUNT, DURATION, STRING, TEXT, Rule, check, is_count, is_number
from dualmask.results import as_line, check_whole, frozen, read_records
from dualmask.text.columns import Text

KIND = "certificates"  # what the header of such a file says it holds
MOST_EDITS = 1000  # a radius may exceed the letters of its text, where words are inserted, but not this as well
End = Literal[
    "all tried",  # no choice of as many edits as were asked about changes the answer
    "flipped",  # one edit more does, for some choice
    "in sight",  # one edit more might not be hidden: nothing is claimed about it
    "passes",  # one edit more takes more passes than were allowed
]


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """One example. All but `seconds` depends only on example, classifier and settings, unless its noise is fresh."""

    index: int  # of the example in the data
    text: Text
    label: int
    predicted: int  # the class that the answer is, and that the certificate is about
    radius: int  # changes that can't alter the answer; -1: abstained, the votes prove nothing
    heuristic: int | None  # the same by the published heuristic, which is no guarantee; None: there is none
    share: float | None  # of votes for the class, a lower bound; None: nothing was drawn, the proof is exact
    selection: tuple[int, ...]  # votes for each class that chose the class
    estimation: tuple[int, ...]  # votes of other views, which the bound comes from
    length: int  # words of the text or, where tokens are certified, tokens
    passes: int  # views that the network was asked about
    seconds: float
    ended: End | None = None  # of a proof without votes: why it is about no more edits

    @property
    def settled(self) -> bool:
        return True

    @property
    def abstained(self) -> bool:
        return self.radius < 0

    def as_json(self) -> str:
        return as_line({f.name: getattr(self, f.name) for f in FIELDS if getattr(self, f.name) != f.default})

    @classmethod
    def from_json(cls, record: Mapping[str, object]) -> "Certificate":
        check_whole(record, REQUIRED)
        check(record, FITS, "record")
        found = cls(**{name: frozen(value) if type(value) is list else value  # type: ignore[arg-type]
                       for name, value in record.items() if name in NAMES})
        check_proof(found)
        return found


def check_proof(found: Certificate) -> None:
    """DataError where a radius can't follow from the text and the votes that are there."""
    most = max(MOST_EDITS, len(found.text) if isinstance(found.text, str) else sum(map(len, found.text)))
    if max(found.radius, found.heuristic or 0) > most:
        raise DataError(f"the record has a radius of {max(found.radius, found.heuristic or 0)}; expected {most} at "
                        "most, as for any text of its length.")
    if found.share is None:
        return
    if found.share <= 0.5 and not found.abstained:
        raise DataError(f"the record has a radius of {found.radius} from a vote share of {found.share}, which "
                        "proves nothing.")
    votes = found.estimation[found.predicted] if found.predicted < len(found.estimation) else 0
    if found.share * sum(found.estimation) > votes:
        raise DataError(f"the record has a vote share of {found.share} for a class with {votes} of "
                        f"{sum(found.estimation)} votes; expected a bound below that share.")


FIELDS = fields(Certificate)
NAMES = frozenset(f.name for f in FIELDS)
REQUIRED = frozenset(f.name for f in FIELDS if f.default is MISSING)
RADIUS = Rule(lambda value: type(value) is int and value >= -1, "a whole number from -1 on")
VOTES = Rule(lambda value: type(value) is list and all(map(is_count, value)), "a list of whole numbers from 0 on")
PART = Rule(lambda value: is_number(value, 0, 1), "a number from 0 to 1")
FITS: Mapping[str, Rule] = {
    **dict.fromkeys(("index", "label", "predicted", "length", "passes"), COUNT), "text": TEXT, "radius": RADIUS,
    "heuristic": RADIUS.or_none(), "share": PART.or_none(), **dict.fromkeys(("selection", "estimation"), VOTES),
    "seconds": DURATION,
    "ended": Rule(lambda value: value in (None, *get_args(End)), f"one of {', '.join(get_args(End))}, or null"),
}
HEADER_FITS: Mapping[str, Rule] = {
    **dict.fromkeys(("certificate", "method"), STRING), "alpha": PART.or_none(),
    **dict.fromkeys(("selection", "most_changes"), COUNT.or_none()),
}


class Certified(NamedTuple):
    """A file of certificates, read."""

    header: Mapping[str, object]
    records: list[Certificate]


def read_certificates(path: Path) -> Certified:
    """DataError names the file and what is wrong with it."""
    header, records = read_records(path, Certificate)
    if header.get("kind") != KIND:
        raise DataError(f"{path} holds no certificates; make some with 'dualmask certify MODEL DATA --out {path}'.")
    try:
        check(header, HEADER_FITS, "header")
    except DataError as error:
        raise DataError(f"{path}, line 1: {error}") from None
    return Certified(header, records)


@dataclass(frozen=True)
class Summary:
    """All texts together; every share is of all of them, wrong ones and abstentions included."""

    texts: int
    right: int  # the class that was chosen is the label: clean accuracy of the smoothed classifier
    abstained: int
    median: int  # a radius that at least half of all texts reach; wrong and abstained ones count as -1
    certified: tuple[int, ...]  # right and certified at 0, 1, 2, ... changes
    heuristic: tuple[int, ...]  # the same by the published heuristic; empty: there is none
    seconds: float  # mean for a text
    passes: float


def summarise(records: Sequence[Certificate]) -> Summary:
    if not records:
        raise DataError("nothing was certified: there are no records.")
    proved = [one.radius if one.label == one.predicted else -1 for one in records]
    guessed = [one.heuristic if one.label == one.predicted else -1 for one in records if one.heuristic is not None]
    most = max(*proved, *guessed, 0)
    return Summary(
        len(records), sum(one.label == one.predicted for one in records), sum(one.abstained for one in records),
        median_low(proved), curve(proved, most), curve(guessed, most) if guessed else (),
        sum(one.seconds for one in records) / len(records), sum(one.passes for one in records) / len(records))


def curve(radii: Sequence[int], most: int) -> tuple[int, ...]:
    """How many reach 0, 1, 2, ... changes."""
    exactly = Counter(radii)
    return tuple(accumulate(exactly[changes] for changes in range(most, -1, -1)))[::-1]
