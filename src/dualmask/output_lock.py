# SPDX-License-Identifier: Apache-2.0
"""One owner at a time for each file or folder that is written.

The lock of `out` is the hidden file `.out.lock` beside it. The operating system frees it when its owner ends, however
that ends; whoever ends by itself takes the file away as well. Where nothing may be written beside a folder, the lock
lies inside, as `.lock`.
"""

import errno
import json
import os
import platform
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from dualmask.errors import BusyOutputError, OptionError
from dualmask.system_errors import own_words, told_reason

if TYPE_CHECKING:
    from filelock import BaseFileLock

P = ParamSpec("P")
R = TypeVar("R")

INSIDE = ".lock"  # a folder's lock, where none can lie beside it
PATIENCE = 0.1  # seconds: for an owner who is just leaving, not for one who works
POLL = 0.02
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)  # whoever writes there is told so by the writing itself
IMPOSSIBLE = (*FORBIDDEN, errno.ENOENT, errno.ENOTDIR, errno.EEXIST)
_OWNERS: dict[tuple[int, Path], int] = {}  # by process and output: the thread that has it


@contextmanager
def output_lock(*outputs: str | Path | None, patience: float = PATIENCE) -> Iterator[None]:
    """Own what is about to be written, by whichever link or path it is called; BusyOutputError where another does.

    The thread that owns an output may own it again. What is neither a file nor a folder, such as a pipe, needs no lock.
    patience: seconds to wait for another owner's end.
    """
    with ExitStack() as stack:
        for output in sorted({Path(os.path.realpath(one)) for one in outputs if one is not None and is_lockable(one)}):
            stack.enter_context(_owned_by_thread(output, patience))
        yield


def is_lockable(output: str | Path) -> bool:
    return not os.path.exists(output) or os.path.isfile(output) or os.path.isdir(output)


def check_ordinary(output: Path) -> None:
    """Refuse what a file would be put in the place of: /dev/null would be one from then on, for all programs."""
    if not is_lockable(output):
        raise OptionError(f"{output} is a pipe or a device, no ordinary file; give a file to write to.")


def locks_output(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function owns what its argument of that name says, as long as it runs."""
    def locking(function: Callable[P, R]) -> Callable[P, R]:
        known = signature(function)

        @wraps(function)
        def locked(*args: P.args, **kwargs: P.kwargs) -> R:
            with output_lock(known.bind(*args, **kwargs).arguments.get(name)):
                return function(*args, **kwargs)

        return locked

    return locking


@contextmanager
def _owned_by_thread(output: Path, patience: float) -> Iterator[None]:
    place, thread = (os.getpid(), output), threading.get_ident()
    if place in _OWNERS and _OWNERS[place] == thread:
        yield
        return
    if _OWNERS.setdefault(place, thread) != thread:
        raise BusyOutputError(busy(output, "another thread of this process"))
    try:
        with _owned_by_process(output, patience):
            yield
    finally:
        del _OWNERS[place]


@contextmanager
def _owned_by_process(output: Path, patience: float) -> Iterator[None]:
    missing = [folder for folder in output.parents if not os.path.exists(folder)]
    lock = _locked(output, patience)
    try:
        yield
    finally:
        if lock is not None:
            _unlocked(lock)
        for folder in missing:  # made for the lock; what was not used is taken away
            with suppress(OSError):
                folder.rmdir()


def _locked(output: Path, patience: float) -> "BaseFileLock | None":
    """The lock, held; None where the place has none: that is told where it is not plain that nothing can be written."""
    from filelock import Timeout

    problem = OSError()
    for place in lock_files(output):
        try:
            lock = _file_lock(place, patience)
        except Timeout:
            raise BusyOutputError(busy(output, told_owner(place))) from None
        except OSError as error:
            if error.errno in FORBIDDEN and os.path.exists(place):
                raise BusyOutputError(f"{output} may be being written by another user: its lock {place} can't be "
                                      f"opened ({told_reason(error)}). Wait, or remove that file if nothing is at "
                                      "work.") from error
            problem = error
            if error.errno in FORBIDDEN:
                continue
            break
        else:
            tell_owner(place)
            return lock
    if problem.errno not in IMPOSSIBLE:
        warnings.warn(f"{output} can't be locked ({own_words(problem)}), as on some network drives: take care "
                      "yourself that nothing else writes there meanwhile.", stacklevel=2)
    return None


def _file_lock(place: Path, patience: float) -> "BaseFileLock":
    from filelock import FileLock

    end = time.monotonic() + patience
    while True:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(place, thread_local=False, fallback_to_soft=False)
            lock.acquire(timeout=patience, poll_interval=POLL)
        except FileNotFoundError:  # an owner who is just leaving has taken away the folder that was made for its lock
            if time.monotonic() > end:
                raise
        else:
            return lock


def _unlocked(lock: "BaseFileLock") -> None:
    """The lock file is removed while it is held, or else it could be another's by then; Windows forbids just that."""
    if os.name == "nt":
        lock.release()
    with suppress(OSError):
        Path(lock.lock_file).unlink()
    lock.release()


def lock_files(output: Path) -> list[Path]:
    """Where the lock of an output lies: the first place at which one can."""
    beside = [output.with_name(f".{output.name}.lock")] if output.name else []
    return beside + ([output / INSIDE] if os.path.isdir(output) else [])


def tell_owner(place: Path) -> None:
    """Note who has the lock. This is for messages only: a full disk, or Windows, may forbid it."""
    note = {"process": os.getpid(), "host": platform.node(),
            "since": datetime.now().astimezone().isoformat(timespec="seconds")}
    with suppress(OSError):
        place.write_text(json.dumps(note) + "\n", encoding="utf-8")


def told_owner(place: Path) -> str:
    try:
        note = json.loads(place.read_text(encoding="utf-8")[:1000])
        return f"process {note['process']} on {note['host']}, since {note['since']}"
    except (OSError, ValueError, TypeError, KeyError):
        return "another process"


def busy(output: Path, owner: str) -> str:
    return (f"{output} is being written by {owner}, and was left alone. Wait for its end, or end it, or give another "
            "output (--out).")


def remove_stale_locks(*folders: Path) -> None:
    """Take away locks of what lies in folders that killed processes left; those that are held stay."""
    for folder in folders:
        for output in locked_outputs(folder):
            with suppress(BusyOutputError), output_lock(output):
                pass


def locked_outputs(folder: Path, pattern: str = "*") -> list[Path]:
    """What in a folder has a lock file, be it held or left by a killed process."""
    return [path.with_name(path.name.removeprefix(".").removesuffix(".lock"))
            for path in sorted(folder.glob(f".{pattern}.lock"))]
