"""Sentence, claims and table never contradict one another, whatever the data."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.rule.conclude import conclude
from analysis.rule.conclusion import Claim, Conclusion, Pair
from analysis.rule.sentences import Wording, decimals_for

ARMS = [1, 2, 4, 8, 16, 32]


@st.composite
def conclusions(draw: st.DrawFn) -> Conclusion:
    """Studies of every size, spread and margin, some with runs missing or diverged."""
    n, k = draw(st.integers(1, 9)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    steps = draw(st.lists(st.sampled_from([-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0]), min_size=k, max_size=k))
    sd = draw(st.sampled_from([0.0, 0.02, 0.3, 2.0]))
    values = 1.5 + 0.01 * (np.cumsum(steps) + sd * rng.normal(size=(n, k)) * rng.choice([1.0, 4.0], size=k))
    lost = draw(st.sampled_from([0.0, 0.0, 0.1, 0.4]))
    gone = rng.random((n, k)) < lost
    diverged = gone & (rng.random((n, k)) < 0.5) & (np.arange(k) == k - 1)
    margin = draw(st.sampled_from([0.0, 0.005, 0.01, 0.05]))
    better = draw(st.sampled_from(["lower", "higher"]))
    ordered = draw(st.sampled_from([True, True, False]))
    return conclude(
        np.where(gone, np.nan, values),
        ARMS[:k],
        margin,
        better=better,  # type: ignore[arg-type]
        diverged=diverged,
        paired=draw(st.booleans()),
        ordered=ordered,
        resamples=200,
    )


def ends(said: Conclusion, pair: Pair) -> tuple[float, float]:
    """The interval, turned so that positive is worse."""
    return (pair.low, pair.high) if said.better == "lower" else (-pair.high, -pair.low)


def holds(said: Conclusion, claim: Claim) -> bool:
    pair = said.pair(claim.earlier, claim.later)
    if claim.by == "rank":
        return pair.by == "rank" and pair.p <= 0.05 and pair.direction == claim.relation
    low, high = ends(said, pair)
    return {
        "better": high < 0,
        "worse": low > 0,
        "better by more than the margin": high < -said.margin,
        "worse by more than the margin": low > said.margin,
        "within the margin": low > -said.margin and high < said.margin,
    }[claim.relation]


@settings(max_examples=120, deadline=None, derandomize=True)
@given(conclusions())
def test_every_claim_is_implied_by_its_pair(said: Conclusion) -> None:
    assert all(holds(said, claim) for claim in said.claims)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(conclusions())
def test_labels_and_p_are_those_of_the_interval(said: Conclusion) -> None:
    for pair in said.pairs:
        low, high = ends(said, pair)
        if pair.by != "rank":
            assert pair.direction == ("worse" if low > 0 else "better" if high < 0 else "open")
        above, below = said.margin * (1 + 1e-9), said.margin * (1 - 1e-9)
        beyond, within = low > above or high < -above, low > -below and high < below
        assert pair.size == ("beyond" if beyond else "within" if within else "open")
        if pair.direction != "open" or pair.size != "open":
            assert pair.p <= 0.05 + 1e-9
        elif pair.by != "nothing":
            assert pair.p > 0.05 - 1e-9


NUMBERS = re.compile(r"(\d+) heads? (?:is|are) (better|worse) than (\d+) by ([\d.-]+) nats \(([\d.-]+) to ([\d.-]+)\)")


@settings(max_examples=120, deadline=None, derandomize=True)
@given(conclusions())
def test_the_numbers_of_the_sentence_are_those_of_the_table(said: Conclusion) -> None:
    claimed = {(claim.earlier, claim.later, claim.relation) for claim in said.claims}
    for later, direction, earlier, mean, low, high in NUMBERS.findall(said.sentence):
        pair = said.pair(int(earlier), int(later))
        assert pair.direction == direction
        assert (pair.earlier, pair.later, direction) in claimed
        assert float(low) > 0
        assert float(low) <= float(mean) <= float(high)
        assert float(mean) == pytest.approx(abs(pair.difference), rel=0.06, abs=1e-12)
        assert (float(low) > said.margin * (1 + 1e-9)) == (pair.size == "beyond") or said.margin == 0
        assert (float(high) < said.margin * (1 - 1e-9)) == (pair.size == "within")


@settings(max_examples=120, deadline=None, derandomize=True)
@given(conclusions())
def test_the_answer_and_always_better_agree(said: Conclusion) -> None:
    always = said.more_is_always_better
    if said.answer == "every_step_helps":
        assert always.status == "supported"
    if said.answer in ("worse_throughout", "no_clear_order") or (said.answer == "best_at" and always.status != "open"):
        assert always.status == "refuted"
    if always.status == "refuted":
        assert always.refuted_by is not None
        assert said.pair(*always.refuted_by).direction == "worse"
        assert not said.sentence.startswith(("More heads help at every step", "More heads are better"))
    assert (said.answer == "not_settled") == bool(said.missing)
    assert said.sentence.endswith(".")
    assert "nan" not in said.sentence


@given(st.floats(-1, 1, allow_subnormal=False), st.floats(1e-6, 1), st.sampled_from([0.0, 0.01, 0.02]))
def test_rounding_moves_no_end_across_zero_or_the_margin(mean: float, half: float, margin: float) -> None:
    low, high = mean - half, mean + half
    decimals = decimals_for(low, high, margin)
    for end in (low, high):
        for bound in (-margin, 0.0, margin):
            if abs(end - bound) > 1e-10:
                assert np.sign(round(end, decimals) - bound) == np.sign(end - bound)


def test_a_factor_that_has_no_noun_is_named_by_its_value() -> None:
    rng = np.random.default_rng(0)
    values = np.array([1.5, 1.6]) + 0.001 * rng.normal(size=(6, 2))
    said = conclude(values, [8, 16], 0.01, wording=Wording("latent_dim", "nats/token"))
    assert said.sentence.startswith("More latent_dim are worse: latent_dim 16 is worse than 8 by 0.1")
    assert "nats/token" in said.sentence
