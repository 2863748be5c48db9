"""From a budget to integers: the width, the heads, the kinds of attention that may be chosen, the layers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from src import costs
from src.attention_kinds.sharing import divisors, head_options
from src.errors import ConfigError
from src.geometry import Geometry
from src.recommend.request import Request
from src.recommend.rules import DEEPEST, HEAD_DIM_MAX, HEAD_DIM_MIN, KV_HEADS_SERVED, WIDE_MODEL

WIDTHS = (
    (100_000, 64, "model numpy_tutorial"),
    (800_000, 128, "model nano"),
    (10_000_000, 384, "model small"),
    (125_000_000, 768, "the multi-head lesson"),
    (350_000_000, 1024, "the multi-head lesson"),
    (774_000_000, 1280, "gpt2_large"),
    (1_000_000_000, 2048, "the multi-head lesson"),
    (3_000_000_000, 3072, "Llama 3.2 3B"),
    (7_000_000_000, 4096, "llama2_7b"),
    (13_000_000_000, 5120, "llama2_13b"),
    (34_000_000_000, 8192, "CodeLlama 34B"),
    (70_000_000_000, 8192, "the multi-head lesson"),
    (123_000_000_000, 12288, "Mistral Large"),
    (405_000_000_000, 16384, "llama3_405b"),
)
"""Budgets and the d_model that goes with them: the nearest one, in ratio, is taken."""

SLACK = 1.1
"""How far one layer alone may exceed a budget before the width is too large for it."""


@dataclass(frozen=True)
class Sharing:
    """How keys and values are kept: the part of a geometry that this page decides last."""

    attention: str
    kv_heads: int
    latent_dim: int = 0
    rope_dim: int = 0


def width_for(request: Request) -> int:
    """The asked d_model, or the one that goes with the budget and leaves room for a layer.

    Raises ConfigError where not even one layer is within the budget.
    """
    if request.d_model is not None:
        _check_room(request, request.d_model)
        return request.d_model
    nearest = min(WIDTHS, key=lambda row: abs(math.log(row[0] / request.parameters)))[1]
    narrower = [width for width in _ladder() if width <= nearest and _has_room(request, width)]
    if not narrower:
        _check_room(request, _ladder()[0])
    return max(narrower)


def heads_for(d_model: int) -> int:
    """Heads of 128 where the model is wide, else of 64; where neither divides it, of the width nearest to 64.

    Raises ConfigError where no head width between the rules' bounds divides d_model.

    >>> [(d_model, heads_for(d_model)) for d_model in (768, 1024, 2048, 8192, 240)]
    [(768, 12), (1024, 16), (2048, 16), (8192, 64), (240, 4)]
    """
    for width in (128, 64) if d_model >= WIDE_MODEL else (64,):
        if d_model % width == 0:
            return d_model // width
    widths = [d for d in divisors(d_model) if HEAD_DIM_MIN <= d <= HEAD_DIM_MAX and d % 2 == 0]
    if not widths:
        near = 64 * max(1, round(d_model / 64))
        raise ConfigError(
            f"d_model={d_model} cannot be shared out to heads: no even head width between {HEAD_DIM_MIN} and "
            f"{HEAD_DIM_MAX} divides it; choose a multiple of 64, such as --d-model {near}"
        )
    return d_model // min(widths, key=lambda width: abs(math.log(width / 64)))


def sharings(d_model: int, heads: int, with_latent: bool) -> list[Sharing]:
    """Every way to keep keys and values that may be recommended."""
    shared = [k for k in divisors(heads) if k < heads and k <= KV_HEADS_SERVED]
    ways = [Sharing("grouped", k) for k in (heads, *shared)]
    return [*ways, latent_of(heads, d_model // heads)] if with_latent else ways


def latent_of(heads: int, head_dim: int) -> Sharing:
    """Latent attention as DeepSeek-V2 chose it: a latent of 4 head widths and a rotary key of half of one."""
    return Sharing("latent", heads, latent_dim=min(4, 2 * heads) * head_dim, rope_dim=max(2, 2 * (head_dim // 4)))


def build(request: Request, d_model: int, heads: int, sharing: Sharing) -> Geometry:
    """The whole shape, with the asked layers or those that come nearest to the budget.

    Blocks are the project's own (model nano: layer norm, GELU four times as wide, no biases, tied table) with rotary
    positions, which cost no parameters at any context.
    """
    one = Geometry(
        attention=sharing.attention,
        layers=1,
        d_model=d_model,
        heads=heads,
        kv_heads=sharing.kv_heads,
        head_dim=d_model // heads,
        latent_dim=sharing.latent_dim,
        rope_dim=sharing.rope_dim,
        ffn_width=4 * d_model,
        context_length=request.context,
        activation="gelu",
        positions="rotary",
        norm="layer",
        residual=True,
        bias=False,
        tied_embeddings=True,
        linear_ends=True,
        regime="fixed_width",
        reference_heads=heads,
        reference_kv_heads=heads,
        reference_ffn_width=4 * d_model,
    )
    if request.layers is not None:
        return replace(one, layers=request.layers)
    first, second = (costs.parameters(replace(one, layers=n), request.vocabulary_size) for n in (1, 2))
    return replace(one, layers=max(1, 1 + round((request.parameters - first) / (second - first))))


def with_sharing(geometry: Geometry, sharing: Sharing) -> Geometry:
    """The same model with other keys and values."""
    return replace(
        geometry,
        attention=sharing.attention,
        kv_heads=sharing.kv_heads,
        latent_dim=sharing.latent_dim,
        rope_dim=sharing.rope_dim,
    )


def check_depth(request: Request, geometry: Geometry) -> None:
    """Raises ConfigError for a model deeper than any that is known to have been trained this way."""
    if geometry.layers <= DEEPEST:
        return
    rule = f"published models have up to 126, and more than {DEEPEST} are refused"
    if request.layers is not None:
        raise ConfigError(f"--layers {request.layers}: {rule}; choose up to {DEEPEST}")
    wider = next((w for w in _ladder() if w > geometry.d_model and _layers_at(request, w) <= DEEPEST), None)
    raise ConfigError(
        f"{request.parameters:,} parameters at d_model={geometry.d_model} make {geometry.layers:,} layers; {rule}; "
        + ("choose a smaller budget" if wider is None else f"choose --d-model {wider}")
    )


def propose(request: Request, d_model: int, heads: int) -> Geometry:
    """The shape that --propose asks for; what it leaves open is the recommendation's (`heads`) or the kind's own.

    Raises ConfigError where the proposal contradicts itself or d_model.
    """
    asked = request.proposal
    head_dim = int(asked.get("head_dim", 0))
    heads = int(asked.get("heads", d_model // head_dim if head_dim and d_model % head_dim == 0 else heads))
    if d_model % heads or (head_dim and heads * head_dim != d_model):
        got = ", ".join(f"{name}={value}" for name, value in asked.items())
        raise ConfigError(
            f"{got} with d_model={d_model}: d_model = heads x head_dim must hold; choose heads from "
            f"{head_options(d_model, heads)}, and head_dim to match"
        )
    return build(request, d_model, heads, _proposed_sharing(request, heads, d_model // heads))


def _proposed_sharing(request: Request, heads: int, head_dim: int) -> Sharing:
    asked = request.proposal
    attention = str(asked.get("attention", "latent" if {"latent_dim", "rope_dim"} & set(asked) else "grouped"))
    kv_heads = int(asked.get("kv_heads", heads))
    if attention == "latent":
        usual = latent_of(heads, head_dim)
        latent_dim, rope_dim = (int(asked.get(n, getattr(usual, n))) for n in ("latent_dim", "rope_dim"))
        return Sharing(attention, kv_heads, latent_dim, rope_dim)
    foreign = {"latent_dim", "rope_dim"} & set(asked)
    if foreign:
        raise ConfigError(
            f"--propose {', '.join(sorted(foreign))} with attention={attention}: only attention=latent has them; "
            "leave them out, or propose attention=latent"
        )
    return Sharing(attention, kv_heads)


def _ladder() -> list[int]:
    return list(dict.fromkeys(width for _, width, _ in WIDTHS))


def _smallest(request: Request, d_model: int) -> int:
    """Parameters of one layer of MHA at this width, table included."""
    bare = replace(request, layers=1, d_model=d_model)
    return costs.parameters(build(bare, d_model, 1, Sharing("grouped", 1)), request.vocabulary_size)


def _has_room(request: Request, d_model: int) -> bool:
    return _smallest(request, d_model) <= SLACK * request.parameters


def _check_room(request: Request, d_model: int) -> None:
    d_model = max(2, d_model - d_model % 2)  # an odd width is refused later, for its heads
    if _has_room(request, d_model):
        return
    widths = [
        width for width in range(64, min(d_model, math.isqrt(request.parameters)), 64) if _has_room(request, width)
    ]
    ways = f"--d-model {max(widths)} or less, or " if widths else ""
    raise ConfigError(
        f"{request.parameters:,} parameters are too few for d_model={d_model}: one layer and the table of "
        f"{request.vocabulary_size:,} tokens take {_smallest(request, d_model):,}; choose {ways}a larger --parameters"
    )


def _layers_at(request: Request, d_model: int) -> int:
    heads = heads_for(d_model)
    return build(request, d_model, heads, Sharing("grouped", heads)).layers
