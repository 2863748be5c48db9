"""The plan: every job composed, checked, named and looked up before the first one runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from src.compose import composed
from src.errors import ConfigError
from src.sweeps.grid import points, read_request
from src.sweeps.plan import SweepPlan
from tests.sweeps.conftest import PlanIt


def test_a_grid_is_every_combination_in_the_order_of_the_command(plan_it: PlanIt, tmp_path: Path) -> None:
    plan = plan_it("heads=1,4", "seed=0,1,2")
    assert [(job.config.heads, job.config.seed) for job in plan.jobs] == [(h, s) for h in (1, 4) for s in (0, 1, 2)]
    assert [job.label for job in plan.jobs[:2]] == ["heads=1 seed=0", "heads=1 seed=1"]
    assert plan.arms == [{"heads": 1}, {"heads": 4}]
    assert plan.seeds == [0, 1, 2]
    assert plan.varying == ["heads"]
    assert plan.group == tmp_path / "runs" / "single"


def test_paired_lists_make_as_many_jobs_as_pairs(plan_it: PlanIt) -> None:
    plan = plan_it("(heads,kv_heads)=(8,8),(8,2),(4,1)")
    assert [(job.geometry.heads, job.geometry.kv_heads) for job in plan.jobs] == [(8, 8), (8, 2), (4, 1)]


def test_a_config_group_may_stand_in_a_pair(plan_it: PlanIt) -> None:
    plan = plan_it("(attention,latent_dim,heads)=(grouped,null,8),(latent,8,4)")
    assert [(job.geometry.attention, job.geometry.heads) for job in plan.jobs] == [("grouped", 8), ("latent", 4)]
    assert plan.jobs[1].geometry.latent_dim == 8


@pytest.mark.parametrize("words", [["training.learning_rate=1e-5,0.00001", "heads=4,4"], ["heads=4,4,4,4"]])
def test_equal_points_are_one_run_however_they_are_written(plan_it: PlanIt, words: list[str]) -> None:
    plan = plan_it(*words)
    assert len(plan.jobs) == 1
    assert len(plan.merged) == 3


def test_a_value_is_the_same_swept_or_given_alone(plan_it: PlanIt) -> None:
    for written in ("1e-5", "1e-06", "1"):
        swept = plan_it(f"training.learning_rate={written},0.5").jobs[0]
        alone = plan_it(f"training.learning_rate={written}").jobs[0]
        assert swept.run_id == alone.run_id
        assert isinstance(swept.config.training.learning_rate, float)
    assert plan_it('model.name="a,b",c').jobs[0].config.model.name == "a,b"


def test_points_that_cannot_be_are_named_with_their_reasons(plan_it: PlanIt) -> None:
    plan = plan_it("heads=3,4,0", "seed=0,x")
    assert [job.label for job in plan.jobs] == ["heads=4 seed=0"]
    reasons = {point.label: point.reason for point in plan.invalid}
    assert len(reasons) == 5
    assert "heads=3 does not divide d_model=16" in reasons["heads=3 seed=0"]
    assert "heads=0" in reasons["heads=0 seed=0"]
    assert "seed='x'" in reasons["heads=4 seed=x"]


def test_a_sweep_without_one_possible_point_is_an_error_that_says_why(plan_it: PlanIt) -> None:
    with pytest.raises(ConfigError, match="heads=3 does not divide d_model=16"):
        plan_it("heads=3,5")


def test_a_sweep_is_known_by_its_runs_so_resume_never_is_refused(plan_it: PlanIt) -> None:
    with pytest.raises(ConfigError, match="group=another_name"):
        plan_it("heads=1,2", "resume=never")


def test_hydra_composes_once_for_each_choice_of_groups_not_for_each_point() -> None:
    calls = []

    def counted(overrides):
        calls.append(list(overrides))
        return composed(overrides)

    request = read_request(["model=nano,mini", "heads=1,2", "seed=range(50)"])
    found = list(points(request, counted))
    assert len(found) == 200
    assert [call[-1] for call in calls] == ["model=nano", "model=mini"]
    assert {(p.config.model.name, p.config.heads, p.config.seed) for p in found if p.config is not None} == {
        (m, h, s) for m in ("nano", "mini") for h in (1, 2) for s in range(50)
    }


def test_a_group_that_does_not_compose_makes_its_points_invalid_not_the_sweep() -> None:
    def half(overrides):
        if "model=mini" in overrides:
            raise ConfigError("no such model here")
        return composed(overrides)

    first, second = points(read_request(["model=nano,mini"]), half)
    assert first.config is not None
    assert second.reason == "no such model here"


def test_the_plan_says_what_is_finished_and_what_is_left(finished: SweepPlan, plan_it: PlanIt) -> None:
    plan = plan_it("heads=1,2,8")
    assert [job.is_missing for job in plan.jobs] == [False, False, True]
    assert [job.is_missing for job in plan_it("heads=1,2", "training.max_steps=13").jobs] == [True, True]
