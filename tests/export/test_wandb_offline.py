"""W&B's offline files, written by our mirror and read by W&B's own reader."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from src import ROOT
from src.errors import RunError
from src.export.read import read_group
from src.export.wandb_runs import Log, holds_only_wandb, read_files
from src.export.write import write_export
from tests.export.conftest import MakeRun, read
from tests.export.test_wandb_reader import NOT_MIRRORED

MIRROR = """
import sys
from pathlib import Path
from src.config import LoggerConfig
from src.record import Record
from src.training.sinks.wandb_mirror import WandbRun

for folder in map(Path, sys.argv[1:]):
    run = WandbRun.start(folder, Record.read(folder).config["logger"] | {"mode": "offline"})
    run.end()
"""


def test_offline_files_give_the_tables_of_the_records(make_run: MakeRun, group: Path, tmp_path: Path) -> None:
    rows = [{"step": s, "segment": 1, "time": float(s), "train/loss": v} for s, v in ((1, 2.5), (2, float("inf")))]
    rows.append({"step": 3, "segment": 1, "time": 3.0, "val/loss": 2.25, "val/tokens": 100})
    make_run("heads=8", "kv_heads=2", rows=rows, summary={"val/loss": 2.25, "val/tokens": 100, "cache/bytes": 512})
    make_run("heads=4", rows=rows[:2], status="failed", summary={"val/loss": float("nan"), "train/mfu": None})
    folders = [str(folder) for folder in sorted(group.iterdir())]
    subprocess.run([sys.executable, "-c", MIRROR, *folders], cwd=ROOT, check=True, timeout=120, capture_output=True)
    assert not holds_only_wandb(group)
    write_export(read_group(group), tmp_path / "local")
    files = read_files(group)
    write_export(files, tmp_path / "mirrored")
    assert files.left_out == []
    for name, but in (("runs", NOT_MIRRORED), ("steps", ["segment"])):
        local, mirrored = (read(tmp_path / place, name).drop(columns=but) for place in ("local", "mirrored"))
        pd.testing.assert_frame_equal(local, mirrored)


def test_a_broken_file_is_left_out_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "offline-run-1-x"
    folder.mkdir()
    (folder / "run-x.wandb").write_bytes(b"nothing that W&B wrote")
    assert holds_only_wandb(tmp_path)
    source = read_files(tmp_path)
    assert source.runs == []
    assert source.left_out[0].run_id == "run-x"
    with pytest.raises(RunError, match="holds no W&B run files"):
        read_files(tmp_path / "elsewhere")


def test_a_log_without_an_exit_is_of_a_run_that_was_cut_off() -> None:
    run = {"type": "run", "run": {"config": {"update": {"heads": 8}}, "start_time": "2026-01-01T00:00:00Z"}}
    row = {"type": "history", "history": {"item": {"train/loss": 1.0}, "step": {"num": 7}}}
    log = Log.of([run, row])
    assert (log.config, log.state, log.history[0]["_step"]) == ({"heads": 8}, "crashed", 7)
    assert Log.of([run, {"type": "exit", "exit": {"exit_code": 1}}]).state == "failed"
