# SPDX-License-Identifier: Apache-2.0
"""The optimiser, its rate as a function of the step, and on what device, in how much memory."""

import math
import sys
from collections.abc import Iterable

import torch
from torch import nn

from dualmask.options import TrainingOptions


def make_optimiser(network: nn.Module, settings: TrainingOptions) -> torch.optim.Optimizer:
    kind = torch.optim.AdamW if settings.optimiser == "adamw" else torch.optim.Adam
    spared = undecayed(network) if settings.decay == "weights" else set[str]()
    decayed = [parameter for name, parameter in network.named_parameters() if name not in spared]
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}]
    if spared:
        kept = [parameter for name, parameter in network.named_parameters() if name in spared]
        groups.append({"params": kept, "weight_decay": 0.0})
    return kind(groups, lr=settings.learning_rate, fused=True)


def undecayed(network: nn.Module) -> set[str]:
    """The names of biases, tables of them too, and of what normalising layers learn."""
    normalising = {name for name, module in network.named_modules() if "norm" in type(module).__name__.lower()}
    return {name for name, _ in network.named_parameters()
            if "bias" in name or name.rpartition(".")[0] in normalising}


def limit_gradients(parameters: Iterable[torch.nn.Parameter], settings: TrainingOptions) -> None:
    """Bound the gradients, or give all of them together one length: a gradient of zero stays."""
    chosen = list(parameters)
    if settings.clip == "norm":
        torch.nn.utils.clip_grad_norm_(chosen, settings.clip_at)
    elif settings.clip == "value":
        torch.nn.utils.clip_grad_value_(chosen, settings.clip_at)
    elif settings.clip == "unit":
        gradients = [weight.grad for weight in chosen if weight.grad is not None]
        length = torch.nn.utils.get_total_norm(gradients)
        torch._foreach_mul_(gradients, settings.clip_at / length.clamp(min=torch.finfo(length.dtype).tiny))


def learning_rate(step: float, total: int, settings: TrainingOptions) -> float:
    """The rate at a step, counted from 0: linear warm-up to the peak, then down to the final rate by the schedule."""
    peak, final = settings.learning_rate, settings.final_rate
    warm = settings.warmup if settings.warmup >= 1 else settings.warmup * total
    if step < warm:
        return peak * min(1.0, (step + 1) / math.ceil(warm))  # steps of a longer epoch are fractions of one
    if settings.schedule == "constant":
        return peak
    done = min(1.0, (step - warm) / max(1.0, total - warm))
    return final + (peak - final) * (1 - done if settings.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2)


def device_name(device: torch.device) -> str:
    """What was measured on: the GPU, or how much of the CPU."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    count = torch.get_num_threads()
    return f"CPU, {count} thread{'' if count == 1 else 's'}"


def forget_peak(device: torch.device) -> None:
    """Begin to measure anew; what a process took from its system can't be forgotten."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory(device: torch.device) -> float | None:
    """Megabytes that the GPU's tensors took at most since `forget_peak`; without a GPU, that this process ever did.

    None on a system that doesn't keep count.
    """
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**20, 1)
    try:
        import resource
    except ModuleNotFoundError:  # Windows, which counts by itself
        import psutil

        peak = getattr(psutil.Process().memory_info(), "peak_wset", None)
        return None if peak is None else round(peak / 2**20, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)
