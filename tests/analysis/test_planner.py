"""The planner asks the rule itself, so what it says is what happens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.findings import AnalysisError
from analysis.methods.planned import from_pilots
from analysis.planner import possible_spreads, power_from_pilot, power_of, seeds_to_settle
from analysis.results.__main__ import RESULTS
from analysis.rule.answer import OPEN, judge_many
from analysis.stats import pairing_of
from tests.analysis.export_maker import write_export
from tests.in_process import command


def test_the_power_that_is_said_is_the_power_that_is() -> None:
    said = power_of(8, [0.02, 0.0, 0.0], sd=0.005, correlation=0.3, margin=0.01, studies=1000)
    rng = np.random.default_rng(99)
    shared = np.sqrt(0.3) * rng.normal(size=(1000, 8, 1))
    values = np.array([0.02, 0.0, 0.0]) + 0.005 * (shared + np.sqrt(0.7) * rng.normal(size=(1000, 8, 3)))
    assert said.settled == pytest.approx((judge_many(values, 0.01).code != OPEN).mean(), abs=0.05)
    assert 0.2 < said.settled < 0.99


def test_a_pilot_says_the_power_that_its_continuation_has() -> None:
    for row in from_pilots(200):
        if row["kind"] == "all":
            close = 0.05 + 2.5 * np.sqrt(max(row["said"] * (1 - row["said"]), 0.02) / row["pilots"])
            assert abs(row["said"] - row["is"]) < close


def test_spreads_that_are_left_possible_are_those_of_the_truth() -> None:
    rng = np.random.default_rng(0)
    wide = np.array([1.0, 1.0, 1.0, 4.0]) * rng.normal(size=(30, 4)) + rng.normal(size=(30, 1))
    spreads, alike = possible_spreads(wide, 400, rng)
    assert alike < 0.001
    assert np.median(spreads[200:], axis=0) == pytest.approx([1, 1, 1, 4], rel=0.4)
    _, alike = possible_spreads(rng.normal(size=(30, 4)) + rng.normal(size=(30, 1)), 400, rng)
    assert alike > 0.5


def test_a_pilot_that_may_hide_a_wide_arm_gives_the_power_with_and_without() -> None:
    rng = np.random.default_rng(2)
    plan = seeds_to_settle(np.array([0.02, 0.0, 0.0]) + 0.006 * rng.normal(size=(4, 3)), 0.01, futures=200)
    assert plan.between is not None
    alike, unlike = plan.between[plan.seeds or plan.most]
    assert alike > unlike
    assert f"{unlike:.0%} to {alike:.0%}, by how alike the arms scatter" in plan.sentence


def test_more_seeds_are_asked_for_where_the_spread_is_larger() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(6, 3))
    small = seeds_to_settle(np.array([0.02, 0.0, 0.0]) + 0.004 * noise, 0.01, futures=100)
    large = seeds_to_settle(np.array([0.02, 0.0, 0.0]) + 0.012 * noise, 0.01, futures=100)
    assert small.seeds is not None
    assert large.seeds is None or large.seeds > small.seeds
    assert small.low is not None
    assert small.low <= small.seeds
    assert "80%" not in small.sentence or small.power[small.seeds] >= 0.8


def test_a_plan_that_never_settles_says_so_with_its_range() -> None:
    rng = np.random.default_rng(1)
    plan = seeds_to_settle(0.05 * rng.normal(size=(4, 2)), 0.001, most=20, futures=100)
    assert plan.seeds is None
    assert plan.sentence.startswith("even 20 seeds settle it with only")


def test_a_dry_run_warns_of_a_margin_that_the_seeds_cannot_resolve() -> None:
    wide = power_of(6, [0.0, 0.0, 0.0], sd=0.01, correlation=0.3, margin=0.01, studies=200)
    assert wide.warning is not None
    assert "wider than the margin of 0.01" in wide.warning
    fine = power_of(12, [0.0, 0.0, 0.0], sd=0.002, correlation=0.3, margin=0.01, studies=200)
    assert fine.warning is None
    assert fine.answers["no_difference"] > 0.9
    none = power_of(6, [0.0, 0.0], sd=0.01, correlation=0.3, margin=0.0, studies=50)
    assert "margin of 0" in str(none.warning)


@pytest.mark.parametrize("pilot", [np.ones((1, 3)), np.ones((5, 1)), np.full((4, 2), np.nan)])
def test_a_pilot_without_spread_is_refused(pilot: np.ndarray) -> None:
    with pytest.raises(AnalysisError, match="has no spread"):
        seeds_to_settle(pilot, 0.01)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(AnalysisError, match="a correlation from 0"):
        power_of(6, [0.0, 0.1], sd=0.01, correlation=1.0, margin=0.01)


def test_what_pairing_gained_is_shown() -> None:
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(2000, 1))
    found = pairing_of(np.sqrt(0.75) * shared + np.sqrt(0.25) * rng.normal(size=(2000, 4)))
    assert found.correlation == pytest.approx(0.75, abs=0.03)
    assert found.gain == pytest.approx(4, rel=0.1)
    lost = pairing_of(np.array([[0.0, 1.0], [1.0, 0.1], [0.1, 0.9], [0.9, 0.0]]))
    assert lost.gain < 1
    assert "did not cut" in lost.sentence


# test_pilot
MakeRuns = Callable[..., pd.DataFrame]
Noisy = Callable[..., dict[int, list[float]]]


def test_a_pilots_spread_says_what_the_planned_seeds_can_show(
    make_runs: MakeRuns, noisy: Noisy, tmp_path: Path
) -> None:
    folder = write_export(tmp_path / "pilot", make_runs(noisy({1: 1.9, 2: 1.89}, seeds=6, sd=0.004)))
    enough = power_from_pilot(folder, seeds=20, arms=2, margin=0.02)
    assert "with 20 seeds 2 arms that are all alike are shown to be so in 100% of studies" in enough
    assert "Warning" not in enough
    assert "Warning: with 4 seeds an interval is about +-0.0" in power_from_pilot(folder, 4, 2, margin=0.002)
    assert "no margin is named" in power_from_pilot(folder, 4, 2, margin=None)


def test_a_pilot_of_one_arm_tells_nothing(make_runs: MakeRuns, noisy: Noisy, tmp_path: Path) -> None:
    folder = write_export(tmp_path / "pilot", make_runs(noisy({1: 1.9})))
    assert power_from_pilot(folder, 6, 5, 0.01).startswith("not known")


def test_a_dry_run_with_a_pilot_tells_the_power_and_leaves_nothing_behind(tmp_path: Path) -> None:
    planned = ("-m", "heads=1,2", "seed=0,1,2,3", "training=smoke", "logger=disabled", "sweep.dry_run=true")
    pilot = RESULTS / "farthest_point" / "export"
    shown = command("src.train", *planned, f"sweep.pilot={pilot}", "sweep.margin_nats=0.0001", here=tmp_path)
    assert shown.returncode == 0, shown.stderr
    said = next(line for line in shown.stdout.splitlines() if line.startswith("power"))
    assert "in farthest_point, an interval is about" in said
    assert "with 4 seeds 2 arms that are all alike" in said
    assert "Warning: with 4 seeds" in said
    assert not list(tmp_path.iterdir())
    wrong = command("src.train", *planned, "sweep.pilot=nowhere", here=tmp_path)
    assert wrong.returncode == 2
    assert "nowhere is no export" in wrong.stderr
