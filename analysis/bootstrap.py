"""Bootstrap intervals of a mean, beside the t interval they were measured against (METHODS.md)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array
from scipy import stats

Samples = Float[Array, "*studies n"]
PerStudy = Float[Array, "*studies"]
Draws = Int[Array, "R n"]


def draws(n: int, resamples: int, rng: np.random.Generator) -> Draws:
    """Row indices of `resamples` samples of n out of n with replacement."""
    return rng.integers(0, n, size=(resamples, n))


def counts(chosen: Draws) -> Float[Array, "R n"]:
    """How often each row was drawn, as shares: `counts @ values` are the resampled means."""
    n = chosen.shape[1]
    return (chosen[:, :, None] == np.arange(n)).sum(axis=1) / n


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
