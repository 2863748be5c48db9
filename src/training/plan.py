"""What a run is, before anything is made: enough to name it, to find it and to refuse it. No torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from src.config import Config, DataConfig
from src.data.corpora import Corpus
from src.data.load import load_data
from src.data.tasks.data import TaskData
from src.ends import check_ends
from src.geometry import Geometry
from src.record import RECORD, Record
from src.training.folder import run_id
from src.training.tuned_rate import with_tuned_rate

LoadData = Callable[[DataConfig, Path], Corpus | TaskData]


@dataclass(frozen=True)
class Plan:
    """A configuration with its integers, its data, its name and the folder of its group."""

    config: Config
    geometry: Geometry
    data: Corpus | TaskData
    run_id: str
    parent: Path

    @property
    def folder(self) -> Path:
        return self.parent / self.run_id

    def finished_record(self) -> Record | None:
        """The record of this run where it is finished and may count as done; null otherwise."""
        if self.config.resume == "never" or not (self.folder / RECORD).exists():
            return None
        record = Record.read(self.folder)
        return record if record.status == "finished" else None


@dataclass(frozen=True)
class Result:
    """How a run stands when its command ends. `was_done` says that it had been finished before."""

    record: Record
    folder: Path
    was_done: bool = False
    error: BaseException | None = None


def plan_run(config: Config, launch_dir: Path, load: LoadData = load_data) -> Plan:
    """The plan of one run; relative paths start at `launch_dir`, and `load` may keep what it loaded before.

    Raises UserError for settings, texts and lengths that do not fit together.
    """
    config = with_tuned_rate(config, launch_dir)
    geometry = Geometry.of(config)
    data = load(config.data, launch_dir)
    check_ends(geometry, data.ends, data.name)
    data.check_length(config.context_length)
    parent = launch_dir / config.runs_dir / config.group
    return Plan(config, geometry, data, run_id(config, geometry, data.hash), parent)
