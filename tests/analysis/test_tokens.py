from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from analysis.cells import Cells, cells
from analysis.findings import AnalysisError
from analysis.runs import typed
from analysis.tokens import at_common_step, unequal_tokens

MakeRuns = Callable[..., pd.DataFrame]


def of(runs: pd.DataFrame, metric: str = "val/loss") -> Cells:
    return cells(typed(runs, "heads", metric), "heads", metric)


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
    common = at_common_step(of(runs, "val/loss_best"), steps)
    assert (common.step, list(common.cells.values.loc[0])) == (200, [1.7, 1.9])


def test_no_common_step_is_an_error_that_names_why(make_runs: MakeRuns) -> None:
    found = of(make_runs({1: [1.5], 16: [1.9]}))
    with pytest.raises(AnalysisError, match="no val/loss of heads16-seed0"):
        at_common_step(found, history("heads1-seed0", {0: 4.0}))
    apart = pd.concat([history("heads1-seed0", {100: 2.0}), history("heads16-seed0", {150: 2.0})])
    with pytest.raises(AnalysisError, match="no step has val/loss for all 2 runs"):
        at_common_step(found, apart)
