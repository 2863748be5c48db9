"""How fast this device reads memory: the bound that decoding runs against."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch

from src.training.device import Runtime


def read_bandwidth(runtime: Runtime, clock: Callable[[], float], megabytes: int = 256, rounds: int = 5) -> float:
    """Bytes a second that a sum over a block larger than the caches reads; the best of some rounds."""
    block = torch.ones(megabytes * 2**20 // 4, dtype=torch.float32, device=runtime.device)
    seconds = []
    for _ in range(rounds + 1):
        runtime.synchronise()
        began = clock()
        block.sum()
        runtime.synchronise()
        seconds.append(clock() - began)
    return block.numel() * 4 / max(min(seconds[1:]), statistics.median(seconds[1:]) / 10)
