# SPDX-License-Identifier: Apache-2.0
"""What can be read only once: standard input, pipes, what a shell puts in a command's place.

Lines are given as soon as they are there, and it can be asked whether another one is.
"""

import os
import select
import sys
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from dualmask.errors import DataError

STANDARD_INPUT = ("-", "/dev/stdin", "/dev/fd/0")  # as it is called on command lines
PIECE = 1 << 16  # bytes asked for at once
LONGEST = 1 << 23  # bytes to look ahead for a line's end; whoever reads lines has given up before


def is_stream(source: str | Path) -> bool:
    """Whether a source can be read only once."""
    return str(source) in STANDARD_INPUT or (
        os.path.exists(source) and not os.path.isfile(source) and not os.path.isdir(source))


def open_stream(source: str | Path) -> "LineStream":
    if str(source) in STANDARD_INPUT:
        if sys.stdin is None:
            raise DataError("standard input is closed; give a file, or texts in quotes.")
        return LineStream("standard input", sys.stdin.buffer)
    return LineStream(str(source), open(source, "rb", buffering=0), owned=True)


class LineStream:
    """Lines of bytes out of a pipe; what has come is given without waiting for more."""

    def __init__(self, name: str, file: BinaryIO, *, owned: bool = False) -> None:
        self.name, self.file, self.owned = name, file, owned
        self.buffer, self.place, self.ended = b"", 0, False  # what was read ahead, and how much of that was given
        try:
            self.number: int | None = file.fileno()
        except (OSError, AttributeError):  # made of memory
            self.number = None

    def __str__(self) -> str:
        return self.name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
                 ) -> None:
        if self.owned:
            self.file.close()

    def read(self, size: int = PIECE) -> bytes:
        """What is there, at most so many bytes; nothing at the end."""
        if self.place == len(self.buffer) and size:
            self._fill()
        piece = self.buffer[self.place:self.place + size]
        self.place += len(piece)
        return piece

    def readline(self, most: int) -> bytes:
        """The next line with its line feed; without one at the end, or where it is longer than `most`."""
        while (end := self.buffer.find(b"\n", self.place) + 1) == 0 and len(self.buffer) - self.place < most:
            if not self._fill():
                break
        return self.read(min(most, (end or len(self.buffer)) - self.place))

    def at_hand(self) -> bool:
        """Whether a line, or the end, can be had without waiting."""
        while self.buffer.find(b"\n", self.place) < 0 and len(self.buffer) - self.place < LONGEST and not self.ended:
            if self.number is not None and not is_ready(self.number):
                return False
            self._fill()
        return True

    def _fill(self) -> bool:
        """Wait for more; False at the end. A terminal could be asked again after its end, and is not."""
        found = b""
        if not self.ended:
            found = self.file.read(PIECE) if self.number is None else os.read(self.number, PIECE)
        self.ended = not found
        self.buffer, self.place = self.buffer[self.place:] + found, 0
        return bool(found)


def is_ready(number: int) -> bool:
    """Whether reading would not wait; where the system can't tell of pipes, that it might."""
    try:
        return bool(select.select([number], [], [], 0)[0])
    except (OSError, ValueError):
        return False
