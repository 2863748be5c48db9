"""How a sweep goes on: launchers report here how each job ended, and learn whether any further one may start."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from src.config import Config
from src.metrics import duration_shown, shown
from src.run_status import FAILED
from src.sweeps.display import state_text
from src.sweeps.job import Outcome
from src.sweeps.plan import Job, SweepPlan, keep_data
from src.training.events import Ended, Event, Sampled, Sink
from src.training.plan import LoadData
from src.training.stop import StopFlag

logger = logging.getLogger("headcount")
POLL_S = 1.0


class Progress:
    """The state of a sweep while its command lives. What is true of a run stands in its folder."""

    def __init__(self, plan: SweepPlan, console: Console, stop: StopFlag, load: LoadData | None = None) -> None:
        self.console, self.stop, self.load = console, stop, load or keep_data()
        self.launch_dir: Path = plan.launch_dir
        self.outcomes: dict[str, Outcome] = {}
        self.launches: dict[str, int] = {}
        self._plan = plan
        self._fail_fast = plan.config.sweep.fail_fast

    @property
    def is_stopping(self) -> bool:
        """Whether no further job may start: a signal came, or a job failed and sweep.fail_fast is on."""
        failed = any(outcome.state in FAILED for outcome in self.outcomes.values())
        return self.stop.signal_number is not None or (self._fail_fast and failed)

    def begins(self, job: Job) -> None:
        self.launches[job.run_id] = self.launches.get(job.run_id, 0) + 1
        self.say(f"{self._place(job)} {job.label}")

    def ends(self, job: Job, outcome: Outcome) -> None:
        self.outcomes[job.run_id] = outcome
        parts = [f"{self._place(job)} {job.label}  ", state_text(outcome.state)]
        loss = job.status().loss if outcome.state == "finished" else None
        if loss is not None:
            parts.append(f"  val loss {shown('val/loss', loss)}")
        if outcome.seconds:
            parts.append(f"  {duration_shown(outcome.seconds)}")
        if outcome.error and outcome.state != "interrupted":
            parts.append(f"  {outcome.error}")
        self.say(Text.assemble(*parts))

    def has_ended(self, job: Job) -> bool:
        """Whether this command has seen the job end. One that another process holds has not ended."""
        outcome = self.outcomes.get(job.run_id)
        return outcome is not None and outcome.state != "running"

    def say(self, line: str | Text) -> None:
        try:
            self.console.print(line if isinstance(line, Text) else Text(line), soft_wrap=True)
        except (OSError, SystemExit):  # rich leaves a closed pipe by SystemExit
            self.console.quiet = True

    def _place(self, job: Job) -> str:
        total = str(max(job.number for job in self._plan.jobs))
        return f"[{job.number:>{len(total)}}/{total}]"


RunJobs = Callable[[Sequence[Job], Progress], None]
"""Runs jobs and reports each to the sweep's progress; returns when none is running any more."""


def run_missing(jobs: Sequence[Job], run_jobs: RunJobs, progress: Progress) -> None:
    """Runs the jobs that are not finished, and waits for those that other processes run."""
    said = False
    while not progress.is_stopping:
        open_jobs = [job for job in jobs if not progress.has_ended(job)]
        missing = [job for job in open_jobs if job.is_missing and _may_launch(job, progress)]
        if missing:
            run_jobs(missing, progress)
            continue
        held = [job for job in open_jobs if job.status().state == "running"]
        if not held:
            return
        if not said:
            progress.say(f"waiting for {len(held)} of the jobs, which other processes run: {held[0].label}, ...")
            said = True
        time.sleep(POLL_S)


def _may_launch(job: Job, progress: Progress) -> bool:
    return progress.launches.get(job.run_id, 0) < job.config.sweep.max_attempts


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
