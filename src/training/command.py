"""What stands between a checked configuration and a person: plan, run, and what they see at the end."""

from __future__ import annotations

from pathlib import Path

from src.config import Config
from src.training.run import Result, plan_run, run
from src.training.sinks import open_sinks, show_finished
from src.training.stop import StopFlag


def execute(config: Config, launch_dir: Path, stop: StopFlag) -> Result:
    """Runs what is missing of this configuration. Raises UserError for what cannot be run as asked."""
    result = run(plan_run(config, launch_dir), launch_dir, open_sinks, stop)
    if result.was_done:
        show_finished(result.record, result.folder)
    return result
