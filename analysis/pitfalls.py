"""Classroom mode: what a wrong method would have concluded from the same runs, beside what the right one does.

`python -m analysis.pitfalls exports/<name>` shows mistakes with seeds (one seed, the best of several, seeds not paired,
SD over n), with sentences (not significant so alike, one plateau, winner against loser) and with what is held alike
(one learning rate, equal time, failures dropped), for each experiment and where these runs can.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from scipy import stats

from analysis.compare import LEARNING_RATE
from analysis.findings import AnalysisError
from analysis.load import Export, load
from analysis.rule.answer import ALPHA
from analysis.rule.intervals import CONFIDENCE
from analysis.rule.sentences import difference
from analysis.stats import t_interval
from analysis.study import Study, study_of
from analysis.verdict import Verdict
from src.errors import UserError, fail
from src.metrics import METRICS


@dataclass(frozen=True)
class Pitfall:
    """`mistake` is what is done, `wrong` what follows from it, `right` what the runs really say.

    `misleads` tells whether the two differ on these runs; None where the runs cannot show it, and `wrong` says why.
    """

    name: str
    mistake: str
    wrong: str
    right: str
    misleads: bool | None

    @property
    def sign(self) -> str:
        return {True: "misleads here", False: "harmless here, by luck", None: "cannot be shown here"}[self.misleads]


def not_shown(name: str, mistake: str, why: str) -> Pitfall:
    return Pitfall(name, mistake, why, "", None)


def best_of(values: pd.Series, metric: str) -> Any:
    """The arm with the best value."""
    return values.idxmin() if METRICS[metric].better == "lower" else values.idxmax()


def said(verdict: Verdict) -> str:
    """The sentence of the engine, without its full stop."""
    return verdict.sentence.rstrip(".")


def one_seed(verdict: Verdict) -> Pitfall:
    """Every head count run once, and the best one named."""
    name, mistake = "One seed", "run every arm once and name the best"
    complete = verdict.cells.values.dropna()
    if len(complete) < 2 or complete.shape[1] < 2:
        return not_shown(name, mistake, "these runs share under two seeds")
    winners = [best_of(row, verdict.metric) for _, row in complete.iterrows()]
    counted = [f"{arm} ({count} of {len(winners)} seeds)" for arm, count in Counter(winners).most_common()]
    first = f"with seed {complete.index[0]} alone, {verdict.factor}={winners[0]} is the best"
    wrong = f"{first}; by the seed that happens to be chosen it is {', '.join(counted)}"
    return Pitfall(name, mistake, wrong, said(verdict), len(set(winners)) > 1)


def best_of_seeds(verdict: Verdict) -> Pitfall:
    """The best run of each arm instead of its mean: more seeds, better number."""
    name, mistake = "Best of several seeds", "report each arm's best run"
    values = verdict.cells.values
    if values.shape[1] < 2 or values.count().max() < 2:
        return not_shown(name, mistake, "no two arms have several seeds")
    lower = METRICS[verdict.metric].better == "lower"
    bests = values.min() if lower else values.max()
    chosen, by_mean = best_of(bests, verdict.metric), best_of(values.mean(), verdict.metric)
    flattery = float((bests - values.mean()).abs().mean())
    wrong = (
        f"{verdict.factor}={chosen} wins with {bests[chosen]:.4f}; every arm looks {flattery:.2g} better than its "
        "mean, the more so the more seeds it had"
    )
    return Pitfall(name, mistake, wrong, f"by the mean: {said(verdict)}", chosen != by_mean)


def sd_over_n(verdict: Verdict) -> Pitfall:
    """The standard error as SD / n, as some published templates have it, instead of SD / root n."""
    name, mistake = "SD over n", "take SD / n for the standard error, and 1.96 of them for an interval"
    pairs, differences = _differences(verdict)
    if not pairs:
        return not_shown(name, mistake, "no two arms share two seeds")
    n = np.isfinite(differences).sum(axis=0)
    mean, sd = np.nanmean(differences, axis=0), np.nanstd(differences, axis=0, ddof=1)
    wrong_half = 1.96 * sd / n
    low, high = t_interval(differences, CONFIDENCE)
    wrong_found, found = np.abs(mean) > wrong_half, (low > 0) | (high < 0)
    narrower = np.divide((high - low) / 2, wrong_half, out=np.ones_like(sd), where=wrong_half > 0)
    wrong = (
        f"{wrong_found.sum()} of {len(pairs)} differences leave out zero, with intervals "
        f"{np.median(narrower):.1f} times too narrow"
    )
    right = f"{found.sum()} of {len(pairs)} do, by paired t intervals; against the margin: {said(verdict)}"
    return Pitfall(name, mistake, wrong, right, bool((wrong_found != found).any()))


def not_paired(verdict: Verdict) -> Pitfall:
    """Seeds treated as if they were not shared: what a seed does to all arms alike counts as noise."""
    name, mistake = "Seeds not paired", "compare two groups of runs as if their seeds had nothing in common"
    pairs, differences = _differences(verdict)
    if not pairs:
        return not_shown(name, mistake, "no two arms share two seeds")
    values = verdict.cells.values
    unpaired = [_p(stats.ttest_ind(values[a].dropna(), values[b].dropna(), equal_var=False)) for a, b in pairs]
    paired = [_p(stats.ttest_1samp(column[np.isfinite(column)], 0)) for column in differences.T]
    found = sum(p <= ALPHA for p in paired)
    wrong = f"{sum(p <= ALPHA for p in unpaired)} of {len(pairs)} differences are seen (Welch's t, no correction)"
    right = f"{found} of {len(pairs)} are, by the same test on paired differences; over all together: {said(verdict)}"
    return Pitfall(name, mistake, wrong, right, sum(p <= ALPHA for p in unpaired) != found)


def _p(result: Any) -> float:
    return float(result.pvalue)


def _differences(verdict: Verdict) -> tuple[list[tuple[float, float]], np.ndarray]:
    """Each contrast with the reference that has two pairs or more, and its differences: [n, m]."""
    values = verdict.cells.values
    arms = [arm for arm in verdict.cells.arms if arm != verdict.reference]
    table = pd.DataFrame({arm: values[arm] - values[verdict.reference] for arm in arms}, index=values.index)
    usable = [arm for arm in arms if table[arm].nunique() >= 2]
    return [(verdict.reference, arm) for arm in usable], table[usable].to_numpy(dtype=float)


def shared_learning_rate(study: Study) -> Pitfall:
    """One learning rate for all arms, though each may need its own."""
    name, mistake = "One learning rate for all", "fix one learning rate and call the rest the effect of heads"
    if not study.tuned_verdicts:
        return not_shown(
            name, mistake, "these runs have one learning rate an arm; sweep training.learning_rate to see it"
        )
    at_rates = []
    for verdict in study.verdicts:
        rate = verdict.condition.get(LEARNING_RATE.removeprefix("config."))
        at_rates.append(f"at {rate:g}: {said(verdict)}")
    tuned = study.tuned_verdicts[0]
    right = f"each arm at its own best rate, chosen on other seeds: {said(tuned)}"
    differs = any(said(verdict) != said(tuned) for verdict in study.verdicts)
    return Pitfall(name, mistake, "; ".join(at_rates), right, differs)


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
    return Pitfall(name, mistake, wrong, f"at equal tokens: {said(verdict)}", chosen != right)


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


def not_significant_so_alike(verdict: Verdict) -> Pitfall:
    """Absence of evidence told as evidence of absence."""
    name, mistake = "Not significant, so the same", "call two arms alike because a test shows no difference"
    pairs = [pair for pair in verdict.pairs if pair.by == "mean"]
    if not pairs:
        return not_shown(name, mistake, "no two arms share two seeds")
    unseen = [pair for pair in pairs if pair.direction == "open"]
    alike = [pair for pair in unseen if pair.size == "within"]
    named = ", ".join(f"{pair.earlier} and {pair.later}" for pair in unseen) or "none"
    wrong = f"{len(unseen)} of {len(pairs)} pairs show no difference, so they are 'the same': {named}"
    right = f"{len(alike)} of them are shown to lie within the margin, the others are open: {said(verdict)}"
    return Pitfall(name, mistake, wrong, right, len(alike) < len(unseen))


def one_plateau_so_level(verdict: Verdict) -> Pitfall:
    """One pair within the margin, by itself, read as the whole curve's levelling off."""
    name, mistake = (
        "It levels off somewhere",
        "look at steps alone; stop at the first within the margin",
    )
    arms, values, margin = verdict.cells.arms, verdict.cells.values, verdict.margin.value
    steps = [(a, b) for a, b in pairwise(arms) if (values[b] - values[a]).notna().sum() >= 2]
    if not steps or margin == 0:
        return not_shown(name, mistake, "without a margin and a step nothing can be said to level off")
    ends = [t_interval((values[b] - values[a]).to_numpy()[:, None], 0.90) for a, b in steps]
    level = [step for step, (low, high) in zip(steps, ends, strict=True) if low[0] > -margin and high[0] < margin]
    if not level:
        return not_shown(name, mistake, "no step lies within the margin, even by itself")
    wrong = f"from {level[0][0]} to {level[0][1]} the 90% interval lies within the margin: 'it levels off'"
    settled = verdict.answer in ("helps_up_to", "no_difference")
    return Pitfall(name, mistake, wrong, f"all pairs together: {said(verdict)}", not settled)


def winner_picked_from_the_data(verdict: Verdict) -> Pitfall:
    """The best and the worst arm of these very runs, compared as if they had been named before."""
    name, mistake = "Winner against loser", "pick the best and the worst mean, then test them as if named beforehand"
    values = verdict.cells.values
    best = best_of(values.mean(), verdict.metric)
    worst = best_of(-values.mean(), verdict.metric)
    gap = (values[worst] - values[best]).dropna().to_numpy()
    pair = verdict.pair(best, worst)
    if best == worst or len(gap) < 2 or pair is None or pair.by != "mean":
        return not_shown(name, mistake, "no two arms share two seeds")
    low, high = t_interval(gap[:, None], CONFIDENCE)
    own = pair.beside(best)
    wrong = f"{worst} differs from {best} by {difference(float(gap.mean()), low[0], high[0], verdict.margin.value)}"
    right = f"with all pairs looked at: {difference(own.difference, own.low, own.high, verdict.margin.value)}"
    seen = bool(low[0] > 0 or high[0] < 0)
    return Pitfall(name, mistake, wrong, f"{right}; {said(verdict)}", seen and own.direction == "open")


def pitfalls_of(study: Study) -> dict[str, list[Pitfall]]:
    """Every demonstration, by experiment. Raises AnalysisError where nothing was judged."""
    if study.refusal is not None:
        raise AnalysisError(f"there is no right conclusion to set a wrong one against: {study.refusal}")
    return {
        "" if len(study.verdicts) == 1 else study.apart(verdict): [
            one_seed(verdict),
            best_of_seeds(verdict),
            sd_over_n(verdict),
            not_paired(verdict),
            not_significant_so_alike(verdict),
            one_plateau_so_level(verdict),
            winner_picked_from_the_data(verdict),
            shared_learning_rate(study),
            same_time(verdict, study.export),
            dropped_failures(verdict),
        ]
        for verdict in study.verdicts
    }


def lines(by_experiment: dict[str, list[Pitfall]], width: int = 100) -> Iterator[str]:
    """The demonstrations as text, experiment by experiment."""
    for experiment, pitfalls in by_experiment.items():
        if experiment:
            yield f"With {experiment}\n"
        yield from _lines(pitfalls, width)


def _lines(pitfalls: list[Pitfall], width: int) -> Iterator[str]:
    for number, pitfall in enumerate(pitfalls, start=1):
        yield f"{number}. {pitfall.name} ({pitfall.sign})"
        for word, text in (("mistake", pitfall.mistake), ("wrong", pitfall.wrong), ("right", pitfall.right)):
            if text:
                yield textwrap.fill(text, width, initial_indent=f"   {word:8}", subsequent_indent=" " * 11)
        yield ""


def main(
    export: Annotated[Path, typer.Argument(help="the folder of an export: exports/<name>")],
    metric: Annotated[str, typer.Option(help="what is compared")] = "val/loss",
    factor: Annotated[str | None, typer.Option(help="what varies; the sweep's own by default")] = None,
) -> None:
    """Shows what wrong methods would have concluded from these runs, each beside the right one."""
    try:
        study = study_of(load(export), metric, factor)
        shown = pitfalls_of(study)
    except UserError as error:
        fail(error)
    typer.echo(f"{study.export.sentence}\n")
    for line in lines(shown):
        typer.echo(line)


if __name__ == "__main__":
    typer.run(main)
