"""The answer as the margin runs over a range: what of it hangs on the margin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.rule.conclusion import Conclusion

_REACH = 1.25
_MOST = 60


@dataclass(frozen=True)
class Stretch:
    """Margins from `low` up to `high` (None: any larger one) that give one answer; `holds` marks the margin's own."""

    low: float
    high: float | None
    answer: str
    at: Any | None
    holds: bool


def sensitivity(concluded: Callable[[float], Conclusion], own: Conclusion) -> tuple[Stretch, ...]:
    """Every answer that some margin would give, in the order of margins.

    An answer can change only where the margin passes an interval's end, so one margin between each two ends is tried
    (of very many pairs, a spread of them).
    """
    ends = [abs(end) for pair in own.pairs for end in (pair.low, pair.high) if np.isfinite(end)]
    bounds = np.unique([end for end in ends if end > 0])
    if not len(bounds):
        return ()
    if len(bounds) > _MOST:
        bounds = np.unique(np.quantile(bounds, np.linspace(0, 1, _MOST), method="nearest"))
    edges = [0.0, *bounds.tolist()]
    tries = [(low + high) / 2 for low, high in zip(edges, [*edges[1:], edges[-1] * _REACH], strict=True)]
    found: list[Stretch] = []
    for low, high, value in zip(edges, [*edges[1:], None], tries, strict=True):
        said = concluded(value)
        holds = low <= own.margin and (high is None or own.margin < high)
        if found and (found[-1].answer, found[-1].at) == (said.answer, said.at):
            before = found.pop()
            found.append(Stretch(before.low, high, before.answer, before.at, before.holds or holds))
        else:
            found.append(Stretch(low, high, said.answer, said.at, holds))
    return tuple(found)
