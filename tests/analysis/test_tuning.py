from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from analysis.findings import AnalysisError
from analysis.load import typed
from analysis.question import Question
from analysis.tuning import LEARNING_RATE, tuned
from analysis.verdict import judge

MakeRuns = Callable[..., pd.DataFrame]


@pytest.fixture
def grid(make_runs: MakeRuns) -> pd.DataFrame:
    """Seeds 0 and 1 to tune on, 2 to 7 to test: one head likes 0.001, four like 0.003; 0.01 suits neither."""
    wobble = np.array([0, 0.001, -0.001, 0.002, -0.002, 0.0005, 0.0007, -0.0003])
    loss = {(1, 0.001): 1.80, (1, 0.003): 1.85, (1, 0.01): 2.0, (4, 0.001): 1.90, (4, 0.003): 1.70, (4, 0.01): 2.0}
    tables = [
        make_runs({heads: list(mean + np.roll(wobble, heads))}, **{LEARNING_RATE: rate}).assign(
            run_id=lambda t, rate=rate: t["run_id"] + f"-lr{rate}"
        )
        for (heads, rate), mean in loss.items()
    ]
    return typed(pd.concat(tables), "heads", "val/loss")


def test_each_arm_keeps_its_own_best_and_loses_the_seeds_it_was_chosen_on(grid: pd.DataFrame) -> None:
    found = tuned(grid, "heads", "val/loss", tuning_seeds=[0, 1])
    assert found.choice["chosen"].to_dict() == {1: 0.001, 4: 0.003}
    assert set(found.runs["seed"]) == {2, 3, 4, 5, 6, 7}
    assert set(zip(found.runs["heads"], found.runs[LEARNING_RATE], strict=True)) == {(1, 0.001), (4, 0.003)}


def test_the_choice_looks_at_no_test_seed(grid: pd.DataFrame) -> None:
    changed = grid.copy()
    changed.loc[(changed["seed"] > 1) & (changed[LEARNING_RATE] == 0.01), "val/loss"] = 0.1
    assert tuned(changed, "heads", "val/loss", [0, 1]).choice["chosen"].to_dict() == {1: 0.001, 4: 0.003}


def test_a_choice_at_the_edge_of_the_values_tried_is_named(grid: pd.DataFrame) -> None:
    (finding,) = tuned(grid, "heads", "val/loss", [0, 1]).findings
    assert finding.text.endswith("lies at the edge of those tried for 1 (0.001)")


def test_a_value_that_failed_on_a_tuning_seed_is_not_chosen(grid: pd.DataFrame) -> None:
    broken = (grid["heads"] == 4) & (grid[LEARNING_RATE] == 0.003) & (grid["seed"] == 1)
    grid.loc[broken, "status"] = "diverged"
    assert tuned(grid, "heads", "val/loss", [0, 1]).choice["chosen"].to_dict() == {1: 0.001, 4: 0.001}


def test_sensitivity_is_the_mean_loss_over_the_best(grid: pd.DataFrame) -> None:
    choice = tuned(grid, "heads", "val/loss", [0, 1]).choice
    assert choice.loc[1, "sensitivity"] == pytest.approx((0 + 0.05 + 0.2) / 3, abs=0.002)


def test_the_verdict_changes_with_tuning(grid: pd.DataFrame) -> None:
    shared = judge(grid[grid[LEARNING_RATE] == 0.001], Question(margin=0.02)).verdicts[0]
    found = tuned(grid, "heads", "val/loss", [0, 1])
    (fair,) = judge(found.runs, Question(margin=0.02, varying=(LEARNING_RATE,))).verdicts
    assert (shared.answer, fair.answer) == ("worse_throughout", "every_step_helps")
    assert "training.learning_rate" not in fair.condition


def test_an_arm_without_a_choice_or_no_seed_to_test_on_is_refused(grid: pd.DataFrame) -> None:
    with pytest.raises(AnalysisError, match="none to test on"):
        tuned(grid, "heads", "val/loss", range(8))
    grid.loc[grid["heads"] == 4, "status"] = "failed"
    with pytest.raises(AnalysisError, match=r"heads=4 has no config\.training\.learning_rate"):
        tuned(grid, "heads", "val/loss", [0, 1])
