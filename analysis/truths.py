"""Studies whose truth is known: mean losses of five arms, the noise of their seeds, and which runs are lost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray as Array
from scipy import stats

from analysis.reference import WIDE, Rng, lognormal, normal

MARGIN = 0.01
"""Nats; what the curves are measured in."""
PAIRING = 0.3
"""Share of a run's variance that its seed gives to all arms."""

CURVES: dict[str, tuple[float, ...]] = {
    "flat": (0, 0, 0, 0, 0),
    "falling, 2 margins a step": (8, 6, 4, 2, 0),
    "rising, 2 margins a step": (0, 2, 4, 6, 8),
    "falling, half a margin a step": (2, 1.5, 1, 0.5, 0),
    "rising, half a margin a step": (0, 0.5, 1, 1.5, 2),
    "falling, one margin a step": (4, 3, 2, 1, 0),
    "rising, one margin a step": (0, 1, 2, 3, 4),
    "U": (4, 2, 0, 2, 4),
    "hump": (2, 4, 4, 3, 0),
    "falling, then flat": (4, 2, 0, 0, 0),
}
"""Mean losses of 1, 2, 4, 8, 16 heads in margins; lower is better."""


def t3(rng: Rng, size: tuple[int, ...]) -> Array:
    return rng.standard_t(3, size=size) / np.sqrt(3)


@dataclass(frozen=True)
class Noise:
    """`wide`: the last arm scatters WIDE times as much. `lost`: share of its worst runs that diverge.
    `missing`: some runs are not there, for reasons of their own."""

    kind: str = "normal"
    wide: bool = False
    lost: float = 0.0
    missing: bool = False


NOISES: dict[str, Noise] = {
    "normal": Noise(),
    "normal, one arm 4x": Noise(wide=True),
    "lognormal": Noise("lognormal"),
    "lognormal, one arm 4x": Noise("lognormal", wide=True),
    "t, 3 df": Noise("t3"),
    "t, 3 df, one arm 4x": Noise("t3", wide=True),
    "normal, runs missing": Noise(missing=True),
    "one arm's worst 10% diverge": Noise(lost=0.10),
    "one arm's worst 38% diverge": Noise(lost=0.38),
}
KINDS = {"normal": normal, "lognormal": lognormal, "t3": t3}


@dataclass(frozen=True)
class Truth:
    """Of one curve, noise and spread: what holds of each pair. [a, b]: b is worse than a, by its mean or by rank."""

    means: Float[Array, " k"]
    worse: Bool[Array, "k k"]
    worse_by_rank: Bool[Array, "k k"]

    def beyond(self, margin: float) -> Bool[Array, "k k"]:
        return self.means[None, :] - self.means[:, None] > margin + 1e-12

    def within(self, margin: float) -> Bool[Array, "k k"]:
        return np.abs(self.means[None, :] - self.means[:, None]) < margin - 1e-12


def draw(
    curve: str, noise: str, sd: float, n: int, studies: int, rng: Rng
) -> tuple[Float[Array, "studies n k"], Bool[Array, "studies n k"]]:
    """Losses (NaN where a run gave none) and which runs diverged."""
    means, shape = np.array(CURVES[curve]) * MARGIN, NOISES[noise]
    k, make = len(means), KINDS[shape.kind]
    scatter = np.sqrt(1 - PAIRING) * make(rng, (studies, n, k))
    scatter[..., -1] *= WIDE if shape.wide else 1.0
    scatter += np.sqrt(PAIRING) * make(rng, (studies, n, 1))
    losses = means + sd * scatter
    diverged = np.zeros(losses.shape, dtype=bool)
    if shape.lost:
        diverged[..., -1] = scatter[..., -1] > stats.norm.isf(shape.lost)
    if shape.missing:
        losses[:, 0, 1] = losses[:, 1, 3] = losses[:, 0, 4] = np.nan
    return np.where(diverged, np.nan, losses), diverged


def truth_of(curve: str, noise: str, sd: float, rng: Rng) -> Truth:
    """By the means exactly; by rank (a diverged run is worst) from 100,000 drawn seeds."""
    means = np.array(CURVES[curve]) * MARGIN
    worse = means[None, :] > means[:, None]
    losses, diverged = draw(curve, noise, sd, 100_000, 1, rng)
    ranked = np.where(diverged[0], np.inf, losses[0])
    share = (ranked[:, None, :] > ranked[:, :, None]).mean(axis=0)
    return Truth(means, worse, share > share.T if NOISES[noise].lost else worse)
