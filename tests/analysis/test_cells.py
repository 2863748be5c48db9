import doctest
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis import cells as module
from analysis.cells import (
    Cells,
    arms,
    at_common_step,
    cells,
    findings_of,
    interquartile_mean,
    matched,
    matching_findings,
    spread_findings,
    unequal_tokens,
)
from analysis.findings import AnalysisError
from analysis.load import typed
from src.record import STATUSES

MakeRuns = Callable[..., pd.DataFrame]


def of(runs: pd.DataFrame, planned: bool = False, metric: str = "val/loss") -> Cells:
    return cells(typed(runs, "heads", metric), "heads", metric, planned)


def test_twelve_planned_and_eight_counted_names_the_four_and_why(make_runs: MakeRuns) -> None:
    runs = make_runs({1: [1.9] * 4, 4: [1.8] * 4, 16: [1.7] * 4})
    for row, status in ((1, "failed"), (6, "oom"), (9, "not_run"), (11, "diverged")):
        runs.loc[row, "status"] = status
    runs["error"] = None
    runs.loc[1, "error"] = "Traceback ...\nRuntimeError: disk full"
    coverage = of(runs, planned=True).coverage
    assert (coverage.planned, coverage.used) == (12, 8)
    assert coverage.sentence == (
        "8 of 12 planned runs are counted; left out: heads=1 seed 1 (failed: RuntimeError: disk full), "
        "heads=4 seed 2 (oom), heads=16 seed 1 (not run), heads=16 seed 3 (diverged)"
    )


def test_only_endings_that_depend_on_the_result_make_what_remains_look_too_good(make_runs: MakeRuns) -> None:
    runs = make_runs({1: [1.9, 1.9], 4: [1.8, 1.8], 8: [1.8, np.nan]})
    runs.loc[1, "status"] = "preempted"
    runs.loc[3, "status"] = "diverged"
    coverage = of(runs).coverage
    assert coverage.outcomes(1) == []
    assert coverage.outcomes(4) == ["heads=4 seed 1 (diverged)"]
    assert coverage.outcomes(8) == ["heads=8 seed 1 (finished without a finite val/loss: nan)"]
    texts = [finding.text for finding in findings_of(coverage) if finding.about == "outcome"]
    assert texts == ["runs of heads=4, heads=8 are left out because of their result; what remains looks too good"]


@pytest.mark.parametrize("loss", [np.nan, np.inf])
def test_a_finished_run_without_a_finite_loss_is_never_averaged(make_runs: MakeRuns, loss: float) -> None:
    found = of(make_runs({1: [1.0, 2.0, loss]}))
    assert found.values[1].mean() == 1.5
    assert found.coverage.used == 2


def test_of_a_seed_run_twice_the_first_that_finished_counts(make_runs: MakeRuns) -> None:
    first, better = make_runs({4: [1.9]}), make_runs({4: [1.2]})
    broken = make_runs({4: [np.nan]}).assign(status="failed", run_id="a", started_at="2024-01-01T00:00")
    first = first.assign(run_id="c", started_at="2024-01-02T00:00")
    better = better.assign(run_id="b", started_at="2024-01-03T00:00")
    found = of(pd.concat([better, first, broken]))
    assert found.values.loc[0, 4] == 1.9
    assert found.coverage.used == found.coverage.planned == 1
    assert found.coverage.repeats["run_id"].tolist() == ["b"]
    assert "1 repeated runs are not counted" in found.coverage.sentence


def test_a_hole_in_the_grid_is_accounted_for_unless_the_plan_had_it(make_runs: MakeRuns) -> None:
    runs = make_runs({1: [1.9, 1.9], 2: [1.8]})
    assert of(runs).coverage.names == ["heads=2 seed 1 (no record)"]
    assert of(runs, planned=True).coverage.names == []


def test_a_run_without_heads_or_seed_is_named_and_in_no_cell(make_runs: MakeRuns) -> None:
    runs = make_runs({1: [1.9, 1.9], 2: [1.8, 1.8]})
    runs.loc[3, "seed"] = None
    coverage = of(runs).coverage
    assert coverage.unplaced == ("heads2-seed1",)
    assert "heads2-seed1" in coverage.sentence


def test_all_failed_says_so_with_every_name(make_runs: MakeRuns) -> None:
    runs = make_runs({1: [None], 2: [None]}).assign(status="failed")
    with pytest.raises(AnalysisError, match=r"no run has a finite val/loss: 0 of 2 .*heads=1 seed 0 \(failed\)"):
        of(runs)


@given(st.lists(st.tuples(st.sampled_from([1, 2, 4]), st.integers(0, 3), st.sampled_from(STATUSES)), min_size=1))
def test_used_and_left_out_add_up_to_the_plan_for_any_table(rows: list[tuple[int, int, str]]) -> None:
    table = pd.DataFrame(
        [
            {"run_id": f"r{i}", "heads": heads, "seed": seed, "status": status, "val/loss": 1.0 + i}
            for i, (heads, seed, status) in enumerate(rows)
        ]
    )
    if not any(status == "finished" for _, _, status in rows):
        return
    found = of(table, planned=True)
    planned = {(heads, seed) for heads, seed, _ in rows}
    finished = {(heads, seed) for heads, seed, status in rows if status == "finished"}
    assert found.coverage.planned == len(planned)
    assert found.coverage.used == found.values.notna().sum().sum() == len(finished)
    left_out = set(zip(found.coverage.left_out["arm"], found.coverage.left_out["seed"], strict=True))
    assert left_out == planned - finished


def history(run: str, losses: dict[int, float]) -> pd.DataFrame:
    return pd.DataFrame({"run_id": run, "step": losses.keys(), "val/loss": losses.values()})


def test_a_slower_arm_that_saw_fewer_tokens_is_flagged(make_runs: MakeRuns) -> None:
    runs = make_runs({1: [1.9, 1.9], 16: [1.95, 1.95]})
    assert unequal_tokens(of(runs)) is None
    runs["train/tokens"] = [1_000_000, 1_000_000, 700_000, 700_000]
    finding = unequal_tokens(of(runs))
    assert finding is not None
    assert finding.text == "runs saw unequal numbers of training tokens (heads=1: 1,000,000, heads=16: 700,000)"


def test_a_run_that_is_left_out_makes_no_comparison_unequal(make_runs: MakeRuns) -> None:
    runs = make_runs({1: [1.9, 1.9], 16: [1.95, 1.95]})
    runs.loc[3, ["status", "train/tokens"]] = ["oom", 100]
    assert unequal_tokens(of(runs)) is None


def test_unknown_tokens_are_said_to_be_unknown(make_runs: MakeRuns) -> None:
    runs = make_runs({1: [1.9, 1.9]}).drop(columns="train/tokens")
    finding = unequal_tokens(of(runs))
    assert finding is not None
    assert "could not be checked" in finding.text


def test_the_common_step_is_the_last_that_every_used_run_has(make_runs: MakeRuns) -> None:
    runs = make_runs({1: [1.5], 16: [1.9]})
    steps = pd.concat(
        [
            history("heads1-seed0", {0: 4.0, 100: 2.0, 200: 1.8, 300: 1.5}),
            history("heads16-seed0", {0: 4.0, 100: 1.9, 200: np.nan, 150: 1.85}),
            history("heads1-seed0", {100: 2.05}),  # logged again by a resumed run: the later row counts
            history("other", {0: 9.0}),
        ]
    )
    common = at_common_step(of(runs), steps)
    assert common.step == 100
    assert list(common.cells.values.loc[0]) == [2.05, 1.9]


def test_the_best_loss_at_a_common_step_is_the_best_up_to_it(make_runs: MakeRuns) -> None:
    runs = make_runs({1: [1.5], 16: [1.9]})
    runs["val/loss_best"] = [1.1, 1.9]
    steps = pd.concat(
        [
            history("heads1-seed0", {0: 4.0, 100: 1.7, 200: 1.8, 300: 1.1}),
            history("heads16-seed0", {200: 1.9, 100: 2.1, 0: 4.0}),
        ]
    )
    common = at_common_step(of(runs, metric="val/loss_best"), steps)
    assert (common.step, list(common.cells.values.loc[0])) == (200, [1.7, 1.9])


def test_no_common_step_is_an_error_that_names_why(make_runs: MakeRuns) -> None:
    found = of(make_runs({1: [1.5], 16: [1.9]}))
    with pytest.raises(AnalysisError, match="no val/loss of heads16-seed0"):
        at_common_step(found, history("heads1-seed0", {0: 4.0}))
    apart = pd.concat([history("heads1-seed0", {100: 2.0}), history("heads16-seed0", {150: 2.0})])
    with pytest.raises(AnalysisError, match="no step has val/loss for all 2 runs"):
        at_common_step(found, apart)


Rng = np.random.Generator


def table_of(runs: pd.DataFrame, rng: Rng) -> pd.DataFrame:
    return arms(cells(typed(runs, "heads", "val/loss"), "heads", "val/loss"), rng)


def row_of(table: pd.DataFrame, arm: int) -> dict[str, float]:
    return {str(name): float(table.at[arm, name]) for name in table.columns}  # pyright: ignore[reportArgumentType]


def test_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(module).failed == 0


def test_an_arm_by_hand(make_runs: MakeRuns, rng: Rng) -> None:
    row = row_of(table_of(make_runs({4: [1.0, 2.0, 3.0, 10.0]}), rng), 4)
    interval = stats.ttest_1samp([1.0, 2.0, 3.0, 10.0], 0).confidence_interval()
    assert (row["n"], row["mean"], row["iqm"], row["best"], row["worst"]) == (4, 4.0, 2.5, 1.0, 10.0)
    assert row["sd"] == pytest.approx(np.sqrt(50 / 3))
    assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high))
    assert 1.0 <= row["iqm_low"] < 2.5 < row["iqm_high"] <= 10.0


def test_one_seed_has_a_mean_and_no_interval(make_runs: MakeRuns, rng: Rng) -> None:
    row = row_of(table_of(make_runs({4: [1.5]}), rng), 4)
    assert row["mean"] == 1.5
    assert all(np.isnan(row[name]) for name in ("sd", "low", "high", "iqm_low", "iqm_high"))


def test_interquartile_mean_leaves_out_a_quarter_at_each_end() -> None:
    assert interquartile_mean(np.array([9.0, 1, 2, 3, 4, -9, 5, 100])) == pytest.approx(np.mean([2, 3, 4, 5]))


def test_costs_stand_beside_and_a_cost_nobody_measured_stays_missing(make_runs: MakeRuns, rng: Rng) -> None:
    runs = make_runs({1: [1.9, 1.9], 2: [1.8, 1.8]})
    runs["decode/ms_per_token"] = [1.0, 3.0, np.nan, np.nan]
    table = table_of(runs, rng)
    assert table["decode/ms_per_token"].tolist() == pytest.approx([2.0, np.nan], nan_ok=True)
    assert "memory/peak_bytes" not in table


def test_rows_that_are_not_matched_to_the_reference_are_marked(make_runs: MakeRuns, rng: Rng) -> None:
    runs = make_runs({1: [1.9, 1.9], 4: [1.8, 1.8]})
    runs.loc[runs["heads"] == 4, "cost/parameters"] *= 2
    ratios = matched(table_of(runs, rng), 1)
    assert ratios["cost/parameters"].tolist() == [1.0, 2.0]
    texts = [finding.text for finding in matching_findings(ratios)]
    assert texts == [
        "cost/parameters is not matched to the reference (4: x2)",
        "cost/flops_per_token, cache/bytes are matched within 1% over all arms",
    ]


def test_arms_that_scatter_unevenly_or_not_at_all_are_named() -> None:
    assert spread_findings(pd.DataFrame({"sd": [0.01, 0.02]}, index=[1, 2])) == []
    (uneven,) = spread_findings(pd.DataFrame({"sd": [0.01, 0.04]}, index=[1, 2]))
    assert "0.01 at 1 and 0.04 at 2" in uneven.text
    (still,) = spread_findings(pd.DataFrame({"sd": [0.01, 0.0]}, index=[1, 2]))
    assert "all seeds of 2 gave the same number" in still.text
