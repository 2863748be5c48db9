"""Mistakes with what is held alike: learning rate, tokens, and who is counted."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.load import Export
from analysis.pitfalls.pitfall import Pitfall, best_of, best_with_interval, labels, not_shown
from analysis.report.answers import Answers
from analysis.tuning import LEARNING_RATE
from analysis.verdict import Verdict


def shared_learning_rate(answers: Answers) -> Pitfall:
    """One learning rate for all arms, though each may need its own."""
    name, mistake = "One learning rate for all", "fix one learning rate and call the rest the effect of heads"
    if not answers.tuned_verdicts:
        return not_shown(
            name, mistake, "these runs have one learning rate an arm; sweep training.learning_rate to see it"
        )
    said = []
    for verdict in answers.verdicts:
        rate = verdict.condition.get(LEARNING_RATE.removeprefix("config."))
        said.append(f"at {rate:g}: {labels(verdict)}")
    tuned = answers.tuned_verdicts[0]
    right = f"each arm at its own best rate, chosen on other seeds: {labels(tuned)}"
    differs = any(labels(verdict) != labels(tuned) for verdict in answers.verdicts)
    return Pitfall(name, mistake, "; ".join(said), right, differs)


def same_time(verdict: Verdict, export: Export) -> Pitfall:
    """Every run stopped after the same time: slower arms have seen fewer tokens, and look worse for it."""
    name, mistake = "Equal time, unequal tokens", "stop every run after the same time and compare losses"
    curves = _curves_by_time(verdict, export)
    if curves is None:
        return not_shown(name, mistake, "the steps of these runs do not say when they were evaluated, or only once")
    ends = curves.groupby("run_id")["elapsed"].max()
    budget = float(ends.min())  # when the fastest run was done
    seen = curves[curves["elapsed"] <= budget].sort_values("elapsed").groupby("run_id").last()
    if len(seen) < len(ends):
        return not_shown(name, mistake, "some run was not evaluated before the fastest one was done")
    table = verdict.cells.runs.set_index("run_id")[[verdict.factor]].join(seen)
    means = table.groupby(verdict.factor)["loss"].mean()
    steps = table.groupby(verdict.factor)["step"].mean()
    chosen, right = best_of(means, verdict.metric), best_of(verdict.arms["mean"], verdict.metric)
    wrong = (
        f"after {budget:.3g} s, {verdict.factor}={chosen} is the best; but the arms were then at step "
        f"{', '.join(f'{step:,.0f} ({arm})' for arm, step in steps.items())} on average"
    )
    return Pitfall(name, mistake, wrong, f"at equal tokens: {best_with_interval(verdict)}", chosen != right)


def dropped_failures(verdict: Verdict) -> Pitfall:
    """Means over what finished, and no word about the rest."""
    name, mistake = "Failures dropped", "average the runs that finished and say nothing of the others"
    left_out = verdict.coverage.left_out
    if left_out.empty:
        return not_shown(name, mistake, "every planned run finished with a number")
    means = verdict.arms["mean"]
    chosen = best_of(means, verdict.metric)
    wrong = f"{verdict.factor}={chosen} is the best with a mean of {means[chosen]:.4f}"
    lost = {arm: verdict.coverage.outcomes(arm) for arm in left_out["arm"].unique()}
    biased = [name for names in lost.values() for name in names]
    why = f"; missing because of their result: {', '.join(biased)}" if biased else ""
    return Pitfall(name, mistake, wrong, f"{verdict.coverage.sentence}{why}", bool(biased))


def _curves_by_time(verdict: Verdict, export: Export) -> pd.DataFrame | None:
    """run_id, step, elapsed (s since the run's first row) and loss of each evaluation; None where nobody knows."""
    steps = export.steps
    metric = "val/loss"
    if not {"time", "step", metric} <= set(steps.columns) or not verdict.metric.startswith(metric):
        return None
    own = steps[steps["run_id"].isin(verdict.cells.runs["run_id"])]
    elapsed = own["time"] - own.groupby("run_id")["time"].transform("min")
    table = own.assign(elapsed=elapsed, loss=own[metric])[["run_id", "step", "elapsed", "loss"]].dropna()
    table = table[np.isfinite(table["loss"].astype(float))]
    counted = table.groupby("run_id").size()
    return (
        table
        if len(counted) and counted.min() >= 2 and set(counted.index) == set(verdict.cells.runs["run_id"])
        else None
    )
