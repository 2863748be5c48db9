"""Rotary positions: scores know distances only, tables are exact."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from src.model.rotary import Rotary
from tests.model import reference


@given(start=st.integers(0, 20), half=st.integers(1, 5), length=st.integers(1, 6))
def test_rotation_equals_the_written_out_one(normal, start, half, length):
    x = normal(1, 2, length, 2 * half)
    turned = Rotary(2 * half, 40).double()(x, start)
    for head in range(2):
        assert (turned[0, head] - reference.rotate(x[0, head], start)).abs().max() < 1e-13


@given(distance=st.integers(0, 15), start=st.integers(0, 15))
def test_scores_depend_on_distance_only(normal, distance, start):
    rotary = Rotary(8, 64).double()
    q, k = normal(1, 1, 1, 8, seed=1), normal(1, 1, 1, 8, seed=2)
    score = (rotary(q, start + distance) * rotary(k, start)).sum()
    assert (score - (rotary(q, distance) * rotary(k, 0)).sum()).abs() < 1e-13


def test_tables_follow_the_module_and_stay_exact():
    rotary = Rotary(6, 10)
    exact = Rotary(6, 10).double().cos
    assert rotary.cos.dtype == torch.float32
    assert (rotary.cos.double() - exact).abs().max() > 0
    assert torch.equal(rotary.double().cos, exact)
    assert torch.equal(rotary.float().cos, exact.float())
    assert not rotary.state_dict()
