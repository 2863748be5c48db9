"""Sweeps of tiny runs in this process, from the command's words to the exit code."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from src.compose import composed
from src.record import RECORD, Record
from src.sweeps import local
from src.sweeps.grid import points, read_request
from src.sweeps.plan import SweepPlan, keep_data, plan_sweep
from src.sweeps.run import Asked, RunJobs, conduct
from tests.training.conftest import TEXT, TINY

LOAD = keep_data()


@dataclass
class Swept:
    """A sweep that is over."""

    code: int
    plan: SweepPlan
    text: str

    @property
    def states(self) -> dict[str, str]:
        return {job.label: job.standing().state for job in self.plan.jobs}


PlanIt = Callable[..., SweepPlan]
SweepIt = Callable[..., Swept]


@pytest.fixture
def plan_it(tmp_path: Path) -> PlanIt:
    """Plans the jobs of tiny runs in tmp_path; words as on the command line."""
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")

    def plan(*words: str, params: dict[str, object] | None = None) -> SweepPlan:
        given = {word.partition("=")[0] for word in words}
        given |= {name for word in words if word.startswith("(") for name in word[1:].partition(")")[0].split(",")}
        fixed = {word.partition("=")[0]: word for word in (*TINY, "data.path=text.txt", "kv_heads=null")}
        request = read_request([*(word for name, word in fixed.items() if name not in given), *words], params)
        return plan_sweep(request, points(request, composed), tmp_path, LOAD)

    return plan


@pytest.fixture
def sweep_it(plan_it: PlanIt) -> SweepIt:
    """Runs a sweep of tiny runs in this process."""

    def sweep(*words: str, run_jobs: RunJobs = local.run_jobs) -> Swept:
        plan = plan_it(*words)
        console = Console(file=io.StringIO(), width=200)
        code = conduct(plan, run_jobs, Asked(list(words)), console, load=LOAD)
        assert isinstance(console.file, io.StringIO)
        return Swept(code, plan, console.file.getvalue())

    return sweep


def records(group: Path) -> dict[str, Record]:
    """The records of a group by folder name."""
    return {path.parent.name: Record.read(path.parent) for path in group.glob(f"*/{RECORD}")}
