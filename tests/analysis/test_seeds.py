import doctest
from math import ceil

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.power import TTestPower

from analysis import seeds
from analysis.findings import AnalysisError
from analysis.seeds import (
    pairing_gain,
    plan,
    power_beyond,
    power_inside,
    seeds_for_plateau,
    seeds_needed,
    settle,
)
from analysis.stats import t_interval

Rng = np.random.Generator


def test_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(seeds).failed == 0


@pytest.mark.parametrize(
    ("difference", "half", "four_fifths"),
    [(0.002, 17, 8), (0.003, 9, 5), (0.005, 5, 4), (0.01, 3, 3)],
)
def test_seeds_for_the_published_spread_of_nanogpt(difference: float, half: int, four_fifths: int) -> None:
    sd = 0.0027
    assert seeds_needed(sd * np.sqrt(2 * (1 - 0.5)), difference) == half
    assert seeds_needed(sd * np.sqrt(2 * (1 - 0.8)), difference) == four_fifths


@pytest.mark.parametrize("effect", [0.3, 0.55, 1.0, 1.7])
@pytest.mark.parametrize("contrasts", [1, 4])
def test_the_planner_agrees_with_statsmodels_to_the_seed(effect: float, contrasts: int) -> None:
    exact = TTestPower().solve_power(effect, alpha=0.05 / contrasts, power=0.8)
    assert seeds_needed(1.0, effect, contrasts=contrasts) == ceil(exact)


def test_power_is_statsmodels() -> None:
    # The chance of the wrong side is left out here and is not there; at these effects it is below 1e-4.
    for n, effect in ((6, 1.0), (10, 1.5), (20, 0.8)):
        assert power_beyond(n, 1.0, effect) == pytest.approx(TTestPower().power(effect, n, 0.05), abs=1e-4)


@pytest.mark.parametrize(("n", "difference"), [(6, 0.0), (10, 0.7), (25, 1.2)])
def test_power_of_a_plateau_is_what_simulation_finds(n: int, difference: float, rng: Rng) -> None:
    low, high = t_interval(rng.normal(difference, 1.4, size=(20_000, n, 1)), 0.90)
    found = ((low > -2) & (high < 2)).mean()
    assert power_inside(n, 1.4, difference, 2.0) == pytest.approx(found, abs=0.01)


def test_one_seed_fewer_than_planned_is_too_few() -> None:
    n = seeds_needed(1.0, 0.7, margin=0.1)
    assert n is not None
    assert power_beyond(n, 1.0, 0.7, 0.1) >= 0.8 > power_beyond(n - 1, 1.0, 0.7, 0.1)
    assert seeds_needed(0.01, 1.0) == 2
    n = seeds_for_plateau(1.0, 0.5)
    assert n is not None
    assert power_inside(n, 1.0, 0, 0.5) >= 0.8 > power_inside(n - 1, 1.0, 0, 0.5)


def test_a_difference_at_the_margin_is_not_settled_by_seeds() -> None:
    found = settle(10, mean=0.0100001, sd=0.01, margin=0.01, contrasts=4)
    assert found.seeds is None
    assert found.sentence.startswith("more than 1,000 seeds")


def test_settling_asks_for_the_label_on_the_side_where_the_difference_lies() -> None:
    outside = settle(6, mean=-0.05, sd=0.02, margin=0.02, contrasts=4)
    assert outside.seeds == max(7, seeds_needed(0.02, 0.05, margin=0.02, contrasts=4) or 0)
    inside = settle(6, mean=0.001, sd=0.03, margin=0.02, contrasts=4)
    assert inside.seeds == seeds_for_plateau(0.03, 0.02, 0.001)
    assert [outside.low, outside.seeds, outside.high] == sorted(
        filter(None, [outside.low, outside.seeds, outside.high])
    )


def test_a_plan_needs_at_least_one_seed_more_than_there_are_and_never_under_six() -> None:
    assert settle(9, mean=-1.0, sd=0.01, margin=0.1, contrasts=1).seeds == 10
    assert settle(2, mean=-1.0, sd=0.01, margin=0.1, contrasts=1).seeds == 6
    assert settle(3, mean=-1.0, sd=0.0, margin=0.1, contrasts=1).seeds == 6


def pilot(rng: Rng, seeds: int, arms: int, noise: float, by_seed: float) -> pd.DataFrame:
    values = rng.normal(0, noise, size=(seeds, arms)) + rng.normal(0, by_seed, size=(seeds, 1)) + np.arange(arms)
    return pd.DataFrame(values)


def test_a_pilots_spread_is_that_of_paired_differences(rng: Rng) -> None:
    found = plan(pilot(rng, 400, 4, 0.3, 2.0), difference=0.5)
    assert found.sd_of_differences == pytest.approx(0.3 * np.sqrt(2), rel=0.05)
    assert found.seeds == max(6, seeds_needed(found.sd_of_differences, 0.5, contrasts=3) or 0)


def test_two_arms_give_the_plain_standard_deviation_of_their_differences(rng: Rng) -> None:
    table = pilot(rng, 7, 2, 0.3, 2.0)
    assert plan(table, 0.5).sd_of_differences == pytest.approx((table[1] - table[0]).std())


def test_pairing_gain_tells_how_much_the_shared_seed_is_worth(rng: Rng) -> None:
    assert pairing_gain(pilot(rng, 2000, 3, 1.0, 1.0)) == pytest.approx(2.0, rel=0.1)
    assert pairing_gain(pilot(rng, 2000, 3, 1.0, 0.0)) == pytest.approx(1.0, rel=0.1)


def test_a_pilot_without_spread_or_a_question_without_a_difference_is_refused(rng: Rng) -> None:
    with pytest.raises(AnalysisError, match="1 complete seeds and 3 arms"):
        plan(pilot(rng, 1, 3, 1.0, 1.0), 0.5)
    with pytest.raises(AnalysisError, match="above 0"):
        plan(pilot(rng, 5, 3, 1.0, 1.0), 0.0)
    with pytest.raises(AnalysisError, match="no spread"):
        plan(pd.DataFrame([[1.0, 2.0], [1.0, 2.0]]), 0.5)
