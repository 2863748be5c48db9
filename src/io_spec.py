"""Input and output of a model: tokens or vectors. Data says it, model and costs are built to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from src.errors import ConfigError

if TYPE_CHECKING:
    from src.geometry import Geometry


@dataclass(frozen=True)
class TokenSpec:
    """Tokens in, logits of the next token out; the loss is cross-entropy in nats an answer."""

    vocabulary_size: int

    @property
    def output_width(self) -> int:
        return self.vocabulary_size


@dataclass(frozen=True)
class VectorSpec:
    """Vectors of `features` numbers in, vectors of `outputs` numbers out: one a position, or one for the whole
    sequence where `is_pooled`. Every position may see every other.

    The loss is the mean squared distance; the best constant answer has loss 1.
    """

    features: int
    outputs: int
    is_pooled: bool

    @property
    def output_width(self) -> int:
        return self.outputs


IOSpec = TokenSpec | VectorSpec


def spec_of(values: Mapping[str, Any]) -> IOSpec:
    """The input and output that a checkpoint wrote as plain values."""
    return TokenSpec(**values) if "vocabulary_size" in values else VectorSpec(**values)


def check_spec(geometry: Geometry, spec: IOSpec, data_name: str) -> None:
    """Raises ConfigError where a model of this shape cannot read the data or cannot give its answers."""
    if isinstance(spec, TokenSpec):
        if not geometry.linear_ends:
            raise ConfigError(
                f"model.linear_ends=false with data={data_name}: tokens come from a table and leave as logits; "
                "leave it true, or choose data of vectors (farthest_point, max_retrieval)"
            )
        return
    if geometry.tied_embeddings:
        raise ConfigError(
            f"model.tied_embeddings=true with data={data_name}: it holds vectors, and there is no table of tokens to "
            "tie; choose model.tied_embeddings=false"
        )
    if not geometry.linear_ends and (spec.features, spec.outputs) != (geometry.d_model, geometry.d_model):
        raise ConfigError(
            f"model.linear_ends=false with data={data_name}: its vectors of {spec.features} and {spec.outputs} numbers "
            f"enter and leave as they are, so both must be model.d_model={geometry.d_model} wide; choose "
            "model.linear_ends=true, or another width"
        )
