"""A run's folder: named by what the run is, held by one process at a time; and the record it starts with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from src.config import Config
from src.errors import RunError, RunHeld
from src.geometry import Geometry
from src.record import LOCK, RECORD, Record, now, remove_stale_temporaries
from src.training.environment import code_identity, environment


def run_id(config: Config, geometry: Geometry, hash_of_all: str) -> str:
    """A name of letters, digits and dashes that says what the run is, ended by the hash of its settings and corpus."""
    parts = [config.model.name, config.data.name, f"h{geometry.heads}"]
    label = geometry.kind.run_label(geometry)
    parts += [label] if label else []
    parts += [f"c{geometry.context_length}", f"s{config.seed}"]
    readable = re.sub(r"[^A-Za-z0-9]+", "_", "-".join(parts).replace("-", "\0")).replace("_", "-")
    return f"{readable[:120]}-{hash_of_all}"


def new_record(name: str, config_hash: str, config: Mapping[str, Any], **known: Any) -> Record:
    """The record of a run that starts here, now and with this code. `known`: what else is known of it by now."""
    here: dict[str, Any] = {"started_at": now(), "code": code_identity(), "environment": environment()}
    values = {"data": {}, "geometry": {}, "costs": {}, **here, **known}
    return Record(run_id=name, status="running", config=dict(config), config_hash=config_hash, **values)


@dataclass
class RunFolder:
    """A folder that this process holds. `previous` is the record that was found in it, if any."""

    path: Path
    previous: Record | None
    _lock: FileLock

    @property
    def run_id(self) -> str:
        return self.path.name

    def release(self) -> None:
        self._lock.release()


def claim(parent: Path, name: str, resume: str) -> RunFolder:
    """Makes or finds the folder of a run and holds it until released or until this process ends, however it ends.

    resume=auto takes the folder of that name, to go on or to find it finished; resume=never makes a new one
    (name, name-2, name-3, ...). Raises RunHeld where another process holds it, RunError where it cannot be made.
    """
    try:
        parent.mkdir(parents=True, exist_ok=True)
        path = _new_folder(parent, name) if resume == "never" else parent / name
        path.mkdir(exist_ok=True)
        lock = _hold(path)
    except OSError as error:
        raise RunError(f"the run's folder {parent / name} cannot be used: {error}; choose another runs_dir") from None
    remove_stale_temporaries(path)
    previous = Record.read(path) if (path / RECORD).exists() else None
    return RunFolder(path, previous, lock)


def _new_folder(parent: Path, name: str) -> Path:
    number = 1
    while True:
        path = parent / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
        else:
            return path


def _hold(path: Path) -> FileLock:
    lock = FileLock(path / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise RunHeld(
            f"{path} is being run by {_holder(path)}; wait for it, or give resume=never for a folder of its own"
        ) from None
    return lock


def _holder(path: Path) -> str:
    try:
        environment = Record.read(path).environment
    except RunError:  # the other process has not written its record yet
        return "another process"
    return f"process {environment.get('pid')} on {environment.get('host')}"
