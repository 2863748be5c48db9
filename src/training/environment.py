"""Where and with what code a run ran."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import socket
import subprocess
import sys
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from src import ROOT, __version__

LAUNCHER_VARIABLE, JOB_ID_VARIABLE = "HEADCOUNT_LAUNCHER", "HEADCOUNT_JOB_ID"
"""Environment variables by which a launcher tells its jobs who started them."""
SUBMITTED_CODE_VARIABLE = "HEADCOUNT_SUBMITTED_CODE"
"""... and with which code, as JSON: a queued job may start long after the sources were edited."""

_PACKAGES = ("torch", "numpy", "hydra-core", "pydantic", "wandb", "pandas")


def environment() -> dict[str, Any]:
    """Versions, host and launcher, as plain values."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "cpu_count": os.cpu_count(),
        "command": sys.argv,
        "visible_gpus": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "submitted_code": _submitted_code(),
        "packages": {name: _version(name) for name in _PACKAGES},
        **launcher(),
    }


def launcher() -> dict[str, str | None]:
    """Which launcher started this job, and its id there."""
    named = os.environ.get(LAUNCHER_VARIABLE)
    if named is not None:
        return {"launcher": named, "job_id": os.environ.get(JOB_ID_VARIABLE)}
    if "SLURM_JOB_ID" in os.environ:
        array = os.environ.get("SLURM_ARRAY_TASK_ID")
        job = os.environ.get("SLURM_ARRAY_JOB_ID") if array else os.environ["SLURM_JOB_ID"]
        return {"launcher": "slurm", "job_id": f"{job}_{array}" if array else job}
    return {"launcher": "local", "job_id": None}


def _submitted_code() -> dict[str, Any] | None:
    """The code that the launcher was started with, where this is another one; else None."""
    submitted = os.environ.get(SUBMITTED_CODE_VARIABLE)
    code = json.loads(submitted) if submitted else None
    return code if code != code_identity() else None


@lru_cache(maxsize=1)
def code_identity() -> dict[str, Any]:
    """Which code this is: version, a hash of the sources, and in a checkout its commit and uncommitted changes.

    Read once a process: what was imported is what runs, whatever is edited meanwhile.
    """
    return {"version": __version__, "source_hash": _source_hash(), **_git_identity()}


def _source_hash() -> str:
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _git_identity() -> dict[str, Any]:
    nothing = {"commit": None, "uncommitted_hash": None}
    if not (ROOT / ".git").exists():  # installed, or inside somebody else's repository
        return nothing
    commit = _git("rev-parse", "HEAD")
    if commit is None:
        return nothing
    changes = _git("diff", "HEAD", "--", "src", "conf", "sweeps") or ""
    listed = _git("ls-files", "--others", "--exclude-standard", "--", "src", "conf", "sweeps") or ""
    digest = hashlib.sha256(changes.encode())
    for name in listed.splitlines():
        digest.update(name.encode() + b"\0" + Path(ROOT / name).read_bytes())
    is_clean = not changes.strip() and not listed.strip()
    return {"commit": commit.strip(), "uncommitted_hash": None if is_clean else digest.hexdigest()[:16]}


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
