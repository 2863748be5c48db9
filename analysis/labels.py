"""The rule that turns paired differences into a label. Fixed before any data; its error rates: METHODS.md.

Orientation: a difference is a step from fewer to more heads, and positive means worse.

    HELPS         the difference lies below -margin: more heads are better by more than the margin
    HURTS         the difference lies above +margin
    PLATEAU       the 90% interval lies inside (-margin, margin)   (two one-sided tests at 5%)
    INCONCLUSIVE  none of these, or fewer pairs than MINIMUM_PAIRS

HELPS and HURTS need both of two family-wise tests at alpha: the t test against the margin with Holm's
adjustment, and the sign-flip test against zero with step-down max-T, which assumes no normal distribution.
A contrast with too few pairs for a label is not tested, so it burdens no other: it leaves the family (where
all have too few, they are adjusted together all the same, for the reader).
The margin turns the interval into a decision as the region of practical equivalence does in Kruschke 2018.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray as Array

from analysis.stats import (
    Differences,
    PerContrast,
    Signs,
    beyond_margin_p,
    family_p,
    holm,
    moments,
    sign_flip_p,
    t_interval,
)

HELPS, HURTS, PLATEAU, INCONCLUSIVE = "HELPS", "HURTS", "PLATEAU", "INCONCLUSIVE"
LABELS = (HELPS, HURTS, PLATEAU, INCONCLUSIVE)

ALPHA = 0.05
CONFIDENCE = 0.95
PLATEAU_CONFIDENCE = 0.90
MINIMUM_PAIRS = 6
"""Fewest pairs whose sign flips can reach p <= 0.05 (2/64); also the fewest whose coverage was measured."""


@dataclass(frozen=True)
class Decision:
    """One number or label a contrast; shapes [*studies m]."""

    pairs: PerContrast
    mean: PerContrast
    sd: PerContrast
    low: PerContrast
    high: PerContrast
    low_90: PerContrast
    high_90: PerContrast
    p: PerContrast
    p_holm: PerContrast
    p_family: PerContrast
    p_beyond: PerContrast
    label: Array

    @property
    def differs(self) -> Bool[Array, "*studies m"]:
        """A difference from zero is shown, of whatever size."""
        return (self.p_family <= ALPHA) & ((self.low > 0) | (self.high < 0)) & (self.pairs >= MINIMUM_PAIRS)


def decide(
    differences: Differences, margin: Float[Array, "*studies"] | float, signs: Signs, alpha: float = ALPHA
) -> Decision:
    """Judges every contrast of every study; `differences` positive where more heads are worse."""
    pairs, mean, sd = moments(differences)
    low, high = t_interval(differences, CONFIDENCE)
    low_90, high_90 = t_interval(differences, PLATEAU_CONFIDENCE)
    enough = pairs >= MINIMUM_PAIRS
    tested = np.where(enough.any(axis=-1, keepdims=True), enough, True)
    p = sign_flip_p(differences, signs)
    p_family = family_p(np.where(tested[..., None, :], differences, np.nan), signs)
    p_beyond = holm(beyond_margin_p(differences, margin), tested)
    limit = np.asarray(margin)[..., None]
    beyond = enough & (p_beyond <= alpha) & (p_family <= alpha)
    inside = enough & (low_90 > -limit) & (high_90 < limit)
    label = np.select([beyond & (mean < 0), beyond & (mean > 0), inside], [HELPS, HURTS, PLATEAU], INCONCLUSIVE)
    return Decision(pairs, mean, sd, low, high, low_90, high_90, p, holm(p, tested), p_family, p_beyond, label)
