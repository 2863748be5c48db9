"""The command lines of an answer: to train it (scaled down where it must be), to audit it, to bench it, to test it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from src import costs
from src.geometry import Geometry
from src.recommend.rules import HEAD_DIM_MIN

SMALL_PARAMETERS, SMALL_CONTEXT = 12_000_000, 256
"""What two CPU cores train in minutes; a shape beyond it is scaled down."""
SCALED_HEADS, SCALED_LAYERS, SCALED_CONTEXT, SCALED_STEPS = 8, 2, 128, 500
CHARACTERS = 65
_RUN = "uv run python -m"


@dataclass(frozen=True)
class Hook:
    """A two-layer model of one kind, and what it reached on the induction task (A B ... A asks for B), seed 0."""

    geometry_overrides: tuple[str, ...]
    accuracy: float
    context: int = 32
    steps: int = 1500

    @property
    def command(self) -> str:
        settings = (
            *("data=induction", "data.symbols=16", "model.layers=2", "model.positions=rotary"),
            *self.geometry_overrides,
            *(f"context_length={self.context}", f"training.max_steps={self.steps}", "training.batch_size=32"),
            *("training.eval_batch_size=500", "sample.tokens=0"),
        )
        return f"{_RUN} src.train {' '.join(settings)}"


HOOKS = {
    "MHA": Hook(("heads=2", "reference_heads=2", "model.d_model=64"), 1.0),
    "GQA": Hook(("heads=4", "kv_heads=2", "model.d_model=128"), 1.0),
    "MQA": Hook(("heads=2", "kv_heads=1", "reference_heads=2", "model.d_model=64"), 1.0),
    "MLA": Hook(
        ("attention=latent", "heads=2", "latent_dim=32", "rope_dim=16", "reference_heads=2", "model.d_model=64"), 1.0
    ),
}
"""By kind; measured once with these very commands (docs/configurator.md)."""


def is_small(geometry: Geometry) -> bool:
    """Whether two CPU cores train it, as it is, in minutes."""
    return costs.parameters(geometry, CHARACTERS) <= SMALL_PARAMETERS and geometry.context_length <= SMALL_CONTEXT


def scaled(geometry: Geometry) -> Geometry:
    """The same kind, small: up to 8 heads of 32, two layers, context 128; groups as large as those heads allow."""
    if is_small(geometry):
        return geometry
    heads = min(geometry.heads, SCALED_HEADS)
    kind = geometry.kind.display_name(geometry.heads, geometry.kv_heads)
    group = geometry.heads // geometry.kv_heads
    # A group of 8 would leave one kv-head of 8: MQA, another kind.
    kv_heads = {"MHA": heads, "MLA": heads, "MQA": 1}.get(kind) or max(2, heads // group)
    return replace(
        geometry,
        layers=min(geometry.layers, SCALED_LAYERS),
        d_model=heads * HEAD_DIM_MIN,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=HEAD_DIM_MIN,
        latent_dim=_narrowed(geometry.latent_dim, geometry, step=1),
        rope_dim=_narrowed(geometry.rope_dim, geometry, step=2),
        ffn_width=4 * heads * HEAD_DIM_MIN,
        context_length=min(geometry.context_length, SCALED_CONTEXT),
        reference_heads=heads,
        reference_kv_heads=heads,
        reference_ffn_width=4 * heads * HEAD_DIM_MIN,
    )


def _narrowed(width: int, geometry: Geometry, step: int) -> int:
    """A latent's width in the same number of head widths; 0 where the kind has none."""
    return max(step, width * HEAD_DIM_MIN // geometry.head_dim // step * step) if width else 0


def train(geometry: Geometry) -> str:
    """The line that trains this very shape on Shakespeare."""
    steps = f" training.max_steps={SCALED_STEPS}"
    return f"{_RUN} src.train {' '.join(settings(geometry))}{steps}"


def settings(geometry: Geometry) -> list[str]:
    """The settings of src.train that mean this geometry, on top of model=nano."""
    return [
        "model.positions=rotary",
        f"model.d_model={geometry.d_model}",
        f"model.layers={geometry.layers}",
        *_attention(geometry, [geometry.kv_heads]),
        f"reference_heads={geometry.reference_heads}",
        f"context_length={geometry.context_length}",
    ]


def audit(geometry: Geometry, vocabulary_size: int) -> str:
    """The line that shows this shape's costs beside MHA's."""
    beside = sorted({geometry.kv_heads, geometry.heads}, reverse=True)
    return (
        f"{_RUN} src.audit model.positions=rotary model.d_model={geometry.d_model} model.layers={geometry.layers} "
        f"{' '.join(_attention(geometry, beside))} reference_heads={geometry.heads} "
        f"context_length={geometry.context_length} --vocabulary-size {vocabulary_size}"
    )


def bench(geometry: Geometry) -> str:
    """The line that measures prefill and decode of this (scaled) shape beside MHA."""
    beside = sorted({geometry.kv_heads, geometry.heads}, reverse=True)
    return (
        f"{_RUN} src.bench model.d_model={geometry.d_model} model.layers={geometry.layers} "
        f"model.positions=rotary {' '.join(_attention(geometry, beside))} reference_heads={geometry.heads} "
        f"context_length={geometry.context_length}"
    )


def _attention(geometry: Geometry, kv_heads: list[int]) -> list[str]:
    own = [f"{name}={getattr(geometry, name)}" for name in geometry.kind.settings]
    shared = [f"kv_heads={','.join(map(str, kv_heads))}"] if geometry.kind.shares_kv_heads else []
    return [*([f"attention={geometry.attention}"] if own else []), f"heads={geometry.heads}", *shared, *own]
