# SPDX-License-Identifier: Apache-2.0
"""One class per failure that a user can act on; every message says what was given, what was expected, what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class DualmaskError(Exception):
    """Base of all errors meant for users. The command line prints the message alone, without a stack trace."""


class DataError(DualmaskError):
    """A data file or data set can't be used as it is. Remedy: fix the row or column that the message names."""


class NoLabelColumnError(DataError):
    """A table has no column of labels. Remedy: name it, or use what needs no labels."""


class OptionError(DualmaskError):
    """An option has an unknown name or an impossible value. Remedy: choose one of those that the message lists."""


class EncoderError(DualmaskError):
    """An encoder can't serve here (no mask token, unknown family). Remedy: take another, as the message says."""


class ModelFileError(DualmaskError):
    """A saved model is truncated, mixed up or from another format. Remedy: copy or train it again."""


class ResourceError(DualmaskError):
    """An external file is missing, corrupt or unreachable. Remedy: fetch it again, or use what is at hand."""


class BusyOutputError(DualmaskError):
    """Another process or thread writes to the same output. Remedy: wait for its end, or choose another output."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A hint such as ``: did you mean 'ranmask'?``, else the list of what is known."""
    names = sorted(known)
    close = get_close_matches(given, names, n=1, cutoff=0.6)
    return f": did you mean '{close[0]}'?" if close else f"; known: {', '.join(names)}."
