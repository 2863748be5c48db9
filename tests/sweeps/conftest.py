"""Sweeps of tiny runs in this process, from the command's words to the exit code."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from src.compose import composed
from src.record import RECORD, Record
from src.sweeps.grid import points, read_request
from src.sweeps.launchers import Local
from src.sweeps.plan import SweepPlan, keep_data, plan_sweep
from src.sweeps.progress import RunJobs
from src.sweeps.run import SweepCommand, run_sweep
from tests.training.conftest import TEXT, TINY

LOAD = keep_data()
HERE = Local().run_jobs
FINISHED = ("heads=1,2,4,3", "seed=0,1", "sweep.invalid=skip")
"""The sweep that `finished` has run: six jobs, and two points that cannot be."""


@dataclass
class Swept:
    """A sweep that is over."""

    code: int
    plan: SweepPlan
    text: str

    @property
    def states(self) -> dict[str, str]:
        return {job.label: job.status().state for job in self.plan.jobs}


PlanIt = Callable[..., SweepPlan]
SweepIt = Callable[..., Swept]


def planner(folder: Path) -> PlanIt:
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")

    def plan(*words: str, params: dict[str, object] | None = None) -> SweepPlan:
        given = {word.partition("=")[0] for word in words}
        given |= {name for word in words if word.startswith("(") for name in word[1:].partition(")")[0].split(",")}
        fixed = {word.partition("=")[0]: word for word in (*TINY, "data.path=text.txt", "kv_heads=null")}
        request = read_request([*(word for name, word in fixed.items() if name not in given), *words], params)
        return plan_sweep(request, points(request, composed), folder, LOAD)

    return plan


def sweeper(plan_it: PlanIt) -> SweepIt:
    def sweep(*words: str, run_jobs: RunJobs = HERE) -> Swept:
        plan = plan_it(*words)
        console = Console(file=io.StringIO(), width=200)
        code = run_sweep(plan, run_jobs, SweepCommand(list(words)), console, load=LOAD)
        assert isinstance(console.file, io.StringIO)
        return Swept(code, plan, console.file.getvalue())

    return sweep


@pytest.fixture
def plan_it(tmp_path: Path) -> PlanIt:
    """Plans the jobs of tiny runs in tmp_path; words as on the command line."""
    return planner(tmp_path)


@pytest.fixture
def sweep_it(plan_it: PlanIt) -> SweepIt:
    """Runs a sweep of tiny runs in this process."""
    return sweeper(plan_it)


@pytest.fixture(scope="session")
def finished_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the sweep FINISHED has run; for copies alone."""
    folder = tmp_path_factory.mktemp("finished")
    assert sweeper(planner(folder))(*FINISHED).code == 0
    return folder


@pytest.fixture
def finished(finished_once: Path, tmp_path: Path, plan_it: PlanIt) -> SweepPlan:
    """The sweep FINISHED, finished in tmp_path, to look at and to damage."""
    shutil.copytree(finished_once / "runs", tmp_path / "runs")
    return plan_it(*FINISHED)


def records(group: Path) -> dict[str, Record]:
    """The records of a group by folder name."""
    return {path.parent.name: Record.read(path.parent) for path in group.glob(f"*/{RECORD}")}
