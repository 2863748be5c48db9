"""Two things timed in the same minute: on a shared machine only their ratio means anything."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def interleaved(
    first: Callable[[], object], second: Callable[[], object], rounds: int, calls: int
) -> tuple[float, float]:
    """Median seconds of one call of each, measured turn by turn after one unmeasured turn each."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for kept, call in zip(seconds, (first, second), strict=True):
            began = time.perf_counter()
            for _ in range(calls):
                call()
            if number:
                kept.append((time.perf_counter() - began) / calls)
    return statistics.median(seconds[0]), statistics.median(seconds[1])
