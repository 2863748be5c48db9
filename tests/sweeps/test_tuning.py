"""Learning rates: each arm at its own best, chosen on seeds that do not judge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from src.errors import ConfigError, RunError
from src.sweeps.tuning import choose_rates
from src.training import loop
from tests.sweeps.conftest import PlanIt, SweepIt

GRID = ("heads=1,2", "training.learning_rate=0.0001,0.003,0.01", "seed=100,101", "group=lr")
FILE = "training.learning_rate_from=runs/lr/learning_rates.json"


def write_rates(tmp_path: Path, rates: dict[int, float], **same: object) -> None:
    folder = tmp_path / "runs" / "lr"
    folder.mkdir(parents=True)
    content = {
        "schema_version": 1,
        "seeds": [100, 101],
        "factors": ["heads"],
        "same": same,
        "rates": [{"arm": {"heads": heads}, "learning_rate": rate} for heads, rate in rates.items()],
    }
    (folder / "learning_rates.json").write_text(json.dumps(content))


def test_each_arm_gets_the_rate_with_the_lowest_mean_loss_and_later_sweeps_take_it(
    sweep_it: SweepIt, plan_it: PlanIt, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = loop.training_events

    def best_at(training: loop.Training, *rest):
        yield from real(training, *rest)
        goal = {1: 0.003, 2: 0.01}[training.model.geometry.heads]  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]
        training.state.last["val/loss"] = 2 + abs(training.plan.config.training.learning_rate - goal)

    monkeypatch.setattr("src.training.run.training_events", best_at)
    swept = sweep_it(*GRID, "sweep.choose_learning_rate=true")
    assert swept.code == 0
    content = json.loads((swept.plan.group / "learning_rates.json").read_text())
    assert [(rate["arm"], rate["learning_rate"]) for rate in content["rates"]] == [
        ({"heads": 1}, 0.003),
        ({"heads": 2}, 0.01),
    ]
    assert [rate["is_at_edge"] for rate in content["rates"]] == [False, True]
    assert "at the edge" in swept.text
    judged = plan_it("heads=1,2", "seed=0,1", FILE)
    assert [job.config.training.learning_rate for job in judged.jobs] == [0.003, 0.003, 0.01, 0.01]
    alone = plan_it("heads=2", "seed=1", "training.learning_rate=0.01")
    assert judged.jobs[3].run_id == alone.jobs[0].run_id  # it is the rate that makes the run


def test_a_rate_at_which_a_seed_did_not_finish_is_not_chosen(sweep_it: SweepIt) -> None:
    words = ("training.learning_rate=0.001,1e30", "seed=100,101", "training.grad_clip=0.0", "model.norm=none")
    swept = sweep_it(*words, "group=lr")
    (chosen,) = choose_rates(swept.plan.group)
    assert chosen.learning_rate == 0.001
    assert chosen.tried[1e30] is None


def test_a_better_rate_that_lacks_one_seed_is_not_chosen(sweep_it: SweepIt) -> None:
    swept = sweep_it("training.learning_rate=0.0001,0.01", "seed=100,101", "group=lr")
    assert choose_rates(swept.plan.group)[0].learning_rate == 0.01
    (swept.plan.jobs[-1].folder / "record.json").unlink()
    assert choose_rates(swept.plan.group)[0].learning_rate == 0.0001


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["heads=1", "seed=100"], "must not judge"),
        (["heads=4", "seed=0"], "no learning rate for this arm; it has those of heads=1; heads=2"),
        (["heads=1", "seed=0", "model.layers=1"], "tuned with model.layers=2, but here it is 1"),
        (["heads=1", "training.learning_rate_from=nowhere.json"], "sweeps=learning_rate"),
    ],
)
def test_rates_are_refused_where_they_were_not_chosen(
    plan_it: PlanIt, tmp_path: Path, words: list[str], message: str
) -> None:
    write_rates(tmp_path, {1: 0.003, 2: 0.01}, **{"model.layers": 2})
    with pytest.raises(ConfigError, match=message):
        plan_it(*([FILE] if not any("learning_rate_from" in word for word in words) else []), *words)


def test_there_is_nothing_to_choose_where_no_rates_were_swept(sweep_it: SweepIt) -> None:
    swept = sweep_it("heads=1", "sweep.choose_learning_rate=true")
    assert swept.code == 0
    assert "no learning rates chosen" in swept.text
    with pytest.raises(RunError, match="holds no sweep over"):
        choose_rates(swept.plan.group)
