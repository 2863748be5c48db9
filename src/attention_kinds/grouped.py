"""Grouped attention: MHA, GQA and MQA are one kind; only the number of kv-heads differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from src.attention_kinds.kind import AttentionKind, Reference
from src.attention_kinds.sharing import divisors
from src.errors import ConfigError

if TYPE_CHECKING:
    from src.config import Config
    from src.geometry import Geometry
    from src.model.attention import AttentionLayer
    from src.model.cache import Cache


class Grouped(AttentionKind):
    """Adjacent query heads, heads / kv_heads of them, share one key and one value a token."""

    name = "grouped"
    words = "attention"
    shares_kv_heads = True

    def head_dim(self, config: Config, kv_heads: int, reference: Reference) -> int:
        """Under equal_cache, the width at which its keys and values hold as many numbers as the reference's."""
        if config.regime != "equal_cache":
            return super().head_dim(config, kv_heads, reference)
        held = reference.kv_width
        head_dim, rest = divmod(held, kv_heads)
        must_be_even = config.model.positions == "rotary"
        if rest or (must_be_even and head_dim % 2):
            raise _no_such_width(config, kv_heads, held, must_be_even)
        if config.head_dim not in (None, head_dim):
            raise ConfigError(
                f"head_dim={config.head_dim} contradicts regime=equal_cache, which needs head_dim={head_dim} for "
                f"kv_heads={kv_heads} (the reference keeps 2 x {held} numbers a token in each layer); "
                "leave head_dim=null"
            )
        return head_dim

    def check(self, geometry: Geometry) -> None:
        g = geometry
        if g.positions == "rotary" and g.head_dim % 2:
            raise ConfigError(
                f"head_dim={g.head_dim} (d_model={g.d_model}, heads={g.heads}) is odd; rotary positions "
                "turn pairs of features, so choose an even head_dim or model.positions=learned"
            )

    def display_name(self, heads: int, kv_heads: int) -> str:
        if kv_heads == heads:
            return "MHA"
        return "MQA" if kv_heads == 1 else "GQA"

    def run_label(self, geometry: Geometry) -> str | None:
        return None if geometry.kv_heads == geometry.heads else f"kv{geometry.kv_heads}"

    def cache_elements_per_token(self, geometry: Geometry) -> int:
        """A key and a value a kv-head. Source: Ainslie et al. 2023, section 2."""
        return 2 * geometry.kv_heads * geometry.head_dim

    def cache_formula(self, geometry: Geometry) -> str:
        return f"2 x {geometry.kv_heads} kv-heads x {geometry.head_dim} wide"

    def matrix_parameters(self, geometry: Geometry) -> int:
        g = geometry
        return 2 * g.d_model * g.attention_width + 2 * g.d_model * g.kv_heads * g.head_dim

    def other_parameters(self, geometry: Geometry) -> int:
        g = geometry
        return g.attention_width + 2 * g.kv_heads * g.head_dim + g.d_model if g.bias else 0

    def mixing_flops(self, geometry: Geometry, tokens: int) -> int:
        """Sharing kv-heads saves bytes, not FLOPs."""
        return 2 * tokens * geometry.heads * 2 * geometry.head_dim

    def naive_copy_elements(self, geometry: Geometry) -> int:
        """MHA needs no copy."""
        g = geometry
        return 0 if g.kv_heads == g.heads else 2 * g.heads * g.head_dim

    def modules(self) -> tuple[type[AttentionLayer], type[Cache]]:
        from src.model.attention import GroupedAttention
        from src.model.cache import KVCache

        return GroupedAttention, KVCache


def _no_such_width(config: Config, kv_heads: int, held: int, must_be_even: bool) -> ConfigError:
    exact = [k for k in divisors(config.heads) if held % k == 0 and not (must_be_even and held // k % 2)]
    step = 2 if must_be_even else 1
    near = max(step, step * round(held / kv_heads / step))
    ways = f"kv_heads that meet it: {', '.join(map(str, exact))}" if exact else "choose other heads"
    return ConfigError(
        f"heads={config.heads} kv_heads={kv_heads} cannot meet regime=equal_cache: the reference keeps 2 x {held} "
        f"numbers a token in each layer, which needs head_dim={held / kv_heads:.6g}, and head_dim must be "
        f"{'even (rotary positions)' if must_be_even else 'whole'}; nearest is head_dim={near} with 2 x "
        f"{kv_heads * near}; {ways}"
    )
