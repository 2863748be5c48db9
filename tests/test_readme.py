"""The README is run: each of its commands does on a tiny setting what the README says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from src import ROOT
from src.record import Record
from tests.in_process import command as in_this_process

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
COMMANDS = [line.partition("  #")[0].strip() for block in BLOCKS for line in block.splitlines() if line.strip()]
TINY = [
    *("model.d_model=48", "model.layers=1", "training.max_steps=3", "training.epochs=null", "context_length=16"),
    *("training.eval_batch_size=2048", "training.threads=1", "sample.tokens=4", "logger.mode=disabled"),
]  # fmt: skip


def run(arguments: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    _, module, *words = arguments
    return in_this_process(module, *words, here=cwd)


def run_alone(arguments: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own, as a user starts it."""
    environment = {**os.environ, "CI": "true", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=300
    )


def overrides_of(command: str) -> list[str]:
    words = shlex.split(command.partition("src.train")[2])
    return [word for word in words if word != "--help"]


TRAINING = [c for c in COMMANDS if "src.train" in c and "--help" not in c and "sweep" not in c]
OTHERS = {
    "src.audit": ["model.d_model=48"],
    "src.bench": ["model.d_model=32", "model.layers=1", "context_length=32", "training.threads=1", "--rounds", "1"],
    "src.heads": [],
}
"""Commands that train nothing, and what makes them tiny."""


def test_the_readme_starts_with_the_two_commands() -> None:
    assert COMMANDS[0] == "pip install -q uv && uv run python -m src.train heads=8"
    assert COMMANDS[1] == "uv run pytest"
    assert len(TRAINING) >= 5


@pytest.mark.parametrize("command", TRAINING)
def test_a_training_command_trains_what_it_says(command: str, tmp_path: Path) -> None:
    overrides = overrides_of(command)
    if "experiment=numpy_tutorial" in overrides and not (ROOT / "data" / "tinyshakespeare.txt").exists():
        overrides.append("data=shakespeare")
    reads_vectors = "experiment=farthest_point" in overrides
    tiny = [word for word in TINY if not (reads_vectors and word.startswith("model.d_model"))]  # as wide as its data
    start = run_alone if command == COMMANDS[0] else run
    done = start(["-m", "src.train", *overrides, *tiny, "context_length=16"], tmp_path)
    assert done.returncode == 0, done.stderr
    folders = list((tmp_path / "runs" / "single").glob("*/"))
    records = [Record.read(folder) for folder in folders if (folder / "record.json").exists()]
    expected = 15 if "-m" in overrides else 1
    assert len(records) == expected
    assert {record.status for record in records} == {"finished"}
    if expected == 1:
        heads = next(int(word.partition("=")[2]) for word in overrides if word.startswith("heads="))
        assert records[0].geometry["heads"] == heads
        if reads_vectors:
            return
        sampled = start(["-m", "src.sample", str(folders[0]), "--prompt", "ROMEO:", "--tokens", "40"], tmp_path)
        assert sampled.returncode == 0, sampled.stderr
        assert sampled.stdout.startswith("ROMEO:")
        assert len(sampled.stdout) >= 46


@pytest.mark.parametrize("module", OTHERS)
def test_a_command_that_trains_nothing_runs_too(module: str, tmp_path: Path) -> None:
    (command,) = [c for c in COMMANDS if f" {module} " in c]
    done = run(["-m", *shlex.split(command.partition(" -m ")[2]), *OTHERS[module]], tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) > 20


def test_a_sweep_runs_and_its_status_is_shown(tmp_path: Path) -> None:
    planned, *_ = [c for c in COMMANDS if "sweep.dry_run" in c]
    plan = run(["-m", "src.train", *shlex.split(planned.partition("src.train")[2])], tmp_path)
    assert plan.returncode == 0, plan.stderr
    assert not list(tmp_path.glob("runs/*/*/"))
    swept, *_ = [c for c in COMMANDS if "sweeps=smoke" in c]
    tiny = ["training.max_steps=3", "logger.mode=disabled", "training.threads=1", "sample.tokens=0"]
    done = run(["-m", "src.train", *shlex.split(swept.partition("src.train")[2]), *tiny], tmp_path)
    assert done.returncode == 0, done.stderr
    shown, *_ = [c for c in COMMANDS if "src.sweep status" in c]
    status = run(["-m", *shlex.split(shown.partition(" -m ")[2])], tmp_path)
    assert status.returncode == 0, status.stderr
    assert "4" in status.stdout
    assert "finished" in status.stdout
    for module in ("src.export", "analysis.report", "analysis.pitfalls"):
        (command,) = [c for c in COMMANDS if f" {module} " in c]
        said = run(["-m", *shlex.split(command.partition(" -m ")[2])], tmp_path)
        assert "Traceback" not in said.stderr, said.stderr
        assert len(said.stdout) > 20, said.stderr
    assert (tmp_path / "exports" / "smoke" / "runs.parquet").exists()
    assert (tmp_path / "exports" / "smoke" / "report.html").exists()


def test_help_shows_groups_settings_and_three_examples(tmp_path: Path) -> None:
    shown = run(["-m", "src.train", "--help"], tmp_path).stdout
    assert shown.count("python -m src.train ") >= 3
    assert "model: gpt2, gpt2_medium, mini, nano, numpy_tutorial, small" in shown
    assert "learning_rate: 0.001" in shown


def test_the_error_that_the_readme_shows_is_the_error_that_is_shown(tmp_path: Path) -> None:
    done = run(["-m", "src.train", "head=8"], tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip() in README
    assert not any(tmp_path.iterdir())


def test_the_options_that_the_readme_lists_are_those_that_exist() -> None:
    from src.compose import groups

    listed = re.search(r"\| `model=` \| (.*) \|", README)
    assert listed is not None
    assert sorted(re.findall(r"`(\w+)`", listed[1])) == groups()["model"]
