"""Who runs the jobs, as choices of hydra/launcher: local, processes, slurm, ray."""

# No `from __future__ import annotations`: Hydra loads this file without listing it in sys.modules, where dataclasses
# would look its annotations up. Hydra loads it at every start, so what is heavy is imported when jobs are to run.
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Optional

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class JobLauncher(Launcher):
    """A launcher that is given planned jobs: it has `workers` and `run_jobs`, as src.sweeps.launchers says."""

    needs: str | None = None
    """The package that it cannot do without, which an extra of its own name installs."""

    def __init__(self, **parameters: Any) -> None:
        self.parameters = parameters

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context, self.config = hydra_context, config
        name = type(self).__name__.removesuffix("Launcher").lower()
        if self.needs is not None and find_spec(self.needs) is None:
            from src.errors import ConfigError, fail

            needs = f"hydra/launcher={name} needs the package {self.needs}, which is not installed"
            fail(ConfigError(f"{needs}: uv sync --extra {name}   (or: pip install 'headcount[{name}]')"))
        runner = self.runner()
        self.workers, self.run_jobs = runner.workers, runner.run_jobs

    def runner(self) -> Any:
        raise NotImplementedError

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """For Hydra's other sweepers, which propose jobs one batch at a time."""
        from src.sweeps.grid import compose_with
        from src.sweeps.others import run_proposed

        compose = compose_with(self.context.config_loader, self.config)
        return run_proposed(self.run_jobs, compose, job_overrides, initial_job_idx)


@dataclass
class LocalConf:
    _target_: str = "hydra_plugins.headcount.launchers.LocalLauncher"


class LocalLauncher(JobLauncher):
    """One job after another in this process."""

    def runner(self) -> Any:
        from src.sweeps.launchers import Local

        return Local()


@dataclass
class ProcessesConf:
    _target_: str = "hydra_plugins.headcount.launchers.ProcessesLauncher"
    n_jobs: Optional[int] = None  # noqa: UP045  # omegaconf reads it


class ProcessesLauncher(JobLauncher):
    """`n_jobs` jobs at once in processes of this machine; null: one a GPU, or one a core where there is none."""

    def runner(self) -> Any:
        from src.sweeps.launchers.processes import Processes, core_count, shares, visible_gpus

        may_use_gpus = str(self.config.device) in ("auto", "cuda")
        return Processes(shares(self.parameters["n_jobs"], visible_gpus() if may_use_gpus else [], core_count()))


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

    needs = "submitit"

    def runner(self) -> Any:
        from src.sweeps.launchers.slurm import Slurm

        return Slurm(self.parameters)


@dataclass
class RayConf:
    _target_: str = "hydra_plugins.headcount.launchers.RayLauncher"
    num_cpus: int = 1  # cores of each job
    num_gpus: float = 0
    init: dict[str, Any] = field(default_factory=dict)  # arguments of ray.init, such as address


class RayLauncher(JobLauncher):
    """Tasks on a Ray cluster (`hydra.launcher.init.address`), or on a Ray of this machine's own."""

    needs = "ray"

    def runner(self) -> Any:
        from src.sweeps.launchers.ray import Ray

        return Ray(**self.parameters)


for _name, _node in {"local": LocalConf, "processes": ProcessesConf, "slurm": SlurmConf, "ray": RayConf}.items():
    ConfigStore.instance().store(group="hydra/launcher", name=_name, node=_node, provider="headcount")
