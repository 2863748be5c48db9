"""Latent attention (MLA): keys and values of all heads are rebuilt from one small latent, which alone is kept.

    heads=4                     x (E)
             +-----------------+-----------+------------------+
             |                 |                              |
      q0 q1 q2 q3          latent (R), normed          rotary key (P)
      D + P wide each          |      kept: R + P numbers a token      |
                        +------+------+                       |
                 keys (D each)   values (D each)              |
                 k0 k1 k2 k3     v0 v1 v2 v3                  |
                 each k with the rotary key beside it: D + P <+

    a token a layer, 16 heads of 64:  MHA  2*16*64 = 2048    R=256 P=32  256 + 32 = 288 numbers

Two forms of the same mathematics, with up_key_h (D x R) and up_value_h (D x R) of head h:
    plain      q . (up_key_h c)  and  sum w (up_value_h c)     keys and values built: training, long prefill
    absorbed   (up_key_h^T q) . c  and  up_value_h (sum w c)   the past is read as it lies: decoding

Source: DeepSeek-V2 (2024), section 2.1, without its compression of queries.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from src.geometry import Geometry
from src.model.attention import (
    AttentionLayer,
    HeadMatrices,
    Intermediates,
    combine_heads,
    output_of_heads,
    split_heads,
    start_of,
)
from src.model.cache import LatentCache
from src.model.kernels import FOLD_AT_MOST, attend, attention_weights, resolve, visible
from src.model.norms import make_latent_norm
from src.model.rotary import Rotary


class LatentAttention(AttentionLayer):
    """`projection` holds query, latent and rotary-key rows, `up` key and value rows."""

    def __init__(self, geometry: Geometry, layer: int, dropout: float = 0.0, kernel: str = "auto") -> None:
        super().__init__(geometry, layer, dropout, kernel)
        g = geometry
        self.fused_projections = {
            "projection": {
                "query": g.heads * (g.head_dim + g.rope_dim),
                "latent": g.latent_dim,
                "rope_key": g.rope_dim,
            },
            "up": {"key": g.attention_width, "value": g.attention_width},
        }
        self.widths = list(self.fused_projections["projection"].values())
        self.projection = nn.Linear(g.d_model, sum(self.widths), bias=g.bias)
        self.norm = make_latent_norm(g)
        self.up = nn.Linear(g.latent_dim, 2 * g.attention_width, bias=False)
        self.output = nn.Linear(g.attention_width, g.d_model, bias=g.bias)
        self.rotary = Rotary(g.rope_dim, g.context_length) if g.rope_dim else None
        self.scale = (g.head_dim + g.rope_dim) ** -0.5  # the width that scores were trained at, in both forms

    def forward(
        self,
        x: Float[Tensor, "B T E"],
        cache: LatentCache | None = None,
        *,
        memory: Float[Tensor, "B S E"] | None = None,
        mask: Bool[Tensor, "#B #H #T S"] | None = None,
        is_causal: bool = True,
    ) -> Float[Tensor, "B T E"]:
        """As every layer's; a few new positions on a cache meet it in the absorbed form."""
        q, cached = self._queries_and_cached(x, memory, start_of(cache, memory))
        if cache is not None:
            cached = cache.append(self.layer, cached)
        form = self._absorbed if absorbs(x.shape[1], cache is not None) else self._plain
        return self.output(combine_heads(form(q, cached, mask, is_causal and memory is None)))

    def look_inside(
        self,
        x: Float[Tensor, "B T E"],
        *,
        memory: Float[Tensor, "B S E"] | None = None,
        mask: Bool[Tensor, "#B #H #T S"] | None = None,
        is_causal: bool = True,
    ) -> Intermediates:
        """The plain form written out, without dropout, and everything on its way."""
        q, cached = self._queries_and_cached(x, memory, start_of(None, memory))
        latent, _ = self._latent_and_rope_key(cached)
        k, v = self._keys_and_values(cached)
        mask = visible(mask, is_causal and memory is None, q.shape[2], k.shape[2], x.device)
        scores, weights = attention_weights(q, k, self.scale, mask)
        heads = weights @ v
        concatenated = combine_heads(heads)
        return Intermediates(
            query_features=self._project(x)[0],
            key_features=combine_heads(k),
            value_features=combine_heads(v),
            queries=q,
            keys=k,
            values=v,
            scores=scores,
            weights=weights,
            heads=heads,
            concatenated=concatenated,
            output=self.output(concatenated),
            latent=latent,
        )

    def head_matrices(self) -> HeadMatrices:
        """Keys and values through the latent, as if its norm were not there; rotary parts as they meet at one place."""
        g = self.geometry
        q, down, rope_key = self.projection.weight.split(self.widths)
        up_key, up_value = self.up.weight.view(2, g.heads, g.head_dim, g.latent_dim)  # H D R
        shared = rope_key.expand(g.heads, -1, -1)  # H P E
        key = torch.cat([up_key @ down, shared], dim=1)  # H D+P E
        query = q.view(g.heads, g.head_dim + g.rope_dim, g.d_model)
        return HeadMatrices(query, key, up_value @ down, output_of_heads(self.output, g.heads))

    def kernel_name(self, kernel: str, new: int, has_cache: bool) -> str:
        return f"absorbed:{kernel}" if absorbs(new, has_cache) else kernel

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, latent, rope_key = self.projection(x).split(self.widths, dim=2)
        return q, latent, rope_key

    def _queries_and_cached(
        self, x: Tensor, memory: Tensor | None, start: int | None
    ) -> tuple[Float[Tensor, "B H T DP"], Float[Tensor, "B S RP"]]:
        """Queries, turned where rotary, and what is cached of each token: the normed latent and the rotary key."""
        g = self.geometry
        features, latent, rope_key = self._project(x)
        if memory is not None:
            _, latent, rope_key = self._project(memory)
        q = split_heads(features, g.heads)  # B H T D+P
        if self.rotary is not None and start is not None:
            nope, rope = q.split([g.head_dim, g.rope_dim], dim=3)
            q = torch.cat([nope, self.rotary(rope, start)], dim=3)
            rope_key = self.rotary(rope_key[:, None], start)[:, 0]  # B S P
        return q, torch.cat([self.norm(latent), rope_key], dim=2)

    def _latent_and_rope_key(self, cached: Tensor) -> tuple[Float[Tensor, "B S R"], Float[Tensor, "B S P"]]:
        latent, rope_key = cached.split([self.geometry.latent_dim, self.geometry.rope_dim], dim=2)
        return latent, rope_key

    def _keys_and_values(self, cached: Tensor) -> tuple[Float[Tensor, "B H S DP"], Float[Tensor, "B H S D"]]:
        g = self.geometry
        latent, rope_key = self._latent_and_rope_key(cached)
        k, v = (split_heads(part, g.heads) for part in self.up(latent).chunk(2, dim=2))  # B H S D
        shared = rope_key[:, None].expand(-1, g.heads, -1, -1)  # B H S P
        return torch.cat([k, shared], dim=3), v

    def _plain(self, q: Tensor, cached: Tensor, mask: Tensor | None, is_causal: bool) -> Float[Tensor, "B H T D"]:
        k, v = self._keys_and_values(cached.to(q.dtype))
        return self._attend(q, k, v, mask, is_causal)

    def _absorbed(self, q: Tensor, cached: Tensor, mask: Tensor | None, is_causal: bool) -> Float[Tensor, "B H T D"]:
        """MQA over the latents: one kv-head, R + P wide, whose first R numbers are its value too."""
        g = self.geometry
        # Views of the present weight: a stored product would be stale after the next training step.
        up_key, up_value = self.up.weight.view(2, g.heads, g.head_dim, g.latent_dim)  # H D R
        nope, rope = q.split([g.head_dim, g.rope_dim], dim=3)
        q = torch.cat([nope @ up_key, rope], dim=3)  # B H T R+P
        k = cached[:, None]  # B 1 S R+P
        kernel = resolve(self.kernel, new=q.shape[2], has_mask=mask is not None)
        # The fused kernels want keys and values of one width; the whole row serves, its tail is cut off after.
        v = k[..., : g.latent_dim] if kernel in ("folded", "math") else k
        latents = self._attend(q, k, v, mask, is_causal)[..., : g.latent_dim]  # B H T R
        return latents @ up_value.transpose(1, 2)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        return attend(q, k, v, scale=self.scale, is_causal=is_causal, mask=mask, dropout=dropout, kernel=self.kernel)


def absorbs(new: int, has_cache: bool) -> bool:
    """Whether latent attention takes its absorbed form: few new positions on a cache."""
    return has_cache and new <= FOLD_AT_MOST
