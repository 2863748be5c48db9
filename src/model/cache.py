"""What a model keeps of past tokens while it decodes. Its bytes are those of `src.costs`, by test and at run time."""

from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from src.geometry import Geometry


class Cache(Protocol):
    """Room for `positions` tokens of `batch` sequences in every layer; `length` of them are filled."""

    length: int
    positions: int

    @property
    def bytes(self) -> int: ...


class KVCache:
    """Keys and values of grouped attention, one of each a kv-head."""

    def __init__(
        self, geometry: Geometry, batch: int, positions: int, dtype: torch.dtype, device: torch.device | str
    ) -> None:
        shape = (geometry.layers, batch, geometry.kv_heads, positions, geometry.head_dim)
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self.length = 0
        self.positions = positions

    def append(
        self, layer: int, key: Float[Tensor, "B K T D"], value: Float[Tensor, "B K T D"]
    ) -> tuple[Float[Tensor, "B K S D"], Float[Tensor, "B K S D"]]:
        """Stores new positions after the filled ones; gives views of all S so far. `length` moves a whole model later."""
        start, end = self.length, self.length + key.shape[2]
        check_room(self, end)
        self.keys[layer, :, :, start:end] = key
        self.values[layer, :, :, start:end] = value
        return self.keys[layer, :, :, :end], self.values[layer, :, :, :end]

    @property
    def bytes(self) -> int:
        """Bytes of the storage that was allocated, filled or not."""
        return self.keys.untyped_storage().nbytes() + self.values.untyped_storage().nbytes()


def check_room(cache: Cache, end: int) -> None:
    if end > cache.positions:
        raise ValueError(f"the cache holds {cache.positions} positions; {end} do not fit")


def make_cache(
    geometry: Geometry, batch: int, positions: int, dtype: torch.dtype, device: torch.device | str = "cpu"
) -> KVCache:
    """An empty cache of the kind that this geometry's attention fills."""
    return KVCache(geometry, batch, positions, dtype, device)
