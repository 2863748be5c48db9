"""What stands between a checked configuration and a person: plan, run, and what they see at the end."""

from __future__ import annotations

from pathlib import Path

from src.config import Config
from src.record import Record
from src.training.plan import Result, plan_run
from src.training.stop import StopFlag


def execute(config: Config, launch_dir: Path, stop: StopFlag) -> Result:
    """Runs what is missing of this configuration. Raises UserError for what cannot be run as asked."""
    plan = plan_run(config, launch_dir)
    done = plan.finished_record()
    if done is not None:  # found before torch is imported
        _show_finished(done, plan.folder)
        return Result(done, plan.folder, was_done=True)
    from src.training.run import run
    from src.training.sinks import open_sinks

    return run(plan, open_sinks, stop)


def _show_finished(record: Record, folder: Path) -> None:
    from rich.console import Console

    from src.training.sinks.summary import print_ending

    console = Console()
    console.print("This run is finished; nothing is left to do. resume=never runs it again in a folder of its own.")
    print_ending(console, record, folder)
