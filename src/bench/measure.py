"""What is measured: one model and one way to decode it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from src.config import Config
from src.costs import cache_bytes, decode_bytes_read_per_token, naive_decode_attention_bytes
from src.geometry import Geometry
from src.model.gpt import GPT
from src.model.init import initialise
from src.model.kernel_report import kernel_report
from src.training.measure import checked_cache, time_decoding
from src.training.runtime import Runtime

OURS, NAIVE = "ours", "naive repeat"


@dataclass(frozen=True)
class Arm:
    """A model with random weights, ready to decode `batch` sequences. `way` is OURS or NAIVE."""

    geometry: Geometry
    model: GPT
    runtime: Runtime
    vocabulary_size: int
    batch: int
    way: str
    kernel: str
    prefill_kernel: str

    @property
    def cache_bytes(self) -> int:
        """Bytes allocated for the whole batch and context."""
        return cache_bytes(self.geometry, self.batch, self.geometry.context_length, self.runtime.dtype)

    @property
    def bytes_read_per_step(self) -> int:
        """Bytes that one decoding step moves at least: the weights once, and each sequence's cache.

        Naive code also writes every key and value once a query head, and reads the copies.
        """
        g, dtype = self.geometry, self.runtime.dtype
        least = decode_bytes_read_per_token(g, self.vocabulary_size, self.batch, g.context_length, dtype)
        if self.way == OURS:
            return least
        own_cache = cache_bytes(g, self.batch, g.context_length, dtype)
        return least - own_cache + naive_decode_attention_bytes(g, self.batch, g.context_length, dtype)


def make_arms(
    configs: Sequence[Config], runtime: Runtime, vocabulary_size: int, batches: Sequence[int]
) -> Iterator[Arm]:
    """Every configuration at every batch, our way; shared kv-heads also as naive code repeats them."""
    for config in configs:
        geometry = Geometry.of(config)
        ways = [(OURS, config.attention_kernel)]
        if geometry.kv_heads < geometry.heads and config.attention_kernel == "auto":
            ways.append((NAIVE, "repeat"))
        for batch in batches:
            for way, kernel in ways:
                yield _arm(geometry, config, runtime, vocabulary_size, batch, way, kernel)


def _arm(
    geometry: Geometry, config: Config, runtime: Runtime, vocabulary_size: int, batch: int, way: str, kernel: str
) -> Arm:
    with torch.random.fork_rng(devices=[]):
        model = GPT(geometry, vocabulary_size, kernel=kernel)
        initialise(model, config.model.init, config.seed)
        model = model.to(runtime.device, runtime.weight_dtype).eval()
        # Without a trace of how long the context is: what decides the kernel are widths, dtype and device.
        report = kernel_report(_short(model), runtime.torch_dtype)
    return Arm(geometry, model, runtime, vocabulary_size, batch, way, report["decode"], report["prefill"])


def _short(model: GPT) -> GPT:
    short = replace(model.geometry, context_length=min(model.geometry.context_length, 64))
    attention = model.blocks[0].attention
    return GPT(short, 8, kernel=attention.kernel).to(model.tokens.weight.device)  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue]


# How fast this device reads memory: the bound that decoding runs against.
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


# Times of all arms, turn by turn: on a shared machine only what ran in the same minute compares.
@dataclass(frozen=True)
class Row:
    """What was measured of one arm: medians over rounds, and the spread of the decode time (min, max)."""

    attention: str
    heads: int
    kv_heads: int
    head_dim: int
    latent_dim: int
    rope_dim: int
    context_length: int
    batch: int
    way: str
    kernel: str
    prefill_kernel: str
    device: str
    dtype: str
    threads: int
    prefill_tokens: int
    prefill_tokens_per_second: float
    decoded_tokens: int
    decode_ms_per_token: float
    decode_ms_min: float
    decode_ms_max: float
    decode_tokens_per_second: float
    cache_bytes: int
    bytes_read_per_step: int
    bandwidth_share: float
    rounds: int

    @property
    def is_naive(self) -> bool:
        return self.way == NAIVE

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(
    arms: Sequence[Arm],
    *,
    decode_tokens: int,
    rounds: int,
    bandwidth: float,
    clock: Callable[[], float],
    tick: Callable[[str], None],
) -> list[Row]:
    """One row an arm. The first round is not counted; `tick` hears of each turn, for a progress bar.

    A step decodes one token of each sequence: ms a token is the time of a step, tokens a second count the batch.
    """
    prefills: list[list[float]] = [[] for _ in arms]
    decodes: list[list[float]] = [[] for _ in arms]
    for number in range(rounds + 1):
        for arm, prefill_seconds, decode_seconds in zip(arms, prefills, decodes, strict=True):
            tick(f"heads={arm.geometry.heads} kv_heads={arm.geometry.kv_heads} {arm.way}")
            cache, decoded = checked_cache(arm.model, arm.batch, arm.runtime), decoded_of(arm, decode_tokens)
            prefill, decode = time_decoding(arm.model, cache, arm.batch, decoded, arm.runtime, clock)
            if number:
                prefill_seconds.append(prefill)
                decode_seconds.append(decode)
    return [
        _row(arm, decoded_of(arm, decode_tokens), prefill, decode, bandwidth)
        for arm, prefill, decode in zip(arms, prefills, decodes, strict=True)
    ]


def decoded_of(arm: Arm, decode_tokens: int) -> int:
    """Tokens decoded at the end of the context; at most half of it."""
    return max(1, min(decode_tokens, arm.geometry.context_length // 2))


def _row(arm: Arm, decoded: int, prefill: list[float], decode: list[float], bandwidth: float) -> Row:
    g, runtime = arm.geometry, arm.runtime
    per_step, prompt = statistics.median(decode), g.context_length - decoded
    return Row(
        attention=g.attention,
        heads=g.heads,
        kv_heads=g.kv_heads,
        head_dim=g.head_dim,
        latent_dim=g.latent_dim,
        rope_dim=g.rope_dim,
        context_length=g.context_length,
        batch=arm.batch,
        way=arm.way,
        kernel=arm.kernel,
        prefill_kernel=arm.prefill_kernel,
        device=runtime.as_dict()["device_name"],
        dtype=runtime.dtype,
        threads=runtime.threads,
        prefill_tokens=prompt,
        prefill_tokens_per_second=arm.batch * prompt / statistics.median(prefill),
        decoded_tokens=decoded,
        decode_ms_per_token=1000 * per_step,
        decode_ms_min=1000 * min(decode),
        decode_ms_max=1000 * max(decode),
        decode_tokens_per_second=arm.batch / per_step,
        cache_bytes=arm.cache_bytes,
        bytes_read_per_step=arm.bytes_read_per_step,
        bandwidth_share=arm.bytes_read_per_step / per_step / bandwidth,
        rounds=len(decode),
    )
