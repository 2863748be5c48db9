"""What a model keeps of past tokens while it decodes. Its bytes are those of `src.costs`, by test and at run time."""

import torch
from jaxtyping import Float
from torch import Tensor

from src.geometry import Geometry


class Cache:
    """Room for `capacity` tokens of `batch` sequences in every layer; `length` of them are filled.

    Each kind's own `append(layer, ...)` stores new positions after the filled ones and gives what attention reads,
    all S so far; `length` moves when the whole model is through.
    """

    def __init__(
        self, geometry: Geometry, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str
    ) -> None:
        self.capacity, self.length = capacity, 0
        shapes = self.shapes(geometry, batch, capacity)
        self.storage = [torch.zeros(shape, dtype=dtype, device=device) for shape in shapes]

    def shapes(self, geometry: Geometry, batch: int, capacity: int) -> list[tuple[int, ...]]:
        """The shapes of the tensors that are kept, all layers in each."""
        raise NotImplementedError

    @property
    def bytes(self) -> int:
        """Bytes of the storage that was allocated, filled or not."""
        return sum(tensor.untyped_storage().nbytes() for tensor in self.storage)

    def room(self, new: int) -> slice:
        """Where so many new positions go. Raises ValueError where no room is left."""
        end = self.length + new
        if end > self.capacity:
            raise ValueError(f"the cache holds {self.capacity} positions; {end} do not fit")
        return slice(self.length, end)


class KVCache(Cache):
    """Keys and values of grouped attention, one of each a kv-head."""

    def shapes(self, geometry: Geometry, batch: int, capacity: int) -> list[tuple[int, ...]]:
        return [(geometry.layers, batch, geometry.kv_heads, capacity, geometry.head_dim)] * 2

    def append(
        self, layer: int, key: Float[Tensor, "B K T D"], value: Float[Tensor, "B K T D"]
    ) -> tuple[Float[Tensor, "B K S D"], Float[Tensor, "B K S D"]]:
        """Gives views, no copies."""
        new, (keys, values) = self.room(key.shape[2]), self.storage
        keys[layer, :, :, new] = key
        values[layer, :, :, new] = value
        return keys[layer, :, :, : new.stop], values[layer, :, :, : new.stop]


class LatentCache(Cache):
    """Of latent attention only the latent and the shared rotary key, side by side: R + P numbers a token."""

    def shapes(self, geometry: Geometry, batch: int, capacity: int) -> list[tuple[int, ...]]:
        return [(geometry.layers, batch, capacity, geometry.latent_dim + geometry.rope_dim)]

    def append(self, layer: int, latent: Float[Tensor, "B T RP"]) -> Float[Tensor, "B S RP"]:
        """Gives a view, no copy."""
        new, (latents,) = self.room(latent.shape[1]), self.storage
        latents[layer, :, new] = latent
        return latents[layer, :, : new.stop]


def make_cache(
    geometry: Geometry, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str = "cpu"
) -> Cache:
    """An empty cache of the kind that this geometry's attention fills."""
    _, cache_class = geometry.kind.modules()
    return cache_class(geometry, batch, capacity, dtype, device)
