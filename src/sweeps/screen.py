"""What a sweep's jobs show of themselves: a bar on a terminal while they run, and nothing once they are over."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from src.config import Config
from src.training.events import Ended, Event, Sampled, Sink

logger = logging.getLogger("headcount")


def open_job_sinks(config: Config, folder: Path, segment: int, console: Console | None = None) -> Sequence[Sink]:
    """The sinks of one job of a sweep: the truth, a bar where `console` can redraw one, and the mirror.

    What the mirror has to say goes to the run's log; the sweep's own lines tell how jobs ended.
    """
    from src.training.sinks.console import ConsoleSink, can_redraw
    from src.training.sinks.jsonl import JsonlSink

    sinks: list[Sink] = [JsonlSink(folder, segment)]
    if console is not None and can_redraw(console):
        sinks.append(WhileItRuns(ConsoleSink(console)))
    if config.logger.mode != "disabled":
        from src.training.sinks.wandb_sink import WandbSink

        sinks.append(WandbSink(config.logger, folder, say=logger.info))
    return sinks


class WhileItRuns:
    """A sink that is not told how a run ends, and so leaves no summary behind."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, event: Event) -> None:
        if not isinstance(event, Ended | Sampled):
            self._sink.write(event)

    def close(self) -> None:
        self._sink.close()
