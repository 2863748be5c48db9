"""What fits a device: weights, the KV cache, and an allowance that is kept free. Bytes come from `src.costs`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from src import costs
from src.errors import ConfigError
from src.geometry import Geometry

CACHE_DTYPES = {"fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn", "fp32": "float32"}
"""The dtypes of a cache as they are written on a command line, and as `src.costs` names them."""
WEIGHT_DTYPE = "bfloat16"
ALLOWANCE = 10
"""One part in so many of the device is kept free: activations, the kernels' buffers, fragments. A rule of thumb."""
TRAINING_BYTES = 16
"""Bytes a parameter while it is trained in float32 with AdamW: the weight, its gradient and two moments."""

_BYTES = {"b": 1} | {f"{letter}ib": 2 ** (10 * power) for power, letter in enumerate("kmgt", start=1)}
_BYTES |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", start=1)}
_COUNTS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_TOKENS = {"": 1, "k": 2**10, "m": 2**20}
_NUMBER = re.compile(r"^(?P<number>\d{1,15}(?:\.\d{1,9})?(?:e\d{1,2})?)\s*(?P<unit>[a-z]*)$", re.IGNORECASE)
_ENDLESS = 2**40


@dataclass(frozen=True)
class Device:
    """Memory of one device, or of several that share a model evenly."""

    memory: int

    @property
    def usable(self) -> int:
        """Bytes for weights and cache: what the allowance leaves."""
        return self.memory - self.memory // ALLOWANCE

    def fits(self, load: Load) -> bool:
        return load.total <= self.usable

    def largest_context(self, load: Load) -> int | None:
        """The most tokens a sequence of this batch may have; 0 where the weights alone fill it, None without end."""
        return self._largest(load, lambda tokens: costs.cache_bytes(load.geometry, load.batch, tokens, load.dtype))

    def largest_batch(self, load: Load) -> int | None:
        """The most sequences of this context."""
        return self._largest(load, lambda batch: costs.cache_bytes(load.geometry, batch, load.context, load.dtype))

    def _largest(self, load: Load, cache_bytes: Callable[[int], int]) -> int | None:
        room = self.usable - load.weights
        if cache_bytes(1) > room:
            return 0
        fits, too_many = 1, 2
        while cache_bytes(too_many) <= room:
            fits, too_many = too_many, 2 * too_many
            if too_many > _ENDLESS:
                return None
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            fits, too_many = (middle, too_many) if cache_bytes(middle) <= room else (fits, middle)
        return fits


@dataclass(frozen=True)
class Load:
    """What a model that is served keeps in memory: its weights, and the cache of `batch` sequences."""

    geometry: Geometry
    vocabulary_size: int
    context: int
    batch: int
    dtype: str
    """Of the cache, as `src.costs` names it."""

    @property
    def weights(self) -> int:
        return costs.parameters(self.geometry, self.vocabulary_size) * costs.BYTES[WEIGHT_DTYPE]

    @property
    def cache(self) -> int:
        return costs.cache_bytes(self.geometry, self.batch, self.context, self.dtype)

    @property
    def total(self) -> int:
        return self.weights + self.cache


def parse_bytes(text: str, option: str) -> int:
    """Bytes as people write them: 24GiB, 80GB, 512 MiB. Raises ConfigError for anything else, and for nothing.

    >>> parse_bytes("24GiB", "--memory"), parse_bytes("80 GB", "--memory")
    (25769803776, 80000000000)
    """
    return _parse(text, option, _BYTES, "an amount of memory with its unit above 0, such as 24GiB or 80GB")


def parse_count(text: str, option: str) -> int:
    """A count of parameters: 1B, 350M, 7e9. Raises ConfigError for anything else, and for nothing.

    >>> parse_count("1.5B", "--parameters"), parse_count("7e9", "--parameters")
    (1500000000, 7000000000)
    """
    return _parse(text, option, _COUNTS, "a count above 0 with K, M, B or T, such as 350M or 1B")


def parse_tokens(text: str, option: str) -> int:
    """A count of tokens; K is 1,024. Raises ConfigError for anything else, and for nothing.

    >>> parse_tokens("32K", "--context"), parse_tokens("2048", "--context")
    (32768, 2048)
    """
    return _parse(text, option, _TOKENS, "a whole number of tokens above 0, such as 32768 or 32K")


def parse_whole(text: str, option: str) -> int:
    """A whole number above 0. Raises ConfigError for anything else."""
    return _parse(text, option, {"": 1}, "a whole number above 0")


def parse_dtype(text: str, option: str) -> str:
    """The dtype of a cache, as `src.costs` names it. Raises ConfigError for one that is not known."""
    if text not in CACHE_DTYPES:
        raise ConfigError(f"{option} {text}: it should be one of {', '.join(CACHE_DTYPES)}")
    return CACHE_DTYPES[text]


def _parse(text: str, option: str, units: dict[str, int], rule: str) -> int:
    match = _NUMBER.match(text.strip())
    unit = match["unit"].lower() if match else None
    if match is None or unit not in units:
        raise ConfigError(f"{option} {text}: it should be {rule}")
    value = float(match["number"]) * units[unit]
    whole = int(match["number"]) * units[unit] if match["number"].isdigit() else round(value)
    if whole < 1 or abs(whole - value) > 1e-6 * value:
        raise ConfigError(f"{option} {text}: it should be {rule}")
    return whole
