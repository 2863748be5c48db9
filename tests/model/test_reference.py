"""The references themselves: a known example, and the identities that they are there to show."""

import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from src.attention_kinds.sharing import divisors
from src.model.attention import combine_heads, split_heads
from tests.model import reference

# The worked example of two heads of width 3 on three tokens: weights are normal draws of NumPy's legacy
# generator at seed 42, queries, keys and values in turn, a 6 x 3 matrix a head.
EXAMPLE_INPUT = [[1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1], [1, 1, 0, 0, 1, 1]]
EXAMPLE_OUTPUT = [
    [-0.662842, -0.794081, -1.887098, -0.155497, 0.200614, -1.727731],
    [-0.447172, -0.482312, -1.797225, 0.049705, 0.431233, -0.862669],
    [-0.633215, -0.750594, -1.875094, -0.082172, 0.412869, -1.450881],
]


def example() -> list[torch.Tensor]:
    draws = np.random.RandomState(42)
    return [torch.tensor(EXAMPLE_INPUT, dtype=torch.float64), *(torch.tensor(draws.randn(2, 6, 3)) for _ in "qkv")]


def in_numpy(x, w_q, w_k, w_v) -> np.ndarray:
    """The example once more, in another library and without a loop over queries."""
    heads = []
    for q, k, v in zip(x @ w_q, x @ w_k, x @ w_v, strict=True):
        scores = q @ k.T / math.sqrt(q.shape[1])
        weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        heads.append(weights @ v)
    return np.concatenate(heads, axis=1)


def test_the_two_head_example_has_its_known_output():
    output = reference.head_by_head(*example())
    assert torch.allclose(output, torch.tensor(EXAMPLE_OUTPUT, dtype=torch.float64), atol=5e-7)
    assert np.abs(output.numpy() - in_numpy(*(part.numpy() for part in example()))).max() < 1e-14


@given(heads=st.integers(1, 6), width=st.integers(1, 4), tokens=st.integers(1, 5))
def test_a_matrix_a_head_and_one_split_projection_are_the_same(normal, heads, width, tokens):
    x = normal(tokens, 7)
    matrices = [normal(heads, 7, width, seed=seed) for seed in (1, 2, 3)]
    difference = reference.head_by_head(x, *matrices) - reference.one_projection(x, *matrices)
    assert difference.abs().max() < 1e-13


@given(heads=st.integers(1, 16), width=st.integers(1, 5), batch=st.integers(1, 3), tokens=st.integers(1, 6))
def test_combining_undoes_splitting(normal, heads, width, batch, tokens):
    features = normal(batch, tokens, heads * width)
    split = split_heads(features, heads)
    assert split.shape == (batch, heads, tokens, width)
    assert torch.equal(combine_heads(split), features)
    assert torch.equal(split[:, -1], features[:, :, -width:])


def test_heads_differ_from_each_other_with_random_weights():
    x, w_q, w_k, w_v = example()
    first, second = (reference.one_head(x @ q, x @ k, x @ v, 1.0)[1] for q, k, v in zip(w_q, w_k, w_v, strict=True))
    assert (first - second).abs().max() > 0.1


@given(heads=st.integers(1, 12))
def test_sharing_kv_heads_is_repeating_each_for_adjacent_query_heads(normal, heads):
    for kv_heads in divisors(heads):
        q, k, v = normal(heads, 3, 4), normal(kv_heads, 3, 4, seed=1), normal(kv_heads, 3, 4, seed=2)
        shared = reference.many_heads(q, k, v, 0.5)
        group = heads // kv_heads
        k, v = (torch.stack([part[h // group] for h in range(heads)]) for part in (k, v))
        assert torch.equal(shared, reference.many_heads(q, k, v, 0.5))


def test_cross_attention_has_the_shapes_of_its_two_sequences(normal):
    """Queries of one sequence, keys and values of another, values wider than keys."""
    q, k, v = normal(30, 16), normal(50, 16, seed=1), normal(50, 32, seed=2)
    output, weights = reference.one_head(q, k, v, 16**-0.5)
    assert output.shape == (30, 32)
    assert weights.shape == (30, 50)
    assert torch.allclose(weights.sum(1), torch.ones(30, dtype=torch.float64))


def test_hidden_keys_weigh_nothing_and_cannot_be_felt(normal):
    q, k, v = normal(3, 4), normal(5, 4, seed=1), normal(5, 2, seed=2)
    mask = torch.tensor([[True] * 5, [True, False, True, False, False], [False] * 5])
    output, weights = reference.one_head(q, k, v, 0.5, mask)
    assert torch.count_nonzero(weights[~mask]) == 0
    assert torch.allclose(weights.sum(1), torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64))
    assert torch.count_nonzero(output[2]) == 0
    only_seen, _ = reference.one_head(q[1:2], k[[0, 2]], v[[0, 2]], 0.5)
    assert torch.allclose(output[1], only_seen[0])
    assert torch.allclose(weights[0], (k @ q[0] * 0.5).softmax(0))
