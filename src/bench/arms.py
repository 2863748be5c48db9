"""What is measured: one model and one way to decode it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from src.config import Config
from src.costs import cache_bytes, decode_bytes_read_per_token, naive_decode_attention_bytes
from src.geometry import Geometry
from src.model.gpt import GPT
from src.model.initialise import initialise
from src.model.kernel_report import kernel_report
from src.training.device import Runtime

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
