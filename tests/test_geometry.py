"""Which integers a head count means, and what no geometry may be."""

from collections.abc import Callable
from dataclasses import asdict, replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.attention_kinds.sharing import divisors
from src.config import Config
from src.errors import ConfigError
from src.geometry import Geometry
from src.published import DEEPSEEK_V2_LITE, LLAMA_3_70B

Compose = Callable[..., Config]


def test_the_integers_are_final_and_the_config_stays_as_written(config: Compose) -> None:
    written = config("heads=8", "kv_heads=2")
    before = written.model_dump()
    g = Geometry.of(written)
    assert (g.heads, g.kv_heads, g.head_dim, g.attention_width, g.ffn_width) == (8, 2, 16, 128, 512)
    assert written.head_dim is None
    assert written.model_dump() == before


def test_null_kv_heads_means_one_for_each_head(config: Compose) -> None:
    assert Geometry.of(config("heads=8")).kv_heads == 8


WRONG = [
    (["heads=3", "model.d_model=64", "reference_heads=1"], ["heads=3", "d_model=64", "1, 2, 4, 8, 16"]),
    (["heads=6", "kv_heads=4", "model.d_model=96"], ["kv_heads=4", "heads=6", "1, 2, 3, 6"]),
    (["heads=4", "kv_heads=8"], ["kv_heads=8", "heads=4"]),
    (["heads=0"], ["heads=0"]),
    (["heads=-2"], ["heads=-2"]),
    (["heads=8", "model.d_model=520", "model.positions=rotary"], ["head_dim=65", "heads=8", "d_model=520", "even"]),
    (["heads=4", "latent_dim=32"], ["latent_dim=32", "rope_dim=null", "attention=latent"]),
    (["heads=4", "kv_heads=2", "attention=latent"], ["kv_heads=2", "attention=latent"]),
    (["heads=4", "attention=latent", "latent_dim=257"], ["latent_dim=257", "head_dim=32", "256"]),
    (["attention=latent", "latent_dim=32", "rope_dim=5"], ["rope_dim=5", "even"]),
    (["attention=latent", "model.positions=rotary", "rope_dim=0"], ["rope_dim=0", "rotary"]),
]


@pytest.mark.parametrize(("overrides", "told"), WRONG, ids=[" ".join(overrides) for overrides, _ in WRONG])
def test_widths_that_do_not_fit_are_refused_with_both_numbers(
    config: Compose, overrides: list[str], told: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        Geometry.of(config(*overrides))
    for words in told:
        assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_latent_as_wide_as_what_it_compresses_is_still_allowed(config: Compose) -> None:
    assert Geometry.of(config("heads=4", "attention=latent", "latent_dim=256")).latent_dim == 256


def test_an_odd_head_is_fine_where_nothing_turns_it(config: Compose) -> None:
    assert Geometry.of(config("heads=8", "model.d_model=520")).head_dim == 65
    assert Geometry.of(config("heads=8", "model.d_model=520", "model.positions=rotary", "attention=latent")).rope_dim


def test_integers_put_in_by_hand_obey_the_same_rules() -> None:
    for wrong in ({"kv_heads": 7}, {"head_dim": 127}):
        with pytest.raises(ConfigError):
            replace(LLAMA_3_70B, **wrong)
    with pytest.raises(ConfigError, match="latent_dim=4097"):
        replace(DEEPSEEK_V2_LITE, latent_dim=4097)


def test_the_reference_is_mha_as_wide_as_the_model(config: Compose) -> None:
    for regime in ("fixed_width", "equal_params", "equal_cost"):
        reference = Geometry.of(config("heads=2", "kv_heads=1", f"regime={regime}")).reference
        assert (reference.heads, reference.kv_heads, reference.head_dim, reference.ffn_width) == (4, 4, 32, 512)
        assert reference.reference == reference


def test_the_reference_of_a_fixed_head_width_has_that_width(config: Compose) -> None:
    reference = Geometry.of(config("heads=3", "head_dim=50", "regime=fixed_head_dim")).reference
    assert (reference.heads, reference.head_dim) == (4, 50)


def test_an_unnamed_regime_is_fixed_width_or_that_of_the_given_head_width(config: Compose) -> None:
    assert Geometry.of(config("heads=2")).regime == "fixed_width"
    g = Geometry.of(config("heads=3", "head_dim=50"))
    assert (g.regime, g.head_dim, g.attention_width) == ("fixed_head_dim", 50, 150)
    assert Geometry.of(config("heads=2", "head_dim=50", "regime=equal_params")).regime == "equal_params"


def test_a_model_without_a_reference_can_still_be_had_at_fixed_width(config: Compose) -> None:
    g = Geometry.of(config("heads=3", "model.d_model=6"))
    assert g.head_dim == 2
    with pytest.raises(ConfigError, match="reference_heads=4 does not divide d_model=6; choose one of 1, 2, 3, 6"):
        _ = g.reference


def test_the_record_holds_regime_and_reference_and_gives_the_geometry_back(config: Compose) -> None:
    g = Geometry.of(config("heads=2", "regime=equal_params", "reference_kv_heads=2"))
    recorded = g.as_dict()
    assert recorded["regime"] == "equal_params"
    assert (recorded["reference_heads"], recorded["reference_kv_heads"], recorded["reference_ffn_width"]) == (4, 2, 512)
    assert recorded["attention_width"] == 64
    assert Geometry(**{name: recorded[name] for name in asdict(g)}) == g  # pyright: ignore[reportArgumentType]


@given(st.lists(st.sampled_from([2, 3, 5, 7]), max_size=6))
def test_divisors_are_all_that_divide_and_no_other(primes: list[int]) -> None:
    number = prod(primes)
    expected = {1}
    for prime in primes:
        expected |= {d * prime for d in expected}
    assert divisors(number) == sorted(expected)
