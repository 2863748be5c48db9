"""Costs against published numbers, against the real modules and caches, and against torch's own FLOP counter."""

import doctest
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from src import costs
from src.geometry import Geometry
from src.io_spec import TokenSpec
from src.model.cache import make_cache
from src.model.gpt import GPT
from src.published import DEEPSEEK_V2_LITE, GPT2_SMALL, LLAMA_3_70B

MakeGeometry = Callable[..., Geometry]
LATENT = {"attention": "latent", "heads": 4, "latent_dim": 20, "rope_dim": 4}
GROUPED = [{"heads": 4, "kv_heads": kv_heads} for kv_heads in (1, 2, 4)]
KINDS = [*GROUPED, LATENT, LATENT | {"rope_dim": 0}]
VOCABULARY = 11


def test_every_example_in_the_docstrings_holds() -> None:
    result = doctest.testmod(costs)
    assert result.attempted > 10
    assert result.failed == 0


def test_an_mqa_gpt2_has_13_million_parameters_less_and_a_cache_12_times_smaller() -> None:
    mha, mqa = GPT2_SMALL, replace(GPT2_SMALL, kv_heads=1)
    assert costs.parameters(mha, 50257) == 124_439_808
    assert costs.parameters(mqa, 50257) == 124_439_808 - 12 * 11 * 64 * 2 * (768 + 1)
    assert costs.cache_bytes(mha, batch=1, positions=2048, dtype="float16") == 72 * 2**20
    assert costs.cache_bytes(mqa, batch=1, positions=2048, dtype="float16") == 6 * 2**20


def test_latent_attention_keeps_what_deepseek_v2_printed() -> None:
    mha = DEEPSEEK_V2_LITE.reference
    a_token = [costs.cache_elements_per_token(g) * g.layers for g in (mha, DEEPSEEK_V2_LITE)]
    assert a_token == [110_592, 15_552]  # table 9: 110.6K and 15.6K elements


def test_training_flops_are_six_a_weight_and_twelve_a_layer_width_and_position() -> None:
    g = GPT2_SMALL
    weights = 12 * (4 * 768 * 768 + 2 * 768 * 3072) + 50257 * 768
    assert costs.training_flops_per_token(g, 50257) == 6 * weights + 12 * 12 * 768 * 1024


@pytest.mark.parametrize("norm", ["layer", "rms", "none"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_parameters_are_those_of_the_real_model(geometry: MakeGeometry, kind: dict, norm: str) -> None:
    flags = product(["gelu", "swiglu"], [True, False], [True, False], ["learned", "none"], [0, 7])
    for activation, bias, tied_embeddings, positions, ffn_width in flags:
        g = geometry(
            **kind,
            norm=norm,
            activation=activation,
            bias=bias,
            tied_embeddings=tied_embeddings,
            positions=positions,
            ffn_width=ffn_width,
        )
        with torch.device("meta"):
            model = GPT(g, VOCABULARY)
        real = {name: weight.numel() for name, weight in model.named_parameters()}  # a shared matrix once
        tables = ("tokens.", "positions.", "output.")
        assert costs.parameters(g, VOCABULARY) == sum(real.values())
        assert costs.attention_parameters(g) == sum(n for name, n in real.items() if ".attention." in name)
        assert costs.non_embedding_parameters(g) == sum(n for name, n in real.items() if not name.startswith(tables))


@pytest.mark.parametrize("dtype", costs.BYTES)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_cache_bytes_are_those_of_the_real_storage(geometry: MakeGeometry, kind: dict, dtype: str) -> None:
    g = geometry(**kind)
    cache = make_cache(g, batch=3, capacity=5, dtype=getattr(torch, dtype))
    assert costs.cache_bytes(g, batch=3, positions=5, dtype=dtype) == cache.bytes


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_flops_are_those_that_torch_counts(geometry: MakeGeometry, kind: dict) -> None:
    g = geometry(**kind, activation="swiglu", bias=False)
    context = g.context_length
    model = GPT(g, VOCABULARY, kernel="math").eval()
    tokens = torch.zeros(1, context, dtype=torch.long)
    with torch.no_grad():
        with FlopCounterMode(display=False) as forward:
            model(tokens)
        cache = model.make_cache(batch=1)
        model(tokens[:, :-1], cache)
        with FlopCounterMode(display=False) as decode:
            model(tokens[:, -1:], cache)
    assert costs.training_flops_per_token(g, VOCABULARY) * context == 3 * forward.get_total_flops()
    assert costs.decode_flops_per_token(g, VOCABULARY, positions=context) == decode.get_total_flops()


def test_sharing_kv_heads_saves_bytes_but_no_attention_flops() -> None:
    g = LLAMA_3_70B
    mha = replace(g, kv_heads=64)
    assert costs.decode_attention_flops(g, 2048) == costs.decode_attention_flops(mha, 2048)
    assert 8 * costs.cache_bytes(g, 1, 2048, "float16") == costs.cache_bytes(mha, 1, 2048, "float16")


@given(st.integers(1, 8), st.integers(1, 4096), st.sampled_from(sorted(costs.BYTES)))
def test_a_step_reads_weights_once_and_every_sequences_cache(batch: int, positions: int, dtype: str) -> None:
    for g in (GPT2_SMALL, LLAMA_3_70B, DEEPSEEK_V2_LITE):
        read = costs.decode_bytes_read_per_token(g, 1000, batch, positions, dtype)
        weights = costs.decode_bytes_read_per_token(g, 1000, 0, positions, dtype)
        assert read - weights == costs.cache_bytes(g, batch, positions, dtype)
        tables = 1000 * g.d_model if not g.tied_embeddings else 0
        tables += g.context_length * g.d_model if g.positions == "learned" else 0
        assert weights == (costs.parameters(g, 1000) - tables) * costs.BYTES[dtype]


def test_writing_keys_and_values_out_for_every_head_never_moves_less() -> None:
    for g in (GPT2_SMALL, LLAMA_3_70B, DEEPSEEK_V2_LITE):
        cache = costs.cache_bytes(g, 2, 100, "float16")
        naive = costs.naive_decode_attention_bytes(g, 2, 100, "float16")
        if g.kv_heads == g.heads and g.attention == "grouped":
            assert naive == cache
        else:
            keys_and_values = g.layers * 2 * 100 * g.heads * (g.head_dim + g.rope_dim + g.head_dim)
            assert naive == cache + 2 * 2 * keys_and_values


def test_the_cache_formula_for_people_multiplies_to_the_bytes() -> None:
    for g in (GPT2_SMALL, LLAMA_3_70B, DEEPSEEK_V2_LITE):
        text = costs.cache_formula(g, "float16")
        words = {" x ": " * ", " latent": "", " rotary": "", " kv-heads": "", " wide": "", " layers": ""}
        for old, new in (words | {" tokens": "", " bytes": ""}).items():
            text = text.replace(old, new)
        assert eval(text) == costs.cache_bytes(g, 1, g.context_length, "float16")


def test_all_costs_of_a_model_are_positive_integers_and_its_own() -> None:
    g = LLAMA_3_70B
    values = costs.Costs.of(g, TokenSpec(128256), "bfloat16").as_dict()
    assert all(type(value) is int and value > 0 for value in values.values())
    assert values["parameters"] == 70_553_706_496
    assert values["cache_elements_per_token"] == 163_840
    assert values["cache_bytes_per_token"] == 327_680
    assert values["cache_bytes"] == 327_680 * 8192
