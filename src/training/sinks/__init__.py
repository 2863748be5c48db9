"""Who listens to a run: metrics.jsonl, from which all else is read, the console, and the mirror in W&B."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from src.config import Config
from src.training.events import Sink

if TYPE_CHECKING:
    from rich.console import Console


def open_sinks(config: Config, folder: Path, segment: int, console: Console | None = None) -> list[Sink]:
    """The sinks of one run, metrics.jsonl first. `console`: where people read (default: standard output).

    Raises RunError where metrics.jsonl of an earlier segment ends in half a row (`keep_rows_until` mends it).
    """
    from src.training.sinks.console import ConsoleSink
    from src.training.sinks.jsonl import JsonlSink

    rows, screen = JsonlSink(folder, segment), ConsoleSink(console)
    if config.logger.mode == "disabled":
        return [rows, screen]
    from src.training.sinks.wandb_sink import WandbSink

    return [rows, screen, WandbSink(config.logger, folder, say=screen.say)]
