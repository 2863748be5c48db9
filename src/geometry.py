"""Which integers does a head count mean? The one answer; the model, the costs and the plots ask here.

The configuration stays what its user wrote (`head_dim: null`); a `Geometry` holds the final integers. How a
regime arrives at them is `src.regimes`; what any geometry must obey, whatever its regime, stands here.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from src.config import Config
from src.errors import ConfigError


@dataclass(frozen=True)
class Geometry:
    """The shape of a model, vocabulary apart. Everything is final: nothing is null or derived later.

    Raises ConfigError where heads, widths and kv-heads do not fit together.
    """

    attention: str
    layers: int
    d_model: int
    heads: int
    kv_heads: int
    head_dim: int
    latent_dim: int
    rope_dim: int
    ffn_width: int
    context_length: int
    activation: str
    positions: str
    norm: str
    residual: bool
    bias: bool
    tied_embeddings: bool
    linear_ends: bool
    regime: str
    reference_heads: int
    reference_kv_heads: int
    reference_ffn_width: int

    def __post_init__(self) -> None:
        check_sharing(self.heads, self.kv_heads)
        if self.is_latent:
            self._check_latent()
        elif self.positions == "rotary" and self.head_dim % 2:
            raise ConfigError(
                f"head_dim={self.head_dim} (d_model={self.d_model}, heads={self.heads}) is odd; rotary positions "
                "turn pairs of features, so choose an even head_dim or model.positions=learned"
            )

    @classmethod
    def of(cls, config: Config) -> Geometry:
        """The integers of a configuration, under its regime.

        Raises ConfigError where the regime cannot be met.
        """
        from src.regimes import solve  # regimes stand on costs, and costs on this class

        return solve(config)

    @property
    def attention_width(self) -> int:
        """Width of all heads laid side by side."""
        return self.heads * self.head_dim

    @property
    def group_size(self) -> int:
        """Adjacent query heads that share one kv-head."""
        return self.heads // self.kv_heads

    @property
    def is_latent(self) -> bool:
        return self.attention == "latent"

    @property
    def reference(self) -> Geometry:
        """What this geometry is compared with: grouped attention of `reference_heads` in the same model.

        Its heads side by side are as wide as the model; under fixed_head_dim one of them is as wide as one here.
        Raises ConfigError where there is no such model.
        """
        held = self.regime == "fixed_head_dim"
        return replace(
            self,
            attention="grouped",
            heads=self.reference_heads,
            kv_heads=self.reference_kv_heads,
            head_dim=self.head_dim if held else reference_head_dim(self.d_model, self.reference_heads),
            latent_dim=0,
            rope_dim=0,
            ffn_width=self.reference_ffn_width,
        )

    def as_dict(self) -> dict[str, int | str | bool]:
        return {**asdict(self), "attention_width": self.attention_width}

    def _check_latent(self) -> None:
        if self.kv_heads != self.heads:
            raise ConfigError(
                f"kv_heads={self.kv_heads} with attention=latent: every head has a key of its own, rebuilt from the "
                "latent; leave kv_heads=null and choose latent_dim instead"
            )
        full = 2 * self.attention_width
        if self.latent_dim > full:
            raise ConfigError(
                f"latent_dim={self.latent_dim} is wider than the keys and values that it compresses "
                f"(2 x heads={self.heads} x head_dim={self.head_dim} = {full}); choose latent_dim up to {full}"
            )
        if self.rope_dim % 2:
            raise ConfigError(
                f"rope_dim={self.rope_dim} is odd; rotary positions turn pairs of features, so choose an even rope_dim"
            )
        if self.positions == "rotary" and self.rope_dim == 0:
            raise ConfigError(
                "rope_dim=0 with model.positions=rotary leaves the model without positions; choose an even "
                "rope_dim, or model.positions=learned"
            )


def check_sharing(heads: int, kv_heads: int, prefix: str = "") -> None:
    """Raises ConfigError where the kv-heads cannot be shared out evenly; `prefix` names whose they are."""
    if heads % kv_heads:
        options = ", ".join(map(str, divisors(heads)))
        raise ConfigError(f"{prefix}kv_heads={kv_heads} does not divide {prefix}heads={heads}; choose one of {options}")


def reference_head_dim(d_model: int, reference_heads: int) -> int:
    """Width of one of the reference's heads. Raises ConfigError where it is not whole."""
    if d_model % reference_heads:
        options = ", ".join(str(d) for d in divisors(d_model) if d <= max(16, reference_heads))
        raise ConfigError(
            f"reference_heads={reference_heads} does not divide d_model={d_model}; choose one of {options}"
        )
    return d_model // reference_heads


def divisors(number: int) -> list[int]:
    """Every divisor, ascending.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    return [d for d in range(1, number + 1) if number % d == 0]
