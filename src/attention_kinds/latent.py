"""Latent attention (MLA): the cache keeps one latent and one rotary key a token, shared by all heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from src.attention_kinds.kind import AttentionKind, Reference
from src.errors import ConfigError

if TYPE_CHECKING:
    from src.config import Config
    from src.geometry import Geometry
    from src.model.attention import AttentionLayer
    from src.model.cache import Cache


class Latent(AttentionKind):
    """Keys and values of every head are rebuilt from the latent. Source: DeepSeek-V2 (2024), section 2.1."""

    name = "latent"
    words = "latent attention"
    settings = ("latent_dim", "rope_dim")
    shares_kv_heads = False

    def own_widths(self, config: Config, head_dim: int, reference: Reference) -> dict[str, int]:
        """Null follows DeepSeek-V2 (2024, section 2.1.4), in the reference's head width so that the cache does not
        change with heads: a latent of 4 head widths, a rotary key of half of one (none without rotary positions).
        """
        latent_dim, rope_dim = config.latent_dim, config.rope_dim
        if rope_dim is None:
            rope_dim = 2 * (reference.head_dim // 4) if config.model.positions == "rotary" else 0
        if config.regime == "equal_cache":
            latent_dim = _latent_dim_at_equal_cache(config, head_dim, rope_dim, reference)
        elif latent_dim is None:
            latent_dim = 4 * reference.head_dim
        return {"latent_dim": latent_dim, "rope_dim": rope_dim}

    def check(self, geometry: Geometry) -> None:
        g = geometry
        if g.kv_heads != g.heads:
            raise ConfigError(
                f"kv_heads={g.kv_heads} with attention=latent: every head has a key of its own, rebuilt from the "
                "latent; leave kv_heads=null and choose latent_dim instead"
            )
        full = 2 * g.attention_width
        if g.latent_dim > full:
            raise ConfigError(
                f"latent_dim={g.latent_dim} is wider than the keys and values that it compresses "
                f"(2 x heads={g.heads} x head_dim={g.head_dim} = {full}); choose latent_dim up to {full}"
            )
        if g.rope_dim % 2:
            raise ConfigError(
                f"rope_dim={g.rope_dim} is odd; rotary positions turn pairs of features, so choose an even rope_dim"
            )
        if g.positions == "rotary" and g.rope_dim == 0:
            raise ConfigError(
                "rope_dim=0 with model.positions=rotary leaves the model without positions; choose an even "
                "rope_dim, or model.positions=learned"
            )

    def display_name(self, heads: int, kv_heads: int) -> str:
        return "MLA"

    def run_label(self, geometry: Geometry) -> str | None:
        return f"mla{geometry.latent_dim}r{geometry.rope_dim}"

    def cache_elements_per_token(self, geometry: Geometry) -> int:
        return geometry.latent_dim + geometry.rope_dim

    def cache_formula(self, geometry: Geometry) -> str:
        return f"({geometry.latent_dim} latent + {geometry.rope_dim} rotary)"

    def matrix_parameters(self, geometry: Geometry) -> int:
        g = geometry
        queries = g.d_model * g.heads * (g.head_dim + g.rope_dim)
        down = g.d_model * (g.latent_dim + g.rope_dim)
        up = 2 * g.latent_dim * g.attention_width
        return queries + down + up + g.attention_width * g.d_model

    def other_parameters(self, geometry: Geometry) -> int:
        """Biases (the matrices that rebuild keys and values have none) and the latent's norm."""
        g = geometry
        norm = g.latent_dim if g.norm != "none" else 0
        biases = g.heads * (g.head_dim + g.rope_dim) + g.latent_dim + g.rope_dim + g.d_model
        return norm + (biases if g.bias else 0)

    def mixing_flops(self, geometry: Geometry, tokens: int) -> int:
        return 2 * tokens * geometry.heads * (2 * geometry.head_dim + geometry.rope_dim)

    def decode_mixing_flops(self, geometry: Geometry, tokens: int) -> int:
        """The absorbed form: queries meet the latent itself, which is the value too."""
        return 2 * tokens * geometry.heads * (2 * geometry.latent_dim + geometry.rope_dim)

    def naive_copy_elements(self, geometry: Geometry) -> int:
        return geometry.heads * (2 * geometry.head_dim + geometry.rope_dim)

    def modules(self) -> tuple[type[AttentionLayer], type[Cache]]:
        from src.model.cache import LatentCache
        from src.model.latent import LatentAttention

        return LatentAttention, LatentCache


def _latent_dim_at_equal_cache(config: Config, head_dim: int, rope_dim: int, reference: Reference) -> int:
    held = 2 * reference.kv_width
    latent_dim, full = held - rope_dim, 2 * config.heads * head_dim
    if latent_dim < 1:
        raise ConfigError(
            f"rope_dim={rope_dim} leaves no room for a latent under regime=equal_cache: the reference keeps {held} "
            f"numbers a token in each layer; choose rope_dim below {held}, or more reference_kv_heads"
        )
    if latent_dim > full:
        raise ConfigError(
            f"heads={config.heads} of head_dim={head_dim} have {full} numbers to compress, and regime=equal_cache "
            f"needs latent_dim={latent_dim} (the reference keeps {held} numbers a token in each layer); nearest is "
            f"{full + rope_dim}; choose more heads, a wider head_dim or fewer reference_kv_heads"
        )
    if config.latent_dim not in (None, latent_dim):
        raise ConfigError(
            f"latent_dim={config.latent_dim} contradicts regime=equal_cache, which needs latent_dim={latent_dim} "
            f"(the reference keeps {held} numbers a token in each layer, rope_dim={rope_dim}); leave latent_dim=null"
        )
    return latent_dim
