"""A run's record, made by hand: what sinks show and mirror, without training anything."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from src.config import Config
from src.costs import Costs
from src.geometry import Geometry
from src.record import Record
from src.settings import compose

MakeRun = Callable[..., tuple[Record, Path]]


@pytest.fixture(scope="session")
def config() -> Config:
    return compose(["heads=8", "kv_heads=2", "training=smoke", "logger.notes=a note", "logger.tags=[first]"])


@pytest.fixture
def make_run(config: Config, tmp_path: Path) -> MakeRun:
    """Makes runs/single/<run_id>/record.json; keywords replace fields of the record."""

    def make(run_id: str = "nano-h8-kv2-s0-0123456789ab", **changes: Any) -> tuple[Record, Path]:
        folder = tmp_path / "runs" / config.group / run_id
        folder.mkdir(parents=True)
        geometry = Geometry.of(config)
        record = Record(
            run_id=run_id,
            status="running",
            config=config.model_dump(),
            config_hash="0123456789ab",
            code={"commit": "c0ffee"},
            data={"name": "shakespeare", "sha256": "ab"},
            environment={"device": "cpu", "dtype": "float32"},
            geometry=geometry.as_dict(),
            costs=Costs.of(geometry, vocabulary_size=80, dtype="float32").as_dict(),
            started_at="2026-01-01T00:00:00.000+00:00",
        )
        record = replace(record, **changes)
        record.write(folder)
        return record, folder

    return make


@pytest.fixture
def summary() -> dict[str, float | int | None]:
    return {
        "val/loss": 1.88123,
        "val/perplexity": 6.5615,
        "val/bits_per_token": 2.71406,
        "val/loss_best": 1.8712,
        "val/loss_best_step": 1500,
        "train/tokens_per_second": 18300.4,
        "decode/prefill_tokens_per_second": 51234.5,
        "decode/ms_per_token": 3.14159,
        "decode/tokens_per_second": 318.3,
        "cache/bytes": 65536,
        "cost/parameters": 1234567,
        "memory/peak_bytes": None,
    }
