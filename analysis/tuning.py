"""The same comparison at tuned learning rates: each arm at its own best, chosen on seeds that are not tested."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from analysis.findings import AnalysisError, Finding, caution, some
from analysis.load import FINISHED, require
from src.metrics import METRICS

LEARNING_RATE = "config.training.learning_rate"


@dataclass(frozen=True)
class Tuned:
    """`runs`: each arm at its chosen setting, tuning seeds left out; give `varying=(setting,)` to the verdict.

    `choice`: indexed by arm: chosen, mean (on the tuning seeds), seeds, at_edge (of the values tried), sensitivity
    (mean over the values tried of how much worse each is than the best).
    """

    setting: str
    runs: pd.DataFrame
    choice: pd.DataFrame
    findings: tuple[Finding, ...]


def tuned(
    runs: pd.DataFrame, factor: str, metric: str, tuning_seeds: Iterable[int], setting: str = LEARNING_RATE
) -> Tuned:
    """Chooses for each arm the value of `setting` with the best mean metric on the tuning seeds.

    A value counts only where all tuning seeds of the arm finished with a number. Raises AnalysisError where
    an arm has none, or where no seed is left to test on.
    """
    require(runs, (setting, factor, metric, "seed", "status"))
    tuning = sorted(set(tuning_seeds))
    held_out = runs[~runs["seed"].isin(tuning)]
    if held_out.empty or not tuning:
        raise AnalysisError(f"tuning seeds {some(list(map(str, tuning)))} leave no seed to choose or none to test on")
    finished = runs[runs["status"] == FINISHED]
    table = finished.groupby([factor, setting, "seed"])[metric].first().unstack("seed").reindex(columns=tuning)
    means = table.astype(float).mean(axis=1, skipna=False).unstack(setting).sort_index(axis=1)
    untried = [
        str(arm) for arm in runs[factor].dropna().unique() if arm not in means.index or means.loc[arm].isna().all()
    ]
    if untried:
        raise AnalysisError(
            f"{factor}={some(untried)} has no {setting} at which all tuning seeds ({some(list(map(str, tuning)))}) "
            "finished; nothing can be chosen for it"
        )
    choice = _choice(means, METRICS[metric].better == "lower", len(tuning))
    chosen = held_out[held_out[setting] == held_out[factor].map(choice["chosen"])]
    edge = [f"{arm} ({row.chosen:g})" for arm, row in choice.iterrows() if row["at_edge"]]
    found = (
        [caution("tuning", f"the best {_short(setting)} lies at the edge of those tried for {some(edge)}")]
        if edge
        else []
    )
    return Tuned(setting, chosen, choice, tuple(found))


def _choice(means: pd.DataFrame, lower: bool, seeds: int) -> pd.DataFrame:
    best = means.idxmin(axis=1) if lower else means.idxmax(axis=1)
    top = means.min(axis=1) if lower else means.max(axis=1)
    tried = means.apply(lambda row: list(row.dropna().index), axis=1)
    edges = [len(values) > 1 and chosen in (values[0], values[-1]) for values, chosen in zip(tried, best, strict=True)]
    gap = means.sub(top, axis=0).abs().mean(axis=1)
    return pd.DataFrame({"chosen": best, "mean": top, "seeds": seeds, "at_edge": edges, "sensitivity": gap})


def _short(setting: str) -> str:
    return setting.removeprefix("config.")
