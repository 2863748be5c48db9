"""Which integers does a head count mean? The one answer; the model, the costs and the plots ask here.

The configuration stays what its user wrote (`head_dim: null`); a `Geometry` holds the final integers. How a
regime arrives at them is `src.regimes`; what a kind of attention allows and needs is `src.attention_kinds`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from src import regimes
from src.attention_kinds import BASELINE, AttentionKind, kind_of
from src.attention_kinds.sharing import check_sharing, reference_head_dim
from src.config import Config


@dataclass(frozen=True)
class Geometry:
    """The shape of a model, vocabulary apart. Everything is final: nothing is None or derived later.

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
        self.kind.check(self)

    @classmethod
    def of(cls, config: Config) -> Geometry:
        """The integers of a configuration, under its regime.

        Raises ConfigError where heads and widths do not fit together, where a setting contradicts the regime, and
        where the regime cannot be met; the message says what can be.
        """
        model = config.model
        ffn_width = round(model.ffn_ratio * model.d_model)
        draft = cls(
            attention=config.attention,
            layers=model.layers,
            d_model=model.d_model,
            heads=config.heads,
            **regimes.head_widths(config),
            ffn_width=ffn_width,
            context_length=config.context_length,
            activation=model.activation,
            positions=model.positions,
            norm=model.norm,
            residual=model.residual,
            bias=model.bias,
            tied_embeddings=model.tied_embeddings,
            linear_ends=model.linear_ends,
            regime=regimes.regime_of(config),
            reference_heads=config.reference_heads,
            reference_kv_heads=regimes.reference_of(config).kv_heads,
            reference_ffn_width=ffn_width,
        )
        return regimes.with_feed_forward(draft, is_mha=config.kv_heads is None)

    @property
    def kind(self) -> AttentionKind:
        """What its attention says of itself."""
        return kind_of(self.attention)

    @property
    def attention_width(self) -> int:
        """Width of all heads laid side by side."""
        return self.heads * self.head_dim

    @property
    def reference(self) -> Geometry:
        """What this geometry is compared with: grouped attention of `reference_heads` in the same model.

        Its heads side by side are as wide as the model; under fixed_head_dim one of them is as wide as one here.
        Raises ConfigError where there is no such model.
        """
        held = self.regime == "fixed_head_dim"
        return replace(
            self,
            attention=BASELINE.name,
            heads=self.reference_heads,
            kv_heads=self.reference_kv_heads,
            head_dim=self.head_dim if held else reference_head_dim(self.d_model, self.reference_heads),
            latent_dim=0,
            rope_dim=0,
            ffn_width=self.reference_ffn_width,
        )

    def as_dict(self) -> dict[str, int | str | bool]:
        return {**asdict(self), "attention_width": self.attention_width}
