"""From what the user wrote to the final integers: what each regime holds while heads vary, and how.

    regime          held at the reference's value                                 solved for
    fixed_width     heads x head_dim = d_model                                    head_dim
    fixed_head_dim  the width of one head                                         -
    equal_params    parameters, within 0.1%                                       ffn_width
    equal_cache     numbers cached a token, exactly                               head_dim; latent_dim (latent)
    equal_cost      numbers read to decode one token at context_length, 0.1%      ffn_width

A regime that nobody named (null) is fixed_width, or fixed_head_dim where `head_dim` is given; with fixed_width, a
`head_dim` that makes attention wider or narrower than the model is refused, because the run would bear a label
that it does not keep.

The reference (`Geometry.reference`) is grouped attention in the same model: `reference_heads` heads side by side
as wide as the model, `reference_kv_heads` keys and values (null: as many as heads), the feed-forward of
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

from src import costs
from src.config import Config
from src.errors import ConfigError
from src.geometry import Geometry, check_sharing, divisors, reference_head_dim

TOLERANCE = Fraction(1, 1000)
"""How far a solved feed-forward may leave the held quantity from the reference's, relative to it."""

FEED_FORWARD_SOLVES: dict[str, Callable[[Geometry], int]] = {
    "equal_params": costs.non_embedding_parameters,
    "equal_cost": lambda geometry: costs.decode_elements_read(geometry, batch=1, positions=geometry.context_length),
}
"""What the feed-forward's width is solved to hold, by regime; linear in that width."""


def regime_of(config: Config) -> str:
    """The regime that a configuration lives in, where it names one and where it does not."""
    return config.regime or ("fixed_width" if config.head_dim is None else "fixed_head_dim")


def solve(config: Config) -> Geometry:
    """The final integers of a configuration.

    Raises ConfigError where heads and widths do not fit together, where a setting contradicts the regime, and
    where the regime cannot be met; the message says what can be.
    """
    config = config.model_copy(update={"regime": regime_of(config)})
    model = config.model
    kv_heads = config.heads if config.kv_heads is None else config.kv_heads
    check_sharing(config.heads, kv_heads)
    head_dim = _head_dim(config, kv_heads)
    latent_dim, rope_dim = _latent(config, head_dim)
    ffn_width = round(model.ffn_ratio * model.d_model)
    draft = Geometry(
        attention=config.attention,
        layers=model.layers,
        d_model=model.d_model,
        heads=config.heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        latent_dim=latent_dim,
        rope_dim=rope_dim,
        ffn_width=ffn_width,
        context_length=config.context_length,
        activation=model.activation,
        positions=model.positions,
        norm=model.norm,
        residual=model.residual,
        bias=model.bias,
        tied_embeddings=model.tied_embeddings,
        linear_ends=model.linear_ends,
        regime=regime_of(config),
        reference_heads=config.reference_heads,
        reference_kv_heads=_reference_kv_heads(config),
        reference_ffn_width=ffn_width,
    )
    if draft.regime in FEED_FORWARD_SOLVES:
        return _solve_feed_forward(draft, is_mha=config.kv_heads is None)
    return draft


def is_held(value: int, target: int) -> bool:
    """Whether a value is within the tolerance of the reference's."""
    return abs(value - target) <= TOLERANCE * target


def _reference_kv_heads(config: Config) -> int:
    if config.reference_kv_heads is None:
        return config.reference_heads
    check_sharing(config.reference_heads, config.reference_kv_heads, prefix="reference_")
    return config.reference_kv_heads


def _reference_head_dim(config: Config) -> int:
    return reference_head_dim(config.model.d_model, config.reference_heads)


def _head_dim(config: Config, kv_heads: int) -> int:
    if config.regime == "fixed_width":
        return _head_dim_at_fixed_width(config)
    if config.regime == "equal_cache" and config.attention == "grouped":
        return _head_dim_at_equal_cache(config, kv_heads)
    return _reference_head_dim(config) if config.head_dim is None else config.head_dim


def _head_dim_at_fixed_width(config: Config) -> int:
    d_model, heads, head_dim = config.model.d_model, config.heads, config.head_dim
    if head_dim is not None and heads * head_dim != d_model:
        raise ConfigError(
            f"head_dim={head_dim} with heads={heads} makes attention {heads * head_dim} wide, and "
            f"regime=fixed_width holds heads x head_dim at d_model={d_model}; "
            "leave head_dim=null, or choose regime=fixed_head_dim"
        )
    if d_model % heads:
        options = ", ".join(str(d) for d in divisors(d_model) if d <= max(16, heads))
        raise ConfigError(
            f"heads={heads} does not divide d_model={d_model} (regime=fixed_width); "
            f"choose heads from {options}, or regime=fixed_head_dim"
        )
    return d_model // heads


def _head_dim_at_equal_cache(config: Config, kv_heads: int) -> int:
    """The width at which kv_heads keys and values hold as many numbers as the reference's."""
    held = _reference_kv_heads(config) * _reference_head_dim(config)
    head_dim, rest = divmod(held, kv_heads)
    must_be_even = config.model.positions == "rotary"
    if rest or (must_be_even and head_dim % 2):
        exact = [k for k in divisors(config.heads) if held % k == 0 and not (must_be_even and held // k % 2)]
        step = 2 if must_be_even else 1
        near = max(step, step * round(held / kv_heads / step))
        raise ConfigError(
            f"heads={config.heads} kv_heads={kv_heads} cannot meet regime=equal_cache: the reference keeps 2 x {held} "
            f"numbers a token in each layer, which needs head_dim={held / kv_heads:.6g}, and head_dim must be "
            f"{'even (rotary positions)' if must_be_even else 'whole'}; nearest is head_dim={near} with 2 x "
            f"{kv_heads * near}; " + _choices("kv_heads that meet it", exact, otherwise="choose other heads")
        )
    if config.head_dim not in (None, head_dim):
        raise ConfigError(
            f"head_dim={config.head_dim} contradicts regime=equal_cache, which needs head_dim={head_dim} for "
            f"kv_heads={kv_heads} (the reference keeps 2 x {held} numbers a token in each layer); leave head_dim=null"
        )
    return head_dim


def _latent(config: Config, head_dim: int) -> tuple[int, int]:
    """latent_dim and rope_dim; both 0 with grouped attention.

    Null follows DeepSeek-V2 (2024, section 2.1.4), in the reference's head width so that the cache does not change
    with heads: a latent of 4 head widths, a rotary key of half of one (none without rotary positions).
    """
    latent_dim, rope_dim = config.latent_dim, config.rope_dim
    if config.attention == "grouped":
        if latent_dim is not None or rope_dim is not None:
            raise ConfigError(
                f"latent_dim={_written(latent_dim)} and rope_dim={_written(rope_dim)} belong to attention=latent; "
                "leave them null with attention=grouped"
            )
        return 0, 0
    if rope_dim is None:
        rope_dim = 2 * (_reference_head_dim(config) // 4) if config.model.positions == "rotary" else 0
    if config.regime == "equal_cache":
        return _latent_dim_at_equal_cache(config, head_dim, rope_dim), rope_dim
    return (4 * _reference_head_dim(config) if latent_dim is None else latent_dim), rope_dim


def _latent_dim_at_equal_cache(config: Config, head_dim: int, rope_dim: int) -> int:
    held = 2 * _reference_kv_heads(config) * _reference_head_dim(config)
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


def _solve_feed_forward(draft: Geometry, is_mha: bool) -> Geometry:
    """The draft with the feed-forward's width at which the held cost is nearest to the reference's."""
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

    def meets(**changes: int) -> bool:
        try:
            return _nearest_ffn_width(replace(draft, **changes), target) >= 1
        except ConfigError:
            return False

    def sharing(heads: int) -> int:
        return heads if is_mha or draft.is_latent else draft.kv_heads

    heads = next((h for h in range(draft.heads - 1, 0, -1) if meets(heads=h, kv_heads=sharing(h))), None)
    head_dim = next((d for d in range(draft.head_dim - 1, 0, -1) if meets(head_dim=d)), None)
    kv_heads = [] if draft.is_latent else [k for k in divisors(draft.heads) if k < draft.kv_heads and meets(kv_heads=k)]
    ways = [f"heads={heads} or fewer"] if heads else []
    ways += [f"head_dim={head_dim} or narrower"] if head_dim else []
    ways += [f"kv_heads={max(kv_heads)} or fewer"] if kv_heads else []
    return "choose " + ", or ".join([*ways, "a larger model.ffn_ratio"])


def _choices(what: str, options: list[int], otherwise: str) -> str:
    return f"{what}: {', '.join(map(str, options))}" if options else otherwise


def _written(value: int | None) -> str:
    return "null" if value is None else str(value)
