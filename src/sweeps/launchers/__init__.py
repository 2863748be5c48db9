"""Who runs the jobs of a sweep: each launcher has `workers`, how many jobs it runs at once as far as it can tell, and
`run_jobs(jobs, progress)`, which reports each job to the sweep's progress and returns when none is running any more.

    Local           one after another in this process        Slurm    one job array on a cluster
    Processes       several processes of this machine        Ray      tasks on a Ray cluster

hydra_plugins/headcount/launchers.py makes them choices of `hydra/launcher`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec

from src.errors import ConfigError
from src.sweeps.job import run_job
from src.sweeps.plan import Job
from src.sweeps.progress import Progress, open_job_sinks

OURS = ("local", "processes", "slurm", "ray")
_OTHERS = {
    "joblib": ("hydra_joblib_launcher", "hydra-joblib-launcher", "processes"),
    "submitit_slurm": ("hydra_submitit_launcher", "hydra-submitit-launcher", "slurm"),
    "submitit_local": ("hydra_submitit_launcher", "hydra-submitit-launcher", "processes"),
    "ray_aws": ("hydra_ray_launcher", "hydra-ray-launcher", "ray"),
}


class Local:
    """One job after another: imports, corpus and W&B's helper are paid for once."""

    workers = 1

    def run_jobs(self, jobs: Sequence[Job], progress: Progress) -> None:
        open_sinks = partial(open_job_sinks, console=progress.console)
        for job in jobs:
            if progress.is_stopping:
                return
            progress.begins(job)
            progress.ends(job, run_job(job.config, progress.launch_dir, progress.stop, progress.load, open_sinks))


def refuse_missing_launcher(arguments: Sequence[str]) -> None:
    """Raises ConfigError, with the install command, for a known launcher whose package is not there."""
    for argument in arguments:
        key, _, name = argument.lstrip("+").partition("=")
        if key != "hydra/launcher" or name not in _OTHERS:
            continue
        module, package, ours = _OTHERS[name]
        if find_spec("hydra_plugins") is None or find_spec(f"hydra_plugins.{module}") is None:
            raise ConfigError(
                f"hydra/launcher={name} needs the package {package}, which is not installed: pip install {package}; "
                f"hydra/launcher={ours} does the same work here (all of ours: {', '.join(OURS)})"
            )
