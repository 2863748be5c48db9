"""Rotary positions: features turned in pairs by an angle that grows with the position."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

BASE = 10_000.0


class Rotary(nn.Module):
    """Turns feature pairs (i, i + D/2) of queries and keys; scores then depend on distance only.

    Source: Su et al. 2021 (RoFormer), in the half-split layout of GPT-NeoX and Llama.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, width: int, positions: int) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("cos", torch.empty(positions, width), persistent=False)
        self.register_buffer("sin", torch.empty(positions, width), persistent=False)
        self._fill()

    def forward(self, x: Float[Tensor, "B H T D"], start: int) -> Float[Tensor, "B H T D"]:
        """x at positions start, start + 1, ..."""
        end = start + x.shape[2]
        first, second = x.chunk(2, dim=-1)
        turned = torch.cat([-second, first], dim=-1)
        return (x * self.cos[start:end] + turned * self.sin[start:end]).to(x.dtype)

    def _fill(self) -> None:
        frequencies = BASE ** (-torch.arange(0, self.width, 2, dtype=torch.float64) / self.width)
        angles = torch.outer(torch.arange(self.cos.shape[0], dtype=torch.float64), frequencies)  # S D/2
        angles = torch.cat([angles, angles], dim=-1)  # S D
        self.cos, self.sin = angles.cos().to(self.cos), angles.sin().to(self.sin)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Rotary:
        super()._apply(fn, recurse)
        self._fill()  # a cast to float64 would keep the single-precision rounding of the old tables
        return self
