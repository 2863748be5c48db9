"""The audit as plain values: one row a configuration, every cost with its ratio to the reference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from src.config import Config
from src.costs import Costs
from src.errors import ConfigError
from src.geometry import Geometry
from src.io_spec import TokenSpec
from src.regimes import is_held, regime_of

COMPARED = (
    "parameters",
    "attention_parameters",
    "flops_per_token",
    "decode_flops_per_token",
    "decode_bytes_read_per_token",
    "cache_bytes_per_token",
)
"""The costs that stand beside their ratio to the reference; names of `Costs`."""


@dataclass(frozen=True)
class Row:
    """One configuration that its regime admits. `reference` is None where the model has no such reference."""

    config: Config
    geometry: Geometry
    costs: Costs
    reference: Costs | None

    def ratio(self, cost: str) -> float | None:
        """This cost over the reference's; None without a reference."""
        if self.reference is None:
            return None
        return getattr(self.costs, cost) / getattr(self.reference, cost)

    def is_matched(self, cost: str) -> bool:
        """Whether this cost is the reference's, within the regimes' tolerance."""
        return self.reference is not None and is_held(getattr(self.costs, cost), getattr(self.reference, cost))

    @property
    def is_reference(self) -> bool:
        """Whether this is the very model that the others are compared with."""
        return self.reference is not None and self.geometry == self.geometry.reference

    def as_dict(self) -> dict[str, Any]:
        return {
            "status": "met",
            **_asked(self.config),
            **self.geometry.as_dict(),
            **self.costs.as_dict(),
            "ratio": {cost: self.ratio(cost) for cost in COMPARED},
            "matched": [cost for cost in COMPARED if self.is_matched(cost)],
            "is_reference": self.is_reference,
        }


@dataclass(frozen=True)
class Refused:
    """One configuration that cannot be, and why."""

    config: Config
    reason: str

    def as_dict(self) -> dict[str, Any]:
        return {"status": "refused", **_asked(self.config), "reason": self.reason}


def audit(configs: Iterable[Config], vocabulary_size: int) -> list[Row | Refused]:
    """One row a configuration, in their order. Bytes are those of `dtype_of` the configuration."""
    return [_row(config, vocabulary_size) for config in configs]


def dtype_of(config: Config) -> str:
    """The dtype that bytes are counted in: the asked one, or what 'auto' means on a CPU."""
    return "float32" if config.training.dtype == "auto" else config.training.dtype


def _row(config: Config, vocabulary_size: int) -> Row | Refused:
    try:
        geometry = Geometry.of(config)
    except ConfigError as error:
        return Refused(config, str(error))
    dtype, spec = dtype_of(config), TokenSpec(vocabulary_size)
    try:
        reference = Costs.of(geometry.reference, spec, dtype)
    except ConfigError:  # at fixed width nothing is solved for, so a run needs no reference
        reference = None
    return Row(config, geometry, Costs.of(geometry, spec, dtype), reference)


def _asked(config: Config) -> dict[str, Any]:
    return {
        "model": config.model.name,
        "regime": regime_of(config),
        "attention": config.attention,
        "context_length": config.context_length,
        "heads": config.heads,
        "kv_heads": config.kv_heads,
    }
