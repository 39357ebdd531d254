# SPDX-License-Identifier: Apache-2.0
"""What the operating system refused, as sentences: what was tried, where, why, and what to do about it."""

import errno
import re
from pathlib import Path
from typing import Literal

Doing = Literal["read", "written", "read or written"]

# In errors of other libraries, which have no number of their own: "(os error 28)", "[Errno 13]"
NUMBER = re.compile(r"(?:os error|errno) (\d+)", re.IGNORECASE)
MORE = "make room there, or choose another place"
# By the system's number: why in plain words, and what to do
REASONS: dict[int, tuple[str, str]] = {
    errno.EACCES: ("there is no permission for it", "Allow it (chmod, or its owner's help), or give another path"),
    errno.EPERM: ("there is no permission for it", "Allow it (chmod, or its owner's help), or give another path"),
    errno.EROFS: ("the file system is read-only", "Choose a place that can be written to"),
    errno.ENOSPC: ("the disk is full", MORE.capitalize()),
    errno.EDQUOT: ("your share of the disk is used up", MORE.capitalize()),
    errno.EFBIG: ("the file may not grow that large", "Raise the limit (ulimit -f), or choose another place"),
    errno.EISDIR: ("it is a folder, and a file was expected", "Give the path of a file"),
    errno.ENOTDIR: ("a part of the path is a file, and a folder was expected", "Check the path"),
    errno.ENOENT: ("no such file or folder is there", "Check the path"),
    errno.EEXIST: ("a file stands where a folder is expected", "Move it away, or choose another path"),
    errno.ENAMETOOLONG: ("the name is too long", "Choose a shorter one"),
    errno.EMFILE: ("too many files are open", "Raise the limit (ulimit -n), and run it again"),
    errno.ENFILE: ("too many files are open", "Close other programs, and run it again"),
    errno.EIO: ("the disk or the network drive failed", "Check it, and copy the file to another place"),
    errno.ESTALE: ("the network drive has lost it", "Mount the drive again"),
    errno.EBUSY: ("something else uses it", "Wait for that to end, and run it again"),
    errno.ETXTBSY: ("something else uses it", "Wait for that to end, and run it again"),
    errno.ELOOP: ("its links lead in a circle", "Mend the links, or give another path"),
    errno.EPIPE: ("whoever read the answers has gone", "Run it again, and read to the end"),
}
UNKNOWN_REMEDY = "Put right what the system says, or choose another place"


def explain_os_error(error: BaseException, doing: Doing = "read or written", path: str | Path | None = None) -> str:
    """``out.csv can't be written: the disk is full (No space left on device). Make room there, ...``

    path: what was worked on, where the error itself does not name it or names a part that users never see.
    """
    named = path if path is not None else getattr(error, "filename", None)
    if named is None and system_number(error) is None:
        return own_words(error)  # of a network, or of another library: no place on this machine is the matter
    where = "a file or folder" if named is None else shown_path(named)
    return f"{where} can't be {doing}: {plain_reason(error)}. {remedy(error)}."


def plain_reason(error: BaseException) -> str:
    """``the disk is full (No space left on device)``; what the system says alone where it is no usual trouble."""
    words, number = own_words(error), system_number(error)
    if number not in REASONS:
        return words
    reason = REASONS[number][0]
    return f"{reason} ({words})" if words else reason


def told_reason(error: BaseException) -> str:
    """The same for brackets: plain words and which file of several it was, or what another library says."""
    number, name = system_number(error), getattr(error, "filename", None)
    if number is None:
        return str(error)
    reason = REASONS[number][0] if number in REASONS else own_words(error)
    return reason if name is None else f"{Path(shown_path(name)).name}: {reason}"


def remedy(error: BaseException) -> str:
    """What to do, as a sentence without its full stop."""
    number = system_number(error)
    return UNKNOWN_REMEDY if number not in REASONS else REASONS[number][1]


def system_number(error: BaseException) -> int | None:
    """The system's number of an error, also where another library has hidden it in its words."""
    number = getattr(error, "errno", None)
    if isinstance(number, int):
        return number
    found = NUMBER.search(str(error))
    return int(found[1]) if found else None


def own_words(error: BaseException) -> str:
    """What the system, or another library, says in its own words, without numbers and the path."""
    words = getattr(error, "strerror", None)
    if not isinstance(words, str) or "rrno" in words:
        words = NUMBER.sub("", str(error)).replace("()", "").replace("[]", "")
    return " ".join(words.split()).rstrip(".") or type(error).__name__


def shown_path(path: object) -> str:
    return path.decode(errors="replace") if isinstance(path, bytes) else str(path)
