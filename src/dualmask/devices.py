# SPDX-License-Identifier: Apache-2.0
"""Where networks run: the first GPU that there is, unless a device was chosen for all that a run loads."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from dualmask.errors import OptionError

CHOSEN = "ACCELERATE_TORCH_DEVICE"  # the variable by which training's library, and processes of ours, know it too
DEVICE = re.compile(r"cpu|mps|cuda(:\d+)?")
AUTO = "auto"


def default_device() -> str:
    """The chosen device; else a GPU where there is one."""
    import torch

    return os.environ.get(CHOSEN) or ("cuda" if torch.cuda.is_available() else "cpu")


def check_device(name: str | None) -> str | None:
    """The device by its name, None for any; refused before anything is loaded if this machine lacks it."""
    if name is None or (plain := name.strip().lower()) == AUTO:
        return None
    if not DEVICE.fullmatch(plain):
        raise OptionError(f"device '{name}' is unknown; choose cpu, cuda (a GPU), cuda:1 (the second of them) or auto.")
    if plain == "cpu":
        return plain
    import torch

    if plain == "mps" and torch.backends.mps.is_available():  # of Macs
        return plain
    if plain == "mps" or not torch.cuda.is_available():
        why = "this installation of PyTorch is for CPUs only" if torch.version.cuda is None else "PyTorch finds no GPU"
        raise OptionError(f"device '{name}' was asked for, but {why}; leave it out, or take --device cpu.")
    count, number = torch.cuda.device_count(), int(plain.partition(":")[2] or 0)
    if number >= count:
        raise OptionError(f"device '{name}' was asked for, but this machine has {count:,} of them: choose from cuda:0 "
                          f"to cuda:{count - 1}.")
    return plain


@contextmanager
def device_chosen(name: str | None) -> Iterator[None]:
    """All networks that are loaded or trained meanwhile are on this device, also those of processes started here."""
    chosen = check_device(name)
    if chosen is None:
        yield
        return
    before = os.environ.get(CHOSEN)
    with ExitStack() as stack:
        if ":" in chosen:  # libraries that ask for any GPU get this one
            import torch

            stack.enter_context(torch.cuda.device(chosen))
        os.environ[CHOSEN] = chosen
        forget_other_device(chosen)
        try:
            yield
        finally:
            if before is None:
                del os.environ[CHOSEN]
            else:
                os.environ[CHOSEN] = before
            forget_other_device(before or "")


def check_one_device(processes: int) -> None:
    """Processes that train together have a GPU each; one that was chosen for all of them would be none's own."""
    if processes > 1 and os.environ.get(CHOSEN, "cpu") != "cpu":
        raise OptionError(f"device '{os.environ[CHOSEN]}' was chosen for {processes:,} processes that train together, "
                          "each on a GPU of its own; leave --device (device) out.")


def forget_other_device(wanted: str) -> None:
    """Training's library remembers for a whole process what device it found first."""
    state = sys.modules.get("accelerate.state")
    if state is None or not state.PartialState._shared_state:
        return
    found = state.PartialState()
    if found.num_processes == 1 and str(found.device) != wanted:
        state.AcceleratorState._reset_state(reset_partial_state=True)
