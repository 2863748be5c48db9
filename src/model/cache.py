"""What a model keeps of past tokens while it decodes. Its bytes are those of `src.costs`, by test and at run time."""

import torch
from jaxtyping import Float
from torch import Tensor

from src.geometry import Geometry


class KVCache:
    """Keys and values of grouped attention, one of each a kv-head.

    Room for `positions` tokens of `batch` sequences in every layer; `length` of them are filled.
    """

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
        """Stores new positions after the filled ones; gives views of all S so far.

        `length` moves when the whole model is through. Raises ValueError where no room is left.
        """
        start, end = self.length, self.length + key.shape[2]
        _check_room(self.positions, end)
        self.keys[layer, :, :, start:end] = key
        self.values[layer, :, :, start:end] = value
        return self.keys[layer, :, :, :end], self.values[layer, :, :, :end]

    @property
    def bytes(self) -> int:
        """Bytes of the storage that was allocated, filled or not."""
        return self.keys.untyped_storage().nbytes() + self.values.untyped_storage().nbytes()


class LatentCache:
    """Of latent attention only the latent and the shared rotary key, side by side: R + P numbers a token."""

    def __init__(
        self, geometry: Geometry, batch: int, positions: int, dtype: torch.dtype, device: torch.device | str
    ) -> None:
        shape = (geometry.layers, batch, positions, geometry.latent_dim + geometry.rope_dim)
        self.kept = torch.zeros(shape, dtype=dtype, device=device)
        self.length = 0
        self.positions = positions

    def append(self, layer: int, kept: Float[Tensor, "B T RP"]) -> Float[Tensor, "B S RP"]:
        """As `KVCache.append`."""
        start, end = self.length, self.length + kept.shape[1]
        _check_room(self.positions, end)
        self.kept[layer, :, start:end] = kept
        return self.kept[layer, :, :end]

    @property
    def bytes(self) -> int:
        """Bytes of the storage that was allocated, filled or not."""
        return self.kept.untyped_storage().nbytes()


Cache = KVCache | LatentCache


def make_cache(
    geometry: Geometry, batch: int, positions: int, dtype: torch.dtype, device: torch.device | str = "cpu"
) -> Cache:
    """An empty cache of the kind that this geometry's attention fills."""
    kind = LatentCache if geometry.is_latent else KVCache
    return kind(geometry, batch, positions, dtype, device)


def _check_room(positions: int, end: int) -> None:
    if end > positions:
        raise ValueError(f"the cache holds {positions} positions; {end} do not fit")
