"""Grouped attention: MHA, GQA and MQA are one class; only the number of kv-heads differs.

heads=4 kv_heads=2      x (E) -> q0 q1 q2 q3 | k0 k1 | v0 v1      one projection, cut by head
                        q0, q1 attend with k0, v0;  q2, q3 with k1, v1
                        outputs of q0 q1 q2 q3 side by side -> output projection (E)
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from src.geometry import Geometry
from src.model.cache import KVCache
from src.model.kernels import attend
from src.model.positions import Rotary


class GroupedAttention(nn.Module):
    """Attention of one layer. `projection` holds query, key and value rows, in that order, head by head."""

    def __init__(self, geometry: Geometry, layer: int, dropout: float = 0.0, kernel: str = "auto") -> None:
        super().__init__()
        g = geometry
        self.geometry, self.layer, self.dropout, self.kernel = geometry, layer, dropout, kernel
        self.widths = [g.attention_width, g.kv_heads * g.head_dim, g.kv_heads * g.head_dim]
        self.projection = nn.Linear(g.d_model, sum(self.widths), bias=g.bias)
        self.output = nn.Linear(g.attention_width, g.d_model, bias=g.bias)
        self.rotary = Rotary(g.head_dim, g.context_length) if g.positions == "rotary" else None
        self.scale = g.head_dim**-0.5

    def forward(
        self,
        x: Float[Tensor, "B T E"],
        cache: KVCache | None = None,
        mask: Bool[Tensor, "#B #H T S"] | None = None,
    ) -> Float[Tensor, "B T E"]:
        """Causal self-attention; with a cache, x are the positions after those it holds."""
        q, k, v = self.split(x)
        if self.rotary is not None:
            start = cache.length if cache is not None else 0
            q, k = self.rotary(q, start), self.rotary(k, start)
        if cache is not None:
            k, v = cache.append(self.layer, k, v)
        dropout = self.dropout if self.training else 0.0
        heads = attend(q, k, v, scale=self.scale, mask=mask, dropout=dropout, kernel=self.kernel)
        return self.output(self.combine(heads))

    def split(
        self, x: Float[Tensor, "B T E"]
    ) -> tuple[Float[Tensor, "B H T D"], Float[Tensor, "B K T D"], Float[Tensor, "B K T D"]]:
        """Queries, keys and values of x, a head apart."""
        g = self.geometry
        batch, new, _ = x.shape
        q, k, v = self.projection(x).split(self.widths, dim=2)
        q = q.view(batch, new, g.heads, g.head_dim).transpose(1, 2)  # B H T D
        k = k.view(batch, new, g.kv_heads, g.head_dim).transpose(1, 2)  # B K T D
        v = v.view(batch, new, g.kv_heads, g.head_dim).transpose(1, 2)  # B K T D
        return q, k, v

    def combine(self, heads: Float[Tensor, "B H T D"]) -> Float[Tensor, "B T HD"]:
        """The heads' outputs laid side by side."""
        return heads.transpose(1, 2).flatten(2)
