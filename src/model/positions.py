"""Rotary positions: features turned in pairs by an angle that grows with the position."""

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
        frequencies = BASE ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        angles = torch.outer(torch.arange(positions, dtype=torch.float64), frequencies)  # S D/2
        angles = torch.cat([angles, angles], dim=-1)  # S D
        # In single precision the tables, like the weights, follow the module; .double() rebuilds nothing.
        self.register_buffer("cos", angles.cos().to(torch.get_default_dtype()), persistent=False)
        self.register_buffer("sin", angles.sin().to(torch.get_default_dtype()), persistent=False)

    def forward(self, x: Float[Tensor, "B H T D"], start: int) -> Float[Tensor, "B H T D"]:
        """x at positions start, start + 1, ..."""
        cos, sin = self.cos[start : start + x.shape[2]], self.sin[start : start + x.shape[2]]
        first, second = x.chunk(2, dim=-1)
        turned = torch.cat([-second, first], dim=-1)
        return (x * cos + turned * sin).to(x.dtype)
