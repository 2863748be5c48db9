"""Latent attention: two forms of one mathematics, and a cache that keeps the latent only."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from src.model.cache import LatentCache
from src.model.kernels import FOLD_AT_MOST
from src.model.latent import LatentAttention, absorbs


def decode(layer: LatentAttention, x: torch.Tensor, cuts: set[int], cache: LatentCache | None = None) -> torch.Tensor:
    """The layer's output on x, fed in the pieces between the cuts."""
    cache = cache or LatentCache(layer.geometry, len(x), x.shape[1], x.dtype, "cpu")
    outputs = []
    for start, end in pairwise([0, *sorted(cuts), x.shape[1]]):
        outputs.append(layer(x[:, start:end], cache))
        cache.length = end
    return torch.cat(outputs, dim=1)


@st.composite
def layers(draw) -> dict:
    heads, head_dim = draw(st.integers(1, 6)), draw(st.integers(1, 8))
    return {
        "heads": heads,
        "head_dim": head_dim,
        "latent_dim": draw(st.integers(1, min(20, 2 * heads * head_dim))),
        "rope_dim": 2 * draw(st.integers(0, 3)),
        "bias": draw(st.booleans()),
        "norm": draw(st.sampled_from(["layer", "none"])),
    }


@given(
    shape=layers(),
    cuts=st.sets(st.integers(1, 13)),
    kernel=st.sampled_from(["auto", "fused", "flash", "math", "folded", "repeat"]),
)
def test_absorbed_and_plain_forms_agree_for_any_split(geometry, make_layer, normal, shape, cuts, kernel):
    layer = make_layer(geometry(attention="latent", layers=1, **shape), kernel=kernel)
    x = normal(2, 14, 24)
    with torch.no_grad():
        assert (decode(layer, x, cuts) - layer(x)).abs().max() <= 1e-9


def test_a_few_new_positions_on_a_cache_are_absorbed_and_nothing_else_is():
    assert [absorbs(new, True) for new in (1, FOLD_AT_MOST, FOLD_AT_MOST + 1)] == [True, True, False]
    assert not absorbs(1, False)


@pytest.mark.parametrize("rope_dim", [0, 4])
def test_decoding_never_builds_the_keys_of_the_past(geometry, make_layer, normal, largest_allocation, rope_dim):
    g = geometry(attention="latent", layers=1, heads=4, head_dim=6, latent_dim=8, rope_dim=rope_dim, context_length=200)
    layer, x = make_layer(g), normal(1, 1, 24)
    cache = LatentCache(g, 1, 200, torch.float64, "cpu")
    cache.length = 180
    with torch.no_grad():
        largest = largest_allocation(lambda: layer(x, cache))
    scores = g.heads * 181 * 8
    assert largest <= scores < 181 * (g.latent_dim + rope_dim) * 8 < 181 * g.attention_width * 8


def test_new_weights_are_used_at_once(of_kind, make_layer, normal):
    layer, x = make_layer(of_kind("mla_rotary", layers=1)), normal(1, 6, 24)
    with torch.no_grad():
        decode(layer, x, {1, 2, 3})
        layer.up.weight.mul_(-0.5)
        assert (decode(layer, x, {1, 2, 3}) - layer(x)).abs().max() <= 1e-12


def test_the_cache_keeps_normed_latents_and_turned_rotary_keys(of_kind, make_layer, normal):
    g = of_kind("mla_rotary", layers=1)
    layer, x = make_layer(g), normal(1, 6, 24)
    cache = LatentCache(g, 1, 6, torch.float64, "cpu")
    with torch.no_grad():
        decode(layer, x, {2, 3}, cache)
        _, latent, rope_key = layer.projection(x).split(layer.widths, dim=2)
        turned = layer.rotary(rope_key[:, None], 0)[:, 0]
    assert torch.allclose(cache.storage[0][0], torch.cat([layer.norm(latent), turned], dim=2), atol=1e-14)


def test_all_heads_share_the_rotary_key(of_kind, make_layer, normal):
    g = of_kind("mla_rotary")
    keys = make_layer(g).look_inside(normal(1, 5, 24)).keys
    assert torch.equal(keys[:, 0, :, g.head_dim :], keys[:, 2, :, g.head_dim :])
    assert not torch.allclose(keys[:, 0, :, : g.head_dim], keys[:, 2, :, : g.head_dim])


def test_with_rotary_keys_a_shift_of_the_whole_text_changes_nothing(of_kind, make_layer, normal):
    """Distances, not places: the same tokens later in an otherwise hidden context give the same output."""
    g = of_kind("mla_rotary", layers=1, context_length=32)
    layer, x = make_layer(g), normal(1, 5, 24)
    with torch.no_grad():
        before = torch.cat([normal(1, 7, 24, seed=9), x], dim=1)
        mask = torch.arange(12) >= 7
        late = layer(before, mask=mask[None, None, None])[:, 7:]
        assert (late - layer(x)).abs().max() <= 1e-12


def test_without_norms_there_is_none_on_the_latent(of_kind, make_layer):
    names = dict(make_layer(of_kind("mla", norm="none")).named_parameters())
    assert not any("norm" in name for name in names)
    assert dict(make_layer(of_kind("mla")).named_parameters())["norm.weight"].shape == (10,)


def test_a_latent_as_wide_as_keys_and_values_can_be_full_attention(of_kind, make_layer, normal):
    """With an invertible way down, nothing is lost: MHA is a special case."""
    mha = make_layer(of_kind("mha", layers=1))
    g = of_kind("mla", layers=1, latent_dim=24, norm="none")
    mla = make_layer(g)
    down = normal(24, 24, seed=5)
    query, key, value = mha.projection.weight.data.split(24)
    mla.projection.weight.data = torch.cat([query, down])
    mla.up.weight.data = torch.cat([key, value]) @ torch.linalg.inv(down)
    mla.output.weight.data = mha.output.weight.data
    x = normal(2, 9, 24)
    assert (mla(x) - mha(x)).abs().max() <= 1e-10
    assert (decode(mla, x, {3, 4}) - mha(x)).abs().max() <= 1e-10


def test_the_norm_keeps_the_dtype_of_its_weight_under_autocast(of_kind, make_layer, normal):
    layer = make_layer(of_kind("mla_rotary"), torch.float32)
    x = normal(1, 9, 24, dtype=torch.float32)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        output = layer(x)
    assert output.dtype == torch.bfloat16
    with torch.no_grad():
        assert (output - layer(x)).abs().max() < 0.1 * layer(x).abs().max()


def test_one_latent_serves_any_number_of_heads(of_kind):
    few, many = of_kind("mla", heads=2, head_dim=12), of_kind("mla", heads=8, head_dim=3)
    sizes = {LatentCache(replace(g, layers=1), 1, 7, torch.float32, "cpu").bytes for g in (few, many)}
    assert sizes == {10 * 7 * 4}
