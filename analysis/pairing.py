"""What sharing seeds gained: shown, not assumed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array

from analysis.findings import AnalysisError
from analysis.spread import pair_indices


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
