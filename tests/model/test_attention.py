"""The layers, grouped and latent: equal to the loops for every head count, opened up, right in scale."""

import math
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call

from src.attention_kinds.sharing import divisors
from src.geometry import Geometry
from src.model.attention import GroupedAttention
from tests.model import reference

KERNELS = ["auto", "fused", "flash", "math", "folded", "repeat"]


def loops(layer, x, memory=None, mask=None, is_causal=True) -> torch.Tensor:
    """The written-out layer on every sequence of a batch."""
    run = {"grouped": reference.grouped, "latent": reference.latent}[layer.geometry.attention]
    nothing = [None] * len(x)
    rows = zip(x, nothing if memory is None else memory, nothing if mask is None else mask, strict=True)
    return torch.stack([run(layer, *row, is_causal) for row in rows])


def with_gradients(function, layer, x, **options) -> list[torch.Tensor]:
    """The output, and the gradients towards the input, the memory and every parameter."""
    leaves = [leaf.detach().requires_grad_() for leaf in (x, options.get("memory")) if leaf is not None]
    if "memory" in options:
        options["memory"] = leaves[1]
    output = function(leaves[0], **options)
    weights = torch.arange(output.numel(), dtype=torch.float64).cos().view(output.shape)
    return [output.detach(), *torch.autograd.grad((output * weights).sum(), [*leaves, *layer.parameters()])]


def assert_equals_loops(layer, x, kernels=KERNELS, **options) -> None:
    wanted = with_gradients(lambda x, **given: loops(layer, x, **given), layer, x, **options)
    for kernel in kernels:
        layer.kernel = kernel
        got = with_gradients(layer, layer, x, **options)
        difference = max((a - b).abs().max().item() for a, b in zip(got, wanted, strict=True))
        assert difference <= 1e-10, f"{kernel}: {difference}"


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize("heads", range(1, 17))
def test_grouped_attention_equals_the_loops_for_every_head_and_kv_head_count(
    geometry, make_layer, normal, heads, positions
):
    for kv_heads in divisors(heads):
        g = geometry(heads=heads, kv_heads=kv_heads, head_dim=4, bias=heads % 2 == 0, positions=positions)
        assert_equals_loops(make_layer(g), normal(1, 4, 24))


@pytest.mark.parametrize("rope_dim", [0, 4])
@pytest.mark.parametrize("heads", range(1, 17))
def test_latent_attention_equals_the_loops_for_every_head_count(geometry, make_layer, normal, heads, rope_dim):
    g = geometry(attention="latent", heads=heads, head_dim=3, latent_dim=5, rope_dim=rope_dim, bias=heads % 2 == 0)
    assert_equals_loops(make_layer(g), normal(1, 4, 24))


def test_cross_attention_equals_the_loops(kind, make_layer, normal):
    layer, x, memory = make_layer(kind), normal(2, 3, 24), normal(2, 5, 24, seed=1)
    assert_equals_loops(layer, x, memory=memory)
    mask = torch.rand(2, kind.heads, 3, 5, generator=torch.Generator().manual_seed(0)) < 0.6
    mask[0, 0, 1] = False
    assert_equals_loops(layer, x, memory=memory, mask=mask)


@settings(max_examples=10)
@given(seed=st.integers(0, 999), density=st.sampled_from([0.0, 0.3, 0.9]), is_causal=st.booleans())
def test_masked_self_attention_equals_the_loops(of_kind, make_layer, normal, seed, density, is_causal):
    mask = torch.rand(2, 4, 5, 5, generator=torch.Generator().manual_seed(seed)) < density
    for name in ("gqa_rotary", "mla"):
        layer = make_layer(of_kind(name))
        assert_equals_loops(layer, normal(2, 5, 24, seed=seed), ["auto", "folded"], mask=mask, is_causal=is_causal)


def test_a_mask_is_combined_with_causality_on_a_cache_too(kind, make_layer, make_model, normal):
    layer, x = make_layer(replace(kind, layers=1)), normal(2, 9, 24)
    mask = torch.rand(2, 1, 9, 9, generator=torch.Generator().manual_seed(1)) < 0.7
    with torch.no_grad():
        full = layer(x, mask=mask)
        for cut in (1, 4, 8):
            cache = make_model(replace(kind, layers=1)).make_cache(2)
            first = layer(x[:, :cut], cache, mask=mask[:, :, :cut, :cut])
            cache.length = cut
            second = layer(x[:, cut:], cache, mask=mask[:, :, cut:])
            assert (torch.cat([first, second], 1) - full).abs().max() <= 1e-12


def test_cross_attention_refuses_a_cache(kind, make_layer, make_model, normal):
    with pytest.raises(ValueError, match="cross-attention with a cache"):
        make_layer(kind)(normal(1, 2, 24), make_model(kind).make_cache(1), memory=normal(1, 3, 24))


def test_cross_attention_sees_all_of_the_memory_and_its_order_does_not_matter(kind, make_layer, normal):
    layer, x, memory = make_layer(kind), normal(1, 2, 24), normal(1, 5, 24, seed=1)
    with torch.no_grad():
        output = layer(x, memory=memory)
        assert torch.allclose(layer(x, memory=memory.flip(1)), output, atol=1e-12)
        changed = memory.clone()
        changed[:, -1] += 1
        assert (layer(x, memory=changed)[:, 0] - output[:, 0]).abs().max() > 1e-3


@pytest.mark.parametrize("heads", [1, 2, 4, 8, 16])
def test_scores_are_scaled_by_the_width_of_a_head(config, geometry, make_layer, normal, heads):
    """The document's slip, scaling by the model's width, shrinks scores by sqrt(heads): right for one head only."""
    g = geometry(d_model=64, heads=heads, head_dim=64 // heads)
    layer = make_layer(g)
    x = normal(1, 6, 64)
    inside = layer.look_inside(x)
    products = inside.queries @ inside.keys.transpose(-2, -1)
    assert torch.allclose(inside.scores, products / math.sqrt(g.head_dim), atol=1e-12)
    by_model_width = products / math.sqrt(g.d_model)
    error = ((by_model_width - inside.scores).norm() / inside.scores.norm()).item()
    assert error == pytest.approx(1 - heads**-0.5, abs=1e-12)
    assert (layer(x) - loops(layer, x)).abs().max() <= 1e-10


def test_the_error_of_the_wrong_scales_grows_with_heads(geometry, make_layer, normal):
    errors: dict[str, list[float]] = {"d_model": [], "heads": []}
    x = normal(4, 16, 64)
    for heads in (1, 2, 4, 8, 16):
        layer = make_layer(geometry(d_model=64, heads=heads, head_dim=64 // heads))
        right = layer(x)
        for name, wrong in (("d_model", 64**-0.5), ("heads", heads**-0.5)):
            layer.scale = wrong
            errors[name].append(((layer(x) - right).norm() / right.norm()).item())
    assert errors["d_model"][0] == 0.0
    assert errors["d_model"] == sorted(errors["d_model"])
    assert errors["d_model"][-1] > 0.1
    assert min(errors["heads"][:3]) > 0.1, "1/sqrt(heads) is far too large while heads are few"


@pytest.mark.parametrize("heads", [1, 2, 4, 8, 16])
def test_scores_of_unit_queries_and_keys_have_unit_spread(geometry, make_layer, normal, heads):
    g = geometry(d_model=64, heads=heads, head_dim=64 // heads)
    layer = make_layer(g)
    layer.projection.weight.data = normal(192, 64) / 8  # a unit input gives unit queries and keys
    scores = layer.look_inside(normal(8, 32, 64, seed=1), is_causal=False).scores
    assert scores.std().item() == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("name", ["mla", "mla_rotary"])
def test_latent_scores_are_scaled_by_the_trained_width(of_kind, make_layer, normal, name):
    g = of_kind(name)
    inside = make_layer(g).look_inside(normal(1, 5, 24))
    products = inside.queries @ inside.keys.transpose(-2, -1)
    assert torch.allclose(inside.scores, products / math.sqrt(g.head_dim + g.rope_dim), atol=1e-12)


def test_looking_inside_gives_the_output_of_the_fast_path(kind, make_layer, normal):
    layer, x, memory = make_layer(kind), normal(2, 6, 24), normal(2, 4, 24, seed=1)
    for options in ({}, {"is_causal": False}, {"memory": memory}, {"mask": torch.ones(2, 1, 1, 6).bernoulli(0.7) > 0}):
        inside = layer.look_inside(x, **options)
        assert (inside.output - layer(x, **options)).abs().max() <= 1e-12, options


def test_every_intermediate_follows_from_the_one_before(kind, make_layer, normal):
    g, x = kind, normal(2, 6, 24)
    layer = make_layer(g)
    inside = layer.look_inside(x)
    width = g.head_dim + g.rope_dim
    given = {field.name: getattr(inside, field.name) for field in fields(inside) if field.name != "latent"}
    assert {name: tuple(tensor.shape) for name, tensor in given.items()} == {
        "query_features": (2, 6, g.heads * width),
        "key_features": (2, 6, g.kv_heads * width),
        "value_features": (2, 6, g.kv_heads * g.head_dim),
        "queries": (2, g.heads, 6, width),
        "keys": (2, g.kv_heads, 6, width),
        "values": (2, g.kv_heads, 6, g.head_dim),
        "scores": (2, g.heads, 6, 6),
        "weights": (2, g.heads, 6, 6),
        "heads": (2, g.heads, 6, g.head_dim),
        "concatenated": (2, 6, g.attention_width),
        "output": (2, 6, 24),
    }  # fmt: skip
    assert (inside.latent is not None) == (g.attention == "latent")
    assert torch.allclose(inside.weights.sum(-1), torch.ones((), dtype=torch.float64))
    assert torch.count_nonzero(inside.weights.triu(1)) == 0
    assert torch.allclose(inside.weights[0, 1, 3, :4], inside.scores[0, 1, 3, :4].softmax(0))
    group = g.heads // g.kv_heads
    for h in range(g.heads):
        assert torch.allclose(inside.heads[:, h], inside.weights[:, h] @ inside.values[:, h // group])
        assert torch.equal(inside.concatenated[:, :, h * g.head_dim : (h + 1) * g.head_dim], inside.heads[:, h])
    assert torch.equal(inside.output, layer.output(inside.concatenated))


def test_five_heads_of_a_200_wide_model_open_up_for_a_large_batch(geometry, make_layer, normal):
    layer = make_layer(
        geometry(d_model=200, heads=5, head_dim=40, bias=True, context_length=32), torch.float32, dropout=0.1
    )
    inside = layer.look_inside(normal(128, 32, 200, dtype=torch.float32), is_causal=False)
    assert inside.weights.shape == (128, 5, 32, 32)
    assert inside.heads.shape == (128, 5, 32, 40)
    assert inside.output.shape == (128, 32, 200)
    assert (inside.weights > 0).all(), "every token sees every token"


def test_intermediates_cannot_be_changed(of_kind, make_layer, normal):
    inside = make_layer(of_kind("gqa")).look_inside(normal(1, 2, 24))
    with pytest.raises(AttributeError):
        inside.weights = inside.scores


def test_looking_inside_is_without_dropout(kind, make_layer, normal):
    layer, x = make_layer(kind, dropout=0.5).train(), normal(1, 6, 24)
    assert torch.equal(layer.look_inside(x).output, layer.look_inside(x).output)


def test_heads_of_one_group_share_keys_and_values(of_kind, make_layer, normal):
    """Two query heads with the same queries in one group must agree; across groups they must not."""
    g: Geometry = of_kind("gqa")
    layer: GroupedAttention = make_layer(g)
    layer.projection.weight.data[: g.attention_width] = normal(6, 24).repeat(4, 1)
    heads = layer.look_inside(normal(1, 5, 24, seed=3)).heads[0]
    assert torch.allclose(heads[0], heads[1])
    assert torch.allclose(heads[2], heads[3])
    assert not torch.allclose(heads[1], heads[2], atol=0.01)


def test_the_layer_is_a_function_of_its_parameters_alone(kind, make_layer, normal):
    """Nothing derived from a weight is kept: new weights change decoding at once."""
    first, second, x = make_layer(kind), make_layer(kind), normal(1, 4, 24)
    with torch.no_grad():
        first(x)
        for parameter in second.parameters():
            parameter.mul_(1.1)
        second_weights = dict(second.named_parameters())
        assert torch.equal(functional_call(first, second_weights, (x,)), second(x))
