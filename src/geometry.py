"""Which integers does a head count mean? The one answer; the model, the costs and the plots ask here.

The configuration stays what its user wrote (`head_dim: null`); a `Geometry` holds the final integers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from src.config import Config
from src.errors import ConfigError


@dataclass(frozen=True)
class Geometry:
    """The shape of a model, vocabulary apart. Everything is final: nothing is null or derived later."""

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
    regime: str
    reference_heads: int

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

    def as_dict(self) -> dict[str, int | str | bool]:
        return {**asdict(self), "attention_width": self.attention_width}

    @classmethod
    def of(cls, config: Config) -> Geometry:
        """The integers of a configuration.

        Raises ConfigError where heads, widths and kv-heads do not fit together.
        """
        heads = config.heads
        kv_heads = _kv_heads(config)
        head_dim = _head_dim(config)
        _check_rotary(config, head_dim)
        latent_dim, rope_dim = _latent(config, head_dim)
        model = config.model
        return cls(
            attention=config.attention,
            layers=model.layers,
            d_model=model.d_model,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            latent_dim=latent_dim,
            rope_dim=rope_dim,
            ffn_width=round(model.ffn_ratio * model.d_model),
            context_length=config.context_length,
            activation=model.activation,
            positions=model.positions,
            norm=model.norm,
            residual=model.residual,
            bias=model.bias,
            tied_embeddings=model.tied_embeddings,
            regime=config.regime,
            reference_heads=config.reference_heads,
        )


def divisors(number: int) -> list[int]:
    """Every divisor, ascending.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    return [d for d in range(1, number + 1) if number % d == 0]


def _kv_heads(config: Config) -> int:
    kv_heads = config.heads if config.kv_heads is None else config.kv_heads
    if config.heads % kv_heads:
        options = ", ".join(map(str, divisors(config.heads)))
        raise ConfigError(f"kv_heads={kv_heads} does not divide heads={config.heads}; choose one of {options}")
    if config.attention == "latent" and kv_heads != config.heads:
        raise ConfigError(
            f"kv_heads={kv_heads} with attention=latent: every head has a key of its own, rebuilt from the latent; "
            "leave kv_heads=null and choose latent_dim instead"
        )
    return kv_heads


def _head_dim(config: Config) -> int:
    d_model, heads = config.model.d_model, config.heads
    if config.head_dim is not None:
        return config.head_dim
    if config.regime == "fixed_width":
        if d_model % heads:
            options = ", ".join(str(d) for d in divisors(d_model) if d <= max(16, heads))
            raise ConfigError(
                f"heads={heads} does not divide d_model={d_model} (regime fixed_width); "
                f"choose heads from {options}, or set head_dim, or regime=fixed_head_dim"
            )
        return d_model // heads
    if config.regime != "fixed_head_dim":
        raise ConfigError(f"regime={config.regime} is not available yet; choose fixed_width or fixed_head_dim")
    if d_model % config.reference_heads:
        raise ConfigError(
            f"reference_heads={config.reference_heads} does not divide d_model={d_model}; "
            "choose another reference or set head_dim"
        )
    return d_model // config.reference_heads


def _check_rotary(config: Config, head_dim: int) -> None:
    if config.attention == "grouped" and config.model.positions == "rotary" and head_dim % 2:
        raise ConfigError(
            f"head_dim={head_dim} (d_model={config.model.d_model}, heads={config.heads}) is odd; "
            "rotary positions turn pairs of features, so choose an even head_dim or positions=learned"
        )


def _latent(config: Config, head_dim: int) -> tuple[int, int]:
    if config.attention == "grouped":
        if config.latent_dim is not None or config.rope_dim is not None:
            raise ConfigError(
                f"latent_dim={config.latent_dim} and rope_dim={config.rope_dim} belong to attention=latent; "
                "leave them null with attention=grouped"
            )
        return 0, 0
    latent_dim, rope_dim = config.latent_dim, config.rope_dim
    if latent_dim is None or rope_dim is None:
        raise ConfigError(f"attention=latent needs latent_dim and rope_dim; got {latent_dim} and {rope_dim}")
    full = 2 * config.heads * head_dim
    if latent_dim > full:
        raise ConfigError(
            f"latent_dim={latent_dim} is wider than the keys and values that it compresses "
            f"(2 x heads x head_dim = {full}); choose latent_dim below {full}"
        )
    if rope_dim % 2:
        raise ConfigError(f"rope_dim={rope_dim} is odd; rotary positions turn pairs of features")
    if config.model.positions == "rotary" and rope_dim == 0:
        raise ConfigError("rope_dim=0 with positions=rotary leaves the model without positions; set rope_dim")
    return latent_dim, rope_dim
