# SPDX-License-Identifier: Apache-2.0
"""Signs in the records of one number that it is not what it seems."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dualmask.evaluation.records import SCORE_WORDS
from dualmask.reporting.entries import Entry, Key, Run, options_of
from dualmask.results import FAULTS, HELD, AttackResult

Severity = Literal["serious", "caution", "note"]
ASKING = ("adaptive", "defence-aware")  # modes in which an attack asks the classifier that is measured
HARDLY = 2  # queries: the clean text, and one more
WIDE = 0.05  # half an interval that says little

OF_SIZE = ("few texts", "one training seed")  # doubts that more of the same would end; told in one line


@dataclass(frozen=True)
class Finding:
    """One reason for doubt, in plain words with its figures."""

    name: str  # of the check, a few words
    severity: Severity
    text: str
    keys: tuple[Key, ...] = ()  # the entries it is about


Check = Callable[[Entry], Iterator[Finding]]


def named(key: Key) -> str:
    """A number in words."""
    scores = f" with {words}" if (words := SCORE_WORDS[key.scores]) else ""
    return f"{key.defence} under {key.attack} ({key.mode}, {key.data}, {key.encoder}){scores}"


def points(value: float) -> str:
    return f"{100 * value:.1f}"


def percent(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / whole:.0f} %)"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size_line(found: Sequence[Finding]) -> str:
    """What the doubts about size are told by where they are folded."""
    return f"{counted(len(found), 'doubt')} about size: {', '.join(dict.fromkeys(one.name for one in found))}"


def setting(run: Run, name: str) -> object:
    return run.records.header.get(name)


def options(run: Run) -> Mapping[str, object]:
    """The attack's."""
    return options_of(run.records.header)


def whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def attacked(entry: Entry) -> list[AttackResult]:
    return [one for one in entry.results if one.outcome == "succeeded" or one.outcome in HELD]


def won(entry: Entry) -> list[AttackResult]:
    return [one for one in entry.results if one.outcome == "succeeded"]


def contradictions(entry: Entry) -> Iterator[Finding]:
    """Outcomes that the labels beside them deny: then CLA, CAA and SUCC have different denominators."""
    wrong = [one for one in entry.results if one.outcome not in FAULTS and one.clean is not None
             and (one.outcome == "skipped") != (one.clean != one.label)]
    wrong += [one for one in won(entry) if one.predicted == one.label and not one.draws]  # new noise may overrule it
    if wrong:
        yield Finding("SUCC is not 1 - CAA/CLA", "serious",
                      f"{named(entry.key)}: {len(wrong)} records contradict themselves (first: text {wrong[0].index}, "
                      f"'{wrong[0].outcome}'), so clean accuracy and success were counted on different texts.",
                      (entry.key,))


def idle(entry: Entry) -> Iterator[Finding]:
    """An attack that hardly asked anything did not attack."""
    tried = attacked(entry)
    if entry.key.mode not in ASKING or not tried:
        return
    few = [one for one in tried if one.queries + one.gradients <= HARDLY and one.outcome != "succeeded"]
    if 2 * len(few) > len(tried):
        yield Finding("hardly any query", "serious",
                      f"{named(entry.key)}: on {percent(len(few), len(tried))} attacked texts the attack gave up after "
                      f"at most {HARDLY} queries. It was not allowed to start, or is broken; the figure says nothing.",
                      (entry.key,))
    elif 5 * len(few) > len(tried):
        yield Finding("hardly any query", "caution",
                      f"{named(entry.key)}: on {percent(len(few), len(tried))} attacked texts the attack gave up after "
                      f"at most {HARDLY} queries; its constraints left it nothing to try there.", (entry.key,))


def stopped(entry: Entry) -> Iterator[Finding]:
    """An attack whose budget ends before its search does has not been withstood."""
    tried = attacked(entry)
    short = [one for one in tried if one.outcome in ("out-of-queries", "out-of-time")]
    if 10 * len(short) > len(tried):
        yield Finding("stopped by the budget", "serious" if 2 * len(short) > len(tried) else "caution",
                      f"{named(entry.key)}: on {percent(len(short), len(tried))} attacked texts the budget of queries "
                      "or seconds ended the attack, not its search; with more it may find more.", (entry.key,))


def given_up(entry: Entry) -> Iterator[Finding]:
    """A search that ends at a mistake which the classifier does not repeat has not been withstood either."""
    tried = attacked(entry)
    ended = [one for one in tried if one.outcome == "unconfirmed"]
    settled = all(setting(run, "noise") != "fresh" for run in entry.runs)  # else new draws decide, and that is right
    if settled and 100 * len(ended) > len(tried):
        yield Finding("given up", "serious" if 100 * len(ended) > 3 * len(entry.results) else "caution",
                      f"{named(entry.key)}: on {percent(len(ended), len(tried))} attacked texts the search ended at an "
                      "answer, averaged over draws, that the classifier itself does not give. They count as held, "
                      "though more might have been found; let the attack see one draw (eot = 1).", (entry.key,))


def one_answer(entry: Entry) -> Iterator[Finding]:
    """A classifier that always gives the same label can't be flipped, and is of no use."""
    answers = Counter(one.clean for one in entry.results if one.clean is not None)
    if answers.total() >= 10 and len(answers) == 1 and len({one.label for one in entry.results}) > 1:
        worth = ("what attacks do to it says nothing of its defence" if won(entry)
                 else "that attacks fail on it is no robustness")
        yield Finding("always the same answer", "serious",
                      f"{named(entry.key)}: the classifier gave one and the same label to all {answers.total()} clean "
                      f"texts. It has learned nothing; {worth}.", (entry.key,))


def no_slope(entry: Entry) -> Iterator[Finding]:
    """Scores that never move guide no search."""
    withstood = [one for one in attacked(entry) if one.outcome != "succeeded" and one.queries > HARDLY
                 and one.probability is not None and one.probability_after is not None]
    still = [one for one in withstood if one.probability == one.probability_after]
    if entry.key.mode in ASKING and len(withstood) >= 20 and 3 * len(still) > len(withstood):
        yield Finding("scores do not move", "caution",
                      f"{named(entry.key)}: on {percent(len(still), len(withstood))} texts that held, the attack could "
                      "not move the true label's probability by 0.0001. Scores may be masked or the model "
                      "over-confident; look at scores of another temperature and at attacks that need none.",
                      (entry.key,))


def noise(entry: Entry) -> Iterator[Finding]:
    """A defence that draws must be asked more than once."""
    runs = [run for run in entry.runs if setting(run, "noise") in ("fresh", "text")]
    if not runs:
        return
    if any(not one.draws for one in won(entry)):
        yield Finding("not asked again", "serious",
                      f"{named(entry.key)}: the defence draws noise, and the texts that fooled it were not asked about "
                      "again with new noise; luck is counted as success or as robustness.", (entry.key,))
    else:
        yield from lucky(entry)
    blind = entry.key.mode in ASKING and entry.key.scores != "still"
    if blind and any(whole(setting(run, "eot")) <= 1 for run in runs):
        fresh = any(setting(run, "noise") == "fresh" for run in runs)
        yield Finding("one draw", "caution" if fresh else "note",
                      f"{named(entry.key)}: the defence draws noise and the attack saw one draw per question. "
                      + ("An attack" if fresh else "Of successes that outlive new draws (redrawn) one")
                      + " that averages over 10 or more (eot) may find more.", (entry.key,))


def lucky(entry: Entry) -> Iterator[Finding]:
    """Ever wrong, and wrong on most draws."""
    again = [one for one in attacked(entry) if one.draws]
    ever = sum(one.wrong_draws > 0 for one in again)
    mostly = sum(2 * one.wrong_draws > one.draws for one in again)
    if again and ever != mostly:
        yield Finding("luck", "note",
                      f"{named(entry.key)}: asked again with new noise about {len(again)} last texts, the defence was "
                      f"wrong at least once on {ever} and mostly wrong on {mostly}; {len(won(entry))} count as "
                      "successes.", (entry.key,))


def invalid(entry: Entry) -> Iterator[Finding]:
    """Adversarial texts that are the clean text, or no longer mean the same."""
    found = won(entry)
    if len(found) < 5:
        return
    same = sum(one.adversarial is None or one.adversarial == one.text for one in found)
    if 20 * same > len(found):
        yield Finding("unchanged texts", "serious",
                      f"{named(entry.key)}: {percent(same, len(found))} adversarial texts equal the clean text.",
                      (entry.key,))
    measured = [one.similarity for one in found if one.similarity is not None]
    far = sum(value < 0.5 for value in measured)
    if measured and 5 * far > len(measured):
        yield Finding("meaning lost", "caution",
                      f"{named(entry.key)}: {percent(far, len(measured))} adversarial texts have a sentence similarity "
                      "under 0.5 with the clean text; many may have changed their meaning, so the accuracy is too low.",
                      (entry.key,))
    if entry.changed is not None and entry.changed > 0.4:
        yield Finding("most words changed", "caution",
                      f"{named(entry.key)}: {points(entry.changed)} % of the words were changed on average over "
                      f"{len(found)} successes; people may not read the same text.", (entry.key,))


def short_texts(entry: Entry) -> Iterator[Finding]:
    """A check of the sentence's meaning that is off for most texts."""
    windows = [window(options(run)) for run in entry.runs]
    least = max((size for size in windows if size is not None), default=None)
    if least is None or not entry.results:
        return
    short = sum(one.words < least for one in entry.results)
    if 2 * short > len(entry.results):
        yield Finding("constraint off", "caution",
                      f"{named(entry.key)}: {percent(short, len(entry.results))} texts are shorter than the {least} "
                      "words from which the attack checks the sentence's meaning; on them it is not checked.",
                      (entry.key,))


def window(given: Mapping[str, object]) -> int | None:
    """From how many words on the attack compares sentences, where it leaves out shorter texts."""
    if given.get("overlaid"):
        return 15  # TextDefender's check, laid over every attack
    size = given.get("window")
    return size if given.get("similarity") is not None and given.get("skip_short") and isinstance(size, int) else None


def faults(entry: Entry) -> Iterator[Finding]:
    if entry.faults:
        broken = [one for one in entry.results if one.outcome in FAULTS]
        reason, times = Counter(one.reason or "no reason given" for one in broken).most_common(1)[0]
        yield Finding("faults", "serious" if 20 * entry.faults > len(entry.results) else "caution",
                      f"{named(entry.key)}: victim or attack broke down on {percent(entry.faults, len(entry.results))} "
                      f"texts, which are left out (most often, {times} times: {reason:.120}).", (entry.key,))


CHECKS: Sequence[Check] = (
    contradictions, one_answer, idle, stopped, given_up, no_slope, noise, invalid, short_texts, faults)
