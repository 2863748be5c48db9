"""One isolated job: however it ends, it ends as an outcome, its record says the same, and nothing of it is left in
the process that it shares with others.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from src.config import Config
from src.errors import RunError, RunHeld, one_line
from src.geometry import Geometry
from src.record import Record, Status
from src.run_status import RunStatus, State
from src.sweeps.plan import keep_data
from src.training.environment import (
    JOB_ID_VARIABLE,
    LAUNCHER_VARIABLE,
    SUBMITTED_CODE_VARIABLE,
    code_identity,
    environment,
)
from src.training.events import Sink
from src.training.folder import claim, new_record
from src.training.plan import LoadData, RunPlan, plan_run
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

    @classmethod
    def of(cls, status: RunStatus) -> Outcome:
        return cls(status.state, status.error)


def run_job(config: Config, launch_dir: Path, stop: StopFlag, load: LoadData, open_sinks: OpenSinks) -> Outcome:
    """Runs what is missing of one job. Raises nothing."""
    since = time.monotonic()
    with isolated(stop):
        outcome = _run(config, launch_dir, stop, load, open_sinks)
    return replace(outcome, seconds=time.monotonic() - since)


def _run(config: Config, launch_dir: Path, stop: StopFlag, load: LoadData, open_sinks: OpenSinks) -> Outcome:
    plan: RunPlan | None = None
    try:
        plan = plan_run(config, launch_dir, load)
        from src.training.run import run  # torch: not before a job is sure to be possible

        record = run(plan, open_sinks, stop).record
        return Outcome(record.status, record.error_line)
    except RunHeld as error:
        return Outcome("running", str(error))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            stop.signal_number = signal.SIGINT
        from src.training.run import status_of

        status = status_of(error)
        if plan is not None:
            record_ending(plan.folder, config, plan.geometry, status, error)
        return Outcome(status, one_line(type(error).__name__, str(error)))


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


def _first_record(folder: Path, config: Config, geometry: Geometry) -> Record:
    record = new_record(
        folder.name, folder.name.rpartition("-")[2], config.model_dump(), geometry=geometry.as_dict()
    )  # fmt: skip
    return record.begun(0, record.environment["host"])


def _with_open_segment(record: Record) -> Record:
    """The record with a segment for this attempt, where its last one has ended."""
    last = record.segments[-1] if record.segments else {"from_step": 0, "status": "not_run"}
    return record.begun(last["from_step"], environment()["host"]) if "status" in last else record


@dataclass(frozen=True)
class Task:
    """A job to send to another machine: its settings, where its relative paths start, and the code it was sent with."""

    config: Mapping[str, Any]
    launch_dir: str
    code: Mapping[str, Any]
    origins: Mapping[str, str]

    @classmethod
    def of(cls, config: Config, launch_dir: Path) -> Task:
        return cls(config.model_dump(), str(launch_dir), code_identity(), config.origins)

    def run(self, open_sinks: OpenSinks, launcher: str | None = None, job_id: str | None = None) -> Outcome:
        """Runs the job in this process. The record names `launcher` and `job_id`; None: what the cluster says."""
        variables = {
            LAUNCHER_VARIABLE: launcher,
            JOB_ID_VARIABLE: job_id,
            SUBMITTED_CODE_VARIABLE: json.dumps(self.code),
        }
        os.environ.update({name: value for name, value in variables.items() if value is not None})
        with StopFlag() as stop:
            config = Config.of(self.config).came_from(self.origins)
            return run_job(config, Path(self.launch_dir), stop, keep_data(), open_sinks)


@contextmanager
def isolated(stop: StopFlag) -> Iterator[None]:
    """Puts back what a job may touch in the process that it shares with others.

    That is environment, working folder, signal handlers, log handlers, global random states and torch's modes.

    Memory that the job left in reference cycles, as a traceback does, is freed too. Signal handlers stay as they are
    once `stop` was raised: it has then put back those from before the sweep.
    """
    environment, folder = dict(os.environ), os.getcwd()
    handlers = _signal_handlers()
    logs = {logger: (logger.level, list(logger.handlers)) for logger in (logging.root, logging.getLogger("headcount"))}
    states = _RandomStates()
    modes = _torch_modes()
    try:
        yield
    finally:
        _restore_environment(environment)
        with suppress(OSError):
            os.chdir(folder)
        if stop.signal_number is None:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        for logger, (level, kept) in logs.items():
            _close_handlers(logger, kept)
            logger.setLevel(level)
        states.restore()
        _set_torch_modes(modes)
        _free_memory()


def _restore_environment(before: dict[str, str]) -> None:
    for name in set(os.environ) - set(before):
        del os.environ[name]
    os.environ.update(before)


def _signal_handlers() -> dict[int, Any]:
    if threading.current_thread() is not threading.main_thread():
        return {}
    names = {"SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGHUP"} & set(signal.Signals.__members__)
    found = {signal.Signals[name]: signal.getsignal(signal.Signals[name]) for name in names}
    return {number: handler for number, handler in found.items() if handler is not None}


def _close_handlers(logger: logging.Logger, kept: list[logging.Handler]) -> None:
    for handler in list(logger.handlers):
        if handler not in kept:
            logger.removeHandler(handler)
            handler.close()


class _RandomStates:
    """The global generators that somebody else's code may draw from; our own streams are all named."""

    def __init__(self) -> None:
        self._python = random.getstate()
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        self._numpy = numpy.random.get_state() if numpy else None
        self._torch = torch.get_rng_state() if torch else None

    def restore(self) -> None:
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)
        if self._torch is not None:
            sys.modules["torch"].set_rng_state(self._torch)


def _torch_modes() -> tuple[Any, ...] | None:
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    return torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled()


def _set_torch_modes(modes: tuple[Any, ...] | None) -> None:
    if modes is None:
        return
    torch = sys.modules["torch"]
    threads, dtype, gradient = modes
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
    torch.set_default_dtype(dtype)
    torch.set_grad_enabled(gradient)


def _free_memory() -> None:
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
