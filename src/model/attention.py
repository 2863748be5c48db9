"""One layer of attention: what every kind answers to, and the grouped kind (MHA, GQA, MQA)."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from src.geometry import Geometry
from src.model.cache import Cache, KVCache
from src.model.kernels import attend, attention_weights, repeat_heads, visible
from src.model.rotary import Rotary


@dataclass(frozen=True)
class Intermediates:
    """Everything between the input and the output of one layer, in the order of computation.

    The features hold all heads side by side; `queries`, `keys` and `values` are the same numbers a head apart,
    queries and keys turned by rotary positions where the model has them. `scores` are scaled and not yet masked;
    `weights` are what the softmax leaves after the mask. `latent` is None in grouped attention.
    """

    query_features: Float[Tensor, "B T HD"]
    key_features: Float[Tensor, "B S KD"]
    value_features: Float[Tensor, "B S KDv"]
    queries: Float[Tensor, "B H T D"]
    keys: Float[Tensor, "B K S D"]
    values: Float[Tensor, "B K S Dv"]
    scores: Float[Tensor, "B H T S"]
    weights: Float[Tensor, "B H T S"]
    heads: Float[Tensor, "B H T Dv"]
    concatenated: Float[Tensor, "B T HDv"]
    output: Float[Tensor, "B T E"]
    latent: Float[Tensor, "B S R"] | None = None


@dataclass(frozen=True)
class HeadMatrices:
    """What each head multiplies by, biases left out. Keys and values of grouped heads repeat their kv-head's.

    A query x and a key y meet as (query x) . (key y), rotary positions apart; of y the head writes output value y.
    """

    query: Float[Tensor, "H D E"]
    key: Float[Tensor, "H D E"]
    value: Float[Tensor, "H Dv E"]
    output: Float[Tensor, "H E Dv"]


class AttentionLayer(nn.Module):
    """Attention of one layer, of any kind. `fused_projections` names the matrices that were laid into one, in order,
    with their rows: each is initialised as a matrix of its own.
    """

    fused_projections: dict[str, dict[str, int]]
    output: nn.Linear

    def __init__(self, geometry: Geometry, layer: int, dropout: float = 0.0, kernel: str = "auto") -> None:
        super().__init__()
        self.geometry, self.layer, self.dropout, self.kernel = geometry, layer, dropout, kernel

    @abstractmethod
    def forward(
        self,
        x: Float[Tensor, "B T E"],
        cache: Any = None,
        *,
        memory: Float[Tensor, "B S E"] | None = None,
        mask: Bool[Tensor, "#B #H #T S"] | None = None,
        is_causal: bool = True,
    ) -> Float[Tensor, "B T E"]:
        """Self-attention, causal unless asked; with a cache, of the kind's own class, x are the positions after
        those it holds.

        With a memory, keys and values come from that other sequence (cross-attention): all of it may be seen,
        and rotary positions, which measure distance within one sequence, stay out. `mask` is true where a key
        may be seen. Raises ValueError for a memory with a cache.
        """

    @abstractmethod
    def look_inside(
        self,
        x: Float[Tensor, "B T E"],
        *,
        memory: Float[Tensor, "B S E"] | None = None,
        mask: Bool[Tensor, "#B #H #T S"] | None = None,
        is_causal: bool = True,
    ) -> Intermediates:
        """The same computation written out, without dropout, and everything on its way."""

    @abstractmethod
    def head_matrices(self) -> HeadMatrices:
        """The weights, a head apart."""

    def kernel_name(self, kernel: str, new: int, has_cache: bool) -> str:
        """What a report calls the kernel that runs for so many new positions: the form of the computation too,
        where a kind has several."""
        return kernel


class GroupedAttention(AttentionLayer):
    """`projection` holds query, key and value rows, in that order, head by head."""

    def __init__(self, geometry: Geometry, layer: int, dropout: float = 0.0, kernel: str = "auto") -> None:
        super().__init__(geometry, layer, dropout, kernel)
        g = geometry
        kv_width = g.kv_heads * g.head_dim
        self.fused_projections = {"projection": {"query": g.attention_width, "key": kv_width, "value": kv_width}}
        self.widths = list(self.fused_projections["projection"].values())
        self.projection = nn.Linear(g.d_model, sum(self.widths), bias=g.bias)
        self.output = nn.Linear(g.attention_width, g.d_model, bias=g.bias)
        self.rotary = Rotary(g.head_dim, g.context_length) if g.positions == "rotary" else None
        self.scale = g.head_dim**-0.5

    def forward(
        self,
        x: Float[Tensor, "B T E"],
        cache: KVCache | None = None,
        *,
        memory: Float[Tensor, "B S E"] | None = None,
        mask: Bool[Tensor, "#B #H #T S"] | None = None,
        is_causal: bool = True,
    ) -> Float[Tensor, "B T E"]:
        q, k, v = self._split(self._features(x, memory), start_of(cache, memory))
        if cache is not None:
            k, v = cache.append(self.layer, k, v)
        heads = attend(
            q,
            k,
            v,
            scale=self.scale,
            is_causal=is_causal and memory is None,
            mask=mask,
            dropout=self.dropout if self.training else 0.0,
            kernel=self.kernel,
        )
        return self.output(combine_heads(heads))

    def look_inside(
        self,
        x: Float[Tensor, "B T E"],
        *,
        memory: Float[Tensor, "B S E"] | None = None,
        mask: Bool[Tensor, "#B #H #T S"] | None = None,
        is_causal: bool = True,
    ) -> Intermediates:
        features = self._features(x, memory)
        q, k, v = self._split(features, start_of(None, memory))
        mask = visible(mask, is_causal and memory is None, q.shape[2], k.shape[2], x.device)
        scores, weights = attention_weights(q, k, self.scale, mask)
        heads = weights @ repeat_heads(v, q.shape[1])
        concatenated = combine_heads(heads)
        return Intermediates(*features, q, k, v, scores, weights, heads, concatenated, self.output(concatenated))

    def head_matrices(self) -> HeadMatrices:
        g = self.geometry
        q, k, v = (part.view(-1, g.head_dim, g.d_model) for part in self.projection.weight.split(self.widths))
        k, v = (part.repeat_interleave(g.heads // g.kv_heads, dim=0) for part in (k, v))  # H D E
        return HeadMatrices(q, k, v, output_of_heads(self.output, g.heads))

    def _features(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        if memory is None:
            q, k, v = self.projection(x).split(self.widths, dim=2)
            return q, k, v
        own, others = self.widths[0], sum(self.widths[1:])
        weights = self.projection.weight.split([own, others])
        biases = (None, None) if self.projection.bias is None else self.projection.bias.split([own, others])
        k, v = F.linear(memory, weights[1], biases[1]).split(self.widths[1:], dim=2)
        return F.linear(x, weights[0], biases[0]), k, v

    def _split(self, features: tuple[Tensor, Tensor, Tensor], start: int | None) -> tuple[Tensor, Tensor, Tensor]:
        g = self.geometry
        q = split_heads(features[0], g.heads)  # B H T D
        k, v = split_heads(features[1], g.kv_heads), split_heads(features[2], g.kv_heads)  # B K S D
        if self.rotary is not None and start is not None:
            q, k = self.rotary(q, start), self.rotary(k, start)
        return q, k, v


def split_heads(features: Float[Tensor, "B T HD"], heads: int) -> Float[Tensor, "B H T D"]:
    """Features of all heads, side by side, a head apart."""
    batch, new, _ = features.shape
    return features.view(batch, new, heads, -1).transpose(1, 2)


def combine_heads(heads: Float[Tensor, "B H T D"]) -> Float[Tensor, "B T HD"]:
    """The reverse of `split_heads`."""
    return heads.transpose(1, 2).flatten(2)


def output_of_heads(output: nn.Linear, heads: int) -> Float[Tensor, "H E D"]:
    """The output matrix, a head's columns apart."""
    return output.weight.unflatten(1, (heads, -1)).transpose(0, 1)


def start_of(cache: Cache | None, memory: Tensor | None) -> int | None:
    """The position of the first new token; None in cross-attention, which has no common positions."""
    if memory is None:
        return 0 if cache is None else cache.length
    if cache is not None:
        raise ValueError("cross-attention with a cache: keys and values of `memory` do not grow; leave the cache out")
    return None
