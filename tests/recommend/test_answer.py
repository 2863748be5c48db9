"""The recommendation: the document's rows, every budget, context and memory of a grid, and what is turned down."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from src import costs
from src.errors import ConfigError
from src.geometry import Geometry
from src.recommend import commands
from src.recommend.answer import Answer, answer, priced, reason, refusal
from src.recommend.request import Request
from src.recommend.rules import RULES, broken

GIB = 2**30


def asked(parameters: str, **options: object) -> Request:
    return Request.read(parameters, **options)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("priority", ["inference", "training"])
@pytest.mark.parametrize(
    ("parameters", "d_model", "heads", "head_dim", "smaller"),
    [("125M", 768, 12, 64, 1), ("350M", 1024, 16, 64, 1), ("1B", 2048, 16, 128, 1), ("70B", 8192, 64, 128, 8)],
)
def test_the_documents_rows_come_out(
    parameters: str, d_model: int, heads: int, head_dim: int, smaller: int, priority: str
) -> None:
    given_ = answer(asked(parameters, priority=priority))
    g = given_.geometry
    assert (g.d_model, g.heads, g.head_dim) == (d_model, heads, head_dim)
    mha = given_.beside[0]
    assert mha.name == "MHA"
    assert mha.load.cache == smaller * given_.case.load.cache
    if smaller == 8:
        assert g.kv_heads == 8
    assert given_.case.parameters == pytest.approx(given_.request.parameters, rel=0.05)


@settings(max_examples=60)
@given(
    st.one_of(st.integers(10_000_000, 400_000_000_000), st.sampled_from([10**7, 10**8, 10**9, 10**10, 4 * 10**11])),
    st.sampled_from([2**power for power in range(10, 21)]),
    st.sampled_from([None, 8, 16, 24, 40, 80, 192, 640]),
    st.sampled_from(["inference", "training"]),
    st.sampled_from([1, 3, 16]),
    st.sampled_from(["float16", "float8_e4m3fn", "float32"]),
    st.booleans(),
)
def test_every_recommendation_is_a_shape_that_fits_where_it_says_so_and_breaks_no_rule_of_its_own(
    parameters: int, context: int, gib: int | None, priority: str, batch: int, dtype: str, is_benchmark: bool
) -> None:
    memory = None if gib is None else gib * GIB
    vocabulary_size = 50257 if parameters >= 10**8 else 65
    request = Request(
        parameters,
        context,
        memory=memory,
        priority=priority,
        batch=batch,
        dtype=dtype,
        vocabulary_size=vocabulary_size,
        is_benchmark=is_benchmark,
    )
    if memory is not None and 2 * parameters > 1.2 * memory:
        with pytest.raises(ConfigError, match="less than the weights"):
            answer(request)
        return
    given_ = _answered(request)
    if given_ is None:  # about as much memory as weights: the layers' rounding decides
        assert memory is not None
        assert 2.4 * parameters > memory
        return
    g, case = given_.geometry, given_.case
    assert isinstance(g, Geometry)
    assert g.attention_width == g.d_model
    assert broken(case, refusing=True) == []
    assert {rule.name for rule in given_.flags} == set(given_.as_dict()["flags"])
    assert case.parameters == pytest.approx(parameters, rel=0.3)
    price = priced(case)
    if memory is not None:
        weights_and_cache = 2 * case.parameters + costs.cache_bytes(g, batch, context, dtype)
        assert price["fits"] == (weights_and_cache <= memory - memory // 10)
        assert price["fits"] == (price["largest_context"] >= context)
        assert price["fits"] == (price["largest_batch"] >= batch)
    assert str(case.name) in reason(given_)
    small = commands.scaled(g)
    assert costs.parameters(small, 65) <= 12_000_000
    assert small.kind.display_name(small.heads, small.kv_heads) == case.name
    assert small.head_dim >= 32


def _answered(request: Request) -> Answer | None:
    try:
        return answer(request)
    except ConfigError:
        return None


def test_what_is_served_at_length_gets_the_widest_keys_and_values_that_are_lighter_than_its_weights() -> None:
    given_ = answer(asked("1B", d_model="2048", context="32768", memory="24GiB"))
    assert (given_.case.name, given_.geometry.kv_heads) == ("GQA", 4)
    shares = {case.geometry.kv_heads: case.cache_share for case in given_.beside if case.name == "GQA"}
    assert shares[4] < 1 < shares[8]
    trained = answer(asked("1B", d_model="2048", context="32768", memory="24GiB", priority="training"))
    assert trained.case.name == "MHA"
    assert "training keeps no KV cache" in reason(trained)


def test_latent_attention_is_recommended_from_a_billion_parameters_on_only() -> None:
    for size, name in (("350M", "GQA"), ("1B", "MLA")):
        assert answer(asked(size, context="64K")).case.name == name


@pytest.mark.parametrize(
    ("request_", "rule"),
    [
        (asked("1B", context="65536", propose="heads=32,kv_heads=32"), "mha_long_context"),
        (asked("1B", d_model="2048", propose="heads=128"), "head_width_floor"),
        (asked("350M", propose="attention=latent"), "latent_size"),
    ],
)
def test_a_proposal_that_breaks_a_rule_is_refused_with_rule_source_and_alternative(
    request_: Request, rule: str
) -> None:
    given_ = answer(request_)
    (turned_down,) = given_.refused
    assert turned_down.name == rule
    message = refusal(given_)
    assert "\n" not in message
    assert turned_down.statement in message
    assert turned_down.source in message
    assert given_.instead is not None
    assert f"choose {given_.instead.name} with heads={given_.instead.geometry.heads}" in message
    assert {case.name for case in given_.beside} >= {"MHA", "GQA", "MLA"}  # priced side by side


@pytest.mark.parametrize(
    "request_",
    [
        asked("1B", context="32768", propose="heads=32,kv_heads=32"),  # a context of 32K is not past 32K
        asked("1B", context="65536", propose="heads=16"),
        asked("1B", context="65536", propose="heads=32,kv_heads=8"),
        asked("350M", propose="attention=latent", benchmarking=True),
        asked("1B", propose="latent_dim=512,rope_dim=64"),
        asked("1B", propose="head_dim=32"),
    ],
)
def test_a_proposal_that_breaks_none_is_answered_beside_the_recommendation(request_: Request) -> None:
    given_ = answer(request_)
    assert given_.refused == ()
    assert given_.instead is not None
    assert given_.as_dict()["status"] == "accepted"


def test_a_cache_that_exceeds_the_device_is_flagged_with_the_largest_context_and_batch() -> None:
    given_ = answer(asked("8B", context="1M", memory="24GiB"))
    assert {"fits", "cache_share"} <= {rule.name for rule in given_.flags}
    price = priced(given_.case)
    assert price["fits"] is False
    assert 0 < price["largest_context"] < 2**20
    assert price["largest_batch"] == 0


def test_a_rule_is_data_with_a_source_and_says_how_well_it_is_founded() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.source
        assert rule.statement
        assert rule.instead
        assert rule.status in ("rule of thumb", "arithmetic", "published", "measured")


def test_layers_and_width_are_kept_where_they_are_asked() -> None:
    given_ = answer(asked("1B", d_model="1536", layers="30"))
    assert (given_.geometry.d_model, given_.geometry.layers, given_.geometry.heads) == (1536, 30, 24)


def test_the_nearest_published_shape_is_named() -> None:
    assert answer(asked("70B", context="8192")).nearest.name == "llama3_70b"
    assert answer(asked("125M")).nearest.name == "gpt2"
