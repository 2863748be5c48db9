"""One golden run: twenty steps on a CPU. When a number moves here, a result of the project moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from src.compose import compose
from src.record import read_rows
from src.training.plan import plan_run
from src.training.run import run
from src.training.sinks.jsonl import JsonlSink
from src.training.stop import StopFlag

MAY_CHANGE = (
    "the golden run moved. That is right only in a commit that means to change numbers (model, data order, "
    "initialisation, schedule, optimiser); then put the new ones here and a line under Results in the CHANGELOG"
)
GOLDEN = {1: 4.41983, 10: 3.48280, 20: 3.16143}
GOLDEN_VAL = 3.17674


def test_the_golden_run(tmp_path: Path) -> None:
    overrides = ["training=smoke", "heads=8", "kv_heads=2", "device=cpu", "training.threads=1"]
    config = compose([*overrides, "logger=disabled", "sample.tokens=0", f"runs_dir={tmp_path}"])
    result = run(plan_run(config, tmp_path), lambda c, folder, segment: [JsonlSink(folder, segment)], StopFlag())
    assert result.record.status == "finished", result.record.error
    losses = {row["step"]: row["train/loss"] for row in read_rows(result.folder)}
    assert {step: losses[step] for step in GOLDEN} == pytest.approx(GOLDEN, abs=2e-5), MAY_CHANGE
    assert result.record.summary["val/loss"] == pytest.approx(GOLDEN_VAL, abs=2e-5), MAY_CHANGE
    assert result.record.summary["cache/bytes"] == 2 * 2 * 16 * 4 * 64 * 4, MAY_CHANGE
    assert result.record.costs["parameters"] == 707_712, MAY_CHANGE
    assert list(next(iter(read_rows(result.folder)))) == [
        *("step", "segment", "time", "train/loss", "train/learning_rate", "train/grad_norm"),
        *("train/tokens", "train/tokens_per_second"),
    ], MAY_CHANGE
