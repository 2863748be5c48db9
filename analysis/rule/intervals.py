"""Simultaneous intervals of all differences between arms: one family, and everything else is read off them.

A difference is metric(later arm) - metric(earlier arm). The interval of a pair is mean +- critical * error:

    error      the larger of the pair's own standard error and the one that the median spread of all pairs gives:
               with few seeds a pair whose spread came out small by luck is what makes false claims
    guard      widens every error of a study by 1 + GUARD / sqrt(seeds) where its losses look skewed or its spreads
               unequal (each flag is raised in FLAG of alike normal studies): a difference of alike arms is symmetric
               whatever their noise, one of unlike arms is not, and then t intervals are too narrow
    critical   from the largest |mean| / error over all pairs in simulated studies of the same shape
               (analysis.rule.critical), so that all intervals together hold with CONFIDENCE

`p` is adjusted for the whole family and belongs to its interval: p <= 0.05 exactly where the 95% interval leaves
the bound out. How the method was chosen among others, what they cost, and where it was checked: METHODS.md.
Source of the idea of one critical value for all pairs: Tukey 1953; Westfall and Young 1993 for the largest t.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array
from scipy import stats

from analysis.findings import AnalysisError
from analysis.rule.critical import Reference, comparable, errors_of, pair_indices, reference_for

CONFIDENCE = 0.95
FEWEST = 2
"""Seeds that two arms must share to be compared at all."""


@dataclass(frozen=True)
class Intervals:
    """All pairs (earlier, later) of k arms; shapes [*studies m] with m = k (k - 1) / 2, in the metric's unit.

    `low`, `high` are infinite and `mean` NaN where a pair cannot be compared. `guarded` [*studies]: the spreads or the
    skew asked for wider intervals. `share`: the part of the 5% that these intervals may spend; below 1 where other
    claims of the family (those by rank, of arms with diverged runs) spend the rest.
    """

    earlier: Int[Array, " m"]
    later: Int[Array, " m"]
    seeds: Float[Array, "*studies m"]
    mean: Float[Array, "*studies m"]
    sd: Float[Array, "*studies m"]
    error: Float[Array, "*studies m"]
    low: Float[Array, "*studies m"]
    high: Float[Array, "*studies m"]
    guarded: Bool[Array, "*studies"]
    critical: Float[Array, "*studies"]
    share: Float[Array, "*studies"]
    paired: bool
    references: tuple[Reference | None, ...]
    which: Int[Array, "*studies"]

    @cached_property
    def p(self) -> Float[Array, "*studies m"]:
        """Adjusted two-sided p of 'no difference'."""
        return self.p_at(np.abs(self.mean))

    def p_beyond(self, margin: float) -> Float[Array, "*studies m"]:
        """Adjusted p of 'the difference is no larger than the margin'."""
        return self.p_at(np.abs(self.mean) - margin)

    def p_within(self, margin: float) -> Float[Array, "*studies m"]:
        """Adjusted p of 'the difference is at least the margin'; 1 where the margin is 0."""
        return self.p_at(margin - np.abs(self.mean))

    def p_at(self, distance: Float[Array, "*studies m"]) -> Float[Array, "*studies m"]:
        """Adjusted p of a distance between the mean and a bound; 1 where the mean is on the wrong side of it."""
        with np.errstate(invalid="ignore", divide="ignore"):
            t = np.where(distance > 0, distance / self.error, 0.0)
        p = np.ones(t.shape)
        for index, reference in enumerate(self.references):
            rows = self.which == index
            if reference is not None and rows.any():
                p[rows] = reference.p(t[rows]) / self.share[rows][..., None]
        return np.where(np.isfinite(self.mean) & (distance > 0), np.minimum(p, 1.0), 1.0)

    @property
    def arms(self) -> int:
        return int(self.later.max(initial=0)) + 1

    @property
    def method(self) -> str:
        """For a caption: 'paired by seed; all pairs together 95%'."""
        pairing = "paired by seed" if self.paired else "not paired (Welch)"
        return f"{pairing}; all pairs of arms together {CONFIDENCE:.0%}"


def simultaneous(
    values: Float[Array, "*studies n k"],
    paired: bool = True,
    share: float | Float[Array, "*studies"] = 1.0,
    resamples: int | None = None,
) -> Intervals:
    """Intervals of all differences between the k arms, which together hold with 95%.

    `values`: the metric by seed and arm, NaN where there is none. `paired`: a seed's runs belong together; without,
    the rows mean nothing and Welch's errors are used. `resamples`: simulated studies a noise for the critical value;
    None for as many as the size allows. Raises AnalysisError for an infinite value or fewer than one arm.
    """
    values = np.asarray(values, dtype=float)
    if values.ndim < 2 or values.shape[-1] < 1:
        raise AnalysisError(f"values of shape {values.shape}: give seeds by arms, with at least one arm")
    if np.isinf(values).any():
        raise AnalysisError("an infinite value: a run that ended so has diverged and has no mean; give it as missing")
    lead, (n, k) = values.shape[:-2], values.shape[-2:]
    flat = values.reshape(int(np.prod(lead)), n, k)
    earlier, later = pair_indices(k)
    portion = np.broadcast_to(np.asarray(share, dtype=float), lead).reshape(-1)
    shape = (len(flat), len(earlier))
    seeds, mean, sd, error = (np.full(shape, fill) for fill in (0.0, np.nan, np.nan, np.nan))
    critical, guarded = np.full(len(flat), np.inf), np.zeros(len(flat), dtype=bool)
    patterns, which = _patterns(flat, paired)
    references: list[Reference | None] = []
    for index, pattern in enumerate(patterns):
        rows = np.flatnonzero(which == index)
        reference = reference_for(pattern, paired, resamples)
        references.append(reference)
        if reference is None:
            continue
        arms = comparable(pattern, paired)
        among = np.flatnonzero(arms[earlier] & arms[later])  # the pairs of these arms, in the order of pair_indices
        found, cells = errors_of(flat[rows][:, :, arms], paired), np.ix_(rows, among)
        seeds[cells], mean[cells], sd[cells] = found.seeds, found.mean, found.sd
        error[cells], guarded[rows] = found.widened(reference.guard), found.guarded(reference.guard)
        for part in np.unique(portion[rows]):
            critical[rows[portion[rows] == part]] = reference.critical((1 - CONFIDENCE) * part)
    with np.errstate(invalid="ignore"):
        half = np.where(error == 0, 0.0, critical[:, None] * error)
    known = np.isfinite(mean) & np.isfinite(half)
    low = np.where(known, mean - half, -np.inf)
    high = np.where(known, mean + half, np.inf)
    wide = (*lead, len(earlier))
    return Intervals(
        earlier,
        later,
        seeds.reshape(wide),
        mean.reshape(wide),
        sd.reshape(wide),
        error.reshape(wide),
        low.reshape(wide),
        high.reshape(wide),
        guarded.reshape(lead),
        critical.reshape(lead),
        portion.reshape(lead),
        paired,
        tuple(references),
        which.reshape(lead),
    )


def _patterns(flat: Float[Array, "s n k"], paired: bool) -> tuple[list[Bool[Array, "n k"]], Int[Array, " s"]]:
    """The distinct patterns of present runs, up to the order of seeds, and which of them each study has."""
    there = np.isfinite(flat)
    if there.all():
        return [np.ones(flat.shape[1:], dtype=bool)], np.zeros(len(flat), dtype=int)
    n, k = flat.shape[1:]
    there = there.copy()
    if not paired:
        there = np.arange(n)[:, None] < there.sum(axis=1, keepdims=True)
    keys = [tuple(sorted(map(bytes, study), reverse=True)) for study in there]
    names = {key: index for index, key in enumerate(dict.fromkeys(keys))}
    patterns = [np.frombuffer(b"".join(key), dtype=bool).reshape(n, k) for key in names]
    return patterns, np.array([names[key] for key in keys])


# Arms whose runs diverged: their survivors' mean is no mean, so it is compared by rank and by rate instead.
@dataclass(frozen=True)
class Ranks:
    """Pairs with an arm that diverged; shapes [*studies m].

    `worse`, `better`: shared seeds on which the later arm is worse, or better (a tie is neither). `p`: adjusted for
    the whole family; 1 where the pair is compared by its means. `share` [*studies]: what the means may spend.
    """

    applies: Bool[Array, "*studies m"]
    worse: Int[Array, "*studies m"]
    better: Int[Array, "*studies m"]
    p: Float[Array, "*studies m"]
    share: Float[Array, "*studies"]


@dataclass(frozen=True)
class Rate:
    """Diverged runs of one arm among those that ended, with the exact 95% interval of their share."""

    diverged: int
    ended: int
    low: float
    high: float


def compare_ranks(values: Float[Array, "*studies n k"], diverged: Bool[Array, "*studies n k"]) -> Ranks:
    """`values` larger where worse, NaN where a run gave none; a run that `diverged` counts as worst."""
    earlier, later = pair_indices(values.shape[-1])
    any_diverged: Array = np.logical_or.reduce(diverged, axis=-2)  # [*studies k]
    applies = any_diverged[..., earlier] | any_diverged[..., later]
    ranked = np.where(diverged, np.inf, values)
    with np.errstate(invalid="ignore"):
        worse = (ranked[..., later] > ranked[..., earlier]).sum(axis=-2)
        better = (ranked[..., later] < ranked[..., earlier]).sum(axis=-2)
    worse, better = np.where(applies, worse, 0), np.where(applies, better, 0)
    pairs = max(1, len(earlier))
    p = np.minimum(2 * stats.binom.sf(np.maximum(worse, better) - 1, worse + better, 0.5), 1.0)
    share = 1 - applies.sum(axis=-1) / pairs
    return Ranks(applies, worse, better, np.where(applies, np.minimum(p * pairs, 1.0), 1.0), share)


def rate_of(diverged: int, ended: int, arms: int = 1) -> Rate:
    """The exact interval of a rate; the intervals of all `arms` hold together with 95%.

    >>> rate = rate_of(4, 10)
    >>> round(rate.low, 3), round(rate.high, 3)
    (0.122, 0.738)
    """
    tail = 0.025 / arms
    low = float(stats.beta.ppf(tail, diverged, ended - diverged + 1)) if diverged else 0.0
    high = float(stats.beta.ppf(1 - tail, diverged + 1, ended - diverged)) if diverged < ended else 1.0
    return Rate(diverged, ended, low, high)


def rate_difference_p(first: Rate, second: Rate, pairs: int = 1) -> float:
    """Fisher's exact p of two rates being equal, times the number of pairs looked at."""
    table = [[first.diverged, first.ended - first.diverged], [second.diverged, second.ended - second.diverged]]
    p = float(np.asarray(stats.fisher_exact(table))[1])
    return min(1.0, p * pairs)
