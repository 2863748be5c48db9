"""What a model keeps of past tokens while it decodes. Its bytes are those of `src.costs`, by test and at run time."""

import torch
from jaxtyping import Float
from torch import Tensor

from src.geometry import Geometry


class Cache:
    """Room for `capacity` tokens of `batch` sequences in every layer; `length` of them are filled.

    `append(layer, ...)` stores new positions after the filled ones and gives what attention reads, all S so far;
    `length` moves when the whole model is through. Raises ValueError where no room is left.
    """

    def __init__(self, capacity: int, storage: list[Tensor]) -> None:
        self.capacity, self.length = capacity, 0
        self._storage = storage

    @property
    def bytes(self) -> int:
        """Bytes of the storage that was allocated, filled or not."""
        return sum(tensor.untyped_storage().nbytes() for tensor in self._storage)

    def _room(self, new: int) -> slice:
        """Where so many new positions go."""
        end = self.length + new
        if end > self.capacity:
            raise ValueError(f"the cache holds {self.capacity} positions; {end} do not fit")
        return slice(self.length, end)


class KVCache(Cache):
    """Keys and values of grouped attention, one of each a kv-head."""

    def __init__(
        self, geometry: Geometry, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str
    ) -> None:
        shape = (geometry.layers, batch, geometry.kv_heads, capacity, geometry.head_dim)
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        super().__init__(capacity, [self.keys, self.values])

    def append(
        self, layer: int, key: Float[Tensor, "B K T D"], value: Float[Tensor, "B K T D"]
    ) -> tuple[Float[Tensor, "B K S D"], Float[Tensor, "B K S D"]]:
        """Gives views, no copies."""
        new = self._room(key.shape[2])
        self.keys[layer, :, :, new] = key
        self.values[layer, :, :, new] = value
        return self.keys[layer, :, :, : new.stop], self.values[layer, :, :, : new.stop]


class LatentCache(Cache):
    """Of latent attention only the latent and the shared rotary key, side by side: R + P numbers a token."""

    def __init__(
        self, geometry: Geometry, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str
    ) -> None:
        shape = (geometry.layers, batch, capacity, geometry.latent_dim + geometry.rope_dim)
        self.latents = torch.zeros(shape, dtype=dtype, device=device)
        super().__init__(capacity, [self.latents])

    def append(self, layer: int, latent: Float[Tensor, "B T RP"]) -> Float[Tensor, "B S RP"]:
        """Gives a view, no copy."""
        new = self._room(latent.shape[1])
        self.latents[layer, :, new] = latent
        return self.latents[layer, :, : new.stop]


def make_cache(
    geometry: Geometry, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str = "cpu"
) -> Cache:
    """An empty cache of the kind that this geometry's attention fills."""
    _, cache_class = geometry.kind.modules()
    return cache_class(geometry, batch, capacity, dtype, device)
