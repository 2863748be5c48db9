"""Training speed at `nano` on the CPU, as ratios: `uv run pytest -m benchmark --benchmark-enable -s tests/benchmarks`.

Not selected by default: speed depends on what else the machine does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
import torch
from torch import nn

from src.compose import compose
from src.model.gpt import GPT
from src.model.losses import next_token_loss
from src.training.build import build
from src.training.loop import Training, evaluate, training_events
from src.training.plan import RunPlan, plan_run
from src.training.runtime import Runtime, choose_runtime
from src.training.step import make_optimiser
from src.training.stop import StopFlag
from tests.benchmarks.plain_gpt import PlainLoop
from tests.benchmarks.ratios import interleaved
from tests.training.conftest import text_of

pytestmark = pytest.mark.benchmark


@pytest.fixture(params=[1, 2], ids=["1 thread", "2 threads"], autouse=True)
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # production runs without the checks
    torch.set_num_threads(request.param)
    return request.param


@pytest.fixture
def plan(tmp_path: Path) -> RunPlan:
    overrides = ["heads=4", "device=cpu", "training.max_steps=1000000", "training.eval_interval=1000000"]
    return plan_run(compose([*overrides, "training.checkpoint_interval=1000000"]), tmp_path)


@pytest.fixture
def runtime(plan: RunPlan, threads: int) -> Runtime:
    return choose_runtime(plan.config, plan.geometry, plan.data.io_spec)


@pytest.fixture
def training(plan: RunPlan, runtime: Runtime) -> Training:
    return build(plan, runtime, time.perf_counter)


def loop_of(training: Training) -> Iterator[object]:
    return training_events(training, segment=1, stop=StopFlag(), save=lambda: Path())


def one_step(loop: Iterator[object], training: Training) -> None:
    step = training.state.step
    while training.state.step == step:
        next(loop)


def test_the_loop_is_not_slower_than_a_plain_one(
    plan: RunPlan, runtime: Runtime, training: Training, threads: int
) -> None:
    text = torch.from_numpy(text_of(plan).train_tokens[:].astype("int64"))
    plain = PlainLoop(text, plan.data.io_spec.output_width, 12, 64)
    loop = loop_of(training)
    ours, theirs = interleaved(lambda: one_step(loop, training), plain.step, rounds=7, calls=10)
    tokens = 12 * 64
    rates = f"ours {tokens / ours:,.0f} tokens/s, plain {tokens / theirs:,.0f}"
    print(f"\n{threads} threads: {rates}, ratio {theirs / ours:.3f}")
    assert ours <= theirs * 1.02


def test_the_loop_costs_little_over_its_own_bare_step(
    plan: RunPlan, runtime: Runtime, training: Training, threads: int
) -> None:
    bare = build(plan, runtime, time.perf_counter)
    optimiser = make_optimiser(bare.model, plan.config.training, fused=runtime.fused_optimizer)
    batches = [bare.batches.batch(step) for step in range(16)]
    bare.model.train()
    count = iter(range(10**9))

    def bare_step() -> None:
        inputs, targets = batches[next(count) % 16]
        next_token_loss(bare.model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(bare.model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    loop = loop_of(training)
    ours, theirs = interleaved(lambda: one_step(loop, training), bare_step, rounds=11, calls=10)
    times = f"loop {1000 * ours:.2f} ms, bare {1000 * theirs:.2f} ms"
    print(f"\n{threads} threads: {times}, overhead {ours / theirs - 1:+.1%}")
    assert ours <= theirs * 1.03


def test_train_step(benchmark, plan: RunPlan, runtime: Runtime, training: Training) -> None:
    loop = loop_of(training)
    benchmark(one_step, loop, training)


def test_evaluation(benchmark, plan: RunPlan, runtime: Runtime, training: Training) -> None:
    benchmark.pedantic(
        lambda: list(evaluate(training.model, training.windows, runtime, StopFlag())), rounds=3, warmup_rounds=1
    )


@pytest.mark.parametrize("kv_heads", [4, 1])
def test_decode(benchmark, kv_heads: int, threads: int, tmp_path: Path) -> None:
    plan = plan_run(compose(["heads=4", f"kv_heads={kv_heads}"]), tmp_path)
    runtime = choose_runtime(plan.config, plan.geometry, plan.data.io_spec)
    model = build(plan, runtime, time.perf_counter).model.eval()
    assert isinstance(model, GPT)
    cache, token = model.make_cache(1), torch.zeros(1, 1, dtype=torch.int64)

    @torch.inference_mode()
    def decode() -> None:
        cache.length = 63
        model(token, cache)

    benchmark(decode)


def test_prefill(benchmark, training: Training) -> None:
    assert isinstance(training.model, GPT)
    cache, tokens = training.model.make_cache(1), torch.zeros(1, 64, dtype=torch.int64)

    @torch.inference_mode()
    def prefill() -> None:
        cache.length = 0
        training.model(tokens, cache)

    benchmark(prefill)
