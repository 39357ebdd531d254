# SPDX-License-Identifier: Apache-2.0
"""The folder of a training run, and its checkpoints: safetensors and JSON that appear whole or not at all."""

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast, get_type_hints

import torch
from torch import Tensor, nn

from dualmask.checksums import SEAL, file_hash, seal_holds, sealed
from dualmask.defences import DEFENCES
from dualmask.errors import ModelFileError, OptionError, ResourceError
from dualmask.options import former_options, whole_training
from dualmask.output_lock import INSIDE
from dualmask.results import difference
from dualmask.system_errors import explain_os_error, told_reason

State = dict[str, Tensor]
EXPECTED = {int: "a whole number from 0", float: "a number", bool: "true or false"}
OWN = ("training.jsonl", "checkpoint.partial", INSIDE)  # all that a run leaves that ended before its first checkpoint


@dataclass
class Progress:
    """Where a run stands; random streams derive from (seed, step), so no generator state is needed."""

    epoch: int = 0
    batch: int = 0  # batches of this epoch already trained on
    step: int = 0
    best_accuracy: float = -1.0
    best_under_attack: float = -1.0  # of the same epoch; stays so where nothing is attacked
    best_weighed: float = -1.0  # of the same epoch; stays so where classes have no weights
    best_epoch: int = 0
    best_ready: bool = False  # all that the defence does had begun by then
    waited: int = 0  # epochs without a better one
    seconds: float = 0.0
    forwards: int = 0  # passes through the network, as far as training asked for them
    backwards: int = 0
    forward_texts: int = 0  # rows of these passes
    backward_texts: int = 0
    megabytes: float = 0.0  # at most; 0: unknown
    finished: bool = False


def write(
    out: Path, progress: Progress, settings: Mapping[str, object], *,
    network: nn.Module, optimiser: torch.optim.Optimizer, best: State,
) -> None:
    """Write `out/checkpoint-STEP` under another name, then rename it and drop older ones."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    final = out / f"checkpoint-{progress.step:09d}-{progress.epoch:04d}"
    if final in found(out):  # of this run, which stopped there before: to replace it would be a moment without any
        return
    work = out / "checkpoint.partial"
    shutil.rmtree(work, ignore_errors=True)
    steps = {f"{row}.{name}": tensor.cpu() for row, state in optimiser.state_dict()["state"].items()
             for name, tensor in state.items()}
    try:
        work.mkdir(parents=True)
        for name, tensors in (("network", network_state(network)), ("optimiser", steps), ("best", best)):
            if tensors:
                save_file(tensors, work / f"{name}.safetensors")
        hashes = {path.name: file_hash(path) for path in sorted(work.iterdir())}
        described = {"progress": asdict(progress), "settings": settings, "sha256": hashes}
        (work / "progress.json").write_bytes(sealed(described).encode("utf-8"))
    except (OSError, SafetensorError) as error:
        shutil.rmtree(work, ignore_errors=True)
        raise ResourceError(f"no checkpoint can be written in {out} ({told_reason(error)}); make room there, "
                            "about four times the model's size, and go on with resume.") from error
    older = found(out)
    shutil.rmtree(final, ignore_errors=True)  # what a kill has left of one
    work.rename(final)
    for folder in older:
        remove_checkpoint(folder)


def read(
    out: Path, settings: Mapping[str, object], *, network: nn.Module, optimiser: torch.optim.Optimizer,
) -> tuple[Progress, State]:
    """Load the newest checkpoint into network and optimiser; refuse one that was made with other settings."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder = found(out)[-1]
    try:
        saved = read_saved(folder)
        progress = as_progress(as_object(saved["progress"], "progress"))
        check_settings(folder, as_object(saved["settings"], "settings"), settings)
        network.load_state_dict(load_file(folder / "network.safetensors"))
        state: dict[int, State] = {}
        for name, tensor in load_file(folder / "optimiser.safetensors").items():
            row, _, leaf = name.partition(".")
            state.setdefault(int(row), {})[leaf] = tensor
        optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
        # copies: what is read lies in a file that the next checkpoint removes
        best = load_file(path) if (path := folder / "best.safetensors").exists() else {}
        best = {name: tensor.clone() for name, tensor in best.items()}
        return progress, best
    except (SafetensorError, ValueError, KeyError, OSError, RuntimeError) as error:
        raise ModelFileError(f"the checkpoint {folder} can't be read ({told_reason(error)}); start again "
                             "(--overwrite, without --resume) or, if another version wrote it, go on with that "
                             "one.") from error


def read_saved(folder: Path) -> dict[str, object]:
    """What `progress.json` says. An earlier version wrote no checksums, of it and of the files beside it."""
    content = (folder / "progress.json").read_bytes()
    saved = as_object(json.loads(content.decode("utf-8")), "progress.json")
    if not {SEAL, "sha256"} & saved.keys():
        return saved
    if not seal_holds(content, saved.get(SEAL)):
        raise ValueError("progress.json is not as it was written: its checksum does not fit")
    for name, expected in as_object(saved["sha256"], "sha256").items():
        if file_hash(folder / name) != expected:
            raise ValueError(f"{name} is not as it was written: its checksum does not fit")
    return saved


def as_object(value: object, name: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{name}: a JSON {type(value).__name__}, expected an object")
    return value


def as_progress(values: Mapping[str, object]) -> Progress:
    """Progress as it was written; what an earlier version did not write yet has its default."""
    kinds = get_type_hints(Progress)
    if unknown := sorted(set(values) - set(kinds)):
        raise ValueError(f"progress has {', '.join(unknown)}, which this version does not know")
    if missing := [name for name in ("epoch", "batch", "step") if name not in values]:
        raise ValueError(f"progress lacks {', '.join(missing)}")
    for name, value in values.items():
        fits = type(value) in ((int, float) if kinds[name] is float else (kinds[name],))
        if not fits or (kinds[name] is int and cast(int, value) < 0):
            raise ValueError(f"progress: {name} is {value!r:.40}, expected {EXPECTED[kinds[name]]}")
    return Progress(**cast(dict[str, Any], values))


def check_settings(folder: Path, saved: Mapping[str, object], given: Mapping[str, object]) -> None:
    now, then = json.loads(json.dumps(given)), whole_settings(saved)
    differing = sorted(key for key in set(then) | set(now) if then.get(key) != now.get(key))
    if differing:
        told = {key: difference(key, then.get(key), now.get(key)) for key in differing}
        detail = "; ".join(f"{key}: {told[key]}" if isinstance(now.get(key), dict) else told[key] for key in differing)
        raise OptionError(f"{folder.parent} holds an unfinished run with other settings ({detail}); give the same "
                          "ones, or choose another folder, or start over (--overwrite).")


def whole_settings(saved: Mapping[str, object]) -> Mapping[str, object]:
    """Settings as an earlier version wrote them down, with the options that came up later as they were until then."""
    whole, training, options = dict(saved), saved.get("training"), saved.get("options")
    if isinstance(training, Mapping):
        whole["training"] = whole_training(training)
    if isinstance(options, Mapping):
        with suppress(OptionError):  # a defence of another version: what is said of it is compared
            kind = DEFENCES.find(str(saved.get("defence")))
            whole["options"] = {**former_options(kind.Options), **options}
    return whole


def found(out: Path) -> list[Path]:
    """Whole checkpoints, oldest first."""
    return sorted(folder for folder in out.glob("checkpoint-*-*") if (folder / "progress.json").is_file())


def remove(out: Path) -> None:
    for folder in [*out.glob("checkpoint-*-*"), out / "checkpoint.partial"]:
        remove_checkpoint(folder)


def remove_checkpoint(folder: Path) -> None:
    """Its note first: what a kill leaves of it then is no damaged checkpoint, but none."""
    with suppress(OSError):
        (folder / "progress.json").unlink()
    shutil.rmtree(folder, ignore_errors=True)


def check_folder(out: Path, *, resume: bool, overwrite: bool) -> None:
    """What a folder holds already is never lost unasked."""
    if out.exists() and not out.is_dir():
        raise OptionError(f"{out} is a file; give a folder to save the model in.")
    held = holding(out)
    if held and not overwrite and not (resume and held == "an unfinished run"):
        remedy = "go on with it (--resume), " if held == "an unfinished run" else ""
        raise OptionError(f"{out} already holds {held}: {remedy}choose another folder, or replace it (--overwrite).")


def holding(out: Path) -> str:
    """What a folder holds that training would replace."""
    if found(out):
        return "an unfinished run"
    if (out / "dualmask.json").exists():
        return "a saved model"
    others = sorted(path.name for path in out.iterdir() if path.name not in OWN) if out.is_dir() else []
    return f"other files ({', '.join(others[:4])})" if others else ""


def clear_folder(out: Path, *, resume: bool) -> None:
    """Make the folder; where nothing is to be resumed, take away an earlier run."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not (resume and found(out)):
            remove(out)
            (out / "training.jsonl").unlink(missing_ok=True)  # an earlier model stays until the new one is saved
    except OSError as error:
        raise ResourceError(explain_os_error(error, "written", out)) from error


def network_state(network: nn.Module) -> State:
    """A copy of the weights on the CPU."""
    return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in network.state_dict().items()}
