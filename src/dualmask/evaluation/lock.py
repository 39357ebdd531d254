# SPDX-License-Identifier: Apache-2.0
"""One run at a time in a folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dualmask.errors import OptionError

FILE = "lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock: a file, locked by the operating system, that names the process.

    Such a lock ends with its process however that ends, so what a killed run left is simply taken over.
    """
    path = folder / FILE
    descriptor = taken(path)
    try:
        with suppress(OSError):  # on a full disk; the number is for messages only
            os.truncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def taken(path: Path) -> int:
    """The locked file, open; OptionError where another process has it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            same = os.path.samestat(os.fstat(descriptor), os.stat(path))
        except ImportError:  # a system without such locks
            return descriptor
        except BlockingIOError:
            process = os.read(descriptor, 20).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise OptionError(f"another run (process {process or 'unknown'}) works in {path.parent}; wait for its end, "
                              "or choose another folder with --out.") from None
        except FileNotFoundError:
            same = False
        if same:
            return descriptor
        os.close(descriptor)  # its holder removed it in between: this is no lock any more
