"""Hydra's other launchers and sweepers, and Ray: from the command line, with the packages that CI installs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from src.compose import composed
from src.run_status import RunStatus
from src.sweeps.others import run_proposed
from tests.sweeps.conftest import HERE, records
from tests.test_train_command import here, train  # noqa: F401
from tests.training.conftest import TEXT, TINY


def needs(package: str, install: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed: {install}")


@needs("joblib", "uv sync (group dev)")
def test_joblib_runs_jobs_each_isolated(here: Path) -> None:  # noqa: F811
    words = ("-m", "(heads,device)=(1,cpu),(2,cuda:99),(4,cpu)", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    code, text = train(here, *words)
    assert code == 1, text
    assert "3 jobs: 2 finished, 1 failed" in text
    assert "ConfigError: device=cuda:99" in text


@needs("ray", "uv sync --extra ray")
def test_ray_runs_jobs_and_the_record_says_where(here: Path) -> None:  # noqa: F811
    launcher = ("hydra/launcher=ray", "+hydra.launcher.init.num_cpus=2", "+hydra.launcher.init.include_dashboard=false")
    code, text = train(here, "-m", "(heads,device)=(1,cpu),(2,cuda:99),(4,cpu),(8,cpu)", *launcher)
    assert code == 1, text
    assert "4 jobs: 3 finished, 1 failed" in text
    places = [record.environment for record in records(here / "runs" / "single").values()]
    assert {place["launcher"] for place in places} == {"ray"}
    assert len({place["job_id"] for place in places}) == 4


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of the Optuna sweeper, which sets what a newer Optuna deprecates
@needs("optuna", "uv sync --extra optuna")
def test_optuna_proposes_jobs_and_chooses_the_one_with_the_lowest_loss(here: Path) -> None:  # noqa: F811
    sweeper = (
        "hydra/sweeper=optuna",
        "hydra.sweeper.n_trials=4",
        "hydra.sweeper.n_jobs=2",
        "hydra.sweeper.sampler.seed=1",
    )
    code, text = train(here, "-m", "training.learning_rate=interval(0.0001,0.03)", *sweeper)
    assert code == 0, text
    group = here / "runs" / "single"
    found = records(group).values()
    assert len(found) == 4
    assert {record.status for record in found} == {"finished"}
    best = yaml.safe_load((group / "optimization_results.yaml").read_text())
    losses = {record.config["training"]["learning_rate"]: record.summary["val/loss"] for record in found}
    assert best["best_value"] == min(value for value in losses.values() if value is not None)
    assert losses[best["best_params"]["training.learning_rate"]] == best["best_value"]


Propose = Callable[..., list[float]]


@pytest.fixture
def propose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Propose:
    """Answers proposals as another sweeper would hear them, running them in this process."""
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def answers(*proposals: str, run_jobs: Callable[..., None] = HERE) -> list[float]:
        varied = {proposal.partition("=")[0] for proposal in proposals}
        tiny = [word for word in (*TINY, "data.path=text.txt", "kv_heads=null") if word.partition("=")[0] not in varied]
        words: list[Sequence[str]] = [[*tiny, proposal] for proposal in proposals]
        return [answer.return_value for answer in run_proposed(run_jobs, composed, words, 0)]

    return answers


def test_a_proposal_is_answered_by_its_loss_and_an_equal_one_is_not_run_again(propose: Propose, tmp_path: Path) -> None:
    first, equal, other = propose(
        "training.learning_rate=1e-3", "training.learning_rate=0.001", "training.learning_rate=0.01"
    )
    assert first == equal != other
    before = records(tmp_path / "runs" / "single")
    assert len(before) == 2
    assert {record.summary["val/loss"] for record in before.values()} == {first, other}
    assert propose("training.learning_rate=0.01") == [other]
    assert records(tmp_path / "runs" / "single") == before, "a finished proposal was run again"


def test_a_proposal_that_fails_answers_infinity_so_that_no_sweeper_chooses_it(propose: Propose, tmp_path: Path) -> None:
    assert propose("device=cuda:99") == [math.inf]
    (folder,) = (path.parent for path in (tmp_path / "runs" / "single").glob("*/record.json"))
    assert RunStatus.of(folder).state == "failed"


def test_a_signal_ends_the_sweeper_that_proposes(propose: Propose) -> None:
    def told_to_stop(jobs, progress) -> None:
        progress.stop.signal_number = 15

    with pytest.raises(KeyboardInterrupt):
        propose("heads=4", run_jobs=told_to_stop)
