"""Other people's layers with our weights mapped over: torch's own, and Llama and DeepSeek of transformers."""

# pyright: reportAttributeAccessIssue=false, reportCallIssue=false, reportArgumentType=false

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from src.geometry import Geometry
from src.model.cache import KVCache, LatentCache
from src.model.gpt import GPT
from src.model.init import initialise


def causal_bias(tokens: int) -> Tensor:
    return torch.full((tokens, tokens), -math.inf, dtype=torch.float64).triu(1)


def rotary_tables(width: int, tokens: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines as Llama takes them, in full precision."""
    frequencies = 10_000 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.outer(torch.arange(tokens, dtype=torch.float64), frequencies).repeat(1, 2)[None]
    return angles.cos(), angles.sin()


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 16])
def test_mha_equals_torch_multihead_attention(geometry, make_layer, normal, heads):
    ours = make_layer(geometry(d_model=240, heads=heads, head_dim=240 // heads, bias=True))
    theirs = nn.MultiheadAttention(240, heads, bias=True, batch_first=True, dtype=torch.float64)
    assert theirs.in_proj_weight is not None
    theirs.in_proj_weight.data, theirs.in_proj_bias.data = ours.projection.weight.data, ours.projection.bias.data
    theirs.out_proj.load_state_dict(ours.output.state_dict())
    x = normal(2, 7, 240).requires_grad_()
    hidden = torch.ones(7, 7, dtype=torch.bool).triu(1)
    wanted, weights = theirs(x, x, x, attn_mask=hidden, average_attn_weights=False)
    got = ours(x)
    assert (got - wanted).abs().max() <= 1e-10
    assert (ours.look_inside(x).weights - weights).abs().max() <= 1e-12
    for one, other in zip(*(torch.autograd.grad(y.square().sum(), x) for y in (got, wanted)), strict=True):
        assert (one - other).abs().max() <= 1e-9


def test_cross_attention_and_padding_equal_torch_multihead_attention(geometry, make_layer, normal):
    ours = make_layer(geometry(heads=4, head_dim=6, bias=False))
    theirs = nn.MultiheadAttention(24, 4, bias=False, batch_first=True, dtype=torch.float64)
    assert theirs.in_proj_weight is not None
    theirs.in_proj_weight.data = ours.projection.weight.data
    theirs.out_proj.load_state_dict(ours.output.state_dict())
    x, memory = normal(3, 30, 24), normal(3, 50, 24, seed=1)
    seen = torch.arange(50)[None] < torch.tensor([50, 20, 1])[:, None]
    wanted, _ = theirs(x, memory, memory, key_padding_mask=~seen)
    assert (ours(x, memory=memory, mask=seen[:, None, None]) - wanted).abs().max() <= 1e-10


def llama_config(geometry: Geometry):
    from transformers import LlamaConfig

    g = geometry
    return LlamaConfig(
        hidden_size=g.d_model,
        num_hidden_layers=g.layers,
        num_attention_heads=g.heads,
        num_key_value_heads=g.kv_heads,
        head_dim=g.head_dim,
        intermediate_size=g.ffn_width,
        vocab_size=11,
        max_position_embeddings=g.context_length,
        rms_norm_eps=1e-5,
        attention_bias=g.bias,
        attn_implementation="sdpa",
    )


def map_llama(ours, theirs) -> None:
    q, k, v = ours.projection.weight.data.split(ours.widths)
    theirs.q_proj.weight.data, theirs.k_proj.weight.data, theirs.v_proj.weight.data = q, k, v
    if ours.projection.bias is not None:
        q, k, v = ours.projection.bias.data.split(ours.widths)
        theirs.q_proj.bias.data, theirs.k_proj.bias.data, theirs.v_proj.bias.data = q, k, v
    theirs.o_proj.load_state_dict(ours.output.state_dict())


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (4, 4), (4, 2), (6, 2), (12, 3), (16, 1), (7, 7)])
def test_gqa_equals_llama(geometry, make_layer, normal, heads, kv_heads):
    from transformers.models.llama.modeling_llama import LlamaAttention

    g = geometry(
        d_model=4 * heads, heads=heads, kv_heads=kv_heads, head_dim=6, positions="rotary", bias=heads == 6, layers=1
    )
    ours, theirs = make_layer(g), LlamaAttention(llama_config(g), 0).double().eval()
    map_llama(ours, theirs)
    x = normal(2, 9, g.d_model)
    wanted, _ = theirs(x, position_embeddings=rotary_tables(6, 9), attention_mask=causal_bias(9))
    assert (ours(x) - wanted).abs().max() <= 1e-10
    cache = KVCache(g, 2, 9, torch.float64, "cpu")
    for start, end in pairwise([0, 4, 5, 6, 9]):
        assert (ours(x[:, start:end], cache) - wanted[:, start:end]).abs().max() <= 1e-10
        cache.length = end


def test_a_whole_model_equals_llama(geometry, tokens):
    from transformers import LlamaForCausalLM

    g = geometry(
        heads=4, kv_heads=2, head_dim=6, positions="rotary", norm="rms", activation="swiglu", tied_embeddings=False
    )
    ours, theirs = GPT(g, 11), LlamaForCausalLM(llama_config(g))
    initialise(ours, "torch", 0)
    ours, theirs = ours.double().eval(), theirs.double().eval()
    theirs.model.embed_tokens.weight.data = ours.tokens.weight.data
    theirs.model.norm.weight.data = ours.norm.weight.data
    theirs.lm_head.weight.data = ours.output.weight.data
    for block, layer in zip(ours.blocks, theirs.model.layers, strict=True):
        map_llama(block.attention, layer.self_attn)
        layer.mlp.gate_proj.weight.data, layer.mlp.up_proj.weight.data = block.feed_forward.up.weight.data.chunk(2)
        layer.mlp.down_proj.weight.data = block.feed_forward.down.weight.data
    prompt = tokens(2, 16)
    with torch.no_grad():
        # Theirs takes norms and angles in single precision, whatever the weights.
        assert (ours(prompt) - theirs(prompt).logits).abs().max() <= 1e-5


def deepseek_config(geometry: Geometry, version: int, **options):
    import transformers

    g = geometry
    kind = transformers.DeepseekV2Config if version == 2 else transformers.DeepseekV3Config
    return kind(
        hidden_size=g.d_model,
        num_hidden_layers=1,
        num_attention_heads=g.heads,
        num_key_value_heads=g.heads,
        q_lora_rank=None,
        kv_lora_rank=g.latent_dim,
        qk_nope_head_dim=g.head_dim,
        qk_rope_head_dim=g.rope_dim,
        v_head_dim=g.head_dim,
        max_position_embeddings=g.context_length,
        attention_bias=g.bias,
        attn_implementation="sdpa",
        **options,
    )


def interleaved(rows: Tensor) -> Tensor:
    """Rows of pairs (i, i + P/2) in the order (0, P/2, 1, P/2 + 1, ...)."""
    return torch.stack(rows.chunk(2), dim=1).flatten(0, 1)


def map_deepseek(ours, theirs, order=lambda rows: rows) -> None:
    g = ours.geometry
    query, latent, rope_key = ours.projection.weight.data.split(ours.widths)
    per_head = query.view(g.heads, g.head_dim + g.rope_dim, g.d_model)
    turned = torch.stack([order(head[g.head_dim :]) for head in per_head])
    theirs.q_proj.weight.data = torch.cat([per_head[:, : g.head_dim], turned], dim=1).flatten(0, 1)
    theirs.kv_a_proj_with_mqa.weight.data = torch.cat([latent, order(rope_key)])
    if g.bias:
        _, latent, rope_key = ours.projection.bias.data.split(ours.widths)
        theirs.kv_a_proj_with_mqa.bias.data = torch.cat([latent, order(rope_key)])
        ours.projection.bias.data[: ours.widths[0]] = 0  # theirs has no bias on queries
    key, value = (part.view(g.heads, g.head_dim, g.latent_dim) for part in ours.up.weight.data.chunk(2))
    theirs.kv_b_proj.weight.data = torch.cat([key, value], dim=1).flatten(0, 1)
    theirs.kv_a_layernorm.weight.data = ours.norm.weight.data
    ours.norm.eps = 1e-6
    theirs.o_proj.load_state_dict(ours.output.state_dict())


@pytest.mark.parametrize("heads", [1, 3, 4, 16])
def test_mla_equals_deepseek_v3(geometry, make_layer, normal, heads):
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention

    g = geometry(attention="latent", heads=heads, head_dim=6, latent_dim=10, rope_dim=4, layers=1, bias=heads == 3)
    ours = make_layer(g)
    theirs = DeepseekV3Attention(deepseek_config(g, 3, rope_interleave=False), 0).double().eval()
    map_deepseek(ours, theirs)
    # Its own norm works in single precision; torch's stands in, so that the rest is compared in double.
    theirs.kv_a_layernorm = nn.RMSNorm(10, eps=1e-6, dtype=torch.float64)
    theirs.kv_a_layernorm.weight.data = ours.norm.weight.data
    x = normal(2, 12, 24)
    wanted, _ = theirs(x, position_embeddings=rotary_tables(4, 12), attention_mask=causal_bias(12))
    assert (ours(x) - wanted).abs().max() <= 1e-10
    cache = LatentCache(g, 2, 12, torch.float64, "cpu")
    for start, end in pairwise([0, 9, 10, 12]):
        assert (ours(x[:, start:end], cache) - wanted[:, start:end]).abs().max() <= 1e-10
        cache.length = end


def test_mla_equals_deepseek_v2_with_its_interleaved_pairs(geometry, make_layer, normal):
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Attention

    g = geometry(attention="latent", heads=3, head_dim=6, latent_dim=10, rope_dim=8, layers=1)
    ours, theirs = make_layer(g), DeepseekV2Attention(deepseek_config(g, 2), 0).double().eval()
    map_deepseek(ours, theirs, order=interleaved)
    x = normal(2, 9, 24)
    cos, sin = rotary_tables(8, 9)
    turns = torch.complex(cos[..., :4], sin[..., :4])
    wanted, _ = theirs(x, position_embeddings=turns, attention_mask=causal_bias(9))
    assert (ours(x) - wanted).abs().max() <= 1e-5  # it turns and norms in single precision
