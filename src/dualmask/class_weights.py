# SPDX-License-Identifier: Apache-2.0
"""How much each class counts in training: the training option `class_weights` as numbers."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dualmask.errors import OptionError, did_you_mean
from dualmask.options import named_weights
from dualmask.text.examples import Example

if TYPE_CHECKING:
    from torch import Tensor


def class_weights(told: str, examples: Sequence[Example], labels: Sequence[str]) -> "Tensor | None":
    """The weights of these classes, (classes,), for what the training option says; None where all count alike.

    balanced: n / (k n_c) for a class with n_c of n examples, k classes having any: each class weighs the same in all.
    """
    import torch

    if told == "none":
        return None
    if told == "balanced":
        return torch.tensor(balanced_weights(Counter(example.label for example in examples), len(labels)))
    given = named_weights(told)
    if unknown := [name for name in given if name not in labels]:
        raise OptionError(f"class_weights names a class '{unknown[0]}' that the data do not have"
                          f"{did_you_mean(unknown[0], labels)}")
    return torch.tensor([given.get(label, 1.0) for label in labels])


def balanced_weights(counts: Counter[int], classes: int) -> list[float]:
    """A class without examples has the weight 1, which nothing is multiplied by."""
    return [counts.total() / (len(counts) * counts[place]) if counts[place] else 1.0 for place in range(classes)]
