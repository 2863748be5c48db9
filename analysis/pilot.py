"""Before a sweep: what its planned seeds can show, when a pilot's spread is known."""

from __future__ import annotations

from pathlib import Path

from analysis.load import load
from analysis.planner import power_of
from analysis.study import study_of
from analysis.summary import pairing

_STEP = 2.0
_STUDIES = 1000


def power_from_pilot(folder: Path, seeds: int, arms: int, margin: float | None) -> str:
    """A sentence: how often so many seeds settle alike arms, and steps of two margins; with a warning out of reach.

    Raises AnalysisError where the folder is no export.
    """
    study = study_of(load(folder), margin=margin)
    verdict = study.verdicts[0] if study.verdicts else None
    shared = None if verdict is None else pairing(verdict)
    if verdict is None or shared is None or arms < 2 or seeds < 2:
        return f"not known: it takes two arms with shared seeds in the pilot {folder}, and two of both in the plan"
    value = verdict.margin.value
    centre, together = [0.0] * arms, max(shared.correlation, 0.0)
    alike = power_of(seeds, centre, shared.sd, together, value, studies=_STUDIES)
    spread = f"seeds scatter by {shared.sd:.2g} in {folder.name}, an interval is about +-{alike.half_width:.2g}"
    if value == 0:
        return f"{spread}; no margin is named, so only directions can be shown"
    steps = [-_STEP * value * arm for arm in range(arms)]
    falling = power_of(seeds, steps, shared.sd, together, value, studies=_STUDIES)
    said = (
        f"{spread}; with {seeds} seeds {arms} arms that are all alike are shown to be so in {alike.settled:.0%} of "
        f"studies, steps of {_STEP:g} margins are settled in {falling.settled:.0%}"
    )
    return said if alike.warning is None else f"{said}. Warning: {alike.warning}"
