import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.weightstats import ttost_paired

from analysis.labels import HELPS, HURTS, INCONCLUSIVE, PLATEAU, Decision, decide
from analysis.stats import every_sign, pooled_sd

Rng = np.random.Generator
SPREAD = np.array([-0.5, -0.3, -0.1, 0.1, 0.3, 0.5])


def judged(*means: float, margin: float = 1.0, spread: np.ndarray = SPREAD) -> Decision:
    d = np.array(means) + spread[:, None]
    return decide(d, margin, every_sign(len(d)))


def test_labels_of_clear_cases() -> None:
    decision = judged(-3.0, 3.0, 0.0, 1.0)
    assert decision.label.tolist() == [HELPS, HURTS, PLATEAU, INCONCLUSIVE]


def test_a_difference_that_is_shown_but_lies_inside_the_margin_is_a_plateau() -> None:
    decision = judged(-0.6, spread=SPREAD / 2)
    assert decision.label.tolist() == [PLATEAU]
    assert decision.differs.tolist() == [True]


def test_a_difference_that_is_shown_but_straddles_the_margin_stays_open() -> None:
    decision = judged(-1.1)
    assert decision.label.tolist() == [INCONCLUSIVE]
    assert decision.differs.tolist() == [True]


def test_a_label_needs_the_sign_flips_too() -> None:
    # One difference of six is zero: the t test is sure, the sign flips reach no more than 2 of 32.
    decision = judged(-0.5, margin=0.001)
    assert decision.p_beyond[0] < 0.05 < decision.p_family[0]
    assert decision.label.tolist() == [INCONCLUSIVE]


def test_five_pairs_get_no_label_however_large_the_difference() -> None:
    assert judged(-100.0, 0.0, spread=SPREAD[:5]).label.tolist() == [INCONCLUSIVE] * 2


def test_more_contrasts_make_a_label_harder() -> None:
    alone = judged(-1.5)
    in_company = judged(-1.5, 0.0, 0.0, 0.0)
    assert alone.label[0] == HELPS
    assert in_company.label[0] == INCONCLUSIVE


def test_the_mirror_image_gets_the_mirrored_label(rng: Rng) -> None:
    d = rng.normal([-2.0, 0.2, 2.0], 0.7, size=(50, 8, 3))
    mirror = {HELPS: HURTS, HURTS: HELPS, PLATEAU: PLATEAU, INCONCLUSIVE: INCONCLUSIVE}
    labels = decide(d, 1.0, every_sign(8)).label
    assert (decide(-d, 1.0, every_sign(8)).label == np.vectorize(mirror.get)(labels)).all()
    assert {HELPS, HURTS, PLATEAU, INCONCLUSIVE} == set(labels.ravel())


def test_plateau_is_statsmodels_two_one_sided_tests(rng: Rng) -> None:
    zero = np.zeros(8)
    for d in rng.normal(0.3, 0.8, size=(60, 8)):
        p = ttost_paired(d, zero, -1.0, 1.0)[0]
        label = decide(d[:, None], 1.0, every_sign(8)).label[0]
        assert (label == PLATEAU) == (p < 0.05)


def test_labels_do_not_depend_on_the_unit(rng: Rng) -> None:
    d = rng.normal([-2.0, 0.2, 1.5], 0.7, size=(50, 8, 3))
    assert (decide(d, 1.0, every_sign(8)).label == decide(d * 1e-4, 1e-4, every_sign(8)).label).all()


def test_pooled_sd_weighs_arms_by_their_degrees_of_freedom() -> None:
    values = np.array([[1.0, 4.0], [3.0, 4.0], [np.nan, 10.0]])
    # Squares about the mean: 2 with one degree of freedom, 24 with two.
    assert pooled_sd(values) == pytest.approx(np.sqrt(26 / 3))


def test_a_missing_seed_changes_only_its_own_contrast() -> None:
    d = np.array([-3.0, 9.0]) + SPREAD[:, None]
    holed = d.copy()
    holed[0, 1] = np.nan
    decision = decide(holed, 1.0, every_sign(6))
    assert decision.label.tolist() == [HELPS, INCONCLUSIVE]
    assert decision.p_family.tolist() == [0.03125, 1.0]
    assert decision.pairs.tolist() == [6, 5]
    expected = stats.ttest_1samp(d[:, 0], 0).confidence_interval(0.95)
    assert decision.high[0] == pytest.approx(expected.high)
