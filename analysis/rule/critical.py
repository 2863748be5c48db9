"""The error of each difference between two arms, and the critical value that all pairs together need.

The error is the pair's own, no smaller than the median pair's, widened under suspicion (the guard). The critical value
comes from simulated studies in which no arm differs: how large the largest |mean| / error of all pairs becomes by
chance. They have the shape of the study in hand (seeds, arms, and which runs are missing) under each NOISE, and the
value is the one that holds under all of them. The stream is fixed, so a study of one shape always gets one value.

Any number of studies at once: values [s n k] (studies, seeds, arms), pairs m = k (k - 1) / 2; real and simulated
studies run the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array

from src.randomness import stream_seed

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


# Simulated studies in which no arm differs: how large the largest |mean| / error of all pairs becomes by chance.
SAFETY = 1.25
"""By which the simulated chance is multiplied: a design level of 4% for the 5% that is promised, so that noises
between those simulated, and the simulation's own error, stay below it too."""

FLAG = 0.15
"""Share of alike normal studies in which each of the guard's two flags is raised."""

FACTORS = tuple(np.arange(1.0, 3.01, 0.1))
ALPHA = 0.05

RESAMPLES = 20_000
_FEWEST_RESAMPLES = 2_000
_WORK = 60_000_000
_MOST_SEEDS = 60
"""Above so many seeds the critical value hardly falls: theirs is used (measured at 80, 200: METHODS.md)."""
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
