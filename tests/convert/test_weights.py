"""Weights in another shape: what is exact is exact, and a cut is the best one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from src.convert.weights import compress, prune, share
from src.heads.measure.ablation import silence
from src.model.gpt import GPT
from src.model.init import initialise

VOCABULARY = 11
TOKENS = torch.randint(VOCABULARY, (3, 12), generator=torch.Generator().manual_seed(2))
KINDS = {
    "mha": {"heads": 4, "bias": True},
    "gqa": {"heads": 4, "kv_heads": 2},
    "mqa": {"heads": 4, "kv_heads": 1, "positions": "rotary"},
    "mla": {"attention": "latent", "heads": 4, "latent_dim": 10, "rope_dim": 4, "positions": "rotary", "bias": True},
}


def model_of(geometry, seed: int = 0) -> GPT:
    made = GPT(geometry, VOCABULARY).eval()
    initialise(made, "torch", seed)
    return made.requires_grad_(False)


def loaded(geometry, weights) -> GPT:
    made = GPT(geometry, VOCABULARY).eval()
    made.load_state_dict(weights)
    return made.requires_grad_(False)


@pytest.mark.parametrize(
    ("kind", "kept", "kv_heads"),
    [("mha", [[0, 2], [1, 3]], 2), ("gqa", [[2, 3], [0, 1]], 1), ("mqa", [[1, 3], [0, 2]], 1), ("mla", [[3], [0]], 1)],
)
def test_a_pruned_model_computes_what_the_whole_one_does_with_the_other_heads_silenced(geometry, kind, kept, kv_heads):
    whole = model_of(geometry(**KINDS[kind], head_dim=6))
    heads = len(kept[0])
    small = loaded(
        replace(whole.geometry, heads=heads, kv_heads=heads if kind == "mla" else kv_heads), prune(whole, kept)
    )
    with silence(whole, {layer: sorted(set(range(4)) - set(those)) for layer, those in enumerate(kept)}):
        expected = whole(TOKENS)
    assert torch.allclose(small(TOKENS), expected, atol=1e-5)
    assert not torch.allclose(small(TOKENS), whole(TOKENS), atol=1e-2)


@pytest.mark.parametrize("by", ["mean", "first"])
def test_sharing_pools_the_keys_and_values_of_adjacent_heads(geometry, by):
    model = model_of(geometry(**KINDS["mha"], head_dim=6))
    target = model_of(replace(model.geometry, kv_heads=2), seed=1)
    weights = share(model, target, by)
    q, k, v = model.state_dict()["blocks.1.attention.projection.weight"].split([24, 24, 24])
    q2, k2, v2 = weights["blocks.1.attention.projection.weight"].split([24, 12, 12])
    assert torch.equal(q, q2)
    for had, has in ((k, k2), (v, v2)):
        expected = (had[12:18] + had[18:24]) / 2 if by == "mean" else had[12:18]  # of heads 2 and 3
        assert torch.allclose(has[6:], expected, atol=1e-7)
    loaded(target.geometry, weights)


def test_heads_that_were_alike_lose_nothing_by_sharing_and_random_keeps_the_queries(geometry):
    few = model_of(geometry(**KINDS["gqa"], head_dim=6))
    many = replace(few.geometry, kv_heads=4)
    weights = dict(few.state_dict())
    for layer in range(2):
        name = f"blocks.{layer}.attention.projection.weight"
        q, k, v = weights[name].split([24, 12, 12])
        k, v = (part.view(2, 6, 24).repeat_interleave(2, 0).flatten(0, 1) for part in (k, v))
        weights[name] = torch.cat([q, k, v])
    parent = loaded(many, weights)
    for by in ("mean", "first"):
        assert torch.allclose(loaded(few.geometry, share(parent, few, by))(TOKENS), few(TOKENS), atol=1e-5)
    fresh = share(parent, model_of(few.geometry, seed=7), "random")["blocks.0.attention.projection.weight"]
    assert torch.equal(fresh[:24], weights["blocks.0.attention.projection.weight"][:24])
    assert not torch.allclose(fresh[24:36], few.state_dict()["blocks.0.attention.projection.weight"][24:36])


@pytest.mark.parametrize("kind", ["mha", "gqa"])
def test_a_latent_as_wide_as_the_stream_loses_nothing_where_there_is_no_norm(geometry, kind):
    model = model_of(geometry(**KINDS[kind], head_dim=6, norm="none", positions="learned", ffn_width=0))
    g = replace(model.geometry, attention="latent", kv_heads=4, latent_dim=24, rope_dim=0)
    made = loaded(g, compress(model, model_of(g, seed=1), TOKENS, "svd"))
    assert torch.allclose(made(TOKENS), model(TOKENS), atol=1e-4)


def test_a_narrower_latent_loses_more_and_svd_loses_less_than_chance(geometry):
    model = model_of(geometry(**KINDS["mha"], head_dim=6, positions="learned"))
    whole, distances = model(TOKENS), {}
    for rank in (24, 12, 4):
        g = replace(model.geometry, attention="latent", kv_heads=4, latent_dim=rank, rope_dim=0)
        for by in ("svd", "random"):
            made = loaded(g, compress(model, model_of(g, seed=1), TOKENS, by))
            distances[rank, by] = float((made(TOKENS) - whole).norm() / whole.norm())
    assert distances[24, "svd"] < distances[12, "svd"] < distances[4, "svd"]
    assert distances[24, "svd"] < 0.2, "the norm of the latent alone"
    assert all(distances[rank, "svd"] < distances[rank, "random"] for rank in (24, 12))
