"""What a sentence says, pair by pair: the single statements that it is the conjunction of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool
from numpy import ndarray as Array

from analysis.answer import BEST, EVERY, NO_DIFFERENCE, UP_TO, WORSE, Judged

Square = Bool[Array, "s k k"]


@dataclass(frozen=True)
class Said:
    """[s, a, b]: the sentence says that b is worse than a; worse by more than the margin; that both are alike."""

    worse: Square
    beyond: Square
    within: Square


def said_of(judged: Judged) -> Said:
    """The claims of each study's sentence, of which the refuted or supported 'more is always better' is one."""
    shown, code, at = judged.shown, judged.code, judged.at
    s, k = shown.worse.shape[:2]
    worse, beyond, within = (np.zeros((s, k, k), dtype=bool) for _ in range(3))
    off = ~np.eye(k, dtype=bool)
    within[code == NO_DIFFERENCE] = off
    if k > 1:
        steps = np.arange(k - 1)
        for row in np.flatnonzero((code == EVERY) | judged.supported):
            worse[row, steps + 1, steps] = True
        worse[code == WORSE, 0, 1:] = True
    best, up_to = np.flatnonzero(code == BEST), np.flatnonzero(code == UP_TO)
    worse[best, at[best]] = off[at[best]]
    earlier = np.arange(k) < at[up_to][:, None]
    worse[up_to, at[up_to]] = earlier
    within[up_to, at[up_to]] = ~earlier & off[at[up_to]]
    named = np.concatenate([judged.named, judged.refuting[:, None]], axis=1)  # [s 3 2]
    for row, slot in np.argwhere(named[..., 0] >= 0):
        for a, b in (named[row, slot], named[row, slot][::-1]):
            if shown.worse[row, a, b]:
                worse[row, a, b] = True
                beyond[row, a, b] |= shown.beyond[row, a, b]
                within[row, a, b] |= shown.within[row, a, b]
    return Said(worse, beyond, within | within.transpose(0, 2, 1))
