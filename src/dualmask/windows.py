# SPDX-License-Identifier: Apache-2.0
"""Reading texts that are longer than a classifier reads: in overlapping windows, under a rule that makes one answer."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import inf, log
from typing import TYPE_CHECKING, Any

from dualmask.errors import OptionError, did_you_mean
from dualmask.options import check_least

if TYPE_CHECKING:
    from torch import Tensor

ANY = "any:"
VIEWS_ALONE = "it looks at the views behind an answer, and those of windows are not kept apart."
RULES = "'mean', 'surest' or 'any:LABEL'"
WIDEST = 0.9  # share of a window that the next one may repeat: with more of it a long text takes too many windows
SHORTEST = 4  # tokens of a window: the special ones of a pair, and one of text
_SETTING = re.compile(r"(.*),\s*(overlap|most|length)\s*=\s*([^,=]*)", re.S)


@dataclass(frozen=True)
class Windows:
    """How a text that is longer than the classifier reads is read in windows, and what its answer is made of.

    mean: the mean of the windows' probabilities; padding dilutes it. surest: the window whose best class is the most
    probable decides. any:LABEL: of the windows that answer LABEL, or of all if none does, that in which it is the most
    probable decides: nothing hides behind the cut, but padding dilutes inside each window, unless these are short.
    """

    rule: str = "mean"
    overlap: float = 0.25  # share of a window that the next one repeats, so that nothing is only seen cut in two
    most: int = 64  # windows of a text; what lies behind them is not read, and the text counts as cut
    length: int | None = None  # tokens of a window, special ones included, as of max_length; none: as many as that

    def __post_init__(self) -> None:
        if not isinstance(self.rule, str) or not (self.rule in ("mean", "surest") or self.label):
            raise OptionError(f"the rule of windows is {self.rule!r}; expected {RULES}, with a label of the model, "
                              "such as 'any:spam'.")
        if not isinstance(self.overlap, int | float) or not 0 <= self.overlap <= WIDEST:
            raise OptionError(f"overlap is {self.overlap!r}; expected a share of a window from 0 to {WIDEST}.")
        if type(self.most) is not int:
            raise OptionError(f"most is {self.most!r}; expected a whole number of windows, such as 64.")
        if self.length is not None and type(self.length) is not int:
            raise OptionError(f"length is {self.length!r}; expected a whole number of tokens, such as 32.")
        check_least(most=(self.most, 1), length=(self.length, SHORTEST))

    @property
    def label(self) -> str | None:
        """Whose window decides, where one label's does."""
        return self.rule.removeprefix(ANY) if self.rule.startswith(ANY) else None

    def as_dict(self) -> dict[str, object]:
        """The settings; a length that was not given is left out, as by versions that did not know it."""
        return {name: value for name, value in asdict(self).items() if name != "length" or value is not None}

    def check_labels(self, labels: Sequence[str]) -> None:
        """Refuse a rule about a label that the classifier does not have."""
        if self.label is not None and self.label not in labels:
            raise OptionError(f"the rule '{self.rule}' is about a label that the model does not have"
                              f"{did_you_mean(self.label, labels)} Its labels are {', '.join(labels)}.")

    def check_length(self, length: int) -> None:
        """Refuse windows that are longer than what the classifier reads at once."""
        if self.length is not None and self.length > length:
            raise OptionError(f"length is {self.length:,} tokens a window, and the model reads {length:,}; give a "
                              "smaller one, or leave it out for windows as long as the model reads.")

    def together(self, windows: "Tensor", labels: Sequence[str]) -> "Tensor":
        """One text's logits, (classes,), from those of its windows, (windows, classes).

        Under mean they are the logarithms of the mean probabilities; else those of one window, of equals the first.
        """
        logs = windows.double().log_softmax(dim=1)
        if self.rule == "mean":
            return (logs.logsumexp(dim=0) - log(len(logs))).to(windows.dtype)
        if self.label is None:
            return windows[int(logs.amax(dim=1).argmax())]
        wanted = labels.index(self.label)
        answers = windows.argmax(dim=1) == wanted  # another class may be ahead where LABEL is the most probable
        deciding = logs[:, wanted].where(answers | ~answers.any(), -inf)
        return windows[int(deciding.argmax())]


def read_windows(given: "Windows | str | None") -> Windows | None:
    """Windows as a program or a command line gives them: 'none', or a rule with settings behind it.

    Such as 'any:spam,overlap=0.5,most=128,length=32'.
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
        numbers: dict[str, Any] = {name: {"overlap": float}.get(name, int)(value) for name, value in settings.items()}
        return replace(windows, **numbers)
    except ValueError:
        raise OptionError(f"windows are '{given}'; expected a rule ({RULES}) and perhaps overlap=SHARE, most=NUMBER "
                          "and length=TOKENS behind it, with commas between, such as 'any:spam,most=128,length=32'."
                          ) from None


def refuse_windows(windows: Windows | None, what: str, why: str) -> None:
    """For what is only true of a text that is read at once."""
    if windows is not None:
        raise OptionError(f"{what} does not go with windows (rule '{windows.rule}'): {why} Switch them off: load the "
                          "model with windows=None, or with --windows none where the command has it.")


def length_in_words(length: int, windows: Windows | None = None) -> str:
    """How much of a text is read; length: what the classifier reads at once."""
    if windows is None:
        return f"the {length:,} tokens that the classifier reads"
    return f"the {windows.most:,} windows of {windows.length or length:,} tokens that the classifier reads"


def told_of_cut(count: int, texts: int, length: int, windows: Windows | None = None, *, pairs: bool = False) -> str:
    """How many texts were not read to their end, and what helps; pairs: whether these texts are pairs."""
    if windows is None:
        remedy = "--windows reads long texts in parts"
    elif pairs:
        remedy = ("most=NUMBER behind the rule allows more; where the shorter text of a pair takes more than half of "
                  "a window, a small length=TOKENS leaves it room, or else a model that reads more tokens")
    else:
        remedy = "most=NUMBER behind the rule allows more"
    verb = "is" if count == 1 else "are"
    return (f"{count:,} of {texts:,} texts {verb} longer than {length_in_words(length, windows)}; what lies behind is "
            f"not read ({remedy}).")
