"""Times of all arms, turn by turn: on a shared machine only what ran in the same minute compares."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from src.bench.arms import NAIVE, Arm


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
            prefill, decode = one_turn(arm, decoded_of(arm, decode_tokens), clock)
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


@torch.inference_mode()
def one_turn(arm: Arm, decoded: int, clock: Callable[[], float]) -> tuple[float, float]:
    """Seconds to read all but the last `decoded` tokens, and seconds a token of decoding those."""
    context, runtime = arm.geometry.context_length, arm.runtime
    tokens = (torch.arange(context, device=runtime.device) % arm.vocabulary_size).repeat(arm.batch, 1)
    cache = arm.model.make_cache(arm.batch, dtype=runtime.torch_dtype)
    if cache.bytes != arm.cache_bytes:
        raise RuntimeError(f"the cache holds {cache.bytes} bytes; src/costs.py says {arm.cache_bytes}")
    with runtime.autocast():
        runtime.synchronise()
        began = clock()
        arm.model(tokens[:, : context - decoded], cache)
        runtime.synchronise()
        filled = clock()
        for place in range(context - decoded, context):
            arm.model(tokens[:, place : place + 1], cache)
        runtime.synchronise()
        ended = clock()
    return filled - began, (ended - filled) / decoded


def _row(arm: Arm, decoded: int, prefill: list[float], decode: list[float], bandwidth: float) -> Row:
    g, runtime = arm.geometry, arm.runtime
    a_step, prompt = statistics.median(decode), g.context_length - decoded
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
        decode_ms_per_token=1000 * a_step,
        decode_ms_min=1000 * min(decode),
        decode_ms_max=1000 * max(decode),
        decode_tokens_per_second=arm.batch / a_step,
        cache_bytes=arm.cache_bytes,
        bytes_read_per_step=arm.bytes_read_per_step,
        bandwidth_share=arm.bytes_read_per_step / a_step / bandwidth,
        rounds=len(decode),
    )
