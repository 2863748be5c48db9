"""Arms whose runs diverged: their survivors' mean is no mean, so it is compared by rank and by rate instead.

By rank: on each shared seed the arm with the larger loss is worse, and a diverged run is worse than any number. The
exact sign test asks whether one arm is worse on more than half of all seeds. It takes part in the one family of all
pairs: each of the m pairs may spend 1/m of the 5%, the pairs compared by their means share what is left.
By rate: each arm's share of diverged runs with its exact interval, told beside the answer and no part of it.
Source: Clopper and Pearson 1934; Fisher 1935; Lachin 1999 (worst-rank analysis).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array
from scipy import stats

from analysis.spread import pair_indices


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
