"""Simulated studies in which no arm differs: how large the largest |mean| / error of all pairs becomes by chance.

They have the shape of the study in hand (seeds, arms, and which runs are missing) under each NOISE, and the critical
value is the one that holds under all of them. The stream is fixed, so a study of one shape always gets one value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray as Array

from analysis.spread import Guard, errors_of
from src.randomness import stream_seed

SAFETY = 1.25
"""By which the simulated chance is multiplied: a design level of 4% for the 5% that is promised, so that noises
between those simulated, and the simulation's own error, stay below it too."""

FLAG = 0.15
"""Share of alike normal studies in which each of the guard's two flags is raised."""

FACTORS = tuple(np.arange(1.0, 3.01, 0.1))
ALPHA = 0.05

RESAMPLES = 20_000
_FEWEST_RESAMPLES = 2_000
_WORK = 150_000_000
_MOST_SEEDS = 100
"""Above so many seeds the critical value no longer changes, and theirs is used."""
_CHUNK = 2_000_000

Rng = np.random.Generator


def normal(rng: Rng, size: tuple[int, ...]) -> Array:
    return rng.normal(size=size)


def lognormal(rng: Rng, size: tuple[int, ...]) -> Array:
    """Skewness 6.2; mean 0, standard deviation 1."""
    return (rng.lognormal(size=size) - np.exp(0.5)) / np.sqrt(np.exp(1) * (np.exp(1) - 1))


NOISES: dict[str, tuple[Callable[[Rng, tuple[int, ...]], Array], int]] = {
    "normal": (normal, 0),
    "normal, one arm 4x": (normal, 1),
    "normal, half of the arms 4x": (normal, 2),
    "lognormal, one arm 4x": (lognormal, 1),
}
"""Noise, and how many arms scatter WIDE times as much: none, one, or half of them (2)."""
WIDE = 4.0


@dataclass(frozen=True)
class Reference:
    """`largest` [noises R]: the largest |mean| / error of each simulated study, ascending."""

    largest: Float[Array, "noises R"]
    guard: Guard

    def p(self, t: Float[Array, "*any"]) -> Float[Array, "*any"]:
        """Chance that the largest of a study in which nothing differs exceeds t, under the worst of the noises."""
        resamples = self.largest.shape[1]
        below = np.min([np.searchsorted(row, t, side="right") for row in self.largest], axis=0)
        return np.minimum(SAFETY * (resamples - below + 1) / (resamples + 1), 1.0)

    def critical(self, alpha: float) -> float:
        """The smallest t whose p is at most alpha; infinite where the simulation cannot tell."""
        resamples = self.largest.shape[1]
        above = int(np.floor(alpha / SAFETY * (resamples + 1) + 1e-9)) - 1
        return float(self.largest[:, resamples - 1 - above].max()) if above >= 0 else np.inf


def reference_for(there: Bool[Array, "n k"], paired: bool, resamples: int | None = None) -> Reference | None:
    """The reference of a study with these runs; None where no two arms share two seeds."""
    there = there[:, comparable(there, paired)]
    there = there[there.any(axis=1)]
    if there.shape[1] < 2:
        return None
    counts = there.T.astype(int) @ there.astype(int) if paired else np.minimum.outer(there.sum(0), there.sum(0))
    smallest = int(counts[counts >= 2].min())
    if len(there) > _MOST_SEEDS:
        there = np.ones((min(smallest, _MOST_SEEDS), there.shape[1]), dtype=bool)
    n, k = there.shape
    cost = n * k * (k - 1) // 2
    runs = resamples or int(np.clip(_WORK // cost, _FEWEST_RESAMPLES, RESAMPLES))
    return _simulated(there.tobytes(), n, k, paired, runs)


def comparable(there: Bool[Array, "n k"], paired: bool) -> Bool[Array, " k"]:
    """The arms that have a partner: two shared seeds, or unpaired two runs each."""
    if not paired:
        return there.sum(axis=0) >= 2
    shared = there.T.astype(int) @ there.astype(int)
    np.fill_diagonal(shared, 0)
    return np.logical_or.reduce(shared >= 2, axis=1)


@lru_cache(maxsize=4096)
def _simulated(pattern: bytes, n: int, k: int, paired: bool, resamples: int) -> Reference:
    there = np.frombuffer(pattern, dtype=bool).reshape(n, k)
    rng = np.random.default_rng(stream_seed(0, "bootstrap", "intervals", n, k, int(paired)))
    drawn = [_Drawn.of(_studies(noise, there, paired, resamples, rng), paired) for noise in NOISES]
    return _least(drawn)


@dataclass(frozen=True)
class _Drawn:
    """Of each simulated study [R]: the largest |mean| / error, and what the guard looks at."""

    largest: Float[Array, " R"]
    skew: Float[Array, " R"]
    unevenness: Float[Array, " R"]

    @classmethod
    def of(cls, studies: Iterable[Array], paired: bool) -> _Drawn:
        parts = []
        for study in studies:
            found = errors_of(study, paired)
            with np.errstate(invalid="ignore"):
                largest = np.nanmax(np.abs(found.mean) / found.error, axis=1)
            parts.append((largest, found.skew, found.unevenness))
        return cls(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def guarded(self, guard: Guard) -> Float[Array, " R"]:
        acts = (self.skew > guard.skew) | (self.unevenness > guard.unevenness)
        return self.largest / np.where(acts, guard.factor, 1.0)


def _least(drawn: list[_Drawn]) -> Reference:
    """Thresholds from the alike normal studies, and the factor that makes their intervals shortest on average."""
    alike = drawn[0]
    skew, unevenness = (float(np.quantile(sample, 1 - FLAG)) for sample in (alike.skew, alike.unevenness))
    acts = ((alike.skew > skew) | (alike.unevenness > unevenness)).mean()
    best: tuple[float, Reference] | None = None
    for factor in FACTORS:
        guard = Guard(skew, unevenness, factor)
        found = Reference(np.stack([np.sort(noise.guarded(guard)) for noise in drawn]), guard)
        length = found.critical(ALPHA) * (1 + acts * (factor - 1))
        if best is None or length < best[0]:
            best = length, found
    assert best is not None
    return best[1]


def _studies(noise: str, there: Bool[Array, "n k"], paired: bool, resamples: int, rng: Rng) -> Iterator[Array]:
    """Studies of one noise, a few thousand at a time; the arms with the fewest runs scatter most."""
    n, k = there.shape
    make, wide = NOISES[noise]
    spread = np.ones(k)
    widest = np.argsort(there.sum(axis=0), kind="stable")[: 0 if wide == 0 else 1 if wide == 1 else max(1, k // 2)]
    spread[widest] = WIDE
    at_once = max(1, _CHUNK // (n * k * max(1, (k - 1) // 2)))
    for start in range(0, resamples, at_once):
        count = min(at_once, resamples - start)
        seeds = normal(rng, (count, n, 1)) * (1.0 if paired else 0.0)  # cancels, but not in what the guard looks at
        yield np.where(there, make(rng, (count, n, k)) * spread + seeds, np.nan)
