# SPDX-License-Identifier: Apache-2.0
"""How a sentence encoder makes one vector of its tokens' states, as sentence-transformers writes it beside a model."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from dualmask.errors import EncoderError
from dualmask.resources import beside
from dualmask.system_errors import told_reason

Pooling = Literal["mean", "cls", "max", "lasttoken"]

MODULES = "modules.json"
_WITHOUT_EFFECT = ("Normalize", "Dropout")  # vectors are made one long anyway, and nothing is dropped at inference
# Modes by the switches of the older form. Divided by a root of the count, a mean has another length but no other
# direction.
_SWITCHES = {
    "pooling_mode_mean_tokens": "mean", "pooling_mode_mean_sqrt_len_tokens": "mean", "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max", "pooling_mode_lasttoken": "lasttoken"}
_MODES = {**{mode: mode for mode in get_args(Pooling)}, "mean_sqrt_len_tokens": "mean"}


def read_pooling(folder: Path, name: str) -> Pooling:
    """The mode that comes with the encoder called `name`; the mean where nothing does. What we don't do is refused."""
    listed = beside(name, folder, MODULES)
    path = "1_Pooling" if listed is None else pooling_folder(_read(listed, name), name)
    told = beside(name, folder, f"{path}/config.json") if listed or (folder / path).is_dir() else None
    if told is None:
        if listed:
            raise EncoderError(f"'{name}' can't serve as a sentence encoder: its {MODULES} names {path}, which has no "
                               "config.json; copy the whole folder, with its subfolders.")
        return "mean"
    return pooling_mode(_read(told, name), name)


def pooling_folder(modules: Any, name: str) -> str:
    """Where the steps behind the network are told; steps that would change its vectors are refused."""
    if not (isinstance(modules, list) and all(isinstance(one, Mapping) for one in modules)):
        raise EncoderError(f"'{name}': its {MODULES} is no list of modules; copy the folder again.")
    kinds = [str(one.get("type")).rpartition(".")[2] for one in modules]
    if odd := [kind for kind in kinds if kind not in ("Transformer", "Pooling", *_WITHOUT_EFFECT)]:
        raise EncoderError(f"'{name}' can't serve as a sentence encoder: after its network comes a module {odd[0]}, "
                           "which is not computed here. Take an encoder of Transformer, Pooling and Normalize alone.")
    if kinds[:2] != ["Transformer", "Pooling"] or kinds.count("Pooling") > 1 or modules[0].get("path"):
        raise EncoderError(f"'{name}' can't serve as a sentence encoder: expected the network, in the folder itself, "
                           f"and one Pooling after it, but {MODULES} has {', '.join(kinds) or 'nothing'}.")
    return str(modules[1].get("path"))


def pooling_mode(config: Any, name: str) -> Pooling:
    if not isinstance(config, Mapping):
        raise EncoderError(f"'{name}': the config.json of its pooling is no object; copy the folder again.")
    modes = _wanted(config)
    if len(modes) != 1 or modes[0] not in get_args(Pooling):
        raise EncoderError(f"'{name}' can't serve as a sentence encoder: it pools by {' and '.join(modes) or 'nothing'}"
                           f"; expected one of {', '.join(get_args(Pooling))}.")
    return modes[0]  # type: ignore[return-value]


def _wanted(config: Mapping[str, Any]) -> list[str]:
    """What a configuration asks for, in either form; in ours where we know it."""
    given = config.get("pooling_mode")
    if given is not None:
        names = [given] if isinstance(given, str) else given if isinstance(given, Sequence) else [given]
        return [_MODES.get(str(one), str(one)) for one in names]
    switches = {key: bool(value) for key, value in config.items() if key.startswith("pooling_mode_")}
    switches.setdefault("pooling_mode_mean_tokens", not switches)
    return list(dict.fromkeys(_SWITCHES.get(key, key) for key, on in switches.items() if on))


def pooled(states: Tensor, mask: Tensor, mode: Pooling) -> Tensor:
    """One vector of length one a row: (rows, length, size) and which tokens are no padding, special ones included."""
    kept = mask.bool()
    if mode == "mean":
        shares = mask[..., None].to(states.dtype)
        found = (states * shares).sum(dim=1) / shares.sum(dim=1)
    elif mode == "max":
        found = states.masked_fill(~kept[..., None], -torch.inf).amax(dim=1)
    else:
        places = torch.arange(mask.shape[1], device=mask.device)
        chosen = torch.where(kept, places, -1).amax(dim=1) if mode == "lasttoken" else kept.int().argmax(dim=1)
        found = states[torch.arange(len(states), device=states.device), chosen]
    return torch.nn.functional.normalize(found, dim=1)


def _read(path: Path, name: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise EncoderError(f"'{name}': {path} can't be read ({told_reason(error)}); copy the folder again.") from error
