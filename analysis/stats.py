"""Intervals, tests and resampling for paired differences. `differences[..., s, c]` is seed s of contrast c.

NaN: no pair. Every function takes any number of studies in front, so that simulation measures this very code. At the
end, what sharing seeds gained.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array
from scipy import stats

from analysis.findings import AnalysisError
from analysis.rule.critical import pair_indices

EXACT_UP_TO = 16
"""Pairs up to which all sign flips are enumerated (32,768 of them)."""

Differences = Float[Array, "*studies n m"]
PerContrast = Float[Array, "*studies m"]
Tested = Bool[Array, "*studies m"]
Signs = Float[Array, "F n"]


def moments(differences: Differences) -> tuple[PerContrast, PerContrast, PerContrast]:
    """Pairs, mean and standard deviation (n - 1) of each contrast; NaN where there are too few pairs."""
    there = np.isfinite(differences)
    pairs = there.sum(axis=-2).astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(there, differences, 0.0).sum(axis=-2) / pairs
        deviations = np.where(there, differences - mean[..., None, :], 0.0)
        sd = np.sqrt((deviations**2).sum(axis=-2) / (pairs - 1))
    return pairs, mean, np.where(pairs > 1, sd, np.nan)


def pooled_sd(values: Float[Array, "*studies n k"]) -> Float[Array, "*studies"]:
    """Standard deviation between seeds within an arm, pooled over arms by their degrees of freedom."""
    counts, _, sd = moments(values)
    freedom = np.where(counts > 1, counts - 1, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.sqrt((freedom * np.nan_to_num(sd) ** 2).sum(axis=-1) / freedom.sum(axis=-1)))


def t_interval(differences: Differences, confidence: float) -> tuple[PerContrast, PerContrast]:
    """The paired t interval of each mean difference; NaN under two pairs."""
    pairs, mean, sd = moments(differences)
    with np.errstate(invalid="ignore", divide="ignore"):
        half = stats.t.ppf((1 + confidence) / 2, pairs - 1) * sd / np.sqrt(pairs)
    return mean - half, mean + half


def beyond_margin_p(differences: Differences, margin: Float[Array, "*studies"] | float) -> PerContrast:
    """Two-sided p against 'the mean difference lies within the margin', by the t distribution.

    With margin 0 it is the paired t test. It is at most 0.05 exactly when the 95% interval lies wholly
    outside [-margin, margin]. One under two pairs.
    """
    pairs, mean, sd = moments(differences)
    excess = np.abs(mean) - np.asarray(margin)[..., None]
    with np.errstate(invalid="ignore", divide="ignore"):
        p = 2 * stats.t.sf(excess / (sd / np.sqrt(pairs)), pairs - 1)
    p = np.where(sd == 0, np.where(excess > 0, 0.0, 1.0), p)
    return np.where(np.isnan(p), 1.0, np.minimum(p, 1.0))


def holm(p: PerContrast, tested: Tested | None = None) -> PerContrast:
    """Holm's adjustment over the contrasts of each study; the family is those `tested`, the others get 1.

    Equal to statsmodels' `multipletests(p, method="holm")` by test, which takes one family at a time and
    collects garbage at each call: minutes for the studies of one simulation.
    """
    tested = np.ones(p.shape, dtype=bool) if tested is None else tested
    p = np.where(tested, p, 1.0)
    order = np.argsort(p, axis=-1, kind="stable")
    left = tested.sum(axis=-1, keepdims=True) - np.arange(p.shape[-1])
    stricter = np.take_along_axis(p, order, axis=-1) * np.maximum(left, 1)
    adjusted = np.minimum(np.maximum.accumulate(stricter, axis=-1), 1.0)
    return np.take_along_axis(adjusted, np.argsort(order, axis=-1, kind="stable"), axis=-1)


def every_sign(pairs: int) -> Signs:
    """All sign flips of `pairs` differences, one for each two that mirror each other; the first flips none."""
    codes = np.arange(2 ** (pairs - 1))[:, None] >> np.arange(pairs)[None, :]
    return 1.0 - 2.0 * (codes & 1)


def random_signs(pairs: int, flips: int, rng: np.random.Generator) -> Signs:
    """The identity and `flips` random sign flips."""
    signs = rng.integers(0, 2, size=(flips + 1, pairs)) * 2.0 - 1.0
    signs[0] = 1.0
    return signs


def signs_for(pairs: int, rng: np.random.Generator, flips: int = 20_000) -> Signs:
    """All of them up to EXACT_UP_TO pairs, else the identity and `flips` draws."""
    return every_sign(pairs) if pairs <= EXACT_UP_TO else random_signs(pairs, min(flips, 5_000_000 // pairs), rng)


def smallest_p(pairs: int) -> float:
    """The smallest two-sided p that sign flips of `pairs` differences can reach.

    >>> [smallest_p(n) for n in (3, 5, 6)]
    [0.25, 0.0625, 0.03125]
    """
    return 2.0 ** (1 - pairs) if pairs > 0 else 1.0


def flipped_t(differences: Differences, signs: Signs) -> Float[Array, "*studies F m"]:
    """|t| of each contrast under each flip; a flip turns a seed's differences in all contrasts together."""
    there = np.isfinite(differences)
    pairs = there.sum(axis=-2)[..., None, :].astype(float)
    filled = np.where(there, differences, 0.0)
    squares = (filled**2).sum(axis=-2)[..., None, :]
    sums = np.abs(signs @ filled)  # [..., F, m]
    with np.errstate(invalid="ignore", divide="ignore"):
        # A flip leaves the sum of squares alone, so |t| follows from the share of it that the mean explains.
        explained = np.where(squares > 0, np.minimum(sums**2 / (pairs * squares), 1 - 1e-14), 0.0)
        return np.where(pairs > 1, np.sqrt((pairs - 1) * explained / (1 - explained)), 0.0)


def sign_flip_p(differences: Differences, signs: Signs) -> PerContrast:
    """Two-sided sign-flip p of each contrast by itself: share of flips with |t| at least that seen.

    Exact with `every_sign`; with `random_signs` the identity counts as one of the flips, so p is never 0.
    """
    t = flipped_t(differences, signs)
    return _reaches(t, t[..., :1, :]).mean(axis=-2)


def family_p(differences: Differences, signs: Signs) -> PerContrast:
    """Sign-flip p adjusted for looking at all contrasts: step-down max-T.

    A seed's differences are flipped together, so the adjustment knows that the contrasts share their
    reference, and its smallest value does not grow with the number of contrasts as Holm's does.
    Source: Westfall and Young 1993, algorithm 4.1; Ge, Dudoit and Speed 2003, box 2.
    """
    t = flipped_t(differences, signs)
    order = np.argsort(-t[..., 0, :], axis=-1, kind="stable")
    ranked = np.take_along_axis(t, order[..., None, :], axis=-1)
    largest = np.maximum.accumulate(ranked[..., ::-1], axis=-1)[..., ::-1]  # over itself and all with a smaller |t|
    p = _reaches(largest, ranked[..., :1, :]).mean(axis=-2)
    p = np.maximum.accumulate(p, axis=-1)
    return np.take_along_axis(p, np.argsort(order, axis=-1, kind="stable"), axis=-1)


def _reaches(t: Array, seen: Array) -> Array:
    """Where |t| is at least the one seen; two that rounding alone tells apart are one value."""
    return t >= seen * (1 - _TIE) - _TIE


_TIE = 1e-9


Samples = Float[Array, "*studies n"]
PerStudy = Float[Array, "*studies"]
Draws = Int[Array, "R n"]


def draws(n: int, resamples: int, rng: np.random.Generator) -> Draws:
    """Row indices of `resamples` samples of n out of n with replacement."""
    return rng.integers(0, n, size=(resamples, n))


def counts(chosen: Draws) -> Float[Array, "R n"]:
    """How often each row was drawn, as shares: `counts @ values` are the resampled means."""
    n = chosen.shape[1]
    shares = np.zeros(chosen.shape)
    np.add.at(shares, (np.arange(len(chosen))[:, None], chosen), 1.0)
    return shares / n


def percentile_interval(samples: Samples, confidence: float, chosen: Draws) -> tuple[PerStudy, PerStudy]:
    """The middle of the resampled means."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(samples @ counts(chosen).T, [tail, 1 - tail], axis=-1)
    return low, high


def bca_interval(samples: Samples, confidence: float, chosen: Draws) -> tuple[PerStudy, PerStudy]:
    """Bias-corrected and accelerated (Efron 1987), the acceleration by the jackknife."""
    means = np.sort(samples @ counts(chosen).T, axis=-1)  # [*studies, R]
    resamples = means.shape[-1]
    estimate = samples.mean(axis=-1, keepdims=True)
    below = (means < estimate).mean(axis=-1) / 2 + (means <= estimate).mean(axis=-1) / 2
    bias = stats.norm.ppf(np.clip(below, 1 / resamples, 1 - 1 / resamples))
    spread = samples - estimate  # the jackknife's deviations of a mean, up to a factor that cancels
    acceleration = (spread**3).sum(axis=-1) / (6 * (spread**2).sum(axis=-1) ** 1.5)
    ends = []
    for z in stats.norm.ppf([(1 - confidence) / 2, (1 + confidence) / 2]):
        share = stats.norm.cdf(bias + (bias + z) / (1 - acceleration * (bias + z)))
        rank = np.clip(share * (resamples - 1), 0, resamples - 1).round().astype(int)
        ends.append(np.take_along_axis(means, rank[..., None], axis=-1)[..., 0])
    return ends[0], ends[1]


# What sharing seeds gained: shown, not assumed.
@dataclass(frozen=True)
class Pairing:
    """`sd`: between seeds within an arm, pooled. `sd_difference`: of two arms' difference on one seed, pooled.
    `correlation` of two arms over seeds. `gain`: unpaired over paired variance of a difference; under 1 pairing lost.
    """

    seeds: int
    sd: float
    sd_difference: float
    correlation: float
    gain: float

    @property
    def sentence(self) -> str:
        """
        >>> Pairing(6, 0.01, 0.01, 0.5, 2.0).sentence
        "Sharing seeds halves a difference's variance (x 0.50; correlation 0.50)."
        """
        said = "Sharing seeds cuts" if self.gain > 1 else "Sharing seeds did not cut"
        said = "Sharing seeds halves" if 1.9 <= self.gain <= 2.1 else said
        return f"{said} a difference's variance (x {1 / self.gain:.2f}; correlation {self.correlation:.2f})."


def pairing_of(values: Float[Array, "n k"]) -> Pairing:
    """From the seeds that all arms share. Raises AnalysisError under two of them, or without any spread."""
    complete = values[np.isfinite(values).all(axis=1)]
    n, k = complete.shape
    if n < 2 or k < 2:
        raise AnalysisError(f"{n} seeds shared by all of {k} arms: two of each are needed to see what pairing gained")
    covariance = np.cov(complete, rowvar=False)
    variance = float(np.mean(np.diag(covariance)))
    earlier, later = pair_indices(k)
    shared = float(np.mean(covariance[earlier, later]))
    difference = 2 * (variance - shared)
    if variance <= 0 or difference <= 0:
        raise AnalysisError("the arms differ by the same amount on every seed: there is no spread to compare")
    return Pairing(n, variance**0.5, difference**0.5, shared / variance, 2 * variance / difference)
