"""Who runs the jobs, as choices of hydra/launcher: local, processes, slurm, ray."""

# No `from __future__ import annotations`: Hydra loads this file without listing it in sys.modules, where dataclasses
# would look its annotations up.
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Optional

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

if TYPE_CHECKING:
    from src.sweeps.launchers.processes import Share
    from src.sweeps.plan import Job
    from src.sweeps.progress import Desk


class JobLauncher(Launcher):
    """A launcher that is given planned jobs and reports each one to the sweep's desk.

    `workers`: how many jobs it runs at once, as far as it can tell.
    """

    @property
    def workers(self) -> int:
        return 1

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context, self.config = hydra_context, config

    def run_jobs(self, jobs: "Sequence[Job]", desk: "Desk") -> None:
        raise NotImplementedError

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """For Hydra's other sweepers, which propose jobs one batch at a time."""
        from src.sweeps.grid import compose_with
        from src.sweeps.proposed import launch_proposed

        return launch_proposed(
            self, compose_with(self.context.config_loader, self.config), job_overrides, initial_job_idx
        )


@dataclass
class LocalConf:
    _target_: str = "hydra_plugins.headcount.launchers.LocalLauncher"


class LocalLauncher(JobLauncher):
    """One job after another in this process."""

    def run_jobs(self, jobs: "Sequence[Job]", desk: "Desk") -> None:
        from src.sweeps.local import run_jobs

        run_jobs(jobs, desk)


@dataclass
class ProcessesConf:
    _target_: str = "hydra_plugins.headcount.launchers.ProcessesLauncher"
    n_jobs: Optional[int] = None  # noqa: UP045  # omegaconf reads it


class ProcessesLauncher(JobLauncher):
    """`n_jobs` jobs at once in processes of this machine; null: one a GPU, or one a core where there is none."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self._n_jobs = n_jobs

    @property
    def workers(self) -> int:
        return len(self._shares())

    def run_jobs(self, jobs: "Sequence[Job]", desk: "Desk") -> None:
        from src.sweeps.launchers.processes import run_jobs

        run_jobs(jobs, desk, self._shares())

    def _shares(self) -> "list[Share]":
        from src.sweeps.launchers.processes import core_count, shares, visible_gpus

        may_use_gpus = str(self.config.device) in ("auto", "cuda")
        return shares(self._n_jobs, visible_gpus() if may_use_gpus else [], core_count())


@dataclass
class SlurmConf:
    _target_: str = "hydra_plugins.headcount.launchers.SlurmLauncher"
    partition: Optional[str] = None  # noqa: UP045
    account: Optional[str] = None  # noqa: UP045
    qos: Optional[str] = None  # noqa: UP045
    time: int = 60  # minutes a job may take; one that takes longer is saved, queued again, and goes on
    cpus_per_task: int = 1
    gpus_per_node: Optional[int] = None  # noqa: UP045
    mem: Optional[str] = None  # noqa: UP045
    array_parallelism: int = 256
    signal_delay_s: int = 90  # seconds before the end of its time at which a job is told to save
    setup: list[str] = field(default_factory=list)  # shell lines before the job
    additional_parameters: dict[str, Any] = field(default_factory=dict)  # further options of sbatch


class SlurmLauncher(JobLauncher):
    """One job array on a Slurm cluster; run it where sbatch is. It waits until all jobs are over."""

    def __init__(self, **parameters: Any) -> None:
        self._parameters = parameters

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        super().setup(hydra_context=hydra_context, task_function=task_function, config=config)
        _require("submitit", "slurm")

    @property
    def workers(self) -> int:
        return self._parameters["array_parallelism"]

    def run_jobs(self, jobs: "Sequence[Job]", desk: "Desk") -> None:
        from src.sweeps.launchers.slurm import Cluster

        Cluster(self._parameters).run_jobs(jobs, desk)


@dataclass
class RayConf:
    _target_: str = "hydra_plugins.headcount.launchers.RayLauncher"
    num_cpus: int = 1  # cores of each job
    num_gpus: float = 0
    init: dict[str, Any] = field(default_factory=dict)  # arguments of ray.init, such as address


class RayLauncher(JobLauncher):
    """Tasks on a Ray cluster (`hydra.launcher.init.address`), or on a Ray of this machine's own."""

    def __init__(self, **parameters: Any) -> None:
        self._parameters = parameters

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        super().setup(hydra_context=hydra_context, task_function=task_function, config=config)
        _require("ray", "ray")

    def run_jobs(self, jobs: "Sequence[Job]", desk: "Desk") -> None:
        from src.sweeps.launchers.ray_cluster import RayCluster

        RayCluster(**self._parameters).run_jobs(jobs, desk)


def _require(package: str, extra: str) -> None:
    if find_spec(package) is None:
        from src.errors import ConfigError, fail

        install = f"uv sync --extra {extra}   (or: pip install 'headcount[{extra}]')"
        fail(ConfigError(f"hydra/launcher={extra} needs the package {package}, which is not installed: {install}"))


def _store(name: str, node: Any) -> None:
    ConfigStore.instance().store(group="hydra/launcher", name=name, node=node, provider="headcount")


_store("local", LocalConf)
_store("processes", ProcessesConf)
_store("slurm", SlurmConf)
_store("ray", RayConf)
