"""The error of each difference between two arms: its own, no smaller than the median pair's, widened under suspicion.

Any number of studies at once: values [s n k] (studies, seeds, arms), pairs m = k (k - 1) / 2. The same code serves
the study in hand and the simulated ones that its critical value comes from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array

_CELLS = 4_000_000
_ROUNDING = 1e-12

Values = Float[Array, "s n k"]
PerPair = Float[Array, "s m"]


@dataclass(frozen=True)
class Errors:
    """Shapes [s m]; `skew` and `unevenness` [s] are what the guard looks at."""

    seeds: PerPair
    mean: PerPair
    sd: PerPair
    error: PerPair
    skew: Float[Array, " s"]
    unevenness: Float[Array, " s"]

    def guarded(self, guard: Guard) -> Bool[Array, " s"]:
        """Where the guard acts."""
        return (self.skew > guard.skew) | (self.unevenness > guard.unevenness)

    def widened(self, guard: Guard) -> PerPair:
        """The errors with the guard's factor where it acts."""
        return self.error * np.where(self.guarded(guard), guard.factor, 1.0)[:, None]


@dataclass(frozen=True)
class Guard:
    """Above which skew and unevenness a study's errors are widened, and by which factor."""

    skew: float
    unevenness: float
    factor: float


def pair_indices(k: int) -> tuple[Int[Array, " m"], Int[Array, " m"]]:
    """(earlier, later) of all pairs of k arms.

    >>> [index.tolist() for index in pair_indices(3)]
    [[0, 0, 1], [1, 2, 2]]
    """
    earlier, later = np.triu_indices(k, 1)
    return earlier, later


def errors_of(values: Values, paired: bool) -> Errors:
    """Mean, own SD and error of every pair, not yet widened; NaN where two arms share under two seeds."""
    seeds, mean, variance, weight = _paired(values) if paired else _unpaired(values)  # error^2 = variance * weight
    positive = np.where((variance > 0) & np.isfinite(variance), variance, np.nan)
    with np.errstate(invalid="ignore"):
        floor = np.fmax(variance, np.nan_to_num(_median(positive))[:, None])
        error = np.sqrt(np.where(np.isfinite(variance), floor, np.nan) * weight)
    return Errors(seeds, mean, np.sqrt(variance), error, _skew(values, paired), _unevenness(values, positive))


def _skew(values: Values, paired: bool) -> Float[Array, " s"]:
    """|mean over arms of the sample skewness|, each arm seen against the median of the others on the same seed.

    That median takes the seed's own effect out and lets no single wide arm in. With two arms it is the skewness of
    their difference. 0 where no arm has three seeds or any spread.
    """
    rest = values - _median_of_others(values) if paired else values
    rest = rest[:, :, :1] if paired and values.shape[2] == 2 else rest
    there = np.isfinite(rest)
    count = there.sum(axis=1)  # [s k]
    rest = np.where(there, rest, 0.0)
    rest = np.where(there, rest - (rest.sum(axis=1) / np.maximum(count, 1))[:, None, :], 0.0)
    square = (rest * rest).sum(axis=1)
    cube = (rest * rest * rest).sum(axis=1)
    usable = (count >= 3) & (square > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        skewness = np.where(usable, np.sqrt(count) * cube / square**1.5, 0.0)
    return np.abs(skewness.sum(axis=1) / np.maximum(usable.sum(axis=1), 1))


def _paired(values: Values) -> tuple[PerPair, PerPair, PerPair, PerPair]:
    """Seeds, mean, variance of a seed's difference, and what to multiply it with for the error's square."""
    earlier, later = pair_indices(values.shape[2])
    s, n, m = len(values), values.shape[1], len(earlier)
    seeds, mean, variance = np.zeros((s, m)), np.full((s, m), np.nan), np.full((s, m), np.nan)
    scale = _scale(values)
    at_once = max(1, _CELLS // max(1, s * n))
    for start in range(0, m, at_once):
        part = slice(start, start + at_once)
        differences = values[:, :, later[part]] - values[:, :, earlier[part]]  # [s n m']
        seeds[:, part], mean[:, part], variance[:, part] = _moments(differences, scale)
    with np.errstate(divide="ignore"):
        return seeds, mean, variance, 1 / seeds


def _unpaired(values: Values) -> tuple[PerPair, PerPair, PerPair, PerPair]:
    """The same for Welch's error. `variance` is half of what one run of each arm scatter, so that a floor compares."""
    earlier, later = pair_indices(values.shape[2])
    count, mean, variance = _moments(values, _scale(values))
    with np.errstate(invalid="ignore", divide="ignore"):
        weight = 1 / count[:, earlier] + 1 / count[:, later]
        square = variance[:, earlier] / count[:, earlier] + variance[:, later] / count[:, later]
        seeds = np.minimum(count[:, earlier], count[:, later])
        return seeds, mean[:, later] - mean[:, earlier], square / weight, weight


def _moments(samples: Float[Array, "s n m"], scale: Float[Array, " s"]) -> tuple[PerPair, PerPair, PerPair]:
    """Count, mean and variance (n - 1) over n; NaN under two; a variance that is rounding alone is 0."""
    there = np.isfinite(samples)
    count = there.sum(axis=1).astype(float)
    filled = np.where(there, samples, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = filled.sum(axis=1) / count
        variance = (np.where(there, filled - mean[:, None, :], 0.0) ** 2).sum(axis=1) / (count - 1)
    variance = np.where(variance <= (_ROUNDING * scale[:, None]) ** 2, 0.0, variance)
    enough = count >= 2
    return count, np.where(enough, mean, np.nan), np.where(enough, variance, np.nan)


def _scale(values: Values) -> Float[Array, " s"]:
    return np.abs(np.where(np.isfinite(values), values, 0.0)).max(axis=(1, 2), initial=0.0)


def _unevenness(values: Values, variances: PerPair) -> Float[Array, " s"]:
    """Standard deviation over pairs of the log variance; with two arms, of theirs, as there is one pair only."""
    if variances.shape[1] == 1:
        variances = _moments(values, _scale(values))[2]
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.log(variances)
    there = np.isfinite(logs)
    count = np.maximum(there.sum(axis=1), 1)
    centre = np.where(there, logs, 0.0).sum(axis=1) / count
    return np.sqrt((np.where(there, logs - centre[:, None], 0.0) ** 2).sum(axis=1) / count)


def _median_of_others(values: Values) -> Values:
    """For each run the median of the other arms' runs on its seed; NaN where there is none."""
    count = np.isfinite(values).sum(axis=2, keepdims=True)  # [s n 1]
    ranked = np.sort(values, axis=2)  # NaN last
    half = count // 2

    def at(index: Array) -> Array:
        return np.take_along_axis(ranked, np.clip(index, 0, values.shape[2] - 1), axis=2)

    below, middle, above = at(half - 1), at(half), at(half + 1)
    odd = (np.where(values >= middle, below, middle) + np.where(values <= middle, above, middle)) / 2
    even = np.where(values <= below, middle, below)
    return np.where(np.isfinite(values) & (count >= 2), np.where(count % 2 == 1, odd, even), np.nan)


def _median(values: Float[Array, "s m"]) -> Float[Array, " s"]:
    """The median of what is not NaN; NaN where nothing is."""
    count = np.isfinite(values).sum(axis=1)
    if values.shape[1] == 0:
        return np.full(len(values), np.nan)
    ranked = np.sort(values, axis=1)  # NaN last
    low, high = (
        ranked[np.arange(len(values)), np.maximum(index, 0)]
        for index in ((count - 1) // 2, np.minimum(count // 2, values.shape[1] - 1))
    )
    return np.where(count > 0, (low + high) / 2, np.nan)
