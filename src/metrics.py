"""What a number is called, in what unit, and which way is better. Declared once; sinks refuse all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from src.errors import did_you_mean


@dataclass(frozen=True)
class Metric:
    """One declared number. `unit` is the base unit that is stored; `shown` how people read it."""

    name: str
    unit: str
    better: Literal["lower", "higher", "neither"]
    meaning: str
    shown: str = ""


_ALL = (
    Metric("train/loss", "nats/token", "lower", "mean cross-entropy over the batch of this step"),
    Metric("train/learning_rate", "1", "neither", "learning rate of this step"),
    Metric("train/grad_norm", "1", "neither", "norm of all gradients before clipping"),
    Metric("train/tokens_per_second", "tokens/s", "higher", "training speed; evaluation, warm-up and saving left out"),
    Metric("train/tokens", "tokens", "neither", "tokens trained on so far"),
    Metric("train/timed_steps", "steps", "neither", "steps that the training speed was taken from"),
    Metric("train/timed_seconds", "s", "neither", "seconds that the training speed was taken from"),
    Metric("train/mfu", "1", "higher", "share of the device's peak FLOPs that training used"),
    Metric("val/loss", "nats/token", "lower", "cross-entropy over the whole validation split, token-weighted"),
    Metric("val/perplexity", "1", "lower", "exp of val/loss"),
    Metric("val/bits_per_token", "bits/token", "lower", "val/loss in bits"),
    Metric("val/bits_per_byte", "bits/byte", "lower", "val/loss in bits a byte of text, alike for all vocabularies"),
    Metric(
        "val/loss_optimum", "nats/token", "neither", "least val/loss that any model can expect, where that is known"
    ),
    Metric("val/accuracy", "1", "higher", "share of answers that are right, on tasks that have answers"),
    Metric("val/tokens", "tokens", "neither", "predictions that val/loss is the mean of"),
    Metric("val/loss_best", "nats/token", "lower", "lowest val/loss of the run"),
    Metric("val/loss_best_step", "steps", "neither", "step at which val/loss was lowest"),
    Metric("cache/bytes", "bytes", "lower", "KV cache allocated for one sequence of context_length tokens", "KiB"),
    Metric("cache/bytes_per_token", "bytes/token", "lower", "KV cache of one token over all layers"),
    Metric("decode/prefill_tokens_per_second", "tokens/s", "higher", "prompt tokens read into the cache a second"),
    Metric("decode/tokens_per_second", "tokens/s", "higher", "tokens produced one by one with the cache"),
    Metric("decode/ms_per_token", "ms/token", "lower", "time of one produced token with the cache"),
    Metric("memory/peak_bytes", "bytes", "lower", "peak memory: of the device on CUDA, of the process on CPU", "MiB"),
    Metric("cost/parameters", "1", "neither", "parameters, shared matrices counted once"),
    Metric("cost/attention_parameters", "1", "neither", "parameters of the attention layers"),
    Metric("cost/flops_per_token", "FLOPs/token", "lower", "training FLOPs of one token, forward and backward"),
)

METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _ALL}


def unit_of(name: str, *, of_vectors: bool) -> str:
    """The unit of a number: where data holds vectors instead of tokens, a loss is a squared distance.

    >>> unit_of("val/loss", of_vectors=False), unit_of("val/loss", of_vectors=True)
    ('nats/token', 'squared distance')
    """
    unit = METRICS[name].unit
    return "squared distance" if of_vectors and unit == "nats/token" else unit


def check_names(row: Mapping[str, object]) -> None:
    """Raises KeyError for a number that was never declared: a name nobody can look up is a bug."""
    for name in row:
        if name not in METRICS:
            raise KeyError(f"metric {name!r} is not declared in src/metrics.py{did_you_mean(name, METRICS)}")
