"""Who runs the jobs, as choices of hydra/launcher: local, processes, slurm, ray."""

# No `from __future__ import annotations`: Hydra loads this file without listing it in sys.modules, where dataclasses
# would look its annotations up.
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

if TYPE_CHECKING:
    from src.sweeps.desk import Desk
    from src.sweeps.plan import Job


class JobLauncher(Launcher):
    """A launcher that is given planned jobs and reports each one to the sweep's desk.

    `workers`: how many jobs it runs at once, or null where that is not for it to say.
    """

    workers: int | None = 1

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context, self.config = hydra_context, config

    def run_jobs(self, jobs: "Sequence[Job]", desk: "Desk") -> None:
        raise NotImplementedError

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """For Hydra's other sweepers, which propose jobs one batch at a time."""
        from src.sweeps.proposed import launch_proposed

        return launch_proposed(self, job_overrides)


@dataclass
class LocalConf:
    _target_: str = "hydra_plugins.headcount.launchers.LocalLauncher"


class LocalLauncher(JobLauncher):
    """One job after another in this process."""

    def run_jobs(self, jobs: "Sequence[Job]", desk: "Desk") -> None:
        from src.sweeps.local import run_jobs

        run_jobs(jobs, desk)


def _store(name: str, node: Any) -> None:
    ConfigStore.instance().store(group="hydra/launcher", name=name, node=node, provider="headcount")


_store("local", LocalConf)
