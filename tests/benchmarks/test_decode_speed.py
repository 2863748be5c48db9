"""Decoding rewards fewer kv-heads: ratios in one run, one thread, on the CPU.

`uv run pytest -m benchmark -s tests/benchmarks/test_decode_speed.py`
"""

from __future__ import annotations

import jaxtyping
import pytest
import torch

from src.compose import compose
from src.geometry import Geometry
from src.model.gpt import GPT
from src.model.kernels import attend
from tests.benchmarks.ratios import interleaved

pytestmark = pytest.mark.benchmark


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # production runs without the checks
    torch.set_num_threads(1)


@torch.inference_mode()
def attention_ms(kernel: str, kv_heads: int, other: str) -> tuple[float, float]:
    """Milliseconds of one decoded token's attention, in this kernel and in the other, turn by turn."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(8, 16, 1, 64, generator=generator)
    k, v = (torch.randn(8, kv_heads, 2048, 64, generator=generator) for _ in range(2))
    one, two = interleaved(
        lambda: attend(q, k, v, scale=0.125, kernel=kernel),
        lambda: attend(q, k, v, scale=0.125, kernel=other),
        rounds=7,
        calls=5,
    )
    return 1000 * one, 1000 * two


@pytest.mark.parametrize(("other", "at_least"), [("fused", 1.8), ("repeat", 20.0)])
def test_multi_query_decoding_is_faster_than_the_alternatives(other: str, at_least: float) -> None:
    ours, theirs = attention_ms("folded", 1, other)
    print(f"\nMQA, batch 8, 16 x 64, 2,048 cached: ours {ours:.2f} ms, {other} {theirs:.2f} ms, {theirs / ours:.1f}x")
    assert theirs / ours >= at_least


@pytest.mark.parametrize("kv_heads", [16, 4, 1])
@torch.inference_mode()
def test_the_whole_model_decodes_faster_than_transformers(kv_heads: int) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.cache_utils import DynamicCache

    shape = LlamaConfig(
        vocab_size=65,
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=4,
        num_attention_heads=16,
        num_key_value_heads=kv_heads,
        max_position_embeddings=2048,
    )
    theirs = LlamaForCausalLM(shape).eval()
    llama = ["model.norm=rms", "model.activation=swiglu", "model.positions=rotary", "model.tied_embeddings=false"]
    size = ["model.d_model=256", "model.layers=4", "model.ffn_ratio=2.6875", "context_length=1152"]
    ours = GPT(Geometry.of(compose([*llama, *size, "heads=16", f"kv_heads={kv_heads}"])), 65).eval()
    parameters = [sum(p.numel() for p in model.parameters()) for model in (ours, theirs)]
    assert parameters[0] == parameters[1]
    prompt, token = torch.zeros(1, 1024, dtype=torch.int64), torch.zeros(1, 1, dtype=torch.int64)
    cache, their_cache = ours.make_cache(1), DynamicCache()
    ours(prompt, cache)
    theirs(prompt, cache=their_cache, use_cache=True)

    def our_step() -> None:
        cache.length = 1024
        ours(token, cache)

    def their_step() -> None:
        theirs(token, cache=their_cache, use_cache=True)
        their_cache.crop(-1)

    one, two = interleaved(our_step, their_step, rounds=9, calls=8)
    print(f"\nkv_heads={kv_heads}: ours {1000 * one:.2f} ms a token, transformers {1000 * two:.2f}, {two / one:.1f}x")
    assert two / one >= 1.1


@pytest.mark.parametrize(
    "arm", [["kv_heads=2"], ["kv_heads=1"], ["attention=latent", "latent_dim=64", "rope_dim=16"]], ids=" ".join
)
def test_no_kind_trains_slower_than_its_flops_explain(arm: list[str]) -> None:
    from src.costs import training_flops_per_token
    from src.model.losses import next_token_loss

    tokens = torch.randint(65, (12, 65), generator=torch.Generator().manual_seed(0))

    def step_of(*overrides: str):
        geometry = Geometry.of(compose(["model=nano", "heads=8", *overrides]))
        model = GPT(geometry, 65)

        def step() -> None:
            next_token_loss(model(tokens[:, :-1]), tokens[:, 1:]).backward()
            model.zero_grad(set_to_none=True)

        return step, training_flops_per_token(geometry, 65)

    # Latent attention brings rotary positions with it: MHA is given them too, so that the kinds alone differ.
    positions = ["model.positions=rotary"] if "attention=latent" in arm else []
    (mha, mha_flops), (other, flops) = step_of(*positions), step_of(*positions, *arm)
    base, seconds = interleaved(mha, other, rounds=9, calls=10)
    explained = flops / mha_flops
    print(f"\n{arm}: {seconds / base:.2f} of MHA's time, {explained:.2f} of its FLOPs")
    assert seconds / base <= explained * 1.15
