"""The cache: bytes that were allocated are the bytes of the costs; what is kept is what was put in."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from src import costs
from src.model.cache import KVCache, LatentCache, make_cache


@pytest.mark.parametrize("dtype", list(costs.BYTES))
def test_allocated_bytes_are_those_of_the_costs(kind, dtype):
    for batch, positions in ((1, 16), (3, 5)):
        cache = make_cache(kind, batch, positions, getattr(torch, dtype))
        assert cache.bytes == costs.cache_bytes(kind, batch, positions, dtype)


@given(
    heads=st.integers(1, 16),
    group=st.integers(1, 4),
    head_dim=st.integers(1, 9),
    layers=st.integers(1, 3),
    batch=st.integers(1, 3),
    positions=st.integers(1, 20),
)
def test_bytes_count_kv_heads_not_heads(geometry, heads, group, head_dim, layers, batch, positions):
    g = geometry(heads=heads * group, kv_heads=heads, head_dim=head_dim, layers=layers)
    cache = make_cache(g, batch, positions, torch.float32)
    assert cache.bytes == 2 * heads * head_dim * layers * batch * positions * 4
    assert cache.bytes == costs.cache_bytes(g, batch, positions, "float32")


def test_a_latent_cache_keeps_latent_and_rotary_key_only(of_kind):
    g = of_kind("mla_rotary")
    cache = make_cache(g, 1, 1, torch.float64)
    assert isinstance(cache, LatentCache)
    assert cache.bytes == (10 + 4) * g.layers * 8


def test_an_eighth_of_the_kv_heads_is_an_eighth_of_the_bytes(of_kind):
    full = of_kind("mha", heads=8, head_dim=64)
    eighth = replace(full, kv_heads=1)
    assert make_cache(full, 1, 64, torch.bfloat16).bytes == 8 * make_cache(eighth, 1, 64, torch.bfloat16).bytes


def test_appending_gives_views_of_all_so_far_and_no_copies(of_kind, normal):
    g = of_kind("gqa")
    cache = make_cache(g, 2, 8, torch.float64)
    assert isinstance(cache, KVCache)
    first, second = normal(2, 2, 3, 6, seed=1), normal(2, 2, 2, 6, seed=2)
    cache.append(1, first, first + 1)
    cache.length = 3
    keys, values = cache.append(1, second, second + 1)
    assert torch.equal(keys, torch.cat([first, second], dim=2))
    assert torch.equal(values, keys + 1)
    assert keys.untyped_storage().data_ptr() == cache.storage[0].untyped_storage().data_ptr()
    assert torch.count_nonzero(cache.storage[0][0]) == 0


def test_appending_past_the_room_is_refused(kind, make_model, tokens):
    model = make_model(kind)
    cache = model.make_cache(1, capacity=4)
    model(tokens(1, 3), cache)
    with pytest.raises(ValueError, match="the cache holds 4 positions; 5 do not fit"):
        model(tokens(1, 2), cache)
    assert cache.length == 3


def test_an_emptied_cache_gives_the_same_as_a_new_one(kind, make_model, tokens):
    model = make_model(kind)
    used = model.make_cache(2)
    with torch.no_grad():
        model(tokens(2, 9, seed=1), used)
        used.length = 0
        assert torch.equal(model(tokens(2, 5), used), model(tokens(2, 5), model.make_cache(2)))


def test_a_cache_of_another_dtype_rounds_and_nothing_else(kind, make_model, tokens):
    model, prompt = make_model(kind, torch.float32), tokens(2, 12)
    cache = model.make_cache(2, dtype=torch.bfloat16)
    with torch.no_grad():
        logits = torch.cat(
            [model(prompt[:, :10], cache), model(prompt[:, 10:11], cache), model(prompt[:, 11:], cache)], 1
        )
        full = model(prompt)
    assert logits.dtype == torch.float32
    assert 0 < (logits - full).abs().max() < 0.1


def test_a_cache_made_under_autocast_has_the_dtype_of_the_keys_to_come(kind, make_model, tokens):
    model = make_model(kind, torch.float32)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        cache = model.make_cache(1)
        model(tokens(1, 9), cache)
        model(tokens(1, 1), cache)
    assert cache.bytes == costs.cache_bytes(kind, 1, 16, "bfloat16")
