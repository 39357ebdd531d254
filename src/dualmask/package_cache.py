# SPDX-License-Identifier: Apache-2.0
"""Files of packages or repositories in a folder: checked by stamp or hash, put in place whole by one process at a time.

A stamp (size, time, sha256) lies beside the files, so that an untouched file is not hashed again at every use.
"""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dualmask import packages
from dualmask.checksums import file_hash
from dualmask.packages import PackageFile, PinnedFile, Watch
from dualmask.repositories import RepositoryFiles, obtain_repository_files
from dualmask.system_errors import told_reason

if TYPE_CHECKING:
    from filelock import BaseFileLock

PinnedFiles = PackageFile | RepositoryFiles

_STAMP = ".stamp.json"
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP)


class _Mark(NamedTuple):
    size: int
    mtime_ns: int
    sha256: str


def fault(source: PinnedFiles, folder: Path, *, rehash: bool) -> str:
    """What is wrong with the files in the folder; empty when nothing is. Touched files are always hashed."""
    marks = {} if rehash else _read_stamp(folder)
    faults = [found for file in source.files if (found := _file_fault(file, folder, marks.get(file.name)))]
    if not faults and marks != _current_marks(source, folder):
        with suppress(OSError):  # a read-only cache stays usable, it is only hashed each time
            _write_stamp(source, folder)
    return "; ".join(faults)


def store(source: PinnedFiles, folder: Path, *, timeout: float, progress: bool) -> None:
    """Fetch the files and put them in place of whatever the folder holds."""
    cache, name = folder.parent, folder.name
    cache.mkdir(parents=True, exist_ok=True)
    with _exclusive(cache / f".{name}.lock"):
        if folder.is_dir() and not fault(source, folder, rehash=False):
            return  # another process fetched it while this one waited
        for leftover in cache.glob(f".{name}.work-*"):  # of a process that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=f".{name}.work-", dir=cache))
        try:
            with _watched(f"fetching {name}", source, shown=progress) as watch:
                files = _obtain(source, work, timeout=timeout, watch=watch)
            _write_stamp(source, files)
            _put_in_place(files, folder, work / "replaced")
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _obtain(source: PinnedFiles, work: Path, *, timeout: float, watch: Watch) -> Path:
    if isinstance(source, RepositoryFiles):
        return obtain_repository_files(source, work, timeout=timeout, watch=watch)
    return packages.obtain(source, work, timeout=timeout, watch=watch)


def _put_in_place(files: Path, folder: Path, replaced: Path) -> None:
    if folder.exists():
        os.replace(folder, replaced)
    os.replace(files, folder)


def _file_fault(file: PinnedFile, folder: Path, mark: _Mark | None) -> str:
    path = folder / file.name
    try:
        info = path.stat()
        if info.st_size != file.size:
            return f"{file.name} has {info.st_size} bytes instead of {file.size}"
        if mark == _Mark(info.st_size, info.st_mtime_ns, file.sha256) or file_hash(path) == file.sha256:
            return ""
    except OSError as error:
        return f"{file.name} can't be read ({told_reason(error)})"
    return f"{file.name} has other content than it should (its sha256 differs)"


def _read_stamp(folder: Path) -> dict[str, _Mark]:
    try:
        stored = json.loads((folder / _STAMP).read_text(encoding="utf-8"))
        return {name: _Mark(*mark) for name, mark in stored.items()}
    except (OSError, ValueError, TypeError, AttributeError):  # no stamp, or not one of ours: hash the files instead
        return {}


def _write_stamp(source: PinnedFiles, folder: Path) -> None:
    """Only called for files whose hashes were just found right."""
    draft = folder / f"{_STAMP}.{os.getpid()}"
    draft.write_text(json.dumps(_current_marks(source, folder)), encoding="utf-8")
    os.replace(draft, folder / _STAMP)


def _current_marks(source: PinnedFiles, folder: Path) -> dict[str, _Mark]:
    infos = {file: (folder / file.name).stat() for file in source.files}
    return {file.name: _Mark(info.st_size, info.st_mtime_ns, file.sha256) for file, info in infos.items()}


@contextmanager
def _exclusive(lock: Path) -> Iterator[None]:
    """One process at a time. The operating system lets go of the lock when its owner ends, however that ends.

    The file stays where it is: removed, it could be locked by one process and made anew by another. On a network drive
    without such locks the owner is whoever could make a second file.
    """
    from filelock import FileLock, SoftFileLock

    held: BaseFileLock = FileLock(lock, mode=0o666)  # several users may share a cache
    try:
        held.acquire()
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        held = SoftFileLock(lock.with_suffix(".made"), mode=0o666)
        held.acquire()
    try:
        yield
    finally:
        held.release()


@contextmanager
def _watched(title: str, source: PinnedFiles, *, shown: bool) -> Iterator[Watch]:
    """A progress bar in a terminal, one line elsewhere, nothing if not wanted; all on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    if not shown or not console.is_terminal:
        if shown:
            line = f"{title} ({source.size / 1e6:.1f} MB, {source})"
            console.print(line, soft_wrap=True, markup=False, highlight=False)
        yield lambda arrived: None
        return
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(TextColumn("{task.description}"), *columns, console=console) as bar:
        task = bar.add_task(title, total=source.size)
        # pip's copy from its temporary folder counts twice for a moment, hence the limit.
        yield lambda arrived: bar.update(task, completed=min(arrived, source.size))
