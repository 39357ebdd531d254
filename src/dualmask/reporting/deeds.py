# SPDX-License-Identifier: Apache-2.0
"""What a defence did with an attacked text, in a sentence: which changed words it read otherwise, which it hid."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dualmask.results import AttackResult, Spans
from dualmask.text.columns import Text
from dualmask.text.differences import word_changes
from dualmask.text.words import Words

MOST = 3  # words that are named
LONGEST = 30  # characters of a word that are shown
Place = tuple[int, int, int] | tuple[int, int, int, str]


class Deed(NamedTuple):
    """One word that the attack changed."""

    written: str  # by the attack
    before: str  # what stood there; empty where the attack added a word
    read: str | None = None  # what the network was shown instead
    hidden: bool = False

    @property
    def undone(self) -> bool:
        return self.read is not None and self.read.casefold() == self.before.casefold()


def deed_sentence(result: AttackResult) -> str:
    """What is said first of an attacked text; empty where nothing was changed or records do not tell what was read."""
    if result.adversarial is None or result.hidden_after is None:
        return ""
    deeds = list(deeds_of(result.text, result.adversarial, result.hidden_after))
    if not deeds:
        return ""
    read = [f"'{short(one.written)}' as '{short(one.read)}'" for one in deeds if one.read is not None]
    hid = [f"'{short(one.written)}'" for one in deeds if one.hidden]
    told = [f"{verb} {listed(words)}" for verb, words in (("read", read), ("hid", hid)) if words]
    if not told:
        return f"The defence left {'the one change' if len(deeds) == 1 else f'all {len(deeds)} changes'} as written."
    undone = sum(one.undone for one in deeds)
    return f"The defence {' and '.join(told)}; {undone} of {len(deeds)} change{'s' if len(deeds) > 1 else ''} undone."


def deeds_of(text: Text, adversarial: Text, spans: Spans) -> Iterator[Deed]:
    """Each word of the attacked text that differs from the text before; words that were read as one are one."""
    for part, (old, new) in enumerate(zip(parts(text), parts(adversarial), strict=False)):
        before, after = Words(old), Words(new)
        here = [one for one in spans if one[2] == part]
        for gone, come in word_changes(list(before.words), list(after.words)):
            done = 0  # characters that were told of
            for place, number in enumerate(come):
                start, end = after.spans[number]
                former = before.words[gone.start + place] if place < len(gone) else ""
                if start >= done:
                    found = deed_at(new, (start, end), former, here)
                    yield found.deed
                    done = max(end, found.end)


class Found(NamedTuple):
    deed: Deed
    end: int  # of what was read as one word


def deed_at(text: str, place: tuple[int, int], before: str, spans: Sequence[Place]) -> Found:
    """What became of the word at a place; of several spans on it a word that was read goes before masks."""
    start, end = place
    here = [one for one in spans if one[0] < end and start < one[1]]
    for one in here:
        if len(one) == 4:
            return Found(Deed(text[min(start, one[0]):max(end, one[1])], before, one[3]), one[1])
    return Found(Deed(text[start:end], before, hidden=bool(here)), end)


def parts(text: Text) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text)


def short(word: str | None) -> str:
    word = word or "nothing"
    return word if len(word) <= LONGEST else word[:LONGEST - 1] + "…"


def listed(words: Sequence[str]) -> str:
    more = f" and {len(words) - MOST} more" if len(words) > MOST else ""
    return ", ".join(words[:MOST]) + more
