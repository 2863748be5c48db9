"""On a CUDA device: `uv run pytest -m gpu`. Not selected by default."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jaxtyping
import pytest
import torch

from src.compose import compose
from src.config import Config
from src.model.kernel_report import check_kernel
from src.training.plan import Result, plan_run
from src.training.run import run
from src.training.sinks.jsonl import JsonlSink
from src.training.stop import StopFlag

pytestmark = pytest.mark.gpu

TINY = (
    *("device=cuda", "logger=disabled", "heads=8", "kv_heads=2", "training.max_steps=30", "training.eval_interval=15"),
    *("training.checkpoint_interval=10", "training.warmup_steps=5", "sample.tokens=16", "context_length=64"),
)  # fmt: skip
Train = Callable[..., Result]


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Train:
    """Trains a small model on the device, with overrides as on the command line."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # torch.compile cannot trace the checks

    def go(*overrides: str) -> Result:
        config: Config = compose([*TINY, f"runs_dir={tmp_path}", *overrides])
        return run(plan_run(config, tmp_path), lambda c, folder, segment: [JsonlSink(folder, segment)], StopFlag())

    return go


@pytest.mark.parametrize("compiled", ["false", "true"])
def test_a_run_finishes_in_the_dtype_that_the_device_has(train: Train, compiled: str) -> None:
    record = train(f"training.compile={compiled}").record
    assert record.status == "finished", record.error
    expected = "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
    assert record.environment["dtype"] == expected
    assert record.environment["fused_optimizer"] is True
    assert record.environment["compile"] is (compiled == "true")
    assert record.summary["cache/bytes"] == 2 * 2 * 16 * 4 * 64 * 2
    assert (record.summary["memory/peak_bytes"] or 0) > 1_000_000
    assert (record.summary["val/loss"] or 99) < 4.0


def test_float32_on_the_device_agrees_with_the_cpu(train: Train) -> None:
    on_device = train("training.dtype=float32", "training.compile=false").record.summary["val/loss"]
    on_cpu = train("training.dtype=float32", "device=cpu").record.summary["val/loss"]
    assert on_device == pytest.approx(on_cpu, abs=2e-3)


def test_latent_attention_runs_too(train: Train) -> None:
    record = train("attention=latent", "kv_heads=null", "latent_dim=64", "rope_dim=16").record
    assert record.status == "finished", record.error
    assert record.summary["cache/bytes"] == (64 + 16) * 4 * 64 * 2


@pytest.mark.parametrize("kernel", ["auto", "fused", "flash", "math", "folded", "repeat"])
def test_every_kernel_gives_the_same_attention(kernel: str) -> None:
    from src.geometry import Geometry
    from src.model.kernels import attend

    geometry = Geometry.of(compose(["heads=8", "kv_heads=2"]))
    check_kernel(kernel, "cuda", torch.bfloat16, geometry)
    generator = torch.Generator("cuda").manual_seed(0)
    q = torch.randn(2, 8, 64, 16, device="cuda", dtype=torch.bfloat16, generator=generator)
    k, v = (torch.randn(2, 2, 64, 16, device="cuda", dtype=torch.bfloat16, generator=generator) for _ in range(2))
    expected = attend(q.double().cpu(), k.double().cpu(), v.double().cpu(), scale=0.25, kernel="math")
    actual = attend(q, k, v, scale=0.25, kernel=kernel).double().cpu()
    torch.testing.assert_close(actual, expected, rtol=2e-2, atol=2e-2)


def test_a_device_that_is_not_there_is_refused(train: Train) -> None:
    with pytest.raises(ValueError, match="device=cuda:99"):
        train("device=cuda:99")
