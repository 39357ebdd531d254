# SPDX-License-Identifier: Apache-2.0
"""Files of public git repositories, pinned by commit, size and hash, and data that are put together out of them.

Nothing that is downloaded is executed, and what comes out has a hash of its own: it is the data that were measured, or
an error.
"""

import errno
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from dualmask.checksums import file_hash
from dualmask.errors import ResourceError
from dualmask.packages import PinnedFile, Watch, backdate, watch_from

_CHUNK = 1 << 16
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no room: the disk, the user's share of it, or a file's limit
_TRIES = 2  # a transfer that broke, or came out wrong, is done once more
_PATIENCE = 60  # time limits that a whole file may take, however slowly its bytes arrive


@dataclass(frozen=True)
class RepositoryFile:
    """One file at one commit of a repository, with the size and hash that it must have."""

    repository: str  # owner/name
    commit: str
    path: str
    size: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.path} of the repository {self.repository} at {self.commit[:8]}"


@dataclass(frozen=True)
class RepositoryFiles:
    """Files that `put_together` makes out of others, which it gets in their order, in an empty folder."""

    inputs: tuple[RepositoryFile, ...]
    files: tuple[PinnedFile, ...]
    put_together: Callable[[Sequence[Path], Path], None]

    @property
    def size(self) -> int:
        return sum(one.size for one in self.inputs)

    def __str__(self) -> str:
        names = list(dict.fromkeys(one.repository for one in self.inputs))
        return "repository " + names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def file_host() -> str:
    """Where raw files of repositories are read: that of the repositories' public host, or DUALMASK_REPOSITORIES."""
    return os.environ.get("DUALMASK_REPOSITORIES", "").rstrip("/") or "https://raw.githubusercontent.com"


def obtain_repository_files(source: RepositoryFiles, work: Path, *, timeout: float, watch: Watch) -> Path:
    """Download into the folder `work` and put together; returns the folder that holds exactly the pinned files."""
    inputs, before = [], 0
    for number, wanted in enumerate(source.inputs):
        path = work / f"input-{number}"
        download_checked(wanted, path, timeout=timeout, watch=partial(watch_from, watch, before))
        inputs.append(path)
        before += wanted.size
    target = work / "files"
    target.mkdir()
    source.put_together(inputs, target)
    for file in source.files:
        path = target / file.name
        if path.stat().st_size != file.size or file_hash(path) != file.sha256:
            raise ResourceError(f"'{file.name}', put together from {source}, is not what was measured (sha256 "
                                f"{file.sha256} expected): it was not kept. Please report this.")
        backdate(path)
    return target


def download_checked(wanted: RepositoryFile, path: Path, *, timeout: float, watch: Watch) -> None:
    """The file as it was pinned, or an error that says what came instead."""
    address = f"{file_host()}/{wanted.repository}/{wanted.commit}/{quote(wanted.path)}"
    reason = ""
    for _ in range(_TRIES):
        try:
            reason = copy_answer(address, path, wanted, timeout=timeout, watch=watch)
        except HTTPError as error:
            reason = f"the server answered {error.code}"
        except (OSError, HTTPException, ValueError) as error:
            if getattr(error, "errno", None) in FULL:
                raise  # nothing is wrong with the network
            reason = str(getattr(error, "reason", "") or error) or type(error).__name__
        if not reason:
            return
    raise ResourceError(f"{wanted} can't be had from {file_host()} ({reason}). Check the network; "
                        "DUALMASK_REPOSITORIES may name another host with the same files, and DUALMASK_TIMEOUT more "
                        "seconds.")


def copy_answer(address: str, path: Path, wanted: RepositoryFile, *, timeout: float, watch: Watch) -> str:
    """Write no more than the pinned size; returns what is wrong with it, empty where nothing is."""
    digest, size, end = hashlib.sha256(), 0, time.monotonic() + _PATIENCE * timeout
    request = Request(address, headers={"User-Agent": "dualmask"})
    with urlopen(request, timeout=timeout) as answer, path.open("wb") as output:
        while block := answer.read1(_CHUNK):
            size += len(block)
            if size > wanted.size:
                break
            if time.monotonic() > end:
                return f"only {size:,} of {wanted.size:,} bytes in {_PATIENCE * timeout:.0f} seconds"
            digest.update(block)
            output.write(block)
            watch(size)
    if size != wanted.size or digest.hexdigest() != wanted.sha256:
        return f"other content than the pinned {wanted.size:,} bytes with sha256 {wanted.sha256[:16]}..."
    return ""
