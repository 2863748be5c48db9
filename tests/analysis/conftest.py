"""Tables of runs as the export writes them, made small; shapes of the analysis are checked at run time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
import pytest
from jaxtyping import install_import_hook

# Must come before anything imports these modules.
install_import_hook(
    ["analysis.stats", "analysis.checks.frontier"],
    "beartype.beartype",
)

MakeRuns = Callable[..., pd.DataFrame]


@pytest.fixture(scope="session")
def make_runs() -> MakeRuns:
    """make_runs({1: [1.9, 1.8], 2: [1.7, 1.6]}): the losses of seeds 0, 1, ... of each head count."""

    def make(losses: Mapping[int, list[float]], **columns: object) -> pd.DataFrame:
        rows = [
            {
                "run_id": f"heads{heads}-seed{seed}",
                "status": "finished",
                "seed": seed,
                "heads": heads,
                "kv_heads": heads,
                "head_dim": 128 // heads,
                "context_length": 64,
                "regime": "fixed_width",
                "attention": "grouped",
                "data_hash": "5f0a",
                "config.kv_heads": None,
                "config.head_dim": None,
                "config.model.name": "nano",
                "config.model.d_model": 128,
                "config.model.layers": 4,
                "config.data.name": "shakespeare",
                "config.training.max_steps": 2000,
                "config.training.learning_rate": 0.001,
                "val/loss": loss,
                "train/tokens": 1_536_000,
                "cost/parameters": 804_096,
                "cost/flops_per_token": 5_000_000,
                "cache/bytes": 262_144,
                "decode/ms_per_token": 1.0 + heads / 10,
            }
            | columns
            for heads, values in losses.items()
            for seed, loss in enumerate(values)
        ]
        return pd.DataFrame(rows)

    return make


@pytest.fixture(scope="session")
def noisy() -> Callable[..., dict[int, list[float]]]:
    """noisy({1: 1.9, 2: 1.8}, seeds=6, sd=0.003): losses around these means, the same at every call."""

    def make(means: Mapping[int, float], seeds: int = 6, sd: float = 0.003, seed: int = 0) -> dict[int, list[float]]:
        rng = np.random.default_rng(seed)
        return {heads: list(mean + sd * rng.normal(size=seeds)) for heads, mean in means.items()}

    return make


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
