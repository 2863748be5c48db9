"""The README is run: each of its commands does on a tiny setting what the README says."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
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
BENCH_TINY = ["model.d_model=32", "model.layers=1", "context_length=32", "training.threads=1", "--rounds", "1"]


def command(module: str) -> list[str]:
    """The words of the one command of the README that runs this module."""
    (found,) = [words for words in COMMANDS if f" {module} " in f"{words} "]
    return ["-m", *shlex.split(found.partition(" -m ")[2])]


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


def test_the_audit_shows_what_the_asked_regime_holds_equal_and_why_heads_are_refused(tmp_path: Path) -> None:
    done = run([*command("src.audit"), "model.d_model=48"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("regime=equal_params holds parameters")
    rows = [line.split() for line in done.stdout.splitlines() if re.match(r" +\d+ +\d+ ", line)]
    refused = re.findall(r"^refused: heads=(\d+) ", done.stdout, re.MULTILINE)
    assert [int(row[0]) for row in rows] + [int(heads) for heads in refused] == list(range(1, 17))
    assert len({row[5] for row in rows}) == 1, "the parameters, which the regime holds"


def test_the_bench_measures_each_kv_count_beside_naive_repeat(tmp_path: Path) -> None:
    done = run([*command("src.bench"), *BENCH_TINY, "--json", "rows.json"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "decode and prefill, median of 1 rounds" in done.stdout
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    found = {(row["heads"], row["kv_heads"], row["way"]) for row in rows}
    assert found == {(8, 1, "ours"), (8, 1, "naive repeat"), (8, 2, "ours"), (8, 2, "naive repeat"), (8, 8, "ours")}
    ours = {row["kv_heads"]: row["cache_bytes"] for row in rows if row["way"] == "ours"}
    assert ours[8] == 4 * ours[2] == 8 * ours[1]
    assert all(row["decode_ms_per_token"] > 0 and row["prefill_tokens_per_second"] > 0 for row in rows)


def test_the_configurator_answers_first(tmp_path: Path) -> None:
    done = run(command("src.recommend"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split(":")[0] in ("MHA", "GQA", "MQA", "MLA")
    assert not any(tmp_path.iterdir())


def test_the_heads_of_a_model_are_drawn_as_a_picture(tmp_path: Path) -> None:
    done = run(command("src.heads show"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("heads.png: 4 heads in each of 4 layers, 19 x 19 weights a head")
    assert (tmp_path / "heads.png").read_bytes().startswith(b"\x89PNG")


def test_a_layer_is_opened_up_and_the_example_written_out(tmp_path: Path) -> None:
    written = run(command("src.heads example"), tmp_path)
    assert written.returncode == 0, written.stderr
    assert "0.157653 -0.102184 -0.695975 | -0.020971  0.205886 -0.790847" in written.stdout
    opened = run(command("src.heads inside"), tmp_path)
    assert opened.returncode == 0, opened.stderr
    assert re.search(r"^scores +\(128, 5, 32, 32\)", opened.stdout, re.MULTILINE)


def test_a_sweep_is_planned_run_shown_exported_and_judged(tmp_path: Path) -> None:
    def said(words: list[str]) -> str:
        done = run(words, tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    planned, *_ = [c for c in COMMANDS if "sweep.dry_run" in c]
    assert "30 jobs: 5 arms (heads) x 6 seeds" in said(["-m", "src.train", *overrides_of(planned)])
    assert not list(tmp_path.glob("runs/*/*/"))
    swept, *_ = [c for c in COMMANDS if "sweeps=smoke" in c]
    tiny = ["training.max_steps=3", "logger.mode=disabled", "training.threads=1", "sample.tokens=0"]
    assert "4 jobs: 4 finished" in said(["-m", "src.train", *overrides_of(swept), *tiny])
    status = said(command("src.sweep status"))
    assert "4 of 4 finished (100%)" in status
    assert "lowest val loss" in status
    assert "4 finished of 4 planned, 4 exported" in said(command("src.export"))
    out = tmp_path / "exports" / "smoke"
    runs, steps = (pd.read_parquet(out / f"{name}.parquet") for name in ("runs", "steps"))
    assert (len(runs), set(runs["status"]), set(steps["run_id"])) == (4, {"finished"}, set(runs["run_id"]))
    account = json.loads((out / "manifest.json").read_text())
    assert {run["run_id"] for run in account["planned"]} == set(runs["run_id"])
    assert "Not settled" in said(command("analysis.report"))  # two seeds
    page = (out / "report.html").read_text()
    assert page.count("<svg") >= 2
    assert "Not settled" in page
    wrong_methods = said(command("analysis.pitfalls"))
    assert wrong_methods.count("   mistake ") == wrong_methods.count("   wrong ") == 10


def test_help_shows_groups_settings_and_three_examples(tmp_path: Path) -> None:
    done = run(["-m", "src.train", "--help"], tmp_path)
    assert done.returncode == 0, done.stderr
    shown = done.stdout
    assert shown.count("python -m src.train ") >= 3
    assert "model: gpt2, gpt2_medium, llama_nano, mini, nano, numpy_tutorial, small" in shown
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
