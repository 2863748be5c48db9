"""Each regime holds what it promises, for every head count, kind and size; and refuses only what cannot be met.

Held quantities are counted here from the shapes of every tensor, not by `src.costs`.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from math import prod
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from src import costs
from src.compose import compose
from src.config import REGIMES, Config
from src.errors import ConfigError
from src.geometry import Geometry

HEADS = range(1, 17)
SIZES = ("nano", "mini", "gpt2")
STYLES: list[dict[str, Any]] = [
    {},
    {"activation": "swiglu", "norm": "rms", "bias": True, "positions": "rotary", "ffn_ratio": 8 / 3},
]
size = cache(lambda name: compose([f"model={name}"]))


def arm(name: str = "nano", **changes: Any) -> Config:
    """A size with some settings changed; those of the model by their bare names."""
    base = size(name)
    inner = {key: changes.pop(key) for key in list(changes) if key in type(base.model).model_fields}
    return base.model_copy(update=changes | {"model": base.model.model_copy(update=inner)})


def arms(name: str, attention: str, regime: str) -> Iterator[Config]:
    for style, heads, reference_kv_heads in product(STYLES, HEADS, (None, 1)):
        sharing = [k for k in HEADS if heads % k == 0] if attention == "grouped" else [None]
        for kv_heads in sharing:
            yield arm(
                name,
                attention=attention,
                regime=regime,
                heads=heads,
                kv_heads=kv_heads,
                reference_kv_heads=reference_kv_heads,
                **style,
            )


def reference_of(config: Config) -> Geometry:
    """The reference asked for as an ordinary run."""
    changes = {
        "attention": "grouped",
        "latent_dim": None,
        "rope_dim": None,
        "head_dim": None,
        "regime": "fixed_width",
        "heads": config.reference_heads,
        "kv_heads": config.reference_kv_heads,
    }
    return Geometry.of(config.model_copy(update=changes))


def weights(g: Geometry, ffn_width: int | None = None) -> int:
    """Parameters of the blocks and norms, from the shape of each."""
    d, f = g.d_model, g.ffn_width if ffn_width is None else ffn_width
    if g.attention == "latent":
        queries, keys = g.heads * (g.head_dim + g.rope_dim), g.heads * g.head_dim
        shapes = [(d, queries), (d, g.latent_dim), (d, g.rope_dim), (g.latent_dim, keys), (g.latent_dim, keys)]
        biased = [queries, g.latent_dim, g.rope_dim, d]
        shapes += [(keys, d)] + ([(g.latent_dim,)] if g.norm != "none" else [])
    else:
        q, kv = g.heads * g.head_dim, g.kv_heads * g.head_dim
        shapes, biased = [(d, q), (d, kv), (d, kv), (q, d)], [q, kv, kv, d]
    if f:
        inward = 2 if g.activation == "swiglu" else 1
        shapes += [(d, f)] * inward + [(f, d)]
        biased += [f] * inward + [d]
    norm = {"layer": d * (1 + g.bias), "rms": d, "none": 0}[g.norm]
    layer = sum(map(prod, shapes)) + (sum(biased) if g.bias else 0) + norm * (2 if f else 1)
    return layer * g.layers + norm


def cached(g: Geometry) -> int:
    """Numbers kept a token in one layer, from the shapes that are kept."""
    kept = [(g.latent_dim,), (g.rope_dim,)] if g.attention == "latent" else [(g.kv_heads, g.head_dim)] * 2
    return sum(map(prod, kept))


def read(g: Geometry, ffn_width: int | None = None) -> int:
    """Numbers that one decoded token reads at the end of the context, tables and output apart."""
    return weights(g, ffn_width) + cached(g) * g.layers * g.context_length


HOLDS = {
    "fixed_width": lambda g, reference: g.heads * g.head_dim == g.d_model,
    "fixed_head_dim": lambda g, reference: g.head_dim == reference.head_dim,
    "equal_params": lambda g, reference: abs(weights(g) / weights(reference) - 1) <= 0.001,
    "equal_cache": lambda g, reference: cached(g) == cached(reference),
    "equal_cost": lambda g, reference: abs(read(g) / read(reference) - 1) <= 0.001,
}


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("attention", ["grouped", "latent"])
@pytest.mark.parametrize("name", SIZES)
def test_the_promised_quantity_is_held_for_every_head_count(name: str, attention: str, regime: str) -> None:
    met = 0
    for config in arms(name, attention, regime):
        try:
            g = Geometry.of(config)
        except ConfigError:
            continue
        met += 1
        assert HOLDS[regime](g, reference_of(config)), (g, reference_of(config))
        assert (g.heads, g.attention) == (config.heads, attention)
        assert config.kv_heads in (None, g.kv_heads)
        if regime not in ("equal_params", "equal_cost"):
            assert g.ffn_width == round(config.model.ffn_ratio * config.model.d_model)
    assert met > 16


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("attention", ["grouped", "latent"])
@pytest.mark.parametrize("name", SIZES)
def test_what_is_refused_cannot_be_met_by_any_integer(name: str, attention: str, regime: str) -> None:
    for config in arms(name, attention, regime):
        if not is_met(config):
            assert is_impossible(config), config


def is_met(config: Config) -> bool:
    try:
        Geometry.of(config)
    except ConfigError:
        return False
    return True


def is_impossible(config: Config) -> bool:
    """By trying every integer that the regime may choose."""
    reference, d_model, heads = reference_of(config), config.model.d_model, config.heads
    is_rotary = config.model.positions == "rotary"
    kv_heads = config.kv_heads or heads
    if config.attention == "latent":
        head_dim = d_model // heads if config.regime == "fixed_width" else reference.head_dim
        rope_dim = 2 * (reference.head_dim // 4) if is_rotary else 0
        latent_dim = cached(reference) - rope_dim if config.regime == "equal_cache" else 4 * reference.head_dim
        if latent_dim > 2 * heads * head_dim or (config.regime == "fixed_width" and d_model % heads):
            return True
    widths = [d for d in range(1, 2 * d_model + 1) if not (is_rotary and config.attention == "grouped" and d % 2)]
    if config.regime == "fixed_width":
        return not any(heads * d == d_model for d in widths)
    if config.regime == "equal_cache":
        return config.attention == "grouped" and not any(2 * kv_heads * d == cached(reference) for d in widths)
    if config.regime == "fixed_head_dim":
        return False
    count = weights if config.regime == "equal_params" else read
    narrow = Geometry.of(config.model_copy(update={"regime": "fixed_head_dim"}))
    return not any(abs(count(narrow, f) / count(reference) - 1) <= 0.001 for f in range(1, 16 * d_model))


@pytest.mark.parametrize("name", SIZES)
def test_all_regimes_meet_at_the_reference(name: str) -> None:
    heads = size(name).reference_heads
    for reference_kv_heads in (None, 1, 2):
        met = {
            Geometry.of(
                arm(name, regime=r, heads=heads, kv_heads=reference_kv_heads, reference_kv_heads=reference_kv_heads)
            )
            for r in REGIMES
        }
        assert len(met) == len(REGIMES)  # they differ in the regime's name
        assert {g.reference for g in met} == met


@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim", "ffn_width"),
    [(8, 1, 128, 5440), (1, 1, 128, 6784), (2, 2, 64, 6784), (4, 4, 32, 6784), (8, 8, 16, 6784)],
)
def test_equal_params_gives_the_feed_forward_widths_of_shazeer_2019(
    heads: int, kv_heads: int, head_dim: int, ffn_width: int
) -> None:
    model = {"d_model": 1024, "ffn_ratio": 4.0, "activation": "relu", "bias": False}
    config = arm(heads=heads, kv_heads=kv_heads, head_dim=head_dim, reference_heads=8, regime="equal_params", **model)
    # Their translation model has three attention layers for two feed-forwards, ours one for one.
    assert 4096 + (Geometry.of(config).ffn_width - 4096) * 3 / 2 == ffn_width


@given(
    heads=st.integers(1, 16),
    kv_heads=st.sampled_from([None, 1, 2, 3, 4]),
    reference=st.sampled_from([(128, 4), (240, 8), (96, 12), (510, 5), (768, 16)]),
    ffn_ratio=st.floats(0.5, 8),
    context_length=st.integers(1, 4096),
    style=st.fixed_dictionaries(
        {
            "attention": st.sampled_from(["grouped", "latent"]),
            "activation": st.sampled_from(["gelu", "swiglu"]),
            "bias": st.booleans(),
            "norm": st.sampled_from(["layer", "rms", "none"]),
        }
    ),
    regime=st.sampled_from(["equal_params", "equal_cost"]),
)
def test_a_solved_feed_forward_is_the_nearest_there_is(
    heads: int,
    kv_heads: int | None,
    reference: tuple[int, int],
    ffn_ratio: float,
    context_length: int,
    style: dict[str, Any],
    regime: str,
) -> None:
    d_model, reference_heads = reference
    config = arm(
        heads=heads,
        kv_heads=kv_heads if style["attention"] == "grouped" else None,
        reference_heads=reference_heads,
        d_model=d_model,
        ffn_ratio=ffn_ratio,
        context_length=context_length,
        regime=regime,
        **style,
    )
    try:
        g = Geometry.of(config)
    except ConfigError:
        assume(False)
        return
    count, target = (weights, weights(g.reference)) if regime == "equal_params" else (read, read(g.reference))
    away = [abs(count(g, g.ffn_width + step) - target) for step in (-1, 0, 1) if g.ffn_width + step > 0]
    assert abs(count(g) - target) == min(away)
    assert abs(count(g) - target) <= target / 1000


def test_equal_params_holds_the_total_with_any_vocabulary() -> None:
    for heads, vocabulary_size in product((2, 3, 7, 16), (1, 65, 50257)):
        g = Geometry.of(arm("mini", heads=heads, attention="latent", regime="equal_params", bias=True))
        got, asked = (costs.parameters(each, vocabulary_size) for each in (g, g.reference))
        assert abs(got - asked) <= asked / 1000


@pytest.mark.parametrize("regime", ["equal_params", "equal_cost"])
def test_each_way_out_that_an_error_names_is_one_and_the_widest(regime: str) -> None:
    named = 0
    for heads, kv_heads in (*((heads, None) for heads in (10, 11, 12, 13, 16)), (16, 8), (15, 5)):
        config = arm(heads=heads, kv_heads=kv_heads, regime=regime, ffn_ratio=3.0)
        if is_met(config):
            continue
        with pytest.raises(ConfigError) as caught:
            Geometry.of(config)
        for setting, value in re.findall(r"(heads|head_dim|kv_heads)=(\d+) or", str(caught.value)):
            named += 1
            assert is_met(config.model_copy(update={setting: int(value)}))
            wider = range(int(value) + 1, getattr(Geometry.of(reference_kind(config)), setting))
            assert not any(is_met(config.model_copy(update={setting: n})) for n in wider)
    assert named >= 12


def reference_kind(config: Config) -> Config:
    """The same heads in a regime that refuses none of them."""
    return config.model_copy(update={"regime": "fixed_head_dim"})


def test_equal_cache_names_the_nearest_width_and_the_kv_heads_that_meet_it() -> None:
    with pytest.raises(ConfigError) as caught:
        Geometry.of(arm(heads=6, kv_heads=3, regime="equal_cache"))
    told = "heads=6 kv_heads=3 cannot meet regime=equal_cache: the reference keeps 2 x 128 numbers"
    assert told in str(caught.value)
    assert "head_dim=42.6667" in str(caught.value)
    assert "nearest is head_dim=43 with 2 x 129; kv_heads that meet it: 1, 2" in str(caught.value)


def test_equal_cache_with_rotary_positions_looks_for_even_widths_only() -> None:
    with pytest.raises(ConfigError) as caught:
        Geometry.of(arm("mini", heads=16, positions="rotary", regime="equal_cache"))
    told = "head_dim=15, and head_dim must be even (rotary positions); nearest is head_dim=16 with 2 x 256"
    assert told in str(caught.value)
    assert str(caught.value).endswith("kv_heads that meet it: 1, 2, 4, 8")


def test_equal_cache_of_mqa_is_paid_with_wider_heads_and_of_mla_with_its_latent() -> None:
    shared = {"regime": "equal_cache", "heads": 8, "reference_heads": 8, "reference_kv_heads": 2, "d_model": 256}
    mqa = Geometry.of(arm(kv_heads=1, **shared))
    gqa = Geometry.of(arm(kv_heads=2, **shared))
    mla = Geometry.of(arm(attention="latent", rope_dim=16, **shared))
    assert (mqa.head_dim, gqa.head_dim) == (64, 32)
    assert (mla.head_dim, mla.latent_dim, mla.rope_dim) == (32, 112, 16)


CONTRADICTIONS = [
    ({"regime": "fixed_width", "head_dim": 16}, "head_dim=16 with heads=4 makes attention 64 wide.*d_model=128"),
    ({"regime": "equal_cache", "head_dim": 16}, "head_dim=16 contradicts regime=equal_cache.*head_dim=32"),
    ({"regime": "equal_cache", "attention": "latent", "latent_dim": 64}, "latent_dim=64 contradicts.*latent_dim=256"),
    ({"regime": "equal_cache", "attention": "latent", "rope_dim": 256}, "rope_dim=256 leaves no room"),
    ({"regime": "equal_cache", "attention": "latent", "heads": 2}, "heads=2 of head_dim=32 have 128.*latent_dim=256"),
    ({"regime": "equal_params", "ffn_ratio": 0.0, "heads": 2}, "regime=equal_params.*model.ffn_ratio=0"),
    ({"regime": "equal_params", "reference_heads": 3}, "reference_heads=3 does not divide d_model=128"),
    ({"reference_kv_heads": 3}, "reference_kv_heads=3 does not divide reference_heads=4; choose one of 1, 2, 4"),
]


@pytest.mark.parametrize(("changes", "told"), CONTRADICTIONS, ids=[str(changes) for changes, _ in CONTRADICTIONS])
def test_a_setting_that_contradicts_its_regime_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Geometry.of(arm(**changes))


def test_a_setting_that_agrees_with_its_regime_may_be_written_out() -> None:
    assert Geometry.of(arm(regime="fixed_width", head_dim=32)).head_dim == 32
    assert Geometry.of(arm(regime="equal_cache", head_dim=32)).head_dim == 32
    assert Geometry.of(arm(regime="equal_cache", attention="latent", latent_dim=256)).latent_dim == 256
    assert Geometry.of(arm(regime="equal_params", ffn_ratio=0.0)).ffn_width == 0


def test_a_model_too_narrow_for_the_tolerance_is_told_the_nearest_width() -> None:
    changes = {"d_model": 16, "reference_heads": 2, "heads": 1, "latent_dim": 7, "attention": "latent"}
    with pytest.raises(ConfigError, match=r"within 0.1%: the nearest is ffn_width=\d+ with [\d,]+ parameters"):
        Geometry.of(arm(regime="equal_params", **changes))


def test_an_unsaid_latent_follows_the_reference_and_not_the_heads() -> None:
    for heads in (4, 8, 16):
        g = Geometry.of(arm(heads=heads, attention="latent", positions="rotary"))
        assert (g.latent_dim, g.rope_dim) == (128, 16)
    assert Geometry.of(arm(attention="latent", positions="learned")).rope_dim == 0
