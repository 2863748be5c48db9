"""Initial weights: promised scales, and the same numbers wherever shapes agree."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from src.attention_kinds.sharing import divisors
from src.geometry import Geometry
from src.model.gpt import GPT
from src.model.init import initialise

KINDS_OF_INIT = ["gpt2", "torch", "fan_in"]


def weights(geometry: Geometry, kind: str = "gpt2", seed: int = 0) -> dict[str, torch.Tensor]:
    model = GPT(geometry, 40)
    initialise(model, kind, seed)
    return dict(model.named_parameters())


@pytest.fixture(scope="module")
def large(geometry) -> Geometry:
    """Wide enough for a standard deviation within a few per cent."""
    return geometry(
        d_model=96, heads=8, head_dim=12, ffn_width=192, context_length=64, layers=3, bias=True, tied_embeddings=False
    )


@pytest.mark.parametrize("kind", KINDS_OF_INIT)
def test_all_head_counts_start_from_the_same_matrices(config, kind):
    mini = replace(Geometry.of(config("model=mini", "context_length=8")), layers=2)
    arms = [
        weights(replace(mini, heads=heads, kv_heads=heads, head_dim=240 // heads), kind)
        for heads in divisors(240)
        if heads <= 16
    ]
    assert len(arms) == 11
    for arm in arms[1:]:
        assert arm.keys() == arms[0].keys()
        for name, parameter in arm.items():
            assert torch.equal(parameter, arms[0][name]), name


@pytest.mark.parametrize("kind", KINDS_OF_INIT)
def test_kv_head_counts_share_every_matrix_but_keys_and_values(large, kind):
    full, shared = weights(large, kind), weights(replace(large, kv_heads=2), kind)
    width = large.attention_width
    for name, parameter in shared.items():
        if ".projection." in name:
            assert torch.equal(parameter[:width], full[name][:width]), name
        else:
            assert torch.equal(parameter, full[name]), name


def test_matrices_of_one_shape_differ_from_each_other(large):
    q, k, v = weights(large)["blocks.0.attention.projection.weight"].chunk(3)
    other = weights(large)["blocks.1.attention.projection.weight"].chunk(3)[0]
    for first, second in ((q, k), (q, v), (k, v), (q, other)):
        assert (first - second).abs().mean() > 0.01


def test_a_seed_decides_all_weights(large):
    again, other = weights(large, seed=1), weights(large, seed=2)
    for name, parameter in weights(large, seed=1).items():
        assert torch.equal(parameter, again[name])
        assert parameter.unique().numel() <= 1 or not torch.equal(parameter, other[name]), name


def test_the_global_generator_decides_nothing(large):
    first = weights(large)
    torch.manual_seed(123)
    assert torch.equal(first["tokens.weight"], weights(large)["tokens.weight"])


def expected_scale(kind: str, name: str, fan_in: int, layers: int) -> float:
    if kind == "gpt2":
        ends_branch = name.endswith(("attention.output.weight", "down.weight"))
        return 0.02 / math.sqrt(2 * layers) if ends_branch else 0.02
    if name in ("tokens.weight", "positions.weight"):
        return 1.0 if kind == "torch" else 0.2
    return fan_in**-0.5 * (math.sqrt(1 / 3) if kind == "torch" else 1.0)


@pytest.mark.parametrize("kind", KINDS_OF_INIT)
@pytest.mark.parametrize("attention", ["grouped", "latent"])
def test_matrices_have_the_promised_scale(large, kind, attention):
    if attention == "latent":
        large = replace(large, attention="latent", latent_dim=48, rope_dim=32)
    for name, parameter in weights(large, kind).items():
        if parameter.ndim == 2:
            scale = expected_scale(kind, name, parameter.shape[1], large.layers)
            assert parameter.std().item() == pytest.approx(scale, rel=0.05), name
            assert abs(parameter.mean().item()) < 0.05 * scale + 3 * scale / math.sqrt(parameter.numel()), name


@pytest.mark.parametrize("kind", KINDS_OF_INIT)
def test_norms_start_at_one_and_biases_as_promised(large, kind):
    for name, parameter in weights(large, kind).items():
        if "norm" in name:
            assert parameter.unique().tolist() == [1.0 if name.endswith("weight") else 0.0], name
        elif name.endswith("bias"):
            assert (torch.count_nonzero(parameter) > 0) == (kind == "torch"), name


def test_the_torch_kind_has_the_spread_of_torch_s_own_layers(large):
    ours = weights(large, "torch")["blocks.0.feed_forward.up.weight"]
    own = nn.Linear(large.d_model, large.ffn_width)
    assert ours.abs().max().item() == pytest.approx(own.weight.abs().max().item(), rel=0.01)
    assert ours.std().item() == pytest.approx(own.weight.std().item(), rel=0.02)


def test_every_matrix_of_latent_attention_has_a_stream_of_its_own(of_kind):
    kept = of_kind("mla_rotary")
    wider = replace(kept, latent_dim=12)
    first, second = weights(kept), weights(wider)
    queries = kept.heads * (kept.head_dim + kept.rope_dim)
    for name in ("weight", "bias"):
        one, two = (found[f"blocks.0.attention.projection.{name}"] for found in (first, second))
        assert torch.equal(one[:queries], two[:queries])
        assert torch.equal(one[-kept.rope_dim :], two[-kept.rope_dim :])
    key, value = first["blocks.0.attention.up.weight"].chunk(2)
    assert not torch.allclose(key, value)


def test_a_part_is_filled_in_place_and_ties_stay(of_kind):
    model = GPT(of_kind("gqa", tied_embeddings=True), 11)
    initialise(model, "gpt2", 0)
    assert model.output.weight is model.tokens.weight
    assert model.tokens.weight.std().item() == pytest.approx(0.02, rel=0.2)
