"""How many seeds a question needs. Exact for normal differences: non-central t, and its like for a plateau."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
import pandas as pd
from scipy import stats

from analysis.findings import AnalysisError
from analysis.stats import moments, pooled_sd

ALPHA = 0.05
POWER = 0.8
MINIMUM_PAIRS = 6
MOST = 1000
"""Above so many seeds the answer is: not by seeds."""


@dataclass(frozen=True)
class Plan:
    """Paired seeds an arm. `low` and `high` follow from the 95% interval of the spread; None: more than MOST."""

    seeds: int | None
    low: int | None
    high: int | None
    sd_of_differences: float
    question: str

    @property
    def sentence(self) -> str:
        """'12 seeds (6 to 50, as the spread itself is uncertain) for a difference of 0.01'."""
        if self.seeds is None:
            return f"more than {MOST:,} seeds for {self.question}"
        if (self.low, self.high) == (self.seeds, self.seeds):
            return f"{self.seeds} seeds for {self.question}"
        high = f"more than {MOST:,}" if self.high is None else f"{self.high}"
        return f"{self.seeds} seeds ({self.low} to {high}, as the spread itself is uncertain) for {self.question}"


def power_beyond(seeds: int, sd: float, difference: float, margin: float = 0.0, alpha: float = ALPHA) -> float:
    """Chance that a paired two-sided t test shows a true `difference` to lie beyond the margin, on its side."""
    shift = (abs(difference) - margin) / sd * sqrt(seeds)
    critical = float(stats.t.ppf(1 - alpha / 2, seeds - 1))
    return float(stats.nct.sf(critical, seeds - 1, shift))


def power_inside(seeds: int, sd: float, difference: float, margin: float, alpha: float = ALPHA) -> float:
    """Chance that the (1 - 2 alpha) interval lies inside the margin: two one-sided tests, integrated over the SD."""
    shares = (np.arange(400) + 0.5) / 400
    seen_sd = sd * np.sqrt(stats.chi2.ppf(shares, seeds - 1) / (seeds - 1))
    room = margin - stats.t.ppf(1 - alpha, seeds - 1) * seen_sd / sqrt(seeds)
    error = sd / sqrt(seeds)
    inside = stats.norm.cdf((room - difference) / error) - stats.norm.cdf((-room - difference) / error)
    return float(np.where(room > 0, inside, 0.0).mean())


def seeds_needed(
    sd_of_differences: float,
    difference: float,
    *,
    margin: float = 0.0,
    contrasts: int = 1,
    power: float = POWER,
    alpha: float = ALPHA,
) -> int | None:
    """Fewest paired seeds that show `difference` to be beyond the margin; None above MOST.

    `contrasts` is the number looked at together; Bonferroni's level, Holm's first step.

    >>> seeds_needed(0.0027, 0.005), seeds_needed(0.0027, 0.002)
    (5, 17)
    """
    return _fewest(lambda n: power_beyond(n, sd_of_differences, difference, margin, alpha / contrasts) >= power)


def seeds_for_plateau(
    sd_of_differences: float, margin: float, difference: float = 0.0, power: float = POWER, alpha: float = ALPHA
) -> int | None:
    """Fewest paired seeds whose 90% interval falls inside the margin when the true difference is `difference`."""
    return _fewest(lambda n: power_inside(n, sd_of_differences, difference, margin, alpha) >= power)


def sd_interval(sd: float, freedom: int, confidence: float = 0.95) -> tuple[float, float]:
    """The chi-square interval of a standard deviation.

    >>> [round(end, 2) for end in sd_interval(1.0, freedom=4)]
    [0.6, 2.87]
    """
    low, high = stats.chi2.ppf([(1 + confidence) / 2, (1 - confidence) / 2], freedom)
    return sd * sqrt(freedom / low), sd * sqrt(freedom / high)


def settle(pairs: int, mean: float, sd: float, margin: float, contrasts: int) -> Plan:
    """Seeds that would settle an open contrast, were the true difference and spread those seen so far.

    Beyond the margin it asks for HELPS or HURTS, within it for PLATEAU. At least one more than there are,
    and at least MINIMUM_PAIRS.
    """
    outside = abs(mean) > margin

    def needed(spread: float) -> int | None:
        if spread == 0:
            return MINIMUM_PAIRS
        if outside:
            return seeds_needed(spread, mean, margin=margin, contrasts=contrasts)
        return seeds_for_plateau(spread, margin, mean)

    def at_least(n: int | None) -> int | None:
        return None if n is None else max(n, MINIMUM_PAIRS, pairs + 1)

    low_sd, high_sd = sd_interval(sd, pairs - 1)
    side = "beyond" if outside else "within"
    question = f"a difference like the one seen ({mean:+.4g}) to be shown {side} the margin of {margin:.4g}"
    return Plan(at_least(needed(sd)), at_least(needed(low_sd)), at_least(needed(high_sd)), sd, question)


def plan(pilot: pd.DataFrame, difference: float, contrasts: int | None = None, power: float = POWER) -> Plan:
    """Paired seeds to show a `difference` from zero, from a pilot's values (seeds by arms).

    The spread is that of differences between arms on the same seed, pooled over all pairs of arms: the
    variation that is left in the table once each seed's and each arm's mean is taken out, twice.
    Raises AnalysisError where the pilot has under two complete seeds or arms.
    """
    complete = pilot.dropna()
    n, arms = complete.shape
    if n < 2 or arms < 2:
        raise AnalysisError(
            f"a pilot of {n} complete seeds and {arms} arms has no spread; run at least 2 arms with 2 seeds, better 5"
        )
    if not difference > 0:
        raise AnalysisError(f"difference={difference}: name a difference above 0 that you would care about")
    values = complete.to_numpy()
    rest = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    freedom = (n - 1) * (arms - 1)
    sd = float(np.sqrt(2 * (rest**2).sum() / freedom))
    if sd == 0:
        raise AnalysisError("the pilot's arms differ by the same amount on every seed: no spread to plan with")
    family = arms - 1 if contrasts is None else contrasts
    low_sd, high_sd = sd_interval(sd, freedom)
    found = [
        None if n is None else max(n, MINIMUM_PAIRS)
        for n in (seeds_needed(s, difference, contrasts=family, power=power) for s in (sd, low_sd, high_sd))
    ]
    question = f"a difference of {difference:.4g} to be shown with power {power:.0%} over {family} contrasts"
    return Plan(found[0], found[1], found[2], sd, question)


def pairing_gain(pilot: pd.DataFrame) -> float:
    """How much smaller pairing by seed makes the variance of a difference: 1 is no gain, 2 is half the variance."""
    values = pilot.dropna().to_numpy()
    _, _, sd = moments(values[:, 1:] - values[:, :1])
    return float(2 * pooled_sd(values) ** 2 / np.mean(sd**2))


def _fewest(enough: Callable[[int], bool]) -> int | None:
    if not enough(MOST):
        return None
    low, high = 1, MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if middle > 1 and enough(middle) else (middle, high)
    return ceil(high)
