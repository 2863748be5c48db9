"""What a job may touch in the process that it shares with others is put back after it."""

from __future__ import annotations

import gc
import logging
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from src.config import Config
from src.errors import RunError, RunHeld, in_one_line
from src.geometry import Geometry
from src.record import Record, Status, now
from src.sweeps.states import State
from src.training.environment import code_identity, environment
from src.training.events import Sink
from src.training.folder import claim
from src.training.plan import LoadData, RunPlan, plan_run
from src.training.stop import StopFlag


@contextmanager
def guard(stop: StopFlag) -> Iterator[None]:
    """Restores environment, working folder, signal handlers, log handlers, global random states and torch's modes.

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


# One job as an island: however it ends, it ends as an outcome, and its record says the same.
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
    plan: RunPlan | None = None
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
