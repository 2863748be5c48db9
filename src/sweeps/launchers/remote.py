"""One job on another machine: what its launcher sends there, as plain values, and what comes back."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from src.config import Config
from src.sweeps.job import Outcome, run_job
from src.sweeps.plan import Job, keep_data
from src.sweeps.progress import open_job_sinks
from src.training.environment import JOB_ID_VARIABLE, LAUNCHER_VARIABLE, SUBMITTED_CODE_VARIABLE, code_identity
from src.training.stop import StopFlag


@dataclass(frozen=True)
class Task:
    """A job to send: its settings, where its relative paths start, and the code that it was submitted with."""

    config: Mapping[str, Any]
    launch_dir: str
    code: Mapping[str, Any]

    @classmethod
    def of(cls, job: Job, launch_dir: Path) -> Task:
        return cls(job.config.model_dump(), str(launch_dir), code_identity())

    def run(self, launcher: str | None = None, job_id: str | None = None) -> Outcome:
        """Runs the job in this process. The record names `launcher` and `job_id`; null: what the cluster says."""
        variables = {
            LAUNCHER_VARIABLE: launcher,
            JOB_ID_VARIABLE: job_id,
            SUBMITTED_CODE_VARIABLE: json.dumps(self.code),
        }
        os.environ.update({name: value for name, value in variables.items() if value is not None})
        with StopFlag() as stop:
            return run_job(Config.of(self.config), Path(self.launch_dir), stop, keep_data(), open_job_sinks)
