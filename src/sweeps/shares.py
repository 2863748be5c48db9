"""What each of several jobs at once may use of this machine: its share of the cores, and one GPU to itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from src.training.environment import JOB_ID_VARIABLE, LAUNCHER_VARIABLE, SUBMITTED_CODE_VARIABLE, code_identity

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Share:
    """The part of a machine that one worker has. `gpu`: the only one it sees; null: as this process."""

    worker: int
    threads: int
    gpu: str | None


def shares(n_jobs: int | None, gpus: Sequence[str], cores: int) -> list[Share]:
    """One share a job at once: as many as asked, but no more than GPUs where there are any; null: one a GPU or core.

    >>> [(share.threads, share.gpu) for share in shares(4, ["0", "1"], cores=8)]
    [(4, '0'), (4, '1')]
    >>> [(share.threads, share.gpu) for share in shares(3, [], cores=8)]
    [(2, None), (2, None), (2, None)]
    """
    asked = n_jobs if n_jobs is not None and n_jobs > 0 else len(gpus) or cores
    count = max(1, min(asked, len(gpus)) if gpus else asked)
    return [Share(k, max(1, cores // count), gpus[k] if gpus else None) for k in range(count)]


def core_count() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def visible_gpus(environment: Mapping[str, str] | None = None) -> list[str]:
    """The ids of the GPUs that jobs may have: those of CUDA_VISIBLE_DEVICES, else those that the driver lists."""
    given = (os.environ if environment is None else environment).get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name.strip() for name in given.split(",") if name.strip() not in ("", "-1")]
    if shutil.which("nvidia-smi") is None:
        return []
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return listed.stdout.split()


def environment_of(share: Share) -> dict[str, str]:
    """The environment of a worker with this share."""
    variables: dict[str, str] = {name: str(share.threads) for name in _THREAD_VARIABLES}
    if share.gpu is not None:
        variables["CUDA_VISIBLE_DEVICES"] = share.gpu
    variables |= {LAUNCHER_VARIABLE: "processes", JOB_ID_VARIABLE: str(share.worker)}
    return os.environ | variables | {SUBMITTED_CODE_VARIABLE: json.dumps(code_identity())}
