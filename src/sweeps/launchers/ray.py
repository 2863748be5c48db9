"""The jobs of a sweep as tasks on a Ray cluster, or on a Ray of this machine's own where none is running."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from src import ROOT
from src.errors import ConfigError, one_line
from src.sweeps.job import Outcome, Task, WorkerKilled, record_ending
from src.sweeps.plan import Job
from src.sweeps.progress import Progress, open_job_sinks

POLL_S = 1.0


@dataclass(frozen=True)
class Ray:
    """`init`: arguments of ray.init; each task has `num_cpus` cores and `num_gpus` GPUs to itself."""

    init: Mapping[str, Any]
    num_cpus: int = 1
    num_gpus: float = 0
    workers = 1  # nobody knows before it is connected

    def run_jobs(self, jobs: Sequence[Job], progress: Progress) -> None:
        """Runs the jobs wherever the cluster has room, until all are over; when the sweep stops, so do they."""
        import ray  # pyright: ignore[reportMissingImports]

        self._connect(ray, progress)
        remote = ray.remote(num_cpus=self.num_cpus, num_gpus=self.num_gpus, max_retries=0)(_run)
        waiting: dict[Any, Job] = {}
        for job in jobs:
            waiting[remote.remote(Task.of(job.config, progress.launch_dir))] = job
            progress.begins(job)
        is_cancelled = False
        while waiting:
            if progress.is_stopping and not is_cancelled:
                is_cancelled = True
                for task in waiting:
                    ray.cancel(task, force=False)
            done, _ = ray.wait(list(waiting), timeout=POLL_S)
            for task in done:
                _report(ray, task, waiting.pop(task), progress)

    def _connect(self, ray: Any, progress: Progress) -> None:
        variables = {
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            "OMP_NUM_THREADS": str(self.num_cpus),
        }
        try:
            if not ray.is_initialized():
                ray.init(**{"log_to_driver": False, "runtime_env": {"env_vars": variables}} | dict(self.init))
        except (ConnectionError, ValueError, TypeError, RuntimeError) as error:
            raise ConfigError(f"hydra/launcher=ray: {one_line(type(error).__name__, str(error))}") from None
        nodes = [node for node in ray.nodes() if node.get("Alive")]
        where = self.init.get("address") or "a Ray of this machine"
        cpus = ray.cluster_resources().get("CPU", 0)
        progress.say(f"Ray {ray.__version__} at {where}: {len(nodes)} node(s), {cpus:g} CPUs")


def _run(task: Task) -> Outcome:
    import ray  # pyright: ignore[reportMissingImports]

    return task.run(open_job_sinks, "ray", ray.get_runtime_context().get_task_id())


def _report(ray: Any, task: Any, job: Job, progress: Progress) -> None:
    try:
        progress.ends(job, ray.get(task))
    except ray.exceptions.TaskCancelledError:
        pass  # it had not begun
    except ray.exceptions.RayError as error:
        killed = WorkerKilled(one_line(type(error).__name__, str(error)))
        record_ending(job.folder, job.config, job.geometry, "failed", killed)
        progress.ends(job, Outcome("failed", str(killed)))
