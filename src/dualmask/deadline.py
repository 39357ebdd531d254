# SPDX-License-Identifier: Apache-2.0
"""A time at which long work stops by itself. Whoever sets it need not know who works, nor who works who set it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_end: ContextVar[float | None] = ContextVar("end", default=None)


class TimeUp(BaseException):
    """Work stopped because its time was up; no Exception, so that nobody takes it for a fault of a text or a cell."""


@contextmanager
def until(seconds: float | None) -> Iterator[None]:
    """Work inside stops after so many seconds, with TimeUp; None: never."""
    token = _end.set(None if seconds is None else time.monotonic() + seconds)
    try:
        yield
    finally:
        _end.reset(token)


def time_is_up() -> bool:
    end = _end.get()
    return end is not None and time.monotonic() >= end


def check_time() -> None:
    """To be called where nothing would be lost that a later run does not do again."""
    if time_is_up():
        raise TimeUp


def seconds_left() -> float | None:
    """Until the time that was set; None: there is none."""
    end = _end.get()
    return None if end is None else max(0.0, end - time.monotonic())
