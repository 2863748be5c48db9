"""`python -m src.train -m ...` behind Hydra's sweeper: request, points, plan, and the launcher that was chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from src import ROOT
from src.sweeps.grid import Compose, Request, points, read_request
from src.sweeps.plan import keep_data, plan_sweep
from src.sweeps.run import Asked, RunJobs, conduct

if TYPE_CHECKING:
    from hydra.plugins.launcher import Launcher

SWEEPS_DIR = ROOT / "sweeps"


def sweep(
    arguments: Sequence[str],
    params: Mapping[str, Any],
    compose: Compose,
    launcher: Launcher,
    launch_dir: Path,
    command: Sequence[str],
) -> int:
    """Runs a sweep and returns its exit code. Raises UserError for what cannot be run as asked."""
    request = read_request(arguments, params)
    load = keep_data()
    plan = plan_sweep(request, points(request, compose), launch_dir, load)
    name = sweep_name(request)
    asked = Asked(command, name, question_of(SWEEPS_DIR / f"{name}.yaml") if name else None)
    workers = getattr(launcher, "workers", None) or 1
    console = Console(highlight=False)
    return conduct(plan, _run_jobs_of(launcher), asked, console, workers, load)


def sweep_name(request: Request) -> str | None:
    """The file of sweeps/ that the command chose, if it chose one."""
    chosen = [line.partition("=")[2] for line in request.fixed if line.lstrip("+").startswith("sweeps=")]
    return chosen[0] if chosen and chosen[0] != "null" else None


def question_of(path: Path) -> str | None:
    """The question that a sweep file's header asks: its line `# Question: ...`."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# Question:"):
            return line.removeprefix("# Question:").strip()
    return None


def _run_jobs_of(launcher: Launcher) -> RunJobs:
    own = getattr(launcher, "run_jobs", None)
    if own is not None:
        return own
    from src.sweeps.foreign import run_jobs_with

    return run_jobs_with(launcher)
