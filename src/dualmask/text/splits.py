# SPDX-License-Identifier: Apache-2.0
"""Data sets of the Hugging Face ``datasets`` library: saved in a folder, or named on the hub."""

import re
from collections.abc import Iterator, Sequence
from os.path import isdir
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from dualmask.errors import DataError, ResourceError
from dualmask.hub import endpoint, offline
from dualmask.system_errors import told_reason
from dualmask.text.columns import closest
from dualmask.text.tables import BATCH, PARTS, Record, Table, class_names

if TYPE_CHECKING:
    import datasets

HUB_ID = re.compile(r"\w[\w.-]*(/[\w.-]+)?(:[\w.-]+)?")  # owner/name:configuration
FILE_ENDING = re.compile(r"\.[a-z]\w{0,8}$", re.IGNORECASE)


def is_saved(folder: Path) -> bool:
    """Whether ``save_to_disk`` wrote this folder."""
    return (folder / "dataset_dict.json").exists() or (folder / "state.json").exists()


def saved_tables(folder: Path) -> dict[str, Table]:
    """The parts of a folder that ``save_to_disk`` wrote."""
    import datasets

    try:
        loaded = datasets.load_from_disk(str(folder))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder}: not a complete saved data set ({told_reason(error)}). Save or copy it "
                        "again.") from error
    return _split_tables(str(folder), loaded)


def may_be_on_hub(source: str) -> bool:
    """Whether a name that is no path here looks like a data set's id."""
    folder = Path(source).parent
    local = folder != Path() and isdir(folder)  # data/revews beside a folder data/ is a slip, not an owner and a name
    return bool(HUB_ID.fullmatch(source)) and not FILE_ENDING.search(source) and not local


def hub_tables(source: str, *, at_hand: Sequence[str]) -> dict[str, Table]:
    """The parts of a data set on the hub; where none answers, an error within seconds that names what is at hand."""
    near = closest(source, [*at_hand, *(entry.name for entry in Path().iterdir())])
    remedy = f"{near} Give a file or a folder, or take a data set at hand: {', '.join(at_hand)}."
    if not (offline() or hub_answers()):
        raise ResourceError(
            f"'{source}': no such file or folder here, and {endpoint()} can't be reached to look for a data set of "
            f"that name.{remedy} If it was loaded on this machine before, HF_HUB_OFFLINE=1 takes the stored copy."
        )
    import datasets

    name, _, configuration = source.partition(":")
    try:
        loaded = datasets.load_dataset(name, configuration or None)
    except Exception as error:  # of many libraries: the hub's client, the readers, the network
        reason = str(error).strip().partition("\n")[0]
        raise ResourceError(
            f"'{source}': no such file or folder here, and the hub gave no data set of that name ({reason}).{remedy}"
        ) from error
    return _split_tables(source, loaded)


def hub_answers(seconds: float = 5.0) -> bool:
    """Whether the hub is up, be its answer a refusal. A thread asks: looking up a name has no time limit."""
    answers: list[bool] = []

    def ask() -> None:
        try:
            urlopen(Request(endpoint(), method="HEAD"), timeout=seconds).close()
            answers.append(True)
        except HTTPError as error:
            answers.append(error.code < 500)  # beyond, the hub's client would try again for half a minute
        except (OSError, ValueError):
            answers.append(False)

    thread = Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return bool(answers and answers[0])


def _split_tables(name: str, loaded: "datasets.DatasetDict | datasets.Dataset") -> dict[str, Table]:
    splits = loaded if isinstance(loaded, dict) else {"train": loaded}
    tables = {
        part: _split_table(f"{name} ({split})", splits[split])
        for part, names in PARTS.items()
        for split in reversed(names)  # the plainest name last, so that it wins
        if split in splits
    }
    if "train" not in tables:
        raise DataError(f"{name}: no split named train; it has: {', '.join(splits)}. Rename one and save it again.")
    return tables


def _split_table(name: str, split: "datasets.Dataset") -> Table:
    if len(split) == 0:
        raise DataError(f"{name} has no rows. Choose another data set, or write it again.")
    return Table(name, "row", _split_records(split), class_names(split.features))


def _split_records(split: "datasets.Dataset") -> Iterator[Record]:
    number = 0
    for batch in split.with_format(None).iter(batch_size=BATCH):
        for values in zip(*batch.values(), strict=True):
            number += 1
            yield Record(number, dict(zip(batch, values, strict=True)))
