"""From what the user wrote to the final integers: what each regime holds while heads vary, and how.

    regime          held at the reference's value                                 solved for
    fixed_width     heads x head_dim = d_model                                    head_dim
    fixed_head_dim  the width of one head                                         -
    equal_params    parameters, within 0.1%                                       ffn_width
    equal_cache     numbers cached a token, exactly                               of grouped head_dim, of latent its own
    equal_cost      numbers read to decode one token at context_length, 0.1%      ffn_width

A regime that nobody named (None) is fixed_width, or fixed_head_dim where `head_dim` is given; with fixed_width, a
`head_dim` that makes attention wider or narrower than the model is refused, because the run would bear a label
that it does not keep.

The reference (`Geometry.reference`) is grouped attention in the same model: `reference_heads` heads side by side
as wide as the model, `reference_kv_heads` keys and values (None: as many as heads), the feed-forward of
`model.ffn_ratio`. Where the width of a head is not solved for, the last three regimes take the reference's, or the
given `head_dim`.

Parameters are counted without token and position tables and without the output matrix: those are the same on
both sides, so what holds within 0.1% here holds for the total with any vocabulary. Widening the feed-forward to
pay for shared keys and values follows Shazeer 2019, section 4.

The cost of decoding is what one step must read for one sequence: every weight of the blocks once and the cache
of `context_length` tokens, in numbers, both being of one dtype. Bytes and not FLOPs, because a decoding step
does a few FLOPs for each number it reads, far below what any processor needs to be kept busy, so its time is
reading time (Shazeer 2019, section 2.4; Pope et al. 2022, section 2); and because sharing kv-heads saves bytes
but no FLOPs, so that a cost in FLOPs would not see the factor under study.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from src import costs
from src.attention_kinds import kind_of
from src.attention_kinds.kind import Reference, refuse_foreign_settings
from src.attention_kinds.sharing import check_sharing, divisors, head_options
from src.config import Config
from src.errors import ConfigError

if TYPE_CHECKING:
    from src.geometry import Geometry

TOLERANCE = Fraction(1, 1000)
"""How far a solved feed-forward may leave the held quantity from the reference's, relative to it."""

HELD = {
    "fixed_width": "attention_width",
    "fixed_head_dim": "head_dim",
    "equal_params": "parameters",
    "equal_cache": "cache_bytes_per_token",
    "equal_cost": "decode_bytes_read_per_token",
}
"""What each regime promises to hold: a name of `Geometry` or of `Costs`."""

FEED_FORWARD_SOLVES: dict[str, Callable[[Geometry], int]] = {
    "equal_params": costs.non_embedding_parameters,
    "equal_cost": lambda geometry: costs.decode_elements_read(geometry, batch=1, positions=geometry.context_length),
}
"""What the feed-forward's width is solved to hold, by regime; linear in that width."""


def regime_of(config: Config) -> str:
    """The regime that a configuration lives in, where it names one and where it does not."""
    return config.regime or ("fixed_width" if config.head_dim is None else "fixed_head_dim")


def reference_of(config: Config) -> Reference:
    """The heads that a regime holds to."""
    return Reference(config.model.d_model, config.reference_heads, config.reference_kv_heads)


def head_widths(config: Config) -> dict[str, int]:
    """The integers of the heads: kv_heads, head_dim, latent_dim and rope_dim.

    Raises ConfigError where heads and widths do not fit together, and where a setting contradicts the regime.
    """
    regime, reference, kind = regime_of(config), reference_of(config), kind_of(config.attention)
    config = config.model_copy(update={"regime": regime})
    kv_heads = config.heads if config.kv_heads is None else config.kv_heads
    check_sharing(config.heads, kv_heads)
    if regime == "fixed_width":
        head_dim = _head_dim_at_fixed_width(config)
    else:
        head_dim = kind.head_dim(config, kv_heads, reference)
    refuse_foreign_settings(config)
    own = kind.own_widths(config, head_dim, reference)
    return {"kv_heads": kv_heads, "head_dim": head_dim, "latent_dim": 0, "rope_dim": 0, **own}


def is_held(value: int, target: int) -> bool:
    """Whether a value is within the tolerance of the reference's."""
    return abs(value - target) <= TOLERANCE * target


def _head_dim_at_fixed_width(config: Config) -> int:
    d_model, heads, head_dim = config.model.d_model, config.heads, config.head_dim
    if head_dim is not None and heads * head_dim != d_model:
        raise ConfigError(
            f"head_dim={head_dim} with heads={heads} makes attention {heads * head_dim} wide, and "
            f"regime=fixed_width holds heads x head_dim at d_model={d_model}; "
            "leave head_dim=null, or choose regime=fixed_head_dim"
        )
    if d_model % heads:
        raise ConfigError(
            f"heads={heads} does not divide d_model={d_model} (regime=fixed_width); "
            f"choose heads from {head_options(d_model, heads)}, or regime=fixed_head_dim"
        )
    return d_model // heads


def with_feed_forward(draft: Geometry, is_mha: bool) -> Geometry:
    """The draft, in a regime that solves for it with the feed-forward's width at which the held cost is nearest to
    the reference's. Raises ConfigError where none is near enough; the message says what can be.
    """
    if draft.regime not in FEED_FORWARD_SOLVES:
        return draft
    cost = FEED_FORWARD_SOLVES[draft.regime]
    target = cost(draft.reference)
    if draft.ffn_width == 0:
        if is_held(cost(draft), target):
            return draft
        raise ConfigError(
            f"regime={draft.regime} is met by the width of the feed-forward, and model.ffn_ratio=0 leaves none; "
            "choose a model.ffn_ratio above 0, or regime=fixed_width"
        )
    ffn_width = _nearest_ffn_width(draft, target)
    if ffn_width < 1:
        least = cost(replace(draft, ffn_width=1))
        raise ConfigError(
            f"heads={draft.heads} of head_dim={draft.head_dim} cannot meet regime={draft.regime}: with a feed-forward "
            f"of width 1 the model has {least:,} {_NOUN[draft.regime]}, the reference {target:,}; "
            + _ways_out(draft, target, is_mha)
        )
    solved = replace(draft, ffn_width=ffn_width)
    if not is_held(cost(solved), target):
        raise ConfigError(
            f"heads={draft.heads} cannot meet regime={draft.regime} within {float(TOLERANCE):.1%}: the nearest is "
            f"ffn_width={ffn_width} with {cost(solved):,} {_NOUN[draft.regime]}, the reference has {target:,}; "
            "choose a wider model, or another head_dim or latent_dim"
        )
    return solved


_NOUN = {"equal_params": "parameters outside the embeddings", "equal_cost": "numbers to read a decoded token"}


def _nearest_ffn_width(draft: Geometry, target: int) -> int:
    """The width whose cost, linear in it, is nearest to the target: below 1 where attention alone costs more."""
    cost = FEED_FORWARD_SOLVES[draft.regime]
    one, two = (cost(replace(draft, ffn_width=width)) for width in (1, 2))
    step = two - one
    return 1 + (2 * (target - one) + step) // (2 * step)


def _ways_out(draft: Geometry, target: int, is_mha: bool) -> str:
    """What of this draft could be changed, alone, so that the target is met."""
    shares = draft.kind.shares_kv_heads

    def meets(**changes: int) -> bool:
        try:
            return _nearest_ffn_width(replace(draft, **changes), target) >= 1
        except ConfigError:
            return False

    def sharing(heads: int) -> int:
        return heads if is_mha or not shares else draft.kv_heads

    heads = next((h for h in range(draft.heads - 1, 0, -1) if meets(heads=h, kv_heads=sharing(h))), None)
    head_dim = next((d for d in range(draft.head_dim - 1, 0, -1) if meets(head_dim=d)), None)
    kv_heads = [k for k in divisors(draft.heads) if shares and k < draft.kv_heads and meets(kv_heads=k)]
    ways = [f"heads={heads} or fewer"] if heads else []
    ways += [f"head_dim={head_dim} or narrower"] if head_dim else []
    ways += [f"kv_heads={max(kv_heads)} or fewer"] if kv_heads else []
    return "choose " + ", or ".join([*ways, "a larger model.ffn_ratio"])
