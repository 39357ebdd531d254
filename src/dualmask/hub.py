# SPDX-License-Identifier: Apache-2.0
"""Models on a Hugging Face hub: the local copy first, then the hub if it answers within seconds."""

import fnmatch
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dualmask.errors import ResourceError

# Weights only as safetensors: pickle files can run code when they are opened.
_WANTED = [
    *("config.json", "model*.safetensors", "model.safetensors.index.json"),
    *("tokenizer*.json", "vocab.*", "merges.txt", "bpe.codes", "*.model", "*_tokens_map.json", "added_tokens.json"),
    *("dualmask.json", "defence.safetensors"),  # a classifier that we saved
]
_IDENTIFIER = re.compile(r"(\w[\w.-]*(?:/\w[\w.-]*)?)(?:@([\w./-]+))?", re.ASCII)


@dataclass(frozen=True)
class HubRepository:
    """A repository on the hub. Its hashes are kept and checked by the hub client, not by us."""

    id: str
    revision: str = "main"

    def __str__(self) -> str:
        return f"hub {self.id}" + ("" if self.revision == "main" else f"@{self.revision}")


def parse(name: str) -> HubRepository | None:
    """`owner/name` or `owner/name@revision`; none when the name can't be a hub id."""
    match = _IDENTIFIER.fullmatch(name)
    return HubRepository(match[1], match[2] or "main") if match else None


def local_snapshot(repository: HubRepository) -> Path | None:
    """The copy in the hub client's cache if it is whole; never asks the network."""
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = _snapshot(repository, local=True, timeout=0)
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    return folder if _is_whole(folder) else None


def obtain(repository: HubRepository, *, timeout: float, progress: bool) -> Path:
    """The local copy, fetched first when there is none."""
    if folder := local_snapshot(repository):
        return folder
    if offline():
        raise ResourceError(f"{repository} is not at hand and HF_HUB_OFFLINE forbids fetching it: unset that first.")
    _check_files(repository, _listing(repository, timeout))
    try:
        with _progress_bars(progress):
            folder = _snapshot(repository, local=False, timeout=timeout)
    except Exception as error:
        raise ResourceError(_explanation(repository, error)) from None
    if not _is_whole(folder):
        raise ResourceError(f"{repository} came from the hub incomplete: try again.")
    return folder


def obtain_file(repository: HubRepository, commit: str, name: str, *, timeout: float) -> Path | None:
    """One more file of a model that is at hand, fetched if need be; None where the repository has no such file."""
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    cache = os.environ.get("HF_HUB_CACHE") or None
    known = try_to_load_from_cache(repository.id, name, cache_dir=cache, revision=commit)
    if known is not None:
        return Path(known) if isinstance(known, str) else None  # else it is known not to be there
    remedy = f"it is at hand without {name}. If it needs none, give the folder of your copy as a path."
    if offline():
        raise ResourceError(f"{repository}: HF_HUB_OFFLINE forbids asking the hub, and {remedy}")
    try:
        _listing(repository, timeout)  # tells within seconds whether anybody answers
        return Path(hf_hub_download(repository.id, name, revision=commit, cache_dir=cache, endpoint=endpoint(),
                                    etag_timeout=timeout))
    except ResourceError as error:
        raise ResourceError(f"{error} So far {remedy}") from None
    except Exception as error:
        if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
            return None
        raise ResourceError(f"{_explanation(repository, error)} So far {remedy}") from None


def offline() -> bool:
    from huggingface_hub import constants

    return constants.HF_HUB_OFFLINE or os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}


def endpoint() -> str:
    # Read when needed: the hub client itself reads its settings only once, when it is imported.
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"


def _snapshot(repository: HubRepository, *, local: bool, timeout: float) -> Path:
    from huggingface_hub import snapshot_download

    folder = snapshot_download(
        repository.id,
        revision=repository.revision,
        cache_dir=os.environ.get("HF_HUB_CACHE") or None,
        endpoint=endpoint(),
        etag_timeout=timeout,
        local_files_only=local,
        allow_patterns=_WANTED,
        ignore_patterns=["*/*"],  # subfolders hold other formats (onnx, openvino)
    )
    return Path(folder)


@contextmanager
def _progress_bars(shown: bool) -> Iterator[None]:
    """Silences the hub client's bars when none are wanted; without a terminal they are silent anyway."""
    from huggingface_hub import utils

    silence = not shown and not utils.are_progress_bars_disabled()  # type: ignore[attr-defined]
    if silence:
        utils.disable_progress_bars()  # type: ignore[attr-defined]
    try:
        yield
    finally:
        if silence:
            utils.enable_progress_bars()  # type: ignore[attr-defined]


def _listing(repository: HubRepository, timeout: float) -> list[str]:
    """The names of the repository's files, or an error within seconds."""
    from huggingface_hub import HfApi

    names: list[str] = []
    problems: list[Exception] = []

    def ask() -> None:
        try:
            info = HfApi(endpoint=endpoint()).model_info(repository.id, revision=repository.revision, timeout=timeout)
            names.extend(file.rfilename for file in info.siblings or [])
        except Exception as error:  # transport errors have no common base: hub versions differ in their HTTP library
            problems.append(error)

    # A thread, because looking up a host name has no time limit of its own.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(2 * timeout)
    if thread.is_alive():
        problems.append(TimeoutError(f"no answer within {2 * timeout:g} s"))
    if problems:
        raise ResourceError(_explanation(repository, problems[0])) from None
    return names


def _explanation(repository: HubRepository, error: Exception) -> str:
    """What went wrong at the hub, in words and with a remedy."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if isinstance(error, HFValidationError):
        return f"'{repository.id}' can't be a hub id: write owner/name as on the model's page."
    if isinstance(error, GatedRepoError):
        return f"{repository} is gated: accept its licence on its page, run 'hf auth login', then try again."
    if isinstance(error, RevisionNotFoundError):
        return f"{repository}: the hub has no such revision; without '@...' the main one is taken."
    if isinstance(error, RepositoryNotFoundError):
        return f"{repository}: the hub has none of that name, or it is private ('hf auth login'). Check the spelling."
    if isinstance(error, HfHubHTTPError):
        return f"{repository}: the hub at {endpoint()} refused ({_first_line(error)}). Try again later."
    return (
        f"{repository}: the hub at {endpoint()} can't be reached ({_first_line(error)}). Check the network and "
        "HF_ENDPOINT, or copy the folder from elsewhere and give its path; if the hub is only slow, set "
        "DUALMASK_TIMEOUT to more seconds."
    )


SYSTEM_NUMBER = re.compile(r"\[Errno -?\d+\]\s*")


def _first_line(error: Exception) -> str:
    """What the library says first, without the system's numbers."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return SYSTEM_NUMBER.sub("", lines[0])


def _check_files(repository: HubRepository, names: list[str]) -> None:
    """Refuse before downloading what could not be used afterwards."""
    if "config.json" not in names:
        raise ResourceError(f"{repository} has no config.json, so it is no transformers model: take another.")
    if not any(fnmatch.fnmatch(name, "model*.safetensors") for name in names):
        raise ResourceError(
            f"{repository} has no safetensors weights, and other formats can run code when opened: take another model, "
            "or a revision that was converted (owner/name@refs/pr/1 names the first pull request)."
        )


def _is_whole(folder: Path) -> bool:
    """Everything that a load needs is there; a download that was cut short leaves a folder with some of it."""
    index = folder / "model.safetensors.index.json"
    shards = set(re.findall(r'"([\w.-]+\.safetensors)"', index.read_text())) if index.is_file() else set()
    needed = {"config.json", *(shards or {"model.safetensors"})}
    tokenizer = [path for pattern in ("tokenizer.json", "vocab.*", "*.model") for path in folder.glob(pattern)]
    return any(path.is_file() for path in tokenizer) and all((folder / name).is_file() for name in needed)
