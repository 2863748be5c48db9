"""The command as users type it, and runs to look at: tiny ones, trained once for all tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from src.heads.__main__ import app
from tests.in_process import command

Command = Callable[..., Any]


@pytest.fixture
def heads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """heads("inside", "--heads", 4): the command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "80"})


TINY = (
    *("heads=4", "context_length=16", "model.d_model=24", "model.layers=2", "training.max_steps=6"),
    *("training.batch_size=4", "training.warmup_steps=2", "training.eval_interval=6", "training.threads=1"),
    *("training.eval_batch_size=64", "sample.tokens=4", "measurement.repeats=1", "logger.mode=disabled"),
)
TEXT = "".join(f"line {n}: the heads attend, and {n * 7919 % 1000} is a number.\n" for n in range(60))
RUNS = {
    "mha": ("data=text_file", "data.path=text.txt"),
    "gqa": ("data=text_file", "data.path=text.txt", "kv_heads=2", "model.positions=rotary", "head_dim=6"),
    "mla": ("data=text_file", "data.path=text.txt", "attention=latent", "latent_dim=12"),
    "task": ("data=copy", "data.test_examples=40"),
    "vectors": ("experiment=farthest_point", "heads=2", "model.d_model=16", "model.layers=1", "context_length=8",
                "training.eval_batch_size=500", "data.test_examples=100"),
}  # fmt: skip


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of a finished tiny run of every kind, trained in a folder that holds its text."""
    here = tmp_path_factory.mktemp("heads")
    (here / "text.txt").write_text(TEXT, encoding="utf-8")
    folders: dict[str, Path] = {}
    for name, words in RUNS.items():
        done = command("src.train", *TINY, *words, here=here)
        assert done.returncode == 0, done.stderr
        (folders[name],) = set((here / "runs" / "single").glob("*/")) - set(folders.values())
    return folders
