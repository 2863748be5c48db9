"""One job as an island: however it ends, it ends as an outcome, and its record says the same."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from src.config import Config
from src.errors import RunError, RunHeld
from src.geometry import Geometry
from src.record import Record, Status, now
from src.sweeps.guard import guard
from src.sweeps.states import State
from src.training.environment import code_identity, environment
from src.training.events import Sink
from src.training.folder import claim
from src.training.plan import LoadData, Plan, plan_run
from src.training.stop import StopFlag

OpenSinks = Callable[[Config, Path, int], Sequence[Sink]]


class WorkerKilled(RuntimeError):
    """The process of a job went away without a word."""


@dataclass(frozen=True)
class Outcome:
    """How one attempt at a job ended; `running`: another process holds the run. Plain values: nothing else of the
    job outlives it."""

    state: State
    error: str | None = None
    seconds: float = 0.0


def run_job(
    config: Config, launch_dir: Path, stop: StopFlag, load: LoadData, open_sinks: OpenSinks | None = None
) -> Outcome:
    """Runs what is missing of one job. Raises nothing."""
    since = time.monotonic()
    with guard(stop):
        outcome = _run(config, launch_dir, stop, load, open_sinks)
    return Outcome(outcome.state, outcome.error, time.monotonic() - since)


def _run(config: Config, launch_dir: Path, stop: StopFlag, load: LoadData, open_sinks: OpenSinks | None) -> Outcome:
    plan: Plan | None = None
    try:
        plan = plan_run(config, launch_dir, load)
        from src.training.run import run

        if open_sinks is None:
            from src.training.sinks import open_sinks
        record = run(plan, open_sinks, stop).record
        return Outcome(
            record.status, in_one_line(record.error["type"], record.error["message"]) if record.error else None
        )
    except RunHeld as error:
        return Outcome("running", str(error))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            stop.signal_number = signal.SIGINT
        from src.training.run import status_of

        status = status_of(error)
        if plan is not None:
            record_ending(plan.folder, config, plan.geometry, status, error)
        return Outcome(status, in_one_line(type(error).__name__, str(error)))


def record_ending(folder: Path, config: Config, geometry: Geometry, status: Status, error: BaseException) -> None:
    """Writes the ending of a run that could not write it itself.

    Leaves alone a run that another process holds or that is finished, and a folder that cannot be written.
    """
    try:
        held = claim(folder.parent, folder.name, "auto")
    except RunError:
        return
    try:
        record = held.previous or _first_record(folder, config, geometry)
        if record.status != "finished":
            _with_open_segment(record).ended(status, record.summary, error).write(folder)
    except OSError:
        pass  # a full or read-only disk; the sweep's table still says it
    finally:
        held.release()


def _with_open_segment(record: Record) -> Record:
    """The record with a segment for this attempt, where its last one has ended."""
    last = record.segments[-1] if record.segments else {"segment": 0, "from_step": 0, "status": "not_run"}
    if "status" not in last:
        return record
    attempt = {"segment": last["segment"] + 1, "from_step": last["from_step"], "started_at": now()}
    return replace(record, segments=[*record.segments, {**attempt, "host": environment()["host"]}])


def in_one_line(kind: str, message: str) -> str:
    first = message.strip().splitlines()
    return f"{kind}: {first[0]}" if first else kind


def _first_record(folder: Path, config: Config, geometry: Geometry) -> Record:
    began = now()
    return Record(
        run_id=folder.name,
        status="running",
        config=config.model_dump(),
        config_hash=folder.name.rpartition("-")[2],
        code=code_identity(),
        data={},
        environment=environment(),
        geometry=geometry.as_dict(),
        costs={},
        started_at=began,
        segments=[{"segment": 1, "from_step": 0, "started_at": began, "host": environment()["host"]}],
    )
