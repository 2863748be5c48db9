"""What a number is called, in what unit, and which way is better. Declared once; sinks refuse all others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from src.errors import did_you_mean


@dataclass(frozen=True)
class Metric:
    """One declared number. `unit` is the base unit that is stored; `shown` says how people read it."""

    name: str
    unit: str
    better: Literal["lower", "higher", "neither"]
    meaning: str


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
    Metric("cache/bytes", "bytes", "lower", "KV cache allocated for one sequence of context_length tokens"),
    Metric("cache/bytes_per_token", "bytes/token", "lower", "KV cache of one token over all layers"),
    Metric("decode/prefill_tokens_per_second", "tokens/s", "higher", "prompt tokens read into the cache a second"),
    Metric("decode/tokens_per_second", "tokens/s", "higher", "tokens produced one by one with the cache"),
    Metric("decode/ms_per_token", "ms/token", "lower", "time of one produced token with the cache"),
    Metric("memory/peak_bytes", "bytes", "lower", "peak memory: of the device on CUDA, of the process on CPU"),
    Metric("heads/entropy", "1", "neither", "entropy of a head's attention over a uniform head's, mean over heads"),
    Metric("heads/entropy_spread", "1", "neither", "standard deviation of heads' entropy within a layer"),
    Metric("heads/previous_token_max", "1", "neither", "highest previous-token score of a head"),
    Metric("heads/induction_max", "1", "neither", "highest induction score of a head"),
    Metric("heads/pattern_similarity", "1", "neither", "mean similarity of two heads' attention within a layer"),
    Metric("heads/output_similarity", "1", "neither", "mean similarity of two heads' outputs within a layer"),
    Metric("heads/qk_rank", "1", "neither", "effective rank of a head's QK circuit over its width, mean over heads"),
    Metric("heads/ov_rank", "1", "neither", "effective rank of a head's OV circuit over its width, mean over heads"),
    Metric("heads/with_role", "1", "neither", "share of heads with a role, against random weights"),
    Metric("heads/ablatable", "1", "neither", "share of heads whose ablation, one at a time, costs under 0.001"),
    Metric("cost/parameters", "1", "neither", "parameters, shared matrices counted once"),
    Metric("cost/attention_parameters", "1", "neither", "parameters of the attention layers"),
    Metric("cost/flops_per_token", "FLOPs/token", "lower", "training FLOPs of one token, forward and backward"),
)

METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _ALL}
_OF_A_LAYER = re.compile(r"^heads/layer_\d+/")


def declared(name: str) -> Metric | None:
    """The declaration of a number; that of a layer's heads is the model's. None where there is none.

    >>> declared("heads/layer_3/entropy") is declared("heads/entropy"), declared("heads/layer_3/mood")
    (True, None)
    """
    return METRICS.get(_OF_A_LAYER.sub("heads/", name))


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
        if declared(name) is None:
            raise KeyError(f"metric {name!r} is not declared in src/metrics.py{did_you_mean(name, METRICS)}")


# How people read a stored number: 1,234,567, 256 KiB, 3.1 ms. Base units are stored, these are shown.
MISSING = "–"  # noqa: RUF001


def shown(name: str, value: float | int | None) -> str:
    """A metric's value with its unit, as a table cell; a missing value is a dash, never 0.

    >>> shown("cache/bytes", 262144), shown("decode/ms_per_token", 3.14159), shown("cost/parameters", 804096)
    ('256 KiB', '3.1 ms/token', '804,096')
    >>> shown("val/loss", 1.88123), shown("train/tokens_per_second", 18300.4), shown("val/loss", None)
    ('1.8812', '18,300 tokens/s', '–')
    """
    unit = METRICS[name].unit
    if value is None:
        return MISSING
    if unit == "bytes":
        return bytes_shown(int(value))
    if unit == "tokens/s":
        return f"{value:,.0f} {unit}"
    if unit == "ms/token":
        return f"{value:,.1f} {unit}" if value >= 1 else f"{value:.2g} {unit}"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}" if name == "val/perplexity" else f"{value:,.4f}"


def bytes_shown(count: float, digits: int | None = None) -> str:
    """Bytes in KiB, MiB or GiB: exact where they come out even, else with one decimal; or in so many digits.

    >>> bytes_shown(512), bytes_shown(65536), bytes_shown(1_000_000), bytes_shown(3 * 2**30 // 2)
    ('512 B', '64 KiB', '976.6 KiB', '1.5 GiB')
    >>> bytes_shown(327680, digits=3), bytes_shown(1_020_000, digits=3), bytes_shown(1_047_000, digits=3)
    ('320 KiB', '996 KiB', '0.998 MiB')
    """
    if digits is not None:
        number, unit = _scaled(count, 1024, ("B", "KiB", "MiB", "GiB", "TiB"), digits)
        return f"{number} {unit}"
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count // size:,.0f} {unit}" if count % size == 0 else f"{count / size:,.1f} {unit}"
    return f"{count:.3g} B"


def count_shown(count: float, digits: int = 3) -> str:
    """So many digits and a power of ten.

    >>> count_shown(804096), count_shown(124439808), count_shown(512)
    ('804K', '124M', '512')
    """
    return "".join(_scaled(count, 1000, ("", "K", "M", "G", "T", "P"), digits))


def _scaled(count: float, base: int, units: Sequence[str], digits: int) -> tuple[str, str]:
    # The next unit begins where rounding would reach 1,000: three digits never hold 1.02e+03.
    value, power = float(count), 0
    while abs(value) >= 999.5 and power < len(units) - 1:
        value, power = value / base, power + 1
    return f"{value:.{digits}g}", units[power]


def duration_shown(seconds: float) -> str:
    """Whole seconds as m:ss or h:mm:ss.

    >>> duration_shown(98.2), duration_shown(3725)
    ('1:38', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
