"""The schedule, the weight decay groups, accumulation and the dropout stream."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from src.training.build import build
from src.training.loop import Training
from src.training.plan import plan_run
from src.training.step import global_stream, learning_rate, make_optimiser
from tests.training.conftest import Tiny, runtime_of


def training_of(tiny: Tiny, tmp_path: Path, *overrides: str, micro_batch_size: int | None = None) -> Training:
    plan = plan_run(tiny(*overrides), tmp_path)
    runtime = runtime_of(plan)
    if micro_batch_size is not None:
        runtime = replace(runtime, micro_batch_size=micro_batch_size)
    return build(plan, runtime, time.perf_counter)


def test_the_rate_warms_up_falls_as_a_cosine_and_ends_at_its_ratio(tiny: Tiny) -> None:
    training = tiny("training.learning_rate=0.01", "training.warmup_steps=9").training
    rates = [learning_rate(step, 109, training) for step in range(109)]
    assert rates[0] == pytest.approx(0.001)
    assert rates[8] == pytest.approx(0.009)
    assert max(rates) == rates[9] == pytest.approx(0.01)
    assert rates[59] == pytest.approx(0.0055)
    assert learning_rate(109, 109, training) == pytest.approx(0.001)
    assert rates[9:] == sorted(rates[9:], reverse=True)


def test_weight_decay_falls_on_matrices_and_spares_biases_and_norms(tiny: Tiny, tmp_path: Path) -> None:
    training = training_of(tiny, tmp_path, "model.bias=true")
    decayed, spared = make_optimiser(training.model, tiny().training, fused=False).param_groups
    assert decayed["weight_decay"] == 0.1
    assert all(p.dim() >= 2 for p in decayed["params"])
    assert spared["weight_decay"] == 0.0
    assert all(p.dim() == 1 for p in spared["params"])
    counted = len(decayed["params"]) + len(spared["params"])
    assert counted == len(list(training.model.parameters()))


@pytest.mark.parametrize("micro_batch_size", [1, 2, 3])
def test_accumulated_micro_batches_give_the_step_of_the_whole_batch(
    tiny: Tiny, tmp_path: Path, micro_batch_size: int
) -> None:
    whole = training_of(tiny, tmp_path, "training.dtype=float64")
    pieces = training_of(tiny, tmp_path, "training.dtype=float64", micro_batch_size=micro_batch_size)
    for step in range(3):
        batch = whole.batches.batch(step)
        losses = [p.trainer.step(step, *batch, 0.01) for p in (whole, pieces)]
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-9, atol=1e-9)
    for one, other in zip(whole.model.parameters(), pieces.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)


def test_the_gradient_is_clipped_and_its_norm_before_clipping_is_told(tiny: Tiny, tmp_path: Path) -> None:
    seen = []
    training = training_of(tiny, tmp_path, "training.grad_clip=0.01")
    training.trainer.optimiser.register_step_pre_hook(
        lambda *_: seen.append(
            torch.stack([p.grad.norm() for p in training.model.parameters() if p.grad is not None]).norm()
        )
    )
    _, norm = training.trainer.step(0, *training.batches.batch(0), 0.001)
    assert norm > 0.1
    assert seen[0] == pytest.approx(0.01, rel=1e-3)


def test_dropout_is_a_stream_of_seed_and_step_and_leaks_nothing(tiny: Tiny, tmp_path: Path) -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    losses, batch = [], training_of(tiny, tmp_path).batches.batch(0)
    for seed, step in ((0, 3), (0, 3), (0, 4), (1, 3)):
        training = training_of(tiny, tmp_path, "model.dropout=0.5", f"seed={seed}")
        with torch.no_grad():
            for parameter in training.model.parameters():
                parameter.fill_(0.1).add_(torch.arange(parameter.numel()).view(parameter.shape) % 7 / 50)
        training.model.train()
        losses.append(training.trainer.step(step, *batch, 0.0)[0].item())
    assert losses[0] == losses[1]
    assert len(set(losses)) == 3
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_global_stream_is_put_back_after_an_error() -> None:
    before = torch.random.get_rng_state()
    with pytest.raises(KeyError), global_stream(torch.device("cpu"), 5):
        raise KeyError(torch.rand(3))
    assert torch.equal(before, torch.random.get_rng_state())
