"""The model: token and position embeddings, blocks of attention and feed-forward, a head over the vocabulary."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from src.geometry import Geometry
from src.model.attention import GroupedAttention
from src.model.cache import KVCache, make_cache

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

    def __init__(self, geometry: Geometry, layer: int, dropout: float, kernel: str) -> None:
        super().__init__()
        self.residual = geometry.residual
        self.attention_norm = make_norm(geometry)
        self.attention = GroupedAttention(geometry, layer, dropout, kernel)
        self.feed_forward_norm = make_norm(geometry) if geometry.ffn_width else None
        self.feed_forward = FeedForward(geometry) if geometry.ffn_width else None
        self.dropout = nn.Dropout(dropout) if dropout else None

    def forward(self, x: Float[Tensor, "B T E"], cache: KVCache | None = None) -> Float[Tensor, "B T E"]:
        x = self._add(x, self.attention(self.attention_norm(x), cache))
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

    def forward(self, tokens: Int[Tensor, "B T"], cache: KVCache | None = None) -> Float[Tensor, "B T V"]:
        """Logits of the next token at each new position; with a cache, which then holds them too.

        Raises ValueError past the context length: no position beyond it was trained.
        """
        start = cache.length if cache is not None else 0
        end = start + tokens.shape[1]
        if end > self.geometry.context_length:
            raise ValueError(f"{end} positions; the model's context_length is {self.geometry.context_length}")
        x = self.tokens(tokens)  # B T E
        if self.positions is not None:
            x = x + self.positions.weight[start:end]
        if self.dropout is not None:
            x = self.dropout(x)
        for block in self.blocks:
            x = block(x, cache)
        if cache is not None:
            cache.length = end
        return self.output(self.norm(x))

    def make_cache(self, batch: int, positions: int | None = None, dtype: torch.dtype | None = None) -> KVCache:
        """An empty cache on the model's device; of the whole context and in the weights' dtype unless said."""
        weight = self.tokens.weight
        return make_cache(
            self.geometry, batch, positions or self.geometry.context_length, dtype or weight.dtype, weight.device
        )


def make_norm(geometry: Geometry) -> nn.Module:
    if geometry.norm == "layer":
        return nn.LayerNorm(geometry.d_model, bias=geometry.bias)
    if geometry.norm == "rms":
        return nn.RMSNorm(geometry.d_model)
    return nn.Identity()


def next_token_loss(
    logits: Float[Tensor, "B T V"], targets: Int[Tensor, "B T"], reduction: str = "mean"
) -> Float[Tensor, "..."]:
    """Cross-entropy in nats a token (or their sum)."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction=reduction)
