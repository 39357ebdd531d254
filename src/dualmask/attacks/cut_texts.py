# SPDX-License-Identifier: Apache-2.0
"""Whether texts under attack are read to their end: what is told of it in records."""

from dataclasses import replace

from dualmask.classifier import DefendedClassifier
from dualmask.results import AttackResult


def with_cut(victim: object, result: AttackResult) -> AttackResult:
    """The result with whether its texts are longer than what the victim reads; of others than ours nobody knows."""
    if not isinstance(victim, DefendedClassifier):
        return result
    changed = [] if result.adversarial is None else [result.adversarial]
    before, *after = victim.unread([result.text, *changed])
    return replace(result, cut=before, cut_after=after[0] if after else None)


def windows_told(victim: object) -> dict[str, object]:
    """What a header says of how long texts are read: nothing where they are cut, as in records of before."""
    if not isinstance(victim, DefendedClassifier) or victim.windows is None:
        return {}
    return {"windows": victim.windows.as_dict()}
