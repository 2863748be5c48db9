"""What is measured of a run: training speed, decoding speed with the cache, the device's utilisation, peak memory."""

from __future__ import annotations

import contextlib
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from src.config import MeasurementConfig
from src.costs import cache_bytes
from src.model.cache import Cache
from src.model.gpt import GPT
from src.training.events import Phase
from src.training.runtime import Runtime
from src.training.stop import StopFlag

WARMUP_STEPS = 10
"""Steps after each start (first use of memory, kernel choice, compilation) that are not timed."""


def rate(count: float, seconds: float) -> float | None:
    """So many a second; None where no time passed (a clock may be coarse, or jump)."""
    return count / seconds if seconds > 0 else None


@dataclass
class Tally:
    """What was timed so far."""

    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0

    @property
    def tokens_per_second(self) -> float | None:
        return rate(self.tokens, self.seconds)


class Stopwatch:
    """Tokens over seconds, with warm-up, evaluation and saving left out of both.

    Counts tokens while it runs. The device is synchronised where time is read, and nowhere else.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        synchronise: Callable[[], None],
        total: Tally | None = None,
        warmup_steps: int = WARMUP_STEPS,
    ) -> None:
        self._clock, self._synchronise = clock, synchronise
        self._warmup_left = warmup_steps
        self._since: float | None = None
        self._steps = self._tokens = 0
        self.total, self.interval = total if total is not None else Tally(), Tally()

    def start(self) -> None:
        """Time counts from now."""
        self._synchronise()
        self._since = self._clock()

    def step(self, tokens: int) -> None:
        """One step of so many tokens was asked of the device."""
        if self._warmup_left:
            self._warmup_left -= 1
            if not self._warmup_left:
                self.start()
            return
        self._steps += 1
        self._tokens += tokens

    def lap(self) -> None:
        """Adds what ran since the last reading to the tallies."""
        if self._since is None or not self._steps:
            return
        self._synchronise()
        now = self._clock()
        for tally in (self.total, self.interval):
            tally.steps += self._steps
            tally.tokens += self._tokens
            tally.seconds += now - self._since
        self._since, self._steps, self._tokens = now, 0, 0

    def stop(self) -> None:
        """Time does not count until the next start."""
        self.lap()
        self._since = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Time does not count inside. After an error it stays stopped."""
        self.stop()
        yield
        self.start()

    def take_interval(self) -> Tally:
        """The tally since the last call."""
        self.lap()
        taken, self.interval = self.interval, Tally()
        return taken


def measure_decoding(
    model: GPT,
    runtime: Runtime,
    measurement: MeasurementConfig,
    clock: Callable[[], float],
    stop: StopFlag,
    results: dict[str, float | int | None],
) -> Iterator[Phase]:
    """Fills `results` with cache bytes and the median prefill and decode speed at batch 1 and a full context.

    One unmeasured round goes first. Raises RuntimeError where the allocated cache is not what `src.costs` says.
    """
    cache = checked_cache(model, 1, runtime)
    context = model.geometry.context_length
    results["cache/bytes"] = cache.bytes
    results["cache/bytes_per_token"] = cache.bytes // context
    decoded = min(measurement.decode_tokens, context // 2)
    if decoded == 0:
        return
    prefills, decodes = [], []
    for done in range(measurement.repeats + 1):
        stop.check()
        yield Phase("measuring", done, measurement.repeats + 1)
        prefill, decode = time_decoding(model, cache, 1, decoded, runtime, clock)
        if done:
            prefills.append(prefill)
            decodes.append(decode)
    per_token = statistics.median(decodes)
    results["decode/prefill_tokens_per_second"] = rate(context - decoded, statistics.median(prefills))
    results["decode/tokens_per_second"] = rate(1, per_token)
    results["decode/ms_per_token"] = 1000 * per_token


def checked_cache(model: GPT, batch: int, runtime: Runtime) -> Cache:
    """An empty cache of a whole context. Raises RuntimeError where its bytes are not what `src.costs` says."""
    cache = model.make_cache(batch, dtype=runtime.torch_dtype)
    expected = cache_bytes(model.geometry, batch, model.geometry.context_length, runtime.dtype)
    if cache.bytes != expected:
        raise RuntimeError(f"the cache holds {cache.bytes} bytes; src/costs.py says {expected}")
    return cache


@torch.inference_mode()
def time_decoding(
    model: GPT, cache: Cache, batch: int, decoded: int, runtime: Runtime, clock: Callable[[], float]
) -> tuple[float, float]:
    """Seconds to read all but the last `decoded` tokens of a full context, and seconds a token of decoding those."""
    context = model.geometry.context_length
    tokens = (torch.arange(context, device=runtime.device) % model.vocabulary_size).repeat(batch, 1)  # B S
    cache.length = 0
    # `forward` itself: a model compiled for training is measured as it decodes, not as it compiles.
    with runtime.autocast():
        runtime.synchronise()
        began = clock()
        model.forward(tokens[:, : context - decoded], cache)
        runtime.synchronise()
        filled = clock()
        for place in range(context - decoded, context):
            model.forward(tokens[:, place : place + 1], cache)
        runtime.synchronise()
        ended = clock()
    return filled - began, (ended - filled) / decoded


PEAK_FLOPS = {
    # Dense, by dtype, from the makers' data sheets. A device that is not here has no utilisation.
    ("V100", "float16"): 125e12,
    ("A100", "bfloat16"): 312e12,
    ("A100", "float16"): 312e12,
    ("H100", "bfloat16"): 989e12,
    ("H100", "float16"): 989e12,
    ("H200", "bfloat16"): 989e12,
    ("H200", "float16"): 989e12,
}


def utilisation(
    tokens_per_second: float | None, flops_per_token: int, device: str, dtype: str
) -> tuple[float | None, str | None]:
    """The share of the device's peak that training used, or None and the reason.

    >>> utilisation(1000.0, 10, "Some CPU", "float32")
    (None, 'the peak of Some CPU in float32 is not known')
    """
    known = [peak for (name, kind), peak in PEAK_FLOPS.items() if name in device and kind == dtype]
    if not known:
        return None, f"the peak of {device} in {dtype} is not known"
    if tokens_per_second is None:
        return None, "no step was timed"
    share = tokens_per_second * flops_per_token / known[0]
    return share, "more than the device can do: the measurement or the peak is wrong" if share > 1 else None


def reset_peak_memory(device: torch.device) -> None:
    """Starts the peak anew, so that a job of a shared process does not inherit its predecessor's."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif sys.platform == "linux":
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")


def peak_memory_bytes(device: torch.device) -> int | None:
    """On CUDA the most that was allocated on the device; on the CPU the most that the process held in memory."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    with contextlib.suppress(OSError):
        match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        if match:
            return int(match[1]) * 1024
    with contextlib.suppress(ImportError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return None
