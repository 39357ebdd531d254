# SPDX-License-Identifier: Apache-2.0
"""Reading texts that are longer than a classifier reads: in overlapping windows, under a rule that makes one answer."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import log
from typing import TYPE_CHECKING

from dualmask.errors import OptionError, did_you_mean
from dualmask.options import check_least

if TYPE_CHECKING:
    from torch import Tensor

ANY = "any:"
VIEWS_ALONE = "it looks at the views behind an answer, and those of windows are not kept apart."
RULES = "'mean', 'surest' or 'any:LABEL'"
WIDEST = 0.9  # share of a window that the next one may repeat: with more of it a long text takes too many windows
_SETTING = re.compile(r"(.*),\s*(overlap|most)\s*=\s*([^,=]*)", re.S)


@dataclass(frozen=True)
class Windows:
    """How a text that is longer than the classifier reads is read in windows, and what its answer is made of.

    mean: the mean of the windows' probabilities; padding dilutes it. surest: the window whose best class is the most
    probable decides. any:LABEL: the window in which LABEL is the most probable decides; padding can't evade it.
    """

    rule: str = "mean"
    overlap: float = 0.25  # share of a window that the next one repeats, so that nothing is only seen cut in two
    most: int = 64  # windows of a text; what lies behind them is not read, and the text counts as cut

    def __post_init__(self) -> None:
        if not isinstance(self.rule, str) or not (self.rule in ("mean", "surest") or self.label):
            raise OptionError(f"the rule of windows is {self.rule!r}; expected {RULES}, with a label of the model, "
                              "such as 'any:spam'.")
        if not isinstance(self.overlap, int | float) or not 0 <= self.overlap <= WIDEST:
            raise OptionError(f"overlap is {self.overlap!r}; expected a share of a window from 0 to {WIDEST}.")
        if type(self.most) is not int:
            raise OptionError(f"most is {self.most!r}; expected a whole number of windows, such as 64.")
        check_least(most=(self.most, 1))

    @property
    def label(self) -> str | None:
        """Whose window decides, where one label's does."""
        return self.rule.removeprefix(ANY) if self.rule.startswith(ANY) else None

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def check_labels(self, labels: Sequence[str]) -> None:
        """Refuse a rule about a label that the classifier does not have."""
        if self.label is not None and self.label not in labels:
            raise OptionError(f"the rule '{self.rule}' is about a label that the model does not have"
                              f"{did_you_mean(self.label, labels)} Its labels are {', '.join(labels)}.")

    def together(self, windows: "Tensor", labels: Sequence[str]) -> "Tensor":
        """One text's logits, (classes,), from those of its windows, (windows, classes).

        Under mean they are the logarithms of the mean probabilities; else those of one window, of equals the first.
        """
        logs = windows.double().log_softmax(dim=1)
        if self.rule == "mean":
            return (logs.logsumexp(dim=0) - log(len(logs))).to(windows.dtype)
        deciding = logs.amax(dim=1) if self.label is None else logs[:, labels.index(self.label)]
        return windows[int(deciding.argmax())]


def read_windows(given: "Windows | str | None") -> Windows | None:
    """Windows as a program or a command line gives them: 'none', or a rule with settings behind it.

    Such as 'any:spam,overlap=0.5,most=128'.
    """
    if given is None or isinstance(given, Windows):
        return given
    if given.strip() == "none":
        return None
    found, settings = given.strip(), dict[str, str]()
    while match := _SETTING.fullmatch(found):
        found, settings[match[2]] = match[1].strip(), match[3].strip()
    windows = Windows(found)
    try:
        return replace(windows, **{name: {"overlap": float, "most": int}[name](value)
                                   for name, value in settings.items()})
    except ValueError:
        raise OptionError(f"windows are '{given}'; expected a rule ({RULES}) and perhaps overlap=SHARE and most=NUMBER "
                          "behind it, with commas between, such as 'any:spam,overlap=0.5,most=128'.") from None


def refuse_windows(windows: Windows | None, what: str, why: str) -> None:
    """For what is only true of a text that is read at once."""
    if windows is not None:
        raise OptionError(f"{what} does not go with windows (rule '{windows.rule}'): {why} Switch them off: load the "
                          "model with windows=None, or with --windows none where the command has it.")


def length_in_words(length: int, windows: Windows | None = None) -> str:
    tokens = f"{length:,} tokens"
    return f"the {tokens if windows is None else f'{windows.most:,} windows of {tokens}'} that the classifier reads"


def told_of_cut(count: int, texts: int, length: int, windows: Windows | None = None) -> str:
    """How many texts were not read to their end."""
    remedy = "--windows reads long texts in parts" if windows is None else "most=NUMBER behind the rule allows more"
    verb = "is" if count == 1 else "are"
    return (f"{count:,} of {texts:,} texts {verb} longer than {length_in_words(length, windows)}; what lies behind is "
            f"not read ({remedy}).")
