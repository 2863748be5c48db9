import doctest
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from analysis import contrasts as module
from analysis.cells import Cells, cells
from analysis.contrasts import contrasts, improvement, pairs_of
from analysis.findings import AnalysisError
from analysis.load import typed

MakeRuns = Callable[..., pd.DataFrame]
Rng = np.random.Generator
WOBBLE = [0.0, 0.001, -0.001, 0.002, -0.002, 0.0005]


def of(runs: pd.DataFrame, metric: str = "val/loss") -> Cells:
    return cells(typed(runs, "heads", metric), "heads", metric)


def around(mean: float, wobble: list[float] = WOBBLE) -> list[float]:
    return [mean + w for w in wobble]


def test_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(module).failed == 0


def test_a_contrast_by_hand(make_runs: MakeRuns, rng: Rng) -> None:
    # Differences 2 - 1: -0.1, -0.3, -0.2; mean -0.2, SD 0.1, standard error 0.1/sqrt(3), t(2) at 97.5%: 4.302653.
    runs = make_runs({1: [1.5, 1.6, 1.7], 2: [1.4, 1.3, 1.5]})
    (row,) = contrasts(of(runs), 1, 0.05, rng).to_dict("records")
    half = 4.302653 * 0.1 / np.sqrt(3)
    assert (row["fewer"], row["more"], row["pairs"]) == (1, 2, 3)
    assert (row["difference"], row["low"], row["high"]) == pytest.approx((-0.2, -0.2 - half, -0.2 + half), abs=1e-6)
    assert (row["p"], row["p_smallest"]) == (0.25, 0.25)
    assert row["improvement"] == 1.0
    assert row["correlation"] == pytest.approx(0.5)
    assert row["label"] == "INCONCLUSIVE"
    assert "under 6 a sign-flip p cannot fall below 0.25" in row["reason"]


def test_only_seeds_that_both_arms_have_are_paired(make_runs: MakeRuns, rng: Rng) -> None:
    runs = make_runs({1: [1.5, 1.6, 1.7, 9.0], 2: [9.0, 1.3, 1.5, 1.4]})
    runs = runs.drop(index=[3, 4])
    (row,) = contrasts(of(runs), 1, 0.05, rng).to_dict("records")
    assert row["pairs"] == 2
    assert row["difference"] == pytest.approx(-0.25)


def test_what_a_seed_does_to_all_arms_cancels(make_runs: MakeRuns, rng: Rng) -> None:
    by_seed = np.array([0.0, 0.5, -0.4, 0.9, 0.1, -0.3])
    runs = make_runs({1: list(1.9 + by_seed), 2: list(np.array(around(1.8)) + by_seed)})
    (row,) = contrasts(of(runs), 1, 0.05, rng).to_dict("records")
    assert row["label"] == "HELPS"
    assert row["sd"] == pytest.approx(np.std(WOBBLE, ddof=1))


@pytest.mark.parametrize(("more", "label"), [(1.80, "HELPS"), (2.00, "HURTS"), (1.901, "PLATEAU")])
def test_labels_speak_of_more_heads(make_runs: MakeRuns, rng: Rng, more: float, label: str) -> None:
    runs = make_runs({1: around(1.9), 2: around(more, WOBBLE[::-1])})
    assert contrasts(of(runs), 1, 0.02, rng)["label"].tolist() == [label]


def test_with_a_reference_in_the_middle_labels_still_speak_of_more_heads(make_runs: MakeRuns, rng: Rng) -> None:
    runs = make_runs({1: around(1.9), 4: around(1.8, WOBBLE[::-1]), 16: around(1.9)})
    table = contrasts(of(runs), 4, 0.02, rng)
    assert table[["fewer", "more", "label"]].values.tolist() == [[1, 4, "HELPS"], [4, 16, "HURTS"]]
    assert table["difference"].tolist() == pytest.approx([-0.1, 0.1], abs=1e-3)


def test_where_higher_is_better_a_rise_helps(make_runs: MakeRuns, rng: Rng) -> None:
    runs = make_runs({1: [1.0] * 6, 2: [1.0] * 6})
    runs["val/accuracy"] = [*around(0.5), *around(0.7, WOBBLE[::-1])]
    (row,) = contrasts(of(runs, "val/accuracy"), 1, 0.05, rng).to_dict("records")
    assert (row["label"], row["improvement"]) == ("HELPS", 1.0)
    assert row["low"] < row["difference"] < row["high"]
    assert row["difference"] == pytest.approx(0.2, abs=1e-3)


def test_the_ladder_compares_each_head_count_with_the_one_before(make_runs: MakeRuns, rng: Rng) -> None:
    runs = make_runs({1: around(1.9), 2: around(1.8, WOBBLE[::-1]), 8: around(1.9)})
    table = contrasts(of(runs), "previous", 0.02, rng)
    assert table[["fewer", "more", "label"]].values.tolist() == [[1, 2, "HELPS"], [2, 8, "HURTS"]]


@pytest.mark.parametrize(
    ("mean", "lost_arm", "label"),
    [
        (1.80, 2, "INCONCLUSIVE"),
        (1.80, 1, "HELPS"),
        (2.00, 1, "INCONCLUSIVE"),
        (2.00, 2, "HURTS"),
        (1.901, 1, "INCONCLUSIVE"),
        (1.901, 2, "INCONCLUSIVE"),
    ],
)
def test_a_label_that_only_survivors_support_is_not_given(
    make_runs: MakeRuns, rng: Rng, mean: float, lost_arm: int, label: str
) -> None:
    wobble = [*WOBBLE, 0.0015]
    runs = make_runs({1: around(1.9, wobble), 2: around(mean, wobble[::-1])})
    runs.loc[(runs["heads"] == lost_arm) & (runs["seed"] == 6), "status"] = "diverged"
    (row,) = contrasts(of(runs), 1, 0.02, rng).to_dict("records")
    assert row["label"] == label
    if label == "INCONCLUSIVE":
        assert "survivors prove nothing" in row["reason"]
        assert row["seeds_needed"] is None


def test_an_open_contrast_says_how_many_seeds_would_settle_it(make_runs: MakeRuns, rng: Rng) -> None:
    wide = [0.0, 0.05, -0.05, 0.03, -0.03, 0.01]
    runs = make_runs({1: around(1.9), 2: around(1.85, wide)})
    (row,) = contrasts(of(runs), 1, 0.02, rng).to_dict("records")
    assert row["label"] == "INCONCLUSIVE"
    assert row["seeds_needed"] > 6
    assert str(row["seeds_needed"]) in row["seeds_plan"]


def test_improvement_is_the_share_of_seeds_with_wilsons_interval() -> None:
    share, low, high = improvement(np.array([-1.0, -2.0, 0.0, 3.0]), lower_is_better=True)
    # Wilson 1927 for 2.5 of 4: centre (p + z^2/2n) / (1 + z^2/n).
    z2 = 1.959964**2
    centre = (0.625 + z2 / 8) / (1 + z2 / 4)
    assert share == 0.625
    assert (low + high) / 2 == pytest.approx(centre, abs=1e-6)


def test_an_unknown_reference_and_arms_without_shared_seeds_are_refused(make_runs: MakeRuns, rng: Rng) -> None:
    with pytest.raises(AnalysisError, match="the reference 3 has no usable run; those with one: 1, 2"):
        pairs_of([1, 2], 3)
    runs = make_runs({1: [1.9, 1.9], 2: [1.8, 1.8]})
    runs.loc[runs["heads"] == 2, "seed"] += 1
    assert set(runs["seed"]) == {0, 1, 2}
    with pytest.raises(AnalysisError, match="no two arms share two seeds"):
        contrasts(of(runs), 1, 0.02, rng)


def test_arms_that_never_differ_are_compared_without_a_warning(make_runs: MakeRuns, rng: Rng) -> None:
    (row,) = contrasts(of(make_runs({1: [1.9] * 6, 2: [1.9] * 6})), 1, 0.02, rng).to_dict("records")
    assert (row["label"], row["difference"], row["p"]) == ("PLATEAU", 0.0, 1.0)
