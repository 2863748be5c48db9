"""The plan of a sweep: every job composed, checked, named and looked up before the first one runs. No torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from src.config import Config, DataConfig
from src.data.load import Data
from src.errors import ConfigError, UserError
from src.geometry import Geometry
from src.run_status import RunStatus, label_of
from src.sweep_file import PlannedPoint, skipped_id
from src.sweeps.grid import Point, Request
from src.training.plan import LoadData, load_data, plan_run


@dataclass(frozen=True)
class Job:
    """One run of a sweep. `overrides` are what sets it apart from the others, `fixed` what all have in common."""

    number: int
    values: dict[str, Any]
    overrides: tuple[str, ...]
    fixed: tuple[str, ...]
    config: Config
    geometry: Geometry
    epoch_tokens: float | None
    run_id: str
    folder: Path

    @property
    def label(self) -> str:
        """What sets the job apart; its name where it is the only one."""
        return label_of(self.values) or self.run_id

    @property
    def is_missing(self) -> bool:
        """Whether it has to be run, as its folder stands now."""
        return self.has_to_run(self.status())

    def has_to_run(self, status: RunStatus) -> bool:
        """Whether it has to be run where it stands so."""
        return status.is_missing(self.config.sweep.max_attempts, self.config.sweep.retry)

    def status(self) -> RunStatus:
        """How it stands now, as its folder says."""
        return RunStatus.of(self.folder, self.values)


@dataclass(frozen=True)
class Invalid:
    """A point that cannot be, and why."""

    values: dict[str, Any]
    overrides: tuple[str, ...]
    reason: str
    config: Config | None

    @property
    def label(self) -> str:
        return label_of(self.values)

    @property
    def run_id(self) -> str:
        """The name under which it is counted, as there is no run."""
        return skipped_id(self.overrides)


@dataclass(frozen=True)
class SweepPlan:
    """Everything that a sweep's command asks for. `merged` are points that name a run already named."""

    group: Path
    launch_dir: Path
    jobs: list[Job]
    invalid: list[Invalid] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)

    @property
    def config(self) -> Config:
        """Any one of the configurations, for what is the same in all."""
        return self.jobs[0].config

    @property
    def varying(self) -> list[str]:
        """The settings that take more than one value, in the order of the command, the seed apart."""
        seen: dict[str, set[str]] = {}
        for job in [*self.jobs, *self.invalid]:
            for name, value in job.values.items():
                seen.setdefault(name, set()).add(repr(value))
        return [name for name, values in seen.items() if len(values) > 1 and name != "seed"]

    @property
    def arms(self) -> list[dict[str, Any]]:
        """What is compared: the distinct settings apart from the seed."""
        arms = [{name: value for name, value in job.values.items() if name != "seed"} for job in self.jobs]
        return list({repr(arm): arm for arm in arms}.values())

    @property
    def seeds(self) -> list[int]:
        return sorted({job.config.seed for job in self.jobs})

    @property
    def planned_points(self) -> list[PlannedPoint]:
        """Every job, and every point that cannot be, as sweep.json keeps them."""
        jobs = [PlannedPoint(job.run_id, job.overrides, job.values) for job in self.jobs]
        return jobs + [PlannedPoint(each.run_id, each.overrides, each.values, each.reason) for each in self.invalid]


def plan_sweep(request: Request, points: Iterable[Point], launch_dir: Path, load: LoadData | None = None) -> SweepPlan:
    """The plan of these points; relative paths start at `launch_dir`.

    Raises ConfigError where nothing can be run at all, or a setting makes no sense for a sweep.
    """
    load = load or keep_data()
    jobs: dict[str, Job] = {}
    invalid: list[Invalid] = []
    merged: list[str] = []
    for point in points:
        try:
            job = _job(len(jobs) + 1, point, request, launch_dir, load)
        except UserError as error:
            invalid.append(Invalid(point.values, tuple(point.overrides), str(error), point.config))
            continue
        if job.run_id in jobs:
            merged.append(job.label)
        else:
            jobs[job.run_id] = job
    if not jobs:
        reasons = "\n".join(f"  {point.label or 'the only one'}: {point.reason}" for point in invalid)
        raise ConfigError(f"no point of this sweep can be run:\n{reasons}")
    plan = SweepPlan(next(iter(jobs.values())).folder.parent, launch_dir, list(jobs.values()), invalid, merged)
    if plan.config.resume == "never":
        raise ConfigError(
            "resume=never with a sweep: its runs are known by their settings, so that the same command runs what is "
            "missing; give group=another_name for runs of their own"
        )
    return plan


def keep_data() -> LoadData:
    """A loader that keeps what it loaded: the jobs of a sweep read the same text."""
    kept: dict[tuple[str, Path], Data] = {}

    def load(data: DataConfig, launch_dir: Path) -> Data:
        key = data.model_dump_json(), launch_dir
        if key not in kept:
            kept[key] = load_data(data, launch_dir)
        return kept[key]

    return load


def _job(number: int, point: Point, request: Request, launch_dir: Path, load: LoadData) -> Job:
    if point.config is None:
        raise ConfigError(point.reason or "no configuration")
    run = plan_run(point.config, launch_dir, load)
    return Job(
        number=number,
        values=point.values,
        overrides=tuple(point.overrides),
        fixed=request.fixed,
        config=run.config,
        geometry=run.geometry,
        epoch_tokens=run.data.epoch_tokens(run.config.context_length),
        run_id=run.run_id,
        folder=run.folder,
    )
