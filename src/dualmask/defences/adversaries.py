# SPDX-License-Identifier: Apache-2.0
"""Adversarial texts for training: found by attacking the classifier as it is, or read from an earlier attack's records.

Attacks lie above defences, so they are imported where one begins.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from dualmask.errors import DataError, OptionError
from dualmask.results import FAULTS, read_results
from dualmask.system_errors import explain_os_error
from dualmask.text.examples import Example

if TYPE_CHECKING:
    from dualmask.models.victim import Classifier


class Adversaries:
    """Successes of one attack on training examples."""

    def __init__(self, attack: str, preset: str, options: Mapping[str, object], *, records: str) -> None:
        self.attack, self.preset, self.options, self.records = attack, preset, options, records
        self._recorded: dict[Example, list[Example]] = {}

    def fit(self, examples: Sequence[Example]) -> None:
        """Read the records, if adversaries come from there; those of texts outside the training part are left out."""
        if not self.records:
            return
        try:
            _, results = read_results(Path(self.records))
        except OSError as error:
            raise OptionError(f"{explain_os_error(error, 'read', self.records)} Give records=FILE that "
                              "'dualmask attack' or 'dualmask bench' wrote.") from error
        found: dict[Example, list[Example]] = {example: [] for example in examples}
        for one in results:
            original = Example(one.text, one.label)
            if one.outcome == "succeeded" and one.adversarial is not None and original in found:
                found[original].append(Example(one.adversarial, one.label))
        self._recorded = {original: those for original, those in found.items() if those}
        if not self._recorded:
            raise DataError(f"{self.records} has {len(results)} records, and none is a success on a training text with "
                            "its label; attack the training part, its classes in the same order.")

    def of(
        self, examples: Sequence[Example], generator: torch.Generator, classifier: "Classifier",
    ) -> Iterator[Example]:
        """Adversarial texts that fool the classifier, each with its original's label, as they are found."""
        if self.records:
            yield from (one for example in examples for one in self._recorded.get(example, ()))
            return
        from dualmask.attacks import build_attack
        from dualmask.attacks.running import Assault

        attack = build_attack(self.attack, preset=self.preset, options=self.options)
        seed = int(torch.randint(2**31, (1,), generator=generator))
        faults = []
        for one in Assault(classifier, attack, seed=seed, measure=None).run(list(enumerate(examples))):
            if one.outcome == "succeeded" and one.adversarial is not None:
                yield Example(one.adversarial, one.label)
            elif one.outcome in FAULTS:
                faults.append(one.reason)
        if faults:
            warnings.warn(f"{len(faults)} of {len(examples)} training texts could not be attacked; the last one: "
                          f"{faults[-1]}", stacklevel=2)


def shuffled(examples: Sequence[Example], generator: torch.Generator) -> list[Example]:
    return [examples[place] for place in torch.randperm(len(examples), generator=generator).tolist()]


def part(share: float, examples: Sequence[Example]) -> int:
    """How many of them a share is, rounded up."""
    return ceil(share * len(examples) - 1e-9)
