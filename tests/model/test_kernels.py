"""Every way to compute attention gives what the written-out loops give, values and gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from src.attention_kinds.sharing import divisors
from src.model.cache import KVCache
from src.model.kernels import FOLD_AT_MOST, attend, resolve, visible
from tests.model import reference

KERNELS = ["fused", "flash", "math", "folded", "repeat", "auto"]


def with_gradients(function, *inputs: torch.Tensor, **options) -> list[torch.Tensor]:
    """The output and the gradients of an uneven sum of it."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    output = function(*leaves, **options)
    weights = torch.arange(1, output.numel() + 1, dtype=torch.float64).sin().view(output.shape).to(output.dtype)
    return [output.detach(), *torch.autograd.grad((output * weights).sum(), leaves)]


def expected(q, k, v, scale, mask) -> torch.Tensor:
    sequences = zip(q, k, v, [None] * len(q) if mask is None else mask, strict=True)
    return torch.stack([reference.many_heads(*one[:3], scale, one[3]) for one in sequences])


def largest_difference(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> float:
    return max((a - b).abs().max().item() for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("heads", range(1, 17))
def test_every_kernel_equals_the_loops_for_every_head_and_kv_head_count(normal, heads):
    new, cached, width = 3, 5, 4
    for kv_heads in divisors(heads):
        q, k, v = (
            normal(1, heads, new, width),
            normal(1, kv_heads, cached, width, seed=1),
            normal(1, kv_heads, cached, 6, seed=2),
        )
        mask = torch.tensor([[s <= cached - new + t for s in range(cached)] for t in range(new)]).expand(
            1, heads, -1, -1
        )
        wanted = with_gradients(expected, q, k, v, scale=width**-0.5, mask=mask)
        for kernel in KERNELS:
            got = with_gradients(attend, q, k, v, scale=width**-0.5, kernel=kernel)
            assert largest_difference(got, wanted) <= 1e-10, (kernel, kv_heads)


@st.composite
def calls(draw) -> dict:
    is_causal = draw(st.booleans())
    new = draw(st.integers(1, 12))
    cached = new + draw(st.integers(0, 5)) if is_causal else draw(st.integers(1, 12))
    batch, kv_heads = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    heads = kv_heads * draw(st.integers(1, 3))
    mask_shape = draw(st.sampled_from([None, (1, 1), (batch, 1), (1, heads), (batch, heads)]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    mask = None
    if mask_shape is not None:
        mask = torch.rand(*mask_shape, new, cached, generator=generator) < draw(st.sampled_from([0.0, 0.3, 0.8]))
    width, value_width = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    return {
        "q": torch.randn(batch, heads, new, width, generator=generator, dtype=torch.float64),
        "k": torch.randn(batch, kv_heads, cached, width, generator=generator, dtype=torch.float64),
        "v": torch.randn(batch, kv_heads, cached, value_width, generator=generator, dtype=torch.float64),
        "scale": draw(st.sampled_from([0.1, width**-0.5, 1.0])),
        "is_causal": is_causal,
        "mask": mask,
    }


@given(call=calls(), kernel=st.sampled_from(KERNELS))
def test_any_call_equals_the_loops(call, kernel):
    q, k, v = call.pop("q"), call.pop("k"), call.pop("v")
    seen = visible(call["mask"], call["is_causal"], q.shape[2], k.shape[2], q.device)
    seen = None if seen is None else seen.expand(*q.shape[:3], k.shape[2])
    wanted = with_gradients(expected, q, k, v, scale=call["scale"], mask=seen)
    got = with_gradients(attend, q, k, v, **call, kernel=kernel)
    assert largest_difference(got, wanted) <= 1e-10


@pytest.mark.parametrize("kernel", KERNELS)
def test_cross_attention_of_30_queries_on_50_wider_values_in_a_batch_of_3(normal, kernel):
    q, k, v = normal(3, 1, 30, 128), normal(3, 1, 50, 128, seed=1), normal(3, 1, 50, 256, seed=2)
    hidden = torch.arange(50) >= 45
    output = attend(q, k, v, scale=128**-0.5, is_causal=False, mask=~hidden[None, None, None], kernel=kernel)[:, 0]
    assert output.shape == (3, 30, 256)
    for b in range(3):
        wanted, weights = reference.one_head(q[b, 0], k[b, 0], v[b, 0], 128**-0.5, (~hidden).expand(30, -1))
        assert weights.shape == (30, 50)
        assert (output[b] - wanted).abs().max() <= 1e-10


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.bfloat16, 0.06), (torch.float16, 0.01)])
@given(call=calls())
def test_kernels_agree_in_every_dtype(dtype, tolerance, call):
    q, k, v = (call.pop(name).to(dtype) for name in "qkv")
    exact = attend(q.double(), k.double(), v.double(), **call, kernel="math")
    for kernel in KERNELS:
        output = attend(q, k, v, **call, kernel=kernel)
        assert output.dtype == dtype
        assert (output - exact).abs().max() <= tolerance * (1 + exact.abs().max()), kernel


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_a_row_whose_keys_are_all_hidden_is_finite_and_agreed_on(normal, dtype, kv_heads):
    q, k, v = (normal(2, heads, 6, 8, seed=heads, dtype=dtype) for heads in (4, kv_heads, kv_heads))
    padding = torch.ones(2, 1, 1, 6, dtype=torch.bool)
    padding[1, :, :, :3] = False  # with causality, the second sequence's first three rows see nothing
    tolerance = 2e-6 if dtype == torch.float32 else 0.1
    exact = with_gradients(attend, q.double(), k.double(), v.double(), scale=0.5, mask=padding, kernel="math")
    for kernel in KERNELS:
        results = with_gradients(attend, q, k, v, scale=0.5, mask=padding, kernel=kernel)
        assert all(result.isfinite().all() for result in results), kernel
        output, q_gradient, k_gradient, v_gradient = results
        assert torch.count_nonzero(output[1, :, :3]) == torch.count_nonzero(q_gradient[1, :, :3]) == 0, kernel
        assert torch.count_nonzero(k_gradient[1, :, :3]) == torch.count_nonzero(v_gradient[1, :, :3]) == 0, kernel
        assert largest_difference(results, exact) <= tolerance, kernel


def test_the_last_query_sees_the_newest_key_and_not_only_the_oldest(normal):
    q, k, v = normal(1, 2, 1, 4), normal(1, 2, 5, 4, seed=1), normal(1, 2, 5, 4, seed=2)
    for kernel in KERNELS:
        output = attend(q, k, v, scale=0.5, kernel=kernel)
        assert not torch.allclose(output[:, :, 0], v[:, :, 0], atol=0.01), "the mask is anchored at the top left"


@pytest.mark.parametrize("kv_heads", [1, 2, 8])
def test_decoding_reads_keys_and_values_as_they_lie(geometry, normal, largest_allocation, kv_heads):
    g = geometry(heads=8, kv_heads=kv_heads, head_dim=16, context_length=64)
    cache = KVCache(g, batch=2, capacity=64, dtype=torch.float64, device="cpu")
    cache.length = 40
    new = normal(2, kv_heads, 1, 16)
    q = normal(2, 1, 8, 16).transpose(1, 2)  # as a layer hands it over
    keys, values = cache.append(0, new, new)
    assert keys.untyped_storage().data_ptr() == cache.storage[0].untyped_storage().data_ptr()
    scores = q.shape[0] * g.heads * keys.shape[2] * 8
    assert largest_allocation(lambda: attend(q, keys, values, scale=0.25)) <= scores < keys.numel() * 8
    repeated = largest_allocation(lambda: attend(q, keys, values, scale=0.25, kernel="repeat"))
    assert (repeated >= keys.numel() * 8 * g.heads // g.kv_heads) == (kv_heads < 8)


def test_auto_folds_when_decoding_and_fuses_when_training():
    assert resolve("auto", new=1) == resolve("auto", new=FOLD_AT_MOST) == "folded"
    assert resolve("auto", new=FOLD_AT_MOST + 1) == "fused"
    assert resolve("auto", new=1, dropout=0.1) == resolve("auto", new=1, has_mask=True) == "fused"


@pytest.mark.parametrize("kernel", ["fused", "flash", "math", "folded", "repeat"])
def test_a_forced_kernel_is_the_one_for_every_call(kernel):
    assert {
        resolve(kernel, new=new, has_mask=mask, dropout=drop)
        for new in (1, 64)
        for mask in (False, True)
        for drop in (0.0, 0.1)
    } == {kernel}


@pytest.mark.parametrize("kernel", ["fused", "math", "folded", "repeat"])
def test_dropout_drops_weights_and_keeps_their_mean(normal, kernel):
    q, k = normal(1, 2, 16, 4, dtype=torch.float32), normal(1, 1, 16, 4, seed=1, dtype=torch.float32)
    ones = torch.ones(1, 1, 16, 4)
    dropped = torch.stack([attend(q, k, ones, scale=0.5, dropout=0.5, kernel=kernel) for _ in range(200)])
    assert dropped.std() > 0.1
    assert torch.allclose(dropped.mean(0), torch.ones(()), atol=0.3)
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.02)
