from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from analysis.cells import Cells, cells
from analysis.checks.frontier import frontier, knee_of, on_frontier
from analysis.findings import AnalysisError
from analysis.load import typed

MakeRuns = Callable[..., pd.DataFrame]
Rng = np.random.Generator
WOBBLE = np.array([0.0, 0.01, -0.01])


def of(make_runs: MakeRuns, means: dict[int, float], costs: dict[int, float], name: str = "cache/bytes") -> Cells:
    runs = make_runs({heads: list(mean + WOBBLE) for heads, mean in means.items()})
    runs[name] = runs["heads"].map(costs)
    return cells(typed(runs, "heads", "val/loss"), "heads", "val/loss")


def test_dominated_points_are_off_the_frontier_and_equal_ones_share_it() -> None:
    values = np.array([3.0, 2.0, 2.0, 2.5, 1.0, 1.0])
    costs = np.array([1.0, 2.0, 3.0, 1.5, 9.0, 9.0])
    assert on_frontier(values, costs).tolist() == [True, True, False, True, True, True]


def test_the_knee_is_the_point_farthest_below_the_line() -> None:
    # In log cost 0, 1, 2, 3 and loss 4, 1, 0.5, 0 the second point lies lowest under the line from (0, 4) to (3, 0).
    assert knee_of(np.array([4.0, 1.0, 0.5, 0.0]), np.exp([0.0, 1.0, 2.0, 3.0])) == 1
    # A dominated point is no knee, wherever it stands.
    assert knee_of(np.array([4.0, 4.5, 1.0, 0.5, 0.0]), np.exp([0.0, 0.5, 1.0, 2.0, 3.0])) == 2


@pytest.mark.parametrize(
    "values",
    [[2.0, 1.0], [3.0, 2.0, 1.0], [3.0, 2.9, 1.0]],
    ids=["two points", "a straight line", "a bulge upwards"],
)
def test_no_knee_is_named_where_there_is_none(values: list[float]) -> None:
    assert knee_of(np.array(values), np.exp(np.arange(len(values), dtype=float))) is None


def test_a_frontier_by_hand(make_runs: MakeRuns, rng: Rng) -> None:
    found = frontier(of(make_runs, {1: 2.0, 2: 1.0, 4: 0.9, 8: 1.5}, {1: 10, 2: 20, 4: 80, 8: 40}), "cache/bytes", rng)
    assert found.points["on_frontier"].tolist() == [True, True, True, False]
    assert found.points["share"].tolist() == [1.0, 1.0, 1.0, 0.0]
    assert found.points["value"].tolist() == pytest.approx([2.0, 1.0, 0.9, 1.5])
    assert found.points["cost_low"].tolist() == found.points["cost"].tolist()
    assert found.knee == 2
    assert found.knee_shares == {2: 1.0}


def test_a_close_call_has_a_share_between(make_runs: MakeRuns, rng: Rng) -> None:
    runs = make_runs({1: [2.0, 2.0, 2.0, 2.0], 2: [1.9, 2.05, 1.98, 2.02]})
    runs["cache/bytes"] = runs["heads"]
    found = frontier(cells(typed(runs, "heads", "val/loss"), "heads", "val/loss"), "cache/bytes", rng)
    assert 0.2 < found.points["share"].to_dict()[2] < 0.9


def test_a_cost_that_is_better_higher_counts_the_other_way_round(make_runs: MakeRuns, rng: Rng) -> None:
    speed = {1: 100.0, 2: 50.0, 4: 60.0}
    cells = of(make_runs, {1: 2.0, 2: 1.5, 4: 1.0}, speed, "decode/tokens_per_second")
    found = frontier(cells, "decode/tokens_per_second", rng)
    assert found.points["on_frontier"].tolist() == [True, False, True]
    assert found.points["cost"].tolist() == [100.0, 50.0, 60.0]


def test_equal_costs_leave_nothing_to_trade_and_say_so(make_runs: MakeRuns, rng: Rng) -> None:
    found = frontier(of(make_runs, {1: 2.0, 2: 1.0, 4: 1.5}, {1: 5, 2: 5, 4: 5}), "cache/bytes", rng)
    assert found.points["on_frontier"].tolist() == [False, True, False]
    assert (found.knee, found.knee_shares) == (None, {})
    assert "nothing to trade" in found.findings[0].text


def test_a_missing_cell_counts_for_nothing(make_runs: MakeRuns, rng: Rng) -> None:
    runs = make_runs({1: [1.0, 1.0, 1.0, 1.0], 2: [1.2, 1.2, 1.2]})
    runs["cache/bytes"] = runs["heads"]
    found = frontier(cells(typed(runs, "heads", "val/loss"), "heads", "val/loss"), "cache/bytes", rng)
    assert found.points["share"].tolist() == [1.0, 0.0]


def test_an_arm_whose_cost_is_unknown_is_left_off_by_name(make_runs: MakeRuns, rng: Rng) -> None:
    found = frontier(of(make_runs, {1: 2.0, 2: 1.0, 4: 0.5}, {1: 5, 2: 6}), "cache/bytes", rng)
    assert found.points.index.tolist() == [1, 2]
    assert "cache/bytes is not known for 4" in found.findings[0].text


def test_a_frontier_without_costs_is_refused(make_runs: MakeRuns, rng: Rng) -> None:
    cells = of(make_runs, {1: 2.0, 2: 1.0}, {1: 5})
    with pytest.raises(AnalysisError, match="known for 1 arms"):
        frontier(cells, "cache/bytes", rng)
    with pytest.raises(AnalysisError, match="no column 'cost/nothing'"):
        frontier(cells, "cost/nothing", rng)
