from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.cells import Cells, cells
from analysis.load import typed
from analysis.shape import best_arm, shape, trend, two_lines

MakeRuns = Callable[..., pd.DataFrame]
Noisy = Callable[..., dict[int, list[float]]]
Rng = np.random.Generator
HEADS = [1, 2, 4, 8, 16]


def of(runs: pd.DataFrame) -> Cells:
    return cells(typed(runs, "heads", "val/loss"), "heads", "val/loss")


def table(rng: Rng, means: list[float], seeds: int = 8, sd: float = 0.1) -> pd.DataFrame:
    by_seed = rng.normal(0, 1, size=(seeds, 1))
    return pd.DataFrame(np.array(means) + by_seed + rng.normal(0, sd, size=(seeds, len(means))), columns=HEADS)


def test_trend_is_pages_test_in_both_orders(rng: Rng) -> None:
    values = table(rng, [1.0, 0.9, 0.8, 0.7, 0.6])
    found = trend(values, "val/loss")
    falling = stats.page_trend_test(values.to_numpy(), predicted_ranks=[5, 4, 3, 2, 1])
    assert found.p_better == pytest.approx(falling.pvalue)
    assert found.p_worse == pytest.approx(stats.page_trend_test(values.to_numpy()).pvalue)
    assert found.p_better < 0.001 < 0.99 < found.p_worse


def test_a_metric_that_is_better_higher_turns_the_trend(rng: Rng) -> None:
    values = table(rng, [0.5, 0.6, 0.7, 0.8, 0.9])
    assert trend(values, "val/accuracy").p_better < 0.001
    assert trend(values, "val/loss").p_worse < 0.001


def test_two_lines_finds_a_u_and_its_turn(rng: Rng) -> None:
    found = two_lines(table(rng, [1.0, 0.5, 0.2, 0.5, 0.8]), "val/loss")
    assert found.p < 0.01
    assert found.turn == 4
    assert found.slope_before < 0 < found.slope_after


def test_two_lines_uses_least_squares_slopes_of_a_doubling(rng: Rng) -> None:
    values = table(rng, [1.0, 0.5, 0.2, 0.5, 0.8])
    found = two_lines(values, "val/loss")
    mean = values.mean().to_numpy()
    assert found.slope_before == pytest.approx(np.polyfit([0, 1, 2], mean[:3], 1)[0])
    assert found.slope_after == pytest.approx(np.polyfit([2, 3, 4], mean[2:], 1)[0])
    interval = stats.ttest_1samp(values[16] - values[4], 0).confidence_interval()
    assert found.rise == pytest.approx(mean[4] - mean[2])
    assert (found.rise_low, found.rise_high) == pytest.approx((interval.low, interval.high))


def test_two_lines_pays_for_every_turn_it_tries(rng: Rng) -> None:
    values = table(rng, [1.0, 0.9, 0.85, 0.9, 1.0])
    found = two_lines(values, "val/loss")
    slopes = values[[4, 8, 16]].to_numpy() @ np.array([-0.5, 0, 0.5])
    before = values[[1, 2, 4]].to_numpy() @ np.array([-0.5, 0, 0.5])
    rises = float(stats.ttest_1samp(slopes, 0, alternative="greater")[1])  # pyright: ignore[reportArgumentType]
    falls = float(stats.ttest_1samp(before, 0, alternative="less")[1])  # pyright: ignore[reportArgumentType]
    assert found.turn == 4
    assert found.p == pytest.approx(3 * max(rises, falls))


@pytest.mark.parametrize("means", [[1.0, 0.8, 0.6, 0.4, 0.2], [1.0, 0.4, 0.2, 0.2, 0.2], [0.2, 0.3, 0.4, 0.8, 1.0]])
def test_a_curve_without_a_turn_has_none(rng: Rng, means: list[float]) -> None:
    assert two_lines(table(rng, means), "val/loss").p > 0.05


def test_an_inverted_u_of_the_loss_is_no_turn_from_better_to_worse_but_one_of_an_accuracy_is(rng: Rng) -> None:
    hill = table(rng, [0.2, 0.6, 0.9, 0.6, 0.2])
    assert two_lines(hill, "val/loss").p > 0.5
    assert two_lines(hill, "val/accuracy").p < 0.01


def test_the_best_head_count_is_made_of_counts_that_ran(rng: Rng) -> None:
    sure = best_arm(table(rng, [1.0, 0.5, 0.0, 0.5, 1.0], sd=0.05), "val/loss", rng)
    assert (sure.arm, sure.low, sure.high) == (4, 4, 4)
    unsure = best_arm(table(rng, [1.0, 0.02, 0.0, 0.02, 1.0], sd=0.05), "val/loss", rng)
    assert unsure.low in (2, 4)
    assert unsure.high in (4, 8)
    assert unsure.low < unsure.high
    assert sum(unsure.shares.values()) == pytest.approx(1.0)
    assert unsure.shares[1] == unsure.shares[16] == 0.0


def test_the_best_accuracy_is_the_highest(rng: Rng) -> None:
    assert best_arm(table(rng, [0.1, 0.2, 0.9, 0.3, 0.2]), "val/accuracy", rng).arm == 4


def test_the_shape_uses_the_seeds_that_all_arms_have_and_names_the_others(
    make_runs: MakeRuns, noisy: Noisy, rng: Rng
) -> None:
    runs = make_runs(noisy(dict.fromkeys(HEADS, 1.9), seeds=8))
    runs = runs[~((runs["heads"] == 16) & (runs["seed"] == 5))]
    found = shape(of(runs), rng)
    assert found.best is not None
    assert found.best.seeds == 7
    assert "without seed 5" in found.findings[0].text


@pytest.mark.parametrize(
    ("arms", "seeds", "parts", "says"),
    [
        (1, 6, (False, False, False), "no shape can be told"),
        (2, 6, (False, False, True), "a trend and a turn need at least 3"),
        (3, 6, (True, False, True), "a turn needs at least 4"),
        (4, 6, (True, True, True), None),
        (4, 1, (False, False, False), "1 shared seeds"),
        (4, 3, (True, True, True), "hints, not findings"),
    ],
)
def test_what_too_few_arms_or_seeds_cannot_tell_is_said(
    make_runs: MakeRuns, noisy: Noisy, rng: Rng, arms: int, seeds: int, parts: tuple[bool, ...], says: str | None
) -> None:
    found = shape(of(make_runs(noisy(dict.fromkeys(HEADS[:arms], 1.9), seeds=seeds))), rng)
    assert (found.trend is not None, found.turn is not None, found.best is not None) == parts
    assert [f.text for f in found.findings] == [] if says is None else says in " ".join(map(str, found.findings))
