from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from analysis.cells import Cells, cells
from analysis.checks.convergence import Convergence, convergence
from analysis.load import typed

MakeRuns = Callable[..., pd.DataFrame]
Noisy = Callable[..., dict[int, list[float]]]
STEPS = range(100, 2001, 100)


def of(runs: pd.DataFrame, gap: Callable[[float], float], loss: Callable[[float], float]) -> Convergence:
    """Runs whose loss is `loss(share of training)`, with `gap(share)` on top at 8 heads, and a little noise."""
    noise = np.random.default_rng(0).normal(0, 1e-4, size=(len(runs), len(STEPS)))
    steps = pd.DataFrame(
        {
            "run_id": run,
            "step": step,
            "val/loss": loss(step / 2000) + (gap(step / 2000) if heads == 8 else 0) + noise[row, c],
        }
        for row, (run, heads) in enumerate(zip(runs["run_id"], runs["heads"], strict=True))
        for c, step in enumerate(STEPS)
    )
    found = convergence(cells_of(runs), steps, 1, 8)
    assert found is not None
    return found


def cells_of(runs: pd.DataFrame) -> Cells:
    return cells(typed(runs, "heads", "val/loss"), "heads", "val/loss")


@pytest.fixture
def runs(make_runs: MakeRuns, noisy: Noisy) -> pd.DataFrame:
    return make_runs(noisy({1: 1.9, 8: 1.92}))


def test_a_gap_that_shrinks_may_be_speed(runs: pd.DataFrame) -> None:
    found = of(runs, gap=lambda share: 0.04 * (1.25 - share), loss=lambda share: 2.0)
    assert found.shrinks
    flagged = found.flagged(0.01)
    assert flagged is not None
    assert flagged.startswith("may be speed of convergence: the gap between 1 and 8 still shrinks (+0.03 at step 1,000")
    assert found.gap["difference"].iloc[-1] == pytest.approx(0.01, abs=1e-3)
    assert (found.gap["low"] < found.gap["difference"]).all()


def test_a_gap_that_stays_over_a_loss_that_has_settled_is_not_flagged(runs: pd.DataFrame) -> None:
    found = of(runs, gap=lambda share: 0.04, loss=lambda share: 2.0)
    assert found.flagged(0.01) is None


def test_a_loss_that_still_falls_is_flagged_and_gives_a_difference_in_steps(runs: pd.DataFrame) -> None:
    found = of(runs, gap=lambda share: 0.04, loss=lambda share: 2.0 - 0.2 * share)
    assert found.still_falls == pytest.approx(0.02, abs=5e-4)
    assert found.steps_of(0.01) == pytest.approx(100, rel=0.02)
    assert (
        found.flagged(0.01)
        == "may be speed of convergence: val/loss still improves by 0.02 over the last tenth of training"
    )
    assert found.flagged(0.03) is None


def test_too_few_evaluations_tell_nothing(runs: pd.DataFrame) -> None:
    steps = pd.DataFrame({"run_id": runs["run_id"], "step": 10, "val/loss": 1.0})
    assert convergence(cells_of(runs), steps, 1, 8) is None
    assert convergence(cells_of(runs), pd.DataFrame({"run_id": [], "step": []}), 1, 8) is None
