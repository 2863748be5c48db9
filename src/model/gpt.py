"""The model: token and position embeddings, blocks of attention and feed-forward, a head over the vocabulary."""

from collections.abc import Iterable
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from src.geometry import Geometry
from src.model.attention import AttentionLayer, Intermediates
from src.model.cache import Cache, make_cache
from src.model.norms import make_norm

ACTIVATIONS = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
}


class FeedForward(nn.Module):
    """Two matrices with an activation between, or three where it is gated (SwiGLU, Shazeer 2020)."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__()
        g = geometry
        self.is_gated = g.activation == "swiglu"
        self.activation = g.activation
        self.up = nn.Linear(g.d_model, g.ffn_width * (2 if self.is_gated else 1), bias=g.bias)
        self.down = nn.Linear(g.ffn_width, g.d_model, bias=g.bias)

    def forward(self, x: Float[Tensor, "B T E"]) -> Float[Tensor, "B T E"]:
        if self.is_gated:
            gate, value = self.up(x).chunk(2, dim=-1)
            return self.down(F.silu(gate) * value)
        return self.down(ACTIVATIONS[self.activation](self.up(x)))


class Block(nn.Module):
    """Attention, then feed-forward: each normed before and added after, where the geometry says so."""

    def __init__(self, geometry: Geometry, layer: int, dropout: float, kernel: str, *, is_causal: bool = True) -> None:
        super().__init__()
        self.residual, self.is_causal = geometry.residual, is_causal
        self.attention_norm = make_norm(geometry)
        self.attention = make_attention(geometry, layer, dropout, kernel)
        self.feed_forward_norm = make_norm(geometry) if geometry.ffn_width else None
        self.feed_forward = FeedForward(geometry) if geometry.ffn_width else None
        self.dropout = nn.Dropout(dropout) if dropout else None

    def forward(self, x: Float[Tensor, "B T E"], cache: Cache | None = None) -> Float[Tensor, "B T E"]:
        x = self._add(x, self.attention(self.attention_norm(x), cache, is_causal=self.is_causal))
        if self.feed_forward is not None and self.feed_forward_norm is not None:
            x = self._add(x, self.feed_forward(self.feed_forward_norm(x)))
        return x

    def _add(self, x: Tensor, change: Tensor) -> Tensor:
        if self.dropout is not None:
            change = self.dropout(change)
        return x + change if self.residual else change


class GPT(nn.Module):
    """A decoder-only language model (Radford et al. 2019) of the given geometry."""

    def __init__(self, geometry: Geometry, vocabulary_size: int, dropout: float = 0.0, kernel: str = "auto") -> None:
        super().__init__()
        g = geometry
        self.geometry, self.vocabulary_size = geometry, vocabulary_size
        self.tokens = nn.Embedding(vocabulary_size, g.d_model)
        self.positions = nn.Embedding(g.context_length, g.d_model) if g.positions == "learned" else None
        self.dropout = nn.Dropout(dropout) if dropout else None
        self.blocks = nn.ModuleList(Block(g, layer, dropout, kernel) for layer in range(g.layers))
        self.norm = make_norm(g)
        self.output = nn.Linear(g.d_model, vocabulary_size, bias=g.bias and not g.tied_embeddings)
        if g.tied_embeddings:
            self.output.weight = self.tokens.weight

    def forward(self, tokens: Int[Tensor, "B T"], cache: Cache | None = None) -> Float[Tensor, "B T V"]:
        """Logits of the next token at each new position; with a cache, which then holds them too.

        Raises ValueError past the context length: no position beyond it was trained.
        """
        start = cache.length if cache is not None else 0
        x = self.enter(tokens, start)
        for block in self.blocks:
            x = block(x, cache)
        if cache is not None:
            cache.length = start + tokens.shape[1]
        return self.leave(x)

    def look_inside(self, tokens: Int[Tensor, "B T"]) -> list[Intermediates]:
        """Every layer's attention opened up, on its way through the whole model."""
        return look_inside_blocks(self.blocks, self.enter(tokens))

    def make_cache(self, batch: int, capacity: int | None = None, dtype: torch.dtype | None = None) -> Cache:
        """An empty cache on the model's device; of the whole context unless said.

        Without a dtype it has that of the keys that will come: autocast's where it is on, else the weights'.
        """
        weight = self.tokens.weight
        if dtype is None:
            device = weight.device.type
            autocast = torch.is_autocast_enabled(device)
            dtype = torch.get_autocast_dtype(device) if autocast else weight.dtype
        return make_cache(self.geometry, batch, capacity or self.geometry.context_length, dtype, weight.device)

    def enter(self, tokens: Int[Tensor, "B T"], start: int = 0) -> Float[Tensor, "B T E"]:
        """What the first block reads: tokens with their positions, the first of which is `start`."""
        end = start + tokens.shape[1]
        if end > self.geometry.context_length:
            raise ValueError(f"{end} positions; the model's context_length is {self.geometry.context_length}")
        x = self.tokens(tokens)  # B T E
        if self.positions is not None:
            x = x + self.positions.weight[start:end]
        return x if self.dropout is None else self.dropout(x)

    def leave(self, x: Float[Tensor, "B T E"]) -> Float[Tensor, "B T V"]:
        """Logits of what the last block wrote."""
        return self.output(self.norm(x))


def look_inside_blocks(blocks: nn.ModuleList, x: Float[Tensor, "B T E"]) -> list[Intermediates]:
    """The attention of each of these blocks opened up, as x goes through them."""
    layers = []
    for block in cast(Iterable[Block], blocks):
        layers.append(block.attention.look_inside(block.attention_norm(x), is_causal=block.is_causal))
        x = block(x)
    return layers


def make_attention(geometry: Geometry, layer: int, dropout: float, kernel: str) -> AttentionLayer:
    """The attention of one layer, of the geometry's kind; all kinds answer the same calls."""
    layer_class, _ = geometry.kind.modules()
    return layer_class(geometry, layer, dropout, kernel)
